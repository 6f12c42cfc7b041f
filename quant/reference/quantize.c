#include "quant/reference/quantize.h"

#include "quant/operand.h"
#include "quant/reference/code_array.h"
#include "quant/round.h"

#include <float.h>

const qg_quantize_v2_attrs qg_quantize_v2_defaults = { .mode                 = QG_MIN_COMBINED,
                                                       .round_mode           = QG_HALF_AWAY_FROM_ZERO,
                                                       .axis                 = QG_NO_AXIS,
                                                       .ensure_minimum_range = 0.01f };
const qg_dequantize_attrs  qg_dequantize_defaults  = { .mode = QG_MIN_COMBINED, .axis = QG_NO_AXIS };

/* The axis has been checked. */
static qg_status check_mode(const char *op, qg_quantize_mode mode, int axis, const qg_array *x)
{
    const bool          single  = axis < 0 || x->dims[axis] == 1;
    const qg__attribute attrs[] = {
        { "mode", (int)mode, QG_MIN_COMBINED, QG_SCALED, "MIN_COMBINED, MIN_FIRST or SCALED" },
        { "axis", axis, -1, mode == QG_MIN_FIRST && !single ? -1 : axis, "-1 for MIN_FIRST" },
    };
    return QG__CHECK_ATTRIBUTES(op, attrs);
}

/* ---- quantize_v2 ---- */

/* How one slice is quantized; the range is what the operator returns. */
typedef struct quantizer {
    qg_quantize_mode mode;
    bool             to_even;       /* SCALED */
    qg__code_type    t;
    float            lo, hi;
    float            scale;         /* codes per unit */
    float            offset;        /* half the codes, or what MIN_FIRST subtracts */
} quantizer;

static float larger(float a, float b)
{
    return a > b ? a : b;
}

/* Codes per unit that keep one end of the range within the codes; FLT_MAX if that end is of no
 * concern, being 0 or on the other side of it. */
static float side_scale(float code, float end)
{
    return code * end > 0.0f ? code / end : FLT_MAX;
}

static void scale_tf2(quantizer *q, bool narrow)
{
    const float qlo  = (float)(q->t.lo + (narrow ? 1 : 0));
    const float qhi  = (float)q->t.hi;
    const float s_lo = side_scale(qlo, q->lo);
    const float s_hi = side_scale(qhi, q->hi);
    q->scale         = s_lo < s_hi ? s_lo : s_hi;
    q->lo            = qlo / q->scale;
    q->hi            = qhi / q->scale;
}

static void scale_r14(quantizer *q)
{
    const float m = larger(fabsf(q->lo), fabsf(q->hi));
    q->scale      = m > 0.0f ? (float)q->t.hi / m : 0.0f;
    q->lo         = q->t.lo < 0 ? -m : 0.0f;
    q->hi         = m;
}

static quantizer plan(qg_quantize_v2_attrs a, qg_dtype dtype, float min, float max)
{
    quantizer   q   = { .mode    = a.mode,
                        .to_even = a.round_mode == QG_HALF_TO_EVEN,
                        .t       = qg__code_type_of(dtype) };
    const float eps = larger(1.0f, larger(fabsf(min), fabsf(max))) * a.ensure_minimum_range;
    q.lo            = min < 0.0f ? min : 0.0f;
    q.hi            = larger(0.0f, larger(max, q.lo + eps));
    const float  width = q.hi - q.lo;
    const double steps = (double)(q.t.hi - q.t.lo);
    if (a.mode == QG_MIN_COMBINED) {
        q.scale  = q.hi == q.lo ? 0.0f : (float)(steps / (double)width);
        q.offset = (float)-q.t.lo;
    } else if (a.mode == QG_MIN_FIRST) {
        q.scale  = q.hi == q.lo ? 0.0f : (float)(steps / (double)width);
        q.offset = qg_round_away(q.lo * q.scale) - (float)q.t.lo;
    } else if (a.scaled_variant == QG_SCALED_R14) {
        scale_r14(&q);
    } else {
        scale_tf2(&q, a.narrow_range);
    }
    return q;
}

/* A range wider than float32, or too narrow for a float32 scale, would give codes that are all alike. */
static qg_status check_plan(const char *op, size_t k, float min, float max, const quantizer *q)
{
    const bool narrow = isfinite(q->lo) && isfinite(q->hi) && (q->mode == QG_SCALED || isfinite(q->hi - q->lo));
    if (narrow && isfinite(q->scale)) return QG_OK;
    return qg_fail(QG_EARG, "%s: min_range[%zu] is %.9g and max_range[%zu] %.9g, %s for float32 codes of %d bits",
                   op, k, (double)min, k, (double)max, narrow ? "too narrow" : "too wide", q->t.bits);
}

