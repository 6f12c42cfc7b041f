/* layers/net_private.h — the net itself; for the files of layers/ that walk it. */
#ifndef QG_NET_PRIVATE_H
#define QG_NET_PRIVATE_H

#include "core/arena.h"
#include "layers/layer.h"

struct qg_net {
    qg_net_spec spec;
    qg_arena    arena;          /* layers and their names */
    qg_params   params;
    qg_layer  **layer;          /* in order of declaration */
    int         layers, capacity;
    qg_status   status;         /* the first failure, and its message */
    char        why[512];
    bool        built;
};

/* Keeps the first failure of a declaration; the message is the one just set. */
void qg__net_fail(qg_net *net, qg_status s);

/* layers/fuse.c: decides who does whose work, before anything is built. */
void qg__net_fuse(qg_net *net);

#endif
