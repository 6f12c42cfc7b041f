/* The quantizers of the papers on arrays, with any arguments and any floats.  A call that fails leaves a
 * message and no output; one that succeeds gives values of its grid. */
#include <math.h>
#include <string.h>

#include "quant/reference/binary.h"
#include "quant/reference/dorefa.h"
#include "quant/reference/uniform.h"
#include "quant/reference/ternary.h"
#include "tests/fuzz/fuzz.h"

/* The operands of a call. */
typedef struct operands {
    draws   *d;
    int      rank, axis;
    size_t   dims[4], slices;
    qg_array x, g, y, dx;
    size_t   n;                 /* of x */
} operands;

static operands draw_operands(draws *d)
{
    operands o = { .d = d, .rank = draw(d, 0, 4), .slices = 1 };
    fuzz_extents(d, o.rank, o.dims);
    o.axis = o.rank && !draw_rarely(d) ? draw(d, 0, o.rank - 1) : draw_int(d);
    if (o.axis >= 0 && o.axis < o.rank) o.slices = o.dims[o.axis];
    o.x  = fuzz_input(d, QG_F32, o.rank, o.dims);
    o.g  = fuzz_input(d, QG_F32, o.rank, o.dims);
    o.y  = fuzz_output(d, QG_F32, o.rank, o.dims);
    o.dx = fuzz_output(d, QG_F32, o.rank, o.dims);
    o.n  = qg_array_count(&o.x);
    return o;
}

static float    at(const qg_array *a, size_t i) { return ((const float *)a->data)[i]; }
static qg_array per_slice(operands *o) { return fuzz_output(o->d, QG_F32, 1, &o->slices); }

static qg_surrogate draw_surrogate(draws *d)
{
    switch (draw(d, 0, 9)) {
    case 0: return qg_surrogate_identity();
    case 1: return qg_surrogate_clip(draw_float(d));
    case 2: return qg_surrogate_approx_sign();
    case 3: return qg_surrogate_swish(draw_float(d));
    case 4: return qg_surrogate_tanh(draw_float(d));
    case 5: return qg_surrogate_annealed_tanh(draw_bits(d));
    default: return (qg_surrogate){ 0 };
    }
}

static bool all_finite(const qg_array *a)
{
    for (size_t i = 0; i < qg_array_count(a); i++)
        if (!isfinite(at(a, i))) return false;
    return true;
}

/* The channel of element i.  Of x itself, which may have another shape than was asked for. */
static size_t channel(const qg_array *x, int axis, size_t i)
{
    size_t inner = 1;
    for (int k = axis + 1; k < x->rank; k++) inner *= x->dims[k];
    return i / inner % x->dims[axis];
}

static void twn(operands *o)
{
    float       delta = 0, alpha = 0;
    const float threshold = draw_float(o->d);
    if (fuzz_done(qg_twn_weight_quantizer(&o->x, threshold, &o->y, &delta, &alpha)))
        for (size_t i = 0; i < o->n; i++)
            MUST(at(&o->y, i) == (at(&o->x, i) > delta ? alpha : at(&o->x, i) < -delta ? -alpha : 0));
    (void)fuzz_done(qg_twn_weight_quantizer_gradient(&o->x, &o->g, draw_surrogate(o->d), &o->dx));
}

static void twn_channels(operands *o)
{
    qg_array   alpha = per_slice(o);
    const bool wants = draw_bool(o->d);
    if (!fuzz_done(qg_twn_per_channel_weight_quantizer(&o->x, o->axis, draw_float(o->d), &o->y,
                                                       wants ? &alpha : NULL)))
        return;
    for (size_t i = 0; i < o->n && wants; i++)
        MUST(at(&o->y, i) == 0 || fabsf(at(&o->y, i)) == at(&alpha, channel(&o->x, o->axis, i)));
}

