#include "core/walk.h"
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "core/ops/ops.h"
#include "core/profile.h"
#include "tests/support/environment.h"

static const qg_shape SCALAR = { 1, 1, 1, 1 };

/* --- ops of the test's own ---------------------------------------------------------------- */

/* sum of x, and notes how its operand's gradient arrived. */
typedef struct arrival {
    bool fresh, zeroed;
} arrival;

static void sum_backward(qg_tape *t, qg_var *y)
{
    qg_var   *x    = y->in[0];
    arrival **note = y->saved;
    if (*note) **note = (arrival){ x->fresh, true };
    for (size_t i = 0, m = qg_count(x->shape); i < m; i++) {
        if (*note && !x->fresh && x->grad[i] != 0.0f) (*note)->zeroed = false;
        x->grad[i] = x->fresh ? y->grad[0] : x->grad[i] + y->grad[0];
    }
}

static const qg_op sum_adds    = { "sum", sum_backward, .assigns = false };
static const qg_op sum_assigns = { "sum", sum_backward, .assigns = true };

static qg_var *sum(qg_tape *t, const qg_op *op, qg_var *x, arrival *note)
{
    if (!x) return NULL;
    qg_var *y = qg_record(t, op, SCALAR, x, NULL, NULL);
    if (!y) return NULL;
    arrival **saved = qg_save(t, y, sizeof *saved);
    if (!saved) return NULL;
    *saved     = note;
    y->data[0] = 0;
    for (size_t i = 0, m = qg_count(x->shape); i < m; i++) y->data[0] += x->data[i];
    return y;
}

/* sign(x), passed straight through; counts how often backward runs. */
static void sign_backward(qg_tape *t, qg_var *y)
{
    int **runs = y->saved;
    ++**runs;
    for (size_t i = 0, m = qg_count(y->shape); i < m; i++) y->in[0]->grad[i] += y->grad[i];
}

static const qg_op sign_op = { "sign", sign_backward };

static qg_var *sign(qg_tape *t, qg_var *x, int *runs)
{
    if (!x) return NULL;
    qg_var *y = qg_record(t, &sign_op, x->shape, x, NULL, NULL);
    if (!y) return NULL;
    int **saved = qg_save(t, y, sizeof *saved);
    if (!saved) return NULL;
    *saved = runs;
    qg_share_gradient(y);
    for (size_t i = 0, m = qg_count(x->shape); i < m; i++)
        y->data[i] = x->data[i] < 0 ? -1.0f : 1.0f;
    return y;
}

/* x as it is; backward halves. */
static void half_backward(qg_tape *t, qg_var *y)
{
    qg_var *x = y->in[0];
    for (size_t i = 0, m = qg_count(y->shape); i < m; i++)
        x->grad[i] = (x->fresh ? 0 : x->grad[i]) + 0.5f * y->grad[i];
}

static const qg_op half_op = { "half", half_backward, .assigns = true };

/* --- fixture: a tape and one parameter w of four numbers ---------------------------------- */

typedef struct fixture {
    qg_tape  *t;
    qg_params p;
    qg_param *w;
} fixture;

static int set_up(void **state)
{
    static fixture f;
    f = (fixture){ .t = qg_tape_new() };
    if (!f.t) return -1;
    f.w = declare(&f.p, "w", (qg_shape){ 1, 1, 1, 4 });
    assert_ok(qg_params_allocate(&f.p));
    memcpy(f.w->value, (float[]){ 1, -2, 3, -4 }, 4 * sizeof(float));
    qg_tape_begin(f.t, QG_TRAIN, 1, 0);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    qg_tape_free(f->t);
    qg_params_release(&f->p);
    return 0;
}

static void assert_grad(const fixture *f, float a, float b, float c, float d)
{
    assert_close(f->w->grad, (float[]){ a, b, c, d }, 4, 0);
}

/* --- gradients ---------------------------------------------------------------------------- */

static void a_var_used_twice_gets_both_gradients(void **state)
{
    fixture *f = *state;
    qg_var  *w = qg_parameter(f->t, f->w);
    qg_var  *v = qg_scale(f->t, w, 2);
    v          = qg_add(f->t, qg_add(f->t, v, v), qg_add(f->t, v, w));    /* 3 v + w = 7 w */
    assert_ok(qg_backward(f->t, sum(f->t, &sum_adds, v, NULL)));
    assert_grad(f, 7, 7, 7, 7);
}

/* -1 + 2^-24 is a float, 1 + 2^-24 is none. */
static void contributions_are_added_from_the_last_reader(void **state)
{
    fixture *f = *state;
    qg_var  *v = qg_affine(f->t, qg_parameter(f->t, f->w), 1, 0);
    qg_var  *a = qg_scale(f->t, v, 1), *b = qg_scale(f->t, v, 0x1p-24f), *c = qg_scale(f->t, v, -1);
    assert_ok(qg_backward(f->t, sum(f->t, &sum_adds, qg_add(f->t, qg_add(f->t, a, b), c), NULL)));
    assert_grad(f, 0x1p-24f, 0x1p-24f, 0x1p-24f, 0x1p-24f);
}

