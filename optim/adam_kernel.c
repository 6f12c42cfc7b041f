#include <math.h>

#include "core/kernels/cpu.h"
#include "core/kernels/functions.h"
#include "optim/rule.h"

/* beta^t.  The error of t log beta is one ulp of it, so 1 - beta^t is off by some 2^-53, as with qg__pow,
 * which takes five times as long. */
static double power(float beta, double t) { return qg__exp(t * qg__log((double)beta)); }

/* Algorithm 1 with the two corrections moved out of the loop, and the decay of AdamW:
 *
 *     m = beta1 m + (1 - beta1) g                  v = beta2 v + (1 - beta2) g^2
 *     w = clip(w - lr decay w - lr m' / (sqrt(v') + eps))
 *     m' = m / (1 - beta1^step)                    v' = v / (1 - beta2^step)
 */
static void update(const void *adam, const qg_stretch *s)
{
    const qg_adam_spec *spec = adam;
    const double        t    = (double)s->step;

    /* From the same rounded betas as in the loop, since 0.001 is not 1 - 0.999f; in double, since
     * 1 - beta2^t cancels. */
    const float rate   = (float)((double)s->lr / (1 - power(spec->beta1, t)));
    const float scale  = (float)(1 / sqrt(1 - power(spec->beta2, t)));
    const float shrink = s->lr * s->decay;

    const float     beta1 = spec->beta1;
    const float     beta2 = spec->beta2;
    const float     eps   = spec->eps;
    const float     clip  = s->clip;
    float *restrict w     = s->w;
    float *restrict g     = s->g;
    float *restrict m     = s->moment[0];
    float *restrict v     = s->moment[1];
    for (size_t i = 0; i < s->n; i++) {
        m[i] = beta1 * m[i] + (1 - beta1) * g[i];
        v[i] = beta2 * v[i] + (1 - beta2) * (g[i] * g[i]);
        /* In one subtraction: alone, 1 - shrink would often round to 1, and w - shrink w to w. */
        w[i] = qg_clipped(w[i] - (shrink * w[i] + rate * m[i] / (sqrtf(v[i]) * scale + eps)), clip);
        g[i] = 0;
    }
}

const qg_rule QG_PER_ISA(qg__adam) = { "adam", 2, { "m", "v" }, update, false };
