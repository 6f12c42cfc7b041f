/* train/run.h — a run directory: config.toml, metrics.csv, result.json, last.safetensors, best.safetensors, and
 * whitening.safetensors if its images are whitened.  Internal. */
#ifndef QG_RUN_H
#define QG_RUN_H

#include "core/io/paths.h"
#include "optim/ema.h"
#include "train/init.h"
#include "train/metrics.h"

/* The position of a run: everything in a checkpoint that belongs neither to the net nor to the optimizer. */
typedef struct qg__run_record {
    uint64_t seed;                          /* the key of every random number of the run */
    uint64_t epoch, batch;                  /* finished epochs; steps taken in the current one */
    uint64_t steps;                         /* taken in all */
    uint64_t images, correct;               /* of the current epoch, so far */
    double   loss;                          /* summed over these images */
    uint64_t tested;                        /* images of the split that chooses: validation, if there is one, else test */
    double   train_loss, train_accuracy;    /* of the last finished epoch, */
    double   test_loss, test_accuracy;      /* means over images, the latter two over these */
    uint64_t best_epoch;                    /* 1-based; 0: none yet */
    double   best_accuracy;
} qg__run_record;

typedef enum qg__run_file {
    QG__RUN_CONFIG,
    QG__RUN_METRICS,
    QG__RUN_RESULT,
    QG__RUN_LAST,
    QG__RUN_BEST,
    QG__RUN_WHITENING,
    QG__RUN_FILES
} qg__run_file;

typedef struct qg__run_paths {
    char dir[QG__PATH_BYTES], file[QG__RUN_FILES][QG__PATH_BYTES];
} qg__run_paths;

/* Fails with QG_EARG: a path is too long, or dir is empty. */
QG_MUST_CHECK
qg_status qg__run_paths_of(const char *dir, qg__run_paths *p);

/* Fails with QG_EIO: there is no run of this name; the message names one that is below it. */
QG_MUST_CHECK
qg_status qg__run_absent(const char *name);

typedef struct qg__run {
    qg__run_paths       paths;
    int                 lock;               /* the directory, locked; QG_BY_PATH: not claimed */
    int                 base;               /* once it is claimed, the working directory of that time, in which paths.dir may begin,
                                               or AT_FDCWD */
    size_t              made;               /* of its path, by this process (qg__path_make) */
    const qg_fit_spec  *spec;               /* borrowed, like net */
    qg_net             *net;
    char                init_digest[QG__INIT_DIGEST];   /* of the weights of spec->init; empty: none */
    char               *identity;           /* the configuration, as checkpoints contain it */
    uint64_t            arithmetic;         /* the version that the checkpoint notes; 0: none is loaded */
    bool                other_matrix;       /* it names another matrix of whitening than this process has */
    qg_fit_span         was;                /* of the checkpoint that was loaded */
    qg__run_record      record;
    qg__code_stats      code_stats;
    qg__learned_list    learned;
    qg__metrics         metrics;
    qg_state           *last, *best;
    qg_ema             *ema;                /* NULL: no averages */
    qg_tape            *tape;
} qg__run;

/* Checks a spec by itself.  Fails as qg_fit. */
QG_MUST_CHECK
qg_status qg__fit_check(const qg_net *net, const qg_fit_spec *s);

/* Checks that images and batches of r->spec suit the net, and tells the program what is legal but bad.  Fails as qg_fit. */
QG_MUST_CHECK
qg_status qg__fit_check_net(const qg__run *r, const qg_net *net);

/* The last step up to this one in which a delayed quantizer of a weight or an input starts; 0: none does.  done: the step before
 * which it has started, instead, which is later if it must see a batch first. */
uint64_t  qg__last_start(qg_net *net, uint64_t step, bool done);
uint64_t  qg__first_quantized_epoch(const qg__run *r);      /* that ends with every quantizer started, from 1; 0: all do */

