/* Quantizers with their learned values on plain arrays, and schemes by name. */
#include "tests/support/views.h"

#include <math.h>
#include <string.h>

#include "quant/quantizer.h"
#include "quant/scheme.h"

enum { N = 64 };
static const qg_shape weight = { 4, 1, 1, 16 }, input = { 2, 4, 4, 2 };

/* A quantizer of inputs that waits is the relu for which it stands, and one of weights passes them on. */
static void delayed_weights_pass(void **state)
{
    float x[N], y[N];
    (void)state;
    fill_normal(1, 1, N, x);
    for (int role = QG_WEIGHT; role <= QG_INPUT; role++) {
        qg_quant q = qg_unit((qg_unit_spec){ 0 });
        q.after    = 1;
        qg_quantizer *z = qg_quantizer_new(q, (qg_role)role, role == QG_WEIGHT ? weight : input);
        assert_ok(qg_quantizer_forward(z, QG_TRAIN, x, y));
        for (int i = 0; i < N; i++) assert_true(y[i] == (role == QG_WEIGHT ? x[i] : fmaxf(x[i], 0)));
        qg_quantizer_free(z);
    }
    qg_quantizer *z = qg_quantizer_parse("unit", QG_WEIGHT, weight);        /* of denormal weights */
    for (int i = 0; i < N; i++) x[i] = i % 2 ? 1e-41f : 0;
    assert_ok(qg_quantizer_forward(z, QG_TRAIN, x, y));
    for (int i = 0; i < N; i++) assert_true(isfinite(y[i]));
    qg_quantizer_free(z);
}

/* Both gradients of LSQ, by its formula: q = s round(clip(x / s, -2, 1)) with two signed bits. */
static void learned_values_have_gradients(void **state)
{
    float x[N], y[N], dx[N], dy[N];
    (void)state;
    fill_normal(1, 1, N, x);
    fill_normal(2, 1, N, dy);
    qg_quantizer *z = qg_quantizer_parse("lsq", QG_WEIGHT, weight);
    assert_non_null(z);
    assert_int_equal(qg_quantizer_forward(z, QG_TRAIN, x, y), QG_OK);
    const qg_quantizer_entry step = qg_quantizer_learned(z, 0);
    assert_int_equal(step.n, 1);
    const float s    = step.value[0];
    double      mean = 0, ds = 0;
    for (int i = 0; i < N; i++) mean += fabsf(x[i]) / N;
    assert_near(s, 2 * mean, 1e-6);                             /* 2 mean|w| / sqrt(qp), qp = 1 */
    assert_int_equal(qg_quantizer_backward(z, dy, dx), QG_OK);
    for (int i = 0; i < N; i++) {
        const float v = x[i] / s, code = rintf(fmaxf(-2, fminf(1, v)));
        assert_near(y[i], s * code, 1e-6);
        assert_true(dx[i] == (v > -2 && v < 1 ? dy[i] : 0));
        ds += (double)dy[i] * (v > -2 && v < 1 ? code - v : code);
    }
    assert_near(step.gradient[0], ds / sqrt(N * 1.0), 1e-5);    /* scaled by 1 / sqrt(N qp); a sum of 64 floats */
    assert_string_equal(qg_quantizer_learned(z, 1).name, "seen");
    assert_null(qg_quantizer_learned(z, 1).gradient);           /* tracked */
    assert_int_equal(qg_quantizer_learned(z, 2).n, 0);
    assert_null(qg_quantizer_learned(z, -1).name);

    /* What the caller sets is used, and stays. */
    step.value[0] = 0.25f;
    assert_int_equal(qg_quantizer_forward(z, QG_EVAL, x, y), QG_OK);
    for (int i = 0; i < N; i++) assert_true(fmodf(y[i], 0.25f) == 0);
    qg_quantizer_free(z);
    assert_non_null(z = qg_quantizer_parse("lsq", QG_WEIGHT, weight));
    qg_quantizer_learned(z, 0).value[0] = 0.5f;
    qg_quantizer_learned(z, 1).value[0] = 1;
    assert_int_equal(qg_quantizer_forward(z, QG_TRAIN, x, y), QG_OK);
    assert_true(qg_quantizer_learned(z, 0).value[0] == 0.5f);
    qg_quantizer_free(z);
}

