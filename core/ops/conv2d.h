/* core/ops/conv2d.h — what the two kinds of qg_conv2d share, and what a norm after them reads (internal). */
#ifndef QG_OPS_CONV2D_H
#define QG_OPS_CONV2D_H

#include "core/kernels/conv_kernel.h"
#include "core/kernels/norm_kernel.h"
#include "core/ops/ops.h"

/* qg_conv2d; summed, before a norm: gathers the channel sums of each image while it is in cache, in training and if
 * images have more than one pixel (a norm of vectors sums by slices). */
qg_var      *qg__conv2d(qg_tape *t, qg_var *x, qg_var *w, qg_var *b, qg_conv_spec spec, bool summed);

/* The sums of y, or of what y is a view of: [n][parts][3][c] (core/kernels/norm_kernel.h).  NULL: none. */
const float *qg__image_sums(const qg_var *y);

/* One input channel in each group.  Everything has been checked; y is the shape of the result. */
qg_var      *qg__depthwise_conv2d(qg_tape *t, qg_var *x, qg_var *w, qg_var *b, qg_conv_spec spec, qg_shape y,
                                  bool summed);

/* What a convolution of one group or several saves. */
typedef struct qg__convolution {
    float       *sums;          /* first: qg__save_with_sums */
    qg_conv_spec spec;
    qg__conv     g;             /* of one padded image, and of one group of its channels */
    size_t       image;         /* floats of a padded image; 0: no padding, x is used as it is */
    bool         mirror;        /* y has the size of x: dx is a convolution of dy (qg__conv_mirror) */
    const qg__conv_kernels *k;  /* Winograd's or the direct ones */
} qg__convolution;

/* Its passes (core/ops/conv_pass.c): y, and what y's gradient adds to those of x and w. */
bool         qg__conv_value(qg_tape *t, qg_var *y);         /* false: the step has failed */
void         qg__conv_gradients(qg_tape *t, qg_var *y);

/* What an op saves, bytes of it; if summed, with space for the sums of each image where a norm reads them.  Its first
 * member is set: a pointer to the sums, or NULL. */
void        *qg__save_with_sums(qg_tape *t, qg_var *y, size_t bytes, bool summed);

/* The sums of image i of y, while it is still in cache, if there is space for them. */
void         qg__gather_sums(const qg__norm_kernels *norm, const qg_var *y, int i);

/* Adds to the gradient of b, y->in[2].  false: the step has failed. */
bool         qg__bias_gradient(qg_tape *t, const qg_var *y);

#endif
