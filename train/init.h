/* train/init.h — starting a net from the weights of another.  Internal. */
#ifndef QG_INIT_H
#define QG_INIT_H

#include "core/params.h"
#include "layers/net.h"

enum { QG__INIT_DIGEST = 17, QG__INIT_NOTE = 1024, QG__INIT_MISFIT = 96, QG__INIT_LAYER = 128 };

/* What came of it. */
typedef struct qg__init_report {
    char digest[QG__INIT_DIGEST];   /* of all weights of the run that wrote it; else of what was taken */
    int  taken;
    char kept[QG__INIT_NOTE];       /* "conv2.weight.wp, ..": learned by quantizers, and not taken */
    char unused[QG__INIT_NOTE];     /* of quantizers that the file's net had, and this one has not */
    char misfit[QG__INIT_MISFIT];   /* "conv1,fc2": the layers that do not fit, after QG_ESHAPE; empty: too many */
    bool foreign;                   /* another program wrote the file */
} qg__init_report;

/* Fills a built net from a run (its last.safetensors) or from a safetensors file, by name: weights, biases, batch
 * norms with their running statistics, and the learned values of quantizers that both nets have.  Learned values
 * that the file lacks start as in any net, but from the loaded weights.  Weights keep their bits, except where the
 * net projects them (qg_param.project) and trained did not.
 * trained: the net that wrote the file, if known; learned values then go only to the same quantizers.  NULL: they
 * go to every quantizer that learns a value of this name and shape.
 * except: layers of either net, "conv1,fc2", whose arrays stay as they are here and are ignored there; NULL: none.
 *
 * Fails    QG_ESHAPE: the message lists the arrays that are missing, have another shape or type, or are not in the
 *          net, as far as it has room; the net is unchanged.  QG_ENAN: a value is not finite.  QG_EARG: a weight
 *          without latent values (bop) is not +-1 in the file, or neither net has a layer of except.  Also fails as
 *          qg_archive_open. */
QG_MUST_CHECK
qg_status qg__init_weights(qg_net *net, const char *source, qg_net *trained, const char *except, qg__init_report *report);

/* Scales and ranges that start from a weight start from what it is now, as its quantizer sees it: of all weights, or, if
 * after is not 0, of those that learn values and whose quantizers wait for so many steps.  *any: there are such weights.
 * Fails with QG_EMEM. */
QG_MUST_CHECK
qg_status qg__start_quantizers(qg_net *net, uint64_t after, bool *any);

#endif
