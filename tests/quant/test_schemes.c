#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/engine.h"
#include "quant/reference/binary.h"
#include "quant/reference/ternary.h"
#include "tests/support/nets.h"
#include "tests/support/schemes.h"

/* Awkward rows, and one tensor of several blocks of 16384. */
static const qg_shape shapes[] = {
    { 1, 1, 1, 1 }, { 1, 1, 1, 3 }, { 31, 1, 1, 1 }, { 33, 1, 1, 31 }, { 5, 3, 3, 7 }, { 3, 1, 65, 63 },
    { 65, 3, 5, 33 },
};

enum { PLAIN = 4, SIGN = PLAIN, SCHEMES = 9 };      /* the plain ones pass their gradient on unchanged */

static void all_schemes(qg_quant out[SCHEMES])
{
    out[0]    = qg_twn((qg_twn_spec){ 0 });
    out[1]    = qg_twn((qg_twn_spec){ .threshold = 0.1f });
    out[2]    = qg_binary((qg_binary_spec){ 0 });
    out[3]    = qg_binary((qg_binary_spec){ .per_channel = true });
    out[SIGN] = qg_sign((qg_sign_spec){ 0 });
    out[5]    = qg_bnn((qg_bnn_spec){ .as_paper = true });
    out[6]    = qg_bop_weight();
    out[7]    = qg_magnitude_aware((qg_magnitude_aware_spec){ .as_paper = true });
    out[8]    = qg_xnor((qg_xnor_spec){ 0 });
}

static void codes_times_scales_are_what_apply_gives(void **state)
{
    qg_quant schemes[SCHEMES];
    qg_tape    *t = qg_tape_new();
    all_schemes(schemes);
    for (int s = 0; s < SCHEMES; s++)
        for (int i = 0; i < COUNT(shapes); i++)
            for (int how = 0; how < FILLINGS; how++) {
                const qg_quant q = schemes[s];
                const size_t   n = qg_count(shapes[i]), row = qg_row(shapes[i]);
                float         *x = malloc((n + (size_t)shapes[i].n) * sizeof *x);
                qg_codes       c = { .code = malloc(n * sizeof *c.code), .scale = x + n };
                assert_true(x && c.code);
                fill_how(x, n, how, 1.5f);
                assert_ok(qg_encode(q, (qg_tensor){ shapes[i], x }, NULL, &c));
                assert_int_equal(c.bits, q.bits);
                assert_int_equal(c.n_scale, q.per_channel ? shapes[i].n : 1);
                qg_tape_begin(t, QG_EVAL, 1, 0);
                const qg_var *y = qg_quantize(t, q, qg_input(t, (qg_tensor){ shapes[i], x }), NULL);
                if (s <= SIGN) assert_non_null(strstr(q.scheme->name, y->op->name));     /* binary-channel: "binary" */
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
    assert_ok(qg_backward(t, weighed(t, y, dy)));
    memcpy(grad, w->grad, 7 * 45 * sizeof *grad);
    qg_tape_free(t);
    qg_params_release(&p);
}

static void sharing_a_gradient_changes_no_bit_of_it(void **state)
{
    qg_quant schemes[SCHEMES];
    all_schemes(schemes);
    for (int s = 0; s < PLAIN; s++) {
        float    shared[7 * 45], generic[7 * 45], derived[7 * 45];
        qg_quant q = schemes[s];
        weight_gradient(q, false, shared);
        weight_gradient(q, true, derived);
        q.surrogate = (qg_surrogate){ .slope = my_identity };
        weight_gradient(q, false, generic);
        assert_memory_equal(shared, generic, sizeof shared);
        assert_memory_equal(shared, derived, sizeof shared);
    }
}

/* A surrogate is only looked at by its slope. */
static double clip(double x, void *context)
{
    const double *limit = context;
    return fmin(fmax(x, limit[0]), limit[1]);
}

static double parabola(double x, void *context)
{
    const double c = fmin(fmax(x, -1), 1);
    return 2 * c - c * fabs(c);
}

static double tanh2(double x, void *context) { (void)context; return tanh(2 * x); }

/* SwishSign, beta 5: sgn(x) of BNN+, whose derivative Larq prints. */
static double swish(double x, void *context)
{
    const double s = 1 / (1 + exp(-5 * x));
    return 2 * s * (1 + 5 * x * (1 - s)) - 1;
}

static qg_quant sign_with(qg_surrogate s) { return qg_sign((qg_sign_spec){ s }); }

static qg_quant with(qg_quant q, qg_surrogate s)
{
    q.surrogate = s;
    return q;
}

static qg_quant waiting(qg_quant q, uint64_t after)
{
    q.after = after;
    return q;
}

static qg_quant pact(int bits, float alpha) { return qg_pact((qg_pact_spec){ .bits = bits, .alpha = alpha }); }

static qg_quant lsq(int bits, bool is_signed) { return qg_lsq((qg_lsq_spec){ .bits = bits, .is_signed = is_signed }); }

static qg_quant fixed_unit(void) { return qg_unit((qg_unit_spec){ .bits = 2, .zero = true, .as_paper = true }); }
static qg_quant unit(int bits, bool zero) { return qg_unit((qg_unit_spec){ .bits = bits, .zero = zero }); }

static qg_quant linear(int bits, float max_value)
{
    return qg_linear((qg_linear_spec){ .bits = bits, .max_value = max_value });
}

#define fake_quant(...) qg_fake_quant((qg_fake_quant_spec){ __VA_ARGS__ })

static qg_quant connect(bool stochastic)
{
    return qg_binaryconnect((qg_binaryconnect_spec){ .draw = stochastic ? QG_DRAW_STOCHASTIC : QG_DRAW_SIGN, .plain_gradient = true });
}

static qg_quant dorefa(int bits, bool through_max)
{
    return qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = bits, .through_max = through_max });
}

