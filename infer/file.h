/* infer/file.h — a packed file (infer/format.h) as its reader sees it (internal).
 *
 * The file is hostile until qg__file_open has accepted it.  Then everything holds that infer/format.h says,
 * every product fits (qg__product_fits), and no sum of sizes overflows: whoever comes after checks nothing.
 */
#ifndef QG_INFER_FILE_H
#define QG_INFER_FILE_H

#include "infer/format.h"
#include "infer/infer.h"

typedef struct qg__file {
    const uint8_t *bytes;
    size_t         n;
    uint32_t       version;
    int            steps, h, w, c;
    size_t         normal, notes;           /* numbers of normalisation; notes */
    size_t         floats, rows, text;      /* where these sections begin */
} qg__file;

/* Reads the whole file.  Takes time in proportion to it, and no memory. */
qg_infer_status qg__file_open(const void *bytes, size_t n, qg__file *f);

qg__packed_step qg__file_step(const qg__file *f, int step);
void            qg__file_floats(const qg__file *f, size_t at, size_t n, float *to);    /* at: in bytes */
uint32_t        qg__file_bits(const uint8_t *row, size_t at, int bits);     /* bits <= 16, from bit `at` on */

#endif
