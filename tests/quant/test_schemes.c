#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/schemes/binary.h"
#include "quant/scheme.h"
#include "quant/schemes/twn.h"
#include "tests/support/nets.h"

/* Awkward rows, and one tensor of several blocks of 16384. */
static const qg_shape shapes[] = {
    { 1, 1, 1, 1 }, { 1, 1, 1, 3 }, { 31, 1, 1, 1 }, { 33, 1, 1, 31 }, { 5, 3, 3, 7 }, { 3, 1, 65, 63 },
    { 65, 3, 5, 33 },
};

/* What a scheme makes of weights, beside the plain operator on the same numbers. */
typedef struct scheme_case {
    const char *name;
    qg_quant    quant;
    qg_status (*plain)(const qg_array *x, qg_array *y);
} scheme_case;

static qg_status plain_twn(const qg_array *x, qg_array *y)
{
    return qg_twn_weight_quantizer(x, 0.7f, y, NULL, NULL);
}

static qg_status plain_twn_low(const qg_array *x, qg_array *y)
{
    return qg_twn_weight_quantizer(x, 0.1f, y, NULL, NULL);
}

static qg_status plain_binary(const qg_array *x, qg_array *y)
{
    return qg_binary_mean_scaling_quantizer(x, y, NULL);
}

/* The operator wants channels inmost: [1,1,in,out]. */
static qg_status plain_channels(const qg_array *x, qg_array *y)
{
    const size_t o = x->dims[0], k = x->dims[1];
    float       *in = malloc(2 * o * k * sizeof *in), *out = in + o * k;
    const float *from = x->data;
    float       *to = y->data;
    assert_non_null(in);
    for (size_t i = 0; i < o * k; i++) in[i % k * o + i / k] = from[i];
    qg_array        a = { QG_F32, 4, { 1, 1, k, o }, in }, b = { QG_F32, 4, { 1, 1, k, o }, out };
    const qg_status s = qg_binary_channel_wise_mean_scaling_quantizer(&a, &b, NULL);
    for (size_t i = 0; i < o * k; i++) to[i] = out[i % k * o + i / k];
    free(in);
    return s;
}

enum { SIGN = 4, SCHEMES };

static void all_schemes(scheme_case out[SCHEMES])
{
    const qg_quant sign = qg_binary_activation((qg_binary_activation_spec){ 0 });
    const qg_quant rows = qg_binary((qg_binary_spec){ .per_channel = true });
    out[0]    = (scheme_case){ "twn", qg_twn((qg_twn_spec){ 0 }), plain_twn };
    out[1]    = (scheme_case){ "twn", qg_twn((qg_twn_spec){ .threshold = 0.1f }), plain_twn_low };
    out[2]    = (scheme_case){ "binary", qg_binary((qg_binary_spec){ 0 }), plain_binary };
    out[3]    = (scheme_case){ "binary", rows, plain_channels };
    out[SIGN] = (scheme_case){ "sign", sign, qg_sign_quantizer };
}

/* Fillings of a tensor: ordinary, and what breaks a division or a comparison. */
enum { ORDINARY, ZEROS, NEGATIVE_ZEROS, EQUAL, ONE_NAN, ONE_INFINITE, TINY, FILLINGS };

static void fill(float *x, size_t n, int how)
{
    fill_uniform(x, n, -1.5f, 1.5f, n);
    for (size_t i = 0; i < n; i++) {
        if (how == ZEROS) x[i] = 0;
        if (how == NEGATIVE_ZEROS) x[i] = -0.0f;
        if (how == EQUAL) x[i] = i % 2 ? 0.25f : -0.25f;
        if (how == TINY) x[i] *= 1e-42f;
    }
    if (how == ONE_NAN) x[n / 2] = NAN;
    if (how == ONE_INFINITE) x[n / 2] = -INFINITY;
}

/* Bitwise, but that any NaN equals any other. */
static void assert_same(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, sizeof *a) && !(isnan(a[i]) && isnan(b[i])))
            fail_msg("[%zu] is %g and %g", i, (double)a[i], (double)b[i]);
}

