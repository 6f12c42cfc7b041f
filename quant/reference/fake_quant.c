#include "quant/reference/fake_quant.h"

#include <math.h>

#include "core/kernels/parallel.h"
#include "quant/kernels.h"
#include "quant/operand.h"
#include "quant/reduce.h"
#include "quant/round.h"

/* ---- the range ---- */

enum { CHUNK = QG_CHANNEL_RANGES };

/* Rows are shared by threads in so many slices, whose sums are added in their order. */
enum { SLICES = 8 };

typedef qg_channel_ranges channels;

const qg_fake_quant_attrs qg_fake_quant_defaults      = { .num_bits = 8 };
const qg_fake_quant_args  qg_fake_quant_args_defaults = { .min = -6, .max = 6, .num_bits = 8 };

static qg_status check_range(qg_fake_quant_attrs attrs, float min, float max)
{
    if (attrs.num_bits < 2 || attrs.num_bits > 16)
        return qg_fail(QG_EARG, "fake_quant: num_bits is %d, must be 2 .. 16", attrs.num_bits);
    if (!isfinite(min) || !isfinite(max))
        return qg_fail(QG_EARG, "fake_quant: min is %g and max is %g, both must be finite",
                       (double)min, (double)max);
    if (min > max)
        return qg_fail(QG_EARG, "fake_quant: min is %.9g, must be smaller than max, %.9g",
                       (double)min, (double)max);
    if (min == max && min != 0.0f)
        return qg_fail(QG_EARG, "fake_quant: min and max are both %.9g, must differ or be 0",
                       (double)min);
    return QG_OK;
}

qg_status qg_fake_quant_nudge(qg_fake_quant_attrs attrs, float min, float max,
                              qg_fake_quant_range *range)
{
    const qg_status s = check_range(attrs, min, max);
    if (s) return s;
    const int qmin = attrs.narrow_range ? 1 : 0;
    const int qmax = (1 << attrs.num_bits) - 1;
    if (max == min) {
        *range = (qg_fake_quant_range){ .zero_point = qmin };
        return QG_OK;
    }
    /* Written out in float32: for [-1,1] z is 127.499992, in double it would be 127.5. */
    const float steps = (float)(qmax - qmin);
    const float width = max - min;
    const float scale = width / steps;
    const float inv   = steps / width;
    if (!isfinite(width) || !isfinite(inv))
        return qg_fail(QG_EARG, "fake_quant: max - min is %g, not a float32 range of %d steps",
                       (double)width, qmax - qmin);
    const float z  = (float)qmin - min / scale;
    const int   zp = z < (float)qmin   ? qmin
                     : z > (float)qmax ? qmax
                                       : (int)qg_round_away(z);
    const float nmin = (float)(qmin - zp) * scale;
    const float nmax = (float)(qmax - zp) * scale;
    if (!isfinite(nmax - nmin))
        return qg_fail(QG_EARG, "fake_quant: min is %.9g and max is %.9g, nudged to %g .. %g, not a float32 range",
                       (double)min, (double)max, (double)nmin, (double)nmax);
    *range = (qg_fake_quant_range){ .scale      = scale,
                                    .inv        = inv,
                                    .nmin       = nmin,
                                    .nmax       = nmax,
                                    .q0         = qg_round_up(-nmin * inv),
                                    .zero_point = zp };
    return QG_OK;
}

/* ---- floats that share a range ---- */

/* The operands of a loop: with one range, or with those of some channels of each row. */
typedef struct loop {
    const qg_fake_quant_range *r;
    const channels            *k;
    size_t                     rows, d;
    const qg__fake_quant_kernels      *kernels;
    const float               *x, *g;
    float                     *out;             /* y or dx */
    bool                       divides;
    double                   (*below)[CHUNK], (*above)[CHUNK];
} loop;

