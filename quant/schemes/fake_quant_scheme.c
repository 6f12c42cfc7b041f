/* Fake quantization of weights and activations: one scheme for each kind of range (fake_quant_range.h), its op for
 * one range and its op for a range per channel.  Formulas in quant/reference/fake_quant.h. */
#include <math.h>
#include <string.h>

#include "core/slices.h"
#include "quant/channel.h"
#include "quant/form.h"
#include "quant/kernels.h"
#include "quant/observe.h"
#include "quant/operand.h"
#include "quant/reduce.h"
#include "quant/schemes/fake_quant_range.h"

/* A range is given by its ends where that means something. */
#define GIVEN    .when = "range=learned|fixed"
#define AVERAGED .when = "range=observed|percentile"
#define KEYS(ranges)                                                                                                 \
    {                                                                                                                \
        QG_AS_KEY,                                                                                                   \
        { QG_BITS_KEY(8, 2, 16), .about = "bits per code" },                                                         \
        { .name = "range", .words = ranges, .is = QG_KEY_SHOWN, .about = "source of the range" },                    \
        { .name = "min", .fallback = QG_NO_MIN, .min = -1e6, .max = 1e6, GIVEN, .below = "max",                      \
          .about = "lower end of a fixed range (default -6), or initial value of a learned one" },                   \
        { .name = "max", .fallback = QG_NO_MAX, .min = -1e6, .max = 1e6, GIVEN, .about = "upper end (default 6)" },  \
        QG_PER_CHANNEL_KEY("one range per output channel of a weight, or per channel of an input"),                  \
        { .name = "narrow-range", .words = "no|yes", .when = "range=learned|observed|percentile|fixed",              \
          .alias = "narrow", .about = "one level fewer" },                                                           \
        { .name = "decay", .fallback = (double)0.99f, .min = 0.001, .max = 0.999999, AVERAGED,                       \
          .about = "decay of the moving averages" },                                                                 \
        { .name = "percentile", .fallback = (double)99.99f, .min = 50.01, .max = 100, .when = "range=percentile",    \
          .about = "percentile of each batch" },                                                                     \
        { .name = "freeze-after", .max = 1e15, .is = QG_KEY_WHOLE, AVERAGED,                                         \
          .about = "steps after which the range is fixed; 0: never" },                                               \
        { .name = "gradient", .words = "scaled|sum", .when = "range=learned",                                        \
          .about = "scaled: dmin and dmax times 1 / sqrt(number of values); sum: TensorFlow's" },                    \
        QG_OWN_SURROGATE_KEYS, { .name = NULL }                                                                      \
    }
#define RANGES "learned|observed|percentile|fixed"
static const qg_key keys[] = KEYS(RANGES), weight_keys[] = KEYS(RANGES "|current");
#define BEFORE "range=current,gradient=scaled"          /* of weights; inputs have no such range */

static uint64_t freeze_after(qg_quant q) { return (uint64_t)q.arg[QG_ARG_FREEZE]; }

/* min and max: a fixed range, or the start of a learned one, which contains 0. */
static qg_status check(qg_quant q)
{
    const char         *name = q.scheme->name;
    const qg_range_kind kind = qg__range_kind(q);
    float               min, max;
    if (!qg__range_given(q, &min, &max) || (kind != QG_RANGE_FIXED && kind != QG_RANGE_LEARNED)) return QG_OK;
    if (!(min < max))
        return qg_fail(QG_EARG, "%s: min is %g, not below max, %g", name, (double)min, (double)max);
    if (kind == QG_RANGE_LEARNED && !(min <= 0.0f && max >= 0.0f))
        return qg_fail(QG_EARG, "%s: a learned range must include 0, but %g .. %g does not", name, (double)min,
                       (double)max);
    qg_fake_quant_range r;
    return qg__range_nudge(q, min, max, &r);
}

