#include "layers/initial.h"

#include <math.h>

#include "core/rng.h"

void qg__glorot_uniform(qg_param *w, uint64_t key, double fan_in, double fan_out)
{
    const float bound = (float)sqrt(6.0 / (fan_in + fan_out));
    for (size_t i = 0, n = qg_count(w->shape); i < n; i++)
        w->value[i] = bound * (2.0f * qg_uniform(key, i) - 1.0f);
}
