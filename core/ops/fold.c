/* Batch norm as arithmetic on the product before it. */
#include <math.h>

#include "core/kernels/parallel.h"
#include "core/ops/norm.h"
#include "core/slices.h"

/* --- folded into the product before it ---------------------------------------------------- */

float qg__fold_factor(qg_norm_spec spec, const float *gamma, size_t k)
{
    const float inv = (float)(1.0 / qg__norm_deviation(spec, k));
    return gamma ? gamma[k] * inv : inv;
}

/* y[o,..] = w[o,..] gamma[o] inv[o]; it saves [2][o]: inv, gamma inv.  dw = dy gamma inv,  dgamma[o] = inv[o] sum of dy w */
static void weight_gradient(void *context, int o, int worker)
{
    const qg_var *y = context;
    qg_var       *w = y->in[0], *gamma = y->in[1];
    const size_t  row = qg_row(w->shape), at = (size_t)o * row;
    const float  *inv = y->saved, *dy = y->grad, a = inv[y->shape.n + o];
    double        sum = 0;
    for (size_t i = at; w->grad && i < at + row; i++) w->grad[i] += dy[i] * a;
    if (!gamma || !gamma->grad) return;
    for (size_t i = at; i < at + row; i++) sum += (double)dy[i] * (double)w->data[i];
    gamma->grad[o] += (float)(sum * (double)inv[o]);
}

static void weight_backward(qg_tape *t, qg_var *y)
{
    qg_parallel(y->shape.n, weight_gradient, y);
}

static const qg_op weight_op = { .name = "fold_weight", .backward = weight_backward };

static void weight_value(void *context, int o, int worker)
{
    const qg_var *y   = context;
    const size_t  row = qg_row(y->shape), at = (size_t)o * row;
    const float  *w   = y->in[0]->data, a = ((const float *)y->saved)[y->shape.n + o];
    for (size_t i = at; i < at + row; i++) y->data[i] = w[i] * a;
}

qg_var *qg_fold_weight(qg_tape *t, qg_var *w, qg_var *gamma, qg_norm_spec spec)
{
    if (!w) return NULL;
    const size_t n = (size_t)w->shape.n;
    if (!qg__norm_fits(t, "fold_weight", "w", w, w->shape.n, gamma, NULL, spec)) return NULL;
    qg_var *y   = qg_record(t, &weight_op, w->shape, w, gamma, NULL);
    float  *inv = y ? qg_save(t, y, 2 * n * sizeof *inv) : NULL;
    if (!inv) return NULL;
    for (size_t o = 0; o < n; o++) {
        inv[o]     = qg__fold_factor(spec, NULL, o);
        inv[n + o] = qg__fold_factor(spec, gamma ? gamma->data : NULL, o);
    }
    qg_parallel((int)n, weight_value, y);
    return y;
}

