/* cli/run/event_file.h — event files for TensorBoard.
 *
 * A process that trains writes one file, events.out.tfevents.SECONDS.HOST.PID, and adds a record to it after each epoch.  A run that
 * resumes says with which epoch it goes on, so that TensorBoard forgets later ones of the process before.
 *
 * Format   Records of TensorFlow's TFRecord: length, checksum of it, bytes, checksum of them (CRC-32C, masked).  The bytes
 *          are a protocol buffer, tensorflow.Event.
 */
#ifndef CLI_EVENT_FILE_H
#define CLI_EVENT_FILE_H

#include <stdint.h>
#include <stdio.h>

#include "core/status.h"

typedef struct event_file {
    FILE *out;
} event_file;

/* A histogram: n numbers per bucket, bucket b having those up to limit[b]. */
typedef struct event_histogram {
    double        min, max, sum, squares;
    size_t        buckets;
    const double *limit, *count;
} event_histogram;

/* Creates a file in dir for a run that goes on with this step.  Fails with QG_EIO. */
QG_MUST_CHECK
qg_status event_file_begin(event_file *f, const char *dir, uint64_t step);

/* Add a record with one value and flush it. */
QG_MUST_CHECK
qg_status event_file_scalar(event_file *f, uint64_t step, const char *tag, double value);
QG_MUST_CHECK
qg_status event_file_histogram(event_file *f, uint64_t step, const char *tag, const event_histogram *h);
void      event_file_end(event_file *f);

#endif
