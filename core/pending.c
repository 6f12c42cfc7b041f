#include "core/pending.h"

#include <string.h>

#include "core/clock.h"
#include "core/ranks.h"

/* Buffers of what is under way; a gradient that needs more goes alone. */
enum { MOST_BYTES = 64 << 20 };

enum { HEAD = (sizeof(qg__pending) + 63) / 64 * 64 };   /* bytes before the numbers, which begin on a line of the cache */
enum { TAGS = 32767 };                                  /* MPI has at least so many */

/* --- one gradient --------------------------------------------------------------------------- */

qg__pending *qg__pending_new(qg_tape *t, qg_var *y, size_t n, bool adds)
{
    const size_t ranks = (size_t)qg_ranks(), stride = n / ranks + 1;
    size_t       bytes = HEAD + (n + (adds ? (ranks - 1) * stride : 0)) * sizeof(float);
    qg__queue   *q     = qg__tape_queue(t);
    if (q->first && q->bytes + bytes > MOST_BYTES && !qg__pending_move(t, true)) return NULL;
    qg__pending *p = qg__tape_lend(t, &bytes);
    if (!p) return NULL;
    *p      = (qg__pending){ .y = y, .n = n, .stride = stride, .bytes = bytes };
    p->data = (float *)(void *)((char *)p + HEAD);
    p->part = p->data + n;
    return p;
}

static size_t part_size(const qg__pending *p, int rank) { return p->start[rank + 1] - p->start[rank]; }

static float *part_of(const qg__pending *p, int rank)
{
    const int mine = qg_rank();
    if (rank == mine) return p->data + p->start[mine];
    return p->part + (size_t)(rank < mine ? rank : rank - 1) * p->stride;
}

/* Of each pair, both post at the same time, so that ranks that cannot send beside computing do not wait for each other. */
static qg_status post(qg__pending *p)
{
    const int mine   = qg_rank();
    qg_status status = QG_OK;
    for (int k = 1; k < qg_ranks() && !status; k++) {
        const int    other = mine ^ k;
        const size_t own = part_size(p, mine) * sizeof(float), others = part_size(p, other) * sizeof(float);
        float       *here = p->data + p->start[mine], *there = p->data + p->start[other];
        if (p->summed) status = qg__ranks_post(&p->messages, other, here, there, own, others);
        else status = qg__ranks_post(&p->messages, other, there, part_of(p, other), others, own);
    }
    return status;
}

/* The ranks' sums are subtrees (core/slices.h): in pairs of neighbours, then pairs of these, and so on.  a + b is b + a, so each
 * pair is added into the one on the way to this rank's own. */
static void add_parts(const qg__pending *p)
{
    const int    mine = qg_rank();
    const size_t n    = part_size(p, mine);
    for (int bit = 1; bit < qg_ranks(); bit *= 2)
        for (int r = mine % (2 * bit); r < qg_ranks(); r += 2 * bit) {
            float       *restrict to   = part_of(p, r);
            const float *restrict from = part_of(p, r ^ bit);
            for (size_t i = 0; i < n; i++) to[i] += from[i];
        }
}

/* The next round, if this one has ended.  *there: that was the last one. */
static qg_status move(qg__pending *p, bool wait, bool *there)
{
    const qg_status status = qg__ranks_arrived(&p->messages, wait, there);
    if (status || !*there || p->summed) return status;
    add_parts(p);
    p->summed = true;
    *there    = false;
    return post(p);
}

/* --- all of them ---------------------------------------------------------------------------- */

static bool begin(qg_tape *t, qg__pending *p)
{
    qg__queue    *q  = qg__tape_queue(t);
    qg__pending **at = &q->first;
    if (!q->first) q->since = qg__now(), q->waited = qg__ranks_traffic().seconds;
    while (*at) at = &(*at)->next;
    *at             = p;
    p->messages.tag = 1 + q->begun++ % TAGS;
    q->bytes += p->bytes;
    if (!qg__ranks_passed(t, post(p))) return false;
    /* A weight that is computed from images, or is x, cannot be put off. */
    return !p->y->in[1] || !p->y->in[1]->images || qg__pending_move(t, true);
}

bool qg__pending_sum(qg_tape *t, qg_var *y, const float *sum, size_t n)
{
    qg__pending *p = qg__pending_new(t, y, n, true);
    if (p) memcpy(p->data, sum, n * sizeof *sum);
    return p && qg__pending_add(t, p);
}

bool qg__pending_add(qg_tape *t, qg__pending *p)
{
    for (int r = 0; r <= qg_ranks(); r++) p->start[r] = p->n * (size_t)r / (size_t)qg_ranks();
    return begin(t, p);
}

bool qg__pending_gather(qg_tape *t, qg__pending *p, const size_t *start)
{
    memcpy(p->start, start, ((size_t)qg_ranks() + 1) * sizeof *start);
    p->summed = true;
    return begin(t, p);
}

static bool move_each(qg_tape *t, qg__queue *q, bool wait)
{
    for (qg__pending **at = &q->first; *at;) {
        qg__pending *p = *at;
        bool         there;
        if (!qg__ranks_passed(t, move(p, wait, &there))) return false;
        if (!there) {
            at = &p->next;
            continue;
        }
        p->y->op->arrive(t, p->y, p->data);
        *at = p->next;
        q->bytes -= p->bytes;
        qg__tape_give(t, p, p->bytes);
    }
    return true;
}

bool qg__pending_move(qg_tape *t, bool all)
{
    qg__queue *q = qg__tape_queue(t);
    if (!q->first) return true;
    /* The last round of each begins before one of them is waited for. */
    if (!move_each(t, q, all) || (all && !move_each(t, q, all))) return false;
    if (!q->first) qg__ranks_hid(qg__now() - q->since - (qg__ranks_traffic().seconds - q->waited));
    return true;
}

bool qg__pending_adds(const qg__queue *q, const float *grad)
{
    for (const qg__pending *p = q->first; p; p = p->next)
        for (int i = 0; i < QG_OPERANDS; i++)
            if (p->y->in[i] && !p->y->in[i]->images && p->y->in[i]->grad == grad) return true;
    return false;
}

void qg__pending_drop(qg__queue *q)
{
    for (qg__pending *p = q->first; p; p = p->next) qg__ranks_forget(&p->messages);
    *q = (qg__queue){ 0 };
}
