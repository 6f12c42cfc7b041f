/* cli/run/report.h — reports of a run and its results, as text and as JSON. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <stdio.h>

#include "cli/config/config.h"
#include "cli/run/run_spec.h"
#include "core/io/json_write.h"
#include "train/fit.h"

typedef struct report {
    const char        *program;         /* how this one was called, for the commands to try next */
    const qg_training *of;
    const run_paths   *paths;
    qg_fit_result      result;          /* of report_result */
    const char        *page;            /* of report_result: a file of the run, named if it exists; NULL: none */
} report;

/* Prints the warning of a loader, if it has one, on stderr. */
void report_warning(const qg_loader *images);

/* Warns if a scheme is not "float", but no layer has a tensor of this role for it.  Both texts are as a recipe
 * has them; NULL: unset. */
void report_unused(const qg_net *net, qg_role role, const char *scheme, const char *first_last);

/* Adds memory, threads, kernels and commit. */
void report_machine(qg__json *j);

/* The line "bytes  N as float, M packed: .." */
qg_status report_bytes(const qg_net *net, FILE *out);

void report_head(const report *r, FILE *out);
void report_result(const report *r, FILE *out);

#endif
