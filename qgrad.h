/* qgrad.h — train quantized neural networks in plain C.
 *
 * The public headers in reading order.  Each documents itself, and examples/ has a program for each task.
 * This is the only header that a program includes, in C11 or C++11.
 *
 * Threads  An object is used by one thread at a time, and so are those that belong together, as a net,
 *          its optimizer and its tape.  Different ones may be used at the same time; one of them has the
 *          library's threads (core/kernels/parallel.h).
 */
#ifndef QGRAD_H
#define QGRAD_H

#define QGRAD_VERSION "0.2.0"

#ifdef __cplusplus
/* Included before extern "C": in C++ some of these headers declare overloads, which cannot have C linkage. */
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
extern "C" {
#endif

/* How things fail, and what a tensor is. */
#include "core/status.h"
#include "core/tensor.h"

/* Nets: declared layer by layer, as text, or by the name of a model. */
#include "layers/net.h"
#include "layers/models/models.h"
#include "layers/models/text.h"

/* Quantizers for weights, inputs and gradients. */
#include "quant/quant.h"
#include "quant/surrogate.h"
#include "quant/quantizer.h"

/* Images in batches, and a single image. */
#include "datasets/loader.h"
#include "datasets/preprocess.h"

/* Training: a run directory, a training as text, or a loop of your own over a tape and an optimizer. */
#include "train/fit.h"
#include "train/recipe.h"
#include "core/tape.h"
#include "core/ops/ops.h"
#include "optim/optim.h"
#include "optim/schedule.h"
#include "optim/ema.h"

/* Afterwards: accuracy, runs and their nets, quantization without training, packed files. */
#include "train/evaluate.h"
#include "train/runs.h"
#include "train/calibrate.h"
#include "layers/export/export.h"

/* For authors of ops, quantizers, layers and optimizers. */
#include "core/params.h"
#include "core/gradcheck.h"
#include "quant/form.h"
#include "quant/scheme.h"
#include "layers/layer.h"
#include "optim/rule.h"

/* Quantizers of the papers and of TensorFlow on plain arrays, without a tape. */
#include "quant/reference/binary.h"
#include "quant/reference/dorefa.h"
#include "quant/reference/fake_quant.h"
#include "quant/reference/integer.h"
#include "quant/reference/integer_conv.h"
#include "quant/reference/qdq.h"
#include "quant/reference/quantize.h"
#include "quant/reference/ternary.h"
#include "quant/reference/uniform.h"

/* What the others are built on: random numbers, memory, files, texts, threads, instruction sets, MPI. */
#include "core/rng.h"
#include "core/arena.h"
#include "core/io/array.h"
#include "core/io/state.h"
#include "core/io/keys.h"
#include "core/profile.h"
#include "core/kernels/parallel.h"
#include "core/kernels/cpu.h"
#include "core/dist/ranks.h"

#ifdef __cplusplus
}
#endif

#endif
