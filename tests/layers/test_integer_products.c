/* Products of a training step as exact integers, against the definition in layers/integer.h, and beside
 * the same products in floats. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "core/ops/ops.h"
#include "tests/support/environment.h"
#include "tests/support/integer.h"
#include "tests/support/nets.h"
#include "tests/support/testing.h"

/* Channels beside lengths of vectors and tiles, rows that quads of pixels do not fill, batches
 * beside the 16 slices, every padding of a kernel, windows outside of the image, pixels that no
 * window reads. */
static const shape shapes[] = {
    { .n = 1, .h = 1, .w = 2, .c = 2, .out = 3, .kernel = 1, .stride = 1 },
    { .n = 3, .h = 5, .w = 4, .c = 3, .out = 5, .kernel = 3, .stride = 1, .pad = 1, .bias = true },
    { .n = 17, .h = 6, .w = 7, .c = 31, .out = 33, .kernel = 3, .stride = 1, .pad = 2 },
    { .n = 33, .h = 5, .w = 5, .c = 6, .out = 7, .kernel = 5, .stride = 1, .pad = 4, .bias = true },
    { .n = 3, .h = 9, .w = 6, .c = 6, .out = 35, .kernel = 5, .stride = 1 },
    { .n = 2, .h = 13, .w = 12, .c = 17, .out = 8, .kernel = 1, .stride = 1, .bias = true },
    { .n = 17, .h = 3, .w = 40, .c = 7, .out = 17, .kernel = 1, .kernel_w = 3, .stride = 1 },
    { .n = 4, .h = 8, .w = 8, .c = 16, .out = 16, .kernel = 3, .stride = 1, .pad = 1 },
    { .n = 33, .h = 4, .w = 4, .c = 33, .out = 9, .kernel = 3, .stride = 1, .same = true, .bias = true },
    { .n = 5, .h = 7, .w = 6, .c = 5, .out = 3, .kernel = 2, .stride = 1, .same = true },
    { .n = 16, .h = 6, .w = 5, .c = 20, .out = 4, .kernel = 5, .stride = 1, .pad = 2 },
    { .n = 2, .h = 6, .w = 9, .c = 9, .out = 18, .kernel = 3, .kernel_w = 1, .stride = 1 },
    { .n = 3, .h = 6, .w = 5, .c = 3, .out = 9, .kernel = 3, .stride = 2, .pad = 1, .bias = true },
    { .n = 17, .h = 7, .w = 8, .c = 16, .out = 5, .kernel = 5, .stride = 2, .pad = 2 },
    { .n = 2, .h = 9, .w = 9, .c = 4, .out = 4, .kernel = 1, .stride = 2 },
    { .n = 3, .h = 8, .w = 7, .c = 5, .out = 34, .kernel = 3, .stride = 3, .bias = true },
    { .n = 33, .h = 6, .w = 6, .c = 8, .out = 16, .kernel = 3, .stride = 2, .same = true },
    { .n = 5, .h = 10, .w = 9, .c = 3, .out = 4, .kernel = 2, .stride = 3, .pad = 1 },
};

static const char *const weights[] = {
    "dorefa:bits=1", "dorefa:bits=2", "dorefa:bits=3", "dorefa:bits=7", "twn", "binary",
    "fake_quant:range=current", "fake_quant:range=learned,bits=5", "lsq:bits=2", "lsq:bits=4",
    "lsq:bits=8", "ste-tern", "bnn", "qdq:bits=4", "unit:bits=2", "unit:bits=3,zero=no",
    "unit:bits=8", "bop", "binaryconnect", "dorefa:bits=3,scale=max",
};

static const char *const inputs[] = {
    "dorefa:bits=1", "dorefa:bits=2", "dorefa:bits=3", "dorefa:bits=4", "dorefa:bits=8",
    "fake_quant:range=learned", "fake_quant:range=observed",
    "fake_quant:range=fixed,min=-1,max=0.5", "fake_quant:range=fixed,min=-1,max=0.5,bits=3",
    "lsq:bits=2", "lsq:bits=3,signed=yes", "lsq:bits=8", "sign", "unit:bits=2",
    "unit:bits=3,zero=yes", "pact:bits=4,alpha=1.1", "linear:bits=3,max-value=1.3",
    "qdq:range=given,min=-1,max=1", "xnor:scale=off",
};

