/* train/reader.h — an open run (train/runs.h).  Internal. */
#ifndef QG_READER_H
#define QG_READER_H

#include "train/recipe_keys.h"
#include "train/run.h"
#include "train/runs.h"

/* What the classes are called. */
typedef struct qg__class_names {
    int          n;
    const char **name;          /* [n], UTF-8 that is safe to print */
    char        *text;          /* of all names */
} qg__class_names;              /* {0} is empty */

/* The names of n classes: those in noted, which a checkpoint has as "class-names" ("cat/dog"), or else, and if it is NULL or
 * has another number of names, the numbers of the classes.  data is the name of the data set or NULL: numbers of classes
 * of a known set become words (qg_data_class).  Fails with QG_EMEM. */
QG_MUST_CHECK
qg_status     qg__class_names_begin(qg__class_names *c, const char *noted, const char *data, int n);

/* *joined: all names as a note, "cat/dog", the caller's to free(); NULL: they are the numbers of the classes.
 * Fails with QG_EMEM. */
QG_MUST_CHECK
qg_status     qg__class_names_join(const qg__class_names *c, char **joined);
void          qg__class_names_end(qg__class_names *c);

/* metrics.csv (train/columns.c). */
typedef struct qg__columns {
    char    *text;              /* the header line, cut into names; NULL: they are those of another */
    char   **name;              /* [columns] */
    double **column;            /* [columns][rows]; NaN where the file has none; may be infinite */
    int      columns, rows;
} qg__columns;                  /* {0} is empty */

/* Reads the whole rows of the file at path.  Fails with QG_EIO, QG_EMEM, and QG_EFORMAT: there is no column "epoch", or a row
 * has more or fewer fields than the header, or one that is no number. */
QG_MUST_CHECK
qg_status     qg__columns_read(qg__columns *t, const char *path);
const double *qg__columns_find(const qg__columns *t, const char *name);     /* NULL: there is none */

void          qg__columns_free(qg__columns *t);

struct qg_run {                         /* {0} is empty */
    qg__run_paths   paths;
    qg__run_file    file;               /* with the weights */
    qg_archive     *header;             /* of that file: names, shapes and notes */
    const char     *said;               /* what the program that trained it noted; NULL: */
    qg_recipe       recipe;
    qg_shape        image;              /* of one image */
    int             classes;
    qg__class_names names;
    char           *own_names;          /* of its own data set, as a note; NULL: not asked for yet, or numbers */
    qg_net         *net;                /* NULL: not loaded yet */
    int             built;              /* for so many classes */
    bool            starts;             /* QG_RUN_START */
    bool            averaged;           /* its weights are averages */
    uint64_t        steps;
    qg_tape        *tape;
    qg_preprocess  *as;                 /* NULL: not read yet */
    float          *x;                  /* the images that are preprocessed at a time, [n][h][w][c] */
    qg__columns     columns;
};

/* Makes the net for such images and loads the weights, unless they are.  Fails as qg_run_net. */
QG_MUST_CHECK
qg_status qg__reader_load(qg_run *r, qg_shape image, int classes);

/* Fails with QG_EARG: only the program that trained it can compute the net of r. */
QG_MUST_CHECK
qg_status qg__reader_of_program(const qg_run *r);

/* A second net with the weights that r has loaded, for such images, and with the quantizers of another recipe; what the quantizers
 * of r learned goes to the same quantizers.  init says what came of it.
 *
 * Memory   The caller's; qg_net_free.
 * Fails    NULL.  QG_EARG: the recipe, or the file has other weights than the net, because the run tests averages; and as
 *          qg__init_weights. */
qg_net   *qg__reader_net(const qg_run *r, const qg_recipe *as, qg_shape image, int classes, qg__init_report *init);

/* qg__init_weights from the run or file at source.  If it is a run whose net this program can build, the values of a quantizer go
 * only to the same quantizer, since a step learned with 8 bits is no start for 2. */
QG_MUST_CHECK
qg_status qg__reader_init(qg_net *net, const char *source, const char *except, qg__init_report *init);

/* Opens and loads the run at path, whose scores a student learns from on these images; r is empty, and to be closed also after a
 * failure.  Fails with QG_EARG: its images have another size, other classes, or are preprocessed differently; and as the above. */
QG_MUST_CHECK
qg_status qg__reader_teach(qg_run *r, const char *path, const qg_recipe *student, const qg_loader *images);
void      qg__reader_clear(qg_run *r);              /* qg_run_close of a run that is not from malloc */

/* --- a net that only another program can declare (train/stored_net.c) ------------------------ */

/* Checkpoints of a program that calls qg_fit note the text of its net, unless a layer or a scheme is its own or an earlier version
 * wrote them.  Then there are the weights and what quantizers learned, by name, and notes of the quantizers
 * (qg__run_operands), which is all that pictures of weights and counts of codes need.
 *
 * A built net with a layer for each layer with weights or a quantizer of inputs in the checkpoint at path, in their order.
 * Weights are those that tests use: their averages, if the run has some.  It computes nothing.
 *
 * Memory   The caller's; qg_net_free.
 * Fails    NULL.  As qg_archive_open; QG_EFORMAT: what it notes does not fit its arrays, or there are no weights; QG_EMEM. */
qg_net     *qg__stored_net(const char *path);

/* --- the weights of another program (train/foreign.c) ---------------------------------------- */

/* Fills a built net without quantizers; qg_run_import states the rules.  *pairs receives a line
 * "LAYER MODULE" for each layer with parameters, as in a map; the caller's to free().
 *
 * Fails as qg_run_import; values of the net are then undefined, and *pairs is NULL. */
QG_MUST_CHECK
qg_status   qg__foreign_load(qg_net *net, const qg_run_import_spec *spec, char **pairs);

#endif