static void ste_tern(operands *o)
{
    const qg_ste_tern_attrs a = { draw_float(o->d), draw_bool(o->d) };
    if (fuzz_done(qg_ste_tern_quantizer(&o->x, a, &o->y)))
        for (size_t i = 0; i < o->n; i++) {
            const float x = at(&o->x, i), y = at(&o->y, i);
            MUST(y == 0 || y == 1 || y == -1);
            if (!a.ternary_weight_networks)
                MUST(y == (float)(x > a.threshold_value) - (float)(x < -a.threshold_value));
        }
    (void)fuzz_done(qg_ste_tern_quantizer_gradient(&o->x, &o->g, draw_surrogate(o->d), &o->dx));
}

static void ttq(operands *o)
{
    float              positive, negative;
    const qg_ttq_attrs a = { draw_float(o->d), draw_float(o->d), draw_float(o->d),
                             (qg_ttq_rule)draw(o->d, 0, 2), draw_surrogate(o->d) };
    if (fuzz_done(qg_ttq_weight_quantizer(&o->x, a, &o->y)))
        for (size_t i = 0; i < o->n; i++) {
            const float y = at(&o->y, i);
            MUST(y == 0 || y == a.positive || y == -a.negative || isnan(y));
            if (isnan(y)) MUST(isnan(a.positive) || isnan(a.negative));
        }
    (void)fuzz_done(qg_ttq_weight_quantizer_gradient(&o->x, &o->g, a, &o->dx,
                                                     draw_bool(o->d) ? &positive : NULL,
                                                     draw_bool(o->d) ? &negative : NULL));
}

/* y is k / steps for a whole k, up to the rounding of the quotient and of a product. */
static void check_multiple(double y, double steps)
{
    if (steps <= 65535) MUST(fabs(y * steps - rint(y * steps)) <= 0.02);
}

static void dorefa_weight(operands *o)
{
    const int k = draw_bool(o->d) ? draw(o->d, 1, 16) : draw_int(o->d);
    if (fuzz_done(qg_dorefa_weight_quantizer(&o->x, k, &o->y)) && k > 1 && k < 32)
        for (size_t i = 0; i < o->n; i++) {
            const double y = (double)at(&o->y, i), steps = ldexp(1, k) - 1;
            if (isnan(y)) continue;             /* a NaN makes the maximum NaN */
            MUST(fabs(y) <= 1 + 1e-6 && (y != 0 || k > 23));
            check_multiple((y + 1) / 2, steps);
        }
    const qg_dorefa_weight_attrs a = { k, draw_bool(o->d), draw_surrogate(o->d) };
    (void)fuzz_done(qg_dorefa_weight_quantizer_gradient(&o->x, &o->g, a, &o->dx));
}

static void dorefa_activation(operands *o)
{
    const int k = draw_bool(o->d) ? draw(o->d, 1, 16) : draw_int(o->d);
    const qg_dorefa_ties ties = draw_bool(o->d) ? QG_TIES_UP : QG_TIES_EVEN;
    const float          most = k == 24 && ties == QG_TIES_UP ? nextafterf(1, 2) : 1;
    if (fuzz_done(qg_dorefa_activation_quantizer(&o->x, k, ties, &o->y)))
        for (size_t i = 0; i < o->n; i++) {
            const float x = at(&o->x, i), y = at(&o->y, i);
            MUST(isnan(x) ? isnan(y) : y >= 0 && y <= most);
            if (!isnan(x) && k < 32) check_multiple((double)y, ldexp(1, k) - 1);
        }
    (void)fuzz_done(qg_dorefa_activation_quantizer_gradient(&o->x, &o->g, k, draw_surrogate(o->d), &o->dx));
}

static void dorefa_gradient(operands *o)
{
    const int k = draw_bool(o->d) ? draw(o->d, 1, 16) : draw_int(o->d);
    qg_array  noise = fuzz_output(o->d, QG_F32, o->rank, o->dims);
    bool      ok    = fuzz_done(qg_dorefa_gradient_noise(draw_bits(o->d), k, &noise));
    ok              = ok && draw_bool(o->d);
    if (!fuzz_done(qg_dorefa_gradient_quantizer(&o->g, k, ok ? &noise : NULL, &o->y)) || !all_finite(&o->g))
        return;
    float        most = 0;
    const size_t n    = qg_array_count(&o->g);
    for (size_t i = 0; i < n; i++) most = fmaxf(most, fabsf(at(&o->g, i)));
    /* y is 2 m times at most 1/2, where 2 m may be infinite. */
    for (size_t i = 0; i < n && most < 0x1p127f; i++) MUST(fabsf(at(&o->y, i)) <= most);
}

