/* tests/support/views.h — arrays over plain C arrays, and assertions for tests of quantizers. */
#ifndef QG_TESTS_VIEWS_H
#define QG_TESTS_VIEWS_H

#include <math.h>
#include <string.h>

#include "core/io/array.h"
#include "core/rng.h"
#include "tests/support/testing.h"

/* Sizes that fit no vector, chunk or block, one that does, and several blocks. */
static const size_t awkward_sizes[] = { 1, 3, 31, 33, 63, 65, 256, 257, 16384, 50001 };
enum { N_SIZES = sizeof awkward_sizes / sizeof awkward_sizes[0], MOST = 50001 };

static inline qg_array view(qg_dtype dtype, void *data, size_t n)
{
    return (qg_array){ .dtype = dtype, .rank = 1, .dims = { n }, .data = data };
}

static inline qg_array point(qg_dtype dtype, void *data) { return (qg_array){ .dtype = dtype, .data = data }; }

static inline qg_array scalar(float *data) { return point(QG_F32, data); }
static inline qg_array vector(float *data, size_t n) { return view(QG_F32, data, n); }

static inline qg_array matrix(float *data, size_t rows, size_t columns)
{
    return (qg_array){ .dtype = QG_F32, .rank = 2, .dims = { rows, columns }, .data = data };
}

static inline qg_array tensor4(float *data, size_t a, size_t b, size_t c, size_t d)
{
    return (qg_array){ .dtype = QG_F32, .rank = 4, .dims = { a, b, c, d }, .data = data };
}

/* The same as compound literals, for use as operands; they live as long as the block. */
#define VIEW(dtype, x, n)        ((qg_array[]){ view(dtype, x, n) })
#define SCALAR(x)                ((qg_array[]){ scalar(x) })
#define VECTOR(x, n)             ((qg_array[]){ vector(x, n) })
#define MATRIX(x, r, c)          ((qg_array[]){ matrix(x, r, c) })
#define TENSOR4(x, n, h, w, c)   ((qg_array[]){ tensor4(x, n, h, w, c) })

static inline void fill_normal(uint64_t key, float deviation, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++) x[i] = deviation * qg_normal(key, i);
}

static inline void assert_near(double got, double want, double tolerance)
{
    if (isnan(want) ? isnan(got) : got == want || fabs(got - want) <= tolerance) return;
    fail_msg("%.9g, expected %.9g within %g", got, want, tolerance);
}

static inline void assert_all_near(size_t n, const float *got, const float *want, double tolerance)
{
    for (size_t i = 0; i < n; i++) assert_near((double)got[i], (double)want[i], tolerance);
}

/* Asserts the same bits, including NaN and the sign of zero. */
static inline void assert_same(size_t n, const float *got, const float *want)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            fail_msg("[%zu] is %a, expected %a", i, (double)got[i], (double)want[i]);
}

#endif
