/* Products and norms in QG_EVAL against the definition in layers/evaluate.h, computed here with 64-bit integers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "layers/evaluate.h"
#include "tests/support/environment.h"
#include "tests/support/nets.h"
#include "tests/support/coded.h"
#include "tests/support/testing.h"

/* --- one product ---------------------------------------------------------------------------- */

enum { N = 9 };

typedef struct shape {
    int   h, w, c, out, kernel, stride, pad, groups;
    float pad_value;
    bool  dense, norm, same;
} shape;

static const shape shapes[] = {
    { .h = 5, .w = 4, .c = 3, .out = 33, .kernel = 3, .stride = 1, .pad = 1, .groups = 1, .norm = true },
    { .h = 6, .w = 5, .c = 1, .out = 31, .kernel = 3, .stride = 2, .pad = 0, .groups = 1 },
    { .h = 4, .w = 4, .c = 65, .out = 3, .kernel = 1, .stride = 1, .pad = 0, .groups = 1, .norm = true },
    { .h = 7, .w = 6, .c = 33, .out = 1, .kernel = 5, .stride = 3, .pad = 2, .groups = 1 },
    { .h = 5, .w = 6, .c = 6, .out = 9, .kernel = 3, .stride = 1, .pad = 1, .groups = 3, .norm = true },
    { .h = 6, .w = 6, .c = 31, .out = 31, .kernel = 3, .stride = 2, .groups = 31, .same = true, .norm = true },
    { .h = 3, .w = 5, .c = 31, .out = 33, .kernel = 2, .stride = 1, .pad = 1, .groups = 1, .pad_value = 1, .norm = true },
    { .h = 1, .w = 1, .c = 65, .out = 31, .dense = true, .norm = true },
    { .h = 3, .w = 3, .c = 31, .out = 10, .dense = true },
};

typedef struct rig {
    shape     s;
    qg_net   *net;
    qg_tape  *t;
    qg_product   *p;
    qg_batchnorm *bn;
    float    *x;
    size_t    row;          /* of x */
} rig;

static void fill_parameters(rig *r)
{
    const qg_params *p = qg_net_params(r->net);
    if (r->p->bias) fill_uniform(r->p->bias->value, (size_t)r->s.out, -1, 1, 11);
    if (!r->bn) return;
    assert_non_null(p);
    fill_uniform(r->bn->gamma->value, (size_t)r->s.out, -1.5f, 1.5f, 12);
    fill_uniform(r->bn->beta->value, (size_t)r->s.out, -1, 1, 13);
    fill_uniform(r->bn->mean->value, (size_t)r->s.out, -1, 1, 14);
    fill_uniform(r->bn->var->value, (size_t)r->s.out, 0.1f, 2, 15);
}

static bool make(rig *r, shape s, qg_quant weight, qg_quant input, bool fold)
{
    const qg_net_spec spec = { .height = s.h, .width = s.w, .channels = s.c, .seed = 3, .fold_batchnorm = fold };
    *r = (rig){ .s = s, .net = qg_net_new(spec), .t = qg_tape_new(), .row = (size_t)(s.h * s.w * s.c) };
    qg_layer *l = s.dense
        ? qg_net_dense(r->net, (qg_dense_spec){ .out = s.out, .weight = weight, .input = input })
        : qg_net_conv2d(r->net, (qg_conv2d_spec){ .out = s.out, .kernel = s.kernel, .stride = s.stride, .pad = s.pad,
                                                  .groups = s.groups, .pad_value = s.pad_value, .same = s.same,
                                                  .weight = weight, .input = input });
    qg_layer *bn = s.norm ? qg_net_batchnorm(r->net) : NULL;
    if (!qg_net_build(r->net)) return false;
    r->p  = qg_layer_product(l);
    r->bn = bn ? qg__batchnorm(bn) : NULL;
    r->x  = malloc(N * r->row * sizeof *r->x);
    assert_non_null(r->x);
    fill_uniform(r->x, N * r->row, -1.2f, 1.2f, 16);
    qg_tape_begin(r->t, QG_TRAIN, 1, 0);            /* ranges and steps look at the images */
    assert_non_null(qg_net_forward(r->net, r->t, (qg_tensor){ { N, s.h, s.w, s.c }, r->x }));
    fill_parameters(r);
    return true;
}

