/* qg_fake_quant_vars, and the operators on arrays whose bits it has. */
#include "tests/support/views.h"

#include <stdlib.h>

#include "core/kernels/parallel.h"
#include "optim/optim.h"
#include "quant/reference/fake_quant.h"
#include "tests/support/nets.h"
#include "tests/support/schemes.h"

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
static void run_op(qg_shape of_x, qg_shape range, const float *from_x, const float *weigh, unsigned wanted, results *r)
{
    const qg_shape shapes[] = { of_x, range, range };
    const char    *names[] = { "x", "min", "max" };
    const float   *from[] = { from_x, min, max };
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
    qg_var *loss  = weighed(t, y, weigh);
    loss->data[0] = 0;                  /* a NaN in x */
    assert_ok(qg_backward(t, loss));
    for (int i = 0; i < 3; i++)
        if (wanted >> i & 1) memcpy(grad[i], p.item[i]->grad, qg_count(shapes[i]) * sizeof(float));
    qg_tape_free(t);
    qg_params_release(&p);
}

/* Rows become columns. */
static void turn(size_t rows, size_t columns, const float *from, float *to)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < columns; k++) to[k * rows + i] = from[i * columns + k];
}

static void assert_same_or_nan(size_t n, const float *got, const float *want)
{
    for (size_t i = 0; i < n; i++) assert_true(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])));
}

/* With any number of threads, and whichever gradients are wanted: one range, one for each of the last axis, and one for each
 * of the first, for which the operator is given a transposed tensor. */
static void it_has_the_bits_of_the_operators(void **state)
{
    static results want, got;
    static float   turned[N], turned_dy[N], y[N], dx[N];
    const struct {
        qg_shape x, range;
        bool     first;
    } layouts[] = {
        { { 1, ROWS, 1, CHANNELS }, { 1, 1, 1, 1 }, false },
        { { 1, ROWS, 1, CHANNELS }, { 1, 1, 1, CHANNELS }, false },
        { { CHANNELS, ROWS, 1, 1 }, { CHANNELS, 1, 1, 1 }, true },
        { { CHANNELS, 1, 1, ROWS }, { CHANNELS, 1, 1, 1 }, true },
    };
    fill();
    turn(ROWS, CHANNELS, x, turned);
    turn(ROWS, CHANNELS, dy, turned_dy);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const size_t ranges = qg_count(layouts[i].range);
        qg_set_threads(1);
        run_operator(ranges, &want);
        for (int threads = 1; threads <= 3; threads++) {
            qg_set_threads(threads);
            for (unsigned wanted = 1; wanted < 8; wanted++) {
                const bool first = layouts[i].first;
                memset(&got, 0, sizeof got);
                run_op(layouts[i].x, layouts[i].range, first ? turned : x, first ? turned_dy : dy, wanted, &got);
                if (first) turn(CHANNELS, ROWS, got.y, y), turn(CHANNELS, ROWS, got.dx, dx);
                assert_same_or_nan(N, first ? y : got.y, want.y);
                if (wanted & 1) assert_same(N, first ? dx : got.dx, want.dx);
                if (wanted & 2) assert_same(ranges, got.dmin, want.dmin);
                if (wanted & 4) assert_same(ranges, got.dmax, want.dmax);
            }
        }
        qg_set_threads(0);
    }
}

/* Where both axes have as many entries, the shape of min and max says which one is meant. */
static void the_shape_of_a_range_names_its_axis(void **state)
{
    const qg_shape square = { 3, 1, 1, 3 }, axis[] = { { 1, 1, 1, 3 }, { 3, 1, 1, 1 } };
    float          low[3] = { 0 }, high[] = { 1, 2, 3 }, ones[9];
    for (int i = 0; i < 9; i++) ones[i] = 5;
    qg_tape *t = qg_tape_new();
    for (int first = 0; first < 2; first++) {
        qg_tape_begin(t, QG_EVAL, 1, 0);
        qg_var *v = qg_input(t, (qg_tensor){ square, ones });
        qg_var *lo = qg_input(t, (qg_tensor){ axis[first], low }), *hi = qg_input(t, (qg_tensor){ axis[first], high });
        qg_var *y = qg_fake_quant_vars(t, v, lo, hi, five_bits);
        assert_non_null(y);
        for (int i = 0; i < 9; i++) assert_true(y->data[i] == high[first ? i / 3 : i % 3]);
    }
    qg_tape_free(t);
}

/* --- gradient=sum trains as the op ------------------------------------------------------------ */

enum { STEPS = 61 };

/* The rest of the parameters of the scheme: whether a range was seen, and its span. */
static void declare_trained(qg_params *p, qg_shape of_x, qg_shape range)
{
    static const char *const names[] = { "x", "min", "max", "seen", "span" };
    const qg_shape           one     = { 1, 1, 1, 1 };
    for (int i = 0; i < 5; i++)
        assert_non_null(qg_params_declare(p, (qg_param){ .name = names[i], .shape = i == 0 ? of_x : i == 3 ? one : range,
                                                         .group = i < 1 ? QG_WEIGHTS : i < 3 ? QG_SCALES : QG_TRACKED }));
    assert_ok(qg_params_allocate(p));
    fill_uniform(p->item[0]->value, qg_count(of_x), -1.5f, 1.5f, 1);
    for (size_t i = 0; i < qg_count(range); i++) {
        p->item[1]->value[i] = -0.5f - 0.01f * (float)i;
        p->item[2]->value[i] = 0.75f + 0.01f * (float)i;
    }
    p->item[3]->value[0] = 1;
}

