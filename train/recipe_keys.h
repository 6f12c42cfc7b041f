/* train/recipe_keys.h — the keys of a recipe, and what their texts mean.  Internal. */
#ifndef QG_RECIPE_KEYS_H
#define QG_RECIPE_KEYS_H

#include "datasets/normalise.h"
#include "datasets/sets.h"
#include "layers/models/models.h"
#include "train/init.h"
#include "train/recipe.h"

/* --- keys --------------------------------------------------------------------------------- */

enum { QG__RECIPE_KEYS = 60 };

/* NULL, QG_EARG: no such key; the message lists all. */
const qg_recipe_key *qg__recipe_key(const char *name);

/* Where the value of a key is in a qg_recipe. */
typedef struct qg__recipe_field {
    size_t      at, bytes;
    /* Reads the value, and writes its canonical text.  NULL: a scheme, or as the kind says. */
    qg_status (*parse)(const char *text, void *value, char *canonical, size_t bytes);
} qg__recipe_field;

/* Whether an integer may also be a text: "2epochs". */
bool        qg__recipe_key_counts(const qg_recipe_key *o);

/* Parses the value in text and writes its canonical text.  An item of a list is added.  The caller, who has the text,
 * sets the pointer of a QG_RECIPE_TEXT.  Fails with QG_EARG; the message names the key, the value and the legal values. */
QG_MUST_CHECK
qg_status   qg__recipe_key_parse(const qg_recipe_key *o, const char *text, qg_recipe *r, char canonical[QG_RECIPE_VALUE_BYTES]);

/* --- values ------------------------------------------------------------------------------- */

/* In the order of the key's words. */
typedef enum qg__norm_sync { QG__NORM_SYNC_ON, QG__NORM_SYNC_OFF } qg__norm_sync;
typedef enum qg__reestimation { QG__REESTIMATE_OFF, QG__REESTIMATE_ON } qg__reestimation;
typedef enum qg__first_last { QG__FIRST_LAST_FLOAT, QG__FIRST_LAST_QUANTIZED } qg__first_last;
typedef enum qg__loss_function { QG__CROSS_ENTROPY, QG__SQUARED_HINGE } qg__loss_function;
typedef enum qg__optimizer { QG__SGD, QG__ADAM, QG__BOP, QG__OPTIMIZERS } qg__optimizer;
typedef enum qg__provenance { QG__FROM_PAPER, QG__FROM_CODE, QG__FROM_REPLICATION, QG__FROM_MEMORY } qg__provenance;

typedef struct qg__chosen_model {
    const qg_model *type;
    double          option[QG_MODEL_KEYS];
    char            text[QG_RECIPE_VALUE_BYTES];  /* of qg_model_text; else empty */
} qg__chosen_model;

enum { QG__EXCEPTIONS = 64, QG__LAYER_NAME = 64 };

/* Another quantizer for one operand of one layer. */
typedef struct qg__exception {
    char      layer[QG__LAYER_NAME];
    qg_choice choice;                       /* its .layer is set when a net is declared */
} qg__exception;

typedef struct qg__exceptions {
    qg__exception item[QG__EXCEPTIONS];
    int           count;
} qg__exceptions;

/* How long something waits. */
typedef struct qg__delay {
    uint64_t count;                         /* of steps, or of epochs */
    bool     epochs;
} qg__delay;

struct qg_recipe {                          /* {0} is empty */
    char *text[QG__RECIPE_KEYS];            /* the canonical text; NULL: unset; a list has one item per line */
    char *said[QG__RECIPE_KEYS];            /* of a key that names schemes: the same as it was given, since what a canonical text
                                               omits depends on the version of the defaults */
    qg_recipe *base, *full;                 /* of an object: what qg_recipe_read read; with what follows from it, or NULL */
    bool       resolved;                    /* .. its texts are all that follows: it is its own full */
    bool       of_run;                      /* .. of a run */
    qg_status  failed;                      /* .. its first failure, and why */
    char       failure[512];
    char      *identity, *file;             /* of qg__recipe_spec: in checkpoints, and as config.toml */
    qg_note    about[5];

