/* Batch norm as arithmetic on the weight and the result of the product before it. */
#include <string.h>

#include "core/ops/norm_spec.h"
#include "core/kernels/parallel.h"

/* --- weight ------------------------------------------------------------------------------- */

typedef struct scaling {
    qg_var *y;
    float  *inv;            /* [o] 1 / s */
} scaling;

static float factor(const scaling *k, size_t o)
{
    const qg_var *gamma = k->y->in[1];
    return gamma ? gamma->data[o] * k->inv[o] : k->inv[o];
}

static void scale_row(void *context, int o, int worker)
{
    (void)worker;
    const scaling *k   = context;
    const size_t   row = qg_row(k->y->shape), at = (size_t)o * row;
    const float   *w   = k->y->in[0]->data;
    const float    a   = factor(k, (size_t)o);
    for (size_t i = at; i < at + row; i++) k->y->data[i] = w[i] * a;
}

/* y[o,..] = w[o,..] gamma[o] inv[o]
 *     dw = dy gamma inv,   dgamma[o] = inv[o] sum of dy w */
static void scale_row_backward(void *context, int o, int worker)
{
    (void)worker;
    const scaling *k   = context;
    qg_var        *w = k->y->in[0], *gamma = k->y->in[1];
    const size_t   row = qg_row(w->shape), at = (size_t)o * row;
    const float   *dy  = k->y->grad;
    const float    a   = factor(k, (size_t)o);
    double         sum = 0;
    for (size_t i = at; w->grad && i < at + row; i++) w->grad[i] += dy[i] * a;
    if (!gamma || !gamma->grad) return;
    for (size_t i = at; i < at + row; i++) sum += (double)dy[i] * (double)w->data[i];
    gamma->grad[o] += (float)(sum * (double)k->inv[o]);
}

static void weight_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    scaling k = { y, y->saved };
    qg_parallel(y->shape.n, scale_row_backward, &k);
}

static const qg_op weight_op = { .name = "fold_weight", .backward = weight_backward };

qg_var *qg_fold_weight(qg_tape *t, qg_var *w, qg_var *gamma, qg_norm_spec spec)
{
    if (!w) return NULL;
    const size_t n = (size_t)w->shape.n;
    if (!qg__norm_fits(t, "fold_weight", "w", w, w->shape.n, gamma, NULL, spec)) return NULL;
    qg_var *y = qg_record(t, &weight_op, w->shape, w, gamma, NULL);
    scaling k = { y, y ? qg_save(t, y, n * sizeof *k.inv) : NULL };
    if (!k.inv) return NULL;
    for (size_t o = 0; o < n; o++) k.inv[o] = (float)(1.0 / qg__norm_deviation(spec, o));
    qg_parallel((int)n, scale_row, &k);
    return y;
}

/* --- bias --------------------------------------------------------------------------------- */

/* y = beta - gamma u, u = mean / s:  dbeta = dy,  dgamma = -u dy */
static void bias_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    const float *u = y->saved;
    qg_var      *beta = y->in[0], *gamma = y->in[1];
    for (size_t k = 0; k < qg_count(y->shape); k++) {
        if (beta && beta->grad) beta->grad[k] += y->grad[k];
        if (gamma && gamma->grad) gamma->grad[k] -= u[k] * y->grad[k];
    }
}

static const qg_op bias_op = { .name = "fold_bias", .backward = bias_backward };

qg_var *qg_fold_bias(qg_tape *t, qg_var *gamma, qg_var *beta, qg_norm_spec spec)
{
    if (!beta) return NULL;
    const size_t c = qg_count(beta->shape);
    if (!qg__norm_fits(t, "fold_bias", "beta", beta, (int)c, gamma, NULL, spec)) return NULL;
    qg_var *y = qg_record(t, &bias_op, (qg_shape){ 1, 1, 1, (int)c }, beta, gamma, NULL);
    float  *u = y ? qg_save(t, y, c * sizeof *u) : NULL;
    if (!u) return NULL;
    for (size_t k = 0; k < c; k++) {
        u[k]       = (float)((double)spec.mean[k] / qg__norm_deviation(spec, k));
        y->data[k] = beta->data[k] - (gamma ? gamma->data[k] * u[k] : u[k]);
    }
    return y;
}

