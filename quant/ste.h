/* quant/ste.h — the numerics every scheme shares: sign, ties, and the gradients we pretend.
 *
 * A quantizer is a pair: q(x), used forward, and a surrogate s(x), differentiated backward.  Every
 * scheme has the surrogate of its source; the backward of each takes another one in its place.
 */
#ifndef QG_STE_H
#define QG_STE_H

#include <math.h>
#include <stddef.h>

/* Backward rule: dx[i] += dy[i] * ds/dx at x[i].  {0} where one is asked for: the source's own. */
typedef struct qg_surrogate {
    void (*slope)(float arg, size_t n, const float *x, const float *dy, float *dx);
    float  arg;             /* clip bound, SwishSign beta, tanh temperature */
} qg_surrogate;

qg_surrogate qg_ste_identity(void);             /* s = x */
qg_surrogate qg_ste_clip(float bound);          /* s = clip(x, -bound, bound); slope 1 at +-bound */

/* Bi-Real Net: ds/dx = (2 - 2|x|) 1[|x| <= 1], the slope of a piecewise parabola.  [Liu 2018] */
qg_surrogate qg_ste_approx_sign(void);

/* ds/dx = b (2 - b x tanh(b x / 2)) / (1 + cosh(b x)), b = beta; 0 at +-inf.   [Darabi 2018]
 * The slope is beta at 0 and negative beyond |b x| of about 2.4, which is the method, not a slip. */
qg_surrogate qg_ste_swish(float beta);

/* IR-Net: s = k tanh(t x), k = max(1/t, 1), so ds/dx = max(1, t) (1 - tanh^2(t x)).  [Qin 2020]
 * t >= 0 is annealed upwards by a schedule, 0.1 to 10; at t = 0 this is the identity. */
qg_surrogate qg_ste_tanh(float temperature);

/* dx[i] += dy[i] * s'(x[i]) for a whole tensor, in fixed blocks on every thread. */
void qg_surrogate_slope(qg_surrogate s, size_t n, const float *x, const float *dy, float *dx);

/* s, or own when s is {0}. */
static inline qg_surrogate qg__surrogate_or(qg_surrogate s, qg_surrogate own)
{
    return s.slope ? s : own;
}

/* +1 for x >= 0 and for both zeros, else -1; NaN gives -1.  Bit packing needs one answer at 0. */
static inline float qg_sign(float x)
{
    return x >= 0.0f ? 1.0f : -1.0f;
}

/* What to do with a value half way between two codes.  Each scheme has its own default. */
typedef enum qg_ties {
    QG_TIES_EVEN,           /* to the even code: rintf; DoReFa, LSQ, PACT */
    QG_TIES_UP              /* floor(v + 0.5) evaluated literally: Blueoil, TensorFlow fake_quant */
} qg_ties;

/* rintf, bit for bit, in operations that every x86 can vectorise: adding 2^23 leaves no room for a
 * fraction, and from 2^23 on there is none.  NaN and infinities stay. */
static inline float qg__round_even(float v)
{
    const float a = fabsf(v);
    const float r = (a + 0x1p23f) - 0x1p23f;
    return copysignf(a < 0x1p23f ? r : a, v);
}

/* floorf(v + 0.5f), literally: 0.49999997 gives 1, as it does in the sources. */
static inline float qg__round_up(float v)
{
    const float u = v + 0.5f;
    const float r = qg__round_even(u);
    return r > u ? r - 1.0f : r;
}

/* This way round, NaN passes. */
static inline float qg__clip(float v, float lo, float hi)
{
    v = v > hi ? hi : v;
    return v < lo ? lo : v;
}

/* 2^bits - 1 as float; exact up to 24 bits. */
static inline float qg__steps(int bits)
{
    return (float)(((unsigned long long)1 << bits) - 1);
}

#endif
