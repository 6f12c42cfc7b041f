/* The slopes of surrogates (quant/surrogate.h). */
#include "quant/kernels.h"

#include <math.h>

#include "quant/smooth.h"

/* dy is read in any case: a load behind a condition does not vectorise. */

static void clip_slope(float bound, size_t n, const float *x, const float *dy, float *dx)
{
    for (size_t i = 0; i < n; i++) {
        const float g = dy[i];
        dx[i] += fabsf(x[i]) <= bound ? g : 0.0f;
    }
}

static void open_clip_slope(float bound, size_t n, const float *x, const float *dy, float *dx)
{
    for (size_t i = 0; i < n; i++) {
        const float g = dy[i];
        dx[i] += fabsf(x[i]) < bound ? g : 0.0f;
    }
}

static void approx_sign_slope(float arg, size_t n, const float *x, const float *dy, float *dx)
{
    for (size_t i = 0; i < n; i++) {
        const float a = fabsf(x[i]), g = dy[i] * (2.0f - 2.0f * a);
        dx[i] += a <= 1.0f ? g : 0.0f;
    }
}

static void swish_slope(float beta, size_t n, const float *x, const float *dy, float *dx)
{
    /* With u = exp(-|b x|):  tanh(|b x| / 2) = (1 - u) / (1 + u),  1 / (1 + cosh) = 2u / (1 + u)^2.
     * One exponential that cannot overflow, where the formula as printed is inf / inf. */
    for (size_t i = 0; i < n; i++) {
        const float a = fabsf(beta * x[i]);
        const float z = a > 80.0f ? 80.0f : a; /* there the slope is below 1e-32 */
        const float u = qg__expf(-(z == z ? z : 0.0f));
        const float v = 1.0f + u;
        const float g = dy[i] * (beta * (2.0f - z * (1.0f - u) / v) * (2.0f * u / (v * v)));
        dx[i] += a > 80.0f ? 0.0f : g;
    }
}

static void tanh_slope(float t, size_t n, const float *x, const float *dy, float *dx)
{
    const float height = t > 1.0f ? t : 1.0f; /* k t = max(1/t, 1) t, without the 1/0 */
    float       s[QG_TANH_RUN];
    for (size_t at = 0; at < n; at += QG_TANH_RUN) {
        const size_t m = n - at < QG_TANH_RUN ? n - at : QG_TANH_RUN;
        for (size_t i = 0; i < m; i++) s[i] = t * x[at + i];
        qg__tanhf_run(m, s, s);
        for (size_t i = 0; i < m; i++) dx[at + i] += dy[at + i] * (height * (1.0f - s[i] * s[i]));
    }
}

const qg__surrogate_kernels QG_PER_ISA(qg__surrogate) = {
    .clip        = clip_slope,
    .open_clip   = open_clip_slope,
    .approx_sign = approx_sign_slope,
    .swish       = swish_slope,
    .tanh        = tanh_slope,
};
