#include "quant/reference/fake_quant.h"

#include <math.h>

#include "quant/engine.h"
#include "quant/operand.h"
#include "quant/reduce.h"
#include "quant/round.h"

const qg_fake_quant_attrs qg_fake_quant_defaults      = { .num_bits = 8 };
const qg_fake_quant_args  qg_fake_quant_args_defaults = { .min = -6, .max = 6, .num_bits = 8 };

qg_status qg_fake_quant_nudge(qg_fake_quant_attrs attrs, float min, float max, qg_fake_quant_range *range)
{
    qg_levels       u;
    int             zero_point;
    const qg_status s = qg__nudge(attrs.num_bits, attrs.narrow_range, min, max, &u, &zero_point);
    if (s) return s;
    *range = (qg_fake_quant_range){ .scale = u.step, .inv = u.steps, .nmin = u.lo, .nmax = u.hi, .q0 = u.zero,
                                    .zero_point = zero_point };
    return QG_OK;
}

/* ---- floats that share a range ---- */

static qg_constants constants_of(const qg_fake_quant_range *r, bool divides)
{
    return (qg_constants){ .uniform = { .lo = r->nmin, .hi = r->nmax, .step = r->scale, .steps = r->inv, .zero = r->q0,
                                        .variant = divides ? 1.0f : 0.0f } };
}

void qg_fake_quant_divide(const qg_fake_quant_range *r, size_t n, const float *x, float *y)
{
    const qg_constants k = constants_of(r, true);
    qg__form_values(&qg_nudged_form, &k, n, x, y);
}

void qg_fake_quant_multiply(const qg_fake_quant_range *r, size_t n, const float *x, float *y)
{
    const qg_constants k = constants_of(r, false);
    qg__form_values(&qg_nudged_form, &k, n, x, y);
}

void qg_fake_quant_codes(const qg_fake_quant_range *r, size_t n, const float *y, uint8_t *code)
{
    for (size_t i = 0; i < n; i++) {
        const float   steps = r->scale == 0.0f ? 0.0f : qg_round_even(y[i] / r->scale);
        const int64_t q     = qg_to_int((double)steps, -UINT8_MAX, UINT8_MAX) + r->zero_point;
        code[i]             = (uint8_t)qg_clamp_int(q, 0, UINT8_MAX);
    }
}

/* ---- operators with one range ---- */

static qg_status nudge(qg_fake_quant_attrs attrs, float min, float max, bool divides, qg_constants *k)
{
    int zero_point;
    *k = (qg_constants){ 0 };
    const qg_status s  = qg__nudge(attrs.num_bits, attrs.narrow_range, min, max, &k->uniform, &zero_point);
    k->uniform.variant = divides ? 1.0f : 0.0f;
    return s;
}

/* sum: those below and above the range, whose order depends on n alone. */
static void backward(const qg_constants *k, const qg_array *x, const qg_array *g, qg_array *dx,
                     double sum[1][QG_FORM_SUMS])
{
    const qg_binding b = { .q = qg_fake_quant((qg_fake_quant_spec){ 0 }) };
    const qg_split   c = { 1, 1, qg_array_count(x) };
    qg__zero(dx);
    qg__form_gradient(&b, (qg_surrogate){ 0 }, c, k, x->data, g->data, dx->data, sum);
}

static qg_status check_args(const char *op, qg_fake_quant_args a, qg_constants *k)
{
    if (!(a.min < a.max))
        return qg_fail(QG_EARG, "%s: min is %.9g, must be smaller than max, %.9g", op,
                       (double)a.min, (double)a.max);
    return nudge((qg_fake_quant_attrs){ a.num_bits, a.narrow_range }, a.min, a.max, false, k);
}

qg_status qg_fake_quant_with_min_max_args(qg_fake_quant_args attrs, const qg_array *inputs,
                                          qg_array *outputs)
{
    const char  *op = "fake_quant_with_min_max_args";
    qg_constants k;
    qg_status    s = check_args(op, attrs, &k);
    if (!s) s = qg__check_pair(op, "outputs", outputs, "inputs", inputs);
    if (!s) qg__form_values(&qg_nudged_form, &k, qg_array_count(inputs), inputs->data, outputs->data);
    return s;
}

