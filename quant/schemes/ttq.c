/* Trained ternary quantization; formulas in quant/reference/ternary.h. */
#include <math.h>

#include "quant/schemes/formulas.h"

enum { THRESHOLD, RULE, FROM_WEIGHTS, DECAY, SCALED, STRAIGHT, RATE };     /* in arg */
enum { WP, WN };                                            /* in learned */

static const qg_key keys[] = {
    QG_AS_KEY,
    { .name = "threshold", .fallback = (double)0.05f, .min = 0.0001, .max = 0.9999, .alias = "t",
      .about = "D, as a fraction of max|w|" },
    { .name = "rule", .words = "exact|as-printed", .about = "sign of dWn" },
    { .name = "start", .fallback = 1, .words = "one|weights", .about = "initial Wp and Wn: 1, or the mean |w| of their side" },
    { .name = "decay", .max = 10, .about = "weight decay of Wp and Wn; 0: use --quantizer-decay" },
    { .name = "gradient", .fallback = 1, .words = "sum|scaled",
      .about = "scaled: dWp and dWn times 1 / sqrt(number of weights)" },
    { .name = "straight", .fallback = 1, .words = "no|yes", .about = "dw = dq; no: eq. 8" },
    { .name = "scale-lr", .fallback = (double)0.1f, .max = 1000,
      .about = "learning rate of Wp and Wn, as a multiple of that of the weights; 0: 1" },
    QG_PER_CHANNEL_KEY("D, Wp and Wn of each output channel"),
    QG_OWN_SURROGATE_KEYS,
    { .name = NULL }
};

static float delta(qg_span w, float threshold) { return threshold * qg_span_max_abs(w); }

/* q = wp on P and -wn on N:  dwp = sum over P of dq,  dwn = -sum over N of dq.  The formula as printed drops
 * the minus; the chain rule does not. */
static qg_constants constants(qg_quant q, qg_span w, const float *learned)
{
    const float sign = q.arg[RULE] == QG_TTQ_AS_PRINTED ? 1.0f : -1.0f;
    const float g    = q.arg[SCALED] != 0 ? (float)(1.0 / sqrt((double)w.n)) : 1.0f;
    return (qg_constants){ .ternary = { delta(w, (float)q.arg[THRESHOLD]), learned[WP], learned[WN] },
                           .gain    = { g, sign * g } };
}

/* With the mean |w| of each side, q is the least-squares fit of w.  An empty side starts with the other's. */
static void start(qg_quant q, qg_tensor x, float *const *learned)
{
    const qg_split spans = qg__spans(q, x.shape);
    for (size_t s = 0; s < spans.depth; s++) {
        const qg_span w       = qg__span_at(qg__isa(), spans, s, x.data);
        const float  *row     = x.data + s * w.n, d = delta(w, (float)q.arg[THRESHOLD]);
        double        sum[2]  = { 0, 0 };
        size_t        kept[2] = { 0, 0 };
        for (size_t i = 0; i < w.n; i++) {
            const int side = row[i] > d ? WP : WN;
            if (!(fabsf(row[i]) > d)) continue;
            sum[side] += (double)fabsf(row[i]);
            kept[side]++;
        }
        for (int side = WP; side <= WN; side++) {
            const int  from  = kept[side] ? side : WP + WN - side;
            const bool fit   = q.arg[FROM_WEIGHTS] != 0 && kept[from] > 0;
            learned[side][s] = fit ? (float)(sum[from] / (double)kept[from]) : 1.0f;
        }
    }
}

/* Of w, the products of the scales with w on their sides as these are; of Wp and Wn, q itself. */
static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    const double d = q.arg[THRESHOLD] * qg__point_max_abs(q, i, at), w = at->x[i], moved = to->x[i] - w;
    const double n = (double)qg_count(at->shape) / (double)qg__spans(q, at->shape).depth;
    const double g = q.arg[SCALED] != 0 ? 1 / sqrt(n) : 1;
    if (!(fabs(w) > d)) return moved;
    const int side = w > 0 ? WP : WN;
    return (q.arg[STRAIGHT] != 0 ? 1 : at->learned[side]) * moved + (w > 0 ? g : -g) * to->learned[side];
}

static float decay(qg_quant q) { return (float)q.arg[DECAY]; }
static float scale_lr(qg_quant q) { return (float)q.arg[RATE]; }

