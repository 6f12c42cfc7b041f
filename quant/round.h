/* quant/round.h — the roundings, clamps and casts of all quantizers.
 *
 * Sources disagree about ties, so this file has three roundings and no default.  All are exact except
 * qg_round_up, which is floor(v + 0.5f) as its sources evaluate it: it rounds 0.49999997 to 1 and 8388609 to
 * 8388610.  NaN, the infinities and the sign of zero are preserved.  The functions call no library and have no
 * branches, so loops over them vectorise on every instruction set.  They assume that the processor rounds to
 * nearest, the default of C programs.
 */
#ifndef QG_ROUND_H
#define QG_ROUND_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Ties to even: 0.5 -> 0, 1.5 -> 2, -2.5 -> -2. */
static inline float qg_round_even(float v)
{
    /* From 2^23 on floats are integers.  Below, adding 2^23 leaves no bits for the fraction. */
    const float a = fabsf(v);
    const float r = copysignf((a + 0x1p23f) - 0x1p23f, v);
    return a < 0x1p23f ? r : v;
}

static inline float qg_floor(float v)
{
    const float r = qg_round_even(v);
    return r > v ? r - 1.0f : r;
}

/* Ties away from zero: 0.5 -> 1, -2.5 -> -3. */
static inline float qg_round_away(float v)
{
    const float a = fabsf(v);
    const float t = qg_floor(a);
    return copysignf(a - t >= 0.5f ? t + 1.0f : t, v);    /* a - t is exact */
}

/* Ties toward +inf: 0.5 -> 1, -2.5 -> -2; one rounding of v + 0.5f before the floor. */
static inline float qg_round_up(float v)
{
    return qg_floor(v + 0.5f);
}

/* v limited to lo .. hi; lo wins if they are in the wrong order; NaN passes through. */
static inline float qg_clamp(float v, float lo, float hi)
{
    v = v > hi ? hi : v;
    return v < lo ? lo : v;
}

static inline int64_t qg_clamp_int(int64_t v, int64_t lo, int64_t hi)
{
    v = v > hi ? hi : v;
    return v < lo ? lo : v;
}

static inline int32_t qg_saturate_i32(int64_t v)
{
    return (int32_t)qg_clamp_int(v, INT32_MIN, INT32_MAX);
}

/* A real as an integer of lo .. hi: truncated, saturated before the cast, NaN to 0 and then
 * clamped.  |lo|, |hi| <= 2^53. */
static inline int64_t qg_to_int(double v, int64_t lo, int64_t hi)
{
    if (isnan(v)) return qg_clamp_int(0, lo, hi);
    if (v <= (double)lo) return lo;
    if (v >= (double)hi) return hi;
    return (int64_t)v;
}

#endif
