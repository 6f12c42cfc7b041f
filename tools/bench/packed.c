#include "tools/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/kernels/parallel.h"
#include "infer/infer.h"
#include "layers/export/export.h"

enum { MOST_CALLS = 1 << 20, LEAST_CALLS = 3 };

#define NAME "the packed net"           /* in messages */

typedef struct lab {
    packed_net     *p;
    bool            own;                    /* each thread runs batches of its own; else they share each */
    double          limit;                  /* seconds */
    const float    *images;
    float          *result;                 /* [threads][batch][scores] */
    double         *seconds;                /* of each call: [threads][MOST_CALLS / threads] */
    int             calls[QG_MAX_THREADS];
    qg_infer_status status[QG_MAX_THREADS]; /* of each worker */
} lab;

/* Images first .. end - 1. */
static void run(lab *l, int worker, size_t first, size_t end, float *to)
{
    const packed_net     *p   = l->p;
    void                 *own = p->context + (size_t)worker * p->context_bytes;
    const qg_infer_status s   = qg_infer_run(p->net, (int)(end - first), l->images + first * qg_row(p->image), to, own,
                                             p->context_bytes);
    if (s) l->status[worker] = s;
}

static void run_share(void *context, int piece, int worker)
{
    lab         *l     = context;
    const size_t batch = (size_t)l->p->batch, threads = (size_t)l->p->threads, first = batch * (size_t)piece / threads;
    run(l, worker, first, batch * (size_t)(piece + 1) / threads, l->result + first * (size_t)l->p->scores);
}

static bool another(int calls, int most, double since, double limit)
{
    return calls < LEAST_CALLS || (calls < most && qg__now() - since < limit);
}

static void run_own(void *context, int piece, int worker)
{
    lab          *l     = context;
    const size_t  batch = (size_t)l->p->batch;
    const int     most  = MOST_CALLS / l->p->threads;
    double       *took  = l->seconds + (size_t)piece * (size_t)most;
    int           calls = 0;
    for (const double began = qg__now(); another(calls, most, began, l->limit); calls++) {
        const double from = qg__now();
        run(l, worker, 0, batch, l->result + (size_t)piece * batch * (size_t)l->p->scores);
        took[calls] = qg__now() - from;
    }
    l->calls[piece] = calls;
}

static void run_all(lab *l)
{
    if (l->own) {
        qg_parallel(l->p->threads, run_own, l);
        return;
    }
    int calls = 0;
    for (const double began = qg__now(); another(calls, MOST_CALLS, began, l->limit); calls++) {
        const double from = qg__now();
        qg_parallel(l->p->threads, run_share, l);
        l->seconds[calls] = qg__now() - from;
    }
    l->calls[0] = calls;
}

static qg_status measure(lab *l, double limit, packed_speed *s)
{
    const packed_net *p = l->p;
    l->own = p->batch < p->threads;
    run_all(l);                             /* warms up */
    l->limit = limit;
    const double began = qg__now();
    run_all(l);
    const double wall = qg__now() - began;
    for (int i = 0; i < p->threads; i++) {
        if (l->status[i]) return packed_status(NAME, l->status[i]);
        memmove(l->seconds + s->calls, l->seconds + (size_t)i * (size_t)(MOST_CALLS / p->threads),
                (size_t)l->calls[i] * sizeof *l->seconds);
        s->calls += l->calls[i];
    }
    s->median_us         = 1e6 * bench_median(l->seconds, s->calls);
    s->p99_us            = 1e6 * l->seconds[(size_t)s->calls * 99 / 100];
    s->images_per_second = l->own ? p->batch * s->calls / wall : 1e6 * p->batch / s->median_us;
    return QG_OK;
}

/* --- the net ------------------------------------------------------------------------------------ */

qg_status packed_speed_measure(const qg_net *net, int batch, const float *images, double seconds, bool profiled, packed_speed *s)
{
    packed_net    *p     = &s->net;
    lab            l     = { .p = p, .images = images };
    unsigned char *file  = NULL;
    size_t         bytes = 0;
    *s                   = (packed_speed){ 0 };
    qg_status status     = qg_export_bytes(net, (qg_export_spec){ .floats_only = true }, &file, &bytes);
    if (!status) status = packed_load(p, NAME, file, bytes, (qg_infer_requantize)0);
    if (!status) status = packed_prepare(p, batch);
    if (!status) {
        l.result         = malloc((size_t)p->threads * (size_t)batch * (size_t)p->scores * sizeof *l.result);
        l.seconds        = malloc(MOST_CALLS * sizeof *l.seconds);
        if (!l.result || !l.seconds) status = qg_fail(QG_EMEM, "out of memory for the results of a packed net");
    }
    if (!status) status = measure(&l, seconds, s);
    if (!status && profiled) status = packed_profile(p, NAME, seconds, &s->step_us);
    free(file), free(l.result), free(l.seconds);
    return status;
}

void packed_speed_free(packed_speed *s)
{
    packed_close(&s->net);
    free(s->step_us);
    *s = (packed_speed){ 0 };
}

/* --- printing ----------------------------------------------------------------------------------- */

void packed_speed_print(const packed_speed *s)
{
    printf("%.0f images/s, %.1f us per call (median of %d; 99th percentile %.1f), file %zu bytes, weights in memory %zu, context %zu\n",
           s->images_per_second, s->median_us, s->calls, s->p99_us, s->net.bytes, qg_infer_weight_bytes(s->net.net),
           s->net.context_bytes);
    if (s->step_us) packed_print_profile(&s->net, s->step_us, 40);
}

void packed_speed_json(const packed_speed *s, qg__json *j)
{
    qg__json_real(j, "images_per_second", s->images_per_second);
    qg__json_real(j, "median_us", s->median_us);
    qg__json_real(j, "p99_us", s->p99_us);
    qg__json_integer(j, "calls", (uint64_t)s->calls);
    qg__json_integer(j, "file_bytes", s->net.bytes);
    qg__json_integer(j, "weight_bytes", qg_infer_weight_bytes(s->net.net));
    qg__json_integer(j, "context_bytes", s->net.context_bytes);
    if (s->step_us) packed_json_profile(&s->net, s->step_us, j);
}
