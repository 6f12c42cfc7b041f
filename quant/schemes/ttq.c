#include "quant/schemes/ttq.h"

#include <math.h>

#include "quant/operand.h"
#include "quant/scheme.h"

enum { THRESHOLD, RULE, FROM_WEIGHTS, SCALED };     /* in arg */
enum { WP, WN };                                    /* in learned */

static float delta(qg_span w, float threshold) { return threshold * qg_span_max_abs(w); }

/* q = wp on P and -wn on N:  dwp = sum over P of dq,  dwn = -sum over N of dq.  The formula as printed drops
 * the minus; the chain rule does not. */
static qg_constants constants(qg_quant q, qg_span w, const float *learned)
{
    const float sign = q.arg[RULE] == QG_TTQ_AS_PRINTED ? 1.0f : -1.0f;
    const float g    = q.arg[SCALED] != 0 ? (float)(1.0 / sqrt((double)w.n)) : 1.0f;
    return (qg_constants){ .ternary = { delta(w, q.arg[THRESHOLD]), learned[WP], learned[WN] }, .gain = { g, sign * g } };
}

/* With the mean |w| of each side, q is the least-squares fit of w. */
static void start(qg_quant q, qg_tensor x, float *const *learned)
{
    const qg_split spans = qg_spans(q, x.shape);
    for (size_t s = 0; s < spans.depth; s++) {
        const qg_span w       = qg_span_at(qg__isa(), spans, s, x.data);
        const float  *row     = x.data + s * w.n, d = delta(w, q.arg[THRESHOLD]);
        double        sum[2]  = { 0, 0 };
        size_t        kept[2] = { 0, 0 };
        for (size_t i = 0; i < w.n; i++) {
            const int side = row[i] > d ? WP : WN;
            if (!(fabsf(row[i]) > d)) continue;
            sum[side] += (double)fabsf(row[i]);
            kept[side]++;
        }
        for (int side = WP; side <= WN; side++) {
            const bool fit   = q.arg[FROM_WEIGHTS] != 0 && kept[side] > 0;
            learned[side][s] = fit ? (float)(sum[side] / (double)kept[side]) : 1.0f;
        }
    }
}

static qg_status check(qg_quant q)
{
    if (!(q.arg[THRESHOLD] > 0 && q.arg[THRESHOLD] < 1))
        return qg_fail(QG_EARG, "ttq: threshold is %g, must be more than 0 and less than 1",
                       (double)q.arg[THRESHOLD]);
    if (!(q.decay >= 0 && isfinite(q.decay)))
        return qg_fail(QG_EARG, "ttq: decay is %g, must be 0 or more", (double)q.decay);
    if (q.arg[RULE] != QG_TTQ_EXACT && q.arg[RULE] != QG_TTQ_AS_PRINTED)
        return qg_fail(QG_EARG, "ttq: rule is %g, must be %d (exact) or %d (as printed)",
                       (double)q.arg[RULE], QG_TTQ_EXACT, QG_TTQ_AS_PRINTED);
    return QG_OK;
}

/* A negative scale would flip the sign of its codes and of the gradient of its latent weights.  A scale that falls
 * below 2^-30 is set to that, and its gradient can raise it again. */
static const qg_learned learned_values[] = {
    { .name = "wp", .per_channel = true, .least = 0x1p-30f, .low = 1e-6f, .high = INFINITY },
    { .name = "wn", .per_channel = true, .least = 0x1p-30f, .low = 1e-6f, .high = INFINITY },
    { .name = NULL }
};

