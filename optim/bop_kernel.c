#include "core/kernels/cpu.h"
#include "optim/rule.h"

/* Algorithm 1, for one parameter of -1 and +1:
 *
 *     m = (1 - gamma) m + gamma g
 *     w = -w if m w > 0 and |m| > threshold
 *
 * gamma follows the learning rate: a schedule moves both. */
static void update(const void *bop, const qg_stretch *s)
{
    const qg_bop_spec *spec      = bop;
    const float        scaled    = spec->gamma * (s->lr / spec->rest.lr);
    const float        gamma     = scaled < 1 ? scaled : 1;
    const float        threshold = spec->threshold;
    float *restrict    w         = s->w;
    float *restrict    g         = s->g;
    float *restrict    m         = s->moment[0];
    for (size_t i = 0; i < s->n; i++) {
        m[i] = (1 - gamma) * m[i] + gamma * g[i];
        w[i] = m[i] * w[i] > threshold ? -w[i] : w[i];      /* |w| = 1, so m w is +-|m| */
        g[i] = 0;
    }
}

const qg_rule QG_PER_ISA(qg__bop) = { "bop", 1, { "m" }, update, true };
