/* The dense products of every instruction set against loops over their definition, bit for bit. */
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/kernels/dense_kernel.h"
#include "tests/support/environment.h"
#include "tests/support/guarded.h"

/* Around the rows of tiles (3, 6, 12, 14, 24) and of several, and the most. */
static const int rows[] = { 1,  2,  3,  4,  5,  6,  7,  8,  11, 12, 13,  14,
                            15, 16, 17, 23, 24, 25, 28, 29, 48, 49, 100, 512 };
/* Around vectors of 4, 8 and 16, pairs of them, and panels. */
static const int lanes[] = { 1,  2,  3,  4,  5,  7,  8,  9,  12, 15, 16,  17,
                             24, 31, 32, 33, 47, 48, 49, 63, 64, 65, 100, 130 };
/* Around four steps, short chains, and one, two and three chains. */
static const int steps[] = { 1, 2, 3, 4, 5, 8, 10, 31, 33, 64, 100, 127, 128, 129, 131, 256, 257, 300 };
enum {
    ROWS  = sizeof rows / sizeof *rows,
    LANES = sizeof lanes / sizeof *lanes,
    STEPS = sizeof steps / sizeof *steps,
};

extern const qg__dense_kernels qg__dense_kernels_sixteen;
static const qg__dense_kernels *const of[] = TABLES_OF(qg__dense_kernels);

/* --- the definition ----------------------------------------------------------------------------- */

static float element(qg__matrix m, int item, int step) { return m.at[item * m.item + step * m.step]; }

static float *out_of(const qg__dense_product *m, float *out, int row, int lane)
{
    return out + row * m->out_row + lane * m->out_lane;
}

static void loops(const qg__dense_product *m, float *out)
{
    for (int r = 0; r < m->rows; r++)
        for (int l = 0; l < m->lanes; l++)
            for (int first = 0; first < m->steps; first += QG_CHAIN) {
                float chain = 0;
                for (int s = first; s < m->steps && s < first + QG_CHAIN; s++)
                    chain = fmaf(element(m->q, r, s), element(m->p, l, s), chain);
                float *y = out_of(m, out, r, l);
                *y       = first || m->add ? *y + chain : chain;
            }
}

/* --- products ------------------------------------------------------------------------------------- */

/* How the three products of a layer use the kernel (core/ops/dense.c). */
typedef enum use { OUTPUTS, BATCH, INPUT_GRADIENT, WEIGHT_GRADIENT, USES } use;

/* Rows of all matrices are so many floats apart as they are long, and a few. */
enum { GAP = 3 };

typedef struct operands {
    qg__dense_product m;
    guarded           p, q;
    size_t            out;          /* floats */
} operands;

static size_t extent(int n, int length) { return (size_t)(n - 1) * (size_t)(length + GAP) + (size_t)length; }

/* [n][length] or, if it lies across, [length][n]. */
static guarded matrix(bool across, int n, int length, uint64_t key, qg__matrix *m)
{
    const guarded g = values(across ? extent(length, n) : extent(n, length), key, false);
    *m = across ? (qg__matrix){ g.at, 1, n + GAP } : (qg__matrix){ g.at, length + GAP, 1 };
    return g;
}

static operands draw(use how, int n_rows, int n_lanes, int n_steps)
{
    operands   o = { .m = { .lanes = n_lanes, .rows = n_rows, .steps = n_steps } };
    const bool across = how == INPUT_GRADIENT || how == WEIGHT_GRADIENT;
    o.p   = matrix(across, n_lanes, n_steps, 1, &o.m.p);
    o.q   = matrix(how == WEIGHT_GRADIENT, n_rows, n_steps, 2, &o.m.q);
    o.out = how == BATCH ? extent(n_lanes, n_rows) : extent(n_rows, n_lanes);
    o.m.out_lane = how == BATCH ? n_rows + GAP : 1;
    o.m.out_row  = how == BATCH ? 1 : n_lanes + GAP;
    return o;
}

static void discard(operands o) { release(o.p), release(o.q); }

/* Where the product has no element, out stays NaN. */
static void assert_product(const qg__dense_kernels *k, operands o, const float *want)
{
    guarded out = guard(o.out), scratch = aligned(k->scratch(&o.m));
    for (size_t i = 0; i < o.out; i++) out.at[i] = want[i] == want[i] ? 0.5f : NAN;
    o.m.out = out.at;
    k->multiply(&o.m, scratch.at);
    for (size_t i = 0; i < o.out; i++)
        if (memcmp(&out.at[i], &want[i], sizeof *want) && !(isnan(want[i]) && isnan(out.at[i])))
            fail_msg("%d rows, %d lanes, %d steps, vectors of %d: [%zu] is %.9g, not %.9g", o.m.rows,
                     o.m.lanes, o.m.steps, k->lanes, i, (double)out.at[i], (double)want[i]);
    release(out), release(scratch);
}

