/* A scheme of one's own: nothing of the library knows it, and it is as good as a built-in one. */
#include "qgrad.h"

/* --- the scheme ---------------------------------------------------------------------------- */

/* Ternary weights whose scale is trained.
 *     q(w) = a t,  t = +1 if w > threshold, -1 if w < -threshold, else 0
 *     s(w) = w,    dL/da = sum of dL/dq t
 * a is a parameter, at first the mean of the |w| that are kept. */
typedef struct trained_ternary_spec {
    float threshold;            /* 0: 0.05 */
} trained_ternary_spec;

static float ternary(float w, float threshold) { return (float)((w > threshold) - (w < -threshold)); }

static void trained_ternary_backward(qg_tape *t, qg_var *q)
{
    qg_var      *w = q->in[0], *a = q->in[1];
    const float *threshold = q->saved;
    double       da = 0;
    for (size_t i = 0, n = qg_count(w->shape); i < n; i++) {
        if (w->grad) w->grad[i] += q->grad[i];
        da += (double)(q->grad[i] * ternary(w->data[i], *threshold));
    }
    if (a->grad) a->grad[0] += (float)da;
}

static const qg_op trained_ternary_op = { .name = "trained-ternary", .backward = trained_ternary_backward };

static qg_var *trained_ternary_apply(qg_tape *t, const qg_binding *b, qg_var *w, qg_var *const *learned)
{
    const qg_var *a = learned[0];
    qg_var       *q = qg_record(t, &trained_ternary_op, w->shape, w, learned[0], NULL);
    float        *threshold = q ? qg_save(t, q, sizeof *threshold) : NULL;
    if (!threshold) return NULL;
    *threshold = (float)b->q.arg[0];
    for (size_t i = 0, n = qg_count(w->shape); i < n; i++)
        q->data[i] = a->data[0] * ternary(w->data[i], *threshold);
    return q;
}

static void trained_ternary_start(qg_quant quant, qg_tensor w, float *const *learned)
{
    double sum = 0, kept = 0;
    for (size_t i = 0, n = qg_count(w.shape); i < n; i++) {
        const double t = (double)ternary(w.data[i], (float)quant.arg[0]);
        sum += t * (double)w.data[i], kept += t * t;
    }
    learned[0][0] = kept > 0 ? (float)(sum / kept) : 1.0f;
}

static const qg_learned trained_ternary_learns[] = { { .name = "a", .least = 0x1p-30f }, { .name = NULL } };

static const qg_scheme trained_ternary_scheme = {
    .name    = "trained-ternary",
    .explain = "Ternary weights whose scale is trained: q(w) = a t(w).\n",
    .learned = trained_ternary_learns,
    .roles   = QG_WEIGHT,
    .start   = trained_ternary_start,
    .apply   = trained_ternary_apply,
};

static qg_quant trained_ternary(trained_ternary_spec spec)
{
    return (qg_quant){ .scheme = &trained_ternary_scheme, .bits = 2,
                       .arg = { spec.threshold == 0 ? 0.05f : spec.threshold } };
}

/* --- its use ------------------------------------------------------------------------------- */

static qg_net *net_with(qg_quant weight)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = 12, .width = 12, .channels = 1, .seed = 3 });
    qg_net_conv2d   (net, (qg_conv2d_spec){ .out = 9, .kernel = 3, .weight = weight });
    qg_net_batchnorm(net);
    qg_net_relu     (net);
    qg_net_maxpool  (net, 2);
    qg_net_dense    (net, (qg_dense_spec){ .out = 4, .weight = weight });
    return net;
}

/* --- and its tests ------------------------------------------------------------------------- */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/nets.h"
#include "tests/support/testing.h"

enum { N = 33, IMAGE = 12 * 12 };

static void it_trains_in_conv2d_and_dense(void **state)
{
    static float   image[N * IMAGE];
    static uint16_t label[N];
    const qg_tensor x = { { N, 12, 12, 1 }, image };
    fill_bands(x.shape, 4, 1, image, label);
    qg_net    *net = net_with(trained_ternary((trained_ternary_spec){ 0 }));
    qg_params *p   = qg_net_build(net);
    qg_optim  *o   = qg_adam(p, (qg_adam_spec){ .lr = 1e-2f });
    qg_tape   *t   = qg_tape_new();
    qg_param  *a   = qg_params_find(p, "conv1.weight.a");
    assert_non_null(o);
    assert_non_null(a), assert_non_null(qg_params_find(p, "fc1.weight.a"));
    assert_int_equal(a->group, QG_SCALES);
    const float scale = a->value[0];
    assert_true(scale > 0.05f);         /* a mean of what is above the threshold */
    float first = 0, last = 0;
    for (uint64_t step = 0; step < 30; step++) {
        last = train_step(net, t, o, x, label, step);
        if (step == 0) first = last;
    }
    assert_true(last < 0.2f * first);
    assert_true(a->value[0] != scale);
    qg_tape_free(t), qg_optim_free(o), qg_net_free(net);
}

