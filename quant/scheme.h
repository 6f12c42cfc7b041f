/* quant/scheme.h — what a quantization scheme is, for authors of schemes.
 *
 * A scheme is a constant in a file of its own, with a constructor that returns a qg_quant pointing to it.  The
 * library keeps no list of schemes (cli/config/schemes.c does, for the command line), so a scheme of yours
 * is equal to a built-in one: see tests/quant/test_user_scheme.c.
 */
#ifndef QG_SCHEME_H
#define QG_SCHEME_H

#include "core/io/keys.h"
#include "quant/form.h"
#include "quant/quant.h"

enum { QG_MAX_LEARNED = 4, QG_UNSCALED = -1 };

/* One thing that a scheme trains (a scale, a range) or tracks (an observed range, a count). */
typedef struct qg_learned {
    const char *name;           /* "wp": the parameter is then "conv1.weight.wp"; NULL ends the list */
    bool        per_channel;    /* one per channel where the quantizer is per_channel; else one */
    bool        tracked;        /* no gradient: the scheme updates it itself in QG_TRAIN */
    bool        quiet;          /* internal bookkeeping: saved in files, left out of summaries */
    float       least;          /* smallest legal value: an update that goes below is moved back to it; 0: none */
    float       low, high;      /* range in healthy training: a trainer warns about values outside; both 0: no
                                   limits.  A value of 0 is not known yet */
} qg_learned;

/* The windows that a product moves over its input x; dense has a single one, as large as x. */
typedef struct qg_windows {
    int kernel_h, kernel_w, stride, pad_h, pad_w;
} qg_windows;

/* What q.per_channel may say. */
typedef enum qg_granularity { QG_TENSOR_SCALE, QG_CHANNEL_SCALE, QG_EITHER_SCALE } qg_granularity;

struct qg_scheme {
    const char       *name;     /* "twn": the word of the command line, in every message and summary */
    const char       *variant;  /* which of several schemes of this name, as an option says it:
                                   "range=observed"; NULL: there is one */
    const char       *about;    /* its values in a few words: "{-a, 0, +a}, one a per tensor" */
    const char       *explain;  /* formula, surrogate, paper, deviations: plain text */

    /* Its arguments: names, ranges, defaults.  Those called bits, per-channel, surrogate and surrogate-arg
     * are the fields of qg_quant; the others are arg[0], arg[1], .. in order.  NULL: arg is not checked. */
    const qg_key     *keys;
    const qg_key     *weight_keys;  /* as a weight, where defaults or ranges differ; the same keys.  NULL: keys */
    int               bits;     /* of a code, where bits is not a key */
    qg_quant        (*complete)(qg_quant q);    /* what follows from the arguments: which of several schemes of
                                                   this name, other bits.  NULL: nothing */

    const qg_learned *learned;  /* ends with a NULL name; NULL: nothing */
    unsigned          roles;    /* what it may quantize: qg_role, or-ed */
    bool              rectifies;  /* as an input it is its own nonlinearity: takes the place of relu */
    float             clip;     /* keep latent weights in [-clip, clip] after each step; 0: free */
    bool              centred;  /* and before that take off their mean over the input channels */
    bool              flips;    /* as a weight it has no latent one: qg_param.flips */
    qg_granularity    granularity;  /* false, true, or either */
    int               scales;   /* floats that make values of packed codes, per tensor or, if
                                   q.per_channel, per channel.  0: one; QG_UNSCALED: codes are values */

    /* The scheme's constants, once q.role is known: QG_EARG, naming the culprit, if one is illegal.
     * NULL: every value will do. */
    qg_status (*check)(qg_quant q);

    /* Sets the initial values of what is learned from the initial weights x, which it may change.  NULL: zeros.
     * An activation has no values yet: x.data is then NULL, and the scheme starts from its first batch. */
    void    (*start)(qg_quant q, qg_tensor x, float *const *learned);

    /* Learning rate of a latent weight, relative to the net's, and weight decay of what is learned.  NULL or
     * 0: the net's. */
    float   (*lr_scale)(qg_quant q, double fan_in, double fan_out);
    float   (*decay)(qg_quant q);

    /* Steps after which tracked values stay as they are; 0 or NULL: never. */
    uint64_t (*freeze_after)(qg_quant q);

    /* Whether the scheme must see all values of this step before it quantizes them, to track a range or because it
     * has seen nothing yet.  observe then reads x.  It is called in QG_TRAIN only, even while the quantizer
     * waits.  NULL: never. */
    bool    (*observes)(qg_quant q, const qg_tape *t, qg_var *const *learned);
    void    (*observe)(qg_quant q, qg_tensor x, float *const *learned);

