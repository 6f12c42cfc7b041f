/* train/recipe.h — a training as text: net, quantizers, data, optimizer, length.
 *
 *     qg_recipe    *r = qg_recipe_new();
 *     qg_fit_result result;
 *     qg_recipe_set(r, "model", "lenet5");
 *     qg_recipe_set(r, "weight", "twn:threshold=0.5");
 *     qg_recipe_set(r, "data", "mnist");
 *     if (qg_recipe_fit(r, (qg_fit_spec){ .dir = "runs/twn" }, &result)) ..
 *     qg_recipe_free(r);
 *
 * The keys are the options of `qgrad train` and the lines of its configuration files: model, data, weight, input, layer, epochs,
 * batch, lr, optimizer, schedule, .. (`qgrad train --help`).  What is not set has the value of the model's own recipe, or else a
 * default, which may depend on the other keys.  The run is the one that `qgrad train` makes with these options: either continues
 * what the other began, and ends with the same bytes.
 *
 * Memory   The caller's; qg_recipe_free.
 * Fails    Sticky: the first failure is kept, later calls do nothing, and qg_recipe_fit, qg_recipe_check and whatever is built
 *          from the recipe report it.  So qg_recipe_set needs no check.  With a NULL recipe every call fails with QG_EMEM.
 */
#ifndef QG_RECIPE_H
#define QG_RECIPE_H

#include "train/fit.h"

typedef struct qg_recipe qg_recipe;

qg_recipe  *qg_recipe_new(void);                            /* NULL: QG_EMEM */
void        qg_recipe_free(qg_recipe *r);                   /* NULL is ignored */

/* Sets a key to the value in text; NULL removes it.  Of the keys that may be repeated, layer, an item is added, and replaces the
 * one for the same operand of the same layer.  Fails with QG_EARG: the message names the key, the value and the legal values. */
qg_status   qg_recipe_set(qg_recipe *r, const char *key, const char *text);

/* Sets the keys in a file: lines `key = value`, a subset of TOML, as config.toml of a run, or one of examples/recipes.  A key that
 * has been set already keeps its value.  Fails as qg_recipe_set, the message beginning with FILE:LINE, and as qg_archive_open. */
qg_status   qg_recipe_read(qg_recipe *r, const char *path);

/* The one spelling of the value of a key, items of layer one per line: what was set, or what it is because nothing was.  NULL:
 * it has none, or the recipe has failed, or names no model.  It belongs to r, until a key is set. */
const char *qg_recipe_get(qg_recipe *r, const char *key);

/* Whether all values are compatible: the layers that layer and freeze name exist, each quantizer is legal where the model uses it,
 * the optimizer can train these weights.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status   qg_recipe_check(qg_recipe *r);

/* What the recipe describes.  train and test are the loaders of its data: the test images are preprocessed as the training images
 * are, which must be given.  net is built for such images; image.n, the number of training images, sets how long an epoch is.
 *
 * Memory   The caller's.  Fails with NULL, as qg_data_train, qg_model_declare, qg_net_build and the optimizers. */
qg_loader  *qg_recipe_train(qg_recipe *r);
qg_loader  *qg_recipe_test(qg_recipe *r, const qg_loader *train);
qg_net     *qg_recipe_net(qg_recipe *r, qg_shape image, int classes);
qg_optim   *qg_recipe_optim(qg_recipe *r, qg_params *p);

/* Trains in spec.dir with qg_fit, or goes on with the run there.  Of spec it takes dir, mode, init, budget, stop and events; the
 * recipe decides all else.  To a run that goes on the recipe may give more epochs (see qg_fit); other keys must be those of the
 * run, or unset.
 *
 * Fails    As qg_recipe_check, qg_recipe_train and qg_fit.  QG_EARG: the run in dir has another value of a key; its images or its
 *          initial weights are others. */
QG_MUST_CHECK
qg_status   qg_recipe_fit(qg_recipe *r, qg_fit_spec spec, qg_fit_result *result);

#endif
