/* TWN as a layer's weight quantizer; formulas and surrogate in quant/twn.h. */
#include "quant/scheme.h"
#include "quant/twn.h"

static const qg_op twn_op        = { .name = "twn", .backward = qg_surrogate_backward, .straight_through = true };
static const qg_op twn_sloped_op = { .name = "twn", .backward = qg_surrogate_backward };

static qg_var *apply(qg_tape *t, qg_quant q, qg_var *x, qg_var *const *learned)
{
    (void)learned;
    if (!(q.arg[0] >= 0))
        return qg_reject(t, QG_EARG, "twn: threshold is %g, not 0 or more", (double)q.arg[0]);
    qg_var *y = qg_record_surrogate(t, &twn_op, &twn_sloped_op, x, q.surrogate);
    if (!y) return NULL;
    const size_t n = qg_count(x->shape);
    const float  d = qg__twn_delta(n, x->data, q.arg[0]), a = qg__twn_alpha(n, x->data, d);
    qg__ternarize(n, x->data, d, a, a, y->data);
    return y;
}

static qg_status encode(qg_quant q, qg_tensor x, const float *const *learned, qg_codes *out)
{
    (void)learned;
    const size_t n = qg_count(x.shape);
    const float  d = qg__twn_delta(n, x.data, q.arg[0]);
    for (size_t i = 0; i < n; i++) out->code[i] = (x.data[i] > d) - (x.data[i] < -d);
    out->scale[0] = qg__twn_alpha(n, x.data, d);
    out->n_scale  = 1;
    out->bits     = 2;
    return QG_OK;
}

static const qg_scheme twn = {
    .name    = "twn",
    .roles   = QG_WEIGHT,
    .apply   = apply,
    .encode  = encode,
    .explain =
        "Ternary weights with one scale per tensor.           Li, Zhang, Liu 2016, arXiv:1605.04711\n"
        "\n"
        "    D    = threshold * mean|w|              threshold 0.7 by default\n"
        "    a    = mean{ |w| : |w| > D }\n"
        "    q(w) = +a if w > D, -a if w < -D, else 0\n"
        "    s(w) = w                                the gradient passes unchanged and unclipped\n"
        "\n"
        "Learns nothing.  All weights zero: a = 0 and q = 0.\n"
        "Other implementations: the authors' Caffe fork adds 1e-6 to the denominator of a on the GPU\n"
        "only; Larq's SteTern has D but no a; RedBit takes D and a per output channel.\n",
};

qg_quant qg_twn(qg_twn_spec spec)
{
    return (qg_quant){ .scheme = &twn,
                       .bits   = 2,
                       .arg    = { spec.threshold == 0 ? 0.7f : spec.threshold } };
}
