/* core/kernels/fma.h — multiply-adds that are written, not left to the compiler.  For *_kernel.c files only.
 *
 * Whether a compiler fuses a * b + c depends on its version and on -O; so it never may (-ffp-contract=off), and a kernel says where
 * a multiply-add is rounded once.  Where the machine has no such instruction, product and sum are rounded each.
 */
#ifndef QG_FMA_H
#define QG_FMA_H

#include <math.h>

#include "core/kernels/simd.h"

#if defined(__FMA__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

static inline float fma_of_floats(float a, float b, float c)
{
#if defined(__FMA__) || defined(__ARM_NEON)
    return fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

/* a b + c in each lane. */
static inline __attribute__((always_inline)) vf fma_of(vf a, vf b, vf c)
{
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__) && VL == 8
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_NEON)
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;       /* on AVX2, tests fuse vectors of sixteen by -ffp-contract=fast (tests/tests.mk) */
#endif
}

#endif
