/* cli/config/models.h — models by name: what --model may say. */
#ifndef CLI_MODELS_H
#define CLI_MODELS_H

#include <stdio.h>

#include "layers/models/models.h"

/* "vgg7" or "vgg7:width=0.25": the model, its options (0 where the model's fallback holds), and the one
 * spelling.  Fails with QG_EARG; the message lists what is legal. */
QG_MUST_CHECK
qg_status model_parse(const char *text, const qg_model **model, double chosen[QG_MODEL_KEYS], char *canonical,
                      size_t bytes);

/* The spelling as part of a file's name: "vgg7-width-0.25". */
void      model_file_name(const char *spelling, char *name, size_t bytes);

/* "lenet5, vgg7, .." */
void      model_names(char *text, size_t bytes);
void      models_help(FILE *out);

#endif