/* The code as a float, before it is truncated and saturated. */
static float quantize(const quantizer *q, float x)
{
    if (q->mode == QG_MIN_FIRST) {
        /* The largest float below 2^31 keeps the cast of int32 codes defined. */
        const float top = (float)q->t.hi < 2147483520.0f ? (float)q->t.hi : 2147483520.0f;
        return qg_clamp(qg_round_away(x * q->scale) - q->offset, (float)q->t.lo, top);
    }
    const float c = qg_clamp(x, q->lo, q->hi);
    if (q->mode == QG_SCALED)
        return q->to_even ? qg_round_even(c * q->scale) : qg_round_away(c * q->scale);
    const float t = (c - q->lo) * q->scale;
    return q->t.lo < 0 ? qg_round_away(t - q->offset) : t + 0.5f;
}

static qg_status check_quantize(const char *op, qg_quantize_v2_attrs a, const qg_array *input,
                                const qg_array *min, const qg_array *max, const qg_array *output)
{
    const qg__operand rows[] = {
        { "input", input, .dtypes = QG__F32 },
        { "min_range", min, .dtypes = QG__F32, .along = "input", .axis = a.axis, .any_rank = true,
          .values = QG__FINITE },
        { "max_range", max, .dtypes = QG__F32, .along = "input", .axis = a.axis, .any_rank = true, .values = QG__FINITE,
          .least = "min_range" },
        { "output", output, .dtypes = QG__CODES, .like = "input" },
    };
    const int           rounding = a.mode == QG_SCALED ? QG_HALF_TO_EVEN : QG_HALF_AWAY_FROM_ZERO;
    const qg__attribute attrs[]  = {
        { "round_mode", (int)a.round_mode, QG_HALF_AWAY_FROM_ZERO, rounding,
          "HALF_AWAY_FROM_ZERO, or with SCALED HALF_TO_EVEN" },
        { "scaled_variant", (int)a.scaled_variant, QG_SCALED_TF2, QG_SCALED_R14, "TF2 or R14" },
    };
    qg_status s = QG__CHECK_OPERANDS(op, rows);
    if (!s) s = check_mode(op, a.mode, a.axis, input);
    if (!s) s = QG__CHECK_ATTRIBUTES(op, attrs);
    if (!s) s = qg__check_threshold(op, "ensure_minimum_range", a.ensure_minimum_range);
    for (size_t k = 0; !s && k < qg_array_count(min); k++) {
        const float     lo = ((const float *)min->data)[k];
        const float     hi = ((const float *)max->data)[k];
        const quantizer q  = plan(a, output->dtype, lo, hi);
        s                  = check_plan(op, k, lo, hi, &q);
    }
    return s;
}

/* The range that is returned: of rank 0 for a single slice, even one along an axis. */
static qg_status check_range(const char *op, int axis, const qg_array *input, const qg_array *min, const qg_array *max)
{
    const int         along  = axis >= 0 && input->dims[axis] == 1 ? -1 : axis;
    const qg__operand rows[] = {
        { "input", input, .dtypes = QG__F32 },
        { "output_min", min, .dtypes = QG__F32, .along = "input", .axis = along },
        { "output_max", max, .dtypes = QG__F32, .along = "input", .axis = along },
    };
    return QG__CHECK_OPERANDS(op, rows);
}

qg_status qg_quantize_v2(qg_quantize_v2_attrs attrs, const qg_array *input,
                         const qg_array *min_range, const qg_array *max_range, qg_array *output,
                         qg_array *output_min, qg_array *output_max)
{
    const char *op = "quantize_v2";
    qg_status   s  = check_quantize(op, attrs, input, min_range, max_range, output);
    if (!s) s = check_range(op, attrs.axis, input, output_min, output_max);
    if (s) return s;
    const size_t slices = qg_array_count(min_range);
    const qg_split d = qg__split_at(input, attrs.axis);
    const float    *x = input->data;
    for (size_t k = 0; k < slices; k++) {
        const quantizer q = plan(attrs, output->dtype, ((const float *)min_range->data)[k],
                                 ((const float *)max_range->data)[k]);
        ((float *)output_min->data)[k] = q.lo;
        ((float *)output_max->data)[k] = q.hi;
        for (size_t o = 0; o < d.outer; o++)
            for (size_t i = (o * d.depth + k) * d.inner, e = i + d.inner; i < e; i++)
                qg__set_code(output, i, qg_to_int((double)quantize(&q, x[i]), q.t.lo, q.t.hi));
    }
    return QG_OK;
}

