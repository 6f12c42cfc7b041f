#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/ops/conv2d.h"
#include "quant/reference/dorefa.h"
#include "tests/support/schemes.h"

static const qg_shape shapes[] = { { 33, 3, 3, 31 }, { 1, 1, 1, 1 }, { 3, 1, 1, 65 }, { 65, 5, 5, 63 } };
enum { SHAPES = 4, MOST = 65 * 5 * 5 * 63 };

static float expected[MOST];

static qg_quant weight(int bits, bool through_max)
{
    return qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = bits, .through_max = through_max });
}

static qg_quant activation(int bits)
{
    return qg_dorefa_activation((qg_dorefa_activation_spec){ .bits = bits });
}

/* --- weights ------------------------------------------------------------------------------ */

/* s(w) = tanh(w) / m, by libm in double. */
static double smooth_loss(const rig *c, size_t moved, double h, double fixed_m)
{
    double m = 0, sum = 0;
    for (size_t i = 0; i < c->n; i++) {
        const double t = tanh((double)c->x->value[i] + (i == moved ? h : 0));
        m              = fabs(t) > m ? fabs(t) : m;
        sum += (double)c->dy[i] * t;
    }
    return sum / (fixed_m > 0 ? fixed_m : m);
}

static void slopes_are_those_of_the_surrogate(void **state)
{
    for (int k = 0; k < 24; k++) {
        const bool  through_max = k % 2;
        rig c;
        /* Over the keys, the sum of dq tanh(w) and the largest w come with either sign. */
        fill_rig(&c, weight(3, through_max), (qg_shape){ 3, 1, 1, 11 }, (uint64_t)k);
        double m = 0;
        for (size_t i = 0; i < c.n; i++) m = fmax(m, fabs(tanh((double)c.x->value[i])));
        learn_rig(&c, 0);
        const double h = 1e-6, fixed = through_max ? 0 : m;
        for (size_t i = 0; i < c.n; i++) {
            const double slope = (smooth_loss(&c, i, h, fixed) - smooth_loss(&c, i, -h, fixed)) / (2 * h);
            /* Float tanh near 1 leaves 1 - t^2 an error of a few 1e-7. */
            assert_true(fabs((double)c.x->grad[i] - slope) < 2e-6);
        }
        close_rig(&c);
    }
}

static void weights_are_odd_multiples(void **state)
{
    for (int bits = 2; bits <= 8; bits++) {
        const float steps = (float)((1 << bits) - 1);
        rig c;
        fill_rig(&c, weight(bits, false), shapes[0], 4);
        c.x->value[7] = 0.0f;
        forward_rig(&c, QG_TRAIN, 0);
        for (size_t i = 0; i < c.n; i++) {
            const float odd = c.y->data[i] * steps;
            /* 2 (j / steps) - 1 rounds three times at values up to 2. */
            assert_true(fabsf(odd - roundf(odd)) < 4e-7f * steps);
            assert_int_equal(abs((int)roundf(odd)) % 2, 1);
            assert_true(fabsf(c.y->data[i]) <= 1.0f);
        }
        assert_true(fabsf(c.y->data[7] - 1.0f / steps) < 2e-7f);
        /* The code times its scale rounds otherwise than apply, which is bound to its source. */
        assert_codes_give_values(&c, -(1 << bits) + 1, (1 << bits) - 1, 2.5e-7);
        close_rig(&c);
    }
    rig c;
    fill_rig(&c, weight(1, false), shapes[0], 4);
    assert_codes_give_values(&c, -1, 1, 0);
    close_rig(&c);
}

