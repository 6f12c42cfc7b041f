/* train/reader.h — an open run (train/runs.h).  Internal. */
#ifndef QG_READER_H
#define QG_READER_H

#include "train/classes.h"
#include "train/columns.h"
#include "train/recipe_keys.h"
#include "train/run.h"
#include "train/runs.h"

struct qg_run {                         /* {0} is empty */
    qg__run_paths   paths;
    qg__run_file    file;               /* with the weights */
    qg_archive     *header;             /* of that file: names, shapes and notes */
    const char     *said;               /* what a program of its own noted; NULL: */
    qg_recipe       recipe;
    qg_shape        image;              /* of one image; {0}: not noted */
    int             classes;
    qg__class_names names;
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

/* Opens and loads the run at path, whose scores a student learns from on these images; r is empty, and to be closed also after a
 * failure.  Fails with QG_EARG: its images have another size, other classes, or are preprocessed differently; and as the above. */
QG_MUST_CHECK
qg_status qg__reader_teach(qg_run *r, const char *path, const qg_recipe *student, const qg_loader *images);
void      qg__reader_clear(qg_run *r);              /* qg_run_close of a run that is not from malloc */

/* The teacher that the recipe names, if it names one, and its digest; its location may change, its weights may not.  teacher is empty,
 * and to be cleared also after a failure.  Fails with QG_EARG, and as qg__reader_teach. */
QG_MUST_CHECK
qg_status qg__recipe_teacher(qg_recipe *r, bool goes_on, const qg_loader *images, qg_run *teacher);

#endif
