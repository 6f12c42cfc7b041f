/* irnet and adabin: signs of weights that are standardised per output channel. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/schemes/formulas.h"
#include "tests/support/nets.h"
#include "tests/support/schemes.h"
#include "tests/support/views.h"

static qg_quant irnet(qg_surrogate s) { return qg_irnet((qg_irnet_spec){ s }); }
static qg_quant adabin(qg_surrogate s) { return qg_adabin((qg_adabin_spec){ s }); }

/* 1, 2, 3, 6: mean 3, squares 4 + 1 + 0 + 9.  dL/dq is 1 for the first number. */
static void by_hand(void **state)
{
    const float  w[4] = { 1, 2, 3, 6 }, dy[4] = { 1, 0, 0, 0 };
    const double sample = sqrt(14.0 / 3), all = sqrt(14.0 / 4), from[4] = { -2, -1, 0, 3 };
    for (int k = 0; k < 2; k++) {
        rig r;
        open_rig(&r, (k ? adabin : irnet)(qg_surrogate_identity()), QG_WEIGHT, (qg_shape){ 1, 1, 1, 4 });
        memcpy(r.x->value, w, sizeof w);
        train_rig(&r, 0, dy);
        for (int i = 0; i < 4; i++) {
            /* mean|z| is 6 / 4 / 2.16 = 0.69, so a is 2^-1. */
            const double side = i < 2 ? -1 : 1, g = i == 0, y = k ? 3 + side * all : side / 2;
            const double dx   = k ? g - from[i] * from[0] / all / all / 4 - from[i] / all / 4
                                  : (g - 0.25 - from[i] * from[0] / sample / sample / 3) / 2 / sample;
            assert_true(fabs((double)r.y->data[i] - y) < 5e-7);           /* roundings of numbers below 5 */
            assert_true(fabs((double)r.x->grad[i] - dx) < 5e-7);
        }
        assert_codes_give_values(&r, -1, 1, 5e-7);
        close_rig(&r);
    }
}

static double slope(double z) { return 2 * (1 - tanh(2 * z) * tanh(2 * z)); }

/* The tanh with t = 2, and the chain rule in doubles; rows longer than a block, and one alone. */
static void long_rows_by_the_chain_rule(void **state)
{
    enum { N = 20011 };
    for (int k = 0; k < 4; k++) {
        const bool   two = k & 1;
        const int    rows = k & 2 ? 1 : 3;
        rig          r;
        float       *dy = malloc(3 * N * sizeof *dy);
        assert_non_null(dy);
        open_rig(&r, (two ? adabin : irnet)(qg_surrogate_tanh(2)), QG_WEIGHT, (qg_shape){ rows, 1, 1, N });
        fill_normal(3, 0.05f, r.n, r.x->value);
        fill_normal(4, 1.0f, r.n, dy);
        for (size_t i = 0; i < r.n; i++) r.x->value[i] += 0.01f;
        train_rig(&r, 0, dy);
        for (int row = 0; row < rows; row++) {
            const float *w = r.x->value + row * N, *g = dy + row * N;
            double       m = 0, squares = 0, sum = 0, along = 0, signs = 0, plain = 0;
            for (int i = 0; i < N; i++) m += (double)w[i] / N;
            for (int i = 0; i < N; i++) squares += ((double)w[i] - m) * ((double)w[i] - m);
            const double free = two ? N : N - 1, d = sqrt(squares / free), gain = two ? 1 : 1 / d;
            for (int i = 0; i < N; i++) {
                const double z = ((double)w[i] - m) / d, s = (double)g[i] * slope(z);
                sum += s, along += s * z, plain += (double)g[i];
                signs += copysign((double)g[i], z * (double)g[i]);
            }
            for (int i = 0; i < N; i += 7) {
                const double z = ((double)w[i] - m) / d, s = (double)g[i] * slope(z);
                const double moved = two ? z * signs / N + plain / N : 0;
                const double dx    = gain * (s - sum / N - z * along / free) + moved;
                /* Floats of size 4, times 1 / d of about 20 for irnet. */
                assert_true(fabs((double)r.x->grad[row * N + i] - dx) < 4e-6 * gain);
            }
        }
        free(dy);
        close_rig(&r);
    }
}

static void equal_weights_have_no_deviation(void **state)
{
    for (int k = 0; k < 4; k++) {
        const int    n = k & 2 ? 1 : 5;
        const float  dy[5] = { 1, 2, 3, 4, 5 };
        rig          r;
        open_rig(&r, (k & 1 ? adabin : irnet)((qg_surrogate){ 0 }), QG_WEIGHT, (qg_shape){ 1, 1, 1, n });
        for (int i = 0; i < n; i++) r.x->value[i] = 0.25f;
        train_rig(&r, 0, dy);
        for (int i = 0; i < n; i++) {
            assert_true(r.y->data[i] == (k & 1 ? 0.25f : 0.0f));
            assert_true(r.x->grad[i] == (k & 1 ? n == 1 ? 1.0f : 3.0f : 0.0f));
        }
        close_rig(&r);
    }
}

/* What a recipe paces (train/recipe_build.c) stands in q, and is no part of the text. */
static void the_surrogate_can_be_paced(void **state)
{
    static const char *const texts[] = { "irnet", "adabin", "irnet:surrogate=tanh,surrogate-arg=3",
                                         "adabin:surrogate=clip" };
    for (int i = 0; i < COUNT(texts); i++) {
        qg_quant q;
        char     text[128];
        assert_ok(qg_quant_parse(texts[i], QG_WEIGHT, &q));
        assert_true((q.surrogate.to == 10.0f) == (i < 2));
        q.surrogate.steps = i < 2 ? 100 : 0;
        assert_true(i >= 2 || fabsf(qg__surrogate_at(q.surrogate, 50).arg - 1) < 1e-6f);
        qg_quant_print(q, text, sizeof text);
        assert_string_equal(text, texts[i]);
    }
    assert_any_threads(irnet((qg_surrogate){ 0 }), qg_sign((qg_sign_spec){ 0 }), (qg_quant){ 0 }, false);
    assert_any_threads(adabin((qg_surrogate){ 0 }), qg_sign((qg_sign_spec){ 0 }), (qg_quant){ 0 }, false);
    const qg_surrogate whole = qg_surrogate_whole((qg_whole_gradient *)1, 0);
    assert_refused_in_net(irnet(whole), QG_WEIGHT, "irnet", "must be a slope");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(long_rows_by_the_chain_rule),
        cmocka_unit_test(equal_weights_have_no_deviation),
        cmocka_unit_test(the_surrogate_can_be_paced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
