#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/ops/ops.h"
#include "layers/layer.h"
#include "optim/optim.h"
#include "quant/reference/binary.h"
#include "tests/support/nets.h"
#include "tests/support/schemes.h"
#include "tests/support/views.h"

static const qg_shape shapes[] = { { 33, 3, 3, 31 }, { 1, 1, 1, 1 }, { 3, 1, 1, 65 }, { 65, 5, 5, 63 } };
/* --- weights ------------------------------------------------------------------------------ */

static void flat(float arg, size_t n, const float *x, const float *dy, float *dx)
{
}

static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    return qg_quantize(t, *(const qg_quant *)context, qg_parameter(t, p->item[0]), NULL);
}

/* Away from 0 the sign is constant, and a flat surrogate says so: what is left is alpha's share. */
static qg_gradcheck_result check_alpha(qg_xnor_rule rule)
{
    qg_gradcheck_result r;
    qg_params           p = { 0 };
    qg_quant            q = qg_xnor((qg_xnor_spec){ .rule = rule, .surrogate = { .slope = flat } });
    declare(&p, "w", (qg_shape){ 5, 1, 1, 7 });
    allocate_apart(&p, 3);      /* none closer to 0 than 1 / 36 */
    assert_int_equal(qg_gradcheck((qg_gradcheck_spec){ .name = "xnor", .params = &p, .build = build,
                                                       .context = &q, .h = 1 / 128.0f }, &r), QG_OK);
    qg_params_release(&p);
    return r;
}

static void the_exact_rule_derives_alpha(void **state)
{
    const qg_gradcheck_result r = check_alpha(QG_XNOR_EXACT);
    if (!r.pass) fail_msg("off by %g", r.error);
}

static void the_paper_s_rule_does_not(void **state)
{
    const qg_gradcheck_result r = check_alpha(QG_XNOR_PAPER);
    assert_false(r.pass);
    assert_true(r.error > 0.1);
}

static void a_filter_of_zeros_is_zero(void **state)
{
    rig c;
    fill_rig(&c, qg_xnor((qg_xnor_spec){ 0 }), (qg_shape){ 2, 1, 1, 5 }, 1);
    for (int i = 0; i < 5; i++) c.x->value[i] = 0, c.dy[i] = 1;
    learn_rig(&c, 0);
    for (int i = 0; i < 5; i++) assert_true(c.y->data[i] == 0 && c.x->grad[i] == 1);    /* sign(0) = 1 */
    assert_true(c.y->data[5] != 0);
    close_rig(&c);
}

/* --- latent weights ----------------------------------------------------------------------- */

/* For each filter and place in it the mean over the input channels goes, then comes the clamp. */
static void centre(const qg_param *w, size_t c, float *value)
{
    const size_t rows = qg_count(w->shape) / c;
    for (size_t r = 0; r < rows; r++) {
        double sum = 0;
        for (size_t i = 0; i < c; i++) sum += (double)value[r * c + i];
        for (size_t i = 0; i < c; i++) {
            const float x    = value[r * c + i] - (float)(sum / (double)c);
            value[r * c + i] = x < -1 ? -1 : x > 1 ? 1 : x;
        }
    }
}

static qg_net *centred_net(bool centred)
{
    const qg_quant q   = qg_xnor((qg_xnor_spec){ .centred = centred });
    qg_net        *net = qg_net_new((qg_net_spec){ .height = 6, .width = 5, .channels = 3, .seed = 9 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 4, .kernel = 3, .weight = q });
    qg_net_dense(net, (qg_dense_spec){ .out = 7, .weight = q });
    return net;
}

