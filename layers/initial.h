/* layers/initial.h — initial weights (internal). */
#ifndef QG_INITIAL_H
#define QG_INITIAL_H

#include "core/params.h"

/* Uniform in +-sqrt(6 / (fan_in + fan_out)), element i drawn from (key, i).
 *                                                        [Glorot, Bengio 2010, eq. 16] */
void qg__glorot_uniform(qg_param *w, uint64_t key, double fan_in, double fan_out);

#endif
