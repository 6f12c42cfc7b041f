#include "tests/support/schemes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "core/ops/ops.h"
#include "core/profile.h"
#include "core/rng.h"
#include "layers/plan.h"
#include "optim/optim.h"
#include "tests/support/nets.h"
#include "tests/support/room.h"

/* --- on its own ------------------------------------------------------------------------------ */

void open_rig(rig *r, qg_quant q, qg_role role, qg_shape x)
{
    *r      = (rig){ .q = q, .t = qg_tape_new(), .n = qg_count(x) };
    r->q.role = role;
    r->x    = declare(&r->p, "x", x);
    for (int i = 0; i < qg_learned_count(q); i++) {
        const qg_learned *l = &q.scheme->learned[i];
        r->learned[i]       = qg_params_declare(
            &r->p, (qg_param){ .name  = l->name,
                                    .shape = qg_learned_shape(q, l, x, role),
                                    .group = l->tracked ? QG_TRACKED : QG_SCALES });
        assert_non_null(r->learned[i]);
    }
    assert_ok(qg_params_allocate(&r->p));
    assert_non_null(r->t);
}

void start_rig(rig *r, bool with_values)
{
    float *value[QG_MAX_LEARNED] = { 0 };
    for (int i = 0; i < QG_MAX_LEARNED && r->learned[i]; i++) value[i] = r->learned[i]->value;
    qg__scheme_hooks(r->q.scheme).start(r->q, (qg_tensor){ r->x->shape, with_values ? r->x->value : NULL }, value);
}

void close_rig(rig *r)
{
    free(r->dy);
    qg_tape_free(r->t);
    qg_params_release(&r->p);
}

qg_status run_rig(rig *r, qg_mode mode, uint64_t step)
{
    qg_var *learned[QG_MAX_LEARNED] = { 0 };
    qg_tape_begin(r->t, mode, RIG_KEY, step);
    for (int i = 0; i < QG_MAX_LEARNED; i++)
        if (r->learned[i]) learned[i] = qg_parameter(r->t, r->learned[i]);
    r->y = qg_quantize(r->t, r->q, qg_parameter(r->t, r->x), learned);
    return qg_tape_status(r->t);
}

void train_rig_on(rig *r, uint64_t step, const float *dy)
{
    assert_ok(run_rig(r, QG_TRAIN, step));
    qg_var *loss  = weighed(r->t, r->y, dy);
    loss->data[0] = 0.0f;       /* NaN in y is legal here, but a loss of NaN is an error */
    assert_ok(qg_backward(r->t, loss));
}

void train_rig(rig *r, uint64_t step, const float *dy)
{
    memset(r->p.grad, 0, r->p.length * sizeof *r->p.grad);
    train_rig_on(r, step, dy);
}

void fill_rig(rig *r, qg_quant q, qg_shape shape, uint64_t key)
{
    open_rig(r, q, qg__quant_role(q), shape);
    fill_uniform(r->x->value, r->n, -1.2f, 1.2f, key);
    if (qg__scheme_hooks(q.scheme).start) start_rig(r, true);
    r->dy = malloc(r->n * sizeof *r->dy);
    assert_non_null(r->dy);
    fill_uniform(r->dy, r->n, -1, 1, key + 1);
}

qg_var *forward_rig(rig *r, qg_mode mode, uint64_t step)
{
    if (run_rig(r, mode, step)) fail_msg("%s", qg_errmsg());
    return r->y;
}

void backward_rig(rig *r)
{
    memset(r->p.grad, 0, r->p.length * sizeof *r->p.grad);
    if (qg_backward(r->t, weighed(r->t, r->y, r->dy))) fail_msg("%s", qg_errmsg());
}

void learn_rig(rig *r, uint64_t step)
{
    forward_rig(r, QG_TRAIN, step);
    backward_rig(r);
}

qg_array rig_array(qg_shape shape, float *data)
{
    return (qg_array){ .dtype = QG_F32,
                       .rank  = 4,
                       .dims  = { (size_t)shape.n, (size_t)shape.h, (size_t)shape.w, (size_t)shape.c },
                       .data  = data };
}

