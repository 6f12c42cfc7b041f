/* The tape.  Ops append vars to it; qg_backward walks from the newest var to the oldest and lets the op of each add to the
 * gradients of its operands.  Values and gradients of a step share an arena, which the next step rewinds. */
#include "core/tape.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/clock.h"
#include "core/kernels/parallel.h"
#include "core/pending.h"
#include "core/profile.h"
#include "core/rng.h"
#include "core/slices.h"

/* How many steps' vars can be told apart: those of this step and of the three before. */
enum { GENERATIONS = 4 };

/* A place on the tape.  Each of that many steps has a var of its own there, so a pointer kept from one of the
 * three before leads to a var with that step's number. */
typedef struct place {
    qg_var var[GENERATIONS];
} place;

/* Times the ops for a profile. */
typedef struct stopwatch {
    qg_profile     *profile;    /* NULL: nothing is timed */
    qg_profile_row *running;    /* the op whose forward is being timed, */
    double          since;      /* since when, */
    const qg_var   *timed;      /* and what it has recorded */
} stopwatch;

/* What somebody keeps on the tape in this step. */
typedef struct kept {
    const void  *owner;
    void        *what;
    struct kept *older;
} kept;

/* A buffer that is free for another gradient; the record is written into the buffer itself. */
typedef struct spare {
    struct spare *next;
    size_t        bytes;
} spare;

struct qg_tape {
    qg_arena      vars;         /* never shrinks: a var of an earlier step can still be looked at */
    qg_arena      step;         /* values, gradients, what ops saved */
    qg_arena      scratch;      /* rewound when the next op starts */
    size_t        peak;         /* the most bytes ever in use in the three together */
    const char   *taker;        /* what memory is taken for, in messages: the name of an op, "input", .. */
    qg_var       *newest;
    spare        *spares;
    qg__queue     queue;        /* gradients that are on their way to other ranks and back, */
    qg_var       *deferred;     /* and vars whose backward waits for them, newest first */
    kept         *kept;
    qg_mode       mode;
    qg_status     status;       /* the first failure of this step */
    char          why[512];     /* and its message: later failures elsewhere do not replace it */
    uint64_t      begun;        /* how often qg_tape_begin was called */
    uint64_t      at;           /* the step's number */
    uint64_t      key;
    uint64_t      draws;        /* keys given out in this step */
    int           batch;        /* of the inputs that ranks share in this step; 0: none do */
    bool          walked;       /* backward has begun: gradients may have replaced values */
    stopwatch     watch;
};

/* --- profile ------------------------------------------------------------------------------ */

static qg_profile_row *row_of(qg_profile *p, const char *op)
{
    for (int i = 0; i < p->rows; i++)
        if (!strcmp(p->row[i].op, op)) return &p->row[i];
    if (p->rows == QG_PROFILE_ROWS) return NULL;
    p->row[p->rows] = (qg_profile_row){ .op = op };
    return &p->row[p->rows++];
}

/* The running op ends, and the one called op begins; "-": what lies between ops, NULL: nothing.  An op computes
 * between its own record and the next one, so one reading of the clock per record times them all. */
static void watch_forward(stopwatch *w, const char *op)
{
    if (!w->profile) return;
    const double now = qg__now();
    if (w->running) {
        w->running->forward += now - w->since;
        w->running->forward_flops += w->timed ? w->timed->flops : 0;
    }
    w->running = op ? row_of(w->profile, op) : NULL;
    w->since   = now;
    w->timed   = NULL;
}

static void watch_record(stopwatch *w, const qg_var *y)
{
    if (w->running) w->running->calls++;
    w->timed = y;
}

static void watch_backward(stopwatch *w, qg_tape *t, qg_var *y)
{
    const double start = w->profile ? qg__now() : 0;
    y->op->backward(t, y);
    qg_profile_row *row = w->profile ? row_of(w->profile, y->op->name) : NULL;
    if (!row) return;
    row->backward += qg__now() - start;
    for (int i = 0; i < 2; i++)         /* each gradient of a product costs as much as the product */
        if (y->in[i] && y->in[i]->grad) row->backward_flops += y->flops;
}

/* --- steps and failures ------------------------------------------------------------------- */

qg_tape *qg_tape_new(void)
{
    qg_tape *t = calloc(1, sizeof *t);
    if (!t) qg_fail(QG_EMEM, "out of memory: a tape");
    else t->taker = "tape";
    return t;
}

