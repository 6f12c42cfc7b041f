/* cli/config/models.h — models by name: the values of --model. */
#ifndef CLI_MODELS_H
#define CLI_MODELS_H

#include <stdio.h>

#include "layers/models/models.h"

/* Parses "vgg7" or "vgg7:width=0.25": the model, its options (0 selects the model's default), and the canonical text.
 * Fails with QG_EARG; the message lists the legal values. */
QG_MUST_CHECK
qg_status model_parse(const char *text, const qg_model **model, double chosen[QG_MODEL_KEYS], char *canonical,
                      size_t bytes);

/* The canonical text as part of a file name: "vgg7-width-0.25". */
void      model_file_name(const char *spelling, char *name, size_t bytes);

/* "lenet5, vgg7, .." */
void      model_names(char *text, size_t bytes);
void      models_help(FILE *out);

#endif