static void gradients_accumulate_until_somebody_clears_them(void **state)
{
    fixture *f = *state;
    for (uint64_t step = 0; step < 3; step++) {
        qg_tape_begin(f->t, QG_TRAIN, 1, step);
        qg_var *loss = sum(f->t, &sum_adds, qg_parameter(f->t, f->w), NULL);
        assert_ok(qg_backward(f->t, loss));
    }
    assert_grad(f, 3, 3, 3, 3);
}

static void assigning_ops_are_told_when_to_assign(void **state)
{
    fixture *f      = *state;
    arrival  add    = { 0 }, assign = { 0 }, second = { 0 }, direct = { 0 };
    qg_var  *w      = qg_parameter(f->t, f->w);
    qg_var  *v      = qg_scale(f->t, w, 1), *z = qg_scale(f->t, w, 1);
    qg_var  *first  = sum(f->t, &sum_assigns, v, &second);      /* runs after the next on v */
    qg_var  *others = sum(f->t, &sum_assigns, v, &assign);
    others          = qg_add(f->t, others, sum(f->t, &sum_adds, z, &add));
    others          = qg_add(f->t, others, sum(f->t, &sum_assigns, w, &direct));
    assert_ok(qg_backward(f->t, qg_add(f->t, first, others)));
    assert_true(!add.fresh && add.zeroed);              /* a plain op finds zeros */
    assert_true(assign.fresh);
    assert_true(!second.fresh && !second.zeroed);       /* the first one's gradient is there */
    assert_true(!direct.fresh);                         /* a parameter's is never to be assigned */
    assert_grad(f, 4, 4, 4, 4);
}

static void a_straight_through_op_shares_its_parameters_gradient(void **state)
{
    fixture *f    = *state;
    int      runs = 0;
    qg_var  *q    = sign(f->t, qg_parameter(f->t, f->w), &runs);
    qg_var  *loss = qg_add(f->t, sum(f->t, &sum_assigns, qg_scale(f->t, q, 3), NULL),
                           sum(f->t, &sum_assigns, q, NULL));
    assert_true(loss->data[0] == 0.0f);
    assert_ok(qg_backward(f->t, loss));
    assert_int_equal(runs, 0);
    assert_null(q->grad);
    assert_grad(f, 4, 4, 4, 4);
    qg_tape_begin(f->t, QG_TRAIN, 1, 1);                /* and adds to what was there */
    q = sign(f->t, qg_parameter(f->t, f->w), &runs);
    assert_ok(qg_backward(f->t, sum(f->t, &sum_assigns, q, NULL)));
    assert_grad(f, 5, 5, 5, 5);
}

static void a_straight_through_op_runs_where_it_cannot_share(void **state)
{
    fixture *f    = *state;
    int      runs = 0;
    qg_var  *w    = qg_parameter(f->t, f->w);
    qg_var  *q    = sign(f->t, sign(f->t, w, &runs), &runs);        /* of a var: the outer runs */
    assert_ok(qg_backward(f->t, sum(f->t, &sum_adds, q, NULL)));
    assert_int_equal(runs, 1);
    assert_grad(f, 1, 1, 1, 1);
}

static void a_loss_may_itself_be_straight_through(void **state)
{
    qg_params p    = { 0 };
    qg_param *w    = declare(&p, "w", SCALAR);
    int       runs = 0;
    qg_tape  *t    = qg_tape_new();
    assert_ok(qg_params_allocate(&p));
    w->grad[0] = 10;
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    assert_ok(qg_backward(t, sign(t, qg_parameter(t, w), &runs)));
    assert_int_equal(runs, 1);
    assert_true(w->grad[0] == 11.0f);
    qg_tape_free(t);
    qg_params_release(&p);
}

static void frozen_parameters_and_inputs_need_no_gradient(void **state)
{
    fixture *f   = *state;
    f->w->frozen = true;
    qg_var *v    = qg_scale(f->t, qg_parameter(f->t, f->w), 2);
    v            = qg_add(f->t, v, qg_input(f->t, (qg_tensor){ f->w->shape, f->w->value }));
    qg_var *loss = sum(f->t, &sum_adds, v, NULL);
    assert_false(loss->needs_grad);
    assert_ok(qg_backward(f->t, loss));
    assert_grad(f, 0, 0, 0, 0);
}

/* --- lifetimes ---------------------------------------------------------------------------- */

