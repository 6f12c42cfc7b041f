/* core/kernels/im2col.h — the frame around an image, and the image as a matrix of windows.
 *
 * Window (r, q) of a padded image is the kh x kw x c box whose top left corner is at row r * stride
 * and column q * stride; it is row r * ow + q of cols[oh * ow][kh * kw * c].  So with core/kernels/gemm.h
 *     y = cols w^T      dw += dy^T cols      dcols = dy w      dx = col2im(dcols)
 * for w[oc][kh * kw * c]: convolution without direct kernels, and what those are tested against.
 * One image, single-threaded, nothing allocated, sizes assumed right.
 */
#ifndef QG_IM2COL_H
#define QG_IM2COL_H

#include "core/kernels/conv_kernel.h"

/* padded[h + 2 pad_h][w + 2 pad_w][c] = x[h][w][c] inside a frame of value. */
void qg__pad(int h, int w, int c, int pad_h, int pad_w, float value, const float *x, float *padded);

/* cols[oh * ow][kh * kw * c] from x[h][w][c]. */
void qg__im2col(const qg__conv *g, const float *x, float *cols);

/* Its transpose: x[h][w][c] = for every element the sum over the windows that hold it, in order. */
void qg__col2im(const qg__conv *g, const float *cols, float *x);

#endif
