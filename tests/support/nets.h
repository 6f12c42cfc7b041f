/* tests/support/nets.h — shared by the tests of products and nets. */
#ifndef NETS_H
#define NETS_H

#include "core/tape.h"
#include "layers/net.h"
#include "optim/optim.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

/* An op: sum of r[i] y[i], a loss under which dL/dy = r.  r [shape of y] is borrowed. */
qg_var *weighed(qg_tape *t, qg_var *y, const float *r);

/* A keyed problem that any net learns: n images with label i % classes, noise in 0..1 with a bright
 * band of rows whose position is the label. */
void fill_bands(qg_shape x, int classes, uint64_t key, float *image, uint16_t *label);

/* qg_net_packed_bytes, which may not fail. */
size_t packed_size(const qg_net *net);

/* Forward, cross entropy, backward, update; returns the loss. */
float train_step(qg_net *net, qg_tape *t, qg_optim *o, qg_tensor x, const uint16_t *label, uint64_t step);

#endif
