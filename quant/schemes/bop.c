/* Weights of -1 and +1 without latent weights. */
#include "quant/schemes/formulas.h"

static void start_signs(qg_quant q, qg_tensor x, float *const *learned)
{
    for (size_t i = 0, n = qg_count(x.shape); i < n; i++) x.data[i] = qg_sign_of(x.data[i]);
}

static const qg_key bop_keys[] = { QG_AS_KEY, { .name = NULL } };

/* Weights that qg_bop trains equal their signs; loaded weights need not. */
const qg_scheme qg__bop_scheme = {
    .name      = "bop",
    .about     = "{-1, +1} without latent weights; requires --optimizer bop",
    .keys      = bop_keys,
    .bits      = 1,
    .roles     = QG_WEIGHT,
    .scales    = QG_UNSCALED,
    .flips     = true,
    .form      = &qg_sign_form,
    .ops       = QG_FORM_OPS("sign_weight"),
    .constants = qg__unit_signs,
    .start     = start_signs,
    .explain =
        "Weights of -1 and +1 without latent weights.    Helwegen et al. 2019, arXiv:1906.02107\n"
        "\n"
        "    q(w) = sign(w)                          equal to w, which starts as a sign and flips\n"
        "    s(w) = w\n"
        "    m    = (1 - gamma) m + gamma dq,   w = -w if m w > 0 and |m| > threshold    (algorithm 1)\n"
        "\n"
        "Learns nothing.  The optimizer bop flips these weights and trains the other parameters with\n"
        "Adam; other optimizers refuse them.  gamma is --gamma times the current learning rate divided by\n"
        "--lr; in the paper it has a separate schedule.\n",
};

qg_quant qg_bop_weight(void)
{
    return qg_quant_defaults((qg_quant){ .scheme = &qg__bop_scheme });
}
