#include "core/tape.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/kernels/parallel.h"
#include "core/rng.h"
#include "core/tape_parts.h"

/* Steps whose vars are still told from those of the present one. */
enum { GENERATIONS = 4 };

/* A place on the tape.  It holds another var in each of so many steps, so that a pointer that was kept
 * from one of the last leads to a var with that step's number. */
typedef struct place {
    qg_var var[GENERATIONS];
} place;

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
    qg__watch_forward(&t->watch, "-");
    qg__threads_renew();
    qg_arena_rewind(&t->vars);
    qg_arena_settle(&t->step);
    qg_arena_merge(&t->scratch);
    t->newest = NULL;
    t->spares = NULL;
    t->mode   = mode;
    t->status = QG_OK;
    t->begun++;
    t->at     = step;
    t->key    = qg_rng_fork(qg_rng_fork(key, QG_STREAM_TAPE), step);
    t->draws  = 0;
    t->walked = false;
}

size_t    qg_tape_peak(const qg_tape *t)   { return t ? t->peak : 0; }
qg_status qg_tape_status(const qg_tape *t) { return t ? t->status : QG_ESTATE; }
qg_mode   qg_tape_mode(const qg_tape *t)   { return t->mode; }
uint64_t  qg_tape_step(const qg_tape *t)   { return t->at; }
uint64_t  qg_tape_key(qg_tape *t)          { return qg_rng_fork(t->key, t->draws++); }

void qg_tape_profile(qg_tape *t, qg_profile *p)
{
    if (t) t->watch = (qg__stopwatch){ .profile = p };
}

void qg_tape_free(qg_tape *t)
{
    if (!t) return;
    qg_arena_release(&t->vars);
    qg_arena_release(&t->step);
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

void *qg__tape_take(qg_tape *t, qg_arena *a, size_t bytes)
{
    void        *p    = qg_arena_take(a, bytes ? bytes : 1);
    const size_t used = t->vars.used + t->step.used + t->scratch.used;
    if (used > t->peak) t->peak = used;
    if (!p) fail(t, qg_fail(QG_EMEM, "%s: %s", t->taker, qg_errmsg()));
    return p;
}

static qg_var *append(qg_tape *t, qg_shape shape)
{
    place *p = qg__tape_take(t, &t->vars, sizeof *p);
    if (!p) return NULL;
    qg_var *v = &p->var[t->begun % GENERATIONS];
    *v        = (qg_var){ .shape = shape, .tape = t, .older = t->newest, .begun = t->begun };
    t->newest = v;
    return v;
}

/* Ops count the numbers of an image in ints, and its rows over the batch. */
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
    if (v) v->data = x.data;
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

/* A var without a value. */
static qg_var *entry(qg_tape *t, const qg_op *op, qg_shape y, qg_var *a, qg_var *b, qg_var *c)
{
    if (!t || t->status) return NULL;
    qg__watch_forward(&t->watch, op->name);
    qg_arena_merge(&t->scratch);
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
    if (!qg_shape_valid(y))
        return qg_reject(t, QG_EMEM, "%s: " QG_SHAPE_FMT " is beyond any memory", op->name, QG_SHAPE_ARGS(y));
    if (!countable(t, op->name, y)) return NULL;
    v->data = qg__tape_take(t, &t->step, qg_count(y) * sizeof(float));
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
    y->saved = qg__tape_take(t, &t->step, bytes);
    return y->saved;
}

void *qg_scratch(qg_tape *t, size_t bytes)
{
    return qg__tape_take(t, &t->scratch, bytes);
}
