/* recu: signs of standardised weights, of which large ones receive no gradient. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layers/net.h"
#include "quant/schemes/formulas.h"
#include "tests/support/nets.h"
#include "tests/support/schemes.h"
#include "tests/support/views.h"

enum { STEPS = 100 };

static qg_quant paced(qg_recu_spec spec)
{
    qg_quant q        = qg_recu(spec);
    q.surrogate.steps = STEPS;
    return q;
}

/* 1, 2, 3, 6: mean 3, deviation 2.16, |z| = 0.93, 0.46, 0, 1.39 with mean 0.69.  tau is 0.85 at first, 0.903
 * halfway and 0.99 at the end, so Q is 0.84, 1.14 and 2.72: two weights are clipped, then one, then none. */
static void by_hand(void **state)
{
    const float  w[4] = { 1, 2, 3, 6 }, dy[4] = { 1, 1, 0.5f, -2 };
    const double from[4] = { -2, -1, 0, 3 }, d = sqrt(14.0 / 3 + 1e-5), b = sqrt(8), a = 0.5;
    for (int half = 0; half <= 2; half++) {
        const bool passes[4] = { half > 0, true, true, half > 1 };
        double     sum = 0, along = 0;
        rig        r;
        open_rig(&r, paced((qg_recu_spec){ .as_paper = true }), QG_WEIGHT, (qg_shape){ 1, 1, 1, 4 });
        memcpy(r.x->value, w, sizeof w);
        r.learned[0]->value[0] = 0.5f;
        train_rig(&r, (uint64_t)half * STEPS / 2, dy);
        for (int i = 0; i < 4; i++) {
            const double g = passes[i] ? a * b * (double)dy[i] : 0;
            sum += g, along += g * from[i] / d;
        }
        for (int i = 0; i < 4; i++) {
            const double g  = passes[i] ? a * b * (double)dy[i] : 0;
            const double dx = (g - sum / 4 - from[i] / d * along / 3) / d;
            assert_true(r.y->data[i] == (i < 2 ? -0.5f : 0.5f));
            assert_true(fabs((double)r.x->grad[i] - dx) < 1e-6);      /* a few roundings of numbers below 4 */
        }
        assert_true(r.learned[0]->grad[0] == -3.5f);                 /* -1 - 1 + 0.5 - 2 */
        assert_codes_give_values(&r, -1, 1, 0);
        close_rig(&r);
    }
}

/* The chain rule in doubles, at a step between; rows longer than a block, and one alone. */
static void long_rows_by_the_chain_rule(void **state)
{
    enum { N = 20011, STEP = 37 };
    const double tau = 0.8 + 0.15 * (exp((double)STEP / STEPS) - 1) / (exp(1) - 1), b = sqrt(8);
    for (int rows = 1; rows <= 3; rows += 2) {
        rig    r;
        float *dy = malloc(3 * N * sizeof *dy);
        assert_non_null(dy);
        open_rig(&r, paced((qg_recu_spec){ 0.8f, 0.95f }), QG_WEIGHT, (qg_shape){ rows, 1, 1, N });
        fill_normal(3, 0.05f, r.n, r.x->value);
        fill_normal(4, 1.0f, r.n, dy);
        for (size_t i = 0; i < r.n; i++) r.x->value[i] += 0.01f;
        start_rig(&r, true);
        train_rig(&r, STEP, dy);
        for (int row = 0; row < rows; row++) {
            const float *w = r.x->value + row * N, *g = dy + row * N;
            const double a = (double)r.learned[0]->value[row] / sqrt(N);
            double       m = 0, size = 0, squares = 0, distance = 0, sum = 0, along = 0, signs = 0;
            int          clipped = 0;
            for (int i = 0; i < N; i++) m += (double)w[i] / N, size += fabs((double)w[i]) / N;
            for (int i = 0; i < N; i++) {
                const double off = (double)w[i] - m;
                distance += fabs(off), squares += off * off;
            }
            const double d = sqrt(squares / (N - 1) + 1e-5), most = -distance / N / d * log(2 - 2 * tau);
            for (int i = 0; i < N; i++) {
                const double z = ((double)w[i] - m) / d, s = fabs(z) > most ? 0 : a * b * (double)g[i];
                sum += s, along += s * z, clipped += fabs(z) > most;
                signs += z >= 0 ? (double)g[i] : -(double)g[i];
            }
            assert_true(fabs(a - size) < 1e-8);
            assert_true(clipped > N / 10 && clipped < N / 2);
            for (int i = 0; i < N; i++) {
                const double z = ((double)w[i] - m) / d, s = fabs(z) > most ? 0 : a * b * (double)g[i];
                /* Floats below 1, times 1 / d of about 20. */
                const double dx = (s - sum / N - z * along / (N - 1)) / d;
                assert_true(fabs((double)r.x->grad[row * N + i] - dx) < 8e-6);
            }
            /* A float of about 1. */
            assert_true(fabs((double)r.learned[0]->grad[row] - signs / sqrt(N)) < 1e-6);
        }
        free(dy);
        close_rig(&r);
    }
}