/* A learned range observes just before its first use, and then measures its span from time to time. */
static bool looks_now(qg_quant q, const qg_tape *t, qg_var *const *learned)
{
    if (qg_quant_waits(q, t)) return false;
    if (learned[QG_AT_SEEN]->data[0] == 0.0f) return true;
    return qg_tape_mode(t) == QG_TRAIN && qg_tape_step(t) % QG_SPAN_STEPS == 0;
}

static bool observes(qg_quant q, const qg_tape *t, qg_var *const *learned)
{
    if (learned[QG_AT_SEEN]->data[0] == 0.0f) return true;
    return qg_tape_mode(t) == QG_TRAIN && !(freeze_after(q) && qg_tape_step(t) >= freeze_after(q));
}

/* --- forward --------------------------------------------------------------------------------- */

/* Rows of a weight, each with its range. */
typedef struct work {
    size_t                     row;             /* elements of a row */
    const qg_fake_quant_range *r;               /* one per row */
    const qg__fake_quant_kernels      *kernels;
    const float               *x, *dy;
    float                     *out;             /* y or dx */
    double                    *dmin, *dmax;     /* one per row */
} work;

/* TensorFlow's operators disagree at ties, and each kind of range follows the operator it stands for. */
static bool divides(qg_quant q)
{
    return !q.per_channel && qg__range_kind(q) != QG_RANGE_FIXED;
}

static void forward_rows(void *context, size_t first, size_t n)
{
    const work  *k   = context;
    const size_t row = k->row;
    for (size_t i = first; i < first + n; i++)
        k->kernels->multiply(&k->r[i], row, k->x + i * row, k->out + i * row);
}

/* y for the channels of a split, with a range each. */
static void forward(qg_quant q, qg_split c, const qg_fake_quant_range *r, const float *x, float *y)
{
    work k = { .row = c.inner, .r = r, .kernels = QG_KERNELS(qg__fake_quant), .x = x, .out = y };
    if (c.depth == 1) (divides(q) ? qg_fake_quant_divide : qg_fake_quant_multiply)(r, qg__channel_size(c), x, y);
    else if (c.inner == 1) qg_fake_quant_channels(r, c.outer, c.depth, x, y);
    else qg__in_blocks(c.depth, 1, forward_rows, &k);
}

/* --- one range: an elementwise function ------------------------------------------------------- */

typedef struct one_range {
    qg_fake_quant_range r;
    float               divides, grad_scale;
} one_range;

_Static_assert(sizeof(one_range) <= sizeof(((qg_activation *)0)->k), "a range fits an activation");

static one_range unpack(const qg_activation *f)
{
    one_range k;
    memcpy(&k, f->k, sizeof k);
    return k;
}

static void activation_forward(const qg_activation *f, size_t n, const float *x, float *y)
{
    const one_range       k       = unpack(f);
    const qg__fake_quant_kernels *kernels = QG_KERNELS_OF(f->isa, qg__fake_quant);
    (k.divides != 0.0f ? kernels->divide : kernels->multiply)(&k.r, n, x, y);
}

/* dx may be dy: both gradients of a run are taken before it is written. */
static void activation_backward(const qg_activation *f, size_t n, const float *x, const float *dy, float *dx,
                                double *dk)
{
    const one_range       k       = unpack(f);
    const qg__fake_quant_kernels *kernels = QG_KERNELS_OF(f->isa, qg__fake_quant);
    for (size_t i = 0; i < n; i += QG_CHUNK) {
        const size_t m = qg__smaller(n - i, QG_CHUNK);
        float        run[QG_CHUNK], *out = dx == dy ? run : dx + i;
        double       below = 0.0, above = 0.0;
        memset(out, 0, m * sizeof *out);
        kernels->backward(&k.r, m, x + i, dy + i, out, dk ? &below : NULL, &above);
        if (dk) {
            dk[0] += (double)k.grad_scale * below;
            dk[1] += (double)k.grad_scale * above;
        }
        if (f->slope) {
            memset(out, 0, m * sizeof *out);
            f->slope(f->arg, m, x + i, dy + i, out);
        }
        if (out == run) memcpy(dx + i, run, m * sizeof *run);
    }
}

