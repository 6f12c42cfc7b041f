/* cli/config/recipe.h — a configuration as the library's types, and what is built from it. */
#ifndef CLI_RECIPE_H
#define CLI_RECIPE_H

#include "cli/config/config.h"
#include "cli/config/data.h"
#include "cli/config/images.h"
#include "cli/config/schemes.h"
#include "core/tape.h"
#include "optim/optim.h"
#include "optim/schedule.h"

enum { CHOICES = 64 };

/* Points into itself and into its configuration: passed by address. */
typedef struct recipe {
    const qg_model *model;
    const char     *model_text;             /* with its options: "vgg7:width=0.25" */
    double          model_option[QG_MODEL_KEYS];
    const data_set *data;
    data_set        data_row;               /* what data points to */
    const char     *data_dir;               /* NULL: the data set's own */
    qg_normalise    normalise;
    qg_augment      augment;                /* of the training images */
    qg_quant        weight, input, gradient;
    bool            first_last_float;
    qg_choice       choice[CHOICES];
    char            choice_name[CHOICES][LAYER_NAME_BYTES];
    int             choices;
    int             epochs, batch, threads;
    uint64_t        seed;
    double          lr;
    qg_schedule     schedule;
    uint64_t        quantize_after, freeze_batchnorm_after;
    bool            fold_batchnorm, nesterov, squared_hinge;
    const char     *optimizer;              /* "sgd", "adam", "bop" */
    float           momentum, weight_decay, beta1, beta2, gamma, threshold;
    qg_group_spec   norms, quantizers;
} recipe;

/* What asked, its --config file and the model's recipe add up to: fallbacks < model < file < asked.
 * With a stored configuration (of a run that goes on) it is that one instead, and asked may not
 * contradict what decides the run's bytes.  Only keys of a configuration end up in *out.
 * Fails with QG_EARG; *usage tells whether the command line is to blame or a file. */
QG_MUST_CHECK
qg_status  recipe_resolve(const config *asked, const config *stored, config *out, bool *usage);

/* c must be resolved.  Fails with QG_EARG: options that contradict each other. */
QG_MUST_CHECK
qg_status  recipe_read(const config *c, recipe *r);

/* config.toml of the run in dir.  Fails with QG_EFORMAT: it names no model; QG_EIO, QG_EARG. */
QG_MUST_CHECK
qg_status  recipe_stored(const char *dir, config *c);

/* The whole of it.  Fails as recipe_stored. */
QG_MUST_CHECK
qg_status  recipe_of_run(const char *dir, config *c, recipe *r);

/* The optimizer is one for the weights there are.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status  recipe_trains(const recipe *r);

/* --image HxWxC, if it is asked for. */
bool       recipe_image(const config *asked, qg_shape *image);

/* NULL: failed.  as: the training images, by whose statistics the test images are normalised; NULL will
 * do where normalise_fits says that there are none. */
qg_loader *recipe_data(const recipe *r, bool test, const qg_loader *as);
qg_loader_spec recipe_loading(const recipe *r, bool test);      /* what its loaders are made with */

/* Built; NULL: failed.  images.n is how many are trained on in an epoch, which sets the pace of
 * surrogates that are annealed over the run; elsewhere it has no effect. */
qg_net    *recipe_net(const recipe *r, qg_shape images, int classes);
qg_optim  *recipe_optim(const recipe *r, qg_params *p);
qg_var    *recipe_loss(const recipe *r, qg_tape *t, qg_var *scores, const uint8_t *labels);

#endif
