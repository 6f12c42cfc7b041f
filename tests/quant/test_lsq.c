#include "tests/support/views.h"

#include "quant/schemes/lsq.h"
#include "quant/scheme.h"

static qg_lsq_attrs signed_bits(int bits, float step)
{
    return (qg_lsq_attrs){
        .step = step, .qn = 1 << (bits - 1), .qp = (1 << (bits - 1)) - 1, .grad_scale = 1.0
    };
}

/* Signed 3 bits, s = 0.5: codes -4 .. 3, ties to even. */
static void codes_by_hand(void **state)
{
    (void)state;
    float       x[] = { -9.0f, -2.0f, -0.75f, -0.25f, 0.25f, 0.75f, 1.4f, 1.5f, INFINITY, NAN };
    float       g[] = { 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f };
    const float want[] = { -2.0f, -2.0f, -1.0f, 0.0f, 0.0f, 1.0f, 1.5f, 1.5f, 1.5f, NAN };
    const float mask[] = { 0.0f, 0.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 0.0f, 0.0f, 0.0f };
    float       y[10], ds;
    qg_array    X = vector(x, 10);
    qg_array    G = vector(g, 10);
    qg_array    Y = vector(y, 10);
    assert_ok(qg_lsq_quantizer(&X, signed_bits(3, 0.5f), &Y));
    assert_all_near(10, y, want, 0.0);
    assert_ok(qg_lsq_quantizer_gradient(&X, &G, signed_bits(3, 0.5f), &Y, NULL));
    assert_same(10, y, mask);

    /* -4 -4 + (-2 + 1.5) + (0 + .5) + (0 - .5) + (2 - 1.5) + (3 - 2.8) + 3 + 3 = -1.8 */
    qg_lsq_attrs a = signed_bits(3, 0.5f);
    X = vector(x, 9), G = vector(g, 9), Y = vector(y, 9);
    assert_ok(qg_lsq_quantizer_gradient(&X, &G, a, &Y, &ds));
    assert_near((double)ds, -1.8, 1e-6);
    a.grad_scale = 0.25;
    a.surrogate = qg_surrogate_identity();
    assert_ok(qg_lsq_quantizer_gradient(&X, &G, a, &Y, &ds));
    assert_near((double)ds, -0.45, 1e-6);
    assert_same(9, y, g);
}

static void codebook_and_scale(void **state)
{
    (void)state;
    static float x[MOST], v[MOST], y[MOST], z[MOST];
    fill_normal(1, 1.0f, MOST, x);
    for (size_t i = 0; i < MOST; i++) v[i] = 4.0f * x[i];
    for (int bits = 1; bits <= 16; bits++) {
        const float  step = 3.0f / (float)(1 << (bits - 1));
        qg_lsq_attrs a = signed_bits(bits, step);
        qg_array     X = vector(x, MOST);
        qg_array     V = vector(v, MOST);
        qg_array     Y = vector(y, MOST);
        qg_array     Z = vector(z, MOST);
        assert_ok(qg_lsq_quantizer(&X, a, &Y));
        assert_ok(qg_lsq_quantizer(&Y, a, &Z));
        assert_same(MOST, z, y);
        for (size_t i = 0; i < MOST; i++) {
            const double code = (double)y[i] / (double)step;
            assert_near(code, round(code), 0.01); /* 32768 codes in float32: 2^-9 each */
            assert_true(round(code) >= -a.qn && round(code) <= a.qp);
        }
        a.step *= 4.0f; /* scaling x and s by a power of two scales q exactly */
        assert_ok(qg_lsq_quantizer(&V, a, &Z));
        for (size_t i = 0; i < MOST; i++) assert_true(z[i] == 4.0f * y[i]);
    }
}

/* The derivative the paper takes: with the rounding error r = round(v) - v held constant inside the
 * range, q = clip(v, -qn, qp) s + r s is x + r s there and linear in s outside. */
static double straight_through_loss(size_t n, const float *x, const float *g, double s, double s0)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double v = (double)x[i] / s0;
        const double q = v <= -4.0  ? -4.0 * s
                         : v >= 3.0 ? 3.0 * s
                                    : (double)x[i] + (rint(v) - v) * s;
        sum += (double)g[i] * q;
    }
    return sum;
}

