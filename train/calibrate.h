/* train/calibrate.h — quantizes a trained net without training it.
 *
 *     qg_net *net = ..                    as the float net was declared, with quantizers, and built
 *     if (qg_calibrate(net, (qg_calibrate_spec){ .init = "runs/float", .images = train })) ..
 *     if (qg_net_save(net, "quantized.safetensors")) ..
 */
#ifndef QG_CALIBRATE_H
#define QG_CALIBRATE_H

#include "datasets/loader.h"
#include "layers/net.h"

enum { QG_CALIBRATION_IMAGES = 512 };

typedef struct qg_calibrate_spec {
    qg_loader  *images;     /* required: those of the training, but not augmented */
    int         count;      /* how many, from the start of epoch 0; 0: 512, or all if fewer */
    const char *init;       /* the last weights of the run in this directory, or a safetensors file, as in qg_fit_spec;
                               NULL: the net has its weights already */
} qg_calibrate_spec;

/* Sets the ranges that quantizers of inputs observe, and the running statistics of batch norms, to what a net with
 * these weights and quantizers has on `count` images.  Weights, biases, gamma and beta keep their values.
 *
 * The net runs forward on the images twice, in the batches of the loader, the last of which may be
 * cut, without dropout and with every delayed quantizer started.  Batch norms use the statistics
 * of the batch.
 *
 *     first pass     in QG_TRAIN: a range is the mean over all images of the range of their batch:  r = sum n_b r_b / sum n_b
 *                    with n_b images in batch b.  A scheme that learns its step or range starts from the first batch, as
 *                    in training, unless it has started
 *     second pass    in QG_ESTIMATE: with these ranges, the m values of a channel in all batches have
 *                    running_mean = sum x / m,    running_var = sum (x - running_mean)^2 / (m - 1)
 *                    merged in double from the statistics of each batch [Chan, Golub, LeVeque 1979]
 *
 * The quantizers of weights keep their ranges and scales, which .init starts from the loaded weights.  A batch norm folded
 * into a weight multiplies it by gamma / sqrt(var + eps) of the former running_var during both passes.  Layers that
 * qg_net_freeze has frozen keep what they have.
 *
 * Memory   Borrows images until it returns, and then leaves the loader at the start of epoch 0.
 * Fails    QG_EARG: the spec, a net that is not built, or a batch norm that sees a single value per channel, which has no
 *          variance.  QG_ESHAPE: the images or .init do not fit the net.  QG_ESTATE: a quantizer found no values to
 *          start from, such as only zeros.  QG_ENAN: a result is not finite.  QG_EMEM, and as the file and the ops do.
 *          Ranges and statistics are then unspecified.
 */
QG_MUST_CHECK
qg_status qg_calibrate(qg_net *net, qg_calibrate_spec spec);

#endif