static void all_zero_weights_stay_put(void **state)
{
    for (int bits = 1; bits <= 2; bits++) {
        rig c;
        fill_rig(&c, weight(bits, bits > 1), (qg_shape){ 3, 1, 1, 5 }, 4);
        memset(c.x->value, 0, c.n * sizeof(float));
        learn_rig(&c, 0);
        for (size_t i = 0; i < c.n; i++) {
            assert_true(fabsf(c.y->data[i] - (bits == 1 ? 0.0f : 1.0f / 3.0f)) < 1e-7f);
            assert_true(c.x->grad[i] == (bits == 1 ? c.dy[i] : 0.0f));
        }
        close_rig(&c);
    }
}

/* m = 0.75; with 2 bits the levels are odd multiples of m / 3. */
static void times_the_maximum(void **state)
{
    static const float tanhs[] = { -0.75f, -0.5f, 0.1f, 0.5f, 0.75f }, codes[] = { -3, -1, 1, 3, 3 };
    qg_dorefa_weight_spec spec = { .bits = 2, .times_max = true };
    rig                   c;
    fill_rig(&c, qg_dorefa_weight(spec), (qg_shape){ 1, 1, 1, 5 }, 4);
    for (int i = 0; i < 5; i++) c.x->value[i] = atanhf(tanhs[i]);
    c.x->value[1] += 0.01f, c.x->value[3] += 0.01f;         /* off their ties */
    learn_rig(&c, 0);
    for (int i = 0; i < 5; i++) {
        const double t = tanh((double)c.x->value[i]);
        /* Some roundings of values below 1. */
        assert_true(fabs((double)c.y->data[i] - (double)codes[i] / 4) < 2e-7);
        assert_true(fabs((double)c.x->grad[i] - (double)c.dy[i] * (1 - t * t)) < 4e-7);
    }
    assert_codes_give_values(&c, -3, 3, 2e-7);
    memset(c.x->value, 0, c.n * sizeof(float));
    learn_rig(&c, 0);
    for (int i = 0; i < 5; i++) assert_true(c.y->data[i] == 0.0f && c.x->grad[i] == 0.0f);
    assert_codes_give_values(&c, 1, 1, 0);                  /* 0 is no code, but a scale */
    close_rig(&c);
    spec.through_max = true;
    assert_refused_in_net(qg_dorefa_weight(spec), QG_WEIGHT, "max=through", "scale=max");
    spec = (qg_dorefa_weight_spec){ .bits = 3, .through_max = true, .surrogate = qg_surrogate_clip(1) };
    assert_refused_in_net(qg_dorefa_weight(spec), QG_WEIGHT, "max=through", "surrogate");
}

static void a_replaced_surrogate_rules(void **state)
{
    qg_dorefa_weight_spec spec = { .bits = 2, .surrogate = qg_surrogate_clip(0.5f) };
    rig                   c;
    fill_rig(&c, qg_dorefa_weight(spec), shapes[0], 4);
    learn_rig(&c, 0);
    for (size_t i = 0; i < c.n; i++)
        assert_true(c.x->grad[i] == (fabsf(c.x->value[i]) <= 0.5f ? c.dy[i] : 0.0f));
    close_rig(&c);
}

/* --- activations -------------------------------------------------------------------------- */

static void activation_codes_are_steps(void **state)
{
    for (int k = 1; k <= 8; k++) {
        rig c;
        fill_rig(&c, qg_dorefa_activation((qg_dorefa_activation_spec){ .bits = k, .ties_up = k % 2 }), shapes[3], 8);
        c.x->value[0] = 0.0f, c.x->value[1] = 1.0f, c.x->value[2] = 0.5f, c.x->value[3] = 1.0f / 6.0f;
        /* code / steps against code * (1 / steps): one rounding more, at most 1. */
        assert_codes_give_values(&c, 0, (1 << k) - 1, 1.2e-7);
        close_rig(&c);
    }
}

/* --- gradients ---------------------------------------------------------------------------- */

static qg_quant gradient(int bits, bool no_noise)
{
    return qg_dorefa_gradient((qg_dorefa_gradient_spec){ .bits = bits, .no_noise = no_noise });
}

