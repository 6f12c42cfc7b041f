/* infer/kernels/floats.h — what a net does to floats between products, and to codes as bytes when it pools
 * them.
 *
 * Each has the same bits on every instruction set: nothing is contracted, and sums have one order.  Arrays
 * have c channels per pixel; y may be x, or z of add, where both have the same size.  Nothing needs more
 * alignment than its type.
 */
#ifndef QG_INFER_FLOATS_H
#define QG_INFER_FLOATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/kernels/cpu.h"

typedef struct qg__float_kernels {
    bool (*are_finite)(size_t n, const float *x);
    void (*relu)(size_t n, const float *x, float *y);                       /* NaN stays */
    void (*clip)(size_t n, float lo, float hi, const float *x, float *y);   /* NaN stays */
    void (*add)(size_t n, const float *x, const float *z, float *y);
    void (*divide)(size_t n, float by, float *y);

    /* y = (u > 0 ? u : a u) + after with u = x - before; [c] each. */
    void (*prelu)(size_t pixels, int c, const float *before, const float *a, const float *after,
                  const float *x, float *y);

    /* y[i][k] = x[i][k] z[i] */
    void (*scale_pixels)(size_t pixels, int c, const float *x, const float *z, float *y);

    /* best[k] = max(best[k], x[k]); NaN wins. */
    void (*max_floats)(size_t n, const float *x, float *best);
    void (*max_bytes)(size_t n, const uint8_t *x, uint8_t *best);

    /* y[i] = level[code[i]], of so many levels. */
    void (*look_up)(size_t n, int levels, const float *level, const uint8_t *code, float *y);

    /* The factors after a product: z = fl(fl(a acc) + b) or, with the sums of positive and of negative
     * weights, z = fl(fl(fl(a acc) - fl(an negative)) + b).  a, an and b are [c]; acc is float, or int32 if
     * exact, which is first rounded to float, to nearest even.  negative NULL: there is one sum.  z may be
     * acc. */
    void (*scale)(bool exact, size_t pixels, int c, const float *a, const float *an, const float *b,
                  const void *acc, const void *negative, float *z);
} qg__float_kernels;

QG_DECLARE_KERNELS(qg__float_kernels, qg__float_kernels);

#endif
