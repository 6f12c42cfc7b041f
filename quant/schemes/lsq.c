/* Learned step size; formulas in quant/reference/uniform.h. */
#include <math.h>

#include "quant/operand.h"
#include "quant/reduce.h"
#include "quant/schemes/formulas.h"

enum { SIGNED };            /* in arg */
enum { STEP, SEEN };        /* of what is learned or tracked */

#define SIGNED_KEY .name = "signed", .words = "no|yes", .about = "codes below 0 as well as above"
static const qg_key keys[] = {
    QG_AS_KEY,
    { QG_BITS_KEY(2, 1, 16), .about = "bits per code; signed codes need 2 or more" },
    { SIGNED_KEY },
    QG_OWN_SURROGATE_KEYS,
    { .name = NULL }
};
static const qg_key weight_keys[] = {
    QG_AS_KEY,
    { QG_BITS_KEY(2, 2, 16), .about = "bits per code" },
    { SIGNED_KEY, .fallback = 1 },
    QG_PER_CHANNEL_KEY("one step per output channel"),
    QG_OWN_SURROGATE_KEYS,
    { .name = NULL }
};

/* Codes are -qn .. qp. */
static int qn_of(qg_quant q) { return q.arg[SIGNED] != 0 ? 1 << (q.bits - 1) : 0; }
static int qp_of(qg_quant q) { return q.arg[SIGNED] != 0 ? (1 << (q.bits - 1)) - 1 : (1 << q.bits) - 1; }

static qg_constants constants(qg_quant q, qg_span x, const float *learned)
{
    const size_t sharing = q.per_channel ? x.n : x.numbers;
    const double n       = sharing ? (double)sharing : 1.0;
    return (qg_constants){ .uniform = { .lo = -(float)qn_of(q), .hi = (float)qp_of(q), .step = learned[STEP] },
                           .gain    = { (float)(1.0 / sqrt(n * (double)qp_of(q))) } };
}

static bool ready(qg_quant q, const float *const *learned)
{
    return *learned[SEEN] != 0.0f;
}

/* s (clip(x / s, -qn, qp) + what rounding added), where s moves by g of its way. */
static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    const double lo = -qn_of(q), hi = qp_of(q), was = at->learned[STEP];
    const bool   all = q.role == QG_WEIGHT && !q.per_channel;
    const double n  = (double)(at->numbers ? at->numbers : all ? qg_count(at->shape) : qg_row(at->shape));
    const double s  = was + (to->learned[STEP] - was) / sqrt(n * hi);
    const double v  = fmin(fmax(at->x[i] / was, lo), hi);
    return s * (fmin(fmax(to->x[i] / s, lo), hi) + nearbyint(v) - v);
}

static qg_status check(qg_quant q)
{
    if (q.role == QG_WEIGHT && q.scheme->rectifies)
        return qg_fail(QG_EARG, "%s: unsigned codes are not for weights", q.scheme->name);
    if (q.per_channel && q.role == QG_INPUT)
        return qg_fail(QG_EARG, "%s: inputs have one step, not one per channel", q.scheme->name);
    return qg__check_int(q.scheme->name, "bits", q.bits, q.arg[SIGNED] != 0 ? 2 : 1, 16);
}

/* --- the first step ---------------------------------------------------------------------------- */

/* The smallest step: a negative one would flip the sign of the codes. */
static const float smallest_step = 0x1p-30f;

/* An unsigned quantizer replaces a relu, so for the start x counts as max(x, 0). */
static void rectified(const void *context, size_t first, size_t n, float *term)
{
    const float *x = (const float *)context + first;
    for (size_t i = 0; i < n; i++) term[i] = x[i] < 0.0f ? 0.0f : x[i];
}

static void start(qg_quant q, qg_tensor x, float *const *learned)
{
    if (!x.data) return;
    const qg_split spans = qg__spans(q, x.shape);
    const size_t   n     = qg_count(x.shape) / spans.depth;
    for (size_t i = 0; i < spans.depth; i++) {
        const float *row  = x.data + i * n;
        const double sum  = q.arg[SIGNED] != 0 ? qg__sum_abs(n, row) : qg__sum_terms(n, rectified, row);
        const float  step = (float)(2.0 * sum / (double)n / sqrt((double)qp_of(q)));
        /* A batch of zeros, or with a NaN or an infinity, is skipped; weights have no second batch. */
        if (q.role != QG_WEIGHT && !(step > 0.0f && isfinite(step))) return;
        learned[STEP][i] = step < smallest_step ? smallest_step : step;
    }
    *learned[SEEN] = 1.0f;
}