static const char *const gradients[] = {
    "dorefa:bits=1", "dorefa:bits=2", "dorefa:bits=3", "dorefa:bits=4", "dorefa:bits=5",
    "dorefa:bits=6", "dorefa:bits=7", "dorefa:bits=2,noise=off", "dorefa:bits=7,noise=off",
    "stochastic:bits=2", "stochastic:bits=3", "stochastic:bits=4", "stochastic:bits=5",
    "stochastic:bits=6", "stochastic:bits=7", "stochastic", "stochastic:noise=off",
    "stochastic:percentile=90", "stochastic:bits=4,percentile=99,noise=off",
};

/* --- against the definition ------------------------------------------------------------------- */

/* Sums of floats of the decoded gradient, whose order is that of the float product. */
static void check_bias(const trial *r, const definition *d)
{
    for (int o = 0; o < r->s.out; o++) {
        double sum = 0, size = 0;
        for (size_t i = (size_t)o; i < r->results; i += (size_t)r->s.out) {
            const double v = (double)d->dy[i] * (double)d->dy_scale[i / (r->results / (size_t)d->n)];
            sum += v, size += fabs(v);
        }
        const float want = (float)sum;
        assert_within(r, "db", 1, &r->p->bias->grad[o], &want, &size, (double)r->results / r->s.out + 2);
    }
}

static void check_layer(trial *r)
{
    definition    d;
    const size_t  n_w = qg_count(r->p->weight->shape);
    const qg_var *y   = run_layer(r, true);
    if (!in_integers(y)) fail_msg("%s: not in integers", r->what);
    define(r, 0, y, &d);
    assert_equal_to(r, "y", r->results, y->data, d.y);
    for (size_t i = 0; i < r->results; i++) assert_true(y->data[i] != 0 || !signbit(y->data[i]));
    assert_equal_to(r, "dx", r->images, y->in[0]->grad, d.dx);
    assert_equal_to(r, "dw", n_w, y->in[1]->grad, d.dw);
    if (r->p->bias) check_bias(r, &d);
    free_definition(&d);
}

/* With gradients in the memory of values, other threads and instruction sets: the same bits. */
static void check_again(trial *r, int path)
{
    const qg_params *p    = qg_net_params(r->net);
    const size_t     n    = p->length;
    float           *kept = numbers(n + r->images, sizeof *kept);
    memcpy(kept, p->grad, n * sizeof *kept), memcpy(kept + n, r->x->grad, r->images * sizeof *kept);
    for (int k = 1; k < 3; k++) {
        qg_set_threads(1 + (path + k) % 3);
        use_path((path + k) % PATHS);
        run_layer(r, false);
        if (memcmp(kept, p->grad, n * sizeof *kept) || memcmp(kept + n, r->x->grad, r->images * sizeof *kept))
            fail_msg("%s: other bits on path %d", r->what, (path + k) % PATHS);
    }
    qg_set_threads(0);
    free(kept);
}

static void check(shape s, const char *weight, const char *input, const char *gradient, int i)
{
    trial r;
    open_trial(&r, s, weight, input, gradient);
    if (qg_layer_trains_in_integers(&r.p->layer)) {
        qg_set_threads(1 + i % 3);
        use_path(i % PATHS);
        check_layer(&r);
        if (every_combination() || i % 4 == 0) check_again(&r, i % PATHS);
        qg_set_threads(0);
    } else if (s.stride == 1) fail_msg("%s: not in integers", r.what);
    close_trial(&r);
}

static void every_scheme_in_every_role_is_computed_by_definition(void **state)
{
    for (int w = 0; w < COUNT(weights); w++)
        for (int x = 0; x < COUNT(inputs); x++) {
            const int i = w * COUNT(inputs) + x, s = w * 5 + x * 7;
            for (int g = 0; g < COUNT(gradients); g++)
                if (every_combination() || g == i % COUNT(gradients))
                    check(shapes[(s + g) % COUNT(shapes)], weights[w], inputs[x], gradients[g], i);
        }
}

static void all_shapes_are_computed_by_definition(void **state)
{
    static const int w[] = { 0, 3, 4, 6, 10 }, x[] = { 1, 4, 6, 8, 12 }, g[] = { 5, 0, 15, 18, 6 };
    for (int s = 0; s < COUNT(shapes); s++)
        for (int k = 0; k < COUNT(w); k++)
            check(shapes[s], weights[w[k]], inputs[x[(k + s) % COUNT(x)]],
                  gradients[g[(2 * k + s) % COUNT(g)]], s + k);
}

