#include <math.h>
#include <string.h>

#include "core/ops/norm_spec.h"
#include "core/kernels/norm_kernel.h"
#include "core/kernels/parallel.h"

/* Operands behind x, gamma and beta. */
enum { ADD = 3, LEARNED = 4 };

/* What forward leaves for backward. */
typedef struct norm {
    qg_activation act;
    bool          relu;
    qg__window    window;       /* of one block */
    int           blocks;       /* images, or slices of a batch of vectors */
    bool          batch_stats;  /* the statistics are of this batch: dx sees them */
    float        *mean, *rest;  /* [c] the mean, rounded, and what rounding took off it */
    float        *inv;          /* [c] 1 / sqrt(var + eps) */
    float        *a, *b;        /* [c] z = a (x - mean) + b */
    float        *z;            /* [y] before the activation, behind relu: y itself if there is none; what
                                   pooling has made small is kept; NULL: backward computes it again */
    uint8_t      *which;        /* [y] index of the maximum in its window; NULL: no pooling */
} norm;

/* Everything a piece needs; the pieces of all four passes are blocks. */
typedef struct pass {
    const qg__norm_kernels *k;
    const norm *s;
    qg_var     *y;
    float      *sums;           /* [blocks][parts][3][c], or [blocks][2][c] in backward */
    double     *dk;             /* [blocks][3] gradients of what the activation learns */
    float      *scratch;        /* [threads][block]: z where it is not kept */
    size_t      scratch_size;
    const float *p, *q;         /* [c] dx = a dz + p (x - mean) + q */
} pass;

/* Vectors have one row per image: a block is then a slice of the batch, seen as one column. */
static bool by_slice(qg_shape x) { return x.h == 1 && x.w == 1; }

static int block_rows(const qg_var *x, int block)
{
    if (!by_slice(x->shape)) return x->shape.h * x->shape.w;
    return qg_slice(x->shape.n, block + 1) - qg_slice(x->shape.n, block);
}

static size_t block_start(const qg_var *x, int block)      /* first row of x in the block */
{
    if (by_slice(x->shape)) return (size_t)qg_slice(x->shape.n, block);
    return (size_t)block * (size_t)(x->shape.h * x->shape.w);
}

/* Parts of the largest block, and floats of its sums. */
static size_t parts(const qg_var *x)
{
    return qg__norm_parts((size_t)(by_slice(x->shape) ? x->shape.n / QG_SLICES + 1 : block_rows(x, 0)));
}

static size_t sums_size(const qg_var *x) { return parts(x) * 3 * (size_t)x->shape.c; }

static qg__window block_window(const norm *s, const qg_var *x, int block)
{
    qg__window g = s->window;
    if (by_slice(x->shape)) g.h = block_rows(x, block);
    return g;
}

/* Where the block's results start in y, and how many numbers they are. */
static size_t y_start(const norm *s, const qg_var *y, int block)
{
    if (s->window.pool > 1) return (size_t)block * qg_row(y->shape);
    return block_start(y->in[0], block) * (size_t)s->window.c;
}

static size_t y_numbers(const norm *s, const qg_var *y, int block)
{
    if (s->window.pool > 1) return qg_row(y->shape);
    return (size_t)block_rows(y->in[0], block) * (size_t)s->window.c;
}

/* Where z of a block that starts at y + at belongs. */
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

static void z_piece(const pass *p, int block, float *z)
{
    const norm   *s   = p->s;
    const qg_var *x   = p->y->in[0], *add = p->y->in[ADD];
    const size_t  at  = y_start(s, p->y, block), row = block_start(x, block) * (size_t)x->shape.c;
    p->k->forward(block_window(s, x, block), x->data + row, s->mean, s->a, s->b,
                  add ? add->data + row : NULL, s->relu ? 0.0f : -INFINITY, z,
                  s->which ? s->which + at : NULL);
}

/* --- forward ------------------------------------------------------------------------------ */

static void sums_piece(void *context, int block, int worker)
{
    (void)worker;
    const pass   *p = context;
    const qg_var *x = p->y->in[0];
    const int     c = x->shape.c, rows = block_rows(x, block);
    if (rows == 0) return;
    p->k->sums((size_t)rows, c, x->data + block_start(x, block) * (size_t)c,
               p->sums + (size_t)block * sums_size(x));
}

/* The sums of one channel over one part, and how many rows it has; 0 behind the last of a block. */
typedef struct part {
    double rows, first, s1, s2;
} part;

