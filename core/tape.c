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
#include "core/io/number.h"
#include "core/kernels/cpu.h"
#include "core/kernels/parallel.h"
#include "core/rng.h"
#include "core/slices.h"
#include "core/walk.h"

/* Vars of the current step and of the three before it can be told apart. */
enum { GENERATIONS = 4 };

/* A place on the tape, with one var for each of the last GENERATIONS steps.  A pointer that a
 * program kept from an earlier step still leads to the var of that step, whose .begun tells
 * its age. */
typedef struct place {
    qg_var var[GENERATIONS];
} place;

/* A pointer that a caller has attached to the step (qg__tape_attach). */
typedef struct attachment {
    const void        *owner;
    void              *what;
    struct attachment *older;
} attachment;

struct qg_tape {
    qg_arena      vars;         /* never shrinks: a var of an earlier step can still be looked at */
    qg_arena      step;         /* values, gradients, what ops saved */
    qg_arena      scratch;      /* rewound when the next op starts */
    size_t        peak;         /* the most bytes ever in use in the three together */
    const char   *taker;        /* what memory is taken for, in messages: the name of an op, "input", .. */
    qg_var       *newest;
    attachment   *attached;     /* the newest */
    qg_mode       mode;
    qg_status     status;       /* the first failure of this step */
    char          why[512];     /* and its message: later failures elsewhere do not replace it */
    uint64_t      begun;        /* how often qg_tape_begin was called */
    uint64_t      at;           /* the step's number */
    uint64_t      key;
    uint64_t      draws;        /* keys given out in this step */
    int           batch;        /* images of the step's inputs, if only a part of them is here; else 0 */
    bool          walked;       /* qg_backward was called: gradients may have replaced values */
    bool          retains;      /* from the next step on, no memory serves twice (qg_tape_retain) */
    bool          lost;         /* an exchange with other processes may still write to memory of a
                                   step, so it is never freed */
    qg__walk      walk;
    qg__stopwatch watch;
};

/* --- steps and failures ------------------------------------------------------------------- */

qg_tape *qg_tape_new(void)
{
    qg_tape *t = calloc(1, sizeof *t);
    if (!t) qg_fail(QG_EMEM, "out of memory: a tape");
    else t->taker = "tape";
    return t;
}

static void drop_hook(qg_tape *t)
{
    if (t->walk.hook && !t->walk.hook->drop(t)) t->lost = true;
    t->walk.hook = NULL;
    t->walk.runs = false;
}

/* Rewinding an arena keeps its memory; settle and merge also join its blocks into one, so that the
 * next step, which needs the same sizes, makes no heap call. */
void qg_tape_begin(qg_tape *t, qg_mode mode, uint64_t key, uint64_t step)
{
    if (!t) return;
    qg__watch_forward(&t->watch, "-");
    qg__threads_renew();
    drop_hook(t);
    qg__arena_rewind(&t->vars);
    if (t->lost) qg__arena_rewind(&t->step);
    else qg__arena_settle(&t->step);
    qg__arena_merge(&t->scratch);
    t->newest = NULL;
    t->mode   = mode;
    t->status = QG_OK;
    t->begun++;
    t->at     = step;
    t->key    = qg_rng_fork(qg_rng_fork(key, QG_STREAM_TAPE), step);
    t->draws  = 0;
    t->batch  = 0;
    t->walked = false;
    t->attached = NULL;
    t->walk     = (qg__walk){ .retained = t->retains };
    if (mode != QG_TRAIN && mode != QG_EVAL && mode != QG_ESTIMATE)
        qg_reject(t, QG_EARG, "tape: %d is not a mode", (int)mode);
    if (!qg__ieee_mode()) qg_reject(t, QG_ESTATE, "tape: " QG_IEEE_MODE_REFUSAL);
}

size_t    qg__tape_peak(const qg_tape *t)   { return t ? t->peak : 0; }
qg_status qg_tape_status(const qg_tape *t) { return t ? t->status : QG_ESTATE; }
qg_mode   qg_tape_mode(const qg_tape *t)   { return t->mode; }
uint64_t  qg_tape_step(const qg_tape *t)   { return t->at; }
uint64_t  qg_tape_key(qg_tape *t)          { return qg_rng_fork(t->key, t->draws++); }

void qg_tape_retain(qg_tape *t, bool retain)
{
    if (t) t->retains = retain;
}

void qg_tape_profile(qg_tape *t, qg_profile *p)
{
    if (t) t->watch = (qg__stopwatch){ .profile = p };
}

