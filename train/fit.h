/* train/fit.h — trains a net in a run directory that survives kill -9.
 *
 *     static volatile sig_atomic_t stop;              a signal handler sets it, if the program has one
 *
 *     qg_fit_result r;
 *     if (qg_fit(net, (qg_fit_spec){ .dir    = "runs/mine",
 *                                    .config = "model = \"mine\"\n",
 *                                    .train  = train,
 *                                    .test   = test,
 *                                    .optim  = optim,
 *                                    .epochs = 10,
 *                                    .stop   = &stop }, &r)) ..
 *
 * The directory contains
 *
 *     config.toml        the configuration
 *     metrics.csv        one row per epoch: losses, accuracies, the digest of the weights, the fraction of
 *                        codes that flipped in each layer with quantized weights, learned values
 *     result.json        the accuracy so far, and its cost
 *     last.safetensors   the checkpoint, saved after each epoch, every ten seconds, and when training stops
 *     best.safetensors   the weights of the epoch with the highest test accuracy, for qg_net_load;
 *                        once every delayed quantizer has started, earlier epochs no longer count
 *
 * `qgrad report` and `qgrad inspect` read such a directory.
 *
 * With .validation, every choice is made on these images: metrics.csv has columns validation_loss and validation_accuracy
 * instead of test_loss and test_accuracy, and the test images are read once, when the last epoch is finished, for the last
 * and for the best weights.
 *
 * When the same program is started again, it continues from the checkpoint.  A run that was killed at any moment, or
 * stopped, ends with the same bytes as a run that was not, except for the times in metrics.csv and result.json.
 */
#ifndef QG_FIT_H
#define QG_FIT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/io/state.h"
#include "datasets/loader.h"
#include "layers/net.h"
#include "optim/optim.h"
#include "optim/schedule.h"

/* The version of the arithmetic (docs/arithmetic.md): of the order and the rounding of every operation that
 * weights and scores depend on.  Every machine that trains the same configuration under the same version ends
 * in the same bytes.  A checkpoint notes it, and a run continues under no other.  Runs that note none have
 * version 1, which depended on the machine.  Version 3 changed only the training of nets with a gradient
 * quantizer, so all others keep version 2 (qg_recipe_arithmetic). */
enum {
    QG_ARITHMETIC           = 2,    /* of nets without a gradient quantizer */
    QG_ARITHMETIC_GRADIENTS = 3     /* of nets in which at least one layer has one */
};

typedef enum qg_fit_mode {
    QG_FIT_RESUME,          /* continue the run in the directory, or start one if there is none */
    QG_FIT_NEW,             /* a directory with a run is an error */
    QG_FIT_FORCE            /* rename a directory with a run to dir.old or dir.old-2, .., and start a new one */
} qg_fit_mode;

/* A finished epoch: the columns that every metrics.csv has, in order. */
typedef struct qg_epoch {
    double epoch, lr;                       /* counted from 1; of the epoch's last step */
    double train_loss, train_accuracy;      /* over the epoch's steps, measured during training */
    double test_loss, test_accuracy;        /* NaN, and not in metrics.csv, with .validation */
    double validation_loss, validation_accuracy;    /* likewise without .validation */
    double images_per_second;               /* of the training steps only */
    double seconds;                         /* steps, evaluation, checkpoints between steps, in all processes */
    char   digest[17];                      /* of the weights after it, as in qg_fit_result: those that are trained, not
                                               their averages; empty: a log of a version that did not note it */
} qg_epoch;

/* Why the last process ended. */
typedef enum qg_fit_end {
    QG_FIT_TRAINING,        /* it has not, or it was killed or failed: "no" in result.json */
    QG_FIT_OVER,            /* the run is complete: "complete" */
    QG_FIT_OUT_OF_TIME,     /* the budget was used up: "budget" */
    QG_FIT_STOPPED,         /* the program asked it to stop: "stop" */
    QG_FIT_ENDS
} qg_fit_end;

