/* quant/scheme.h — the interface for authors of quantization schemes.
 *
 * A scheme is a constant, with a constructor that returns a qg_quant pointing to it.  Only qg_quant_parse, which finds
 * schemes by name, has a list of them, so a scheme in your own program has the same rights as a built-in one.
 * tests/quant/test_user_scheme.c is an example.
 */
#ifndef QG_SCHEME_H
#define QG_SCHEME_H

#include "core/io/keys.h"
#include "quant/form.h"
#include "quant/quant.h"

enum { QG_MAX_LEARNED = 4, QG_UNSCALED = -1 };

/* A value that a scheme trains (a scale, a range) or tracks (an observed range, a count). */
typedef struct qg_learned {
    const char *name;           /* "wp": the parameter is then "conv1.weight.wp"; NULL ends the list */
    bool        per_channel;    /* one value per channel if the quantizer is per_channel; else one */
    bool        tracked;        /* no gradient: the scheme updates it itself in QG_TRAIN */
    bool        quiet;          /* internal bookkeeping: saved in files, omitted from summaries */
    float       least;          /* smallest legal value, to which each step raises a smaller one, in averages as well,
                                   but not 0, which counts as unknown; 0: none */
    float       low, high;      /* normal range: the trainer warns about values outside; both 0: no limits.  A
                                   value of 0 counts as unknown */
    const char *remedy;         /* what helps when the trainer warns, a clause.  NULL: a lower learning rate */
} qg_learned;

/* Where the two ends of a uniform scheme come from. */
typedef struct qg_range {
    qg_range_kind kind;
    bool          with_zero;    /* min <= 0 <= max, because 0 must be a code; of a learned range each step restores
                                   it, in averages as well.  A range narrower than 2^-30 becomes empty, min = max = 0;
                                   a learned one is widened to 2^-30 when it is used, and its gradient can open it
                                   again.  Fixed ranges are used as given */
    bool          symmetric;    /* QG_RANGE_CURRENT: -m .. m, m = max|x|; else min x .. max x */
    bool          given;        /* min and max are: the ends of a fixed range, or the initial ones of a learned range */
    float         min, max;
    float         decay;        /* of the moving averages */
    double        percentile;
    uint64_t      freeze_after; /* steps after which an observed range is fixed; 0: never */
} qg_range;

/* The windows of a product over its input x; dense has a single window, as large as x. */
typedef struct qg_windows {
    int kernel_h, kernel_w, stride, pad_h, pad_w;
} qg_windows;

/* What a surrogate is evaluated at (qg_scheme.surrogate). */
typedef struct qg_point {
    qg_shape      shape;
    const double *x;                            /* the tensor, [n][h][w][c] */
    double        learned[QG_MAX_LEARNED];      /* the values for the channel of one of its numbers */
    size_t        numbers;                      /* as in qg_binding; 0: those of shape */
} qg_point;

/* The gradient of a product as codes (qg_scheme.code_gradient). */
typedef struct qg_gradient_coder {
    qg_quant      q;
    const qg_var *y;                            /* the product, or a view of it */
    uint64_t      key;                          /* of the noise of this product in this step: qg_tape_key */
    float         range;                        /* what measure_gradient found in the whole batch */
} qg_gradient_coder;

/* The legal values of q.per_channel: false, true, or either. */
typedef enum qg_granularity { QG_TENSOR_SCALE, QG_CHANNEL_SCALE, QG_EITHER_SCALE } qg_granularity;

struct qg_scheme {
    const char       *name;     /* "twn": used on the command line and in messages and summaries */
    const char       *variant;  /* the option that tells apart several schemes of this name, "range=observed"; NULL
                                   if there is only one */
    const char       *about;    /* the quantized values in a few words: "{-a, 0, +a}, one a per tensor" */
    const char       *explain;  /* formula, surrogate, paper, deviations: plain text */

    /* The names, ranges and defaults of the arguments, at most QG_MAX_KEYS.  The keys as, bits, per-channel,
     * surrogate and surrogate-arg are fields of qg_quant; the others, at most eight, are arg[0], arg[1], ..
     * in order.  NULL: arg is not checked. */
    const qg_key     *keys;
    const qg_key     *weight_keys;  /* the same keys with the defaults or ranges for weights.  NULL: keys */
    const char       *paper;    /* what as=paper stands for: the arguments whose defaults differ from the rule of the
                                   source, "start=one,gradient=sum".  NULL: none */
    const char       *before;   /* arguments that version 1 of the defaults had, if they are not those of paper */
    int               bits;     /* per code, if bits is not a key */
    qg_quant        (*complete)(qg_quant q);    /* sets what follows from the arguments: bits, or one of several
                                                   schemes of this name.  It must be idempotent, since qg_bind may
                                                   call it again.  NULL: nothing */

