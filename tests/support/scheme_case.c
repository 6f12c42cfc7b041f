#include "tests/support/scheme_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/ops/ops.h"
#include "core/kernels/parallel.h"
#include "layers/layer.h"
#include "optim/optim.h"
#include "tests/support/nets.h"
#include "tests/support/testing.h"

/* --- alone -------------------------------------------------------------------------------- */

void case_open(scheme_case *c, qg_quant q, qg_shape shape, uint64_t key)
{
    *c   = (scheme_case){ .q = q, .n = qg_count(shape), .t = qg_tape_new() };
    c->x = declare(&c->p, "x", shape);
    float *value[QG_MAX_LEARNED] = { 0 };
    for (int i = 0; i < qg_learned_count(q); i++) {
        const qg_learned *l = &q.scheme->learned[i];
        c->learned[i]       = declare(&c->p, l->name, qg_learned_shape(q, l, shape, QG_WEIGHT));
    }
    assert_int_equal(qg_params_allocate(&c->p), QG_OK);
    fill_uniform(c->x->value, c->n, -1.2f, 1.2f, key);
    for (int i = 0; i < qg_learned_count(q); i++) value[i] = c->learned[i]->value;
    if (q.scheme->start) q.scheme->start(q, (qg_tensor){ shape, c->x->value }, value);
    c->dy = malloc(c->n * sizeof *c->dy);
    assert_non_null(c->dy);
    fill_uniform(c->dy, c->n, -1, 1, key + 1);
}

qg_var *case_forward(scheme_case *c, qg_mode mode, uint64_t step)
{
    qg_var *learned[QG_MAX_LEARNED] = { 0 };
    qg_tape_begin(c->t, mode, CASE_KEY, step);
    for (int i = 0; i < QG_MAX_LEARNED && c->learned[i]; i++) learned[i] = qg_parameter(c->t, c->learned[i]);
    c->y = qg_quantize(c->t, c->q, qg_parameter(c->t, c->x), learned);
    if (!c->y) fail_msg("%s", qg_errmsg());
    return c->y;
}

void case_backward(scheme_case *c)
{
    memset(c->p.grad, 0, c->p.length * sizeof *c->p.grad);
    if (qg_backward(c->t, weighed(c->t, c->y, c->dy))) fail_msg("%s", qg_errmsg());
}

void case_close(scheme_case *c)
{
    free(c->dy);
    qg_tape_free(c->t);
    qg_params_release(&c->p);
}

qg_array case_array(qg_shape shape, float *data)
{
    return (qg_array){ .dtype = QG_F32,
                       .rank  = 4,
                       .dims  = { (size_t)shape.n, (size_t)shape.h, (size_t)shape.w, (size_t)shape.c },
                       .data  = data };
}

void assert_codes_give_values(scheme_case *c, int lo, int hi, double tolerance)
{
    const qg_shape shape = c->x->shape;
    int32_t       *code  = malloc(c->n * sizeof *code);
    float         *scale = malloc(2 * (size_t)shape.n * sizeof *scale);
    const float   *learned[QG_MAX_LEARNED] = { 0 };
    qg_codes       codes = { .code = code, .scale = scale, .negative = scale + shape.n };
    assert_true(code && scale);
    for (int i = 0; i < QG_MAX_LEARNED && c->learned[i]; i++) learned[i] = c->learned[i]->value;
    assert_int_equal(qg_encode(c->q, (qg_tensor){ shape, c->x->value }, learned, &codes), QG_OK);
    assert_true(codes.n_scale == 1 || codes.n_scale == shape.n);
    const qg_var *y = case_forward(c, QG_EVAL, 0);
    for (size_t i = 0; i < c->n; i++) {
        const size_t channel = codes.n_scale == 1 ? 0 : i / qg_row(shape);
        const float  s       = codes.two_sided && code[i] < 0 ? codes.negative[channel] : scale[channel];
        const float  value   = s * (float)code[i];
        assert_true(code[i] >= lo && code[i] <= hi);
        if (!(fabs((double)value - (double)y->data[i]) <= tolerance))
            fail_msg("[%zu] code %d is %.9g, apply gives %.9g", i, (int)code[i], (double)value,
                     (double)y->data[i]);
    }
    free(scale);
    free(code);
}

/* --- fused -------------------------------------------------------------------------------- */

enum { NORM_N = 5, NORM_H = 7, NORM_C = 33 };

static void norm_step(qg_params *p, qg_tape *t, qg_quant q, bool fused, uint64_t step, float *y,
                      const float *dy)
{
    float        mean[NORM_C] = { 0 }, var[NORM_C] = { 0 };
    qg_norm_spec spec = { .mean = mean, .var = var, .pool = 2 };
    qg_tape_begin(t, QG_TRAIN, 1, step);
    memset(p->grad, 0, p->length * sizeof *p->grad);
    qg_slot slot = { .q = q };
    if (fused) qg_slot_fuse(&slot, t, &spec);
    qg_var *v = qg_norm(t, qg_parameter(t, p->item[0]), qg_parameter(t, p->item[1]),
                        qg_parameter(t, p->item[2]), spec);
    if (!fused) v = qg_slot_apply(&slot, t, v);
    if (!v) fail_msg("%s", qg_errmsg());
    memcpy(y, v->data, qg_count(v->shape) * sizeof *y);
    assert_int_equal(qg_backward(t, weighed(t, v, dy)), QG_OK);
}

