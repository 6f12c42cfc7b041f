/* Rows of qgrad gradcheck: elementwise quantizers, whose dx is the slope of a declared function. */
#include "cli/gradcheck/gradcheck.h"

#include <math.h>

#include "quant/schemes/fake_quant.h"
#include "quant/scheme.h"

typedef struct slope_row {
    const char *name;
    qg_quant  (*quant)(void);
    double    (*surrogate)(double x, void *context);
    float       lo, hi;
    float       learned[QG_MAX_LEARNED];
} slope_row;

/* --- surrogates --------------------------------------------------------------------------- */

static double clip(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }

static double identity(double x, void *context) { return (void)context, x; }
static double clip_1(double x, void *context) { return (void)context, clip(x, -1, 1); }
static double clip_half(double x, void *context) { return (void)context, clip(x, -0.5, 0.5); }
static double clip_0_1(double x, void *context) { return (void)context, clip(x, 0, 1); }
static double clip_0_2(double x, void *context) { return (void)context, clip(x, 0, 2); }

static double approx_sign(double x, void *context)
{
    (void)context;
    return fabs(x) > 1 ? copysign(1, x) : 2 * x - x * fabs(x);
}

/* 2 sigmoid(b x) (1 + b x (1 - sigmoid(b x))) - 1 */
static double swish_5(double x, void *context)
{
    (void)context;
    const double v = 5 * x, sigmoid = 1 / (1 + exp(-v));
    return 2 * sigmoid * (1 + v * (1 - sigmoid)) - 1;
}

static double tanh_half(double x, void *context) { return (void)context, 2 * tanh(x / 2); }
/* The annealed temperature starts at 0.1. */
static double tanh_start(double x, void *context) { return (void)context, 10 * tanh(x / 10); }
static double tanh_3(double x, void *context) { return (void)context, tanh(3 * x); }

/* The range -1 .. 3 in 8 bits, moved so that 0 is a code. */
static double fake_quant_clip(double x, void *context)
{
    (void)context;
    qg_fake_quant_range r = { 0 };
    if (qg_fake_quant_nudge((qg_fake_quant_attrs){ .num_bits = 8 }, -1, 3, &r)) return NAN;
    return clip(x, (double)r.nmin, (double)r.nmax);
}

/* Steps of 1/2: 3 bits signed, 2 unsigned. */
static double lsq_clip(double x, void *context) { return (void)context, clip(x, -2, 1.5); }
static double lsq_unsigned_clip(double x, void *context) { return (void)context, clip(x, 0, 1.5); }

/* --- quantizers --------------------------------------------------------------------------- */

static qg_quant with(qg_surrogate s)
{
    return qg_binary_activation((qg_binary_activation_spec){ .surrogate = s });
}

static qg_quant sign_identity(void) { return with(qg_surrogate_identity()); }
static qg_quant sign_clip(void) { return with(qg_surrogate_clip(1)); }
static qg_quant sign_clip_half(void) { return with(qg_surrogate_clip(0.5f)); }
static qg_quant sign_approx(void) { return with(qg_surrogate_approx_sign()); }
static qg_quant sign_swish(void) { return with(qg_surrogate_swish(5)); }
static qg_quant sign_tanh_half(void) { return with(qg_surrogate_tanh(0.5f)); }
static qg_quant sign_tanh_3(void) { return with(qg_surrogate_tanh(3)); }
static qg_quant sign_annealed(void) { return with(qg_surrogate_annealed_tanh(1000)); }
static qg_quant sign(void) { return with((qg_surrogate){ 0 }); }
static qg_quant twn(void) { return qg_twn((qg_twn_spec){ 0 }); }
static qg_quant binary(void) { return qg_binary((qg_binary_spec){ 0 }); }
static qg_quant binary_rows(void) { return qg_binary((qg_binary_spec){ .per_channel = true }); }

static qg_quant twn_rows(void) { return qg_twn((qg_twn_spec){ .per_channel = true }); }
static qg_quant ste_tern(void) { return qg_ste_tern((qg_ste_tern_spec){ 0 }); }
static qg_quant bnn(void) { return qg_bnn((qg_bnn_spec){ 0 }); }
static qg_quant binaryconnect(void) { return qg_binaryconnect((qg_binaryconnect_spec){ 0 }); }

static qg_quant binaryconnect_drawn(void)
{
    return qg_binaryconnect((qg_binaryconnect_spec){ .stochastic = true });
}

static qg_quant dorefa_weight_1(void)
{
    return qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = 1 });
}

static qg_quant dorefa_activation(void)
{
    return qg_dorefa_activation((qg_dorefa_activation_spec){ .bits = 2 });
}

static qg_quant dorefa_activation_32(void)
{
    return qg_dorefa_activation((qg_dorefa_activation_spec){ .bits = 32 });
}

static qg_quant xnor_identity(void) { return qg_xnor((qg_xnor_spec){ .rule = QG_XNOR_IDENTITY }); }
static qg_quant xnor_activation(void) { return qg_xnor_activation((qg_xnor_activation_spec){ 0 }); }

static qg_quant linear(void)
{
    return qg_linear_mid_tread_half((qg_linear_mid_tread_half_spec){ .bits = 2, .max_value = 2 });
}

static qg_quant fake_quant_fixed(void)
{
    return qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_FIXED, .min = -1, .max = 3 });
}

static qg_quant fake_quant_learned(void)
{
    return qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_LEARNED });
}