static void latent_weights_are_centred_then_clamped(void **state)
{
    qg_net    *net[2] = { centred_net(false), centred_net(true) };
    qg_params *p[2];
    const size_t inputs[] = { 3, 4 * 3 * 4 };       /* a dense layer has as many as it reads */
    for (int k = 0; k < 2; k++) {
        p[k] = qg_net_build(net[k]);
        if (!p[k]) fail_msg("%s", qg_errmsg());
    }
    for (int layer = 0; layer < 2; layer++) {
        const char *name   = layer ? "fc1.weight" : "conv1.weight";
        qg_param   *apart  = qg_params_find(p[0], name), *w = qg_params_find(p[1], name);
        const size_t bytes = qg_count(w->shape) * sizeof(float);
        centre(apart, inputs[layer], apart->value);
        assert_memory_equal(w->value, apart->value, bytes);         /* at first */
        for (size_t i = 0; i < qg_count(w->shape); i++)             /* far beyond the clamp */
            apart->grad[i] = w->grad[i] = (float)((i * 7 + i / 5) % 11) - 4;
    }
    for (int k = 0; k < 2; k++) {
        qg_optim *o = qg_sgd(p[k], (qg_sgd_spec){ .lr = 0.25f });
        assert_ok(qg_optim_step(o));
        qg_optim_free(o);
    }
    for (int layer = 0; layer < 2; layer++) {
        const char *name  = layer ? "fc1.weight" : "conv1.weight";
        qg_param   *apart = qg_params_find(p[0], name), *w = qg_params_find(p[1], name);
        int         bound = 0;
        centre(apart, inputs[layer], apart->value);
        assert_memory_equal(w->value, apart->value, qg_count(w->shape) * sizeof(float));
        for (size_t i = 0; i < qg_count(w->shape); i++) bound += fabsf(w->value[i]) == 1;
        assert_true(bound > 0);
    }
    for (int k = 0; k < 2; k++) qg_net_free(net[k]);
}

static void frozen_weights_are_not_centred_again(void **state)
{
    qg_net    *net = centred_net(true);
    qg_params *p   = qg_net_build(net);
    qg_param  *w   = qg_params_find(p, "conv1.weight");
    w->value[0]    = 5;
    w->frozen      = true;
    qg_optim *o    = qg_sgd(p, (qg_sgd_spec){ .lr = 0.25f });
    assert_ok(qg_optim_step(o));
    assert_true(w->value[0] == 5);
    w->frozen = false;
    assert_ok(qg_optim_step(o));
    assert_true(w->value[0] == 1);
    qg_optim_free(o);
    qg_net_free(net);
}

static void a_single_input_channel_cannot_be_centred(void **state)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = 6, .width = 5, .channels = 1, .seed = 9 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 4, .kernel = 3,
                                         .weight = qg_xnor((qg_xnor_spec){ .centred = true }) });
    assert_none(qg_net_build(net), "conv1: xnor with centred latent weights has a single input channel");
    qg_net_free(net);
}

/* --- the scale map ------------------------------------------------------------------------ */

enum { N = 3, H = 7, W = 6, C = 5, O = 4, K = 3 };

typedef struct layer_case {
    qg_net    *net;
    qg_params *p;
    qg_tape   *t;
    qg_layer  *product;
    float      x[N * H * W * C], dx[N * H * W * C];
    qg_param   image;           /* the input as a parameter, for its gradient */
} layer_case;

static layer_case *layer_open(qg_quant input, bool dense, int stride, int pad)
{
    layer_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->net = qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = C, .seed = 5 });
    if (dense) c->product = qg_net_dense(c->net, (qg_dense_spec){ .out = O, .input = input });
    else
        c->product = qg_net_conv2d(
            c->net,
            (qg_conv2d_spec){
                .out = O, .kernel = K, .kernel_w = 2, .stride = stride, .pad = pad, .input = input });
    c->p = qg_net_build(c->net);
    if (!c->p) fail_msg("%s", qg_errmsg());
    c->t = qg_tape_new();
    fill_uniform(c->x, N * H * W * C, -1.5f, 1.5f, 6);
    for (int i = 0; i < O; i++) c->p->item[1]->value[i] = 0.25f * (float)(i + 1);
    c->image = (qg_param){ .name = "x", .shape = { N, H, W, C }, .value = c->x, .grad = c->dx };
    return c;
}

static qg_var *layer_forward(layer_case *c, uint64_t step)
{
    qg_tape_begin(c->t, QG_TRAIN, 1, step);
    qg_var *y = qg_apply(c->product, c->t, qg_parameter(c->t, &c->image));
    if (!y) fail_msg("%s", qg_errmsg());
    return y;
}

