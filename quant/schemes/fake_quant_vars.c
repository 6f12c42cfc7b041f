/* TensorFlow's fake_quant_with_min_max_vars and .._vars_per_channel on a tape; formulas in quant/schemes/fake_quant.h. */
#include <string.h>

#include "quant/quant.h"

static const char *const name = "fake_quant_vars";

typedef struct saved {
    size_t              channels;
    qg_fake_quant_range r[];        /* [channels] */
} saved;

static void add(const double *sum, qg_var *v)
{
    for (size_t i = 0; v->grad && i < qg_count(v->shape); i++) v->grad[i] += (float)sum[i];
}

static void vars_backward(qg_tape *t, qg_var *y)
{
    const saved  *s   = y->saved;
    const qg_var *x   = y->in[0];
    const size_t  n   = qg_count(x->shape), d = s->channels;
    double       *sum = qg_scratch(t, 2 * d * sizeof *sum);
    float        *dx  = x->grad ? x->grad : qg_scratch(t, n * sizeof *dx);
    if (!sum || !dx) return;
    memset(sum, 0, 2 * d * sizeof *sum);
    if (!x->grad) memset(dx, 0, n * sizeof *dx);
    if (d == 1) qg_fake_quant_backward(s->r, n, x->data, y->grad, dx, &sum[0], &sum[1]);
    else qg_fake_quant_channels_backward(s->r, n / d, d, x->data, y->grad, dx, sum, sum + d);
    add(sum, y->in[1]);
    add(sum + d, y->in[2]);
}

static const qg_op vars_op = { .name = "fake_quant_vars", .backward = vars_backward };

static qg_status check_shapes(const qg_var *x, const qg_var *min, const qg_var *max)
{
    const qg_shape one = { 1, 1, 1, 1 }, each = { 1, 1, 1, x->shape.c };
    if (qg_shape_equal(min->shape, max->shape) && (qg_shape_equal(min->shape, one) || qg_shape_equal(min->shape, each)))
        return QG_OK;
    return qg_fail(QG_ESHAPE, "%s: min is " QG_SHAPE_FMT " and max " QG_SHAPE_FMT ", for x " QG_SHAPE_FMT " both must be "
                   QG_SHAPE_FMT " or " QG_SHAPE_FMT, name, QG_SHAPE_ARGS(min->shape), QG_SHAPE_ARGS(max->shape),
                   QG_SHAPE_ARGS(x->shape), QG_SHAPE_ARGS(one), QG_SHAPE_ARGS(each));
}

qg_var *qg_fake_quant_vars(qg_tape *t, qg_var *x, qg_var *min, qg_var *max, qg_fake_quant_attrs spec)
{
    if (!t || !x || !min || !max) return NULL;
    const qg_status wrong = check_shapes(x, min, max);
    if (wrong) return qg_reject(t, wrong, "%s", qg_errmsg());
    const size_t d    = qg_count(min->shape), n = qg_count(x->shape);
    qg_var      *y    = qg_record(t, &vars_op, x->shape, x, min, max);
    saved       *kept = y ? qg_save(t, y, sizeof *kept + d * sizeof *kept->r) : NULL;
    if (!kept) return NULL;
    kept->channels = d;
    for (size_t i = 0; i < d; i++) {
        const qg_status s = qg_fake_quant_nudge(spec, min->data[i], max->data[i], &kept->r[i]);
        if (s && d == 1) return qg_reject(t, s, "%s: %s", name, qg_errmsg());
        if (s) return qg_reject(t, s, "%s, channel %zu: %s", name, i, qg_errmsg());
    }
    if (d == 1) qg_fake_quant_divide(kept->r, n, x->data, y->data);
    else qg_fake_quant_channels(kept->r, n / d, d, x->data, y->data);
    return y;
}
