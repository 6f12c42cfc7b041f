#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "quant/engine.h"
#include "quant/kernels.h"
#include "quant/reduce.h"
#include "tests/support/environment.h"

/* Every table this machine can run gives the bits of the baseline, at any length. */

enum { MOST = 321, FORMS = 17 };

static float x[MOST], g[MOST];

typedef struct results {
    float   y[FORMS][MOST], dx[FORMS][MOST];
    int32_t code[FORMS][MOST];
    double  sum[FORMS][QG_FORM_SUMS];
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

static void run(qg_isa isa, size_t n, results *r)
{
    memset(r, 0, sizeof *r);
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

/* --- sums of learned values ------------------------------------------------------------------- */

/* Numbers of a channel, and channels: more than are turned at a time. */
enum { COUNT = 2 * QG_BLOCK + 700, COLUMNS = 21 };

/* The sum of COUNT terms in the order of all quantizers: 32 lanes of every 256 numbers, these in a block of
 * 16,384, and blocks. */
static double in_order(const float *term)
{
    double all = 0;
    for (size_t block = 0; block < COUNT; block += 16384) {
        double of_block = 0;
        for (size_t run = block; run < block + 16384 && run < COUNT; run += 256) {
            double lane[32] = { 0 }, of_run = 0;
            for (size_t i = run; i < run + 256 && i < COUNT; i++) lane[(i - run) % 32] += (double)term[i];
            for (int l = 0; l < 8; l++) of_run += (lane[l] + lane[l + 8]) + (lane[l + 16] + lane[l + 24]);
            of_block += of_run;
        }
        all += of_block;
    }
    return all;
}

/* The numbers of all channels, as rows or as columns, and the two sums of each. */
static struct {
    float  x[COLUMNS * COUNT], dy[COLUMNS * COUNT], dx[COLUMNS * COUNT], column_dx[COLUMNS * COUNT];
    float  column_x[COLUMNS * COUNT], column_dy[COLUMNS * COUNT];
    double want[COLUMNS][QG_FORM_SUMS], sum[COLUMNS][QG_FORM_SUMS];
} all;

static const qg_constants outer = { .uniform = { NUDGED }, .gain = { 1, 1 } };

static void fill_channels(void)
{
    static float term[2][COUNT];
    fill_uniform(all.x, COLUMNS * COUNT, -2.0f, 2.0f, 3);
    fill_uniform(all.dy, COLUMNS * COUNT, -1.0f, 1.0f, 4);
    all.x[1]  = NAN;    /* on neither side, whatever its gradient */
    all.dy[1] = INFINITY;
    for (size_t c = 0; c < COLUMNS; c++) {
        for (size_t i = 0; i < COUNT; i++) {
            const size_t at = c * COUNT + i;
            term[0][i] = all.x[at] < outer.uniform.lo ? all.dy[at] : 0.0f;
            term[1][i] = all.x[at] > outer.uniform.hi ? all.dy[at] : 0.0f;
            all.column_x[i * COLUMNS + c]  = all.x[at];
            all.column_dy[i * COLUMNS + c] = all.dy[at];
        }
        for (int j = 0; j < QG_FORM_SUMS; j++) all.want[c][j] = in_order(term[j]);
    }
}

/* The gradients of min and max: of one range, and of one for each row or column. */
static void sums_have_one_order(void **state)
{
    const qg_binding    b   = { .q = qg_fake_quant((qg_fake_quant_spec){ .bits = 4, .range = QG_RANGE_LEARNED }) };
    const qg_surrogate  own = { 0 };
    static qg_constants k[COLUMNS];
    fill_channels();
    for (int c = 0; c < COLUMNS; c++) k[c] = outer;
    for (int threads = 1; threads <= 3; threads++) {
        qg_set_threads(threads);
        for (size_t c = 0; c < COLUMNS; c++)
            qg__form_gradient(&b, own, (qg_split){ 1, 1, COUNT }, k, all.x + c * COUNT, all.dy + c * COUNT, NULL,
                              &all.sum[c]);
        assert_memory_equal(all.sum, all.want, sizeof all.want);
        memset(all.dx, 0, sizeof all.dx);
        qg__form_gradient(&b, own, (qg_split){ 1, COLUMNS, COUNT }, k, all.x, all.dy, all.dx, all.sum);
        assert_memory_equal(all.sum, all.want, sizeof all.want);
        memset(all.column_dx, 0, sizeof all.dx);
        qg__form_gradient(&b, own, (qg_split){ COUNT, COLUMNS, 1 }, k, all.column_x, all.column_dy, all.column_dx,
                          all.sum);
        assert_memory_equal(all.sum, all.want, sizeof all.want);
        for (size_t i = 0; i < COUNT; i++)
            for (size_t c = 0; c < COLUMNS; c++)
                assert_true(all.column_dx[i * COLUMNS + c] == all.dx[c * COUNT + i]);
    }
    qg_set_threads(0);
}

/* An elementwise function as an op, and in the pass of a batch norm that changes nothing: blocks of an image are
 * added, and the gain multiplies the sum. */
static void an_activation_sums_in_this_order(void **state)
{
    static float   term[COUNT];
    const qg_quant q    = qg_lsq((qg_lsq_spec){ .bits = 3, .is_signed = true });
    const float    step = 0.3f;
    qg_tape       *t    = qg_tape_new();
    qg_params      p    = { 0 };
    qg_param      *input = declare(&p, "x", (qg_shape){ 1, 3, COUNT / 12, 4 }), *learned[2], *mean, *var;
    learned[0] = declare(&p, "step", (qg_shape){ 1, 1, 1, 1 });
    learned[1] = declare(&p, "seen", (qg_shape){ 1, 1, 1, 1 });
    mean       = declare(&p, "mean", (qg_shape){ 1, 1, 1, 4 });
    var        = declare(&p, "var", (qg_shape){ 1, 1, 1, 4 });
    assert_ok(qg_params_allocate(&p));
    fill_uniform(input->value, COUNT, -2.0f, 2.0f, 5);
    fill_uniform(all.dy, COUNT, -1.0f, 1.0f, 6);
    for (size_t i = 0; i < COUNT; i++) {
        const float v = input->value[i] / step, inside = rintf(v) - v;
        term[i] = all.dy[i] * (v >= 3 ? 3 : v <= -4 ? -4 : inside);
    }
    const float want = (float)((double)(float)(1 / sqrt(3.0 * COUNT)) * in_order(term));
    for (int fused = 0; fused < 2; fused++) {
        const qg_norm_spec spec = { .mean = mean->value, .var = var->value, .frozen = true };
        learned[0]->value[0] = step;
        learned[1]->value[0] = 1;
        for (int c = 0; c < 4; c++) mean->value[c] = 0, var->value[c] = 1 - 1e-5f;
        memset(p.grad, 0, p.length * sizeof *p.grad);
        qg_tape_begin(t, QG_TRAIN, 1, 0);
        qg_var    *k[] = { qg_parameter(t, learned[0]), qg_parameter(t, learned[1]) }, *y = qg_parameter(t, input);
        qg_var    *dy  = qg_input(t, (qg_tensor){ .data = all.dy, .shape = input->shape });
        qg_binding b;
        assert_ok(qg_bind(q, QG_INPUT, input->shape, &b));
        const qg_norm_fusion with = { .act = q.scheme->activation(t, &b, k) };
        y = fused ? qg_norm_fused(t, y, NULL, NULL, spec, with) : qg_quantize(t, q, y, k);
        assert_non_null(y);
        assert_ok(qg_backward(t, total(t, qg_mul(t, y, dy))));
        assert_true(learned[0]->grad[0] == want);
    }
    qg_tape_free(t);
    qg_params_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_instruction_sets_agree),
        cmocka_unit_test(sums_have_one_order),
        cmocka_unit_test(an_activation_sums_in_this_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