/* The quantized x and w, which both products read: the second one's gradients come first. */
static void run_twice(trial *r, qg_var **y)
{
    begin(r, STEP, true);
    qg_var *x = qg_slot_apply(&r->p->input_slot, r->t, qg_parameter(r->t, r->x));
    qg_var *w = qg_slot_apply(&r->p->weight_slot, r->t, qg_parameter(r->t, r->p->weight));
    qg_var *loss[PRODUCTS];
    for (int k = 0; k < PRODUCTS; k++) {
        bool    taken;
        qg_var *b = r->p->bias ? qg_parameter(r->t, r->p->bias) : NULL;
        y[k]      = qg__integer_conv2d(&(qg_step){ .layer = &r->p->layer }, r->t, x, w, b, false,
                                       &taken);
        assert_true(taken);
        loss[k] = given(r->t, y[k], r->dy[k]);
    }
    backward(r, qg_add(r->t, loss[0], loss[1]));
}

/* x and w are read by two products, so gradients are added to the newer product's. */
static void gradients_are_added_to_what_is_there(void **state)
{
    for (int s = 1; s < COUNT(shapes); s++) {
        trial        r;
        qg_var    *y[PRODUCTS];
        definition d[PRODUCTS];
        open_trial(&r, shapes[s], "twn", s % 2 ? "dorefa:bits=2" : "fake_quant:range=observed",
                   s % 3 ? "dorefa:bits=6" : "stochastic");
        use_path(s % PATHS);
        if (qg_layer_trains_in_integers(&r.p->layer)) {
            const size_t n_w = qg_count(r.p->weight->shape);
            run_twice(&r, y);
            for (int k = 0; k < PRODUCTS; k++) define(&r, k, y[k], &d[k]);
            for (size_t i = 0; i < r.images; i++) d[1].dx[i] += d[0].dx[i];
            for (size_t i = 0; i < n_w; i++) d[1].dw[i] += d[0].dw[i];
            assert_equal_to(&r, "dx", r.images, y[0]->in[0]->grad, d[1].dx);
            assert_equal_to(&r, "dw", n_w, y[0]->in[1]->grad, d[1].dw);
            for (int k = 0; k < PRODUCTS; k++) free_definition(&d[k]);
        }
        close_trial(&r);
    }
}

/* As in the first layer of a net, and with a weight that is frozen. */
static void gradients_that_nobody_needs_are_left_out(void **state)
{
    trial        r;
    definition d;
    open_trial(&r, shapes[1], "twn", "dorefa:bits=3", "dorefa:bits=6");
    for (int frozen = 0; frozen < 2; frozen++) {
        r.p->weight->frozen = frozen;
        begin(&r, STEP, true);
        const qg_tensor images = { r.x->shape, r.x->value };
        qg_var         *x = frozen ? qg_parameter(r.t, r.x) : qg_input(r.t, images);
        qg_var         *y = qg_apply(&r.p->layer, r.t, x);
        backward(&r, given(r.t, y, r.dy[0]));
        define(&r, 0, y, &d);
        assert_true(in_integers(y) && !y->in[frozen]->grad && y->in[!frozen]->grad);
        if (frozen) assert_equal_to(&r, "dx", r.images, y->in[0]->grad, d.dx);
        else assert_equal_to(&r, "dw", qg_count(r.p->weight->shape), y->in[1]->grad, d.dw);
        check_bias(&r, &d);
        free_definition(&d);
    }
    close_trial(&r);
}

/* An image of zeros, gradients beside the smallest and the largest numbers: of results that
 * overflow or underflow, too. */
static void zeros_and_extreme_gradients_keep_to_the_definition(void **state)
{
    static const float sizes[] = { 0, 1e-45f, 3e-44f, 1e-40f, FLT_MIN, 1e30f, FLT_MAX };
    for (int k = 0; k < COUNT(sizes); k++)
        for (int g = 0; g < COUNT(gradients); g++) {
            trial r;
            if (!every_combination() && (k + g) % 3) continue;
            open_trial(&r, shapes[k % 2 ? 1 : 7], "lsq:bits=4",
                       k % 2 ? "lsq:bits=3,signed=yes" : "dorefa:bits=2", gradients[g]);
            const size_t row = r.results / (size_t)r.s.n;
            for (size_t i = 0; i < row; i++) r.dy[0][i] = sizes[k] * (i % 3 ? 1.0f : -1.0f);
            memset(r.dy[0] + row, 0, row * sizeof(float));
            if (k % 2 == 0) memset(r.dy[0] + 2 * row, 0, (r.results - 2 * row) * sizeof(float));
            use_path((k + g) % PATHS);
            check_layer(&r);
            close_trial(&r);
        }
}