void assert_codes_give_values(rig *r, int lo, int hi, double tolerance)
{
    const qg_shape shape = r->x->shape;
    int32_t       *code  = malloc(r->n * sizeof *code);
    float         *scale = malloc(2 * (size_t)shape.n * sizeof *scale);
    const float   *learned[QG_MAX_LEARNED] = { 0 };
    qg_codes       codes = { .code = code, .scale = scale, .negative = scale + shape.n };
    assert_true(code && scale);
    for (int i = 0; i < QG_MAX_LEARNED && r->learned[i]; i++) learned[i] = r->learned[i]->value;
    assert_ok(qg_encode(r->q, (qg_tensor){ shape, r->x->value }, learned, &codes));
    assert_true(codes.n_scale == 1 || codes.n_scale == shape.n);
    const qg_var *y = forward_rig(r, QG_EVAL, 0);
    for (size_t i = 0; i < r->n; i++) {
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

/* --- slopes ---------------------------------------------------------------------------------- */

typedef struct slope_case {
    qg_quant  q;
    qg_params params;
    double  (*s)(double x, void *context);
    void     *context;
} slope_case;

static qg_var *slope_op(qg_tape *t, qg_var *x, void *context)
{
    const slope_case *k = context;
    qg_var           *learned[QG_MAX_LEARNED] = { 0 };
    for (int i = 0; i < k->params.count; i++) learned[i] = qg_parameter(t, k->params.item[i]);
    return qg_quantize(t, k->q, x, learned);
}

static double slope_s(double x, void *context)
{
    const slope_case *k = context;
    return k->s(x, k->context);
}

void assert_slope(qg_quant q, qg_role role, const float *learned, double (*s)(double x, void *context),
                  void *context, float lo, float hi)
{
    slope_case          k = { .q = q, .s = s, .context = context };
    qg_gradcheck_result r;
    k.q.role = role;
    for (int i = 0; i < qg_learned_count(q); i++)
        declare(&k.params, q.scheme->learned[i].name, (qg_shape){ 1, 1, 1, 1 });
    assert_ok(qg_params_allocate(&k.params));
    for (int i = 0; i < k.params.count; i++) k.params.item[i]->value[0] = learned[i];
    assert_int_equal(qg_slopecheck((qg_slopecheck_spec){ .name      = q.scheme->name,
                                                         .op        = slope_op,
                                                         .surrogate = slope_s,
                                                         .context   = &k,
                                                         .lo        = lo,
                                                         .hi        = hi,
                                                         .key       = 3 },
                                   &r),
                     QG_OK);
    if (!r.pass) fail_msg("%s: the slope is off by %g", r.name, r.error);
    qg_params_release(&k.params);
}

/* --- in a net -------------------------------------------------------------------------------- */

enum { SIDE = 11, CHANNELS = 3, BATCH = 5, CLASSES = 4, STEPS = 4 };

typedef struct small {
    qg_net    *net;
    qg_params *params;
    qg_tape   *tape;
    qg_profile profile;
    float      loss;
} small;

static void open_small(small *s, qg_quant weight, qg_quant input, bool own_layer)
{
    const bool rectifies = input.scheme && input.scheme->rectifies;
    *s     = (small){ .tape = qg_tape_new() };
    s->net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 3 });
    qg_net_conv2d(s->net, (qg_conv2d_spec){ .out = CHANNELS, .kernel = 3, .weight = weight });
    qg_net_batchnorm(s->net);
    if (!rectifies) qg_net_relu(s->net);
    qg_net_maxpool(s->net, 2);
    if (own_layer) qg_net_dropout(s->net, 0), qg_net_quantize(s->net, input);   /* apart: not folded */
    qg_net_dense(s->net, (qg_dense_spec){ .out    = CLASSES,
                                          .weight = weight,
                                          .input  = own_layer ? (qg_quant){ 0 } : input });
    s->params = qg_net_build(s->net);
    if (!s->params) fail_msg("%s", qg_errmsg());
    assert_non_null(s->tape);
    qg_tape_profile(s->tape, &s->profile);
}

static void close_small(small *s)
{
    qg_tape_free(s->tape);
    qg_net_free(s->net);
}

static float images[BATCH * SIDE * SIDE];

