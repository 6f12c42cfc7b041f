/* Batch norm, and nothing else in the pass.  core/ops/norm_fused.c also does what follows it. */
#include <math.h>

#include "core/kernels/parallel.h"
#include "core/ops/norm.h"

/* What the pieces of all passes need. */
typedef struct pass {
    qg_var                 *y;
    const qg__norm_kernels *k;
    float                  *sums;       /* [blocks of the batch][2][c] */
    qg__norm_slopes         slopes;
} pass;

static void grad_sums_piece(void *context, int i, int worker)
{
    const pass                *p = context;
    const qg__norm_statistics *s = p->y->saved;
    const qg_var              *x = p->y->in[0];
    const qg__norm_block       b = qg__norm_block_at(s, x, i);
    float                     *sums = p->sums + (size_t)b.index * 2 * (size_t)x->shape.c;
    p->k->grad_sums(b.window, x->data + b.at, p->y->grad + b.at, NULL, s->mean, sums);
}

static void grad_input_piece(void *context, int i, int worker)
{
    const pass                *p = context;
    const qg__norm_statistics *s = p->y->saved;
    const qg_var              *x = p->y->in[0];
    const qg__norm_block       b = qg__norm_block_at(s, x, i);
    p->k->grad_input(b.window, x->data + b.at, p->y->grad + b.at, NULL, s->mean, s->a, p->slopes.p,
                     p->slopes.q, !x->fresh, x->grad + b.at);
}

/* y = gamma xhat + beta, xhat = (x - mean) inv, m = n h w.
 *     dbeta  = sum dy,   dgamma = sum dy xhat
 *     dx     = gamma inv (dy - dbeta / m - xhat dgamma / m)   = a dy + p (x - mean) + q
 * The last two terms come from mean and inv, and are absent when those are constants. */
static void norm_backward(qg_tape *t, qg_var *y)
{
    const qg__norm_statistics *s = y->saved;
    qg_var      *x = y->in[0], *gamma = y->in[1], *beta = y->in[2];
    const size_t each = 2 * (size_t)x->shape.c * sizeof(float);
    pass         p = { .y = y, .k = QG_KERNELS(qg__norm_kernels) };
    p.sums = qg_scratch(t, (size_t)qg__norm_all_blocks(s, x) * each);
    if (!p.sums) return;
    qg_parallel(s->blocks, grad_sums_piece, &p);
    if (!qg__norm_gather(t, s, x, p.sums, each)) return;
    p.slopes = qg__norm_slopes_of(t, s, x, p.sums);
    if (!p.slopes.dbeta) return;
    qg__norm_learn(gamma, p.slopes.dgamma);
    qg__norm_learn(beta, p.slopes.dbeta);
    if (x->grad) qg_parallel(s->blocks, grad_input_piece, &p);
}

static const qg_op norm_op = { .name = "norm", .backward = norm_backward, .assigns = true, .in_place = true };

static void forward_piece(void *context, int i, int worker)
{
    const pass                *p = context;
    const qg__norm_statistics *s = p->y->saved;
    const qg__norm_block       b = qg__norm_block_at(s, p->y->in[0], i);
    const float               *x = p->y->in[0]->data + b.at;
    float                     *y = p->y->data + b.at;
    if (qg_tape_mode(p->y->tape) == QG_EVAL) qg__norm_evaluate(s, b, x, y);
    else p->k->forward(b.window, x, s->mean, s->a, s->b, NULL, -INFINITY, y, NULL);
}

qg_var *qg_norm(qg_tape *t, qg_var *x, qg_var *gamma, qg_var *beta, qg_norm_spec spec)
{
    if (spec.per_rank) return qg_norm_fused(t, x, gamma, beta, spec, (qg_norm_fusion){ 0 });
    if (!t || !x || !qg__norm_fits(t, "norm", "x", x, x->shape.c, gamma, beta, spec)) return NULL;
    const size_t         numbers = QG__NORM_VECTORS * (size_t)x->shape.c;
    qg_var              *y = qg_record(t, &norm_op, x->shape, x, gamma, beta);
    qg__norm_statistics *s = y ? qg_save(t, y, sizeof *s + numbers * sizeof(float)) : NULL;
    if (!s) return NULL;
    *s = qg__norm_begin(x, spec, qg__slices_of(x), (float *)(void *)(s + 1));
    if (!qg__norm_measure(t, y, spec, s)) return NULL;
    qg_parallel(s->blocks, forward_piece, &(pass){ .y = y, .k = QG_KERNELS(qg__norm_kernels) });
    return y;
}