/* So that an optimizer stops: every weight sums the image, and with one scale for the batch every
 * dx is concerned. */
static void a_gradient_that_is_not_finite_shows(void **state)
{
    static const float values[] = { NAN, INFINITY, -INFINITY };
    for (int v = 0; v < COUNT(values); v++)
        for (int g = 0; g < COUNT(gradients); g++) {
            trial r;
            open_trial(&r, shapes[1], weights[g % COUNT(weights)], inputs[g % COUNT(inputs)], gradients[g]);
            const size_t row = r.results / (size_t)r.s.n, image = r.images / (size_t)r.s.n;
            r.dy[0][row + 7]  = values[v];
            const qg_var *y   = run_layer(&r, true);
            const bool    one = !strcmp(r.p->gradient_slot.q.scheme->name, "dorefa");
            for (size_t i = 0; i < qg_count(r.p->weight->shape); i++)
                if (isfinite(y->in[1]->grad[i]))
                    fail_msg("%s: dw[%zu] is %g", r.what, i, (double)y->in[1]->grad[i]);
            for (size_t i = 0; i < r.images; i++)
                if (isfinite(y->in[0]->grad[i]) == (!one || i / image == 1))
                    fail_msg("%s: dx[%zu] is %g", r.what, i, (double)y->in[0]->grad[i]);
            assert_true(!isfinite(r.p->bias->grad[0]));
            close_trial(&r);
        }
}

/* It has a code, which must not hide it, unless its quantizer does, as that of signs. */
static void an_input_that_is_nan_shows(void **state)
{
    int integers = 0;
    for (int x = 0; x < COUNT(inputs); x++) {
        trial r;
        open_trial(&r, shapes[1], weights[x % COUNT(weights)], inputs[x], gradients[x % COUNT(gradients)]);
        r.x->value[0]   = NAN;
        const qg_var *y = run_layer(&r, true);
        const bool stays = isnan(y->in[0]->data[0]);
        integers += in_integers(y) && stays;
        if (stays && !isnan(y->data[0])) fail_msg("%s: y[0] is %g", r.what, (double)y->data[0]);
        close_trial(&r);
    }
    assert_true(integers > COUNT(inputs) / 2);
}

/* --- beside floats ---------------------------------------------------------------------------- */

/* A sum of k terms in floats strays from the exact sum by at most k 2^-24 of the sum of their
 * absolute values.  To that come the roundings of results and of codes to their values, a few each.
 * Those of dorefa are 2 (j / n) - 1: what is rounded is up to n times as large as the value. */
static double extra_of(const trial *r)
{
    double         extra = 16;
    const qg_quant q[]   = { r->p->weight_slot.q, r->p->gradient_slot.q };
    for (int i = 0; i < 2; i++)
        if (!strcmp(q[i].scheme->name, "dorefa")) extra += 4 * ((1 << q[i].bits) - 1);
    return extra;
}

static void floats_differ_by_their_roundings(void **state)
{
    for (int s = 0; s < COUNT(shapes); s++)
        for (int k = 0; k < (every_combination() ? 12 : 2); k++) {
            const int  i = 5 * s + k;
            trial        r;
            definition d;
            open_trial(&r, shapes[s], weights[i % COUNT(weights)], inputs[i % COUNT(inputs)],
                       gradients[i % COUNT(gradients)]);
            if (qg_layer_trains_in_integers(&r.p->layer)) {
                const qg_shape w = r.p->weight->shape;
                const double   pixels = (double)r.results / r.s.out, taps = (double)w.h * w.w;
                qg_var        *y = run_layer(&r, true);
                define(&r, 0, y, &d);
                y = run_floats(&r);
                assert_within(&r, "y", r.results, y->data, d.y, d.y_size, taps * w.c + extra_of(&r));
                assert_within(&r, "dx", r.images, y->in[0]->grad, d.dx, d.dx_size, taps * w.n + extra_of(&r));
                assert_within(&r, "dw", qg_count(w), y->in[1]->grad, d.dw, d.dw_size, pixels + extra_of(&r));
                free_definition(&d);
            }
            close_trial(&r);
        }
}

/* --- the longest sums ------------------------------------------------------------------------- */

