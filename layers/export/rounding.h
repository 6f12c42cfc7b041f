/* layers/export/rounding.h — how a writer finds the code of a number without a loop over thresholds (internal).
 *
 * Records have thresholds, which alone define codes (infer/format.h).  For most quantizers a formula in float
 * gives the same codes:
 *
 *     n = clip(round((x - first) / by), lowest, highest)         code u = n - lowest
 *
 * where `* by` may take the place of `/ by`, and floor(.. + 1/2) that of round, which rounds ties to even.
 */
#ifndef QG_EXPORT_ROUNDING_H
#define QG_EXPORT_ROUNDING_H

#include "infer/format.h"

typedef struct qg__rounding {
    enum {
        QG__ROUNDS,         /* n is exact */
        QG__GUESSES,        /* u is n or n + 1: n + 1 if x reaches threshold[n]; n = 0 .. q_count - 2 */
        QG__COMPARES        /* no formula: u is how many thresholds x reaches */
    }     how;
    bool  multiplies, half_up;
    float first, by, lowest, highest;
} qg__rounding;

/* For all x but NaN.  threshold has r->q_count - 1 numbers.  A formula has been compared with the thresholds
 * at every place where either changes, so it holds for all x. */
qg__rounding qg__rounding_of(const qg__packed_step *r, const float *threshold);

#endif
