#include "core/kernels/parallel.h"
#include "core/ops/ops.h"
#include "core/slices.h"

/* Operands, in this order: x, the slope a, the shift g of x and the shift z of the result. */
enum { X, SLOPE, BEFORE, AFTER, OPERANDS };

typedef struct job {
    const qg_var *y;
    const float  *a, *g, *z;    /* [c] each; of plain PReLU g is 0 and z -0, which leave every number as it is */
    const double *sum;          /* [OPERANDS - 1][c] over the batch, the gradients of a, g and z */
} job;

/* Sets a, g and z.  false: out of memory. */
static bool fill_rows(qg_tape *t, job *j)
{
    const qg_var *a = j->y->in[SLOPE], *g = j->y->in[BEFORE], *z = j->y->in[AFTER];
    const size_t  c   = (size_t)j->y->shape.c;
    float        *row = qg_scratch(t, 3 * c * sizeof *row);
    if (!row) return false;
    for (size_t k = 0; k < c; k++) {
        row[k]         = a->data[a->shape.c == 1 ? 0 : k];
        row[c + k]     = g ? g->data[k] : 0.0f;
        row[2 * c + k] = z ? z->data[k] : -0.0f;
    }
    j->a = row, j->g = row + c, j->z = row + 2 * c;
    return true;
}

/* With u = x - g and s = 1 where u > 0, else a:
 *     y = s u + z:   dx = s dy,   da = sum of u dy where not u > 0,   dg = -sum of s dy,   dz = sum of dy.
 * What is below is computed for all, so that the loops are vectorised. */
static void pixel_gradient(const job *j, const float *x, const float *dy, float *dx, bool fresh, double *sum)
{
    const size_t c = (size_t)j->y->shape.c;
    if (dx)
        for (size_t k = 0; k < c; k++) {
            const float below = j->a[k] * dy[k], d = x[k] - j->g[k] > 0 ? dy[k] : below;
            dx[k]             = fresh ? d : dx[k] + d;
        }
    for (size_t k = 0; k < c; k++) {
        const float  u     = x[k] - j->g[k];
        const double below = (double)u * (double)dy[k];
        sum[k] += u > 0 ? 0.0 : below;
    }
    if (j->y->in[BEFORE])
        for (size_t k = 0; k < c; k++) {
            const float below = j->a[k] * dy[k];
            sum[c + k] -= (double)(x[k] - j->g[k] > 0 ? dy[k] : below);
        }
    if (j->y->in[AFTER])
        for (size_t k = 0; k < c; k++) sum[2 * c + k] += (double)dy[k];
}

static void sum_images(void *context, int first, int end, double *sum)
{
    const job    *j   = context;
    const qg_var *x   = j->y->in[X];
    const size_t  c   = (size_t)j->y->shape.c, row = qg_row(j->y->shape);
    for (size_t i = (size_t)first * row; i < (size_t)end * row; i += c)
        pixel_gradient(j, x->data + i, j->y->grad + i, x->grad ? x->grad + i : NULL, x->fresh, sum);
}

/* Adds the sums to the gradient of an operand. */
static void add_sums(const job *j, int operand)
{
    const qg_var *v = j->y->in[operand];
    const size_t  c = (size_t)j->y->shape.c;
    const double *sum = j->sum + (size_t)(operand - 1) * c;
    if (!v || !v->grad) return;
    bool fresh = v->fresh;
    for (int i = 0; i < operand; i++) fresh = fresh && j->y->in[i] != v;    /* one var may be several operands */
    double all = 0;
    for (size_t k = 0; k < c; k++) {
        all += sum[k];
        if (v->shape.c > 1) v->grad[k] = fresh ? (float)sum[k] : v->grad[k] + (float)sum[k];
    }
    if (v->shape.c == 1) v->grad[0] = fresh ? (float)all : v->grad[0] + (float)all;
}

static void prelu_backward(qg_tape *t, qg_var *y)
{
    job j = { .y = y };
    if (!fill_rows(t, &j)) return;
    j.sum = qg__sum_slices(t, qg__slices_of(y), (OPERANDS - 1) * (size_t)y->shape.c, sum_images, &j);
    for (int i = SLOPE; j.sum && i < OPERANDS; i++) add_sums(&j, i);
}

static const qg_op prelu  = { "prelu", prelu_backward, .assigns = true };
static const qg_op rprelu = { "rprelu", prelu_backward, .assigns = true };

static void block_value(void *context, int block, int worker)
{
    const job   *j = context;
    const float *x = j->y->in[X]->data;
    const size_t c = (size_t)j->y->shape.c, all = qg_count(j->y->shape), end = qg_block(all, block + 1);
    size_t       i = qg_block(all, block);
    for (size_t k = i % c, n; i < end; i += n, k = 0) {         /* a block may begin inside a pixel */
        n = end - i < c - k ? end - i : c - k;
        for (size_t m = 0; m < n; m++) {
            const float u = x[i + m] - j->g[k + m], below = j->a[k + m] * u;
            j->y->data[i + m] = (u > 0 ? u : below) + j->z[k + m];
        }
    }
}

static bool per_channel(const qg_var *v, int c) { return qg_shape_equal(v->shape, (qg_shape){ 1, 1, 1, c }); }

static bool shift_fits(qg_tape *t, const qg_op *op, const qg_var *x, const qg_var *shift, const char *name)
{
    const int c = x->shape.c;
    return !shift || per_channel(shift, c) ||
           qg_reject(t, QG_ESHAPE, "%s: x " QG_SHAPE_FMT " and %s " QG_SHAPE_FMT ", which is not [1,1,1,%d]", op->name,
                     QG_SHAPE_ARGS(x->shape), name, QG_SHAPE_ARGS(shift->shape), c);
}

static qg_var *record(qg_tape *t, const qg_op *op, qg_var *x, qg_var *g, qg_var *a, qg_var *z)
{
    const int c = x->shape.c;
    if (!per_channel(a, c) && !per_channel(a, 1))
        return qg_reject(t, QG_ESHAPE, "%s: x " QG_SHAPE_FMT " and a " QG_SHAPE_FMT ", which is neither [1,1,1,%d] nor "
                         "[1,1,1,1]", op->name, QG_SHAPE_ARGS(x->shape), QG_SHAPE_ARGS(a->shape), c);
    if (!shift_fits(t, op, x, g, "g") || !shift_fits(t, op, x, z, "z")) return NULL;
    qg_var *y = qg_record(t, op, x->shape, x, a, g);
    job     j = { .y = y };
    if (!y || !qg_add_operand(y, AFTER, z) || !fill_rows(t, &j)) return NULL;
    qg_parallel(qg_blocks(qg_count(x->shape)), block_value, &j);
    return y;
}

qg_var *qg_prelu(qg_tape *t, qg_var *x, qg_var *a)
{
    return x && a ? record(t, &prelu, x, NULL, a, NULL) : NULL;
}

qg_var *qg_rprelu(qg_tape *t, qg_var *x, qg_var *g, qg_var *a, qg_var *z)
{
    return x && g && a && z ? record(t, &rprelu, x, g, a, z) : NULL;
}