    const qg_learned *learned;  /* at most QG_MAX_LEARNED, and a NULL name; NULL: nothing */
    unsigned          roles;    /* the tensors it may quantize: qg_role, or-ed */
    bool              rectifies;  /* for inputs it replaces relu */
    bool              measures_weights;     /* the constants of a weight come from its values, so activation is only for
                                               inputs; ops[1] is the op for weights */
    bool              float_ends;   /* models keep their first and last layer in float unless told otherwise: as the source
                                       does, or since sums of unscaled weights need a batch norm after the last layer */
    float             clip;     /* clip latent weights to [-clip, clip] after each step; 0: not clipped */
    bool              centred;  /* before that, subtract their mean over the input channels */
    bool              flips;    /* its weights have no latent values: qg_param.flips */
    qg_granularity    granularity;
    int               scales;   /* floats that turn packed codes into values, per tensor or, if q.per_channel,
                                   per channel.  0: one; QG_UNSCALED: codes are values */

    /* Checks the arguments once q.role is known: QG_EARG with a message that names the illegal one.
     * NULL: all are legal. */
    qg_status (*check)(qg_quant q);

    /* Why these arguments do not train from small initial weights, and what does, for a notice at the start of a training.  NULL,
     * or gives NULL: they train. */
    const char *(*advice)(qg_quant q);

    /* Sets the initial learned values from the initial weights x, which it may change.  NULL: zeros.  For an
     * activation, x.data is NULL because there are no values yet; the scheme starts from its first batch. */
    void    (*start)(qg_quant q, qg_tensor x, float *const *learned);

    /* Learning rate of a latent weight, relative to the net's, and weight decay of the learned values.  NULL or
     * 0: those of the net. */
    float   (*lr_scale)(qg_quant q, double fan_in, double fan_out);
    float   (*decay)(qg_quant q);
    float   (*scale_lr)(qg_quant q);    /* learning rate of the learned values, relative to the net's; NULL or 0: 1 */

    /* Steps after which tracked values no longer change; 0 or NULL: never. */
    uint64_t (*freeze_after)(qg_quant q);

    /* Whether the scheme must read all values of this step before it quantizes them, because it tracks a range or
     * has seen no values yet.  observe then reads x.  It may be called in any mode, also before step q.after;
     * observe only in QG_TRAIN.  NULL: never. */
    bool    (*observes)(qg_quant q, const qg_tape *t, qg_var *const *learned);
    void    (*observe)(qg_quant q, qg_tensor x, float *const *learned);

    /* The surrogate s of number i: the function of which the gradients of x and of the learned values are the slopes.
     * `qgrad gradcheck` compares the gradients at `at` with differences of s(to), where to is near at.  What the
     * backward pass takes as constant, such as a threshold, a scale or a rounding error, is computed from at, all else
     * from to.  For x it is not used if q.surrogate is set, unless the scheme has mix.
     * NULL: that of x is q.surrogate, own, or the identity if a form without own_slope says so, and the learned values
     * have none.  A gradient without a surrogate is not checked. */
    double  (*surrogate)(qg_quant q, size_t i, const qg_point *at, const qg_point *to);

    /* Where the ends come from.  constants then receives them as learned[0] and learned[1]: those of the span, as given, or as
     * learned and made legal.  With .learned = qg_learned_range or qg_tracked_range, start, observes, observe, ready and
     * freeze_after are those of the range.  NULL: the scheme has no range. */
    qg_range     (*range)(qg_quant q);

    /* --- with a form (quant/form.h) --- */

    /* Unless apply is set, the entries of learned with a gradient come first, at most QG_FORM_SUMS of them and
     * for inputs none together with mix, and a scheme with activation has one for values per channel in ops[1],
     * or is not per channel. */
    const qg_form *form;
    qg_op          ops[2];      /* QG_FORM_OPS("twn"), or where activation is set QG_ACTIVATION_OP("pact") */

    /* The gradient of x if q.surrogate is not set: that of the surrogate own, or if own is NULL or gives {0} and own_slope
     * is set the slope of the form; else dx = dy. */
    bool           own_slope;
    qg_surrogate (*own)(qg_quant q);

    /* Required.  The constants of the span x; learned[i] is the value of entry i for this span.  If activation
     * is set, x is empty.  constants and mix must be pure: several threads call them at once. */
    qg_constants (*constants)(qg_quant q, qg_span x, const float *learned);

