#include "tests/support/views.h"

#include <math.h>
#include <string.h>

#include "core/ops/ops.h"
#include "quant/engine.h"
#include "quant/reference/ternary.h"
#include "tests/support/schemes.h"
#include "tests/support/testing.h"

/* --- on arrays ---------------------------------------------------------------------------------- */

static const qg_surrogate own = { 0 };

/* mean|w| = 0.5, D = 0.35: 1, -0.8 and 0.7 are kept, a = 2.5 / 3. */
static void scale_by_hand(void **state)
{
    float       w[] = { 1.0f, -0.8f, 0.7f, -0.3f, 0.2f, 0.0f };
    const float a = 2.5f / 3.0f;
    const float want[] = { a, -a, a, 0.0f, 0.0f, 0.0f };
    float       q[6], delta, alpha;
    assert_ok(qg_twn_weight_quantizer(VECTOR(w, 6), 0.7f, VECTOR(q, 6), &delta, &alpha));
    assert_near((double)delta, 0.35, 1e-7);
    assert_near((double)alpha, 2.5 / 3.0, 1e-7);
    assert_all_near(6, q, want, 1e-7);
}

static void comparison_is_strict(void **state)
{
    float    w[] = { 0.5f, -0.5f, 0.5f }; /* D = 0.5 exactly with threshold 1 */
    float    q[3], delta, alpha;
    assert_ok(qg_twn_weight_quantizer(VECTOR(w, 3), 1.0f, VECTOR(q, 3), &delta, &alpha));
    assert_true(delta == 0.5f && alpha == 0.0f);
    for (int i = 0; i < 3; i++) assert_true(q[i] == 0.0f);
}

static void degenerate_arrays(void **state)
{
    float    w[] = { 0.0f, -0.0f, 0.0f };
    float    q[3], delta = 7.0f, alpha = 7.0f;
    qg_array W = vector(w, 3);
    qg_array Q = vector(q, 3);
    assert_ok(qg_twn_weight_quantizer(&W, 0.7f, &Q, &delta, &alpha));
    for (int i = 0; i < 3; i++) assert_true(q[i] == 0.0f);
    assert_true(delta == 0.0f && alpha == 0.0f);

    W = vector(NULL, 0), Q = vector(NULL, 0);
    assert_ok(qg_twn_weight_quantizer(&W, 0.7f, &Q, &delta, &alpha));
    assert_true(delta == 0.0f && alpha == 0.0f);

    w[0] = -5.0f, W = vector(w, 1), Q = vector(q, 1);
    assert_ok(qg_twn_weight_quantizer(&W, 0.7f, &Q, NULL, NULL));
    assert_true(q[0] == -5.0f);

    w[0] = 1.0f, w[1] = NAN, w[2] = -2.0f, W = vector(w, 3), Q = vector(q, 3);
    assert_ok(qg_twn_weight_quantizer(&W, 0.7f, &Q, &delta, &alpha));
    assert_true(isnan(delta) && alpha == 0.0f && q[0] == 0.0f && q[1] == 0.0f && q[2] == 0.0f);

    w[1] = INFINITY;
    assert_ok(qg_twn_weight_quantizer(&W, 0.7f, &Q, &delta, &alpha));
    assert_true(isinf(delta) && alpha == 0.0f && q[1] == 0.0f);
}

/* The largest floats: their sum is no float, their mean is. */
static void sums_do_not_overflow(void **state)
{
    float    w[] = { 3e38f, -3e38f, 3e38f, 1e38f };
    float    q[4], alpha;
    assert_ok(qg_twn_weight_quantizer(VECTOR(w, 4), 0.7f, VECTOR(q, 4), NULL, &alpha));
    assert_true(alpha == 3e38f && q[1] == -3e38f && q[3] == 0.0f);
}

