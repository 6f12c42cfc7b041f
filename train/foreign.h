/* train/foreign.h — the weights of a net from a safetensors file of another program.  Internal. */
#ifndef QG_FOREIGN_H
#define QG_FOREIGN_H

#include "train/runs.h"

/* Fills a built net without quantizers; qg_run_import states the rules.  *pairs receives a line
 * "LAYER MODULE" for each layer with parameters, as in a map; the caller's to free().
 *
 * Fails as qg_run_import; values of the net are then undefined, and *pairs is NULL. */
QG_MUST_CHECK
qg_status qg__foreign_load(qg_net *net, const qg_run_import_spec *spec, char **pairs);

#endif