static qg_activation activation(qg_quant q, qg_var *const *learned)
{
    const bool    trained = qg__range_kind(q) == QG_RANGE_LEARNED;
    one_range     k       = { .divides = divides(q) ? 1.0f : 0.0f, .grad_scale = qg__range_grad_scale(q, 1) };
    qg_activation f       = { .forward   = activation_forward,
                              .backward  = activation_backward,
                              .slope     = q.surrogate.slope,
                              .arg       = q.surrogate.arg,
                              .n_learned = trained ? 2 : 0,
                              .isa       = qg__isa() };
    if (qg__range_nudge_learned(q, learned, 0, &k.r)) return (qg_activation){ 0 };      /* apply says why */
    if (trained) memcpy(f.learned, learned, 2 * sizeof *f.learned);
    memcpy(f.k, &k, sizeof k);
    return f;
}

static const qg_op fake_quant_op = { .name = "fake_quant", .backward = qg_activation_op_backward, .assigns = true };

/* --- a range per channel ----------------------------------------------------------------------- */

typedef struct saved {
    qg_split            c;
    qg_surrogate        s;
    float               grad_scale;
    qg_fake_quant_range r[];        /* [c.depth] */
} saved;

static void backward_rows(void *context, size_t first, size_t n)
{
    const work  *k   = context;
    const size_t row = k->row;
    for (size_t i = first; i < first + n; i++)
        k->kernels->backward(&k->r[i], row, k->x + i * row, k->dy + i * row, k->out + i * row,
                                        &k->dmin[i], &k->dmax[i]);
}

static void add_sums(const double *sum, size_t d, float grad_scale, qg_var *v)
{
    for (size_t i = 0; v && v->grad && i < d; i++) v->grad[i] += (float)((double)grad_scale * sum[i]);
}

/* The sums of images, slice by slice (core/slices.h): [QG_SLICES][2][d], of which the first becomes the total. */
typedef struct slices {
    const qg_var *y;
    qg__slices    at;
    float        *dx;
    double       *sums;
} slices;

static void slice_backward(void *context, int piece, int worker)
{
    (void)worker;
    const slices *p   = context;
    const saved  *f   = p->y->saved;
    const qg_var *x   = p->y->in[0];
    const int     s   = p->at.from + piece, from = qg__slice_first(p->at, s), n = qg__slice_first(p->at, s + 1) - from;
    const size_t  row = qg_row(x->shape), at = (size_t)from * row, d = f->c.depth;
    double       *sum = p->sums + (size_t)s * 2 * d;
    memset(sum, 0, 2 * d * sizeof *sum);
    qg_fake_quant_channels_backward(f->r, (size_t)n * row / d, d, x->data + at, p->y->grad + at, p->dx + at, sum, sum + d);
}

static bool images_backward(qg_tape *t, slices *p)
{
    const size_t n = 2 * ((const saved *)p->y->saved)->c.depth;
    qg_parallel(p->at.to - p->at.from, slice_backward, p);
    if (!qg__slices_gather(t, p->at, p->sums, n * sizeof *p->sums)) return false;
    for (size_t s = 1; s < QG_SLICES; s++)
        for (size_t i = 0; i < n; i++) p->sums[i] += p->sums[s * n + i];
    return true;
}

