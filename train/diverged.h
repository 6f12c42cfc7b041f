/* train/diverged.h — where a net that has diverged first was not finite.  Internal. */
#ifndef QG_DIVERGED_H
#define QG_DIVERGED_H

#include "layers/net.h"

enum { QG__DIVERGED_BYTES = 256 };

/* The newest pass of net on t gave a loss that is not finite.  Says in which layer this began, in the order in which the
 * layers ran: "conv2 is the first layer whose result is not finite", and which of its parameters is not, if one is.  To be
 * called before the next qg_tape_begin and instead of qg_backward, and by all ranks. */
void qg__diverged_forward(const qg_net *net, qg_tape *t, char text[QG__DIVERGED_BYTES]);

/* The same of gradients, after qg_backward: "going backward, that of fc1.weight is the first".  Empty: all are finite. */
void qg__diverged_backward(const qg_net *net, char text[QG__DIVERGED_BYTES]);

#endif
