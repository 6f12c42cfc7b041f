/* cli/config/images.h — the values of --augment and --validation, and the help of --normalise. */
#ifndef CLI_IMAGES_H
#define CLI_IMAGES_H

#include <stddef.h>
#include <stdio.h>

#include "datasets/normalise.h"

/* Parses "none" or "pad=4,flip".  canonical receives the canonical text.  Fails with QG_EARG; the message lists the legal
 * values. */
QG_MUST_CHECK
qg_status augment_parse(const char *text, qg_augment *a, char *canonical, size_t bytes);

/* Parses "5000" or "10%", images that are held out for validation; "0": none.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status holdout_parse(const char *text, qg_holdout *h, char *canonical, size_t bytes);

void      images_help(FILE *out);

#endif
