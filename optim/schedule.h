/* optim/schedule.h — the learning rate as a pure function of the progress of a run.
 *
 * progress is 0 at the first step and 1 at the end of the last epoch, so the same schedule fits a
 * run of any length.
 */
#ifndef QG_SCHEDULE_H
#define QG_SCHEDULE_H

#include "core/io/keys.h"

typedef enum qg_schedule_kind {
    QG_CONSTANT,            /* lr */
    QG_STEP,                /* lr * factor^(milestones passed) */
    QG_EXPONENTIAL,         /* lr * factor^progress: from lr to lr * factor */
    QG_COSINE,              /* from lr to lr * factor along half a cosine */
    QG_LINEAR               /* from lr to lr * factor along a straight line */
} qg_schedule_kind;

/* The names of the kinds in text, with their keys. */
extern const qg_variant qg_schedules[];

enum { QG_MILESTONES = 8 };

typedef struct qg_schedule {
    qg_schedule_kind kind;
    float            factor;                   /* see the kinds; 0: 0.1 for QG_STEP */
    float            milestone[QG_MILESTONES]; /* QG_STEP: increasing fractions in (0, 1) */
    int              n_milestones;             /* at most QG_MILESTONES; others are ignored */
    float            every;                    /* QG_STEP: a further milestone at each multiple of
                                                  this fraction in [0.0001, 1) */
    float            warmup;                   /* linear from 0 over this first fraction, 0..1 */
} qg_schedule;                                 /* {0} is constant */

/* The learning rate at progress 0..1 when the base rate is lr.  A milestone counts as passed when
 * progress, rounded to float, has reached it.  During warm-up the rate is multiplied by
 * progress / warmup; milestones do not move.
 *
 * Range    progress outside 0..1 is clamped; NaN gives NaN, unless the rate is constant.
 *          QG_EXPONENTIAL with factor 0 is lr at 0, then 0.  s may be NULL: lr.
 */
double    qg_schedule_lr(const qg_schedule *s, double lr, double progress);

/* Returns s for a run of `more` epochs instead of `epochs`, with milestones and warm-up in the
 * same epochs.  Kinds other than QG_CONSTANT and QG_STEP depend on the end of the run and keep
 * their fields, so their rates differ from the first step on.
 *
 * Range    epochs and more are at least 1.  The result may have fractions that are too small for
 *          qg_schedule_parse; qg_schedule_check reports them. */
qg_schedule qg_schedule_extend(const qg_schedule *s, int epochs, int more);

/* "constant", "step:at=0.5+0.8,factor=0.1", "step:every=0.25,factor=0.5",
 * "exponential:factor=0.003", "cosine:factor=0.01,warmup=0.05", "linear": a kind, then keys
 * in any order.  step needs either at= or every=, exponential needs factor=.
 *
 * Range    at: 1 to QG_MILESTONES increasing fractions in (0, 1); every: [0.0001, 1); warmup:
 *          0..1; factor: more than 0, for cosine and linear also 0; it may exceed 1.  Numbers are
 *          decimal, without blanks.
 * Fails    QG_EARG: the message names the unknown key and the available ones, or the value and its
 *          legal range.  *out is then unchanged.
 */
QG_MUST_CHECK
qg_status qg_schedule_parse(const char *text, qg_schedule *out);

/* Writes the text that qg_schedule_parse reads as *s, and returns its length like snprintf.  s is
 * a schedule that qg_schedule_check accepts, or NULL for the constant rate.  Fields that the kind
 * does not use are left out.  256 bytes are always enough. */
int       qg_schedule_print(const qg_schedule *s, char *text, int bytes);

/* Checks a schedule that did not come from text: its kind must exist, and qg_schedule_parse must
 * accept its values.  NULL is the constant rate.  Fails with QG_EARG; the message names the kind
 * or the value. */
QG_MUST_CHECK
qg_status qg_schedule_check(const qg_schedule *s);

#endif
