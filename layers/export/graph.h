/* layers/export/graph.h — a net as a list of plain records (internal).
 *
 * The records compute what the net computes in QG_EVAL, bit for bit, and nothing else: layers that
 * the result does not depend on are left out.  Writers of files turn the list into their format and
 * know no layer.  What becomes one record:
 *
 *     product       the batch norm that evaluation includes in its factors, a relu, and the
 *                   quantizer of the layer that reads it, if nothing else does; max pooling and
 *                   dropout may stand in between, because the maximum of codes is the code of the
 *                   maximum
 *     K             XNOR-Net's scale map has its own records: mean |x|, product of signs, their
 *                   product, bias
 *
 * Every other layer becomes what its qg_layer_type.pack says.
 *
 * Between two records are codes where the reader multiplies codes, else floats.
 */
#ifndef QG_EXPORT_GRAPH_H
#define QG_EXPORT_GRAPH_H

#include "core/arena.h"
#include "infer/format.h"
#include "layers/export/export.h"
#include "layers/layer.h"

typedef struct qg__record {
    qg__packed_step r;
    const char     *name;   /* of the last layer that it computes; "conv2.input", "conv2.mean",
                               "conv2.product" and "conv2.scaled" are parts of conv2 */
    const float    *floats; /* as format.h lists them; NULL: only sizes are known */
    const float    *w;      /* of products: rows as in qg__evaluation; NULL as floats */
} qg__record;

typedef struct qg__records {
    qg__record *record;
    int         count, capacity;
    qg_arena    arena;              /* of all that the records point to, but for names of layers */
} qg__records;                      /* {0} is empty */

/* The records of a built net at this step of training, before which some quantizers may wait.
 * sizes_only: no values are computed, and ranges that have not been observed yet do not matter; all
 * quantizers have started.
 *
 * Memory   The caller's; qg__records_free, also after a failure.
 * Fails    QG_EARG: a layer or a quantizer has no packed form; QG_ESTATE: a quantizer has seen
 *          nothing yet; QG_ENAN; QG_ESHAPE: a product is too large; QG_EMEM.  The message names the
 *          layer. */
QG_MUST_CHECK
qg_status qg__records_of(const qg_net *net, uint64_t step, bool sizes_only, qg__records *records);
void      qg__records_free(qg__records *records);

#endif
