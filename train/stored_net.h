/* train/stored_net.h — the weights of a net that only another program can declare.  Internal.
 *
 * Checkpoints of a program that calls qg_fit note the text of its net, unless a layer or a scheme is its own or an earlier version
 * wrote them.  Then there are the weights and what quantizers learned, by name, and notes of the quantizers
 * (qg__run_operands), which is all that pictures of weights and counts of codes need.
 */
#ifndef QG_STORED_NET_H
#define QG_STORED_NET_H

#include "layers/layer.h"

/* A built net with a layer for each layer with weights or a quantizer of inputs in the checkpoint at path, in their order.
 * Weights are those that tests use: their averages, if the run has some.  It computes nothing.
 *
 * Memory   The caller's; qg_net_free.
 * Fails    NULL.  As qg_archive_open; QG_EFORMAT: what it notes does not fit its arrays, or there are no weights; QG_EMEM. */
qg_net     *qg__stored_net(const char *path);

#endif