/* What a run has achieved, and at what cost. */
enum { QG_FIT_TEXT = 192 };
typedef struct qg_fit_result {
    /* Values of all processes that worked on the run: one value, or "first, second" if they differ. */
    char     commit[QG_FIT_TEXT], cpu_path[QG_FIT_TEXT];    /* qg_commit; qg_cpu_path, on which speed depends but no bit */
    char     digest[QG_FIT_TEXT];           /* of the current weights (qg_params_digest), in hexadecimal */
    double   test_accuracy, best_test_accuracy; /* NaN: no epoch is finished; so are the next two.  The best is
                                                   that of best.safetensors.  With validation, NaN until the run is
                                                   complete */
    double   test_accuracy_stderr;          /* binomial */
    double   validation_accuracy, best_validation_accuracy; /* NaN: no epoch is finished, or no validation images */
    double   train_loss;
    double   images_per_second;             /* of all epochs; while none is finished, of this process */
    double   seconds;                       /* of all epochs, in all processes */
    uint64_t seed, epochs, best_epoch, test_images, threads;    /* best_epoch counts from 1; 0: none */
    uint64_t arithmetic;                    /* the version under which it was trained */
    uint64_t validation_images;             /* 0: none */
    uint64_t batch, batches;                /* finished steps of the epoch after these; steps per epoch */
    bool     complete;                      /* the last epoch is finished, or patience has ended the run */
    bool     out_of_patience;               /* it has, before the last epoch */
    qg_fit_end ended;
} qg_fit_result;

/* Where a run is. */
typedef struct qg_fit_progress {
    uint64_t epoch, epochs;                 /* finished epochs; epochs in all */
    uint64_t batch, batches;                /* finished steps of the current epoch; steps per epoch */
    double   loss, accuracy;                /* means over the images of these steps; 0 before the first */
    double   images_per_second;             /* of this epoch in this process; 0: not known yet */
    double   seconds_left;                  /* estimated from it; 0: not known yet */
} qg_fit_progress;

typedef enum qg_fit_notice {
    QG_FIT_RENAMED,         /* an existing run was renamed */
    QG_FIT_UNLOCKED,        /* the file system has no locks */
    QG_FIT_ADVICE,          /* a scheme does not train with these arguments (qg_scheme.advice); when a run begins or goes on */
    QG_FIT_SMALL_BATCH,     /* the last batch of an epoch has one image, or one per rank: too few
                               for the variance of a batch norm */
    QG_FIT_DRIFTED,         /* learned values have left the normal range of their scheme, or are far from those that it
                               would start with; each is named once, with what usually helps */
    QG_FIT_AT_CHANCE        /* after 100 or more steps the images that choose the best epoch are
                               classified no better than by always naming the same class; at most
                               once per process, with the likely cause */
} qg_fit_notice;

/* What a program may watch; each may be NULL.  None of them can change what is trained or measured by reading
 * a loader or by evaluating the net; b is valid until .scores reads another batch.  Of several ranks
 * (core/dist/ranks.h) only rank 0 has events, and cannot evaluate the net alone; .scores then gets the scores
 * and labels of the whole batch, but b->x is rank 0's part of it. */
typedef struct qg_fit_events {
    void *user;                                                     /* passed to each */
    void (*begin)(void *user, const qg_fit_progress *p);            /* the run is created or loaded */
    void (*step)(void *user, const qg_fit_progress *p);             /* after each step */
    void (*epoch)(void *user, const qg_epoch *e, const qg_fit_result *r);   /* after each epoch, when it is saved */
    void (*notice)(void *user, qg_fit_notice what, const char *text);
    void (*scores)(void *user, qg_loader *images, const qg_batch *b, const qg_var *scores);     /* of each batch of the
                                                                        validation or test images, which are .in_order */
} qg_fit_events;

/* A net that has been trained, whose scores are soft targets [Hinton, Vinyals, Dean 2015, arXiv:1503.02531v1, sec. 2]:
 *
 *     loss = (1 - weight) L + weight KL(teacher, net)      L: the loss of the labels;  KL: qg_kl, which is times T^2
 *
 * It reads the same augmented images, in QG_EVAL.  Tests measure only L. */