static part part_of(const qg_var *x, const float *sums, int k, int block, size_t i)
{
    const size_t c = (size_t)x->shape.c, rows = (size_t)block_rows(x, block), from = i * QG__NORM_PART;
    const float *at = sums + (size_t)block * sums_size(x) + i * 3 * c + (size_t)k;
    if (from >= rows) return (part){ .rows = 0 };
    return (part){ .rows  = (double)(rows - from < QG__NORM_PART ? rows - from : QG__NORM_PART),
                   .first = (double)at[0], .s1 = (double)at[c], .s2 = (double)at[2 * c] };
}

/* Mean and biased variance over all parts [Chan, Golub, LeVeque 1983], in double and in order. */
static void combine(const norm *s, const qg_var *x, const float *sums, int k, double *mean, double *var)
{
    const size_t n = parts(x);
    double       m = 0, total = 0, spread = 0;
    for (int b = 0; b < s->blocks; b++)
        for (size_t i = 0; i < n; i++) {
            const part p = part_of(x, sums, k, b, i);
            if (p.rows == 0) break;
            total += p.rows * p.first + p.s1;
            m += p.rows;
        }
    *mean = total / m;
    for (int b = 0; b < s->blocks; b++)
        for (size_t i = 0; i < n; i++) {
            const part p = part_of(x, sums, k, b, i);
            if (p.rows == 0) break;
            const double off = p.first + p.s1 / p.rows - *mean;
            spread += p.s2 - p.s1 * p.s1 / p.rows + p.rows * off * off;
        }
    *var = spread > 0 || isnan(spread) ? spread / m : 0;
}

/* z = a (x - mean) + b, not a x + (b - a mean): both of those terms are as large as the mean, and their
 * difference keeps their roundings.  Where x is the mean, as integers often are, z is beta to the bit, so a
 * sign behind it does not depend on roundings.  What rounding takes off the mean goes into b. */
static void coefficients(norm *s, const qg_var *y, const float *sums, qg_norm_spec spec)
{
    const qg_var *x = y->in[0], *gamma = y->in[1], *beta = y->in[2];
    const double  m = (double)x->shape.n * x->shape.h * x->shape.w;
    for (int k = 0; k < x->shape.c; k++) {
        double mean = spec.mean[k], var = spec.var[k];
        if (s->batch_stats) {
            combine(s, x, sums, k, &mean, &var);
            qg__norm_track(spec, (size_t)k, m, mean, var);
        }
        s->mean[k] = (float)mean;
        s->rest[k] = (float)(mean - (double)s->mean[k]);
        s->inv[k]  = (float)(1.0 / sqrt(var + qg__norm_eps(spec)));
        s->a[k]    = gamma ? gamma->data[k] * s->inv[k] : s->inv[k];
        s->b[k]    = (beta ? beta->data[k] : 0.0f) - s->a[k] * s->rest[k];
    }
}

static void forward_piece(void *context, int block, int worker)
{
    const pass  *p  = context;
    const norm  *s  = p->s;
    const size_t at = y_start(s, p->y, block), n = y_numbers(s, p->y, block);
    float       *y  = p->y->data + at, *z = z_of(p, at, worker);
    if (n == 0) return;
    z_piece(p, block, z);
    if (z != y) s->act.forward(&s->act, n, z, y);
}

/* --- backward ----------------------------------------------------------------------------- */

/* dz = dy act'(z) takes the place of dy, which nobody reads again; then its two sums. */
static void grad_sums_piece(void *context, int block, int worker)
{
    const pass   *p  = context;
    const norm   *s  = p->s;
    const qg_var *x  = p->y->in[0], *add = p->y->in[ADD];
    const size_t  at = y_start(s, p->y, block), n = y_numbers(s, p->y, block);
    const size_t  c  = (size_t)x->shape.c;
    float        *dz = p->y->grad + at, *sums = p->sums + (size_t)block * 2 * c, *z = z_of(p, at, worker);
    if (n == 0) {
        memset(sums, 0, 2 * c * sizeof *sums);
        return;
    }
    if (!s->z) z_piece(p, block, z);
    double *dk = s->act.n_learned ? p->dk + 3 * block : NULL;
    if (s->act.backward) s->act.backward(&s->act, n, z, dz, dz, dk);
    for (size_t i = 0; s->relu && i < n; i++) dz[i] = z[i] <= 0.0f ? 0.0f : dz[i];
    if (add && add->grad && add->fresh) memcpy(add->grad + at, dz, n * sizeof *dz);
    else if (add && add->grad)
        for (size_t i = 0; i < n; i++) add->grad[at + i] += dz[i];
    p->k->grad_sums(block_window(s, x, block), x->data + block_start(x, block) * c, dz,
                    s->which ? s->which + at : NULL, s->mean, sums);
}

