/* stochastic: gradients on codes of at most 8 bits with one step for the batch. */
#include "tests/support/testing.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "quant/channel.h"
#include "quant/kernels.h"
#include "quant/reduce.h"
#include "quant/scheme.h"
#include "tests/support/environment.h"
#include "tests/support/schemes.h"

enum { MOST = 2 * QG_BLOCK + 741 };

static const qg_shape shapes[] = { { 1, 1, 1, 1 }, { 3, 1, 1, 1 },   { 1, 1, 1, 63 },
                                   { 3, 7, 5, 5 }, { 2, 9, 11, 33 }, { MOST / 5, 1, 1, 5 } };
enum { SHAPES = sizeof shapes / sizeof *shapes };

static float expected[MOST], sorted[MOST];

static qg_quant stochastic(int bits, bool no_noise, float percentile)
{
    return qg_stochastic_gradient((qg_stochastic_gradient_spec){ bits, no_noise, percentile });
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The nearest rank of |dy|. */
static float ranked(size_t n, const float *dy, double percentile)
{
    for (size_t i = 0; i < n; i++) sorted[i] = fabsf(dy[i]);
    qsort(sorted, n, sizeof *sorted, by_size);
    return sorted[(size_t)ceil(percentile / 100 * (double)n) - 1];
}

/* The result as a plain loop. */
static void round_all(size_t n, const float *dy, int bits, bool noisy, float range, uint64_t key)
{
    const float most = (float)((1 << (bits - 1)) - 1), step = range / most;
    for (size_t i = 0; i < n; i++) {
        float v = dy[i] / range * most;
        v       = v > most ? most : v < -most ? -most : v;
        const float below = floorf(v);
        const float code  = noisy ? below + (float)(qg_uniform_fast(key, i) < v - below) : rintf(v);
        expected[i]       = code * step;
    }
}

static void values_are_those_of_a_loop(void **state)
{
    for (int s = 0; s < SHAPES; s++)
        for (int bits = 2; bits <= 8; bits++)
            for (int k = 0; k < 4; k++) {
                const bool   noisy = k < 2;
                const float percentile = k % 2 ? 95 : 100;
                rig          c;
                fill_rig(&c, stochastic(bits, !noisy, percentile), shapes[s], 3);
                c.dy[0] = 0;
                learn_rig(&c, 5);
                assert_ptr_equal(c.y->data, c.x->value);        /* nothing is copied */
                const float range = ranked(c.n, c.dy, (double)percentile);
                qg_tape_begin(c.t, QG_TRAIN, RIG_KEY, 5);
                if (c.n > 1) round_all(c.n, c.dy, bits, noisy, range, qg_tape_key(c.t));
                else expected[0] = 0;
                assert_close(c.x->grad, expected, c.n, 0);
                close_rig(&c);
            }
}

/* Up with the probability of the fraction, so not where the draw is the fraction: a gradient of 0 stays 0. */
static void a_draw_equal_to_the_fraction_rounds_down(void **state)
{
    rig c;
    fill_rig(&c, stochastic(2, false, 100), (qg_shape){ 1, 1, 1, 4096 }, 3);
    qg_tape_begin(c.t, QG_TRAIN, RIG_KEY, 5);
    const uint64_t key = qg_tape_key(c.t);
    for (size_t i = 0; i < c.n; i++) c.dy[i] = qg_uniform_fast(key, i);
    c.dy[7] = 1;                            /* the range; 2 bits have one step to either side */
    learn_rig(&c, 5);
    for (size_t i = 0; i < c.n; i++) assert_true(c.x->grad[i] == (i == 7 ? 1 : 0));
    close_rig(&c);
}

/* As bytes, of all the codes there are.  The scale of zeros is 0, that of a NaN is NaN. */
static void codes_times_a_scale_are_the_values(void **state)
{
    for (int bits = 2; bits <= 8; bits++) {
        rig            c;
        const int      most = (1 << (bits - 1)) - 1;
        const qg_shape shape = shapes[5];
        const size_t   row = qg_row(shape);
        uint8_t        code[MOST];
        fill_rig(&c, stochastic(bits, bits == 3, bits == 4 ? 99 : 0), shape, 3);
        learn_rig(&c, 7);
        qg_tape_begin(c.t, QG_TRAIN, RIG_KEY, 7);
        qg_var            y = { .shape = shape, .grad = c.dy };
        qg_gradient_coder g = { .q = c.q, .y = &y, .key = qg_tape_key(c.t) };
        const qg_code_set set = c.q.scheme->codes(c.q);
        assert_true(set.lowest == -most && set.step == 1 && set.count == 2 * most + 1);
        assert_true(c.q.scheme->measure_gradient(c.t, &g));
        int lo = most, hi = -most;
        for (int image = 0; image < shape.n; image++) {
            const float scale = c.q.scheme->code_gradient(&g, image, code);
            for (size_t i = 0; i < row; i++) {
                const int value = code[i] - most;
                lo = value < lo ? value : lo;
                hi = value > hi ? value : hi;
                assert_true((float)value * scale == c.x->grad[(size_t)image * row + i]);
            }
        }
        assert_true(lo == -most && hi == most);
        memset(c.dy, 0, c.n * sizeof *c.dy);
        assert_true(c.q.scheme->measure_gradient(c.t, &g));
        assert_true(c.q.scheme->code_gradient(&g, 0, code) == 0);
        c.dy[3] = NAN;
        assert_true(c.q.scheme->measure_gradient(c.t, &g));
        assert_true(isnan(c.q.scheme->code_gradient(&g, 0, code)));
        close_rig(&c);
    }
}

/* x + quantized x: the quantized gradient is added to what is there, or the other way round. */
static void gradients_accumulate(void **state)
{
    for (int first = 0; first < 2; first++)
        for (int zeros = 0; zeros < 2; zeros++) {
            rig c;
            fill_rig(&c, stochastic(3, true, 0), (qg_shape){ 3, 2, 2, 5 }, 3);
            if (zeros) memset(c.dy, 0, c.n * sizeof *c.dy);
            qg_tape_begin(c.t, QG_TRAIN, 1, 0);
            qg_var *x = qg_scale(c.t, qg_parameter(c.t, c.x), 1);
            qg_var *q = first ? qg_quantize(c.t, c.q, x, NULL) : NULL;
            qg_var *z = qg_scale(c.t, x, 1);
            if (!first) q = qg_quantize(c.t, c.q, x, NULL);
            c.y = qg_add(c.t, z, q);
            backward_rig(&c);
            memset(expected, 0, c.n * sizeof *expected);
            if (!zeros) round_all(c.n, c.dy, 3, false, ranked(c.n, c.dy, 100), 0);
            for (size_t i = 0; i < c.n; i++) expected[i] += c.dy[i];
            assert_close(c.x->grad, expected, c.n, 0);
            close_rig(&c);
        }
}

/* The mean over STEPS keys is within 4 standard errors of dy, which a correct quantizer misses once in 16,000
 * keys; these are fixed, so it always passes or never.  The ends do not move, but for the rounding of n / n. */
static void the_mean_is_exact(void **state)
{
    enum { STEPS = 20000, N = 9 };
    static const float dy[N] = { 1, -1, 0, 0.3f, -0.3f, 0.501f, -0.07f, 1e-3f, -0.99f };
    for (int bits = 2; bits <= 8; bits += 3) {
        rig    c;
        double mean[N] = { 0 };
        const double step = 1.0 / ((1 << (bits - 1)) - 1);
        fill_rig(&c, stochastic(bits, false, 0), (qg_shape){ 1, 1, 1, N }, 3);
        memcpy(c.dy, dy, sizeof dy);
        for (uint64_t at = 0; at < STEPS; at++) {
            learn_rig(&c, at);
            for (int i = 0; i < N; i++) mean[i] += (double)c.x->grad[i] / STEPS;
            for (int i = 0; i < 3; i++) assert_true(fabsf(c.x->grad[i] - dy[i]) <= FLT_EPSILON);
        }
        for (int i = 3; i < N; i++) {
            const double v = (double)dy[i] / step, up = v - floor(v);
            const double error = step * sqrt(up * (1 - up) / STEPS);
            if (!(fabs(mean[i] - (double)dy[i]) <= 4 * error))
                fail_msg("%d bits: the mean of %g is %g +- %g", bits, (double)dy[i], mean[i], error);
        }
        close_rig(&c);
    }
}

/* Rounded to nearest, it is biased. */
static void without_noise_small_gradients_vanish(void **state)
{
    static const float dy[4] = { 1, 0.49f / 127, -0.49f / 127, 2.5f / 127 };
    rig c;
    fill_rig(&c, stochastic(8, true, 0), (qg_shape){ 1, 1, 1, 4 }, 3);
    memcpy(c.dy, dy, sizeof dy);
    learn_rig(&c, 0);
    assert_true(c.x->grad[1] == 0 && c.x->grad[2] == 0);
    assert_true(c.x->grad[3] == 2 * (1.0f / 127));          /* a tie, to even */
    close_rig(&c);
    float y[4];
    QG_KERNELS(qg__noise)->stochastic(&(qg__gradient_rounding){ .range = 1, .most = 127, .step = 1 }, 4, dy, 0, y);
    assert_true(y[2] == 0 && !signbit(y[2]));               /* where nothing is added to */
}

static void percentiles_clip(void **state)
{
    rig c;
    fill_rig(&c, stochastic(8, false, 90), (qg_shape){ 7, 3, 3, 11 }, 3);
    c.dy[5] = -1000;
    learn_rig(&c, 0);
    const float range = ranked(c.n, c.dy, 90);
    float       most  = 0;
    size_t      at_end = 0;
    for (size_t i = 0; i < c.n; i++) {
        most = fabsf(c.x->grad[i]) > most ? fabsf(c.x->grad[i]) : most;
        at_end += fabsf(c.dy[i]) >= range;
    }
    assert_true(range < 1 && fabsf(most - range) <= FLT_EPSILON && c.x->grad[5] == -most);
    assert_int_equal(at_end, c.n - (size_t)ceil(0.9 * (double)c.n) + 1);
    /* Where 90 % are 0, the largest decides. */
    memset(c.dy, 0, c.n * sizeof *c.dy);
    c.dy[1] = 0.25f, c.dy[9] = -0.5f;
    learn_rig(&c, 0);
    assert_true(fabsf(c.x->grad[9] + 0.5f) <= FLT_EPSILON && fabsf(c.x->grad[1] - 0.25f) <= 0.5f / 127);
    close_rig(&c);
    for (int k = 0; k < 3; k++) {
        const double p = (double[]){ 51, 99.9, 100 }[k];
        fill_uniform(expected, MOST, -1, 1, 4);
        expected[3] = -100, expected[4] = 90;
        assert_true(qg__percentile_abs(MOST, expected, p) == ranked(MOST, expected, p));
    }
}

static void zeros_stay_and_what_is_not_finite_shows(void **state)
{
    static float dy[33];
    for (int bits = 2; bits <= 8; bits++)
        for (int k = 0; k < 12; k++) {
            static const float values[] = { 0, -0.0f, 1e-45f, 1e-40f, FLT_MAX / 2, NAN, INFINITY, -INFINITY };
            const bool         clips = k >= 8;
            const float        value = values[clips ? k - 4 : k];
            rig                c;
            fill_rig(&c, stochastic(bits, k % 2, clips ? 90 : 0), (qg_shape){ 3, 1, 1, 11 }, 3);
            for (int i = 0; i < 33; i++) dy[i] = i % 2 ? 0.5f * value : -0.25f * value;
            dy[8] = value;
            train_rig(&c, 1, dy);
            for (int i = 0; i < 33; i++) {
                const float dx = c.x->grad[i];
                if (value == 0) assert_true(dx == 0);
                else assert_true(isfinite(value) ? isfinite(dx) : isnan(dx));
            }
            close_rig(&c);
        }
}

static void every_thread_and_machine_has_the_same_bits(void **state)
{
    static float first[MOST];
    for (int k = 0; k < 4; k++)
        for (int threads = 1; threads <= 3; threads++)
            for (int path = 0; path < PATHS; path++) {
                rig c;
                qg_set_threads(threads);
                use_path(path);
                fill_rig(&c, stochastic(5, k % 2, k < 2 ? 99 : 100), shapes[5], 3);
                learn_rig(&c, 2);
                if (threads == 1 && path == 0) memcpy(first, c.x->grad, c.n * sizeof *first);
                assert_memory_equal(first, c.x->grad, c.n * sizeof *first);
                close_rig(&c);
            }
    qg_set_threads(0);
}

static void evaluation_and_waiting_leave_no_trace(void **state)
{
    qg_quant q = stochastic(2, false, 0);
    q.after    = 4;
    rig c;
    fill_rig(&c, q, (qg_shape){ 3, 2, 2, 5 }, 3);
    assert_null(forward_rig(&c, QG_EVAL, 9)->op);
    assert_null(forward_rig(&c, QG_TRAIN, 3)->op);
    assert_non_null(forward_rig(&c, QG_TRAIN, 4)->op);
    close_rig(&c);
}

static void arguments_are_checked(void **state)
{
    qg_quant q;
    char     text[128];
    assert_ok(qg_quant_parse("stochastic:percentile=99.99,noise=off", QG_GRADIENT, &q));
    qg_quant_print(q, text, sizeof text);
    assert_string_equal(text, "stochastic:bits=8,noise=off,percentile=99.99");
    assert_failed(qg_quant_parse("stochastic:bits=1", QG_GRADIENT, &q), QG_EARG, "bits is 1, not in 2..8");
    assert_failed(qg_quant_parse("stochastic:bits=9", QG_GRADIENT, &q), QG_EARG, "bits is 9, not in 2..8");
    assert_failed(qg_quant_parse("stochastic:percentile=50", QG_GRADIENT, &q), QG_EARG, "not in 50.01..100");
    assert_failed(qg_quant_parse("stochastic", QG_WEIGHT, &q), QG_EARG, "is a scheme for gradients");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_a_loop),
        cmocka_unit_test(a_draw_equal_to_the_fraction_rounds_down),
        cmocka_unit_test(codes_times_a_scale_are_the_values),
        cmocka_unit_test(gradients_accumulate),
        cmocka_unit_test(the_mean_is_exact),
        cmocka_unit_test(without_noise_small_gradients_vanish),
        cmocka_unit_test(percentiles_clip),
        cmocka_unit_test(zeros_stay_and_what_is_not_finite_shows),
        cmocka_unit_test(every_thread_and_machine_has_the_same_bits),
        cmocka_unit_test(evaluation_and_waiting_leave_no_trace),
        cmocka_unit_test(arguments_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
