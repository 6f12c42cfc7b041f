/* Mean and variance over a batch, z = a (x - mean) + b of each channel, and its derivative (core/ops/norm.h). */
#include "core/ops/norm.h"

#include <math.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "core/ops/conv2d.h"

double qg__norm_eps_of(qg_norm_spec spec) { return spec.eps == 0 ? 1e-5 : (double)spec.eps; }

double qg__norm_deviation(qg_norm_spec spec, size_t k)
{
    return sqrt((double)spec.var[k] + qg__norm_eps_of(spec));
}

void qg__norm_line(qg_norm_spec spec, const float *gamma, const float *beta, size_t k, double *a, double *b)
{
    *a = (gamma ? (double)gamma[k] : 1.0) / qg__norm_deviation(spec, k);
    *b = (beta ? (double)beta[k] : 0.0) - (double)spec.mean[k] * *a;
}

float qg__norm_unbiased_of(double m, double var) { return (float)(m > 1 ? var * m / (m - 1) : var); }

void qg__norm_track(qg_norm_spec spec, size_t k, float centre, float unbiased)
{
    const float momentum = spec.momentum == 0 ? 0.1f : spec.momentum;
    if (!isfinite(centre) || !isfinite(unbiased)) return;
    spec.mean[k] += momentum * (centre - spec.mean[k]);
    spec.var[k] += momentum * (unbiased - spec.var[k]);
}

bool qg__norm_fits(qg_tape *t, const char *op, const char *name, const qg_var *x, int c, const qg_var *gamma,
                   const qg_var *beta, qg_norm_spec spec)
{
    const bool    scale = gamma && qg_count(gamma->shape) != (size_t)c;
    const qg_var *v     = scale ? gamma : beta;
    if (v && qg_count(v->shape) != (size_t)c)
        return qg_reject(t, QG_ESHAPE, "%s: %s " QG_SHAPE_FMT " has %d channel%s, %s is " QG_SHAPE_FMT, op, name,
                         QG_SHAPE_ARGS(x->shape), c, c == 1 ? "" : "s", scale ? "gamma" : "beta",
                         QG_SHAPE_ARGS(v->shape));
    if (!spec.mean || !spec.var)
        return qg_reject(t, QG_EARG, "%s: running mean and var are required", op);
    if (!(spec.eps >= 0 && isfinite(spec.eps)))
        return qg_reject(t, QG_EARG, "%s: eps is %g, must be 0 (for 1e-5) or more", op, (double)spec.eps);
    if (!(spec.momentum >= 0 && spec.momentum <= 1))
        return qg_reject(t, QG_EARG, "%s: momentum is %g, not in 0..1", op, (double)spec.momentum);
    return true;
}

/* --- blocks ------------------------------------------------------------------------------- */

static bool by_slice(qg_shape x) { return x.h == 1 && x.w == 1; }

/* Of any block of the batch. */
static int rows_of(const qg_var *x, qg__slices at, int block)
{
    if (!by_slice(x->shape)) return x->shape.h * x->shape.w;
    return qg_slice_at(at.n, block + 1) - qg_slice_at(at.n, block);
}

int qg__norm_all_blocks(const qg__norm_statistics *s, const qg_var *x)
{
    return by_slice(x->shape) ? QG_SLICES : s->at.n;
}

qg__norm_block qg__norm_block_at(const qg__norm_statistics *s, const qg_var *x, int i)
{
    const qg_shape shape = x->shape;
    const bool     slice = by_slice(shape);
    const int      index = (slice ? s->at.from : s->at.first) + i, rows = rows_of(x, s->at, index);
    return (qg__norm_block){ .window  = { slice ? rows : shape.h, shape.w, shape.c, 1 },
                             .at      = (size_t)shape.c *
                                        (slice ? (size_t)qg__slice_first(s->at, index) : (size_t)i * (size_t)rows),
                             .numbers = (size_t)rows * (size_t)shape.c,
                             .index   = index };
}

bool qg__norm_gather(qg_tape *t, const qg__norm_statistics *s, const qg_var *x, void *values, size_t bytes)
{
    return (by_slice(x->shape) ? qg__slices_gather : qg__images_gather)(t, s->at, values, bytes);
}

/* Parts of the largest block, and floats of its sums. */
static size_t parts(const qg_var *x, qg__slices at)
{
    return qg__norm_parts((size_t)(by_slice(x->shape) ? at.n / QG_SLICES + 1 : x->shape.h * x->shape.w));
}

static size_t sums_size(const qg_var *x, qg__slices at) { return parts(x, at) * 3 * (size_t)x->shape.c; }

/* --- statistics --------------------------------------------------------------------------- */

