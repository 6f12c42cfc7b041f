/* Bi-Real Net's weights; formulas in quant/reference/binary.h. */
#include <math.h>

#include "quant/schemes/formulas.h"

enum { SCALED };            /* in arg */

/* a is about 1 / sqrt(n) in the initial weights. */
static double gain(qg_quant q, size_t n) { return q.arg[SCALED] != 0 ? sqrt((double)n) : 1; }

static qg_mix mix(qg_quant q, qg_span w, const qg_constants *k, const double *sum)
{
    return (qg_mix){ .through = k->sign.scale * (float)gain(q, w.n) };
}

static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    const qg_surrogate s = qg__surrogate_or(q.surrogate, qg__clip_at_1(q));
    return s.value ? gain(q, qg_row(at->shape)) * qg__point_mean_abs(q, i, at) * s.value(s.arg, to->x[i]) : (double)NAN;
}

static const qg_key keys[] = {
    QG_AS_KEY,
    { .name = "gradient", .fallback = 1, .words = "plain|scaled",
      .about = "scaled: dw times sqrt(number of weights of the channel)" },
    QG_SURROGATE_KEYS(QG_SURROGATE_CLIP),
    { .name = NULL }
};

const qg_scheme qg__magnitude_aware_scheme = {
    .name        = "magnitude-aware",
    .about       = "{-a, +a}, one a per output channel, as in Bi-Real Net",
    .keys        = keys,
    .paper       = "gradient=plain",
    .bits        = 1,
    .roles       = QG_WEIGHT,
    .granularity = QG_CHANNEL_SCALE,
    .form        = &qg_sign_form,
    .ops         = QG_FORM_OPS("magnitude_aware"),
    .own         = qg__clip_at_1,
    .constants   = qg__mean_signs,
    .mix         = mix,
    .surrogate   = surrogate,
    .explain =
        "Binary weights with a gradient that includes their scale: Bi-Real Net.\n"
        "                                                        Liu et al. 2018, arXiv:1808.00278\n"
        "\n"
        "    a    = mean|w|                          of one output channel\n"
        "    q(w) = +a if w >= 0, else -a            so sign(0) = +1\n"
        "    dw   = dq a sqrt(n) 1[|w| <= 1]         a is a constant of the backward, n the weights of the channel\n"
        "\n"
        "Learns nothing.  If all weights of a channel are zero, q = 0 and they receive no gradient.\n"
        "The paper has no sqrt(n), as gradient=plain (plain_gradient) and as=paper (as_paper), and SGD\n"
        "then moves the weights too slowly.\n",
};

qg_quant qg_magnitude_aware(qg_magnitude_aware_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme    = &qg__magnitude_aware_scheme,
                                         .surrogate = spec.surrogate,
                                         .as_paper  = spec.as_paper,
                                         .arg       = { [SCALED] = !spec.plain_gradient } });
}
