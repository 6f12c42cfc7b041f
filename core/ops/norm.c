#include <math.h>
#include <string.h>

#include "core/kernels/norm_kernel.h"
#include "core/kernels/parallel.h"
#include "core/ops/conv2d.h"
#include "core/ops/norm.h"
#include "core/slices.h"
#include "core/walk.h"

/* --- what all norms share ----------------------------------------------------------------- */

double qg__norm_eps_of(qg_norm_spec spec) { return spec.eps == 0 ? 1e-5 : (double)spec.eps; }

double qg__norm_deviation(qg_norm_spec spec, size_t k) { return sqrt((double)spec.var[k] + qg__norm_eps_of(spec)); }

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
        qg_reject(t, QG_ESHAPE, "%s: %s " QG_SHAPE_FMT " has %d channel%s, %s is " QG_SHAPE_FMT, op, name,
                  QG_SHAPE_ARGS(x->shape), c, c == 1 ? "" : "s", scale ? "gamma" : "beta", QG_SHAPE_ARGS(v->shape));
    else if (!spec.mean || !spec.var)
        qg_reject(t, QG_EARG, "%s: running mean and var are required", op);
    else if (!(spec.eps >= 0 && isfinite(spec.eps)))
        qg_reject(t, QG_EARG, "%s: eps is %g, must be 0 (for 1e-5) or more", op, (double)spec.eps);
    else if (!(spec.momentum >= 0 && spec.momentum <= 1))
        qg_reject(t, QG_EARG, "%s: momentum is %g, not in 0..1", op, (double)spec.momentum);
    else return true;
    return false;
}

/* --- qg_norm ------------------------------------------------------------------------------ */

/* Operands after x, gamma and beta. */
enum { ADD = 3, LEARNED = 4 };

/* What forward leaves for backward. */
typedef struct norm {
    qg_activation act;
    bool          relu;
    qg__window    window;       /* of one block */
    qg__slices    at;           /* the images of the batch */
    int           blocks;       /* that are here: images, or slices of a batch of vectors */
    bool          batch_stats;  /* the statistics are of this batch: dx sees them */
    bool          alone;        /* the other ranks have statistics of their own (per_rank) */
    qg_norm_spec  running;      /* and then its statistics and their momentum, */
    float        *spread;       /* and [c] the unbiased variance of this rank's images; else NULL */
    float        *mean, *rest;  /* [c] the mean, rounded, and what rounding took off it; QG_EVAL: 0 */
    float        *inv;          /* [c] 1 / sqrt(var + eps); QG_EVAL: 1 */
    float        *a, *b;        /* [c] z = a (x - mean) + b; QG_EVAL: fl(fl(a x) + b) */
    float        *z;            /* [y] after relu, before the activation: y itself if there is no activation;
                                   kept where pooling has made it small; NULL: backward computes it again */
    uint8_t      *which;        /* [y] index of the maximum in its window; NULL: no pooling */
} norm;

/* What a piece needs; the pieces of all four passes are blocks. */
typedef struct pass {
    const qg__norm_kernels *k;
    const norm *s;
    qg_var     *y;
    float      *dz;             /* [y] dL/dz: y's gradient, or a copy */
    float      *sums;           /* of all blocks of the batch: [blocks][parts][3][c], or [blocks][2][c] in backward */
    double     *dk;             /* likewise: [blocks][3] gradients of what the activation learns */
    float      *scratch;        /* [threads][block]: z where it is not kept */
    size_t      scratch_size;
    float      *lines;          /* [threads][rows][c] z of a block before the sum and the rest; NULL: that is x */
    size_t      lines_size;
    const float *p, *q;         /* [c] dx = a dz + p (x - mean) + q */
} pass;

/* A vector is one row, so a block of vectors is a slice of the batch, seen as one column. */
static bool by_slice(qg_shape x) { return x.h == 1 && x.w == 1; }

/* Of the whole batch, and the number of the first that is here. */
static int all_blocks(const qg_var *x, qg__slices at)  { return by_slice(x->shape) ? QG_SLICES : at.n; }
static int first_block(const qg_var *x, qg__slices at) { return by_slice(x->shape) ? at.from : at.first; }

/* Of any block of the batch. */
static int rows_of(const qg_var *x, qg__slices at, int block)
{
    if (!by_slice(x->shape)) return x->shape.h * x->shape.w;
    return qg_slice_at(at.n, block + 1) - qg_slice_at(at.n, block);
}