/* q NULL: the op, with ranges of this shape. */
static void train(const qg_quant *q, qg_shape of_x, qg_shape range, float *result)
{
    const size_t n     = qg_count(of_x), ranges = qg_count(range);
    float       *weigh = malloc(n * sizeof *weigh);
    qg_params    p     = { 0 };
    qg_tape     *t     = qg_tape_new();
    declare_trained(&p, of_x, range);
    qg_optim *o = qg_sgd(&p, (qg_sgd_spec){ .lr = 0.0002f, .momentum = 0.9f });
    for (uint64_t step = 0; step < STEPS; step++) {
        qg_var *v[5];
        fill_uniform(weigh, n, -1, 1, 10 + step);       /* whose sums are exact in double, in any order */
        qg_tape_begin(t, QG_TRAIN, 1, step);
        for (int i = 0; i < 5; i++) v[i] = qg_parameter(t, p.item[i]);
        qg_var *y = q ? qg_quantize(t, *q, v[0], v + 1)
                      : qg_fake_quant_vars(t, v[0], v[1], v[2], (qg_fake_quant_attrs){ 4, false });
        assert_ok(qg_backward(t, weighed(t, y, weigh)));
        assert_ok(qg_optim_step(o));
    }
    memcpy(result, p.item[0]->value, n * sizeof *result);
    for (int i = 0; i < 2; i++) memcpy(result + n + (size_t)i * ranges, p.item[1 + i]->value, ranges * sizeof *result);
    qg_optim_free(o);
    qg_tape_free(t);
    qg_params_release(&p);
    free(weigh);
}

static void the_scheme_with_plain_sums_trains_as_the_op(void **state)
{
    enum { ALL = 8 * 27 + 16 };
    const struct {
        qg_role  role;
        qg_shape x, range, learned;     /* of the op and of the scheme */
    } rows[] = {
        { QG_WEIGHT, { 8, 3, 3, 3 }, { 1, 1, 1, 1 }, { 1, 1, 1, 1 } },
        { QG_WEIGHT, { 8, 3, 3, 3 }, { 8, 1, 1, 1 }, { 1, 1, 1, 8 } },
        { QG_INPUT, { 8, 3, 3, 3 }, { 1, 1, 1, 1 }, { 1, 1, 1, 1 } },
        { QG_INPUT, { 8, 3, 3, 3 }, { 1, 1, 1, 3 }, { 1, 1, 1, 3 } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const bool   each = qg_count(rows[i].range) > 1;
        float        want[ALL] = { 0 }, got[ALL] = { 0 }, scaled[ALL] = { 0 };
        qg_quant     q = qg_fake_quant((qg_fake_quant_spec){ .bits = 4, .per_channel = each, .sum_gradient = true });
        qg_quant     s = qg_fake_quant((qg_fake_quant_spec){ .bits = 4, .per_channel = each });
        q.role = s.role = rows[i].role;
        train(NULL, rows[i].x, rows[i].range, want);
        train(&q, rows[i].x, rows[i].learned, got);
        train(&s, rows[i].x, rows[i].learned, scaled);
        assert_same(ALL, got, want);
        assert_true(memcmp(scaled, want, sizeof want));
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
    const qg_shape none = { 1, 1, 1, 1 }, three = { 1, 1, 1, 3 }, two = { 1, 1, 1, 2 }, first = { 3, 1, 1, 1 };
    float low[] = { -1, -1, 1 }, high[] = { 1, 1, 1 };
    const struct {
        qg_shape            min, max;
        qg_fake_quant_attrs spec;
        float               at;         /* the first min */
        qg_status           status;
        const char         *part;
    } rows[] = {
        { two, two, { 8, false }, -1, QG_ESHAPE, "fake_quant_vars: min is [1,1,1,2] and max [1,1,1,2], for x [1,2,1,3] both must be" },
        { first, three, { 8, false }, -1, QG_ESHAPE, "for x [1,2,1,3] both must be [1,1,1,1] or [1,1,1,3]" },
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
    qg_var *w = qg_input(t, (qg_tensor){ { 2, 1, 1, 3 }, values }), *ends_of_two = qg_input(t, (qg_tensor){ two, low });
    assert_null(qg_fake_quant_vars(t, w, ends_of_two, ends_of_two, five_bits));
    assert_failed(qg_tape_status(t), QG_ESHAPE, "for x [2,1,1,3] both must be [1,1,1,1], [1,1,1,3] or [2,1,1,1]");
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
        cmocka_unit_test(the_shape_of_a_range_names_its_axis),
        cmocka_unit_test(the_scheme_with_plain_sums_trains_as_the_op),
        cmocka_unit_test(one_range_divides),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
