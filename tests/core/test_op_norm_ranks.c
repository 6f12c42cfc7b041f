/* Batch norms with statistics of each rank's own images. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/io/hash.h"
#include "core/kernels/parallel.h"
#include "core/ops/ops.h"
#include "core/dist/ranks.h"
#include "core/slices.h"
#include "tests/support/ranks.h"

enum { N = 21, SIDE = 3, IN = 3, C = 5 };       /* ranks have different numbers of images */

/* y = k x, and learns k. */
static void slope_forward(const qg_activation *f, size_t n, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = f->k[0] * x[i];
}

static void slope_backward(const qg_activation *f, size_t n, const float *x, const float *dy, float *dx, double *dk)
{
    for (size_t i = 0; i < n; i++) {
        dk[0] += (double)dy[i] * (double)x[i];
        dx[i] = f->k[0] * dy[i];
    }
}

typedef struct model {
    qg_params params;
    qg_param *w, *gamma, *beta, *slope, *mean, *var;
    int       side;             /* 1: the images are vectors */
    bool      frozen;
} model;

static model begin(int side, bool frozen)
{
    model m = { .side = side, .frozen = frozen };
    m.w     = declare(&m.params, "w", (qg_shape){ C, 1, 1, IN });
    m.gamma = declare(&m.params, "gamma", (qg_shape){ 1, 1, 1, C });
    m.beta  = declare(&m.params, "beta", (qg_shape){ 1, 1, 1, C });
    m.slope = declare(&m.params, "slope", (qg_shape){ 1, 1, 1, 1 });
    m.mean  = declare(&m.params, "mean", (qg_shape){ 1, 1, 1, C });
    m.var   = declare(&m.params, "var", (qg_shape){ 1, 1, 1, C });
    if (qg_params_allocate(&m.params)) abort();
    fill_uniform(m.params.value, m.params.length, 0.5f, 1.5f, 1);
    return m;
}

/* Of one rank, or of the part of the batch that one rank would have: `share` of the loss. */
static qg_var *loss_of(const model *m, qg_tape *t, qg_tensor x, float share)
{
    const qg_norm_spec spec = { .mean = m->mean->value, .var = m->var->value, .per_rank = true, .frozen = m->frozen };
    const qg_norm_fusion with = { .act = { .forward = slope_forward, .backward = slope_backward, .k = { m->slope->value[0] },
                                           .n_learned = 1, .learned = { qg_parameter(t, m->slope) } } };
    qg_var *z = qg_conv2d(t, qg_input(t, x), qg_parameter(t, m->w), NULL, (qg_conv_spec){ 0 });
    qg_var *y = qg_norm_fused(t, z, qg_parameter(t, m->gamma), qg_parameter(t, m->beta), spec, with);
    return qg_scale(t, qg_mean(t, qg_mul(t, y, qg_mul(t, y, y)), QG_AXES), share);
}

static void fail_rank(const char *why)
{
    fprintf(stderr, "rank %d of %d: %s\n", qg_rank(), qg_ranks(), why);
    _exit(1);
}

static void compare(const char *what, const float *here, const float *expected, size_t n)
{
    char text[128];
    for (size_t i = 0; i < n; i++) {
        /* Sums of up to 189 numbers of size 10, in another order. */
        if (fabsf(here[i] - expected[i]) <= 3e-5f * (1 + fabsf(expected[i]))) continue;
        snprintf(text, sizeof text, "%s %zu is %.8g instead of %.8g", what, i, (double)here[i], (double)expected[i]);
        fail_rank(text);
    }
}

/* What R processes without a connection would have, each for its part: gradients add up, and statistics are averaged. */
static void check(const model *m, float *x)
{
    const int    ranks = qg_ranks(), row = m->side * m->side * IN;
    model        alone = begin(m->side, m->frozen);
    float        mean[C] = { 0 }, var[C] = { 0 };
    qg_tape     *t = qg_tape_new();
    for (int r = 0; r < ranks; r++) {
        const int   first = qg_slice_at(N, r * (QG_SLICES / ranks)), n = qg_slice_at(N, (r + 1) * (QG_SLICES / ranks)) - first;
        const float share = (float)n / N;
        fill_uniform(alone.params.value, alone.params.length, 0.5f, 1.5f, 1);      /* statistics too begin anew */
        qg_tape_begin(t, QG_TRAIN, 1, 0);
        const qg_tensor part = { { n, m->side, m->side, IN }, x + (size_t)(first * row) };
        if (qg_backward(t, loss_of(&alone, t, part, share))) fail_rank(qg_errmsg());
        for (int k = 0; k < C; k++) mean[k] += share * alone.mean->value[k], var[k] += share * alone.var->value[k];
    }
    compare("gradient", m->params.grad, alone.params.grad, m->params.length);
    compare("mean", m->mean->value, mean, C);
    compare("variance", m->var->value, var, C);
    qg_tape_free(t);
    qg_params_release(&alone.params);
}

