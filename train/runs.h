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
 * NULL     Of a run that is NULL, because it could not be opened, functions return QG_EARG, NULL, 0 or {0}, and
 *          qg_errmsg() still says why.
 * Memory   What these functions return belongs to the run, until qg_run_close, unless they say otherwise.
 * Threads  A run is used by one thread at a time.
 */
#ifndef QG_RUNS_H
#define QG_RUNS_H

#include "datasets/loader.h"
#include "layers/export/export.h"
#include "train/evaluate.h"
#include "train/fit.h"
#include "train/recipe.h"

typedef struct qg_run qg_run;

typedef enum qg_run_weights {
    QG_RUN_LAST,            /* last.safetensors; with .ema_decay the averages, which the run tests */
    QG_RUN_BEST,            /* best.safetensors */
    QG_RUN_START            /* the initial ones, from the seed; unknown if they were another run's */
} qg_run_weights;

/* Opens the run in a directory, or a single checkpoint, which has one kind of weights.  The net is built
 * later.
 *
 * Memory   The caller's; qg_run_close.
 * Fails    NULL.  QG_EIO: no such run, or a file that cannot be read.  QG_EFORMAT: a file is damaged, or
 *          was not written by qgrad.  QG_EARG: its configuration is not legal in this version.  QG_EMEM. */
qg_run     *qg_run_open(const char *path, qg_run_weights which);
void        qg_run_close(qg_run *r);                        /* NULL is ignored */

const char *qg_run_directory(const qg_run *r);      /* as given, without slashes at the end; or of the file */
const char *qg_run_file(const qg_run *r);                   /* the path of the checkpoint */

/* The value of a key of its recipe (train/recipe.h), or a note of its checkpoint, such as "kind", "net"
 * (runs of qg_fit), "checkpoint", or "weights" (the best ones).  NULL: none. */
const char *qg_run_get(const qg_run *r, const char *key);
const char *qg_run_note(const qg_run *r, const char *key);

/* The version of the arithmetic (QG_ARITHMETIC, train/fit.h) under which it was trained. */
uint64_t    qg_run_arithmetic(const qg_run *r);

/* qg_fit_spec.config of a run without a recipe.  NULL: the run has a recipe. */
const char *qg_run_config(const qg_run *r);

/* The shape of one image (n = 1), the number of classes, and the name of class k in UTF-8 that is safe to
 * print.  Without names, it is the word for the class in the data set of the last qg_run_test, or else of
 * the run, or the number; NULL: there is no class k. */
qg_shape    qg_run_image(const qg_run *r);
int         qg_run_classes(const qg_run *r);
const char *qg_run_class(const qg_run *r, int k);

/* The net with its weights, built at the first call.  It cannot be trained; to train from its weights, use
 * qg_fit_spec.init.
 *
 * Fails    NULL.  As the files and qg_net_build.  QG_EFORMAT: the checkpoint belongs to another
 *          configuration.  QG_ESHAPE: its arrays do not fit the net.  QG_ESTATE: QG_RUN_START is unknown,
 *          because the run started from another run's weights or a program trained it. */
qg_net     *qg_run_net(qg_run *r);

/* A second net with the same weights and the quantizers in `changes`: keys such as weight, input and layer.
 * Quantizers that stay keep what they have learned.  fresh [bytes] receives the names of the other learned
 * values, which start as in a new training: "conv2.weight.wp, ..".
 *
 * Memory   The caller's; qg_net_free.
 * Fails    NULL.  As qg_run_net.  QG_EARG: changes is not legal for this run, or r tests averages, which
 *          only its best weights are.  QG_ESTATE: r is QG_RUN_START, and no file has its weights. */
qg_net     *qg_run_net_with(qg_run *r, const qg_recipe *changes, char *fresh, size_t bytes);
uint64_t    qg_run_steps(qg_run *r);                        /* training steps of its weights; 0: failed */

/* How bytes become the input of the net.  NULL: failed, as qg_preprocess_open. */
const qg_preprocess *qg_run_preprocess(qg_run *r);

/* Scores of n images of the right size: bytes [n][h][w][c], scores [n][classes].  They do not depend on n.
 * n = 0 checks whether the net can be computed.  Fails as qg_run_net and qg_run_preprocess; QG_EARG: only
 * the program that trained the net can compute it; the message names the layer that the program defines;
 * QG_EFORMAT: it has another number of scores than the file notes classes. */
