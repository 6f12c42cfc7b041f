#include "core/dist/pending.h"

#include <string.h>

#include "core/clock.h"
#include "core/walk.h"

/* Buffers of what is under way; a gradient that needs more goes alone. */
enum { MOST_BYTES = 64 << 20 };

enum { HEAD = (sizeof(qg__pending) + 63) / 64 * 64 };   /* bytes before the numbers, which begin on a line of the cache */
enum { TAGS = 32767 };                                  /* MPI has at least so many */

/* A var whose backward was put off. */
typedef struct deferred {
    qg_var          *v;
    struct deferred *next;
} deferred;

/* What follows the walk of a step, from the first gradient that is sent. */
typedef struct queue {
    qg__hook     hook;
    qg__pending *first;             /* in the order in which they were sent off */
    qg__pending *reserved;          /* qg__reduce_room; not sent yet */
    deferred    *deferred;          /* in the order of the walk */
    size_t       bytes;             /* of all buffers */
    int          begun;             /* how many in this pass */
    double       since, waited;     /* when the queue was last empty; qg__traffic.seconds then */
} queue;

static qg_status visit_or_defer(qg_tape *t, qg_var *v);
static bool      drop(qg_tape *t);

/* The hook is the queue's first member. */
static queue *queue_of(qg_tape *t) { return (queue *)(void *)qg__tape_walk(t)->hook; }

static queue *take_queue(qg_tape *t)
{
    queue *q = queue_of(t);
    if (q || !(q = qg__tape_take(t, sizeof *q))) return q;
    *q = (queue){ .hook = { visit_or_defer, drop } };
    qg__tape_walk(t)->hook = &q->hook;
    return q;
}

static bool move_all(qg_tape *t, bool wait);

/* --- one gradient --------------------------------------------------------------------------- */