static const qg_scheme scheme = {
    .name         = "ttq",
    .roles        = QG_WEIGHT,
    .granularity  = QG_EITHER_SCALE,
    .scales       = 2,
    .learned      = learned_values,
    .form         = &qg_ternary_form,
    .ops          = QG_FORM_OPS("ttq"),
    .check        = check,
    .start        = start,
    .constants    = constants,
    .own_slope    = true,
    .explain =
        "Trained ternary quantization.                    Zhu, Han, Mao, Dally 2017, arXiv:1612.01064\n"
        "\n"
        "    D    = t * max|w|                       t (threshold) 0.05 by default\n"
        "    q(w) = +Wp if w > D, -Wn if w < -D, else 0\n"
        "    dw   = Wp dq where w > D, Wn dq where w < -D, else dq                            (eq. 8)\n"
        "    dWp  = sum of dq where w > D                                                     (eq. 7)\n"
        "    dWn  = -sum of dq where w < -D          the derivative of q; eq. 7 prints +sum\n"
        "\n"
        "Learns Wp and Wn, one number each per tensor, or with D of its own per output channel with\n"
        "per-channel=yes (per_channel): 1 at first, as in the authors' code, or the mean |w| of\n"
        "each side with start=weights (start_from_weights).  A scale that an update carries below 2^-30 is\n"
        "set to 2^-30, and training warns below 1e-6.  D is a constant of the backward.\n"
        "The sums grow with the layer: a learning rate that suits weights can throw Wp and Wn to 0 in one\n"
        "step.  gradient=scaled (scaled_gradient) multiplies both by 1 / sqrt(number of weights).\n"
        "All weights zero: q = 0, and Wp, Wn have no gradient.\n"
        "Other implementations: Blueoil and several PyTorch ports take dWn as printed, which moves Wn\n"
        "uphill: rule=as-printed; the authors' TensorFlow code is right by automatic differentiation,\n"
        "gives sign(w) at |w| = D, and lets its weight decay act on Wp and Wn (the option decay); some\n"
        "ports take the mean in place of the sum.  None of them keeps the scales positive.\n",
};

qg_quant qg_ttq(qg_ttq_spec spec)
{
    return (qg_quant){ .scheme      = &scheme,
                       .bits        = 2,
                       .per_channel = spec.per_channel,
                       .decay       = spec.decay,
                       .surrogate   = spec.surrogate,
                       .arg         = { [THRESHOLD]    = spec.threshold == 0 ? 0.05f : spec.threshold,
                                        [RULE]         = (float)spec.rule,
                                        [FROM_WEIGHTS] = spec.start_from_weights,
                                        [SCALED]       = spec.scaled_gradient } };
}

/* --- on arrays ------------------------------------------------------------------------------- */

/* The operator takes scales of either sign. */
static qg_quant as_scheme(qg_ttq_attrs attrs)
{
    return (qg_quant){ .scheme    = &scheme,
                       .surrogate = attrs.surrogate,
                       .arg       = { [THRESHOLD] = attrs.threshold, [RULE] = (float)attrs.rule } };
}

static qg_constants constants_of(qg_ttq_attrs attrs, const qg_array *x)
{
    const qg_span w = qg_span_at(qg__isa(), qg__split_at(x, -1), 0, qg__floats(x));
    return constants(as_scheme(attrs), w, (const float[]){ attrs.positive, attrs.negative });
}

static qg_status check_attrs(const char *op, qg_ttq_attrs attrs)
{
    const qg_status s = qg__check_threshold(op, "threshold", attrs.threshold);
    return s ? s : qg__check_int(op, "rule", (int)attrs.rule, QG_TTQ_EXACT, QG_TTQ_AS_PRINTED);
}

qg_status qg_ttq_weight_quantizer(const qg_array *x, qg_ttq_attrs attrs, qg_array *y)
{
    const char *op = "ttq_weight_quantizer";
    qg_status   s  = check_attrs(op, attrs);
    if (!s) s = qg__check_forward(op, x, y);
    if (s) return s;
    const qg_constants k = constants_of(attrs, x);
    qg_form_values(&qg_ternary_form, &k, qg_array_count(x), qg__floats(x), qg__floats(y));
    return QG_OK;
}

qg_status qg_ttq_weight_quantizer_gradient(const qg_array *x, const qg_array *dy, qg_ttq_attrs attrs, qg_array *dx,
                                           float *grad_positive, float *grad_negative)
{
    const char *op = "ttq_weight_quantizer_gradient";
    qg_status   s  = check_attrs(op, attrs);
    if (!s) s = qg__check_backward(op, x, dy, dx);
    if (s) return s;
    const qg_constants k = constants_of(attrs, x);
    const qg_split    c = qg__split_at(x, -1);
    double             sum[1][QG_FORM_SUMS];
    qg__zero(dx);
    qg_form_gradient(as_scheme(attrs), c, &k, qg__floats(x), qg__floats(dy), qg__floats(dx), sum);
    if (grad_positive) *grad_positive = k.gain[WP] * (float)sum[0][WP];
    if (grad_negative) *grad_negative = k.gain[WN] * (float)sum[0][WN];
    return QG_OK;
}
