/* Batch norm in one pass with what a plan finds after it: a sum, max pooling, relu, an activation.  With none
 * of these it has the bits of core/ops/norm.c.  Statistics that each rank has for itself are here, too. */
#include <math.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "core/ops/norm.h"
#include "core/walk.h"

/* Operands after x, gamma and beta. */
enum { ADD = 3, LEARNED = 4 };

/* What forward leaves for backward. */
typedef struct norm {
    qg__norm_statistics s;
    qg_norm_fusion with;
    int            pool;        /* 1: none */
    qg_norm_spec   running;
    bool           alone;       /* the other ranks have statistics of their own (per_rank) */
    float         *z;           /* [y] after relu, before the activation: y itself if there is no activation;
                                   kept where pooling has made it small; NULL: backward computes it again */
    uint8_t       *which;       /* [y] index of the maximum in its window; NULL: no pooling */
} norm;

/* What a piece needs; the pieces of all passes are blocks. */
typedef struct pass {
    const qg__norm_kernels *k;
    const norm *n;
    qg_var     *y;
    float      *dz;             /* [y] dL/dz: y's gradient, or a copy */
    float      *sums;           /* [blocks of the batch][2][c] */
    double     *dk;             /* likewise: [blocks][3] gradients of what the activation learns */
    float      *scratch;        /* [threads][block]: z where it is not kept */
    size_t      scratch_size;
    float      *lines;          /* [threads][rows][c] z of a block before the sum and the rest; NULL: it is x */
    size_t      lines_size;
    qg__norm_slopes slopes;
} pass;

/* A block of x, and its results in y. */
typedef struct piece {
    qg__norm_block x;
    qg__window     window;
    size_t         y, count;    /* where they start, and how many numbers they are */
} piece;

static piece piece_at(const norm *n, const qg_var *y, int i)
{
    piece b = { .x = qg__norm_block_at(&n->s, y->in[0], i) };
    b.window      = b.x.window;
    b.window.pool = n->pool;
    b.y           = n->pool > 1 ? (size_t)i * qg_row(y->shape) : b.x.at;
    b.count       = n->pool > 1 ? qg_row(y->shape) : b.x.numbers;
    return b;
}

/* Where z of a block is stored. */
static float *z_of(const pass *p, const piece *b, int worker)
{
    return p->n->z ? p->n->z + b->y : p->scratch + (size_t)worker * p->scratch_size;
}

static bool take_scratch(qg_tape *t, pass *p, bool lines)
{
    const size_t threads = (size_t)qg_threads();
    for (int i = 0; i < p->n->s.blocks; i++) {
        const piece b = piece_at(p->n, p->y, i);
        if (b.count > p->scratch_size) p->scratch_size = b.count;
        if (b.x.numbers > p->lines_size) p->lines_size = b.x.numbers;
    }
    if (!p->n->z) p->scratch = qg_scratch(t, threads * p->scratch_size * sizeof *p->scratch);
    if (lines) p->lines = qg_scratch(t, threads * p->lines_size * sizeof *p->lines);
    return (p->n->z || p->scratch) && (!lines || p->lines);
}

/* x: of the block. */
static void rest_of_z(const pass *p, const piece *b, const float *x, const float *scale, const float *shift,
                      float *z)
{
    const norm   *n   = p->n;
    const qg_var *add = p->y->in[ADD];
    p->k->forward(b->window, x, n->s.mean, scale, shift, add ? add->data + b->x.at : NULL,
                  n->with.relu ? 0.0f : -INFINITY, z, n->which ? n->which + b->y : NULL);
}

static void z_piece(const pass *p, const piece *b, float *z)
{
    rest_of_z(p, b, p->y->in[0]->data + b->x.at, p->n->s.a, p->n->s.b, z);
}

/* --- backward ----------------------------------------------------------------------------- */

/* y = act(z):  dz = dy act'(z), in place of dy. */
static void activation_backward(const qg_activation *f, size_t n, const float *z, float *dz, double *dk)
{
    for (size_t at = 0; at < n; at += QG_BLOCK) {
        double block[3] = { 0 };
        f->backward(f, n - at < QG_BLOCK ? n - at : QG_BLOCK, z + at, dz + at, dz + at, f->n_learned ? block : NULL);
        for (int j = 0; j < f->n_learned; j++) dk[j] += block[j];
    }
}

