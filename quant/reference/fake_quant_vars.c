/* TensorFlow's fake_quant_with_min_max_vars and .._vars_per_channel on a tape; formulas in quant/reference/fake_quant.h. */
#include <stdio.h>
#include <string.h>

#include "core/ops/ops.h"
#include "quant/reference/fake_quant.h"

static const char *const name = "fake_quant_vars";

typedef struct saved {
    size_t              ranges;
    bool                rows;       /* a range for each row of x, not for each of its columns */
    qg_fake_quant_range r[];        /* [ranges] */
} saved;

/* Rows of x become columns. */
static void turn(size_t rows, size_t columns, const float *x, float *to)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < columns; k++) to[k * rows + i] = x[i * columns + k];
}

/* The operator has ranges of columns; its sums are added in the order of a transposed x. */
static void rows_backward(qg_tape *t, const saved *s, size_t n, const float *x, const float *g, float *dx, double *sum)
{
    const size_t d = s->ranges, row = n / d;
    float       *part = qg_scratch(t, 3 * n * sizeof *part), *turned_g = part + n, *turned_dx = turned_g + n;
    if (!part) return;
    turn(d, row, x, part);
    turn(d, row, g, turned_g);
    turn(d, row, dx, turned_dx);
    qg_fake_quant_channels_backward(s->r, row, d, part, turned_g, turned_dx, sum, sum + d);
    turn(row, d, turned_dx, dx);
}

static void add(const double *sum, qg_var *v)
{
    for (size_t i = 0; v->grad && i < qg_count(v->shape); i++) v->grad[i] += (float)sum[i];
}

static void vars_backward(qg_tape *t, qg_var *y)
{
    const saved  *s   = y->saved;
    const qg_var *x   = y->in[0];
    const size_t  n   = qg_count(x->shape), d = s->ranges;
    double       *sum = qg_scratch(t, 2 * d * sizeof *sum);
    float        *dx  = x->grad ? x->grad : qg_scratch(t, n * sizeof *dx);
    if (!sum || !dx) return;
    memset(sum, 0, 2 * d * sizeof *sum);
    if (!x->grad) memset(dx, 0, n * sizeof *dx);
    if (d == 1) qg_fake_quant_backward(s->r, n, x->data, y->grad, dx, &sum[0], &sum[1]);
    else if (s->rows) rows_backward(t, s, n, x->data, y->grad, dx, sum);
    else qg_fake_quant_channels_backward(s->r, n / d, d, x->data, y->grad, dx, sum, sum + d);
    add(sum, y->in[1]);
    add(sum + d, y->in[2]);
}

static const qg_op vars_op = { .name = "fake_quant_vars", .backward = vars_backward };

static qg_status check_shapes(const qg_var *x, const qg_var *min, const qg_var *max)
{
    const qg_shape legal[] = { { 1, 1, 1, 1 }, { 1, 1, 1, x->shape.c }, { x->shape.n, 1, 1, 1 } };
    char           rows[64] = "";
    for (int i = 0; i < 3; i++)
        if (qg_shape_equal(min->shape, legal[i]) && qg_shape_equal(max->shape, legal[i])) return QG_OK;
    if (x->shape.n > 1) snprintf(rows, sizeof rows, " or " QG_SHAPE_FMT, QG_SHAPE_ARGS(legal[2]));
    return qg_fail(QG_ESHAPE, "%s: min is " QG_SHAPE_FMT " and max " QG_SHAPE_FMT ", for x " QG_SHAPE_FMT " both must be "
                   QG_SHAPE_FMT "%s" QG_SHAPE_FMT "%s", name, QG_SHAPE_ARGS(min->shape), QG_SHAPE_ARGS(max->shape),
                   QG_SHAPE_ARGS(x->shape), QG_SHAPE_ARGS(legal[0]), *rows ? ", " : " or ", QG_SHAPE_ARGS(legal[1]), rows);
}

static void forward(const saved *s, size_t n, const float *x, float *y)
{
    const size_t d = s->ranges, row = n / d;
    if (d == 1) qg_fake_quant_divide(s->r, n, x, y);
    else if (!s->rows) qg_fake_quant_channels(s->r, row, d, x, y);
    for (size_t i = 0; s->rows && i < d; i++) qg_fake_quant_multiply(&s->r[i], row, x + i * row, y + i * row);
}

qg_var *qg_fake_quant_vars(qg_tape *t, qg_var *x, qg_var *min, qg_var *max, qg_fake_quant_attrs spec)
{
    if (!t || !x || !min || !max) return NULL;
    const qg_status wrong = check_shapes(x, min, max);
    if (wrong) return qg_reject(t, wrong, "%s", qg_errmsg());
    const size_t d    = qg_count(min->shape);
    qg_var      *y    = qg_record(t, &vars_op, x->shape, x, min, max);
    saved       *kept = y ? qg_save(t, y, sizeof *kept + d * sizeof *kept->r) : NULL;
    if (!kept) return NULL;
    kept->ranges = d;
    kept->rows   = min->shape.n > 1;
    for (size_t i = 0; i < d; i++) {
        const qg_status s = qg_fake_quant_nudge(spec, min->data[i], max->data[i], &kept->r[i]);
        if (s && d == 1) return qg_reject(t, s, "%s: %s", name, qg_errmsg());
        if (s) return qg_reject(t, s, "%s, channel %zu: %s", name, i, qg_errmsg());
    }
    forward(kept, qg_count(x->shape), x->data, y->data);
    return y;
}