static qg_quant fake_quant_observed(void)
{
    /* An average that new values hardly move, so that the range is known. */
    return qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_OBSERVED, .decay = 0.999999f });
}

static qg_quant fake_quant_current(void)
{
    return qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_CURRENT });
}

static qg_quant lsq(void) { return qg_lsq((qg_lsq_spec){ .bits = 3, .is_signed = true }); }
static qg_quant lsq_unsigned(void) { return qg_lsq((qg_lsq_spec){ .bits = 2 }); }
static qg_quant pact(void) { return qg_pact((qg_pact_spec){ .bits = 4 }); }
static qg_quant pact_float(void) { return qg_pact((qg_pact_spec){ .bits = 32 }); }
static qg_quant unit(void) { return qg_unit((qg_unit_spec){ .bits = 2 }); }
static qg_quant unit_zero(void) { return qg_unit((qg_unit_spec){ .bits = 2, .zero = true }); }

static const slope_row rows[] = {
    { "sign, surrogate identity", sign_identity, identity, -3, 3, { 0 } },
    { "sign, surrogate clip 1", sign_clip, clip_1, -3, 3, { 0 } },
    { "sign, surrogate clip 1/2", sign_clip_half, clip_half, -3, 3, { 0 } },
    { "sign, surrogate approx-sign", sign_approx, approx_sign, -2, 2, { 0 } },
    { "sign, surrogate swish 5", sign_swish, swish_5, -3, 3, { 0 } },
    { "sign, surrogate tanh 1/2", sign_tanh_half, tanh_half, -3, 3, { 0 } },
    { "sign, surrogate tanh 3", sign_tanh_3, tanh_3, -3, 3, { 0 } },
    { "sign, surrogate tanh, annealed", sign_annealed, tanh_start, -3, 3, { 0 } },
    { "sign", sign, clip_1, -2, 2, { 0 } },
    { "binary", binary, identity, -2, 2, { 0 } },
    { "binary-channel", binary_rows, identity, -2, 2, { 0 } },
    { "twn", twn, identity, -2, 2, { 0 } },
    { "twn, per channel", twn_rows, identity, -2, 2, { 0 } },
    { "ste-tern", ste_tern, clip_1, -2, 2, { 0 } },
    { "bnn", bnn, clip_1, -2, 2, { 0 } },
    { "binaryconnect", binaryconnect, identity, -2, 2, { 0 } },
    { "binaryconnect, stochastic", binaryconnect_drawn, identity, -2, 2, { 0 } },
    { "dorefa, weights of 1 bit", dorefa_weight_1, identity, -2, 2, { 0 } },
    { "dorefa, inputs of 2 bits", dorefa_activation, clip_0_1, -1, 2, { 0 } },
    { "dorefa, inputs of 32 bits", dorefa_activation_32, clip_0_1, -1, 2, { 0 } },
    { "xnor, weights, rule identity", xnor_identity, identity, -2, 2, { 0 } },
    { "xnor, inputs", xnor_activation, clip_1, -2, 2, { 0 } },
    { "linear, 2 bits", linear, clip_0_2, -1, 3, { 0 } },
    { "unit, 2 bits", unit, clip_1, -2, 2, { 0 } },
    { "unit, 2 bits with zero", unit_zero, clip_1, -2, 2, { 0 } },
    { "fake_quant, fixed", fake_quant_fixed, fake_quant_clip, -2, 4, { 0 } },
    { "fake_quant, learned", fake_quant_learned, fake_quant_clip, -2, 4, { -1, 3, 1 } },
    { "fake_quant, observed", fake_quant_observed, fake_quant_clip, -2, 4, { -1, 3, 1 } },
    { "fake_quant, current", fake_quant_current, identity, -2, 4, { 0 } },
    { "lsq, 3 bits signed", lsq, lsq_clip, -3, 3, { 0.5f, 1 } },
    { "lsq, 2 bits unsigned", lsq_unsigned, lsq_unsigned_clip, -1, 3, { 0.5f, 1 } },
    { "pact, 4 bits", pact, clip_0_1, -1, 2, { 1 } },
    { "pact, 32 bits", pact_float, clip_0_1, -1, 2, { 1 } },
};

enum { ROWS = sizeof rows / sizeof *rows };

/* A row, and memory for what its quantizer has learned. */
typedef struct trial {
    const slope_row *row;
    float            learned[QG_MAX_LEARNED];
} trial;

static qg_var *apply(qg_tape *t, qg_var *x, void *context)
{
    trial         *k                    = context;
    const qg_quant q                    = k->row->quant();
    qg_var        *learned[QG_MAX_LEARNED] = { NULL };
    for (int i = 0; i < qg_learned_count(q); i++)
        learned[i] = qg_input(t, (qg_tensor){ { 1, 1, 1, 1 }, &k->learned[i] });
    return qg_quantize(t, q, x, learned);
}

static qg_status check(int i, gradcheck_line *line)
{
    const slope_row *row = &rows[i];
    trial            k   = { .row = row };
    for (int j = 0; j < QG_MAX_LEARNED; j++) k.learned[j] = row->learned[j];
    *line = (gradcheck_line){ .name = row->name, .against = "slope" };
    return qg_slopecheck((qg_slopecheck_spec){ .name      = row->name,
                                               .op        = apply,
                                               .surrogate = row->surrogate,
                                               .context   = &k,
                                               .lo        = row->lo,
                                               .hi        = row->hi },
                         &line->result);
}

const gradcheck_table gradcheck_surrogates = { "slopes of surrogates", ROWS, check };
