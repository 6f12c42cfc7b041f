/* Surrogates that see a tensor as a whole. */
#include "tests/support/schemes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/reference/binary.h"
#include "quant/reference/uniform.h"
#include "quant/engine.h"
#include "tests/support/nets.h"
#include "tests/support/views.h"

/* dx = dy where |x| is at most arg times the mean |x| of its channel. */
static int calls, channels_seen;

static void within_mean(float arg, qg_split c, const float *x, const float *dy, float *dx)
{
    calls++;
    channels_seen = (int)c.depth;
    for (size_t k = 0; k < c.depth; k++) {
        double sum = 0;
        for (size_t o = 0; o < c.outer; o++)
            for (size_t i = 0; i < c.inner; i++) sum += fabs((double)x[(o * c.depth + k) * c.inner + i]);
        const double most = (double)arg * sum / (double)(c.outer * c.inner);
        for (size_t o = 0; o < c.outer; o++)
            for (size_t i = 0; i < c.inner; i++) {
                const size_t at = (o * c.depth + k) * c.inner + i;
                if (fabs((double)x[at]) <= most) dx[at] += dy[at];
            }
    }
}

/* The gradients of the scheme with its own surrogate, but for dx. */
static void assert_whole(qg_quant q, qg_role role, qg_shape shape)
{
    rig          r[2];
    const size_t n  = qg_count(shape);
    float       *dx = calloc(n, sizeof *dx);
    for (int w = 0; w < 2; w++) {
        qg_quant with = q;
        if (w) with.surrogate = qg_surrogate_whole(within_mean, 1.25f);
        with.role = role;
        open_rig(&r[w], with, role, shape);
        fill_uniform(r[w].x->value, n, -1.2f, 1.2f, 5);
        if (qg__scheme_hooks(q.scheme).start) start_rig(&r[w], true);
        r[w].dy = malloc(n * sizeof *r[w].dy);
        fill_uniform(r[w].dy, n, -1, 1, 6);
        calls = 0;
        learn_rig(&r[w], 0);
        assert_int_equal(calls, w);
    }
    assert_int_equal(channels_seen, role == QG_WEIGHT ? shape.n : shape.c);
    const qg_split c = role == QG_WEIGHT ? (qg_split){ 1, (size_t)shape.n, qg_row(shape) }
                                         : (qg_split){ n / (size_t)shape.c, (size_t)shape.c, 1 };
    within_mean(1.25f, c, r[1].x->value, r[1].dy, dx);
    assert_memory_equal(r[1].y->data, r[0].y->data, n * sizeof(float));
    assert_memory_equal(r[1].x->grad, dx, n * sizeof(float));
    for (int i = 0; i < QG_MAX_LEARNED && r[0].learned[i]; i++)
        if (r[0].learned[i]->grad)
            assert_memory_equal(r[1].learned[i]->grad, r[0].learned[i]->grad, qg_count(r[0].learned[i]->shape) * sizeof(float));
    for (int w = 0; w < 2; w++) close_rig(&r[w]);
    free(dx);
}

static void every_scheme_takes_one(void **state)
{
    const qg_shape shape = { 5, 3, 4, 7 };
    int            taken = 0;
    for (const qg_scheme *const *s = qg_schemes; *s; s++)
        for (unsigned role = QG_WEIGHT; role <= QG_INPUT; role *= 2) {
            qg_quant q;
            if (!((*s)->roles & role)) continue;
            assert_ok(qg_scheme_parse(*s, (qg_role)role, NULL, &q));
            /* The slope is part of the gradients of what adabin learns for inputs. */
            const bool learns_by_slope = role == QG_INPUT && !strcmp((*s)->name, "adabin");
            if (!q.scheme->mix && !learns_by_slope) assert_whole(q, (qg_role)role, shape), taken++;
        }
    assert_true(taken >= 16);
    assert_whole(qg_fake_quant((qg_fake_quant_spec){ .per_channel = true }), QG_INPUT, shape);
    assert_whole(qg_ttq((qg_ttq_spec){ .per_channel = true }), QG_WEIGHT, shape);
    assert_whole(qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = 3 }), QG_WEIGHT, shape);
}

/* A gradient that could be a slope trains the same net, whatever is fused around its quantizer. */
static void clip_as_whole(float bound, qg_split c, const float *x, const float *dy, float *dx)
{
    for (size_t i = 0; i < c.outer * c.depth * c.inner; i++)
        if (fabsf(x[i]) <= bound) dx[i] += dy[i];
}

