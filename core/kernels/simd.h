/* core/kernels/simd.h — one vector register, whatever the instruction set.  For *_kernel.c files only.
 *
 * GCC's vector extensions, which clang has too.  VL is the number of floats in a register, on every machine.
 * A vf may lie anywhere in memory, so user arrays with odd channel counts need no copies.  Arithmetic is
 * elementwise; comparisons give a vi whose lanes are 0 or -1.
 */
#ifndef QG_SIMD_H
#define QG_SIMD_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__) || defined(QG_SIXTEEN_LANES)   /* the latter: tests on machines without AVX-512 */
#define VL 16
#elif defined(__AVX2__)
#define VL 8
#else
#define VL 4
#endif

typedef float   vf __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef uint8_t vb __attribute__((vector_size(VL), aligned(1), may_alias));
typedef float   vec __attribute__((vector_size(4 * VL), may_alias));     /* in arrays that are aligned */

/* Registers of doubles, VD of them, and the floats and integers that are widened to one. */
#define VD (VL / 2)
typedef float   f32 __attribute__((vector_size(4 * VD)));
typedef double  f64 __attribute__((vector_size(8 * VD)));
typedef int32_t i32 __attribute__((vector_size(4 * VD)));

/* The first n lanes; the rest are 0, or stay out of memory.  With n == VL, a constant wherever it
 * matters, each is one instruction.  Fewer lanes are not copied by memcpy: n floats are a call of the
 * library, and a vector that is read where it was just written in parts waits for all of them. */
static inline vf load(const float *p, int n)
{
    if (n == VL) return *(const vf *)p;
#if VL == 16 && !defined(QG_SIXTEEN_LANES)
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#elif VL == 8
    const vi lane = { 0, 1, 2, 3, 4, 5, 6, 7 };
    return (vf)_mm256_maskload_ps(p, (__m256i)(lane < n));
#else
    vf v = { 0 };
    for (int l = 0; l < VL - 1; l++)
        if (l < n) v[l] = p[l];
    return v;
#endif
}

static inline void store(float *p, vf v, int n)
{
    if (n == VL) *(vf *)p = v;
#if VL == 16 && !defined(QG_SIXTEEN_LANES)
    else _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#elif VL == 8
    else _mm256_maskstore_ps(p, (__m256i)((vi){ 0, 1, 2, 3, 4, 5, 6, 7 } < n), (__m256)v);
#else
    for (int l = 0; n < VL && l < VL - 1; l++)
        if (l < n) p[l] = v[l];
#endif
}

static inline vf splat(float a) { return a - (vf){ 0 }; }

/* take ? a : b in each lane, take being 0 or -1. */
static inline vf pick(vi take, vf a, vf b) { return (vf)((take & (vi)a) | (~take & (vi)b)); }

#endif
