/* cli/config/images.h — the values of --augment, and the help of --normalise. */
#ifndef CLI_IMAGES_H
#define CLI_IMAGES_H

#include <stddef.h>
#include <stdio.h>

#include "datasets/normalise.h"

/* Parses "none" or "pad=4,flip".  canonical receives the canonical text.  Fails with QG_EARG; the message lists the legal
 * values. */
QG_MUST_CHECK
qg_status augment_parse(const char *text, qg_augment *a, char *canonical, size_t bytes);

void      images_help(FILE *out);

#endif
