/* train/metrics.h — metrics.csv: one row per epoch.  Internal. */
#ifndef QG_METRICS_H
#define QG_METRICS_H

#include "train/code_stats.h"
#include "train/fit.h"
#include "train/learned.h"

typedef struct qg__metrics {
    char       *text;                       /* the whole file */
    size_t      length;
    int         epochs;                     /* rows */
    double      seconds;                    /* the sum of the column's positive values */
    double      slowness;                   /* sum of 1 / images_per_second over the rows that */
    int         rates;                      /* have it, and how many these are */
    double      best_from;                     /* the first epoch that counts, if there are any from it on */
    bool        validates;                  /* validation_loss and validation_accuracy instead of those of the test */
    bool        digests;                    /* has the column digest; files of older versions do not */
    bool        failed;                     /* for want of memory */
    qg_epoch    last;
    qg_epoch    best;                       /* the first epoch with the highest of these, of those that count */
} qg__metrics;

/* The column of a file that is text: the digest of the weights after each epoch. */
#define QG__METRICS_DIGEST "digest"

/* Writes the header.  After the columns of every run and the digest come two per row of the code statistics, conv1.zeros and
 * conv1.flipped, then the share of each code, conv1.code.0 being the lowest, if there are at most QG__SHARED_CODES, and one per
 * learned or tracked value, conv1.weight.wp.  A value per channel has three columns,
 * conv1.weight.min.least, .mean and .greatest over the channels.
 * Fails with QG_EMEM. */
QG_MUST_CHECK qg_status qg__metrics_begin(qg__metrics *m, bool validates, const qg__code_stats *c, const qg__learned_list *l);
QG_MUST_CHECK qg_status qg__metrics_add(qg__metrics *m, qg_epoch row, const qg__code_stats *c, const qg__learned_list *l);

/* Reads the first `epochs` rows of a file; -1: all rows.  Epochs before best_from count as the best only if there is no
 * later one.  Fails with QG_EIO, QG_EMEM, and QG_EFORMAT if the rows are
 * not one per epoch or too few. */
QG_MUST_CHECK qg_status qg__metrics_read(qg__metrics *m, int dir, const char *path, int epochs, uint64_t best_from);

/* Row i of those that were read or added, from 0.  False: there are no more. */
bool                    qg__metrics_row(const qg__metrics *m, int i, qg_epoch *row);

/* Whether a file has any row; false if it does not exist.  Fails with QG_EIO, QG_EMEM. */
QG_MUST_CHECK qg_status qg__metrics_has_rows(int dir, const char *path, bool *rows);

/* Of the rows without the columns that are times: what the configuration of a run determines. */
void                    qg__metrics_digest(const qg__metrics *m, char text[17]);
QG_MUST_CHECK qg_status qg__metrics_write(const qg__metrics *m, int dir, const char *path);     /* all or nothing */
double                  qg__metrics_rate(const qg__metrics *m);     /* images per second of all epochs */
void                    qg__metrics_end(qg__metrics *m);

#endif