static void discard(rig *r)
{
    free(r->x);
    qg_tape_free(r->t);
    qg_net_free(r->net);
}

static const float *evaluated(rig *r, int n)
{
    qg_tape_begin(r->t, QG_EVAL, 1, 1);
    const qg_var *y = qg_net_forward(r->net, r->t, (qg_tensor){ { n, r->s.h, r->s.w, r->s.c }, r->x });
    if (!y) fail_msg("%s", qg_errmsg());
    return y->data;
}

/* --- the definition --------------------------------------------------------------------------- */

typedef struct reference {
    const rig *r;
    int32_t   *w, *x;
    float     *scale, *negative, x_scale;
    bool       two_sided;
    qg__geometry g;
} reference;

static void encode(const qg_slot *slot, qg_tensor x, int32_t *code, float *scale, float *negative, qg_codes *out)
{
    const float *learned[QG_MAX_LEARNED];
    for (int i = 0; i < QG_MAX_LEARNED; i++) learned[i] = slot->param[i] ? slot->param[i]->value : NULL;
    *out = (qg_codes){ .code = code, .scale = scale, .negative = negative };
    assert_ok(qg_encode(slot->q, x, learned, out));
    for (size_t i = 0; i < qg_count(x.shape); i++) {
        const int above = code[i] - out->set.lowest;
        assert_true(above >= 0 && above % out->set.step == 0 && above / out->set.step < out->set.count);
    }
}

/* Sums of positive and of negative weights, not negated, of output o at a result of image n. */
static void sums(const reference *f, int n, int oy, int ox, int o, int64_t acc[2])
{
    const qg__geometry g = f->g;
    const int groups = f->r->s.dense ? 1 : f->r->s.groups, c = g.c / groups, first = o / (g.oc / groups) * c;
    const int32_t *w = f->w + (size_t)o * (size_t)(g.kh * g.kw * c);
    const int32_t  pad = (int32_t)(f->r->s.pad_value / f->x_scale);
    acc[0] = acc[1] = 0;
    for (int i = 0; i < g.kh; i++)
        for (int j = 0; j < g.kw; j++)
            for (int k = 0; k < c; k++, w++) {
                const int y = oy * g.stride + i - g.top, q = ox * g.stride + j - g.left;
                const bool inside = y >= 0 && q >= 0 && y < g.h && q < g.w;
                const int32_t x = inside ? f->x[((n * g.h + y) * g.w + q) * g.c + first + k] : pad;
                if (f->two_sided && *w < 0) acc[1] -= (int64_t)*w * x;
                else acc[0] += (int64_t)*w * x;
            }
}

/* What a norm does, in double. */
static void line(const qg_batchnorm *bn, int k, double *a, double *b)
{
    *a = (double)bn->gamma->value[k] / sqrt((double)bn->var->value[k] + 1e-5);
    *b = (double)bn->beta->value[k] - (double)bn->mean->value[k] * *a;
}

/* The mean |x| of a window, in the order of qg_xnor_activation: columns of rows of channels. */
static float window_mean(const reference *f, int n, int oy, int ox)
{
    const qg__geometry g = f->g;
    double sum = 0;
    for (int j = 0; j < g.kw; j++) {
        const int q = ox * g.stride + j - g.left;
        double    column = 0;
        for (int i = 0; i < g.kh && q >= 0 && q < g.w; i++) {
            const int y = oy * g.stride + i - g.top;
            for (int k = 0; k < g.c && y >= 0 && y < g.h; k++)
                column += fabs((double)f->r->x[((n * g.h + y) * g.w + q) * g.c + k]);
        }
        sum += column;
    }
    return (float)(sum / ((double)g.c * g.kh * g.kw));
}

