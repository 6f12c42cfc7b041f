/* TensorFlow's quantize_and_dequantize; formulas in quant/reference/qdq.h. */
#include <float.h>
#include <math.h>

#include "quant/operand.h"
#include "quant/schemes/formulas.h"

enum { SIGNED, RANGE, MIN, MAX, NARROW, TIES };     /* in arg */
enum { MEASURED, GIVEN };                           /* of RANGE */

#define IF_GIVEN .when = "range=given"
static const qg_key keys[] = {
    QG_AS_KEY,
    { QG_BITS_KEY(8, 1, 16), .about = "bits per code; signed codes need 2 or more" },
    { .name = "signed", .fallback = 1, .words = "no|yes", .about = "codes below 0 as well as above" },
    { .name = "range", .words = "measured|given", .is = QG_KEY_SHOWN, .about = "source of the range" },
    { .name = "min", .fallback = -6, .min = -1e6, .max = 1e6, IF_GIVEN, .below = "max", .about = "lower end of the range" },
    { .name = "max", .fallback = 6, .min = -1e6, .max = 1e6, IF_GIVEN, .about = "upper end of the range" },
    { .name = "narrow-range", .words = "no|yes", .when = "signed=yes", .about = "leave out the lowest code" },
    { .name = "ties", .words = "even|up", .about = "rounding of values midway between two levels" },
    { .name = "per-channel", .words = "no|yes", .when = "range=measured",
      .about = "one range per output channel of a weight, or per channel of an input" },
    QG_OWN_SURROGATE_KEYS,
    { .name = NULL }
};

/* --- constants ------------------------------------------------------------------------------- */

static qg__qdq_codes codes_of(qg_quant q)
{
    return (qg__qdq_codes){ .bits      = q.bits,
                            .is_signed = q.arg[SIGNED] != 0,
                            .narrow    = q.arg[NARROW] != 0,
                            .given     = q.arg[RANGE] == GIVEN,
                            .ties_up   = q.arg[TIES] != 0 };
}

static qg_code_set codes(qg_quant q)
{
    const int half = 1 << (q.bits - 1), lowest = q.arg[NARROW] != 0 ? 1 - half : -half;
    return q.arg[SIGNED] != 0 ? (qg_code_set){ lowest, 1, half - lowest, 0 } : (qg_code_set){ 0, 1, 2 * half, 0 };
}

/* Of the range lo .. hi.  A measured range clips nothing; without a step, every value is 0. */
qg_constants qg__qdq_constants(qg__qdq_codes c, float lo, float hi)
{
    const int64_t half = INT64_C(1) << (c.bits - 1);
    const float   qlo  = c.is_signed ? (float)(-half + (c.narrow ? 1 : 0)) : 0.0f;
    const float   qhi  = c.is_signed ? (float)(half - 1) : (float)(2 * half - 1);
    qg_levels     u    = { .from = lo, .to = hi, .variant = c.ties_up ? 1.0f : 0.0f };
    if (!c.is_signed && hi <= 0.0f) return (qg_constants){ .uniform = u };
    const float s_lo  = qlo * lo > 0.0f ? qlo / lo : FLT_MAX;
    const float s_hi  = qhi * hi > 0.0f ? qhi / hi : FLT_MAX;
    const bool  lower = s_lo < s_hi;
    u.steps = lower ? s_lo : s_hi;
    u.step  = lower ? lo / qlo : hi / qhi;
    u.lo    = !c.given ? -INFINITY : lower ? lo : qlo * u.step;
    u.hi    = !c.given ? INFINITY : lower ? qhi * u.step : hi;
    return (qg_constants){ .uniform = u };
}

/* Finite numbers stay finite: y never decreases, so its ends tell.  An infinite number in x makes its own range NaN. */
bool qg__qdq_is_scalable(bool given, const qg_constants *k)
{
    const qg_levels u      = k->uniform;
    const float     end[2] = { given ? -FLT_MAX : u.from, given ? FLT_MAX : u.to };
    float           y[2];
    if (!isfinite(u.from) || !isfinite(u.to)) return true;
    qg__form_values(&qg_scaled_form, k, 2, end, y);
    return isfinite(y[0]) && isfinite(y[1]);
}

static qg_range range(qg_quant q)
{
    return (qg_range){ .kind = q.arg[RANGE] == GIVEN ? QG_RANGE_FIXED : QG_RANGE_CURRENT,
                       .min  = (float)q.arg[MIN],
                       .max  = (float)q.arg[MAX] };
}

static qg_constants constants(qg_quant q, qg_span x, const float *end)
{
    return qg__qdq_constants(codes_of(q), end[0], end[1]);
}

static qg_status check_constants(qg_quant q, const qg_constants *k)
{
    if (qg__qdq_is_scalable(q.arg[RANGE] == GIVEN, k)) return QG_OK;
    return qg_fail(QG_EARG, "%s: %.9g .. %.9g is a range that float32 cannot scale to codes of %d bits", q.scheme->name,
                   (double)k->uniform.from, (double)k->uniform.to, q.bits);
}

static double given_surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    return fmin(fmax(to->x[i], q.arg[MIN]), q.arg[MAX]);
}

static qg_quant complete(qg_quant q);