void qg_tape_begin(qg_tape *t, qg_mode mode, uint64_t key, uint64_t step)
{
    if (!t) return;
    watch_forward(&t->watch, "-");
    qg__threads_renew();
    qg__pending_drop(&t->queue);
    qg_arena_rewind(&t->vars);
    qg_arena_settle(&t->step);
    qg_arena_merge(&t->scratch);
    t->newest = NULL;
    t->spares   = NULL;
    t->deferred = NULL;
    t->kept     = NULL;
    t->mode   = mode;
    t->status = QG_OK;
    t->begun++;
    t->at     = step;
    t->key    = qg_rng_fork(qg_rng_fork(key, QG_STREAM_TAPE), step);
    t->draws  = 0;
    t->batch  = 0;
    t->walked = false;
    if (mode != QG_TRAIN && mode != QG_EVAL && mode != QG_ESTIMATE)
        qg_reject(t, QG_EARG, "tape: %d is not a mode", (int)mode);
}

size_t    qg_tape_peak(const qg_tape *t)   { return t ? t->peak : 0; }
qg_status qg_tape_status(const qg_tape *t) { return t ? t->status : QG_ESTATE; }
qg_mode   qg_tape_mode(const qg_tape *t)   { return t->mode; }
uint64_t  qg_tape_step(const qg_tape *t)   { return t->at; }
uint64_t  qg_tape_key(qg_tape *t)          { return qg_rng_fork(t->key, t->draws++); }

void qg_tape_profile(qg_tape *t, qg_profile *p)
{
    if (t) t->watch = (stopwatch){ .profile = p };
}

void qg_tape_free(qg_tape *t)
{
    if (!t) return;
    qg__pending_drop(&t->queue);
    qg_arena_release(&t->vars);
    if (!qg__ranks_lost()) qg_arena_release(&t->step);      /* else other ranks may still read it */
    qg_arena_release(&t->scratch);
    free(t);
}

/* Keeps the first failure; the message is the one just set. */
static void fail(qg_tape *t, qg_status s)
{
    if (t->status) return;
    t->status = s;
    snprintf(t->why, sizeof t->why, "%s", qg_errmsg());
}

qg_var *qg_reject(qg_tape *t, qg_status s, const char *fmt, ...)
{
    if (!t || t->status) return NULL;
    char    text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    qg_fail(s, "%s", text);
    fail(t, s);
    return NULL;
}

qg_var *qg_reject_null(qg_tape *t, const char *what)
{
    if (t && !t->status) fail(t, qg_fail_null(QG_EARG, what));
    return NULL;
}

static void *take(qg_tape *t, qg_arena *a, size_t bytes)
{
    void        *p    = qg_arena_take(a, bytes ? bytes : 1);
    const size_t used = t->vars.used + t->step.used + t->scratch.used;
    if (used > t->peak) t->peak = used;
    if (!p) fail(t, qg_fail(QG_EMEM, "%s: %s", t->taker, qg_errmsg()));
    return p;
}

/* --- recording ---------------------------------------------------------------------------- */

static qg_var *append(qg_tape *t, qg_shape shape)
{
    place *p = take(t, &t->vars, sizeof *p);
    if (!p) return NULL;
    qg_var *v = &p->var[t->begun % GENERATIONS];
    *v        = (qg_var){ .shape = shape, .tape = t, .older = t->newest, .begun = t->begun };
    t->newest = v;
    return v;
}

/* Ops count the numbers of an image in ints, and the rows of all images too. */
static bool countable(qg_tape *t, const char *name, qg_shape s)
{
    if (qg_row(s) > INT_MAX)
        qg_reject(t, QG_ESHAPE, "%s: " QG_SHAPE_FMT " has more than %d numbers in an image", name, QG_SHAPE_ARGS(s), INT_MAX);
    else if ((long long)s.n * s.h > INT_MAX)
        qg_reject(t, QG_ESHAPE, "%s: " QG_SHAPE_FMT " has more than %d rows in all", name, QG_SHAPE_ARGS(s), INT_MAX);
    else return true;
    return false;
}