static qg_status check(qg_quant q)
{
    if (q.arg[STRAIGHT] != 0 || q.as_paper || !q.surrogate.slope) return QG_OK;
    return qg_fail(QG_EARG, "ttq: straight=no has no effect with a surrogate, which replaces its slopes");
}

/* {0}: eq. 8, the slope of the form. */
static qg_surrogate own(qg_quant q)
{
    return q.arg[STRAIGHT] != 0 ? qg_surrogate_identity() : (qg_surrogate){ 0 };
}

/* A negative scale would flip the sign of its codes and of the gradient of its latent weights.  A scale that falls
 * below 2^-30 is set to that, and its gradient can raise it again. */
static const char remedy[] = "scales that start from the weights, scaled gradients or a lower learning rate of quantizers "
                             "usually help";
static const qg_learned learned_values[] = {
    { .name = "wp", .per_channel = true, .least = 0x1p-30f, .low = 1e-6f, .high = INFINITY, .remedy = remedy },
    { .name = "wn", .per_channel = true, .least = 0x1p-30f, .low = 1e-6f, .high = INFINITY, .remedy = remedy },
    { .name = NULL }
};

const qg_scheme qg__ttq_scheme = {
    .name         = "ttq",
    .about        = "{-Wn, 0, +Wp}, both learned",
    .keys         = keys,
    .bits         = 2,
    .roles        = QG_WEIGHT,
    .granularity  = QG_EITHER_SCALE,
    .scales       = 2,
    .learned      = learned_values,
    .form         = &qg_ternary_form,
    .ops          = QG_FORM_OPS("ttq"),
    .start        = start,
    .check        = check,
    .decay        = decay,
    .scale_lr     = scale_lr,
    .paper        = "start=one,gradient=sum,straight=no,scale-lr=0",
    .own          = own,
    .constants    = constants,
    .own_slope    = true,
    .surrogate    = surrogate,
    .explain =
        "Trained ternary quantization.                    Zhu, Han, Mao, Dally 2017, arXiv:1612.01064\n"
        "\n"
        "    D    = threshold * max|w|\n"
        "    q(w) = +Wp if w > D, -Wn if w < -D, else 0\n"
        "    dw   = dq                               with straight=no: Wp dq, dq or Wn dq     (eq. 8)\n"
        "    dWp  = sum of dq where w > D                                                     (eq. 7)\n"
        "    dWn  = -sum of dq where w < -D          the derivative of q; eq. 7 prints +sum\n"
        "\n"
        "Learns Wp and Wn, one of each per tensor, or per output channel with per-channel=yes\n"
        "(per_channel), as D is then.  Below 2^-30 they are set to 2^-30; training warns below 1e-6.  D\n"
        "is a constant of the backward pass.  If all weights are zero, q = 0, and Wp and Wn receive no\n"
        "gradient.\n"
        "The paper's sums grow with the layer, and one step can drive Wp and Wn to 0.  By default,\n"
        "therefore, they are divided by sqrt(number of weights), Wp and Wn start at the mean |w| of their\n"
        "side (of the other one, if it is empty), learn at a tenth of the rate, and dw = dq.  The paper\n"
        "has start=one (start_at_one), gradient=sum (summed_gradient), straight=no (scaled_weights) and\n"
        "scale-lr=0, the rate of the weights (scale_lr=1); together they are as=paper (as_paper).\n"
        "Other implementations: Blueoil and several ports use dWn as printed, which moves Wn uphill\n"
        "(rule=as-printed).  The authors' code gives sign(w) at |w| = D, and decays Wp and Wn (decay).\n"
        "Some ports use the mean instead of the sum.  None keeps Wp and Wn positive.\n",
};

qg_quant qg_ttq(qg_ttq_spec spec)
{
    qg_quant q = qg_quant_defaults((qg_quant){ .scheme      = &qg__ttq_scheme,
                                               .per_channel = spec.per_channel,
                                               .surrogate   = spec.surrogate,
                                               .as_paper    = spec.as_paper,
                                               .arg         = { [THRESHOLD]    = spec.threshold,
                                                                [RULE]         = spec.rule,
                                                                [FROM_WEIGHTS] = !spec.start_at_one,
                                                                [DECAY]        = spec.decay,
                                                                [SCALED]       = !spec.summed_gradient,
                                                                [STRAIGHT]     = !spec.scaled_weights,
                                                                [RATE]         = 0.1f } });
    if (spec.scale_lr != 0) q.arg[RATE] = spec.scale_lr;
    return q;
}