static void forward_block(void *context, size_t at, size_t n)
{
    const loop *l = context;
    (l->divides ? l->kernels->divide : l->kernels->multiply)(l->r, n, l->x + at, l->out + at);
}

static void forward(bool divides, const qg_fake_quant_range *r, size_t n, const float *x, float *y)
{
    loop l = { .r = r, .kernels = QG_KERNELS(qg__fake_quant), .x = x, .out = y, .divides = divides };
    qg__in_blocks(n, QG_BLOCK, forward_block, &l);
}

void qg_fake_quant_divide(const qg_fake_quant_range *r, size_t n, const float *x, float *y) { forward(true, r, n, x, y); }

void qg_fake_quant_multiply(const qg_fake_quant_range *r, size_t n, const float *x, float *y)
{
    forward(false, r, n, x, y);
}

void qg_fake_quant_codes(const qg_fake_quant_range *r, size_t n, const float *y, uint8_t *code)
{
    for (size_t i = 0; i < n; i++) {
        const float   steps = r->scale == 0.0f ? 0.0f : qg_round_even(y[i] / r->scale);
        const int64_t q     = qg_to_int((double)steps, -UINT8_MAX, UINT8_MAX) + r->zero_point;
        code[i]             = (uint8_t)qg_clamp_int(q, 0, UINT8_MAX);
    }
}

static void backward_block(void *context, size_t at, size_t n)
{
    const loop *l = context;
    l->kernels->backward(l->r, n, l->x + at, l->g + at, l->out + at, NULL, NULL);
}

static void backward_run(const void *context, size_t at, size_t n, double *sum)
{
    const loop *l = context;
    l->kernels->backward(l->r, n, l->x + at, l->g + at, l->out + at, &sum[0], &sum[1]);
}

void qg_fake_quant_backward(const qg_fake_quant_range *r, size_t n, const float *x, const float *g,
                            float *dx, double *dmin, double *dmax)
{
    loop   l      = { .r = r, .kernels = QG_KERNELS(qg__fake_quant), .x = x, .g = g, .out = dx };
    double sum[2] = { 0.0, 0.0 };
    if (!dmin) {
        qg__in_blocks(n, QG_BLOCK, backward_block, &l);
        return;
    }
    qg__sum_runs(n, backward_run, &l, sum);
    *dmin += sum[0];
    *dmax += sum[1];
}

/* ---- the same for rows of channels with a range each ---- */

static void load(const qg_fake_quant_range *r, size_t n, channels *k)
{
    k->n = n;
    for (size_t c = 0; c < n; c++) {
        k->scale[c] = r[c].scale;
        k->inv[c]   = r[c].inv;
        k->nmin[c]  = r[c].nmin;
        k->nmax[c]  = r[c].nmax;
        k->q0[c]    = r[c].q0;
    }
}

/* The rows of a slice, as an offset and a count. */
static size_t rows_of(const loop *l, int slice, size_t *rows)
{
    const size_t each = (l->rows + SLICES - 1) / SLICES;
    const size_t first = qg__smaller((size_t)slice * each, l->rows);
    *rows = qg__smaller(each, l->rows - first);
    return first * l->d;
}

static void forward_slice(void *context, int slice, int worker)
{
    (void)worker;
    const loop  *l = context;
    size_t       rows;
    const size_t at = rows_of(l, slice, &rows);
    l->kernels->rows(l->k, rows, l->d, l->x + at, l->out + at);
}

static void forward_chunk(const channels *k, size_t rows, size_t d, const float *x, float *y)
{
    loop l = { .k = k, .rows = rows, .d = d, .kernels = QG_KERNELS(qg__fake_quant), .x = x, .out = y };
    qg_parallel(SLICES, forward_slice, &l);
}

void qg_fake_quant_channels(const qg_fake_quant_range *r, size_t rows, size_t d, const float *x,
                            float *y)
{
    for (size_t c = 0; c < d; c += CHUNK) {
        channels k;
        load(r + c, qg__smaller(d - c, CHUNK), &k);
        forward_chunk(&k, rows, d, x + c, y + c);
    }
}

