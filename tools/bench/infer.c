/* qgrad bench infer: the engine's kernels beside float convolutions, on one thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cblas.h>

#include "tools/bench/bench.h"
#include "cli/print.h"
#include "cli/run/report.h"
#include "core/clock.h"
#include "core/kernels/conv_kernel.h"
#include "core/kernels/parallel.h"
#include "core/rng.h"
#include "infer/kernels/isa.h"
#include "infer/product.h"

/* The layer of XNOR-Net's headline: 3 x 3, 256 -> 256, on 14 x 14.  All rows compute it from NHWC floats. */
enum { SIDE = 14, CHANNELS = 256, TAPS = 9, PIXELS = SIDE * SIDE, ROW = TAPS * CHANNELS, LINE = 64 };
static const qg__geometry layer = { SIDE, SIDE, CHANNELS, SIDE, SIDE, CHANNELS, 3, 3, 1, 1, 1 };
static const qg__conv     padded = { SIDE + 2, SIDE + 2, CHANNELS, SIDE, SIDE, CHANNELS, 3, 3, 1 };

enum { MOST_TURNS = 1000, LEAST_TURNS = 3 };     /* plain loops, a hundred times slower, run in the first three only */
/* In each turn, a row runs for about so long, and at least once. */
#define TURN_SECONDS 0.002

typedef struct lab {
    float   *x, *w, *y;             /* weights are values of the alphabet of the row that packs them */
    float   *wide;                  /* columns of im2col, or a padded image with scratch behind it */
    float   *values;                /* of one output's weights */
    uint64_t *codes;
    void    *scratch;
    bool     failed;
} lab;

typedef struct row {
    const char *name;
    void      (*run)(const struct row *r, lab *l);
    bool      (*build)(struct row *r, lab *l);      /* packs weights; false: no memory */
    qg__product p;
    qg__finder  find;               /* codes of the inputs */
    const qg__conv_kernels *conv;
    void       *packed;
    int         times;              /* in a turn */
    double      seconds[MOST_TURNS], median, fastest;
} row;

/* --- float rows --------------------------------------------------------------------------------- */

static void run_loops(const row *r, lab *l)
{
    for (int q = 0; q < PIXELS; q++)
        for (int o = 0; o < CHANNELS; o++) {
            const float *w   = l->w + o * ROW;
            float        sum = 0;
            for (int i = q / SIDE - 1; i < q / SIDE + 2; i++)
                for (int j = q % SIDE - 1; j < q % SIDE + 2; j++, w += CHANNELS) {
                    if (i < 0 || i >= SIDE || j < 0 || j >= SIDE) continue;
                    const float *x = l->x + (i * SIDE + j) * CHANNELS;
                    for (int c = 0; c < CHANNELS; c++) sum += w[c] * x[c];
                }
            l->y[q * CHANNELS + o] = sum;
        }
}

static void run_blas(const row *r, lab *l)
{
    float *column = l->wide;
    for (int q = 0; q < PIXELS; q++)
        for (int i = q / SIDE - 1; i < q / SIDE + 2; i++)
            for (int j = q % SIDE - 1; j < q % SIDE + 2; j++, column += CHANNELS) {
                const bool inside = i >= 0 && i < SIDE && j >= 0 && j < SIDE;
                if (inside) memcpy(column, l->x + (i * SIDE + j) * CHANNELS, CHANNELS * sizeof *column);
                else memset(column, 0, CHANNELS * sizeof *column);
            }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, PIXELS, CHANNELS, ROW, 1, l->wide, ROW, l->w, ROW, 0, l->y,
                CHANNELS);
}

static size_t padded_floats(void) { return (size_t)padded.h * (size_t)padded.w * CHANNELS; }

static bool build_conv(row *r, lab *l)
{
    r->packed = aligned_alloc(LINE, qg__lines_of(qg__conv_forward_size(r->conv, &padded) * sizeof(float)));
    if (!r->packed) return false;
    for (int b = 0; b < qg__conv_blocks(r->conv, CHANNELS); b++)
        r->conv->pack_forward(&padded, b, l->w, r->packed);
    return true;
}

static void run_conv(const row *r, lab *l)
{
    qg__pad(SIDE, SIDE, CHANNELS, (qg__frame){ 1, 1, 1, 1, 0 }, l->x, l->wide);
    r->conv->forward(&padded, l->wide, r->packed, NULL, false, l->y, l->wide + padded_floats());
}

/* --- packed rows -------------------------------------------------------------------------------- */

static void draw_values(const row *r, lab *l, int o)
{
    const qg__codes w = r->p.w;
    for (int k = 0; k < ROW; k++)
        l->values[k] = (float)(w.lowest + w.step * (int)(qg_bits((uint64_t)o, (uint64_t)k) % (unsigned)w.count));
}

