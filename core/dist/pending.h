/* core/dist/pending.h — gradients on their way between ranks while the backward pass goes on (internal).
 *
 *     qg__reduce(t, y, b, sum, n, add);   in y's backward
 *     ..                                  the backward of other layers
 *     add(t, y, total);                   when the sum of all ranks is there
 *
 * Until then the gradients of y's operands that do not count images, which add adds to, are incomplete: every op that reads or
 * adds to one is put off (qg__hook).  So each gradient is added up in the same order as without ranks.
 *
 * Every rank sends each part of its numbers to the rank that adds them up, and that one sends the sum to all.  Messages of
 * all gradients are under way at once, and move on between two ops.
 */
#ifndef QG_PENDING_H
#define QG_PENDING_H

#include "core/dist/exchange.h"
#include "core/slices.h"

typedef struct qg__pending {
    struct qg__pending *next;
    qg_var      *y;
    qg__add      add;
    float       *data;              /* [n] */
    float       *part;              /* [ranks - 1][stride] what the others have of this one's part, to be added up */
    size_t       n, stride, bytes;  /* bytes: of this buffer */
    size_t       start[QG_SLICES + 1];      /* start[r] .. start[r + 1] of data is rank r's part */
    bool         summed;            /* this rank's part is complete, and goes to the others */
    qg__transfer messages;
} qg__pending;

/* A buffer for n numbers, which are to be added up, or gathered.  Waits for earlier ones if too much is under way.  NULL: the
 * step has failed. */
qg__pending *qg__pending_new(qg_tape *t, qg_var *y, size_t n, bool adds);

/* Sends off data, of which data + start[r] .. data + start[r + 1] is what rank r has: add will get all of it.  false: the step
 * has failed. */
bool qg__pending_gather(qg_tape *t, qg__pending *p, const size_t *start, qg__add add);

#endif
