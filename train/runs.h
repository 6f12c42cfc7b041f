/* train/runs.h — reads runs: their nets, and what they measured.  Nothing is trained, and no file changes.
 *
 *     qg_run *run = qg_run_open("runs/digits", QG_RUN_BEST);
 *     float   score[10];
 *     if (!run || qg_run_predict(run, 1, pixels, score)) return qg_print_error("classify");
 *     puts(qg_run_class(run, 7));
 *     qg_run_close(run);
 *
 * A run is a directory that `qgrad train`, qg_recipe_fit or qg_fit wrote, or a checkpoint that was copied
 * from it.  A checkpoint notes everything that is needed to use its net: the net and its quantizers, the
 * size and preprocessing of images, and the names of classes.  So a run of qg_fit can be used without its
 * program, unless the program defines a layer or a scheme of the net.  Then weights and quantizers can still
 * be inspected, but not computed with.
 *
 * Memory   What these functions return belongs to the run, until qg_run_close, unless they say otherwise.
 * Threads  A run is used by one thread at a time.
 */
#ifndef QG_RUNS_H
#define QG_RUNS_H

#include "datasets/loader.h"
#include "train/evaluate.h"
#include "train/fit.h"
#include "train/recipe.h"

typedef struct qg_run qg_run;

typedef enum qg_run_weights {
    QG_RUN_LAST,            /* last.safetensors; of a run with .ema_decay the averages, which it tests */
    QG_RUN_BEST,            /* best.safetensors */
    QG_RUN_START            /* those of its first step, which follow from the seed, unless it started from another run's */
} qg_run_weights;

/* Reads what is in a directory, or a checkpoint of its own, which has one kind of weights.  The net comes later.
 *
 * Memory   The caller's; qg_run_close.
 * Fails    NULL.  QG_EIO: no such run, or a file that cannot be read.  QG_EFORMAT: a file is damaged or none of qgrad.  QG_EARG:
 *          its configuration is not legal in this version.  QG_EMEM. */
qg_run     *qg_run_open(const char *path, qg_run_weights which);
void        qg_run_close(qg_run *r);                        /* NULL is ignored */

const char *qg_run_directory(const qg_run *r);              /* as it was named, without slashes at the end; that of a checkpoint */
const char *qg_run_file(const qg_run *r);                   /* the path of the checkpoint */

/* The value of a key of its recipe (train/recipe.h), and a note of its checkpoint, such as "kind", "checkpoint" or, of best weights,
 * "weights", "net", which a run of qg_fit has, and "arithmetic", which runs under QG_ARITHMETIC 1 lack; NULL: none. */
const char *qg_run_get(const qg_run *r, const char *key);
const char *qg_run_note(const qg_run *r, const char *key);

/* The configuration that qg_fit noted for a program, which has no recipe; NULL: it has one. */
const char *qg_run_config(const qg_run *r);

/* Of one image, n = 1; how many classes, and what class k is called, in UTF-8 that is safe to print: its number if the images had no
 * names, or its word in a known set, which is that of the last qg_run_test or else the run's.  {0}, 0 and NULL: the checkpoint is
 * of a version that did not note them. */
qg_shape    qg_run_image(const qg_run *r);
int         qg_run_classes(const qg_run *r);
const char *qg_run_class(const qg_run *r, int k);

/* The net with the weights, built the first time.  It has no gradients of its own to train on: qg_fit_spec.init trains from its
 * weights.  NULL: failed, as the files and qg_net_build do; QG_EFORMAT: the checkpoint belongs to another configuration; QG_ESHAPE: its
 * arrays are not those of the net; QG_ESTATE: QG_RUN_START is not known, of a run that started from another run's weights or that
 * a program trained. */
qg_net     *qg_run_net(qg_run *r);

/* A second net with the same weights and other quantizers, which changes has: keys such as weight, input and layer.  What the
 * quantizers of r have learned goes to the same quantizers.  fresh [bytes] receives the names of the other learned values, which
 * start as in a new training: "conv2.weight.wp, ..".
 *
 * Memory   The caller's; qg_net_free.
 * Fails    NULL.  As qg_run_net; QG_EARG: changes is not legal for this run, or r tests averages, which only its best weights are. */
qg_net     *qg_run_net_with(qg_run *r, const qg_recipe *changes, char *fresh, size_t bytes);
uint64_t    qg_run_steps(qg_run *r);                        /* of training that its weights have had; 0: failed */

/* How bytes become what the net reads.  NULL: failed, as qg_preprocess_open. */
const qg_preprocess *qg_run_preprocess(qg_run *r);