QG_MUST_CHECK
qg_status   qg_run_predict(qg_run *r, int n, const uint8_t *bytes, float *scores);

typedef struct qg_run_test_spec {
    const char *data, *dir;     /* another set and its directory (qg_data_test); only dir: of the run's set */
    size_t      cache_bytes;    /* qg_loader_spec.cache_bytes; 0: as in its training */
} qg_run_test_spec;

/* The test images of the run, in order, preprocessed as its checkpoint notes.  After that, qg_run_net is a
 * net for such images.
 *
 * Memory   The caller's; qg_loader_free.
 * Fails    NULL.  As qg_data_test, qg_run_preprocess and qg_run_net.  QG_EARG: only its program can compute
 *          the net; a program trained it and spec names no data; the images have another size or other
 *          classes than the run's. */
qg_loader  *qg_run_test(qg_run *r, qg_run_test_spec spec);

typedef struct qg_run_evaluate_spec {
    int         worst;          /* how many of the worst mistakes to keep */
    bool        tta;            /* as in qg_evaluate_spec */
    qg_net     *net;            /* of qg_run_net_with; NULL: the net of the run */
} qg_run_evaluate_spec;

/* Measures the net on images that are preprocessed as the run's, such as those of qg_run_test, with the
 * loss of the training.
 *
 * Memory   *a is the caller's; qg_assessment_free, also after a failure.
 * Fails    As qg_run_predict and qg_evaluate; QG_ESHAPE: the images have another size or other classes. */
QG_MUST_CHECK
qg_status   qg_run_evaluate(qg_run *r, qg_loader *images, qg_run_evaluate_spec spec, qg_assessment *a);

/* Reads result.json of the run in a directory, which need not be open.  Runs of older versions lack the
 * file; then epochs, accuracies and seconds come from metrics.csv.  Fails with QG_EIO: it has neither;
 * QG_EFORMAT, QG_EARG. */
QG_MUST_CHECK
qg_status   qg_run_result(const char *dir, qg_fit_result *result);

/* A column of metrics.csv, such as "test_accuracy" or "conv1.weight.wp": a value per finished epoch, NaN
 * where there is none.  The column "digest" is text, so its values are NaN.  NULL: failed, as the file;
 * QG_EARG: no such column. */
const double *qg_run_column(qg_run *r, const char *name, int *epochs);
const char *qg_run_column_name(qg_run *r, int i);     /* from 0; NULL: no such column, or failed */

/* --- what its net contains ----------------------------------------------------------------- */

/* Weight i of the run's net, in the order of its layers: those of convolutions and dense layers.  It belongs to
 * the net.  {0}: there are at most i, or qg_run_net fails. */
typedef struct qg_run_weight {
    const char  *layer;             /* "conv1" */
    qg_shape     shape;             /* [out][kh][kw][in]; of a dense layer [out][1][1][in], in of all pixels */
    const float *latent;            /* as it is trained */
} qg_run_weight;
qg_run_weight qg_run_weight_at(qg_run *r, int i);

/* The same as the net computes with it: value, and the integer codes of value.
 *
 * Shapes   value and code: that of the weight.
 * Range    *bits: of a code; 0: the weight has no codes, and code is unchanged.
 * Fails    As qg_run_net and its quantizer; QG_EARG: there is no weight i, or only
 *          the program that trained it can quantize it. */
QG_MUST_CHECK
qg_status   qg_run_weight_quantized(qg_run *r, int i, float *value, int32_t *code, int *bits);

/* What qg_export writes of a run besides its net: how images are normalised, and notes: model, data, class-names,
 * digest, file.
 *
 *     qg_run_export e;
 *     if (qg_run_export_of(run, &e) || qg_export(qg_run_net(run), "net.qg", e.spec)) .. */
typedef struct qg_run_export {
    char           digest[17];      /* of the weights */
    qg_note        note[5];
    qg_export_spec spec;            /* of a packed file; borrows from the run and from this struct */
} qg_run_export;

/* Fails as qg_run_predict, and with QG_EARG: images are normalised as no file can express. */
QG_MUST_CHECK
qg_status   qg_run_export_of(qg_run *r, qg_run_export *e);

/* --- quantization after training ---------------------------------------------------------- */