static void vars_live_until_the_next_begin_and_memory_is_reused(void **state)
{
    fixture *f = *state;
    qg_var  *v = qg_relu(f->t, qg_parameter(f->t, f->w));
    for (int i = 0; i < 100; i++) qg_scale(f->t, v, (float)i);
    assert_close(v->data, (float[]){ 1, 0, 3, 0 }, 4, 0);
    const size_t peak   = qg__tape_peak(f->t);
    const float *values = v->data;
    for (uint64_t step = 1; step < 5; step++) {
        qg_tape_begin(f->t, QG_TRAIN, 1, step);
        qg_var *now = qg_relu(f->t, qg_parameter(f->t, f->w));
        assert_ptr_equal(now->data, values);
        assert_true((now == v) == (step == 4));         /* a place has a var for each of four steps */
        for (int i = 0; i < 100; i++) qg_scale(f->t, now, (float)i);
        assert_int_equal(qg__tape_peak(f->t), peak);
    }
}

/* Scratch of an early op and values of late ones are not in use at once. */
static void the_peak_is_of_one_moment(void **state)
{
    enum { MIB = 1 << 20, SLACK = 1 << 14 };
    qg_tape *t = qg_tape_new();
    float    x = 1;
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *v = qg_scale(t, qg_input(t, (qg_tensor){ SCALAR, &x }), 2);
    assert_non_null(qg_scratch(t, 8 * MIB));
    assert_in_range(qg__tape_peak(t), 8 * MIB, 8 * MIB + SLACK);
    v = qg_scale(t, v, 2);
    assert_non_null(qg_save(t, v, 6 * MIB));
    assert_in_range(qg__tape_peak(t), 8 * MIB, 8 * MIB + SLACK);
    assert_non_null(qg_scratch(t, 3 * MIB));
    assert_in_range(qg__tape_peak(t), 9 * MIB, 9 * MIB + SLACK);
    qg_tape_begin(t, QG_TRAIN, 1, 1);
    assert_non_null(qg_scale(t, qg_input(t, (qg_tensor){ SCALAR, &x }), 2));
    assert_in_range(qg__tape_peak(t), 9 * MIB, 9 * MIB + SLACK);
    qg_tape_free(t);
}

static void gradient_buffers_are_used_again(void **state)
{
    enum { C = 50000, DEPTH = 40 };
    qg_params p = { 0 };
    qg_param *w = declare(&p, "w", (qg_shape){ 1, 1, 1, C });
    qg_tape  *t = qg_tape_new();
    allocate_apart(&p, 2);
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *v = qg_parameter(t, w);
    for (int i = 0; i < DEPTH; i++) v = qg_scale(t, v, 1);
    v                    = sum(t, &sum_adds, v, NULL);
    const size_t forward = qg__tape_peak(t);
    assert_ok(qg_backward(t, v));
    /* An op's own gradient and its operand's: two buffers serve the whole chain. */
    assert_in_range(qg__tape_peak(t) - forward, C * sizeof(float), 2 * C * sizeof(float) + 4096);
    qg_tape_free(t);
    qg_params_release(&p);
}

/* The weight of dense(scale(scale(x)), w): its sign, straight through or not, and a view of it. */
typedef enum weighing { SIGN, SIGN_THAT_IS_READ_AGAIN, HALF_SIGN, VIEW } weighing;

static qg_var *weight(qg_tape *t, const qg_param *w, weighing how, int *runs)
{
    qg_var *v = qg_parameter(t, w);
    if (how == VIEW) return qg__record_view(t, &half_op, v);
    if (how != HALF_SIGN) return sign(t, v, runs);
    qg_var *y = qg_record(t, &half_op, v->shape, v, NULL, NULL);
    for (size_t i = 0; i < qg_count(v->shape); i++) y->data[i] = v->data[i] < 0 ? -1.0f : 1.0f;
    return y;
}

/* What backward takes, in arrays as large as the weight.  The gradient of the older scale's operand is
 * asked for when the weight has been read.  Kernels need less than half of one for copies of blocks. */
