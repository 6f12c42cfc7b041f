/* tools/bench/packed.h — qgrad bench packed: a net in the engine. */
#ifndef TOOLS_BENCH_PACKED_H
#define TOOLS_BENCH_PACKED_H

#include <stddef.h>

#include "core/io/json_write.h"
#include "core/status.h"
#include "layers/net.h"

typedef struct packed_speed {
    double images_per_second;
    double median_us, p99_us;       /* of a call */
    int    calls;
    size_t file_bytes, weight_bytes, context_bytes;     /* weights: packed for the kernels; context: of a thread */
    int    steps;
    char  *names;                   /* of the steps: layer and kind in turn, each ended by a zero byte */
    double *step_us;                /* of one image, in the fastest call; both NULL without profile */
} packed_speed;                     /* {0} is empty */

/* Packs the net, with the weights that it has, and runs it on images [batch][h][w][c] on qg_threads() threads for so many seconds.
 * A call is one batch, of which each thread has an equal part; where the batch is smaller than the number of threads, each runs
 * batches of its own, and the time of a call is that of one of them.  Fails as qg_export_packed, and with QG_EMEM.
 * packed_speed_free, also after a failure. */
QG_MUST_CHECK
qg_status packed_speed_measure(const qg_net *net, int batch, const float *images, double seconds, bool profile, packed_speed *s);
void      packed_speed_free(packed_speed *s);

void packed_speed_print(const packed_speed *s);
void packed_speed_json(const packed_speed *s, qg__json *j);

#endif
