/* Rows of qgrad gradcheck: ranges, steps and clips, and the tensors they limit. */
#include "cli/gradcheck/gradcheck_tensor.h"

#include <math.h>

#include "quant/schemes/fake_quant.h"
#include "quant/schemes/lsq.h"
#include "quant/schemes/pact.h"

static double clip(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }

static qg_array scalar(float *v) { return (qg_array){ .dtype = QG_F32, .data = v }; }

/* --- fake_quant: min and max -------------------------------------------------------------- */

/* s(x) = clip(x, min, max): -1 .. 1 is not nudged, with a narrow range. */
static double range_clip(const held *was, size_t i, const float *x, const float *learned)
{
    (void)was;
    return clip((double)x[i], (double)learned[0], (double)learned[1]);
}

/* A number that was first and is now: moves by g of its way, so that d/dnow is the g that a scheme
 * multiplies its gradient by. */
static double slowed(float first, float now, double g) { return (double)first + g * ((double)now - (double)first); }

/* Of the scheme, whose 11 numbers of an image, or of a channel, share a range. */
static double slowed_range_clip(const held *was, size_t i, const float *x, const float *learned)
{
    const double g = 1 / sqrt(TENSOR_ROW);
    return clip((double)x[i], slowed(was->learned[0], learned[0], g), slowed(was->learned[1], learned[1], g));
}

static qg_quant fake_quant(void)
{
    return qg_fake_quant((qg_fake_quant_spec){ .bits = 8, .narrow_range = true });
}

static qg_quant fake_quant_rows(void)
{
    qg_quant q =
        qg_fake_quant((qg_fake_quant_spec){ .bits = 8, .narrow_range = true, .per_channel = true });
    q.role     = QG_WEIGHT;
    return q;
}

/* Of one number, so that g is 1 and the gradient that of the loss. */
static qg_quant fake_quant_fine(void)
{
    qg_quant q = qg_fake_quant((qg_fake_quant_spec){ .bits = 16 });
    q.numbers  = 1;
    return q;
}

static qg_status fake_quant_forward(const qg_array *x, const float *learned, qg_array *y)
{
    float          lo = learned[0], hi = learned[1];
    const qg_array min = scalar(&lo), max = scalar(&hi);
    return qg_fake_quant_with_min_max_vars((qg_fake_quant_attrs){ 8, true }, x, &min, &max, y);
}

static qg_status fake_quant_backward(const qg_array *x, const float *learned, const qg_array *dy,
                                     qg_array *dx, float *dlearned)
{
    float          lo = learned[0], hi = learned[1];
    const qg_array min = scalar(&lo), max = scalar(&hi);
    qg_array       dmin = scalar(&dlearned[0]), dmax = scalar(&dlearned[1]);
    return qg_fake_quant_with_min_max_vars_gradient((qg_fake_quant_attrs){ 8, true }, dy, x, &min,
                                                    &max, dx, &dmin, &dmax);
}

static const plain fake_quant_vars = { { "min", "max" }, fake_quant_forward, fake_quant_backward };

/* --- LSQ: the step ------------------------------------------------------------------------ */

enum { QN = 4, QP = 3 };

/* q(x) = s (clip(x / s, -qn, qp) + what rounding added), s the step slowed by the paper's g. */
static double stepped(const held *was, size_t i, const float *x, const float *learned, double g,
                      double qn, double qp)
{
    const double s = slowed(was->learned[0], learned[0], g);
    const double v = clip((double)was->x[i] / (double)was->learned[0], -qn, qp);
    return s * (clip((double)x[i] / s, -qn, qp) + nearbyint(v) - v);
}

static double lsq_weight(const held *was, size_t i, const float *x, const float *learned)
{
    return stepped(was, i, x, learned, 1 / sqrt(QP * (double)TENSOR_N), QN, QP);
}

static double lsq_input(const held *was, size_t i, const float *x, const float *learned)
{
    return stepped(was, i, x, learned, 1 / sqrt(3.0 * TENSOR_ROW), 0, 3);
}

static double lsq_unscaled(const held *was, size_t i, const float *x, const float *learned)
{
    return stepped(was, i, x, learned, 1, QN, QP);
}

static qg_quant lsq(void)
{
    qg_quant q = qg_lsq((qg_lsq_spec){ .bits = 3, .is_signed = true });
    q.role     = QG_WEIGHT;
    return q;
}

static qg_quant lsq_unsigned(void) { return qg_lsq((qg_lsq_spec){ .bits = 2 }); }

static qg_lsq_attrs lsq_attrs(float step) { return (qg_lsq_attrs){ step, QN, QP, 1, { 0 } }; }

static qg_status lsq_forward(const qg_array *x, const float *learned, qg_array *y)
{
    return qg_lsq_quantizer(x, lsq_attrs(learned[0]), y);
}

static qg_status lsq_backward(const qg_array *x, const float *learned, const qg_array *dy,
                              qg_array *dx, float *dlearned)
{
    return qg_lsq_quantizer_gradient(x, dy, lsq_attrs(learned[0]), dx, dlearned);
}

static const plain lsq_arrays = { { "step" }, lsq_forward, lsq_backward };

/* --- PACT: the clip ----------------------------------------------------------------------- */

static double clip_alpha(const held *was, size_t i, const float *x, const float *learned)
{
    (void)was;
    return clip((double)x[i], 0, (double)learned[0]);
}

