#include "tests/support/views.h"

#include "core/kernels/parallel.h"
#include "quant/engine.h"
#include "quant/reference/binary.h"
#include "quant/kernels.h"

static const qg_surrogate own = { 0 };

static void sign_and_its_clip(void **state)
{
    float       x[] = { 0.0f, -0.0f, 1.0f, -1.0f, 1.0000001f, -2.0f, NAN };
    float       g[] = { 1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f };
    const float want[] = { 1.0f, 1.0f, 1.0f, -1.0f, 1.0f, -1.0f, -1.0f };
    const float slope[] = { 1.0f, 2.0f, 3.0f, 4.0f, 0.0f, 0.0f, 0.0f };
    float       y[7];
    assert_ok(qg_sign_quantizer(VECTOR(x, 7), VECTOR(y, 7)));
    assert_same(7, y, want);
    assert_ok(qg_sign_quantizer_gradient(VECTOR(x, 7), VECTOR(g, 7), own, VECTOR(y, 7)));
    assert_same(7, y, slope);
    assert_ok(qg_sign_quantizer_gradient(VECTOR(x, 7), VECTOR(g, 7), qg_surrogate_identity(), VECTOR(y, 7)));
    assert_same(7, y, g);
}

static void mean_scaling_by_hand(void **state)
{
    float       x[] = { 3.0f, -1.0f, 0.0f, -0.0f };
    float       g[] = { 1.0f, 2.0f, 3.0f, 4.0f };
    const float want[] = { 1.0f, -1.0f, 1.0f, 1.0f };
    float       y[4], e;
    qg_array X = vector(x, 4);
    qg_array Y = vector(y, 4);
    assert_ok(qg_binary_mean_scaling_quantizer(&X, &Y, &e));
    assert_true(e == 1.0f);
    assert_same(4, y, want);
    assert_ok(qg_binary_mean_scaling_quantizer_gradient(&X, VECTOR(g, 4), own, &Y));
    assert_same(4, y, g);
    x[0] = NAN; /* the scale says so */
    assert_ok(qg_binary_mean_scaling_quantizer(&X, &Y, &e));
    assert_true(isnan(e) && isnan(y[1]));
    X = vector(NULL, 0), Y = X;
    assert_ok(qg_binary_mean_scaling_quantizer(&X, &Y, &e));
    assert_true(e == 0.0f);
}

/* HWIO [1,1,2,4] with -3.5 .. 3.5: every output channel has mean 2. */
static void channel_means_by_hand(void **state)
{
    float       x[] = { -3.5f, -2.5f, -1.5f, -0.5f, 0.5f, 1.5f, 2.5f, 3.5f };
    const float want[] = { -2.0f, -2.0f, -2.0f, -2.0f, 2.0f, 2.0f, 2.0f, 2.0f };
    const float twos[] = { 2.0f, 2.0f, 2.0f, 2.0f };
    float       y[8], scale[4];
    assert_ok(qg_binary_channel_wise_mean_scaling_quantizer(TENSOR4(x, 1, 1, 2, 4), TENSOR4(y, 1, 1, 2, 4),
                                                            VECTOR(scale, 4)));
    assert_same(8, y, want);
    assert_same(4, scale, twos);
    assert_ok(qg_binary_channel_wise_mean_scaling_quantizer_gradient(TENSOR4(x, 1, 1, 2, 4), TENSOR4(x, 1, 1, 2, 4),
                                                                     own, TENSOR4(y, 1, 1, 2, 4)));
    assert_same(8, y, x);
}

/* Both layouts of one tensor, and sizes that leave a rest in every group and chunk. */
static void channels_inmost_and_in_rows_agree(void **state)
{
    enum { OUT = 37, ROW = 601 };
    static float rows[OUT * ROW], inmost[OUT * ROW], y[OUT * ROW], z[OUT * ROW];
    float        scale[OUT], other[OUT];
    fill_normal(1, 1.0f, OUT * ROW, rows);
    for (size_t o = 0; o < OUT; o++)
        for (size_t r = 0; r < ROW; r++) inmost[r * OUT + o] = rows[o * ROW + r];
    const qg_quant binary = qg_binary((qg_binary_spec){ .per_channel = true });
    qg__form_forward(&(qg_binding){ .q = binary }, (qg_split){ 1, OUT, ROW }, rows, NULL, y, NULL, scale);
    assert_ok(qg_binary_channel_wise_mean_scaling_quantizer(TENSOR4(inmost, 1, 1, ROW, OUT), TENSOR4(z, 1, 1, ROW, OUT),
                                                            VECTOR(other, OUT)));
    for (size_t o = 0; o < OUT; o++) {
        double sum = 0.0;
        for (size_t r = 0; r < ROW; r++) sum += fabs((double)rows[o * ROW + r]);
        assert_near((double)scale[o], sum / ROW, 1e-7);
        assert_near((double)other[o], (double)scale[o], 1e-7);
        for (size_t r = 0; r < ROW; r++) {
            assert_true(y[o * ROW + r] == (rows[o * ROW + r] >= 0.0f ? scale[o] : -scale[o]));
            assert_true(z[r * OUT + o] == (rows[o * ROW + r] >= 0.0f ? other[o] : -other[o]));
        }
    }
}

