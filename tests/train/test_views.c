/* Test-time augmentation: the accuracy of scores that are averaged over views of an image. */
#include "tests/support/testing.h"

#include "core/rng.h"
#include "qgrad.h"

enum { N = 300, H = 6, W = 5, C = 2, ROW = H * W * C, CLASSES = 3 };

/* Noise, in batches of which the last is shorter. */
static qg_loader *noise(void)
{
    uint8_t  byte[N * ROW];
    uint16_t label[N];
    for (int i = 0; i < N * ROW; i++) byte[i] = (uint8_t)qg_bits(1, (uint64_t)i);
    for (int i = 0; i < N; i++) label[i] = (uint16_t)(qg_bits(2, (uint64_t)i) % CLASSES);
    const qg_loader_spec spec = { .batch = 128, .in_order = true, .normalise = { .kind = QG_PER_CHANNEL } };
    qg_loader           *l    = qg_arrays((qg_shape){ N, H, W, C }, byte, label, CLASSES, spec);
    if (!l) fail_msg("%s", qg_errmsg());
    return l;
}

static qg_net *net_of(void)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = C, .seed = 4 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3 });
    qg_net_relu(net);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES });
    if (!qg_net_build(net)) fail_msg("%s", qg_errmsg());
    return net;
}

static int reflected(int i, int n) { return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i; }

/* Adds weight times the scores of image x, moved and mirrored. */
static void add_scores(qg_net *net, qg_tape *t, const float *x, int by, bool mirrored, double weight,
                       double *sum)
{
    float view[ROW];
    for (int y = 0; y < H; y++)
        for (int k = 0; k < W; k++)
            for (int c = 0; c < C; c++) {
                const int row = reflected(y + by, H), column = reflected((mirrored ? W - 1 - k : k) + by, W);
                view[(y * W + k) * C + c] = x[(row * W + column) * C + c];
            }
    qg_tape_begin(t, QG_EVAL, 1, 0);
    const qg_var *scores = qg_net_forward(net, t, (qg_tensor){ { 1, H, W, C }, view });
    if (!scores) fail_msg("%s", qg_errmsg());
    for (int k = 0; k < CLASSES; k++) sum[k] += weight * (double)scores->data[k];
}

/* No two of these mean scores are so close that a rounding decides. */
static void scores_are_averaged(void **state)
{
    qg_loader    *l   = noise();
    qg_net       *net = net_of();
    qg_tape      *t   = qg_tape_new();
    qg_assessment plain, a;
    int           correct = 0;
    for (int i = 0; i < N; i++) {
        float  x[ROW];
        double sum[CLASSES] = { 0 };
        int    best = 0;
        assert_ok(qg_loader_image(l, (uint64_t)i, x));
        for (int mirrored = 0; mirrored < 2; mirrored++) {
            add_scores(net, t, x, 0, mirrored, 0.25, sum);
            add_scores(net, t, x, -1, mirrored, 0.125, sum);
            add_scores(net, t, x, 1, mirrored, 0.125, sum);
        }
        for (int k = 1; k < CLASSES; k++)
            if (sum[k] > sum[best]) best = k;
        correct += best == qg_loader_labels(l)[i];
    }
    assert_ok(qg_evaluate(net, l, (qg_evaluate_spec){ .worst = 3 }, &plain));
    assert_ok(qg_evaluate(net, l, (qg_evaluate_spec){ .worst = 3, .tta = true }, &a));
    assert_true(plain.tta_accuracy == 0);
    assert_true(a.tta_accuracy == (double)correct / N && a.tta_accuracy != a.accuracy);
    assert_true(a.accuracy == plain.accuracy && a.loss == plain.loss);
    assert_true(a.worst[0].image == plain.worst[0].image);
    qg_assessment_free(&plain), qg_assessment_free(&a);
    qg_tape_free(t), qg_net_free(net), qg_loader_free(l);
}

/* A loop of one's own that measures its training images does not lose its place. */
static void the_loader_stays_where_it_was(void **state)
{
    static const uint64_t places[][2] = { { 0, 0 }, { 2, 1 }, { 2, 3 } };
    qg_loader *l   = noise();
    qg_net    *net = net_of();
    for (int i = 0; i < 6; i++) {
        qg_assessment a;
        uint64_t      epoch, batch;
        assert_ok(qg_loader_seek(l, places[i / 2][0], places[i / 2][1]));
        assert_ok(qg_evaluate(net, l, (qg_evaluate_spec){ .tta = i % 2 }, &a));
        assert_int_equal(a.images, N);
        qg_loader_tell(l, &epoch, &batch);
        assert_true(epoch == places[i / 2][0] && batch == places[i / 2][1]);
        qg_assessment_free(&a);
    }
    qg_net_free(net), qg_loader_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(scores_are_averaged),
                                        cmocka_unit_test(the_loader_stays_where_it_was) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
