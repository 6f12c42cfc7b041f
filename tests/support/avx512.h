/* tests/support/avx512.h — the intrinsics of AVX-512 that the engine's kernels use, lane by lane, for
 * machines without AVX-512.
 *
 * Included before kernels that are compiled with QG_SIXTEEN_LANES (the Makefile's ISA_infer_sixteen).  With
 * an intrinsic that is missing here, these do not compile.  Definitions: Intel 64 and IA-32 Architectures
 * Software Developer's Manual, volume 2.
 */
#ifndef TESTS_AVX512_H
#define TESTS_AVX512_H

#include <immintrin.h>
#include <stdint.h>

/* After the header of the compiler, whose own definitions depend on these. */
#define __AVX512F__         1
#define __AVX512BW__        1
#define __AVX512VPOPCNTDQ__ 1

typedef union lanes512 {
    __m512   f;
    __m512i  i;
    float    f32[16];
    int32_t  i32[16];
    uint64_t u64[8];
    uint8_t  u8[64];
} lanes512;

#define EACH_LANE(n, statement)             \
    do                                      \
        for (int l = 0; l < (n); l++) {     \
            statement;                      \
        }                                   \
    while (0)
/* Not inlined: the compiler would take minutes for tiles. */
#define EMULATED(type) static __attribute__((noinline, unused)) type
#define LANES(x, T)    lanes512 x = { .T = x##_ }

EMULATED(__m512) e_loadu_ps(const void *p) { lanes512 r; __builtin_memcpy(&r, p, 64); return r.f; }
EMULATED(__m512i) e_loadu_si512(const void *p) { lanes512 r; __builtin_memcpy(&r, p, 64); return r.i; }
EMULATED(__m512i) e_set1_epi8(char a) { lanes512 r; EACH_LANE(64, r.u8[l] = (uint8_t)a); return r.i; }

EMULATED(__m512) e_max_ps(__m512 a_, __m512 b_)
{
    LANES(a, f); LANES(b, f);
    EACH_LANE(16, a.f32[l] = a.f32[l] > b.f32[l] ? a.f32[l] : b.f32[l]);
    return a.f;
}

EMULATED(__m512) e_min_ps(__m512 a_, __m512 b_)
{
    LANES(a, f); LANES(b, f);
    EACH_LANE(16, a.f32[l] = a.f32[l] < b.f32[l] ? a.f32[l] : b.f32[l]);
    return a.f;
}

/* Only of _CMP_GE_OQ. */
EMULATED(__mmask16) e_cmp_ps_mask(__m512 a_, __m512 b_, int how)
{
    LANES(a, f); LANES(b, f);
    unsigned bits = 0;
    if (how != _CMP_GE_OQ) __builtin_trap();
    EACH_LANE(16, bits |= (unsigned)(a.f32[l] >= b.f32[l]) << l);
    return (__mmask16)bits;
}

EMULATED(__m512) e_permutexvar_ps(__m512i i_, __m512 a_)
{
    LANES(i, i); LANES(a, f);
    lanes512 r;
    EACH_LANE(16, r.f32[l] = a.f32[i.i32[l] & 15]);
    return r.f;
}

EMULATED(__mmask16) e_movepi32_mask(__m512i a_)
{
    LANES(a, i);
    unsigned bits = 0;
    EACH_LANE(16, bits |= (unsigned)(a.i32[l] < 0) << l);
    return (__mmask16)bits;
}

EMULATED(uint64_t) e_test_epi8_mask(__m512i a_, __m512i b_)
{
    LANES(a, i); LANES(b, i);
    uint64_t bits = 0;
    EACH_LANE(64, bits |= (uint64_t)((a.u8[l] & b.u8[l]) != 0) << l);
    return bits;
}

EMULATED(__m512i) e_popcnt_epi64(__m512i a_)
{
    LANES(a, i);
    EACH_LANE(8, a.u64[l] = (uint64_t)__builtin_popcountll(a.u64[l]));
    return a.i;
}

/* Bit 4 a + 2 b + c of the table. */
EMULATED(__m512i) e_ternarylogic_epi64(__m512i a_, __m512i b_, __m512i c_, int table)
{
    LANES(a, i); LANES(b, i); LANES(c, i);
    lanes512 r = { .u64 = { 0 } };
    for (int k = 0; k < 8; k++)
        if (table >> k & 1)
            EACH_LANE(8, r.u64[l] |= (k & 4 ? a.u64[l] : ~a.u64[l]) & (k & 2 ? b.u64[l] : ~b.u64[l]) &
                                (k & 1 ? c.u64[l] : ~c.u64[l]));
    return r.i;
}

EMULATED(__m128i) e_cvtepi32_epi8(__m512i a_)
{
    LANES(a, i);
    lanes512 r = { .u64 = { 0 } };
    __m128i  low;
    EACH_LANE(16, r.u8[l] = (uint8_t)a.i32[l]);
    __builtin_memcpy(&low, &r, sizeof low);
    return low;
}

EMULATED(__m512i) e_cvtepu8_epi32(__m128i a)
{
    lanes512 from, r;
    __builtin_memcpy(&from, &a, sizeof a);
    EACH_LANE(16, r.i32[l] = from.u8[l]);
    return r.i;
}

EMULATED(__m256i) e_cvtepi64_epi32(__m512i a_)
{
    LANES(a, i);
    __m256i  low;
    lanes512 r = { .u64 = { 0 } };
    EACH_LANE(8, r.i32[l] = (int32_t)a.u64[l]);
    __builtin_memcpy(&low, &r, sizeof low);
    return low;
}

/* Some are macros of the compiler. */
#undef _mm512_cmp_ps_mask
#undef _mm512_ternarylogic_epi64
#define _mm512_cmp_ps_mask       e_cmp_ps_mask
#define _mm512_cvtepi32_epi8     e_cvtepi32_epi8
#define _mm512_cvtepi64_epi32    e_cvtepi64_epi32
#define _mm512_cvtepu8_epi32     e_cvtepu8_epi32
#define _mm512_loadu_ps          e_loadu_ps
#define _mm512_loadu_si512       e_loadu_si512
#define _mm512_max_ps            e_max_ps
#define _mm512_min_ps            e_min_ps
#define _mm512_movepi32_mask     e_movepi32_mask
#define _mm512_permutexvar_ps    e_permutexvar_ps
#define _mm512_popcnt_epi64      e_popcnt_epi64
#define _mm512_set1_epi8         e_set1_epi8
#define _mm512_ternarylogic_epi64 e_ternarylogic_epi64
#define _mm512_test_epi8_mask    e_test_epi8_mask

#endif