typedef struct qg_run_quantize_spec {
    const char      *dir;           /* required: of the new run; it must not exist */
    const qg_recipe *changes;       /* required: keys such as weight, input, layer, first-last and
                                       threads; others stay as they are, and of a file that was read
                                       (qg_recipe_read) only those of quantizers count.  Without
                                       weight, input and layer, inputs become fake_quant:range=observed,
                                       and weights fake_quant:range=current,per-channel=yes, where r
                                       has floats */
    int              images;        /* of the training that calibrate it; 0: QG_CALIBRATION_IMAGES,
                                       or all if there are fewer */
} qg_run_quantize_spec;

typedef struct qg_run_quantized {
    int      images;                            /* that have calibrated it */
    uint64_t tested;                            /* test images */
    double   accuracy_before, accuracy;         /* on these */
    double   loss_before, loss;
} qg_run_quantized;

/* Makes a new run without steps from r: with its weights, with quantizers where it had none, calibrated
 * as by qg_calibrate on its training images.  It has no teacher, delays or initial weights of r.  The
 * directory appears complete or not at all.
 *
 *     qg_recipe_set(changes, "weight", "fake_quant:bits=8");
 *     if (qg_run_quantize(run, (qg_run_quantize_spec){ .dir = "runs/8bit", .changes = changes }, &q)) ..
 *
 * Fails    QG_EARG: changes names no new quantizer, or another one for a tensor that r has quantized;
 *          more .images than there are; the images are not those of r; r tests averages, which only
 *          its best weights are; only its program can compute it.
 *          QG_ESTATE: the directory exists.  And as qg_run_net, qg_calibrate and the files. */
QG_MUST_CHECK
qg_status   qg_run_quantize(qg_run *r, qg_run_quantize_spec spec, qg_run_quantized *result);

/* --- nets of other programs --------------------------------------------------------------- */

/* The axes of a convolution's weight in a file, and of a dense layer's: [out][in][h][w] and
 * [out][in], as in PyTorch, or [h][w][in][out] and [in][out], as in Keras and Flax. */
typedef enum qg_layout { QG_OIHW, QG_HWIO } qg_layout;

typedef struct qg_run_import_spec {
    const char      *dir;       /* required: of the new run; it must not exist */
    const char      *weights;   /* required: a safetensors file */
    const qg_recipe *recipe;    /* required: model, and of the other keys data, data-dir, normalise,
                                   seed, threads and cache.  With data, its test images are measured */
    qg_shape         image;     /* of one image, n is ignored; {0}: that of data */
    const char      *classes;   /* "10", or their names, "cat,dog"; NULL: those of data, or as many as
                                   a net as text has results */
    qg_layout        layout;
    const char      *map;       /* the path of a text with lines LAYER MODULE, "conv1 features.0", and
                                   comments after #; NULL: none */
} qg_run_import_spec;

typedef struct qg_run_imported {
    char    *names;             /* lines LAYER MODULE, as in a map; NULL: failed */
    uint64_t tested;            /* test images; 0: not measured */
    double   accuracy, loss;    /* on these */
} qg_run_imported;

/* Makes a new run without epochs, whose net has float weights that another program trained.  It can
 * be used as any other run.  The directory appears complete or not at all.
 *
 * The arrays of a file belong to modules: features.0.weight and features.0.bias to features.0.  A
 * layer takes the arrays of one module: a product weight and bias; a batch norm weight (its gamma),
 * bias (its beta), running_mean and running_var; a PReLU weight.  The names of Keras and Flax, such
 * as kernel and moving_variance, mean the same, and num_batches_tracked is ignored.  Modules are
 * chosen in this order:
 *
 *     1. by the map;
 *     2. by name, if every layer that remains has a module with its name;
 *     3. else each layer, in the order of the net, takes the first module of its kind and shape, in
 *        the order of names, where numbers count as numbers: block.2 precedes block.10.
 *
 * Under QG_OIHW, a dense layer that reads an image has its columns permuted, from [c][h][w] to
 * [h][w][c].  A bias before a batch norm, which nets here do not have, is subtracted from the
 * running mean.
 *
 * Range    Arrays of F32, F16, BF16 or F64, which become float32.
 * Memory   result->names is the caller's to free().
 * Fails    QG_ESHAPE: the message lists all arrays that do not fit.  QG_ENAN: a value is not finite.
 *          QG_EFORMAT: a variance is negative, or as qg_archive_open.  QG_EARG: the recipe, the
 *          sizes, or a line of the map.  QG_ESTATE: the directory exists.  And as qg_data_test and
 *          the files. */
QG_MUST_CHECK
qg_status   qg_run_import(qg_run_import_spec spec, qg_run_imported *result);

#endif
