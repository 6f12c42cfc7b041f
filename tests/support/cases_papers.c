/* Runners for the operators of Blueoil and of the papers. */
#include "quant/reference/binary.h"
#include "quant/reference/dorefa.h"
#include "quant/reference/uniform.h"
#include "quant/reference/ternary.h"
#include "tests/support/cases.h"

/* What nearly every operator here has: x and y, grad_y and grad_x, all of one shape. */
typedef struct pass {
    const qg_array *x, *dy;
    qg_array       *y, *dx;
} pass;

static pass pass_of(test_case *c)
{
    pass p = { .x = case_input_of(c, "x", QG_F32), .dy = case_input_of(c, "grad_y", QG_F32) };
    p.y = case_output_like(c, "y", QG_F32, p.x);
    p.dx = case_output_like(c, "grad_x", QG_F32, p.x);
    return p;
}

/* The value of a scalar output, for a function that returns it through a pointer; NULL if it fails
 * to be declared. */
static float *scalar_output(test_case *c, const char *name)
{
    return case_output(c, name, QG_F32, 0, NULL)->data;
}

/* An output with one element per index of an axis of x. */
static qg_array *along(test_case *c, const char *name, const qg_array *x, int axis)
{
    const size_t n = axis >= 0 && axis < x->rank ? x->dims[axis] : 0;
    return case_output(c, name, QG_F32, 1, &n);
}

/* ---- Blueoil ---- */

static void linear_mid_tread_half(test_case *c)
{
    const int   bit = case_int(c, "bit");
    const float max_value = case_float(c, "max_value");
    const pass  p = pass_of(c);
    if (case_ready(c)) case_result(c, qg_linear_mid_tread_half_quantizer(p.x, bit, max_value, p.y));
    if (case_ready(c))
        case_result(c, qg_linear_mid_tread_half_quantizer_gradient(p.x, p.dy, bit, max_value,
                                                                   (qg_surrogate){ 0 }, p.dx));
}

static void binary_mean_scaling(test_case *c)
{
    const pass p = pass_of(c);
    if (case_ready(c)) case_result(c, qg_binary_mean_scaling_quantizer(p.x, p.y, NULL));
    if (case_ready(c))
        case_result(
            c, qg_binary_mean_scaling_quantizer_gradient(p.x, p.dy, (qg_surrogate){ 0 }, p.dx));
}

static void binary_channel_wise_mean_scaling(test_case *c)
{
    const pass p = pass_of(c);
    if (case_ready(c))
        case_result(c, qg_binary_channel_wise_mean_scaling_quantizer(p.x, p.y, NULL));
    if (case_ready(c))
        case_result(c, qg_binary_channel_wise_mean_scaling_quantizer_gradient(
                           p.x, p.dy, (qg_surrogate){ 0 }, p.dx));
}

static void twn_weight(test_case *c)
{
    const float threshold = case_float(c, "threshold");
    const pass  p = pass_of(c);
    float      *delta = scalar_output(c, "delta");
    float      *alpha = scalar_output(c, "alpha");
    if (case_ready(c)) case_result(c, qg_twn_weight_quantizer(p.x, threshold, p.y, delta, alpha));
    if (case_ready(c))
        case_result(c, qg_twn_weight_quantizer_gradient(p.x, p.dy, (qg_surrogate){ 0 }, p.dx));
}

static void ttq_weight(test_case *c)
{
    qg_ttq_attrs attrs = { .threshold = case_float(c, "threshold") };
    const int    wn_sign = case_int_or(c, "wn_sign", 1); /* the files' default, not the library's */
    const pass   p = pass_of(c);
    attrs.positive = case_scalar(c, "positive");
    attrs.negative = case_scalar(c, "negative");
    attrs.rule = wn_sign == 1 ? QG_TTQ_AS_PRINTED : QG_TTQ_EXACT;
    float *dp = scalar_output(c, "grad_positive");
    float *dn = scalar_output(c, "grad_negative");
    if (wn_sign != 1 && wn_sign != -1) case_complain(c, "wn_sign is %d, neither 1 nor -1", wn_sign);
    if (case_ready(c)) case_result(c, qg_ttq_weight_quantizer(p.x, attrs, p.y));
    if (case_ready(c))
        case_result(c, qg_ttq_weight_quantizer_gradient(p.x, p.dy, attrs, p.dx, dp, dn));
}