/* A number that the caller sets is the sign that all are set. */
static void values_are_initialised_if_none_is_set(void **state)
{
    float x[N], y[N];
    (void)state;
    fill_normal(1, 1, N, x);
    for (int set = 0; set < 2; set++) {
        qg_quantizer *z = qg_quantizer_parse("ttq", QG_WEIGHT, weight);
        assert_non_null(z);
        const qg_quantizer_entry wp = qg_quantizer_learned(z, 0), wn = qg_quantizer_learned(z, 1);
        if (set) wp.value[0] = 0.5f;
        assert_int_equal(qg_quantizer_forward(z, QG_TRAIN, x, y), QG_OK);
        if (set) assert_true(wp.value[0] == 0.5f);
        for (int i = 0; i < N; i++)
            if (set) assert_true(y[i] == 0.5f || fabsf(y[i]) <= 0x1p-30f);
        if (!set) assert_true(wp.value[0] > 0.5f && wn.value[0] > 0.5f);
        qg_quantizer_free(z);
    }
}

static void gradients_are_those_of_the_last_forward(void **state)
{
    float x[N], y[N], dy[N], dx[N], again[N];
    (void)state;
    fill_normal(1, 1, N, x);
    fill_normal(2, 1, N, dy);
    qg_quantizer *z     = qg_quantizer_parse("lsq", QG_WEIGHT, weight);
    qg_quantizer *fresh = qg_quantizer_parse("lsq", QG_WEIGHT, weight);
    assert_int_equal(qg_quantizer_forward(z, QG_TRAIN, x, y), QG_OK);
    assert_int_equal(qg_quantizer_backward(z, x, dx), QG_OK);
    for (int i = 0; i < 2; i++) qg_quantizer_learned(fresh, i).value[0] = qg_quantizer_learned(z, i).value[0];
    qg_quantizer_seed(fresh, 1, 1);
    assert_false(qg_quantizer_forward(z, QG_TRAIN, x, y) || qg_quantizer_backward(z, dy, dx));
    assert_false(qg_quantizer_forward(fresh, QG_TRAIN, x, y) || qg_quantizer_backward(fresh, dy, again));
    assert_memory_equal(dx, again, sizeof dx);
    assert_true(qg_quantizer_learned(z, 0).gradient[0] == qg_quantizer_learned(fresh, 0).gradient[0]);

    /* Of none in evaluation, and of none that failed. */
    for (int failed = 0; failed < 2; failed++) {
        assert_int_equal(qg_quantizer_forward(z, QG_TRAIN, x, y), QG_OK);
        assert_int_equal(qg_quantizer_forward(z, QG_EVAL, failed ? NULL : x, y), failed ? QG_EARG : QG_OK);
        assert_int_equal(qg_quantizer_backward(z, dy, dx), QG_ESTATE);
    }
    qg_quantizer_free(z), qg_quantizer_free(fresh);
}

static void a_range_that_overflows_leaves_y(void **state)
{
    float x[N], y[N];
    (void)state;
    fill_normal(1, 1, N, x);
    for (int i = 0; i < N; i++) y[i] = 7;
    qg_quantizer *z = qg_quantizer_parse("fake_quant:range=learned", QG_INPUT, input);
    const float range[] = { -1, INFINITY, 1 };              /* min, max, seen */
    for (int i = 0; i < 3; i++) qg_quantizer_learned(z, i).value[0] = range[i];
    assert_int_equal(qg_quantizer_forward(z, QG_TRAIN, x, y), QG_ENAN);
    for (int i = 0; i < N; i++) assert_true(y[i] == 7);
    assert_int_equal(qg_quantizer_backward(z, x, y), QG_ESTATE);
    qg_quantizer_free(z);
}

/* Gradient descent would not widen the range that such a batch, or channel, gives. */
static void a_batch_of_zeros_starts_no_learned_range(void **state)
{
    static const char *const schemes[] = {
        "fake_quant", "lsq:bits=8,signed=yes", "fake_quant:per-channel=yes",
    };
    float x[N], y[N];
    (void)state;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        qg_quantizer *z = qg_quantizer_parse(schemes[i], QG_INPUT, input);
        assert_non_null(z);
        fill_normal(2, 1, N, x);
        for (int k = 0; k < N; k++) x[k] = i == 2 && k % 2 ? x[k] : 0;     /* the last: of one channel */
        assert_int_equal(qg_quantizer_forward(z, QG_TRAIN, x, y), QG_OK);
        fill_normal(1, 1, N, x);
        assert_int_equal(qg_quantizer_forward(z, QG_TRAIN, x, y), QG_OK);
        /* Half a step, and the ends. */
        for (int k = 0; k < N; k++) assert_true(fabsf(y[k] - x[k]) < 0.1f || fabsf(x[k]) > 1);
        qg_quantizer_free(z);
    }
}

