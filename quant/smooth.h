/* quant/smooth.h — exp and tanh in float (internal).
 *
 * DoReFa needs tanh of every weight in each step, so these are shorter than the functions in double
 * (core/kernels/functions.h), with the same steps and likewise without branches: a range reduction, a polynomial with the
 * coefficients of Cephes, a selection.  The error is below 2 ulp of float32; tests/quant/test_ste.c compares them with
 * libm in double.
 */
#ifndef QG_SMOOTH_H
#define QG_SMOOTH_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* e^x for |x| <= 80. */
static inline float qg__expf(float x)
{
    /* x = k ln 2 + r, |r| <= ln(2) / 2; ln 2 in two parts, so that k * high is exact. */
    const float k = (x * 1.44269504f + 0x1.8p23f) - 0x1.8p23f;
    const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
    float       p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = (p * r) * r + r + 1.0f;

    const int32_t bits = ((int32_t)k + 127) * (1 << 23);
    float         power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* tanh c for 0 <= c < QG_TANH_NEAR: an odd polynomial, relative accuracy. */
#define QG_TANH_NEAR 0.625f
static inline float qg__tanhf_near(float c)
{
    const float z = c * c;
    float       p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    return (p * z) * c + c;
}

/* tanh x, odd, never decreasing, exactly 0 at 0 and +-1 from |x| = 10 on; NaN stays. */
static inline float qg__tanhf(float x)
{
    const float a = fabsf(x);
    const float c = a < 10.0f ? a : 10.0f;      /* beyond, float32 has nothing below 1; NaN too */
    const float e = 1.0f - 2.0f / (qg__expf(2.0f * c) + 1.0f);
    const float t = c < QG_TANH_NEAR ? qg__tanhf_near(c) : e;
    return x != x ? x : copysignf(t, x);
}

/* y = tanh x for a run of n <= QG_TANH_RUN.  Most weights are small, and where all of a run are, the
 * polynomial gives the same bits for a third of the work. */
enum { QG_TANH_RUN = 64 };

static inline void qg__tanhf_run(size_t n, const float *x, float *y)
{
    int far = 0;
    for (size_t i = 0; i < n; i++) far |= !(fabsf(x[i]) < QG_TANH_NEAR);
    if (far)
        for (size_t i = 0; i < n; i++) y[i] = qg__tanhf(x[i]);
    else
        for (size_t i = 0; i < n; i++) y[i] = copysignf(qg__tanhf_near(fabsf(x[i])), x[i]);
}

#endif