static void assert_taken(weighing how, size_t least)
{
    enum { N = 64, C = 8192, SLACK = 1 << 20 };
    qg_set_threads(2);
    qg_params p     = { 0 };
    qg_param *x     = declare(&p, "x", (qg_shape){ N, 1, 1, C }), *w = declare(&p, "w", (qg_shape){ N, 1, 1, C });
    qg_tape  *t     = qg_tape_new();
    float    *saved = calloc((size_t)N * C, sizeof *saved);
    int       runs  = 0;
    allocate_apart(&p, 2);
    memcpy(saved, w->value, (size_t)N * C * sizeof *saved);
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *v = qg_scale(t, qg_scale(t, qg_parameter(t, x), 1), 1);
    qg_var *q = weight(t, w, how, &runs);
    qg_var *y = sum(t, &sum_assigns, qg_dense(t, v, q, NULL), NULL);
    if (how == SIGN_THAT_IS_READ_AGAIN) y = qg_add(t, y, sum(t, &sum_assigns, q, NULL));
    const size_t forward = qg__tape_peak(t), array = N * C * sizeof(float);
    assert_ok(qg_backward(t, y));
    assert_in_range(qg__tape_peak(t) - forward, least * array, least * array + N * N * sizeof(float) + SLACK);
    assert_memory_equal(saved, w->value, array);
    assert_true(!q->data == (how == SIGN || how == HALF_SIGN));
    for (int c = 0; c < C; c++) {           /* and is no other for that */
        double expected = 0;
        for (int o = 0; o < N; o++)
            expected += how == VIEW ? (double)saved[o * C + c] : saved[o * C + c] < 0 ? -1.0 : 1.0;
        assert_true(fabs((double)x->grad[c] - expected) <= 1e-5);       /* 64 roundings of 1e-7 */
    }
    free(saved);
    qg_tape_free(t);
    qg_params_release(&p);
    qg_set_threads(0);
}

static void the_copy_of_a_weight_makes_room_for_gradients(void **state)
{
    assert_taken(SIGN, 1);                      /* the operand's; and the copy serves the older one's */
    assert_taken(SIGN_THAT_IS_READ_AGAIN, 2);
    assert_taken(HALF_SIGN, 2);                 /* a gradient of its own, which serves too */
    assert_taken(VIEW, 2);
}

/* --- failures ----------------------------------------------------------------------------- */

static void the_first_failure_sticks(void **state)
{
    fixture *f = *state;
    qg_var  *w = qg_parameter(f->t, f->w);
    assert_null(qg_clip(f->t, w, 2, 1));
    assert_int_equal(qg_tape_status(f->t), QG_EARG);
    assert_null(qg_relu(f->t, w));
    assert_null(qg_parameter(f->t, f->w));
    assert_null(qg_input(f->t, (qg_tensor){ f->w->shape, f->w->value }));
    assert_null(qg_maxpool(f->t, w, 9));
    qg_fail(QG_EIO, "something else in between");
    assert_failed(qg_backward(f->t, NULL), QG_EARG, "clip: lo 2");
    qg_tape_begin(f->t, QG_TRAIN, 1, 1);
    assert_ok(qg_tape_status(f->t));
    assert_non_null(qg_relu(f->t, qg_parameter(f->t, f->w)));
}

static void null_in_null_out_without_a_failure(void **state)
{
    fixture *f = *state;
    qg_var  *w = qg_parameter(f->t, f->w);
    qg_fail(QG_EIO, "untouched");
    assert_null(qg_add(f->t, w, NULL));
    assert_null(qg_add(f->t, NULL, w));
    assert_string_equal(qg_errmsg(), "untouched");
    assert_ok(qg_tape_status(f->t));
    assert_int_equal(qg_backward(f->t, NULL), QG_ESTATE);
    assert_message("the loss is NULL, although no op failed in this step; an op was called with NULL");
}

/* Whoever looks for a parameter and does not find it reads its name in the end. */
static void a_parameter_that_is_none_is_named(void **state)
{
    fixture *f = *state;
    qg_var  *w = qg_parameter(f->t, f->w), *v = qg_parameter(f->t, qg_params_find(&f->p, "v"));
    assert_null(v);
    assert_int_equal(qg_tape_status(f->t), QG_EARG);
    qg_var *loss = sum(f->t, &sum_adds, qg_add(f->t, w, v), NULL);
    qg_fail(QG_EIO, "something else in between");
    assert_int_equal(qg_backward(f->t, loss), QG_EARG);
    assert_message("parameter: it is NULL; the last failure was: unknown parameter 'v'");
    assert_none(qg_params_find(&f->p, NULL), "unknown parameter 'NULL'");
}

/* What is kept of a step is worth nothing in the next ones, whatever has been recorded in its place. */
static void vars_of_an_earlier_step_are_refused(void **state)
{
    fixture *f = *state;
    for (uint64_t age = 1; age < 4; age++) {
        qg_var *w = qg_parameter(f->t, f->w), *v = qg_scale(f->t, w, 2);
        for (uint64_t i = 0; i < age; i++) {
            qg_tape_begin(f->t, QG_TRAIN, 1, i);
            for (int k = 0; k < 3; k++) assert_non_null(qg_parameter(f->t, f->w));
        }
        assert_null(qg_relu(f->t, v));
        assert_int_equal(qg_tape_status(f->t), QG_ESTATE);
        assert_message("relu: its operand [1,1,1,4] is of an earlier step, which qg_tape_begin has ended");
        qg_tape_begin(f->t, QG_TRAIN, 1, 9);
        qg_var *here = qg_parameter(f->t, f->w);
        assert_none(qg_add(f->t, here, age == 3 ? v : w), "add: its operand [1,1,1,4] is of an earlier step");
        qg_tape_begin(f->t, QG_TRAIN, 1, 9);
    }
    qg_var *w = qg_parameter(f->t, f->w);
    qg_tape_begin(f->t, QG_TRAIN, 1, 9);
    qg_var *y = qg_record(f->t, &sum_adds, SCALAR, qg_parameter(f->t, f->w), NULL, NULL);
    assert_false(qg_add_operand(y, 3, w));
    assert_message("sum: its operand [1,1,1,4] is of an earlier step");
}

