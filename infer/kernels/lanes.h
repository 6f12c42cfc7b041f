/* infer/kernels/lanes.h — vector instructions that GCC's vector extensions cannot express.  For *_kernel.c
 * files only.
 *
 * Each function has a plain definition, which the baseline uses.  The table of AVX-512 needs VPOPCNTDQ and
 * VNNI (infer/kernels/isa.h).  With QG_SIXTEEN_LANES, tests run the tiles of AVX-512 with its intrinsics in
 * plain C (tests/support/avx512.h), or with the plain definitions.
 */
#ifndef QG_INFER_LANES_H
#define QG_INFER_LANES_H

#include "core/kernels/conv_tile.h"
#include "core/kernels/fma.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Tables of 16 bytes that one instruction looks up. */
#define QG_LOOKUP (VL == 8)

/* The length of the next of a line's tiles, all of which have nearly the same: a short one would wait for
 * its sums. */
static inline int even_pixels(int left, int vectors)
{
    const int most = vectors == 1 ? PIXELS_1 : PIXELS_2, tiles = (left + most - 1) / most;
    return (left + tiles - 1) / tiles;
}

/* A running sum, which stays in its register in the order of the source.  GCC 12 would reassociate sums of
 * integers, and then has more of them at a time than registers. */
#if defined(__x86_64__) && !defined(QG_SIXTEEN_LANES)
#define KEEP(sum) __asm__("" : "+v"(sum))
#else
#define KEEP(sum) ((void)0)
#endif

/* A tile reads pixels that are a constant distance apart.  Each run of RUN of them has a pointer of its
 * own, so that the distances within a run have registers, too; the compiler would have but one pointer, and
 * distances in memory. */
enum { RUN = 8, RUNS = (PIXELS_1 + RUN - 1) / RUN };
#define KEEP_POINTER(p) __asm__("" : "+r"(p))

/* a > b ? a : b and a < b ? a : b in each lane, hence b where a is NaN. */
static inline vf greater_of(vf a, vf b)
{
#if defined(__AVX512F__)
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__) && VL == 8
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__) && VL == 4
    return (vf)_mm_max_ps((__m128)a, (__m128)b);
#else
    return pick(a > b, a, b);
#endif
}

static inline vf less_of(vf a, vf b)
{
#if defined(__AVX512F__)
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__) && VL == 8
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__) && VL == 4
    return (vf)_mm_min_ps((__m128)a, (__m128)b);
#else
    return pick(a < b, a, b);
#endif
}

/* --- words of bits ---------------------------------------------------------------------------- */

enum { WORDS = VL / 2 };
typedef uint64_t words __attribute__((vector_size(8 * WORDS), may_alias));

/* The number of ones in each word. */
static inline words ones(words v)
{
#if defined(__AVX512VPOPCNTDQ__)
    return (words)_mm512_popcnt_epi64((__m512i)v);
#elif defined(__SSE2__) && VL == 4
    /* Sums of 2, 4 and 8 neighbouring bits; then the sum of the bytes of each word. */
    v -= v >> 1 & 0x5555555555555555u;
    v = (v & 0x3333333333333333u) + (v >> 2 & 0x3333333333333333u);
    v = (v + (v >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return (words)_mm_sad_epu8((__m128i)v, _mm_setzero_si128());
#else
    UNROLL
    for (int l = 0; l < WORDS; l++) v[l] = (uint64_t)__builtin_popcountll(v[l]);
    return v;
#endif
}

static inline words spread_word(uint64_t a) { return (words){ 0 } + a; }

/* (a ^ b) & c */
static inline words differ(words a, words b, words c)
{
#if defined(__AVX512F__)
    return (words)_mm512_ternarylogic_epi64((__m512i)a, (__m512i)b, (__m512i)c, 0x28);
#else
    return (a ^ b) & c;
#endif
}

/* The lower half of each word. */
typedef int32_t counts __attribute__((vector_size(4 * WORDS), may_alias));

static inline counts lower(words v)
{
#if defined(__AVX512F__)
    return (counts)_mm512_cvtepi64_epi32((__m512i)v);
#else
    return __builtin_convertvector(v, counts);
#endif
}

/* Bit l is set where lane l of a comparison is. */
static inline unsigned bits_of(vi taken)
{
#if defined(__AVX512F__)
    return (unsigned)_mm512_movepi32_mask((__m512i)taken);
#elif defined(__AVX2__) && VL == 8
    return (unsigned)_mm256_movemask_ps((__m256)taken);
#elif defined(__SSE2__) && VL == 4
    return (unsigned)_mm_movemask_ps((__m128)taken);
#else
    unsigned bits = 0;
    for (int l = 0; l < VL; l++) bits |= (unsigned)(taken[l] & 1) << l;
    return bits;
#endif
}

/* Of x >= t. */
static inline unsigned at_least(vf x, vf t)
{
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)x, (__m512)t, _CMP_GE_OQ);
#else
    return bits_of(x >= t);
#endif
}