    /* Whether the constants of a span can quantize it: QG_EARG with a message that names what they were computed from.
     * NULL: always. */
    qg_status    (*check_constants)(qg_quant q, const qg_constants *k);

    /* Whether the learned values are initialised; learned[i] are the values of entry i.  NULL: always. */
    bool         (*ready)(qg_quant q, const float *const *learned);

    /* The gradient of a span, if it is not dy s'(x).  sum holds the sums of the form if mixes_sums, else 0, and q the
     * surrogate at the step.  NULL: dy s'(x). */
    qg_mix       (*mix)(qg_quant q, qg_span x, const qg_constants *k, const double *sum);
    bool           mixes_sums;

    /* Adds another term to dx of a contiguous span; called only if q.surrogate is not set. */
    void         (*adds)(qg_quant q, qg_span x, const qg_constants *k, const float *dy, float *dx);

    /* --- with or without a form: these override what the form provides --- */

    /* Records the op.  Its surrogate, if set, is qg_surrogate_now(t, b->q). */
    qg_var *(*apply)(qg_tape *t, const qg_binding *b, qg_var *x, qg_var *const *learned);

    /* The quantizer as an elementwise function, which qg_norm_fused can fuse; NULL: the scheme has none.  It must be
     * nondecreasing and compute exactly what apply computes; without apply it is recorded as ops[0].  It returns {0} if it
     * cannot quantize, with a message.  Not used per channel, nor in a step that observes. */
    qg_activation (*activation)(const qg_tape *t, const qg_binding *b, qg_var *const *learned);

    /* For inputs: records the op that scales the result y of the product, before a bias is added.  x is the input
     * before apply, so the quantizer is not fused.  NULL: no scaling. */
    qg_var *(*scale_output)(qg_tape *t, qg_quant q, qg_var *x, qg_windows windows, qg_var *y);

    /* Which integers codes may be, as far as the arguments say: of a range that contains 0 at a place not yet known, only
     * step and count, and of such ranges per channel all that any channel may have.  NULL: those of the form. */
    qg_code_set (*codes)(qg_quant q);

    /* Integer codes and scales of the result of apply; out->set is that of codes already.  Every code is one
     * of this set, and those of inputs must not decrease from -FLT_MAX to FLT_MAX: a net that leaves the
     * library knows only where the next code begins.  Exporting checks both, though not at every float.  NULL:
     * those of the form; without a form the scheme has no codes. */
    qg_status (*encode)(qg_quant q, qg_tensor x, const float *const *learned, qg_codes *out);

    /* For gradients: what apply makes of y->grad, as bytes and a scale.  code_gradient writes the codes of an image of y, each
     * minus the lowest of codes(q), and returns their scale; it is pure: several threads call it at once.  Before that,
     * measure_gradient, if it is set, reads all of y->grad.  false: the step has failed.  NULL: the scheme has no such codes. */
    bool  (*measure_gradient)(qg_tape *t, qg_gradient_coder *c);
    float (*code_gradient)(const qg_gradient_coder *c, int image, uint8_t *codes);
};

/* The library's schemes, NULL at the end.  Only qg_quant_parse reads the list. */
extern const qg_scheme *const qg_schemes[];

/* Shape of learned entry l for a quantizer on x: [1,1,1,1], or [1,1,1,channels] (x.n for a weight,
 * x.c for an activation). */
qg_shape qg_learned_shape(qg_quant q, const qg_learned *l, qg_shape x, qg_role role);
int      qg_learned_count(qg_quant q);

/* --- arguments ------------------------------------------------------------------------------- */

/* The first key of every scheme of the library. */
#define QG_AS_KEY { .name = "as", .words = "default|paper", .about = "paper: the rule of the source" }

#define QG_PER_CHANNEL_KEY(of) { .name = "per-channel", .words = "no|yes", .about = of }
#define QG_BITS_KEY(own, least, most) \
    .name = "bits", .fallback = own, .min = least, .max = most, .is = QG_KEY_WHOLE | QG_KEY_SHOWN

/* Both keys of the surrogate.  own: the index of the default in the words.  QG_OWN_SURROGATE_KEYS is for schemes
 * whose own surrogate is not one of the words. */
#define QG_SURROGATE_WORDS "identity|clip|approx-sign|swish|tanh|annealed-tanh"
enum { QG_SURROGATE_IDENTITY, QG_SURROGATE_CLIP, QG_SURROGATE_ANNEALED_TANH = 5 };
#define QG_SURROGATE_ABOUT .about = "slope used in the backward pass"
#define QG_SURROGATE_KEYS(own) \
    { .name = "surrogate", .fallback = own, .words = QG_SURROGATE_WORDS, QG_SURROGATE_ABOUT }, QG_SURROGATE_ARG_KEY