    /* The values of the texts; 0 or NULL if a key is unset. */
    qg__chosen_model model;
    qg__data         data;
    const char      *data_dir;              /* NULL: the data set's own */
    size_t           cache;                 /* qg_loader_spec.cache_bytes */
    qg_normalise     normalise;
    qg_augment       augment;               /* of the training images */
    qg_holdout       validation;            /* held out of them */
    qg_quant         weight, input, gradient;
    qg__first_last   first_last;
    qg__exceptions   exceptions;
    int              epochs, batch, threads;
    uint64_t         seed;
    qg_initial_weights initial_weights;
    double           lr;
    qg_schedule      schedule;
    qg__delay        quantize_after, quantize_weights_after, freeze_batchnorm_after;
    uint64_t         epoch_steps;           /* of the run, if one of these counts epochs; 0: not known yet */
    bool             fold_batchnorm, nesterov;
    qg__norm_sync    norm_sync;
    qg__reestimation reestimate;
    qg__loss_function loss;
    qg__optimizer    optimizer;
    int              patience;
    float            label_smoothing, clip_norm, ema;
    float            momentum, weight_decay, beta1, beta2, gamma, threshold;
    qg_group_spec    norms, quantizers;
    const char      *freeze;                /* "conv1,conv2" or NULL */
    const char      *whiten_patches;        /* "conv1" or NULL */
    qg_fit_teacher   teacher;               /* its temperature and weight */
    const char      *named, *init_except, *teacher_run;
    const char      *data_digest, *class_digest, *init_digest, *init_recipe, *teacher_digest;
    int              ranks;
    int              defaults;              /* version of the defaults (quant/scheme.h); 0: the current one */
    const char      *reproduces, *reported, *deviations;
    qg__provenance   provenance;
};

/* --- recipes as values -------------------------------------------------------------------- */

/* Set a key.  A list grows; an item replaces the one that has the same text before its '='.  Fails as
 * qg__recipe_key_parse and with QG_EMEM; the key then has no meaningful value. */
QG_MUST_CHECK
qg_status   qg__recipe_put(qg_recipe *r, const char *name, const char *text);
void        qg__recipe_unset(qg_recipe *r, const char *name);

/* Sets in r the keys that are set in top and whose use has all bits of with and none of without. */
QG_MUST_CHECK
qg_status   qg__recipe_over(qg_recipe *r, const qg_recipe *top, unsigned with, unsigned without);
void        qg__recipe_clear(qg_recipe *r);             /* frees what it has: {0} */

/* The canonical text of a key of the table; NULL: unset. */
const char *qg__recipe_value(const qg_recipe *r, const char *name);

/* A text that a run wrote says with which version of the defaults: a line `defaults = 2`.  Runs of version 1 did not say it; they
 * are known by keys that only runs write.  Their schemes become texts of the current version when they are read, and are written as
 * they were, so that such a run keeps its bytes.
 *
 * Sets the keys in the text of a file; origin is for messages, "FILE:LINE: ..".  Fails with QG_EARG (syntax, an
 * unknown key, an illegal value), and may then have set some keys. */
QG_MUST_CHECK
qg_status   qg__recipe_parse(qg_recipe *r, const char *text, const char *origin);

/* The same of what a program has stored: QG_EFORMAT in place of QG_EARG. */
QG_MUST_CHECK
qg_status   qg__recipe_parse_stored(qg_recipe *r, const char *text, const char *origin);
QG_MUST_CHECK
qg_status   qg__recipe_read(qg_recipe *r, const char *path);        /* the same of a file */

/* Whether a run wrote the file from which r was read. */
bool        qg__recipe_is_of_run(const qg_recipe *r);

/* The text of a file with every set key whose use has all these bits; from malloc, NULL if out of memory. */
char       *qg__recipe_print(const qg_recipe *r, unsigned use);

/* The first key with all bits of with and none of without that is set in asked and has another value in r, or NULL.  Of a list
 * every item must be in r. */
const qg_recipe_key *qg__recipe_conflict(const qg_recipe *r, const qg_recipe *asked, unsigned with, unsigned without);

/* The same in both directions: the first such key in which a and b differ, or NULL. */
const qg_recipe_key *qg__recipe_difference(const qg_recipe *a, const qg_recipe *b, unsigned with, unsigned without);

/* --- where the values come from (train/recipe_resolve.c) ----------------------------------- */

/* Combines asked, a file and the model's recipe: defaults < model < file < asked; file may be NULL.  With a stored recipe (of a
 * run that goes on) the result is that one, and asked must not contradict a key that decides the run's bytes.
 * inits: the run starts from other weights than the file says.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status   qg__recipe_resolve(const qg_recipe *asked, const qg_recipe *file, bool inits, const qg_recipe *stored, qg_recipe *out);

/* Checks that the values of a resolved recipe are compatible, and, if it trains, that the optimizer can train these
 * weights, too.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status   qg__recipe_check(const qg_recipe *r, bool trains);
QG_MUST_CHECK
qg_status   qg__recipe_check_net(const qg_recipe *r, bool trains);      /* what the model is asked about */
qg_status   qg__recipe_check_cache(const qg_recipe *r);                 /* --cache goes with a folder */