static void lsq(operands *o)
{
    const qg_lsq_attrs a = { draw_float(o->d), draw_int(o->d), draw_int(o->d), (double)draw_float(o->d),
                             draw_surrogate(o->d) };
    float              step;
    if (fuzz_done(qg_lsq_quantizer(&o->x, a, &o->y)))
        for (size_t i = 0; i < o->n; i++) {
            const float x = at(&o->x, i), y = at(&o->y, i);
            MUST(isnan(x) == isnan(y));
            /* The quotient is exact: a code is at most 2^24, unless the step is subnormal. */
            const double code = rint((double)y / (double)a.step);
            if (!isnan(x)) MUST(code >= -a.qn && code <= a.qp && y == (float)code * a.step);
        }
    (void)fuzz_done(qg_lsq_quantizer_gradient(&o->x, &o->g, a, &o->dx, draw_bool(o->d) ? &step : NULL));
}

static void pact(operands *o)
{
    const int   k     = draw_bool(o->d) ? draw(o->d, 1, 16) : draw_int(o->d);
    const float alpha = draw_float(o->d);
    float       dalpha;
    if (fuzz_done(qg_pact_quantizer(&o->x, k, alpha, &o->y)))
        for (size_t i = 0; i < o->n; i++) {
            const float x = at(&o->x, i), y = at(&o->y, i);
            MUST(isnan(x) ? isnan(y) : isfinite(y) && y >= 0);
            /* Relative roundings, and half a step of a subnormal alpha. */
            if (!isnan(x)) MUST((double)y <= (double)alpha * (1 + 1e-6) + 0x1p-149);
            if (!isnan(x) && k <= 16 && alpha > 0x1p-100f)
                check_multiple((double)y / (double)alpha, ldexp(1, k) - 1);
        }
    (void)fuzz_done(qg_pact_quantizer_gradient(&o->x, &o->g, k, alpha, draw_surrogate(o->d), &o->dx,
                                               draw_bool(o->d) ? &dalpha : NULL));
}

static void linear(operands *o)
{
    const int   k    = draw_bool(o->d) ? draw(o->d, 1, 16) : draw_int(o->d);
    const float most = draw_float(o->d);
    if (fuzz_done(qg_linear_mid_tread_half_quantizer(&o->x, k, most, &o->y)))
        for (size_t i = 0; i < o->n; i++) {
            const float x = at(&o->x, i), y = at(&o->y, i);
            MUST(isnan(x) ? isnan(y) : y >= 0);
            if (!isnan(x) && k <= 16) MUST((double)y <= (double)most);
            if (!isnan(x) && k <= 16 && most > 0x1p-100f)
                check_multiple((double)y / (double)most, ldexp(1, k) - 1);
        }
    (void)fuzz_done(
        qg_linear_mid_tread_half_quantizer_gradient(&o->x, &o->g, k, most, draw_surrogate(o->d), &o->dx));
}

static void signs(operands *o)
{
    if (fuzz_done(qg_sign_quantizer(&o->x, &o->y)))
        for (size_t i = 0; i < o->n; i++) MUST(at(&o->y, i) == (at(&o->x, i) >= 0 ? 1 : -1));
    qg_array draws_of = fuzz_output(o->d, QG_F32, o->rank, o->dims);
    if (fuzz_done(qg_stochastic_sign_quantizer(&o->x, draw_bits(o->d), &draws_of)))
        for (size_t i = 0; i < o->n; i++) {
            const float x = at(&o->x, i), y = at(&draws_of, i);
            MUST((y == 1 || y == -1) && (x >= 1 ? y == 1 : x <= -1 || isnan(x) ? y == -1 : true));
        }
    (void)fuzz_done(qg_sign_quantizer_gradient(&o->x, &o->g, draw_surrogate(o->d), &o->dx));
}