static bool observes(qg_quant q, const qg_tape *t, qg_var *const *learned)
{
    return learned[SEEN]->data[0] == 0.0f && !qg__quant_is_delayed(q, qg_tape_step(t));
}

/* --- the schemes ----------------------------------------------------------------------------- */

static const qg_learned learned_step[] = { { .name = "step", .per_channel = true, .least = 0x1p-30f },
                                           { .name = "seen", .tracked = true, .quiet = true },
                                           { .name = NULL } };

#define EXPLAIN_STEP                                                                                \
    "\n"                                                                                                \
    "    v    = x / s\n"                                                                                \
    "    q(x) = s round(clip(v, -qn, qp))        ties to even\n"                                        \
    "    dx   = dy where -qn < v < qp, else 0\n"                                                        \
    "    ds   = g sum of dy d,  d = -qn if v <= -qn, qp if v >= qp, else round(v) - v\n"                \
    "    g    = 1 / sqrt(N qp)                   N: weights that share s, or features of one image\n"   \
    "\n"                                                                                                \
    "Learns s.  It starts at 2 mean|x| / sqrt(qp) of the initial weights, or of the first training\n"   \
    "batch that is finite and not all 0, until which x passes unchanged.  Weights have one s per\n"     \
    "tensor, as in the paper, or with per-channel=yes (per_channel) one per output channel.  Below\n"   \
    "2^-30 s is set to 2^-30.  NaN stays NaN.\n"                                                        \
    "Other implementations: some let s become negative, which flips every code, omit the mask of dx,\n" \
    "include the batch size in N, or all weights of the layer where s is per channel; torch's\n"        \
    "learnable fake quantization passes dx at the clamp values as well.\n"

static const qg_scheme lsq_unsigned;

static qg_quant complete(qg_quant q)
{
    if (q.role == QG_WEIGHT) q.arg[SIGNED] = 1;
    q.scheme = q.arg[SIGNED] != 0 ? &qg__lsq_scheme : &lsq_unsigned;
    return q;
}

/* The members that both have. */
#define SCHEME                                                                                                      \
    .name = "lsq", .about = "multiples of a learned step", .keys = keys, .weight_keys = weight_keys,                \
    .complete = complete, .learned = learned_step, .check = check, .start = start, .observes = observes,            \
    .observe = start, .ready = ready, .form = &qg_lsq_form, .ops = QG_ACTIVATION_OR_FORM_OPS("lsq"), .own_slope = true, \
    .surrogate = surrogate, .constants = constants, .activation = qg_form_activation

const qg_scheme qg__lsq_scheme = {
    SCHEME,
    .variant     = "signed=yes",
    .roles       = QG_WEIGHT | QG_INPUT,
    .granularity = QG_EITHER_SCALE,
    .explain =
        "Learned step size with signed codes, for weights, and for inputs with signed=yes (is_signed).\n"
        "                                                     Esser et al. 2020, arXiv:1902.08153v3\n"
        "\n"
        "    qn = 2^(bits-1), qp = 2^(bits-1) - 1\n"
        EXPLAIN_STEP,
};

static const qg_scheme lsq_unsigned = {
    SCHEME,
    .variant   = "signed=no",
    .roles     = QG_INPUT,
    .rectifies = true,
    .explain =
        "Learned step size with codes from 0, for activations; it replaces relu.\n"
        "                                                     Esser et al. 2020, arXiv:1902.08153v3\n"
        "\n"
        "    qn = 0, qp = 2^bits - 1; for the start of s, x counts as max(x, 0), the output of a relu\n"
        EXPLAIN_STEP,
};

qg_quant qg_lsq(qg_lsq_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme      = &qg__lsq_scheme,
                                         .bits        = spec.bits,
                                         .per_channel = spec.per_channel,
                                         .surrogate   = spec.surrogate,
                                         .arg         = { [SIGNED] = spec.is_signed } });
}
