#include "quant/schemes/qdq.h"

#include <float.h>
#include <math.h>

#include "quant/operand.h"
#include "quant/scheme.h"

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

static qg_quantize_and_dequantize_attrs attrs_of(qg_quant q)
{
    return (qg_quantize_and_dequantize_attrs){ .signed_input = q.arg[SIGNED] != 0,
                                               .num_bits     = q.bits,
                                               .range_given  = q.arg[RANGE] == GIVEN,
                                               .round_mode   = q.arg[TIES] != 0 ? QG_HALF_UP : QG_HALF_TO_EVEN,
                                               .narrow_range = q.arg[NARROW] != 0 };
}

static qg_code_set codes(qg_quant q)
{
    const int half = 1 << (q.bits - 1), lowest = q.arg[NARROW] != 0 ? 1 - half : -half;
    return q.arg[SIGNED] != 0 ? (qg_code_set){ lowest, 1, half - lowest, 0 } : (qg_code_set){ 0, 1, 2 * half, 0 };
}

/* Of the range lo .. hi.  A measured range clips nothing; without a step, every value is 0. */
static qg_constants constants_of(qg_quantize_and_dequantize_attrs a, float lo, float hi)
{
    const int64_t half = INT64_C(1) << (a.num_bits - 1);
    const float   qlo  = a.signed_input ? (float)(-half + (a.narrow_range ? 1 : 0)) : 0.0f;
    const float   qhi  = a.signed_input ? (float)(half - 1) : (float)(2 * half - 1);
    qg_levels     u    = { .from = lo, .to = hi, .variant = a.round_mode == QG_HALF_UP ? 1.0f : 0.0f };
    if (!a.signed_input && hi <= 0.0f) return (qg_constants){ .uniform = u };
    const float s_lo  = qlo * lo > 0.0f ? qlo / lo : FLT_MAX;
    const float s_hi  = qhi * hi > 0.0f ? qhi / hi : FLT_MAX;
    const bool  lower = s_lo < s_hi;
    u.steps = lower ? s_lo : s_hi;
    u.step  = lower ? lo / qlo : hi / qhi;
    u.lo    = !a.range_given ? -INFINITY : lower ? lo : qlo * u.step;
    u.hi    = !a.range_given ? INFINITY : lower ? qhi * u.step : hi;
    return (qg_constants){ .uniform = u };
}

/* Finite numbers stay finite: y never decreases, so its ends tell.  An infinite number in x makes its own range NaN. */
static bool is_scalable(bool given, const qg_constants *k)
{
    const qg_levels u      = k->uniform;
    const float     end[2] = { given ? -FLT_MAX : u.from, given ? FLT_MAX : u.to };
    float           y[2];
    if (!isfinite(u.from) || !isfinite(u.to)) return true;
    qg_scaled_form.values(qg__isa(), k, 2, end, y);
    return isfinite(y[0]) && isfinite(y[1]);
}

static qg_constants constants(qg_quant q, qg_span x, const float *learned)
{
    float lo = (float)q.arg[MIN], hi = (float)q.arg[MAX];
    (void)learned;
    if (q.arg[RANGE] == MEASURED) qg_span_min_max(x, &lo, &hi);
    return constants_of(attrs_of(q), lo, hi);
}

static qg_status check_constants(qg_quant q, const qg_constants *k)
{
    if (is_scalable(q.arg[RANGE] == GIVEN, k)) return QG_OK;
    return qg_fail(QG_EARG, "%s: %.9g .. %.9g is a range that float32 cannot scale to codes of %d bits", q.scheme->name,
                   (double)k->uniform.from, (double)k->uniform.to, q.bits);
}

static double given_surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    (void)at;
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
    const qg_constants k = constants(q, (qg_span){ .n = 0 }, NULL);
    return check_constants(q, &k);
}

