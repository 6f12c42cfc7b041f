/* core/ops/conv2d.h — what the two kinds of qg_conv2d share (internal). */
#ifndef QG_OPS_CONV2D_H
#define QG_OPS_CONV2D_H

#include "core/kernels/norm_kernel.h"
#include "core/ops/ops.h"

/* One input channel in each group.  Everything has been checked; y is the shape of the result. */
qg_var *qg__depthwise_conv2d(qg_tape *t, qg_var *x, qg_var *w, qg_var *b, qg_conv_spec spec, qg_shape y, bool sums);

/* What an op saves; if sums, y->sums has room for those of each image. */
void   *qg__save_with_sums(qg_tape *t, qg_var *y, size_t bytes, bool sums);

/* The sums of image i of y, while it is still in cache, if y has any. */
void    qg__gather_sums(const qg__norm_kernels *norm, const qg_var *y, int i);

/* Adds to the gradient of b, y->in[2].  false: the step has failed. */
bool    qg__bias_gradient(qg_tape *t, const qg_var *y);

#endif