static void channels_backward(qg_tape *t, qg_var *y)
{
    const saved *s     = y->saved;
    qg_var      *x     = y->in[0];
    const size_t n     = qg_count(x->shape), d = s->c.depth;
    const bool   aside = !x->grad || s->s.slope;        /* dx is not wanted, or another one is */
    const bool   sliced = s->c.inner == 1 && x->images;
    double      *sums  = qg_scratch(t, (sliced ? (size_t)QG_SLICES : 1) * 2 * d * sizeof *sums);
    float       *dx    = aside ? qg_scratch(t, n * sizeof *dx) : x->grad;
    if (!sums || !dx) return;
    memset(sums, 0, 2 * d * sizeof *sums);
    if (aside) memset(dx, 0, n * sizeof *dx);
    work k = { .row = s->c.inner, .r = s->r, .kernels = QG_KERNELS(qg__fake_quant), .x = x->data, .dy = y->grad, .out = dx };
    k.dmin = sums;
    k.dmax = sums + d;
    if (sliced) {
        if (!images_backward(t, &(slices){ y, qg__slices_of(x), dx, sums })) return;
    } else if (s->c.inner == 1)
        qg_fake_quant_channels_backward(s->r, s->c.outer, d, x->data, y->grad, dx, k.dmin, k.dmax);
    else qg__in_blocks(d, 1, backward_rows, &k);
    if (x->grad && s->s.slope) qg_surrogate_slope(s->s, n, x->data, y->grad, x->grad);
    add_sums(k.dmin, d, s->grad_scale, y->in[1]);
    add_sums(k.dmax, d, s->grad_scale, y->in[2]);
}

static const qg_op channels_op = { .name = "fake_quant", .backward = channels_backward };

static qg_var *apply_channels(qg_tape *t, qg_quant q, qg_var *x, qg_var *const *learned)
{
    const qg_split c    = qg_spans(q, x->shape);
    qg_var        *y    = qg_record(t, &channels_op, x->shape, x, learned[QG_AT_MIN], learned[QG_AT_MAX]);
    saved         *kept = y ? qg_save(t, y, sizeof *kept + c.depth * sizeof *kept->r) : NULL;
    if (!kept) return NULL;
    *kept = (saved){ .c = c, .s = q.surrogate, .grad_scale = qg__range_grad_scale(q, c.depth) };
    for (size_t i = 0; i < c.depth; i++) {
        const qg_status s = qg__range_nudge_learned(q, learned, i, &kept->r[i]);
        if (s) return qg_reject(t, s, "%s, channel %zu: %s", q.scheme->name, i, qg_errmsg());
    }
    forward(q, c, kept->r, x->data, y->data);
    return y;
}

static qg_var *apply(qg_tape *t, qg_quant q, qg_var *x, qg_var *const *learned)
{
    if (qg__range_kind(q) != QG_RANGE_FIXED && learned[QG_AT_SEEN]->data[0] == 0.0f) return qg_quant_pass(t, q, x);
    if (q.per_channel) return apply_channels(t, q, x, learned);
    qg_fake_quant_range r;
    const qg_status     s = qg__range_nudge_learned(q, learned, 0, &r);
    if (s) return qg_reject(t, s, "%s", qg_errmsg());
    return qg_record_activation(t, &fake_quant_op, x, activation(q, learned));
}

/* --- the weights of this step ---------------------------------------------------------------- */

static const qg_op current_op = { .name             = "fake_quant",
                                  .backward         = qg_surrogate_backward,
                                  .straight_through = true };
static const qg_op current_sloped_op = { .name = "fake_quant", .backward = qg_surrogate_backward };

static qg_var *apply_current(qg_tape *t, qg_quant q, qg_var *x, qg_var *const *learned)
{
    (void)learned;
    const qg_split c = qg_spans(q, x->shape);
    qg_var         *y = qg_record_surrogate(t, &current_op, &current_sloped_op, x, q.surrogate);
    if (!y) return NULL;
    qg_fake_quant_range *r  = qg_scratch(t, c.depth * (sizeof *r + 2 * sizeof(float)));
    float               *lo = r ? (float *)(void *)(r + c.depth) : NULL, *hi = r ? lo + c.depth : NULL;
    if (!r) return NULL;
    qg__min_max(c, 0, c.depth, x->data, lo, hi);
    for (size_t i = 0; i < c.depth; i++) {
        const qg_status s = qg__range_of_values(q, lo[i], hi[i], &r[i]);
        if (s && !q.per_channel) return qg_reject(t, s, "%s: %s", q.scheme->name, qg_errmsg());
        if (s) return qg_reject(t, s, "%s, channel %zu: %s", q.scheme->name, i, qg_errmsg());
    }
    forward(q, c, r, x->data, y->data);
    return y;
}

