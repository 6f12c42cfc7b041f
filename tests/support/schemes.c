#include "tests/support/schemes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "core/profile.h"
#include "core/rng.h"
#include "tests/support/room.h"

/* --- on its own ------------------------------------------------------------------------------ */

void open_rig(rig *r, qg_quant q, qg_role role, qg_shape x)
{
    *r      = (rig){ .q = q, .tape = qg_tape_new() };
    r->q.role = role;
    r->x    = declare(&r->params, "x", x);
    for (int i = 0; i < qg_learned_count(q); i++) {
        const qg_learned *l = &q.scheme->learned[i];
        r->learned[i]       = qg_params_declare(
            &r->params, (qg_param){ .name  = l->name,
                                    .shape = qg_learned_shape(q, l, x, role),
                                    .group = l->tracked ? QG_TRACKED : QG_SCALES });
        assert_non_null(r->learned[i]);
    }
    assert_int_equal(qg_params_allocate(&r->params), QG_OK);
    assert_non_null(r->tape);
}

void start_rig(rig *r, bool with_values)
{
    float *value[QG_MAX_LEARNED] = { 0 };
    for (int i = 0; i < QG_MAX_LEARNED && r->learned[i]; i++) value[i] = r->learned[i]->value;
    r->q.scheme->start(r->q, (qg_tensor){ r->x->shape, with_values ? r->x->value : NULL }, value);
}

void close_rig(rig *r)
{
    qg_tape_free(r->tape);
    qg_params_release(&r->params);
}

qg_status run_rig(rig *r, qg_mode mode, uint64_t step)
{
    qg_var *learned[QG_MAX_LEARNED] = { 0 };
    qg_tape_begin(r->tape, mode, 1, step);
    for (int i = 0; i < QG_MAX_LEARNED; i++)
        if (r->learned[i]) learned[i] = qg_parameter(r->tape, r->learned[i]);
    r->y = qg_quantize(r->tape, r->q, qg_parameter(r->tape, r->x), learned);
    return qg_tape_status(r->tape);
}

/* sum of dy[i] x[i] */
static void weighted_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    const float *const *dy = y->saved;
    for (size_t i = 0, n = qg_count(y->in[0]->shape); i < n; i++)
        y->in[0]->grad[i] += y->grad[0] * (*dy)[i];
}

static const qg_op weighted_op = { .name = "weighted", .backward = weighted_backward };

static qg_var *weighted(qg_tape *t, qg_var *x, const float *dy)
{
    qg_var       *y    = qg_record(t, &weighted_op, (qg_shape){ 1, 1, 1, 1 }, x, NULL, NULL);
    const float **kept = y ? qg_save(t, y, sizeof *kept) : NULL;
    assert_non_null(kept);
    *kept      = dy;
    y->data[0] = 0.0f;      /* nobody looks */
    return y;
}

void train_rig_on(rig *r, uint64_t step, const float *dy)
{
    assert_int_equal(run_rig(r, QG_TRAIN, step), QG_OK);
    assert_int_equal(qg_backward(r->tape, weighted(r->tape, r->y, dy)), QG_OK);
}

void train_rig(rig *r, uint64_t step, const float *dy)
{
    memset(r->params.grad, 0, r->params.length * sizeof *r->params.grad);
    train_rig_on(r, step, dy);
}

void assert_codes(rig *r, double ulps)
{
    const size_t n = qg_count(r->x->shape), rows = (size_t)r->x->shape.n;
    const float *learned[QG_MAX_LEARNED] = { 0 };
    qg_codes     codes = { .code = calloc(n, sizeof *codes.code), .scale = calloc(rows, sizeof *codes.scale) };
    assert_non_null(codes.code);
    assert_non_null(codes.scale);
    for (int i = 0; i < QG_MAX_LEARNED && r->learned[i]; i++) learned[i] = r->learned[i]->value;
    assert_int_equal(run_rig(r, QG_EVAL, 0), QG_OK);
    assert_int_equal(qg_encode(r->q, (qg_tensor){ r->x->shape, r->x->value }, learned, &codes), QG_OK);
    assert_true(codes.n_scale == 1 || codes.n_scale == (int)rows);
    for (size_t i = 0; i < n; i++) {
        const float scale = codes.scale[codes.n_scale == 1 ? 0 : i / qg_row(r->x->shape)];
        const float y = scale * (float)codes.code[i];
        if (fabs((double)y - (double)r->y->data[i]) > ulps * 0x1p-23 * fabs((double)y))
            fail_msg("element %zu: code %d of scale %g is not %.9g", i, codes.code[i], (double)scale,
                     (double)r->y->data[i]);
    }
    free(codes.code);
    free(codes.scale);
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
    assert_int_equal(qg_params_allocate(&k.params), QG_OK);
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
    static const uint8_t labels[BATCH] = { 0, 3, 1, 2, 3 };
    fill_uniform(images, BATCH * SIDE * SIDE, -1.0f, 1.0f, step + 7);
    s->profile.rows = 0;
    qg_tape_begin(s->tape, mode, 1, step);
    qg_var *y = qg_net_forward(s->net, s->tape, (qg_tensor){ { BATCH, SIDE, SIDE, 1 }, images });
    qg_var *l = qg_cross_entropy(s->tape, y, labels);
    if (!l) fail_msg("%s", qg_errmsg());
    s->loss = l->data[0];
    memset(s->params->grad, 0, s->params->length * sizeof *s->params->grad);
    if (mode == QG_TRAIN) assert_int_equal(qg_backward(s->tape, l), QG_OK);
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
        assert_int_equal(qg_net_save(s.net, path), QG_OK);
        close_small(&s);
        open_small(&s, weight, input, false);
        step_small(&s, 99);
        assert_true(qg_params_digest(s.params) != before);
        assert_int_equal(qg_net_load(s.net, path), QG_OK);
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
