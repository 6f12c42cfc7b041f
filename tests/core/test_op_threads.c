/* Ops have the same bits, forward and backward, for any number of threads. */
#include "tests/support/testing.h"

#include <stdlib.h>
#include <string.h>

#include "core/io/hash.h"
#include "core/kernels/parallel.h"
#include "core/ops/ops.h"
#include "tests/support/nets.h"

/* More than two blocks of 16,384, of which none ends with a row; more channels than one piece of a sum has. */
static const qg_shape shape = { 7, 11, 13, 67 };
enum { ALL = 7 * 11 * 13 * 67, CHANNELS = 67 };

/* Operands: x and z of this shape, u and v of as many rows, a b and c of one number per channel. */
typedef struct operands {
    qg_var *x, *z, *u, *v, *a, *b, *c;
} operands;

static uint16_t labels[ALL / CHANNELS];

static qg_var *sub(qg_tape *t, operands o)     { return qg_sub(t, o.x, o.z); }
static qg_var *mul(qg_tape *t, operands o)     { return qg_mul(t, o.x, o.z); }
static qg_var *square(qg_tape *t, operands o)  { return qg_mul(t, o.x, o.x); }
static qg_var *affine(qg_tape *t, operands o)  { return qg_affine(t, o.x, 2, -1); }
static qg_var *sigmoid(qg_tape *t, operands o) { return qg_sigmoid(t, o.x); }
static qg_var *tangens(qg_tape *t, operands o) { return qg_tanh(t, o.x); }
static qg_var *prelu(qg_tape *t, operands o)   { return qg_prelu(t, o.x, o.a); }
static qg_var *rprelu(qg_tape *t, operands o)  { return qg_rprelu(t, o.x, o.a, o.b, o.c); }
static qg_var *softmax(qg_tape *t, operands o) { return qg_softmax(t, o.x); }
static qg_var *concat(qg_tape *t, operands o)  { return qg_concat(t, 3, (qg_var *[]){ o.x, o.z, o.x }); }
static qg_var *spread(qg_tape *t, operands o)  { return qg_broadcast(t, o.a, shape); }
static qg_var *mse(qg_tape *t, operands o)     { return qg_mse(t, o.x, o.z); }
static qg_var *kl(qg_tape *t, operands o)      { return qg_kl(t, o.u, o.v, 3); }

static qg_var *slice(qg_tape *t, operands o)
{
    return qg_slice(t, o.x, (qg_shape){ 1, 2, 3, 5 }, (qg_shape){ 5, 8, 9, 61 });
}

static qg_var *prelu_shared(qg_tape *t, operands o)
{
    return qg_prelu(t, o.x, qg_slice(t, o.a, (qg_shape){ 0 }, (qg_shape){ .c = 1 }));
}

static qg_var *sums(qg_tape *t, operands o)
{
    qg_var *all = qg_sum(t, o.x, QG_AXES);
    for (unsigned axes = 1; axes < QG_AXES; axes++) {
        qg_var *y = axes % 2 ? qg_sum(t, o.x, axes) : qg_mean(t, o.x, axes);
        all       = qg_add(t, all, qg_sum(t, qg_mul(t, y, y), QG_AXES));
    }
    return all;
}

static qg_var *smoothed(qg_tape *t, operands o)
{
    return qg_cross_entropy_with(t, o.u, labels, (qg_cross_entropy_spec){ .smoothing = 0.1f });
}

static qg_var *pools(qg_tape *t, operands o)
{
    const qg_pool_spec window = { .size = 3, .stride = 2, .pad = 1 };
    qg_var *y = qg_add(t, qg_maxpool_with(t, o.x, window), qg_avgpool_with(t, o.z, window));
    return qg_add(t, qg_global_avgpool(t, y), qg_global_avgpool(t, qg_maxpool(t, o.z, 2)));
}

static const struct row {
    const char *name;
    qg_var   *(*op)(qg_tape *t, operands o);
} rows[] = {
    { "sub", sub },         { "mul", mul },         { "square", square },   { "affine", affine },
    { "sigmoid", sigmoid }, { "tanh", tangens },    { "prelu", prelu },     { "prelu, one slope", prelu_shared },
    { "rprelu", rprelu },   { "softmax", softmax }, { "concat", concat },   { "slice", slice },
    { "sums", sums },       { "broadcast", spread }, { "mse", mse },        { "kl", kl },
    { "smoothed", smoothed }, { "pools", pools },
};

/* A hash of the result and of all gradients. */
static uint64_t bits_of(const struct row *r, qg_params *p, const float *slope)
{
    qg_tape *t = qg_tape_new();
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *v[7];
    for (int i = 0; i < COUNT(v); i++) v[i] = qg_parameter(t, p->item[i]);
    const operands o = { v[0], v[1], v[2], v[3], v[4], v[5], v[6] };
    qg_var *y = r->op(t, o);
    if (!y) fail_msg("%s: %s", r->name, qg_errmsg());
    uint64_t hash = qg_hash(QG_HASH_BASIS, y->data, qg_count(y->shape) * sizeof *y->data);
    assert_ok(qg_backward(t, weighed(t, y, slope)));
    for (int i = 0; i < p->count; i++)
        hash = qg_hash(hash, p->item[i]->grad, qg_count(p->item[i]->shape) * sizeof(float));
    qg_params_clear_gradients(p);
    qg_tape_free(t);
    return hash;
}

static void threads_change_no_bit(void **state)
{
    const qg_shape channels = { 1, 1, 1, CHANNELS }, scores = { ALL / CHANNELS, 1, 1, CHANNELS };
    qg_params      p        = { 0 };
    float         *slope    = malloc(3 * ALL * sizeof *slope);
    assert_non_null(slope);
    declare(&p, "x", shape), declare(&p, "z", shape), declare(&p, "u", scores), declare(&p, "v", scores);
    declare(&p, "a", channels), declare(&p, "b", channels), declare(&p, "c", channels);
    allocate_apart(&p, 3);
    fill_uniform(slope, 3 * ALL, -1, 1, 5);
    for (int i = 0; i < COUNT(labels); i++) labels[i] = (uint8_t)(i * 31 % CHANNELS);
    uint64_t before = 0;
    for (int i = 0; i < COUNT(rows); i++) {
        qg_set_threads(1);
        const uint64_t one = bits_of(&rows[i], &p, slope);
        assert_true(one != before);
        for (int threads = 2; threads <= 4; threads++) {
            qg_set_threads(threads);
            if (bits_of(&rows[i], &p, slope) != one) fail_msg("%s: %d threads", rows[i].name, threads);
        }
        before = one;
    }
    qg_set_threads(0);
    qg_params_release(&p);
    free(slope);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(threads_change_no_bit) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
