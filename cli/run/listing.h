/* cli/run/listing.h — runs that exist: their state, their results, and how their configurations differ.
 *
 * Reading locks and changes nothing, so a run may be training meanwhile.
 */
#ifndef CLI_LISTING_H
#define CLI_LISTING_H

#include "cli/config/config.h"
#include "core/io/json_write.h"
#include "train/fit.h"

typedef enum listed_state {
    LISTED_RUNNING,         /* a process is training it */
    LISTED_FINISHED,
    LISTED_BUDGET,          /* its --budget ended it; --resume continues this one and the next two */
    LISTED_STOPPED,         /* a signal ended it */
    LISTED_KILLED,          /* its process was killed or failed */
    LISTED_DAMAGED,         /* a file is damaged or missing */
    LISTED_FOREIGN,         /* a directory without a run in it or below it */
    LISTED_STATES
} listed_state;

typedef struct listed {
    char         *dir;
    listed_state  state;
    char         *why;                      /* of LISTED_DAMAGED and of a run without configuration; else NULL */
    qg_recipe    *recipe;                   /* NULL: qg_fit trained it in another program, or not known */
    qg_fit_result result;                   /* so far; accuracies that are not known are NaN */
} listed;

/* {0} is empty. */
typedef struct listing {
    listed *item;
    size_t  count;
} listing;

/* Appends dir, whatever it is.  Fails with QG_EMEM, QG_EARG (the path is too long). */
QG_MUST_CHECK
qg_status   listing_add(listing *l, const char *dir);

/* Appends dir, if it contains a run, or else the runs below it, and the directories in which and below which there is none.
 * Hidden directories are left out.  Fails as listing_add, and with QG_EIO: dir cannot be read. */
QG_MUST_CHECK
qg_status   listing_walk(listing *l, const char *dir);
void        listing_free(listing *l);

/* Sorts by the column that key names: accuracies from the highest, everything else upwards, numbers before other texts and
 * what is not known last; NULL: by directory.  Fails with QG_EARG: there is no such column. */
QG_MUST_CHECK
qg_status   listing_sort(listing *l, const char *key);

/* A table for people.  Fails with QG_EMEM. */
QG_MUST_CHECK
qg_status   listing_print(const listing *l, FILE *out);
void        listing_print_csv(const listing *l, FILE *out);
void        listing_put(qg__json *j, const listing *l);     /* the member "runs":[{..},..] */

#endif