static void layer_close(layer_case *c)
{
    qg_tape_free(c->t);
    qg_net_free(c->net);
    free(c);
}

typedef struct geometry {
    int kh, kw, stride, pad, oh, ow;
} geometry;

/* Visits every tap of output pixel (n, i, j) that lies in the image: offset of its channels in x
 * and in a row of the weight. */
typedef void (*tap)(void *context, size_t at_x, size_t at_w);

static void taps(geometry g, int n, int i, int j, tap visit, void *context)
{
    for (int p = 0; p < g.kh; p++)
        for (int q = 0; q < g.kw; q++) {
            const int r = i * g.stride + p - g.pad, s = j * g.stride + q - g.pad;
            if (r < 0 || r >= H || s < 0 || s >= W) continue;
            visit(context, (size_t)(((n * H + r) * W + s) * C), (size_t)((p * g.kw + q) * C));
        }
}

typedef struct pixel {
    const float *x, *w;         /* w: of one output channel, or NULL */
    double       dot, size;     /* sum sign(x) w, sum |x| */
    double       dy;            /* of this pixel and channel, times K */
    double      *dx;
} pixel;

static void forward_tap(void *context, size_t at_x, size_t at_w)
{
    pixel *k = context;
    for (int c = 0; c < C; c++) {
        const float x = k->x[at_x + (size_t)c];
        k->size += (double)fabsf(x);
        k->dot += (x >= 0 ? 1.0 : -1.0) * (double)k->w[at_w + (size_t)c];
    }
}

static void backward_tap(void *context, size_t at_x, size_t at_w)
{
    pixel *k = context;
    for (int c = 0; c < C; c++)
        if (fabsf(k->x[at_x + (size_t)c]) <= 1)
            k->dx[at_x + (size_t)c] += k->dy * (double)k->w[at_w + (size_t)c];
}

static geometry geometry_of(bool dense, int stride, int pad)
{
    if (dense) return (geometry){ H, W, 1, 0, 1, 1 };
    return (
        geometry){ K, 2, stride, pad, (H + 2 * pad - K) / stride + 1, (W + 2 * pad - 2) / stride + 1 };
}

static void check_product(bool dense, int stride, int pad)
{
    static float  dy[N * 16 * 16 * O];
    static double dx[N * H * W * C];
    const geometry g = geometry_of(dense, stride, pad);
    layer_case    *c = layer_open(qg_xnor_activation((qg_xnor_activation_spec){ 0 }), dense, stride, pad);
    qg_var        *y = layer_forward(c, 0);
    const float   *w = c->p->item[0]->value, *b = c->p->item[1]->value;
    const double   taps_of_all = (double)(g.kh * g.kw * C);
    assert_true(y->shape.h == g.oh && y->shape.w == g.ow);
    memset(dx, 0, sizeof dx);
    fill_uniform(dy, qg_count(y->shape), -1, 1, 8);
    size_t at = 0;
    for (int n = 0; n < N; n++)
        for (int i = 0; i < g.oh; i++)
            for (int j = 0; j < g.ow; j++)
                for (int o = 0; o < O; o++, at++) {
                    pixel k = { .x = c->x, .w = w + (size_t)(o * g.kh * g.kw * C), .dx = dx };
                    taps(g, n, i, j, forward_tap, &k);
                    const double scale = k.size / taps_of_all;
                    /* Float sums of up to 210 products below 1. */
                    assert_true(fabs((double)y->data[at] - (k.dot * scale + (double)b[o])) < 1e-5);
                    k.dy = (double)dy[at] * scale;
                    taps(g, n, i, j, backward_tap, &k);
                }
    assert_ok(qg_backward(c->t, weighed(c->t, y, dy)));
    for (size_t i = 0; i < N * H * W * C; i++) assert_true(fabs((double)c->dx[i] - dx[i]) < 1e-5);
    layer_close(c);
}