static void codebook_scale_and_order(void **state)
{
    static float w[MOST], v[MOST], q[MOST], r[MOST];
    fill_normal(5, 0.05f, MOST, w);
    for (size_t s = 0; s < N_SIZES; s++) {
        const size_t n = awkward_sizes[s];
        float        delta, alpha, other;
        double       sum = 0.0, above = 0.0, kept = 0.0;
        assert_ok(qg_twn_weight_quantizer(VECTOR(w, n), 0.7f, VECTOR(q, n), &delta, &alpha));
        for (size_t i = 0; i < n; i++) sum += fabs((double)w[i]);
        assert_near((double)delta, (double)0.7f * sum / (double)n, 1e-8);
        for (size_t i = 0; i < n; i++) {
            const float want = w[i] > delta ? alpha : w[i] < -delta ? -alpha : 0.0f;
            assert_true(q[i] == want);
            if (fabsf(w[i]) > delta) above += fabs((double)w[i]), kept += 1.0;
        }
        assert_near((double)alpha, above / kept, 1e-8);

        for (size_t i = 0; i < n; i++) v[i] = 8.0f * w[i]; /* a power of two scales exactly */
        assert_ok(qg_twn_weight_quantizer(VECTOR(v, n), 0.7f, VECTOR(r, n), NULL, &other));
        assert_true(other == 8.0f * alpha);
        for (size_t i = 0; i < n; i++) assert_true(r[i] == 8.0f * q[i]);

        for (size_t i = 0; i < n; i++) v[i] = w[n - 1 - i];
        assert_ok(qg_twn_weight_quantizer(VECTOR(v, n), 0.7f, VECTOR(r, n), NULL, &other));
        assert_near((double)other, (double)alpha, 1e-8); /* another order of the sum */
        for (size_t i = 0; i < n; i++)
            assert_true((r[i] > 0) - (r[i] < 0) == (q[n - 1 - i] > 0) - (q[n - 1 - i] < 0));
    }
}

/* Each row, each column and each inner slice, against the whole-tensor operator on a copy of it. */
static void per_channel_is_twn_of_each_channel(void **state)
{
    enum { A = 7, B = 33, C = 5 };
    static float w[A * B * C], q[A * B * C], part[A * B * C], want[A * B * C];
    const size_t dims[] = { A, B, C };
    qg_array     W = { .dtype = QG_F32, .rank = 3, .dims = { A, B, C }, .data = w };
    qg_array     Q = W;
    Q.data = q;
    fill_normal(6, 1.0f, A * B * C, w);
    for (int axis = 0; axis < 3; axis++) {
        float    alpha[B], one;
        assert_ok(qg_twn_per_channel_weight_quantizer(&W, axis, 0.7f, &Q, VECTOR(alpha, dims[axis])));
        for (size_t channel = 0; channel < dims[axis]; channel++) {
            size_t n = 0;
            for (size_t i = 0; i < A * B * C; i++) {
                const size_t at[] = { i / (B * C), i / C % B, i % C };
                if (at[axis] == channel) part[n++] = w[i];
            }
            assert_ok(qg_twn_weight_quantizer(VECTOR(part, n), 0.7f, VECTOR(want, n), NULL, &one));
            assert_near((double)alpha[channel], (double)one, 1e-7); /* summed in chunks */
            n = 0;
            for (size_t i = 0; i < A * B * C; i++) {
                const size_t at[] = { i / (B * C), i / C % B, i % C };
                if (at[axis] == channel) assert_near((double)q[i], (double)want[n++], 1e-7);
            }
        }
    }
    static float rows[A * B * C];
    const qg_quant per_row = qg_twn((qg_twn_spec){ .per_channel = true });
    qg__form_forward(&(qg_binding){ .q = per_row }, (qg_split){ 1, A, B * C }, w, NULL, rows, NULL, NULL);
    assert_ok(qg_twn_per_channel_weight_quantizer(&W, 0, 0.7f, &Q, NULL));
    assert_same(A * B * C, rows, q);
}

