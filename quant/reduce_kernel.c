#include "quant/reduce.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "core/kernels/simd.h"

/* 32 lanes of double: enough independent additions to hide their latency on the widest machine.
 * A vector is what the machine holds, but lane l always sums elements l, l + 32, .. and lanes are
 * folded in one order, so the result does not depend on the width. */
enum { LANES = 32, VECTORS = LANES / VD };

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

/* mask: all bits, or all but the sign. */
static inline __attribute__((always_inline)) double sum_of(size_t n, const float *x, int32_t mask)
{
    f64   sum[VECTORS] = { { 0 } };
    float tail[LANES];
    for (size_t at = 0; at < n; at += LANES) {
        const float *p = step_at(n, x, at, tail);
        for (int v = 0; v < VECTORS; v++) {
            i32 bits;
            memcpy(&bits, p + v * VD, sizeof bits);
            sum[v] += __builtin_convertvector((f32)(bits & mask), f64);
        }
    }
    return fold(sum);
}

static double sum_kernel(size_t n, const float *x) { return sum_of(n, x, -1); }
static double sum_abs_kernel(size_t n, const float *x) { return sum_of(n, x, INT32_MAX); }

static float max_abs_kernel(size_t n, const float *x)
{
    /* Without its sign a float orders like its bits, and NaN comes out above infinity. */
    i32   max[VECTORS] = { { 0 } };
    float tail[LANES];
    for (size_t at = 0; at < n; at += LANES) {
        const float *p = step_at(n, x, at, tail);
        for (int v = 0; v < VECTORS; v++) {
            i32 bits;
            memcpy(&bits, p + v * VD, sizeof bits);
            bits &= INT32_MAX;
            const i32 more = bits > max[v];
            max[v] = (bits & more) | (max[v] & ~more);
        }
    }
    int32_t most = 0;
    for (int v = 0; v < VECTORS; v++)
        for (int l = 0; l < VD; l++) most = max[v][l] > most ? max[v][l] : most;
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
            memcpy(&bits, p + v * VD, sizeof bits);
            bits &= INT32_MAX;
            const i32 above = (f32)bits > d; /* -1 where true */
            sum[v] += __builtin_convertvector((f32)(bits & above), f64);
            kept[v] -= above;
        }
    }
    size_t total = 0;
    for (int v = 0; v < VECTORS; v++)
        for (int l = 0; l < VD; l++) total += (size_t)kept[v][l];
    *count = total;
    return fold(sum);
}

/* Comparisons with NaN are false, so it never gets into a lane. */
static void min_max_step(const float *p, f32 lo[VECTORS], f32 hi[VECTORS])
{
    for (int v = 0; v < VECTORS; v++) {
        f32 e;
        memcpy(&e, p + v * VD, sizeof e);
        const i32 less = e < lo[v], more = e > hi[v];
        lo[v] = (f32)(((i32)e & less) | ((i32)lo[v] & ~less));
        hi[v] = (f32)(((i32)e & more) | ((i32)hi[v] & ~more));
    }
}

static void min_max_kernel(size_t n, const float *x, float *lo, float *hi)
{
    float  least[LANES], most[LANES];
    f32    low[VECTORS], high[VECTORS];
    size_t at = 0;
    for (int l = 0; l < LANES; l++) {
        least[l] = *lo;
        most[l] = *hi;
    }
    memcpy(low, least, sizeof low);
    memcpy(high, most, sizeof high);
    for (; at + LANES <= n; at += LANES) min_max_step(x + at, low, high);
    memcpy(least, low, sizeof low);
    memcpy(most, high, sizeof high);
    for (int l = 0; at + (size_t)l < n; l++) {
        const float e = x[at + (size_t)l];
        least[l] = e < least[l] ? e : least[l];
        most[l] = e > most[l] ? e : most[l];
    }
    for (int l = 0; l < LANES; l++) {
        *lo = least[l] < *lo ? least[l] : *lo;
        *hi = most[l] > *hi ? most[l] : *hi;
    }
}

/* A cache line of columns at a time. */
enum { COLUMNS = 16 };

static void columns_step(size_t n, const float *x, float *lo, float *hi)
{
    for (size_t l = 0; l < n; l++) {
        const float e = x[l];
        lo[l] = e < lo[l] ? e : lo[l];
        hi[l] = e > hi[l] ? e : hi[l];
    }
}

static void min_max_columns_kernel(size_t rows, size_t stride, size_t n, const float *x, float *lo, float *hi)
{
    size_t at = 0;
    for (; at + COLUMNS <= n; at += COLUMNS) {
        float least[COLUMNS], most[COLUMNS];
        memcpy(least, lo + at, sizeof least);
        memcpy(most, hi + at, sizeof most);
        for (size_t r = 0; r < rows; r++) columns_step(COLUMNS, x + r * stride + at, least, most);
        memcpy(lo + at, least, sizeof least);
        memcpy(hi + at, most, sizeof most);
    }
    for (size_t r = 0; at < n && r < rows; r++) columns_step(n - at, x + r * stride + at, lo + at, hi + at);
}

/* Eight lanes per row, whatever the machine: rows are short, and there are many of them. */
enum { ROW_LANES = 8, ROW_VECTORS = ROW_LANES / VD };

static double abs_row(size_t c, const float *x)
{
    f64    sum[ROW_VECTORS] = { { 0 } };
    size_t at = 0;
    for (; at + ROW_LANES <= c; at += ROW_LANES)
        for (int v = 0; v < ROW_VECTORS; v++) {
            i32 bits;
            memcpy(&bits, x + at + v * VD, sizeof bits);
            sum[v] += __builtin_convertvector((f32)(bits & INT32_MAX), f64);
        }
    double lane[ROW_LANES];
    memcpy(lane, sum, sizeof lane);
    for (int l = 0; at + (size_t)l < c; l++) lane[l] += (double)fabsf(x[at + (size_t)l]);
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

static void add_abs_rows_kernel(size_t pixels, size_t c, const float *x, double *sum)
{
    for (size_t p = 0; p < pixels; p++) sum[p] += abs_row(c, x + p * c);
}

const qg_reduce_kernels QG_PER_ISA(qg__reduce) = {
    .sum             = sum_kernel,
    .sum_abs         = sum_abs_kernel,
    .max_abs         = max_abs_kernel,
    .sum_abs_above   = sum_abs_above_kernel,
    .min_max         = min_max_kernel,
    .min_max_columns = min_max_columns_kernel,
    .add_abs_rows    = add_abs_rows_kernel,
};
