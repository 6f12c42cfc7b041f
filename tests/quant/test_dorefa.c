#include <float.h>

#include "tests/support/views.h"

#include "core/kernels/parallel.h"
#include "quant/reference/dorefa.h"

static const qg_surrogate own = { 0 };

/* w = (.2, -.6, 0): one scale for k = 1, and no zero level for k = 2. */
static void weights_by_hand(void **state)
{
    float       w[] = { 0.2f, -0.6f, 0.0f };
    const float m = 0.8f / 3.0f;
    const float one[] = { m, -m, m };
    const float two[] = { 1.0f / 3.0f, -1.0f, 1.0f / 3.0f };
    float       q[3];
    assert_ok(qg_dorefa_weight_quantizer(VECTOR(w, 3), 1, VECTOR(q, 3)));
    assert_all_near(3, q, one, 1e-7);
    assert_ok(qg_dorefa_weight_quantizer(VECTOR(w, 3), 2, VECTOR(q, 3)));
    assert_all_near(3, q, two, 1e-7);
    assert_ok(qg_dorefa_weight_quantizer(VECTOR(w, 3), 32, VECTOR(q, 3)));
    assert_same(3, q, w);
}

static void all_zero_weights(void **state)
{
    float    w[] = { 0.0f, -0.0f };
    float    g[] = { 1.0f, 2.0f };
    float    q[2], dw[2] = { 7.0f, 7.0f };
    qg_array W = vector(w, 2);
    qg_array G = vector(g, 2);
    qg_array Q = vector(q, 2);
    qg_array D = vector(dw, 2);
    for (int through = 0; through < 2; through++) {
        const qg_dorefa_weight_attrs a = { .k = 2, .through_max = through != 0 };
        assert_ok(qg_dorefa_weight_quantizer(&W, 2, &Q));
        assert_near((double)q[0], 1.0 / 3.0, 1e-7);
        assert_near((double)q[1], 1.0 / 3.0, 1e-7);
        assert_ok(qg_dorefa_weight_quantizer_gradient(&W, &G, a, &D));
        assert_true(dw[0] == 0.0f && dw[1] == 0.0f);
    }
    assert_ok(qg_dorefa_weight_quantizer(&W, 1, &Q));
    assert_true(q[0] == 0.0f && q[1] == 0.0f);
    W = vector(NULL, 0), G = W, Q = W, D = W;
    qg_array R = matrix(NULL, 0, 3);
    for (int k = 1; k <= 32; k++) {
        const qg_dorefa_weight_attrs a = { .k = k, .through_max = true };
        assert_ok(qg_dorefa_weight_quantizer(&W, k, &Q));
        assert_ok(qg_dorefa_weight_quantizer_gradient(&W, &G, a, &D));
        assert_ok(qg_dorefa_gradient_quantizer(&R, k, NULL, &R));      /* samples, but none: a sanitizer sees */
    }
}

static void weight_codebook(void **state)
{
    static float w[MOST], q[MOST];
    fill_normal(1, 0.3f, MOST, w);
    for (int k = 2; k <= 16; k++)
        for (size_t s = 0; s < N_SIZES; s++) {
            const size_t n = awkward_sizes[s];
            const double steps = (double)((1 << k) - 1);
            double       m = 0.0;
            assert_ok(qg_dorefa_weight_quantizer(VECTOR(w, n), k, VECTOR(q, n)));
            for (size_t i = 0; i < n; i++) m = fmax(m, tanh(fabs((double)w[i])));
            for (size_t i = 0; i < n; i++) {
                const double code = ((double)q[i] + 1.0) / 2.0 * steps;
                const double u = (tanh((double)w[i]) / (2.0 * m) + 0.5) * steps;
                assert_true(q[i] >= -1.0f && q[i] <= 1.0f);
                assert_near(code, round(code), 0.01); /* 65535 codes in float32: 2^-8 each */
                assert_near(round(code), u, 0.52);    /* the nearest, but for float32 ties */
            }
        }
}

static void weights_keep_nan(void **state)
{
    float    w[] = { 0.5f, NAN };
    float    q[2];
    for (int k = 1; k <= 8; k++) {
        assert_ok(qg_dorefa_weight_quantizer(VECTOR(w, 2), k, VECTOR(q, 2)));
        assert_true(isnan(q[0]) && isnan(q[1]));
    }
    w[1] = -INFINITY; /* tanh is 1 there */
    assert_ok(qg_dorefa_weight_quantizer(VECTOR(w, 2), 2, VECTOR(q, 2)));
    assert_true(q[1] == -1.0f);
}

