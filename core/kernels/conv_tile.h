/* core/kernels/conv_tile.h — registers and tiles of the convolution kernels.  For their *_kernel.c only. */
#ifndef QG_CONV_TILE_H
#define QG_CONV_TILE_H

#include <stddef.h>

#include "core/kernels/simd.h"

/* A tile is pixels x vectors of running sums that live in registers.  Each step of the reduction
 * loads the weights' vectors and, per pixel, one input value spread over a vector.  A core issues
 * two multiply-adds and two loads per cycle, and a multiply-add takes four cycles: so a tile needs
 * 2 * 4 sums or more to keep both units busy, and fewer loads than multiply-adds.
 *
 *   AVX-512, 32 registers: 14 x 2 = 28 sums + 2 weights + 1 input = 31; 16 loads for 28 products.
 *                          24 x 1 where a vector holds all channels: 24 sums + 1 weight, and the
 *                          multiply-add reads its input itself; 25 loads for 24 products, hence
 *                          96 % of the peak at the most.
 *   AVX2, 16 registers:    6 x 2 = 12 sums + 2 + 1 = 15; 8 loads for 12 products.  12 x 1 as above,
 *                          12 sums + 1 + 1.  SSE and NEON, with vectors of four: the same. */
enum { PIXELS_1 = VL == 16 ? 24 : 12, PIXELS_2 = VL == 16 ? 14 : 6 };
enum { BLOCK = 2 * VL, MOST = PIXELS_1 };

/* Sums stay in registers only if every loop over them is gone before registers are assigned.  With sanitizers they do not stay
 * there anyway, and Clang would work for minutes on the checks of all copies. */
#if defined(__clang__)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNROLL
#else
#define UNROLL _Pragma("clang loop unroll(full)")
#endif
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* A loop over the sums of a tile, or over other numbers of rows and columns that are known at compile time. */
#define EACH(r, rows, v, vectors)                                                                          \
    UNROLL                                                                                                 \
    for (int r = 0; r < (rows); r++)                                                                       \
        UNROLL                                                                                             \
        for (int v = 0; v < (vectors); v++)

#define INLINE static inline __attribute__((always_inline))

/* A tile of each size is a function of its own: one function of them all would take a compiler several times as long. */
#if defined(__clang__)
#define TILE __attribute__((noinline)) static void
#else
#define TILE __attribute__((noinline, noclone)) static void
#endif

/* CASE(n) for each length of a tile. */
#define EACH_LENGTH(CASE)                                                                                  \
    CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)     \
    CASE(13) CASE(14) CASE(15) CASE(16) CASE(17) CASE(18) CASE(19) CASE(20) CASE(21) CASE(22) CASE(23) CASE(24)

static inline int block_of(int channels) { return channels <= VL ? VL : BLOCK; }
static inline int least(int a, int b) { return a < b ? a : b; }

/* Where part t of n things begins, in parts of nearly equal size. */
static inline int cut(int n, int t, int parts) { return (int)((ptrdiff_t)n * t / parts); }

#endif
