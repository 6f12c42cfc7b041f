/* Larq's SteTern; formulas in quant/reference/ternary.h. */
#include "quant/schemes/formulas.h"

enum { THRESHOLD, RELATIVE, SCALED };       /* in arg */

/* The default of the threshold, 0, depends on relative. */
static const qg_key keys[] = {
    QG_AS_KEY,
    { .name  = "threshold", .min = 0.01, .max = 10,
      .about = "D, as a multiple of mean|w|, 0.7 by default; with relative=no a value, 0.05 by default" },
    { .name = "relative", .fallback = 1, .words = "no|yes", .about = "the threshold is a multiple of mean|w|" },
    QG__SCALED_KEY,
    QG_SURROGATE_KEYS(QG_SURROGATE_CLIP),
    { .name = NULL }
};

static qg_constants constants(qg_quant q, qg_span w, const float *learned)
{
    const bool  relative = q.arg[RELATIVE] != 0;
    const float own = relative ? 0.7f : 0.05f, threshold = q.arg[THRESHOLD] == 0 ? own : (float)q.arg[THRESHOLD];
    return (qg_constants){ .ternary = { relative ? qg__twn_delta(w, threshold) : threshold, 1.0f, 1.0f } };
}

static qg_mix mix(qg_quant q, qg_span w, const qg_constants *k, const double *sum)
{
    return qg__relative_mix(q.arg[SCALED] != 0, w);
}

static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    return qg__relative_surrogate(q.arg[SCALED] != 0, q, i, at, to);
}

static const char *advice(qg_quant q)
{
    if (q.arg[RELATIVE] != 0) return NULL;
    return "most initial weights may lie below the fixed threshold, and stay there; relative=yes makes it a multiple of mean|w|";
}

const qg_scheme qg__ste_tern_scheme = {
    .name      = "ste-tern",
    .about     = "{-1, 0, +1}",
    .keys      = keys,
    .paper     = "relative=no,gradient=plain",
    .mix       = mix,
    .advice    = advice,
    .surrogate = surrogate,
    .bits      = 2,
    .roles     = QG_WEIGHT,
    .float_ends = true,
    .scales    = QG_UNSCALED,
    .form      = &qg_ternary_form,
    .ops       = QG_FORM_OPS("ste_tern"),
    .own       = qg__clip_at_1,
    .constants = constants,
    .explain =
        "Ternary weights without a scale: SteTern of the Larq library.\n"
        "\n"
        "    D    = threshold * mean|w|, 0.7 by default\n"
        "           threshold, 0.05 by default, with relative=no (absolute): Larq's own\n"
        "    q(w) = +1 if w > D, -1 if w < -D, else 0\n"
        "    s(w) = clip(w, -1, 1)                   dw = dq where |w| <= 1, else 0\n"
        "\n"
        "Learns nothing.  If all weights are zero, q = 0.  dw is divided by mean|w|, else SGD would move\n"
        "the latent weights too slowly; gradient=plain (plain_gradient) omits this.  With as=paper\n"
        "(as_paper) initial weights below 0.05 are all 0, and wide layers do not train.\n"
        "Models keep first and last layers in float unless --first-last quantized.\n",
};

qg_quant qg_ste_tern(qg_ste_tern_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme    = &qg__ste_tern_scheme,
                                         .surrogate = spec.surrogate,
                                         .as_paper  = spec.as_paper,
                                         .arg       = { [THRESHOLD] = spec.threshold,
                                                        [RELATIVE]  = !spec.absolute,
                                                        [SCALED]    = !spec.plain_gradient } });
}