void qg_tape_free(qg_tape *t)
{
    if (!t) return;
    drop_hook(t);
    qg__arena_release(&t->vars);
    if (!t->lost) qg__arena_release(&t->step);
    qg__arena_release(&t->scratch);
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

qg_var *qg__reject_null(qg_tape *t, const char *what)
{
    if (t && !t->status) fail(t, qg__fail_null(QG_EARG, what));
    return NULL;
}

void qg__tape_locate(qg_tape *t, const char *layer)
{
    char why[sizeof t->why];
    memcpy(why, t->why, sizeof why);
    const size_t n = strlen(layer);
    const bool   located = !strncmp(why, layer, n) && (why[n] == ':' || why[n] == '.' || why[n] == ' ');
    if (!t->status || located) return;
    qg_fail(t->status, "%s: %s", layer, why);
    snprintf(t->why, sizeof t->why, "%s", qg_errmsg());
}

static void *take(qg_tape *t, qg_arena *a, size_t bytes)
{
    void        *p    = qg__arena_take(a, bytes ? bytes : 1);
    const size_t used = t->vars.used + t->step.used + t->scratch.used;
    if (used > t->peak) t->peak = used;
    if (!p) fail(t, qg_fail(QG_EMEM, "%s: %s", t->taker, qg_errmsg()));
    return p;
}

void *qg__tape_take(qg_tape *t, size_t bytes)
{
    return take(t, &t->step, bytes);
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
        return qg_reject(t, QG_ESHAPE, "%s: " QG_SHAPE_FMT " has more than %d numbers in an image", name, QG_SHAPE_ARGS(s),
                         INT_MAX);
    if ((long long)s.n * s.h > INT_MAX)
        return qg_reject(t, QG_ESHAPE, "%s: " QG_SHAPE_FMT " has more than %d rows in all", name, QG_SHAPE_ARGS(s), INT_MAX);
    return true;
}

qg_var *qg_input(qg_tape *t, qg_tensor x)
{
    if (!t || t->status) return NULL;
    if (!x.data) return qg__reject_null(t, "input");
    if (!qg_shape_valid(x.shape))
        return qg_reject(t, QG_ESHAPE, "input: " QG_SHAPE_FMT " is empty or beyond any memory", QG_SHAPE_ARGS(x.shape));
    if (!countable(t, "input", x.shape)) return NULL;
    t->taker  = "input";
    qg_var *v = append(t, x.shape);
    if (!v) return NULL;
    int first;
    v->data  = x.data;
    v->batch = x.shape.n;       /* or more, if this process has its part of a shared batch */
    if (x.batch > x.shape.n && qg__images_here(x.batch, &first) == x.shape.n) v->batch = t->batch = x.batch;
    return v;
}

qg_var *qg_parameter(qg_tape *t, const qg_param *p)
{
    if (!t || t->status) return NULL;
    if (!p) return qg__reject_null(t, "parameter");
    if (!p->value) return qg_reject(t, QG_ESTATE, "%s: used before the parameters are allocated", p->name);
    t->taker  = "parameter";
    qg_var *v = append(t, p->shape);
    if (!v) return NULL;
    v->data       = p->value;
    v->needs_grad = t->mode == QG_TRAIN && p->grad && !p->frozen;
    v->grad       = v->needs_grad ? p->grad : NULL;
    return v;
}

/* y reads x: it needs a gradient if x does, and counts images if x does. */
static void read_operand(qg_var *y, qg_var *x)
{
    if (!x) return;
    x->readers++;
    if (x->needs_grad) y->needs_grad = true;
    if (x->batch > x->shape.n) y->batch = x->batch;
    else if (x->batch && !y->batch) y->batch = y->shape.n;
}

static bool readable(qg_tape *t, const char *name, const qg_var *x)
{
    if (!x) return true;
    const char *fault = x->tape != t           ? "is of another tape"
                        : x->begun != t->begun ? "is of an earlier step, which qg_tape_begin has ended"
                        : !x->data             ? "has lost its value to backward"
                                               : NULL;
    return !fault || qg_reject(t, QG_ESTATE, "%s: its operand " QG_SHAPE_FMT " %s", name, QG_SHAPE_ARGS(x->shape), fault);
}

/* Appends the var of an op.  Its value follows: new memory, or that of an operand. */
static qg_var *entry(qg_tape *t, const qg_op *op, qg_shape y, qg_var *a, qg_var *b, qg_var *c)
{
    if (!t || t->status) return NULL;
    qg__watch_forward(&t->watch, op->name);
    qg__arena_merge(&t->scratch);
    t->taker = op->name;
    if (!readable(t, op->name, a) || !readable(t, op->name, b) || !readable(t, op->name, c)) return NULL;
    qg_var *v = append(t, y);
    if (!v) return NULL;
    qg__watch_record(&t->watch, v);
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
    if (y.n < 1 || y.h < 1 || y.w < 1 || y.c < 1)
        return qg_reject(t, QG_ESHAPE, "%s: a result of " QG_SHAPE_FMT " is empty", op->name, QG_SHAPE_ARGS(y));
    if (!qg_shape_valid(y))
        return qg_reject(t, QG_EMEM, "%s: " QG_SHAPE_FMT " is beyond any memory", op->name, QG_SHAPE_ARGS(y));
    if (!countable(t, op->name, y)) return NULL;
    v->data = take(t, &t->step, qg_count(y) * sizeof(float));
    return v->data ? v : NULL;
}

qg_var *qg__record_view(qg_tape *t, const qg_op *op, qg_var *x)
{
    if (!x) return NULL;
    qg_var *v = entry(t, op, x->shape, x, NULL, NULL);
    if (!v) return NULL;
    v->data = x->data;
    return v;
}

void qg_drop_batch(qg_var *y) { y->batch = 0; }

void qg_restore_batch(qg_var *y)
{
    int        first;
    const int  all    = y->tape->batch;
    const bool shared = all && qg__images_here(all, &first) == y->shape.n;
    y->batch          = shared ? all : y->shape.n;
}

bool qg_add_operand(qg_var *y, int at, qg_var *x)
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

void qg__tape_attach(qg_tape *t, const void *owner, void *what)
{
    attachment *a = take(t, &t->step, sizeof *a);
    if (!a) return;
    *a          = (attachment){ owner, what, t->attached };
    t->attached = a;
}

void *qg__tape_attached(const qg_tape *t, const void *owner)
{
    const attachment *a = t ? t->attached : NULL;
    while (a && a->owner != owner) a = a->older;
    return a ? a->what : NULL;
}

/* --- the backward walk -------------------------------------------------------------------- */

qg__walk *qg__tape_walk(qg_tape *t) { return &t->walk; }

qg_status qg__tape_ready(qg_tape *t, const qg_var *v)
{
    t->taker = v->op->name;
    return qg__gradients_ready(t, v);
}

/* Makes the gradients of v's operands ready (memory, zeroed unless the op assigns), runs v's
 * backward, which qg__watch_backward times, and then gives v's own gradient back.  A var that
 * shares the gradient of its operand has no backward. */
qg_status qg__tape_visit(qg_tape *t, qg_var *v)
{
    if (!qg__gradient_shared(v)) {
        if (qg__tape_ready(t, v)) return t->status;
        qg__arena_merge(&t->scratch);
        qg__watch_backward(&t->watch, t, v);
    }
    qg__gradients_done(t, v);
    return t->status;
}

/* The same, unless the hook puts it off.  v NULL: the walk has ended. */
static qg_status visit(qg_tape *t, qg_var *v)
{
    if (t->walk.hook) return t->walk.hook->visit(t, v);
    return v ? qg__tape_visit(t, v) : QG_OK;
}

/* From the newest var to the oldest: the readers of a value come before the op that computed it, so
 * its gradient is complete when that op is reached. */
static qg_status walk(qg_tape *t)
{
    t->walked = t->walk.runs = true;
    for (qg_var *v = t->newest; v && !t->status; v = v->older)
        if (v->op && v->grad) (void)visit(t, v);
    if (!t->status) (void)visit(t, NULL);
    t->walk.runs = false;
    return t->status;
}

static bool is_of_step(const qg_tape *t, const qg_var *wanted)
{
    const qg_var *v = t->newest;
    while (v && v != wanted) v = v->older;
    return v;
}

qg_status qg_backward(qg_tape *t, qg_var *loss)
{
    if (!t) return qg__fail_null(QG_ESTATE, "tape");
    if (t->status) return qg_fail(t->status, "%s", t->why);
    if (!loss)
        return qg_fail(QG_ESTATE,
                       "backward: the loss is NULL, although no op failed in this step; an op was called with NULL");
    if (!is_of_step(t, loss)) return qg_fail(QG_ESTATE, "backward: the loss is of another tape, or of an earlier step");
    qg__watch_forward(&t->watch, NULL);
    if (t->mode != QG_TRAIN)
        return qg_fail(QG_ESTATE, "backward: the tape was begun in %s", t->mode == QG_EVAL ? "QG_EVAL" : "QG_ESTIMATE");
    if (qg_count(loss->shape) != 1)
        return qg_fail(QG_ESHAPE, "backward: the loss is " QG_SHAPE_FMT ", not [1,1,1,1]",
                       QG_SHAPE_ARGS(loss->shape));
    if (t->walked && loss->needs_grad)
        return qg_fail(QG_ESTATE,
                       "qg_backward was already called in this step; add the losses, or call qg_tape_begin first");
    if (!isfinite(loss->data[0]))
        return qg_fail(QG_ENAN, "backward: the loss is %g", qg__number_shown(loss->data[0]));
    if (!loss->needs_grad) return QG_OK;
    if (!loss->op) {                        /* a parameter itself */
        t->walked = true;
        loss->grad[0] += 1.0f;
        return QG_OK;
    }
    if (!qg__gradient_take(t, loss)) return t->status;
    loss->grad[0] = 1.0f;
    if (walk(t)) {
        drop_hook(t);
        return qg_fail(t->status, "%s", t->why);
    }
    qg__arena_merge(&t->scratch);
    qg__watch_forward(&t->watch, "-");
    return QG_OK;
}
