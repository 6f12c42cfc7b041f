/* cli/run/metrics.h — metrics.csv: one row per epoch. */
#ifndef CLI_METRICS_H
#define CLI_METRICS_H

#include "cli/run/code_stats.h"
#include "cli/run/learned.h"
#include "cli/paths.h"

/* The columns that every run has, in order. */
typedef struct metrics_row {
    double epoch, lr;                       /* of the epoch's last step */
    double train_loss, train_accuracy;      /* over the epoch's steps, measured during training */
    double test_loss, test_accuracy;
    double images_per_second;               /* of the training steps alone */
    double seconds;                         /* steps, evaluation, files, in all processes */
} metrics_row;

typedef struct metrics {
    char       *text;                       /* the whole file */
    size_t      length;
    int         epochs;                     /* rows */
    double      seconds;                    /* the column's sum */
    double      slowness;                   /* sum of 1 / images_per_second over the rows that */
    int         rates;                      /* have it, and how many these are */
    metrics_row last;
    metrics_row best;                       /* the first epoch with the highest test_accuracy */
} metrics;

/* Writes the header.  After the columns of every run come two per row of the code statistics, conv1.zeros and
 * conv1.flipped, and one per learned or tracked value, conv1.weight.wp.  A value per channel has three columns,
 * conv1.weight.min.least, .mean and .greatest over the channels.
 * Fails with QG_EMEM. */
QG_MUST_CHECK qg_status metrics_begin(metrics *m, const code_stats *c, const learned_list *l);
QG_MUST_CHECK qg_status metrics_add(metrics *m, metrics_row row, const code_stats *c, const learned_list *l);

/* Reads the first `epochs` rows of a file; -1: all rows.  Fails with QG_EIO, QG_EMEM, and QG_EFORMAT if the rows are
 * not one per epoch or too few. */
QG_MUST_CHECK qg_status metrics_read(metrics *m, int dir, const char *path, int epochs);

/* Whether a file has any row; false if it does not exist.  Fails with QG_EIO, QG_EMEM. */
QG_MUST_CHECK qg_status metrics_has_rows(int dir, const char *path, bool *rows);

/* Of the rows without the columns that are times: what the configuration of a run determines. */
void                    metrics_digest(const metrics *m, char text[17]);
QG_MUST_CHECK qg_status metrics_write(const metrics *m, int dir, const char *path);     /* all or nothing */
double                  metrics_rate(const metrics *m);     /* images per second of all epochs */
void                    metrics_end(metrics *m);

#endif
