/* Weight gradients that are on their way between ranks while the backward pass goes on. */
#include "tests/support/testing.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/dist/exchange.h"
#include "core/io/hash.h"
#include "core/ops/ops.h"
#include "core/rng.h"
#include "core/slices.h"
#include "tests/support/ranks.h"

enum { N = 19, SIDE = 6, C = 4, CLASSES = 10 };     /* slices of one and of two images */

static const qg_conv_spec SAME = { .pad_h = 1, .pad_w = 1 };

/* --- a net whose weight is used in every way ------------------------------------------------ */

static void straight_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    for (size_t i = 0, n = qg_count(y->shape); i < n; i++) y->in[0]->grad[i] += y->grad[i];
}

static const qg_op straight_op = { "straight", straight_backward };

static qg_var *doubled(qg_tape *t, qg_var *x)
{
    qg_var *y = x ? qg_record(t, &straight_op, x->shape, x, NULL, NULL) : NULL;
    if (y) qg_share_gradient(y);
    for (size_t i = 0; y && i < qg_count(y->shape); i++) y->data[i] = 2 * x->data[i];
    return y;
}

typedef struct model {
    qg_params params;
    qg_param *w, *v, *fc, *step;
} model;

/* Gradients begin with what an earlier step left. */
static model begin(void)
{
    model m = { 0 };
    m.w     = declare(&m.params, "w", (qg_shape){ C, 3, 3, C });
    m.v     = declare(&m.params, "v", (qg_shape){ C, 3, 3, C });
    m.fc    = declare(&m.params, "fc", (qg_shape){ CLASSES, 1, 1, SIDE * SIDE * C });
    m.step  = declare(&m.params, "step", (qg_shape){ 1, 1, 1, 1 });
    assert_ok(qg_params_allocate(&m.params));
    fill_uniform(m.params.value, m.params.length, -0.5f, 0.5f, 1);
    fill_uniform(m.params.grad, m.params.length, -0.5f, 0.5f, 2);
    return m;
}

/* w is the weight of five convolutions: one var twice, another var of the same parameter, straight through, and scaled by what
 * is itself learned; the loss has terms of it, which are the first and the last ops.  v is the weight of one, scaled, and has a
 * term that waits for nothing but its turn. */
static qg_var *loss_of(const model *m, qg_tape *t, qg_tensor images, const uint16_t *labels)
{
    qg_var *w = qg_parameter(t, m->w), *again = qg_parameter(t, m->w), *step = qg_parameter(t, m->step);
    qg_var *v      = qg_parameter(t, m->v);
    qg_var *decay  = qg_mean(t, qg_add(t, qg_mul(t, w, w), qg_mul(t, v, v)), QG_AXES);
    qg_var *scaled = qg_mul(t, again, qg_broadcast(t, step, m->w->shape));
    qg_var *x      = qg_relu(t, qg_conv2d(t, qg_input(t, images), qg_scale(t, v, 0.7f), NULL, SAME));
    x = qg_relu(t, qg_conv2d(t, x, w, NULL, SAME));
    x = qg_relu(t, qg_conv2d(t, x, scaled, NULL, SAME));
    x = qg_add(t, x, qg_conv2d(t, x, again, NULL, SAME));
    x = qg_relu(t, qg_conv2d(t, x, doubled(t, w), NULL, SAME));
    x = qg_conv2d(t, x, w, NULL, SAME);
    qg_var *loss = qg_cross_entropy(t, qg_dense(t, x, qg_parameter(t, m->fc), NULL), labels);
    return qg_add(t, qg_add(t, loss, decay), qg_sum(t, qg_mul(t, again, scaled), QG_AXES));
}

/* This rank's part of the batch. */
static qg_tensor images_here(float *x, int *first)
{
    const int       n = qg__images_here(N, first);
    const qg_tensor here = { { n, SIDE, SIDE, C }, x, N };
    for (size_t i = 0, at = (size_t)*first * qg_row(here.shape); i < qg_count(here.shape); i++) x[i] = qg_uniform(3, at + i) - 0.5f;
    return here;
}

