#include "tests/support/views.h"

#include "quant/reference/binary.h"
#include "quant/reference/dorefa.h"
#include "quant/reference/fake_quant.h"
#include "quant/reference/ternary.h"
#include "quant/reference/uniform.h"
#include "tests/support/schemes.h"

/* A scheme on a tape and the operator of the same source on arrays give the same bits. */

/* Awkward rows, and two tensors of several blocks of 16384. */
static const qg_shape shapes[] = {
    { 1, 1, 1, 1 }, { 3, 1, 1, 65 }, { 31, 1, 1, 1 }, { 33, 1, 1, 31 }, { 5, 3, 3, 7 }, { 3, 1, 65, 63 },
    { 65, 3, 5, 33 },
};
enum { SHAPES = sizeof shapes / sizeof *shapes, ELEMENTS = 65 * 3 * 5 * 33 };

static const qg_surrogate own = { 0 };

/* What an operator is called with, and what it returns. */
typedef struct operands {
    qg_quant     q;
    const float *learned;
    qg_array     x, dy, y, dx;
    float        dlearned[2];
} operands;

typedef void (*operator)(operands *o);

/* --- the operators ---------------------------------------------------------------------------- */

static void sign(operands *o)
{
    assert_ok(qg_sign_quantizer(&o->x, &o->y));
    assert_ok(qg_sign_quantizer_gradient(&o->x, &o->dy, own, &o->dx));
}

static void straight_sign(operands *o)
{
    assert_ok(qg_sign_quantizer(&o->x, &o->y));
    assert_ok(qg_sign_quantizer_gradient(&o->x, &o->dy, qg_surrogate_identity(), &o->dx));
}

static void mean_scaling(operands *o)
{
    assert_ok(qg_binary_mean_scaling_quantizer(&o->x, &o->y, NULL));
    assert_ok(qg_binary_mean_scaling_quantizer_gradient(&o->x, &o->dy, own, &o->dx));
}

/* The operator wants channels inmost: [1,1,in,out]. */
static void channel_wise(operands *o)
{
    static float in[ELEMENTS], out[ELEMENTS];
    const size_t n = qg_array_count(&o->x), c = o->x.dims[0], k = n / c;
    for (size_t i = 0; i < n; i++) in[i % k * c + i / k] = ((float *)o->x.data)[i];
    const qg_array x = tensor4(in, 1, 1, k, c);
    assert_ok(qg_binary_channel_wise_mean_scaling_quantizer(&x, TENSOR4(out, 1, 1, k, c), NULL));
    for (size_t i = 0; i < n; i++) ((float *)o->y.data)[i] = out[i % k * c + i / k];
    assert_ok(qg_binary_channel_wise_mean_scaling_quantizer_gradient(&o->x, &o->dy, own, &o->dx));
}

/* Bi-Real Net's weights: one scale per filter, and dx = dy |q| where |x| <= 1. */
static void magnitude_aware(operands *o)
{
    const float *x = o->x.data, *dy = o->dy.data, *y = o->y.data;
    assert_ok(qg_xnor_weight_quantizer(&o->x, 0, &o->y, NULL));
    for (size_t i = 0; i < qg_array_count(&o->x); i++)
        ((float *)o->dx.data)[i] = 0.0f + (fabsf(x[i]) <= 1 ? dy[i] * fabsf(y[i]) : 0);     /* added, so never -0 */
}

static void twn(operands *o)
{
    const float threshold = (float)o->q.arg[0];
    if (o->q.per_channel) assert_ok(qg_twn_per_channel_weight_quantizer(&o->x, 0, threshold, &o->y, NULL));
    else assert_ok(qg_twn_weight_quantizer(&o->x, threshold, &o->y, NULL, NULL));
    assert_ok(qg_twn_weight_quantizer_gradient(&o->x, &o->dy, own, &o->dx));
}

static void ste_tern(operands *o)
{
    const qg_ste_tern_attrs a = { .threshold_value = 0.05f };
    assert_ok(qg_ste_tern_quantizer(&o->x, a, &o->y));
    assert_ok(qg_ste_tern_quantizer_gradient(&o->x, &o->dy, own, &o->dx));
}

static void ste_tern_relative(operands *o)
{
    const qg_ste_tern_attrs a = { .ternary_weight_networks = true };
    assert_ok(qg_ste_tern_quantizer(&o->x, a, &o->y));
    assert_ok(qg_ste_tern_quantizer_gradient(&o->x, &o->dy, own, &o->dx));
}

