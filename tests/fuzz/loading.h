/* tests/fuzz/loading.h — loaders, for the targets that read data sets. */
#ifndef LOADING_H
#define LOADING_H

#include "datasets/loader.h"

/* A way to load, chosen by a byte; not always a legal one. */
qg_loader_spec fuzz_loading(uint8_t choice);

/* Reads two epochs of at most some batches.  NULL: a failed call. */
void           fuzz_load(qg_loader *l);

#endif
