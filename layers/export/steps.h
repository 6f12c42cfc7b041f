/* layers/export/steps.h — a net as the steps of infer/format.h (internal).
 *
 * The steps compute what the net computes in QG_EVAL, bit for bit, and nothing else: layers that the result does not
 * depend on are left out.  What becomes one step:
 *
 *     product       the batch norm that evaluation includes in its factors, a relu, and the quantizer of the layer that reads
 *                   it, if nothing else does; max pooling and dropout may stand in between, because the maximum of codes is
 *                   the code of the maximum
 *     K             XNOR-Net's scale map is steps of its own: mean |x|, product of signs, their product, bias
 *     every other layer
 *
 * Between two steps are codes where the reader multiplies codes, else floats.
 */
#ifndef QG_EXPORT_STEPS_H
#define QG_EXPORT_STEPS_H

#include "core/arena.h"
#include "infer/format.h"
#include "layers/layer.h"

typedef struct qg__export_step {
    qg__packed_step r;
    const qg_layer *layer;          /* the last that it computes */
    const char     *name;           /* of the layer; "conv2.input", "conv2.mean", "conv2.product" and "conv2.scaled" are parts of conv2 */
    const float    *floats;         /* as format.h lists them; NULL: only sizes are known */
    const float    *w;              /* of products: rows as in qg__evaluation; NULL as floats */
} qg__export_step;

typedef struct qg__export_steps {
    qg__export_step *step;
    int              count, capacity;
    qg_arena         arena;         /* of all that the steps point to */
} qg__export_steps;                 /* {0} is empty */

/* The steps of a built net at this step of training, before which some quantizers may wait.  sizes_only: no values are
 * computed, and ranges that have not been observed yet do not matter; all quantizers have started.
 *
 * Memory   The caller's; qg__export_steps_free, also after a failure.  Fails    QG_EARG: a layer or a quantizer has
 * no packed form; QG_ESTATE: a quantizer has seen nothing yet; QG_ENAN; QG_ESHAPE:
 *          a product is too large; QG_EMEM.  The message names the layer. */
QG_MUST_CHECK
qg_status qg__export_steps_of(const qg_net *net, uint64_t step, bool sizes_only, qg__export_steps *steps);
void      qg__export_steps_free(qg__export_steps *steps);

/* Of the weight of a product, with its factors and offsets. */
size_t    qg__export_product_bytes(const qg_product *p);

#endif