bool      qg__run_is_finished(const qg__run *r);
double    qg__run_rate(const qg__run *r, uint64_t step);    /* the learning rate */

/* Whether the spec has another span than the run that was loaded, and whether a run with this spec would be where this one is.  Fails with
 * QG_EARG. */
bool      qg__run_is_extended(const qg__run *r);
QG_MUST_CHECK
qg_status qg__run_check_extension(const qg__run *r);

/* Creates the directory of r->paths if necessary and locks it against other trainings.
 * Fails with QG_EIO, QG_EARG, and QG_ESTATE if the mode of r->spec excludes the run that it contains or
 * another training holds it. */
QG_MUST_CHECK
qg_status qg__run_claim(qg__run *r);

/* Declares the contents of the run's files: net, the optimizer of the spec, and the run's record.  r->init_digest is set
 * before. */
QG_MUST_CHECK
qg_status qg__run_compose(qg__run *r, qg_net *net, const qg_fit_spec *spec);

#define QG__RUN_FORMAT "qgrad 2"

/* Fails with QG_EFORMAT: the file at path is none. */
QG_MUST_CHECK
qg_status qg__run_no_checkpoint(const char *path);

/* Checks that a file with these notes, NULL where it lacks one, is a checkpoint with a checksum.  Fails with QG_EFORMAT. */
QG_MUST_CHECK
qg_status qg__run_check_format(const char *path, const char *format, const char *recipe, const char *checksum);

/* The note "steps" of QG__RUN_BEST.  Fails with QG_EFORMAT. */
QG_MUST_CHECK
qg_status qg__run_noted_steps(const char *path, const qg_state *s, uint64_t *steps);

/* The notes on a program's net: its canonical text (qg_net_print), or why only that program can declare it. */
#define QG__RUN_NET    "net"
#define QG__RUN_NO_NET "net-unprintable"

/* The configuration that checkpoints contain, from malloc; NULL: QG_EMEM. */
char     *qg__run_identity(const qg__run *r);

/* Whether noted, the configuration in the file at path, is that of r, but for its span, which was receives.  Fails with QG_EARG:
 * the message names the first line that differs; QG_EFORMAT. */
QG_MUST_CHECK
qg_status   qg__run_same(const qg__run *r, const char *noted, const char *path, qg_fit_span *was);

/* Checks that all ranks have the identity, the program, the kernels, the matrix of whitening and the weights of rank 0; otherwise they
 * would end in different weights, or wait for each other forever.  Kernels have the same bits, but ranks exchange weight
 * gradients in the order in which theirs pack them.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status   qg__run_check_ranks(const qg__run *r);

/* The version of the arithmetic under which this program trains a net, which need not be built. */
uint64_t    qg__arithmetic(const qg_net *net);

/* The version that a checkpoint notes.  NULL: 1, which was not noted. */
#define QG__RUN_ARITHMETIC "arithmetic"
uint64_t    qg__run_noted_arithmetic(const char *noted);

/* The version under which it is trained, and the check that a run that was loaded has that of its net.
 * Fails with QG_ESTATE. */
uint64_t    qg__run_arithmetic(const qg__run *r);
QG_MUST_CHECK
qg_status   qg__run_check_arithmetic(const qg__run *r);

/* The value of a key in such a text or a recipe's, up to the end of its line; NULL: it has no such line. */
const char *qg__identity_value(const char *text, const char *key);

/* Whether a program that calls qg_fit itself has such a text: its own configuration, to which train/identity.c adds lines.  NULL: no. */
bool        qg__identity_of_program(const char *text);

/* The operands that the net quantizes or could, from malloc; NULL: QG_EMEM.  A line is the name of a weight or
 * "LAYER.input", and its quantizer with every argument that has an effect: "conv1.weight ttq:threshold=0.05,.." or "float".
 * Before it is "folded " where a batch norm is folded into the weight first, and "own " if qg_quant_parse does not know
 * the scheme. */
char     *qg__run_operands(const qg_net *net);