/* A step that leads below 0 ends at the least that the scheme allows. */
static void its_scales_stay_legal(void **state)
{
    qg_net    *net = net_with(trained_ternary((trained_ternary_spec){ 0 }));
    qg_params *p   = qg_net_build(net);
    qg_optim  *o   = qg_sgd(p, (qg_sgd_spec){ .lr = 1 });
    qg_param  *a   = qg_params_find(p, "conv1.weight.a");
    assert_non_null(o);
    a->grad[0] = 5;
    assert_ok(qg_optim_step(o));
    assert_true(a->value[0] == 0x1p-30f);
    qg_optim_free(o), qg_net_free(net);
}

static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    static float image[3 * IMAGE];
    fill_uniform(image, 3 * IMAGE, -1, 1, 1);
    return qg_net_forward(context, t, (qg_tensor){ { 3, 12, 12, 1 }, image });
}

/* The scales have true derivatives; what a weight gets is a pretended one, below.  relu and the
 * maximum have kinks, so they stay out of this net. */
static void its_scales_have_the_gradients_of_differences(void **state)
{
    const qg_quant q   = trained_ternary((trained_ternary_spec){ .threshold = 0.1f });
    qg_net        *net = qg_net_new((qg_net_spec){ .height = 12, .width = 12, .channels = 1, .seed = 3 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 9, .kernel = 3, .weight = q });
    qg_net_dense(net, (qg_dense_spec){ .out = 4, .weight = q });
    qg_params *p = qg_net_build(net);
    assert_non_null(p);
    qg_params_find(p, "conv1.weight")->frozen = qg_params_find(p, "fc1.weight")->frozen = true;
    assert_gradcheck((qg_gradcheck_spec){ .name = "trained-ternary", .params = p, .build = build,
                                          .context = net });
    qg_net_free(net);
}

static float two = 2;

static qg_var *quantize(qg_tape *t, qg_var *x, void *context)
{
    qg_var *a = qg_input(t, (qg_tensor){ { 1, 1, 1, 1 }, &two });
    return qg_quantize(t, trained_ternary((trained_ternary_spec){ .threshold = 0.5f }), x, &a);
}

static double identity(double x, void *context)
{
    return x;
}

static void its_weights_get_the_gradient_of_the_surrogate(void **state)
{
    qg_gradcheck_result r;
    assert_int_equal(qg_slopecheck((qg_slopecheck_spec){ .name = "trained-ternary", .op = quantize,
                                                         .surrogate = identity, .lo = -2,
                                                         .hi = 2 }, &r), QG_OK);
    assert_true(r.pass);
}

static void its_values_are_its_formula(void **state)
{
    float    w[] = { -0.6f, -0.5f, -0.0f, 0.5f, 0.50001f, 3, NAN };
    qg_tape *t   = qg_tape_new();
    qg_tape_begin(t, QG_EVAL, 0, 0);
    const qg_var *q = quantize(t, qg_input(t, (qg_tensor){ { 1, 1, 1, 7 }, w }), NULL);
    assert_close(q->data, (float[]){ -2, 0, 0, 0, 2, 2, 0 }, 7, 0);
    qg_tape_free(t);
}

