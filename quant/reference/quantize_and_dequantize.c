#include "quant/operand.h"
#include "quant/reference/quantize.h"
#include "quant/round.h"

#include <float.h>

/* How one slice is quantized. */
typedef struct step {
    float lo, hi;           /* the adjusted range */
    float scale, inv;       /* codes per unit and back; both 0 if every output is 0 */
} step;

static step adjust(qg_quantize_and_dequantize_attrs a, float lo, float hi)
{
    const int64_t half = INT64_C(1) << (a.num_bits - 1);
    const float   qlo  = a.signed_input ? (float)(-half + (a.narrow_range ? 1 : 0)) : 0.0f;
    const float   qhi  = a.signed_input ? (float)(half - 1) : (float)(2 * half - 1);
    if (!a.signed_input && hi <= 0.0f) return (step){ 0 };
    const float s_lo = qlo * lo > 0.0f ? qlo / lo : FLT_MAX;
    const float s_hi = qhi * hi > 0.0f ? qhi / hi : FLT_MAX;
    if (s_lo < s_hi) {
        const float inv = lo / qlo;
        return (step){ .lo = lo, .hi = qhi * inv, .scale = s_lo, .inv = inv };
    }
    const float inv = hi / qhi;
    return (step){ .lo = qlo * inv, .hi = hi, .scale = s_hi, .inv = inv };
}

static void apply(qg_quantize_and_dequantize_attrs a, step s, size_t n, const float *x, float *y)
{
    if (s.scale == 0.0f && s.inv == 0.0f) {     /* 0 and infinity are an infinite range */
        for (size_t i = 0; i < n; i++) y[i] = x[i] != x[i] ? x[i] : 0.0f;
        return;
    }
    /* Infinite limits make the clamp a copy. */
    const float lo = a.range_given ? s.lo : -INFINITY;
    const float hi = a.range_given ? s.hi : INFINITY;
    if (a.round_mode == QG_HALF_UP)
        for (size_t i = 0; i < n; i++)
            y[i] = qg_round_up(qg_clamp(x[i], lo, hi) * s.scale) * s.inv;
    else
        for (size_t i = 0; i < n; i++)
            y[i] = qg_round_even(qg_clamp(x[i], lo, hi) * s.scale) * s.inv;
}

/* A comparison with NaN is false, so it does not widen the range. */
static void widen(size_t n, const float *x, float *lo, float *hi)
{
    for (size_t i = 0; i < n; i++) {
        *lo = x[i] < *lo ? x[i] : *lo;
        *hi = x[i] > *hi ? x[i] : *hi;
    }
}

/* Checks the attributes and makes axis -1 or an index of x. */
static qg_status check_attrs(const char *op, qg_quantize_and_dequantize_attrs *a, const qg_array *x)
{
    const bool          wraps   = a->version == QG_QDQ_V3;
    const qg__attribute attrs[] = {
        { a->signed_input ? "num_bits of signed input" : "num_bits of unsigned input", a->num_bits,
          a->signed_input ? 2 : 1, a->signed_input ? 61 : 62, NULL },
        { "round_mode", (int)a->round_mode, QG_HALF_TO_EVEN, QG_HALF_UP, "HALF_TO_EVEN or HALF_UP" },
        { "version", (int)a->version, QG_QDQ_V2, QG_QDQ_V4, "V2, V3 or V4" },
        { "axis", a->axis, wraps && x->rank > 0 ? -x->rank : -1, x->rank - 1, NULL },
    };
    const qg_status s = QG__CHECK_ATTRIBUTES(op, attrs);
    if (!s && wraps && a->axis < -1) a->axis += x->rank;
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
    qg_split                        d;
    const float                     *x, *min, *max;
} operands;

/* The range of slice k as given, or as measured; 0 and 0 if there is no number in it. */
static void range_of(const operands *p, size_t k, float *lo, float *hi)
{
    if (p->attrs.range_given) {
        *lo = p->min[k];
        *hi = p->max[k];
        return;
    }
    *lo = INFINITY;
    *hi = -INFINITY;
    for (size_t o = 0; o < p->d.outer; o++)
        widen(p->d.inner, p->x + (o * p->d.depth + k) * p->d.inner, lo, hi);
    if (*lo > *hi) *lo = *hi = 0.0f;
}

/* Finite numbers stay finite: y never decreases, so its ends tell.  An infinite number in the input makes
 * its own range NaN. */
static qg_status check_step(const char *op, const operands *p, size_t k)
{
    float lo, hi;
    range_of(p, k, &lo, &hi);
    if (!isfinite(lo) || !isfinite(hi)) return QG_OK;
    const bool  given  = p->attrs.range_given;
    const float end[2] = { given ? -FLT_MAX : lo, given ? FLT_MAX : hi };
    float       y[2];
    apply(p->attrs, adjust(p->attrs, lo, hi), 2, end, y);
    if (isfinite(y[0]) && isfinite(y[1])) return QG_OK;
    return qg_fail(QG_EARG, "%s: %s[%zu] is %.9g .. %.9g, which float32 cannot scale to codes of %d bits", op,
                   given ? "input_min .. input_max" : "the span of input", k, (double)lo, (double)hi,
                   p->attrs.num_bits);
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
                         .x     = input->data,
                         .min   = attrs.range_given ? input_min->data : NULL,
                         .max   = attrs.range_given ? input_max->data : NULL };
    for (size_t k = 0; !s && k < p.d.depth; k++) s = check_step(op, &p, k);
    for (size_t k = 0; !s && k < p.d.depth; k++) {
        float lo, hi;
        range_of(&p, k, &lo, &hi);
        const step q = adjust(attrs, lo, hi);
        for (size_t o = 0; o < p.d.outer; o++) {
            const size_t at = (o * p.d.depth + k) * p.d.inner;
            apply(attrs, q, p.d.inner, p.x + at, (float *)output->data + at);
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
