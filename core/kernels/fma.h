/* core/kernels/fma.h — multiply-adds that are written, not left to the compiler.  For *_kernel.c files only.
 *
 * Whether a compiler fuses a * b + c depends on its version and on -O; so it never may (-ffp-contract=off),
 * and a kernel says where a multiply-add is rounded once.  AVX-512, AVX2 and AArch64 have an instruction for
 * it.  Elsewhere doubles give the same bits: the product of two floats is exact there, and a sum that is
 * first rounded to odd (if it is not exact, to the neighbour whose last bit is 1) and then to float is
 * rounded as if once, also to denormals [Boldo, Melquiond 2008].  Vectors are rounded to nearest twice, and
 * to odd only where that may differ.
 */
#ifndef QG_FMA_H
#define QG_FMA_H

#include <math.h>

#include "core/kernels/simd.h"

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__FMA__) || defined(__aarch64__)

static inline float fma_of_floats(float a, float b, float c) { return fmaf(a, b, c); }

/* a b + c in each lane. */
#if defined(QG_SIXTEEN_LANES)
/* For tests.  The compiler takes minutes if loops have both halves. */
static __attribute__((noinline, unused)) vf fma_of(vf a, vf b, vf c)
{
    __m256 x[2], y[2], z[2];
    memcpy(x, &a, sizeof x), memcpy(y, &b, sizeof y), memcpy(z, &c, sizeof z);
    for (int h = 0; h < 2; h++) z[h] = _mm256_fmadd_ps(x[h], y[h], z[h]);
    memcpy(&c, z, sizeof c);
    return c;
}
#else
static inline __attribute__((always_inline)) vf fma_of(vf a, vf b, vf c)
{
#if VL == 16
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif VL == 8
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__FMA__)
    return (vf)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
#else
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#endif
}
#endif

#else

/* p + d is s + error.  Where that is nearer to 0 than s, one is taken from s as an integer, and wherever s is
 * not exact, its last bit is set.  The error of an infinity is NaN, so it stays. */
static inline float fma_of_floats(float a, float b, float c)
{
    const double p = (double)a * (double)b, d = (double)c;
    const double s = p + d, t = s - p, error = (p - (s - t)) + (d - t);
    const int    above = error * s > 0, below = error * s < 0;
    int64_t      bits;
    double       odd;
    memcpy(&bits, &s, sizeof bits);
    bits = (bits - below) | (above | below);
    memcpy(&odd, &bits, sizeof odd);
    return (float)odd;
}

typedef int64_t i64 __attribute__((vector_size(8 * VD)));

/* Each half as doubles, and the floats of both.  The compiler would convert lanes one at a time. */
static inline __attribute__((always_inline)) f64 half_of(vf a, int h)
{
#if defined(__SSE2__)
    return (f64)_mm_cvtps_pd(h ? _mm_movehl_ps((__m128)a, (__m128)a) : (__m128)a);
#else
    f32 half[2];
    memcpy(half, &a, sizeof half);
    return __builtin_convertvector(half[h], f64);
#endif
}

static inline __attribute__((always_inline)) vf of_halves(f64 low, f64 high)
{
#if defined(__SSE2__)
    return (vf)_mm_movelh_ps(_mm_cvtpd_ps((__m128d)low), _mm_cvtpd_ps((__m128d)high));
#else
    const f32 half[2] = { __builtin_convertvector(low, f32), __builtin_convertvector(high, f32) };
    vf        all;
    memcpy(&all, half, sizeof all);
    return all;
#endif
}

static inline __attribute__((always_inline)) f64 odd_sum(f64 p, f64 d)
{
    const f64 s = p + d, t = s - p, error = (p - (s - t)) + (d - t);
    const i64 above = error * s > 0, below = error * s < 0;     /* -1 where true */
    return (f64)(((i64)s + below) | ((above | below) & 1));
}

static __attribute__((noinline, cold, unused)) vf fma_in_doubt(vf a, vf b, vf c)
{
    const f64 low = odd_sum(half_of(a, 0) * half_of(b, 0), half_of(c, 0));
    return of_halves(low, odd_sum(half_of(a, 1) * half_of(b, 1), half_of(c, 1)));
}

/* Rounded to double and then to float, which differs only where the double lies midway between two floats, or
 * where a float is denormal or nearly. */
static inline __attribute__((always_inline)) vf fma_of(vf a, vf b, vf c)
{
#if defined(__SSE2__)
    const f64 low  = half_of(a, 0) * half_of(b, 0) + half_of(c, 0);
    const f64 high = half_of(a, 1) * half_of(b, 1) + half_of(c, 1);
    const vf  y = of_halves(low, high);
    const vi  words = (vi)_mm_shuffle_ps((__m128)low, (__m128)high, 0x88), size = (vi)y & INT32_MAX;
    const vi  doubt = ((words << 3) == INT32_MIN) | ((size > 0) & (size < 0x00800001));
    if (!__builtin_expect(_mm_movemask_epi8((__m128i)doubt), 0)) return y;
#endif
    return fma_in_doubt(a, b, c);
}

#endif
#endif