static void misuse_is_told(void **state)
{
    const qg_quant q = trained_ternary((trained_ternary_spec){ 0 });
    float    w[1] = { 1 };
    qg_tape *t    = qg_tape_new();
    qg_tape_begin(t, QG_EVAL, 0, 0);
    assert_null(qg_quantize(t, q, qg_input(t, (qg_tensor){ { 1, 1, 1, 1 }, w }), NULL));
    assert_failed(qg_tape_status(t), QG_EARG, "trained-ternary: learns a, which is missing");
    qg_tape_free(t);
    qg_net *net = qg_net_new((qg_net_spec){ .height = 12, .width = 12, .channels = 1, .seed = 3 });
    qg_net_dense(net, (qg_dense_spec){ .out = 4, .input = q });
    assert_none(qg_net_build(net), "fc1.input: trained-ternary does not quantize inputs");
    qg_net_free(net);

    qg_scheme      hollow = trained_ternary_scheme;
    const qg_quant wrong[] = { { .scheme = &hollow, .bits = 2 },
                               { .scheme = &trained_ternary_scheme, .bits = -5 },
                               { .scheme = &trained_ternary_scheme, .bits = 2, .per_channel = true } };
    const char *const says[] = { "fc1.weight: trained-ternary: the scheme has no form, activation or apply",
                                 "fc1.weight: trained-ternary: bits is -5, not 1 .. 32",
                                 "fc1.weight: trained-ternary: does not support scales per channel" };
    hollow.apply = NULL;
    for (int i = 0; i < 3; i++) {
        net = qg_net_new((qg_net_spec){ .height = 12, .width = 12, .channels = 1, .seed = 3 });
        qg_net_dense(net, (qg_dense_spec){ .out = 4, .weight = wrong[i] });
        assert_none(qg_net_build(net), says[i]);
        qg_net_free(net);
    }
}

static qg_constants unit_signs(qg_quant q, qg_span x, const float *learned) { return (qg_constants){ .sign = { 1 } }; }

static qg_mix no_mix(qg_quant q, qg_span x, const qg_constants *k, const double *sum) { return (qg_mix){ .through = 1 }; }

static qg_status check(qg_quant q)
{
    qg_binding b;
    return qg_bind(q, QG_INPUT, (qg_shape){ 2, 3, 3, 4 }, &b);
}

/* What the engine of forms relies on. */
static void a_form_has_its_rules(void **state)
{
    static const qg_learned late[] = { { .name = "seen", .tracked = true }, { .name = "a" }, { .name = NULL } };
    static const qg_learned many[] = { { .name = "a" }, { .name = "b" }, { .name = "c" }, { .name = NULL } };
    const qg_scheme         plain  = { .name = "formed", .roles = QG_WEIGHT | QG_INPUT, .granularity = QG_EITHER_SCALE,
                                       .form = &qg_sign_form, .ops = QG_FORM_OPS("formed"), .constants = unit_signs };
    qg_scheme s = plain;
    assert_int_equal(check((qg_quant){ .scheme = &s, .bits = 1, .per_channel = true }), QG_OK);
    s.learned = late;
    assert_failed(check((qg_quant){ .scheme = &s, .bits = 1 }), QG_EARG, "a is trained, so it must come before");
    s.learned = many;
    assert_failed(check((qg_quant){ .scheme = &s, .bits = 1 }), QG_EARG, "trains 3 values");
    s.learned = trained_ternary_learns;
    assert_int_equal(check((qg_quant){ .scheme = &s, .bits = 1 }), QG_OK);
    s.mix = no_mix;
    assert_failed(check((qg_quant){ .scheme = &s, .bits = 1 }), QG_EARG, "with mix cannot train");
    s           = plain;
    s.constants = NULL;
    assert_failed(check((qg_quant){ .scheme = &s, .bits = 1 }), QG_EARG, "formed: a form needs constants");
    s            = plain;
    s.activation = qg_form_activation;
    assert_int_equal(check((qg_quant){ .scheme = &s, .bits = 1 }), QG_OK);
    assert_failed(check((qg_quant){ .scheme = &s, .bits = 1, .per_channel = true }), QG_EARG,
                  "one scale, not one per channel");
}

/* A scheme has room for so many values and arguments. */
static void limits_are_told(void **state)
{
    static const qg_learned many[] = { { .name = "a" }, { .name = "b" }, { .name = "c" }, { .name = "d" },
                                       { .name = "e" }, { .name = NULL } };
    static const qg_key     keys[] = { { .name = "a", .max = 1 }, { .name = "b", .max = 1 },
                                       { .name = "c", .max = 1 }, { .name = "d", .max = 1 },
                                       { .name = "e", .max = 1 }, { .name = "f", .max = 1 },
                                       { .name = "g", .max = 1 }, { .name = "h", .max = 1 },
                                       { .name = "i", .max = 1 }, { .name = NULL } };
    qg_quant  q;
    qg_scheme s = trained_ternary_scheme;
    s.roles     = QG_WEIGHT | QG_INPUT;
    s.learned   = many;
    assert_failed(check((qg_quant){ .scheme = &s, .bits = 2 }), QG_EARG, "has more than 4 learned values");
    s.learned = many + 1;
    assert_ok(check((qg_quant){ .scheme = &s, .bits = 2 }));
    s.keys = keys;
    q      = qg_quant_defaults((qg_quant){ .scheme = &s, .bits = 2 });
    assert_failed(check(q), QG_EARG, "trained-ternary: has 9 own keys, more than 8");
    assert_failed(qg_scheme_parse(&s, QG_INPUT, "i=1", &q), QG_EARG, "9 own keys");
    s.keys = keys + 1, s.bits = 2;
    assert_ok(qg_scheme_parse(&s, QG_INPUT, "i=1", &q));
    assert_true(q.arg[7] == 1);
}