#define QG_OWN_SURROGATE_KEYS \
    { .name = "surrogate", .words = "own|" QG_SURROGATE_WORDS, QG_SURROGATE_ABOUT }, QG_SURROGATE_ARG_KEY
#define QG_SURROGATE_ARG_KEY                                                                         \
    { .name = "surrogate-arg", .min = 0.001, .max = 1000, .when = "surrogate=clip|swish|tanh",       \
      .about = "bound of clip, beta of swish, temperature of tanh" }

/* The keys of a scheme in a role; NULL if it has none. */
const qg_key *qg_scheme_keys(const qg_scheme *scheme, qg_role role);

/* For constructors: q with defaults in place of arguments that are 0 (unless 0 is a legal value), and with what
 * follows from the arguments.  q.scheme may be any scheme of its name. */
qg_quant  qg_quant_defaults(qg_quant q);

/* Parses arguments, "threshold=0.6,per-channel=yes"; text NULL: all defaults.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status qg_scheme_parse(const qg_scheme *scheme, qg_role role, const char *text, qg_quant *out);

/* Writes q as text that parses to q again, "twn:threshold=0.6".  A surrogate without a name is omitted. */
void      qg_quant_print(qg_quant q, char *text, size_t bytes);

/* Files say with which version of the defaults their texts were written; those that do not say it have version 1.
 * In version 1 every default but those of fake_quant was the rule of the source. */
enum { QG_DEFAULTS = 2 };

/* ---------------------------------------------------------------------------------------------- */

const char *qg_role_name(qg_role role);         /* "weight", "input", "gradient" */

/* Writes "fake_quant:range=observed", the name used in summaries and on the command line, to text; "float" for NULL.  The
 * option is left out if it is the default of operands in this role, as signed=no of lsq is for inputs.  Returns text. */
enum { QG_SPELLING_BYTES = 64 };
const char *qg_scheme_spelling(const qg_scheme *scheme, qg_role role, char *text, size_t bytes);

/* q.surrogate at the step of the tape, {0} if it is not set.  One of a whole tensor is recorded before q is applied, which then
 * has the identity. */
qg_surrogate qg_surrogate_now(const qg_tape *t, qg_quant q);

/* Integer codes and scales of x quantized by q; learned as in qg_scheme.start.  Requires qg_has_codes(q).  Fails with
 * QG_EARG or QG_ESTATE if the scheme has no codes with these arguments, or none yet. */
bool                    qg_has_codes(qg_quant q);
QG_MUST_CHECK qg_status qg_encode(qg_quant q, qg_tensor x, const float *const *learned, qg_codes *out);

/* --- forms ---------------------------------------------------------------------------------- */

#define QG_FORM_OPS(text)      { { .name = text, .backward = qg_form_backward } }
#define QG_ACTIVATION_OP(text) { { .name = text, .backward = qg_activation_op_backward, .assigns = true } }
#define QG_ACTIVATION_OR_FORM_OPS(text)                                                \
    { { .name = text, .backward = qg_activation_op_backward, .assigns = true },        \
      { .name = text, .backward = qg_form_backward } }

enum { QG_FLOAT_BITS = 32 };    /* no rounding */

void          qg_form_backward(qg_tape *t, qg_var *y);
void          qg_activation_op_backward(qg_tape *t, qg_var *y);
qg_activation qg_form_activation(const qg_tape *t, const qg_binding *b, qg_var *const *learned);

/* --- ranges (quant/range.c) --------------------------------------------------------------------- */

/* min and max, trained or tracked; whether they are known; and of a trained range its span, (largest - smallest value of the
 * tensor) / (max - min), measured at the start and every 1024 steps, for information only.  The first batch sets the range; of
 * a tracked one, later batches enter a moving average.  A channel with an infinity (within the percentiles), or
 * with nothing but NaN, is skipped, and a batch with such a channel does not count as the first. */
extern const qg_learned qg_learned_range[], qg_tracked_range[];

/* --- parts shared by several schemes --------------------------------------------------------- */

/* Records a quantizer whose gradient is only the slope of the surrogate s, where {0} is the identity; the caller
 * then fills y->data.  The backward function of op is qg_surrogate_backward; if s is the identity, a parameter x shares the
 * gradient (qg_share_gradient). */
qg_var *qg_record_surrogate(qg_tape *t, const qg_op *op, qg_var *x, qg_surrogate s);
void    qg_surrogate_backward(qg_tape *t, qg_var *y);

#endif