static void assert_all(const trial *r, const char *name, size_t n, const float *got, float want)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want, sizeof want))
            fail_msg("%s: %s[%zu] is %.9g, not %.9g", r->what, name, i, (double)got[i], (double)want);
}

static int64_t code_of(const qg_slot *slot, float x, float *scale)
{
    int32_t  code;
    float    negative;
    qg_codes out = { .code = &code, .scale = scale, .negative = &negative };
    assert_ok(qg_slot_encode(slot, (qg_tensor){ { 1, 1, 1, 1 }, &x }, &out));
    return code;
}

/* All x, w and dy are equal, so all results of a product without padding are. */
static void assert_ends(const trial *r, const qg_var *y, float x, float w, float dy)
{
    const shape    s  = r->s;
    const qg_shape of = r->p->weight->shape;
    const bool     single = s.h == s.kernel && s.w == s.kernel;        /* every x is under one tap, not under all of them */
    const float    step   = fabsf(dy) / 127;
    float          x_scale, w_scale;
    const int64_t  taps = of.h * of.w, pixels = y->shape.h * y->shape.w;
    const int64_t  x_code = code_of(&r->p->input_slot, x, &x_scale), dy_code = dy > 0 ? 127 : -127;
    const int64_t  w_code = code_of(&r->p->weight_slot, w, &w_scale);
    const float    a = (float)((double)w_scale * (double)x_scale);
    assert_true(llabs(w_code) >= 127);
    assert_all(r, "y", r->results, y->data, a * (float)(taps * s.c * x_code * w_code));
    if (single || s.kernel == 1)
        assert_all(r, "dx", r->images, y->in[0]->grad, w_scale * (float)(s.out * w_code * dy_code) * step);
    const float dw = x_scale * step * (float)(pixels * x_code * dy_code);       /* of an image */
    assert_all(r, "dw", qg_count(of), y->in[1]->grad, dw * (float)s.n);
}

/* x, w and dy are at one end of their codes. */
static void check_ends(shape s, const char *input, float x, float w, float dy, bool integers)
{
    trial r;
    open_trial(&r, s, "lsq:bits=8", input, "stochastic");
    r.p->weight_slot.param[0]->value[0] = 0.01f;        /* the step */
    for (size_t i = 0; i < r.images; i++) r.x->value[i] = x;
    for (size_t i = 0; i < qg_count(r.p->weight->shape); i++) r.p->weight->value[i] = w;
    for (size_t i = 0; i < r.results; i++) r.dy[0][i] = dy;
    const qg_var *y = run_layer(&r, true);
    if (in_integers(y) != integers) fail_msg("%s: %sin integers", r.what, integers ? "not " : "");
    if (integers) assert_ends(&r, y, x, w, dy);
    close_trial(&r);
}

/* Sums just below 2^31, and those of 16 bits that kernels widen; floats from there on. */
static void the_longest_sums_do_not_overflow(void **state)
{
    static const struct row {
        shape       s;
        const char *input;
        bool        integers;
    } rows[] = {        /* 25 * 2590 * 255 * 128 in y, 131000 * 127 * 128 in dx, 66306 * 255 * 127 in dw */
        { { .n = 1, .h = 8, .w = 8, .c = 512, .out = 33, .kernel = 3, .stride = 1 }, "dorefa:bits=8", true },
        { { .n = 1, .h = 5, .w = 6, .c = 2590, .out = 2, .kernel = 5, .stride = 1 }, "dorefa:bits=8", true },
        { { .n = 1, .h = 5, .w = 6, .c = 2640, .out = 2, .kernel = 5, .stride = 1 }, "dorefa:bits=8", false },
        { { .n = 1, .h = 1, .w = 2, .c = 2, .out = 131000, .kernel = 1, .stride = 1 }, "dorefa:bits=8", true },
        { { .n = 1, .h = 257, .w = 258, .c = 2, .out = 2, .kernel = 1, .stride = 1 }, "dorefa:bits=8", true },
        { { .n = 1, .h = 258, .w = 258, .c = 2, .out = 2, .kernel = 1, .stride = 1 }, "dorefa:bits=8", false },
        { { .n = 2, .h = 257, .w = 40, .c = 3, .out = 17, .kernel = 1, .stride = 1 }, "qdq:range=given,min=-1,max=1", true },
        { { .n = 2, .h = 90, .w = 91, .c = 17, .out = 5, .kernel = 1, .stride = 1 }, "dorefa:bits=4", true },
        { { .n = 2, .h = 90, .w = 91, .c = 17, .out = 5, .kernel = 1, .stride = 1 }, "sign", true },
    };
    for (int i = 0; i < COUNT(rows); i++)
        for (int ends = 0; ends < 8; ends++)
            for (int path = 0; path < PATHS; path++) {
                if (!every_combination() && ends % 3 != path) continue;
                use_path(path);
                check_ends(rows[i].s, rows[i].input, ends & 1 ? -9.0f : 9.0f, ends & 2 ? -9.0f : 9.0f,
                           ends & 4 ? -0.5f : 0.5f, rows[i].integers);
            }
}

