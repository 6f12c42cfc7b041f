/* layers/export/writer.h — what turns the records of a net into a file, one per format (internal). */
#ifndef QG_EXPORT_WRITER_H
#define QG_EXPORT_WRITER_H

#include "layers/export/export.h"
#include "layers/export/graph.h"

/* Writes the records of net with a checked spec to memory from malloc.
 * Fails    QG_EARG: the format cannot express a record, which the message names; QG_ESHAPE: the file would be too large;
 *          QG_EMEM. */
typedef qg_status qg__writer(const qg_net *net, const qg__records *s, qg_export_spec spec, unsigned char **file, size_t *bytes);

qg__writer qg__write_packed, qg__write_onnx, qg__write_c;

/* n codes of a row of weights, of qg__row_bytes, as packed files have them. */
void qg__pack_row(unsigned char *to, const qg__packed_step *r, size_t n, const float *w);

/* How the code of a number is found without a loop over thresholds, which alone define codes (infer/format.h).
 * For most quantizers a formula in float gives the same codes:
 *
 *     n = clip(round((x - first) / by), lowest, highest)         code u = n - lowest
 *
 * where `* by` may take the place of `/ by`, and floor(.. + 1/2) that of round, which rounds ties to even. */
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