/* What a measured range does not clip may lie below the unsigned codes. */
static qg_status encode(qg_quant q, qg_tensor x, const float *const *learned, qg_codes *out)
{
    const qg_status s = qg_form_encode(q, x, learned, out);
    if (s || q.arg[SIGNED] != 0) return s;
    for (size_t i = 0; i < qg_count(x.shape); i++)
        if (out->code[i] < 0)
            return qg_fail(QG_EARG, "%s: %g is below 0, where an unsigned measured range has values but no codes",
                           q.scheme->name, (double)x.data[i]);
    return QG_OK;
}

/* --- the schemes ----------------------------------------------------------------------------- */

#define ABOUT "multiples of a factor without an offset"

#define EXPLAIN_STEP                                                                                     \
    "\n"                                                                                                 \
    "    qlo, qhi = -2^(bits-1), 2^(bits-1) - 1      with narrow-range=yes (narrow_range) qlo + 1;\n"    \
    "               0, 2^bits - 1                    with signed=no (is_unsigned)\n"                     \
    "    scale    = min(qlo / min, qhi / max)        of the sides whose code has the sign of its end\n" \
    "    step     = min / qlo or max / qhi           on the side of scale, rounded on its own\n"

#define EXPLAIN_LIMITS                                                                                   \
    "A range that float32 cannot scale is an error.  NaN stays NaN.  The scheme does not rectify: keep\n"  \
    "the relu before it.\n"                                                                              \
    "Other implementations: TensorFlow returns infinities or NaN for ranges that are errors here; its\n"

const qg_scheme qg_qdq_scheme = {
    .name            = "qdq",
    .variant         = "range=measured",
    .about           = ABOUT,
    .keys            = keys,
    .complete        = complete,
    .roles           = QG_WEIGHT | QG_INPUT,
    .granularity     = QG_EITHER_SCALE,
    .check           = check,
    .form            = &qg_scaled_form,
    .ops             = QG_FORM_OPS("qdq"),
    .constants       = constants,
    .check_constants = check_constants,
    .codes           = codes,
    .encode          = encode,
    .explain =
        "Signed or unsigned codes times a factor, which follows from min and max of the values in each step.\n"
        "                                    tf.quantization.quantize_and_dequantize, kernels V2, V3 and V4\n"
        EXPLAIN_STEP
        "    q(x)     = R(x scale) step                  R: ties to even, or up with ties=up (ties_up)\n"
        "    s(x)     = x                                in all three kernels\n"
        "\n"
        "Learns nothing.  min and max are those of the tensor in each step, of an input those of the batch,\n"
        "also in evaluation; per channel with per-channel=yes (per_channel).  NaN does not count, and an\n"
        "infinity makes its range NaN.  Nothing is clipped.  With signed=no, numbers below 0 therefore become\n"
        "multiples of step below 0, which have no codes; if no number is above 0, all become 0.\n"
        EXPLAIN_LIMITS
        "V4 compares x with the min and max that its caller passed, although it has ignored them: with the\n"
        "customary zeros it has no gradient.\n",
};

static const qg_scheme given_range = {
    .name       = "qdq",
    .variant    = "range=given",
    .about      = ABOUT,
    .keys       = keys,
    .complete   = complete,
    .roles      = QG_WEIGHT | QG_INPUT,
    .check      = check,
    .form       = &qg_scaled_form,
    .ops        = QG_ACTIVATION_OP("qdq"),
    .own_slope  = true,
    .surrogate  = given_surrogate,
    .constants  = constants,
    .activation = qg_form_activation,
    .codes      = codes,
    .explain =
        "Signed or unsigned codes times a factor, which follows from a given min and max.\n"
        "                                    tf.quantization.quantize_and_dequantize, kernels V2, V3 and V4\n"
        EXPLAIN_STEP
        "    q(x)     = R(clip(x, lo, hi) scale) step    R: ties to even, or up with ties=up (ties_up);\n"
        "                                                lo = qlo step and hi = qhi step, which reach beyond\n"
        "                                                min or max on one side\n"
        "    s(x)     = clip(x, min, max)                dx = dy where min <= x <= max, else 0: V4\n"
        "               x                                with surrogate=identity: V2 and V3\n"
        "\n"
        "Learns nothing.  min < max; the defaults are -6 and 6.  All channels share the range.\n"
        EXPLAIN_LIMITS
        "documentation says that the gradient is 1 in the range of the codes, but V4 compares with min and\n"
        "max.\n",
};