qg_status qg_fake_quant_with_min_max_args_gradient(qg_fake_quant_args attrs,
                                                   const qg_array *gradients,
                                                   const qg_array *inputs, qg_array *backprops)
{
    const char       *op     = "fake_quant_with_min_max_args_gradient";
    const qg__operand rows[] = { { "inputs", inputs, .dtypes = QG__F32 },
                                 { "gradients", gradients, .dtypes = QG__F32, .like = "inputs" },
                                 { "backprops", backprops, .dtypes = QG__F32, .like = "inputs" } };
    qg_constants      k;
    qg_status         s = check_args(op, attrs, &k);
    if (!s) s = QG__CHECK_OPERANDS(op, rows);
    if (s) return s;
    backward(&k, inputs, gradients, backprops, NULL);
    return QG_OK;
}

qg_status qg_fake_quant_with_min_max_vars(qg_fake_quant_attrs attrs, const qg_array *inputs,
                                          const qg_array *min, const qg_array *max,
                                          qg_array *outputs)
{
    const qg__operand rows[] = { { "inputs", inputs, .dtypes = QG__F32 },
                                 { "outputs", outputs, .dtypes = QG__F32, .like = "inputs" },
                                 { "min", min, .dtypes = QG__F32, .scalar = true },
                                 { "max", max, .dtypes = QG__F32, .scalar = true } };
    qg_constants      k;
    qg_status         s = QG__CHECK_OPERANDS("fake_quant_with_min_max_vars", rows);
    if (!s) s = nudge(attrs, *qg__floats(min), *qg__floats(max), true, &k);
    if (!s) qg__form_values(&qg_nudged_form, &k, qg_array_count(inputs), inputs->data, outputs->data);
    return s;
}

qg_status qg_fake_quant_with_min_max_vars_gradient(qg_fake_quant_attrs attrs,
                                                   const qg_array *gradients,
                                                   const qg_array *inputs, const qg_array *min,
                                                   const qg_array *max,
                                                   qg_array *backprops_wrt_input,
                                                   qg_array *backprop_wrt_min,
                                                   qg_array *backprop_wrt_max)
{
    const qg__operand   rows[] = { { "inputs", inputs, .dtypes = QG__F32 },
                                   { "gradients", gradients, .dtypes = QG__F32, .like = "inputs" },
                                   { "min", min, .dtypes = QG__F32, .scalar = true },
                                   { "max", max, .dtypes = QG__F32, .scalar = true },
                                   { "backprops_wrt_input", backprops_wrt_input, .dtypes = QG__F32, .like = "inputs" },
                                   { "backprop_wrt_min", backprop_wrt_min, .dtypes = QG__F32, .scalar = true },
                                   { "backprop_wrt_max", backprop_wrt_max, .dtypes = QG__F32, .scalar = true } };
    qg_constants        k;
    double              sum[1][QG_FORM_SUMS];
    qg_status           s = QG__CHECK_OPERANDS("fake_quant_with_min_max_vars_gradient", rows);
    if (!s) s = nudge(attrs, *qg__floats(min), *qg__floats(max), true, &k);
    if (s) return s;
    backward(&k, inputs, gradients, backprops_wrt_input, sum);
    *qg__floats(backprop_wrt_min) = (float)sum[0][0];
    *qg__floats(backprop_wrt_max) = (float)sum[0][1];
    return QG_OK;
}

/* ---- operators with a range per channel ---- */

enum { CHUNK = 64 };    /* channels at a time */

/* Of n channels from the first on.  The ranges were valid before, so this cannot fail. */
static void nudge_chunk(qg_fake_quant_attrs attrs, const qg_array *min, const qg_array *max, size_t first, size_t n,
                        qg_constants *k)
{
    for (size_t c = 0; c < n; c++) {
        const qg_status s = nudge(attrs, qg__floats(min)[first + c], qg__floats(max)[first + c], false, &k[c]);
        QG_ASSERT(s == QG_OK);
    }
}