/* --- what is computed in floats --------------------------------------------------------------- */

static bool layer_is_in_integers(qg_conv2d_spec spec, uint64_t step)
{
    trial r;
    open_quantized(&r, shapes[7], spec.weight, spec.input, spec.gradient);
    begin(&r, step, false);
    const qg_var *y = qg_apply(&r.p->layer, r.t, qg_parameter(r.t, r.x));
    if (!y) fail_msg("%s", qg_errmsg());
    const bool found = in_integers(y);
    close_trial(&r);
    return found;
}

static void operands_without_codes_are_floats(void **state)
{
    static const char *const rows[][3] = {
        { "twn", "dorefa:bits=2", "dorefa:bits=8" },       /* up to 255 */
        { "twn", "dorefa:bits=9", "dorefa:bits=6" },       { "ttq", "dorefa:bits=2", "dorefa:bits=6" },
        { "twn:per-channel=yes", "dorefa:bits=2", "dorefa:bits=6" }, { "xnor", "xnor", "dorefa:bits=6" },
    };
    for (int i = 0; i < COUNT(rows); i++) {
        const qg_conv2d_spec spec = { .weight   = parsed_quant(rows[i][0], QG_WEIGHT),
                                      .input    = parsed_quant(rows[i][1], QG_INPUT),
                                      .gradient = parsed_quant(rows[i][2], QG_GRADIENT) };
        if (layer_is_in_integers(spec, STEP))
            fail_msg("%s x %s, gradient %s: in integers", rows[i][0], rows[i][1], rows[i][2]);
    }
    const qg_conv2d_spec all = { .weight = parsed_quant("twn", QG_WEIGHT), .input = parsed_quant("lsq:bits=4", QG_INPUT),
                                 .gradient = parsed_quant("stochastic", QG_GRADIENT) };
    qg_conv2d_spec       without[3] = { all, all, all };
    without[0].weight.scheme = without[1].input.scheme = without[2].gradient.scheme = NULL;
    assert_true(layer_is_in_integers(all, STEP));
    for (int i = 0; i < 3; i++) assert_false(layer_is_in_integers(without[i], STEP));
}

/* Until the step at which the quantizer of an operand begins. */
static void what_waits_is_floats(void **state)
{
    for (int which = 0; which < 3; which++) {
        qg_conv2d_spec spec = { .weight = parsed_quant("twn", QG_WEIGHT), .input = parsed_quant("dorefa:bits=4", QG_INPUT),
                                .gradient = parsed_quant("stochastic", QG_GRADIENT) };
        (which == 0 ? &spec.weight : which == 1 ? &spec.input : &spec.gradient)->after = 4;
        if (layer_is_in_integers(spec, 3))
            fail_msg("operand %d waits, but the product is in integers", which);
        assert_true(layer_is_in_integers(spec, 4));
    }
}

/* The codes of a weight that is drawn in training are not those of evaluation. */
static void drawn_weights_are_those_that_are_multiplied(void **state)
{
    trial r;
    open_trial(&r, shapes[7], "binaryconnect:draw=stoch", "dorefa:bits=2", "dorefa:bits=6,noise=off");
    const qg_var *y = run_layer(&r, true);
    float        *kept = numbers(r.results, sizeof *kept);
    double       *size = numbers(r.results, sizeof *size);
    memcpy(kept, y->data, r.results * sizeof *kept);
    for (size_t i = 0; i < r.results; i++) size[i] = 9 * 16;        /* taps of at most 1 */
    y = run_floats(&r);
    assert_within(&r, "y", r.results, kept, y->data, size, 9 * 16);
    free(kept), free(size);
    close_trial(&r);
}