/* Writes config.toml, the matrix of whitening, metrics.csv without rows, and the checkpoint before the first step.  A failure removes them
 * again, unless an earlier run that never began had left them, and the directory if qg__run_claim made it.  Fails with
 * QG_ESTATE if the directory contains a run that has begun but has no checkpoint. */
QG_MUST_CHECK
qg_status qg__run_create(qg__run *r);

/* *has: the locked directory, or else paths.dir, contains f.  Fails with QG_EIO. */
QG_MUST_CHECK
qg_status qg__run_has(const qg__run *r, qg__run_file f, bool *has);

/* Loads the run from last.safetensors and reads metrics.csv up to the checkpoint.  The files do not change until the
 * run continues.  Fails as qg_state_load, with QG_EFORMAT if a file is damaged or from an unknown version, and with
 * QG_EARG if the files belong to a run with another configuration. */
QG_MUST_CHECK
qg_status qg__run_load(qg__run *r);
QG_MUST_CHECK
qg_status qg__run_check_best(const qg__run *r);     /* Checks that best.safetensors, which cannot be regenerated, exists,
                                                       belongs to this run and is not older than it should be */
QG_MUST_CHECK
qg_status qg__run_check_whitening(const qg__run *r);    /* Checks that the file with the matrix, if it exists, has that of
                                                           the training images, which checkpoints name */
QG_MUST_CHECK
qg_status qg__run_keep_config(qg__run *r);          /* writes config.toml if it is missing or should be renewed, and
                                                       the matrix of whitening if it is missing */

/* Writes the configuration of an extended run, which has been loaded, to config.toml and best.safetensors.  The next checkpoint
 * completes that, and until then the run can be extended again. */
QG_MUST_CHECK
qg_status qg__run_extend(qg__run *r);

/* Loads the parameters, tracked arrays and record.steps of f, QG__RUN_LAST or QG__RUN_BEST, to use the net but not to
 * continue the run.  A run with averages loads these. */
QG_MUST_CHECK
qg_status qg__run_load_weights(qg__run *r, qg__run_file f);

/* Exchanges the weights of the net and their averages, if the run has any. */
void      qg__run_swap(qg__run *r);

/* Saves a finished epoch: first metrics.csv and best.safetensors, then result.json, then the checkpoint.  In this order
 * any of the writes may be the last that succeeds. */
QG_MUST_CHECK qg_status qg__run_add_epoch(qg__run *r, qg_epoch row, bool better);
QG_MUST_CHECK qg_status qg__run_save(qg__run *r);           /* the checkpoint */
QG_MUST_CHECK qg_status qg__run_save_best(qg__run *r);      /* the weights, or their averages, as best.safetensors */

/* Checks, before every write, that the path still names the locked directory, so that a run ends when its directory was
 * moved.  The files do not depend on this: all are in the locked directory, wherever it is.  Fails with QG_ESTATE,
 * QG_EIO. */
QG_MUST_CHECK qg_status qg__run_check_place(const qg__run *r);
QG_MUST_CHECK qg_status qg__run_cut_metrics(qg__run *r);    /* once, when a loaded run continues */

enum { QG__CHANCE_BYTES = 512 };

/* Whether after the epoch that r has just finished the images that choose the best epoch are classified
 * no better than if all got their most frequent class, up to two standard errors.  Writes this and the
 * likely cause to text: the training images are classified better; most of them have one class; all
 * codes of a weight are the same; a relu is before signs; a batch norm is missing beside a quantizer,
 * or after the last weights, which have no scale; or the learning rate, which in the last step was lr.
 * Always false in the first 100 steps of a run. */
bool qg__is_at_chance(const qg__run *r, double lr, char text[QG__CHANCE_BYTES]);

/* Passes a notice to the program, if it wants notices. */
void qg__run_notice(const qg__run *r, qg_fit_notice what, const char *text);

void qg__run_end(qg__run *r);                       /* frees what it has allocated, and unlocks */

#endif