static qg_status run_step(const model *m, qg_tape *t, int step)
{
    static float x[N * SIDE * SIDE * C];
    uint16_t     labels[N];
    int          first;
    const qg_tensor here = images_here(x, &first);
    for (int i = 0; i < here.shape.n; i++) labels[i] = (uint16_t)((first + i) % CLASSES);
    qg_tape_begin(t, QG_TRAIN, 1, (uint64_t)step);
    return qg_backward(t, loss_of(m, t, here, labels));
}

static uint64_t train(void *context)
{
    (void)context;
    model    m = begin();
    qg_tape *t = qg_tape_new();
    for (int step = 0; step < 3; step++)
        if (run_step(&m, t, step)) {
            fprintf(stderr, "rank %d of %d: %s\n", qg_rank(), qg_ranks(), qg_errmsg());
            _exit(1);
        }
    const uint64_t digest = qg_hash(0, m.params.grad, m.params.length * sizeof(float));
    qg_tape_free(t);
    qg_params_release(&m.params);
    return digest;
}

static void gradients_are_added_in_the_order_of_one_rank(void **state)
{
    (void)state;
    const uint64_t one = run_ranks(1, 1, train, NULL);
    for (int ranks = 2; ranks <= QG_MAX_RANKS; ranks *= 2)
        if (run_ranks(ranks, ranks == 2 ? 2 : 1, train, NULL) != one) fail_msg("%d ranks have other gradients than one", ranks);
}

/* --- failures ------------------------------------------------------------------------------- */

/* A second rank that always has zeros, until it goes. */
typedef struct partner {
    int posts, posts_left;
    int asked, asks_left;
} partner;

static qg_status exchange(void *context, int other, const void *out, void *in, size_t bytes_out, size_t bytes_in)
{
    (void)context, (void)other, (void)out, (void)bytes_out;
    memset(in, 0, bytes_in);
    return QG_OK;
}

static qg_status post(void *context, qg__transfer *m, int other, const void *out, void *in, size_t bytes_out, size_t bytes_in)
{
    (void)out, (void)bytes_out;
    partner *p = context;
    memset(in, 0, bytes_in);
    m->n++;
    return p->posts++ < p->posts_left ? QG_OK : qg_fail(QG_ESTATE, "rank %d has gone", other);
}

static qg_status arrived(void *context, qg__transfer *m, bool wait, bool *all)
{
    partner *p = context;
    if (p->asked++ >= p->asks_left) return qg_fail(QG_ESTATE, "nothing arrives");
    *all = wait;
    if (wait) m->n = 0;
    return QG_OK;
}

/* The next step fails, too: what arrives in it may be of this one. */
static qg_status step_with(partner *p, const model *m, qg_tape *t)
{
    qg__ranks_join(0, 2, (qg__link){ exchange, post, arrived, p });
    const qg_status status = run_step(m, t, 0);
    if (status) {
        char why[64];
        snprintf(why, sizeof why, "%s", qg_errmsg());
        *p = (partner){ .posts_left = 1000, .asks_left = 1000 };
        assert_failed(run_step(m, t, 1), QG_ESTATE, "a step has failed on rank 0 while gradients were on their way, so it cannot go on");
        assert_int_equal(p->posts, 0);
        qg_fail(status, "%s", why);
    }
    qg__ranks_join(0, 1, (qg__link){ 0 });
    return status;
}

static void a_rank_that_goes_fails_the_step(void **state)
{
    (void)state;
    static qg_tape *t;      /* never freed, as the memory of its steps, which others might still write to */
    model   m     = begin();
    partner stays = { .posts_left = 1000, .asks_left = 1000 };
    t = qg_tape_new();
    assert_ok(step_with(&stays, &m, t));
    assert_true(stays.posts >= 13 && stays.asked > stays.posts);       /* six sums in two rounds, and a gather */
    for (int i = 0; i < stays.posts; i++)
        assert_failed(step_with(&(partner){ .posts_left = i, .asks_left = 1000 }, &m, t), QG_ESTATE, "rank 1 has gone");
    for (int i = 0; i < stays.asked; i++)
        assert_failed(step_with(&(partner){ .posts_left = 1000, .asks_left = i }, &m, t), QG_ESTATE, "nothing arrives");
    assert_ok(run_step(&m, t, 0));
    qg_params_release(&m.params);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(gradients_are_added_in_the_order_of_one_rank),
                                        cmocka_unit_test(a_rank_that_goes_fails_the_step) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
