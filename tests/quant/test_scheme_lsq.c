#include "tests/support/schemes.h"

#include <math.h>
#include <string.h>

#include "layers/layer.h"
#include "quant/schemes/lsq.h"

static const qg_shape shapes[] = { { 1, 1, 1, 1 }, { 3, 1, 1, 1 }, { 1, 1, 31, 33 }, { 65, 3, 1, 63 }, { 31, 33, 5, 7 } };
enum { SHAPES = sizeof shapes / sizeof shapes[0], MOST = 31 * 33 * 5 * 7 };
enum { STEP, SEEN };

static float x_data[MOST], dy[MOST], expected[MOST];

static qg_quant lsq(int bits, bool is_signed)
{
    return qg_lsq((qg_lsq_spec){ .bits = bits, .is_signed = is_signed });
}

static qg_array array(float *data, size_t n)
{
    return (qg_array){ .dtype = QG_F32, .rank = 1, .dims = { n }, .data = data };
}

static qg_lsq_attrs attrs(int bits, bool is_signed, float step, size_t numbers)
{
    const int qn = is_signed ? 1 << (bits - 1) : 0, qp = is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
    return (qg_lsq_attrs){ .step = step, .qn = qn, .qp = qp, .grad_scale = 1.0 / sqrt((double)numbers * qp) };
}

static void compare(qg_shape shape, int bits, bool is_signed, qg_role role)
{
    rig          r;
    const size_t n = qg_count(shape);
    const float  step = 0.9f / (float)(1 << (bits - 1));
    open_rig(&r, lsq(bits, is_signed), role, shape);
    r.learned[STEP]->value[0] = step;
    r.learned[SEEN]->value[0] = 1.0f;
    fill_uniform(r.x->value, n, -1.0f, 2.0f, 5);
    fill_uniform(dy, n, -1.0f, 1.0f, 6);
    train_rig(&r, 0, dy);
    qg_array           x = array(r.x->value, n), y = array(expected, n), g = array(dy, n);
    const qg_lsq_attrs a = attrs(bits, is_signed, step, role == QG_WEIGHT ? n : qg_row(shape));
    float              ds;
    assert_int_equal(qg_lsq_quantizer(&x, a, &y), QG_OK);
    assert_memory_equal(r.y->data, expected, n * sizeof *expected);
    assert_int_equal(qg_lsq_quantizer_gradient(&x, &g, a, &y, &ds), QG_OK);
    assert_memory_equal(r.x->grad, expected, n * sizeof *expected);
    /* Double sums cut elsewhere, and a scale that was rounded to float. */
    assert_close(r.learned[STEP]->grad, &ds, 1, 1e-6 * (1.0 + fabs((double)ds)));
    close_rig(&r);
}

static void equals_the_plain_operator(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        for (int bits = 1; bits <= 16; bits++) {
            if (bits > 1) compare(shapes[i], bits, true, QG_WEIGHT);
            if (bits > 1) compare(shapes[i], bits, true, QG_INPUT);
            compare(shapes[i], bits, false, QG_INPUT);
        }
}

/* --- the first step -------------------------------------------------------------------------- */

static void weights_start_from_their_mean(void **state)
{
    (void)state;
    rig r;
    open_rig(&r, lsq(3, true), QG_WEIGHT, (qg_shape){ 1, 1, 1, 4 });
    memcpy(r.x->value, (float[]){ -1.0f, 2.0f, 3.0f, -4.0f }, 4 * sizeof(float));
    start_rig(&r, true);
    assert_true(r.learned[SEEN]->value[0] == 1.0f);
    assert_true(r.learned[STEP]->value[0] == (float)(2.0 * 2.5 / sqrt(3.0)));
    memset(r.x->value, 0, 4 * sizeof(float));
    start_rig(&r, true);
    assert_true(r.learned[STEP]->value[0] == 0x1p-30f);
    assert_int_equal(run_rig(&r, QG_EVAL, 0), QG_OK);
    for (int i = 0; i < 4; i++) assert_true(r.y->data[i] == 0.0f);
    close_rig(&r);
}

static void activations_start_from_the_first_batch_of_training(void **state)
{
    (void)state;
    rig         r;
    const float g[4] = { 1.0f, 1.0f, 1.0f, 1.0f }, batch[4] = { -1.0f, 2.0f, 3.0f, -4.0f };
    qg_quant    q = lsq(2, false);
    q.after = 5;
    open_rig(&r, q, QG_INPUT, (qg_shape){ 1, 1, 1, 4 });
    start_rig(&r, false);
    memcpy(r.x->value, batch, sizeof batch);
    train_rig(&r, 4, g);        /* waits: a relu, and nothing is taken from this batch */
    assert_true(r.y->data[0] == 0.0f && r.y->data[1] == 2.0f && r.learned[SEEN]->value[0] == 0.0f);
    assert_int_equal(run_rig(&r, QG_EVAL, 9), QG_OK);   /* never in evaluation */
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
    (void)state;
    rig         r;
    const float one = 1.0f;
    open_rig(&r, lsq(2, true), QG_WEIGHT, (qg_shape){ 1, 1, 1, 1 });
    r.x->value[0]             = 1.0f;
    r.learned[STEP]->value[0] = -0.25f;
    r.learned[SEEN]->value[0] = 1.0f;
    assert_int_equal(run_rig(&r, QG_EVAL, 0), QG_OK);
    assert_true(r.y->data[0] == 0x1p-30f && r.learned[STEP]->value[0] == -0.25f);
    train_rig(&r, 0, &one);
    assert_true(r.y->data[0] == 0x1p-30f && r.learned[STEP]->value[0] == 0x1p-30f);
    assert_true(r.learned[STEP]->grad[0] > 0.0f);   /* qp dy / sqrt(N qp): the way back is open */
    close_rig(&r);
}