static void binary_tensors_are_fixed_points(void **state)
{
    static float x[MOST], y[MOST], z[MOST];
    fill_normal(2, 1.0f, MOST, x);
    for (size_t s = 0; s < N_SIZES; s++) {
        const size_t n = awkward_sizes[s];
        float        e, f;
        assert_ok(qg_binary_mean_scaling_quantizer(VECTOR(x, n), VECTOR(y, n), &e));
        assert_ok(qg_binary_mean_scaling_quantizer(VECTOR(y, n), VECTOR(z, n), &f));
        assert_true(f == e); /* the sum of n equal floats is exact: 24 + 16 bits fit a double */
        assert_same(n, z, y);
        for (size_t i = 0; i < n; i++) z[i] = 4.0f * x[n - 1 - i];
        assert_ok(qg_binary_mean_scaling_quantizer(VECTOR(z, n), VECTOR(y, n), &f));
        assert_near((double)f, 4.0 * (double)e, 1e-6); /* another order of the sum */
    }
}

static void magnitude_aware_by_hand(void **state)
{
    float       x[] = { 1.0f, -4.0f, -0.5f, 0.0f, 0.0f, 2.0f }; /* columns: means 0.5 and 2 */
    float       g[] = { 1.0f, 1.0f, 2.0f, 2.0f, 3.0f, 3.0f };
    const float want[] = { 0.5f, -2.0f, -0.5f, 2.0f, 0.5f, 2.0f };
    const float slope[] = { 0.5f, 0.0f, 1.0f, 4.0f, 1.5f, 0.0f };
    const float whole[] = { 0.5f, 2.0f, 1.0f, 4.0f, 1.5f, 6.0f };
    float       y[6], scale[2];
    assert_ok(qg_magnitude_aware_sign_quantizer(MATRIX(x, 3, 2), MATRIX(y, 3, 2), VECTOR(scale, 2)));
    assert_same(6, y, want);
    assert_true(scale[0] == 0.5f && scale[1] == 2.0f);
    assert_ok(qg_magnitude_aware_sign_quantizer_gradient(MATRIX(x, 3, 2), MATRIX(g, 3, 2), own, MATRIX(y, 3, 2)));
    assert_same(6, y, slope);
    assert_ok(qg_magnitude_aware_sign_quantizer_gradient(MATRIX(x, 3, 2), MATRIX(g, 3, 2), qg_surrogate_identity(),
                                                         MATRIX(y, 3, 2)));
    assert_same(6, y, whole);
}

static void magnitude_aware_rows_accumulate(void **state)
{
    enum { ROWS = 17, ROW = 259 };
    static float x[ROWS * ROW], g[ROWS * ROW], dx[ROWS * ROW], q[ROWS * ROW];
    float        scale[ROWS];
    fill_normal(3, 1.0f, ROWS * ROW, x);
    fill_normal(4, 1.0f, ROWS * ROW, g);
    const qg_quant  scheme = qg_magnitude_aware((qg_magnitude_aware_spec){ .surrogate = own, .as_paper = true });
    const qg_split rows   = { 1, ROWS, ROW };
    qg_constants    k[ROWS];
    qg__form_forward(&(qg_binding){ .q = scheme }, rows, x, NULL, q, k, scale);
    qg__form_gradient(&(qg_binding){ .q = scheme }, scheme.surrogate, rows, k, x, g, dx, NULL);
    qg__form_gradient(&(qg_binding){ .q = scheme }, scheme.surrogate, rows, k, x, g, dx, NULL);
    for (size_t i = 0; i < ROWS * ROW; i++)
        assert_true(dx[i] == (fabsf(x[i]) <= 1.0f ? 2.0f * (scale[i / ROW] * g[i]) : 0.0f));
}