static qg_quant pact(void) { return qg_pact((qg_pact_spec){ .bits = 3 }); }
static qg_quant pact_float(void) { return qg_pact((qg_pact_spec){ .bits = 32 }); }

static qg_status pact_forward(const qg_array *x, const float *learned, qg_array *y)
{
    return qg_pact_quantizer(x, 3, learned[0], y);
}

static qg_status pact_backward(const qg_array *x, const float *learned, const qg_array *dy,
                               qg_array *dx, float *dlearned)
{
    return qg_pact_quantizer_gradient(x, dy, 3, learned[0], (qg_surrogate){ 0 }, dx, dlearned);
}

static const plain pact_arrays = { { "alpha" }, pact_forward, pact_backward };

/* --- rows --------------------------------------------------------------------------------- */

#define FINE "a code of 16 bits is 3e-5, and values jump by that much while min or max moves 1/64"

static const tensor_row rows[] = {
    { .name = "fake_quant: x", .quant = fake_quant, .surrogate = slowed_range_clip,
      .learned = { -1, 1, 1 }, .spread = 2, .kink = { -1, 1 }, .margin = 0.1f },
    { .name = "fake_quant: min", .checked = 1, .quant = fake_quant, .surrogate = slowed_range_clip,
      .learned = { -1, 1, 1 }, .spread = 2, .kink = { -1, 1 }, .margin = 0.1f },
    { .name = "fake_quant: max", .checked = 2, .quant = fake_quant, .surrogate = slowed_range_clip,
      .learned = { -1, 1, 1 }, .spread = 2, .kink = { -1, 1 }, .margin = 0.1f },
    { .name = "fake_quant per channel: min", .checked = 1, .quant = fake_quant_rows,
      .surrogate = slowed_range_clip, .learned = { -1, 1, 1 }, .spread = 2, .kink = { -1, 1 },
      .margin = 0.1f },
    { .name = "fake_quant per channel: max", .checked = 2, .quant = fake_quant_rows,
      .surrogate = slowed_range_clip, .learned = { -1, 1, 1 }, .spread = 2, .kink = { -1, 1 },
      .margin = 0.1f },
    { .name = "fake_quant, 16 bits: min", .checked = 1, .quant = fake_quant_fine,
      .learned = { -1, 1, 1 }, .spread = 2, .kink = { -1, 1 }, .margin = 0.1f, .tolerance = 0.02f,
      .reason = FINE },
    { .name = "fake_quant, 16 bits: max", .checked = 2, .quant = fake_quant_fine,
      .learned = { -1, 1, 1 }, .spread = 2, .kink = { -1, 1 }, .margin = 0.1f, .tolerance = 0.02f,
      .reason = FINE },
    { .name = "fake_quant_with_min_max_vars: x", .plain = &fake_quant_vars,
      .surrogate = range_clip, .learned = { -1, 1 }, .spread = 2, .kink = { -1, 1 },
      .margin = 0.1f },
    { .name = "fake_quant_with_min_max_vars: min", .checked = 1, .plain = &fake_quant_vars,
      .surrogate = range_clip, .learned = { -1, 1 }, .spread = 2, .kink = { -1, 1 },
      .margin = 0.1f },
    { .name = "fake_quant_with_min_max_vars: max", .checked = 2, .plain = &fake_quant_vars,
      .surrogate = range_clip, .learned = { -1, 1 }, .spread = 2, .kink = { -1, 1 },
      .margin = 0.1f },
    { .name = "lsq: x", .quant = lsq, .surrogate = lsq_weight, .learned = { 0.5f, 1 }, .spread = 3,
      .kink = { -2, 1.5f }, .margin = 0.2f },
    { .name = "lsq: step", .checked = 1, .quant = lsq, .surrogate = lsq_weight,
      .learned = { 0.5f, 1 }, .spread = 3, .kink = { -2, 1.5f }, .margin = 0.2f },
    { .name = "lsq, unsigned: step", .checked = 1, .quant = lsq_unsigned, .surrogate = lsq_input,
      .learned = { 0.5f, 1 }, .spread = 3, .kink = { 1.5f }, .margin = 0.2f },
    { .name = "lsq_quantizer: step", .checked = 1, .plain = &lsq_arrays, .surrogate = lsq_unscaled,
      .learned = { 0.5f }, .spread = 3, .kink = { -2, 1.5f }, .margin = 0.2f },
    { .name = "pact: x", .quant = pact, .surrogate = clip_alpha, .learned = { 1 }, .spread = 2,
      .kink = { 1 }, .margin = 0.1f },
    { .name = "pact: alpha", .checked = 1, .quant = pact, .surrogate = clip_alpha,
      .learned = { 1 }, .spread = 2, .kink = { 1 }, .margin = 0.1f },
    { .name = "pact, 32 bits: alpha", .checked = 1, .quant = pact_float, .learned = { 1 },
      .spread = 2, .kink = { 1 }, .margin = 0.1f },
    { .name = "pact_quantizer: alpha", .checked = 1, .plain = &pact_arrays,
      .surrogate = clip_alpha, .learned = { 1 }, .spread = 2, .kink = { 1 }, .margin = 0.1f },
};

enum { ROWS = sizeof rows / sizeof *rows };

static qg_status check(int i, gradcheck_line *line) { return tensor_check(&rows[i], line); }

const gradcheck_table gradcheck_ranges = { "ranges, steps and clips", ROWS, check };
