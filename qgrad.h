/* qgrad.h — train quantized neural networks in plain C.
 *
 * The public headers in reading order; each is its own manual.  C++ may include this file, and no other.
 */
#ifndef QGRAD_H
#define QGRAD_H

#define QGRAD_VERSION "0.1.0"

#ifdef __cplusplus
/* Here, since C++ has overloads in some of them, which extern "C" forbids. */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
extern "C" {
#endif

#include "core/status.h"
#include "core/tensor.h"
#include "core/array.h"
#include "core/rng.h"
#include "core/params.h"
#include "core/tape.h"
#include "core/ops.h"
#include "core/profile.h"
#include "core/parallel.h"
#include "core/cpu.h"
#include "core/state.h"
#include "core/gradcheck.h"
#include "quant/quant.h"
#include "quant/scheme.h"

/* The quantizers of the papers and of TensorFlow on plain arrays: no tape, nothing allocated. */
#include "quant/binary.h"
#include "quant/dorefa.h"
#include "quant/fake_quant.h"
#include "quant/integer.h"
#include "quant/integer_conv.h"
#include "quant/linear.h"
#include "quant/lsq.h"
#include "quant/pact.h"
#include "quant/quantize.h"
#include "quant/ttq.h"
#include "quant/twn.h"
#include "quant/xnor.h"

#include "layers/net.h"
#include "layers/layer.h"
#include "layers/models/models.h"
#include "optim/optim.h"
#include "optim/schedule.h"
#include "datasets/loader.h"

#ifdef __cplusplus
}
#endif

#endif
