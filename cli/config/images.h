/* cli/config/images.h — what --normalise and --augment say. */
#ifndef CLI_IMAGES_H
#define CLI_IMAGES_H

#include <stddef.h>
#include <stdio.h>

#include "datasets/loader.h"

/* "channel", "range:low=-1,high=1"; "none", "pad=4,flip".  canonical is the one spelling of what was
 * read.  Fails with QG_EARG; the message says what is legal. */
QG_MUST_CHECK
qg_status normalise_parse(const char *text, qg_normalise *n, char *canonical, size_t bytes);
QG_MUST_CHECK
qg_status augment_parse(const char *text, qg_augment *a, char *canonical, size_t bytes);

void      images_help(FILE *out);

/* These statistics come from the training images. */
bool      normalise_fits(qg_normalise n);

#endif