    /* --- with a form (quant/form.h) --- */
    const qg_form *form;
    qg_op          ops[2];      /* QG_FORM_OPS("twn"), or where activation is set QG_ACTIVATION_OP("pact") */

    /* The gradient of x unless the quantizer has a surrogate: the slope of the form, or that of a surrogate,
     * or where both are unset dx = dy. */
    bool           own_slope;
    qg_surrogate (*own)(qg_quant q);

    /* Of the span x; learned[i] is the value for it of entry i.  Where activation is set, x has no numbers. */
    qg_constants (*constants)(qg_quant q, qg_span x, const float *learned);

    /* Whether the learned values can be used yet; learned[i] are the values of entry i.  NULL: always. */
    bool         (*ready)(qg_quant q, const float *const *learned);

    /* A gradient of x other than dy s'(x): how it is mixed in a span.  sum is that of the form if
     * mixes_sums, else 0.  NULL: none. */
    qg_mix       (*mix)(qg_quant q, qg_span x, const qg_constants *k, const double *sum);
    bool           mixes_sums;

    /* Adds a further term to dx of a span of adjacent numbers, if the surrogate is the scheme's own. */
    void         (*adds)(qg_quant q, qg_span x, const qg_constants *k, const float *dy, float *dx);

    /* --- with or without a form: these replace what the form gives --- */

    /* Records the op. */
    qg_var *(*apply)(qg_tape *t, qg_quant q, qg_var *x, qg_var *const *learned);

    /* The same as an elementwise function, which qg_norm can fuse; NULL: the scheme has none.  It must not
     * decrease anywhere and must compute exactly what apply does (qg_record_activation turns it into apply).
     * Returns {0} where apply would fail.  Not used per channel, nor in a step that observes. */
    qg_activation (*activation)(qg_quant q, qg_var *const *learned);

    /* Of an input: records the op that scales the result y of its product, to which no bias has been added yet.
     * x is the input before apply, so the quantizer is not fused.  NULL: nothing to scale. */
    qg_var *(*scale_output)(qg_tape *t, qg_quant q, qg_var *x, qg_windows windows, qg_var *y);

    /* Integer codes and scales of what apply would give.  NULL: not few-valued. */
    qg_status (*encode)(qg_quant q, qg_tensor x, const float *const *learned, qg_codes *out);
};

/* Shape of learned entry l for a quantizer on x: [1,1,1,1], or [1,1,1,channels] (x.n for a weight,
 * x.c for an activation). */
qg_shape qg_learned_shape(qg_quant q, const qg_learned *l, qg_shape x, qg_role role);
int      qg_learned_count(qg_quant q);

/* The scheme's constants, per_channel and the surrogate are legal, and so is q.role if it is set.
 * QG_EARG. */
QG_MUST_CHECK qg_status qg_quant_check(qg_quant q);

/* --- arguments ------------------------------------------------------------------------------- */

#define QG_PER_CHANNEL_KEY(of) { .name = "per-channel", .words = "no|yes", .about = of }
#define QG_BITS_KEY(own, least, most) \
    .name = "bits", .fallback = own, .min = least, .max = most, .is = QG_KEY_WHOLE | QG_KEY_SHOWN

/* Both keys of the surrogate.  own: its place in the words; QG_OWN_SURROGATE_KEYS: in none. */
#define QG_SURROGATE_WORDS "identity|clip|approx-sign|swish|tanh|annealed-tanh"
enum { QG_SURROGATE_IDENTITY, QG_SURROGATE_CLIP };
#define QG_SURROGATE_ABOUT .about = "slope used in the backward pass"
#define QG_SURROGATE_KEYS(own) \
    { .name = "surrogate", .fallback = own, .words = QG_SURROGATE_WORDS, QG_SURROGATE_ABOUT }, QG_SURROGATE_ARG_KEY
#define QG_OWN_SURROGATE_KEYS \
    { .name = "surrogate", .words = "own|" QG_SURROGATE_WORDS, QG_SURROGATE_ABOUT }, QG_SURROGATE_ARG_KEY
#define QG_SURROGATE_ARG_KEY                                                                         \
    { .name = "surrogate-arg", .min = 0.001, .max = 1000, .when = "surrogate=clip|swish|tanh",       \
      .about = "bound of clip, beta of swish, temperature of tanh" }

/* NULL where a scheme has none. */
const qg_key *qg_scheme_keys(const qg_scheme *scheme, qg_role role);

/* For constructors: q with each argument that is 0 at its default (where 0 is not a value of its own), and
 * what follows from them.  q.scheme is any of the schemes of its name. */
qg_quant  qg_quant_defaults(qg_quant q);

