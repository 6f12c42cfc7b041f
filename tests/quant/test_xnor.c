#include "tests/support/views.h"

#include "quant/reference/binary.h"

/* w = (.5, -.5, 2, -1), one filter, g = 1: alpha = 1, n = 4. */
static void four_rules_by_hand(void **state)
{
    float       w[] = { 0.5f, -0.5f, 2.0f, -1.0f };
    float       g[] = { 1.0f, 1.0f, 1.0f, 1.0f };
    const float want_q[] = { 1.0f, -1.0f, 1.0f, -1.0f };
    const struct {
        qg_xnor_rule rule;
        float        dw[4];
    } rules[] = {
        { QG_XNOR_PAPER, { 1.25f, 1.25f, 0.25f, 1.25f } },
        { QG_XNOR_AUTHORS, { 3.75f, 3.75f, 0.75f, 0.75f } }, /* c_in = 4 */
        { QG_XNOR_AUTHORS_ADAM, { 0.9375f, 0.9375f, 0.1875f, 0.1875f } },
        { QG_XNOR_EXACT, { 1.0f, 1.0f, 0.0f, 1.0f } },
        { QG_XNOR_IDENTITY, { 1.0f, 1.0f, 1.0f, 1.0f } },
    };
    float    q[4], dw[4], alpha;
    assert_ok(qg_xnor_weight_quantizer(TENSOR4(w, 1, 4, 1, 1), 0, TENSOR4(q, 1, 4, 1, 1), VECTOR(&alpha, 1)));
    assert_same(4, q, want_q);
    assert_true(alpha == 1.0f);
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        const qg_xnor_attrs a = { .axis = 0, .input_axis = 1, .rule = rules[r].rule };
        assert_ok(qg_xnor_weight_quantizer_gradient(TENSOR4(w, 1, 4, 1, 1), TENSOR4(g, 1, 4, 1, 1), a,
                                                    TENSOR4(dw, 1, 4, 1, 1)));
        assert_all_near(4, dw, rules[r].dw, 1e-6);
    }
    qg_xnor_attrs a = { .rule = QG_XNOR_PAPER, .surrogate = qg_surrogate_identity() };
    assert_ok(qg_xnor_weight_quantizer_gradient(TENSOR4(w, 1, 4, 1, 1), TENSOR4(g, 1, 4, 1, 1), a,
                                                TENSOR4(dw, 1, 4, 1, 1)));
    for (int i = 0; i < 4; i++) assert_true(dw[i] == 1.25f);
    a = (qg_xnor_attrs){ .rule = QG_XNOR_IDENTITY, .surrogate = qg_surrogate_clip(1.0f) };
    assert_ok(qg_xnor_weight_quantizer_gradient(TENSOR4(w, 1, 4, 1, 1), TENSOR4(g, 1, 4, 1, 1), a,
                                                TENSOR4(dw, 1, 4, 1, 1)));
    assert_true(dw[2] == 0.0f && dw[3] == 1.0f);
}

/* With |w| > 1 the indicator is 0, and q = mean|w| sign(w) is smooth: the exact rule is then its
 * derivative.  Differences of a linear function; rounding alpha to float leaves n/h ulp. */
static void exact_rule_is_the_derivative(void **state)
{
    enum { OUT = 3, ROW = 11 };
    float    w[OUT * ROW], g[OUT * ROW], q[OUT * ROW], dw[OUT * ROW];
    fill_normal(1, 1.0f, OUT * ROW, w);
    fill_normal(2, 1.0f, OUT * ROW, g);
    for (size_t i = 0; i < OUT * ROW; i++) w[i] += w[i] > 0.0f ? 2.0f : -2.0f;
    assert_ok(qg_xnor_weight_quantizer_gradient(MATRIX(w, OUT, ROW), MATRIX(g, OUT, ROW),
                                                (qg_xnor_attrs){ .rule = QG_XNOR_EXACT }, MATRIX(dw, OUT, ROW)));
    for (size_t i = 0; i < OUT * ROW; i++) {
        const float at = w[i];
        const float h = 0.5f;
        double      loss[2] = { 0.0, 0.0 };
        for (int side = 0; side < 2; side++) {
            w[i] = at + (side ? h : -h);
            assert_ok(qg_xnor_weight_quantizer(MATRIX(w, OUT, ROW), 0, MATRIX(q, OUT, ROW), NULL));
            for (size_t j = 0; j < OUT * ROW; j++) loss[side] += (double)g[j] * (double)q[j];
        }
        w[i] = at;
        assert_near((double)dw[i], (loss[1] - loss[0]) / (2.0 * (double)h), 1e-5);
    }
}