/* --- correction --------------------------------------------------------------------------- */

typedef struct correct {
    double *mean, *inv;     /* [c] of the batch: mean, 1 / sqrt(var + eps) */
    double *s;              /* [c] sqrt(var + eps) of the running variance, before this batch */
} correct;

typedef struct pass {
    const correct *k;
    qg_var        *y;
    double        *sums;    /* [QG_SLICES][2][c] */
    const double  *a, *b;   /* [c] forward: out = a y + b;  backward: dz = a z + b */
} pass;

/* A slice of the rows of y: where it starts and how many it has. */
static size_t slice_of(const qg_var *y, int slice, size_t *rows)
{
    const size_t c = (size_t)y->shape.c, all = qg_count(y->shape) / c;
    const size_t each = (all + QG_SLICES - 1) / QG_SLICES;
    const size_t first = (size_t)slice * each < all ? (size_t)slice * each : all;
    *rows = all - first < each ? all - first : each;
    return first * c;
}

static void mean_piece(void *context, int slice, int worker)
{
    (void)worker;
    const pass  *p = context;
    const size_t c = (size_t)p->y->shape.c;
    double      *sum = p->sums + (size_t)slice * 2 * c;
    size_t       rows;
    const float *z = p->y->in[1]->data + slice_of(p->y, slice, &rows);
    memset(sum, 0, c * sizeof *sum);
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < c; k++) sum[k] += (double)z[r * c + k];
}

static void spread_piece(void *context, int slice, int worker)
{
    (void)worker;
    const pass  *p = context;
    const size_t c = (size_t)p->y->shape.c;
    double      *sum = p->sums + (size_t)slice * 2 * c;
    size_t       rows;
    const float *z = p->y->in[1]->data + slice_of(p->y, slice, &rows);
    memset(sum, 0, c * sizeof *sum);
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < c; k++) {
            const double d = (double)z[r * c + k] - p->k->mean[k];
            sum[k] += d * d;
        }
}

static double add(const double *sums, size_t c, size_t k)
{
    double sum = 0;
    for (size_t slice = 0; slice < QG_SLICES; slice++) sum += sums[slice * 2 * c + k];
    return sum;
}

static void statistics(const pass *p, qg_norm_spec spec)
{
    const correct *s = p->k;
    const size_t   c = (size_t)p->y->shape.c;
    const double   m = (double)(qg_count(p->y->shape) / c);
    qg_parallel(QG_SLICES, mean_piece, (void *)p);
    for (size_t k = 0; k < c; k++) s->mean[k] = add(p->sums, c, k) / m;
    qg_parallel(QG_SLICES, spread_piece, (void *)p);
    for (size_t k = 0; k < c; k++) {
        const double var = add(p->sums, c, k) / m;
        s->s[k]   = qg__norm_deviation(spec, k);
        s->inv[k] = 1.0 / sqrt(var + qg__norm_eps(spec));
        qg__norm_track(spec, k, m, s->mean[k], var);
    }
}

static void forward_piece(void *context, int slice, int worker)
{
    (void)worker;
    const pass  *p = context;
    const size_t c = (size_t)p->y->shape.c;
    size_t       rows;
    const size_t at = slice_of(p->y, slice, &rows);
    const float *x = p->y->in[0]->data + at;
    float       *out = p->y->data + at;
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < c; k++) out[r * c + k] = (float)(p->a[k] * (double)x[r * c + k] + p->b[k]);
}

static void grad_sums_piece(void *context, int slice, int worker)
{
    (void)worker;
    const pass  *p = context;
    const size_t c = (size_t)p->y->shape.c;
    double      *sum = p->sums + (size_t)slice * 2 * c;
    size_t       rows;
    const size_t at = slice_of(p->y, slice, &rows);
    const float *x = p->y->in[0]->data + at, *dy = p->y->grad + at;
    memset(sum, 0, 2 * c * sizeof *sum);
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < c; k++) {
            const double g = (double)dy[r * c + k];
            sum[k] += g;
            sum[c + k] += g * (double)x[r * c + k];
        }
}