static qg_quant dorefa_activation(int bits, bool ties_up)
{
    return qg_dorefa_activation((qg_dorefa_activation_spec){ .bits = bits, .ties_up = ties_up });
}

static void slopes_are_those_of_the_surrogates(void **state)
{
    const double inf = INFINITY;
    const qg_quant bnn = qg_bnn((qg_bnn_spec){ .as_paper = true }), sign = sign_with((qg_surrogate){ 0 });
    const struct {
        qg_quant q;
        qg_role  role;
        double (*surrogate)(double x, void *context);
        double   limits[2];             /* of clip */
        float    learned[QG_MAX_LEARNED];
    } rows[] = {
        { connect(false), QG_WEIGHT, clip, { -inf, inf }, { 0 } },
        { connect(true), QG_WEIGHT, clip, { -inf, inf }, { 0 } },
        { with(connect(false), qg_surrogate_clip(1)), QG_WEIGHT, clip, { -1, 1 }, { 0 } },
        { bnn, QG_WEIGHT, clip, { -1, 1 }, { 0 } },
        { with(bnn, qg_surrogate_approx_sign()), QG_WEIGHT, parabola, { 0 }, { 0 } },
        { qg_binary((qg_binary_spec){ .surrogate = qg_surrogate_clip(1) }), QG_WEIGHT, clip, { -1, 1 }, { 0 } },
        { qg_binary((qg_binary_spec){ .surrogate = qg_surrogate_clip(0.5f) }), QG_WEIGHT, clip, { -0.5, 0.5 }, { 0 } },
        { with(sign, qg_surrogate_approx_sign()), QG_INPUT, parabola, { 0 }, { 0 } },
        { with(sign, qg_surrogate_swish(5)), QG_INPUT, swish, { 0 }, { 0 } },
        { with(sign, qg_surrogate_tanh(2)), QG_INPUT, tanh2, { 0 }, { 0 } },
        { dorefa_activation(2, false), QG_INPUT, clip, { 0, 1 }, { 0 } },
        { linear(2, 0.75f), QG_INPUT, clip, { 0, 0.75 }, { 0 } },
        { with(linear(2, 0.75f), qg_surrogate_clip(1)), QG_INPUT, clip, { -1, 1 }, { 0 } },
        { unit(2, false), QG_INPUT, clip, { -1, 1 }, { 0 } },
        { fixed_unit(), QG_WEIGHT, clip, { -1, 1 }, { 0 } },
        { qg_qdq((qg_qdq_spec){ .range_given = true, .min = -1, .max = 0.5f }), QG_INPUT, clip, { -1, 0.5 }, { 0 } },
        { qg_qdq((qg_qdq_spec){ .bits = 2 }), QG_WEIGHT, clip, { -inf, inf }, { 0 } },
        { with(unit(2, false), qg_surrogate_clip(0.5f)), QG_INPUT, clip, { -0.5, 0.5 }, { 0 } },
        { pact(3, 0), QG_INPUT, clip, { 0, 0.7f }, { 0.7f } },
        { with(pact(3, 0), qg_surrogate_identity()), QG_INPUT, clip, { -inf, inf }, { 0.7f } },
        { lsq(2, false), QG_INPUT, clip, { 0, 0.75 }, { 0.25f, 1 } },
        { lsq(3, true), QG_INPUT, clip, { -1, 0.75 }, { 0.25f, 1 } },
    };
    for (int i = 0; i < COUNT(rows); i++) {
        double limits[] = { rows[i].limits[0], rows[i].limits[1] };
        print_message("row %d, %s\n", i, rows[i].q.scheme->name);
        assert_slope(rows[i].q, rows[i].role, rows[i].learned, rows[i].surrogate, limits, -2, 2);
    }
    qg_quant schemes[SCHEMES];
    all_schemes(schemes);
    for (int s = 0; s <= SIGN; s++) {
        const double own = s == SIGN ? 1 : inf;         /* sign clips at 1, weights nowhere */
        const qg_role role = s == SIGN ? QG_INPUT : QG_WEIGHT;
        assert_slope(schemes[s], role, NULL, clip, (double[]){ -own, own }, -2, 2);
        assert_slope(with(schemes[s], qg_surrogate_clip(0.75f)), role, NULL, clip, (double[]){ -0.75, 0.75 }, -2, 2);
    }
}

