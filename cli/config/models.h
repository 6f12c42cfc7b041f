/* cli/config/models.h — models by name: the values of --model. */
#ifndef CLI_MODELS_H
#define CLI_MODELS_H

#include <stddef.h>
#include <stdio.h>

#include "layers/models/models.h"

const qg_model *model_of(const char *spelling);         /* of "vgg7:width=0.25" */

/* The canonical text as part of a file name: "vgg7-width-0.25"; "net-" and a digest of a net as text. */
void      model_file_name(const char *spelling, char *name, size_t bytes);

/* Appends the names of the models: "lenet5, mlp, .." (qg__list_append). */
void      model_names(char *text, size_t bytes);
void      models_help(FILE *out);

#endif
