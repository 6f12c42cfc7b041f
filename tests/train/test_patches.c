/* Filters that whiten the patches of images. */
#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "core/io/hash.h"
#include "core/rng.h"
#include "qgrad.h"
#include "train/patches.h"

/* More than 5,000 images, of which every second one is read. */
enum { N = 10000, H = 5, W = 6, C = 2, KH = 2, KW = 3, K = KH * KW * C };

/* Values that depend on those before them; the images that nothing should read are white. */
static qg_loader *images(bool constant)
{
    static uint8_t  byte[N * H * W * C];
    static uint16_t label[N];
    for (int i = 0; i < N; i++)
        for (int k = 0; k < H * W * C; k++) {
            uint8_t  *at    = byte + i * H * W * C + k;
            const int drawn = (int)(qg_bits(9, (uint64_t)(i * H * W * C + k)) % 64);
            const int value = drawn + (k < C ? 0 : 3 * at[-C]) / 2 + (k ? at[-1] : 0) / 4;
            *at             = i % 2 || constant ? 255 : (uint8_t)(value % 200);
        }
    const qg_shape shape = { N, H, W, C };
    qg_loader     *l     = qg_arrays(shape, byte, label, 2, (qg_loader_spec){ .batch = 10, .seed = 3 });
    if (!l) fail_msg("%s", qg_errmsg());
    return l;
}

static qg_net *net_of(qg_conv2d_spec conv)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = C, .seed = 5 });
    qg_net_conv2d(net, conv);
    qg_net_relu(net);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 2, .kernel = 1 });
    if (!qg_net_build(net)) fail_msg("%s", qg_errmsg());
    return net;
}

/* The covariance of what the filters w [n][K] compute from the images that are read, in c [n][n]. */
static void covariance(qg_loader *l, int n, const float *w, double *c)
{
    float  x[H * W * C];
    double sum[2 * K] = { 0 }, count = 0;
    memset(c, 0, (size_t)(n * n) * sizeof *c);
    for (int i = 0; i < N; i += 2) {
        assert_ok(qg_loader_image(l, (uint64_t)i, x));
        for (int p = 0; p < (H - KH + 1) * (W - KW + 1); p++) {
            const int top = p / (W - KW + 1), left = p % (W - KW + 1);
            double    y[2 * K] = { 0 };
            for (int o = 0; o < n; o++) {
                for (int k = 0; k < K; k++) {
                    const int row = top + k / C / KW, column = left + k / C % KW;
                    y[o] += (double)w[o * K + k] * (double)x[(row * W + column) * C + k % C];
                }
                sum[o] += y[o];
                for (int q = 0; q <= o; q++) c[o * n + q] += y[o] * y[q];
            }
            count++;
        }
    }
    for (int o = 0; o < n; o++)
        for (int q = 0; q <= o; q++) {
            c[o * n + q] = c[o * n + q] / count - sum[o] / count * (sum[q] / count);
            c[q * n + o] = c[o * n + q];
        }
}

