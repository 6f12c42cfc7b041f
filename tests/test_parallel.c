#include "tests/support/testing.h"

#include <stdlib.h>
#include <string.h>

#include "core/block.h"
#include "core/ops.h"
#include "core/parallel.h"

enum { PIECES = 65 };

typedef struct visits {
    int count[PIECES], worker[PIECES];
} visits;

static void visit(void *context, int piece, int worker)
{
    visits *v = context;
    v->count[piece]++;
    v->worker[piece] = worker;
}

static void every_piece_runs_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        for (int pieces = 0; pieces <= PIECES; pieces = 2 * pieces + 1) {
            visits v = { { 0 }, { 0 } };
            qg_set_threads(threads);
            qg_parallel(pieces, visit, &v);
            for (int i = 0; i < PIECES; i++) {
                assert_int_equal(v.count[i], i < pieces);
                assert_in_range(v.worker[i], 0, qg_threads() - 1);
            }
        }
    }
    qg_set_threads(0);
    assert_true(qg_threads() >= 1);
}

static void slices_and_blocks_cover_without_overlap(void **state)
{
    (void)state;
    const int sizes[] = { 0, 1, 3, 7, 8, 9, 31, 33, 63, 65, 16383, 16384, 16385, 50000 };
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const int n = sizes[k];
        assert_int_equal(qg_slice(n, 0), 0);
        assert_int_equal(qg_slice(n, QG_SLICES), n);
        for (int s = 0; s < QG_SLICES; s++) {
            const int items = qg_slice(n, s + 1) - qg_slice(n, s);
            assert_in_range(items, n / QG_SLICES, n / QG_SLICES + 1);
        }
        const int blocks = qg_blocks((size_t)n);
        assert_int_equal(qg_block((size_t)n, blocks), n);
        for (int b = 0; b < blocks; b++) {
            assert_int_equal(qg_block((size_t)n, b), (size_t)b * QG_BLOCK);
            assert_true(qg_block((size_t)n, b + 1) > qg_block((size_t)n, b));
        }
    }
}

static void slices_are_added_in_order(void **state)
{
    (void)state;
    /* 1e8 swallows a 1 that is added to it: from the end, or in pairs, the sum is 0. */
    const float parts[QG_SLICES][2] = { { 1e8f, 5 }, { 1, 5 }, { -1e8f, 5 }, { 1, 5 }, { 0, 5 } };
    float       sum[2]              = { 0, 1 };
    qg_add_slices(parts[0], 2, 2, sum);
    assert_true(sum[0] == 1.0f);
    assert_true(sum[1] == 26.0f);
}

/* One step through every op that runs in parallel, large enough for several blocks each. */
static void step(float *out, size_t *n_out)
{
    enum { N = 5, H = 33, W = 31, C = 7 };
    qg_params p = { 0 };
    qg_param *x = declare(&p, "x", (qg_shape){ N, H, W, C });
    qg_param *b = declare(&p, "b", (qg_shape){ 1, 1, 1, C });
    allocate_apart(&p, 11);
    qg_tape      *t        = qg_tape_new();
    const uint8_t labels[] = { 0, 1, 2, 3, 6 };
    qg_tape_begin(t, QG_TRAIN, 3, 4);
    qg_var *v = qg_bias(t, qg_parameter(t, x), qg_parameter(t, b));
    v         = qg_add(t, qg_relu(t, v), qg_clip(t, qg_scale(t, v, 1.5f), -0.5f, 0.75f));
    v         = qg_dropout(t, qg_hardtanh(t, v), 0.25f);
    v         = qg_avgpool(t, qg_maxpool(t, v, 2), 3);
    v         = qg_cross_entropy(t, qg_global_avgpool(t, v), labels);
    assert_int_equal(qg_backward(t, v), QG_OK);
    memcpy(out, p.grad, p.length * sizeof *out);
    out[p.length] = v->data[0];
    *n_out        = p.length + 1;
    qg_tape_free(t);
    qg_params_release(&p);
}

static void ops_give_the_same_bits_for_any_thread_count(void **state)
{
    (void)state;
    float *one = malloc(2 * 40000 * sizeof *one), *many = one + 40000;
    size_t n, m;
    assert_non_null(one);
    qg_set_threads(1);
    step(one, &n);
    assert_true(n < 40000);
    for (int threads = 2; threads <= 3; threads++) {
        qg_set_threads(threads);
        step(many, &m);
        assert_int_equal(n, m);
        assert_memory_equal(one, many, n * sizeof *one);
    }
    qg_set_threads(0);
    free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_runs_once),
        cmocka_unit_test(slices_and_blocks_cover_without_overlap),
        cmocka_unit_test(slices_are_added_in_order),
        cmocka_unit_test(ops_give_the_same_bits_for_any_thread_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
