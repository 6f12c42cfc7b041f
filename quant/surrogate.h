/* quant/surrogate.h — the sign function of all schemes, and the surrogates that replace slopes of 0 (quant/quant.h).
 * Each scheme has the surrogate of its source; the caller may choose another one.
 */
#ifndef QG_SURROGATE_H
#define QG_SURROGATE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "core/io/array.h"
#include "core/status.h"

/* The gradient of a whole tensor: dx += f(x, dy), where dy is that of the quantized values.  n = outer depth inner
 * numbers, of which element (o, channel, i) is x[(o * depth + channel) * inner + i]: depth are the rows of a weight,
 * or the channels of an input; operators on arrays whose source has no channels pass one. */
typedef void qg_whole_gradient(float arg, qg_split channels, const float *x, const float *dy, float *dx);

/* Backward rule: dx[i] += dy[i] * ds/dx at x[i].  {0}: the surrogate of the source. */
typedef struct qg_surrogate {
    void   (*slope)(float arg, size_t n, const float *x, const float *dy, float *dx);
    double (*value)(float arg, double x);   /* s itself, only for `qgrad gradcheck`; NULL: slope is not checked */
    float    arg;           /* clip bound, SwishSign beta, tanh temperature: 0 or more, finite */
    float    to;            /* final value of arg, both above 0: at a step of the tape it is arg (to / arg)^(step / steps).
                               Operators on arrays use arg unchanged */
    uint64_t steps;         /* training steps that this takes; 0: arg is constant */
    qg_whole_gradient *whole;       /* in place of slope, which is then not called (qg_surrogate_whole) */
} qg_surrogate;

qg_surrogate qg_surrogate_identity(void);             /* s = x */
qg_surrogate qg_surrogate_clip(float bound);          /* s = clip(x, -bound, bound); slope 1 at +-bound */

/* Bi-Real Net: ds/dx = (2 - 2|x|) 1[|x| <= 1], the slope of a piecewise parabola.  [Liu 2018] */
qg_surrogate qg_surrogate_approx_sign(void);

/* ds/dx = b (2 - b x tanh(b x / 2)) / (1 + cosh(b x)), b = beta; 0 at +-inf.   [Darabi 2018]
 * The slope is beta at 0 and negative beyond |b x| of about 2.4, as the method intends. */
qg_surrogate qg_surrogate_swish(float beta);

/* IR-Net: s = k tanh(t x), k = max(1/t, 1), so ds/dx = max(1, t) (1 - tanh^2(t x)).  [Qin 2020]
 * t >= 0 is annealed upwards by a schedule, 0.1 to 10; at t = 0 this is the identity. */
qg_surrogate qg_surrogate_tanh(float temperature);

/* The same with t = 0.1 at step 0, growing by a constant factor per step to 10 at `steps`, then constant.
 * steps 0: t stays 0.1. */
qg_surrogate qg_surrogate_annealed_tanh(uint64_t steps);

/* A gradient that is no slope at each number, as one that needs a mean over the tensor: Blueoil's `backward`, which
 * takes the op and dy.  It is called once per tensor and step, by one thread.
 *
 * Fails    where it is used: the gradients of xnor, magnitude-aware, bnn, binaryconnect, ste-tern, irnet,
 *          adabin and recu are more than a slope; ranks (core/dist/ranks.h) share inputs, so only weights
 *          can have one there. */
qg_surrogate qg_surrogate_whole(qg_whole_gradient *gradient, float arg);

/* +1 for x >= 0 and for both zeros, else -1; NaN gives -1.  Bit packing needs one answer at 0. */
static inline float qg_sign_of(float x)
{
    return x >= 0.0f ? 1.0f : -1.0f;
}

#endif
