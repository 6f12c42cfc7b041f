/* cli/report/follow.h — what training shows after each epoch: report.html, lines about the codes.
 *
 * All of it is read from the run directory, whose checkpoint has just been saved, so `qgrad report` can make the same page
 * later.  The run does not depend on it.
 */
#ifndef CLI_REPORT_FOLLOW_H
#define CLI_REPORT_FOLLOW_H

#include "cli/report/gather.h"

#define KEPT_PAGE "report.html"

typedef struct follower {
    const qg_loader *test;      /* other images are called validation */
    bool        codes;          /* print lines about flips and zeros on stderr */
    qg_loader  *images;         /* that were read last, */
    mistakes    found;          /* and what was wrong with them */
    qg_loader  *uncounted;      /* images with scores that could not be counted in this epoch; NULL: none */
    shown_layer *layer;         /* [layers of the net], of the newest page: their start does not change */
} follower;                     /* the caller sets the first two, the rest is 0 */

/* Counts the scores of the next batch of images. */
void      follow_scores(follower *f, qg_loader *images, const qg_batch *b, const qg_var *scores);

/* After an epoch of the run in dir, and when the test images have been read at the end, then without .codes.  Fails as
 * shown_run_read and page_write. */
QG_MUST_CHECK
qg_status follow_run(follower *f, const char *dir);
void      follow_end(follower *f);

#endif