static uint64_t step(void *context)
{
    const model *given = context;
    static float x[N * SIDE * SIDE * IN];
    model        m = begin(given->side, given->frozen);
    int          first;
    const int    n = qg__images_here(N, &first), row = m.side * m.side * IN;
    qg_tape     *t = qg_tape_new();
    fill_uniform(x, (size_t)(N * row), -1, 2, 2);
    const qg_tensor here = { { n, m.side, m.side, IN }, x + (size_t)(first * row), N };
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    if (qg_backward(t, loss_of(&m, t, here, 1))) fail_rank(qg_errmsg());
    check(&m, x);
    const uint64_t digest = qg_hash(qg_hash(0, m.params.grad, m.params.length * sizeof(float)), m.params.value,
                                    m.params.length * sizeof(float));
    qg_tape_free(t);
    qg_params_release(&m.params);
    return digest;
}

static void each_rank_has_statistics_of_its_own(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= QG_MAX_RANKS; ranks *= 2)
        for (int k = 0; k < 4; k++) run_ranks(ranks, 1, step, &(model){ .side = k & 1 ? 1 : SIDE, .frozen = k & 2 });
    for (int k = 0; k < 2; k++) {
        model m = { .side = k ? 1 : SIDE };
        if (run_ranks(4, 1, step, &m) != run_ranks(4, 2, step, &m)) fail_msg("two threads give other bits than one");
    }
}

/* Nothing before the norm is trained, so that no backward pass reaches it. */
static uint64_t observe(void *context)
{
    (void)context;
    static float x[N * C];
    float        mean[C] = { 0 }, var[C] = { 0 }, all_mean[C] = { 0 }, all_var[C] = { 0 };
    int          first;
    const int    n = qg__images_here(N, &first), ranks = qg_ranks();
    qg_tape     *t = qg_tape_new();
    fill_uniform(x, N * C, -1, 2, 2);
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    const qg_norm_spec spec = { .mean = mean, .var = var, .momentum = 1, .per_rank = true };
    if (!qg_norm(t, qg_input(t, (qg_tensor){ { n, 1, 1, C }, x + (size_t)first * C, N }), NULL, NULL, spec)) fail_rank(qg_errmsg());
    for (int r = 0; r < ranks; r++) {
        const int from = qg_slice_at(N, r * (QG_SLICES / ranks)), to = qg_slice_at(N, (r + 1) * (QG_SLICES / ranks));
        for (int k = 0; k < C; k++) {
            double sum = 0, square = 0;
            for (int i = from; i < to; i++) sum += (double)x[i * C + k];
            for (int i = from; i < to; i++) square += pow((double)x[i * C + k] - sum / (to - from), 2);
            all_mean[k] += (float)(sum / N);
            all_var[k] += (float)(square / (to - from > 1 ? to - from - 1 : 1) * (to - from) / N);
        }
    }
    compare("mean", mean, all_mean, C);
    compare("variance", var, all_var, C);
    qg_tape_free(t);
    return qg_hash(qg_hash(0, mean, sizeof mean), var, sizeof var);
}

static void statistics_need_no_backward_pass(void **state)
{
    (void)state;
    run_ranks(2, 1, observe, NULL);
    run_ranks(8, 1, observe, NULL);
}

/* A forward pass in QG_ESTIMATE leaves the statistics of a training step, though parameters lie upstream. */
static uint64_t estimate(void *context)
{
    (void)context;
    static float x[N * IN];
    model        trained = begin(1, false), estimated = begin(1, false);
    int          first;
    const int    n = qg__images_here(N, &first);
    qg_tape     *t = qg_tape_new();
    fill_uniform(x, N * IN, -1, 2, 2);
    const qg_tensor here = { { n, 1, 1, IN }, x + (size_t)first * IN, N };
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    if (qg_backward(t, loss_of(&trained, t, here, 1))) fail_rank(qg_errmsg());
    qg_tape_begin(t, QG_ESTIMATE, 1, 0);
    if (!loss_of(&estimated, t, here, 1)) fail_rank(qg_errmsg());
    if (memcmp(trained.params.value, estimated.params.value, trained.params.length * sizeof(float))) fail_rank("other statistics");
    const uint64_t digest = qg_hash(0, estimated.params.value, estimated.params.length * sizeof(float));
    qg_tape_free(t);
    qg_params_release(&trained.params), qg_params_release(&estimated.params);
    return digest;
}

static void an_estimate_needs_no_backward_pass(void **state)
{
    (void)state;
    run_ranks(2, 1, estimate, NULL);
    run_ranks(8, 1, estimate, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_rank_has_statistics_of_its_own),
                                        cmocka_unit_test(statistics_need_no_backward_pass),
                                        cmocka_unit_test(an_estimate_needs_no_backward_pass) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