static void gradients_are_those_of_the_operator(void **state)
{
    static float noise[MOST];
    for (int k = 0; k < 12; k++) {
        const int  bits = 1 + k % 6;
        const bool noisy = k < 6;
        rig c;
        fill_rig(&c, gradient(bits, !noisy), shapes[k % SHAPES], 3);
        memset(c.dy, 0, qg_row(c.x->shape) * sizeof(float));        /* the first sample has no gradient */
        forward_rig(&c, QG_TRAIN, 5);
        assert_ptr_equal(c.y->data, c.x->value);        /* nothing is copied */
        backward_rig(&c);
        qg_tape_begin(c.t, QG_TRAIN, RIG_KEY, 5);
        const qg_array dy = rig_array(c.x->shape, c.dy);
        qg_array       y = rig_array(c.x->shape, expected), u = rig_array(c.x->shape, noise);
        assert_ok(qg_dorefa_gradient_noise(qg_tape_key(c.t), bits, &u));
        assert_ok(qg_dorefa_gradient_quantizer(&dy, bits, noisy ? &u : NULL, &y));
        /* == and not the bits: 0 + -0 is 0 where the gradient of a parameter accumulates. */
        for (size_t i = 0; i < c.n; i++) assert_true(c.x->grad[i] == expected[i]);
        for (size_t i = 0; i < qg_row(c.x->shape); i++) assert_true(c.x->grad[i] == 0.0f);
        close_rig(&c);
    }
}

/* x + quantized x: the quantized gradient is added to what is there, or the other way round. */
static void gradients_accumulate(void **state)
{
    for (int first = 0; first < 2; first++) {
        rig c;
        fill_rig(&c, gradient(3, true), (qg_shape){ 3, 2, 2, 5 }, 3);
        qg_tape_begin(c.t, QG_TRAIN, 1, 0);
        qg_var *x = qg_scale(c.t, qg_parameter(c.t, c.x), 1);
        qg_var *q = first ? qg_quantize(c.t, c.q, x, NULL) : NULL;
        qg_var *z = qg_scale(c.t, x, 1);
        if (!first) q = qg_quantize(c.t, c.q, x, NULL);
        c.y = qg_add(c.t, z, q);
        backward_rig(&c);
        const qg_array dy = rig_array(c.x->shape, c.dy);
        qg_array       y  = rig_array(c.x->shape, expected);
        assert_ok(qg_dorefa_gradient_quantizer(&dy, 3, NULL, &y));
        for (size_t i = 0; i < c.n; i++) expected[i] += c.dy[i];
        assert_close(c.x->grad, expected, c.n, 0);
        close_rig(&c);
    }
}

static void evaluation_and_waiting_leave_no_trace(void **state)
{
    qg_quant q = gradient(2, false);
    q.after    = 4;
    rig c;
    fill_rig(&c, q, (qg_shape){ 3, 2, 2, 5 }, 3);
    assert_null(forward_rig(&c, QG_EVAL, 9)->op);
    assert_null(forward_rig(&c, QG_TRAIN, 3)->op);
    assert_non_null(forward_rig(&c, QG_TRAIN, 4)->op);
    close_rig(&c);
}

/* Noise makes the quantizer unbiased away from +-m, where the clip bites. */
static void gradients_are_unbiased(void **state)
{
    enum { STEPS = 4000 };
    rig c;
    fill_rig(&c, gradient(2, false), (qg_shape){ 1, 1, 1, 4 }, 3);
    const float dy[] = { 1.0f, 0.1f, -0.45f, 0.3f };
    double      mean[4] = { 0 };
    memcpy(c.dy, dy, sizeof dy);
    for (uint64_t step = 0; step < STEPS; step++) {
        learn_rig(&c, step);
        for (int i = 0; i < 4; i++) mean[i] += (double)c.x->grad[i] / STEPS;
    }
    /* One draw deviates by at most 1/3, half a level; 4 sigma of the mean of 4000 is 0.021. */
    for (int i = 1; i < 4; i++) assert_true(fabs(mean[i] - (double)dy[i]) < 0.021);
    close_rig(&c);
}