static void gradient_is_the_identity_unless_replaced(void **state)
{
    float       w[] = { 2.0f, -0.1f, 0.5f };
    float       dy[] = { 1.0f, -2.0f, 3.0f };
    const float clipped[] = { 0.0f, -2.0f, 3.0f };
    float       dx[] = { 5.0f, 5.0f, 5.0f };
    assert_ok(qg_twn_weight_quantizer_gradient(VECTOR(w, 3), VECTOR(dy, 3), own, VECTOR(dx, 3)));
    assert_same(3, dx, dy);
    assert_ok(qg_twn_weight_quantizer_gradient(VECTOR(w, 3), VECTOR(dy, 3), qg_surrogate_clip(1.0f), VECTOR(dx, 3)));
    assert_all_near(3, dx, clipped, 0.0);
}

static void ste_tern_by_hand(void **state)
{
    float       x[] = { 0.05f, 0.06f, -0.06f, 0.0f, 1.5f, NAN };
    float       dy[] = { 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f };
    const float want[] = { 0.0f, 1.0f, -1.0f, 0.0f, 1.0f, 0.0f };
    const float slope[] = { 1.0f, 1.0f, 1.0f, 1.0f, 0.0f, 0.0f };
    const float twn[] = { 0.0f, 0.0f, 0.0f, 0.0f, 1.0f };
    float       y[6];
    qg_array X = vector(x, 6);
    qg_array Y = vector(y, 6);
    assert_ok(qg_ste_tern_quantizer(&X, (qg_ste_tern_attrs){ .threshold_value = 0.05f }, &Y));
    assert_all_near(6, y, want, 0.0);
    assert_ok(qg_ste_tern_quantizer_gradient(&X, VECTOR(dy, 6), own, &Y));
    assert_all_near(6, y, slope, 0.0);
    X = vector(x, 5), Y = vector(y, 5); /* 0.7 mean|x| = 0.2338 */
    assert_ok(
        qg_ste_tern_quantizer(&X, (qg_ste_tern_attrs){ .ternary_weight_networks = true }, &Y));
    assert_all_near(5, y, twn, 0.0);

    /* Attributes are literal: a threshold of 0 is not the default of the scheme. */
    X = vector((float[]){ 0.01f, -0.01f, 0.0f, -0.0f }, 4), Y = vector(y, 4);
    assert_ok(qg_ste_tern_quantizer(&X, (qg_ste_tern_attrs){ .threshold_value = 0.0f }, &Y));
    assert_all_near(4, y, (float[]){ 1.0f, -1.0f, 0.0f, 0.0f }, 0.0);
}

static void refuses(void **state)
{
    float    w[6] = { 1.0f };
    float    q[6] = { 7.0f, 7.0f, 7.0f, 7.0f, 7.0f, 7.0f };
    float    alpha = 7.0f;
    qg_array W = matrix(w, 2, 3);
    qg_array Q = matrix(q, 2, 3);
    qg_array scalar = { .dtype = QG_F32, .rank = 0, .data = w };
    assert_failed(qg_twn_weight_quantizer(&W, -0.1f, &Q, NULL, &alpha), QG_EARG,
                   "threshold is -0.1");
    assert_failed(qg_twn_weight_quantizer(&W, NAN, &Q, NULL, &alpha), QG_EARG, "threshold is nan");
    assert_failed(qg_twn_weight_quantizer(&W, 0.7f, MATRIX(q, 3, 2), NULL, &alpha), QG_ESHAPE, "[3,2]");
    assert_failed(qg_twn_per_channel_weight_quantizer(&W, 2, 0.7f, &Q, NULL), QG_EARG,
                   "axis is 2, must be 0 .. 1");
    assert_failed(qg_twn_per_channel_weight_quantizer(&W, -1, 0.7f, &Q, NULL), QG_EARG,
                   "axis is -1");
    assert_failed(qg_twn_per_channel_weight_quantizer(&scalar, 0, 0.7f, &scalar, NULL), QG_ESHAPE,
                   "rank is 0");
    assert_failed(qg_twn_per_channel_weight_quantizer(&W, 0, 0.7f, &Q, VECTOR(q, 3)), QG_ESHAPE, "alpha");
    assert_failed(qg_twn_weight_quantizer_gradient(&W, MATRIX(q, 3, 2), own, &Q), QG_ESHAPE, "dy");
    assert_failed(qg_ste_tern_quantizer(&W, (qg_ste_tern_attrs){ .threshold_value = -1.0f }, &Q),
                   QG_EARG, "threshold_value is -1");
    for (int i = 0; i < 6; i++) assert_true(q[i] == 7.0f);
    assert_true(alpha == 7.0f);
}