static void ttq_by(operands *o, qg_ttq_rule rule)
{
    const qg_ttq_attrs a = { 0.3f, o->learned[0], o->learned[1], rule, own };
    assert_ok(qg_ttq_weight_quantizer(&o->x, a, &o->y));
    assert_ok(qg_ttq_weight_quantizer_gradient(&o->x, &o->dy, a, &o->dx, &o->dlearned[0], &o->dlearned[1]));
}

static void ttq(operands *o) { ttq_by(o, QG_TTQ_EXACT); }
static void ttq_as_printed(operands *o) { ttq_by(o, QG_TTQ_AS_PRINTED); }

static void xnor_by(operands *o, qg_xnor_rule rule)
{
    const qg_xnor_attrs a = { .axis = 0, .input_axis = 3, .rule = rule };
    assert_ok(qg_xnor_weight_quantizer(&o->x, 0, &o->y, NULL));
    assert_ok(qg_xnor_weight_quantizer_gradient(&o->x, &o->dy, a, &o->dx));
}

static void xnor_exact(operands *o) { xnor_by(o, QG_XNOR_EXACT); }
static void xnor_paper(operands *o) { xnor_by(o, QG_XNOR_PAPER); }
static void xnor_authors(operands *o) { xnor_by(o, QG_XNOR_AUTHORS); }
static void xnor_authors_adam(operands *o) { xnor_by(o, QG_XNOR_AUTHORS_ADAM); }
static void xnor_identity(operands *o) { xnor_by(o, QG_XNOR_IDENTITY); }

static void dorefa_weight_by(operands *o, bool through_max)
{
    const qg_dorefa_weight_attrs a = { .k = o->q.bits, .through_max = through_max };
    assert_ok(qg_dorefa_weight_quantizer(&o->x, a.k, &o->y));
    assert_ok(qg_dorefa_weight_quantizer_gradient(&o->x, &o->dy, a, &o->dx));
}

static void dorefa_weight(operands *o) { dorefa_weight_by(o, false); }
static void dorefa_through_max(operands *o) { dorefa_weight_by(o, true); }

static void dorefa_activation_by(operands *o, qg_dorefa_ties ties)
{
    assert_ok(qg_dorefa_activation_quantizer(&o->x, o->q.bits, ties, &o->y));
    assert_ok(qg_dorefa_activation_quantizer_gradient(&o->x, &o->dy, o->q.bits, own, &o->dx));
}

static void dorefa_activation(operands *o) { dorefa_activation_by(o, QG_TIES_EVEN); }
static void dorefa_activation_up(operands *o) { dorefa_activation_by(o, QG_TIES_UP); }

static void linear(operands *o)
{
    assert_ok(qg_linear_mid_tread_half_quantizer(&o->x, o->q.bits, 1.3f, &o->y));
    assert_ok(qg_linear_mid_tread_half_quantizer_gradient(&o->x, &o->dy, o->q.bits, 1.3f, own, &o->dx));
}

static void pact(operands *o)
{
    const float alpha = o->learned[0];
    assert_ok(qg_pact_quantizer(&o->x, o->q.bits, alpha, &o->y));
    assert_ok(qg_pact_quantizer_gradient(&o->x, &o->dy, o->q.bits, alpha, own, &o->dx, o->dlearned));
}

static void lsq_by(operands *o, bool is_signed)
{
    const int    bits = o->q.bits, half = 1 << (bits - 1);
    const size_t n = qg_array_count(&o->x), numbers = o->q.role == QG_WEIGHT ? n : n / o->x.dims[0];
    qg_lsq_attrs a = { .step = o->learned[0], .qn = is_signed ? half : 0, .qp = is_signed ? half - 1 : 2 * half - 1 };
    a.grad_scale   = (double)(float)(1.0 / sqrt((double)numbers * a.qp));
    assert_ok(qg_lsq_quantizer(&o->x, a, &o->y));
    assert_ok(qg_lsq_quantizer_gradient(&o->x, &o->dy, a, &o->dx, o->dlearned));
}

static void lsq_signed(operands *o) { lsq_by(o, true); }
static void lsq_unsigned(operands *o) { lsq_by(o, false); }