/* A factor of 0 does not meet it: the slope of clip is 1 at 0.5 and 0 at 2, where 0 times infinity is not formed. */
static void an_infinite_gradient_passes_or_does_not(void **state)
{
    static const char *const schemes[] = { "bnn", "bnn:as=paper", "ste-tern", "ste-tern:as=paper", "xnor:rule=identity,surrogate=clip" };
    (void)state;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        const qg_shape four = { 1, 1, 1, 4 };
        const float    x[4] = { 0.5f, -0.5f, 2, -2 }, dy[4] = { INFINITY, -INFINITY, INFINITY, -INFINITY };
        float          y[4], dx[4];
        qg_quantizer  *z = qg_quantizer_parse(schemes[i], QG_WEIGHT, four);
        assert_non_null(z);
        assert_int_equal(qg_quantizer_forward(z, QG_TRAIN, x, y), QG_OK);
        assert_int_equal(qg_quantizer_backward(z, dy, dx), QG_OK);
        assert_true(dx[0] == INFINITY && dx[1] == -INFINITY && dx[2] == 0 && dx[3] == 0);
        qg_quantizer_free(z);
    }
}

static void values_are_those_of_the_formula(void **state)
{
    float x[N], y[N], want[N];
    (void)state;
    fill_normal(3, 0.1f, N, x);
    qg_quantizer *z = qg_quantizer_new(qg_twn((qg_twn_spec){ .threshold = 0.6f }), QG_WEIGHT, weight);
    assert_non_null(z);
    memcpy(y, x, sizeof x);
    assert_int_equal(qg_quantizer_forward(z, QG_TRAIN, y, y), QG_OK);
    double all = 0, sum = 0, kept = 0;
    for (int i = 0; i < N; i++) all += fabsf(x[i]);
    const double delta = 0.6 * all / N;
    for (int i = 0; i < N; i++)
        if (fabsf(x[i]) > delta) sum += fabsf(x[i]), kept++;
    for (int i = 0; i < N; i++) want[i] = fabsf(x[i]) > delta ? copysignf((float)(sum / kept), x[i]) : 0;
    assert_all_near(N, y, want, 1e-7);                          /* an ulp of 0.1 */
    qg_quantizer_free(z);
}

/* QG_TRAIN observes, QG_EVAL does not; ranges are tracked, so they have no gradient. */
static void ranges_are_observed_in_training_alone(void **state)
{
    float x[N], y[N];
    (void)state;
    qg_quantizer *z = qg_quantizer_parse("fake_quant:range=observed", QG_INPUT, input);
    assert_non_null(z);
    fill_normal(4, 1, N, x);
    assert_int_equal(qg_quantizer_forward(z, QG_EVAL, x, y), QG_OK);
    assert_same(N, y, x);                                       /* no range yet */
    assert_int_equal(qg_quantizer_forward(z, QG_TRAIN, x, y), QG_OK);
    qg_quantizer_entry max = { 0 };
    for (int i = 0; qg_quantizer_learned(z, i).n; i++)
        if (!strcmp(qg_quantizer_learned(z, i).name, "max")) max = qg_quantizer_learned(z, i);
    assert_non_null(max.value);
    assert_null(max.gradient);
    const float seen = max.value[0];
    assert_true(seen > 0);
    for (int i = 0; i < N; i++) x[i] *= 10;
    assert_int_equal(qg_quantizer_forward(z, QG_EVAL, x, y), QG_OK);
    assert_true(max.value[0] == seen);
    assert_int_equal(qg_quantizer_forward(z, QG_TRAIN, x, y), QG_OK);
    assert_true(max.value[0] > seen);
    qg_quantizer_free(z);
}

