#include "quant/reference/qdq.h"

#include "quant/operand.h"
#include "quant/schemes/formulas.h"

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

static qg__qdq_codes codes_of(qg_quantize_and_dequantize_attrs a)
{
    return (qg__qdq_codes){ .bits      = a.num_bits,
                            .is_signed = a.signed_input,
                            .narrow    = a.narrow_range,
                            .given     = a.range_given,
                            .ties_up   = a.round_mode == QG_HALF_UP };
}

static qg_constants constants_at(const operands *p, size_t k)
{
    float lo, hi;
    if (p->attrs.range_given) lo = p->min[k], hi = p->max[k];
    else qg_span_min_max(qg__span_at(p->isa, p->d, k, p->x), &lo, &hi);
    return qg__qdq_constants(codes_of(p->attrs), lo, hi);
}

static qg_status check_slice(const char *op, const operands *p, size_t k)
{
    const bool         given = p->attrs.range_given;
    const qg_constants c     = constants_at(p, k);
    if (qg__qdq_is_scalable(given, &c)) return QG_OK;
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
            qg_scaled_form.loops[p.isa]->values(&c, p.d.inner, p.x + at, qg__floats(output) + at);
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