/* The same, and then the two sums of dz. */
static void grad_sums_piece(void *context, int i, int worker)
{
    const pass          *p = context;
    const norm          *n = p->n;
    const qg_activation *f = &n->with.act;
    const qg_var        *x = p->y->in[0], *add = p->y->in[ADD];
    const size_t         c = (size_t)x->shape.c;
    const piece          b = piece_at(n, p->y, i);
    float *dz = p->dz + b.y, *sums = p->sums + (size_t)b.x.index * 2 * c, *z = z_of(p, &b, worker);
    if (b.count == 0) {
        memset(sums, 0, 2 * c * sizeof *sums);
        return;
    }
    if (!n->z) z_piece(p, &b, z);
    if (f->backward) activation_backward(f, b.count, z, dz, p->dk + 3 * b.x.index);
    for (size_t k = 0; n->with.relu && k < b.count; k++) dz[k] = z[k] <= 0.0f ? 0.0f : dz[k];
    if (add && add->grad && add->fresh) memcpy(add->grad + b.y, dz, b.count * sizeof *dz);
    else if (add && add->grad)
        for (size_t k = 0; k < b.count; k++) add->grad[b.y + k] += dz[k];
    p->k->grad_sums(b.window, x->data + b.x.at, dz, n->which ? n->which + b.y : NULL, n->s.mean, sums);
}

static void grad_input_piece(void *context, int i, int worker)
{
    const pass  *p = context;
    const norm  *n = p->n;
    qg_var      *x = p->y->in[0];
    const piece  b = piece_at(n, p->y, i);
    p->k->grad_input(b.window, x->data + b.x.at, p->dz + b.y, n->which ? n->which + b.y : NULL, n->s.mean,
                     n->s.a, p->slopes.p, p->slopes.q, !x->fresh, x->grad + b.x.at);
}

/* These gradients are added to below, so they start at zero; that of x, which may be among them, is assigned. */
static void start_at_zero(qg_var *v)
{
    if (!v || !v->grad || !v->fresh) return;
    memset(v->grad, 0, qg_count(v->shape) * sizeof *v->grad);
    v->fresh = false;
}

/* --- with statistics of each rank's own (per_rank) ------------------------------------------ */

/* What ranks add up: [4][c] dbeta, dgamma, mean and variance, and the gradients of what the activation
 * learns. */
static size_t shared_sums(const qg_var *y) { return 4 * (size_t)y->shape.c + 3; }

static void add_shared(qg_tape *t, qg_var *y, float *sums)
{
    const norm  *n = y->saved;
    const size_t c = (size_t)y->shape.c;
    qg__norm_learn(y->in[2], sums);
    qg__norm_learn(y->in[1], sums + c);
    for (size_t k = 0; n->s.spread && k < c; k++)
        qg__norm_track(n->running, k, sums[2 * c + k], sums[3 * c + k]);
    for (int j = 0; j < n->with.act.n_learned; j++) qg__norm_learn(n->with.act.learned[j], sums + 4 * c + j);
}

/* NULL slopes: no backward pass takes them along, and the statistics of this rank reach the others now. */
static bool send_sums(qg_tape *t, qg_var *y, const qg__norm_slopes *slopes, const double *learned)
{
    const norm      *n     = y->saved;
    const size_t     c     = (size_t)y->shape.c;
    const qg__slices all   = qg__slices_of(y->in[0]);
    const float      share = (float)all.count / (float)all.n;
    float           *sums  = qg_scratch(t, shared_sums(y) * sizeof *sums);
    if (!sums) return false;
    memset(sums, 0, shared_sums(y) * sizeof *sums);
    if (slopes) {
        memcpy(sums, slopes->dbeta, c * sizeof *sums);
        memcpy(sums + c, slopes->dgamma, c * sizeof *sums);
    }
    for (size_t k = 0; n->s.spread && k < c; k++) {
        sums[2 * c + k] = share * (n->s.mean[k] + n->s.rest[k]);
        sums[3 * c + k] = share * n->s.spread[k];
    }
    for (int j = 0; learned && j < n->with.act.n_learned; j++)
        sums[4 * c + (size_t)j] = qg__activation_gradient(&n->with.act, j, learned[j]);
    return qg__reduce(t, y, all, sums, shared_sums(y), add_shared);
}