/* The elementwise form that qg_norm fuses. */
static void sign_as_an_activation_is_sign_as_an_op(void **state)
{
    enum { M = 1500 };      /* three runs of the buffer in its backward, the last one short */
    const qg_sign_spec spec = { .surrogate = qg_surrogate_approx_sign() };
    const qg_quant      q = qg_sign(spec);
    float     y[M], dy[M], dx[M];
    qg_params p = { 0 };
    qg_param *x = declare(&p, "x", (qg_shape){ 1, 1, 1, M });
    qg_tape  *t = qg_tape_new();
    assert_ok(qg_params_allocate(&p));
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    const qg_activation f = q.scheme->activation(t, &(qg_binding){ .q = q }, NULL);
    fill_uniform(x->value, M, -2, 2, 1), fill_uniform(dy, M, -1, 1, 2);
    x->value[7] = 0, x->value[8] = -0.0f;
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *v = qg_quantize(t, q, qg_parameter(t, x), NULL);
    f.forward(&f, M, x->value, y);
    assert_memory_equal(v->data, y, sizeof y);
    assert_true(y[7] == 1 && y[8] == 1);
    assert_ok(qg_backward(t, weighed(t, v, dy)));
    f.backward(&f, M, x->value, dy, dx, NULL);
    assert_memory_equal(x->grad, dx, sizeof dx);
    f.backward(&f, M, x->value, dy, dy, NULL);          /* dx may be dy */
    assert_memory_equal(dy, dx, sizeof dx);
    qg_tape_free(t);
    qg_params_release(&p);
}

