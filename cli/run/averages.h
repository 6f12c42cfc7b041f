/* cli/run/averages.h — the results of a sweep: means and deviations over the runs that differ in their seeds alone. */
#ifndef CLI_AVERAGES_H
#define CLI_AVERAGES_H

#include "cli/config/lists.h"
#include "cli/run/listing.h"

enum { AVERAGES_VALID, AVERAGES_TEST, AVERAGES_BEST, AVERAGES_SECONDS, AVERAGES };

/* Runs that differ in their seeds alone. */
typedef struct average {
    int    combination;     /* the first of them */
    int    runs, finished;
    double mean[AVERAGES];          /* over the finished ones; NaN: none has it */
    double deviation[AVERAGES];     /* of n - 1; NaN: fewer than two have it */
} average;

/* {0} is empty.  asked, whose lists the combinations are of, is borrowed. */
typedef struct averages {
    const config *asked;
    average      *item;
    int           count;
    const option *shown[OPTIONS];   /* those with several values, but the seed */
    int           options;
} averages;

/* combination[i] is what the i-th of the runs is of.  Fails with QG_EMEM. */
QG_MUST_CHECK
qg_status averages_of(const config *asked, const int *combination, const listing *runs, averages *a);

/* A row for each, with its values of the lists and the columns of qgrad runs.  Fails with QG_EMEM. */
QG_MUST_CHECK
qg_status averages_print(const averages *a, FILE *out);
void      averages_print_csv(const averages *a, FILE *out);
void      averages_put(qg__json *j, const averages *a);     /* the member "groups":[{..},..] */
void      averages_free(averages *a);

#endif