static void mean_signs(operands *o)
{
    float scale;
    if (fuzz_done(qg_binary_mean_scaling_quantizer(&o->x, &o->y, &scale)))
        for (size_t i = 0; i < o->n; i++)
            MUST(isnan(scale) ? isnan(at(&o->y, i)) : at(&o->y, i) == (at(&o->x, i) >= 0 ? scale : -scale));
    (void)fuzz_done(qg_binary_mean_scaling_quantizer_gradient(&o->x, &o->g, draw_surrogate(o->d), &o->dx));
    o->axis        = o->x.rank - 1;
    o->slices      = o->x.rank ? o->x.dims[o->axis] : 1;
    qg_array alpha = per_slice(o), y = fuzz_output(o->d, QG_F32, o->rank, o->dims),
             dx = fuzz_output(o->d, QG_F32, o->rank, o->dims);
    const bool four = draw_bool(o->d);
    if (!fuzz_done(four ? qg_binary_channel_wise_mean_scaling_quantizer(&o->x, &y, &alpha)
                        : qg_magnitude_aware_sign_quantizer(&o->x, &y, &alpha))) return;
    for (size_t i = 0; i < o->n; i++) {
        const float a = at(&alpha, channel(&o->x, o->axis, i));
        MUST(isnan(a) ? isnan(at(&y, i)) : fabsf(at(&y, i)) == a);
    }
    const qg_surrogate s = draw_surrogate(o->d);
    (void)fuzz_done(four ? qg_binary_channel_wise_mean_scaling_quantizer_gradient(&o->x, &o->g, s, &dx)
                         : qg_magnitude_aware_sign_quantizer_gradient(&o->x, &o->g, s, &dx));
}

static void xnor(operands *o)
{
    qg_array alpha = per_slice(o);
    if (fuzz_done(qg_xnor_weight_quantizer(&o->x, o->axis, &o->y, &alpha)))
        for (size_t i = 0; i < o->n; i++) {
            const float a = at(&alpha, channel(&o->x, o->axis, i));
            MUST(isnan(a) ? isnan(at(&o->y, i)) : fabsf(at(&o->y, i)) == a);
        }
    const qg_xnor_attrs a = { o->axis, draw_int(o->d), (qg_xnor_rule)draw(o->d, 0, 5), draw_surrogate(o->d) };
    (void)fuzz_done(qg_xnor_weight_quantizer_gradient(&o->x, &o->g, a, &o->dx));
}

static size_t windows(size_t in, int kernel, int stride, bool same)
{
    if (kernel < 1 || stride < 1) return 1;
    const size_t k = (size_t)kernel, s = (size_t)stride;
    return same ? (in + s - 1) / s : in < k ? 0 : (in - k) / s + 1;
}

static void xnor_map(operands *o)
{
    const qg_xnor_window w = { draw_int(o->d), draw_int(o->d), draw_int(o->d), draw_bool(o->d) };
    const size_t dims[4] = { o->dims[0], windows(o->dims[1], w.kernel_h, w.stride, w.same_padding),
                             windows(o->dims[2], w.kernel_w, w.stride, w.same_padding), 1 };
    qg_array     map     = fuzz_output(o->d, QG_F32, 4, dims);
    if (!fuzz_done(qg_xnor_activation_quantizer(&o->x, w, &o->y, &map))) return;
    for (size_t i = 0; i < o->n; i++) MUST(at(&o->y, i) == (at(&o->x, i) >= 0 ? 1 : -1));
    for (size_t i = 0; i < qg_array_count(&map); i++) MUST(isnan(at(&map, i)) || at(&map, i) >= 0);
}

static void (*const quantizers[])(operands *o) = {
    twn, twn_channels, ste_tern, ttq, dorefa_weight, dorefa_activation, dorefa_gradient,
    lsq, pact,         linear,   signs, mean_signs,  xnor,              xnor_map,
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    draws     d     = { bytes, n, 0 };
    const int which = draw(&d, 0, sizeof quantizers / sizeof *quantizers - 1);
    operands  o     = draw_operands(&d);
    quantizers[which](&o);
    fuzz_arrays_end();
    return 0;
}
