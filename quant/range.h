/* quant/range.h — the ends of uniform ranges, for the engine and for schemes (internal). */
#ifndef QG_RANGE_H
#define QG_RANGE_H

#include "quant/scheme.h"

/* Computes the ends min, max of the span x.  On entry end[] holds the learned or tracked ones, if
 * any. */
void qg__range_ends(qg_range r, qg_span x, float end[2]);

/* Makes learned ends legal again after the optimizer has moved them (qg_clamp_learned). */
void qg__range_confine(qg_quant q, qg_var *const *learned);

/* Shifts the range min .. max until 0 is a level:
 *
 *     qmin = narrow ? 1 : 0,   qmax = 2^bits - 1
 *     step = (max - min) / (qmax - qmin)
 *     zero_point = round(qmin - min / step), clipped to qmin .. qmax
 *     lo = (qmin - zero_point) step,   hi = (qmax - zero_point) step
 *
 * *u receives the constants of the nudged form, except for its variant.  Fails as
 * qg_fake_quant_nudge. */
QG_MUST_CHECK
qg_status qg__nudge(int bits, bool narrow, float min, float max, qg_levels *u, int *zero_point);

#endif
