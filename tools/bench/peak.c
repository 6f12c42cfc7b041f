/* qgrad bench peak: the limits that measured speeds are held against; bench memory: an op that memory limits beside one of them. */
#include <stdio.h>
#include <stdlib.h>

#include "tools/bench/bench.h"
#include "cli/run/report.h"
#include "core/clock.h"
#include "core/kernels/cpu.h"
#include "core/kernels/parallel.h"
#include "core/ops/ops.h"
#include "tools/bench/peak_kernel.h"

/* Three arrays of 64 MiB, beyond any cache but the largest. */
enum { TRIAD_FLOATS = 1 << 24, MOST_LANES = 16, MOST_COUNTS = 16, LEAST_ROUNDS = 5 };

/* A round this long makes starting the threads and reading the clock vanish. */
#define ROUND_SECONDS 0.01

/* More than the thread counts 1, 2, 4, .. and the last one. */
_Static_assert(1 << (MOST_COUNTS - 2) > QG_MAX_THREADS, "MOST_COUNTS holds every thread count");

typedef struct peak {
    const qg__peak_kernels *kernels;
    long                    turns;
    int                     pieces;     /* as many as threads: one each */
    float                  *a, *b, *c;
} peak;

typedef struct peak_row {
    int    threads;
    double gflops, gbytes;      /* per second, in the fastest round: others were disturbed */
} peak_row;

static void multiply_add(void *context, int piece, int worker)
{
    const peak        *p                                = context;
    _Alignas(64) float s[QG_PEAK_CHAINS * MOST_LANES] = { 0 };
    p->kernels->multiply_add(p->turns, 0.5f, 1.0f, s);
}

static void triad(void *context, int piece, int worker)
{
    const peak  *p  = context;
    const size_t i0 = (size_t)TRIAD_FLOATS * (size_t)piece / (size_t)p->pieces;
    const size_t i1 = (size_t)TRIAD_FLOATS * ((size_t)piece + 1) / (size_t)p->pieces;
    p->kernels->triad(i1 - i0, p->b + i0, 0.5f, p->c + i0, p->a + i0);
}

/* Seconds of the fastest round. */
static double fastest(peak *p, qg_piece work, double seconds)
{
    double best = 0;
    int    n    = 0;
    for (double began = qg__now(), now = began; now - began < seconds || n < LEAST_ROUNDS; n++) {
        const double from = now;
        qg_parallel(p->pieces, work, p);
        now = qg__now();
        if (n == 0 || now - from < best) best = now - from;
    }
    return best;
}

static void choose_turns(peak *p)
{
    p->pieces = 1;
    for (p->turns = 1 << 12; fastest(p, multiply_add, 0) < ROUND_SECONDS; p->turns *= 2)
        ;
}

static peak_row measure(peak *p, int threads, double seconds)
{
    qg_set_threads(threads);
    p->pieces          = threads;
    const double work  = (double)p->turns * QG_PEAK_CHAINS * p->kernels->lanes * threads;
    const double bytes = 3.0 * sizeof(float) * TRIAD_FLOATS;
    return (peak_row){
        .threads = threads,
        .gflops  = 1e-9 * 2 * work / fastest(p, multiply_add, seconds / 2),
        .gbytes  = 1e-9 * bytes / fastest(p, triad, seconds / 2),
    };
}

double bench_burst(double seconds)
{
    static long turns;                  /* of a millisecond or so, found once */
    peak        p = { .kernels = QG_KERNELS(qg__peak_kernels) };
    if (!turns) {
        choose_turns(&p);
        turns = p.turns / 10;
    }
    p.turns            = turns;
    p.pieces           = qg_threads();
    const double began = qg__now();
    double       took  = 0, flops = 0;
    for (; took < seconds; took = qg__now() - began) {
        qg_parallel(p.pieces, multiply_add, &p);
        flops += 2.0 * (double)p.turns * QG_PEAK_CHAINS * p.kernels->lanes * p.pieces;
    }
    return 1e-9 * flops / took;
}

/* 1, 2, 4, .. and the last. */
static int measure_all(peak *p, int threads, double seconds, peak_row row[MOST_COUNTS])
{
    int counts = 1;
    for (int t = 1; t < threads; t *= 2) counts++;
    for (int i = 0; i < counts; i++)
        row[i] = measure(p, i < counts - 1 ? 1 << i : threads, seconds / counts);
    return counts;
}

static void print(const config *asked, const peak_row *row, int counts)
{
    if (!config_flag(asked, "json")) {
        printf("kernels %s\n\n%7s %18s %18s\n", qg_cpu_path(), "threads", "multiply-add GFLOP/s",
               "triad GB/s");
        for (int i = 0; i < counts; i++)
            printf("%7d %20.1f %18.1f\n", row[i].threads, row[i].gflops, row[i].gbytes);
        return;
    }
    qg__json j = qg__json_begin(stdout);
    qg__json_text(&j, "bench", "peak");
    qg__json_real(&j, "gflops", row[counts - 1].gflops);
    qg__json_real(&j, "gbytes_per_second", row[counts - 1].gbytes);
    qg__json_open(&j, "peak", '[');
    for (int i = 0; i < counts; i++) {
        qg__json_open(&j, NULL, '{');
        qg__json_integer(&j, "threads", (uint64_t)row[i].threads);
        qg__json_real(&j, "gflops", row[i].gflops);
        qg__json_real(&j, "gbytes_per_second", row[i].gbytes);
        qg__json_close(&j, '}');
    }
    qg__json_close(&j, ']');
    report_machine(&j);
    qg__json_end(&j);
}