/* The following count blocks from the first that is here. */
static int block_rows(const qg_var *x, qg__slices at, int block) { return rows_of(x, at, first_block(x, at) + block); }

static size_t block_start(const qg_var *x, qg__slices at, int block)       /* first row of x in the block */
{
    if (by_slice(x->shape)) return (size_t)qg__slice_first(at, at.from + block);
    return (size_t)block * (size_t)(x->shape.h * x->shape.w);
}

/* Parts of the largest block, and floats of its sums. */
static size_t parts(const qg_var *x, qg__slices at)
{
    return qg__norm_parts((size_t)(by_slice(x->shape) ? at.n / QG_SLICES + 1 : x->shape.h * x->shape.w));
}

/* Values of the blocks, as many bytes each, reach all ranks. */
static bool gather_blocks(qg_tape *t, const qg_var *x, qg__slices at, void *values, size_t bytes)
{
    return by_slice(x->shape) ? qg__slices_gather(t, at, values, bytes) : qg__images_gather(t, at, values, bytes);
}

static size_t sums_size(const qg_var *x, qg__slices at) { return parts(x, at) * 3 * (size_t)x->shape.c; }

static qg__window block_window(const norm *s, const qg_var *x, int block)
{
    qg__window g = s->window;
    if (by_slice(x->shape)) g.h = block_rows(x, s->at, block);
    return g;
}

/* Where the block's results start in y, and how many numbers they are. */
static size_t y_start(const norm *s, const qg_var *y, int block)
{
    if (s->window.pool > 1) return (size_t)block * qg_row(y->shape);
    return block_start(y->in[0], s->at, block) * (size_t)s->window.c;
}

static size_t y_numbers(const norm *s, const qg_var *y, int block)
{
    if (s->window.pool > 1) return qg_row(y->shape);
    return (size_t)block_rows(y->in[0], s->at, block) * (size_t)s->window.c;
}

/* Where z of the block that starts at y + at is stored. */
static float *z_of(const pass *p, size_t at, int worker)
{
    return p->s->z ? p->s->z + at : p->scratch + (size_t)worker * p->scratch_size;
}

static bool take_scratch(qg_tape *t, pass *p)
{
    if (p->s->z) return true;
    for (int b = 0; b < p->s->blocks; b++)
        if (y_numbers(p->s, p->y, b) > p->scratch_size) p->scratch_size = y_numbers(p->s, p->y, b);
    p->scratch = qg_scratch(t, (size_t)qg_threads() * p->scratch_size * sizeof *p->scratch);
    return p->scratch != NULL;
}

/* x: of the block. */
static void rest_of_z(const pass *p, int block, const float *x, const float *a, const float *b, float *z)
{
    const norm   *s   = p->s;
    const qg_var *in  = p->y->in[0], *add = p->y->in[ADD];
    const size_t  at  = y_start(s, p->y, block), row = block_start(in, s->at, block) * (size_t)in->shape.c;
    p->k->forward(block_window(s, in, block), x, s->mean, a, b, add ? add->data + row : NULL, s->relu ? 0.0f : -INFINITY, z,
                  s->which ? s->which + at : NULL);
}

static const float *x_of(const pass *p, int block)
{
    const qg_var *x = p->y->in[0];
    return x->data + block_start(x, p->s->at, block) * (size_t)x->shape.c;
}

static void z_piece(const pass *p, int block, float *z)
{
    rest_of_z(p, block, x_of(p, block), p->s->a, p->s->b, z);
}

/* --- forward ------------------------------------------------------------------------------ */

static void sums_piece(void *context, int block, int worker)
{
    (void)worker;
    const pass   *p = context;
    const qg_var *x = p->y->in[0];
    const int     c = x->shape.c, rows = block_rows(x, p->s->at, block);
    if (rows == 0) return;
    p->k->sums((size_t)rows, c, x_of(p, block),
               p->sums + (size_t)(first_block(x, p->s->at) + block) * sums_size(x, p->s->at));
}