static void backward_slice(void *context, int slice, int worker)
{
    (void)worker;
    const loop  *l = context;
    size_t       rows;
    const size_t at = rows_of(l, slice, &rows);
    l->kernels->rows_backward(l->k, rows, l->d, l->x + at, l->g + at, l->out + at, l->below[slice],
                                         l->above[slice]);
}

static void backward_chunk(const channels *k, size_t rows, size_t d, const float *x, const float *g, float *dx,
                           double *dmin, double *dmax)
{
    double below[SLICES][CHUNK] = { { 0.0 } }, above[SLICES][CHUNK] = { { 0.0 } };
    loop   l = { .k = k, .rows = rows, .d = d, .kernels = QG_KERNELS(qg__fake_quant), .x = x, .g = g, .out = dx };
    l.below = below;
    l.above = above;
    qg_parallel(SLICES, backward_slice, &l);
    for (size_t c = 0; c < k->n; c++)
        for (int s = 0; s < SLICES; s++) {
            dmin[c] += below[s][c];
            dmax[c] += above[s][c];
        }
}

void qg_fake_quant_channels_backward(const qg_fake_quant_range *r, size_t rows, size_t d,
                                     const float *x, const float *g, float *dx, double *dmin,
                                     double *dmax)
{
    for (size_t c = 0; c < d; c += CHUNK) {
        channels k;
        load(r + c, qg__smaller(d - c, CHUNK), &k);
        backward_chunk(&k, rows, d, x + c, g + c, dx + c, dmin + c, dmax + c);
    }
}

/* ---- operators with one range ---- */

static qg_status check_args(const char *op, qg_fake_quant_args a, qg_fake_quant_range *r)
{
    if (!(a.min < a.max))
        return qg_fail(QG_EARG, "%s: min is %.9g, must be smaller than max, %.9g", op,
                       (double)a.min, (double)a.max);
    return qg_fake_quant_nudge((qg_fake_quant_attrs){ a.num_bits, a.narrow_range }, a.min, a.max,
                               r);
}

qg_status qg_fake_quant_with_min_max_args(qg_fake_quant_args attrs, const qg_array *inputs,
                                          qg_array *outputs)
{
    const char         *op = "fake_quant_with_min_max_args";
    qg_fake_quant_range r;
    qg_status           s = check_args(op, attrs, &r);
    if (!s) s = qg__check_pair(op, "outputs", outputs, "inputs", inputs);
    if (!s) qg_fake_quant_multiply(&r, qg_array_count(inputs), inputs->data, outputs->data);
    return s;
}

qg_status qg_fake_quant_with_min_max_args_gradient(qg_fake_quant_args attrs,
                                                   const qg_array *gradients,
                                                   const qg_array *inputs, qg_array *backprops)
{
    const char         *op     = "fake_quant_with_min_max_args_gradient";
    const qg__operand   rows[] = { { "inputs", inputs, .dtypes = QG__F32 },
                                   { "gradients", gradients, .dtypes = QG__F32, .like = "inputs" },
                                   { "backprops", backprops, .dtypes = QG__F32, .like = "inputs" } };
    qg_fake_quant_range r;
    qg_status           s = check_args(op, attrs, &r);
    if (!s) s = QG__CHECK_OPERANDS(op, rows);
    if (s) return s;
    qg__zero(backprops);
    qg_fake_quant_backward(&r, qg_array_count(inputs), inputs->data, gradients->data,
                           backprops->data, NULL, NULL);
    return QG_OK;
}