/* It does not know what precedes it in the net. */
static void a_layer_that_runs_alone_takes_any_input(void **state)
{
    float    x[2 * 4 * 4 * 3];
    qg_net  *net = qg_net_new((qg_net_spec){ .height = 4, .width = 4, .channels = 3, .seed = 3 });
    qg_tape *t   = qg_tape_new();
    qg_net_quantize(net, parsed_quant("dorefa:bits=2", QG_INPUT));
    qg_layer *l = qg_net_conv2d(net, (qg_conv2d_spec){ .out = 4, .kernel = 3, .pad = 1,
                                                       .weight   = parsed_quant("twn", QG_WEIGHT),
                                                       .gradient = parsed_quant("stochastic", QG_GRADIENT) });
    assert_non_null(qg_net_build(net));
    fill_uniform(x, COUNT(x), -2, 2, 5);
    for (int alone = 0; alone < 2; alone++) {
        qg_tape_begin(t, QG_TRAIN, KEY, STEP);
        const qg_tensor images = { { 2, 4, 4, 3 }, x };
        const qg_var   *y = alone ? qg_apply(l, t, qg_input(t, images)) : qg_net_forward(net, t, images);
        assert_non_null(y);
        assert_true(in_integers(y) == !alone);
    }
    qg_tape_free(t), qg_net_free(net);
}

/* --- in its place ----------------------------------------------------------------------------- */

/* y is the product of the values that the tape has, whatever quantized them and whatever is in
 * between: float sums in double, up to the roundings of the codes, each of which is 2^-22 of the
 * largest value at most. */
static void assert_multiplies(const qg_var *y, int pad)
{
    const qg_var *x = y->in[0], *w = y->in[1];
    const int     kernel = w->shape.h, taps = kernel * kernel, c = w->shape.c;
    const qg_shape of = y->shape;
    const float   most = largest_of(qg_count(x->shape), x->data) * largest_of(qg_count(w->shape), w->data);
    for (size_t at = 0; at < qg_count(y->shape); at++) {
        const int    o = (int)at % of.c, pixel = (int)at / of.c, i = pixel / (of.h * of.w);
        const float *row = w->data + o * taps * c;
        double       sum = 0;
        for (int tap = 0; tap < taps; tap++, row += c) {
            const int r = pixel / of.w % of.h + tap / kernel - pad, q = pixel % of.w + tap % kernel - pad;
            if (r < 0 || q < 0 || r >= x->shape.h || q >= x->shape.w) continue;
            const float *from = x->data + ((i * x->shape.h + r) * x->shape.w + q) * c;
            for (int k = 0; k < c; k++) sum += (double)from[k] * (double)row[k];
        }
        if (!(fabs(sum - (double)y->data[at]) <= 2 * taps * c * (double)most * 0x1p-22))
            fail_msg("%d channels: y[%zu] is %g, not %g", c, at, (double)y->data[at], sum);
    }
}

/* The input is quantized by the layer itself, by the norm before it, or by a layer of its own, with
 * max pooling in between. */
static qg_net *chain(void)
{
    const qg_quant w = parsed_quant("dorefa:bits=2", QG_WEIGHT), g = parsed_quant("stochastic", QG_GRADIENT);
    qg_net        *net = qg_net_new((qg_net_spec){ .height = 8, .width = 8, .channels = 3, .seed = 3 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 5, .kernel = 3, .pad = 1, .weight = w, .gradient = g,
                                         .input = parsed_quant("fake_quant:range=observed", QG_INPUT) });
    qg_net_batchnorm(net);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3, .pad = 1, .weight = w, .gradient = g,
                                         .input = parsed_quant("dorefa:bits=2", QG_INPUT) });
    qg_net_batchnorm(net), qg_net_relu(net);
    qg_net_quantize(net, parsed_quant("lsq:bits=3", QG_INPUT));
    qg_net_maxpool(net, 2);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 7, .kernel = 3, .pad = 1, .weight = w, .gradient = g });
    qg_net_batchnorm(net);
    assert_non_null(qg_net_build(net));
    return net;
}

/* By the sums that the product before it has gathered. */
static void assert_normalised(const qg_var *y)
{
    const int c = y->shape.c, n = (int)qg_count(y->shape) / c;
    for (int k = 0; k < c; k++) {
        double sum = 0, squares = 0;
        for (int i = k; i < n * c; i += c) sum += (double)y->data[i], squares += pow((double)y->data[i], 2);
        assert_true(fabs(sum / n) < 1e-5 && fabs(squares / n - 1) < 1e-2);     /* eps beside the variance */
    }
}