void assert_fused_as_unfused(qg_quant q, uint64_t step)
{
    enum { OUT = NORM_N * 3 * 3 * NORM_C };
    static float y[2][OUT], dy[OUT];
    qg_params    p = { 0 };
    qg_tape     *t = qg_tape_new();
    declare(&p, "x", (qg_shape){ NORM_N, NORM_H, NORM_H, NORM_C });
    declare(&p, "gamma", (qg_shape){ 1, 1, 1, NORM_C });
    declare(&p, "beta", (qg_shape){ 1, 1, 1, NORM_C });
    allocate_apart(&p, 3);
    fill_uniform(dy, OUT, -1, 1, 4);
    float *grad = malloc(p.length * sizeof *grad);
    assert_non_null(grad);
    norm_step(&p, t, q, true, step, y[0], dy);
    memcpy(grad, p.grad, p.length * sizeof *grad);
    norm_step(&p, t, q, false, step, y[1], dy);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_equal(grad, p.grad, p.length * sizeof *grad);
    bool moves = false;
    for (size_t i = 0; i < p.length; i++) moves = moves || grad[i] != 0;
    assert_true(moves);
    free(grad);
    qg_tape_free(t);
    qg_params_release(&p);
}

/* --- in a net ----------------------------------------------------------------------------- */

enum { BATCH = 9, SIDE = 9 };

static uint64_t train(qg_quant weight, qg_quant input, qg_quant gradient, uint64_t key)
{
    static float   image[BATCH * SIDE * SIDE * 3];
    static uint8_t label[BATCH];
    fill_uniform(image, BATCH * SIDE * SIDE * 3, -1, 1, 5);
    for (int i = 0; i < BATCH; i++) label[i] = (uint8_t)(i % 3);
    qg_net *net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 3, .seed = 6 });
    qg_net_conv2d(net,
                  (qg_conv2d_spec){ .out = 33, .kernel = 3, .weight = weight, .gradient = gradient });
    qg_net_batchnorm(net);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 17, .kernel = 3, .stride = 2, .pad = 1,
                                         .weight = weight, .input = input, .gradient = gradient });
    qg_net_batchnorm(net);
    qg_net_dense(net,
                 (qg_dense_spec){ .out = 3, .weight = weight, .input = input, .gradient = gradient });
    qg_params *p = qg_net_build(net);
    if (!p) fail_msg("%s", qg_errmsg());
    bool flips = false;
    for (int i = 0; i < p->count; i++) flips = flips || p->item[i]->flips;
    const qg_adam_spec adam = { .lr = 0.01f };
    qg_optim *o = flips ? qg_bop(p, (qg_bop_spec){ .gamma = 0.1f, .rest = adam }) : qg_adam(p, adam);
    qg_tape  *t = qg_tape_new();
    for (uint64_t step = 0; step < 4; step++) {
        qg_tape_begin(t, QG_TRAIN, key, step);
        qg_var *y = qg_net_forward(net, t, (qg_tensor){ { BATCH, SIDE, SIDE, 3 }, image });
        if (qg_backward(t, qg_cross_entropy(t, y, label)) || qg_optim_step(o))
            fail_msg("%s", qg_errmsg());
    }
    const uint64_t digest = qg_params_digest(p);
    qg_tape_free(t);
    qg_optim_free(o);
    qg_net_free(net);
    return digest;
}

void assert_any_threads(qg_quant weight, qg_quant input, qg_quant gradient, bool draws)
{
    qg_set_threads(1);
    const uint64_t one = train(weight, input, gradient, 1);
    assert_true(train(weight, input, gradient, 1) == one);
    for (int threads = 2; threads <= 3; threads++) {
        qg_set_threads(threads);
        assert_true(train(weight, input, gradient, 1) == one);
    }
    assert_int_equal(train(weight, input, gradient, 2) != one, draws);
    qg_set_threads(1);
}

void case_refused(qg_quant q, qg_role role, const char *part, const char *other)
{
    qg_net       *net  = qg_net_new((qg_net_spec){ .height = 1, .width = 1, .channels = 3, .seed = 1 });
    qg_dense_spec spec = { .out = 2 };
    if (role == QG_WEIGHT) spec.weight = q;
    if (role == QG_INPUT) spec.input = q;
    if (role == QG_GRADIENT) spec.gradient = q;
    qg_net_dense(net, spec);
    assert_null(qg_net_build(net));
    assert_message(part);
    assert_message(other);
    qg_net_free(net);
}
