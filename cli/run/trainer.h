/* cli/run/trainer.h — the training loop: steps, epochs, checkpoints. */
#ifndef CLI_TRAINER_H
#define CLI_TRAINER_H

#include <signal.h>

#include "cli/run/progress.h"
#include "cli/config/recipe.h"
#include "cli/run/report.h"
#include "cli/run/run.h"

typedef struct trainer {
    const recipe *recipe;
    run         run;
    qg_loader  *train, *test;
    progress    progress;
    const volatile sig_atomic_t *stop;  /* nonzero: a signal asks the run to stop */
    double      began;                  /* the process, for --budget */
    double      budget;                 /* seconds; infinite: none */
    double      saved;                  /* when the last checkpoint was written */
    result      before;                 /* what earlier processes left; {0}: nothing */
    double      epoch_began;            /* in this process, less what earlier processes spent on it */
    double      stepping;               /* seconds in the steps of this epoch, in this process */
    uint64_t    stepped;                /* images of these steps */
} trainer;

/* Trains to the end of the last epoch, or until the run must stop; the checkpoint then records the position.  Fails as
 * the ops, the optimizer and the files do; the last good checkpoint remains. */
QG_MUST_CHECK
qg_status trainer_run(trainer *t);

bool      trainer_finished(const trainer *t);
uint64_t  trainer_batches(const trainer *t);    /* steps per epoch */
report    trainer_report(const trainer *t);     /* points into *t; without .program */
double    trainer_rate(const trainer *t);       /* images/s in this epoch, in this process */

#endif