/* Filter 2 i and its negative have variance l / (l + e), which falls, and no covariance with others. */
static void patches_become_white(void **state)
{
    qg_loader *l   = images(false);
    qg_net    *net = net_of((qg_conv2d_spec){ .out = 2 * K, .kernel = KH, .kernel_w = KW });
    assert_ok(qg__patches_whiten(net, "conv1", l));
    const qg_param *w = qg_params_find(qg_net_params(net), "conv1.weight");
    double          c[4 * K * K];
    covariance(l, 2 * K, w->value, c);
    double squares = 0, sum = 0;            /* 1 / |w|^2 = l + e, whose sum is K (1 + 0.0005) trace / K */
    for (int i = 0; i < K; i++) {
        double size = 0;
        for (int k = 0; k < K; k++) size += (double)w->value[2 * i * K + k] * (double)w->value[2 * i * K + k];
        sum += 1 / size;
    }
    const double e = 0.0005 / 1.0005 * sum / K;
    for (int i = 0; i < K; i++) {
        const double variance = c[2 * i * 2 * K + 2 * i];
        double       size     = 0;
        for (int k = 0; k < K; k++) {
            size += (double)w->value[2 * i * K + k] * (double)w->value[2 * i * K + k];
            assert_true(w->value[2 * i * K + k] == -w->value[(2 * i + 1) * K + k]);
            /* Filters are rounded to 2^-24, and the largest amplify 100 times. */
            if (k != i) assert_true(fabs(c[2 * i * 2 * K + 2 * k]) < 1e-5);
        }
        assert_true(fabs(variance - (1 - e * size)) < 1e-5);
        assert_true(i == 0 || variance < c[2 * (i - 1) * 2 * K + 2 * (i - 1)]);
        squares += variance;
    }
    assert_true(squares > 0.9 * K);
    assert_true(w->frozen && !qg_params_find(qg_net_params(net), "conv1.bias")->frozen);

    /* The same on every machine, and with fewer filters the first of these. */
    const uint64_t hash = qg_hash(QG_HASH_BASIS, w->value, 2 * K * K * sizeof(float));
    assert_int_equal(hash, 0xb621daf2298e8fd5);
    qg_net *less = net_of((qg_conv2d_spec){ .out = 5, .kernel = KH, .kernel_w = KW });
    assert_ok(qg__patches_whiten(less, "conv1", l));
    const qg_param *first = qg_params_find(qg_net_params(less), "conv1.weight");
    assert_memory_equal(first->value, w->value, 5 * K * sizeof(float));
    qg_net_free(less), qg_net_free(net), qg_loader_free(l);
}

static void refusals(void **state)
{
    static const struct {
        qg_conv2d_spec conv;
        const char    *layer, *message;
        bool           constant;
    } wrong[] = {
        { { .out = 25, .kernel = 2, .kernel_w = 3 }, "conv1",
          "conv1 has 25 outputs, more than 24: two for each of the 2x3x2 values of a patch", false },
        { { .out = 4, .kernel = 2, .groups = 2 }, "conv1", "conv1 has 2 groups, but must have one", false },
        { { .out = 4, .kernel = 6, .pad = 1 }, "conv1",
          "the kernel of conv1, 6x6, is larger than the images, 5x6", false },
        { { .out = 4, .kernel = 2 }, "conv2", "conv2 is not a product that reads the images", false },
        { { .out = 4, .kernel = 2 }, "relu1", "relu1 is not a product that reads the images", false },
        { { .out = 4, .kernel = 2 }, "conv3", "no layer is named 'conv3'", false },
        { { .out = 4, .kernel = 2 }, "conv1", "the patches that conv1 reads are all the same", true },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        qg_loader *l   = images(wrong[i].constant);
        qg_net    *net = net_of(wrong[i].conv);
        const uint64_t before = qg_params_digest(qg_net_params(net));
        assert_failed(qg__patches_whiten(net, wrong[i].layer, l), QG_EARG, wrong[i].message);
        assert_true(qg_params_digest(qg_net_params(net)) == before);
        qg_net_free(net), qg_loader_free(l);
    }
    qg_net *net = net_of((qg_conv2d_spec){ .out = 4, .kernel = 2, .weight = qg_twn((qg_twn_spec){ 0 }) });
    assert_failed(qg__patches_check(net, "conv1"), QG_EARG, "the weight of conv1 is quantized with twn");
    qg_net_free(net);

    qg_loader *large = qg_synthetic((qg_shape){ 1, 17, 17, 1 }, 4, 2, (qg_loader_spec){ .batch = 2 });
    net              = qg_net_new((qg_net_spec){ .height = 17, .width = 17, .channels = 1 });
    qg_net_dense(net, (qg_dense_spec){ .out = 2 });
    assert_non_null(qg_net_build(net));
    assert_failed(qg__patches_whiten(net, "fc1", large), QG_EARG,
                  "a patch that fc1 reads has 289 values, more than 256");
    qg_net_free(net), qg_loader_free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patches_become_white),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
