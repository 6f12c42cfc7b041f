#include "tests/support/testing.h"

#include <math.h>

#include "core/ops/ops.h"

/* --- an op with a derivative that can be spoilt ------------------------------------------- */

typedef enum fault { NONE, FACTOR, ONE_ELEMENT, NOTHING, NOT_A_NUMBER, ADDS } fault;

static void cube_backward(qg_tape *t, qg_var *y)
{
    const fault *f = y->saved;
    qg_var      *x = y->in[0];
    for (size_t i = 0, m = qg_count(x->shape); i < m; i++) {
        float slope = 3 * x->data[i] * x->data[i];
        if (*f == FACTOR) slope *= 1.01f;
        if (*f == ONE_ELEMENT && i == m - 1) slope = 0;
        if (*f == NOTHING) slope = 0;
        if (*f == NOT_A_NUMBER && i == 0) slope = NAN;
        x->grad[i] += y->grad[i] * slope;
    }
}

static const qg_op cube_op = { "cube", cube_backward, .assigns = false };
static const qg_op liar_op = { "cube", cube_backward, .assigns = true };     /* it adds */

static qg_var *cube(qg_tape *t, qg_var *x, fault f)
{
    if (!x) return NULL;
    const qg_op *op    = f == ADDS ? &liar_op : &cube_op;
    qg_var      *y     = qg_record(t, op, x->shape, x, NULL, NULL);
    fault       *saved = y ? qg_save(t, y, sizeof *saved) : NULL;
    if (!saved) return NULL;
    *saved = f;
    for (size_t i = 0, m = qg_count(x->shape); i < m; i++)
        y->data[i] = x->data[i] * x->data[i] * x->data[i];
    return y;
}

/* cube(v) + w, the cube perhaps wrong; w is the larger parameter and always right. */
static qg_var *build_cube(qg_tape *t, const qg_params *p, void *context)
{
    const fault *f = context;
    qg_var      *v = qg_scale(t, qg_parameter(t, p->item[0]), 1);
    return qg_bias(t, qg_parameter(t, p->item[1]), cube(t, v, *f));
}

static qg_params cube_params(void)
{
    qg_params p = { 0 };
    declare(&p, "v", (qg_shape){ 1, 1, 1, 33 });
    declare(&p, "w", (qg_shape){ 3, 2, 2, 33 });
    allocate_apart(&p, 4);
    return p;
}

static qg_gradcheck_result check_cube(fault f)
{
    qg_params           p = cube_params();
    qg_gradcheck_result r;
    qg_gradcheck_spec   spec = { .name = "cube", .params = &p, .build = build_cube, .context = &f };
    assert_ok(qg_gradcheck(spec, &r));
    qg_params_release(&p);
    return r;
}

static void a_right_gradient_is_far_below_the_tolerance(void **state)
{
    const qg_gradcheck_result r = check_cube(NONE);
    assert_true(r.pass);
    assert_true(r.error < r.tolerance / 10);
    assert_string_equal(r.name, "cube");
    assert_non_null(r.reason);
}

static void every_fault_is_found_and_its_parameter_named(void **state)
{
    const fault  faults[] = { FACTOR, ONE_ELEMENT, NOTHING, ADDS };
    const double least[]  = { 2e-3, 1e-2, 0.5, 0.1 };
    for (int i = 0; i < 4; i++) {
        const qg_gradcheck_result r = check_cube(faults[i]);
        assert_false(r.pass);
        assert_string_equal(r.worst, "v");
        assert_true(!(r.error <= least[i]));
    }
    const qg_gradcheck_result r = check_cube(NOT_A_NUMBER);
    assert_false(r.pass);
    assert_true(isnan(r.error));
}

static qg_var *build_tracking(qg_tape *t, const qg_params *p, void *context)
{
    for (int i = 0; i < p->count; i++)
        if (!p->item[i]->grad) p->item[i]->value[0] += 1;
    return qg_dropout(t, qg_parameter(t, p->item[0]), 0.5f);
}