/* What quantize_k's slope of 1 leaves: t / m, with m as a constant or as the maximum. */
static double smooth_loss(size_t n, const double *w, const float *g, double m)
{
    double sum = 0.0, most = 0.0;
    for (size_t i = 0; i < n; i++) most = fmax(most, tanh(fabs(w[i])));
    for (size_t i = 0; i < n; i++) sum += (double)g[i] * tanh(w[i]) / (m > 0.0 ? m : most);
    return sum;
}

/* Central differences in double of the smooth part; h^2 is 1e-10, the rest is float32 of dx. */
static void weight_gradients_against_differences(void **state)
{
    enum { N = 65 };
    float    w[N], g[N], dw[N];
    double   v[N];
    fill_normal(2, 0.5f, N, w);
    fill_normal(3, 1.0f, N, g);
    double m = 0.0;
    for (size_t i = 0; i < N; i++) v[i] = (double)w[i], m = fmax(m, tanh(fabs(v[i])));
    for (int through = 0; through < 2; through++) {
        const qg_dorefa_weight_attrs a = { .k = 3, .through_max = through != 0 };
        assert_ok(qg_dorefa_weight_quantizer_gradient(VECTOR(w, N), VECTOR(g, N), a, VECTOR(dw, N)));
        for (size_t i = 0; i < N; i++) {
            const double h = 1e-5;
            v[i] += h;
            const double up = smooth_loss(N, v, g, through ? 0.0 : m);
            v[i] -= 2.0 * h;
            const double down = smooth_loss(N, v, g, through ? 0.0 : m);
            v[i] += h;
            assert_near((double)dw[i], (up - down) / (2.0 * h), 2e-5);
        }
    }
}

/* Two elements share the maximum, so each takes half of its gradient: m = tanh(.6), and the sum of
 * g t is -t for g = (1, 2, ..) at (.6, -.6, 0), so the extra term is (1 - t^2) / (2 m). */
static void maximum_is_shared(void **state)
{
    float        w[] = { 0.6f, -0.6f, 0.0f };
    float        g[] = { 1.0f, 2.0f, 5.0f };
    float        dw[3];
    const double t = tanh(0.6);
    const double slope = (1.0 - t * t) / t;
    assert_ok(qg_dorefa_weight_quantizer_gradient(VECTOR(w, 3), VECTOR(g, 3),
                                                  (qg_dorefa_weight_attrs){ .k = 2, .through_max = true },
                                                  VECTOR(dw, 3)));
    assert_near((double)dw[0], slope * (1.0 + 0.5), 1e-6);
    assert_near((double)dw[1], slope * (2.0 - 0.5), 1e-6);
    assert_near((double)dw[2], 5.0 / t, 1e-5);
}

static void weight_gradients_without_a_curve(void **state)
{
    float       w[] = { 0.6f, -2.0f };
    float       g[] = { 1.0f, 2.0f };
    const float clipped[] = { 1.0f, 0.0f };
    float       dw[2];
    qg_array    W = vector(w, 2);
    qg_array    G = vector(g, 2);
    qg_array    D = vector(dw, 2);
    for (int k = 1; k <= 32; k += 31) {
        const qg_dorefa_weight_attrs a = { .k = k, .through_max = true };
        assert_ok(qg_dorefa_weight_quantizer_gradient(&W, &G, a, &D));
        assert_same(2, dw, g);
    }
    assert_ok(qg_dorefa_weight_quantizer_gradient(
        &W, &G, (qg_dorefa_weight_attrs){ .k = 2, .surrogate = qg_surrogate_clip(1.0f) }, &D));
    assert_same(2, dw, clipped);
}

