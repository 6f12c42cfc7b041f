#include <string.h>

#include "core/kernels/parallel.h"
#include "core/ops/ops.h"

typedef struct shortcut {
    int stride, first;          /* first: the channel of y that channel 0 of x becomes */
} shortcut;

typedef struct job {
    const qg_var   *y;
    const shortcut *s;
} job;

/* y[i][j][first + k] = x[i stride][j stride][k]:  dx[i stride][j stride][k] += dy[i][j][first + k] */
static void shortcut_gradient(void *context, int image, int worker)
{
    const job     *j = context;
    const qg_shape x = j->y->in[0]->shape, y = j->y->shape;
    const float   *dy = j->y->grad + (size_t)image * qg_row(y) + j->s->first;
    float         *dx = j->y->in[0]->grad + (size_t)image * qg_row(x);
    for (int r = 0; r < y.h; r++)
        for (int c = 0; c < y.w; c++)
            for (int k = 0; k < x.c; k++)
                dx[(size_t)((r * x.w + c) * j->s->stride * x.c + k)] += dy[(size_t)((r * y.w + c) * y.c + k)];
}

static void shortcut_backward(qg_tape *t, qg_var *y)
{
    if (y->in[0]->grad) qg_parallel(y->shape.n, shortcut_gradient, &(job){ y, y->saved });
}

static const qg_op shortcut_op = { .name = "shortcut", .backward = shortcut_backward };

static void shortcut_value(void *context, int image, int worker)
{
    const job     *j = context;
    const qg_shape x = j->y->in[0]->shape, y = j->y->shape;
    const float   *from = j->y->in[0]->data + (size_t)image * qg_row(x);
    float         *to   = j->y->data + (size_t)image * qg_row(y);
    memset(to, 0, qg_row(y) * sizeof *to);
    for (int r = 0; r < y.h; r++)
        for (int c = 0; c < y.w; c++)
            memcpy(to + (size_t)((r * y.w + c) * y.c + j->s->first),
                   from + (size_t)((r * x.w + c) * j->s->stride * x.c), (size_t)x.c * sizeof *to);
}

qg_var *qg_shortcut(qg_tape *t, qg_var *x, int stride, int channels)
{
    if (!x) return NULL;
    if (stride < 1 || channels < x->shape.c)
        return qg_reject(t, QG_EARG, "shortcut: stride %d must be at least 1 and channels %d at least those of x " QG_SHAPE_FMT,
                         stride, channels, QG_SHAPE_ARGS(x->shape));
    const qg_shape shape = { x->shape.n, (x->shape.h - 1) / stride + 1, (x->shape.w - 1) / stride + 1,
                             channels };
    qg_var *y = qg_record(t, &shortcut_op, shape, x, NULL, NULL);
    if (!y) return NULL;
    shortcut *s = qg_save(t, y, sizeof *s);
    if (!s) return NULL;
    *s = (shortcut){ stride, (channels - x->shape.c) / 2 };
    qg_parallel(y->shape.n, shortcut_value, &(job){ y, s });
    return y;
}
