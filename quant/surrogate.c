#include "quant/surrogate.h"

#include "quant/map.h"
#include "quant/reduce.h"

static void identity_slope(float arg, size_t n, const float *x, const float *dy, float *dx)
{
    (void)arg;
    (void)x;
    for (size_t i = 0; i < n; i++) dx[i] += dy[i];
}

qg_surrogate qg_surrogate_identity(void)
{
    return (qg_surrogate){ .slope = identity_slope };
}

qg_surrogate qg_surrogate_clip(float bound)
{
    return (qg_surrogate){ .slope = QG_KERNELS(qg__map)->clip_slope, .arg = bound };
}

qg_surrogate qg_surrogate_approx_sign(void)
{
    return (qg_surrogate){ .slope = QG_KERNELS(qg__map)->approx_sign_slope };
}

qg_surrogate qg_surrogate_swish(float beta)
{
    return (qg_surrogate){ .slope = QG_KERNELS(qg__map)->swish_slope, .arg = beta };
}

qg_surrogate qg_surrogate_tanh(float temperature)
{
    return (qg_surrogate){ .slope = QG_KERNELS(qg__map)->tanh_slope, .arg = temperature };
}

qg_surrogate qg_surrogate_annealed_tanh(uint64_t steps)
{
    return (qg_surrogate){ .slope = QG_KERNELS(qg__map)->tanh_slope, .arg = 0.1f, .to = 10.0f, .steps = steps };
}

qg_status qg_surrogate_check(qg_surrogate s)
{
    if (!(s.arg >= 0) || !isfinite(s.arg))
        return qg_fail(QG_EARG, "surrogate: its bound, beta or temperature is %g, must be 0 or more", (double)s.arg);
    if (s.steps && !(s.arg > 0 && s.to > 0 && isfinite(s.to)))
        return qg_fail(QG_EARG, "surrogate: moves from %g to %g, must be more than 0", (double)s.arg, (double)s.to);
    return QG_OK;
}

qg_surrogate qg_surrogate_at(qg_surrogate s, uint64_t step)
{
    if (s.steps == 0) return s;
    const double done = step < s.steps ? (double)step / (double)s.steps : 1.0;
    const double from = (double)s.arg;
    return (qg_surrogate){ .slope = s.slope, .arg = (float)(from * pow((double)s.to / from, done)) };
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

void qg_surrogate_slope(qg_surrogate s, size_t n, const float *x, const float *dy, float *dx)
{
    struct slope k = { s, x, dy, dx };
    qg__in_blocks(n, QG_BLOCK, slope_block, &k);
}