qg_var *qg_input(qg_tape *t, qg_tensor x)
{
    if (!t || t->status) return NULL;
    if (!x.data) return qg_reject_null(t, "input");
    if (!qg_shape_valid(x.shape))
        return qg_reject(t, QG_ESHAPE, "input: " QG_SHAPE_FMT " is empty or beyond any memory", QG_SHAPE_ARGS(x.shape));
    if (!countable(t, "input", x.shape)) return NULL;
    t->taker  = "input";
    qg_var *v = append(t, x.shape);
    if (!v) return NULL;
    v->data   = x.data;
    v->images = true;
    v->batch  = qg__ranks_served(x.data, x.shape.n);
    if (v->batch) t->batch = v->batch;
    return v;
}

qg_var *qg_parameter(qg_tape *t, const qg_param *p)
{
    if (!t || t->status) return NULL;
    if (!p) return qg_reject_null(t, "parameter");
    if (!p->value) return qg_reject(t, QG_ESTATE, "%s: used before the parameters are allocated", p->name);
    t->taker  = "parameter";
    qg_var *v = append(t, p->shape);
    if (!v) return NULL;
    v->data       = p->value;
    v->needs_grad = t->mode == QG_TRAIN && p->grad && !p->frozen;
    v->grad       = v->needs_grad ? p->grad : NULL;
    return v;
}

static void read_operand(qg_var *y, qg_var *x)
{
    if (!x) return;
    x->readers++;
    if (x->needs_grad) y->needs_grad = true;
    if (x->images) y->images = true;
    if (x->batch) y->batch = x->batch;
}

static bool readable(qg_tape *t, const char *name, const qg_var *x)
{
    if (!x) return true;
    const char *fault = x->tape != t           ? "is of another tape"
                        : x->begun != t->begun ? "is of an earlier step, which qg_tape_begin has ended"
                        : !x->data             ? "has lost its value to backward"
                                               : NULL;
    if (fault) qg_reject(t, QG_ESTATE, "%s: its operand " QG_SHAPE_FMT " %s", name, QG_SHAPE_ARGS(x->shape), fault);
    return !fault;
}

/* A var whose value is still missing. */
static qg_var *entry(qg_tape *t, const qg_op *op, qg_shape y, qg_var *a, qg_var *b, qg_var *c)
{
    if (!t || t->status) return NULL;
    watch_forward(&t->watch, op->name);
    qg_arena_merge(&t->scratch);
    t->taker = op->name;
    if (!readable(t, op->name, a) || !readable(t, op->name, b) || !readable(t, op->name, c)) return NULL;
    qg_var *v = append(t, y);
    if (!v) return NULL;
    watch_record(&t->watch, v);
    v->op    = op;
    v->in[0] = a;
    v->in[1] = b;
    v->in[2] = c;
    for (int i = 0; i < 3; i++) read_operand(v, v->in[i]);
    return v;
}

qg_var *qg_record(qg_tape *t, const qg_op *op, qg_shape y, qg_var *a, qg_var *b, qg_var *c)
{
    qg_var *v = entry(t, op, y, a, b, c);
    if (!v) return NULL;
    if (!qg_shape_valid(y))
        return qg_reject(t, QG_EMEM, "%s: " QG_SHAPE_FMT " is beyond any memory", op->name, QG_SHAPE_ARGS(y));
    if (!countable(t, op->name, y)) return NULL;
    v->data = take(t, &t->step, qg_count(y) * sizeof(float));
    return v->data ? v : NULL;
}

qg_var *qg_record_view(qg_tape *t, const qg_op *op, qg_var *x)
{
    if (!x) return NULL;
    qg_var *v = entry(t, op, x->shape, x, NULL, NULL);
    if (!v) return NULL;
    v->data = x->data;
    v->sums = x->sums;
    return v;
}

void qg_whole(qg_var *y)
{
    y->images = false;
    y->batch  = 0;
}

void qg_spread(qg_var *y)
{
    int first;
    y->images = true;
    if (y->tape->batch && qg__images_here(y->tape->batch, &first) == y->shape.n) y->batch = y->tape->batch;
}

bool qg_operand(qg_var *y, int at, qg_var *x)
{
    QG_ASSERT(at >= 3 && at < QG_OPERANDS);
    if (!readable(y->tape, y->op->name, x)) return false;
    y->in[at] = x;
    read_operand(y, x);
    return true;
}

void *qg_save(qg_tape *t, qg_var *y, size_t bytes)
{
    y->saved = take(t, &t->step, bytes);
    return y->saved;
}

void *qg_scratch(qg_tape *t, size_t bytes)
{
    return take(t, &t->scratch, bytes);
}

void qg_tape_keep(qg_tape *t, const void *owner, void *what)
{
    kept *k = take(t, &t->step, sizeof *k);
    if (!k) return;
    *k      = (kept){ owner, what, t->kept };
    t->kept = k;
}

