/* qgrad bench peak: the limits that measured speeds are held against. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench/peak.h"
#include "cli/run/report.h"
#include "core/clock.h"
#include "core/kernels/cpu.h"
#include "core/kernels/parallel.h"
#include "cli/bench/peak_kernel.h"

/* Three arrays of 64 MiB, beyond any cache but the largest. */
enum { TRIAD_FLOATS = 1 << 24, MOST_LANES = 16, MOST_COUNTS = 16, LEAST_ROUNDS = 5 };

/* A round this long makes starting the threads and reading the clock vanish. */
#define ROUND_SECONDS 0.01

/* More than the thread counts 1, 2, 4, .. and the last one. */
_Static_assert(1 << (MOST_COUNTS - 2) > QG_MOST_THREADS, "MOST_COUNTS holds every thread count");

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
    (void)piece, (void)worker;
    const peak        *p                                = context;
    _Alignas(64) float s[QG_PEAK_CHAINS * MOST_LANES] = { 0 };
    p->kernels->multiply_add(p->turns, 0.5f, 1.0f, s);
}

static void triad(void *context, int piece, int worker)
{
    (void)worker;
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
    if (!asked->json) {
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

int bench_peak(const config *asked)
{
    peak_row row[MOST_COUNTS];
    peak     p     = { .kernels = QG_KERNELS(qg__peak_kernels) };
    float   *block = calloc(3, TRIAD_FLOATS * sizeof *block);
    if (!block) {
        qg_fail(QG_EMEM, "out of memory for the triad's %zu bytes", 3 * TRIAD_FLOATS * sizeof *block);
        return qg_report("qgrad bench");
    }
    p.a = block;
    p.b = block + TRIAD_FLOATS;
    p.c = block + 2 * (size_t)TRIAD_FLOATS;
    /* What was never written is one page of zeros, read from the cache. */
    for (size_t i = 0; i < 2 * (size_t)TRIAD_FLOATS; i++) p.b[i] = 1.0f;
    choose_turns(&p);
    qg_set_threads(asked->recipe.threads);
    print(asked, row, measure_all(&p, qg_threads(), asked->seconds, row));
    free(block);
    return EXIT_DONE;
}