static void batch_sums_stay_visible(void **state)
{
    qg_params p = { 0 };
    qg_tape  *t = qg_tape_new();
    declare(&p, "w", (qg_shape){ 33, 3, 3, 5 });
    declare(&p, "x", (qg_shape){ 3, 7, 7, 5 });
    allocate_apart(&p, 1);
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *y = qg__conv2d(t, qg_parameter(t, p.item[1]), qg_parameter(t, p.item[0]), NULL, (qg_conv_spec){ 0 }, true);
    assert_non_null(qg__image_sums(y));
    const qg_var *q = qg_quantize(t, gradient(4, false), y, NULL);
    assert_ptr_equal(qg__image_sums(q), qg__image_sums(y));
    assert_ptr_equal(q->data, y->data);
    qg_tape_free(t);
    qg_params_release(&p);
}

/* --- all ---------------------------------------------------------------------------------- */

static void bits_32_are_floats(void **state)
{
    assert_null(weight(32, false).scheme);
    assert_null(gradient(32, false).scheme);
    qg_codes codes = { 0 };
    const qg_quant q = activation(32);
    assert_failed(qg_encode(q, (qg_tensor){ { 1, 1, 1, 1 }, NULL }, NULL, &codes), QG_EARG, "32 bits");
}

/* Each output channel is a tensor of its own, whose largest or mean |w| decides. */
static void channels_are_on_their_own(void **state)
{
    static const int bits[] = { 1, 3, 16 };
    const qg_shape   shape  = { 4, 3, 3, 33 };
    const size_t     row    = qg_row(shape);
    for (int k = 0; k < 9; k++) {
        const bool                  several = bits[k / 3] > 1;
        const qg_dorefa_weight_spec spec = { .bits        = bits[k / 3],
                                             .through_max = k % 3 == 1 && several,
                                             .times_max   = k % 3 == 2 && several };
        qg_dorefa_weight_spec       rows = spec;
        rig                         all;
        rows.per_channel = true;
        fill_rig(&all, qg_dorefa_weight(rows), shape, 9);
        for (size_t i = 0; i < all.n; i++) all.x->value[i] *= (float)(1 + i / row);
        assert_codes_give_values(&all, -65535, 65535, 1e-6);       /* scale and quotient are rounded apart */
        learn_rig(&all, 0);
        for (size_t i = 0; i < 4; i++) {
            rig one;
            fill_rig(&one, qg_dorefa_weight(spec), (qg_shape){ 1, 3, 3, 33 }, 9);
            memcpy(one.x->value, all.x->value + i * row, row * sizeof(float));
            memcpy(one.dy, all.dy + i * row, row * sizeof(float));
            learn_rig(&one, 0);
            assert_memory_equal(one.y->data, all.y->data + i * row, row * sizeof(float));
            assert_memory_equal(one.x->grad, all.x->grad + i * row, row * sizeof(float));
            close_rig(&one);
        }
        close_rig(&all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slopes_are_those_of_the_surrogate),
        cmocka_unit_test(weights_are_odd_multiples),
        cmocka_unit_test(all_zero_weights_stay_put),
        cmocka_unit_test(times_the_maximum),
        cmocka_unit_test(a_replaced_surrogate_rules),
        cmocka_unit_test(activation_codes_are_steps),
        cmocka_unit_test(gradients_are_those_of_the_operator),
        cmocka_unit_test(gradients_accumulate),
        cmocka_unit_test(evaluation_and_waiting_leave_no_trace),
        cmocka_unit_test(gradients_are_unbiased),
        cmocka_unit_test(batch_sums_stay_visible),
        cmocka_unit_test(bits_32_are_floats),
        cmocka_unit_test(channels_are_on_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