static void products_in_a_net_read_the_codes_before_them(void **state)
{
    enum { N = 17, C = 7, PIXELS = N * 4 * 4 };
    static float x[N * 8 * 8 * 3], dy[PIXELS * C], trained[PIXELS * C];
    qg_net      *net = chain();
    qg_tape     *t   = qg_tape_new();
    fill_uniform(x, COUNT(x), -1, 2, 5), fill_uniform(dy, COUNT(dy), -1, 1, 6);
    qg_tape_retain(t, true);
    qg_tape_begin(t, QG_TRAIN, KEY, STEP);
    qg_var *y = qg_net_forward(net, t, (qg_tensor){ { N, 8, 8, 3 }, x });
    assert_true(y && in_integers(y->in[0]) && y->shape.c == C);
    memcpy(trained, y->data, sizeof trained);
    assert_normalised(y);
    assert_ok(qg_backward(t, given(t, y, dy)));
    int found = 0;
    for (const qg_var *v = y; v; v = v->older)
        if (in_integers(v)) assert_multiplies(v, 1), found++;
    assert_int_equal(found, 3);
    /* Ranges as they are, the statistics of the same batch. */
    qg_tape_begin(t, QG_ESTIMATE, KEY, STEP);
    y = qg_net_forward(net, t, (qg_tensor){ { N, 8, 8, 3 }, x });
    assert_true(y && !memcmp(y->data, trained, sizeof trained));
    qg_tape_free(t), qg_net_free(net);
}

/* Dropout scales what it passes, so that its results are no codes. */
static void behind_dropout_products_are_floats(void **state)
{
    float    x[4 * 4 * 4 * 3];
    qg_net  *net = qg_net_new((qg_net_spec){ .height = 4, .width = 4, .channels = 3, .seed = 3 });
    qg_tape *t   = qg_tape_new();
    qg_net_quantize(net, parsed_quant("dorefa:bits=2", QG_INPUT));
    qg_net_dropout(net, 0.4f);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 4, .kernel = 3, .pad = 1, .no_bias = true,
                                         .weight   = parsed_quant("twn", QG_WEIGHT),
                                         .gradient = parsed_quant("stochastic", QG_GRADIENT) });
    assert_non_null(qg_net_build(net));
    fill_uniform(x, COUNT(x), 0, 1, 5);
    qg_tape_begin(t, QG_TRAIN, KEY, STEP);
    const qg_var *y = qg_net_forward(net, t, (qg_tensor){ { 4, 4, 4, 3 }, x });
    assert_true(y && !in_integers(y) && y->in[0]);
    assert_multiplies(y->op && y->data == y->in[0]->data ? y->in[0] : y, 1);
    qg_tape_free(t), qg_net_free(net);
}

/* qg_tape_retain keeps dL/dy as it came, also where its codes are decoded for a bias. */
static void retained_gradients_stay_as_they_are(void **state)
{
    trial r;
    open_trial(&r, shapes[1], "twn", "dorefa:bits=2", "stochastic");
    const qg_var *y = run_layer(&r, true);
    assert_equal_to(&r, "dy", r.results, y->grad, r.dy[0]);
    close_trial(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_scheme_in_every_role_is_computed_by_definition, restore_variables),
        cmocka_unit_test_teardown(all_shapes_are_computed_by_definition, restore_variables),
        cmocka_unit_test_teardown(gradients_are_added_to_what_is_there, restore_variables),
        cmocka_unit_test(gradients_that_nobody_needs_are_left_out),
        cmocka_unit_test_teardown(zeros_and_extreme_gradients_keep_to_the_definition, restore_variables),
        cmocka_unit_test(a_gradient_that_is_not_finite_shows),
        cmocka_unit_test(an_input_that_is_nan_shows),
        cmocka_unit_test(floats_differ_by_their_roundings),
        cmocka_unit_test_teardown(the_longest_sums_do_not_overflow, restore_variables),
        cmocka_unit_test(operands_without_codes_are_floats),
        cmocka_unit_test(what_waits_is_floats),
        cmocka_unit_test(drawn_weights_are_those_that_are_multiplied),
        cmocka_unit_test(a_layer_that_runs_alone_takes_any_input),
        cmocka_unit_test(products_in_a_net_read_the_codes_before_them),
        cmocka_unit_test(behind_dropout_products_are_floats),
        cmocka_unit_test(retained_gradients_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