static void values_end_as_they_were_and_gradients_at_zero(void **state)
{
    qg_params p = { 0 };
    declare(&p, "w", (qg_shape){ 1, 1, 1, 31 });
    assert_non_null(qg_params_declare(&p, (qg_param){ .name  = "calls",
                                                      .shape = { 1, 1, 1, 1 },
                                                      .group = QG_TRACKED }));
    allocate_apart(&p, 5);
    const uint64_t before = qg_params_digest(&p);
    assert_gradcheck((qg_gradcheck_spec){ .name   = "dropout", .params = &p,
                                          .build = build_tracking });
    assert_true(qg_params_digest(&p) == before);
    for (size_t i = 0; i < p.length; i++) assert_true(p.grad[i] == 0);
    qg_params_release(&p);
}

/* w times a running mean of ones, which each call moves. */
static qg_var *build_mean(qg_tape *t, const qg_params *p, void *context)
{
    float *mean = p->item[1]->value;
    *mean += 0.25f * (1 - *mean);
    return qg_scale(t, qg_parameter(t, p->item[0]), *mean);
}

static void every_evaluation_begins_with_the_same_state(void **state)
{
    qg_params p = { 0 };
    declare(&p, "w", (qg_shape){ 1, 1, 1, 31 });
    assert_non_null(qg_params_declare(&p, (qg_param){ .name  = "mean",
                                                      .shape = { 1, 1, 1, 1 },
                                                      .group = QG_TRACKED }));
    allocate_apart(&p, 5);
    assert_gradcheck((qg_gradcheck_spec){ .name = "mean", .params = &p, .build = build_mean });
    qg_params_release(&p);
}

/* A step function with the slope of x^3 behind it: right against the surrogate, not in itself. */
static qg_var *build_step(qg_tape *t, const qg_params *p, void *context)
{
    qg_var *y = build_cube(t, p, context);
    for (size_t i = 0, m = y ? qg_count(y->shape) : 0; i < m; i++) y->data[i] = y->data[i] > 0 ? 1 : -1;
    return y;
}

static void differences_may_be_those_of_a_surrogate(void **state)
{
    fault               f = NONE;
    qg_params           p = cube_params();
    qg_gradcheck_result r;
    qg_gradcheck_spec   spec = { .name = "step", .params = &p, .build = build_step, .context = &f };
    assert_ok(qg_gradcheck(spec, &r));
    assert_false(r.pass);
    spec.surrogate = build_cube;
    assert_ok(qg_gradcheck(spec, &r));
    assert_true(r.pass && r.error < r.tolerance / 10 && r.least > 0);
    f = FACTOR;
    assert_ok(qg_gradcheck(spec, &r));
    assert_false(r.pass);
    qg_params_release(&p);
}

static void a_gradient_of_nothing_is_told(void **state)
{
    fault               f = NONE;
    qg_params           p = cube_params();
    qg_gradcheck_result r;
    for (int i = 0; i < 33; i++) p.item[0]->value[i] = 0;
    for (int i = 0; i < p.count; i++) p.item[i]->frozen = i != 0;
    assert_int_equal(qg_gradcheck((qg_gradcheck_spec){ .name    = "cube",
                                                       .params  = &p,
                                                       .build   = build_cube,
                                                       .context = &f }, &r), QG_OK);
    assert_true(r.least == 0);
    qg_params_release(&p);
}

static qg_var *build_null(qg_tape *t, const qg_params *p, void *context)
{
    return NULL;
}

static qg_var *build_rejected(qg_tape *t, const qg_params *p, void *context)
{
    return qg_maxpool(t, qg_parameter(t, p->item[0]), 5);
}

static void what_cannot_be_checked_fails(void **state)
{
    fault               f = NONE;
    qg_params           p = cube_params(), none = { 0 };
    qg_gradcheck_result r = { .error = 7 };
    qg_gradcheck_spec   good = { .name = "cube", .params = &p, .build = build_cube, .context = &f };
    qg_gradcheck_spec   spec = good;
    spec.build = NULL;
    assert_int_equal(qg_gradcheck(spec, &r), QG_EARG);
    spec   = good;
    spec.h = -1;
    assert_failed(qg_gradcheck(spec, &r), QG_EARG, "gradcheck cube: h -1");
    spec        = good;
    spec.params = &none;
    assert_failed(qg_gradcheck(spec, &r), QG_ESTATE, "not allocated");
    spec       = good;
    spec.build = build_null;
    assert_failed(qg_gradcheck(spec, &r), QG_EARG, "build returned NULL");
    spec.build = build_rejected;
    assert_failed(qg_gradcheck(spec, &r), QG_EARG, "maxpool: size 5");
    p.item[0]->frozen = p.item[1]->frozen = true;
    assert_failed(qg_gradcheck(good, &r), QG_ESTATE, "no parameter is trained");
    assert_true(r.error == 7);
    qg_params_release(&p);
}

