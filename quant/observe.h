/* quant/observe.h — the range of a batch (internal).
 *
 * For n channels of a split ({ 1, 1, size } is one channel of everything) from `first`
 * on, into lo and hi, [n] each.  NaN is left out; a channel without any number gives lo = inf,
 * hi = -inf.  The results do not depend on the order of the elements, so not on threads either.
 */
#ifndef QG_OBSERVE_H
#define QG_OBSERVE_H

#include "core/io/array.h"

void qg__min_max(qg_split c, size_t first, size_t n, const float *x, float *lo, float *hi);

/* The nearest rank, exactly, found by its bits rather than by sorting: with m numbers in increasing
 * order x[0] .. x[m - 1] and k = ceil(percentile / 100 * m) - 1,
 *     hi = x[k],  lo = x[m - 1 - k]
 * percentile 50 .. 100; 100 gives the minimum and the maximum. */
void qg__percentiles(qg_split c, size_t first, size_t n, const float *x, double percentile, float *lo,
                     float *hi);

#endif
