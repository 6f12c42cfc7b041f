/* train/distil.h — the scores of a teacher as soft targets.  Internal. */
#ifndef QG_DISTIL_H
#define QG_DISTIL_H

#include "core/io/keys.h"
#include "train/fit.h"

/* "temperature=4,weight=0.9": in the order of the constants below. */
extern const qg_key qg__distil_keys[];
enum { QG__DISTIL_TEMPERATURE, QG__DISTIL_WEIGHT, QG__DISTIL_KEYS };

/* Replaces zeros by the defaults, and checks that net can learn from the teacher.  Fails with QG_EARG, QG_ESHAPE,
 * QG_ESTATE (the teacher is not built). */
QG_MUST_CHECK
qg_status qg__teacher_check(const qg_net *net, qg_fit_teacher *t);

/* The loss of a step with a teacher: loss is that of the labels, scores are those of the student on t, and the teacher
 * runs on a tape of its own.  NULL as the ops. */
qg_var   *qg__distil(const qg_fit_teacher *teacher, qg_tape *of_teacher, qg_tape *t, qg_var *scores, qg_var *loss,
                     const qg_batch *b);

#endif