/* --- surrogates --------------------------------------------------------------------------- */

/* sign with the slope of hardtanh: clip to [-a, a], a the context; forward is its value's sign. */
static void sign_backward(qg_tape *t, qg_var *y)
{
    const float *a = y->saved;
    qg_var      *x = y->in[0];
    for (size_t i = 0, m = qg_count(x->shape); i < m; i++)
        if (x->data[i] >= -*a && x->data[i] <= *a) x->grad[i] += y->grad[i];
}

static const qg_op sign_op = { "sign", sign_backward, .assigns = false };

static qg_var *sign(qg_tape *t, qg_var *x, void *context)
{
    if (!x) return NULL;
    qg_var *y     = qg_record(t, &sign_op, x->shape, x, NULL, NULL);
    float  *saved = y ? qg_save(t, y, sizeof *saved) : NULL;
    if (!saved) return NULL;
    *saved = *(const float *)context;
    for (size_t i = 0, m = qg_count(x->shape); i < m; i++)
        y->data[i] = x->data[i] < 0 ? -1.0f : 1.0f;
    return y;
}

static double clip_to_one(double x, void *context)
{
    return x < -1 ? -1 : x > 1 ? 1 : x;
}

static qg_var *twice(qg_tape *t, qg_var *x, void *context)
{
    return qg_add(t, x, x);
}

static qg_var *to_scalar(qg_tape *t, qg_var *x, void *context)
{
    return qg_squared_hinge(t, x, context);
}

static void a_slope_is_compared_with_its_surrogate(void **state)
{
    float               a    = 1;
    qg_gradcheck_result r;
    qg_slopecheck_spec  spec = { .name = "sign", .op = sign, .surrogate = clip_to_one,
                                 .context = &a, .lo = -2, .hi = 2 };
    assert_ok(qg_slopecheck(spec, &r));
    assert_true(r.pass);
    a = 1.01f;      /* a mask one hundredth too wide: five points of 1021 over 4 lie in the gap */
    assert_ok(qg_slopecheck(spec, &r));
    assert_false(r.pass);
    assert_true(r.error > 0.3);
    spec.op = twice;
    assert_ok(qg_slopecheck(spec, &r));
    assert_false(r.pass);
}

static void a_slope_that_cannot_be_compared_fails(void **state)
{
    uint16_t            label = 0;
    qg_gradcheck_result r;
    qg_slopecheck_spec  spec = { .name = "sign", .op = sign, .surrogate = clip_to_one,
                                 .lo = 2, .hi = 2 };
    assert_failed(qg_slopecheck(spec, &r), QG_EARG, "slopecheck sign: lo 2");
    spec.hi = INFINITY;
    assert_int_equal(qg_slopecheck(spec, &r), QG_EARG);
    spec.hi     = 3;
    spec.points = -1;
    assert_int_equal(qg_slopecheck(spec, &r), QG_EARG);
    spec.points  = 33;
    spec.op      = to_scalar;
    spec.context = &label;
    assert_failed(qg_slopecheck(spec, &r), QG_ESHAPE, "[1,1,1,33] became [1,1,1,1]");
    spec.context = NULL;
    assert_failed(qg_slopecheck(spec, &r), QG_EARG, "labels");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_gradient_is_far_below_the_tolerance),
        cmocka_unit_test(every_fault_is_found_and_its_parameter_named),
        cmocka_unit_test(values_end_as_they_were_and_gradients_at_zero),
        cmocka_unit_test(every_evaluation_begins_with_the_same_state),
        cmocka_unit_test(differences_may_be_those_of_a_surrogate),
        cmocka_unit_test(a_gradient_of_nothing_is_told),
        cmocka_unit_test(what_cannot_be_checked_fails),
        cmocka_unit_test(a_slope_is_compared_with_its_surrogate),
        cmocka_unit_test(a_slope_that_cannot_be_compared_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
