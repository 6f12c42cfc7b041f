#include "quant/reduce.h"

#include <stdint.h>
#include <string.h>

/* 32 lanes of double: enough independent additions to hide their latency on the widest machine.
 * A vector is what the machine holds, but lane l always sums elements l, l + 32, .. and lanes are
 * folded in one order, so the result does not depend on the width. */
enum {
    LANES = 32,
#if defined(__AVX512F__)
    WIDTH = 8,
#elif defined(__AVX2__)
    WIDTH = 4,
#else
    WIDTH = 2,
#endif
    VECTORS = LANES / WIDTH
};

typedef float   f32 __attribute__((vector_size(WIDTH * sizeof(float))));
typedef double  f64 __attribute__((vector_size(WIDTH * sizeof(double))));
typedef int32_t i32 __attribute__((vector_size(WIDTH * sizeof(int32_t))));

/* A full step of lanes, or what is left of one followed by zeros. */
static const float *step_at(size_t n, const float *x, size_t at, float tail[LANES])
{
    if (n - at >= LANES) return x + at;
    memset(tail, 0, LANES * sizeof *tail);
    memcpy(tail, x + at, (n - at) * sizeof *tail);
    return tail;
}

static double fold(const f64 sum[VECTORS])
{
    double lane[LANES];
    double all = 0.0;
    memcpy(lane, sum, sizeof lane);
    for (int l = 0; l < LANES / 4; l++)
        all += (lane[l] + lane[l + 8]) + (lane[l + 16] + lane[l + 24]);
    return all;
}

static double sum_kernel(size_t n, const float *x)
{
    f64   sum[VECTORS] = { { 0 } };
    float tail[LANES];
    for (size_t at = 0; at < n; at += LANES) {
        const float *p = step_at(n, x, at, tail);
        for (int v = 0; v < VECTORS; v++) {
            f32 e;
            memcpy(&e, p + v * WIDTH, sizeof e);
            sum[v] += __builtin_convertvector(e, f64);
        }
    }
    return fold(sum);
}

static double sum_abs_kernel(size_t n, const float *x)
{
    f64   sum[VECTORS] = { { 0 } };
    float tail[LANES];
    for (size_t at = 0; at < n; at += LANES) {
        const float *p = step_at(n, x, at, tail);
        for (int v = 0; v < VECTORS; v++) {
            i32 bits;
            memcpy(&bits, p + v * WIDTH, sizeof bits);
            sum[v] += __builtin_convertvector((f32)(bits & INT32_MAX), f64);
        }
    }
    return fold(sum);
}

static float max_abs_kernel(size_t n, const float *x)
{
    /* Without its sign a float orders like its bits, and NaN comes out above infinity. */
    i32   max[VECTORS] = { { 0 } };
    float tail[LANES];
    for (size_t at = 0; at < n; at += LANES) {
        const float *p = step_at(n, x, at, tail);
        for (int v = 0; v < VECTORS; v++) {
            i32 bits;
            memcpy(&bits, p + v * WIDTH, sizeof bits);
            bits &= INT32_MAX;
            const i32 more = bits > max[v];
            max[v] = (bits & more) | (max[v] & ~more);
        }
    }
    int32_t most = 0;
    for (int v = 0; v < VECTORS; v++)
        for (int l = 0; l < WIDTH; l++) most = max[v][l] > most ? max[v][l] : most;
    float result;
    memcpy(&result, &most, sizeof result);
    return result;
}

static double sum_abs_above_kernel(size_t n, const float *x, float d, size_t *count)
{
    f64   sum[VECTORS] = { { 0 } };
    i32   kept[VECTORS] = { { 0 } }; /* a block has far fewer than 2^31 elements */
    float tail[LANES];
    for (size_t at = 0; at < n; at += LANES) {
        const float *p = step_at(n, x, at, tail);
        for (int v = 0; v < VECTORS; v++) {
            i32 bits;
            memcpy(&bits, p + v * WIDTH, sizeof bits);
            bits &= INT32_MAX;
            const i32 above = (f32)bits > d; /* -1 where true */
            sum[v] += __builtin_convertvector((f32)(bits & above), f64);
            kept[v] -= above;
        }
    }
    size_t total = 0;
    for (int v = 0; v < VECTORS; v++)
        for (int l = 0; l < WIDTH; l++) total += (size_t)kept[v][l];
    *count = total;
    return fold(sum);
}

const qg_reduce_kernels QG_PER_ISA(qg__reduce) = {
    .sum           = sum_kernel,
    .sum_abs       = sum_abs_kernel,
    .max_abs       = max_abs_kernel,
    .sum_abs_above = sum_abs_above_kernel,
};