static void vars_by(operands *o, bool narrow)
{
    const qg_fake_quant_attrs a = { .num_bits = o->q.bits, .narrow_range = narrow };
    float          ends[2] = { o->learned[0], o->learned[1] };
    const qg_array min = scalar(&ends[0]), max = scalar(&ends[1]);
    qg_array       dmin = scalar(&o->dlearned[0]), dmax = scalar(&o->dlearned[1]);
    assert_ok(qg_fake_quant_with_min_max_vars(a, &o->x, &min, &max, &o->y));
    assert_ok(qg_fake_quant_with_min_max_vars_gradient(a, &o->dy, &o->x, &min, &max, &o->dx, &dmin, &dmax));
}

static void vars(operands *o) { vars_by(o, false); }
static void vars_narrow(operands *o) { vars_by(o, true); }

static void args(operands *o)
{
    const qg_fake_quant_args a = { .min = 0.2f, .max = 1.3f, .num_bits = o->q.bits };
    assert_ok(qg_fake_quant_with_min_max_args(a, &o->x, &o->y));
    assert_ok(qg_fake_quant_with_min_max_args_gradient(a, &o->dy, &o->x, &o->dx));
}

/* --- the comparison --------------------------------------------------------------------------- */

/* Bitwise, but any NaN equals any other. */
static void compare(const char *name, const char *what, size_t n, const float *got, const float *want)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(got + i, want + i, sizeof *got) && !(isnan(got[i]) && isnan(want[i])))
            fail_msg("%s: %s[%zu] is %g, expected %g", name, what, i, (double)got[i], (double)want[i]);
}

static void check(const char *name, qg_quant q, qg_role role, operator run, const float *learned)
{
    static float dy[ELEMENTS], y[ELEMENTS], dx[ELEMENTS];
    for (int s = 0; s < SHAPES; s++) {
        rig          r;
        const size_t n = qg_count(shapes[s]);
        open_rig(&r, q, role, shapes[s]);
        fill_uniform(dy, n, -1, 1, n + 1);
        for (int i = 0; i < qg_learned_count(q); i++) r.learned[i]->value[0] = learned[i];
        for (int how = 0; how < FILLINGS; how++) {
            fill_how(r.x->value, n, how, 2.0f);
            operands o = { .q = r.q, .learned = learned };
            o.x  = rig_array(shapes[s], r.x->value);
            o.dy = rig_array(shapes[s], dy);
            o.y  = rig_array(shapes[s], y);
            o.dx = rig_array(shapes[s], dx);
            run(&o);
            train_rig(&r, 0, dy);
            compare(name, "y", n, r.y->data, y);
            compare(name, "dx", n, r.x->grad, dx);
            assert_ok(run_rig(&r, QG_EVAL, 0));
            compare(name, "y in evaluation", n, r.y->data, y);
            /* Double sums of n terms, of an input cut into other pieces. */
            for (int i = 0; i < qg_learned_count(q) && !q.scheme->learned[i].tracked; i++) {
                const double got = (double)r.learned[i]->grad[0], want = (double)o.dlearned[i];
                const double error = role == QG_WEIGHT ? 0 : 1e-6 * (1 + fabs(want));
                if (isnan(want) ? !isnan(got) : !(fabs(got - want) <= error))
                    fail_msg("%s: d%s is %g, expected %g", name, q.scheme->learned[i].name, got, want);
            }
        }
        close_rig(&r);
    }
}

