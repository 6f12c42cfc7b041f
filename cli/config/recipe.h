/* cli/config/recipe.h — the options that decide a run, as the library's types, and the objects built from them. */
#ifndef CLI_RECIPE_H
#define CLI_RECIPE_H

#include <stdint.h>

#include "cli/config/data.h"
#include "cli/config/images.h"
#include "cli/config/schemes.h"
#include "core/tape.h"
#include "optim/optim.h"
#include "optim/schedule.h"
#include "train/fit.h"

/* In the order of the option's words. */
typedef enum norm_sync { NORM_SYNC_ON, NORM_SYNC_OFF } norm_sync;
typedef enum reestimation { REESTIMATE_OFF, REESTIMATE_ON } reestimation;
typedef enum first_last { FIRST_LAST_FLOAT, FIRST_LAST_QUANTIZED } first_last;
typedef enum loss_function { CROSS_ENTROPY, SQUARED_HINGE } loss_function;
typedef enum optimizer { SGD, ADAM, BOP, OPTIMIZERS } optimizer;

enum { MODEL_TEXT_BYTES = 512 };

typedef struct chosen_model {
    const qg_model *type;
    double          option[QG_MODEL_KEYS];
    char            text[MODEL_TEXT_BYTES]; /* of qg_model_text; else empty */
} chosen_model;

enum { MAX_EXCEPTIONS = 64 };

/* Another quantizer for one operand of one layer. */
typedef struct layer_exception {
    char      layer[LAYER_NAME_BYTES];
    qg_choice choice;                       /* its .layer is set when a net is declared */
} layer_exception;

typedef struct layer_exceptions {
    layer_exception item[MAX_EXCEPTIONS];
    int             count;
} layer_exceptions;

/* How long something waits. */
typedef struct delay {
    uint64_t count;                         /* of steps, or of epochs */
    bool     epochs;
} delay;

/* A value; data_dir and freeze are borrowed. */
typedef struct recipe {
    chosen_model     model;
    data_set         data;
    const char      *data_dir;              /* NULL: the data set's own */
    size_t           cache;                 /* qg_loader_spec.cache_bytes */
    qg_normalise     normalise;
    qg_augment       augment;               /* of the training images */
    qg_holdout       validation;            /* held out of them */
    qg_quant         weight, input, gradient;
    first_last       first_last;
    layer_exceptions exceptions;
    int              epochs, batch, threads;
    uint64_t         seed;
    double           lr;
    qg_schedule      schedule;
    delay            quantize_after, quantize_weights_after, freeze_batchnorm_after;
    uint64_t         epoch_steps;           /* of the run, if one of these counts epochs; 0: not known yet */
    bool             fold_batchnorm, nesterov;
    norm_sync        norm_sync;
    reestimation     reestimate;
    loss_function    loss;
    optimizer        optimizer;
    int              patience;
    float            label_smoothing, clip_norm, ema;
    float            momentum, weight_decay, beta1, beta2, gamma, threshold;
    qg_group_spec    norms, quantizers;
    const char      *freeze;                /* "conv1,conv2" or NULL */
    qg_fit_teacher   teacher;               /* its temperature and weight */
} recipe;

/* Checks that the model can be built with these quantizers.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status  recipe_check(const recipe *r);
QG_MUST_CHECK
qg_status  recipe_check_cache(const recipe *r);                 /* which is part of it */

/* Whether a delay counts epochs. */
bool      recipe_waits_epochs(const recipe *r);

/* Checks that the optimizer can train these weights.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status  recipe_trains(const recipe *r);

/* Whether a training that has finished so many epochs, the best of which counts from 1, is over. */
bool       recipe_is_over(const recipe *r, int epochs, int best_epoch);

/* NULL: failed.  as: the preprocessing of a checkpoint, or for test images that of the training images.  It may be NULL
 * for training images, which then decide it, and where qg_normalise_fits says that there are no statistics. */
qg_loader *recipe_data(const recipe *r, bool test, const qg_preprocess *as);

/* The test images for these training images, whose classes they must have.  NULL: failed, or train is NULL. */
qg_loader *recipe_test_of(const recipe *r, const qg_loader *train);
qg_loader_spec recipe_loading(const recipe *r, bool test);      /* what its loaders are made with */

/* Built; NULL: failed.  images.n is how many are trained on in an epoch, which sets the pace of
 * surrogates that are annealed over the run; elsewhere it has no effect. */
qg_net    *recipe_net(const recipe *r, qg_shape images, int classes);
qg_optim  *recipe_optim(const recipe *r, qg_params *p);
qg_fit_spec recipe_fit(const recipe *r);        /* what it decides of a training, without net, images and optimizer */

#endif