static bool build_product(row *r, lab *l)
{
    r->packed = aligned_alloc(LINE, qg__lines_of(qg__product_weight_bytes(qg__infer_isa(), &r->p)));
    for (int o = 0; r->packed && o < CHANNELS; o++) {
        draw_values(r, l, o);
        qg__product_pack(qg__infer_isa(), &r->p, o, l->values, r->packed);
    }
    return r->packed != NULL;
}

static void run_product(const row *r, lab *l)
{
    const qg__requantize_kernels *k      = QG_INFER_KERNELS(qg__requantize_kernels);
    const qg__coding              coding = qg__product_coding(&r->p);
    const void                   *x      = coding == QG__AS_FLOATS ? (void *)l->x : l->codes;
    if (coding == QG__AS_BITS) k->find_bits(&r->find, qg__alphabet_of(r->p.x), PIXELS, CHANNELS, l->x, l->codes);
    if (coding == QG__AS_BYTES) k->find(&r->find, PIXELS * CHANNELS, l->x, (uint8_t *)l->codes);
    qg__product_run(qg__infer_isa(), &r->p, 1, x, r->packed, l->y, l->scratch);
}

static row product_row(const char *name, qg__codes w, qg__codes x, qg__finder find)
{
    const qg__product p = { .g = layer, .groups = 1, .x = x, .w = w };
    return (row){ .name = name, .run = run_product, .build = build_product, .p = p, .find = find };
}

/* --- measuring ---------------------------------------------------------------------------------- */

enum { LOOPS, BLAS, WINOGRAD, DIRECT, ROWS = 14 };

static void make_rows(row r[ROWS])
{
    /* Of inputs in -1 .. 1. */
    const qg__finder of_signs = { .search = QG__COUNT, .count = 2, .step = 1 },
                     of_ternary = { .search = QG__COUNT, .count = 3, .few = { -0.25f, 0.25f }, .step = 1 },
                     of_two = { .search = QG__MULTIPLE, .count = 4, .lowest = -1, .inverse = 2, .step = 1 },
                     of_bytes = { .search = QG__MULTIPLE, .count = 256, .lowest = -128, .inverse = 128, .step = 1 };
    const qg__codes     signs = { -1, 2, 2 }, ternary = { -1, 1, 3 }, odd = { -3, 2, 4 };
    const qg__codes     two = { 0, 1, 4 }, bytes = { -128, 1, 256 }, int8 = { -127, 1, 255 }, floats = { 0 };
    r[LOOPS]    = (row){ .name = "float, plain C loops", .run = run_loops };
    r[BLAS]     = (row){ .name = "float, im2col and OpenBLAS", .run = run_blas };
    r[WINOGRAD] = (row){ .name = "float, Winograd", .run = run_conv, .build = build_conv, .conv = QG_KERNELS(qg__winograd_kernels) };
    r[DIRECT]   = (row){ .name = "float, direct", .run = run_conv, .build = build_conv, .conv = QG_KERNELS(qg__conv_kernels) };
    r[4]        = product_row("binary x binary", signs, signs, of_signs);
    r[5]        = product_row("ternary x binary", ternary, signs, of_signs);
    r[6]        = product_row("ternary x ternary", ternary, ternary, of_ternary);
    r[7]        = product_row("binary x 2 bits (W1A2)", signs, two, of_two);
    r[8]        = product_row("2 bits x 2 bits (W2A2)", odd, two, of_two);
    r[9]        = product_row("int8 x uint8", int8, bytes, of_bytes);
    r[10]       = product_row("binary x uint8", signs, bytes, of_bytes);
    r[11]       = product_row("ternary x uint8", ternary, bytes, of_bytes);
    r[12]       = product_row("binary x float", signs, floats, (qg__finder){ 0 });
    r[13]       = product_row("ternary x float", ternary, floats, (qg__finder){ 0 });
}

static double time_of(const row *r, lab *l, int times)
{
    const double from = qg__now();
    for (int i = 0; i < times; i++) r->run(r, l);
    return (qg__now() - from) / times;
}

/* All rows take turns, so what else the machine does meanwhile slows all of them. */
static int measure(row r[ROWS], lab *l, double limit)
{
    for (int i = 0; i < ROWS; i++) {
        const double once = time_of(&r[i], l, 1);
        r[i].times        = once < TURN_SECONDS ? 1 + (int)(TURN_SECONDS / (once > 1e-6 ? once : 1e-6)) : 1;
    }
    int turns = 0;
    for (const double began = qg__now(); turns < LEAST_TURNS || (qg__now() - began < limit && turns < MOST_TURNS); turns++)
        for (int i = turns < LEAST_TURNS ? LOOPS : BLAS; i < ROWS; i++) r[i].seconds[turns] = time_of(&r[i], l, r[i].times);
    for (int i = 0; i < ROWS; i++) {
        r[i].median  = bench_median(r[i].seconds, i == LOOPS ? LEAST_TURNS : turns);
        r[i].fastest = r[i].seconds[0];
    }
    return turns;
}

/* --- printing ----------------------------------------------------------------------------------- */

