/* quant/channel.h — tensors one channel at a time, in any layout (internal).
 *
 * A qg_split says that element (o, channel, i) is x[(o * depth + channel) * inner + i].  Rows of a
 * weight [out][kh][kw][in] are { 1, out, kh*kw*in }, channels inmost (HWIO) { kh*kw*in, out, 1 }.
 * The elements of a channel are counted in memory order.
 */
#ifndef QG_CHANNEL_H
#define QG_CHANNEL_H

#include "core/kernels/cpu.h"
#include "core/io/array.h"

#include <stddef.h>

/* Channels per piece of work: one cache line if channels are inmost. */
enum { QG_CHANNEL_GROUP = 16 };

static inline size_t qg__channel_size(qg_split c) { return c.outer * c.inner; }

/* Elements [from, from + n) of a channel, copied out of x into part, or from part into x. */
void qg__gather(qg_split c, size_t channel, size_t from, size_t n, const float *x, float *part);
void qg__scatter(qg_split c, size_t channel, size_t from, size_t n, const float *part, float *x);

/* A pointer to the same elements in x if they are contiguous, else to a copy in part (QG_CHUNK); and the largest n
 * that one call may ask for. */
const float *qg__part(qg_split c, size_t channel, size_t from, size_t n, const float *x,
                      float *part);
size_t       qg__part_size(qg_split c);

/* The same for writing; the part must then be closed. */
float *qg__open_part(qg_split c, size_t channel, size_t from, size_t n, float *x, float *part);
void   qg__close_part(qg_split c, size_t channel, size_t from, size_t n, const float *part, float *x);

/* --- the range of a batch (quant/observe.c) --------------------------------------------------- */

/* For n channels of a split ({ 1, 1, size } is one channel of everything) from `first`
 * on, into lo and hi, [n] each.  NaN is left out; a channel without any number gives lo = inf,
 * hi = -inf.  The results do not depend on the order of the elements, so not on threads either. */
void qg__min_max(qg_split c, size_t first, size_t n, const float *x, float *lo, float *hi);

/* The nearest rank, exactly, found by its bits rather than by sorting: with m numbers in increasing
 * order x[0] .. x[m - 1] and k = ceil(percentile / 100 * m) - 1,
 *     hi = x[k],  lo = x[m - 1 - k]
 * percentile 50 .. 100; 100 gives the minimum and the maximum. */
void qg__percentiles(qg_split c, size_t first, size_t n, const float *x, double percentile, float *lo,
                     float *hi);

float qg__percentile_abs(size_t n, const float *x, double percentile);         /* hi of |x| */

#endif