/* Its value may have gone back to the heap: under a sanitizer, whoever reads it is caught. */
static void the_value_of_an_earlier_step_is_not_read(void **state)
{
    enum { STEPS = 8, PER_STEP = 400000 };
    static float x[STEPS * PER_STEP];
    qg_tape     *t = qg_tape_new();
    for (int step = 0; step < STEPS; step++) {         /* growing steps make chains of blocks, which are merged */
        const uint16_t label = 0;
        const int     n     = (step + 1) * PER_STEP;
        qg_tape_begin(t, QG_TRAIN, 1, 0);
        qg_var *v = qg_scale(t, qg_input(t, (qg_tensor){ { 1, 1, 1, n }, x }), 2);
        assert_non_null(v);
        qg_tape_begin(t, QG_TRAIN, 1, 0);
        assert_null(qg_relu(t, v));
        qg_tape_begin(t, QG_TRAIN, 1, 0);
        assert_null(qg_dense(t, v, v, NULL));
        qg_tape_begin(t, QG_TRAIN, 1, 0);
        assert_none(qg_cross_entropy(t, v, &label), "cross_entropy: its operand [1,1,1,");
    }
    qg_tape_free(t);
}

static void backward_checks_its_loss(void **state)
{
    fixture *f = *state;
    qg_fail(QG_EMEM, "out of memory: a tape");
    assert_failed(qg_backward(NULL, NULL), QG_ESTATE, "tape: it is NULL; the last failure was: out of memory: a tape");
    assert_failed(qg_backward(f->t, NULL), QG_ESTATE, "the loss is NULL");
    assert_failed(qg_backward(f->t, qg_relu(f->t, qg_parameter(f->t, f->w))), QG_ESHAPE, "[1,1,1,4]");
    qg_var *loss = sum(f->t, &sum_adds, qg_parameter(f->t, f->w), NULL);
    loss->data[0] = NAN;
    assert_int_equal(qg_backward(f->t, loss), QG_ENAN);
    loss->data[0] = -INFINITY;
    assert_failed(qg_backward(f->t, loss), QG_ENAN, "inf");
    assert_grad(f, 0, 0, 0, 0);
    qg_tape_begin(f->t, QG_EVAL, 1, 0);
    loss = sum(f->t, &sum_adds, qg_parameter(f->t, f->w), NULL);
    assert_false(loss->needs_grad);
    assert_failed(qg_backward(f->t, loss), QG_ESTATE, "QG_EVAL");
}

static void a_loss_belongs_to_the_step(void **state)
{
    fixture *f    = *state;
    qg_tape *t    = qg_tape_new();
    qg_var  *loss = sum(f->t, &sum_adds, qg_parameter(f->t, f->w), NULL);
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    assert_failed(qg_backward(t, loss), QG_ESTATE, "backward: the loss is of another tape, or of an earlier step");
    qg_tape_begin(f->t, QG_TRAIN, 1, 1);
    assert_int_equal(qg_backward(f->t, loss), QG_ESTATE);
    assert_grad(f, 0, 0, 0, 0);
    qg_tape_free(t);
}

static void a_loss_may_be_a_parameter(void **state)
{
    qg_params p = { 0 };
    qg_param *w = declare(&p, "w", SCALAR);
    qg_tape  *t = qg_tape_new();
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    assert_null(qg_parameter(t, w));
    assert_failed(qg_tape_status(t), QG_ESTATE, "w: used before the parameters are allocated");
    assert_ok(qg_params_allocate(&p));
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    assert_ok(qg_backward(t, qg_parameter(t, w)));
    assert_true(w->grad[0] == 1);
    qg_tape_free(t);
    qg_params_release(&p);
}