/* By the fastest runs: what else a machine does only makes runs slower. */
static double times(const row *base, const row *r) { return base->fastest / r->fastest; }

static void print_table(const row r[ROWS], int turns)
{
    printf("3 x 3, 256 -> 256, 14 x 14, batch 1, 1 thread, making codes of floats included, %d turns\n"
           "OpenBLAS core %s, kernels %s, bits by %s; ratios are those of the fastest turns\n\n",
           turns, qg_blas_core(), qg_cpu_path(), QG_INFER_KERNELS(qg__bit_kernels)->name);
    printf("%-28s %12s %12s %8s %12s %12s %9s\n", "", "fastest us", "median us", "Gop/s", "x OpenBLAS", "x Winograd", "x loops");
    for (int i = 0; i < ROWS; i++)
        printf("%-28s %12.1f %12.1f %8.1f %12.2f %12.2f %9.1f\n", r[i].name, 1e6 * r[i].fastest, 1e6 * r[i].median,
               2e-9 * PIXELS * CHANNELS * ROW / r[i].fastest, times(&r[BLAS], &r[i]), times(&r[WINOGRAD], &r[i]), times(&r[LOOPS], &r[i]));
}

static void print_json(const row r[ROWS], int turns)
{
    qg__json j = qg__json_begin(stdout);
    qg__json_text(&j, "bench", "infer");
    qg__json_text(&j, "method", QG_INFER_KERNELS(qg__bit_kernels)->name);
    qg__json_integer(&j, "turns", (uint64_t)turns);
    qg__json_open(&j, "rows", '[');
    for (int i = 0; i < ROWS; i++) {
        qg__json_open(&j, NULL, '{');
        qg__json_text(&j, "name", r[i].name);
        qg__json_real(&j, "fastest_us", 1e6 * r[i].fastest);
        qg__json_real(&j, "median_us", 1e6 * r[i].median);
        qg__json_real(&j, "times_openblas", times(&r[BLAS], &r[i]));
        qg__json_real(&j, "times_winograd", times(&r[WINOGRAD], &r[i]));
        qg__json_real(&j, "times_loops", times(&r[LOOPS], &r[i]));
        qg__json_close(&j, '}');
    }
    qg__json_close(&j, ']');
    qg__json_text(&j, "blas_core", qg_blas_core());
    report_machine(&j);
    qg__json_end(&j);
}

/* --- the verb ----------------------------------------------------------------------------------- */

static size_t most_scratch(const row r[ROWS])
{
    size_t most = 0;
    for (int i = 0; i < ROWS; i++) {
        const size_t needs = r[i].run == run_product ? qg__product_scratch_bytes(qg__infer_isa(), &r[i].p, 1) : 0;
        most               = needs > most ? needs : most;
    }
    return most;
}

static bool build(row r[ROWS], lab *l)
{
    const size_t work = padded_floats() + r[WINOGRAD].conv->scratch(&padded) + r[DIRECT].conv->scratch(&padded);
    const size_t wide = work > (size_t)PIXELS * ROW ? work : (size_t)PIXELS * ROW;
    l->x       = aligned_alloc(LINE, PIXELS * CHANNELS * sizeof(float));
    l->y       = aligned_alloc(LINE, PIXELS * CHANNELS * sizeof(float));
    l->w       = aligned_alloc(LINE, CHANNELS * ROW * sizeof(float));
    l->wide    = aligned_alloc(LINE, qg__lines_of(wide * sizeof(float)));
    l->codes   = aligned_alloc(LINE, PIXELS * CHANNELS);
    l->scratch = aligned_alloc(LINE, qg__lines_of(most_scratch(r)));
    l->values  = malloc(ROW * sizeof *l->values);
    if (!l->x || !l->y || !l->w || !l->wide || !l->codes || !l->scratch || !l->values) return false;
    for (size_t i = 0; i < PIXELS * CHANNELS; i++) l->x[i] = 2 * qg_uniform(1, i) - 1;
    for (size_t i = 0; i < CHANNELS * ROW; i++) l->w[i] = 2 * qg_uniform(2, i) - 1;
    for (int i = 0; i < ROWS; i++)
        if (r[i].build && !r[i].build(&r[i], l)) return false;
    return true;
}

int bench_infer(config *asked)
{
    lab  l = { 0 };
    row *r = calloc(ROWS, sizeof *r);
    if (r) make_rows(r);
    int status = EXIT_DONE;
    if (r && build(r, &l)) {
        qg_set_threads(1);
        const int turns = measure(r, &l, config_number(asked, "seconds"));
        if (config_flag(asked, "json")) print_json(r, turns);
        else print_table(r, turns);
    } else {
        qg_fail(QG_EMEM, "out of memory for the arrays of bench infer");
        status = print_failure(asked);
    }
    for (int i = 0; r && i < ROWS; i++) free(r[i].packed);
    free(l.x), free(l.y), free(l.w), free(l.wide), free(l.codes), free(l.scratch), free(l.values);
    free(r);
    return status;
}