static void apply_is_the_plain_operator(void **state)
{
    (void)state;
    scheme_case schemes[SCHEMES];
    qg_tape    *t = qg_tape_new();
    all_schemes(schemes);
    for (int s = 0; s < SCHEMES; s++)
        for (int i = 0; i < COUNT(shapes); i++)
            for (int how = 0; how < FILLINGS; how++) {
                const size_t n = qg_count(shapes[i]);
                float       *x = malloc(2 * n * sizeof *x), *y = x + n;
                assert_non_null(x);
                fill(x, n, how);
                qg_array a = { QG_F32, 2, { (size_t)shapes[i].n, qg_row(shapes[i]) }, x }, b = a;
                b.data     = y;
                assert_int_equal(schemes[s].plain(&a, &b), QG_OK);
                qg_tape_begin(t, QG_TRAIN, 1, 0);
                qg_var       *v = qg_input(t, (qg_tensor){ shapes[i], x });
                const qg_var *q = qg_quantize(t, schemes[s].quant, v, NULL);
                assert_non_null(q);
                assert_string_equal(q->op->name, schemes[s].name);
                assert_same(q->data, y, n);
                free(x);
            }
    qg_tape_free(t);
}

static void codes_times_scales_are_what_apply_gives(void **state)
{
    (void)state;
    scheme_case schemes[SCHEMES];
    qg_tape    *t = qg_tape_new();
    all_schemes(schemes);
    for (int s = 0; s < SCHEMES; s++)
        for (int i = 0; i < COUNT(shapes); i++)
            for (int how = 0; how < FILLINGS; how++) {
                const qg_quant q = schemes[s].quant;
                const size_t   n = qg_count(shapes[i]), row = qg_row(shapes[i]);
                float         *x = malloc((n + (size_t)shapes[i].n) * sizeof *x);
                qg_codes       c = { .code = malloc(n * sizeof *c.code), .scale = x + n };
                assert_true(x && c.code);
                fill(x, n, how);
                assert_int_equal(qg_encode(q, (qg_tensor){ shapes[i], x }, NULL, &c), QG_OK);
                assert_int_equal(c.bits, q.bits);
                assert_int_equal(c.n_scale, q.per_channel ? shapes[i].n : 1);
                qg_tape_begin(t, QG_EVAL, 1, 0);
                const qg_var *y = qg_quantize(t, q, qg_input(t, (qg_tensor){ shapes[i], x }), NULL);
                for (size_t k = 0; k < n; k++) {
                    const float v = c.scale[c.n_scale > 1 ? k / row : 0] * (float)c.code[k];
                    assert_true(v == y->data[k] || (isnan(v) && isnan(y->data[k])));
                    assert_in_range(c.code[k] + 1, 0, 2);
                    assert_true(c.code[k] != 0 || c.bits == 2);
                }
                free(c.code), free(x);
            }
    qg_tape_free(t);
}

/* --- gradients ----------------------------------------------------------------------------- */

static void my_identity(float arg, size_t n, const float *x, const float *dy, float *dx)
{
    (void)arg, (void)x;
    for (size_t i = 0; i < n; i++) dx[i] += dy[i];
}

/* dL/dw of conv2d with quantized weights, added twice, into grad. */
static void weight_gradient(qg_quant q, bool derived, float *grad)
{
    static float image[9 * 6 * 6 * 5], dy[9 * 4 * 4 * 7];
    qg_params    p = { 0 };
    qg_param    *w = declare(&p, "w", (qg_shape){ 7, 3, 3, 5 });
    qg_tape     *t = qg_tape_new();
    allocate_apart(&p, 3);
    for (size_t i = 0; i < 7 * 45; i++) w->value[i] *= 1.5f;
    fill_uniform(image, sizeof image / sizeof *image, -1, 1, 4);
    fill_uniform(dy, sizeof dy / sizeof *dy, -1, 1, 5);
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *x = qg_input(t, (qg_tensor){ { 9, 6, 6, 5 }, image }), *v = qg_parameter(t, w);
    if (derived) v = qg_scale(t, v, 1);
    v         = qg_quantize(t, q, v, NULL);
    qg_var *y = qg_add(t, qg_conv2d(t, x, v, NULL, (qg_conv_spec){ 0 }),
                       qg_conv2d(t, x, v, NULL, (qg_conv_spec){ 0 }));
    assert_int_equal(qg_backward(t, weighed(t, y, dy)), QG_OK);
    memcpy(grad, w->grad, 7 * 45 * sizeof *grad);
    qg_tape_free(t);
    qg_params_release(&p);
}