void *qg_tape_kept(const qg_tape *t, const void *owner)
{
    const kept *k = t ? t->kept : NULL;
    while (k && k->owner != owner) k = k->older;
    return k ? k->what : NULL;
}

/* --- the backward walk -------------------------------------------------------------------- */

static size_t grad_bytes(const qg_var *v)
{
    const size_t bytes = qg_count(v->shape) * sizeof(float);
    return bytes < sizeof(spare) ? sizeof(spare) : bytes;
}

/* The smallest free buffer that is large enough, else new memory. */
void *qg__tape_lend(qg_tape *t, size_t *bytes)
{
    spare **best = NULL;
    for (spare **s = &t->spares; *s; s = &(*s)->next)
        if ((*s)->bytes >= *bytes && (!best || (*s)->bytes < (*best)->bytes)) best = s;
    if (!best) return take(t, &t->step, *bytes);
    spare *s = *best;
    *bytes   = s->bytes;
    *best    = s->next;
    return s;
}

void qg__tape_give(qg_tape *t, void *memory, size_t bytes)
{
    if (bytes < sizeof(spare)) return;
    spare *s  = memory;
    *s        = (spare){ t->spares, bytes };
    t->spares = s;
}

static bool grad_take(qg_tape *t, qg_var *v)
{
    v->room = grad_bytes(v);
    v->grad = qg__tape_lend(t, &v->room);
    return v->grad;
}

static bool shares_grad(const qg_var *v)
{
    return v->op && v->op->straight_through && !v->in[0]->op && v->in[0]->grad;
}

/* w was computed from a parameter alone, and only the product y has read it. */
static bool is_copy_of_weight(const qg_var *y, const qg_var *w)
{
    if (!y->op->value_unused || !w || !w->op || w->readers > 1) return false;
    const qg_var *from = w->in[0];
    return from && !from->op && from->grad && from->data != w->data;
}

/* A product that only a batch norm reads: these are the larger half of the activations of a step. */
static bool gives_value(const qg_op *reader, const qg_var *x)
{
    return reader->in_place && x->op && x->op->value_unused && x->readers == 1;
}

static qg_status ready_operand(qg_tape *t, const qg_var *y, int i)
{
    qg_var    *x       = y->in[i];
    const bool assigns = y->op->assigns;
    if (!x || !x->needs_grad || x->grad) return QG_OK;
    if (shares_grad(x)) {
        x->grad = x->in[0]->grad;
        return QG_OK;
    }
    if (i == 0 && gives_value(y->op, x) && qg_count(x->shape) * sizeof(float) >= sizeof(spare)) {
        x->grad  = x->data;
        x->room  = grad_bytes(x);
        x->fresh = true;
        return QG_OK;
    }
    if (!grad_take(t, x)) return t->status;
    x->fresh = assigns;
    if (!assigns) memset(x->grad, 0, qg_count(x->shape) * sizeof(float));
    return QG_OK;
}

static qg_status ready_operands(qg_tape *t, const qg_var *y)
{
    t->taker = y->op->name;
    for (int i = 0; i < QG_OPERANDS; i++)
        if (ready_operand(t, y, i)) return t->status;
    return QG_OK;
}

static qg_status run_backward(qg_tape *t, qg_var *y)
{
    if (ready_operands(t, y)) return t->status;
    qg_arena_merge(&t->scratch);
    watch_backward(&t->watch, t, y);
    for (int i = 0; i < QG_OPERANDS; i++)
        if (y->in[i]) y->in[i]->fresh = false;
    if (is_copy_of_weight(y, y->in[1])) y->in[1]->spent = true;
    qg__tape_give(t, y->grad, y->room);
    if (y->grad == y->data) y->data = NULL;         /* the gradient has replaced it */
    y->grad = NULL;
    return t->status;
}

/* Backward has passed v: its value may become gradients of older vars, and is NULL from here on. */
static void pass(qg_tape *t, qg_var *v)
{
    if (!v->spent) return;
    qg__tape_give(t, v->data, qg_count(v->shape) * sizeof(float));
    v->data = NULL;
}

static qg_status visit(qg_tape *t, qg_var *v)
{
    if (shares_grad(v) && v->grad == v->in[0]->grad) v->grad = NULL;
    else if (run_backward(t, v)) return t->status;
    pass(t, v);
    return QG_OK;
}