static qg_status check(qg_quant q)
{
    const qg_status s = qg__check_int(q.scheme->name, "bits", q.bits, q.arg[SIGNED] != 0 ? 2 : 1, 16);
    if (s) return s;
    if (complete(q).scheme != q.scheme)
        return qg_fail(QG_EARG, "%s: arg says range=%s, but the scheme is that of %s", q.scheme->name,
                       q.arg[RANGE] == GIVEN ? "given" : "measured", q.scheme->variant);
    if (q.arg[RANGE] == MEASURED) return QG_OK;
    if (q.arg[SIGNED] == 0 && !(q.arg[MAX] > 0))
        return qg_fail(QG_EARG, "%s: max is %g, so all unsigned codes are 0", q.scheme->name, q.arg[MAX]);
    const qg_constants k = constants(q, (qg_span){ .n = 0 }, (float[]){ (float)q.arg[MIN], (float)q.arg[MAX] });
    return check_constants(q, &k);
}

/* What a measured range does not clip may lie below the unsigned codes. */
static qg_status encode(qg_quant q, qg_tensor x, const float *const *learned, qg_codes *out)
{
    const qg_status s = qg__form_encode(q, x, learned, out);
    if (s || q.arg[SIGNED] != 0) return s;
    for (size_t i = 0; i < qg_count(x.shape); i++)
        if (out->code[i] < 0)
            return qg_fail(QG_EARG, "%s: %g is below 0, where an unsigned measured range has values but no codes",
                           q.scheme->name, (double)x.data[i]);
    return QG_OK;
}

/* --- the schemes ----------------------------------------------------------------------------- */

/* The members that both have. */
#define SCHEME                                                                                              \
    .name = "qdq", .about = "multiples of a factor without an offset", .keys = keys, .complete = complete,  \
    .roles = QG_WEIGHT | QG_INPUT, .check = check, .range = range, .form = &qg_scaled_form,                 \
    .constants = constants, .codes = codes

#define EXPLAIN_STEP                                                                                     \
    "\n"                                                                                                \
    "    qlo, qhi = -2^(bits-1), 2^(bits-1) - 1      with narrow-range=yes (narrow_range) qlo + 1;\n"   \
    "               0, 2^bits - 1                    with signed=no (is_unsigned)\n"                    \
    "    scale    = min(qlo / min, qhi / max)        of the sides whose code has the sign of its end\n" \
    "    step     = min / qlo or max / qhi           on the side of scale, rounded separately\n"        \
    "    R          rounds ties to even, or up with ties=up (ties_up)\n"                                \
    "\n"

#define EXPLAIN_LIMITS                                                                                   \
    "\n"                                                                                                \
    "A range that float32 cannot scale is an error, where TensorFlow returns infinities or NaN.  NaN\n" \
    "stays NaN.  The scheme does not rectify: keep the relu before it.\n"

const qg_scheme qg__qdq_scheme = {
    SCHEME,
    .variant         = "range=measured",
    .granularity     = QG_EITHER_SCALE,
    .ops             = QG_FORM_OPS("qdq"),
    .check_constants = check_constants,
    .encode          = encode,
    .explain =
        "Signed or unsigned codes times a factor, which follows from min and max of the values in each step.\n"
        "                                    tf.quantization.quantize_and_dequantize, kernels V2, V3 and V4\n"
        EXPLAIN_STEP
        "    q(x)     = R(x scale) step\n"
        "    s(x)     = x                                in all three kernels\n"
        "\n"
        "Learns nothing.  min and max are those of the tensor in each step, of an input those of the\n"
        "batch, also in evaluation; per channel with per-channel=yes (per_channel).  NaN does not count,\n"
        "and an infinity makes its range NaN, but not -infinity with signed=no.  Nothing is clipped: with\n"
        "signed=no, values below 0 have no codes; if none is above 0, all become 0.\n"
        "Other implementations: TensorFlow's V4 compares x with the min and max of its caller, which it\n"
        "ignores otherwise: with the customary zeros it has no gradient.\n"
        EXPLAIN_LIMITS,
};

static const qg_scheme given_range = {
    SCHEME,
    .variant    = "range=given",
    .ops        = QG_ACTIVATION_OP("qdq"),
    .own_slope  = true,
    .surrogate  = given_surrogate,
    .activation = qg_form_activation,
    .explain =
        "Signed or unsigned codes times a factor, which follows from a given min and max.\n"
        "                                    tf.quantization.quantize_and_dequantize, kernels V2, V3 and V4\n"
        EXPLAIN_STEP
        "    q(x)     = R(clip(x, lo, hi) scale) step    lo = qlo step, hi = qhi step, which reach\n"
        "                                                beyond min or max on one side\n"
        "    s(x)     = clip(x, min, max)                dx = dy where min <= x <= max, else 0: V4\n"
        "               x                                with surrogate=identity: V2 and V3\n"
        "\n"
        "Learns nothing.  All channels share the range.\n"
        "Other implementations: TensorFlow's documentation says that the gradient is 1 in the range of\n"
        "the codes, but V4 compares with min and max.\n"
        EXPLAIN_LIMITS,
};

static qg_quant complete(qg_quant q)
{
    q.scheme = q.arg[RANGE] == GIVEN ? &given_range : &qg__qdq_scheme;
    return q;
}

qg_quant qg_qdq(qg_qdq_spec spec)
{
    const bool own = spec.range_given && spec.min == 0 && spec.max == 0;
    return qg_quant_defaults((qg_quant){ .scheme      = &qg__qdq_scheme,
                                         .bits        = spec.bits,
                                         .per_channel = spec.per_channel,
                                         .surrogate   = spec.surrogate,
                                         .arg         = { [SIGNED] = !spec.is_unsigned,
                                                          [RANGE]  = spec.range_given ? GIVEN : MEASURED,
                                                          [MIN]    = own ? keys[MIN + 2].fallback : spec.min,
                                                          [MAX]    = own ? keys[MAX + 2].fallback : spec.max,
                                                          [NARROW] = spec.narrow_range,
                                                          [TIES]   = spec.ties_up } });
}
