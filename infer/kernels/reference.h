/* infer/kernels/reference.h — products of floats by the definition, for tests and benchmarks. */
#ifndef QG_INFER_REFERENCE_H
#define QG_INFER_REFERENCE_H

#include "infer/kernels/geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[n][oh][ow][oc] of x[n][h][w][c] and w[oc][kh][kw][c], each sum a chain of products and additions in the
 * order kernel row, column, channel. */
void qg__reals_ref(const qg__geometry *g, int n, const float *x, const float *w, float *y);

#ifdef __cplusplus
}
#endif

#endif