qg__pending *qg__pending_new(qg_tape *t, qg_var *y, size_t n, bool adds)
{
    const size_t ranks = (size_t)qg_ranks(), stride = n / ranks + 1;
    size_t       bytes = HEAD + (n + (adds ? (ranks - 1) * stride : 0)) * sizeof(float);
    queue       *q     = take_queue(t);
    if (!q || (q->first && q->bytes + bytes > MOST_BYTES && !move_all(t, true))) return NULL;
    qg__pending *p = qg__lend(t, &bytes);
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

static bool begin(qg_tape *t, qg__pending *p, qg__add add)
{
    queue        *q  = queue_of(t);
    qg__pending **at = &q->first;
    const qg_var *w  = p->y->in[1];
    if (!q->first) q->since = qg__now(), q->waited = qg__ranks_traffic().seconds;
    while (*at) at = &(*at)->next;
    *at             = p;
    p->add          = add;
    p->messages.tag = 1 + q->begun++ % TAGS;
    q->bytes += p->bytes;
    if (!qg__ranks_passed(t, post(p))) return false;
    /* A weight that is computed from images, or is x, cannot be put off; and outside the walk nobody moves messages on. */
    return (qg__tape_walk(t)->runs && (!w || !w->batch)) || move_all(t, true);
}

bool qg__pending_gather(qg_tape *t, qg__pending *p, const size_t *start, qg__add add)
{
    memcpy(p->start, start, ((size_t)qg_ranks() + 1) * sizeof *start);
    p->summed = true;
    return begin(t, p, add);
}

float *qg__reduce_room(qg_tape *t, qg_var *y, qg__slices b, size_t n)
{
    if (!b.shared) return qg_scratch(t, n * sizeof(float));
    qg__pending *p = qg__pending_new(t, y, n, true);
    if (p) queue_of(t)->reserved = p;
    return p ? p->data : NULL;
}

bool qg__reduce(qg_tape *t, qg_var *y, qg__slices b, float *sum, size_t n, qg__add add)
{
    if (!b.shared) return add(t, y, sum), true;
    qg__pending *p = queue_of(t) ? queue_of(t)->reserved : NULL;
    if (p && p->data == sum) queue_of(t)->reserved = NULL;
    else if ((p = qg__pending_new(t, y, n, true)) != NULL) memcpy(p->data, sum, n * sizeof *sum);
    for (int r = 0; p && r <= qg_ranks(); r++) p->start[r] = p->n * (size_t)r / (size_t)qg_ranks();
    return p && begin(t, p, add);
}

static bool move_each(qg_tape *t, queue *q, bool wait)
{
    for (qg__pending **at = &q->first; *at;) {
        qg__pending *p = *at;
        bool         there;
        if (!qg__ranks_passed(t, move(p, wait, &there))) return false;
        if (!there) {
            at = &p->next;
            continue;
        }
        p->add(t, p->y, p->data);
        *at = p->next;
        q->bytes -= p->bytes;
        qg__give(t, p, p->bytes);
    }
    return true;
}

/* Moves the messages on, and adds what is complete; wait: all of it. */
static bool move_all(qg_tape *t, bool wait)
{
    queue *q = queue_of(t);
    if (!q->first) return true;
    /* The last round of each begins before one of them is waited for. */
    if (!move_each(t, q, wait) || (wait && !move_each(t, q, wait))) return false;
    if (!q->first) qg__ranks_hid(qg__now() - q->since - (qg__ranks_traffic().seconds - q->waited));
    return true;
}

/* --- the walk ------------------------------------------------------------------------------- */

/* v adds to that gradient, which is of no image. */
static bool adds(const qg_var *v, const float *grad, bool images_too)
{
    for (int i = 0; i < QG_OPERANDS; i++)
        if (v->in[i] && v->in[i]->grad == grad && (images_too || !v->in[i]->batch)) return true;
    return false;
}

/* Whether something on its way, or a deferred op before `end`, will still add to that gradient. */
static bool is_awaited(const queue *q, const float *grad, const deferred *end)
{
    if (!grad) return false;
    for (const deferred *d = q->deferred; d != end; d = d->next)
        if (adds(d->v, grad, true)) return true;
    for (const qg__pending *p = q->first; p; p = p->next)
        if (adds(p->y, grad, false)) return true;
    return false;
}

/* v reads its gradient, and adds to those of its operands: all of them in the order of the walk. */
static bool must_wait(const queue *q, const qg_var *v, const deferred *end)
{
    bool waits = is_awaited(q, v->grad, end);
    for (int i = 0; i < QG_OPERANDS; i++) waits |= v->in[i] && is_awaited(q, v->in[i]->grad, end);
    return waits;
}

static qg_status move_on(qg_tape *t, bool all)
{
    queue *q = queue_of(t);
    if (!move_all(t, all)) return qg_tape_status(t);
    for (deferred **at = &q->deferred; *at;) {
        deferred *d = *at;
        if (must_wait(q, d->v, d)) {
            at = &d->next;
            continue;
        }
        *at = d->next;
        if (qg__tape_visit(t, d->v)) return qg_tape_status(t);
    }
    return QG_OK;
}

/* Ops on weights can be put off, to the end of the walk if need be; those on images cannot. */
static qg_status visit_or_defer(qg_tape *t, qg_var *v)
{
    queue *q = queue_of(t);
    if (!v) return move_on(t, true);
    if (!q->first && !q->deferred) return qg__tape_visit(t, v);
    if (move_on(t, false) || qg__tape_ready(t, v)) return qg_tape_status(t);
    if (!must_wait(q, v, NULL)) return qg__tape_visit(t, v);
    if (v->batch) return move_on(t, true) ? qg_tape_status(t) : qg__tape_visit(t, v);
    deferred **last = &q->deferred, *d = qg__tape_take(t, sizeof *d);
    if (!d) return qg_tape_status(t);
    while (*last) last = &(*last)->next;
    *d    = (deferred){ v, NULL };
    *last = d;
    return QG_OK;
}

/* Forgets what is under way. */
static bool drop(qg_tape *t)
{
    queue *q = queue_of(t);
    for (qg__pending *p = q->first; p; p = p->next) qg__ranks_forget(&p->messages);
    return !q->first;
}