/* Each volatile number is rounded on its own. */
static float expected(const reference *f, int n, int oy, int ox, int o)
{
    const rig *r = f->r;
    const bool K = r->p->input_slot.q.scheme->scale_output, folded = qg_product_is_folded(r->p);
    double     slope = 1, offset = r->p->bias && !K ? (double)r->p->bias->value[o] : 0, unused;
    int64_t    acc[2];
    sums(f, n, oy, ox, o, acc);
    if (r->bn && folded) line(r->bn, o, &unused, &offset);
    else if (r->bn && !K) line(r->bn, o, &slope, &offset);
    const float a  = (float)((double)f->scale[o] * (slope * (double)f->x_scale));
    const float an = (float)((double)f->negative[o] * (slope * (double)f->x_scale));
    volatile float z = a * (float)acc[0];
    if (f->two_sided) {
        volatile float negative = an * (float)acc[1];
        z = z - negative;
    }
    z = z + (float)offset;
    if (!K) return z;
    z = z * window_mean(f, n, oy, ox);
    if (r->p->bias) z = z + r->p->bias->value[o];
    if (r->bn) {
        line(r->bn, o, &slope, &offset);
        z = (float)slope * z;
        z = z + (float)offset;
    }
    return z;
}

static void check_codes(rig *r, const char *what)
{
    const size_t w_count = qg_count(r->p->weight->shape), oc = (size_t)r->s.out;
    float       *folded = malloc((w_count + 2 * oc) * sizeof *folded);
    reference    f = { .r = r, .w = malloc(w_count * sizeof *f.w), .x = malloc(N * r->row * sizeof *f.x) };
    qg_codes     codes;
    qg__product  sizes;
    assert_true(folded && f.w && f.x);
    f.scale    = folded + w_count;
    f.negative = f.scale + oc;
    encode(&r->p->weight_slot, qg__product_weight(r->p, folded), f.w, f.scale, f.negative, &codes);
    for (size_t o = (size_t)codes.n_scale; o < oc; o++) f.scale[o] = f.scale[0], f.negative[o] = f.negative[0];
    const qg_scheme *scheme = r->p->weight_slot.q.scheme;
    f.two_sided = scheme == &qg__ttq_scheme || scheme == &qg__adabin_scheme;
    encode(&r->p->input_slot, (qg_tensor){ { N, r->s.h, r->s.w, r->s.c }, r->x }, f.x, &f.x_scale, NULL, &codes);
    qg__product_sizes(r->p, r->p->layer.in, &sizes);
    f.g = sizes.g;
    const float *y = evaluated(r, N);
    for (int n = 0; n < N; n++)
        for (int oy = 0; oy < f.g.oh; oy++)
            for (int ox = 0; ox < f.g.ow; ox++)
                for (int o = 0; o < f.g.oc; o++, y++) {
                    const float z = expected(&f, n, oy, ox, o);
                    if (memcmp(y, &z, sizeof z))
                        fail_msg("%s: image %d, output %d %d %d is %.9g, by definition %.9g", what, n, oy, ox, o, (double)*y,
                                 (double)z);
                }
    free(folded), free(f.w), free(f.x);
}