/* --- gradients ------------------------------------------------------------------------------- */

static double unsigned_clip(double x, void *context)
{
    (void)context;
    return fmin(fmax(x, 0.0), 0.75);
}

static double signed_clip(double x, void *context)
{
    (void)context;
    return fmin(fmax(x, -1.0), 0.75);
}

static void slope_is_that_of_the_clip(void **state)
{
    (void)state;
    const float unsigned_values[] = { 0.25f, 1.0f };
    assert_slope(lsq(2, false), QG_INPUT, unsigned_values, unsigned_clip, NULL, -1.0f, 2.0f);
    assert_slope(lsq(3, true), QG_INPUT, unsigned_values, signed_clip, NULL, -2.0f, 2.0f);
}

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
    (void)state;
    qg_quant  q = lsq(3, true);
    qg_params p = { 0 };
    declare(&p, "step", (qg_shape){ 1, 1, 1, 1 });
    assert_int_equal(qg_params_allocate(&p), QG_OK);
    p.item[0]->value[0] = 0.5f;
    for (int i = 0; i < 33; i++) x_data[i] = i % 2 ? 2.0f + (float)i : -2.5f - (float)i;
    qg_tape *t = qg_tape_new();
    assert_non_null(t);
    /* ... of what backward says: compared with the loss without it. */
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    assert_int_equal(qg_backward(t, total(t, build(t, &p, &q))), QG_OK);
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
    (void)state;
    for (int i = 0; i < 2; i++) {
        rig r;
        open_rig(&r, lsq(4, i == 0), i == 0 ? QG_WEIGHT : QG_INPUT, (qg_shape){ 3, 1, 5, 63 });
        fill_uniform(r.x->value, 3 * 5 * 63, -1.0f, 2.0f, 9);
        start_rig(&r, true);
        assert_codes(&r, 0.0);
        close_rig(&r);
    }
    rig      r;
    int32_t  code;
    float    scale;
    qg_codes codes = { .code = &code, .scale = &scale };
    open_rig(&r, lsq(4, false), QG_INPUT, (qg_shape){ 1, 1, 1, 1 });
    const float *learned[] = { r.learned[STEP]->value, r.learned[SEEN]->value };
    assert_int_equal(qg_encode(r.q, (qg_tensor){ r.x->shape, r.x->value }, learned, &codes), QG_ESTATE);
    assert_message("no batch has been seen");
    close_rig(&r);
}

static void refuses_bad_constants(void **state)
{
    (void)state;
    const qg_quant none = { 0 };
    assert_refused(none, lsq(0, false), "lsq: bits is 0");
    assert_refused(lsq(1, true), none, "lsq: bits is 1");
    assert_refused(lsq(17, true), none, "lsq: bits is 17");
    assert_refused(lsq(2, false), none, "lsq: unsigned codes are not for weights; set .is_signed = true");
}

/* N of the gradient scale, which inside a fused batch norm only the layer can tell. */
static void layers_say_how_many_numbers_there_are(void **state)
{
    (void)state;
    qg_net   *net = qg_net_new((qg_net_spec){ .height = 5, .width = 3, .channels = 7 });
    qg_layer *l = qg_net_conv2d(
        net, (qg_conv2d_spec){ .out = 2, .kernel = 3, .weight = lsq(2, true), .input = lsq(2, false) });
    assert_non_null(qg_net_build(net));
    const qg_product *p = qg_layer_product(l);
    assert_true(p->weight_slot.q.numbers == 2 * 3 * 3 * 7 && p->weight_slot.q.role == QG_WEIGHT);
    assert_true(p->input_slot.q.numbers == 5 * 3 * 7 && p->input_slot.q.role == QG_INPUT);
    qg_net_free(net);
}

static void works_in_nets(void **state)
{
    (void)state;
    assert_fused_equals_unfused(lsq(3, false), "lsq", 1);
    assert_fused_equals_unfused(lsq(3, true), "lsq", 1);
    qg_quant later = lsq(3, false);
    later.after    = 2;
    assert_trains_alike(lsq(4, true), lsq(3, false));
    assert_trains_alike(lsq(4, true), later);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_plain_operator),
        cmocka_unit_test(weights_start_from_their_mean),
        cmocka_unit_test(activations_start_from_the_first_batch_of_training),
        cmocka_unit_test(step_stays_positive),
        cmocka_unit_test(slope_is_that_of_the_clip),
        cmocka_unit_test(gradient_of_the_step_is_that_of_the_loss),
        cmocka_unit_test(codes_are_what_apply_gives),
        cmocka_unit_test(refuses_bad_constants),
        cmocka_unit_test(layers_say_how_many_numbers_there_are),
        cmocka_unit_test(works_in_nets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