typedef struct qg_fit_teacher {
    qg_net  *net;                   /* built and loaded, with images and scores of the same size; NULL: no teacher */
    uint64_t steps;                 /* it was trained for so many; 0: for more than any delay
                                       of its quantizers; UINT64_MAX: for none */
    float    temperature;           /* T; 0: 4 */
    float    weight;                /* at most 1; 0: 0.9 */
} qg_fit_teacher;

/* The length of a run, which may change when the run continues. */
typedef struct qg_fit_span {
    int         epochs, patience;
    qg_schedule schedule;
} qg_fit_span;

enum { QG_NO_EPOCHS = -1 };     /* qg_fit_spec.epochs */

typedef struct qg_fit_spec {
    const char  *dir;               /* required: the run directory; it is made if it does not exist.  A relative path begins
                                       where the program is when it calls qg_fit */
    qg_fit_mode  mode;
    const char  *config;            /* lines of TOML that identify the configuration; NULL: none.  See below */
    qg_loader   *train, *test;      /* required: two loaders of one image size; test should be .in_order */
    qg_loader   *validation;        /* choose the best epoch, and when to end, by these images, which should be .in_order
                                       (qg_loader_validation), a third loader; NULL: by the test images */
    qg_optim    *optim;             /* required: of the net's parameters; new, unless the run continues */
    int          epochs;            /* required, at least 1; or QG_NO_EPOCHS: measure the initial net
                                       and store it, also as the best one */
    uint64_t     seed;              /* of dropout and other noise */
    double       lr;                /* at the start of the schedule; 0: that of the optimizer */
    qg_schedule  schedule;          /* over all epochs */
    int          patience;          /* end after so many epochs without a higher accuracy than the best, but not before
                                       every delayed quantizer has started; 0: never */
    float        label_smoothing;   /* of the cross entropy in training steps, 0 <= s < 1; tests use the labels */
    float        clip_norm;         /* of all gradients, for qg_optim_set_clip_norm; 0: as the optimizer has it */
    float        ema_decay;         /* train as usual, but test averages of the weights and save them as the best
                                       (optim/ema.h), which start over where delayed quantizers start; less than
                                       1; 0: off */

    /* Fine-tuning.  Layers are named in a list, "conv1,conv2". */
    const char  *init;              /* start from the last weights of the run in this directory, or from a safetensors
                                       file, by name; all must fit but what quantizers learn, which goes to the
                                       same quantizers alone where the run tells them, and: */
    const char  *init_except;       /* these layers of either net, which start from their own values */
    const char  *freeze;            /* these layers are not trained, nor their statistics (qg_net_freeze) */
    const char  *whiten_patches;    /* the weight of this layer, which reads the images, becomes filters that
                                       whiten their patches, even if .init has a weight for it, and is not
                                       trained; its bias is.  It is float, with one group, and at most two
                                       outputs for each value of a patch.   arXiv:2404.00498v2, sec. 3.2 */
    qg_fit_teacher teacher;         /* distil this net */

    bool         keep_running_statistics;   /* of batch norms in nets with quantized weights; false: they are estimated
                                       again before each test.  See below */

    double       budget;            /* seconds after which it saves and stops; 0: none, less than 0: at once */
    const volatile sig_atomic_t *stop;  /* it saves and stops when *stop is not 0; NULL: never */
    qg_fit_events events;

    /* The loss of scores, the result of the net, on the tape.  It should be a mean over the images of b.  NULL: cross
     * entropy.  In a test the mode of the tape is QG_EVAL. */
    qg_var    *(*loss)(void *user, qg_tape *t, qg_var *scores, const qg_batch *b);

    /* Compares `said`, the configuration in the file at path, with that of this run.  The lengths
     * of the runs may differ: *was receives the one in `said`.  A failure ends qg_fit.  NULL: both
     * must be the same text, to which qg_fit adds what it knows itself; a program with a function
     * of its own puts the whole configuration into .config. */
    qg_status  (*same)(void *user, const char *said, const char *path, qg_fit_span *was);
    void        *user;              /* passed to loss and same */

    const char  *file;              /* the text of config.toml; NULL: that of the configuration */
    bool         renew_file;        /* write config.toml again when the run continues */
    const qg_note *about;           /* members that result.json has first, such as { "model", "mine" } */
    int          abouts;
} qg_fit_spec;