/* Where an operand is floats, each sum has some thousand roundings of its terms. */
static void check_floats(rig *r, const char *what)
{
    const qg_shape in = { N, r->s.h, r->s.w, r->s.c }, ws = r->p->weight->shape;
    float         *folded = malloc(qg_count(ws) * sizeof *folded), *y = malloc(N * qg_row(r->p->layer.out) * sizeof *y);
    qg__product    sizes;
    assert_true(folded && y);
    memcpy(y, evaluated(r, N), N * qg_row(r->p->layer.out) * sizeof *y);
    qg__product_sizes(r->p, r->p->layer.in, &sizes);
    const qg__geometry g = sizes.g;
    qg_tape_begin(r->t, QG_EVAL, 1, 1);
    const qg_var *x = qg_slot_apply(&r->p->input_slot, r->t, qg_input(r->t, (qg_tensor){ in, r->x }));
    const qg_var *w = qg_slot_apply(&r->p->weight_slot, r->t, qg_input(r->t, qg__product_weight(r->p, folded)));
    const size_t  row = qg_row(ws);
    const int     c = g.c / sizes.groups;
    assert_true(x && w);
    for (size_t at = 0; at < N * qg_row(r->p->layer.out); at++) {
        const int o = (int)(at % (size_t)g.oc), pixel = (int)(at / (size_t)g.oc), n = pixel / (g.oh * g.ow);
        const int oy = pixel / g.ow % g.oh, ox = pixel % g.ow, first = o / (g.oc / sizes.groups) * c;
        double    sum = 0, size = 0, a = 1, b = r->p->bias ? (double)r->p->bias->value[o] : 0, unused;
        for (size_t k = 0; k < row; k++) {
            const int    tap = (int)k / c, iy = oy * g.stride + tap / g.kw - g.top, ix = ox * g.stride + tap % g.kw - g.left;
            const bool   inside = iy >= 0 && ix >= 0 && iy < g.h && ix < g.w;
            const float  v = inside ? x->data[((n * g.h + iy) * g.w + ix) * g.c + first + (int)k % c] : sizes.pad;
            const double term = (double)v * (double)w->data[(size_t)o * row + k];
            sum += term, size += fabs(term);
        }
        if (r->bn) line(r->bn, o, qg_product_is_folded(r->p) ? &unused : &a, &b);
        if (fabs((double)y[at] - (a * sum + b)) > 1e-5 * (fabs(a) * size + fabs(b)))
            fail_msg("%s: %.9g, not %.9g", what, (double)y[at], a * sum + b);
    }
    free(folded), free(y);
}

/* Any batch and any number of threads. */
static void check_batches(rig *r, const char *what)
{
    const size_t row = qg_row(r->p->layer.out);
    float       *all = malloc(N * row * sizeof *all);
    assert_non_null(all);
    qg_set_threads(1);
    memcpy(all, evaluated(r, N), N * row * sizeof *all);
    for (int n = 1; n <= N; n++) {
        qg_set_threads(1 + n % 3);
        if (memcmp(all, evaluated(r, n), (size_t)n * row * sizeof *all)) fail_msg("%s: %d images have other bits", what, n);
    }
    qg_set_threads(0);
    free(all);
}

/* A file has the size that qg__evaluation_shape says, whatever the values are. */
static void check_shape(rig *r, bool w, bool x)
{
    float         *memory = malloc(qg__evaluation_floats(r->p) * sizeof *memory);
    qg__evaluation e;
    qg__product    declared;
    assert_non_null(memory);
    assert_ok(qg__evaluation_of(r->p, 1, memory, &e));
    qg__evaluation_shape(r->p, &declared);
    assert_true((e.p.w.count > 0) == w);
    if (x) assert_true((e.p.x.count > 0) == w);
    assert_true(declared.w.count == e.p.w.count && declared.w.step == e.p.w.step && declared.two_sided == e.p.two_sided);
    assert_true(declared.zeros == e.p.zeros);
    assert_true(declared.x.count == e.p.x.count && qg__product_fits(&e.p));
    free(memory);
}

static void check(const tested_scheme *weight, const tested_scheme *input, shape s, bool fold, bool batches)
{
    char           what[160];
    const qg_quant w = tested_quant(weight, QG_WEIGHT), x = tested_quant(input, QG_INPUT);
    rig            r;
    if (!weight->scheme) fold = false;
    if (x.scheme && x.scheme->scale_output) {
        fold     = false;
        s.groups = s.dense ? 0 : 1;
    }
    snprintf(what, sizeof what, "%s:%s x %s:%s, %d channels%s", w.scheme ? w.scheme->name : "float", weight->arguments,
             x.scheme ? x.scheme->name : "float", input->arguments, s.c, fold ? ", folded" : "");
    if (!make(&r, s, w, x, fold && s.norm)) fail_msg("%s: %s", what, qg_errmsg());
    const bool K = x.scheme && x.scheme->scale_output;
    if (weight->codes && input->codes && (s.pad_value == 0 || input->scheme == &qg__sign_scheme)) check_codes(&r, what);
    else if (!K) check_floats(&r, what);
    check_shape(&r, weight->codes, input->codes && s.pad_value == 0);
    if (batches) check_batches(&r, what);
    discard(&r);
}