typedef struct sums_pass {
    const qg__norm_kernels    *k;
    const qg__norm_statistics *s;
    const qg_var *x;
    float        *sums;                 /* [blocks of the batch][parts][3][c] */
} sums_pass;

static void sums_piece(void *context, int i, int worker)
{
    const sums_pass     *p = context;
    const qg__norm_block b = qg__norm_block_at(p->s, p->x, i);
    const size_t         c = (size_t)p->x->shape.c;
    float               *sums = p->sums + (size_t)b.index * sums_size(p->x, p->s->at);
    p->k->sums(b.numbers / c, (int)c, p->x->data + b.at, sums);
}

/* The sums of all blocks of the batch.  Those of images may have been taken by the product before.  NULL: the
 * step has failed. */
static const float *sum_blocks(qg_tape *t, const qg__norm_statistics *s, const qg_var *x)
{
    const size_t each  = sums_size(x, s->at);
    const float *taken = by_slice(x->shape) ? NULL : qg__image_sums(x);
    if (taken && !s->at.shared) return taken;
    float *sums = qg_scratch(t, (size_t)qg__norm_all_blocks(s, x) * each * sizeof *sums);
    if (!sums) return NULL;
    if (taken) memcpy(sums + (size_t)s->at.first * each, taken, (size_t)s->blocks * each * sizeof *taken);
    else qg_parallel(s->blocks, sums_piece, &(sums_pass){ QG_KERNELS(qg__norm_kernels), s, x, sums });
    return qg__norm_gather(t, s, x, sums, each * sizeof *sums) ? sums : NULL;
}

/* The sums of one channel over one part, and its number of rows: 0 after the last part of a block. */
typedef struct part {
    double rows, first, s1, s2;
} part;

static part part_of(const qg_var *x, qg__slices batch, const float *sums, int k, int block, size_t i)
{
    const size_t c = (size_t)x->shape.c, rows = (size_t)rows_of(x, batch, block), from = i * QG__NORM_PART;
    const float *at = sums + (size_t)block * sums_size(x, batch) + i * 3 * c + (size_t)k;
    if (from >= rows) return (part){ .rows = 0 };
    return (part){ .rows  = (double)(rows - from < QG__NORM_PART ? rows - from : QG__NORM_PART),
                   .first = (double)at[0], .s1 = (double)at[c], .s2 = (double)at[2 * c] };
}

/* Mean and biased variance over all parts [Chan, Golub, LeVeque 1983], in double and in order. */
static void combine(const qg__norm_statistics *s, const qg_var *x, const float *sums, int k, double *mean,
                    double *var)
{
    const size_t n = parts(x, s->at);
    const int    blocks = qg__norm_all_blocks(s, x);
    double       m = 0, total = 0, spread = 0;
    for (int b = 0; b < blocks; b++)
        for (size_t i = 0; i < n; i++) {
            const part p = part_of(x, s->at, sums, k, b, i);
            if (p.rows == 0) break;
            total += p.rows * p.first + p.s1;
            m += p.rows;
        }
    *mean = total / m;
    for (int b = 0; b < blocks; b++)
        for (size_t i = 0; i < n; i++) {
            const part p = part_of(x, s->at, sums, k, b, i);
            if (p.rows == 0) break;
            const double off = p.first + p.s1 / p.rows - *mean;
            spread += p.s2 - p.s1 * p.s1 / p.rows + p.rows * off * off;
        }
    *var = spread > 0 || isnan(spread) ? spread / m : 0;
}

bool qg__norm_batch(qg_tape *t, const qg_var *x, double *mean, double *var)
{
    const qg__slices          at = qg__slices_of(x);
    const qg__norm_statistics s  = { .at = at, .blocks = by_slice(x->shape) ? at.to - at.from : x->shape.n };
    const float              *sums = sum_blocks(t, &s, x);
    for (int k = 0; sums && k < x->shape.c; k++) combine(&s, x, sums, k, &mean[k], &var[k]);
    return sums != NULL;
}

/* --- the line ----------------------------------------------------------------------------- */

qg__norm_statistics qg__norm_begin(const qg_var *x, qg_norm_spec spec, qg__slices at, float *vectors)
{
    const size_t c = (size_t)x->shape.c;
    return (qg__norm_statistics){ .at       = at,
                                  .blocks   = by_slice(x->shape) ? at.to - at.from : x->shape.n,
                                  .of_batch = qg_tape_mode(x->tape) != QG_EVAL && !spec.frozen,
                                  .mean     = vectors,
                                  .rest     = vectors + c,
                                  .inv      = vectors + 2 * c,
                                  .a        = vectors + 3 * c,
                                  .b        = vectors + 4 * c };
}

