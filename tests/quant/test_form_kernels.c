#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "quant/kernels.h"
#include "quant/reduce.h"
#include "tests/support/environment.h"

/* Every table this machine can run gives the bits of the baseline, at any length. */

enum { MOST = 321, FORMS = 17, COLUMNS = 5 };

static float x[MOST], g[MOST];

typedef struct results {
    float   y[FORMS][MOST], dx[FORMS][MOST], columns[2][MOST];
    int32_t code[FORMS][MOST];
    double  sum[FORMS][QG_FORM_SUMS], column_sum[COLUMNS][QG_FORM_SUMS];
} results;

#define NUDGED .lo = -0.7f, .hi = 1.1f, .step = 0.12f, .steps = 8.3333f, .zero = 6.0f

static const struct { const qg_form *form; qg_constants k; } rows[FORMS] = {
    { &qg_sign_form, { .sign = { 0.7f } } },
    { &qg_ternary_form, { .ternary = { 0.3f, 2.0f, 3.0f } } },
    { &qg_lsq_form, { .uniform = { .lo = -4.0f, .hi = 3.0f, .step = 0.3f } } },
    { &qg_pact_form, { .uniform = { .hi = 1.1f, .steps = 7.0f } } },
    { &qg_pact_form, { .uniform = { .hi = 1.1f } } },
    { &qg_linear_form, { .uniform = { .hi = 1.1f, .steps = 7.0f } } },
    { &qg_dorefa_form, { .uniform = { .hi = 1.0f, .steps = 15.0f } } },
    { &qg_dorefa_form, { .uniform = { .hi = 1.0f, .steps = 15.0f, .variant = 1.0f } } },
    { &qg_tanh_form, { .uniform = { .hi = 0.9f, .steps = 15.0f } } },
    { &qg_unit_form, { .uniform = { .hi = 0.8f, .from = 1.25f, .steps = 3.0f } } },
    { &qg_unit_form, { .uniform = { .hi = 0.8f, .from = 1.25f, .steps = 3.0f, .variant = 1.0f } } },
    { &qg_scaled_form, { .uniform = { .lo = -0.7f, .hi = 1.1f, .steps = 5.0f, .step = 0.2f, .from = -0.7f, .to = 1.0f } } },
    { &qg_scaled_form, { .uniform = { .lo = -INFINITY, .hi = INFINITY, .steps = 5.0f, .step = 0.2f, .variant = 1.0f } } },
    { &qg_scaled_form, { .uniform = { .lo = -0.7f, .hi = 1.1f } } },
    { &qg_nudged_form, { .uniform = { NUDGED } } },
    { &qg_nudged_form, { .uniform = { NUDGED, .variant = 1.0f } } },
    { &qg_nudged_form, { .uniform = { .step = 0.0f } } },
};

static void run_forms(qg_isa isa, size_t n, results *r)
{
    for (int i = 0; i < FORMS; i++) {
        const qg_form_loops *loops = rows[i].form->loops[isa];
        const size_t         m     = n < QG_CHUNK ? n : QG_CHUNK;
        loops->values(&rows[i].k, n, x, r->y[i]);
        loops->backward(&rows[i].k, m, x, g, r->dx[i], r->sum[i]);
        loops->backward(&rows[i].k, m, x, g, NULL, r->sum[i]);
        loops->backward(&rows[i].k, m, x, g, r->dx[i], NULL);
        if (loops->codes) loops->codes(&rows[i].k, m, x, r->code[i]);
    }
}

static void run(qg_isa isa, size_t n, results *r)
{
    /* The last column has an empty range, and everything passes it. */
    const qg_constants   nudged = { .uniform = { NUDGED } }, k[COLUMNS] = { nudged, nudged, nudged, nudged };
    const qg_form_loops *loops  = qg_nudged_form.loops[isa];
    memset(r, 0, sizeof *r);
    run_forms(isa, n, r);
    loops->columns(k, COLUMNS, n / 7, 7, x, r->columns[0]);
    loops->columns_backward(k, COLUMNS, n / 7, 7, x, g, r->columns[1], r->column_sum);
    loops->columns_backward(k, COLUMNS, n / 7, 7, x, g, NULL, r->column_sum);
    loops->columns_backward(k, COLUMNS, n / 7, 7, x, g, r->columns[1], NULL);
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
        run(QG_ISA_BASELINE, lengths[i], &expected);
        for (qg_isa isa = QG_ISA_BASELINE; isa <= widest_path(); isa++) {
            run(isa, lengths[i], &actual);
            assert_memory_equal(&actual, &expected, sizeof actual);
        }
    }
}

static void sums_are_those_of_what_lies_outside(void **state)
{
    const qg_constants k   = { .uniform = { NUDGED } };
    double             sum[QG_FORM_SUMS] = { 0, 0 }, low = 0, high = 0;
    static float       dx[MOST];
    fill_uniform(x, MOST, -2.0f, 2.0f, 3);
    fill_uniform(g, MOST, -1.0f, 1.0f, 4);
    x[1] = NAN;     /* on neither side, whatever its gradient */
    g[1] = INFINITY;
    qg_nudged_form.loops[qg__isa()]->backward(&k, MOST, x, g, dx, sum);
    for (int i = 0; i < MOST; i++) {
        if (x[i] < k.uniform.lo) low += (double)g[i];
        if (x[i] > k.uniform.hi) high += (double)g[i];
    }
    /* Doubles in another order. */
    assert_true(fabs(sum[0] - low) < 1e-12 && fabs(sum[1] - high) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_instruction_sets_agree),
        cmocka_unit_test(sums_are_those_of_what_lies_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