/* ---- DoReFa ---- */

static void dorefa_activation(test_case *c)
{
    static const char *const ties[] = { "even", "up", NULL };
    const int                k = case_int(c, "k");
    const int                tie = case_choice_or(c, "rounding", ties, QG_TIES_EVEN);
    const pass               p = pass_of(c);
    if (case_ready(c))
        case_result(c, qg_dorefa_activation_quantizer(p.x, k, (qg_dorefa_ties)tie, p.y));
    if (case_ready(c))
        case_result(
            c, qg_dorefa_activation_quantizer_gradient(p.x, p.dy, k, (qg_surrogate){ 0 }, p.dx));
}

static void dorefa_weight(test_case *c)
{
    const qg_dorefa_weight_attrs attrs = { .k = case_int(c, "k"),
                                           .through_max = case_bool_or(c, "through_max", false) };
    const pass                   p = pass_of(c);
    if (case_ready(c)) case_result(c, qg_dorefa_weight_quantizer(p.x, attrs.k, p.y));
    if (case_ready(c)) case_result(c, qg_dorefa_weight_quantizer_gradient(p.x, p.dy, attrs, p.dx));
}

static void dorefa_gradient(test_case *c)
{
    const int       k = case_int(c, "k");
    const qg_array *dr = case_input_of(c, "dr", QG_F32);
    const qg_array *noise = case_input_of(c, "noise", QG_F32);
    qg_array       *y = case_output_like(c, "y", QG_F32, dr);
    if (case_ready(c)) case_result(c, qg_dorefa_gradient_quantizer(dr, k, noise, y));
}

/* ---- binary, ternary and learned ---- */

static void sign_with(test_case *c, qg_surrogate s)
{
    const pass p = pass_of(c);
    if (case_ready(c)) case_result(c, qg_sign_quantizer(p.x, p.y));
    if (case_ready(c)) case_result(c, qg_sign_quantizer_gradient(p.x, p.dy, s, p.dx));
}

static void ste_sign(test_case *c)
{
    bool        unclipped;
    const float bound = case_float_or_null(c, "clip", &unclipped);
    sign_with(c, unclipped ? qg_surrogate_identity() : qg_surrogate_clip(bound));
}

static void approx_sign(test_case *c)
{
    sign_with(c, qg_surrogate_approx_sign());
}

static void swish_sign(test_case *c)
{
    sign_with(c, qg_surrogate_swish(case_float(c, "beta")));
}

static void ste_tern(test_case *c)
{
    const qg_ste_tern_attrs attrs = { case_float(c, "threshold_value"),
                                      case_bool(c, "ternary_weight_networks") };
    bool                    unclipped;
    const float             bound = case_float_or_null(c, "clip", &unclipped);
    const pass              p = pass_of(c);
    if (case_ready(c)) case_result(c, qg_ste_tern_quantizer(p.x, attrs, p.y));
    if (case_ready(c))
        case_result(c, qg_ste_tern_quantizer_gradient(
                           p.x, p.dy, unclipped ? qg_surrogate_identity() : qg_surrogate_clip(bound), p.dx));
}

static void magnitude_aware_sign(test_case *c)
{
    const pass p = pass_of(c);
    if (case_ready(c)) case_result(c, qg_magnitude_aware_sign_quantizer(p.x, p.y, NULL));
    if (case_ready(c))
        case_result(
            c, qg_magnitude_aware_sign_quantizer_gradient(p.x, p.dy, (qg_surrogate){ 0 }, p.dx));
}