static uint64_t digest_of(qg_surrogate s)
{
    float    image[6 * 64];
    uint16_t label[6];
    qg_net  *net = qg_net_new((qg_net_spec){ .height = 8, .width = 8, .channels = 1, .seed = 3 });
    fill_bands((qg_shape){ 6, 8, 8, 1 }, 3, 1, image, label);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 4, .kernel = 3, .weight = qg_binary((qg_binary_spec){ .surrogate = s }) });
    qg_net_batchnorm(net);
    qg_net_dense(net, (qg_dense_spec){ .out = 3, .weight = qg_twn((qg_twn_spec){ .surrogate = s }),
                                       .input = qg_sign((qg_sign_spec){ .surrogate = s }) });
    qg_params *p = qg_net_build(net);
    qg_optim  *o = qg_adam(p, (qg_adam_spec){ .lr = 1e-2f });
    qg_tape   *t = qg_tape_new();
    assert_non_null(o);
    for (uint64_t step = 0; step < 4; step++) train_step(net, t, o, (qg_tensor){ { 6, 8, 8, 1 }, image }, label, step);
    const uint64_t digest = qg_params_digest(p);
    qg_tape_free(t), qg_optim_free(o), qg_net_free(net);
    return digest;
}

static void it_trains_in_nets(void **state)
{
    assert_true(digest_of(qg_surrogate_whole(clip_as_whole, 1)) == digest_of(qg_surrogate_clip(1)));
    assert_true(digest_of(qg_surrogate_whole(within_mean, 1)) != digest_of(qg_surrogate_clip(1)));
}

static void operators_on_arrays_take_one(void **state)
{
    float              x[] = { 1, -4, 2, 0.5f, 0.25f, -0.125f }, dy[] = { 1, 2, 3, 4, 5, 6 }, dx[6], step;
    const qg_surrogate s   = qg_surrogate_whole(within_mean, 1);
    assert_ok(qg_binary_mean_scaling_quantizer_gradient(VECTOR(x, 6), VECTOR(dy, 6), s, VECTOR(dx, 6)));
    assert_close(dx, (float[]){ 1, 0, 0, 4, 5, 6 }, 6, 0);              /* mean 1.3125 */
    assert_ok(qg_sign_quantizer_gradient(VECTOR(x, 6), VECTOR(dy, 6), s, VECTOR(dx, 6)));
    assert_close(dx, (float[]){ 1, 0, 0, 4, 5, 6 }, 6, 0);
    const qg_lsq_attrs lsq = { .step = 0.5f, .qn = 2, .qp = 1, .grad_scale = 1, .surrogate = s };
    assert_ok(qg_lsq_quantizer_gradient(VECTOR(x, 6), VECTOR(dy, 6), lsq, VECTOR(dx, 6), &step));
    assert_close(dx, (float[]){ 1, 0, 0, 4, 5, 6 }, 6, 0);
    assert_failed(qg_xnor_weight_quantizer_gradient(MATRIX(x, 2, 3), MATRIX(dy, 2, 3), (qg_xnor_attrs){ .surrogate = s }, MATRIX(dx, 2, 3)),
                  QG_EARG, "xnor_weight_quantizer_gradient: the surrogate must be a slope");
    assert_failed(qg_magnitude_aware_sign_quantizer_gradient(MATRIX(x, 2, 3), MATRIX(dy, 2, 3), s, MATRIX(dx, 2, 3)), QG_EARG,
                  "the surrogate must be a slope");
}

static void where_it_cannot_be_it_is_refused(void **state)
{
    const qg_surrogate s = qg_surrogate_whole(within_mean, 1);
    assert_failed(qg__quant_check(qg_xnor((qg_xnor_spec){ .surrogate = s })), QG_EARG, "xnor: its gradient is more than");
    assert_failed(qg__quant_check(qg_magnitude_aware((qg_magnitude_aware_spec){ .surrogate = s })), QG_EARG, "magnitude-aware");
    assert_null(qg_surrogate_whole(NULL, 1).slope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scheme_takes_one),
        cmocka_unit_test(it_trains_in_nets),
        cmocka_unit_test(operators_on_arrays_take_one),
        cmocka_unit_test(where_it_cannot_be_it_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