/* Every axis of a rank-3 tensor, every rule, against the formulas in double. */
static void every_axis_against_the_formulas(void **state)
{
    enum { A = 5, B = 3, C = 67, N = A * B * C };
    static float w[N], g[N], q[N], dw[N];
    qg_array     W = { .dtype = QG_F32, .rank = 3, .dims = { A, B, C }, .data = w };
    qg_array     G = W, Q = W, D = W;
    G.data = g, Q.data = q, D.data = dw;
    fill_normal(3, 1.0f, N, w);
    fill_normal(4, 1.0f, N, g);
    for (int axis = 0; axis < 3; axis++) {
        const size_t count = W.dims[axis];
        const double n = (double)(N / count);
        double       mean[C] = { 0 }, coupled[C] = { 0 };
        float        alpha[C];
        size_t       of[N];
        for (size_t i = 0; i < N; i++) {
            const size_t at[] = { i / (B * C), i / C % B, i % C };
            of[i] = at[axis];
            mean[of[i]] += fabs((double)w[i]) / n;
            coupled[of[i]] += (double)(w[i] >= 0.0f ? g[i] : -g[i]) / n;
        }
        assert_ok(qg_xnor_weight_quantizer(&W, axis, &Q, VECTOR(alpha, count)));
        for (size_t i = 0; i < N; i++)
            assert_true(q[i] == (w[i] >= 0.0f ? alpha[of[i]] : -alpha[of[i]]));
        for (size_t c = 0; c < count; c++) assert_near((double)alpha[c], mean[c], 1e-6);
        for (qg_xnor_rule rule = QG_XNOR_EXACT; rule <= QG_XNOR_IDENTITY; rule++) {
            const qg_xnor_attrs a = { .axis = axis, .input_axis = 1, .rule = rule };
            assert_ok(qg_xnor_weight_quantizer_gradient(&W, &G, a, &D));
            for (size_t i = 0; i < N; i++) {
                const double m = mean[of[i]];
                const double inside = fabsf(w[i]) <= 1.0f ? m : 0.0;
                const double f = (1.0 - 1.0 / B) * (inside + 1.0 / n);
                const double dy = (double)g[i];
                const double sign = w[i] >= 0.0f ? 1.0 : -1.0;
                const double want = rule == QG_XNOR_EXACT     ? dy * inside + sign * coupled[of[i]]
                                    : rule == QG_XNOR_PAPER   ? dy * (inside + 1.0 / n)
                                    : rule == QG_XNOR_AUTHORS ? dy * f * n
                                    : rule == QG_XNOR_AUTHORS_ADAM ? dy * f
                                                                   : dy;
                assert_near((double)dw[i], want, 1e-5 * (1.0 + fabs(want)));
            }
        }
    }
}

