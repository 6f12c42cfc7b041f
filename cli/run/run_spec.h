/* cli/run/run_spec.h — a run that an option names. */
#ifndef CLI_RUN_SPEC_H
#define CLI_RUN_SPEC_H

#include "cli/config/config.h"
#include "cli/run/files.h"
#include "train/reader.h"

/* The directory that an option names, without slashes at the end.  Fails with QG_EARG: too long. */
QG_MUST_CHECK
qg_status run_directory(const char *key, const char *text, char dir[QG__PATH_BYTES]);

const char *run_file_name(const qg_run *r);             /* "last.safetensors" or "best.safetensors" */
void        run_digest(qg_run *r, char text[17]);       /* of its net, which is loaded */

bool        run_data_names_files(const char *data);     /* whether this --data names files itself, as arrays do */

/* Opens the run that --run names, with the weights that --best chooses.  Fails with NULL, as qg_run_open, and with QG_EARG if only
 * the program that trained it can compute its net. */
qg_run   *run_open(const char *name, bool best);

#endif