static void grad_input_piece(void *context, int block, int worker)
{
    (void)worker;
    const pass  *p  = context;
    const norm  *s  = p->s;
    qg_var      *x  = p->y->in[0];
    const size_t at = y_start(s, p->y, block), row = block_start(x, block) * (size_t)x->shape.c;
    if (y_numbers(s, p->y, block) == 0 && block_rows(x, block) == 0) return;
    p->k->grad_input(block_window(s, x, block), x->data + row, p->y->grad + at,
                     s->which ? s->which + at : NULL, s->mean, s->a, p->p, p->q, !x->fresh, x->grad + row);
}

/* What is added to below starts at zero; x is assigned, and may be one of these. */
static void start_at_zero(qg_var *v)
{
    if (!v || !v->grad || !v->fresh) return;
    memset(v->grad, 0, qg_count(v->shape) * sizeof *v->grad);
    v->fresh = false;
}

/* z = gamma xhat + beta, xhat = (x - mean) inv, m = n h w.
 *     dbeta  = sum dz,   dgamma = sum dz xhat
 *     dx     = gamma inv (dz - dbeta / m - xhat dgamma / m)   = a dz + p (x - mean) + q
 * The last two terms come from mean and inv, and are absent when those are constants. */
static void norm_backward(qg_tape *t, qg_var *y)
{
    const norm  *s = y->saved;
    qg_var      *x = y->in[0], *gamma = y->in[1], *beta = y->in[2];
    const size_t c = (size_t)x->shape.c, blocks = (size_t)s->blocks;
    const double m = (double)x->shape.n * x->shape.h * x->shape.w;
    float       *sums = qg_scratch(t, blocks * 2 * c * sizeof *sums);
    double      *dk   = qg_scratch(t, blocks * 3 * sizeof *dk);
    float       *p    = qg_scratch(t, 2 * c * sizeof *p), *q = p ? p + c : NULL;
    if (!sums || !dk || !p) return;
    memset(dk, 0, blocks * 3 * sizeof *dk);
    for (int i = 1; i < QG_OPERANDS; i++)
        if (i != ADD || y->in[ADD] == x) start_at_zero(y->in[i]);
    pass work = { .k = QG_KERNELS(qg__norm_kernels), .s = s, .y = y, .sums = sums, .dk = dk, .p = p, .q = q };
    if (!take_scratch(t, &work)) return;
    qg_parallel(s->blocks, grad_sums_piece, &work);
    for (size_t k = 0; k < c; k++) {
        double dbeta = 0, dxhat = 0;
        for (size_t b = 0; b < blocks; b++) {
            dbeta += (double)sums[2 * b * c + k];
            dxhat += (double)sums[(2 * b + 1) * c + k];
        }
        dxhat -= (double)s->rest[k] * dbeta;
        const double dgamma = dxhat * (double)s->inv[k];
        if (gamma && gamma->grad) gamma->grad[k] += (float)dgamma;
        if (beta && beta->grad) beta->grad[k] += (float)dbeta;
        const double slope = s->batch_stats ? -(double)s->a[k] * (double)s->inv[k] * dgamma / m : 0;
        p[k] = (float)slope;
        q[k] = s->batch_stats ? (float)(-(double)s->a[k] * dbeta / m - slope * (double)s->rest[k]) : 0;
    }
    for (int j = 0; j < s->act.n_learned; j++) {
        double sum = 0;
        for (size_t b = 0; b < blocks; b++) sum += dk[3 * b + (size_t)j];
        if (s->act.learned[j] && s->act.learned[j]->grad) s->act.learned[j]->grad[0] += (float)sum;
    }
    if (y->in[ADD]) y->in[ADD]->fresh = false;
    if (x->grad) qg_parallel(s->blocks, grad_input_piece, &work);
}

static const qg_op norm_op = {
    .name = "norm", .backward = norm_backward, .assigns = true, .in_place = true
};

/* --- record ------------------------------------------------------------------------------- */