static void check(use how, bool add, int n_rows, int n_lanes, int n_steps)
{
    operands o    = draw(how, n_rows, n_lanes, n_steps);
    guarded  want = guard(o.out);
    o.m.add = add;
    for (int r = 0; r < n_rows; r++)
        for (int l = 0; l < n_lanes; l++) *out_of(&o.m, want.at, r, l) = 0.5f;
    loops(&o.m, want.at);
    for (int i = 0; i < tables(); i++) assert_product(of[i], o, want.at);
    release(want);
    discard(o);
}

static void kernels_have_the_bits_of_loops(void **state)
{
    for (int r = 0; r < ROWS; r++)
        for (int l = 0; l < LANES; l++)
            for (int how = 0; how < USES; how++)
                check((use)how, how != BATCH && (r + l) & 1, rows[r], lanes[l],
                      steps[(r * LANES + l) % STEPS]);
}

static void of_every_number_of_steps(void **state)
{
    static const int sizes[][2] = { { 1, 1 }, { 1, 40 }, { 2, 64 }, { 5, 17 }, { 10, 20 }, { 14, 33 }, { 30, 50 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int s = 0; s < STEPS; s++)
            for (int how = 0; how < USES; how++)
                for (int add = 0; add < (how == BATCH ? 1 : 2); add++)
                    check((use)how, add, sizes[i][0], sizes[i][1], steps[s]);
}

/* A NaN reaches its row of outputs and no other. */
static void nan_spreads_along_its_row(void **state)
{
    const int n = tables();
    for (int run = 0; run < n * USES; run++) {
        operands o       = draw((use)(run / n), 17, 21, 130);
        guarded  out     = guard(o.out);
        guarded  scratch = aligned(of[run % n]->scratch(&o.m));
        o.q.at[16 * o.m.q.item + 129 * o.m.q.step] = NAN;
        o.m.out = out.at;
        of[run % n]->multiply(&o.m, scratch.at);
        for (int r = 0; r < 17; r++)
            for (int l = 0; l < 21; l++) assert_true(isnan(*out_of(&o.m, out.at, r, l)) == (r == 16));
        release(out), release(scratch);
        discard(o);
    }
}

/* Rows of scratch are longer than those of the product, but what was there is not computed with: here numbers
 * that raise an exception. */
static void what_was_in_scratch_is_not_used(void **state)
{
    static const int sizes[][3] = { { 1, 1, 3 }, { 2, 20, 130 }, { 5, 17, 20 }, { 30, 10, 130 }, { 40, 60, 40 } };
    const uint32_t   signalling = 0x7FA00000;
    for (int run = 0; run < 5 * 2 * USES * tables(); run++) {
        const int               *size = sizes[run % 5];
        const use                how = (use)(run / 10 % USES);
        const qg__dense_kernels *k = of[run / 10 / USES];
        operands                 o = draw(how, size[0], size[1], size[2]);
        guarded                  out = guard(o.out), scratch = aligned(k->scratch(&o.m));
        zero(out);
        for (size_t i = 0; i < scratch.n; i++) memcpy(scratch.at + i, &signalling, sizeof signalling);
        o.m.out = out.at;
        o.m.add = how != BATCH && run / 5 % 2;
        feclearexcept(FE_INVALID);
        k->multiply(&o.m, scratch.at);
        if (fetestexcept(FE_INVALID))
            fail_msg("%d rows, %d lanes, %d steps, use %d, vectors of %d", size[0], size[1], size[2],
                     (int)how, k->lanes);
        release(out), release(scratch);
        discard(o);
    }
}

/* The rms error of chains of 128, against that of one sum over all steps. */
static void chains_are_more_exact_than_one_sum(void **state)
{
    enum { LONG = 8192, SUMS = 64 };
    const qg__dense_kernels *k = &qg__dense_kernels_baseline;
    operands                 o = draw(OUTPUTS, SUMS, 1, LONG);
    guarded                  y = guard(o.out), scratch = aligned(k->scratch(&o.m));
    double                   chains = 0, one_sum = 0;
    o.m.out = y.at;
    k->multiply(&o.m, scratch.at);
    for (int r = 0; r < SUMS; r++) {
        double exact = 0;
        float  sum   = 0;
        for (int s = 0; s < LONG; s++) {
            exact += (double)element(o.m.q, r, s) * (double)element(o.m.p, 0, s);
            sum = fmaf(element(o.m.q, r, s), element(o.m.p, 0, s), sum);
        }
        const double error = (double)*out_of(&o.m, y.at, r, 0) - exact;
        chains += error * error;
        one_sum += ((double)sum - exact) * ((double)sum - exact);
    }
    assert_true(sqrt(chains) < 0.5 * sqrt(one_sum));    /* a fifth is usual */
    release(y), release(scratch);
    discard(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_have_the_bits_of_loops),
        cmocka_unit_test(of_every_number_of_steps),
        cmocka_unit_test(nan_spreads_along_its_row),
        cmocka_unit_test(what_was_in_scratch_is_not_used),
        cmocka_unit_test(chains_are_more_exact_than_one_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