static void activation_ties_and_ends(void **state)
{
    float       x[] = { 0.5f, -1.0f, 2.0f, 0.0f, 1.0f, NAN, INFINITY };
    float       g[] = { 1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f };
    const float even[] = { 0.0f, 0.0f, 1.0f, 0.0f, 1.0f, NAN, 1.0f };
    const float up[] = { 1.0f, 0.0f, 1.0f, 0.0f, 1.0f, NAN, 1.0f };
    const float clipped[] = { 0.5f, 0.0f, 1.0f, 0.0f, 1.0f, NAN, 1.0f };
    const float slope[] = { 1.0f, 0.0f, 0.0f, 4.0f, 5.0f, 0.0f, 0.0f };
    float       y[7];
    assert_ok(qg_dorefa_activation_quantizer(VECTOR(x, 7), 1, QG_TIES_EVEN, VECTOR(y, 7)));
    assert_all_near(7, y, even, 0.0);
    assert_ok(qg_dorefa_activation_quantizer(VECTOR(x, 7), 1, QG_TIES_UP, VECTOR(y, 7)));
    assert_all_near(7, y, up, 0.0);
    assert_ok(qg_dorefa_activation_quantizer(VECTOR(x, 7), 32, QG_TIES_EVEN, VECTOR(y, 7)));
    assert_all_near(7, y, clipped, 0.0);
    assert_ok(qg_dorefa_activation_quantizer_gradient(VECTOR(x, 7), VECTOR(g, 7), 1, own, VECTOR(y, 7)));
    assert_same(7, y, slope);
    assert_ok(qg_dorefa_activation_quantizer_gradient(VECTOR(x, 7), VECTOR(g, 7), 1, qg_surrogate_identity(),
                                                      VECTOR(y, 7)));
    assert_same(7, y, g);
}

static void activations_are_fixed_points(void **state)
{
    static float x[MOST], y[MOST], z[MOST];
    fill_normal(4, 1.0f, MOST, x);
    for (int k = 1; k <= 16; k++) {
        assert_ok(qg_dorefa_activation_quantizer(VECTOR(x, MOST), k, QG_TIES_EVEN, VECTOR(y, MOST)));
        assert_ok(qg_dorefa_activation_quantizer(VECTOR(y, MOST), k, QG_TIES_EVEN, VECTOR(z, MOST)));
        assert_same(MOST, z, y);
        for (size_t i = 0; i < MOST; i++) {
            const double v = fmin(fmax((double)x[i], 0.0), 1.0);
            assert_near((double)y[i], v, 0.501 / (double)((1 << k) - 1) + 1e-7);
        }
    }
}

/* One maximum per sample: ((1, .4), (100, 40)) without noise, k = 2. */
static void gradients_by_hand(void **state)
{
    float       dr[] = { 1.0f, 0.4f, 100.0f, 40.0f, 0.0f, -0.0f };
    const float want[] = { 1.0f, 1.0f / 3.0f, 100.0f, 100.0f / 3.0f, 0.0f, 0.0f };
    float       y[6];
    assert_ok(qg_dorefa_gradient_quantizer(MATRIX(dr, 3, 2), 2, NULL, MATRIX(y, 3, 2)));
    assert_all_near(6, y, want, 1e-5);
    assert_ok(qg_dorefa_gradient_quantizer(MATRIX(dr, 3, 2), 32, NULL, MATRIX(y, 3, 2)));
    assert_same(6, y, dr);
}

/* With noise before the rounding the mean is right: of n draws with a step of 2/15 and a deviation
 * of at most half a step, 5 standard errors are 0.0017. */
/* 2 m is no float32 beyond half of FLT_MAX, and was infinite; the smallest m are subnormal. */
static void gradients_of_any_size(void **state)
{
    const float sizes[] = { FLT_MAX, 2e38f, 0x1p127f, 1.0f, 1e-38f, 1e-44f };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        float    dr[] = { sizes[i], -sizes[i], 0.5f * sizes[i], 0.0f }, y[4];
        for (int k = 1; k <= 8; k++) {
            const double steps = (double)((1 << k) - 1), m = (double)sizes[i];
            assert_ok(qg_dorefa_gradient_quantizer(MATRIX(dr, 1, 4), k, NULL, MATRIX(y, 1, 4)));
            assert_true(y[0] == dr[0] && y[1] == dr[1]);
            /* An odd multiple of m / steps, at most one step away; subnormals have steps of their own. */
            for (int j = 2; j < 4; j++) {
                const double code = (double)y[j] / m * steps;
                assert_near((double)y[j], (double)dr[j], m / steps * 1.0001 + 1.5e-45);
                if (sizes[i] > 1e-30f) assert_near(code, 2.0 * floor(code / 2.0) + 1.0, 1e-4);
            }
        }
    }
}
static void noise_makes_gradients_unbiased(void **state)
{
    enum { N = 40000 };
    static float dr[N], noise[N], y[N];
    double       sum = 0.0;
    for (size_t i = 0; i < N; i++) dr[i] = 0.3f;
    dr[0] = 1.0f;
    assert_ok(qg_dorefa_gradient_noise(21, 4, MATRIX(noise, 1, N)));
    assert_ok(qg_dorefa_gradient_quantizer(MATRIX(dr, 1, N), 4, MATRIX(noise, 1, N), MATRIX(y, 1, N)));
    for (size_t i = 1; i < N; i++) {
        const double code = ((double)y[i] + 1.0) / 2.0 * 15.0;
        assert_near(code, round(code), 1e-5);
        sum += (double)y[i];
    }
    assert_near(sum / (N - 1), 0.3, 0.0017);
}