/* -1 in the lanes whose bit is set; higher bits do not matter. */
static inline vi lanes_of_bits(unsigned bits)
{
    vi bit;
    UNROLL
    for (int l = 0; l < VL; l++) bit[l] = (int32_t)(1u << l);
    return (((vi){ 0 } + (int32_t)bits) & bit) == bit;
}

/* --- bytes ------------------------------------------------------------------------------------ */

enum { BYTES = 4 * VL };
typedef uint8_t bytes __attribute__((vector_size(BYTES), may_alias));

/* Bit j of each of n <= 64 bytes, and others above; 64 bytes can be read. */
static inline uint64_t plane_of_bytes(const uint8_t *v, int n, int j)
{
    uint64_t plane = 0;
#if defined(__AVX512BW__)
    (void)n;
    return _mm512_test_epi8_mask(_mm512_loadu_si512(v), _mm512_set1_epi8((char)(1 << j)));
#elif defined(__AVX2__) && VL == 8
    for (int i = 0; i < n; i += 32) {
        const __m256i own = _mm256_loadu_si256((const __m256i *)(const void *)(v + i));
        plane |= (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_slli_epi16(own, 7 - j)) << i;
    }
#elif defined(__SSE2__) && VL == 4
    for (int i = 0; i < n; i += 16) {
        const __m128i own = _mm_loadu_si128((const __m128i *)(const void *)(v + i));
        plane |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_slli_epi16(own, 7 - j)) << i;
    }
#else
    /* The product moves bit 8 k of eight bytes to bit 56 + k. */
    for (int i = 0; i < n; i += 8) {
        uint64_t own;
        memcpy(&own, v + i, sizeof own);
        plane |= ((own >> j & 0x0101010101010101) * 0x0102040810204080 >> 56) << i;
    }
#endif
    return plane;
}

/* Each byte as a lane.  GCC 12 converts such vectors by many shuffles. */
static inline vi lanes_of_bytes(vb v)
{
#if defined(__AVX512F__)
    return (vi)_mm512_cvtepu8_epi32((__m128i)v);
#elif defined(__AVX2__) && VL == 8
    int64_t low;
    memcpy(&low, &v, sizeof low);
    return (vi)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(low));
#else
    return __builtin_convertvector(v, vi);
#endif
}

/* table[index] in each lane. */
static inline vf one_of_16(const float table[16], vi index)
{
#if defined(__AVX512F__)
    return (vf)_mm512_permutexvar_ps((__m512i)index, _mm512_loadu_ps(table));
#elif defined(__AVX2__) && VL == 8
    const vf low  = (vf)_mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)index),
             high = (vf)_mm256_permutevar8x32_ps(_mm256_loadu_ps(table + VL), (__m256i)index);
    return pick(index >= VL, high, low);
#else
    vf found;
    UNROLL
    for (int l = 0; l < VL; l++) found[l] = table[index[l]];
    return found;
#endif
}

/* The same of a table that repeats the numbers of so many bits at the most, of which an index may have more
 * than its lane needs. */
