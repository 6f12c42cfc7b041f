/* quant/smooth.h — exp and tanh that a compiler can vectorise (internal).
 *
 * libm's take one value per call, and DoReFa needs tanh of every weight in every step.  These are
 * branch-free: a range reduction, a polynomial (the coefficients are those of Cephes), a selection.
 * Error below 2 ulp of float32; tests/test_ste.c sweeps them against libm in double.
 */
#ifndef QG_SMOOTH_H
#define QG_SMOOTH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* e^x for |x| <= 80. */
static inline float qg__exp(float x)
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

/* tanh x, odd, exactly 0 at 0 and +-1 from |x| = 10 on; NaN stays. */
static inline float qg__tanh(float x)
{
    const float a = fabsf(x);
    const float c = a < 10.0f ? a : 10.0f;      /* beyond, float32 has nothing below 1; NaN too */
    const float z = c * c;

    float p = -5.70498872745e-3f;               /* near 0: an odd polynomial, relative accuracy */
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    p = (p * z) * c + c;

    const float e = 1.0f - 2.0f / (qg__exp(2.0f * c) + 1.0f);
    const float t = c < 0.625f ? p : e;
    return x != x ? x : copysignf(t, x);
}

#endif
