#include "quant/surrogate.h"

#include "core/kernels/functions.h"
#include "quant/engine.h"
#include "quant/kernels.h"
#include "quant/reduce.h"

static void identity_slope(float arg, size_t n, const float *x, const float *dy, float *dx)
{
    for (size_t i = 0; i < n; i++) dx[i] += dy[i];
}

/* Never called: that a surrogate has a slope says that it is one. */
static void no_slope(float arg, size_t n, const float *x, const float *dy, float *dx) { }

/* --- s, the function of which a slope is -------------------------------------------------------- */

static double identity_value(float arg, double x)
{
    return x;
}

static double clip_value(float bound, double x) { return fmin(fmax(x, -(double)bound), (double)bound); }

static double approx_sign_value(float arg, double x)
{
    return fabs(x) > 1 ? copysign(1, x) : 2 * x - x * fabs(x);
}

static double swish_value(float beta, double x)
{
    const double v = (double)beta * x, sigmoid = 1 / (1 + qg__exp(-v));
    return 2 * sigmoid * (1 + v * (1 - sigmoid)) - 1;
}

static double tanh_value(float t, double x) { return t > 0 ? fmax(1 / (double)t, 1) * qg__tanh((double)t * x) : x; }

/* --- surrogates --------------------------------------------------------------------------------- */

qg_surrogate qg_surrogate_identity(void)
{
    return (qg_surrogate){ .slope = identity_slope, .value = identity_value };
}

qg_surrogate qg_surrogate_clip(float bound)
{
    return (qg_surrogate){ .slope = QG_KERNELS(qg__surrogate)->clip, .value = clip_value, .arg = bound };
}

qg_surrogate qg_surrogate_approx_sign(void)
{
    return (qg_surrogate){ .slope = QG_KERNELS(qg__surrogate)->approx_sign, .value = approx_sign_value };
}

qg_surrogate qg_surrogate_swish(float beta)
{
    return (qg_surrogate){ .slope = QG_KERNELS(qg__surrogate)->swish, .value = swish_value, .arg = beta };
}

qg_surrogate qg_surrogate_tanh(float temperature)
{
    return (qg_surrogate){ .slope = QG_KERNELS(qg__surrogate)->tanh, .value = tanh_value, .arg = temperature };
}

qg_surrogate qg_surrogate_annealed_tanh(uint64_t steps)
{
    qg_surrogate s = qg_surrogate_tanh(0.1f);
    s.to           = 10.0f;
    s.steps        = steps;
    return s;
}

qg_surrogate qg_surrogate_whole(qg_whole_gradient *gradient, float arg)
{
    return gradient ? (qg_surrogate){ .slope = no_slope, .arg = arg, .whole = gradient } : (qg_surrogate){ 0 };
}

qg_status qg__surrogate_check(qg_surrogate s)
{
    if (!(s.arg >= 0) || !isfinite(s.arg))
        return qg_fail(QG_EARG, "surrogate: its bound, beta or temperature is %g, must be 0 or more", (double)s.arg);
    if (s.steps && !(s.arg > 0 && s.to > 0 && isfinite(s.to)))
        return qg_fail(QG_EARG, "surrogate: moves from %g to %g, must be more than 0", (double)s.arg, (double)s.to);
    return QG_OK;
}

qg_surrogate qg__surrogate_at(qg_surrogate s, uint64_t step)
{
    if (s.steps == 0) return s;
    const double done = step < s.steps ? (double)step / (double)s.steps : 1.0;
    const double from = (double)s.arg;
    s.arg             = (float)(from * qg__pow((double)s.to / from, done));
    s.to              = 0;
    s.steps           = 0;
    return s;
}

struct slope {
    qg_surrogate s;
    const float *x, *dy;
    float       *dx;
};

static void slope_block(void *context, size_t at, size_t n)
{
    const struct slope *k = context;
    k->s.slope(k->s.arg, n, k->x + at, k->dy + at, k->dx + at);
}

void qg__surrogate_slope(qg_surrogate s, size_t n, const float *x, const float *dy, float *dx)
{
    struct slope k = { s, x, dy, dx };
    if (s.whole) {
        s.whole(s.arg, (qg_split){ 1, 1, n }, x, dy, dx);
        return;
    }
    qg__in_blocks(n, QG_BLOCK, slope_block, &k);
}
