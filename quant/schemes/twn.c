/* Ternary weights with one scale.                                              [TWN, arXiv:1605.04711]
 *
 *     D    = threshold mean|w|                threshold of the span
 *     a    = mean{ |w_i| : |w_i| > D }        its scale
 *     q(w) = +a if w > D,  -a if w < -D,  else 0
 *     s(w) = w                                surrogate
 */
#include "quant/schemes/formulas.h"

enum { THRESHOLD };         /* index in qg_quant.arg */

static const qg_key keys[] = {
    QG_AS_KEY,
    { .name = "threshold", .fallback = (double)0.7f, .min = 0.01, .max = 10, .about = "D, as a multiple of mean|w|" },
    QG_PER_CHANNEL_KEY("D and a of each output channel"),
    QG_SURROGATE_KEYS(QG_SURROGATE_IDENTITY),
    { .name = NULL }
};

/* D; 0 for an empty span. */
float qg__twn_delta(qg_span w, float threshold)
{
    return w.n ? (float)((double)threshold * qg__span_sum_abs(w) / (double)w.n) : 0.0f;
}

/* { D, a, a }: a is the scale of positive and of negative weights. */
static qg_constants constants(qg_quant q, qg_span w, const float *learned)
{
    size_t       kept;
    const float  d   = qg__twn_delta(w, (float)q.arg[THRESHOLD]);
    const double sum = qg_span_sum_abs_above(w, d, &kept);
    const float  a   = kept ? (float)(sum / (double)kept) : 0.0f;
    return (qg_constants){ .ternary = { d, a, a } };
}

const qg_scheme qg__twn_scheme = {
    .name        = "twn",
    .about       = "{-a, 0, +a}, one a per layer or output channel",
    .keys        = keys,
    .bits        = 2,
    .roles       = QG_WEIGHT,               /* it quantizes weights only */
    .granularity = QG_EITHER_SCALE,         /* per tensor or per channel */
    .form        = &qg_ternary_form,
    .ops         = QG_FORM_OPS("twn"),      /* the op of a form, under this name */
    .constants   = constants,
    .explain =
        "Ternary weights with one scale per tensor.           Li, Zhang, Liu 2016, arXiv:1605.04711\n"
        "\n"
        "    D    = threshold * mean|w|\n"
        "    a    = mean{ |w| : |w| > D }\n"
        "    q(w) = +a if w > D, -a if w < -D, else 0\n"
        "    s(w) = w                                the gradient passes unchanged and unclipped\n"
        "\n"
        "Learns nothing.  If all weights are zero, a = 0 and q = 0.  per-channel=yes (per_channel)\n"
        "computes D and a for each output channel; the paper has one of each per tensor.\n"
        "Other implementations: the authors' Caffe fork adds 1e-6 to the denominator of a, only on the\n"
        "GPU; their later PyTorch code has D = 0.75 mean|w| per output channel, as RedBit has.\n",
};

qg_quant qg_twn(qg_twn_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme      = &qg__twn_scheme,
                                         .per_channel = spec.per_channel,
                                         .surrogate   = spec.surrogate,
                                         .arg         = { [THRESHOLD] = spec.threshold } });
}
