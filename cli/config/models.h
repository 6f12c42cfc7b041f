/* cli/config/models.h — models by name: the values of --model. */
#ifndef CLI_MODELS_H
#define CLI_MODELS_H

#include <stdio.h>

#include "cli/config/recipe.h"

/* Parses "vgg7", "vgg7:width=0.25" or a net as text: the model, its options (0 selects the model's default), and the
 * canonical text.  Fails with QG_EARG; the message lists the legal values. */
QG_MUST_CHECK
qg_status model_parse(const char *text, chosen_model *model, char *canonical, size_t bytes);

/* The canonical text as part of a file name: "vgg7-width-0.25"; "net-" and a digest of a net as text. */
void      model_file_name(const char *spelling, char *name, size_t bytes);

/* "lenet5, vgg7, .." */
void      model_names(char *text, size_t bytes);
void      models_help(FILE *out);

#endif
