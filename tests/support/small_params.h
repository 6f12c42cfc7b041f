/* tests/support/small_params.h — parameters of awkward sizes in every group, and gradients. */
#ifndef SMALL_PARAMS_H
#define SMALL_PARAMS_H

#include "core/params.h"

enum { A_WEIGHT, A_BIAS, NORM, SEEN, SCALE, B_WEIGHT, LAST, ITEMS };

enum { MOST_FLOATS = 65 * 3 * 3 * 63 };         /* of one parameter */

extern const qg_param small_specs[ITEMS];

void   small_declare(qg_params *p);                     /* allocated, values in [-1, 1) */
void   small_set_gradients(qg_params *p, int step);     /* in [-1, 1), those of frozen ones too */
size_t small_bytes(const qg_params *p);                 /* of values, gradients, tracked, padding */
float *small_copy(const qg_params *p);                  /* of all of them; the caller frees it */

#endif
