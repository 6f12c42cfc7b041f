/* Binary weights with a scale; formulas in quant/reference/binary.h. */
#include "quant/schemes/formulas.h"

qg_constants qg__mean_signs(qg_quant q, qg_span w, const float *learned)
{
    return (qg_constants){ .sign = { qg_span_mean_abs(w) } };
}

static const qg_key keys[] = { QG_AS_KEY, QG_SURROGATE_KEYS(QG_SURROGATE_IDENTITY), { .name = NULL } };

static const char explain_binary[] =
    "Binary weights with one scale, per tensor or per output channel.\n"
    "          Rastegari et al. 2016, arXiv:1603.05279, as Binary-Weight-Network (per channel)\n"
    "\n"
    "    a    = mean|w|                          over the tensor, or over one output channel\n"
    "    q(w) = +a if w >= 0, else -a            so sign(0) = +1\n"
    "    s(w) = w                                the gradient passes unchanged; a is a constant\n"
    "\n"
    "Learns nothing.  If all weights are zero, q = 0.\n"
    "Other implementations: XNOR-Net's backward pass scales and masks the gradient.  In TWN's Caffe\n"
    "code, binary weights have no a.  torch.sign gives 0 at 0.\n";

/* The members that both have. */
#define SCHEME                                                                                                  \
    .keys = keys, .bits = 1, .roles = QG_WEIGHT, .form = &qg_sign_form, .ops = QG_FORM_OPS("binary"),           \
    .constants = qg__mean_signs, .explain = explain_binary

const qg_scheme qg__binary_scheme = {
    SCHEME,
    .name        = "binary",
    .about       = "{-a, +a}, one a per layer",
};

/* The same with a scale per channel; on the command line it has a name of its own. */
const qg_scheme qg__binary_channel_scheme = {
    SCHEME,
    .name        = "binary-channel",
    .about       = "{-a, +a}, one a per output channel",
    .granularity = QG_CHANNEL_SCALE,
};

qg_quant qg_binary(qg_binary_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme    = spec.per_channel ? &qg__binary_channel_scheme : &qg__binary_scheme,
                                         .surrogate = spec.surrogate });
}