int bench_peak(config *asked)
{
    peak_row row[MOST_COUNTS];
    peak     p     = { .kernels = QG_KERNELS(qg__peak_kernels) };
    float   *block = calloc(3, TRIAD_FLOATS * sizeof *block);
    if (!block) {
        qg_fail(QG_EMEM, "out of memory for the triad's %zu bytes", 3 * TRIAD_FLOATS * sizeof *block);
        return print_failure(asked);
    }
    p.a = block;
    p.b = block + TRIAD_FLOATS;
    p.c = block + 2 * (size_t)TRIAD_FLOATS;
    /* What was never written is one page of zeros, read from the cache. */
    for (size_t i = 0; i < 2 * (size_t)TRIAD_FLOATS; i++) p.b[i] = 1.0f;
    choose_turns(&p);
    qg_set_threads(config_integer(asked, "threads"));
    print(asked, row, measure_all(&p, qg_threads(), config_number(asked, "seconds"), row));
    free(block);
    return EXIT_DONE;
}

/* --- bench memory --------------------------------------------------------------------------- */

/* Depthwise 3 x 3 convolutions whose inputs and outputs are 269.5 MiB each. */
enum { SHAPES = 2, IMAGES = 88, MOST_CHANNELS = 256, TAPS = 9 };
static const qg_shape shapes[SHAPES] = { { IMAGES, 112, 112, 64 }, { IMAGES, 56, 56, MOST_CHANNELS } };

/* Seconds of the fastest rounds. */
typedef struct traffic {
    double triad, depthwise[SHAPES];
} traffic;

static void keep_fastest(double took, int round, double *best)
{
    if (round == 0 || took < *best) *best = took;
}

static qg_status convolve(qg_tape *t, qg_shape s, float *x, float *w, double *took)
{
    qg_tape_begin(t, QG_EVAL, 0, 0);
    qg_var      *xv   = qg_input(t, (qg_tensor){ s, x });
    qg_var      *wv   = qg_input(t, (qg_tensor){ { s.c, 3, 3, 1 }, w });
    const double from = qg__now();
    const bool   done = qg_conv2d(t, xv, wv, NULL, (qg_conv_spec){ .pad_h = 1, .pad_w = 1, .groups = s.c }) != NULL;
    *took             = qg__now() - from;
    return done ? QG_OK : qg_tape_status(t);
}

/* All in turns.  The triad's arrays are parts of x. */
static qg_status measure_traffic(qg_tape *t, float *x, float *w, double seconds, traffic *best)
{
    peak p = { .kernels = QG_KERNELS(qg__peak_kernels), .pieces = qg_threads(),
               .a = x, .b = x + TRIAD_FLOATS, .c = x + 2 * (size_t)TRIAD_FLOATS };
    const double began = qg__now();
    for (int round = 0; round < LEAST_ROUNDS || qg__now() - began < seconds; round++) {
        double took = qg__now();
        qg_parallel(p.pieces, triad, &p);
        keep_fastest(qg__now() - took, round, &best->triad);
        for (int i = 0; i < SHAPES; i++) {
            const qg_status status = convolve(t, shapes[i], x, w, &took);
            if (status) return status;
            keep_fastest(took, round, &best->depthwise[i]);
        }
    }
    return QG_OK;
}

static void print_traffic(const config *asked, const traffic *best)
{
    const double triad_rate = 1e-9 * 3 * sizeof(float) * TRIAD_FLOATS / best->triad;
    const double bytes      = 2 * sizeof(float) * (double)qg_count(shapes[0]);
    if (!config_flag(asked, "json")) {
        printf("kernels %s, %d thread%s\n\n%-24s %6.1f GB/s\n", qg_cpu_path(), qg_threads(), qg_threads() == 1 ? "" : "s", "triad",
               triad_rate);
        for (int i = 0; i < SHAPES; i++) {
            const double rate = 1e-9 * bytes / best->depthwise[i];
            printf("depthwise 3x3, %3dx%dx%-3d %5.1f GB/s, %.0f %%\n", shapes[i].h, shapes[i].w, shapes[i].c, rate,
                   100 * rate / triad_rate);
        }
        return;
    }
    qg__json j = qg__json_begin(stdout);
    qg__json_text(&j, "bench", "memory");
    qg__json_real(&j, "triad_gbytes_per_second", triad_rate);
    qg__json_open(&j, "depthwise_gbytes_per_second", '[');
    for (int i = 0; i < SHAPES; i++) qg__json_real(&j, NULL, 1e-9 * bytes / best->depthwise[i]);
    qg__json_close(&j, ']');
    report_machine(&j);
    qg__json_end(&j);
}

int bench_memory(config *asked)
{
    const size_t n    = qg_count(shapes[0]);
    float       *x    = malloc(n * sizeof *x), w[TAPS * MOST_CHANNELS];
    traffic      best = { 0 };
    qg_set_threads(config_integer(asked, "threads"));
    qg_tape  *t      = x ? qg_tape_new() : NULL;
    qg_status status = QG_EMEM;
    if (!x) status = qg_fail(QG_EMEM, "out of memory for the images' %zu bytes", n * sizeof *x);
    for (size_t i = 0; t && i < n; i++) x[i] = 1.0f;
    for (int i = 0; i < TAPS * MOST_CHANNELS; i++) w[i] = 0.1f;
    if (t) status = measure_traffic(t, x, w, config_number(asked, "seconds"), &best);
    if (!status) print_traffic(asked, &best);
    qg_tape_free(t);
    free(x);
    return status ? print_failure(asked) : EXIT_DONE;
}