/* y = beta - gamma u, u = mean / s:  dbeta = dy,  dgamma = -u dy */
static void bias_backward(qg_tape *t, qg_var *y)
{
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

/* --- corrected by the statistics of the batch --------------------------------------------- */

/* What the passes over all rows need.  y is the result; it saves [3][c]: mean, inv, s. */
typedef struct sweep {
    qg_var    *y;
    qg__slices at;
    double    *mean, *inv;      /* [c] of the batch: mean, 1 / sqrt(var + eps) */
    double    *s;               /* [c] sqrt(var + eps) of the running variance, before this batch */
    double    *a, *b;           /* [c] forward: out = a y + b;  backward: dz = a z + b */
} sweep;

static bool begin_sweeps(qg_tape *t, qg_var *y, sweep *p)
{
    const size_t c = (size_t)y->shape.c;
    double      *saved = y->saved, *a = qg_scratch(t, 2 * c * sizeof *a);
    if (!saved || !a) return false;
    *p = (sweep){ y, qg__slices_of(y), saved, saved + c, saved + 2 * c, a, a + c };
    return true;
}

/* Rows of y in the whole batch. */
static double rows_of_batch(const sweep *p)
{
    return (double)p->at.n * (double)(p->y->shape.h * p->y->shape.w);
}

/* [2][c]: of dy, and of dy x. */
static void sum_gradients(void *context, int first, int end, double *sum)
{
    const qg_var *y = ((const sweep *)context)->y;
    const float  *x = y->in[0]->data, *dy = y->grad;
    const size_t  c = (size_t)y->shape.c, row = qg_row(y->shape);
    for (size_t i = (size_t)first * row; i < (size_t)end * row; i += c)
        for (size_t k = 0; k < c; k++) {
            const double g = (double)dy[i + k];
            sum[k] += g;
            sum[c + k] += g * (double)x[i + k];
        }
}

static void add_gradients(void *context, int image, int worker)
{
    const sweep *p = context;
    qg_var      *x = p->y->in[0], *z = p->y->in[1];
    const size_t c = (size_t)p->y->shape.c, row = qg_row(p->y->shape), end = (size_t)(image + 1) * row;
    for (size_t i = end - row; i < end; i += c)
        for (size_t k = 0; k < c; k++) {
            if (x->grad) x->grad[i + k] += (float)(p->s[k] * p->inv[k] * (double)p->y->grad[i + k]);
            if (z->grad) z->grad[i + k] += (float)(p->a[k] * (double)z->data[i + k] + p->b[k]);
        }
}

/* out = s inv y + beta - gamma mean inv; mean and inv depend on z, s does not.
 *     dy    = s inv dout,   dbeta = S = sum dout,   dgamma = -mean inv S
 *     dmean = -gamma inv S,   dinv = s sum(dout y) - gamma mean S,   dvar = -inv^3 dinv / 2
 *     dz    = dmean / m + dvar 2 (z - mean) / m     = a z + b */
static void correct_backward(qg_tape *t, qg_var *y)
{
    qg_var      *gamma = y->in[2], *beta = y->in[3];
    const size_t c = (size_t)y->shape.c;
    sweep        work;
    if (!begin_sweeps(t, y, &work)) return;
    const double *sums = qg__sum_slices(t, work.at, 2 * c, sum_gradients, &work);
    const double  m    = rows_of_batch(&work);
    if (!sums) return;
    for (size_t k = 0; k < c; k++) {
        const double sum = sums[k], with_y = sums[c + k];
        const double g = gamma ? (double)gamma->data[k] : 1.0, inv = work.inv[k], mean = work.mean[k];
        if (beta && beta->grad) beta->grad[k] += (float)sum;
        if (gamma && gamma->grad) gamma->grad[k] -= (float)(mean * inv * sum);
        const double dvar = -inv * inv * inv * (work.s[k] * with_y - g * mean * sum) / 2;
        work.a[k] = 2 * dvar / m;
        work.b[k] = -g * inv * sum / m - work.a[k] * mean;
    }
    qg_parallel(y->shape.n, add_gradients, &work);
}

static const qg_op correct_op = { .name = "fold_correct", .backward = correct_backward };

/* Those of qg_norm. */
static bool batch_statistics(qg_tape *t, sweep *p, qg_norm_spec spec)
{
    const size_t c = (size_t)p->y->shape.c;
    const double m = rows_of_batch(p);
    double      *var = p->a;
    if (!qg__norm_batch(t, p->y->in[1], p->mean, var)) return false;
    for (size_t k = 0; k < c; k++) {
        p->s[k]   = qg__norm_deviation(spec, k);
        p->inv[k] = 1.0 / sqrt(var[k] + qg__norm_eps_of(spec));
        qg__norm_track(spec, k, (float)p->mean[k], qg__norm_unbiased_of(m, var[k]));
    }
    return true;
}

static void correct_value(void *context, int image, int worker)
{
    const sweep *p = context;
    const float *x = p->y->in[0]->data;
    const size_t c = (size_t)p->y->shape.c, row = qg_row(p->y->shape), end = (size_t)(image + 1) * row;
    for (size_t i = end - row; i < end; i += c)
        for (size_t k = 0; k < c; k++) p->y->data[i + k] = (float)(p->a[k] * (double)x[i + k] + p->b[k]);
}

qg_var *qg_fold_correct(qg_tape *t, qg_var *y, qg_var *z, qg_var *gamma, qg_var *beta, qg_norm_spec spec)
{
    if (!y || !z) return NULL;
    const size_t c = (size_t)y->shape.c;
    if (!qg__norm_fits(t, "fold_correct", "y", y, y->shape.c, gamma, beta, spec)) return NULL;
    if (!qg_shape_equal(y->shape, z->shape))
        return qg_reject(t, QG_ESHAPE, "fold_correct: y is " QG_SHAPE_FMT ", z is " QG_SHAPE_FMT,
                         QG_SHAPE_ARGS(y->shape), QG_SHAPE_ARGS(z->shape));
    qg_var *out = qg_record(t, &correct_op, y->shape, y, z, gamma);
    if (!out || !qg_add_operand(out, 3, beta)) return NULL;
    sweep work;
    if (!qg_save(t, out, 3 * c * sizeof(double)) || !begin_sweeps(t, out, &work)) return NULL;
    if (!batch_statistics(t, &work, spec)) return NULL;
    for (size_t k = 0; k < c; k++) {
        work.a[k] = work.s[k] * work.inv[k];
        work.b[k] = (beta ? (double)beta->data[k] : 0.0) -
                    (gamma ? (double)gamma->data[k] : 1.0) * work.mean[k] * work.inv[k];
    }
    qg_parallel(out->shape.n, correct_value, &work);
    return out;
}
