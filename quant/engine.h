/* quant/engine.h — what the files of quant/ and the layers share about schemes, forms and ranges (internal). */
#ifndef QG_ENGINE_H
#define QG_ENGINE_H

#include "quant/scheme.h"

/* --- quantizers ------------------------------------------------------------------------------- */

/* q for this role, which may set what follows from it: the codes of lsq weights are signed. */
qg_quant  qg__quant_in(qg_quant q, qg_role role);

/* Checks the arguments, per_channel, the surrogate and, if set, q.role.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status qg__quant_check(qg_quant q);
QG_MUST_CHECK
qg_status qg__quant_check_keys(qg_quant q);     /* the arguments alone */

qg_role   qg__quant_role(qg_quant q);           /* q.role; if not set, that of the scheme */

/* Texts with a version of the defaults (QG_DEFAULTS). */
QG_MUST_CHECK
qg_status qg__scheme_parse_as(int version, const qg_scheme *scheme, qg_role role, const char *text, qg_quant *out);
QG_MUST_CHECK
qg_status qg__quant_parse_as(int version, const char *text, qg_role role, qg_quant *q);
void      qg__quant_print_as(int version, qg_quant q, char *text, size_t bytes);

void      qg__quant_values(qg_quant q, double value[QG_MAX_KEYS]);     /* of the keys, in their order */

/* Whether q is an elementwise function, so that its op is that of its activation; and whether qg_norm_fused can fuse q, except
 * in the steps in which it observes. */
bool      qg__quant_is_activation(qg_quant q);
bool      qg__quant_fuses(qg_quant q);
bool      qg__quant_observes(const qg_binding *b, const qg_tape *t, qg_var *const *learned);

/* Whether step is before q.after, so x passes unchanged (through relu, if q rectifies). */
bool      qg__quant_is_delayed(qg_quant q, uint64_t step);

/* The result of a quantizer that cannot quantize yet: relu if q rectifies, else x. */
qg_var   *qg__quant_bypass(qg_tape *t, qg_quant q, qg_var *x);

/* What the scheme, or its range, does with its learned values; see the fields of qg_scheme with these names. */
typedef struct qg__hooks {
    void     (*start)(qg_quant q, qg_tensor x, float *const *learned);
    bool     (*observes)(qg_quant q, const qg_tape *t, qg_var *const *learned);
    void     (*observe)(qg_quant q, qg_tensor x, float *const *learned);
    bool     (*ready)(qg_quant q, const float *const *learned);
    uint64_t (*freeze_after)(qg_quant q);
} qg__hooks;
qg__hooks qg__scheme_hooks(const qg_scheme *s);

/* Whether what q learns has a start and nobody has set any of it: all numbers are 0. */
bool      qg__quant_is_unset(qg_quant q, qg_shape x, float *const *learned);

/* The bounds of what q learns as entry i (qg_param.least, .greatest); both 0: none. */
void      qg__learned_bounds(qg_quant q, int i, float *least, float *greatest);

/* Sets v[i], a trained value that is not legal, to legal: a file or a user may have set it.  In QG_EVAL, or if
 * v is frozen, the stored value does not change, and the caller uses legal in its place. */
void      qg__clamp_learned(qg_var *v, size_t i, float legal);

qg_code_set qg__code_set_of(qg_quant q);        /* by the arguments; count 0: unknown, or not rounded */

/* Whether inputs become signs of one bit, which a relu before them would make all the same. */
bool        qg__takes_signs(qg_quant q);

/* --- surrogates ------------------------------------------------------------------------------- */

/* QG_EARG if a constant of the surrogate is out of range. */
QG_MUST_CHECK
qg_status    qg__surrogate_check(qg_surrogate s);

/* Which of QG_SURROGATE_WORDS s is; -1: none, or with a constant that texts cannot say. */
int          qg__surrogate_word(qg_surrogate s);

/* s at a step, with a constant arg. */
qg_surrogate qg__surrogate_at(qg_surrogate s, uint64_t step);

/* dx[i] += dy[i] * s'(x[i]) for a whole tensor, in fixed blocks on all threads, or .whole with one channel. */
void         qg__surrogate_slope(qg_surrogate s, size_t n, const float *x, const float *dy, float *dx);

/* s, or own when s is {0}. */
static inline qg_surrogate qg__surrogate_or(qg_surrogate s, qg_surrogate own)
{
    return s.slope ? s : own;
}

/* --- gradients (quant/gradient.c) --------------------------------------------------------------- */

/* Of schemes for gradients, whose ops[0] reads the coder that it has saved: apply passes x, and is a view of it; the surrogate
 * of values that pass, and of a gradient of +-1, which is a code. */
qg_var *qg__gradient_apply(qg_tape *t, const qg_binding *b, qg_var *x, qg_var *const *learned);
double  qg__gradient_surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to);

/* The draw of the first number of an image of g->y, counted in the whole batch. */
size_t  qg__gradient_draw(const qg_gradient_coder *g, int image);

/* --- forms ------------------------------------------------------------------------------------ */

/* 2^bits - 1 as float; exact up to 24 bits. */
static inline float qg__steps(int bits)
{
    return (float)(((unsigned long long)1 << bits) - 1);
}

qg_var     *qg__form_apply(qg_tape *t, const qg_binding *b, qg_var *x, qg_var *const *learned);
qg_status   qg__form_encode(qg_quant q, qg_tensor x, const float *const *learned, qg_codes *out);
qg_code_set qg__form_set(qg_quant q);