static void the_product_is_scaled_by_k(void **state)
{
    check_product(false, 1, 0);
    check_product(false, 2, 0);
    check_product(false, 2, 1);
    check_product(false, 3, 2);
    check_product(true, 1, 0);
}

static qg_var *build_layer(qg_tape *t, const qg_params *p, void *context)
{
    layer_case *c = context;
    return qg_apply(c->product, t, qg_input(t, (qg_tensor){ c->image.shape, c->x }));
}

static void weight_and_bias_see_the_scale(void **state)
{
    for (int dense = 0; dense < 2; dense++) {
        layer_case *c = layer_open(qg_xnor_activation((qg_xnor_activation_spec){ 0 }), dense, 2, 1);
        assert_gradcheck(
            (qg_gradcheck_spec){ .name = "scaled", .params = c->p, .build = build_layer, .context = c });
        layer_close(c);
    }
}

static void a_row_of_zeros_gives_the_bias(void **state)
{
    layer_case *c = layer_open(qg_xnor_activation((qg_xnor_activation_spec){ 0 }), true, 1, 0);
    memset(c->x, 0, H * W * C * sizeof(float));
    const qg_var *y = layer_forward(c, 0);
    assert_memory_equal(y->data, c->p->item[1]->value, O * sizeof(float));
    assert_true(y->data[O] != c->p->item[1]->value[0]);
    layer_close(c);
}

/* K is the mean of all numbers, whatever their shape. */
static void a_dense_layer_reads_any_shape(void **state)
{
    layer_case *c = layer_open(qg_xnor_activation((qg_xnor_activation_spec){ 0 }), true, 1, 0);
    for (int eval = 0; eval < 2; eval++) {
        qg_tape_begin(c->t, eval ? QG_EVAL : QG_TRAIN, 0, 0);
        qg_var       *x    = qg_input(c->t, (qg_tensor){ c->image.shape, c->x });
        const qg_var *y    = qg_apply(c->product, c->t, x);
        qg_var       *row  = qg_reshape(c->t, x, (qg_shape){ N, 1, 1, H * W * C });
        const qg_var *flat = qg_apply(c->product, c->t, row);
        assert_true(y && flat);
        /* The order of the sum of |x| depends on the shape. */
        for (size_t i = 0; i < qg_count(y->shape); i++)
            assert_true(fabsf(y->data[i] - flat->data[i]) < 1e-5f);
    }
    layer_close(c);
}

static void a_waiting_quantizer_does_not_scale(void **state)
{
    qg_quant q  = qg_xnor_activation((qg_xnor_activation_spec){ 0 });
    q.after     = 3;
    layer_case *c = layer_open(q, false, 1, 0);
    qg_var     *y = layer_forward(c, 2);
    qg_var *z = qg_conv2d(c->t, qg_relu(c->t, qg_parameter(c->t, &c->image)),
                          qg_parameter(c->t, c->p->item[0]), qg_parameter(c->t, c->p->item[1]),
                          (qg_conv_spec){ 0 });
    assert_memory_equal(y->data, z->data, qg_count(y->shape) * sizeof(float));
    assert_string_equal(layer_forward(c, 3)->in[0]->op->name, "xnor_scale");        /* below the bias */
    layer_close(c);
}

static void without_the_map_it_is_the_sign(void **state)
{
    const qg_quant q = qg_xnor_activation((qg_xnor_activation_spec){ .no_scale = true });
    const qg_quant sign = qg_sign((qg_sign_spec){ { 0 } });
    assert_string_equal(q.scheme->name, "xnor");
    assert_true(q.scheme->apply == sign.scheme->apply && q.scheme->activation == sign.scheme->activation);
    assert_true(q.scheme->encode == sign.scheme->encode && q.scheme->rectifies);
    assert_null(q.scheme->scale_output);
}