/* --- what waits for other ranks ----------------------------------------------------------- */

qg__queue *qg__tape_queue(qg_tape *t) { return &t->queue; }

/* Whether something on its way, or a deferred op before `end`, will still add to that gradient. */
static bool is_awaited(const qg_tape *t, const float *grad, const qg_var *end)
{
    if (!grad) return false;
    for (const qg_var *d = t->deferred; d != end; d = d->later)
        for (int i = 0; i < QG_OPERANDS; i++)
            if (d->in[i] && d->in[i]->grad == grad) return true;
    return qg__pending_adds(&t->queue, grad);
}

/* v reads its gradient, and adds to those of its operands: all of them in the order of the walk. */
static bool must_wait(const qg_tape *t, const qg_var *v, const qg_var *end)
{
    bool waits = is_awaited(t, v->grad, end);
    for (int i = 0; i < QG_OPERANDS; i++) waits |= v->in[i] && is_awaited(t, v->in[i]->grad, end);
    return waits;
}

static qg_status run_deferred(qg_tape *t)
{
    for (qg_var **at = &t->deferred; *at;) {
        qg_var *v = *at;
        if (must_wait(t, v, v)) {
            at = &v->later;
            continue;
        }
        *at = v->later;
        if (visit(t, v)) return t->status;
    }
    return QG_OK;
}

/* all: waits for everything. */
static qg_status move_on(qg_tape *t, bool all)
{
    if (!t->queue.first && !t->deferred) return QG_OK;
    return qg__pending_move(t, all) ? run_deferred(t) : t->status;
}

/* Ops on weights can be put off, to the end of the walk if need be; those on images cannot. */
static qg_status visit_or_defer(qg_tape *t, qg_var *v)
{
    qg_var **last = &t->deferred;
    if (!t->queue.first && !t->deferred) return visit(t, v);
    if (move_on(t, false) || ready_operands(t, v)) return t->status;
    if (!must_wait(t, v, NULL)) return visit(t, v);
    if (v->images) return move_on(t, true) ? t->status : visit(t, v);
    while (*last) last = &(*last)->later;
    *last    = v;
    v->later = NULL;
    return QG_OK;
}

static bool is_of_step(const qg_tape *t, const qg_var *wanted)
{
    const qg_var *v = t->newest;
    while (v && v != wanted) v = v->older;
    return v;
}

qg_status qg_backward(qg_tape *t, qg_var *loss)
{
    if (!t) return qg_fail_null(QG_ESTATE, "tape");
    if (t->status) return qg_fail(t->status, "%s", t->why);
    if (!loss)
        return qg_fail(QG_ESTATE,
                       "backward: the loss is NULL, although no op failed in this step; an op was called with NULL");
    if (!is_of_step(t, loss)) return qg_fail(QG_ESTATE, "backward: the loss is of another tape, or of an earlier step");
    watch_forward(&t->watch, NULL);
    if (t->mode != QG_TRAIN)
        return qg_fail(QG_ESTATE, "backward: the tape was begun in %s", t->mode == QG_EVAL ? "QG_EVAL" : "QG_ESTIMATE");
    if (qg_count(loss->shape) != 1)
        return qg_fail(QG_ESHAPE, "backward: the loss is " QG_SHAPE_FMT ", not [1,1,1,1]",
                       QG_SHAPE_ARGS(loss->shape));
    if (t->walked && loss->needs_grad)
        return qg_fail(QG_ESTATE,
                       "qg_backward was already called in this step; add the losses, or call qg_tape_begin first");
    if (!isfinite(loss->data[0])) return qg_fail(QG_ENAN, "backward: the loss is %g", loss->data[0]);
    if (!loss->needs_grad) return QG_OK;
    t->walked = true;
    if (!loss->op) {                        /* a parameter itself */
        loss->grad[0] += 1.0f;
        return QG_OK;
    }
    if (!grad_take(t, loss)) return t->status;
    loss->grad[0] = 1.0f;
    for (qg_var *v = t->newest; v && !t->status; v = v->older)
        if (v->op && v->grad) (void)visit_or_defer(t, v);
    if (!t->status) (void)move_on(t, true);
    if (t->status) {
        qg__pending_drop(&t->queue);            /* before its buffers are used for something else */
        return qg_fail(t->status, "%s", t->why);
    }
    qg_arena_merge(&t->scratch);
    watch_forward(&t->watch, "-");
    return QG_OK;
}