static void sharing_a_gradient_changes_no_bit_of_it(void **state)
{
    (void)state;
    scheme_case schemes[SCHEMES];
    all_schemes(schemes);
    for (int s = 0; s < 4; s++) {
        float    shared[7 * 45], generic[7 * 45], derived[7 * 45];
        qg_quant q = schemes[s].quant;
        weight_gradient(q, false, shared);
        weight_gradient(q, true, derived);
        q.surrogate = (qg_surrogate){ .slope = my_identity };
        weight_gradient(q, false, generic);
        assert_memory_equal(shared, generic, sizeof shared);
        assert_memory_equal(shared, derived, sizeof shared);
    }
}

static double slope_of(double x, void *context)     /* a surrogate is only looked at by its slope */
{
    const double bound = *(const double *)context;
    return x < -bound ? -bound : x > bound ? bound : x;
}

static qg_quant checked;

static qg_var *quantize(qg_tape *t, qg_var *x, void *context)
{
    (void)context;
    return qg_quantize(t, checked, x, NULL);
}

static void assert_clipped_slope(qg_quant q, double bound)
{
    qg_gradcheck_result r;
    checked = q;
    assert_int_equal(qg_slopecheck((qg_slopecheck_spec){ .name = q.scheme->name, .op = quantize,
                                                         .surrogate = slope_of, .context = &bound,
                                                         .lo = -2, .hi = 2 }, &r), QG_OK);
    if (!r.pass) fail_msg("%s: off by %g", r.name, r.error);
}

static void the_surrogate_is_the_schemes_own_or_the_callers(void **state)
{
    (void)state;
    scheme_case schemes[SCHEMES];
    all_schemes(schemes);
    for (int s = 0; s < SCHEMES; s++) {
        qg_quant     q   = schemes[s].quant;
        const double own = s == SIGN ? 1 : 1e9;         /* sign clips at 1, weights nowhere */
        assert_clipped_slope(q, own);
        q.surrogate = qg_surrogate_clip(0.75f);
        assert_clipped_slope(q, 0.75);
        q.surrogate = (qg_surrogate){ 0 };
        assert_clipped_slope(q, own);
    }
    assert_clipped_slope(qg_binary((qg_binary_spec){ .surrogate = qg_surrogate_clip(0.5f) }), 0.5);
}

/* The elementwise form that qg_norm fuses. */
static void sign_as_an_activation_is_sign_as_an_op(void **state)
{
    (void)state;
    enum { M = 1500 };      /* three runs of the buffer in its backward, the last one short */
    const qg_binary_activation_spec spec = { .surrogate = qg_surrogate_approx_sign() };
    const qg_quant      q = qg_binary_activation(spec);
    const qg_activation f = q.scheme->activation(q, NULL);
    float     y[M], dy[M], dx[M];
    qg_params p = { 0 };
    qg_param *x = declare(&p, "x", (qg_shape){ 1, 1, 1, M });
    qg_tape  *t = qg_tape_new();
    assert_int_equal(qg_params_allocate(&p), QG_OK);
    fill_uniform(x->value, M, -2, 2, 1), fill_uniform(dy, M, -1, 1, 2);
    x->value[7] = 0, x->value[8] = -0.0f;
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *v = qg_quantize(t, q, qg_parameter(t, x), NULL);
    f.forward(&f, M, x->value, y);
    assert_memory_equal(v->data, y, sizeof y);
    assert_true(y[7] == 1 && y[8] == 1);
    assert_int_equal(qg_backward(t, weighed(t, v, dy)), QG_OK);
    f.backward(&f, M, x->value, dy, dx, NULL);
    assert_memory_equal(x->grad, dx, sizeof dx);
    f.backward(&f, M, x->value, dy, dy, NULL);          /* dx may be dy */
    assert_memory_equal(dy, dx, sizeof dx);
    qg_tape_free(t);
    qg_params_release(&p);
}

static void nothing_and_later(void **state)
{
    (void)state;
    float    w[] = { -2, -0.5f, 0, 3 };
    qg_tape *t   = qg_tape_new();
    qg_quant twn = qg_twn((qg_twn_spec){ 0 }), sign = qg_binary_activation((qg_binary_activation_spec){ 0 });
    twn.after = sign.after = 5;
    for (uint64_t step = 4; step <= 5; step++)
        for (int mode = QG_TRAIN; mode <= QG_EVAL; mode++) {
            qg_tape_begin(t, (qg_mode)mode, 1, step);
            qg_var *x = qg_input(t, (qg_tensor){ { 1, 1, 1, 4 }, w });
            assert_ptr_equal(qg_quantize(t, (qg_quant){ 0 }, x, NULL), x);
            assert_null(qg_quantize(t, twn, NULL, NULL));
            assert_int_equal(qg_quantize(t, twn, x, NULL) == x, step < 5);
            const float *y = qg_quantize(t, sign, x, NULL)->data;
            const float  relu[] = { 0, 0, 0, 3 }, signs[] = { -1, -1, 1, 1 };
            assert_close(y, step < 5 ? relu : signs, 4, 0);
        }
    qg_tape_free(t);
}

