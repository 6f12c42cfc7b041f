#include "quant/check.h"
#include "quant/schemes/fake_quant.h"
#include "quant/reduce.h"
#include "quant/uniform.h"

enum { CHUNK = QG_CHANNEL_RANGES };

typedef qg_channel_ranges channels;

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

void qg_fake_quant_channels(const qg_fake_quant_range *r, size_t rows, size_t d, const float *x,
                            float *y)
{
    const qg_uniform_kernels *kernels = QG_KERNELS(qg__uniform);
    for (size_t c = 0; c < d; c += CHUNK) {
        channels k;
        load(r + c, qg__smaller(d - c, CHUNK), &k);
        kernels->fake_quant_rows(&k, rows, d, x + c, y + c);
    }
}

void qg_fake_quant_channels_backward(const qg_fake_quant_range *r, size_t rows, size_t d,
                                     const float *x, const float *g, float *dx, double *dmin,
                                     double *dmax)
{
    const qg_uniform_kernels *kernels = QG_KERNELS(qg__uniform);
    for (size_t c = 0; c < d; c += CHUNK) {
        channels k;
        load(r + c, qg__smaller(d - c, CHUNK), &k);
        kernels->fake_quant_rows_backward(&k, rows, d, x + c, g + c, dx + c, dmin + c, dmax + c);
    }
}

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
    const size_t d = x->dims[x->rank - 1];
    qg_status    s = qg__check_array(op, "min", min, QG_F32);
    if (!s) s = qg__check_vector(op, "min", min, d);
    if (!s) s = qg__check_array(op, "max", max, QG_F32);
    if (!s) s = qg__check_vector(op, "max", max, d);
    qg_fake_quant_range r;
    if (!s) s = qg_fake_quant_nudge(attrs, 0.0f, 0.0f, &r);     /* attrs, also without channels */
    for (size_t c = 0; !s && c < d; c++) {
        s = qg_fake_quant_nudge(attrs, ((const float *)min->data)[c], ((const float *)max->data)[c],
                                &r);
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

    const qg_uniform_kernels *kernels = QG_KERNELS(qg__uniform);
    for (size_t c = 0; c < d; c += CHUNK) {
        channels k;
        nudge_chunk(attrs, (const float *)min->data + c, (const float *)max->data + c,
                    qg__smaller(d - c, CHUNK), &k);
        kernels->fake_quant_rows(&k, n / d, d, x + c, y + c);
    }
    return QG_OK;
}

qg_status qg_fake_quant_with_min_max_vars_per_channel_gradient(
    qg_fake_quant_attrs attrs, const qg_array *gradients, const qg_array *inputs,
    const qg_array *min, const qg_array *max, qg_array *backprops_wrt_input,
    qg_array *backprop_wrt_min, qg_array *backprop_wrt_max)
{
    const char *op = "fake_quant_with_min_max_vars_per_channel_gradient";
    qg_status   s  = qg__check_pair(op, "gradients", gradients, "inputs", inputs);
    if (!s) s = check_channels(op, attrs, inputs, min, max);
    if (!s) s = qg__check_pair(op, "backprops_wrt_input", backprops_wrt_input, "inputs", inputs);
    if (!s) s = qg__check_pair(op, "backprop_wrt_min", backprop_wrt_min, "min", min);
    if (!s) s = qg__check_pair(op, "backprop_wrt_max", backprop_wrt_max, "max", max);
    if (s) return s;
    const size_t d  = min->dims[0];
    const size_t n  = qg_array_count(inputs);    /* 0 also if only the rows are missing */
    const float *x  = inputs->data;
    const float *g  = gradients->data;
    float       *dx = backprops_wrt_input->data;
    for (size_t i = 0; i < n; i++) dx[i] = 0.0f;

    const qg_uniform_kernels *kernels = QG_KERNELS(qg__uniform);
    for (size_t c = 0; c < d; c += CHUNK) {
        channels k;
        double   dmin[CHUNK] = { 0.0 };
        double   dmax[CHUNK] = { 0.0 };
        nudge_chunk(attrs, (const float *)min->data + c, (const float *)max->data + c,
                    qg__smaller(d - c, CHUNK), &k);
        kernels->fake_quant_rows_backward(&k, n / d, d, x + c, g + c, dx + c, dmin, dmax);
        for (size_t i = 0; i < k.n; i++) {
            ((float *)backprop_wrt_min->data)[c + i] = (float)dmin[i];
            ((float *)backprop_wrt_max->data)[c + i] = (float)dmax[i];
        }
    }
    return QG_OK;
}