static bool valid(qg_tape *t, const qg_var *x, const qg_var *gamma, const qg_var *beta,
                  qg_norm_spec spec)
{
    if (!qg__norm_fits(t, "norm", "x", x, x->shape.c, gamma, beta, spec)) return false;
    if (spec.pool < 0 || spec.pool > QG_NORM_POOL) {
        qg_reject(t, QG_EARG, "norm: pool is %d, not 0..%d", spec.pool, QG_NORM_POOL);
    } else if (spec.pool > 1 && (x->shape.h < spec.pool || x->shape.w < spec.pool)) {
        qg_reject(t, QG_ESHAPE, "norm: x " QG_SHAPE_FMT " is smaller than its %dx%d window",
                  QG_SHAPE_ARGS(x->shape), spec.pool, spec.pool);
    } else if (spec.add && (spec.pool > 1 || !qg_shape_equal(spec.add->shape, x->shape))) {
        qg_reject(t, QG_ESHAPE, "norm: add " QG_SHAPE_FMT " must have the shape of x " QG_SHAPE_FMT
                  " and no pooling, pool is %d", QG_SHAPE_ARGS(spec.add->shape),
                  QG_SHAPE_ARGS(x->shape), spec.pool);
    } else if (spec.act.n_learned < 0 || spec.act.n_learned > 3) {
        qg_reject(t, QG_EARG, "norm: the activation learns %d values, not 0..3", spec.act.n_learned);
    } else {
        return true;
    }
    return false;
}

/* Memory of s: five vectors of c floats, and where there is pooling which, and z if an activation
 * reads it.  Without pooling z is as large as x, and made from x in a pass over what is in cache. */
static bool take_memory(qg_tape *t, qg_var *y, norm *s)
{
    const size_t c = (size_t)s->window.c, n = qg_count(y->shape);
    const bool   pools = s->window.pool > 1, own_z = pools && s->act.forward;
    const size_t bytes = sizeof *s + 5 * c * sizeof(float) + (own_z ? n * sizeof(float) : 0) +
                         (pools ? n : 0);
    norm *kept = qg_save(t, y, bytes);
    if (!kept) return false;
    float *at = (float *)(void *)(kept + 1);
    s->mean   = at;
    s->rest   = at + c;
    s->inv    = at + 2 * c;
    s->a      = at + 3 * c;
    s->b      = at + 4 * c;
    s->z      = own_z ? at + 5 * c : s->act.forward ? NULL : y->data;
    s->which  = pools ? (uint8_t *)(at + 5 * c + (own_z ? n : 0)) : NULL;
    *kept     = *s;
    return true;
}

qg_var *qg_norm(qg_tape *t, qg_var *x, qg_var *gamma, qg_var *beta, qg_norm_spec spec)
{
    if (!t || !x || !valid(t, x, gamma, beta, spec)) return NULL;
    const bool train = qg_tape_mode(t) == QG_TRAIN;
    const int  pool  = spec.pool > 1 ? spec.pool : 1;
    qg_shape   shape = { x->shape.n, x->shape.h / pool, x->shape.w / pool, x->shape.c };
    qg_var    *y     = qg_record(t, &norm_op, shape, x, gamma, beta);
    if (!y || !qg_operand(y, ADD, spec.add)) return NULL;
    for (int j = 0; j < spec.act.n_learned; j++)
        if (!qg_operand(y, LEARNED + j, spec.act.learned[j])) return NULL;

    norm s = { .act         = spec.act,
               .relu        = spec.relu,
               .window      = { x->shape.h, x->shape.w, x->shape.c, pool },
               .blocks      = by_slice(x->shape) ? QG_SLICES : x->shape.n,
               .batch_stats = train && !spec.frozen };
    if (!take_memory(t, y, &s)) return NULL;
    pass work = { .k = QG_KERNELS(qg__norm_kernels), .s = &s, .y = y, .sums = by_slice(x->shape) ? NULL : x->sums };
    if (s.batch_stats && !work.sums) {
        work.sums = qg_scratch(t, (size_t)s.blocks * sums_size(x) * sizeof(float));
        if (!work.sums) return NULL;
        qg_parallel(s.blocks, sums_piece, &work);
    }
    if (!take_scratch(t, &work)) return NULL;
    coefficients(&s, y, work.sums, spec);
    qg_parallel(s.blocks, forward_piece, &work);
    return y;
}
