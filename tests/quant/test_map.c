#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "quant/map.h"
#include "tests/support/environment.h"

/* Every table this machine can run gives the bits of the baseline, at any length. */

enum { MOST = 321 };

static float x[MOST], g[MOST];

typedef struct results {
    float  y[10][MOST];
    float  rows[2][MOST];
    double dmin, dmax, low[5], high[5];
} results;

static void run(const qg_map_kernels *k, size_t n, results *r)
{
    qg_fake_quant_range range;
    assert_ok(qg_fake_quant_nudge((qg_fake_quant_attrs){ 4, false }, -0.7f, 1.1f, &range));
    /* Channel 4 has an empty range, and everything passes it. */
    qg_channel_ranges channels = { .n = 5 };
    for (int i = 0; i < 4; i++) {
        channels.scale[i] = range.scale;
        channels.inv[i]   = range.inv;
        channels.nmin[i]  = range.nmin;
        channels.nmax[i]  = range.nmax;
        channels.q0[i]    = range.q0;
    }
    memset(r, 0, sizeof *r);
    k->fake_quant_divide(&range, n, x, r->y[0]);
    k->fake_quant_multiply(&range, n, x, r->y[1]);
    k->fake_quant_backward(&range, n, x, g, r->y[2], &r->dmin, &r->dmax);
    k->lsq(n, x, 0.3f, -4.0f, 3.0f, r->y[3]);
    k->fake_quant_rows(&channels, n / 7, 7, x, r->rows[0]);
    k->fake_quant_rows_backward(&channels, n / 7, 7, x, g, r->rows[1], r->low, r->high);
    k->lsq_slope(n, x, g, 0.3f, -4.0f, 3.0f, r->y[4], r->y[5]);
    k->pact(n, x, 1.1f, 7.0f, r->y[6]);
    k->linear(n, x, 1.1f, 7.0f, r->y[7]);
    k->scaled_even(n, x, -0.7f, 1.1f, 5.0f, 0.2f, r->y[8]);
    k->scaled_up(n, x, -INFINITY, INFINITY, 5.0f, 0.2f, r->y[9]);
}

static void all_instruction_sets_agree(void **state)
{
    static const size_t lengths[] = { 0, 1, 3, 15, 16, 17, 31, 33, 63, 65, MOST };
    static results      expected, actual;
    fill_uniform(x, MOST, -2.0f, 2.0f, 1);
    fill_uniform(g, MOST, -1.0f, 1.0f, 2);
    x[5]  = INFINITY;
    x[6]  = -INFINITY;
    x[14] = -0.0f;
    g[5]  = 1e30f;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        run(&qg__map_baseline, lengths[i], &expected);
        actual = expected;
#if defined(__x86_64__)
        if (widest_path() >= QG_ISA_AVX2) {
            run(&qg__map_avx2, lengths[i], &actual);
            assert_memory_equal(&actual, &expected, sizeof actual);
        }
        if (widest_path() >= QG_ISA_AVX512) {
            run(&qg__map_avx512, lengths[i], &actual);
            assert_memory_equal(&actual, &expected, sizeof actual);
        }
#endif
        assert_memory_equal(&actual, &expected, sizeof actual);
    }
}

static void sums_are_those_of_what_lies_outside(void **state)
{
    static results r;
    fill_uniform(x, MOST, -2.0f, 2.0f, 3);
    fill_uniform(g, MOST, -1.0f, 1.0f, 4);
    x[1] = NAN;     /* on neither side, whatever its gradient */
    g[1] = INFINITY;
    run(QG_KERNELS(qg__map), MOST, &r);
    double low = 0, high = 0;
    for (int i = 0; i < MOST; i++) {
        qg_fake_quant_range range;
        assert_ok(qg_fake_quant_nudge((qg_fake_quant_attrs){ 4, false }, -0.7f, 1.1f, &range));
        if (x[i] < range.nmin) low += (double)g[i];
        if (x[i] > range.nmax) high += (double)g[i];
    }
    /* Doubles in another order. */
    assert_true(fabs(r.dmin - low) < 1e-12 && fabs(r.dmax - high) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_instruction_sets_agree),
        cmocka_unit_test(sums_are_those_of_what_lies_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
