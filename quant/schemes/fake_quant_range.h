/* quant/schemes/fake_quant_range.h — the kinds of range that fake quantization has (internal).
 *
 * Of a range:
 *
 *     legal      min <= 0 <= max, because 0 must be a code
 *     learned    made legal after each step.  If max - min falls below 2^-30, max becomes min + 2^-30, and its
 *                gradient can open the range again; an empty range has no gradient.  The span, (largest -
 *                smallest value of the tensor) / (max - min), is measured at the start and every
 *                QG_SPAN_STEPS steps of training, for information only
 *     fixed      used as given
 *     others     empty if max - min is below 2^-30: y = 0, dx = g
 */
#ifndef QG_FAKE_QUANT_RANGE_H
#define QG_FAKE_QUANT_RANGE_H

#include "core/io/array.h"
#include "quant/reference/fake_quant.h"
#include "quant/scheme.h"

/* Of qg_quant.arg, and of what is learned or tracked. */
enum { QG_ARG_KIND, QG_ARG_MIN, QG_ARG_MAX, QG_ARG_NARROW, QG_ARG_DECAY, QG_ARG_PERCENTILE, QG_ARG_FREEZE,
       QG_ARG_SUM };
enum { QG_AT_MIN, QG_AT_MAX, QG_AT_SEEN, QG_AT_SPAN };

enum { QG_SPAN_STEPS = 1024 };

/* Values of min and max that were not given. */
#define QG_NO_MIN (-1e9)
#define QG_NO_MAX 1e9

qg_range_kind qg__range_kind(qg_quant q);
bool          qg__range_given(qg_quant q, float *min, float *max);  /* -6 and 6 for an end that was not; false: neither was */

/* The nudged range of min and max, which are made legal first. */
qg_status qg__range_nudge(qg_quant q, float min, float max, qg_fake_quant_range *r);

/* Of a current range: symmetric about 0, around values lo .. hi. */
qg_status qg__range_of_values(qg_quant q, float lo, float hi, qg_fake_quant_range *r);

/* The nudged range of channel i by its kind: as given, from the values x, or from what is learned. */
qg_status qg__range_of(qg_quant q, qg_split c, size_t i, const float *x, const float *const *learned,
                       qg_fake_quant_range *r);

/* The same of channel i on a tape; values that the optimizer made illegal are set (qg_confine). */
qg_status qg__range_nudge_learned(qg_quant q, qg_var *const *learned, size_t i, qg_fake_quant_range *r);

/* The factor of the gradients of a learned min and max, 1 / sqrt(n), where n numbers share the range (of an input,
 * the numbers of one image count); 1 with gradient=sum. */
float     qg__range_grad_scale(qg_quant q, size_t channels);

/* A learned range: its start, as given or from x; later, its span. */
void qg__range_learned_observe(qg_quant q, qg_tensor x, float *const *learned);

/* The first batch sets the range, later batches enter a moving average.  A channel that contains an infinity, or
 * nothing but NaN, is skipped, and a batch with such a channel does not count as the first. */
void qg__range_observe(qg_quant q, qg_tensor x, float *const *learned);
void qg__range_start(qg_quant q, qg_tensor x, float *const *learned);       /* as if it were the first */

#endif