static void every_scheme_in_every_role_is_evaluated_by_definition(void **state)
{
    for (int path = 0; path < PATHS; path++) {
        use_path(path);
        for (int w = 0; w < TESTED_WEIGHTS; w++)
            for (int x = 0; x < TESTED_INPUTS; x++) {
                const int i = (w * 5 + x * 7 + path) % COUNT(shapes);
                if (every_combination() || (w + x / 3) % PATHS == path)
                    check(&tested_weights[w], &tested_inputs[x], shapes[i], (w + x) % 3 == 0,
                          (w + x) % 4 == path);
            }
    }
}

static void all_shapes_are_evaluated_by_definition(void **state)
{
    static const int w[] = { 1, 4, 8, 17, 22, 28, 30, 31, 37 }, x[] = { 1, 2, 5, 11, 17, 19 };
    for (int path = 0; path < PATHS; path++) {
        use_path(path);
        for (int i = 0; i < COUNT(shapes); i++)
            for (int k = 0; k < COUNT(w) * COUNT(x); k++)
                if (every_combination() || (i + k) % PATHS == path)
                    check(&tested_weights[w[k % COUNT(w)]], &tested_inputs[x[k / COUNT(w)]], shapes[i], k % 2,
                          k % 5 == 0);
    }
}

/* --- in their places ------------------------------------------------------------------------ */

/* The first x of each code, and what the tape makes of it. */
static void thresholds_are_where_codes_begin(void **state)
{
    for (int i = 0; i < TESTED_INPUTS; i++) {
        rig   r;
        float scale, threshold[256], level[256];
        if (!tested_inputs[i].codes) continue;
        assert_true(make(&r, shapes[7], tested_quant(&tested_weights[1], QG_WEIGHT), tested_quant(&tested_inputs[i], QG_INPUT), false));
        const qg_slot  *slot = &r.p->input_slot;
        qg__codes       codes;
        assert_ok(qg__slot_codes(slot, 1, &codes, &scale));
        assert_true(codes.count > 1);
        assert_ok(qg__slot_thresholds(slot, codes, threshold, level));
        for (int u = 1; u < codes.count; u++) {
            const float t = threshold[u - 1];
            float       around[2] = { nextafterf(t, -INFINITY), t }, one, none;
            int32_t     code[2];
            qg_codes    out;
            assert_true(isfinite(t) && (u == 1 || t > threshold[u - 2]));
            encode(slot, (qg_tensor){ { 1, 1, 1, 2 }, around }, code, &one, &none, &out);
            assert_int_equal(code[0], codes.lowest + codes.step * (u - 1));
            assert_int_equal(code[1], codes.lowest + codes.step * u);
            qg_tape_begin(r.t, QG_EVAL, 1, 1);
            const qg_var *y = qg_slot_apply(slot, r.t, qg_input(r.t, (qg_tensor){ { 1, 1, 1, 2 }, around }));
            assert_true(y->data[0] == level[u - 1] && y->data[1] == level[u]);
            assert_float_equal(level[u], scale * (float)code[1], 1e-6);
        }
        discard(&r);
    }
}

static qg_net *bnn(bool apart)
{
    const qg_quant w = qg_bnn((qg_bnn_spec){ 0 }), sign = qg_sign((qg_sign_spec){ 0 });
    qg_net *net = qg_net_new((qg_net_spec){ .height = 6, .width = 6, .channels = 3, .seed = 4 });
    if (apart) {
        qg_net_quantize(net, sign);
        qg_net_maxpool(net, 2);
        qg_net_dropout(net, 0.5f);
    } else {
        qg_net_maxpool(net, 2);
    }
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 5, .kernel = 2, .name = "c", .weight = w,
                                         .input = apart ? (qg_quant){ 0 } : sign });
    assert_non_null(qg_net_build(net));
    return net;
}

