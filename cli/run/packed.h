/* cli/run/packed.h — a packed file, loaded to run on several threads. */
#ifndef CLI_PACKED_H
#define CLI_PACKED_H

#include <stdbool.h>
#include <stdint.h>

#include "core/io/json_write.h"
#include "core/tensor.h"
#include "core/status.h"
#include "infer/infer.h"

typedef struct packed_net {
    const qg_infer *net;
    qg_shape        image;          /* of one image, n = 1 */
    int             scores;         /* of one image */
    size_t          bytes;          /* of the file */
    unsigned char  *memory;

    /* Set by packed_prepare. */
    int             batch;          /* images of one call of the engine */
    unsigned char  *context;
    size_t          context_bytes;  /* of one thread */
    int             threads;        /* how many of them */
} packed_net;                       /* {0} is empty */

/* Loads the file.  Fails with QG_EIO, QG_EFORMAT, QG_EMEM; the message names the file.  packed_close, also after a failure. */
QG_MUST_CHECK
qg_status packed_open(packed_net *p, const char *path, qg_infer_requantize how);

/* The same of a file in memory, which need not last; path: for messages. */
QG_MUST_CHECK
qg_status packed_load(packed_net *p, const char *path, const unsigned char *file, size_t bytes, qg_infer_requantize how);

/* Makes a context for each of qg_threads() threads, each for batches of so many images.  A hostile file may ask for a lot of
 * memory here, so what images it takes should have been checked.  Fails with QG_EMEM. */
QG_MUST_CHECK
qg_status packed_prepare(packed_net *p, int batch);

/* scores [n][p->scores] of n images [n][h][w][c] of bytes, by batches on all threads.  path: for messages.  Fails with QG_EARG:
 * the file has no normalisation. */
QG_MUST_CHECK
qg_status packed_score(const packed_net *p, const char *path, int n, const uint8_t *images, float *scores);

/* The microseconds of an image in each step, the least of the calls in so many seconds: *us [steps], for free, also
 * after a failure.  One thread runs as many images at a time as pass through all steps together.  They are black: the
 * time of no step depends on what they show.  path: for messages.  Fails with QG_EMEM and as qg_infer_run. */
QG_MUST_CHECK
qg_status packed_profile(const packed_net *p, const char *path, double seconds, double **us);

/* What --profile shows, of packed_profile.  wide: columns for what a step does. */
void      packed_print_profile(const packed_net *p, const double *us, int wide);
void      packed_json_profile(const packed_net *p, const double *us, qg__json *j);

/* What the engine says, as a failure; QG_OK for QG_INFER_OK. */
QG_MUST_CHECK
qg_status packed_status(const char *path, qg_infer_status s);
void      packed_close(packed_net *p);

#endif
