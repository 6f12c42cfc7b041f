/* qg_fake_quant_vars, and the operators on arrays whose bits it has. */
#include "tests/support/views.h"

#include "core/kernels/parallel.h"
#include "quant/quant.h"
#include "tests/support/nets.h"

/* Two blocks of 16384 and a rest, so that several threads work; 67 channels are more than one chunk. */
enum { ROWS = 499, CHANNELS = 67, N = ROWS * CHANNELS };

static const qg_fake_quant_attrs five_bits = { 5, true };

typedef struct results {
    float y[N], dx[N], dmin[CHANNELS], dmax[CHANNELS];
} results;

static float x[N], dy[N], min[CHANNELS], max[CHANNELS];

static void fill(void)
{
    fill_uniform(x, N, -3, 3, 1);
    fill_uniform(dy, N, -1, 1, 2);
    x[5] = NAN, x[6] = INFINITY, x[7] = -INFINITY, x[8] = -0.0f;
    dy[5] = 1e30f;
    for (size_t i = 0; i < CHANNELS; i++) {
        min[i] = i % 7 == 3 ? 0.0f : -2.0f * qg_uniform(3, i);
        max[i] = i % 7 == 3 ? 0.0f : 0.1f + 2.0f * qg_uniform(4, i);
    }
}

static void run_operator(size_t ranges, results *r)
{
    const qg_array xs = matrix(x, ROWS, CHANNELS), gs = matrix(dy, ROWS, CHANNELS);
    qg_array       ys = matrix(r->y, ROWS, CHANNELS), ds = matrix(r->dx, ROWS, CHANNELS);
    if (ranges == 1) {
        assert_ok(qg_fake_quant_with_min_max_vars(five_bits, &xs, SCALAR(min), SCALAR(max), &ys));
        assert_ok(qg_fake_quant_with_min_max_vars_gradient(five_bits, &gs, &xs, SCALAR(min), SCALAR(max), &ds,
                                                           SCALAR(r->dmin), SCALAR(r->dmax)));
        return;
    }
    assert_ok(qg_fake_quant_with_min_max_vars_per_channel(five_bits, &xs, VECTOR(min, ranges), VECTOR(max, ranges), &ys));
    assert_ok(qg_fake_quant_with_min_max_vars_per_channel_gradient(five_bits, &gs, &xs, VECTOR(min, ranges),
                                                                   VECTOR(max, ranges), &ds, VECTOR(r->dmin, ranges),
                                                                   VECTOR(r->dmax, ranges)));
}

/* wanted: bits of the operands that have a gradient, x, min and max. */
static void run_op(int ranges, unsigned wanted, results *r)
{
    const qg_shape shapes[] = { { 1, ROWS, 1, CHANNELS }, { 1, 1, 1, ranges }, { 1, 1, 1, ranges } };
    const char    *names[] = { "x", "min", "max" };
    const float   *from[] = { x, min, max };
    float         *grad[] = { r->dx, r->dmin, r->dmax };
    qg_params      p = { 0 };
    qg_tape       *t = qg_tape_new();
    for (int i = 0; i < 3; i++)
        assert_non_null(qg_params_declare(&p, (qg_param){ .name = names[i], .shape = shapes[i], .frozen = !(wanted >> i & 1) }));
    assert_ok(qg_params_allocate(&p));
    for (int i = 0; i < 3; i++) memcpy(p.item[i]->value, from[i], qg_count(shapes[i]) * sizeof(float));
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *v[3];
    for (int i = 0; i < 3; i++) v[i] = qg_parameter(t, p.item[i]);
    qg_var *y = qg_fake_quant_vars(t, v[0], v[1], v[2], five_bits);
    assert_non_null(y);
    memcpy(r->y, y->data, sizeof r->y);
    qg_var *loss  = weighed(t, y, dy);
    loss->data[0] = 0;                  /* a NaN in x */
    assert_ok(qg_backward(t, loss));
    for (int i = 0; i < 3; i++)
        if (wanted >> i & 1) memcpy(grad[i], p.item[i]->grad, qg_count(shapes[i]) * sizeof(float));
    qg_tape_free(t);
    qg_params_release(&p);
}