/* Nobody reads y's gradient again, unless it is kept. */
static float *take_dz(qg_tape *t, const qg_var *y)
{
    if (!qg__tape_walk(t)->retained) return y->grad;
    float *dz = qg_scratch(t, qg_count(y->shape) * sizeof *dz);
    return dz ? memcpy(dz, y->grad, qg_count(y->shape) * sizeof *dz) : NULL;
}

/* With dz in place of dy, dgamma, dbeta and dx are those of core/ops/norm.c. */
static void norm_backward(qg_tape *t, qg_var *y)
{
    const norm          *n = y->saved;
    const qg_activation *f = &n->with.act;
    qg_var              *x = y->in[0];
    const size_t         each   = 2 * (size_t)x->shape.c * sizeof(float);
    const size_t         blocks = (size_t)qg__norm_all_blocks(&n->s, x);
    double               learned[3] = { 0 };
    pass p = { .k = QG_KERNELS(qg__norm_kernels), .n = n, .y = y };
    p.sums = qg_scratch(t, blocks * each);
    p.dk   = qg_scratch(t, blocks * 3 * sizeof *p.dk);
    p.dz   = take_dz(t, y);
    if (!p.sums || !p.dk || !p.dz || !take_scratch(t, &p, false)) return;
    memset(p.dk, 0, blocks * 3 * sizeof *p.dk);
    for (int i = 1; i < QG_OPERANDS; i++)
        if (i != ADD || y->in[ADD] == x) start_at_zero(y->in[i]);
    qg_parallel(n->s.blocks, grad_sums_piece, &p);
    if (!qg__norm_gather(t, &n->s, x, p.sums, each)) return;
    if (f->n_learned && !qg__norm_gather(t, &n->s, x, p.dk, 3 * sizeof *p.dk)) return;
    for (int j = 0; j < f->n_learned; j++)
        for (size_t b = 0; b < blocks; b++) learned[j] += p.dk[3 * b + (size_t)j];
    p.slopes = qg__norm_slopes_of(t, &n->s, x, p.sums);
    if (!p.slopes.dbeta) return;
    if (n->alone && !send_sums(t, y, &p.slopes, learned)) return;
    if (!n->alone) {
        qg__norm_learn(y->in[1], p.slopes.dgamma);
        qg__norm_learn(y->in[2], p.slopes.dbeta);
        for (int j = 0; j < f->n_learned; j++)
            qg__norm_learn(f->learned[j], &(float){ qg__activation_gradient(f, j, learned[j]) });
    }
    if (y->in[ADD]) y->in[ADD]->fresh = false;
    if (x->grad) qg_parallel(n->s.blocks, grad_input_piece, &p);
}

static const qg_op norm_op = { .name = "norm", .backward = norm_backward, .assigns = true, .in_place = true };

/* --- forward ------------------------------------------------------------------------------ */

static void forward_piece(void *context, int i, int worker)
{
    const pass          *p = context;
    const norm          *n = p->n;
    const qg_activation *f = &n->with.act;
    const piece          b = piece_at(n, p->y, i);
    const float         *x = p->y->in[0]->data + b.x.at;
    float               *y = p->y->data + b.y, *z = z_of(p, &b, worker);
    if (b.count == 0) return;
    if (p->lines) {
        float *line = p->lines + (size_t)worker * p->lines_size;
        qg__norm_evaluate(&n->s, b.x, x, line);
        x = line;
    }
    if (qg_tape_mode(p->y->tape) == QG_EVAL) rest_of_z(p, &b, x, n->s.inv, n->s.rest, z);
    else z_piece(p, &b, z);
    if (z != y) f->forward(f, b.count, z, y);
}

