#include "tests/support/cases.h"

#include "quant/reference/fake_quant.h"
#include "quant/reference/quantize.h"

/* ---- fake quantization ---- */

static qg_fake_quant_attrs fake_quant_attrs(test_case *c)
{
    return (qg_fake_quant_attrs){ .num_bits     = case_int(c, "num_bits"),
                                  .narrow_range = case_bool(c, "narrow_range") };
}

static qg_fake_quant_args fake_quant_args(test_case *c)
{
    return (qg_fake_quant_args){ .min          = case_float(c, "min"),
                                 .max          = case_float(c, "max"),
                                 .num_bits     = case_int(c, "num_bits"),
                                 .narrow_range = case_bool(c, "narrow_range") };
}

static void nudge(test_case *c)
{
    const qg_fake_quant_attrs attrs = fake_quant_attrs(c);
    const float               min   = case_scalar(c, "min");
    const float               max   = case_scalar(c, "max");
    qg_array                 *zero  = case_output(c, "zero_point", QG_I32, 0, NULL);
    qg_array                 *nmin  = case_output(c, "nudged_min", QG_F32, 0, NULL);
    qg_array                 *nmax  = case_output(c, "nudged_max", QG_F32, 0, NULL);
    qg_fake_quant_range       range;
    if (!case_ready(c)) return;
    case_result(c, qg_fake_quant_nudge(attrs, min, max, &range));
    if (!case_ready(c)) return;
    *(int32_t *)zero->data = range.zero_point;
    *(float *)nmin->data   = range.nmin;
    *(float *)nmax->data   = range.nmax;
}

static void args(test_case *c)
{
    const qg_fake_quant_args attrs = fake_quant_args(c);
    const qg_array          *x     = case_input(c, "inputs");
    qg_array                *y     = case_output_like(c, "outputs", QG_F32, x);
    if (case_ready(c)) case_result(c, qg_fake_quant_with_min_max_args(attrs, x, y));
}

static void args_gradient(test_case *c)
{
    const qg_fake_quant_args attrs = fake_quant_args(c);
    const qg_array          *g     = case_input(c, "gradients");
    const qg_array          *x     = case_input(c, "inputs");
    qg_array                *dx    = case_output_like(c, "backprops", QG_F32, x);
    if (case_ready(c)) case_result(c, qg_fake_quant_with_min_max_args_gradient(attrs, g, x, dx));
}

typedef qg_status forward_op(qg_fake_quant_attrs attrs, const qg_array *x, const qg_array *min,
                             const qg_array *max, qg_array *y);
typedef qg_status gradient_op(qg_fake_quant_attrs attrs, const qg_array *g, const qg_array *x,
                              const qg_array *min, const qg_array *max, qg_array *dx,
                              qg_array *dmin, qg_array *dmax);

static void with_range(test_case *c, forward_op *op)
{
    const qg_fake_quant_attrs attrs = fake_quant_attrs(c);
    const qg_array           *x     = case_input(c, "inputs");
    const qg_array           *min   = case_input(c, "min");
    const qg_array           *max   = case_input(c, "max");
    qg_array                 *y     = case_output_like(c, "outputs", QG_F32, x);
    if (case_ready(c)) case_result(c, op(attrs, x, min, max, y));
}

static void with_range_gradient(test_case *c, gradient_op *op)
{
    const qg_fake_quant_attrs attrs = fake_quant_attrs(c);
    const qg_array           *g     = case_input(c, "gradients");
    const qg_array           *x     = case_input(c, "inputs");
    const qg_array           *min   = case_input(c, "min");
    const qg_array           *max   = case_input(c, "max");
    qg_array                 *dx    = case_output_like(c, "backprops_wrt_input", QG_F32, x);
    qg_array                 *dmin  = case_output_like(c, "backprop_wrt_min", QG_F32, min);
    qg_array                 *dmax  = case_output_like(c, "backprop_wrt_max", QG_F32, max);
    if (case_ready(c)) case_result(c, op(attrs, g, x, min, max, dx, dmin, dmax));
}

static void vars(test_case *c)
{
    with_range(c, qg_fake_quant_with_min_max_vars);
}

static void vars_gradient(test_case *c)
{
    with_range_gradient(c, qg_fake_quant_with_min_max_vars_gradient);
}

static void per_channel(test_case *c)
{
    with_range(c, qg_fake_quant_with_min_max_vars_per_channel);
}

static void per_channel_gradient(test_case *c)
{
    with_range_gradient(c, qg_fake_quant_with_min_max_vars_per_channel_gradient);
}

/* ---- quantize and dequantize ---- */

static const char *const modes[]       = { "MIN_COMBINED", "MIN_FIRST", "SCALED", NULL };
static const char *const round_modes[] = { "HALF_AWAY_FROM_ZERO", "HALF_TO_EVEN", "HALF_UP", NULL };
static const char *const versions[]    = { "v2", "v3", "v4", NULL };
static const char *const variants[]    = { "tf2", "r14", NULL };