/* --- the surrogate --------------------------------------------------------------------------- */

/* The nudged range at `at`, whose ends move as min and max do: the zero point stays. */
static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    const double all = (double)(q.role == QG_WEIGHT ? qg_count(at->shape) : qg_row(at->shape));
    const double n   = q.numbers ? (double)q.numbers : all;
    const double g   = q.arg[QG_ARG_SUM] != 0 ? 1 : 1 / sqrt(n / (double)qg_spans(q, at->shape).depth);
    float        min = (float)at->learned[QG_AT_MIN], max = (float)at->learned[QG_AT_MAX];
    qg_fake_quant_range r;
    if (qg__range_kind(q) == QG_RANGE_FIXED) qg__range_given(q, &min, &max);
    if (qg__range_nudge(q, min, max, &r)) return (double)NAN;
    const double lo = (double)r.nmin + g * (to->learned[QG_AT_MIN] - at->learned[QG_AT_MIN]);
    const double hi = (double)r.nmax + g * (to->learned[QG_AT_MAX] - at->learned[QG_AT_MAX]);
    return fmin(fmax(to->x[i], lo), hi);
}

/* --- codes ----------------------------------------------------------------------------------- */

/* The code 0 of a range lies anywhere between its ends, so ranges per channel together may have any codes -most .. most. */
static qg_code_set codes(qg_quant q)
{
    const int most = (1 << q.bits) - (q.arg[QG_ARG_NARROW] != 0 ? 2 : 1), half = (1 << (q.bits - 1)) - 1;
    if (qg__range_kind(q) == QG_RANGE_CURRENT) return (qg_code_set){ -half, 1, 2 * half + 1, 0 };
    return q.per_channel ? (qg_code_set){ -most, 1, 2 * most + 1, most + 1 } : (qg_code_set){ 0, 1, most + 1, 0 };
}

static qg_status encode(qg_quant q, qg_tensor x, const float *const *learned, qg_codes *out)
{
    const qg_split c = qg_spans(q, x.shape);
    if (q.scheme->learned && *learned[QG_AT_SEEN] == 0.0f)
        return qg_fail(QG_ESTATE, "%s: no batch has been seen, so there is no range", q.scheme->name);
    for (size_t i = 0; i < c.depth; i++) {
        qg_fake_quant_range r;
        const qg_status     s = qg__range_of(q, c, i, x.data, learned, &r);
        if (s) return s;
        for (size_t at = 0; at < c.inner; at += QG_CHUNK) {
            const size_t n = qg__smaller(c.inner - at, QG_CHUNK), from = i * c.inner + at;
            float        y[QG_CHUNK];
            forward(q, (qg_split){ 1, 1, n }, &r, x.data + from, y);
            qg_codes_of(n, y, r.scale, out->code + from);
        }
        out->scale[i] = r.scale;
        if (c.depth == 1 && qg__range_kind(q) != QG_RANGE_CURRENT) qg_codes_of(1, &r.nmin, r.scale, &out->set.lowest);
    }
    out->n_scale = (int)c.depth;
    out->bits    = q.bits;
    return QG_OK;
}

/* --- the schemes ----------------------------------------------------------------------------- */