static void a_bad_threshold_is_refused(void **state)
{
    (void)state;
    float    w[] = { 1 };
    qg_tape *t   = qg_tape_new();
    for (int i = 0; i < 2; i++) {
        qg_tape_begin(t, QG_TRAIN, 1, 0);
        const qg_quant q = qg_twn((qg_twn_spec){ .threshold = i ? NAN : -1 });
        assert_null(qg_quantize(t, q, qg_input(t, (qg_tensor){ { 1, 1, 1, 1 }, w }), NULL));
        assert_int_equal(qg_tape_status(t), QG_EARG);
        assert_message(i ? "twn: threshold is nan" : "twn: threshold is -1, must be finite and 0 or more");
    }
    qg_tape_free(t);
}

/* Else a field would be believed by encode or by the count of bytes, and not by apply. */
static void scales_are_per_channel_where_the_scheme_has_them(void **state)
{
    (void)state;
    const qg_quant never[]  = { qg_lsq((qg_lsq_spec){ .bits = 2, .is_signed = true }),
                                qg_ste_tern((qg_ste_tern_spec){ 0 }), qg_unit((qg_unit_spec){ 0 }),
                                qg_binary_activation((qg_binary_activation_spec){ .surrogate = qg_surrogate_identity() }),
                                qg_pact((qg_pact_spec){ .bits = 2 }) };
    const qg_quant always[] = { qg_xnor((qg_xnor_spec){ 0 }), qg_xnor((qg_xnor_spec){ .centred = true }),
                                qg_magnitude_aware((qg_magnitude_aware_spec){ .surrogate = qg_surrogate_clip(1) }) };
    const qg_quant either[] = { qg_twn((qg_twn_spec){ 0 }), qg_ttq((qg_ttq_spec){ 0 }), qg_binary((qg_binary_spec){ 0 }),
                                qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = 1 }), qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = 4 }),
                                qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_OBSERVED }) };
    for (int p = 0; p < 2; p++) {
        for (int i = 0; i < COUNT(never); i++) {
            qg_quant q    = never[i];
            q.per_channel = p;
            assert_int_equal(qg_quant_check(q), p ? QG_EARG : QG_OK);
            if (p) assert_message("has no scales per channel");
        }
        for (int i = 0; i < COUNT(always); i++) {
            qg_quant q    = always[i];
            q.per_channel = p;
            assert_int_equal(qg_quant_check(q), p ? QG_OK : QG_EARG);
            if (!p) assert_message("always has scales per channel");
        }
        for (int i = 0; i < COUNT(either); i++) {
            qg_quant q    = either[i];
            q.per_channel = p;
            assert_int_equal(qg_quant_check(q), QG_OK);
        }
    }
}

/* By hand, as in a layer; a role that was not said is the scheme's. */
static void a_role_is_checked(void **state)
{
    (void)state;
    float    x[] = { 1, -1 };
    qg_tape *t   = qg_tape_new();
    qg_quant q   = qg_binary((qg_binary_spec){ 0 });
    for (int role = 0; role <= QG_INPUT; role++) {
        qg_tape_begin(t, QG_EVAL, 0, 0);
        q.role          = (qg_role)role;
        const qg_var *y = qg_quantize(t, q, qg_input(t, (qg_tensor){ { 1, 1, 1, 2 }, x }), NULL);
        assert_int_equal(y != NULL, role != QG_INPUT);
    }
    assert_message("binary does not quantize inputs");
    qg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(apply_is_the_plain_operator),
        cmocka_unit_test(codes_times_scales_are_what_apply_gives),
        cmocka_unit_test(sharing_a_gradient_changes_no_bit_of_it),
        cmocka_unit_test(the_surrogate_is_the_schemes_own_or_the_callers),
        cmocka_unit_test(sign_as_an_activation_is_sign_as_an_op),
        cmocka_unit_test(nothing_and_later),
        cmocka_unit_test(a_bad_threshold_is_refused),
        cmocka_unit_test(scales_are_per_channel_where_the_scheme_has_them),
        cmocka_unit_test(a_role_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
