/* cli/run/init.h — a net begins with the weights of another: --init. */
#ifndef CLI_INIT_H
#define CLI_INIT_H

#include "core/params.h"
#include "layers/net.h"

enum { INIT_DIGEST = 17, INIT_NOTE = 1024 };

/* What came of it. */
typedef struct init_report {
    char digest[INIT_DIGEST];   /* of the arrays that were taken: that of the other net, if it was all */
    int  taken;
    char kept[INIT_NOTE];       /* "conv2.weight.wp, ..": learned by quantizers, and not taken */
    char unused[INIT_NOTE];     /* of quantizers that the file's net had, and this one has not */
} init_report;

/* Fill a built net from a run, its last.safetensors, or from a safetensors file, by name: weights,
 * biases, batch norms with what they track, and what quantizers learned where both nets have it.
 * What a quantizer learns and the file has not starts as it does in any net, but from these weights.
 * trained: the net that the file is of, where it is known; what its quantizers have learned is then taken
 * only by the same quantizers.  NULL: by every one that learns something of this name and shape.
 *
 * Fails    QG_ESHAPE: the message lists every array that is missing, of another shape or type, or of
 *          no use here, as far as it has room; the net is as it was.  QG_ENAN: a value is not finite.
 *          QG_EARG: a weight without a latent one (bop) is not +-1 in the file.  As qg_archive_open. */
QG_MUST_CHECK
qg_status init_weights(qg_net *net, const char *source, qg_net *trained, init_report *report);

#endif
