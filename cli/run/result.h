/* cli/run/result.h — result.json: how a run stands, and what it took.
 *
 * The object of `train --json` (cli/run/report.h) without the directory.  It is replaced with every checkpoint, and holds what no checkpoint may: times, and which
 * builds and machines have worked on the run.
 */
#ifndef CLI_RESULT_H
#define CLI_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

enum { RESULT_TEXT = 192 };

typedef struct result {
    /* As each process had them: one value, or "first, second" where they differ. */
    char     commit[RESULT_TEXT], cpu_path[RESULT_TEXT], blas_core[RESULT_TEXT];
    char     digest[RESULT_TEXT];               /* of the weights as they stand */
    double   test_accuracy, best_test_accuracy; /* NaN: no epoch is finished; so are the next two */
    double   test_accuracy_stderr;              /* binomial */
    double   train_loss;
    double   images_per_second;
    double   seconds;                           /* in all processes */
    uint64_t seed, epochs, best_epoch, test_images, threads;
    bool     complete;
} result;

/* Fails as qg_file_read, and with QG_EFORMAT: no JSON object, or a member is missing. */
QG_MUST_CHECK
qg_status result_read(result *r, const char *path);

/* What earlier processes had, and this one: "first, second", or one of them if that says it all. */
void      result_join(char to[RESULT_TEXT], const char *before, const char *now);

#endif