static void grad_piece(void *context, int slice, int worker)
{
    (void)worker;
    const pass  *p = context;
    qg_var      *x = p->y->in[0], *z = p->y->in[1];
    const size_t c = (size_t)p->y->shape.c;
    size_t       rows;
    const size_t at = slice_of(p->y, slice, &rows);
    for (size_t i = at; i < at + rows * c; i += c)
        for (size_t k = 0; k < c; k++) {
            if (x->grad) x->grad[i + k] += (float)(p->k->s[k] * p->k->inv[k] * (double)p->y->grad[i + k]);
            if (z->grad) z->grad[i + k] += (float)(p->a[k] * (double)z->data[i + k] + p->b[k]);
        }
}

/* out = s inv y + beta - gamma mean inv; mean and inv depend on z, s does not.
 *     dy    = s inv dout,   dbeta = S = sum dout,   dgamma = -mean inv S
 *     dmean = -gamma inv S,   dinv = s sum(dout y) - gamma mean S,   dvar = -inv^3 dinv / 2
 *     dz    = dmean / m + dvar 2 (z - mean) / m     = a z + b */
static void correct_backward(qg_tape *t, qg_var *y)
{
    const correct *s = y->saved;
    qg_var        *gamma = y->in[2], *beta = y->in[3];
    const size_t   c = (size_t)y->shape.c;
    const double   m = (double)(qg_count(y->shape) / c);
    double        *sums = qg_scratch(t, (2 * QG_SLICES + 2) * c * sizeof *sums);
    if (!sums) return;
    double *a = sums + 2 * QG_SLICES * c, *b = a + c;
    pass    work = { .k = s, .y = y, .sums = sums, .a = a, .b = b };
    qg_parallel(QG_SLICES, grad_sums_piece, &work);
    for (size_t k = 0; k < c; k++) {
        const double sum = add(sums, c, k), with_y = add(sums + c, c, k);
        const double g = gamma ? (double)gamma->data[k] : 1.0, inv = s->inv[k], mean = s->mean[k];
        if (beta && beta->grad) beta->grad[k] += (float)sum;
        if (gamma && gamma->grad) gamma->grad[k] -= (float)(mean * inv * sum);
        const double dvar = -inv * inv * inv * (s->s[k] * with_y - g * mean * sum) / 2;
        a[k] = 2 * dvar / m;
        b[k] = -g * inv * sum / m - a[k] * mean;
    }
    qg_parallel(QG_SLICES, grad_piece, &work);
}

static const qg_op correct_op = { .name = "fold_correct", .backward = correct_backward };

qg_var *qg_fold_correct(qg_tape *t, qg_var *y, qg_var *z, qg_var *gamma, qg_var *beta, qg_norm_spec spec)
{
    if (!y || !z) return NULL;
    const size_t c = (size_t)y->shape.c;
    if (!qg__norm_fits(t, "fold_correct", "y", y, y->shape.c, gamma, beta, spec)) return NULL;
    if (!qg_shape_equal(y->shape, z->shape))
        return qg_reject(t, QG_ESHAPE, "fold_correct: y is " QG_SHAPE_FMT ", z is " QG_SHAPE_FMT,
                         QG_SHAPE_ARGS(y->shape), QG_SHAPE_ARGS(z->shape));
    qg_var *out = qg_record(t, &correct_op, y->shape, y, z, gamma);
    if (!out || !qg_operand(out, 3, beta)) return NULL;
    correct *s    = qg_save(t, out, sizeof *s + 3 * c * sizeof(double));
    double  *sums = qg_scratch(t, (2 * QG_SLICES + 2) * c * sizeof *sums);
    if (!s || !sums) return NULL;
    s->mean   = (double *)(void *)(s + 1);
    s->inv    = s->mean + c;
    s->s      = s->inv + c;
    double *a = sums + 2 * QG_SLICES * c, *b = a + c;
    pass work = { .k = s, .y = out, .sums = sums, .a = a, .b = b };
    statistics(&work, spec);
    for (size_t k = 0; k < c; k++) {
        a[k] = s->s[k] * s->inv[k];
        b[k] = (beta ? (double)beta->data[k] : 0.0) -
               (gamma ? (double)gamma->data[k] : 1.0) * s->mean[k] * s->inv[k];
    }
    qg_parallel(QG_SLICES, forward_piece, &work);
    return out;
}
