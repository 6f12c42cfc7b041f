#include "tests/support/views.h"

#include <math.h>
#include <string.h>

#include "layers/layer.h"
#include "quant/schemes/formulas.h"
#include "quant/reference/uniform.h"
#include "tests/support/schemes.h"

/* --- on arrays ---------------------------------------------------------------------------------- */

static qg_lsq_attrs signed_bits(int bits, float step)
{
    return (qg_lsq_attrs){
        .step = step, .qn = 1 << (bits - 1), .qp = (1 << (bits - 1)) - 1, .grad_scale = 1.0
    };
}

/* Signed 3 bits, s = 0.5: codes -4 .. 3, ties to even. */
static void codes_by_hand(void **state)
{
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
    static float x[MOST], v[MOST], y[MOST], z[MOST];
    fill_normal(1, 1.0f, MOST, x);
    for (size_t i = 0; i < MOST; i++) v[i] = 4.0f * x[i];
    for (int bits = 1; bits <= 16; bits++) {
        const float  step = 3.0f / (float)(1 << (bits - 1));
        qg_lsq_attrs a = signed_bits(bits, step);
        assert_ok(qg_lsq_quantizer(VECTOR(x, MOST), a, VECTOR(y, MOST)));
        assert_ok(qg_lsq_quantizer(VECTOR(y, MOST), a, VECTOR(z, MOST)));
        assert_same(MOST, z, y);
        for (size_t i = 0; i < MOST; i++) {
            const double code = (double)y[i] / (double)step;
            assert_near(code, round(code), 0.01); /* 32768 codes in float32: 2^-9 each */
            assert_true(round(code) >= -a.qn && round(code) <= a.qp);
        }
        a.step *= 4.0f; /* scaling x and s by a power of two scales q exactly */
        assert_ok(qg_lsq_quantizer(VECTOR(v, MOST), a, VECTOR(z, MOST)));
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
    static float x[MOST], g[MOST], dx[MOST];
    fill_normal(2, 1.0f, MOST, x);
    fill_normal(3, 1.0f, MOST, g);
    for (size_t k = 0; k < N_SIZES; k++) {
        const size_t n = awkward_sizes[k];
        const float  s = 0.37f;
        const double h = 1e-3;
        float        ds;
        assert_ok(qg_lsq_quantizer_gradient(VECTOR(x, n), VECTOR(g, n), signed_bits(3, s), VECTOR(dx, n), &ds));
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
    const float x[] = { 1.0f, -3.0f, 2.0f, -2.0f };
    /* mean|x| is 2, qp 3 with 3 bits and 1 with 2 */
    for (int bits = 2; bits <= 3; bits++) {
        qg_quant q = qg_lsq((qg_lsq_spec){ .bits = bits, .is_signed = true });
        float    step, seen = 0.0f;
        q.role = QG_WEIGHT;
        q.scheme->start(q, (qg_tensor){ { 4, 1, 1, 1 }, (float[]){ x[0], x[1], x[2], x[3] } }, (float *[]){ &step, &seen });
        assert_true(step == (bits == 2 ? 4.0f : (float)(4.0 / sqrt(3.0))) && seen == 1.0f);
        const float *const learned[] = { &step, &seen, NULL, NULL };
        const qg_constants k = qg__form_constants(q, (qg_span){ .numbers = 25 }, learned);
        assert_true(k.gain[0] == (float)(1.0 / sqrt(25.0 * (bits == 2 ? 1.0 : 3.0))));
    }
}

static void refuses(void **state)
{
    float        x[2] = { 1.0f };
    float        y[2] = { 7.0f, 7.0f };
    float        ds = 7.0f;
    qg_array X = vector(x, 2);
    qg_array Y = vector(y, 2);
    qg_lsq_attrs a = signed_bits(3, 0.0f);
    assert_failed(qg_lsq_quantizer(&X, a, &Y), QG_EARG, "step is 0, must be finite and above 0");
    a.step = -0.5f;
    assert_failed(qg_lsq_quantizer_gradient(&X, &X, a, &Y, &ds), QG_EARG, "step is -0.5");
    a.step = 0.5f, a.qn = -1;
    assert_failed(qg_lsq_quantizer(&X, a, &Y), QG_EARG, "qn is -1");
    a.qn = 0, a.qp = (1 << 24) + 1;
    assert_failed(qg_lsq_quantizer(&X, a, &Y), QG_EARG, "qp is 16777217");
    a.qp = 127, a.step = 3e36f;         /* the largest level would be infinite */
    assert_failed(qg_lsq_quantizer(&X, a, &Y), QG_EARG, "step is 3e+36, times 127 codes");
    a.qn = 128, a.qp = 0;
    assert_failed(qg_lsq_quantizer_gradient(&X, &X, a, &Y, &ds), QG_EARG, "times 128 codes");
    a.qn = 0, a.qp = 3, a.step = 0.5f;
    assert_failed(qg_lsq_quantizer(&X, a, VECTOR(y, 1)), QG_ESHAPE, "[1]");
    assert_failed(qg_lsq_quantizer_gradient(&X, VECTOR(y, 1), a, &Y, &ds), QG_ESHAPE, "dy");
    assert_true(y[0] == 7.0f && y[1] == 7.0f && ds == 7.0f);
    assert_ok(qg_lsq_quantizer(VECTOR(NULL, 0), a, VECTOR(NULL, 0)));
    assert_ok(qg_lsq_quantizer_gradient(VECTOR(NULL, 0), VECTOR(NULL, 0), a, VECTOR(NULL, 0), &ds));
    assert_true(ds == 0.0f);
}

/* --- on a tape ---------------------------------------------------------------------------------- */

enum { STEP, SEEN };

static float x_data[33];

static qg_quant lsq(int bits, bool is_signed)
{
    return qg_lsq((qg_lsq_spec){ .bits = bits, .is_signed = is_signed });
}

/* --- the first step -------------------------------------------------------------------------- */

static void weights_start_from_their_mean(void **state)
{
    rig r;
    open_rig(&r, lsq(3, true), QG_WEIGHT, (qg_shape){ 1, 1, 1, 4 });
    memcpy(r.x->value, (float[]){ -1.0f, 2.0f, 3.0f, -4.0f }, 4 * sizeof(float));
    start_rig(&r, true);
    assert_true(r.learned[SEEN]->value[0] == 1.0f);
    assert_true(r.learned[STEP]->value[0] == (float)(2.0 * 2.5 / sqrt(3.0)));
    memset(r.x->value, 0, 4 * sizeof(float));
    start_rig(&r, true);
    assert_true(r.learned[STEP]->value[0] == 0x1p-30f);
    assert_ok(run_rig(&r, QG_EVAL, 0));
    for (int i = 0; i < 4; i++) assert_true(r.y->data[i] == 0.0f);
    close_rig(&r);
}

static void activations_start_from_the_first_batch_of_training(void **state)
{
    rig         r;
    const float g[4] = { 1.0f, 1.0f, 1.0f, 1.0f }, batch[4] = { -1.0f, 2.0f, 3.0f, -4.0f };
    qg_quant    q = lsq(2, false);
    q.after = 5;
    open_rig(&r, q, QG_INPUT, (qg_shape){ 1, 1, 1, 4 });
    start_rig(&r, false);
    memcpy(r.x->value, batch, sizeof batch);
    train_rig(&r, 4, g);        /* waits: a relu, and nothing is taken from this batch */
    assert_true(r.y->data[0] == 0.0f && r.y->data[1] == 2.0f && r.learned[SEEN]->value[0] == 0.0f);
    assert_ok(run_rig(&r, QG_EVAL, 9));   /* never in evaluation */
    assert_true(r.y->data[0] == 0.0f && r.y->data[2] == 3.0f && r.learned[SEEN]->value[0] == 0.0f);
    memset(r.x->value, 0, sizeof batch);
    train_rig(&r, 5, g);        /* a batch of zeros says nothing */
    assert_true(r.learned[SEEN]->value[0] == 0.0f);
    memcpy(r.x->value, batch, sizeof batch);
    r.x->value[3] = NAN;
    train_rig(&r, 5, g);        /* nor does one with a NaN */
    assert_true(r.learned[SEEN]->value[0] == 0.0f && isnan(r.y->data[3]));
    memcpy(r.x->value, batch, sizeof batch);
    train_rig(&r, 5, g);
    const float step = (float)(2.0 * (5.0 / 4.0) / sqrt(3.0));
    assert_true(r.learned[SEEN]->value[0] == 1.0f && r.learned[STEP]->value[0] == step);
    assert_true(r.y->data[1] == step && r.y->data[2] == 2.0f * step && r.y->data[3] == 0.0f);
    r.x->value[1] = 100.0f;
    train_rig(&r, 6, g);        /* once */
    assert_true(r.learned[STEP]->value[0] == step);
    close_rig(&r);
}

static void step_stays_positive(void **state)
{
    rig         r;
    const float one = 1.0f;
    open_rig(&r, lsq(2, true), QG_WEIGHT, (qg_shape){ 1, 1, 1, 1 });
    r.x->value[0]             = 1.0f;
    r.learned[STEP]->value[0] = -0.25f;
    r.learned[SEEN]->value[0] = 1.0f;
    assert_ok(run_rig(&r, QG_EVAL, 0));
    assert_true(r.y->data[0] == 0x1p-30f && r.learned[STEP]->value[0] == -0.25f);
    train_rig(&r, 0, &one);
    assert_true(r.y->data[0] == 0x1p-30f && r.learned[STEP]->value[0] == 0x1p-30f);
    assert_true(r.learned[STEP]->grad[0] > 0.0f);   /* qp dy / sqrt(N qp): the way back is open */
    close_rig(&r);
}

/* --- gradients ------------------------------------------------------------------------------- */

/* Beyond the range q is -qn s or qp s, a true derivative; inside, the paper differentiates x / s
 * through the rounding, which finite differences cannot see.  x stays outside for every s that
 * the check tries. */
static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    static float one       = 1.0f;
    qg_var      *learned[] = { qg_parameter(t, p->item[0]), qg_input(t, (qg_tensor){ { 1, 1, 1, 1 }, &one }) };
    qg_var      *x = qg_input(t, (qg_tensor){ { 1, 1, 1, 33 }, x_data });
    qg_var      *y = qg_quantize(t, *(qg_quant *)context, x, learned);
    return qg_scale(t, y, sqrtf(33.0f * 3.0f));     /* takes the gradient scale out ... */
}

static void gradient_of_the_step_is_that_of_the_loss(void **state)
{
    qg_quant  q = lsq(3, true);
    qg_params p = { 0 };
    declare(&p, "step", (qg_shape){ 1, 1, 1, 1 });
    assert_ok(qg_params_allocate(&p));
    p.item[0]->value[0] = 0.5f;
    for (int i = 0; i < 33; i++) x_data[i] = i % 2 ? 2.0f + (float)i : -2.5f - (float)i;
    qg_tape *t = qg_tape_new();
    assert_non_null(t);
    /* ... of what backward says: compared with the loss without it. */
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    assert_ok(qg_backward(t, total(t, build(t, &p, &q))));
    double up = 0, down = 0;
    for (int side = 0; side < 2; side++) {
        p.item[0]->value[0] = 0.5f + (side ? -1.0f : 1.0f) / 64.0f;
        qg_tape_begin(t, QG_EVAL, 1, 0);
        qg_var *y = build(t, &p, &q);
        assert_non_null(y);
        for (int i = 0; i < 33; i++) *(side ? &down : &up) += (double)y->data[i] / sqrt(33.0 * 3.0);
    }
    /* Linear in the step, so only roundings of 33 floats of size 3 remain. */
    const float slope = (float)((up - down) * 32.0);
    assert_close(p.item[0]->grad, &slope, 1, 1e-3);
    qg_tape_free(t);
    qg_params_release(&p);
}

/* --- the rest -------------------------------------------------------------------------------- */

static void codes_are_what_apply_gives(void **state)
{
    for (int i = 0; i < 2; i++) {
        rig r;
        open_rig(&r, lsq(4, i == 0), i == 0 ? QG_WEIGHT : QG_INPUT, (qg_shape){ 3, 1, 5, 63 });
        fill_uniform(r.x->value, 3 * 5 * 63, -1.0f, 2.0f, 9);
        start_rig(&r, true);
        assert_codes_give_values(&r, i == 0 ? -8 : 0, i == 0 ? 7 : 15, 0);
        close_rig(&r);
    }
    for (int i = 0; i < 2; i++) {
        rig      r;
        int32_t  code;
        float    scale;
        qg_codes codes = { .code = &code, .scale = &scale };
        open_rig(&r, lsq(4, i == 0), i == 0 ? QG_WEIGHT : QG_INPUT, (qg_shape){ 1, 1, 1, 1 });
        const float *learned[] = { r.learned[STEP]->value, r.learned[SEEN]->value };
        assert_failed(qg_encode(r.q, (qg_tensor){ r.x->shape, r.x->value }, learned, &codes), QG_ESTATE,
                      i == 0 ? "are not set, so there are no codes" : "no batch has been seen");
        close_rig(&r);
    }
}

/* With a step per channel each row is a weight of its own, N of the gradient scale included. */
static void channels_are_weights_of_their_own(void **state)
{
    const qg_shape shape = { 4, 3, 3, 33 };
    const size_t   row   = qg_row(shape);
    static float   dy[4 * 9 * 33];
    rig            all;
    const qg_quant q = qg_lsq((qg_lsq_spec){ .bits = 3, .is_signed = true, .per_channel = true });
    open_rig(&all, q, QG_WEIGHT, shape);
    fill_uniform(all.x->value, all.n, -1, 1, 9);
    fill_uniform(dy, all.n, -1, 1, 10);
    for (size_t i = 0; i < all.n; i++) all.x->value[i] *= (float)(i / row);   /* row 0 is 0 */
    start_rig(&all, true);
    assert_true(all.learned[STEP]->value[0] == 0x1p-30f && qg_count(all.learned[SEEN]->shape) == 1);
    assert_codes_give_values(&all, -4, 3, 0);
    train_rig(&all, 0, dy);
    for (size_t i = 0; i < 4; i++) {
        rig one;
        open_rig(&one, lsq(3, true), QG_WEIGHT, (qg_shape){ 1, 3, 3, 33 });
        memcpy(one.x->value, all.x->value + i * row, row * sizeof(float));
        start_rig(&one, true);
        assert_true(one.learned[STEP]->value[0] == all.learned[STEP]->value[i]);
        train_rig(&one, 0, dy + i * row);
        assert_memory_equal(one.y->data, all.y->data + i * row, row * sizeof(float));
        assert_memory_equal(one.x->grad, all.x->grad + i * row, row * sizeof(float));
        assert_true(one.learned[STEP]->grad[0] == all.learned[STEP]->grad[i]);
        close_rig(&one);
    }
    close_rig(&all);

    assert_refused_in_net(q, QG_INPUT, "lsq", "inputs have one step");
}

/* The codes of weights are signed without being asked, as on the command line. */
static void a_role_decides_the_sign(void **state)
{
    const qg_shape shape = { 4, 1, 1, 3 };
    qg_binding     weight, input;
    qg_quant       text;
    char           said[256], given[256];
    assert_ok(qg_bind(qg_lsq((qg_lsq_spec){ 0 }), QG_WEIGHT, shape, &weight));
    assert_ok(qg_bind(qg_lsq((qg_lsq_spec){ 0 }), QG_INPUT, shape, &input));
    assert_ptr_equal(weight.q.scheme, &qg__lsq_scheme);
    assert_true(!weight.q.scheme->rectifies && input.q.scheme->rectifies);
    assert_true(weight.numbers == 12 && weight.inputs == 3 && input.numbers == 3 && !weight.frozen);
    assert_ok(qg_quant_parse("lsq", QG_WEIGHT, &text));
    qg_quant_print(text, said, sizeof said);
    qg_quant_print(weight.q, given, sizeof given);
    assert_string_equal(said, given);
    assert_failed(qg_quant_parse("lsq:signed=no", QG_WEIGHT, &text), QG_EARG, "unsigned codes are not for weights");
}

/* N of the gradient scale, which inside a fused batch norm only the layer can tell. */
static void layers_say_how_many_numbers_there_are(void **state)
{
    qg_net   *net = qg_net_new((qg_net_spec){ .height = 5, .width = 3, .channels = 7 });
    qg_layer *l = qg_net_conv2d(
        net, (qg_conv2d_spec){ .out = 2, .kernel = 3, .weight = lsq(2, true), .input = lsq(2, false) });
    assert_non_null(qg_net_build(net));
    const qg_product *p = qg_layer_product(l);
    assert_true(p->weight_slot.bound.numbers == 2 * 3 * 3 * 7 && p->weight_slot.q.role == QG_WEIGHT);
    assert_true(p->input_slot.bound.numbers == 5 * 3 * 7 && p->input_slot.q.role == QG_INPUT);
    qg_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_by_hand),
        cmocka_unit_test(codebook_and_scale),
        cmocka_unit_test(step_gradient_against_differences),
        cmocka_unit_test(initial_step_and_grad_scale),
        cmocka_unit_test(refuses),
        cmocka_unit_test(weights_start_from_their_mean),
        cmocka_unit_test(activations_start_from_the_first_batch_of_training),
        cmocka_unit_test(step_stays_positive),
        cmocka_unit_test(gradient_of_the_step_is_that_of_the_loss),
        cmocka_unit_test(codes_are_what_apply_gives),
        cmocka_unit_test(channels_are_weights_of_their_own),
        cmocka_unit_test(a_role_decides_the_sign),
        cmocka_unit_test(layers_say_how_many_numbers_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