/* The sums of all blocks of the batch.  Those of images may have been taken by the product before. */
static bool sum_blocks(qg_tape *t, pass *p)
{
    const qg_var *x     = p->y->in[0];
    const size_t  each  = sums_size(x, p->s->at);
    const float  *taken = p->sums;
    if (taken && !p->s->at.shared) return true;
    p->sums = qg_scratch(t, (size_t)all_blocks(x, p->s->at) * each * sizeof *p->sums);
    if (!p->sums) return false;
    if (taken) memcpy(p->sums + (size_t)p->s->at.first * each, taken, (size_t)p->s->blocks * each * sizeof *taken);
    else qg_parallel(p->s->blocks, sums_piece, p);
    return gather_blocks(t, x, p->s->at, p->sums, each * sizeof *p->sums);
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
static void combine(const norm *s, const qg_var *x, const float *sums, int k, double *mean, double *var)
{
    const size_t n = parts(x, s->at);
    const int    blocks = all_blocks(x, s->at);
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

/* z = a (x - mean) + b, not a x + (b - a mean), whose terms are as large as the mean and whose difference keeps
 * their roundings.  Where x equals the mean, as integers often do, z is beta to the bit, so a sign after it does
 * not depend on roundings.  What rounding takes off the mean goes into b. */
static void coefficients(norm *s, const qg_var *y, const float *sums, qg_norm_spec spec)
{
    const qg_var *x = y->in[0], *gamma = y->in[1], *beta = y->in[2];
    const double  m = (double)s->at.n * x->shape.h * x->shape.w;
    for (int k = 0; k < x->shape.c; k++) {
        double mean = spec.mean[k], var = spec.var[k];
        if (s->batch_stats) {
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

/* z = fl(fl(a x) + b): kernels would contract it, this file does not. */
static const float *lines_of(const pass *p, int block, int worker)
{
    const norm  *s = p->s;
    const size_t c = (size_t)s->window.c, n = (size_t)block_rows(p->y->in[0], s->at, block) * c;
    const float *x = x_of(p, block);
    if (!p->lines) return x;
    float *z = p->lines + (size_t)worker * p->lines_size;
    for (size_t i = 0; i < n; i += c)
        for (size_t k = 0; k < c; k++) z[i + k] = s->a[k] * x[i + k] + s->b[k];
    return z;
}

static bool take_lines(qg_tape *t, pass *p)
{
    const qg_var *x = p->y->in[0];
    for (int b = 0; b < p->s->blocks; b++) {
        const size_t n = (size_t)block_rows(x, p->s->at, b) * (size_t)x->shape.c;
        if (n > p->lines_size) p->lines_size = n;
    }
    p->lines = qg_scratch(t, (size_t)qg_threads() * p->lines_size * sizeof *p->lines);
    return p->lines != NULL;
}

/* The rest of the pass multiplies by 1 and adds 0. */
static void evaluation_coefficients(norm *s, const qg_var *y, qg_norm_spec spec)
{
    const float *gamma = y->in[1] ? y->in[1]->data : NULL, *beta = y->in[2] ? y->in[2]->data : NULL;
    for (int k = 0; k < s->window.c; k++) {
        double a, b;
        qg__norm_line(spec, gamma, beta, (size_t)k, &a, &b);
        s->mean[k] = s->rest[k] = 0.0f;
        s->inv[k]  = 1.0f;
        s->a[k]    = (float)a;
        s->b[k]    = (float)b + 0.0f;       /* never -0, so that z is not either */
    }
}

static void forward_piece(void *context, int block, int worker)
{
    const pass  *p  = context;
    const norm  *s  = p->s;
    const size_t at = y_start(s, p->y, block), n = y_numbers(s, p->y, block);
    float       *y  = p->y->data + at, *z = z_of(p, at, worker);
    if (n == 0) return;
    if (qg_tape_mode(p->y->tape) == QG_EVAL) rest_of_z(p, block, lines_of(p, block, worker), s->inv, s->rest, z);
    else z_piece(p, block, z);
    if (z != y) s->act.forward(&s->act, n, z, y);
}

/* --- backward ----------------------------------------------------------------------------- */

/* y = act(z):  dz = dy act'(z), in place of dy; then the two sums of dz. */
static void grad_sums_piece(void *context, int block, int worker)
{
    const pass   *p  = context;
    const norm   *s  = p->s;
    const qg_var *x  = p->y->in[0], *add = p->y->in[ADD];
    const size_t  at = y_start(s, p->y, block), n = y_numbers(s, p->y, block);
    const size_t  c  = (size_t)x->shape.c;
    const int     all = first_block(x, s->at) + block;       /* of the whole batch */
    float        *dz = p->dz + at, *sums = p->sums + (size_t)all * 2 * c, *z = z_of(p, at, worker);
    if (n == 0) {
        memset(sums, 0, 2 * c * sizeof *sums);
        return;
    }
    if (!s->z) z_piece(p, block, z);
    double *dk = s->act.n_learned ? p->dk + 3 * all : NULL;
    if (s->act.backward) s->act.backward(&s->act, n, z, dz, dz, dk);
    for (size_t i = 0; s->relu && i < n; i++) dz[i] = z[i] <= 0.0f ? 0.0f : dz[i];
    if (add && add->grad && add->fresh) memcpy(add->grad + at, dz, n * sizeof *dz);
    else if (add && add->grad)
        for (size_t i = 0; i < n; i++) add->grad[at + i] += dz[i];
    p->k->grad_sums(block_window(s, x, block), x_of(p, block), dz,
                    s->which ? s->which + at : NULL, s->mean, sums);
}

static void grad_input_piece(void *context, int block, int worker)
{
    (void)worker;
    const pass  *p  = context;
    const norm  *s  = p->s;
    qg_var      *x  = p->y->in[0];
    const size_t at = y_start(s, p->y, block), row = block_start(x, s->at, block) * (size_t)x->shape.c;
    if (y_numbers(s, p->y, block) == 0 && block_rows(x, s->at, block) == 0) return;
    p->k->grad_input(block_window(s, x, block), x->data + row, p->dz + at,
                     s->which ? s->which + at : NULL, s->mean, s->a, p->p, p->q, !x->fresh, x->grad + row);
}

/* These gradients are added to below, so they start at zero; that of x, which may be one of them, is assigned. */
static void start_at_zero(qg_var *v)
{
    if (!v || !v->grad || !v->fresh) return;
    memset(v->grad, 0, qg_count(v->shape) * sizeof *v->grad);
    v->fresh = false;
}

/* --- with statistics of each rank's own (per_rank) ------------------------------------------ */

/* What ranks add up: [4][c] dbeta, dgamma, mean and variance, and the gradients of what the activation learns. */
static size_t shared_sums(const norm *s) { return 4 * (size_t)s->window.c + 3; }

static void add_shared(qg_tape *t, qg_var *y, float *sums)
{
    (void)t;
    const norm  *s = y->saved;
    const qg_var *gamma = y->in[1], *beta = y->in[2];
    const size_t c = (size_t)s->window.c;
    for (size_t k = 0; k < c; k++) {
        if (beta && beta->grad) beta->grad[k] += sums[k];
        if (gamma && gamma->grad) gamma->grad[k] += sums[c + k];
        if (s->spread) qg__norm_track(s->running, k, sums[2 * c + k], sums[3 * c + k]);
    }
    for (int j = 0; j < s->act.n_learned; j++)
        if (s->act.learned[j] && s->act.learned[j]->grad) s->act.learned[j]->grad[0] += sums[4 * c + (size_t)j];
}

/* sums: its gradients are filled in. */
static bool send_sums(qg_tape *t, qg_var *y, float *sums)
{
    const norm      *s   = y->saved;
    const size_t     c   = (size_t)s->window.c;
    const qg__slices all = qg__slices_of(y->in[0]);
    const float      share = (float)all.count / (float)all.n;
    for (size_t k = 0; k < c; k++) {
        sums[2 * c + k] = s->spread ? share * (s->mean[k] + s->rest[k]) : 0;
        sums[3 * c + k] = s->spread ? share * s->spread[k] : 0;
    }
    return qg__reduce(t, y, all, sums, shared_sums(s), add_shared);
}

/* Without a backward pass to take them along, the statistics of this rank reach the others now. */
static bool send_statistics(qg_tape *t, qg_var *y)
{
    const norm *s    = y->saved;
    float      *sums = qg_scratch(t, shared_sums(s) * sizeof *sums);
    if (!sums) return false;
    memset(sums, 0, shared_sums(s) * sizeof *sums);
    return send_sums(t, y, sums);
}

/* Nobody reads y's gradient again, unless it is kept. */
static float *take_dz(qg_tape *t, const qg_var *y)
{
    if (!qg__retained(t)) return y->grad;
    float *dz = qg_scratch(t, qg_count(y->shape) * sizeof *dz);
    return dz ? memcpy(dz, y->grad, qg_count(y->shape) * sizeof *dz) : NULL;
}

/* z = gamma xhat + beta, xhat = (x - mean) inv, m = n h w.
 *     dbeta  = sum dz,   dgamma = sum dz xhat
 *     dx     = gamma inv (dz - dbeta / m - xhat dgamma / m)   = a dz + p (x - mean) + q
 * The last two terms come from mean and inv, and are absent when those are constants. */
static void norm_backward(qg_tape *t, qg_var *y)
{
    const norm  *s = y->saved;
    qg_var      *x = y->in[0], *gamma = y->in[1], *beta = y->in[2];
    const size_t c = (size_t)x->shape.c, blocks = (size_t)all_blocks(x, s->at);
    const double m = (double)s->at.n * x->shape.h * x->shape.w;
    float       *sums = qg_scratch(t, blocks * 2 * c * sizeof *sums);
    double      *dk   = qg_scratch(t, blocks * 3 * sizeof *dk);
    float       *p    = qg_scratch(t, 2 * c * sizeof *p), *q = p ? p + c : NULL;
    float       *all  = s->alone ? qg_scratch(t, shared_sums(s) * sizeof *all) : NULL;
    if (!sums || !dk || !p || (s->alone && !all)) return;
    memset(dk, 0, blocks * 3 * sizeof *dk);
    for (int i = 1; i < QG_OPERANDS; i++)
        if (i != ADD || y->in[ADD] == x) start_at_zero(y->in[i]);
    pass work = { .k = QG_KERNELS(qg__norm_kernels), .s = s, .y = y, .dz = take_dz(t, y), .sums = sums, .dk = dk, .p = p, .q = q };
    if (!work.dz) return;
    if (!take_scratch(t, &work)) return;
    qg_parallel(s->blocks, grad_sums_piece, &work);
    if (!gather_blocks(t, x, s->at, sums, 2 * c * sizeof *sums)) return;
    if (s->act.n_learned && !gather_blocks(t, x, s->at, dk, 3 * sizeof *dk)) return;
    for (size_t k = 0; k < c; k++) {
        double dbeta = 0, dxhat = 0;
        for (size_t b = 0; b < blocks; b++) {
            dbeta += (double)sums[2 * b * c + k];
            dxhat += (double)sums[(2 * b + 1) * c + k];
        }
        dxhat -= (double)s->rest[k] * dbeta;
        const double dgamma = dxhat * (double)s->inv[k];
        if (all) all[k] = (float)dbeta, all[c + k] = (float)dgamma;
        if (!all && gamma && gamma->grad) gamma->grad[k] += (float)dgamma;
        if (!all && beta && beta->grad) beta->grad[k] += (float)dbeta;
        const double slope = s->batch_stats ? -(double)s->a[k] * (double)s->inv[k] * dgamma / m : 0;
        p[k] = (float)slope;
        q[k] = s->batch_stats ? (float)(-(double)s->a[k] * dbeta / m - slope * (double)s->rest[k]) : 0;
    }
    for (int j = 0; j < s->act.n_learned; j++) {
        double sum = 0;
        for (size_t b = 0; b < blocks; b++) sum += dk[3 * b + (size_t)j];
        if (all) all[4 * c + (size_t)j] = (float)sum;
        else if (s->act.learned[j] && s->act.learned[j]->grad) s->act.learned[j]->grad[0] += (float)sum;
    }
    for (int j = s->act.n_learned; all && j < 3; j++) all[4 * c + (size_t)j] = 0;
    if (all && !send_sums(t, y, all)) return;
    if (y->in[ADD]) y->in[ADD]->fresh = false;
    if (x->grad) qg_parallel(s->blocks, grad_input_piece, &work);
}

static const qg_op norm_op = {
    .name = "norm", .backward = norm_backward, .assigns = true, .in_place = true
};

/* --- record ------------------------------------------------------------------------------- */

static bool valid(qg_tape *t, const qg_var *x, const qg_var *gamma, const qg_var *beta, qg_norm_spec spec)
{
    if (!qg__norm_fits(t, "norm", "x", x, x->shape.c, gamma, beta, spec)) return false;
    if (spec.pool < 0 || spec.pool > QG_NORM_POOL)
        qg_reject(t, QG_EARG, "norm: pool is %d, not 0..%d", spec.pool, QG_NORM_POOL);
    else if (spec.pool > 1 && (x->shape.h < spec.pool || x->shape.w < spec.pool))
        qg_reject(t, QG_ESHAPE, "norm: x " QG_SHAPE_FMT " is smaller than its %dx%d window",
                  QG_SHAPE_ARGS(x->shape), spec.pool, spec.pool);
    else if (spec.add && (spec.pool > 1 || !qg_shape_equal(spec.add->shape, x->shape)))
        qg_reject(t, QG_ESHAPE, "norm: add " QG_SHAPE_FMT " must have the shape of x " QG_SHAPE_FMT
                  " and no pooling, pool is %d", QG_SHAPE_ARGS(spec.add->shape), QG_SHAPE_ARGS(x->shape), spec.pool);
    else if (spec.act.n_learned < 0 || spec.act.n_learned > 3)
        qg_reject(t, QG_EARG, "norm: the activation learns %d values, not 0..3", spec.act.n_learned);
    else return true;
    return false;
}

/* Memory of s: five vectors of c floats, a sixth for `spread`, and, with pooling, which, and z if an activation reads it.
 * Without pooling z is as large as x; backward computes it again from x, while that is in cache. */
static bool take_memory(qg_tape *t, qg_var *y, norm *s)
{
    const size_t c = (size_t)s->window.c, n = qg_count(y->shape);
    const bool   pools = s->window.pool > 1, own_z = pools && s->act.forward;
    const size_t vectors = s->alone && s->batch_stats ? 6 : 5;
    const size_t bytes = sizeof *s + vectors * c * sizeof(float) + (own_z ? n * sizeof(float) : 0) +
                         (pools ? n : 0);
    norm *kept = qg_save(t, y, bytes);
    if (!kept) return false;
    float *at = (float *)(void *)(kept + 1);
    s->mean   = at;
    s->rest   = at + c;
    s->inv    = at + 2 * c;
    s->a      = at + 3 * c;
    s->b      = at + 4 * c;
    s->spread = vectors == 6 ? at + 5 * c : NULL;
    s->z      = own_z ? at + vectors * c : s->act.forward ? NULL : y->data;
    s->which  = pools ? (uint8_t *)(at + vectors * c + (own_z ? n : 0)) : NULL;
    *kept     = *s;
    return true;
}

qg_var *qg_norm(qg_tape *t, qg_var *x, qg_var *gamma, qg_var *beta, qg_norm_spec spec)
{
    if (!t || !x || !valid(t, x, gamma, beta, spec)) return NULL;
    const bool evaluates = qg_tape_mode(t) == QG_EVAL;
    const int  pool  = spec.pool > 1 ? spec.pool : 1;
    qg_shape   shape = { x->shape.n, x->shape.h / pool, x->shape.w / pool, x->shape.c };
    qg_var    *y     = qg_record(t, &norm_op, shape, x, gamma, beta);
    if (!y || !qg_add_operand(y, ADD, spec.add)) return NULL;
    for (int j = 0; j < spec.act.n_learned; j++)
        if (!qg_add_operand(y, LEARNED + j, spec.act.learned[j])) return NULL;

    const bool       alone = !evaluates && spec.per_rank && qg__slices_of(x).shared;
    const qg__slices at    = alone ? qg__slices_alone(x) : qg__slices_of(x);
    norm s = { .act         = spec.act,
               .relu        = spec.relu,
               .window      = { x->shape.h, x->shape.w, x->shape.c, pool },
               .at          = at,
               .blocks      = by_slice(x->shape) ? at.to - at.from : x->shape.n,
               .batch_stats = !evaluates && !spec.frozen,
               .alone       = alone,
               .running     = spec };
    if (!take_memory(t, y, &s)) return NULL;
    pass work = { .k = QG_KERNELS(qg__norm_kernels), .s = &s, .y = y, .sums = by_slice(x->shape) ? NULL : (float *)(uintptr_t)qg__image_sums(x) };
    if (s.batch_stats && !sum_blocks(t, &work)) return NULL;
    if (!take_scratch(t, &work) || (evaluates && !spec.done && !take_lines(t, &work))) return NULL;
    if (evaluates) evaluation_coefficients(&s, y, spec);
    else coefficients(&s, y, work.sums, spec);
    qg_parallel(s.blocks, forward_piece, &work);
    return s.spread && !y->needs_grad && !send_statistics(t, y) ? NULL : y;
}
