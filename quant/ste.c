#include "quant/ste.h"

#include "quant/map.h"
#include "quant/reduce.h"
#include "quant/smooth.h"

static void identity_slope(float arg, size_t n, const float *x, const float *dy, float *dx)
{
    (void)arg;
    (void)x;
    for (size_t i = 0; i < n; i++) dx[i] += dy[i];
}

static void clip_slope(float bound, size_t n, const float *x, const float *dy, float *dx)
{
    for (size_t i = 0; i < n; i++) {
        const float g = dy[i]; /* read in any case: a load behind a condition does not vectorise */
        dx[i] += fabsf(x[i]) <= bound ? g : 0.0f;
    }
}

static void approx_sign_slope(float arg, size_t n, const float *x, const float *dy, float *dx)
{
    (void)arg;
    for (size_t i = 0; i < n; i++) {
        const float a = fabsf(x[i]);
        dx[i] += dy[i] * (a <= 1.0f ? 2.0f - 2.0f * a : 0.0f);
    }
}

static void swish_slope(float beta, size_t n, const float *x, const float *dy, float *dx)
{
    /* With u = exp(-|b x|):  tanh(|b x| / 2) = (1 - u) / (1 + u),  1 / (1 + cosh) = 2u / (1 + u)^2.
     * One exponential that cannot overflow, where the formula as printed is inf / inf. */
    for (size_t i = 0; i < n; i++) {
        const float a = fabsf(beta * x[i]);
        const float z = a > 80.0f ? 80.0f : a; /* there the slope is below 1e-32 */
        const float u = qg__exp(-(z == z ? z : 0.0f));
        const float v = 1.0f + u;
        const float s = beta * (2.0f - z * (1.0f - u) / v) * (2.0f * u / (v * v));
        dx[i] += dy[i] * (a > 80.0f ? 0.0f : s);
    }
}

static void tanh_slope(float t, size_t n, const float *x, const float *dy, float *dx)
{
    const float height = t > 1.0f ? t : 1.0f; /* k t = max(1/t, 1) t, without the 1/0 */
    float       s[QG_CHUNK];
    for (size_t i = 0; i < n; i += QG_CHUNK) {
        const size_t m = qg__smaller(n - i, QG_CHUNK);
        for (size_t j = 0; j < m; j++) s[j] = t * x[i + j];
        QG_KERNELS(qg__map)->tanh(m, s, s);
        for (size_t j = 0; j < m; j++) dx[i + j] += dy[i + j] * (height * (1.0f - s[j] * s[j]));
    }
}

qg_surrogate qg_ste_identity(void)
{
    return (qg_surrogate){ .slope = identity_slope };
}

qg_surrogate qg_ste_clip(float bound)
{
    return (qg_surrogate){ .slope = clip_slope, .arg = bound };
}

qg_surrogate qg_ste_approx_sign(void)
{
    return (qg_surrogate){ .slope = approx_sign_slope };
}

qg_surrogate qg_ste_swish(float beta)
{
    return (qg_surrogate){ .slope = swish_slope, .arg = beta };
}

qg_surrogate qg_ste_tanh(float temperature)
{
    return (qg_surrogate){ .slope = tanh_slope, .arg = temperature };
}

qg_surrogate qg_ste_annealed_tanh(uint64_t steps)
{
    return (qg_surrogate){ .slope = tanh_slope, .arg = 0.1f, .to = 10.0f, .steps = steps };
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