#define EXPLAIN_RANGE                                                                                \
    "\n"                                                                                             \
    "    scale = (max - min) / (qmax - qmin)     qmin = 0, qmax = 2^bits - 1\n"             \
    "                                            narrow-range=yes (narrow_range): qmin = 1\n"        \
    "    zp    = qmin - min / scale, rounded     nmin, nmax: the range moved so that 0 is code zp\n" \
    "    q(x)  = the nearest of nmin, nmin + scale, .., nmax; ties up\n"                             \
    "    s(x)  = clip(x, nmin, nmax)             dx = dy where nmin <= x <= nmax, else 0\n"          \
    "\n"

#define EXPLAIN_LIMITS                                                                              \
    "The range always includes 0.  Until a batch has been seen, x passes unchanged.  NaN stays NaN\n" \
    "and has no gradient.  The scheme does not rectify: keep the relu before it.\n"

#define EXPLAIN_DIFFERS                                                                             \
    "Other implementations: torch rounds ties to even and passes the gradient up to half a step\n"    \
    "outside the range; TFLite computes nmin + code * scale and differs at ties.  TensorFlow's kernels\n" \
    "for one range divide by scale; those for given ranges and per channel multiply by its inverse, as\n" \
    "this scheme does.\n"

/* A span outside these limits wastes two bits, or clips nearly everything: the range has lost its tensor. */
static const qg_learned trained[] = {
    { .name = "min", .per_channel = true },
    { .name = "max", .per_channel = true },
    { .name = "seen", .tracked = true, .quiet = true },
    { .name = "span", .per_channel = true, .tracked = true, .low = 0.25f, .high = 100.0f,
      .remedy = "the range no longer fits what it quantizes; set where it starts (min, max), let it be measured instead "
                "(range=current of weights, range=observed of inputs), or lower the learning rate of quantizers" },
    { .name = NULL }
};

static const qg_learned tracked[] = { { .name = "min", .per_channel = true, .tracked = true },
                                      { .name = "max", .per_channel = true, .tracked = true },
                                      { .name = "seen", .tracked = true, .quiet = true },
                                      { .name = NULL } };

static qg_quant complete(qg_quant q);

#define ABOUT "2^bits levels over a range"

const qg_scheme qg_fake_quant_scheme = {
    .name        = "fake_quant",
    .about       = ABOUT,
    .keys        = keys,
    .weight_keys = weight_keys,
    .paper       = "gradient=sum",
    .before      = BEFORE,
    .complete    = complete,
    .variant     = "range=learned",
    .scales      = 2,     /* a scale and a zero point */
    .learned     = trained,
    .roles       = QG_WEIGHT | QG_INPUT,
    .granularity = QG_EITHER_SCALE,
    .check       = check,
    .start       = qg__range_start,
    .observes    = looks_now,
    .observe     = qg__range_learned_observe,
    .apply       = apply,
    .surrogate   = surrogate,
    .activation  = activation,
    .codes       = codes,
    .encode      = encode,
    .explain =
        "Uniform levels between a trained min and max.     tf.quantization.fake_quant_with_min_max_vars,\n"
        "with its gradients; levels and nudging as in Jacob et al. 2018, arXiv:1712.05877, sec. 3, where the\n"
        "range is not trained but observed (range=observed).  The default.\n"
        EXPLAIN_RANGE
        "Learns min and max, per tensor, or per channel with per-channel=yes (per_channel):\n"
        "    dmin = g sum of dy where x < nmin,   dmax = g sum of dy where x > nmax,   g = 1 / sqrt(N)\n"
        "These assume nmin = min and nmax = max and neglect the movement of the zero point.  N is the number\n"
        "of weights, or of features of one image, that share the range.  TensorFlow's op has g = 1, as here\n"
        "with gradient=sum (sum_gradient): with a million weights the steps of min and max are then a thousand\n"
        "times those of a weight, and once a range has become wider than the tensor, no gradient brings it\n"
        "back.\n"
        "min and max start at the values that the options min and max give, else at those of the initial\n"
        "weights or of the first training batch.  After each step min <= 0 <= max is restored, and a range\n"
        "narrower than 2^-30 is widened to that.  Every 1024 steps the extent of the tensor divided by that\n"
        "of the range is recorded as its span; training warns if it is below 1/4 or above 100.\n"
        "A weight into which a batch norm is folded (--fold-batchnorm) changes size as the statistics do: with\n"
        "8 bits range=current follows it better.\n"
        EXPLAIN_LIMITS EXPLAIN_DIFFERS
        "TensorFlow accepts min > max, and returns NaN or a constant for it.\n",
};