/* The copy of a weight, and a product before a batch norm, whose memory backward has taken for gradients. */
static void a_value_that_backward_took_is_not_read(void **state)
{
    qg_params p     = { 0 };
    qg_param *w     = declare(&p, "w", (qg_shape){ 4, 1, 1, 64 });
    float     x[64] = { 1 }, mean[4] = { 0 }, var[4] = { 1, 1, 1, 1 };
    qg_tape  *t     = qg_tape_new();
    int       runs  = 0;
    assert_ok(qg_params_allocate(&p));
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *q = sign(t, qg_parameter(t, w), &runs);
    qg_var *y = qg_dense(t, qg_input(t, (qg_tensor){ { 1, 1, 1, 64 }, x }), q, NULL);
    assert_ok(qg_backward(t, sum(t, &sum_adds, y, NULL)));
    assert_null(q->data);
    assert_null(qg_scale(t, q, 2));
    assert_failed(qg_tape_status(t), QG_ESTATE, "scale: its operand [4,1,1,64] has lost its value to backward");
    qg_tape_begin(t, QG_TRAIN, 1, 1);
    y = qg_dense(t, qg_input(t, (qg_tensor){ { 1, 1, 1, 64 }, x }), qg_parameter(t, w), NULL);
    qg_var *z = qg_norm(t, y, NULL, NULL, (qg_norm_spec){ .mean = mean, .var = var, .frozen = true });
    assert_ok(qg_backward(t, sum(t, &sum_adds, z, NULL)));
    assert_null(y->data);
    assert_non_null(z->data);
    assert_none(qg_scale(t, y, 2), "scale: its operand [1,1,1,4] has lost its value to backward");
    qg_tape_free(t);
    qg_params_release(&p);
}

static void an_empty_input_is_refused(void **state)
{
    fixture *f = *state;
    assert_null(qg_input(f->t, (qg_tensor){ { 2, 0, 3, 1 }, f->w->value }));
    assert_failed(qg_backward(f->t, NULL), QG_ESHAPE, "input: [2,0,3,1]");
    qg_tape_begin(f->t, QG_TRAIN, 1, 1);
    qg_fail(QG_EIO, "no images");
    assert_null(qg_input(f->t, (qg_tensor){ { 2, 1, 3, 1 }, NULL }));
    assert_failed(qg_backward(f->t, NULL), QG_EARG, "input: it is NULL; the last failure was: no images");
}

/* --- keys, profile ------------------------------------------------------------------------ */

static void keys_depend_on_key_step_and_position(void **state)
{
    fixture *f = *state;
    uint64_t seen[8];
    for (uint64_t i = 0; i < 8; i++) {
        qg_tape_begin(f->t, QG_TRAIN, i & 1, i >> 1 & 1);
        if (i & 4) qg_tape_key(f->t);
        seen[i] = qg_tape_key(f->t);
        for (uint64_t k = 0; k < i; k++) assert_true(seen[k] != seen[i]);
    }
    qg_tape_begin(f->t, QG_EVAL, 1, 1);
    assert_true(qg_tape_key(f->t) == seen[3]);
}

/* The first walk may have laid gradients over values that the second would read. */
static void operands_of_another_tape_are_refused(void **state)
{
    fixture *f     = *state;
    qg_tape *other = qg_tape_new();
    float    x[4]  = { 1, 2, 3, 4 };
    qg_tape_begin(other, QG_TRAIN, 1, 0);
    qg_var *w = qg_parameter(f->t, f->w);
    assert_null(qg_relu(other, w));
    assert_failed(qg_tape_status(other), QG_ESTATE, "relu: its operand [1,1,1,4] is of another tape");
    qg_tape_begin(other, QG_TRAIN, 1, 1);
    qg_var *here = qg_input(other, (qg_tensor){ { 1, 1, 1, 4 }, x });
    assert_none(qg_add(other, here, w), "add: its operand [1,1,1,4] is of another tape");
    qg_tape_begin(other, QG_TRAIN, 1, 2);
    here       = qg_input(other, (qg_tensor){ { 1, 1, 1, 4 }, x });
    qg_var *y  = qg_record(other, &sum_adds, SCALAR, here, NULL, NULL);
    y->data[0] = 0;
    assert_false(qg_add_operand(y, 3, w));
    assert_int_equal(qg_tape_status(other), QG_ESTATE);
    assert_int_equal(w->readers, 0);
    assert_failed(qg_backward(other, y), QG_ESTATE, "sum: its operand [1,1,1,4] is of another tape");
    assert_ok(qg_tape_status(f->t));
    qg_tape_free(other);
}

static void a_tape_is_walked_once(void **state)
{
    fixture *f    = *state;
    qg_var  *loss = sum(f->t, &sum_adds, qg_parameter(f->t, f->w), NULL);
    assert_ok(qg_backward(f->t, loss));
    assert_failed(qg_backward(f->t, loss), QG_ESTATE, "qg_backward was already called in this step");
    loss->data = NULL;                          /* as of a value that gave way to a gradient */
    assert_int_equal(qg_backward(f->t, loss), QG_ESTATE);
    assert_grad(f, 1, 1, 1, 1);
    qg_tape_begin(f->t, QG_TRAIN, 1, 1);
    loss = sum(f->t, &sum_adds, qg_parameter(f->t, f->w), NULL);
    assert_ok(qg_backward(f->t, loss));
    assert_grad(f, 2, 2, 2, 2);
}