static void without_bits(void **state)
{
    const struct {
        const char *name;
        operator    run;
        qg_quant    q;
        qg_role     role;
        float       learned[2];
    } rows[] = {
        { "sign", sign, qg_sign((qg_sign_spec){ { 0 } }), QG_INPUT, { 0 } },
        { "bop", straight_sign, qg_bop_weight(), QG_WEIGHT, { 0 } },
        { "bnn", sign, qg_bnn((qg_bnn_spec){ .as_paper = true }), QG_WEIGHT, { 0 } },
        { "binaryconnect", straight_sign, qg_binaryconnect((qg_binaryconnect_spec){ .as_paper = true }), QG_WEIGHT, { 0 } },
        { "binary", mean_scaling, qg_binary((qg_binary_spec){ 0 }), QG_WEIGHT, { 0 } },
        { "binary per channel", channel_wise, qg_binary((qg_binary_spec){ .per_channel = true }), QG_WEIGHT, { 0 } },
        { "magnitude-aware", magnitude_aware, qg_magnitude_aware((qg_magnitude_aware_spec){ .as_paper = true }), QG_WEIGHT,
          { 0 } },
        { "twn", twn, qg_twn((qg_twn_spec){ 0 }), QG_WEIGHT, { 0 } },
        { "twn 0.1", twn, qg_twn((qg_twn_spec){ .threshold = 0.1f }), QG_WEIGHT, { 0 } },
        { "twn per channel", twn, qg_twn((qg_twn_spec){ .per_channel = true }), QG_WEIGHT, { 0 } },
        { "ste-tern", ste_tern, qg_ste_tern((qg_ste_tern_spec){ .as_paper = true }), QG_WEIGHT, { 0 } },
        { "ste-tern relative", ste_tern_relative, qg_ste_tern((qg_ste_tern_spec){ .plain_gradient = true }), QG_WEIGHT,
          { 0 } },
        { "ttq", ttq, qg_ttq((qg_ttq_spec){ .as_paper = true, .threshold = 0.3f }), QG_WEIGHT, { 1.75f, 0.125f } },
        { "ttq as printed", ttq_as_printed, qg_ttq((qg_ttq_spec){ .as_paper = true, .threshold = 0.3f, .rule = QG_TTQ_AS_PRINTED }),
          QG_WEIGHT, { 1.75f, 0.5f } },
        { "xnor exact", xnor_exact, qg_xnor((qg_xnor_spec){ .rule = QG_XNOR_EXACT }), QG_WEIGHT, { 0 } },
        { "xnor paper", xnor_paper, qg_xnor((qg_xnor_spec){ .rule = QG_XNOR_PAPER }), QG_WEIGHT, { 0 } },
        { "xnor authors", xnor_authors, qg_xnor((qg_xnor_spec){ .rule = QG_XNOR_AUTHORS }), QG_WEIGHT, { 0 } },
        { "xnor authors-adam", xnor_authors_adam, qg_xnor((qg_xnor_spec){ .rule = QG_XNOR_AUTHORS_ADAM }), QG_WEIGHT,
          { 0 } },
        { "xnor identity", xnor_identity, qg_xnor((qg_xnor_spec){ .rule = QG_XNOR_IDENTITY }), QG_WEIGHT, { 0 } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check(rows[i].name, rows[i].q, rows[i].role, rows[i].run, rows[i].learned);
}

static void of_each_number_of_bits(void **state)
{
    const float alpha[] = { 1.3f };
    for (int bits = 1; bits <= 32; bits = bits == 16 ? 32 : bits + 1) {
        const qg_dorefa_weight_spec     weight = { .bits = bits }, through = { .bits = bits, .through_max = true };
        const qg_dorefa_activation_spec even = { .bits = bits }, up = { .bits = bits, .ties_up = true };
        const float                     step[] = { 0.9f / (float)(1u << (bits - 1)), 1.0f };
        const qg_quant q = qg_linear((qg_linear_spec){ .bits = bits, .max_value = 1.3f });
        check("linear", q, QG_INPUT, linear, NULL);
        check("pact", qg_pact((qg_pact_spec){ .bits = bits }), QG_INPUT, pact, alpha);
        check("dorefa", qg_dorefa_activation(even), QG_INPUT, dorefa_activation, NULL);
        if (bits == 32) continue;
        check("dorefa, ties up", qg_dorefa_activation(up), QG_INPUT, dorefa_activation_up, NULL);
        check("dorefa", qg_dorefa_weight(weight), QG_WEIGHT, dorefa_weight, NULL);
        check("lsq", qg_lsq((qg_lsq_spec){ .bits = bits }), QG_INPUT, lsq_unsigned, step);
        if (bits == 1) continue;
        check("dorefa through max", qg_dorefa_weight(through), QG_WEIGHT, dorefa_through_max, NULL);
        const qg_quant lsq = qg_lsq((qg_lsq_spec){ .bits = bits, .is_signed = true });
        check("lsq, signed", lsq, QG_WEIGHT, lsq_signed, step);
        check("lsq, signed input", lsq, QG_INPUT, lsq_signed, step);
        const float range[] = { -0.7f, 1.1f, 1, 1 };
        for (int narrow = 0; narrow < 2; narrow++) {
            const qg_fake_quant_spec spec = { .bits = bits, .narrow_range = narrow, .sum_gradient = true };
            const qg_quant learned = qg_fake_quant(spec);
            check("fake_quant", learned, QG_INPUT, narrow ? vars_narrow : vars, range);
        }
        const qg_fake_quant_spec fixed = { .bits = bits, .range = QG_RANGE_FIXED, .min = 0.2f, .max = 1.3f };
        check("fake_quant, fixed", qg_fake_quant(fixed), QG_INPUT, args, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_bits),
        cmocka_unit_test(of_each_number_of_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