static void noise_is_keyed_and_bounded(void **state)
{
    static float a[MOST], b[MOST];
    assert_ok(qg_dorefa_gradient_noise(5, 2, VECTOR(a, MOST)));
    qg_set_threads(3);
    assert_ok(qg_dorefa_gradient_noise(5, 2, VECTOR(b, MOST)));
    qg_set_threads(0);
    assert_same(MOST, b, a);
    for (size_t i = 0; i < MOST; i++) {
        assert_true(a[i] == (qg_uniform_fast(5, i) - 0.5f) * (1.0f / 3.0f));
        assert_true(fabsf(a[i]) <= 0.5f / 3.0f);
    }
}

static void refuses(void **state)
{
    float                  x[4] = { 1.0f };
    float                  y[4] = { 7.0f, 7.0f, 7.0f, 7.0f };
    qg_array X = vector(x, 4);
    qg_array Y = vector(y, 4);
    qg_array               scalar = { .dtype = QG_F32, .rank = 0, .data = y };
    qg_dorefa_weight_attrs a = { .k = 0 };
    assert_failed(qg_dorefa_weight_quantizer(&X, 0, &Y), QG_EARG, "k is 0, must be 1 .. 32");
    assert_failed(qg_dorefa_weight_quantizer(&X, 33, &Y), QG_EARG, "k is 33");
    assert_failed(qg_dorefa_weight_quantizer(&X, 2, VECTOR(y, 3)), QG_ESHAPE, "[3]");
    assert_failed(qg_dorefa_weight_quantizer_gradient(&X, &X, a, &Y), QG_EARG, "k is 0");
    a.k = 2;
    assert_failed(qg_dorefa_weight_quantizer_gradient(&X, VECTOR(y, 3), a, &Y), QG_ESHAPE, "dy");
    assert_failed(qg_dorefa_activation_quantizer(&X, -1, QG_TIES_EVEN, &Y), QG_EARG, "k is -1");
    assert_failed(qg_dorefa_activation_quantizer(&X, 2, (qg_dorefa_ties)2, &Y), QG_EARG,
                   "ties is 2");
    assert_failed(qg_dorefa_activation_quantizer_gradient(&X, &X, 99, own, &Y), QG_EARG,
                   "k is 99");
    assert_failed(qg_dorefa_gradient_quantizer(&X, 0, NULL, &Y), QG_EARG, "k is 0");
    assert_failed(qg_dorefa_gradient_quantizer(&X, 2, VECTOR(y, 3), &Y), QG_ESHAPE, "noise");
    assert_failed(qg_dorefa_gradient_quantizer(&scalar, 2, NULL, &scalar), QG_ESHAPE, "rank is 0");
    assert_failed(qg_dorefa_gradient_noise(1, 40, &Y), QG_EARG, "k is 40");
    for (int i = 0; i < 4; i++) assert_true(y[i] == 7.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_by_hand),
        cmocka_unit_test(all_zero_weights),
        cmocka_unit_test(weight_codebook),
        cmocka_unit_test(weights_keep_nan),
        cmocka_unit_test(weight_gradients_against_differences),
        cmocka_unit_test(maximum_is_shared),
        cmocka_unit_test(weight_gradients_without_a_curve),
        cmocka_unit_test(activation_ties_and_ends),
        cmocka_unit_test(activations_are_fixed_points),
        cmocka_unit_test(gradients_by_hand),
        cmocka_unit_test(gradients_of_any_size),
        cmocka_unit_test(noise_makes_gradients_unbiased),
        cmocka_unit_test(noise_is_keyed_and_bounded),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
