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
void   qg__pack_row(unsigned char *to, const qg__packed_step *r, size_t n, const float *w);

#endif