/* z = a (x - mean) + b, not a x + (b - a mean), whose terms are as large as the mean and whose difference
 * keeps their roundings.  Where x equals the mean, as integers often do, z is beta to the bit, so a sign after
 * it does not depend on roundings.  What rounding takes off the mean goes into b. */
static void training_line(const qg__norm_statistics *s, const qg_var *y, const float *sums, qg_norm_spec spec)
{
    const qg_var *x = y->in[0], *gamma = y->in[1], *beta = y->in[2];
    const double  m = (double)s->at.n * x->shape.h * x->shape.w;
    for (int k = 0; k < x->shape.c; k++) {
        double mean = spec.mean[k], var = spec.var[k];
        if (s->of_batch) {
            combine(s, x, sums, k, &mean, &var);
            if (s->spread) s->spread[k] = qg__norm_unbiased_of(m, var);
            else qg__norm_track(spec, (size_t)k, (float)mean, qg__norm_unbiased_of(m, var));
        }
        s->mean[k] = (float)mean;
        s->rest[k] = (float)(mean - (double)s->mean[k]);
        s->inv[k]  = (float)(1.0 / sqrt(var + qg__norm_eps_of(spec)));
        s->a[k]    = gamma ? gamma->data[k] * s->inv[k] : s->inv[k];
        s->b[k]    = (beta ? beta->data[k] : 0.0f) - s->a[k] * s->rest[k];
    }
}

/* With a mean of 0 and an inv of 1, what follows in the same pass multiplies by 1 and adds 0. */
static void evaluation_line(const qg__norm_statistics *s, const qg_var *y, qg_norm_spec spec)
{
    const float *gamma = y->in[1] ? y->in[1]->data : NULL, *beta = y->in[2] ? y->in[2]->data : NULL;
    for (int k = 0; k < y->shape.c; k++) {
        double a, b;
        qg__norm_line(spec, gamma, beta, (size_t)k, &a, &b);
        s->mean[k] = s->rest[k] = 0.0f;
        s->inv[k]  = 1.0f;
        s->a[k]    = (float)a;
        s->b[k]    = (float)b + 0.0f;       /* never -0, so that z is not either */
    }
}

bool qg__norm_measure(qg_tape *t, const qg_var *y, qg_norm_spec spec, const qg__norm_statistics *s)
{
    const float *sums = s->of_batch ? sum_blocks(t, s, y->in[0]) : NULL;
    if (s->of_batch && !sums) return false;
    if (qg_tape_mode(t) == QG_EVAL) evaluation_line(s, y, spec);
    else training_line(s, y, sums, spec);
    return true;
}

void qg__norm_evaluate(const qg__norm_statistics *s, qg__norm_block block, const float *x, float *z)
{
    const size_t c = (size_t)block.window.c;
    for (size_t i = 0; i < block.numbers; i += c)
        for (size_t k = 0; k < c; k++) z[i + k] = s->a[k] * x[i + k] + s->b[k];
}

/* --- its derivative ----------------------------------------------------------------------- */

qg__norm_slopes qg__norm_slopes_of(qg_tape *t, const qg__norm_statistics *s, const qg_var *x,
                                   const float *sums)
{
    const size_t c = (size_t)x->shape.c, blocks = (size_t)qg__norm_all_blocks(s, x);
    const double m = (double)s->at.n * x->shape.h * x->shape.w;
    float       *v = qg_scratch(t, 4 * c * sizeof *v);
    if (!v) return (qg__norm_slopes){ .dbeta = NULL };
    const qg__norm_slopes d = { .dbeta = v, .dgamma = v + c, .p = v + 2 * c, .q = v + 3 * c };
    for (size_t k = 0; k < c; k++) {
        double dbeta = 0, dxhat = 0;
        for (size_t b = 0; b < blocks; b++) {
            dbeta += (double)sums[2 * b * c + k];
            dxhat += (double)sums[(2 * b + 1) * c + k];
        }
        dxhat -= (double)s->rest[k] * dbeta;
        const double dgamma = dxhat * (double)s->inv[k];
        const double slope  = s->of_batch ? -(double)s->a[k] * (double)s->inv[k] * dgamma / m : 0;
        d.dbeta[k]  = (float)dbeta;
        d.dgamma[k] = (float)dgamma;
        d.p[k]      = (float)slope;
        d.q[k]      = s->of_batch ? (float)(-(double)s->a[k] * dbeta / m - slope * (double)s->rest[k]) : 0;
    }
    return d;
}

void qg__norm_learn(qg_var *v, const float *gradient)
{
    if (!v || !v->grad) return;
    for (size_t k = 0; k < qg_count(v->shape); k++)
        v->grad[k] = (v->fresh ? 0.0f : v->grad[k]) + gradient[k];
    v->fresh = false;
}
