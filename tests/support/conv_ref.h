/* tests/support/conv_ref.h — conv2d and its gradients by the definition, in double. */
#ifndef CONV_REF_H
#define CONV_REF_H

#include "core/ops/ops.h"

typedef struct shapes {
    qg_shape     x, w;
    qg_conv_spec spec;
} shapes;

typedef struct result {
    qg_shape y;
    float   *out, *dy, *dx, *dw, *db;       /* dy is drawn, the rest computed */
} result;

float *floats(size_t n);                    /* zeros; the caller frees them */
result result_new(const shapes *s);
void   result_free(result r);

/* b may be NULL; db is computed anyway. */
void   conv_ref(const shapes *s, const float *x, const float *w, const float *b, result *r);

#endif