/* With any number of threads, and whichever gradients are wanted. */
static void it_has_the_bits_of_the_operators(void **state)
{
    static results want, got;
    fill();
    for (int each = 0; each < 2; each++) {
        const int ranges = each ? CHANNELS : 1;
        qg_set_threads(1);
        run_operator((size_t)ranges, &want);
        for (int threads = 1; threads <= 3; threads++) {
            qg_set_threads(threads);
            for (unsigned wanted = 1; wanted < 8; wanted++) {
                memset(&got, 0, sizeof got);
                run_op(ranges, wanted, &got);
                for (size_t i = 0; i < N; i++) assert_true(got.y[i] == want.y[i] || (isnan(got.y[i]) && isnan(want.y[i])));
                if (wanted & 1) assert_same(N, got.dx, want.dx);
                if (wanted & 2) assert_same((size_t)ranges, got.dmin, want.dmin);
                if (wanted & 4) assert_same((size_t)ranges, got.dmax, want.dmax);
            }
        }
        qg_set_threads(0);
    }
}

/* The rule for one range, also where there is one channel. */
static void one_range_divides(void **state)
{
    float    one = 1, ends[] = { 2, 4 };
    qg_tape *t = qg_tape_new();
    qg_tape_begin(t, QG_EVAL, 1, 0);
    qg_var *v = qg_input(t, (qg_tensor){ { 1, 1, 1, 1 }, &one });
    qg_var *lo = qg_input(t, (qg_tensor){ { 1, 1, 1, 1 }, &ends[0] }), *hi = qg_input(t, (qg_tensor){ { 1, 1, 1, 1 }, &ends[1] });
    float   want;
    assert_ok(qg_fake_quant_with_min_max_vars((qg_fake_quant_attrs){ 8, false }, SCALAR(&one), SCALAR(&ends[0]), SCALAR(&ends[1]),
                                              SCALAR(&want)));
    assert_true(qg_fake_quant_vars(t, v, lo, hi, (qg_fake_quant_attrs){ 8, false })->data[0] == want);
    qg_tape_free(t);
}

static void what_does_not_fit_is_named(void **state)
{
    const qg_shape none = { 1, 1, 1, 1 }, three = { 1, 1, 1, 3 }, two = { 1, 1, 1, 2 };
    float low[] = { -1, -1, 1 }, high[] = { 1, 1, 1 };
    const struct {
        qg_shape            min, max;
        qg_fake_quant_attrs spec;
        float               at;         /* the first min */
        qg_status           status;
        const char         *part;
    } rows[] = {
        { two, two, { 8, false }, -1, QG_ESHAPE, "fake_quant_vars: min is [1,1,1,2] and max [1,1,1,2], for x [1,2,1,3] both must be" },
        { none, three, { 8, false }, -1, QG_ESHAPE, "min is [1,1,1,1] and max [1,1,1,3]" },
        { none, none, { 0, false }, -1, QG_EARG, "num_bits is 0, must be 2 .. 16" },
        { none, none, { 8, false }, 2, QG_EARG, "min is 2, must be smaller than max, 1" },
        { none, none, { 8, false }, NAN, QG_EARG, "must be finite" },
        { three, three, { 8, false }, -1, QG_EARG, "fake_quant_vars, channel 2: fake_quant: min and max are both 1" },
    };
    float    values[6] = { 0 }, ends[3];
    qg_tape *t = qg_tape_new();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memcpy(ends, low, sizeof ends);
        ends[0] = rows[i].at;
        qg_tape_begin(t, QG_TRAIN, 1, 0);
        qg_var *v = qg_input(t, (qg_tensor){ { 1, 2, 1, 3 }, values });
        qg_var *lo = qg_input(t, (qg_tensor){ rows[i].min, ends }), *hi = qg_input(t, (qg_tensor){ rows[i].max, high });
        assert_null(qg_fake_quant_vars(t, v, lo, hi, rows[i].spec));
        assert_failed(qg_tape_status(t), rows[i].status, rows[i].part);
    }
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *v = qg_input(t, (qg_tensor){ three, values });
    assert_null(qg_fake_quant_vars(t, NULL, v, v, five_bits));
    assert_null(qg_fake_quant_vars(t, v, NULL, v, five_bits));
    assert_null(qg_fake_quant_vars(t, v, v, NULL, five_bits));
    assert_ok(qg_tape_status(t));
    qg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_the_bits_of_the_operators),
        cmocka_unit_test(one_range_divides),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
