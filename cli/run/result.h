/* cli/run/result.h — result.json: the state of a run, and its cost.
 *
 * The object of `train --json` (cli/run/report.h) without the directory, and a checksum of it as the last member.  It
 * is replaced with every checkpoint and holds what no checkpoint may contain: times, and the builds and machines that
 * worked on the run.  Files of older versions have no checksum.  If you edit a file by hand, remove its checksum.
 */
#ifndef CLI_RESULT_H
#define CLI_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/json.h"
#include "core/status.h"

enum { RESULT_TEXT = 192 };

typedef struct result {
    /* Values of all processes: one value, or "first, second" if they differ. */
    char     commit[RESULT_TEXT], cpu_path[RESULT_TEXT], blas_core[RESULT_TEXT];
    char     digest[RESULT_TEXT];               /* of the current weights */
    double   test_accuracy, best_test_accuracy; /* NaN: no epoch is finished; so are the next two */
    double   test_accuracy_stderr;              /* binomial */
    double   train_loss;
    double   images_per_second;
    double   seconds;                           /* in all processes */
    uint64_t seed, epochs, best_epoch, test_images, threads;
    bool     complete;
} result;

/* Fails as qg_file_read, and with QG_EFORMAT if the file is not a JSON object, lacks a member or is damaged. */
QG_MUST_CHECK
qg_status result_read(result *r, int dir, const char *path);

/* Replaces the file at path by the n bytes of an object, with its checksum.  Fails as qg_file_commit. */
QG_MUST_CHECK
qg_status result_write(int dir, const char *path, const char *object, size_t n);

/* Writes every member that result_read needs. */
void      result_put(json *j, const result *r);

/* Joins the value of earlier processes and that of this one: "first, second", or one of them if it includes the
 * other. */
void      result_join(char to[RESULT_TEXT], const char *before, const char *now);

#endif