static void xnor_weight(test_case *c)
{
    static const char *const  backward[] = { "exact", "paper", "authors", "identity", NULL };
    static const char *const  optim[] = { "sgd", "adam", NULL };
    static const qg_xnor_rule rules[] = { QG_XNOR_EXACT, QG_XNOR_PAPER, QG_XNOR_AUTHORS,
                                          QG_XNOR_IDENTITY };
    qg_xnor_attrs             attrs = { .axis = case_int(c, "axis"), .input_axis = 1 };
    attrs.rule = rules[case_choice(c, "backward", backward)];
    if (case_choice(c, "optim", optim) == 1 && attrs.rule == QG_XNOR_AUTHORS)
        attrs.rule = QG_XNOR_AUTHORS_ADAM;
    const pass p = pass_of(c);
    qg_array  *alpha = along(c, "alpha", p.x, attrs.axis);
    if (case_ready(c)) case_result(c, qg_xnor_weight_quantizer(p.x, attrs.axis, p.y, alpha));
    if (case_ready(c)) case_result(c, qg_xnor_weight_quantizer_gradient(p.x, p.dy, attrs, p.dx));
}

static size_t windows(size_t extent, int kernel, int stride, bool same_padding)
{
    if (kernel < 1 || stride < 1) return 0;
    const size_t k = (size_t)kernel;
    const size_t s = (size_t)stride;
    if (same_padding) return (extent + s - 1) / s;
    return extent < k ? 0 : (extent - k) / s + 1;
}

static void xnor_activation(test_case *c)
{
    static const char *const padding[] = { "VALID", "SAME", NULL };
    const qg_xnor_window     w = { .kernel_h = case_int(c, "kh"),
                                   .kernel_w = case_int(c, "kw"),
                                   .stride = case_int(c, "stride"),
                                   .same_padding = case_choice(c, "padding", padding) == 1 };
    const qg_array          *x = case_input_of(c, "x", QG_F32);
    const size_t dims[] = { x->dims[0], windows(x->dims[1], w.kernel_h, w.stride, w.same_padding),
                            windows(x->dims[2], w.kernel_w, w.stride, w.same_padding), 1 };
    qg_array    *sign = case_output_like(c, "sign", QG_F32, x);
    qg_array    *K = case_output(c, "K", QG_F32, 4, dims);
    if (case_ready(c)) case_result(c, qg_xnor_activation_quantizer(x, w, sign, K));
}

static void lsq(test_case *c)
{
    qg_lsq_attrs attrs = { .qn = case_int(c, "qn"),
                           .qp = case_int(c, "qp"),
                           .grad_scale = case_double(c, "grad_scale") };
    const pass   p = pass_of(c);
    attrs.step = case_scalar(c, "s");
    float *ds = scalar_output(c, "grad_s");
    if (case_ready(c)) case_result(c, qg_lsq_quantizer(p.x, attrs, p.y));
    if (case_ready(c)) case_result(c, qg_lsq_quantizer_gradient(p.x, p.dy, attrs, p.dx, ds));
}

static void pact(test_case *c)
{
    const int   k = case_int(c, "k");
    const pass  p = pass_of(c);
    const float alpha = case_scalar(c, "alpha");
    float      *da = scalar_output(c, "grad_alpha");
    if (case_ready(c)) case_result(c, qg_pact_quantizer(p.x, k, alpha, p.y));
    if (case_ready(c))
        case_result(c,
                    qg_pact_quantizer_gradient(p.x, p.dy, k, alpha, (qg_surrogate){ 0 }, p.dx, da));
}

const case_op paper_cases[] = {
    { "linear_mid_tread_half", linear_mid_tread_half },
    { "binary_mean_scaling", binary_mean_scaling },
    { "binary_channel_wise_mean_scaling", binary_channel_wise_mean_scaling },
    { "twn_weight", twn_weight },
    { "ttq_weight", ttq_weight },
    { "dorefa_activation", dorefa_activation },
    { "dorefa_weight", dorefa_weight },
    { "dorefa_gradient", dorefa_gradient },
    { "ste_sign", ste_sign },
    { "approx_sign", approx_sign },
    { "swish_sign", swish_sign },
    { "ste_tern", ste_tern },
    { "magnitude_aware_sign", magnitude_aware_sign },
    { "xnor_weight", xnor_weight },
    { "xnor_activation", xnor_activation },
    { "lsq", lsq },
    { "pact", pact },
    { NULL, NULL },
};
