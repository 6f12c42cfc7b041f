/* train/made.h — a run that no training made: its net has weights from elsewhere.  Internal. */
#ifndef QG_MADE_H
#define QG_MADE_H

#include "train/measure.h"
#include "train/recipe_keys.h"
#include "train/run.h"

typedef struct qg__made {
    qg_recipe     recipe;       /* its configuration, every key; it owns this, the net and the loaders */
    qg_net       *net;
    qg_loader    *train;        /* what its files note of images */
    qg_loader    *test;         /* NULL: it is not measured */
    double        began;
    qg__measured  measured;     /* on test; {0} without */
    qg__measured  validated;    /* on the validation images; {0} without */
    qg_optim     *optim;        /* whose moments are in the checkpoint */
    qg_fit_spec   spec;
    qg__run       run;
} qg__made;

qg__made  qg__made_begin(void);         /* empty, and its time begins */

/* Checks that dir is free, before work is done for it.  Fails with QG_ESTATE: it exists; QG_EIO. */
QG_MUST_CHECK
qg_status qg__made_check_dir(const char *dir);

/* Measures the net and writes a run before its first step to dir, which must not exist.  The
 * directory appears with all files or not at all: they are written to DIR.part, which is then
 * renamed.  With epochs 0 it is complete.
 *
 * Memory   qg__made_end, also after a failure.  Fails as qg__measure and the files. */
QG_MUST_CHECK
qg_status qg__made_write(qg__made *m, const char *dir);
void      qg__made_end(qg__made *m);

#endif