/* --- on a tape ---------------------------------------------------------------------------------- */

static const qg_shape shapes[] = {
    { 33, 3, 3, 31 }, { 1, 1, 1, 1 }, { 3, 1, 1, 65 }, { 65, 5, 5, 63 }, { 63, 1, 1, 1 }
};
enum { SHAPES = 5 };

static qg_quant twn(bool per_channel) { return qg_twn((qg_twn_spec){ .per_channel = per_channel }); }

static void codes_are_exact(void **state)
{
    for (int s = 0; s < SHAPES; s++) {
        const qg_quant q[] = { twn(false), twn(true), qg_ste_tern((qg_ste_tern_spec){ .absolute = true }),
                               qg_ste_tern((qg_ste_tern_spec){ 0 }) };
        for (int k = 0; k < 4; k++) {
            rig c;
            fill_rig(&c, q[k], shapes[s], 7);
            assert_codes_give_values(&c, -1, 1, 0);
            close_rig(&c);
        }
    }
}

/* One output channel of zeros, and one a hundred times larger: each is ternary by itself. */
static void channels_are_on_their_own(void **state)
{
    rig c;
    fill_rig(&c, twn(true), (qg_shape){ 3, 1, 1, 33 }, 8);
    for (int i = 0; i < 33; i++) c.x->value[i] = 0, c.x->value[33 + i] *= 100;
    forward_rig(&c, QG_TRAIN, 0);
    int kept[3] = { 0 };
    for (int i = 0; i < 99; i++) kept[i / 33] += c.y->data[i] != 0;
    assert_int_equal(kept[0], 0);
    assert_in_range(kept[1], 10, 32);
    assert_in_range(kept[2], 10, 32);
    c.q = twn(false);
    forward_rig(&c, QG_TRAIN, 0);
    for (int i = 66; i < 99; i++) assert_true(c.y->data[i] == 0);       /* drowned by the large one */
    close_rig(&c);
}

static void degenerate_tensors(void **state)
{
    for (int per_channel = 0; per_channel < 2; per_channel++) {
        rig c;
        fill_rig(&c, twn(per_channel), (qg_shape){ 3, 1, 1, 5 }, 8);
        memset(c.x->value, 0, c.n * sizeof(float));
        forward_rig(&c, QG_TRAIN, 0);
        for (size_t i = 0; i < c.n; i++) assert_true(c.y->data[i] == 0);
        assert_codes_give_values(&c, 0, 0, 0);
        close_rig(&c);
    }
}

static void a_replaced_surrogate_rules(void **state)
{
    for (int per_channel = 0; per_channel < 2; per_channel++) {
        rig c;
        fill_rig(&c,
                  qg_twn((qg_twn_spec){ .per_channel = per_channel, .surrogate = qg_surrogate_approx_sign() }),
                  shapes[0], 8);
        learn_rig(&c, 0);
        for (size_t i = 0; i < c.n; i++) {
            const float a = fabsf(c.x->value[i]);
            assert_true(c.x->grad[i] == c.dy[i] * (a <= 1 ? 2 - 2 * a : 0));
        }
        close_rig(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scale_by_hand),
        cmocka_unit_test(comparison_is_strict),
        cmocka_unit_test(degenerate_arrays),
        cmocka_unit_test(sums_do_not_overflow),
        cmocka_unit_test(codebook_scale_and_order),
        cmocka_unit_test(per_channel_is_twn_of_each_channel),
        cmocka_unit_test(gradient_is_the_identity_unless_replaced),
        cmocka_unit_test(ste_tern_by_hand),
        cmocka_unit_test(refuses),
        cmocka_unit_test(codes_are_exact),
        cmocka_unit_test(channels_are_on_their_own),
        cmocka_unit_test(degenerate_tensors),
        cmocka_unit_test(a_replaced_surrogate_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
