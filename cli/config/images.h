/* cli/config/images.h — the values of --normalise and --augment. */
#ifndef CLI_IMAGES_H
#define CLI_IMAGES_H

#include <stddef.h>
#include <stdio.h>

#include "datasets/loader.h"

/* Parse "channel", "range:low=-1,high=1"; "none", "pad=4,flip".  canonical receives the canonical text.  Fail with
 * QG_EARG; the message lists the legal values. */
QG_MUST_CHECK
qg_status normalise_parse(const char *text, qg_normalise *n, char *canonical, size_t bytes);
QG_MUST_CHECK
qg_status augment_parse(const char *text, qg_augment *a, char *canonical, size_t bytes);

void      images_help(FILE *out);

/* These statistics come from the training images. */
bool      normalise_fits(qg_normalise n);

#endif