/* Trains net, which qg_net_build has built and whose values are the initial weights, to the end of
 * the last epoch or until it must stop.  Then *r, unless r is NULL, says how far it came: if it is
 * not complete, call qg_fit again, in this or in another process, with a net and an optimizer that
 * were made in the same way.  Afterwards the net has the weights of the last step, and the
 * optimizer has the rate of the start, so the program can continue or extend this run with the same two.  A
 * run in another directory needs a new optimizer.
 *
 * Continuing a run with another configuration would end with bytes that no configuration gives, so the checkpoint
 * records the configuration, and qg_fit refuses another one.  It knows the numbers of the spec, the images and how they
 * are loaded, the layers and quantizers of the net, and the weights of .init and .teacher.  What it does not know should
 * stand in config: the optimizer with its constants, the loss, what a layer of your own does.
 *
 * A run can be extended, whether it is finished or not: call qg_fit with more .epochs, or with more .patience or none, and if
 * need be with another .schedule.  It is legal if a run with this spec would have taken the same steps so far, so the files
 * end up as its files do, except for times.  The rate of every step must be the same float: true of a constant rate, and of
 * steps at the same epochs (qg_schedule_extend); not of the kinds that end with the run.  A surrogate whose steps
 * follow the number of epochs is another one, as is every other change of the net.  With .validation the test images are read again at the new end.
 *
 * Codes of quantized weights flip faster than the running statistics of batch norms follow, since the
 * newest batch weighs a tenth in them.  Test accuracies would swing from epoch to epoch.  Therefore,
 * unless they are frozen, the batch norms of a net with quantized weights get new statistics before
 * each test: mean and variance over the first batches of the next epoch, in QG_ESTIMATE, with the
 * weights that are tested.  These are a sixteenth of the batches, at least 4 and at most 32, and take
 * about 2 % of the time of an epoch.  Runs that began with a version without this continue without
 * it.                                                     [Nagel et al. 2022, arXiv:2203.11086]
 *
 * The source of .init is read each time, so keep it until the run is complete.
 *
 * Memory   Everything in the spec is borrowed until qg_fit returns.  From its second epoch on, a step makes no heap calls,
 *          unless quantizers start in it or after it, or its images are not in memory.
 * Fails    QG_EARG: the spec, an illegal configuration of net and images, a layer that does not exist, nothing left to
 *          train, or the files belong to a run with another configuration.  QG_ESHAPE: the images, .init or
 *          .teacher do not fit the net; the message lists what and, of .init, the layers that .init_except would have to name.
 *          QG_ESTATE: another training holds the directory; it contains a run that the mode excludes, that
 *          has lost its checkpoint, or that is not complete and was trained under another version of the
 *          arithmetic; or it was moved meanwhile.  QG_EFORMAT: a file is damaged or of another version.
 *          QG_ENAN: a loss or a gradient is not finite.  QG_EIO, QG_EMEM, and as the ops and qg_loader_status
 *          do.  The last good checkpoint remains, and the same call continues from it.
 */
QG_MUST_CHECK
qg_status qg_fit(qg_net *net, qg_fit_spec spec, qg_fit_result *r);

/* Prints the object that is result.json, without its checksum but with the run directory, the .dir of the spec: .about, the size of
 * the net, and the result.  spec and net are those of qg_fit.  Fails with QG_EMEM, before it has printed anything. */
QG_MUST_CHECK
qg_status qg_fit_result_print(const qg_fit_result *r, const qg_fit_spec *spec, const qg_net *net, FILE *out);

/* The commit that the library was built from, as in qg_fit_result.commit: its first 12 digits, and "-dirty" if the sources had
 * uncommitted changes; "unknown": not from a repository. */
const char *qg_commit(void);

#endif
