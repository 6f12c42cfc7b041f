/* cli/run/report.h — reports of a run and its results, as text and as JSON. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <stdio.h>

#include "cli/json.h"
#include "cli/config/config.h"
#include "cli/run/result.h"
#include "cli/run/run.h"

typedef struct report {
    const char   *program;          /* how this one was called, for the commands to try next */
    const run    *run;
    const result *before;           /* what earlier processes left; {0}: nothing */
    double        seconds;          /* of the epoch that is not finished */
    double        rate;             /* images per second over all known steps */
} report;

/* Binomial standard error of a proportion p of n. */
double report_error(double p, uint64_t n);

/* Adds memory, threads, BLAS core, kernels and commit. */
void   report_machine(json *j);
size_t peak_rss_bytes(void);
void   report_digest(const qg_net *net, char text[17]);

void   report_head(const report *r, FILE *out, const qg_loader *train, const qg_loader *test);
void   report_result(const report *r, FILE *out);
void   report_json(const report *r, FILE *out);

/* Writes the same to the run's result.json, atomically.  Fails as qg_file_commit. */
QG_MUST_CHECK
qg_status report_save(const report *r);

#endif