/* A = (2, 1; 0, 3), one window of 2x2: K = 6 / 4. */
static void scale_map_by_hand(void **state)
{
    float          x[] = { 3.0f, -1.0f, 1.0f, 1.0f, 0.0f, -0.0f, -2.0f, 4.0f };
    const float    want[] = { 1.0f, -1.0f, 1.0f, 1.0f, 1.0f, 1.0f, -1.0f, 1.0f };
    const float    same[] = { 1.5f, 1.0f, 0.75f, 0.75f };
    float          sign[8], K[4];
    qg_xnor_window w = { .kernel_h = 2, .kernel_w = 2, .stride = 1 };
    qg_array M = tensor4(K, 1, 1, 1, 1);
    assert_ok(qg_xnor_activation_quantizer(TENSOR4(x, 1, 2, 2, 2), w, TENSOR4(sign, 1, 2, 2, 2), &M));
    assert_same(8, sign, want);
    assert_true(K[0] == 1.5f);
    w.same_padding = true; /* one row below and one column to the right: zeros */
    M = tensor4(K, 1, 2, 2, 1);
    assert_ok(qg_xnor_activation_quantizer(TENSOR4(x, 1, 2, 2, 2), w, TENSOR4(sign, 1, 2, 2, 2), &M));
    assert_same(4, K, same);
}

/* Against the definition, padding and strides included. */
static void scale_map_against_the_definition(void **state)
{
    enum { N = 2, H = 7, W = 5, C = 3 };
    float    x[N * H * W * C], sign[N * H * W * C], K[N * H * W];
    qg_array X = tensor4(x, N, H, W, C);
    qg_array S = tensor4(sign, N, H, W, C);
    fill_normal(5, 1.0f, N * H * W * C, x);
    for (int kh = 1; kh <= 5; kh++)
        for (int stride = 1; stride <= 3; stride++)
            for (int same = 0; same < 2; same++) {
                const int kw = kh == 2 ? 4 : kh;
                const int oh = same ? (H + stride - 1) / stride : (H - kh) / stride + 1;
                const int ow = same ? (W + stride - 1) / stride : (W - kw) / stride + 1;
                const int down = (oh - 1) * stride + kh - H;
                const int across = (ow - 1) * stride + kw - W;
                const int top = same && down > 0 ? down / 2 : 0;
                const int left = same && across > 0 ? across / 2 : 0;
                qg_array  M = tensor4(K, N, (size_t)oh, (size_t)ow, 1);
                assert_ok(qg_xnor_activation_quantizer(
                    &X, (qg_xnor_window){ kh, kw, stride, same != 0 }, &S, &M));
                for (int o = 0; o < N * oh * ow; o++) {
                    double sum = 0.0;
                    for (int t = 0; t < kh * kw; t++) {
                        const int r = o / ow % oh * stride - top + t / kw;
                        const int q = o % ow * stride - left + t % kw;
                        if (r < 0 || r >= H || q < 0 || q >= W) continue;
                        for (int c = 0; c < C; c++)
                            sum += fabs((double)x[((o / (oh * ow) * H + r) * W + q) * C + c]);
                    }
                    assert_near((double)K[o], sum / (C * kh * kw), 1e-6);
                }
            }
}

/* Rows wider than what is summed in one go, and windows wider than that. */
static void scale_map_of_wide_images(void **state)
{
    enum { H = 3, W = 600, C = 9 };
    static float x[H * W * C], sign[H * W * C], K[H * W];
    static const int widths[] = { 1, 5, 255, 256, 257, 400, 600 };
    fill_normal(6, 1.0f, H * W * C, x);
    for (int i = 0; i < 7; i++) {
        const int kw = widths[i], ow = W - kw + 1;
        assert_ok(qg_xnor_activation_quantizer(TENSOR4(x, 1, H, W, C), (qg_xnor_window){ 2, kw, 1, false },
                                               TENSOR4(sign, 1, H, W, C), TENSOR4(K, 1, H - 1, (size_t)ow, 1)));
        for (int o = 0; o < (H - 1) * ow; o++) {
            double sum = 0.0;
            for (int r = o / ow; r < o / ow + 2; r++)
                for (int e = o % ow * C; e < (o % ow + kw) * C; e++) sum += fabs((double)x[r * W * C + e]);
            assert_near((double)K[o], sum / (2 * kw * C), 1e-6);
        }
    }
}