static void a_view_is_its_operand_with_a_backward_of_its_own(void **state)
{
    fixture *f = *state;
    qg_var  *x = qg_scale(f->t, qg_parameter(f->t, f->w), 3);
    qg_var  *y = qg__record_view(f->t, &half_op, x);
    assert_ptr_equal(y->data, x->data);
    assert_true(y->needs_grad && qg_shape_equal(y->shape, x->shape));
    assert_ok(qg_backward(f->t, sum(f->t, &sum_assigns, qg_add(f->t, y, x), NULL)));
    assert_grad(f, 4.5f, 4.5f, 4.5f, 4.5f);     /* 3 (1/2 + 1) */
    assert_null(qg__record_view(f->t, &half_op, NULL));
    assert_ok(qg_tape_status(f->t));
}

/* loss = sum of relu(norm(conv(x, sign(w)))) dy, whose values and gradients give memory to each other. */
typedef struct watched {
    qg_var *w, *q, *z, *y, *r, *loss;
} watched;

enum { IMAGES = 3, EDGE = 4, DEEP = 5 };

static watched watch(qg_tape *t, const qg_params *p, float *x, float *dy, int *runs)
{
    static float mean[DEEP], var[DEEP];
    watched      a = { .w = qg_parameter(t, p->item[0]) };
    a.q            = sign(t, a.w, runs);
    a.z            = qg_conv2d(t, qg_input(t, (qg_tensor){ { IMAGES, EDGE, EDGE, 2 }, x }), a.q, NULL, (qg_conv_spec){ 0 });
    a.y            = qg_norm(t, a.z, qg_parameter(t, p->item[1]), qg_parameter(t, p->item[2]),
                             (qg_norm_spec){ .mean = mean, .var = var });
    a.r            = qg_relu(t, a.y);
    a.loss         = qg_sum(t, qg_mul(t, a.r, qg_input(t, (qg_tensor){ { IMAGES, EDGE - 1, EDGE - 1, DEEP }, dy })), QG_AXES);
    assert_ok(qg_backward(t, a.loss));
    return a;
}

static void values_and_gradients_can_be_kept(void **state)
{
    (void)state;
    enum { OUT = IMAGES * (EDGE - 1) * (EDGE - 1) * DEEP };
    static float x[IMAGES * EDGE * EDGE * 2], dy[OUT], grad[2][128];
    qg_params    p = { 0 };
    qg_tape     *t = qg_tape_new();
    int          runs = 0;
    declare(&p, "w", (qg_shape){ DEEP, 2, 2, 2 });
    declare(&p, "gamma", (qg_shape){ 1, 1, 1, DEEP });
    declare(&p, "beta", (qg_shape){ 1, 1, 1, DEEP });
    assert_ok(qg_params_allocate(&p));
    assert_true(p.length <= 128);
    fill_uniform(p.value, p.length, 0.5f, 1.5f, 1);
    fill_uniform(x, sizeof x / sizeof *x, -1, 1, 2);
    fill_uniform(dy, OUT, -1, 1, 3);
    watched a = { 0 };
    for (int kept = 0; kept < 2; kept++) {
        qg_tape_retain(t, kept);
        qg_tape_begin(t, QG_TRAIN, 1, 0);
        a = watch(t, &p, x, dy, &runs);
        assert_int_equal(a.r->grad != NULL, kept);
        assert_int_equal(a.z->data != NULL, kept);
        assert_int_equal(a.q->data != NULL, kept);
        memcpy(grad[kept], p.grad, p.length * sizeof(float));
        qg_params_clear_gradients(&p);
    }
    assert_memory_equal(grad[0], grad[1], p.length * sizeof(float));
    assert_true(a.loss->grad[0] == 1.0f && a.q->grad == a.w->grad && runs == 0);
    assert_ptr_not_equal(a.z->grad, a.z->data);
    for (size_t i = 0; i < OUT; i++) {
        assert_true(a.r->grad[i] == dy[i]);
        assert_true(a.r->data[i] == (a.y->data[i] > 0 ? a.y->data[i] : 0));
        assert_true(a.y->grad[i] == (a.y->data[i] > 0 ? dy[i] : 0));
    }
    qg_tape_retain(t, false);                   /* from the next step on */
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    a = watch(t, &p, x, dy, &runs);
    assert_null(a.r->grad);
    qg_tape_free(t);
    qg_params_release(&p);
}

