#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "core/ops/ops.h"
#include "quant/schemes/twn.h"
#include "tests/support/scheme_case.h"

static const qg_shape shapes[] = {
    { 33, 3, 3, 31 }, { 1, 1, 1, 1 }, { 3, 1, 1, 65 }, { 65, 5, 5, 63 }, { 63, 1, 1, 1 }
};
enum { SHAPES = 5, MOST = 65 * 5 * 5 * 63 };

static float expected[MOST];

static qg_quant twn(bool per_channel) { return qg_twn((qg_twn_spec){ .per_channel = per_channel }); }

static void it_is_the_operator(void **state)
{
    (void)state;
    for (int s = 0; s < SHAPES; s++) {
        scheme_case c;
        case_open(&c, twn(false), shapes[s], (uint64_t)s);
        const qg_array x = case_array(c.x->shape, c.x->value);
        qg_array       y = case_array(c.x->shape, expected);
        case_forward(&c, QG_TRAIN, 0);
        assert_int_equal(qg_twn_weight_quantizer(&x, 0.7f, &y, NULL, NULL), QG_OK);
        assert_memory_equal(c.y->data, expected, c.n * sizeof(float));
        case_backward(&c);
        assert_memory_equal(c.x->grad, c.dy, c.n * sizeof(float));
        c.q = twn(true);
        case_forward(&c, QG_TRAIN, 0);
        assert_int_equal(qg_twn_per_channel_weight_quantizer(&x, 0, 0.7f, &y, NULL), QG_OK);
        assert_memory_equal(c.y->data, expected, c.n * sizeof(float));
        case_backward(&c);
        assert_memory_equal(c.x->grad, c.dy, c.n * sizeof(float));
        case_close(&c);
    }
}

static void larq_s_is_its_operator(void **state)
{
    (void)state;
    for (int k = 0; k < 2 * SHAPES; k++) {
        const bool  relative = k >= SHAPES;
        scheme_case c;
        case_open(&c, qg_ste_tern((qg_ste_tern_spec){ .relative = relative }), shapes[k % SHAPES],
                  (uint64_t)k);
        const qg_ste_tern_attrs attrs = { .threshold_value = 0.05f, .ternary_weight_networks = relative };
        const qg_array          x     = case_array(c.x->shape, c.x->value);
        qg_array                y     = case_array(c.x->shape, expected);
        case_forward(&c, QG_TRAIN, 0);
        assert_int_equal(qg_ste_tern_quantizer(&x, attrs, &y), QG_OK);
        assert_memory_equal(c.y->data, expected, c.n * sizeof(float));
        case_backward(&c);
        for (size_t i = 0; i < c.n; i++)
            assert_true(c.x->grad[i] == (fabsf(c.x->value[i]) <= 1 ? c.dy[i] : 0));
        case_close(&c);
    }
}

static void codes_are_exact(void **state)
{
    (void)state;
    for (int s = 0; s < SHAPES; s++) {
        const qg_quant q[] = { twn(false), twn(true), qg_ste_tern((qg_ste_tern_spec){ 0 }),
                               qg_ste_tern((qg_ste_tern_spec){ .relative = true }) };
        for (int k = 0; k < 4; k++) {
            scheme_case c;
            case_open(&c, q[k], shapes[s], 7);
            assert_codes_give_values(&c, -1, 1, 0);
            case_close(&c);
        }
    }
}

/* One output channel of zeros, and one a hundred times larger: each is ternary by itself. */
static void channels_are_on_their_own(void **state)
{
    (void)state;
    scheme_case c;
    case_open(&c, twn(true), (qg_shape){ 3, 1, 1, 33 }, 8);
    for (int i = 0; i < 33; i++) c.x->value[i] = 0, c.x->value[33 + i] *= 100;
    case_forward(&c, QG_TRAIN, 0);
    int kept[3] = { 0 };
    for (int i = 0; i < 99; i++) kept[i / 33] += c.y->data[i] != 0;
    assert_int_equal(kept[0], 0);
    assert_in_range(kept[1], 10, 32);
    assert_in_range(kept[2], 10, 32);
    c.q = twn(false);
    case_forward(&c, QG_TRAIN, 0);
    for (int i = 66; i < 99; i++) assert_true(c.y->data[i] == 0);       /* drowned by the large one */
    case_close(&c);
}

static void degenerate_tensors(void **state)
{
    (void)state;
    for (int per_channel = 0; per_channel < 2; per_channel++) {
        scheme_case c;
        case_open(&c, twn(per_channel), (qg_shape){ 3, 1, 1, 5 }, 8);
        memset(c.x->value, 0, c.n * sizeof(float));
        case_forward(&c, QG_TRAIN, 0);
        for (size_t i = 0; i < c.n; i++) assert_true(c.y->data[i] == 0);
        assert_codes_give_values(&c, 0, 0, 0);
        case_close(&c);
    }
}

static void a_replaced_surrogate_rules(void **state)
{
    (void)state;
    for (int per_channel = 0; per_channel < 2; per_channel++) {
        scheme_case c;
        case_open(&c,
                  qg_twn((qg_twn_spec){ .per_channel = per_channel, .surrogate = qg_surrogate_approx_sign() }),
                  shapes[0], 8);
        case_forward(&c, QG_TRAIN, 0);
        case_backward(&c);
        for (size_t i = 0; i < c.n; i++) {
            const float a = fabsf(c.x->value[i]);
            assert_true(c.x->grad[i] == c.dy[i] * (a <= 1 ? 2 - 2 * a : 0));
        }
        case_close(&c);
    }
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    const qg_quant none = { 0 };
    assert_any_threads(twn(false), none, none, false);
    assert_any_threads(twn(true), none, none, false);
    assert_any_threads(qg_ste_tern((qg_ste_tern_spec){ 0 }), none, none, false);
}

static void illegal_thresholds_are_named(void **state)
{
    (void)state;
    case_refused(qg_twn((qg_twn_spec){ .threshold = -1 }), QG_WEIGHT, "fc1.weight: twn", "threshold is -1");
    case_refused(qg_ste_tern((qg_ste_tern_spec){ .threshold = INFINITY }), QG_WEIGHT, "ste-tern",
                   "threshold is inf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_operator),
        cmocka_unit_test(larq_s_is_its_operator),
        cmocka_unit_test(codes_are_exact),
        cmocka_unit_test(channels_are_on_their_own),
        cmocka_unit_test(degenerate_tensors),
        cmocka_unit_test(a_replaced_surrogate_rules),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(illegal_thresholds_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
