/* The rules of SGD: loops that update a stretch of weights w and clear their gradients g.
 *
 *     d          gradient with weight decay, d = g + decay w
 *     v          velocity, a moment that is 0 before the first step
 *     clip(x)    x limited to [-clip, clip]
 */
#include "core/kernels/cpu.h"
#include "optim/rule.h"

/*     d = g + decay w
 *     w = clip(w - lr d)
 */
static void update_plain(const void *spec, const qg_stretch *s)
{
    const float     lr    = s->lr;
    const float     decay = s->decay;
    const float     clip  = s->clip;
    float *restrict w     = s->w;
    float *restrict g     = s->g;
    for (size_t i = 0; i < s->n; i++) {
        w[i] = qg_clipped(w[i] - lr * (g[i] + decay * w[i]), clip);
        g[i] = 0;
    }
}

/*     v = momentum v + d
 *     w = clip(w - lr v), or with Nesterov's momentum clip(w - lr (d + momentum v))
 */
static void update_momentum(const void *spec, const qg_stretch *s)
{
    const bool      nesterov = ((const qg_sgd_spec *)spec)->nesterov;
    const float     momentum = ((const qg_sgd_spec *)spec)->momentum;
    const float     lr       = s->lr;
    const float     decay    = s->decay;
    const float     clip     = s->clip;
    float *restrict w        = s->w;
    float *restrict g        = s->g;
    float *restrict v        = s->moment[0];
    for (size_t i = 0; i < s->n; i++) {
        const float d = g[i] + decay * w[i];
        v[i] = momentum * v[i] + d;
        w[i] = qg_clipped(w[i] - lr * (nesterov ? d + momentum * v[i] : v[i]), clip);
        g[i] = 0;
    }
}

const qg_rule QG_PER_ISA(qg__sgd_plain)    = { .name = "sgd", .update = update_plain };
const qg_rule QG_PER_ISA(qg__sgd_momentum) = {
    .name = "sgd", .n_moments = 1, .moment = { "momentum" }, .update = update_momentum
};
