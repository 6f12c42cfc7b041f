/* Loops that the compiler vectorizes for each instruction set.  Only prelu and scale have
 * products before a sum. */
#include "infer/kernels/floats.h"

#include <string.h>

#include "infer/kernels/lanes.h"

/* The exponent of an infinity or a NaN is all ones, and one more carries into the sign. */
static bool are_finite(size_t n, const float *x)
{
    uint32_t carry = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        carry |= (bits & 0x7FFFFFFFu) + 0x00800000u;
    }
    return carry >> 31 == 0;
}

static void relu(size_t n, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

static void clip(size_t n, float lo, float hi, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) {
        const float above = x[i] < lo ? lo : x[i];
        y[i]              = x[i] > hi ? hi : above;
    }
}

static void add(size_t n, const float *x, const float *z, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = x[i] + z[i];
}

static void divide(size_t n, float by, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] /= by;
}

INLINE void prelu_vector(int n, const float *before, const float *a, const float *after, const float *x,
                         float *y)
{
    const vf u = load(x, n) - load(before, n);
    store(y, pick(u > 0, u, load(a, n) * u) + load(after, n), n);
}

static void prelu(size_t pixels, int c, const float *before, const float *a, const float *after,
                  const float *x, float *y)
{
    for (size_t i = 0; i < pixels; i++, x += c, y += c) {
        int k = 0;
        for (; k + VL <= c; k += VL) prelu_vector(VL, before + k, a + k, after + k, x + k, y + k);
        if (k < c) prelu_vector(c - k, before + k, a + k, after + k, x + k, y + k);
    }
}

static void scale_pixels(size_t pixels, int c, const float *x, const float *z, float *y)
{
    for (size_t i = 0; i < pixels; i++, x += c, y += c)
        for (int k = 0; k < c; k++) y[k] = x[k] * z[i];
}

static void max_floats(size_t n, const float *x, float *best)
{
    for (size_t i = 0; i < n; i++) best[i] = ((x[i] > best[i]) | (x[i] != x[i])) ? x[i] : best[i];
}

static void max_bytes(size_t n, const uint8_t *x, uint8_t *best)
{
    for (size_t i = 0; i < n; i++) best[i] = x[i] > best[i] ? x[i] : best[i];
}

/* Few levels stay in registers. */
static void look_up(size_t n, int levels, const float *level, const uint8_t *code, float *y)
{
    enum { FEW = 16 };
    float  few[FEW] = { 0 };
    size_t i        = 0;
    if (levels <= FEW) {
        memcpy(few, level, (size_t)levels * sizeof *few);
        for (; i + VL <= n; i += VL)
            *(vf *)(y + i) = one_of_16(few, lanes_of_bytes(*(const vb *)(code + i)));
    }
    for (; i < n; i++) y[i] = level[code[i]];
}

/* n <= VL sums as floats; integers have the size of floats. */
INLINE vf sums_of(bool exact, const void *acc, size_t at, int n)
{
    const vf raw = load((const float *)acc + at, n);
    return exact ? __builtin_convertvector((vi)raw, vf) : raw;
}

INLINE void scale_vector(bool exact, const float *a, const float *an, const float *b, const void *acc,
                         const void *negative, size_t at, int k, int n, float *z)
{
    vf sum = load(a + k, n) * sums_of(exact, acc, at, n);
    if (negative) sum -= load(an + k, n) * sums_of(exact, negative, at, n);
    store(z + at, sum + load(b + k, n), n);
}

/* n numbers, in rows of c, of which the last may be shorter. */
INLINE void scale_all(bool exact, size_t n, int c, const float *a, const float *an, const float *b,
                      const void *acc, const void *negative, float *z)
{
    for (size_t at = 0, row; at < n; at += row) {
        row   = n - at < (size_t)c ? n - at : (size_t)c;
        int k = 0, own = (int)row;
        for (; k + VL <= own; k += VL) scale_vector(exact, a, an, b, acc, negative, at + (size_t)k, k, VL, z);
        if (k < own) scale_vector(exact, a, an, b, acc, negative, at + (size_t)k, k, own - k, z);
    }
}

/* c numbers over and over: `period` of them, a multiple of c. */
static const float *repeated(int c, int period, const float *a, float *to)
{
    for (int k = 0; k < period; k += c) memcpy(to + k, a, (size_t)c * sizeof *to);
    return to;
}

/* Several pixels are one row where the channels of one do not fill vectors, or are few.  If each pixel ended
 * with a part of a vector, the next load would begin within the vector that was just stored, as z may be acc,
 * and wait for that store. */
static void scale(bool exact, size_t pixels, int c, const float *a, const float *an, const float *b,
                  const void *acc, const void *negative, float *z)
{
    enum { FEW = 4 * VL, MOST_NUMBERS = 1024 };
    _Alignas(64) float room[3][MOST_NUMBERS];
    const size_t n      = pixels * (size_t)c;
    int          period = c;
    while ((period % VL || period < FEW) && period <= MOST_NUMBERS && (size_t)period < n) period *= 2;
    if (period > c && period <= MOST_NUMBERS) {
        a = repeated(c, period, a, room[0]);
        b = repeated(c, period, b, room[1]);
        if (negative) an = repeated(c, period, an, room[2]);
        c = period;
    }
    if (exact && negative) scale_all(true, n, c, a, an, b, acc, negative, z);
    else if (exact) scale_all(true, n, c, a, NULL, b, acc, NULL, z);
    else if (negative) scale_all(false, n, c, a, an, b, acc, negative, z);
    else scale_all(false, n, c, a, NULL, b, acc, NULL, z);
}

const qg__float_kernels QG_PER_ISA(qg__float_kernels) = {
    .are_finite   = are_finite,
    .relu         = relu,
    .clip         = clip,
    .add          = add,
    .divide       = divide,
    .prelu        = prelu,
    .scale_pixels = scale_pixels,
    .max_floats   = max_floats,
    .max_bytes    = max_bytes,
    .look_up      = look_up,
    .scale        = scale,
};
