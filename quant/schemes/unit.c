/* k bits on the fixed range [-1, 1], with or without a level at 0. */
#include <float.h>
#include <math.h>

#include "quant/schemes/formulas.h"

enum { ZERO, RELATIVE };    /* in arg */

#define KEYS(zero, ...)                                                                             \
    {                                                                                               \
        QG_AS_KEY,                                                                                  \
        { QG_BITS_KEY(2, 1, 8), .about = "bits per code" },                                         \
        { .name = "zero", .fallback = zero, .words = "no|yes", .when = "bits=2..8",                 \
          .about = "0 is a level, which leaves one level fewer" },                                  \
        __VA_ARGS__ QG_OWN_SURROGATE_KEYS, { .name = NULL }                                         \
    }
#define RELATIVE_KEY { .name = "relative", .fallback = 1, .words = "no|yes", .about = "quantize w / (2 mean|w|)" },
static const qg_key keys[] = KEYS(0, ), weight_keys[] = KEYS(1, RELATIVE_KEY);

static bool is_relative(qg_quant q) { return qg__quant_role(q) == QG_WEIGHT && q.arg[RELATIVE] != 0; }

/* Of weights uniform in +-b, 2 mean|w| is b.  Below FLT_MIN, 1 / mean may be infinite. */
static qg_constants constants(qg_quant q, qg_span x, const float *learned)
{
    const float mean  = is_relative(q) ? qg_span_mean_abs(x) : 0.5f;
    const float end   = mean >= FLT_MIN ? 2.0f * mean : 1.0f;
    const float steps = qg__steps(q.arg[ZERO] != 0 ? q.bits - 1 : q.bits);
    return (qg_constants){ .uniform = { .hi = end, .from = 1.0f / end, .steps = steps, .step = 1.0f / steps,
                                        .variant = (float)q.arg[ZERO] } };
}

static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    const double end = is_relative(q) ? 2 * qg__point_mean_abs(q, i, at) : 1;
    return fmin(fmax(to->x[i] / end, -1), 1);
}

/* Small initial weights would all be rounded to 0. */
static void start(qg_quant q, qg_tensor x, float *const *learned)
{
    if (q.role == QG_WEIGHT && !is_relative(q)) qg__stretch_to_unit(x);
}

const qg_scheme qg__unit_scheme = {
    .name        = "unit",
    .about       = "uniform levels in [-1, 1], including 0 with zero=yes",
    .keys        = keys,
    .weight_keys = weight_keys,
    .paper       = "relative=no",
    .measures_weights = true,
    .roles      = QG_WEIGHT | QG_INPUT,
    .rectifies  = true,
    .float_ends = true,
    .clip       = 1.0f,
    .form       = &qg_unit_form,
    .ops        = QG_ACTIVATION_OR_FORM_OPS("unit"),
    .own_slope  = true,
    .surrogate  = surrogate,
    .start      = start,
    .constants  = constants,
    .activation = qg_form_activation,
    .explain =
        "Weights and inputs on uniform levels in [-1, 1].            BNN-PYNQ's nets in Brevitas: zero=yes\n"
        "\n"
        "    zero=no        n = 2^bits - 1          q(x) = (2 floor(clip(x, -1, 1) n / 2) + 1) / n\n"
        "    zero=yes       n = 2^(bits - 1) - 1    q(x) = round(clip(x, -1, 1) n) / n    ties to even\n"
        "    s(x) = clip(x, -1, 1)                  dx = dy where |x| <= 1, else 0\n"
        "    weights   q(w / r), r = 2 mean|w|, and dw = dq / r where |w| <= r\n"
        "\n"
        "Learns nothing.  2 bits give {-1, -1/3, 1/3, 1} with zero=no and {-1, 0, 1} with zero=yes.  1\n"
        "bit is always zero=no, the sign.  In C, zero is off by default.  NaN stays NaN.  For inputs the\n"
        "scheme replaces relu.  Latent weights are clipped to [-1, 1] after each step.  With relative=no\n"
        "(fixed), as in Brevitas and as=paper (as_paper), weights are not divided by r and start\n"
        "stretched to fill [-1, 1], where usual learning rates hardly move them.\n"
        "Models keep first and last layers in float unless --first-last quantized.\n"
        "Other implementations: Brevitas uses zero=yes for 2-bit inputs as well, passes their gradient up\n"
        "to |x| = 1 + 1 / (2 n), surrogate=clip,surrogate-arg=1.5 for 2 bits, and that of weights\n"
        "everywhere.  A surrogate set with surrogate= applies to x or w itself, without the factor 1 / r.\n",
};

qg_quant qg_unit(qg_unit_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme    = &qg__unit_scheme,
                                         .bits      = spec.bits,
                                         .surrogate = spec.surrogate,
                                         .as_paper  = spec.as_paper,
                                         .arg       = { [ZERO] = spec.zero, [RELATIVE] = !spec.fixed && !spec.as_paper } });
}
