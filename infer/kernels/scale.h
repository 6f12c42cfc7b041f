/* infer/kernels/scale.h — the factors after a product, with two roundings per term on every instruction set.
 *
 *     z = fl(fl(a acc) + b)
 *
 * or, with the sums of positive and of negative weights,
 *
 *     z = fl(fl(fl(a acc) - fl(an negative)) + b)
 *
 * acc, negative and z are [pixels][c], and a, an and b are [c].  An int32 acc is first rounded to float, to
 * nearest even.  z may be acc.  Nothing needs more alignment than its type.
 */
#ifndef QG_INFER_SCALE_H
#define QG_INFER_SCALE_H

#include <stddef.h>
#include <stdint.h>

#include "core/kernels/cpu.h"

typedef struct qg__scale_kernels {
    void (*reals)(size_t pixels, int c, const float *a, const float *b, const float *acc, float *z);
    void (*integers)(size_t pixels, int c, const float *a, const float *b, const int32_t *acc, float *z);
    void (*two_reals)(size_t pixels, int c, const float *a, const float *an, const float *b, const float *acc,
                      const float *negative, float *z);
    void (*two_integers)(size_t pixels, int c, const float *a, const float *an, const float *b,
                         const int32_t *acc, const int32_t *negative, float *z);
} qg__scale_kernels;

QG_DECLARE_KERNELS(qg__scale_kernels, qg__scale_kernels);

#endif