static void step_gradient_against_differences(void **state)
{
    (void)state;
    static float x[MOST], g[MOST], dx[MOST];
    fill_normal(2, 1.0f, MOST, x);
    fill_normal(3, 1.0f, MOST, g);
    for (size_t k = 0; k < N_SIZES; k++) {
        const size_t n = awkward_sizes[k];
        const float  s = 0.37f;
        const double h = 1e-3;
        float        ds;
        qg_array     X = vector(x, n);
        qg_array     G = vector(g, n);
        qg_array     D = vector(dx, n);
        assert_ok(qg_lsq_quantizer_gradient(&X, &G, signed_bits(3, s), &D, &ds));
        const double up = straight_through_loss(n, x, g, (double)s + h, (double)s);
        const double down = straight_through_loss(n, x, g, (double)s - h, (double)s);
        /* Terms of size 4 rounded to float32 once each. */
        assert_near((double)ds, (up - down) / (2.0 * h), 4e-7 * (double)n + 1e-6);
        for (size_t i = 0; i < n; i++) {
            const float v = x[i] / s;
            assert_true(dx[i] == (v > -4.0f && v < 3.0f ? g[i] : 0.0f));
        }
    }
}

static void initial_step_and_grad_scale(void **state)
{
    (void)state;
    const float x[] = { 1.0f, -3.0f, 2.0f, -2.0f };
    /* mean|x| is 2, qp 3 with 3 bits and 1 with 2 */
    for (int bits = 2; bits <= 3; bits++) {
        qg_quant q = qg_lsq((qg_lsq_spec){ .bits = bits, .is_signed = true });
        float    step, seen = 0.0f;
        q.role    = QG_WEIGHT;
        q.numbers = 25;
        q.scheme->start(q, (qg_tensor){ { 4, 1, 1, 1 }, (float[]){ x[0], x[1], x[2], x[3] } }, (float *[]){ &step, &seen });
        assert_true(step == (bits == 2 ? 4.0f : (float)(4.0 / sqrt(3.0))) && seen == 1.0f);
        const float *const learned[] = { &step, &seen, NULL, NULL };
        const qg_constants k = qg_form_constants(q, (qg_span){ 0 }, learned);
        assert_true(k.gain[0] == (float)(1.0 / sqrt(25.0 * (bits == 2 ? 1.0 : 3.0))));
    }
}

static void refuses(void **state)
{
    (void)state;
    float        x[2] = { 1.0f };
    float        y[2] = { 7.0f, 7.0f };
    float        ds = 7.0f;
    qg_array     X = vector(x, 2);
    qg_array     Y = vector(y, 2);
    qg_array     Y1 = vector(y, 1);
    qg_array     E = vector(NULL, 0);
    qg_lsq_attrs a = signed_bits(3, 0.0f);
    assert_refused(qg_lsq_quantizer(&X, a, &Y), QG_EARG, "step is 0, must be finite and above 0");
    a.step = -0.5f;
    assert_refused(qg_lsq_quantizer_gradient(&X, &X, a, &Y, &ds), QG_EARG, "step is -0.5");
    a.step = 0.5f, a.qn = -1;
    assert_refused(qg_lsq_quantizer(&X, a, &Y), QG_EARG, "qn is -1");
    a.qn = 0, a.qp = (1 << 24) + 1;
    assert_refused(qg_lsq_quantizer(&X, a, &Y), QG_EARG, "qp is 16777217");
    a.qp = 127, a.step = 3e36f;         /* the largest level would be infinite */
    assert_refused(qg_lsq_quantizer(&X, a, &Y), QG_EARG, "step is 3e+36, times 127 codes");
    a.qn = 128, a.qp = 0;
    assert_refused(qg_lsq_quantizer_gradient(&X, &X, a, &Y, &ds), QG_EARG, "times 128 codes");
    a.qn = 0, a.qp = 3, a.step = 0.5f;
    assert_refused(qg_lsq_quantizer(&X, a, &Y1), QG_ESHAPE, "[1]");
    assert_refused(qg_lsq_quantizer_gradient(&X, &Y1, a, &Y, &ds), QG_ESHAPE, "dy");
    assert_true(y[0] == 7.0f && y[1] == 7.0f && ds == 7.0f);
    assert_ok(qg_lsq_quantizer(&E, a, &E));
    assert_ok(qg_lsq_quantizer_gradient(&E, &E, a, &E, &ds));
    assert_true(ds == 0.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_by_hand),
        cmocka_unit_test(codebook_and_scale),
        cmocka_unit_test(step_gradient_against_differences),
        cmocka_unit_test(initial_step_and_grad_scale),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
