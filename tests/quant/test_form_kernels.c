#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "quant/kernels.h"
#include "quant/reduce.h"
#include "tests/support/environment.h"

/* Every table this machine can run gives the bits of the baseline, at any length. */

enum { MOST = 321, FORMS = 14 };

static float x[MOST], g[MOST];

typedef struct results {
    float   y[FORMS][MOST], dx[FORMS][MOST], fake[3][MOST];
    int32_t code[FORMS][MOST];
    double  sum[FORMS][QG_FORM_SUMS];
    float   rows[2][MOST];
    double  dmin, dmax, low[5], high[5];
} results;

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
    const qg__fake_quant_kernels *k = QG_KERNELS_OF(isa, qg__fake_quant);
    qg_fake_quant_range           range;
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
    run_forms(isa, n, r);
    k->divide(&range, n, x, r->fake[0]);
    k->multiply(&range, n, x, r->fake[1]);
    k->backward(&range, n, x, g, r->fake[2], &r->dmin, &r->dmax);
    k->rows(&channels, n / 7, 7, x, r->rows[0]);
    k->rows_backward(&channels, n / 7, 7, x, g, r->rows[1], r->low, r->high);
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
    static results r;
    fill_uniform(x, MOST, -2.0f, 2.0f, 3);
    fill_uniform(g, MOST, -1.0f, 1.0f, 4);
    x[1] = NAN;     /* on neither side, whatever its gradient */
    g[1] = INFINITY;
    run(qg__isa(), MOST, &r);
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