static void a_missing_binding_is_told(void **state)
{
    float    w[1] = { 1 };
    qg_tape *t    = qg_tape_new();
    qg_tape_begin(t, QG_EVAL, 0, 0);
    assert_null(qg_quantize_bound(t, NULL, qg_input(t, (qg_tensor){ { 1, 1, 1, 1 }, w }), NULL));
    assert_failed(qg_tape_status(t), QG_EARG, "binding: it is NULL");
    qg_tape_free(t);
}

static void ramp_forward(const qg_activation *f, size_t n, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = fminf(fmaxf(x[i], f->k[0]), f->k[1]);
}

static void ramp_backward(const qg_activation *f, size_t n, const float *x, const float *dy, float *dx, double *dk)
{
    for (size_t i = 0; i < n; i++) dx[i] = x[i] >= f->k[0] && x[i] <= f->k[1] ? dy[i] : 0;
}

static qg_activation ramp(const qg_tape *t, const qg_binding *b, qg_var *const *learned)
{
    return (qg_activation){ .forward = ramp_forward, .backward = ramp_backward, .k = { -1, (float)b->q.arg[0] } };
}

/* An elementwise function needs neither a form nor an op of its own. */
static void an_activation_is_enough(void **state)
{
    static const qg_scheme scheme = { .name = "ramp", .bits = 8, .roles = QG_INPUT, .activation = ramp,
                                      .ops = QG_ACTIVATION_OP("ramp") };
    const qg_quant q = qg_quant_defaults((qg_quant){ .scheme = &scheme, .arg = { 2 } });
    float     x[5] = { -3, -1, 0.5f, 2, 2.5f };
    qg_tape  *t    = qg_tape_new();
    qg_tape_retain(t, true);
    qg_tape_begin(t, QG_TRAIN, 0, 0);
    qg_var *in = qg_input(t, (qg_tensor){ { 5, 1, 1, 1 }, x });
    in->needs_grad = true;
    qg_var *y = qg_quantize(t, q, in, NULL);
    assert_non_null(y);
    assert_close(y->data, (float[]){ -1, -1, 0.5f, 2, 2 }, 5, 0);
    assert_int_equal(qg_backward(t, qg_sum(t, y, QG_AXES)), QG_OK);
    assert_close(in->grad, (float[]){ 0, 1, 1, 1, 0 }, 5, 0);
    qg_tape_free(t);
}

static void an_input_has_no_codes_per_channel(void **state)
{
    float          x[8] = { 0 }, scale[4];
    int32_t        code[8];
    qg_codes       codes = { .code = code, .scale = scale };
    qg_quant       q     = qg_twn((qg_twn_spec){ .per_channel = true });
    q.role               = QG_INPUT;
    assert_failed(qg_encode(q, (qg_tensor){ { 2, 1, 1, 4 }, x }, NULL, &codes), QG_EARG, "codes of an input have one scale");
    q.role = QG_WEIGHT;
    assert_int_equal(qg_encode(q, (qg_tensor){ { 2, 1, 1, 4 }, x }, NULL, &codes), QG_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_trains_in_conv2d_and_dense),
        cmocka_unit_test(its_scales_stay_legal),
        cmocka_unit_test(its_scales_have_the_gradients_of_differences),
        cmocka_unit_test(its_weights_get_the_gradient_of_the_surrogate),
        cmocka_unit_test(its_values_are_its_formula),
        cmocka_unit_test(misuse_is_told),
        cmocka_unit_test(a_form_has_its_rules),
        cmocka_unit_test(limits_are_told),
        cmocka_unit_test(a_missing_binding_is_told),
        cmocka_unit_test(an_activation_is_enough),
        cmocka_unit_test(an_input_has_no_codes_per_channel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