/* min, max and, for each channel, that they are a range. */
static qg_status check_channels(const char *op, qg_fake_quant_attrs attrs, const qg_array *x,
                                const qg_array *min, const qg_array *max)
{
    if (x->rank < 1) return qg_fail(QG_ESHAPE, "%s: rank of inputs is 0, must be 1 or more", op);
    const qg__operand   rows[] = { { "inputs", x, .dtypes = QG__F32 },
                                   { "min", min, .dtypes = QG__F32, .along = "inputs", .axis = x->rank - 1 },
                                   { "max", max, .dtypes = QG__F32, .along = "inputs", .axis = x->rank - 1 } };
    qg_status    s = QG__CHECK_OPERANDS(op, rows);
    qg_constants k;
    if (!s) s = nudge(attrs, 0.0f, 0.0f, false, &k);            /* attrs, even without channels */
    for (size_t c = 0; !s && c < min->dims[0]; c++) {
        s = nudge(attrs, qg__floats(min)[c], qg__floats(max)[c], false, &k);
        if (s) qg_fail(s, "%s, channel %zu: %s", op, c, qg_errmsg());
    }
    return s;
}

qg_status qg_fake_quant_with_min_max_vars_per_channel(qg_fake_quant_attrs attrs,
                                                      const qg_array *inputs, const qg_array *min,
                                                      const qg_array *max, qg_array *outputs)
{
    const char *op = "fake_quant_with_min_max_vars_per_channel";
    qg_status   s  = qg__check_pair(op, "outputs", outputs, "inputs", inputs);
    if (!s) s = check_channels(op, attrs, inputs, min, max);
    const size_t n = s ? 0 : qg_array_count(inputs);
    if (n == 0) return s;
    const size_t d = min->dims[0];
    const float *x = inputs->data;
    float       *y = outputs->data;
    for (size_t c = 0; c < d; c += CHUNK) {
        const size_t m = qg__smaller(d - c, CHUNK);
        qg_constants k[CHUNK];
        nudge_chunk(attrs, min, max, c, m, k);
        qg__form_columns(&qg_nudged_form, k, m, n / d, d, x + c, y + c);
    }
    return QG_OK;
}

qg_status qg_fake_quant_with_min_max_vars_per_channel_gradient(
    qg_fake_quant_attrs attrs, const qg_array *gradients, const qg_array *inputs,
    const qg_array *min, const qg_array *max, qg_array *backprops_wrt_input,
    qg_array *backprop_wrt_min, qg_array *backprop_wrt_max)
{
    const char       *op     = "fake_quant_with_min_max_vars_per_channel_gradient";
    const qg__operand rows[] = { { "inputs", inputs, .dtypes = QG__F32 },
                                 { "gradients", gradients, .dtypes = QG__F32, .like = "inputs" },
                                 { "backprops_wrt_input", backprops_wrt_input, .dtypes = QG__F32, .like = "inputs" },
                                 { "min", min, .dtypes = QG__F32 },
                                 { "max", max, .dtypes = QG__F32 },
                                 { "backprop_wrt_min", backprop_wrt_min, .dtypes = QG__F32, .like = "min" },
                                 { "backprop_wrt_max", backprop_wrt_max, .dtypes = QG__F32, .like = "max" } };
    qg_status         s      = QG__CHECK_OPERANDS(op, rows);
    if (!s) s = check_channels(op, attrs, inputs, min, max);
    if (s) return s;
    const size_t d  = min->dims[0];
    const size_t n  = qg_array_count(inputs);    /* 0 also if only the rows are missing */
    const float *x  = inputs->data;
    const float *g  = gradients->data;
    float       *dx = backprops_wrt_input->data;
    qg__zero(backprops_wrt_input);
    for (size_t c = 0; c < d; c += CHUNK) {
        const size_t m = qg__smaller(d - c, CHUNK);
        double       sum[CHUNK][QG_FORM_SUMS] = { { 0.0 } };
        qg_constants k[CHUNK];
        nudge_chunk(attrs, min, max, c, m, k);
        qg__form_columns_gradient(&qg_nudged_form, k, m, n / d, d, x + c, g + c, dx + c, sum);
        for (size_t i = 0; i < m; i++) {
            qg__floats(backprop_wrt_min)[c + i] = (float)sum[i][0];
            qg__floats(backprop_wrt_max)[c + i] = (float)sum[i][1];
        }
    }
    return QG_OK;
}