static const qg_scheme observed_range = {
    .name        = "fake_quant",
    .about       = ABOUT,
    .keys        = keys,
    .weight_keys = weight_keys,
    .paper       = "gradient=sum",
    .before      = BEFORE,
    .complete    = complete,
    .freeze_after = freeze_after,
    .variant     = "range=observed",
    .scales      = 2,     /* a scale and a zero point */
    .learned     = tracked,
    .roles       = QG_WEIGHT | QG_INPUT,
    .granularity = QG_EITHER_SCALE,
    .check       = check,
    .start       = qg__range_start,
    .observes    = observes,
    .observe     = qg__range_observe,
    .apply       = apply,
    .surrogate   = surrogate,
    .activation  = activation,
    .codes       = codes,
    .encode      = encode,
    .explain =
        "Uniform levels between the observed minimum and maximum.\n"
        "                                       Jacob et al. 2018, arXiv:1712.05877, sec. 3.1\n"
        EXPLAIN_RANGE
        "Tracks min and max: r = decay r + (1 - decay) observed, with decay 0.99 by default; the first batch\n"
        "sets r.  r moves in training only, also while --quantize-after delays the quantizer, and stops\n"
        "after freeze-after (freeze_after) steps; with 0 it never stops.  A batch of zeros gives an empty\n"
        "range: y = 0 and dx = dy.\n"
        EXPLAIN_LIMITS EXPLAIN_DIFFERS
        "tf.contrib.quantize starts its averages at -6 and 6, torch's at the first batch.\n",
};

static const qg_scheme percentile_range = {
    .name        = "fake_quant",
    .about       = ABOUT,
    .keys        = keys,
    .weight_keys = weight_keys,
    .paper       = "gradient=sum",
    .before      = BEFORE,
    .complete    = complete,
    .freeze_after = freeze_after,
    .variant     = "range=percentile",
    .scales      = 2,     /* a scale and a zero point */
    .learned     = tracked,
    .roles       = QG_WEIGHT | QG_INPUT,
    .granularity = QG_EITHER_SCALE,
    .check       = check,
    .start       = qg__range_start,
    .observes    = observes,
    .observe     = qg__range_observe,
    .apply       = apply,
    .surrogate   = surrogate,
    .activation  = activation,
    .codes       = codes,
    .encode      = encode,
    .explain =
        "Uniform levels between observed percentiles, so that a few outliers do not cost resolution.\n"
        EXPLAIN_RANGE
        "Tracks min and max as range=observed does.  The max of a batch of m numbers is its value of rank\n"
        "ceil(percentile / 100 * m), counted from the smallest; its min is the value of the same rank\n"
        "counted from the largest.  percentile is 99.99 by default.  The ranks are exact, as if sorted.\n"
        EXPLAIN_LIMITS EXPLAIN_DIFFERS
        "Histogram observers, and percentiles that interpolate between ranks, give other ranges.\n",
};