/* Every scheme in each of its roles; a gradient's scheme changes the gradient alone. */
static void every_scheme_quantizes_an_array(void **state)
{
    float x[N], y[N], dx[N], dy[N];
    int   schemes = 0;
    (void)state;
    fill_normal(5, 1, N, x);
    fill_normal(6, 1, N, dy);
    for (const qg_scheme *const *s = qg_schemes; *s; s++)
        for (unsigned role = QG_WEIGHT; role <= QG_GRADIENT; role *= 2) {
            if (!((*s)->roles & role)) continue;
            qg_quantizer *z = qg_quantizer_parse((*s)->name, (qg_role)role, role == QG_WEIGHT ? weight : input);
            if (!z) fail_msg("%s: %s", (*s)->name, qg_errmsg());
            if (qg_quantizer_forward(z, QG_TRAIN, x, y) || qg_quantizer_backward(z, dy, dx)) fail_msg("%s: %s", (*s)->name, qg_errmsg());
            assert_int_equal(!memcmp(x, y, sizeof x), role == QG_GRADIENT);
            int zero = 0;
            for (int i = 0; i < N; i++) assert_true(isfinite(y[i]) && isfinite(dx[i])), zero += dx[i] == 0;
            assert_true(zero < N);
            qg_quantizer_free(z);
            schemes++;
        }
    assert_true(schemes > 20);
    qg_quantizer *z = qg_quantizer_parse("float", QG_WEIGHT, weight);
    assert_non_null(z);
    assert_int_equal(qg_quantizer_forward(z, QG_TRAIN, x, y) || qg_quantizer_backward(z, dy, dx), 0);
    assert_same(N, y, x);
    assert_same(N, dx, dy);
    qg_quantizer_free(z);
}

static void what_is_illegal_is_refused(void **state)
{
    float x[N] = { 0 };
    (void)state;
    assert_null(qg_quantizer_parse("tnw", QG_WEIGHT, weight));
    assert_non_null(strstr(qg_errmsg(), "unknown scheme 'tnw' for weights; available: float, twn"));
    assert_null(qg_quantizer_parse("twn", QG_INPUT, input));
    assert_non_null(strstr(qg_errmsg(), "twn is a scheme for weights, not for inputs"));
    assert_null(qg_quantizer_parse("float:bits=2", QG_WEIGHT, weight));
    assert_non_null(strstr(qg_errmsg(), "float has no options"));
    assert_null(qg_quantizer_parse(NULL, QG_WEIGHT, weight));
    assert_null(qg_quantizer_parse("twn", QG_WEIGHT, (qg_shape){ 4, 0, 1, 1 }));
    assert_non_null(strstr(qg_errmsg(), "[4,0,1,1] is not a shape"));
    assert_null(qg_quantizer_new(qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = 99 }), QG_WEIGHT, weight));
    qg_quantizer *z = qg_quantizer_parse("twn", QG_WEIGHT, weight);
    assert_int_equal(qg_quantizer_backward(z, x, x), QG_ESTATE);
    assert_int_equal(qg_quantizer_forward(z, QG_EVAL, x, x), QG_OK);
    assert_int_equal(qg_quantizer_backward(z, x, x), QG_ESTATE);
    assert_int_equal(qg_quantizer_forward(z, QG_TRAIN, NULL, x), QG_EARG);
    assert_int_equal(qg_quantizer_forward(z, QG_TRAIN, x, x), QG_OK);
    assert_int_equal(qg_quantizer_backward(z, x, x), QG_OK);
    assert_int_equal(qg_quantizer_backward(z, x, x), QG_ESTATE);       /* once for each forward */
    qg_quantizer_free(z);
    qg_quantizer_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delayed_weights_pass),
        cmocka_unit_test(learned_values_have_gradients),
        cmocka_unit_test(values_are_initialised_if_none_is_set),
        cmocka_unit_test(gradients_are_those_of_the_last_forward),
        cmocka_unit_test(a_range_that_overflows_leaves_y),
        cmocka_unit_test(a_batch_of_zeros_starts_no_learned_range),
        cmocka_unit_test(an_infinite_gradient_passes_or_does_not),
        cmocka_unit_test(values_are_those_of_the_formula),
        cmocka_unit_test(ranges_are_observed_in_training_alone),
        cmocka_unit_test(every_scheme_quantizes_an_array),
        cmocka_unit_test(what_is_illegal_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