/* Whether models get quantizers from it, exceptions left aside. */
bool        qg__recipe_quantizes(const qg_recipe *r);

/* A stored recipe with what its version meant by the keys that it lacks. */
QG_MUST_CHECK
qg_status   qg__recipe_as_stored(const qg_recipe *stored, qg_recipe *out);

/* The config.toml of a run; and the same resolved.  Fail with QG_EFORMAT: it names no model; QG_EIO, QG_EARG. */
QG_MUST_CHECK
qg_status   qg__recipe_stored(const char *path, qg_recipe *r);
QG_MUST_CHECK
qg_status   qg__recipe_of_run(const char *path, qg_recipe *r);

/* --- what is built (train/recipe_build.c) -------------------------------------------------- */

/* Whether a delay counts epochs. */
bool        qg__recipe_waits_epochs(const qg_recipe *r);

/* Whether a training that has finished so many epochs, the best of which counts from 1, is over. */
bool        qg__recipe_is_over(const qg_recipe *r, int epochs, int best_epoch);

/* NULL: failed.  as: the preprocessing of a checkpoint, or for test images that of the training images.  It may be NULL
 * for training images, which then decide it, and where qg__normalise_fits says that there are no statistics. */
qg_loader  *qg__recipe_data(const qg_recipe *r, bool test, const qg_preprocess *as);

/* The test images for these training images, whose classes they must have.  NULL: failed, or train is NULL. */
qg_loader  *qg__recipe_test_of(const qg_recipe *r, const qg_loader *train);
qg_loader_spec qg__recipe_loading(const qg_recipe *r, bool test);       /* what its loaders are made with */

/* Built; NULL: failed.  images.n is how many are trained on in an epoch, which sets the pace of
 * surrogates that are annealed over the run; elsewhere it has no effect. */
qg_net     *qg__recipe_net(const qg_recipe *r, qg_shape images, int classes);
qg_optim   *qg__recipe_optim(const qg_recipe *r, qg_params *p);
qg_fit_spec qg__recipe_fit(const qg_recipe *r);         /* what it decides of a training, without net, images and optimizer */

/* --- a training (train/recipe_run.c) -------------------------------------------------------- */

/* Whether said, the configuration in the file at path, is r but for its span, of which *was gets what said has (qg_fit_spec.same).
 * Fails with QG_EARG. */
QG_MUST_CHECK
qg_status   qg__recipe_same(const qg_recipe *r, const char *said, const char *path, qg_fit_span *was);

/* qg__recipe_fit, and the configuration in checkpoints and in config.toml; borrows r.  Fails with QG_EMEM. */
QG_MUST_CHECK
qg_status   qg__recipe_spec(qg_recipe *r, qg_fit_spec *spec);

/* Notes the digests of the images and of the names of their classes; test NULL: only of the names.  goes_on: the path of the run
 * that r has its digests from, if that noted any, and whose images these must be; NULL: a new run.  Fails with QG_EARG, QG_EMEM. */
QG_MUST_CHECK
qg_status   qg__recipe_note_images(qg_recipe *r, const char *goes_on, const qg_loader *train, const qg_loader *test);

/* The version of the arithmetic under which this program trains r, which need not be resolved. */
uint64_t    qg__recipe_arithmetic(const qg_recipe *r);

/* Of an object: its failure, with the message; what it means, which belongs to r, or NULL, failed. */
QG_MUST_CHECK
qg_status   qg__recipe_status(const qg_recipe *r);

/* What r asks to change of a run, set in to, which is empty: of a file that was read the keys of quantizers,
 * then all that was set. */
QG_MUST_CHECK
qg_status   qg__recipe_changes(const qg_recipe *r, qg_recipe *to);
qg_recipe  *qg__recipe_full(qg_recipe *r);

/* --- values by name ----------------------------------------------------------------------- */

void        qg__model_names(char *text, size_t bytes);          /* "lenet5, vgg7, .." */

/* The value of a key, by its name, that names a scheme, "ttq" or "conv1:weight=ttq", with the same meaning under another version
 * of the defaults (quant/scheme.h).  Fails as qg_quant_parse. */
QG_MUST_CHECK
qg_status   qg__scheme_rewrite(const char *name, const char *text, int from, int to, char *out, size_t bytes);

#endif