static void empty_filters(void **state)
{
    float    alpha[3] = { 7.0f, 7.0f, 7.0f };
    assert_ok(qg_xnor_weight_quantizer(MATRIX(NULL, 3, 0), 0, MATRIX(NULL, 3, 0), VECTOR(alpha, 3)));
    for (int i = 0; i < 3; i++) assert_true(alpha[i] == 0.0f);
    assert_ok(qg_xnor_weight_quantizer_gradient(MATRIX(NULL, 3, 0), MATRIX(NULL, 3, 0), (qg_xnor_attrs){ .axis = 0 },
                                                MATRIX(NULL, 3, 0)));
    /* No filter, each of three weights. */
    assert_ok(qg_xnor_weight_quantizer_gradient(MATRIX(NULL, 0, 3), MATRIX(NULL, 0, 3), (qg_xnor_attrs){ .axis = 0 },
                                                MATRIX(alpha, 0, 3)));
}

static void refuses(void **state)
{
    float         x[8] = { 1.0f };
    float         y[8] = { 7.0f, 7.0f, 7.0f, 7.0f, 7.0f, 7.0f, 7.0f, 7.0f };
    qg_array X = tensor4(x, 1, 2, 2, 2);
    qg_array Y = tensor4(y, 1, 2, 2, 2);
    qg_array K = tensor4(y, 1, 1, 1, 1);
    qg_xnor_attrs a = { .axis = 4 };
    assert_failed(qg_xnor_weight_quantizer(&X, 4, &Y, NULL), QG_EARG, "axis is 4, must be 0 .. 3");
    assert_failed(qg_xnor_weight_quantizer(&X, 0, &Y, VECTOR(y, 8)), QG_ESHAPE, "alpha");
    assert_failed(qg_xnor_weight_quantizer_gradient(&X, &X, a, &Y), QG_EARG, "axis is 4");
    a = (qg_xnor_attrs){ .rule = QG_XNOR_AUTHORS, .input_axis = 1 };
    assert_failed(qg_xnor_weight_quantizer_gradient(VECTOR(x, 8), VECTOR(x, 8), a, VECTOR(y, 8)), QG_EARG,
                   "input_axis is 1");
    a = (qg_xnor_attrs){ .rule = (qg_xnor_rule)6 };
    assert_failed(qg_xnor_weight_quantizer_gradient(&X, &X, a, &Y), QG_EARG, "rule is 6");
    assert_failed(qg_xnor_activation_quantizer(&X, (qg_xnor_window){ 0, 1, 1, false }, &Y, &K),
                   QG_EARG, "kernel_h is 0");
    assert_failed(qg_xnor_activation_quantizer(&X, (qg_xnor_window){ 1, -1, 1, false }, &Y, &K),
                   QG_EARG, "kernel_w is -1");
    assert_failed(qg_xnor_activation_quantizer(&X, (qg_xnor_window){ 1, 1, 0, false }, &Y, &K),
                   QG_EARG, "stride is 0");
    assert_failed(qg_xnor_activation_quantizer(&X, (qg_xnor_window){ 1, 1, 1, false }, &Y, &K),
                   QG_ESHAPE, "shape of K is [1,1,1,1], must be [1,2,2,1]");
    assert_failed(qg_xnor_activation_quantizer(&X, (qg_xnor_window){ 3, 1, 1, false }, &Y, &K),
                   QG_ESHAPE, "must be [1,0,2,1]");
    assert_failed(qg_xnor_activation_quantizer(VECTOR(x, 8), (qg_xnor_window){ 1, 1, 1, false }, VECTOR(y, 8), &K),
                   QG_ESHAPE, "rank of x is 1, must be 4");
    for (int i = 0; i < 8; i++) assert_true(y[i] == 7.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_rules_by_hand),
        cmocka_unit_test(exact_rule_is_the_derivative),
        cmocka_unit_test(every_axis_against_the_formulas),
        cmocka_unit_test(scale_map_by_hand),
        cmocka_unit_test(scale_map_against_the_definition),
        cmocka_unit_test(scale_map_of_wide_images),
        cmocka_unit_test(empty_filters),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