int64_t qg_float_to_quantized_unclamped(qg_dtype t, float x, float min, float max)
{
    const qg__code_type type = qg__code_type_of(t);
    if (min == max) return type.lo;
    const double n     = (double)(type.hi - type.lo) + 1.0;
    const double scale = n / ((double)(max - min) * (n / (n - 1.0)));
    const double q     = round((double)x * scale) - round((double)min * scale);
    return qg_to_int(q, -(INT64_C(1) << 53), INT64_C(1) << 53) + type.lo;
}

/* ---- dequantize ---- */

/* y = (q + before) * scale + after, or / by the scale. */
typedef struct dequantizer {
    float before, scale, after;
    bool  divide;
} dequantizer;

static dequantizer plan_back(qg_dequantize_attrs a, qg_dtype dtype, float min, float max)
{
    const qg__code_type t     = qg__code_type_of(dtype);
    const float         lo    = (float)t.lo;
    const float         hi    = (float)t.hi;
    const double        steps = (double)(t.hi - t.lo);
    if (a.mode == QG_MIN_COMBINED)
        return (dequantizer){ .before = -lo, .scale = (max - min) / (hi - lo), .after = min };
    if (a.mode == QG_SCALED) {
        const float s = max / hi;
        const float low = t.lo < 0 ? min / (float)(t.lo + (a.narrow_range ? 1 : 0)) : s;
        return (dequantizer){ .scale = larger(low, s), .after = -0.0f };     /* adding 0 would make 0 of -0 */
    }
    if (min == max) return (dequantizer){ .after = min };
    if (a.drift_free) {
        const float s = (float)(steps / (double)(max - min));
        return (dequantizer){ .before = qg_round_away(min * s) - lo, .scale = s, .divide = true };
    }
    const float s = (float)((double)(max - min) / steps);
    return (dequantizer){ .scale = s, .after = qg_round_away(min / s) * s - lo * s };
}

static float real_of(const dequantizer *q, int64_t code)
{
    const float v = (float)code + q->before;
    return (q->divide ? v / q->scale : v * q->scale) + q->after;
}

/* Every result is finite: the least and the greatest code of the slice tell. */
static qg_status check_slice(const char *op, const dequantizer *q, const qg_array *input, qg_split d, size_t k,
                             float min, float max)
{
    int64_t code[2] = { INT64_MAX, INT64_MIN };
    for (size_t o = 0; o < d.outer; o++)
        for (size_t i = (o * d.depth + k) * d.inner, e = i + d.inner; i < e; i++) {
            const int64_t c = qg__code(input, i);
            code[0]         = c < code[0] ? c : code[0];
            code[1]         = c > code[1] ? c : code[1];
        }
    for (int i = 0; i < 2 && code[0] <= code[1]; i++)
        if (!isfinite(real_of(q, code[i])))
            return qg_fail(QG_EARG, "%s: min_range[%zu] is %.9g and max_range[%zu] %.9g, of which code %d is %g",
                           op, k, (double)min, k, (double)max, (int)code[i], (double)real_of(q, code[i]));
    return QG_OK;
}

qg_status qg_dequantize(qg_dequantize_attrs attrs, const qg_array *input,
                        const qg_array *min_range, const qg_array *max_range, qg_array *output)
{
    const char       *op     = "dequantize";
    const int         axis   = attrs.axis;
    const qg__operand rows[] = {
        { "input", input, .dtypes = QG__CODES },
        { "min_range", min_range, .dtypes = QG__F32, .along = "input", .axis = axis, .any_rank = true, .or_one = true,
          .values = QG__FINITE },
        { "max_range", max_range, .dtypes = QG__F32, .along = "input", .axis = axis, .any_rank = true, .or_one = true,
          .values = QG__FINITE },
        { "output", output, .dtypes = QG__F32, .like = "input" },
    };
    qg_status s = QG__CHECK_OPERANDS(op, rows);
    if (!s) s = check_mode(op, attrs.mode, axis, input);
    if (s) return s;
    const qg_split d  = qg__split_at(input, axis);
    const float    *lo = min_range->data;
    const float    *hi = max_range->data;
    for (size_t k = 0; !s && k < d.depth; k++) {
        const dequantizer q = plan_back(attrs, input->dtype, lo[k], hi[k]);
        s                   = check_slice(op, &q, input, d, k, lo[k], hi[k]);
    }
    for (size_t k = 0; !s && k < d.depth; k++) {
        const dequantizer q = plan_back(attrs, input->dtype, lo[k], hi[k]);
        for (size_t o = 0; o < d.outer; o++)
            for (size_t i = (o * d.depth + k) * d.inner, e = i + d.inner; i < e; i++)
                ((float *)output->data)[i] = real_of(&q, qg__code(input, i));
    }
    return s;
}