/* Forward, and backward when training. */
static void run_small(small *s, qg_mode mode, uint64_t step)
{
    static const uint16_t labels[BATCH] = { 0, 3, 1, 2, 3 };
    fill_uniform(images, BATCH * SIDE * SIDE, -1.0f, 1.0f, step + 7);
    s->profile.rows = 0;
    qg_tape_begin(s->tape, mode, 1, step);
    qg_var *y = qg_net_forward(s->net, s->tape, (qg_tensor){ { BATCH, SIDE, SIDE, 1 }, images });
    qg_var *l = qg_cross_entropy(s->tape, y, labels);
    if (!l) fail_msg("%s", qg_errmsg());
    s->loss = l->data[0];
    memset(s->params->grad, 0, s->params->length * sizeof *s->params->grad);
    if (mode == QG_TRAIN) assert_ok(qg_backward(s->tape, l));
}

static void step_small(small *s, uint64_t step)
{
    run_small(s, QG_TRAIN, step);
    for (size_t i = 0; i < s->params->length; i++) s->params->value[i] -= 0.05f * s->params->grad[i];
}

static bool ran(const small *s, const char *op)
{
    for (int i = 0; i < s->profile.rows; i++)
        if (!strcmp(s->profile.row[i].op, op)) return true;
    return false;
}

/* The parameter of the other net: "fc1.input.step" is "quant1.input.step" there. */
static qg_param *counterpart(const small *other, const qg_param *p)
{
    char        name[128];
    const char *input = strstr(p->name, ".input.");
    snprintf(name, sizeof name, "%s%s", input ? "quant1" : "", input ? input : p->name);
    qg_param *found = qg_params_find(other->params, name);
    assert_non_null(found);
    return found;
}

static void assert_same_gradients(const small *fused, const small *apart)
{
    for (int i = 0; i < fused->params->count; i++) {
        const qg_param *a = fused->params->item[i], *b = counterpart(apart, a);
        double          size = 0;
        if (!a->grad) continue;
        for (size_t k = 0; k < qg_count(a->shape); k++) size = fmax(size, fabs((double)b->grad[k]));
        /* Sums of some hundred terms, cut elsewhere: their last bits differ. */
        assert_close(a->grad, b->grad, qg_count(a->shape), 1e-5 * size + 1e-12);
    }
}

void assert_fused_equals_unfused(qg_quant q, const char *op, int fused_from)
{
    small fused, apart;
    open_small(&fused, (qg_quant){ 0 }, q, false);
    open_small(&apart, (qg_quant){ 0 }, q, true);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < fused.params->count; i++) {
            const qg_param *p = fused.params->item[i];
            memcpy(counterpart(&apart, p)->value, p->value, qg_count(p->shape) * sizeof(float));
        }
        run_small(&fused, QG_EVAL, (uint64_t)step);
        run_small(&apart, QG_EVAL, (uint64_t)step);
        assert_memory_equal(&fused.loss, &apart.loss, sizeof fused.loss);
        step_small(&fused, (uint64_t)step);
        step_small(&apart, (uint64_t)step);
        assert_memory_equal(&fused.loss, &apart.loss, sizeof fused.loss);
        assert_int_equal(ran(&fused, op), fused_from < 0 || step < fused_from);
        assert_true(ran(&apart, op));
        assert_same_gradients(&fused, &apart);
        for (int i = 0; i < fused.params->count; i++) {     /* what is tracked moved alike */
            const qg_param *a = fused.params->item[i], *b = counterpart(&apart, a);
            if (!a->grad) assert_memory_equal(a->value, b->value, qg_count(a->shape) * sizeof(float));
        }
    }
    close_small(&fused);
    close_small(&apart);
}

static uint64_t digest_after(qg_quant weight, qg_quant input, int threads, const char *path)
{
    small s;
    qg_set_threads(threads);
    open_small(&s, weight, input, false);
    for (uint64_t step = 0; step < STEPS; step++) {
        step_small(&s, step);
        const uint64_t before = qg_params_digest(s.params);
        run_small(&s, QG_EVAL, step + 1);
        assert_true(qg_params_digest(s.params) == before);
        if (!path || step != STEPS / 2) continue;
        /* The rest is trained by another net, which begins with other values. */
        assert_ok(qg_net_save(s.net, path));
        close_small(&s);
        open_small(&s, weight, input, false);
        step_small(&s, 99);
        assert_true(qg_params_digest(s.params) != before);
        assert_ok(qg_net_load(s.net, path));
        assert_true(qg_params_digest(s.params) == before);
    }
    const uint64_t digest = qg_params_digest(s.params);
    close_small(&s);
    qg_set_threads(0);
    return digest;
}