#if defined(__AVX512F__)
#define QG_TABLE_BITS 4
static inline vf one_of_few(vf table, vi index)
{
    return (vf)_mm512_permutexvar_ps((__m512i)index, (__m512)table);
}
#elif defined(__AVX2__) && VL == 8
#define QG_TABLE_BITS 2
static inline vf one_of_few(vf table, vi index)
{
    return (vf)_mm256_permutevar_ps((__m256)table, (__m256i)index);
}
#else
#define QG_TABLE_BITS 0
static inline vf one_of_few(vf table, vi index) { return table + (vf)index; }       /* not called */
#endif

/* a b + c, of which neither product nor sum is rounded. */
static inline vf exact_sum(vf a, vf b, vf c)
{
#if defined(__FMA__)
    return fma_of(a, b, c);
#else
    return a * b + c;
#endif
}

/* The first n numbers of 0 .. 255 as bytes. */
static inline void store_bytes(uint8_t *to, vi numbers, int n)
{
#if defined(__AVX512F__)
    const __m128i v = _mm512_cvtepi32_epi8((__m512i)numbers);
    if (n == VL) _mm_storeu_si128((__m128i *)(void *)to, v);
#elif defined(__AVX2__) && VL == 8
    const __m256i wide = (__m256i)numbers;
    const __m128i half = _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    const __m128i v    = _mm_packus_epi16(half, half);
    if (n == VL) _mm_storel_epi64((__m128i *)(void *)to, v);
#else
    const vb v = __builtin_convertvector(numbers, vb);
    if (n == VL) *(vb *)to = v;
#endif
    else memcpy(to, &v, (size_t)n);
}

/* --- tables of bytes -------------------------------------------------------------------------- */

#if QG_LOOKUP
typedef uint16_t shorts __attribute__((vector_size(32), may_alias));
typedef uint8_t  half __attribute__((vector_size(16), may_alias));

/* table[index] in each lane; an index is below 16. */
static inline bytes lookup(bytes table, bytes index)
{
    return (bytes)_mm256_shuffle_epi8((__m256i)table, (__m256i)index);
}

/* The table in both halves of a register, which lookup wants. */
static inline bytes both(const uint8_t table[16])
{
    return (bytes)_mm256_broadcastsi128_si256(*(const __m128i *)table);
}

/* 16 of the bytes as numbers of 16 bits. */
INLINE shorts widen_half(bytes v, int which)
{
    const __m256i all = (__m256i)v;
    return (shorts)_mm256_cvtepu8_epi16(which ? _mm256_extracti128_si256(all, 1)
                                              : _mm256_castsi256_si128(all));
}
#endif

/* --- products of 8 bits ----------------------------------------------------------------------- */

/* Numbers whose sums wrap around. */
typedef uint32_t vu __attribute__((vector_size(4 * VL), may_alias));

/* A lane of sums multiplies CODES neighbouring channels: 4 unsigned bytes, or 2 numbers of 16 bits, with as
 * many signed bytes of weights.  AVX2's product of bytes saturates its sums of two at 16 bits, which 255 *
 * 127 * 2 exceeds, so weights are widened there and the sums are exact. */
#if VL == 16
enum { CODES = 4 };

static inline vi load_codes(const int8_t *w) { return *(const vi *)w; }

/* sum[l] += sum over k < 4 of x[4 l + k] * w[4 l + k].  As inline assembly, because GCC 12 moves sums that
 * are operands of the intrinsic to memory and back. */
#if defined(__AVX512VNNI__)
static inline vi add_products(vi sum, vi x, vi w)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
}
#else
/* For tests.  The compiler takes minutes if tiles have this loop. */
static __attribute__((noinline, unused)) vi add_products(vi sum, vi x, vi w)
{
    for (int k = 24; k >= 0; k -= 8) sum = (vi)((vu)sum + ((vu)x << k >> 24) * (vu)((vi)((vu)w << k) >> 24));
    return sum;
}
#endif
#else
enum { CODES = 2 };

static inline vi load_codes(const int8_t *w)
{
#if defined(__AVX2__)
    return (vi)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)w));
#elif defined(__SSE2__)
    /* Each byte above itself, shifted down with its sign. */
    const __m128i v = _mm_loadl_epi64((const __m128i *)w);
    return (vi)_mm_srai_epi16(_mm_unpacklo_epi8(v, v), 8);
