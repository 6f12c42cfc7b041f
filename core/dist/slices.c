/* What ranks make of a batch and of sums over it (core/slices.h). */
#include "core/slices.h"

#include <string.h>

#include "core/dist/exchange.h"
#include "core/dist/pending.h"

int qg__images_here(int n, int *first)
{
    const int each = QG_SLICES / qg_ranks(), from = qg_slice_at(n, qg_rank() * each);
    *first         = from;
    return qg_slice_at(n, (qg_rank() + 1) * each) - from;
}

qg__slices qg__slices_of(const qg_var *v)
{
    if (v->batch == 0 || v->batch == v->shape.n) return qg__slices_alone(v);
    const int  each = QG_SLICES / qg_ranks();
    qg__slices b    = { .n = v->batch, .from = qg_rank() * each, .to = (qg_rank() + 1) * each, .shared = true };
    b.count         = qg__images_here(b.n, &b.first);
    return b;
}

/* --- parts that are needed at once ---------------------------------------------------------- */

/* n parts of as many bytes each: QG_SLICES, or one for each image. */
static bool gather(qg_tape *t, qg__slices b, int n, void *parts, size_t bytes)
{
    size_t start[QG_SLICES + 1];
    if (!b.shared) return true;
    for (int r = 0; r <= qg_ranks(); r++) start[r] = (size_t)qg_slice_at(n, r * (QG_SLICES / qg_ranks())) * bytes;
    return qg__ranks_gather(t, parts, start);
}

bool qg__slices_gather(qg_tape *t, qg__slices b, void *parts, size_t bytes) { return gather(t, b, QG_SLICES, parts, bytes); }
bool qg__images_gather(qg_tape *t, qg__slices b, void *parts, size_t bytes) { return gather(t, b, b.n, parts, bytes); }

qg_tensor qg__whole_batch(qg_tape *t, const qg_var *v)
{
    const qg__slices at  = qg__slices_of(v);
    const size_t     row = qg_row(v->shape);
    if (!at.shared) return (qg_tensor){ v->shape, v->data, 0 };
    float *all = qg_scratch(t, (size_t)at.n * row * sizeof *all);
    if (!all) return (qg_tensor){ v->shape, NULL, 0 };
    memcpy(all + (size_t)at.first * row, v->data, (size_t)at.count * row * sizeof *all);
    if (!qg__images_gather(t, at, all, row * sizeof *all)) all = NULL;
    return (qg_tensor){ { at.n, v->shape.h, v->shape.w, v->shape.c }, all, 0 };
}

/* --- products that are sums over the batch ---------------------------------------------------- */

/* The first column of a rank: a multiple of a vector's length. */
static int column_of(int count, int rank)
{
    return rank == qg_ranks() ? count : count / QG_LONGEST_VECTOR * rank / qg_ranks() * QG_LONGEST_VECTOR;
}

qg__columns qg__columns_of(qg__slices b, int rows, int count)
{
    if (!b.shared) return (qg__columns){ .rows = rows, .count = count, .to = count };
    return (qg__columns){ .rows = rows, .count = count, .from = column_of(count, qg_rank()),
                          .to = column_of(count, qg_rank() + 1), .shared = true };
}

/* The columns of each rank are a matrix of their own.  This rank's into `packed`, or the others' out of it. */
static void copy_columns(const qg__columns *c, bool pack, float *packed, float *m)
{
    for (int rank = 0; rank < qg_ranks(); rank++) {
        const int    at = column_of(c->count, rank);
        const size_t n  = (size_t)(column_of(c->count, rank + 1) - at);
        for (int r = 0; r < c->rows; r++, packed += n) {
            float *place = m + (size_t)r * (size_t)c->count + at;
            if (rank == qg_rank() && pack) memcpy(packed, place, n * sizeof *packed);
            else if (rank != qg_rank() && !pack) memcpy(place, packed, n * sizeof *packed);
        }
    }
}

static void weight_arrives(qg_tape *t, qg_var *y, float *packed)
{
    qg_var           *w = y->in[1];
    const qg__columns c = qg__columns_of(qg__slices_of(y), w->shape.n, (int)qg_row(w->shape));
    copy_columns(&c, false, packed, w->grad);
}

bool qg__columns_gather_gradient(qg_tape *t, qg_var *y, qg__columns c)
{
    size_t start[QG_SLICES + 1];
    if (!c.shared) return true;
    for (int r = 0; r <= qg_ranks(); r++) start[r] = (size_t)c.rows * (size_t)column_of(c.count, r);
    qg__pending *p = qg__pending_new(t, y, start[qg_ranks()], false);
    if (!p) return false;
    copy_columns(&c, true, p->data, y->in[1]->grad);
    return qg__pending_gather(t, p, start, weight_arrives);
}
