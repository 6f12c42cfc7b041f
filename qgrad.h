/* qgrad.h — train quantized neural networks in plain C.
 *
 * The public headers in reading order; each documents itself.  A C++ program may include only this file.
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

#include "core/status.h"
#include "core/tensor.h"
#include "core/io/array.h"
#include "core/io/keys.h"
#include "core/rng.h"
#include "core/arena.h"
#include "core/params.h"
#include "core/tape.h"
#include "core/ops/ops.h"
#include "core/profile.h"
#include "core/kernels/parallel.h"
#include "core/kernels/cpu.h"
#include "core/dist/ranks.h"
#include "core/io/state.h"
#include "core/gradcheck.h"
#include "quant/surrogate.h"
#include "quant/quant.h"
#include "quant/form.h"
#include "quant/scheme.h"
#include "quant/quantizer.h"

/* The quantizers of the papers and of TensorFlow on plain arrays: no tape, nothing allocated. */
#include "quant/reference/binary.h"
#include "quant/reference/dorefa.h"
#include "quant/reference/fake_quant.h"
#include "quant/reference/integer.h"
#include "quant/reference/integer_conv.h"
#include "quant/reference/qdq.h"
#include "quant/reference/quantize.h"
#include "quant/reference/ternary.h"
#include "quant/reference/uniform.h"

#include "layers/net.h"
#include "layers/layer.h"
#include "layers/export/packed.h"
#include "layers/models/models.h"
#include "layers/models/text.h"
#include "optim/optim.h"
#include "optim/ema.h"
#include "optim/rule.h"
#include "optim/schedule.h"
#include "datasets/preprocess.h"
#include "datasets/loader.h"
#include "train/fit.h"
#include "train/recipe.h"
#include "train/evaluate.h"
#include "train/runs.h"
#include "train/calibrate.h"

#ifdef __cplusplus
}
#endif

#endif