/* The quantizer that "threshold=0.6,per-channel=yes" describes; text NULL: all defaults.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status qg_scheme_parse(const qg_scheme *scheme, qg_role role, const char *text, qg_quant *out);

/* "twn:threshold=0.6", which parses to q; without a surrogate that has no name. */
void      qg_quant_print(qg_quant q, char *text, size_t bytes);

/* In the order of the keys. */
void      qg_quant_values(qg_quant q, double value[QG_MAX_KEYS]);
QG_MUST_CHECK
qg_status qg_quant_check_keys(qg_quant q);

/* ---------------------------------------------------------------------------------------------- */

const char *qg_role_name(qg_role role);         /* "weight", "input", "gradient" */
qg_role     qg_quant_role(qg_quant q);          /* q.role, or if nothing has set it the scheme's own */

/* "fake_quant:range=observed", as summaries and the command line have it, into text; "float" of NULL.
 * Returns text. */
enum { QG_SPELLING_BYTES = 64 };
const char *qg_scheme_spelling(const qg_scheme *scheme, char *text, size_t bytes);

/* q can be part of a qg_norm: in some steps, if it observes (qg_quant_observes). */
bool     qg_quant_fuses(qg_quant q);
bool     qg_quant_observes(qg_quant q, const qg_tape *t, qg_var *const *learned);

/* The tape's step is before q.after: the quantizer still passes x on (through relu, if it rectifies). */
bool     qg_quant_waits(qg_quant q, const qg_tape *t);

/* What replaces a quantizer that cannot quantize yet. */
qg_var  *qg_quant_pass(qg_tape *t, qg_quant q, qg_var *x);      /* relu, if it rectifies; else x */

/* Sets a trained value that the optimizer moved out of its legal range.  Frozen values, and all values in QG_EVAL,
 * keep what is stored and are only used as if they had been set. */
void     qg_confine(qg_var *v, size_t i, float legal);

/* Integer codes and scales of what q gives for x; learned as in qg_scheme.start.  QG_EARG, QG_ESTATE: the
 * scheme cannot say.  Only where qg_has_codes. */
bool                    qg_has_codes(qg_quant q);
QG_MUST_CHECK qg_status qg_encode(qg_quant q, qg_tensor x, const float *const *learned, qg_codes *out);

/* --- forms ---------------------------------------------------------------------------------- */

#define QG_FORM_OPS(text)                                                      \
    { { .name = text, .backward = qg_form_backward },                          \
      { .name = text, .backward = qg_form_backward, .straight_through = true } }
#define QG_ACTIVATION_OP(text) { { .name = text, .backward = qg_activation_op_backward, .assigns = true } }

enum { QG_FLOAT_BITS = 32 };    /* no rounding */

void          qg_form_backward(qg_tape *t, qg_var *y);
qg_activation qg_form_activation(qg_quant q, qg_var *const *learned);
qg_var       *qg_form_apply(qg_tape *t, qg_quant q, qg_var *x, qg_var *const *learned);
qg_status     qg_form_encode(qg_quant q, qg_tensor x, const float *const *learned, qg_codes *out);

/* --- parts most schemes share --------------------------------------------------------------- */

/* Records a quantizer whose backward is the surrogate s, {0} being the identity, and nothing else;
 * the caller then fills y->data.  straight is used when s is the identity and sets
 * .straight_through, sloped otherwise; both have qg_surrogate_backward. */
qg_var *qg_record_surrogate(qg_tape *t, const qg_op *straight, const qg_op *sloped, qg_var *x,
                            qg_surrogate s);
void    qg_surrogate_backward(qg_tape *t, qg_var *y);

/* What DoReFa's three share (internal). */
extern const char qg__dorefa_explain[];

/* own: clip at 1. */
qg_surrogate qg_clip_at_1(qg_quant q);

/* constants of +1 and -1, and of +mean|x| and -mean|x|. */
qg_constants qg_unit_signs(qg_quant q, qg_span x, const float *learned);
qg_constants qg_mean_signs(qg_quant q, qg_span x, const float *learned);

/* Records f as an op of its own; op is { name, qg_activation_op_backward, .assigns = true }.  Blocks
 * are fixed, so sums do not depend on threads. */
qg_var *qg_record_activation(qg_tape *t, const qg_op *op, qg_var *x, qg_activation f);
void    qg_activation_op_backward(qg_tape *t, qg_var *y);

/* scale and code of what apply gave: y[i] = scale code[i] up to rounding; scale 0: all codes 0. */
void    qg_codes_of(size_t n, const float *y, float scale, int32_t *code);

/* The largest |w| becomes 1: initial weights uniform in +-s become uniform in [-1, 1]. */
void    qg_stretch_to_unit(qg_tensor w);

#endif