static const qg_scheme fixed_range = {
    .name       = "fake_quant",
    .about      = ABOUT,
    .keys       = keys,
    .weight_keys = weight_keys,
    .paper       = "gradient=sum",
    .before      = BEFORE,
    .complete   = complete,
    .variant    = "range=fixed",
    .scales     = 2,     /* a scale and a zero point */
    .roles      = QG_WEIGHT | QG_INPUT,
    .check      = check,
    .apply      = apply,
    .surrogate  = surrogate,
    .activation = activation,
    .codes      = codes,
    .encode     = encode,
    .explain =
        "Uniform levels between a given min and max.    tf.quantization.fake_quant_with_min_max_args\n"
        EXPLAIN_RANGE
        "Learns nothing.  min < max; the defaults are -6 and 6.  A range that does not include 0 is shifted\n"
        "until it does, [2, 4] to [0, 2].  NaN stays NaN and has no gradient.  The scheme does not rectify.\n"
        EXPLAIN_DIFFERS,
};

static const qg_scheme current_range_scheme = {
    .name        = "fake_quant",
    .about       = ABOUT,
    .keys        = keys,
    .weight_keys = weight_keys,
    .paper       = "gradient=sum",
    .before      = BEFORE,
    .complete    = complete,
    .variant     = "range=current",
    .roles       = QG_WEIGHT,
    .granularity = QG_EITHER_SCALE,
    .check       = check,
    .own         = qg_straight_through,
    .apply       = apply_current,
    .codes       = codes,
    .encode      = encode,
    .explain =
        "Weights on symmetric uniform levels up to the largest |w|.\n"
        "                                       Krishnamoorthi 2018, arXiv:1806.08342, sec. 2.2\n"
        "\n"
        "    m    = max|w|                           of the tensor, computed in every step; per output\n"
        "                                            channel with per-channel=yes (per_channel)\n"
        "    q(w) = fake quantization with min = -m, max = m and codes -(2^(bits-1) - 1) .. 2^(bits-1) - 1,\n"
        "           with 0 in the middle; narrow-range (narrow_range) does not apply\n"
        "    s(w) = w                                nothing is clipped; m is a constant\n"
        "\n"
        "Learns nothing.  If max|w| is below 2^-31, q = 0.\n"
        "Default for --weight in version 1 of the defaults (defaults = 1).\n"
        "Other implementations use one code more.  The zero point of a symmetric range then falls between\n"
        "two codes, and a float32 rounding selects one of them, so this scheme does not offer it.\n",
};

static qg_quant complete(qg_quant q)
{
    static const qg_scheme *const scheme[] = { [QG_RANGE_LEARNED]    = &qg_fake_quant_scheme,
                                               [QG_RANGE_OBSERVED]   = &observed_range,
                                               [QG_RANGE_PERCENTILE] = &percentile_range,
                                               [QG_RANGE_FIXED]      = &fixed_range,
                                               [QG_RANGE_CURRENT]    = &current_range_scheme };
    const bool known = (unsigned)qg__range_kind(q) < sizeof scheme / sizeof *scheme;
    q.scheme = known ? scheme[qg__range_kind(q)] : &fixed_range;     /* the keys refuse it */
    return q;
}

qg_quant qg_fake_quant(qg_fake_quant_spec spec)
{
    const bool given = spec.min != 0 || spec.max != 0;
    const bool ends  = spec.range == QG_RANGE_LEARNED || spec.range == QG_RANGE_FIXED;
    return qg_quant_defaults((qg_quant){ .scheme      = &qg_fake_quant_scheme,
                                         .bits        = spec.bits,
                                         .per_channel = spec.per_channel,
                                         .surrogate   = spec.surrogate,
                                         .arg         = { [QG_ARG_KIND]       = (int)spec.range,
                                                          [QG_ARG_MIN]        = given || !ends ? spec.min : QG_NO_MIN,
                                                          [QG_ARG_MAX]        = given || !ends ? spec.max : QG_NO_MAX,
                                                          [QG_ARG_NARROW]     = spec.narrow_range,
                                                          [QG_ARG_DECAY]      = spec.decay,
                                                          [QG_ARG_PERCENTILE] = spec.percentile,
                                                          [QG_ARG_FREEZE]     = (double)spec.freeze_after,
                                                          [QG_ARG_SUM]        = spec.sum_gradient } });
}