/* Records f as an op; op is { name, qg_activation_op_backward, .assigns = true }.  Blocks are fixed, so sums do not
 * depend on the number of threads. */
qg_var     *qg__record_activation(qg_tape *t, const qg_op *op, qg_var *x, qg_activation f);

/* The codes of quantized values: y[i] = scale code[i] up to rounding.  With scale 0 all codes are 0. */
void        qg__codes_from(size_t n, const float *y, float scale, int32_t *code);

/* --- arrays, split into spans by c ------------------------------------------------------------ */

/* The spans of a tensor: one, or if q.per_channel one per row of a weight or per channel of an input. */
qg_split qg__spans(qg_quant q, qg_shape x);

qg_span qg__span_at(qg_isa isa, qg_split split, size_t channel, const float *x);
double  qg__span_sum_abs(qg_span s);            /* sum |x| */

/* The constants of a span; learned[i] holds the values of entry i of the scheme's list, one per span. */
qg_constants qg__form_constants(qg_quant q, qg_span s, const float *const *learned);

/* Writes y and, unless NULL, the constants k and the scales of positive codes, [spans] each. */
void qg__form_forward(const qg_binding *b, qg_split c, const float *x, const float *const *learned, float *y,
                      qg_constants *k, float *scale);

/* Writes y, or adds to dx and sum, for d columns of rows `stride` apart, each with its constants k[d].  dx and sum
 * may be NULL. */
void qg__form_columns(const qg_form *form, const qg_constants *k, size_t d, size_t rows, size_t stride,
                      const float *x, float *y);
void qg__form_columns_gradient(const qg_form *form, const qg_constants *k, size_t d, size_t rows, size_t stride,
                               const float *x, const float *dy, float *dx, double (*sum)[QG_FORM_SUMS]);

/* Writes y for n numbers that share k. */
void qg__form_values(const qg_form *form, const qg_constants *k, size_t n, const float *x, float *y);

/* Adds to dx and writes sum [spans]; either may be NULL.  k [spans] may be NULL if the scheme has mix and learns
 * nothing; the constants are then computed again.  s: b->q.surrogate at the step; {0}: the scheme's own. */
void qg__form_gradient(const qg_binding *b, qg_surrogate s, qg_split c, const qg_constants *k, const float *x, const float *dy,
                       float *dx, double (*sum)[QG_FORM_SUMS]);

/* --- ranges (quant/range.c) ------------------------------------------------------------------- */

/* Computes the ends min, max of the span x.  On entry end[] holds the learned or tracked ones, if
 * any. */
void qg__range_ends(qg_range r, qg_span x, float end[2]);

/* Widens a learned range that has become too narrow, and makes ends legal that no optimizer has
 * (qg__clamp_learned). */
void qg__range_confine(qg_quant q, qg_var *const *learned);

/* Shifts the range min .. max until 0 is a level (quant/reference/fake_quant.h).  *u receives the constants of the
 * nudged form, except for its variant.  Fails as qg_fake_quant_nudge. */
QG_MUST_CHECK
qg_status qg__nudge(int bits, bool narrow, float min, float max, qg_levels *u, int *zero_point);

/* --- parts of several schemes ----------------------------------------------------------------- */

/* For qg_scheme.surrogate: over the numbers that share the constants of number i. */
double qg__point_mean_abs(qg_quant q, size_t i, const qg_point *p);
double qg__point_max_abs(qg_quant q, size_t i, const qg_point *p);

/* Of the weights of the output channel of number i: their mean, and the sums of |x - mean| and (x - mean)^2. */
enum { QG__MEAN, QG__DISTANCE, QG__SQUARES, QG__MOMENTS };
void   qg__point_moments(size_t i, const qg_point *p, double moments[QG__MOMENTS]);

/* For qg_scheme.own: the identity, and clip at 1. */
qg_surrogate qg__straight_through(qg_quant q);
qg_surrogate qg__clip_at_1(qg_quant q);

/* For qg_scheme.complete: q with the annealed tanh unless it has a surrogate.  It stands in q so that what knows the length of a
 * training can set its pace. */
qg_quant     qg__with_annealed_tanh(qg_quant q);

/* The factor that makes SGD move latent weights whose codes have no scale as if q were mean|w| times as large: 1 / mean|w|, or
 * 1 for zeros and denormals.  With batch norm the scale of q does not matter, but the gradient of codes of -1 and +1 is smaller
 * by that factor.  QG__SCALED_KEY chooses it. */
qg_mix qg__relative_mix(bool scaled, qg_span w);        /* for qg_scheme.mix; not scaled: 1 */
double qg__relative_surrogate(bool scaled, qg_quant q, size_t i, const qg_point *at, const qg_point *to);
#define QG__SCALED_KEY \
    { .name = "gradient", .fallback = 1, .words = "plain|scaled", .about = "scaled: dw divided by mean|w|" }

/* For qg_scheme.constants: +1 and -1, and +mean|x| and -mean|x|. */
qg_constants qg__unit_signs(qg_quant q, qg_span x, const float *learned);
qg_constants qg__mean_signs(qg_quant q, qg_span x, const float *learned);

/* Scales w so that the largest |w| is 1: initial weights uniform in +-s become uniform in [-1, 1]. */
void qg__stretch_to_unit(qg_tensor w);

#endif