static qg_dtype code_dtype(test_case *c)
{
    static const char *const names[]  = { "qint8", "quint8", "qint16", "quint16", "qint32", NULL };
    static const qg_dtype    dtypes[] = { QG_I8, QG_U8, QG_I16, QG_U16, QG_I32 };
    return dtypes[case_choice(c, "T", names)];
}

static void quantize_and_dequantize(test_case *c)
{
    const qg_quantize_and_dequantize_attrs attrs = {
        .version      = (qg_qdq_version)case_choice(c, "version", versions),
        .signed_input = case_bool(c, "signed_input"),
        .num_bits     = case_int(c, "num_bits"),
        .range_given  = case_bool(c, "range_given"),
        .round_mode   = (qg_round_mode)case_choice(c, "round_mode", round_modes),
        .narrow_range = case_bool(c, "narrow_range"),
        .axis         = case_int(c, "axis"),
    };
    const qg_array *x   = case_input(c, "input");
    const qg_array *min = case_input(c, "input_min");
    const qg_array *max = case_input(c, "input_max");
    qg_array       *y   = case_output_like(c, "output", QG_F32, x);
    if (case_ready(c)) case_result(c, qg_quantize_and_dequantize(attrs, x, min, max, y));
}

static void quantize_and_dequantize_gradient(test_case *c)
{
    const qg_quantize_and_dequantize_attrs attrs = {
        .version      = QG_QDQ_V4,
        .signed_input = true,
        .num_bits     = 8,
        .range_given  = true,
        .round_mode   = QG_HALF_TO_EVEN,
        .axis         = case_int(c, "axis"),
    };
    const qg_array *g    = case_input(c, "gradients");
    const qg_array *x    = case_input(c, "input");
    const qg_array *min  = case_input(c, "input_min");
    const qg_array *max  = case_input(c, "input_max");
    qg_array       *dx   = case_output_like(c, "input_backprop", QG_F32, x);
    qg_array       *dmin = case_output_like(c, "input_min_backprop", QG_F32, min);
    qg_array       *dmax = case_output_like(c, "input_max_backprop", QG_F32, max);
    if (case_ready(c))
        case_result(c, qg_quantize_and_dequantize_v4_gradient(attrs, g, x, min, max, dx, dmin,
                                                              dmax));
}

static void quantize_v2(test_case *c)
{
    const qg_dtype             dtype = code_dtype(c);
    const qg_quantize_v2_attrs attrs = {
        .mode                 = (qg_quantize_mode)case_choice(c, "mode", modes),
        .round_mode           = (qg_round_mode)case_choice(c, "round_mode", round_modes),
        .narrow_range         = case_bool(c, "narrow_range"),
        .axis                 = case_int(c, "axis"),
        .ensure_minimum_range = case_float(c, "ensure_minimum_range"),
        .scaled_variant = (qg_scaled_variant)case_choice_or(c, "scaled_variant", variants, 0),
    };
    const qg_array *x    = case_input(c, "input");
    const qg_array *min  = case_input(c, "min_range");
    const qg_array *max  = case_input(c, "max_range");
    const size_t    n    = qg_array_count(min);
    const int       rank = attrs.axis >= 0 && n != 1 ? 1 : 0;
    qg_array       *y    = case_output_like(c, "output", dtype, x);
    qg_array       *lo   = case_output(c, "output_min", QG_F32, rank, &n);
    qg_array       *hi   = case_output(c, "output_max", QG_F32, rank, &n);
    if (case_ready(c)) case_result(c, qg_quantize_v2(attrs, x, min, max, y, lo, hi));
}

static void dequantize(test_case *c)
{
    const qg_dtype            dtype = code_dtype(c);
    const qg_dequantize_attrs attrs = {
        .mode         = (qg_quantize_mode)case_choice(c, "mode", modes),
        .narrow_range = case_bool(c, "narrow_range"),
        .axis         = case_int(c, "axis"),
    };
    const qg_array *q   = case_input_of(c, "input", dtype);
    const qg_array *min = case_input(c, "min_range");
    const qg_array *max = case_input(c, "max_range");
    qg_array       *y   = case_output_like(c, "output", QG_F32, q);
    if (case_ready(c)) case_result(c, qg_dequantize(attrs, q, min, max, y));
}

const case_op tf_cases[] = {
    { "fake_quant_nudge", nudge },
    { "fake_quant_with_min_max_args", args },
    { "fake_quant_with_min_max_args_gradient", args_gradient },
    { "fake_quant_with_min_max_vars", vars },
    { "fake_quant_with_min_max_vars_gradient", vars_gradient },
    { "fake_quant_with_min_max_vars_per_channel", per_channel },
    { "fake_quant_with_min_max_vars_per_channel_gradient", per_channel_gradient },
    { "quantize_and_dequantize", quantize_and_dequantize },
    { "quantize_and_dequantize_v4_gradient", quantize_and_dequantize_gradient },
    { "quantize_v2", quantize_v2 },
    { "dequantize", dequantize },
    { NULL, NULL },
};