static qg_quant complete(qg_quant q)
{
    q.scheme = q.arg[RANGE] == GIVEN ? &given_range : &qg_qdq_scheme;
    return q;
}

qg_quant qg_qdq(qg_qdq_spec spec)
{
    const bool own = spec.range_given && spec.min == 0 && spec.max == 0;
    return qg_quant_defaults((qg_quant){ .scheme      = &qg_qdq_scheme,
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

/* --- on arrays ------------------------------------------------------------------------------- */

const qg_quantize_and_dequantize_attrs qg_quantize_and_dequantize_defaults = {
    .version = QG_QDQ_V2, .signed_input = true, .num_bits = 8, .round_mode = QG_HALF_TO_EVEN, .axis = QG_NO_AXIS
};

/* Checks the attributes and makes axis QG_NO_AXIS or an index of x. */
static qg_status check_attrs(const char *op, qg_quantize_and_dequantize_attrs *a, const qg_array *x)
{
    const bool          wraps   = a->version == QG_QDQ_V3;
    const qg__attribute attrs[] = {
        { a->signed_input ? "num_bits of signed input" : "num_bits of unsigned input", a->num_bits,
          a->signed_input ? 2 : 1, a->signed_input ? 61 : 62, NULL },
        { "round_mode", (int)a->round_mode, QG_HALF_TO_EVEN, QG_HALF_UP, "HALF_TO_EVEN or HALF_UP" },
        { "version", (int)a->version, QG_QDQ_V2, QG_QDQ_V4, "V2, V3 or V4" },
        { "axis", a->axis, wraps && x->rank > 0 ? -x->rank : QG_NO_AXIS, x->rank - 1, NULL },
    };
    const qg_status s = QG__CHECK_ATTRIBUTES(op, attrs);
    if (!s && wraps && a->axis < QG_NO_AXIS) a->axis += x->rank;
    return s;
}

static qg_status check_ranges(const char *op, int axis, const qg_array *x, const qg_array *min,
                              const qg_array *max)
{
    const qg__operand rows[] = {
        { "input", x, .dtypes = QG__F32 },
        { "input_min", min, .dtypes = QG__F32, .along = "input", .axis = axis, .values = QG__FINITE },
        { "input_max", max, .dtypes = QG__F32, .along = "input", .axis = axis, .values = QG__FINITE,
          .least = "input_min" },
    };
    return QG__CHECK_OPERANDS(op, rows);
}

/* The operands of the forward, checked. */
typedef struct operands {
    qg_quantize_and_dequantize_attrs attrs;
    qg_split                         d;
    qg_isa                           isa;
    const float                     *x, *min, *max;
} operands;

static qg_constants constants_at(const operands *p, size_t k)
{
    float lo, hi;
    if (p->attrs.range_given) lo = p->min[k], hi = p->max[k];
    else qg_span_min_max(qg_span_at(p->isa, p->d, k, p->x), &lo, &hi);
    return constants_of(p->attrs, lo, hi);
}

static qg_status check_slice(const char *op, const operands *p, size_t k)
{
    const bool         given = p->attrs.range_given;
    const qg_constants c     = constants_at(p, k);
    if (is_scalable(given, &c)) return QG_OK;
    return qg_fail(QG_EARG, "%s: %s[%zu] is %.9g .. %.9g, which float32 cannot scale to codes of %d bits", op,
                   given ? "input_min .. input_max" : "the span of input", k, (double)c.uniform.from,
                   (double)c.uniform.to, p->attrs.num_bits);
}

qg_status qg_quantize_and_dequantize(qg_quantize_and_dequantize_attrs attrs, const qg_array *input,
                                     const qg_array *input_min, const qg_array *input_max,
                                     qg_array *output)
{
    const char *op = "quantize_and_dequantize";
    qg_status   s  = qg__check_pair(op, "output", output, "input", input);
    if (!s) s = check_attrs(op, &attrs, input);
    if (!s && attrs.range_given) s = check_ranges(op, attrs.axis, input, input_min, input_max);
    if (s || qg_array_count(input) == 0) return s;
    if (attrs.version == QG_QDQ_V3) attrs.round_mode = QG_HALF_TO_EVEN;
    const operands p = { .attrs = attrs,
                         .d     = qg__split_at(input, attrs.axis),
                         .isa   = qg__isa(),
                         .x     = input->data,
                         .min   = attrs.range_given ? input_min->data : NULL,
                         .max   = attrs.range_given ? input_max->data : NULL };
    for (size_t k = 0; !s && k < p.d.depth; k++) s = check_slice(op, &p, k);
    for (size_t k = 0; !s && k < p.d.depth; k++) {
        const qg_constants c = constants_at(&p, k);
        for (size_t o = 0; o < p.d.outer; o++) {
            const size_t at = (o * p.d.depth + k) * p.d.inner;
            qg_scaled_form.values(p.isa, &c, p.d.inner, p.x + at, qg__floats(output) + at);
        }
    }
    return s;
}

qg_status qg_quantize_and_dequantize_v4_gradient(qg_quantize_and_dequantize_attrs attrs,
                                                 const qg_array *gradients, const qg_array *input,
                                                 const qg_array *input_min,
                                                 const qg_array *input_max,
                                                 qg_array *input_backprop,
                                                 qg_array *input_min_backprop,
                                                 qg_array *input_max_backprop)
{
    const char       *op     = "quantize_and_dequantize_v4_gradient";
    const qg__operand rows[] = {
        { "input", input, .dtypes = QG__F32 },
        { "gradients", gradients, .dtypes = QG__F32, .like = "input" },
        { "input_backprop", input_backprop, .dtypes = QG__F32, .like = "input" },
        { "input_min", input_min, .dtypes = QG__F32 },
        { "input_min_backprop", input_min_backprop, .dtypes = QG__F32, .like = "input_min" },
        { "input_max", input_max, .dtypes = QG__F32 },
        { "input_max_backprop", input_max_backprop, .dtypes = QG__F32, .like = "input_max" },
    };
    qg_status s = QG__CHECK_OPERANDS(op, rows);
    if (!s) s = check_attrs(op, &attrs, input);
    if (!s && attrs.range_given) s = check_ranges(op, attrs.axis, input, input_min, input_max);
    if (s) return s;
    const qg_split d  = qg__split_at(input, attrs.axis);
    const float    *x  = input->data;
    const float    *g  = gradients->data;
    float          *dx = input_backprop->data;
    const bool      masks = attrs.version == QG_QDQ_V4 && attrs.range_given;
    for (size_t i = 0; !masks && i < qg_array_count(input); i++) dx[i] = g[i];
    for (size_t k = 0; masks && k < d.depth; k++) {
        const float lo = ((const float *)input_min->data)[k];
        const float hi = ((const float *)input_max->data)[k];
        for (size_t o = 0; o < d.outer; o++)
            for (size_t i = (o * d.depth + k) * d.inner, e = i + d.inner; i < e; i++)
                dx[i] = x[i] >= lo && x[i] <= hi ? g[i] : 0.0f;
    }
    for (size_t k = 0; k < qg_array_count(input_min); k++)
        ((float *)input_min_backprop->data)[k] = 0.0f;
    for (size_t k = 0; k < qg_array_count(input_max); k++)
        ((float *)input_max_backprop->data)[k] = 0.0f;
    return QG_OK;
}