static void nothing_and_later(void **state)
{
    float    w[] = { -2, -0.5f, 0, 3 };
    qg_tape *t   = qg_tape_new();
    qg_quant twn = qg_twn((qg_twn_spec){ 0 }), sign = qg_sign((qg_sign_spec){ 0 });
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

/* By a layer, which knows the role, and by a tape, which does not. */
static void illegal_constants_are_named(void **state)
{
    const struct {
        qg_quant    q;
        qg_role     role;
        const char *layer, *part;
    } rows[] = {
        { qg_twn((qg_twn_spec){ .threshold = -1 }), QG_WEIGHT, "fc1.weight: twn",
          "threshold is -1, not in 0.01..10" },
        { qg_twn((qg_twn_spec){ .threshold = NAN }), QG_WEIGHT, "twn", "threshold is nan" },
        { qg_ste_tern((qg_ste_tern_spec){ .threshold = INFINITY }), QG_WEIGHT, "ste-tern", "threshold is inf" },
        { qg_ttq((qg_ttq_spec){ .threshold = -0.1f }), QG_WEIGHT, "fc1", "threshold is -0.1" },
        { qg_ttq((qg_ttq_spec){ .threshold = 1 }), QG_WEIGHT, "ttq", "threshold is 1" },
        { qg_ttq((qg_ttq_spec){ .threshold = NAN }), QG_WEIGHT, "ttq", "threshold is nan" },
        { qg_ttq((qg_ttq_spec){ .decay = -1 }), QG_WEIGHT, "ttq", "decay is -1" },
        { qg_ttq((qg_ttq_spec){ .rule = (qg_ttq_rule)2 }), QG_WEIGHT, "ttq", "rule is 2" },
        { qg_ttq((qg_ttq_spec){ 0 }), QG_INPUT, "ttq", "does not quantize inputs" },
        { qg_binaryconnect((qg_binaryconnect_spec){ .glorot_lr = (qg_glorot_lr)3 }), QG_WEIGHT,
          "fc1.weight: binaryconnect", "glorot-lr is 3, not one of off|adam|sgd" },
        { qg_bnn((qg_bnn_spec){ .glorot_lr = (qg_glorot_lr)-1 }), QG_WEIGHT, "bnn", "glorot-lr is -1" },
        { connect(false), QG_INPUT, "binaryconnect", "does not quantize inputs" },
        { sign_with((qg_surrogate){ 0 }), QG_GRADIENT, "sign", "does not quantize gradients" },
        { qg_xnor((qg_xnor_spec){ .rule = (qg_xnor_rule)6 }), QG_WEIGHT, "fc1", "rule is 5" },
        { qg_xnor((qg_xnor_spec){ 0 }), QG_INPUT, "xnor", "does not quantize inputs" },
        { dorefa(-2, false), QG_WEIGHT, "fc1", "bits is -2, not in 1..16 or 32" },
        { dorefa(1, true), QG_WEIGHT, "fc1", "max has no effect with bits=1; it requires bits=2..16" },
        { dorefa(17, false), QG_WEIGHT, "dorefa", "bits is 17" },
        { dorefa_activation(33, false), QG_INPUT, "dorefa", "bits is 33" },
        { dorefa_activation(2, false), QG_WEIGHT, "fc1", "does not quantize weights" },
        { qg_dorefa_gradient((qg_dorefa_gradient_spec){ .bits = -1 }), QG_GRADIENT, "dorefa", "bits is -1" },
        { linear(33, 2), QG_INPUT, "linear", "bits is 33, not in 1..16 or 32" },
        { linear(2, -1), QG_INPUT, "linear", "max-value is -1" },
        { linear(2, INFINITY), QG_INPUT, "linear", "max-value is inf" },
        { linear(2, 2), QG_WEIGHT, "linear", "does not quantize weights" },
        { unit(9, false), QG_INPUT, "unit", "bits is 9, not in 1..8" },
        { unit(1, true), QG_WEIGHT, "unit", "zero has no effect with bits=1; it requires bits=2..8" },
        { unit(-1, false), QG_WEIGHT, "unit", "bits is -1" },
        { pact(17, 0), QG_INPUT, "pact", "bits is 17, not in 1..16 or 32" },
        { pact(-1, 0), QG_INPUT, "pact", "bits is -1" },
        { pact(2, -1), QG_INPUT, "pact", "alpha" },
        { pact(2, 0), QG_WEIGHT, "pact", "does not quantize weights" },
        { lsq(-1, false), QG_INPUT, "lsq", "bits is -1" },
        { lsq(1, true), QG_WEIGHT, "lsq", "bits is 1" },
        { lsq(17, true), QG_WEIGHT, "lsq", "bits is 17" },
        { fake_quant(.bits = 1), QG_INPUT, "fake_quant", "bits is 1" },
        { fake_quant(.bits = 17), QG_WEIGHT, "fake_quant", "bits is 17" },
        { fake_quant(.range = QG_RANGE_OBSERVED, .decay = 1), QG_INPUT, "fake_quant",
          "decay is 1, not in 0.001..0.999999" },
        { fake_quant(.range = QG_RANGE_PERCENTILE, .percentile = 50), QG_INPUT, "fake_quant", "percentile is 50" },
        { fake_quant(.range = QG_RANGE_FIXED, .min = 2, .max = 1), QG_INPUT, "fake_quant",
          "min is 2, not below max, 1" },
        { fake_quant(.range = QG_RANGE_FIXED, .per_channel = true), QG_INPUT, "fake_quant",
          "does not support scales per channel" },
        { fake_quant(.range = QG_RANGE_CURRENT), QG_INPUT, "fake_quant",
          "range is 4, not one of learned|observed|percentile|fixed" },
        { fake_quant(.range = QG_RANGE_OBSERVED, .sum_gradient = true), QG_INPUT, "fake_quant",
          "gradient has no effect with range=observed" },
        { fake_quant(.range = QG_RANGE_CURRENT, .narrow_range = true), QG_WEIGHT, "fake_quant",
          "narrow-range has no effect with range=current" },
    };
    float    w[]     = { 1 };
    float    set[]   = { 1 };
    qg_tape *t       = qg_tape_new();
    for (int i = 0; i < COUNT(rows); i++) {
        print_message("row %d, %s\n", i, rows[i].part);
        assert_refused_in_net(rows[i].q, rows[i].role, rows[i].layer, rows[i].part);
        qg_quant q = rows[i].q;
        q.role     = rows[i].role;
        qg_tape_begin(t, QG_TRAIN, 1, 0);
        qg_var *learned[QG_MAX_LEARNED];
        for (int k = 0; k < QG_MAX_LEARNED; k++) learned[k] = qg_input(t, (qg_tensor){ { 1, 1, 1, 1 }, set });
        assert_null(qg_quantize(t, q, qg_input(t, (qg_tensor){ { 1, 1, 1, 1 }, w }), learned));
        assert_failed(qg_tape_status(t), QG_EARG, rows[i].part);
    }
    qg_tape_free(t);
}

/* --- in nets --------------------------------------------------------------------------------- */

static void a_fused_norm_gives_the_bits_of_the_op(void **state)
{
    const qg_quant sign = sign_with((qg_surrogate){ 0 });
    const struct {
        qg_quant    q;
        const char *op;             /* NULL: qg_norm alone, at step `from` */
        int         from;           /* the net runs no such op from this step on; negative: always */
    } rows[] = {
        { sign, NULL, 0 },
        { with(sign, qg_surrogate_swish(5)), NULL, 0 },
        { waiting(sign, 7), NULL, 6 },
        { qg_xnor_activation((qg_xnor_activation_spec){ .no_scale = true }), NULL, 0 },
        { dorefa_activation(1, false), NULL, 0 },
        { dorefa_activation(2, false), NULL, 0 },
        { dorefa_activation(3, true), NULL, 0 },
        { dorefa_activation(32, false), NULL, 0 },
        { linear(2, 1), "linear", 0 },
        { unit(2, false), "unit", 0 },
        { unit(2, true), "unit", 0 },
        { pact(3, 1), "pact", 0 },
        { lsq(3, false), "lsq", 1 },
        { lsq(3, true), "lsq", 1 },
        { fake_quant(.bits = 4), "fake_quant", 1 },
        { fake_quant(.bits = 4, .per_channel = true), "fake_quant", -1 },
        { fake_quant(.range = QG_RANGE_OBSERVED, .freeze_after = 2), "fake_quant", 2 },
        { fake_quant(.range = QG_RANGE_PERCENTILE, .percentile = 95), "fake_quant", -1 },
        { fake_quant(.range = QG_RANGE_FIXED, .max = 2), "fake_quant", 0 },
    };
    for (int i = 0; i < COUNT(rows); i++) {
        print_message("row %d, %s\n", i, rows[i].q.scheme->name);
        if (rows[i].op) assert_fused_equals_unfused(rows[i].q, rows[i].op, rows[i].from);
        else assert_fused_as_unfused(rows[i].q, (uint64_t)rows[i].from);
    }
}

static void threads_do_not_matter(void **state)
{
    const qg_quant none = { 0 }, sign = sign_with((qg_surrogate){ 0 });
    const qg_quant noise = qg_dorefa_gradient((qg_dorefa_gradient_spec){ .bits = 6 });
    const qg_quant rounded = qg_stochastic_gradient((qg_stochastic_gradient_spec){ 0 });
    const struct {
        qg_quant weight, input, gradient;
        bool     draws;
    } rows[] = {
        { qg_twn((qg_twn_spec){ 0 }), none, none, false },
        { qg_twn((qg_twn_spec){ .per_channel = true }), none, none, false },
        { qg_ste_tern((qg_ste_tern_spec){ 0 }), none, none, false },
        { qg_ttq((qg_ttq_spec){ 0 }), none, none, false },
        { qg_ttq((qg_ttq_spec){ .per_channel = true }), none, none, false },
        { connect(false), none, none, false },
        { connect(true), none, none, true },
        { qg_bnn((qg_bnn_spec){ .glorot_lr = QG_GLOROT_ADAM }), sign, none, false },
        { qg_magnitude_aware((qg_magnitude_aware_spec){ .as_paper = true }), with(sign, qg_surrogate_approx_sign()), none, false },
        { qg_binary((qg_binary_spec){ .per_channel = true }), with(sign, qg_surrogate_annealed_tanh(4)), none, false },
        { qg_bop_weight(), sign, none, false },
        { dorefa(1, false), dorefa_activation(2, false), noise, true },
        { dorefa(3, true), dorefa_activation(4, false), none, false },
        { qg_ste_tern((qg_ste_tern_spec){ 0 }), none, rounded, true },
    };
    for (int i = 0; i < COUNT(rows); i++) {
        print_message("row %d, %s\n", i, rows[i].weight.scheme->name);
        assert_any_threads(rows[i].weight, rows[i].input, rows[i].gradient, rows[i].draws);
    }
}

static void nets_train_alike(void **state)
{
    const qg_quant none = { 0 };
    const qg_quant learned = fake_quant(.bits = 4), channel = fake_quant(.bits = 4, .per_channel = true);
    const qg_quant tracked = fake_quant(.range = QG_RANGE_OBSERVED, .freeze_after = 2);
    const qg_quant ranked  = fake_quant(.range = QG_RANGE_PERCENTILE, .percentile = 95);
    const qg_quant ranks   = fake_quant(.range = QG_RANGE_PERCENTILE, .per_channel = true);
    const struct {
        qg_quant weight, input;
    } rows[] = {
        { none, linear(3, 1) },
        { unit(2, true), unit(2, false) },
        { unit(1, false), unit(1, false) },
        { none, pact(3, 1) },
        { none, waiting(pact(3, 1), 2) },
        { lsq(4, true), lsq(3, false) },
        { lsq(4, true), waiting(lsq(3, false), 2) },
        { learned, learned },
        { channel, channel },
        { fake_quant(.range = QG_RANGE_CURRENT, .per_channel = true), tracked },
        { tracked, waiting(tracked, 1) },
        { ranks, ranked },
        { fake_quant(.range = QG_RANGE_FIXED, .max = 2), ranks },
    };
    for (int i = 0; i < COUNT(rows); i++) {
        print_message("row %d, input %s\n", i, rows[i].input.scheme->name);
        assert_trains_alike(rows[i].weight, rows[i].input);
    }
}

/* Else a field would be believed by encode or by the count of bytes, and not by apply. */
static void scales_are_per_channel_where_the_scheme_has_them(void **state)
{
    const qg_quant never[]  = { qg_lsq((qg_lsq_spec){ .bits = 2 }),
                                qg_ste_tern((qg_ste_tern_spec){ 0 }), qg_unit((qg_unit_spec){ 0 }),
                                qg_sign((qg_sign_spec){ .surrogate = qg_surrogate_identity() }),
                                qg_pact((qg_pact_spec){ .bits = 2 }), qg_binary((qg_binary_spec){ 0 }) };
    const qg_quant always[] = { qg_xnor((qg_xnor_spec){ 0 }), qg_xnor((qg_xnor_spec){ .centred = true }),
                                qg_magnitude_aware((qg_magnitude_aware_spec){ .surrogate = qg_surrogate_clip(1) }) };
    const qg_quant either[] = { qg_twn((qg_twn_spec){ 0 }), qg_ttq((qg_ttq_spec){ 0 }),
                                qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = 1 }), qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = 4 }),
                                qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_OBSERVED }),
                                qg_lsq((qg_lsq_spec){ .bits = 2, .is_signed = true }),
                                qg_qdq((qg_qdq_spec){ 0 }) };
    for (int p = 0; p < 2; p++) {
        for (int i = 0; i < COUNT(never); i++) {
            qg_quant q    = never[i];
            q.per_channel = p;
            assert_int_equal(qg__quant_check(q), p ? QG_EARG : QG_OK);
            if (p) assert_message("does not support scales per channel");
        }
        for (int i = 0; i < COUNT(always); i++) {
            qg_quant q    = always[i];
            q.per_channel = p;
            assert_int_equal(qg__quant_check(q), p ? QG_OK : QG_EARG);
            if (!p) assert_message("requires scales per channel");
        }
        for (int i = 0; i < COUNT(either); i++) {
            qg_quant q    = either[i];
            q.per_channel = p;
            assert_ok(qg__quant_check(q));
        }
    }
}

/* By hand, as in a layer; a role that was not said is the scheme's. */
static void a_role_is_checked(void **state)
{
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
        cmocka_unit_test(codes_times_scales_are_what_apply_gives),
        cmocka_unit_test(sharing_a_gradient_changes_no_bit_of_it),
        cmocka_unit_test(slopes_are_those_of_the_surrogates),
        cmocka_unit_test(sign_as_an_activation_is_sign_as_an_op),
        cmocka_unit_test(nothing_and_later),
        cmocka_unit_test(illegal_constants_are_named),
        cmocka_unit_test(a_fused_norm_gives_the_bits_of_the_op),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(nets_train_alike),
        cmocka_unit_test(scales_are_per_channel_where_the_scheme_has_them),
        cmocka_unit_test(a_role_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
