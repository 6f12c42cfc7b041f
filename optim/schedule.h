/* optim/schedule.h — the learning rate as a pure function of how far the run is.
 *
 * progress is 0 at the first step and 1 at the end of the last epoch, so a schedule written for 25
 * epochs anneals just as well in 10.
 */
#ifndef QG_SCHEDULE_H
#define QG_SCHEDULE_H

#include "core/status.h"

typedef enum qg_schedule_kind {
    QG_CONSTANT,            /* lr */
    QG_STEP,                /* lr * factor^(milestones passed) */
    QG_EXPONENTIAL,         /* lr * factor^progress: from lr to lr * factor */
    QG_COSINE               /* from lr to lr * factor along half a cosine */
} qg_schedule_kind;

enum { QG_MILESTONES = 8 };

typedef struct qg_schedule {
    qg_schedule_kind kind;
    float            factor;                        /* of the kind; 0: 0.1 for QG_STEP, 0 for QG_COSINE */
    float            milestone[QG_MILESTONES];      /* QG_STEP: increasing fractions in (0, 1) */
    int              n_milestones;
    float            warmup;                        /* linear from 0 over this first fraction, 0..1 */
} qg_schedule;

/* The learning rate at progress 0..1 when the base rate is lr. */
double    qg_schedule_lr(const qg_schedule *s, double lr, double progress);

/* "constant", "step:at=0.5+0.8,factor=0.1", "exponential:factor=0.003", "cosine:factor=0.01,warmup=0.05".
 * Fails with QG_EARG, naming the word that is wrong and the words there are; *out is then untouched. */
QG_MUST_CHECK
qg_status qg_schedule_parse(const char *text, qg_schedule *out);

/* The text that qg_schedule_parse turns back into *s; returns its length, as snprintf. */
int       qg_schedule_print(const qg_schedule *s, char *text, int bytes);

#endif
