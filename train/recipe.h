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

/* --- keys --------------------------------------------------------------------------------- */

typedef enum qg_recipe_kind {
    QG_RECIPE_FLAG,         /* true or false; unset is false */
    QG_RECIPE_INTEGER,      /* within min..max */
    QG_RECIPE_REAL,         /* within min..max */
    QG_RECIPE_WORD,         /* one of several */
    QG_RECIPE_TEXT,         /* a path, a name or a remark */
    QG_RECIPE_VALUE,        /* the library's notation for a model, a scheme, a data set, .. */
    QG_RECIPE_LIST          /* such values; each qg_recipe_set adds one */
} qg_recipe_kind;

/* Bits of qg_recipe_key.is. */
enum {
    QG_RECIPE_IDENTITY  = 1,        /* decides the bytes of a run: fixed when the run continues */
    QG_RECIPE_PER_RUN   = 2,        /* differs between runs of one recipe: the seed, and digests that a run notes */
    QG_RECIPE_QUANTIZES = 4,        /* what is quantized, how and when */
    QG_RECIPE_OPTIMIZES = 8,        /* the optimizer, and its own options */
    QG_RECIPE_EXTENDS   = 16,       /* may change when a run continues if its steps so far would have been the same */
    QG_RECIPE_COMMAS    = 32,       /* a comma belongs to the value, and does not separate two values */
    QG_RECIPE_SCHEMES   = 64        /* the value names a scheme */
};

enum { QG_RECIPE_VALUE_BYTES = 512 };       /* room for any value */

typedef struct qg_recipe_key {
    const char    *name;            /* "weight-decay" */
    qg_recipe_kind kind;
    unsigned       is;              /* bits */
    const char    *value;           /* its placeholder in help, "N"; of QG_RECIPE_WORD the words, "sgd|adam"; of a flag NULL */
    double         min, max;
    const char    *fallback;        /* the value unless the program or the model's own recipe sets the key; NULL: unset */
    const char    *absent;          /* what a run without it has, also of a version that lacked it; NULL: fallback */
    const char    *help;            /* a few words; lines end with \n */
    const struct qg__recipe_field *field;   /* where a recipe has its value; NULL: a program's own option */
} qg_recipe_key;

extern const qg_recipe_key qg_recipe_keys[];        /* ends with a name of NULL */

/* Checks a value and writes its canonical text: "0.10" becomes "0.1".  A program may also describe options of its own as keys, of any
 * kind but QG_RECIPE_VALUE and QG_RECIPE_LIST.  Fails with QG_EARG: the message names the key, the value and the legal values. */
QG_MUST_CHECK
qg_status   qg_recipe_key_check(const qg_recipe_key *key, const char *text, char canonical[QG_RECIPE_VALUE_BYTES]);

/* --- recipes ------------------------------------------------------------------------------ */

typedef struct qg_recipe qg_recipe;

qg_recipe  *qg_recipe_new(void);                            /* NULL: QG_EMEM */
void        qg_recipe_free(qg_recipe *r);                   /* NULL is ignored */

/* Sets a key to the value in text; NULL removes it, and the value of a file counts again.  Of the keys that
 * may be repeated, layer, an item is added, and replaces the one for the same operand of the same layer.
 * Fails with QG_EARG: the message names the key, the value and the legal values. */
qg_status   qg_recipe_set(qg_recipe *r, const char *key, const char *text);

/* Sets the keys in a file: lines `key = value`, a subset of TOML, as config.toml of a run, or one of
 * examples/recipes.  A key that qg_recipe_set has set keeps its value; of two files, the second counts.
 * The key recipe, which reads nothing, is legal only in a file that a run wrote.  Fails as qg_recipe_set,
 * the message beginning with FILE:LINE, and as qg_archive_open. */
qg_status   qg_recipe_read(qg_recipe *r, const char *path);

/* The one spelling of the value of a key, items of layer one per line: what was set, or what it is because nothing was.  NULL:
 * it has none, or the recipe has failed, or names no model.  It belongs to r, until a key is set. */
const char *qg_recipe_get(qg_recipe *r, const char *key);

/* The recipe of the run in a directory, as its config.toml states it.  Fails with NULL.  QG_EIO, QG_EARG: as qg_recipe_read;
 * QG_EFORMAT: the file names no model; QG_EMEM. */
qg_recipe  *qg_recipe_of_run(const char *dir);

/* The next key after `after` whose values in a and b differ.  after NULL: the first one.  Returns NULL if
 * there is none, or if a recipe has failed.
 *
 *     for (const qg_recipe_key *k = NULL; (k = qg_recipe_difference(r, run, k));)
 *         if (k->is & QG_RECIPE_IDENTITY && !(k->is & QG_RECIPE_PER_RUN)) ..     the run is not what r describes
 *
 * If b is the recipe of a run of an older version (qg_recipe_of_run), a key which that version lacked is
 * compared only if a sets it. */
const qg_recipe_key *qg_recipe_difference(qg_recipe *a, qg_recipe *b, const qg_recipe_key *after);

/* Whether all values are compatible: the layers that layer and freeze name exist, each quantizer is legal where the model uses it,
 * the optimizer can train these weights.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status   qg_recipe_check(qg_recipe *r);

/* Its net, built for such images; image.n, the number of training images, sets how long an epoch is.
 *
 * Memory   The caller's.  Fails with NULL, as qg_recipe_check, qg_model_declare and qg_net_build. */
qg_net     *qg_recipe_net(qg_recipe *r, qg_shape image, int classes);

/* The version of the arithmetic (QG_ARITHMETIC) under which this program trains it. */
uint64_t    qg_recipe_arithmetic(qg_recipe *r);

/* Trains in spec.dir with qg_fit, or continues the run there.  Of spec it takes dir, mode, init, budget, stop and events; the
 * recipe decides all else.  A run that continues may get more epochs (see qg_fit); other keys must be those of the run, or unset.
 *
 * Fails    As qg_recipe_check, qg_data_train and qg_fit.  QG_EARG: the run in dir has another value of a key; its images or its
 *          initial weights are others. */
QG_MUST_CHECK
qg_status   qg_recipe_fit(qg_recipe *r, qg_fit_spec spec, qg_fit_result *result);

/* The same in two steps, for programs that look at the training before it begins, or do it themselves:
 *
 *     qg_training *t = qg_recipe_build(r, (qg_fit_spec){ .dir = "runs/twn" });
 *     if (t) qg_net_summary(t->net, stdout);
 *     status = t ? qg_fit(t->net, t->fit, &result) : qg_errcode();
 *     qg_training_free(t);
 */
typedef struct qg_training {
    qg_recipe  *recipe;             /* of the run: every key, and the digests of its images and weights */
    qg_loader  *train, *test;       /* the validation images are qg_loader_validation(train) */
    qg_net     *net;                /* with its initial weights; qg_fit loads those of a checkpoint */
    qg_optim   *optim;
    qg_fit_spec fit;                /* for qg_fit, with what it took of spec; .dir and .events may still change */
    int         init_arrays;        /* how many .init has given; 0: there is no .init */
    const char *init_kept;          /* "conv2.weight.wp, ..": of quantizers that .init lacks, or has with other options */
    const char *init_unused;        /* values of .init that no quantizer of the net learns */
} qg_training;

/* Without spec.dir, nothing is known of a run that continues.
 *
 * Memory   The caller's; qg_training_free.  Fails with NULL, as qg_recipe_fit. */
qg_training *qg_recipe_build(qg_recipe *r, qg_fit_spec spec);
void         qg_training_free(qg_training *t);              /* NULL is ignored */

#endif
