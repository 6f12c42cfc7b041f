/* quant/range.h — ranges: what the engine and schemes ask of them (internal). */
#ifndef QG_RANGE_H
#define QG_RANGE_H

#include "quant/scheme.h"

/* Writes the ends for the span x to end[0] and end[1], which hold those that are learned or tracked. */
void qg__range_ends(qg_range r, qg_span x, float end[2]);

/* Sets ends that the optimizer made illegal (qg_clamp_learned). */
void qg__range_confine(qg_quant q, qg_var *const *learned);

/* The range min .. max shifted until 0 is a code: the constants of the nudged form, but for its variant, and the code of 0;
 * formulas in quant/reference/fake_quant.h.  Fails as qg_fake_quant_nudge. */
QG_MUST_CHECK
qg_status qg__nudge(int bits, bool narrow, float min, float max, qg_levels *u, int *zero_point);

#endif
