/* Everything is made of exchanges between two ranks whose numbers differ in one bit, first in the lowest.  After the
 * exchange over bit k, the 2^(k+1) ranks whose numbers differ in bits 0 .. k have the same. */
#include "core/slices.h"

#include <string.h>

#include "core/ranks.h"

int qg__images_here(int n, int *first)
{
    const int each = QG_SLICES / qg_ranks(), from = qg_slice_at(n, qg_rank() * each);
    *first         = from;
    return qg_slice_at(n, (qg_rank() + 1) * each) - from;
}

qg__slices qg__slices_alone(const qg_var *v)
{
    return (qg__slices){ .n = v->shape.n, .count = v->shape.n, .to = QG_SLICES };
}

qg__slices qg__slices_of(const qg_var *v)
{
    if (v->batch == 0) return qg__slices_alone(v);
    const int  each = QG_SLICES / qg_ranks();
    qg__slices b    = { .n = v->batch, .from = qg_rank() * each, .to = (qg_rank() + 1) * each, .shared = true };
    b.count         = qg__images_here(b.n, &b.first);
    return b;
}

/* --- gathering ------------------------------------------------------------------------------ */

static qg_status gather(void *data, const size_t *start)
{
    qg_status status = QG_OK;
    for (int bit = 1; bit < qg_ranks() && !status; bit *= 2) {
        const int    mine = qg_rank() & ~(bit - 1), other = mine ^ bit;
        const size_t out = start[mine + bit] - start[mine], in = start[other + bit] - start[other];
        status = qg__ranks_exchange(qg_rank() ^ bit, (char *)data + start[mine], (char *)data + start[other], out, in);
    }
    return status;
}

bool qg__ranks_passed(qg_tape *t, qg_status status)
{
    if (status) qg_reject(t, status, "%s", qg_errmsg());
    return !status;
}

bool qg__ranks_gather(qg_tape *t, void *data, const size_t *start)
{
    return qg__ranks_passed(t, gather(data, start));
}

bool qg__slices_gather(qg_tape *t, qg__slices b, void *parts, size_t bytes)
{
    size_t start[QG_SLICES + 1];
    if (!b.shared) return true;
    for (int r = 0; r <= qg_ranks(); r++) start[r] = (size_t)(r * (QG_SLICES / qg_ranks())) * bytes;
    return qg__ranks_passed(t, gather(parts, start));
}

bool qg__images_gather(qg_tape *t, qg__slices b, void *parts, size_t bytes)
{
    size_t start[QG_SLICES + 1];
    if (!b.shared) return true;
    for (int r = 0; r <= qg_ranks(); r++) start[r] = (size_t)qg_slice_at(b.n, r * (QG_SLICES / qg_ranks())) * bytes;
    return qg__ranks_passed(t, gather(parts, start));
}

qg_tensor qg__whole_batch(qg_tape *t, const qg_var *v)
{
    const qg__slices at  = qg__slices_of(v);
    const size_t     row = qg_row(v->shape);
    if (!at.shared) return (qg_tensor){ v->shape, v->data };
    float *all = qg_scratch(t, (size_t)at.n * row * sizeof *all);
    if (!all) return (qg_tensor){ v->shape, NULL };
    memcpy(all + (size_t)at.first * row, v->data, (size_t)at.count * row * sizeof *all);
    if (!qg__images_gather(t, at, all, row * sizeof *all)) all = NULL;
    return (qg_tensor){ { at.n, v->shape.h, v->shape.w, v->shape.c }, all };
}

/* --- the tree ------------------------------------------------------------------------------- */

void qg__tree(int count, size_t stride, size_t n, float *restrict part)
{
    const float *p[QG_SLICES];
    for (int k = 0; k < count; k++) p[k] = part + (size_t)k * stride;
    /* In one pass: every number is read once. */
    switch (count) {
    case 2:
        for (size_t i = 0; i < n; i++) part[i] = p[0][i] + p[1][i];
        break;
    case 4:
        for (size_t i = 0; i < n; i++) part[i] = (p[0][i] + p[1][i]) + (p[2][i] + p[3][i]);
        break;
    case 8:
        for (size_t i = 0; i < n; i++)
            part[i] = ((p[0][i] + p[1][i]) + (p[2][i] + p[3][i])) + ((p[4][i] + p[5][i]) + (p[6][i] + p[7][i]));
        break;
    case 16:
        for (size_t i = 0; i < n; i++)
            part[i] = (((p[0][i] + p[1][i]) + (p[2][i] + p[3][i])) + ((p[4][i] + p[5][i]) + (p[6][i] + p[7][i]))) +
                      (((p[8][i] + p[9][i]) + (p[10][i] + p[11][i])) + ((p[12][i] + p[13][i]) + (p[14][i] + p[15][i])));
        break;
    default: break;
    }
}

/* --- without a tape ------------------------------------------------------------------------- */

qg_status qg__ranks_broadcast(void *data, size_t bytes)
{
    qg_status status = QG_OK;
    char      none;
    for (int bit = 1; bit < qg_ranks() && !status; bit *= 2) {
        const bool has = qg_rank() < bit, gets = !has && qg_rank() < 2 * bit;
        if (has) status = qg__ranks_exchange(qg_rank() + bit, data, &none, bytes, 0);
        else if (gets) status = qg__ranks_exchange(qg_rank() - bit, &none, data, 0, bytes);
    }
    return status;
}

qg_status qg__ranks_tell(char *text, size_t bytes)
{
    char      other[1024];
    qg_status status = QG_OK;
    QG_ASSERT(bytes <= sizeof other);
    for (int bit = 1; bit < qg_ranks() && !status; bit *= 2) {
        status = qg__ranks_exchange(qg_rank() ^ bit, text, other, bytes, bytes);
        if (!status && *other && (!*text || qg_rank() & bit)) memcpy(text, other, bytes);
    }
    return status;
}

bool qg_ranks_any(bool here)
{
    char said = here;
    for (int bit = 1; bit < qg_ranks(); bit *= 2) {
        char other = 1;         /* a rank that cannot be reached has stopped */
        if (qg__ranks_exchange(qg_rank() ^ bit, &said, &other, 1, 1)) return true;
        said |= other;
    }
    return said;
}

/* --- batches -------------------------------------------------------------------------------- */

/* Loaders that serve in turns: training, validation, test, another net's. */
enum { SERVED = 8 };

static struct served {
    const float *x;
    int          n;
} served[SERVED];
static int last;

void qg__ranks_serve(const float *x, int n)
{
    int at = (last + 1) % SERVED;
    for (int i = 0; i < SERVED; i++)
        if (served[i].x == x) at = i;
    if (n == 0 && served[at].x != x) return;
    served[at] = (struct served){ n ? x : NULL, n };
    if (n) last = at;
}

int qg__ranks_served(const float *x, int here)
{
    int first;
    if (qg_ranks() == 1) return 0;
    for (int i = 0; i < SERVED; i++)
        if (served[i].x == x && qg__images_here(served[i].n, &first) == here) return served[i].n;
    return 0;
}