qg_status qg_fake_quant_with_min_max_vars(qg_fake_quant_attrs attrs, const qg_array *inputs,
                                          const qg_array *min, const qg_array *max,
                                          qg_array *outputs)
{
    const qg__operand   rows[] = { { "inputs", inputs, .dtypes = QG__F32 },
                                   { "outputs", outputs, .dtypes = QG__F32, .like = "inputs" },
                                   { "min", min, .dtypes = QG__F32, .scalar = true },
                                   { "max", max, .dtypes = QG__F32, .scalar = true } };
    qg_fake_quant_range r;
    qg_status           s = QG__CHECK_OPERANDS("fake_quant_with_min_max_vars", rows);
    if (!s) s = qg_fake_quant_nudge(attrs, *qg__floats(min), *qg__floats(max), &r);
    if (!s) qg_fake_quant_divide(&r, qg_array_count(inputs), inputs->data, outputs->data);
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
    qg_fake_quant_range r;
    qg_status           s = QG__CHECK_OPERANDS("fake_quant_with_min_max_vars_gradient", rows);
    if (!s) s = qg_fake_quant_nudge(attrs, *qg__floats(min), *qg__floats(max), &r);
    if (s) return s;
    double dmin = 0.0;
    double dmax = 0.0;
    qg__zero(backprops_wrt_input);
    qg_fake_quant_backward(&r, qg_array_count(inputs), inputs->data, gradients->data,
                           backprops_wrt_input->data, &dmin, &dmax);
    *qg__floats(backprop_wrt_min) = (float)dmin;
    *qg__floats(backprop_wrt_max) = (float)dmax;
    return QG_OK;
}

/* ---- operators with a range per channel ---- */

/* The ranges were valid before, so this cannot fail. */
static void nudge_chunk(qg_fake_quant_attrs attrs, const float *min, const float *max, size_t n,
                        channels *k)
{
    qg_fake_quant_range r[CHUNK];
    for (size_t c = 0; c < n; c++) {
        const qg_status s = qg_fake_quant_nudge(attrs, min[c], max[c], &r[c]);
        QG_ASSERT(s == QG_OK);
    }
    load(r, n, k);
}

/* min, max and, for each channel, that they are a range. */
static qg_status check_channels(const char *op, qg_fake_quant_attrs attrs, const qg_array *x,
                                const qg_array *min, const qg_array *max)
{
    if (x->rank < 1) return qg_fail(QG_ESHAPE, "%s: rank of inputs is 0, must be 1 or more", op);
    const qg__operand   rows[] = { { "inputs", x, .dtypes = QG__F32 },
                                   { "min", min, .dtypes = QG__F32, .along = "inputs", .axis = x->rank - 1 },
                                   { "max", max, .dtypes = QG__F32, .along = "inputs", .axis = x->rank - 1 } };
    qg_status           s = QG__CHECK_OPERANDS(op, rows);
    qg_fake_quant_range r;
    if (!s) s = qg_fake_quant_nudge(attrs, 0.0f, 0.0f, &r);     /* attrs, even without channels */
    for (size_t c = 0; !s && c < min->dims[0]; c++) {
        s = qg_fake_quant_nudge(attrs, qg__floats(min)[c], qg__floats(max)[c], &r);
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
        channels k;
        nudge_chunk(attrs, (const float *)min->data + c, (const float *)max->data + c,
                    qg__smaller(d - c, CHUNK), &k);
        forward_chunk(&k, n / d, d, x + c, y + c);
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
        channels k;
        double   dmin[CHUNK] = { 0.0 };
        double   dmax[CHUNK] = { 0.0 };
        nudge_chunk(attrs, (const float *)min->data + c, (const float *)max->data + c,
                    qg__smaller(d - c, CHUNK), &k);
        backward_chunk(&k, n / d, d, x + c, g + c, dx + c, dmin, dmax);
        for (size_t i = 0; i < k.n; i++) {
            ((float *)backprop_wrt_min->data)[c + i] = (float)dmin[i];
            ((float *)backprop_wrt_max->data)[c + i] = (float)dmax[i];
        }
    }
    return QG_OK;
}