#else
    int16_t wide[2 * VL];
    vi      v;
    for (int k = 0; k < 2 * VL; k++) wide[k] = w[k];
    memcpy(&v, wide, sizeof v);
    return v;
#endif
}

/* sum[l] += x[2 l] * w[2 l] + x[2 l + 1] * w[2 l + 1], where the sum of the two fits; sum[l] wraps
 * around. */
static inline vi add_products(vi sum, vi x, vi w)
{
#if defined(__AVX2__)
    return (vi)((vu)sum + (vu)_mm256_madd_epi16((__m256i)x, (__m256i)w));
#elif defined(__SSE2__)
    return (vi)((vu)sum + (vu)_mm_madd_epi16((__m128i)x, (__m128i)w));
#else
    /* The halves are widened once for a tile, and each multiply-add takes four of them. */
    const vi low_x = (vi)((vu)x << 16) >> 16, low_w = (vi)((vu)w << 16) >> 16;
    return (vi)((vu)sum + (vu)(low_x * low_w) + (vu)((x >> 16) * (w >> 16)));
#endif
}
#endif

/* The same of four unsigned bytes of x, and w of 0 .. 15: a part of a sum, of at most four such products, and
 * a sum with a part more. */
typedef int16_t pairs __attribute__((vector_size(4 * VL), may_alias));

static inline vi add_quads(vi part, vi x, vi w)
{
#if defined(__AVX512VNNI__)
    return add_products(part, x, w);
#elif defined(__AVX2__) && VL == 8
    return (vi)((pairs)part + (pairs)_mm256_maddubs_epi16((__m256i)x, (__m256i)w));
#else
    typedef uint16_t wide __attribute__((vector_size(4 * VL), may_alias));
    return (vi)((wide)part + ((wide)x & 255) * ((wide)w & 255) + ((wide)x >> 8) * ((wide)w >> 8));
#endif
}

static inline vi add_part(vi sum, vi part)
{
#if defined(__AVX512VNNI__)
    return sum + part;
#elif VL == 16
    return sum + (part & 0xFFFF) + (part >> 16);
#else
    return add_products(sum, part, (vi){ 0 } + 0x00010001);
#endif
}

/* The same of signed w: parts are sums of 16 bits, which must not exceed them, or on AVX-512 of 32 bits.  The
 * addition is in assembly, so that the part stays in its register. */
static inline vi add_signed_quads(vi part, vi x, vi w)
{
#if defined(__AVX512VNNI__)
    return add_products(part, x, w);
#elif defined(__AVX2__) && VL == 8
    const __m256i products = _mm256_maddubs_epi16((__m256i)x, (__m256i)w);
    __asm__("vpaddw %1, %0, %0" : "+x"(part) : "x"(products));
    return part;
#else
    return (vi)((pairs)part + ((pairs)x & 255) * ((pairs)w << 8 >> 8) +
                ((pairs)x >> 8 & 255) * ((pairs)w >> 8));
#endif
}

static inline vi add_signed_part(vi sum, vi part)
{
#if defined(__AVX512VNNI__)
    return sum + part;
#elif VL == 16
    return sum + (part << 16 >> 16) + (part >> 16);
#else
    return add_products(sum, part, (vi){ 0 } + 0x00010001);
#endif
}

/* sum[l] + x[l] * w[l], which wraps around, of x of 0 .. 255 and w of 16 bits with its sign: the upper half
 * of x is 0. */
static inline vi add_narrow(vi sum, vi x, vi w)
{
#if defined(__SSE2__) && VL < 16
    return add_products(sum, x, w);
#else
    return (vi)((vu)sum + (vu)x * (vu)w);
#endif
}

/* 2 VL bytes as numbers of 16 bits. */
static inline pairs load_wide(const uint8_t *x)
{
#if defined(__AVX2__) && VL == 8
    return (pairs)_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)x));
#elif defined(__SSE2__) && VL == 4
    return (pairs)_mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(const void *)x), _mm_setzero_si128());
#else
    typedef uint8_t narrow __attribute__((vector_size(2 * VL)));
    narrow          v;
    memcpy(&v, x, sizeof v);
    return __builtin_convertvector(v, pairs);
#endif
}

#endif