static void a_profile_counts_calls(void **state)
{
    fixture   *f = *state;
    qg_profile p = { 0 };
    qg_tape_profile(f->t, &p);
    qg_tape_begin(f->t, QG_TRAIN, 1, 0);
    qg_var *w = qg_parameter(f->t, f->w);
    qg_var *v = qg_add(f->t, qg_relu(f->t, w), qg_relu(f->t, w));
    v->flops  = 8;
    assert_ok(qg_backward(f->t, sum(f->t, &sum_adds, v, NULL)));
    qg_tape_profile(f->t, NULL);
    int found = 0;
    for (int i = 0; i < p.rows; i++) {
        if (!strcmp(p.row[i].op, "relu")) assert_int_equal(p.row[i].calls, 2), found++;
        if (!strcmp(p.row[i].op, "sum")) assert_int_equal(p.row[i].calls, 1), found++;
        if (strcmp(p.row[i].op, "add")) continue;
        assert_true(p.row[i].forward_flops == 8 && p.row[i].backward_flops == 16);
        assert_true(p.row[i].forward >= 0 && p.row[i].backward >= 0);
        found++;
    }
    assert_int_equal(found, 3);
}

/* Further ops are not counted, and nothing is written behind the last row. */
static void a_profile_has_room_for_so_many_ops(void **state)
{
    enum { MANY = QG_PROFILE_ROWS + 6 };
    static char  names[MANY][16];
    static qg_op op[MANY];
    fixture     *f = *state;
    struct { qg_profile p; unsigned char guard[64]; } room = { .guard = { 0 } };
    qg_tape_profile(f->t, &room.p);
    qg_tape_begin(f->t, QG_EVAL, 1, 0);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "op%d", i);
        op[i] = (qg_op){ .name = names[i] };
        assert_non_null(qg_record(f->t, &op[i], SCALAR, NULL, NULL, NULL));
    }
    qg_tape_profile(f->t, NULL);
    assert_int_equal(room.p.rows, QG_PROFILE_ROWS);
    for (int i = 0; i < 64; i++) assert_int_equal(room.guard[i], 0);
}

static void another_mode_fails_the_step(void **state)
{
    static const int modes[] = { -1, 3, 77 };
    fixture         *f = *state;
    float            x = 1;
    char             part[64];
    for (int i = 0; i < 3; i++) {
        qg_tape_begin(f->t, (qg_mode)modes[i], 1, 0);
        assert_null(qg_relu(f->t, qg_input(f->t, (qg_tensor){ SCALAR, &x })));
        snprintf(part, sizeof part, "tape: %d is not a mode", modes[i]);
        assert_failed(qg_tape_status(f->t), QG_EARG, part);
    }
    qg_tape_begin(f->t, QG_TRAIN, 1, 0);
    assert_ok(qg_tape_status(f->t));
}

/* fesetround, and a library that was linked with -ffast-math. */
static void another_rounding_fails_the_step(void **state)
{
    fixture  *f = *state;
    qg_status status[FLOAT_MODES];
    for (int i = 0; i < FLOAT_MODES; i++) {
        set_float_mode(i);
        qg_tape_begin(f->t, i % 2 ? QG_TRAIN : QG_EVAL, 1, 0);
        set_float_mode(-1);
        status[i] = qg_tape_status(f->t);
        assert_message("does not round floats to nearest, or flushes denormals to zero");
        qg_tape_begin(f->t, QG_TRAIN, 1, 0);
        assert_ok(qg_tape_status(f->t));
        assert_int_equal(status[i], QG_ESTATE);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_var_used_twice_gets_both_gradients),
        CASE(contributions_are_added_from_the_last_reader),
        CASE(gradients_accumulate_until_somebody_clears_them),
        CASE(assigning_ops_are_told_when_to_assign),
        CASE(a_straight_through_op_shares_its_parameters_gradient),
        CASE(a_straight_through_op_runs_where_it_cannot_share),
        CASE(a_loss_may_itself_be_straight_through),
        CASE(frozen_parameters_and_inputs_need_no_gradient),
        CASE(vars_live_until_the_next_begin_and_memory_is_reused),
        CASE(the_peak_is_of_one_moment),
        CASE(gradient_buffers_are_used_again),
        CASE(the_copy_of_a_weight_makes_room_for_gradients),
        CASE(the_first_failure_sticks),
        CASE(null_in_null_out_without_a_failure),
        CASE(a_parameter_that_is_none_is_named),
        CASE(vars_of_an_earlier_step_are_refused),
        CASE(the_value_of_an_earlier_step_is_not_read),
        CASE(backward_checks_its_loss),
        CASE(a_loss_belongs_to_the_step),
        CASE(a_loss_may_be_a_parameter),
        CASE(a_value_that_backward_took_is_not_read),
        CASE(an_empty_input_is_refused),
        CASE(keys_depend_on_key_step_and_position),
        CASE(a_view_is_its_operand_with_a_backward_of_its_own),
        CASE(operands_of_another_tape_are_refused),
        CASE(a_tape_is_walked_once),
        CASE(values_and_gradients_can_be_kept),
        CASE(a_profile_counts_calls),
        CASE(a_profile_has_room_for_so_many_ops),
        CASE(another_mode_fails_the_step),
        CASE(another_rounding_fails_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
