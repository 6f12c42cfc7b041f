/* infer/kernels/reference.h — what the kernels compute, by the definition, in loops that nothing depends on
 * but tests and benchmarks. */
#ifndef QG_INFER_REFERENCE_H
#define QG_INFER_REFERENCE_H

#include "infer/kernels/geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* acc[n][oh][ow][oc] of x[n][h][w][c] and w[oc][kh][kw][c], both real integers: values of an alphabet, or
 * codes minus their zero points.  The caller makes sure that the sums fit. */
void qg__integers_ref(const qg__geometry *g, int n, const int16_t *x, const int16_t *w, int32_t *acc);

/* The same of floats, each sum a chain of products and additions in the order kernel row, column, channel. */
void qg__reals_ref(const qg__geometry *g, int n, const float *x, const float *w, float *y);

#ifdef __cplusplus
}
#endif

#endif