void assert_trains_alike(qg_quant weight, qg_quant input)
{
    const uint64_t one = digest_after(weight, input, 1, NULL);
    assert_true(digest_after(weight, input, 2, NULL) == one);
    assert_true(digest_after(weight, input, 3, NULL) == one);
    assert_true(digest_after(weight, input, 1, scratch_file()) == one);
}

/* --- fused -------------------------------------------------------------------------------- */

enum { NORM_N = 5, NORM_H = 7, NORM_C = 33 };

static void norm_step(qg_params *p, qg_tape *t, qg_quant q, bool fused, uint64_t step, float *y,
                      const float *dy)
{
    float        mean[NORM_C] = { 0 }, var[NORM_C] = { 0 };
    const qg_norm_spec spec = { .mean = mean, .var = var };
    qg_norm_fusion     with = { .pool = 2 };
    qg_tape_begin(t, QG_TRAIN, 1, step);
    memset(p->grad, 0, p->length * sizeof *p->grad);
    qg_slot slot = { .q = q };
    assert_ok(qg_bind(q, qg__quant_role(q), p->item[0]->shape, &slot.bound));
    if (fused) qg__slot_fuse(&slot, t, &with);
    qg_var *v = qg_norm_fused(t, qg_parameter(t, p->item[0]), qg_parameter(t, p->item[1]), qg_parameter(t, p->item[2]), spec,
                              with);
    if (!fused) v = qg_slot_apply(&slot, t, v);
    if (!v) fail_msg("%s", qg_errmsg());
    memcpy(y, v->data, qg_count(v->shape) * sizeof *y);
    assert_ok(qg_backward(t, weighed(t, v, dy)));
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

/* --- two convolutions and a dense layer ------------------------------------------------------- */

enum { MANY = 9, WIDTH = 9 };

static uint64_t train(qg_quant weight, qg_quant input, qg_quant gradient, uint64_t key)
{
    static float   image[MANY * WIDTH * WIDTH * 3];
    static uint16_t label[MANY];
    fill_uniform(image, MANY * WIDTH * WIDTH * 3, -1, 1, 5);
    for (int i = 0; i < MANY; i++) label[i] = (uint8_t)(i % 3);
    qg_net *net = qg_net_new((qg_net_spec){ .height = WIDTH, .width = WIDTH, .channels = 3, .seed = 6 });
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
        qg_var *y = qg_net_forward(net, t, (qg_tensor){ { MANY, WIDTH, WIDTH, 3 }, image });
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

void assert_refused_in_net(qg_quant q, qg_role role, const char *part, const char *other)
{
    qg_net       *net  = qg_net_new((qg_net_spec){ .height = 1, .width = 1, .channels = 3, .seed = 1 });
    qg_dense_spec spec = { .out = 2 };
    if (role == QG_WEIGHT) spec.weight = q;
    if (role == QG_INPUT) spec.input = q;
    if (role == QG_GRADIENT) spec.gradient = q;
    qg_net_dense(net, spec);
    assert_none(qg_net_build(net), part);
    assert_message(other);
    qg_net_free(net);
}

void fill_how(float *x, size_t n, int how, float most)
{
    fill_uniform(x, n, -1.5f, most, n);
    for (size_t i = 0; i < n; i++) {
        if (how == ZEROS) x[i] = 0;
        if (how == NEGATIVE_ZEROS) x[i] = -0.0f;
        if (how == EQUAL) x[i] = i % 2 ? 0.25f : -0.25f;
        if (how == TINY) x[i] *= 1e-42f;
    }
    if (how == ONE_NAN) x[n / 2] = NAN;
    if (how == ONE_INFINITE) x[n / 2] = -INFINITY;
}