/* Windows at TensorFlow's places, with more padding below: those of the operator on arrays. */
static void the_map_follows_same_padding(void **state)
{
    enum { SIDE = 8, OUT = 4 };
    float      x[SIDE * SIDE * C], sign[SIDE * SIDE * C], map[OUT * OUT], y[OUT * OUT * O];
    qg_array   a = tensor4(x, 1, SIDE, SIDE, C), b = tensor4(sign, 1, SIDE, SIDE, C), k = tensor4(map, 1, OUT, OUT, 1);
    fill_uniform(x, SIDE * SIDE * C, -1.5f, 1.5f, 6);
    assert_ok(qg_xnor_activation_quantizer(&a, (qg_xnor_window){ 3, 3, 2, true }, &b, &k));
    for (int scaled = 0; scaled < 2; scaled++) {
        qg_net  *net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = C, .seed = 5 });
        qg_tape *t   = qg_tape_new();
        qg_net_conv2d(net, (qg_conv2d_spec){ .out = O, .kernel = 3, .stride = 2, .same = true, .no_bias = true,
                                             .input = qg_xnor_activation((qg_xnor_activation_spec){ .no_scale = !scaled }) });
        assert_non_null(qg_net_build(net));
        qg_tape_begin(t, QG_EVAL, 1, 0);
        qg_var *z = qg_net_forward(net, t, (qg_tensor){ { 1, SIDE, SIDE, C }, x });
        assert_non_null(z);
        assert_true(qg_shape_equal(z->shape, (qg_shape){ 1, OUT, OUT, O }));
        for (int i = 0; i < OUT * OUT * O; i++) {
            if (!scaled) y[i] = z->data[i];
            else assert_true(z->data[i] == y[i] * map[i / O]);
        }
        qg_tape_free(t);
        qg_net_free(net);
    }
}

static void the_map_needs_a_product(void **state)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = 3, .width = 3, .channels = 3, .seed = 1 });
    qg_net_quantize(net, qg_xnor_activation((qg_xnor_activation_spec){ 0 }));
    assert_none(qg_net_build(net), "quant1: xnor scales the result of a product");
    qg_net_free(net);
}

static void activations_are_signs(void **state)
{
    rig c;
    fill_rig(&c, qg_xnor_activation((qg_xnor_activation_spec){ 0 }), shapes[0], 2);
    c.x->value[0] = 0.0f, c.x->value[1] = -0.0f, c.x->value[2] = 1.0f, c.x->value[3] = NAN;
    learn_rig(&c, 0);
    assert_true(c.y->data[0] == 1 && c.y->data[1] == 1 && c.y->data[3] == -1);
    for (size_t i = 0; i < c.n; i++) {
        assert_true(fabsf(c.y->data[i]) == 1);
        assert_true(c.x->grad[i] == (fabsf(c.x->value[i]) <= 1 ? c.dy[i] : 0));
    }
    assert_codes_give_values(&c, -1, 1, 0);
    close_rig(&c);
}

/* --- all ---------------------------------------------------------------------------------- */

static void threads_do_not_matter(void **state)
{
    const qg_quant input = qg_xnor_activation((qg_xnor_activation_spec){ 0 }), none = { 0 };
    for (int rule = QG_XNOR_EXACT; rule <= QG_XNOR_IDENTITY; rule++)
        assert_any_threads(qg_xnor((qg_xnor_spec){ .rule = (qg_xnor_rule)rule }), input, none, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exact_rule_derives_alpha),
        cmocka_unit_test(the_paper_s_rule_does_not),
        cmocka_unit_test(a_filter_of_zeros_is_zero),
        cmocka_unit_test(latent_weights_are_centred_then_clamped),
        cmocka_unit_test(frozen_weights_are_not_centred_again),
        cmocka_unit_test(a_single_input_channel_cannot_be_centred),
        cmocka_unit_test(the_product_is_scaled_by_k),
        cmocka_unit_test(weight_and_bias_see_the_scale),
        cmocka_unit_test(a_row_of_zeros_gives_the_bias),
        cmocka_unit_test(a_waiting_quantizer_does_not_scale),
        cmocka_unit_test(without_the_map_it_is_the_sign),
        cmocka_unit_test(the_map_follows_same_padding),
        cmocka_unit_test(the_map_needs_a_product),
        cmocka_unit_test(activations_are_signs),
        cmocka_unit_test(a_dense_layer_reads_any_shape),
        cmocka_unit_test(threads_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