/* Scores of n images of the right size: bytes [n][h][w][c], scores [n][classes].  They do not depend on how many pass at a time.
 * With n 0 it only checks that it can.  Fails as qg_run_net and qg_run_preprocess; QG_EARG: only its program can compute the net;
 * the message names the layer that is the program's own. */
QG_MUST_CHECK
qg_status   qg_run_predict(qg_run *r, int n, const uint8_t *bytes, float *scores);

typedef struct qg_run_test_spec {
    const char *data, *dir;     /* another set and its directory (qg_data_test); only dir: where the run's own set is now */
    size_t      cache_bytes;    /* qg_loader_spec.cache_bytes; 0: as in its training */
} qg_run_test_spec;

/* The test images of the run, in order, preprocessed as its checkpoint notes; qg_run_net is then a net for such images.
 *
 * Memory   The caller's; qg_loader_free.
 * Fails    NULL.  As qg_data_test, qg_run_preprocess and qg_run_net.  QG_EARG: only its program can compute the net, or a program
 *          trained it, which does not say on which data; the images have another size or other classes than the run's.  A
 *          checkpoint of a version that did not note the preprocessing also needs the training images. */
qg_loader  *qg_run_test(qg_run *r, qg_run_test_spec spec);

typedef struct qg_run_evaluate_spec {
    int         worst;          /* how many of the worst mistakes to keep */
    qg_net     *net;            /* of qg_run_net_with; NULL: that of the run */
} qg_run_evaluate_spec;

/* Measures the net on images that were preprocessed as the run's, such as qg_run_test gives; the loss is that of the training.
 *
 * Memory   *a is the caller's; qg_assessment_free, also after a failure.
 * Fails    As qg_run_predict and qg_evaluate; QG_ESHAPE: the images have another size or other classes. */
QG_MUST_CHECK
qg_status   qg_run_evaluate(qg_run *r, qg_loader *images, qg_run_evaluate_spec spec, qg_assessment *a);

/* What result.json of the run in a directory says, which need not be open; without that file, as in runs of older versions, what
 * metrics.csv says: epochs, accuracies, seconds.  Fails with QG_EIO: it has neither; QG_EFORMAT, QG_EARG. */
QG_MUST_CHECK
qg_status   qg_run_result(const char *dir, qg_fit_result *result);

/* A column of metrics.csv, "test_accuracy" or "conv1.weight.wp": a value per finished epoch, NaN where there is none, and in the
 * column "digest", which is text.  NULL: failed,
 * as the file; QG_EARG: it has no such column. */
const double *qg_run_column(qg_run *r, const char *name, int *epochs);
const char *qg_run_column_name(qg_run *r, int i);           /* of column i, from 0; NULL: there is no such column, or failed */

/* --- quantization after training ---------------------------------------------------------- */

typedef struct qg_run_quantize_spec {
    const char      *dir;           /* required: of the new run; it must not exist */
    const qg_recipe *changes;       /* required: keys such as weight, input, layer, first-last and
                                       threads; others stay as they are */
    int              images;        /* of the training that calibrate it; 0: QG_CALIBRATION_IMAGES,
                                       or all if there are fewer */
} qg_run_quantize_spec;

typedef struct qg_run_quantized {
    int      images;                            /* that have calibrated it */
    uint64_t tested;                            /* test images */
    double   accuracy_before, accuracy;         /* on these */
    double   loss_before, loss;
    bool     misfit;    /* failed with QG_EARG: the changes are not legal for this run */
} qg_run_quantized;

/* Makes a new run without steps from r: with its weights, with quantizers where it had none, calibrated
 * as by qg_calibrate on its training images.  What a teacher, delays or initial weights did for r is
 * no part of it.  The directory appears whole or not at all.
 *
 *     qg_recipe_set(changes, "weight", "fake_quant:bits=8");
 *     if (qg_run_quantize(run, (qg_run_quantize_spec){ .dir = "runs/8bit", .changes = changes }, &q)) ..
 *
 * Fails    QG_EARG: changes, which may name no quantizer that r does not have, or another one for
 *          what r has quantized; more .images than there are; the images are not those of r; r
 *          tests averages, which only its best weights are; only its program can compute it.
 *          QG_ESTATE: the directory exists.  And as qg_run_net, qg_calibrate and the files. */
QG_MUST_CHECK
qg_status   qg_run_quantize(qg_run *r, qg_run_quantize_spec spec, qg_run_quantized *result);

#endif
