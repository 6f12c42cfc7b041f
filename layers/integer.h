/* layers/integer.h — products of a training step as exact integers (internal).
 *
 * Where x, w and the gradient of y = x * w are codes, all three products of a step are sums of integers:
 *
 *     y  = fl(fl(a acc) + b)          a = scale(w) scale(x), as in evaluation (layers/evaluate.h)
 *     dx = fl(fl(scale(w) acc) s)     acc = w * g, where g are the codes of dy and s is their scale
 *     dw = sum over the images of fl(fl(scale(x) s) fl(acc))      acc = x * g of an image
 *
 * dw is summed image by image in each slice of the batch, and the slices as a tree (core/slices.h).  So
 * these products have the same bits with any instruction set, number of threads and of ranks.
 *
 * That takes a convolution of one group whose gradient, input and weight are quantized to at most 8 bits,
 * the input to codes around 0 that bytes hold, the weight with one scale and one zero point; padding is 0,
 * and at most a kernel less a row or column.  Every other product is computed in floats, as are dense ones,
 * with one result per output: dw would take a sum for each image and weight.
 */
#ifndef QG_LAYER_INTEGER_H
#define QG_LAYER_INTEGER_H

#include "layers/plan.h"

/* Records the product of a step, of x, quantized, and w; b may be NULL.  The layer is one of those that
 * qg_layer_trains_in_integers (layers/layer.h) names.  summed: as qg__conv2d's.  The gradient quantizer
 * is part of the op.  *taken false: codes are not known in this step, and nothing was recorded. */
qg_var *qg__integer_conv2d(const qg_step *s, qg_tape *t, qg_var *x, qg_var *w, qg_var *b, bool summed,
                           bool *taken);

#endif