/* n draws of probability p: 5 standard errors are 5 sqrt(p (1 - p) / n) < 0.0112. */
static void stochastic_probabilities(void **state)
{
    static float x[MOST], y[MOST];
    const float  values[] = { -1.5f, -1.0f, -0.6f, 0.0f, 0.5f, 1.0f, 3.0f };
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        size_t   ups = 0;
        for (size_t i = 0; i < MOST; i++) x[i] = values[v];
        assert_ok(qg_stochastic_sign_quantizer(VECTOR(x, MOST), 11, VECTOR(y, MOST)));
        for (size_t i = 0; i < MOST; i++) {
            assert_true(y[i] == 1.0f || y[i] == -1.0f);
            ups += y[i] == 1.0f;
        }
        const double p = fmin(fmax(((double)values[v] + 1.0) / 2.0, 0.0), 1.0);
        if (p == 0.0 || p == 1.0) assert_int_equal(ups, p == 0.0 ? 0 : MOST);
        else assert_near((double)ups / MOST, p, 0.0112);
    }
}

static void stochastic_draws_are_keyed(void **state)
{
    static float x[MOST], y[MOST], z[MOST];
    size_t       moved = 0;
    fill_normal(5, 0.5f, MOST, x);
    x[7] = NAN;
    assert_ok(qg_stochastic_sign_quantizer(VECTOR(x, MOST), 11, VECTOR(y, MOST)));
    qg_set_threads(3);
    assert_ok(qg_stochastic_sign_quantizer(VECTOR(x, MOST), 11, VECTOR(z, MOST)));
    qg_set_threads(0);
    assert_same(MOST, z, y);
    assert_true(y[7] == -1.0f);
    QG_KERNELS(qg__noise)->stochastic_sign(100, x + 20000, 11, 20000, z);
    assert_same(100, z, y + 20000);
    assert_ok(qg_stochastic_sign_quantizer(VECTOR(x, MOST), 12, VECTOR(z, MOST)));
    for (size_t i = 0; i < MOST; i++) moved += z[i] != y[i];
    assert_true(moved > MOST / 10);
    assert_ok(qg_stochastic_sign_quantizer_gradient(VECTOR(x, MOST), VECTOR(y, MOST), own, VECTOR(z, MOST)));
    assert_same(MOST, z, y);
}

static void refuses(void **state)
{
    float    x[8] = { 1.0f };
    float    y[8] = { 7.0f, 7.0f, 7.0f, 7.0f, 7.0f, 7.0f, 7.0f, 7.0f };
    float    e = 7.0f;
    qg_array X = tensor4(x, 1, 1, 2, 4);
    qg_array I32 = X;
    qg_array scalar = { .dtype = QG_F32, .rank = 0, .data = x };
    I32.dtype = QG_I32;
    assert_failed(qg_sign_quantizer(&I32, TENSOR4(y, 1, 1, 2, 4)), QG_EARG, "I32");
    assert_failed(qg_sign_quantizer(&X, VECTOR(y, 8)), QG_ESHAPE, "[8]");
    assert_failed(qg_sign_quantizer_gradient(&X, VECTOR(x, 8), own, TENSOR4(y, 1, 1, 2, 4)), QG_ESHAPE, "dy");
    assert_failed(qg_stochastic_sign_quantizer(&X, 1, VECTOR(y, 3)), QG_ESHAPE, "[3]");
    assert_failed(qg_binary_mean_scaling_quantizer(&X, &I32, &e), QG_EARG, "I32");
    assert_failed(qg_binary_channel_wise_mean_scaling_quantizer(VECTOR(x, 8), VECTOR(y, 8), NULL), QG_ESHAPE,
                   "rank of x is 1, must be 4");
    assert_failed(qg_binary_channel_wise_mean_scaling_quantizer_gradient(VECTOR(x, 8), VECTOR(x, 8), own,
                                                                          VECTOR(y, 8)), QG_ESHAPE, "must be 4");
    assert_failed(qg_binary_channel_wise_mean_scaling_quantizer(&X, TENSOR4(y, 1, 1, 2, 4), VECTOR(y, 3)), QG_ESHAPE,
                   "scale");
    assert_failed(qg_magnitude_aware_sign_quantizer(&scalar, &scalar, NULL), QG_ESHAPE,
                   "rank is 0");
    assert_failed(qg_magnitude_aware_sign_quantizer_gradient(&X, &X, own, VECTOR(y, 8)), QG_ESHAPE, "dx");
    for (int i = 0; i < 8; i++) assert_true(y[i] == 7.0f);
    assert_true(e == 7.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sign_and_its_clip),
        cmocka_unit_test(mean_scaling_by_hand),
        cmocka_unit_test(channel_means_by_hand),
        cmocka_unit_test(channels_inmost_and_in_rows_agree),
        cmocka_unit_test(binary_tensors_are_fixed_points),
        cmocka_unit_test(magnitude_aware_by_hand),
        cmocka_unit_test(magnitude_aware_rows_accumulate),
        cmocka_unit_test(stochastic_probabilities),
        cmocka_unit_test(stochastic_draws_are_keyed),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