static bool valid(qg_tape *t, const qg_var *x, const qg_var *gamma, const qg_var *beta, qg_norm_spec spec,
                  qg_norm_fusion with)
{
    if (!qg__norm_fits(t, "norm", "x", x, x->shape.c, gamma, beta, spec)) return false;
    if (with.pool < 0 || with.pool > QG_NORM_POOL)
        return qg_reject(t, QG_EARG, "norm: pool is %d, not 0..%d", with.pool, QG_NORM_POOL);
    if (with.pool > 1 && (x->shape.h < with.pool || x->shape.w < with.pool))
        return qg_reject(t, QG_ESHAPE, "norm: x " QG_SHAPE_FMT " is smaller than its %dx%d window",
                         QG_SHAPE_ARGS(x->shape), with.pool, with.pool);
    if (with.add && (with.pool > 1 || !qg_shape_equal(with.add->shape, x->shape)))
        return qg_reject(t, QG_ESHAPE,
                         "norm: add " QG_SHAPE_FMT " must have the shape of x " QG_SHAPE_FMT " and no pooling, pool is %d",
                         QG_SHAPE_ARGS(with.add->shape), QG_SHAPE_ARGS(x->shape), with.pool);
    if (with.act.n_learned < 0 || with.act.n_learned > 3)
        return qg_reject(t, QG_EARG, "norm: the activation learns %d values, not 0..3", with.act.n_learned);
    return true;
}

/* With pooling it keeps which, and z if an activation reads it.  Without, z is as large as x; backward computes
 * it again from x, while that is in cache. */
static norm *begin(qg_tape *t, qg_var *y, qg_norm_spec spec, qg_norm_fusion with)
{
    const qg_var    *x     = y->in[0];
    const bool       alone = spec.per_rank && qg_tape_mode(t) != QG_EVAL && qg__slices_of(x).shared;
    const qg__slices at    = alone ? qg__slices_alone(x) : qg__slices_of(x);
    const bool       spread = alone && !spec.frozen;
    const size_t     c = (size_t)x->shape.c, count = qg_count(y->shape);
    const size_t     vectors = QG__NORM_VECTORS + (spread ? 1 : 0);
    const bool       pools = with.pool > 1, own_z = pools && with.act.forward;
    const size_t     floats = vectors * c + (own_z ? count : 0);
    norm            *n      = qg_save(t, y, sizeof *n + floats * sizeof(float) + (pools ? count : 0));
    if (!n) return NULL;
    float *vector = (float *)(void *)(n + 1), *after = vector + vectors * c;
    *n = (norm){ .s       = qg__norm_begin(x, spec, at, vector),
                 .with    = with,
                 .pool    = pools ? with.pool : 1,
                 .running = spec,
                 .alone   = alone,
                 .z       = own_z ? after : with.act.forward ? NULL : y->data,
                 .which   = pools ? (uint8_t *)(after + (own_z ? count : 0)) : NULL };
    if (spread) n->s.spread = vector + QG__NORM_VECTORS * c;
    return n;
}

/* done: x is z already. */
static qg_var *record(qg_tape *t, qg_var *x, qg_var *gamma, qg_var *beta, qg_norm_spec spec,
                      qg_norm_fusion with, bool done)
{
    if (!t || !x || !valid(t, x, gamma, beta, spec, with)) return NULL;
    const int      pool  = with.pool > 1 ? with.pool : 1;
    const qg_shape shape = { x->shape.n, x->shape.h / pool, x->shape.w / pool, x->shape.c };
    qg_var        *y     = qg_record(t, &norm_op, shape, x, gamma, beta);
    if (!y || !qg_add_operand(y, ADD, with.add)) return NULL;
    for (int j = 0; j < with.act.n_learned; j++)
        if (!qg_add_operand(y, LEARNED + j, with.act.learned[j])) return NULL;
    norm *n = begin(t, y, spec, with);
    if (!n) return NULL;
    pass p = { .k = QG_KERNELS(qg__norm_kernels), .n = n, .y = y };
    if (!take_scratch(t, &p, qg_tape_mode(t) == QG_EVAL && !done)) return NULL;
    if (!qg__norm_measure(t, y, spec, &n->s)) return NULL;
    qg_parallel(n->s.blocks, forward_piece, &p);
    return n->s.spread && !y->needs_grad && !send_sums(t, y, NULL, NULL) ? NULL : y;
}

qg_var *qg_norm_fused(qg_tape *t, qg_var *x, qg_var *gamma, qg_var *beta, qg_norm_spec spec,
                      qg_norm_fusion with)
{
    return record(t, x, gamma, beta, spec, with, false);
}

qg_var *qg__norm_rest(qg_tape *t, qg_var *x, qg_var *gamma, qg_var *beta, qg_norm_spec spec,
                      qg_norm_fusion with)
{
    return record(t, x, gamma, beta, spec, with, true);
}
