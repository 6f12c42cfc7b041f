/* core/ops/norm.h — what qg_norm and the folded norms share (internal). */
#ifndef QG_OPS_NORM_H
#define QG_OPS_NORM_H

#include "core/ops/ops.h"

double qg__norm_eps_of(qg_norm_spec spec);                      /* 0 stands for 1e-5 */
double qg__norm_deviation(qg_norm_spec spec, size_t k);         /* sqrt(var + eps) of the running variance */
float  qg__norm_unbiased_of(double m, double var);              /* of m numbers, with their biased variance */

/* Moves the running statistics of channel k towards those of a batch.  One that is not finite leaves them alone: they would
 * never recover, and its loss is refused. */
void   qg__norm_track(qg_norm_spec spec, size_t k, float centre, float unbiased);

/* Whether x, called name in messages, has c channels, statistics are there, the constants are legal, and gamma
 * and beta have c numbers or are NULL.  If not, the step fails with QG_ESHAPE or QG_EARG. */
bool   qg__norm_fits(qg_tape *t, const char *op, const char *name, const qg_var *x, int c, const qg_var *gamma,
                     const qg_var *beta, qg_norm_spec spec);

#endif
