/* quant/schemes/fake_quant_range.h — where the range of fake quantization comes from (internal).
 *
 * Of a range:
 *
 *     legal      min <= 0 <= max, since 0 has to be a code anyway
 *     learned    projected into that after every step; if max - min falls below 2^-30, max = min + 2^-30,
 *                from where its gradient can open it again (an empty range would have none).  The span,
 *                (largest - smallest value of the tensor) / (max - min), is measured where the range starts
 *                and every QG_SPAN_STEPS steps of training; it changes nothing
 *     given      as it is
 *     others     if max - min is below 2^-30, the range is empty: y = 0, dx = g
 */
#ifndef QG_FAKE_QUANT_RANGE_H
#define QG_FAKE_QUANT_RANGE_H

#include "core/io/array.h"
#include "quant/schemes/fake_quant.h"
#include "quant/scheme.h"

/* Of qg_quant.arg, and of what is learned or tracked. */
enum { QG_ARG_KIND, QG_ARG_NARROW, QG_ARG_MIN, QG_ARG_MAX, QG_ARG_DECAY, QG_ARG_PERCENTILE };
enum { QG_AT_MIN, QG_AT_MAX, QG_AT_SEEN, QG_AT_SPAN };

enum { QG_SPAN_STEPS = 1024 };

qg_range_kind qg__range_kind(qg_quant q);

/* Of min and max as they stand, made legal first. */
qg_status qg__range_nudge(qg_quant q, float min, float max, qg_fake_quant_range *r);

/* Of channel i; what the optimizer left outside is moved (qg_confine). */
qg_status qg__range_nudge_learned(qg_quant q, qg_var *const *learned, size_t i, qg_fake_quant_range *r);

/* What the gradients of a learned min and max are multiplied by, 1 / sqrt(numbers that share the range);
 * of an input, the numbers of one image. */
float     qg__range_grad_scale(qg_quant q, size_t channels);

/* A learned range: starts where the attributes say, else with what x spans; later, its span. */
void qg__range_learned_observe(qg_quant q, qg_tensor x, float *const *learned);

/* The first batch is taken as it is, later ones are averaged in.  A channel with an infinity, or
 * with nothing but NaN, teaches nothing, and a batch with one does not count as the first. */
void qg__range_observe(qg_quant q, qg_tensor x, float *const *learned);
void qg__range_start(qg_quant q, qg_tensor x, float *const *learned);       /* as if it were the first */

#endif
