/* infer/kernels/planes.h — planes of codes from the bits of comparisons.  For *_kernel.c files only. */
#ifndef QG_INFER_PLANES_H
#define QG_INFER_PLANES_H

#include "infer/kernels/codes.h"

/* Plane j of 64 codes, from the bits of comparisons with all boundaries.  Boundaries ascend, so a code is
 * the number of bits that are set from t[0] on, the number of multiples of 2^j up to it is code >> j, and
 * the parity of that is bit j. */
static inline uint64_t qg__plane_of(qg__alphabet a, int j, const uint64_t *t)
{
    if (a.kind == QG__TERNARY) return j ? t[1] | ~t[0] : t[1];
    uint64_t bits = 0;
    for (int i = 1 << j; i < 1 << a.bits; i += 1 << j) bits ^= t[i - 1];
    /* The top plane of two's complement is set in the lower half of the codes. */
    return a.kind == QG__SIGNED && j == a.bits - 1 ? ~bits : bits;
}

#endif