/* z and Q are 0, and nothing is clipped: what is left of the gradient has no mean. */
static void equal_weights(void **state)
{
    const float dy[3] = { 1, 2, 6 };
    for (int n = 1; n <= 3; n += 2) {
        rig r;
        open_rig(&r, paced((qg_recu_spec){ 0 }), QG_WEIGHT, (qg_shape){ 1, 1, 1, n });
        for (int i = 0; i < n; i++) r.x->value[i] = -0.25f;
        start_rig(&r, true);
        train_rig(&r, 0, dy);
        const double factor = 0.25 * sqrt(8 / 1e-5);
        for (int i = 0; i < n; i++) {
            assert_near((double)r.y->data[i], 0.25, 1e-7);
            /* Of about 600. */
            assert_near((double)r.x->grad[i], n == 1 ? 0 : ((double)dy[i] - 3) * factor, 1e-3);
        }
        close_rig(&r);
    }
    rig r;
    open_rig(&r, paced((qg_recu_spec){ 0 }), QG_WEIGHT, (qg_shape){ 1, 1, 1, 3 });
    train_rig(&r, 0, dy);
    assert_true(r.y->data[0] > 0 && r.learned[0]->value[0] == 0x1p-30f);
    close_rig(&r);
}

/* A net keeps the pace of tau in its text, a quantizer does not. */
static void it_can_be_written(void **state)
{
    qg_quant q;
    char     text[128];
    assert_ok(qg_quant_parse("recu:tau=0.9,final-tau=0.95", QG_WEIGHT, &q));
    qg_quant_print(q, text, sizeof text);
    assert_string_equal(text, "recu:tau=0.9,final-tau=0.95");
    assert_failed(qg_quant_parse("recu:tau=0.5", QG_WEIGHT, &q), QG_EARG, "not in 0.51..0.9999");
    for (int own = 0; own < 2; own++) {
        qg_quant weight = paced((qg_recu_spec){ 0 });
        qg_net  *net    = qg_net_new((qg_net_spec){ .height = 4, .width = 4, .channels = 1 });
        if (own) weight.surrogate = qg_surrogate_clip(1);
        qg_net_dense(net, (qg_dense_spec){ .out = 2, .weight = weight });
        char *printed = qg_net_print(net);
        if (own) assert_null(printed);
        else assert_non_null(strstr(printed, "weight=recu weight-anneal=100"));
        free(printed);
        qg_net_free(net);
    }
    assert_any_threads(paced((qg_recu_spec){ 0 }), qg_sign((qg_sign_spec){ 0 }), (qg_quant){ 0 }, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(long_rows_by_the_chain_rule),
        cmocka_unit_test(equal_weights),
        cmocka_unit_test(it_can_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