/* Codes pass through max pooling and dropout, which commute with the sign. */
static void codes_are_known_behind_pooling_and_dropout(void **state)
{
    float    x[4 * 6 * 6 * 3], kept[4 * 4 * 5];
    qg_tape *t = qg_tape_new();
    fill_uniform(x, COUNT(x), -1, 1, 5);
    for (int apart = 0; apart < 2; apart++) {
        qg_net           *net = bnn(apart);
        const qg_product *p   = qg_layer_product(qg_net_find(net, "c"));
        qg__product       declared;
        qg__evaluation_shape(p, &declared);
        assert_int_equal(declared.x.count, 2);
        qg_tape_begin(t, QG_EVAL, 1, 0);
        const qg_var *y = qg_net_forward(net, t, (qg_tensor){ { 4, 6, 6, 3 }, x });
        assert_int_equal(qg_count(y->shape), COUNT(kept));
        if (apart) assert_memory_equal(y->data, kept, sizeof kept);
        else memcpy(kept, y->data, sizeof kept);
        qg_net_free(net);
    }
    qg_tape_free(t);
}

/* A layer that runs alone knows neither the norm after it nor the codes before it; the norm then does its part. */
static void layers_that_run_alone_are_not_merged(void **state)
{
    rig   r;
    float y[31], expected[31];
    assert_true(make(&r, shapes[7], tested_quant(&tested_weights[1], QG_WEIGHT), tested_quant(&tested_inputs[1], QG_INPUT), false));
    assert_true(qg__evaluation_has_norm(r.p));
    qg_tape_begin(r.t, QG_EVAL, 1, 1);
    qg_var *z = qg_apply(&r.p->layer, r.t, qg_input(r.t, (qg_tensor){ { 1, 1, 1, 65 }, r.x }));
    memcpy(y, z->data, sizeof y);
    z = qg_apply((qg_layer *)r.bn, r.t, z);
    for (int k = 0; k < 31; k++) {
        double a, b;
        line(r.bn, k, &a, &b);
        volatile float product = (float)a * y[k];
        expected[k] = product + (float)b;
    }
    assert_memory_equal(z->data, expected, sizeof expected);
    assert_close(evaluated(&r, 1), expected, 31, 1e-4);     /* rounded elsewhere: values below 100 */
    discard(&r);
}

/* What waits or has seen nothing is floats, and so is a weight with a NaN, which shows. */
static void what_has_no_codes_is_floats(void **state)
{
    qg_quant weight = tested_quant(&tested_weights[20], QG_WEIGHT), input = tested_quant(&tested_inputs[10], QG_INPUT);
    rig      r;
    float    scale;
    qg__codes codes;
    assert_true(make(&r, shapes[8], weight, input, false));
    assert_ok(qg__slot_codes(&r.p->input_slot, 1, &codes, &scale));
    assert_int_equal(codes.count, 4);
    r.p->input_slot.param[1]->value[0] = 0;         /* "seen" */
    assert_int_equal(qg__slot_codes(&r.p->input_slot, 1, &codes, &scale), QG_ESTATE);
    assert_int_equal(codes.count, 4);               /* as declared */
    assert_true(scale == 1);
    check_floats(&r, "nothing seen");
    r.p->input_slot.param[1]->value[0] = 1;
    r.p->weight->value[5]              = NAN;
    assert_true(isnan(evaluated(&r, 1)[0]) && !isnan(evaluated(&r, 1)[1]));
    discard(&r);
    input.after = 2;
    assert_true(make(&r, shapes[8], weight, input, false));
    assert_ok(qg__slot_codes(&r.p->input_slot, 1, &codes, &scale));
    assert_int_equal(codes.count, 0);
    check_floats(&r, "waiting");
    discard(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_scheme_in_every_role_is_evaluated_by_definition, restore_variables),
        cmocka_unit_test_teardown(all_shapes_are_evaluated_by_definition, restore_variables),
        cmocka_unit_test(thresholds_are_where_codes_begin),
        cmocka_unit_test(codes_are_known_behind_pooling_and_dropout),
        cmocka_unit_test(layers_that_run_alone_are_not_merged),
        cmocka_unit_test(what_has_no_codes_is_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
