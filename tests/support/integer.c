#include "tests/support/integer.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "core/ops/ops.h"
#include "core/rng.h"
#include "tests/support/testing.h"

/* --- a step ----------------------------------------------------------------------------------- */

qg_quant parsed_quant(const char *text, qg_role role)
{
    qg_quant q;
    if (qg_quant_parse(text, role, &q)) fail_msg("%s: %s", text, qg_errmsg());
    return q;
}

static void fill(trial *r)
{
    const size_t row = r->results / (size_t)r->s.n;
    fill_uniform(r->x->value, r->images, -1.2f, 1.2f, 16);
    r->x->value[0] = 0.7f;          /* ranges of positive numbers need one */
    if (r->p->bias) fill_uniform(r->p->bias->value, (size_t)r->s.out, -1, 1, 11);
    for (int k = 0; k < PRODUCTS; k++) {
        r->dy[k] = numbers(r->results, sizeof(float));
        fill_uniform(r->dy[k], r->results, -0.01f, 0.01f, 21 + (uint64_t)k);
        for (size_t i = 0; i < r->results; i++) r->dy[k][i] *= (float)(1 + i / row % 3);
    }
}

void open_quantized(trial *r, shape s, qg_quant weight, qg_quant input, qg_quant gradient)
{
    const qg_conv2d_spec spec = { .out      = s.out,
                                  .kernel   = s.kernel,
                                  .kernel_w = s.kernel_w,
                                  .stride   = s.stride,
                                  .pad      = s.pad,
                                  .same     = s.same,
                                  .no_bias  = !s.bias,
                                  .weight   = weight,
                                  .input    = input,
                                  .gradient = gradient };
    *r = (trial){ .s = s, .t = qg_tape_new() };
    r->net = qg_net_new((qg_net_spec){ .height = s.h, .width = s.w, .channels = s.c, .seed = 3 });
    qg_layer *l = qg_net_conv2d(r->net, spec);
    if (!qg_net_build(r->net)) fail_msg("%s", qg_errmsg());
    r->p       = qg_layer_product(l);
    r->x       = declare(&r->own, "x", (qg_shape){ s.n, s.h, s.w, s.c });
    r->images  = qg_count(r->x->shape);
    r->results = (size_t)s.n * qg_row(l->out);
    assert_ok(qg_params_allocate(&r->own));
    fill(r);
}

void open_trial(trial *r, shape s, const char *weight, const char *input, const char *gradient)
{
    open_quantized(r, s, parsed_quant(weight, QG_WEIGHT), parsed_quant(input, QG_INPUT), parsed_quant(gradient, QG_GRADIENT));
    snprintf(r->what, sizeof r->what,
             "%s x %s, gradient %s, %d x %d x %d x %d to %d, %d x %d, stride %d, pad %d%s",
             weight, input, gradient, s.n, s.h, s.w, s.c, s.out, s.kernel, s.kernel_w ? s.kernel_w : s.kernel,
             s.stride, s.pad, s.same ? ", same" : "");
}

void close_trial(trial *r)
{
    for (int k = 0; k < PRODUCTS; k++) free(r->dy[k]);
    qg_params_release(&r->own);
    qg_net_free(r->net);
    qg_tape_free(r->t);
}

static void given_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    qg_var             *x  = y->in[0];
    const float *const *dy = y->saved;
    memcpy(x->grad, *dy, qg_count(x->shape) * sizeof **dy);
}

static const qg_op given_op = { .name = "given", .backward = given_backward, .assigns = true };

qg_var *given(qg_tape *t, qg_var *x, const float *dy)
{
    qg_var       *y    = x ? qg_record(t, &given_op, (qg_shape){ 1, 1, 1, 1 }, x, NULL, NULL) : NULL;
    const float **kept = y ? qg_save(t, y, sizeof *kept) : NULL;
    if (!kept) fail_msg("%s", qg_errmsg());
    *kept      = dy;
    y->data[0] = 0;
    qg_drop_batch(y);
    return y;
}

bool in_integers(const qg_var *y) { return y && y->op && !strcmp(y->op->name, "conv2d_int"); }

void begin(trial *r, uint64_t step, bool retain)
{
    qg_params_clear_gradients(&r->own);
    qg_params_clear_gradients(qg_net_params(r->net));
    qg_tape_retain(r->t, retain);
    qg_tape_begin(r->t, QG_TRAIN, KEY, step);
}

void backward(trial *r, qg_var *loss)
{
    if (qg_backward(r->t, loss)) fail_msg("%s: %s", r->what, qg_errmsg());
}

qg_var *run_layer(trial *r, bool retain)
{
    begin(r, STEP, retain);
    qg_var *y = qg_apply(&r->p->layer, r->t, qg_parameter(r->t, r->x));
    if (!y) fail_msg("%s: %s", r->what, qg_errmsg());
    backward(r, given(r->t, y, r->dy[0]));
    return y;
}

qg_var *run_floats(trial *r)
{
    begin(r, STEP, true);
    qg_var *x = qg_slot_apply(&r->p->input_slot, r->t, qg_parameter(r->t, r->x));
    qg_var *w = qg_slot_apply(&r->p->weight_slot, r->t, qg_parameter(r->t, r->p->weight));
    qg_var *b = r->p->bias ? qg_parameter(r->t, r->p->bias) : NULL;
    qg_var *y = qg_conv2d(r->t, x, w, b, r->p->conv), *z = qg_slot_apply(&r->p->gradient_slot, r->t, y);
    if (!z) fail_msg("%s: %s", r->what, qg_errmsg());
    backward(r, given(r->t, z, r->dy[0]));
    return y;
}

/* --- codes ------------------------------------------------------------------------------------ */

void *numbers(size_t n, size_t bytes)
{
    void *p = calloc(n, bytes);
    assert_non_null(p);
    return p;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

float largest_of(size_t n, const float *x)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) return NAN;
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    }
    return most;
}

/* The nearest rank of |dy|, or the largest if that is 0. */
static float ranked(size_t n, const float *dy, double percentile)
{
    const float largest = largest_of(n, dy);
    float      *sorted  = numbers(n, sizeof *sorted);
    for (size_t i = 0; i < n; i++) sorted[i] = fabsf(dy[i]);
    qsort(sorted, n, sizeof *sorted, by_value);
    const float found = sorted[(size_t)ceil(percentile / 100 * (double)n) - 1];
    free(sorted);
    return percentile < 100 && found > 0 && isfinite(largest) ? found : largest;
}

static float clamped(float v, float least, float most)
{
    return v < least ? least : v > most ? most : v;
}

/* The gradient dy, number i of the batch: a multiple of range / most. */
static int32_t code_of(qg_quant q, bool dorefa, float dy, float range, float most, uint64_t key, size_t i)
{
    const bool  draws = q.arg[0] == 0;
    const float u     = qg_uniform_fast(key, i);
    if (range == 0 || !isfinite(range)) return 0;
    if (dorefa) {
        const float v = dy / range * 0.5f + 0.5f + (draws ? (u - 0.5f) * (1 / most) : 0.0f);
        return 2 * (int32_t)rintf(clamped(v, 0, 1) * most) - (int32_t)most;
    }
    const float v = clamped(dy / range * most, -most, most), below = floorf(v);
    return (int32_t)(draws ? below + (float)(u < v - below) : rintf(v));
}

/* The key that this product draws, the only op in the step that does. */
static uint64_t key_of(int product)
{
    uint64_t key = 0;
    qg_tape *t   = qg_tape_new();
    qg_tape_begin(t, QG_TRAIN, KEY, STEP);
    for (int k = 0; k <= product; k++) key = qg_tape_key(t);
    qg_tape_free(t);
    return key;
}

static void code_gradient(const trial *r, int product, definition *d)
{
    const qg_quant q      = r->p->gradient_slot.q;
    const bool     dorefa = !strcmp(q.scheme->name, "dorefa");
    const size_t   row    = r->results / (size_t)d->n;
    const float    most   = (float)((1 << (dorefa ? q.bits : q.bits - 1)) - 1), *dy = r->dy[product];
    const uint64_t key    = key_of(product);
    const float    range  = dorefa ? 0 : ranked(r->results, dy, q.arg[1]);
    for (int i = 0; i < d->n; i++) {
        const size_t first = (size_t)i * row;
        const float  own   = dorefa ? largest_of(row, dy + first) : range;
        d->dy_scale[i]     = own / most;
        for (size_t k = first; k < first + row; k++)
            d->dy[k] = code_of(q, dorefa, dy[k], own, most, key, k);
    }
}

/* Encoded after the step, in which a range may have been learned from the values.  values: on the tape, from
 * which codes times the scale differ by roundings of numbers that are at most the largest. */
static void code_operand(const qg_slot *slot, qg_tensor x, const float *values, int32_t *code, float *scale)
{
    float        negative[QG_MAX_LEARNED];
    const size_t n    = qg_count(x.shape);
    const float  most = largest_of(n, values);
    qg_codes     out  = { .code = code, .scale = scale, .negative = negative };
    assert_ok(qg_slot_encode(slot, x, &out));
    assert_true(!out.two_sided && out.n_scale <= 1);
    if (out.n_scale == 0) scale[0] = 1;
    for (size_t i = 0; i < n; i++)
        if (fabsf((float)code[i] * scale[0] - values[i]) > 4 * FLT_EPSILON * most)
            fail_msg("%s: code %d of number %zu, which is %g", slot->q.scheme->name, code[i], i,
                     (double)values[i]);
}

/* --- sums --------------------------------------------------------------------------------------- */

/* The sums of an image for dx [h][w][c] and dw [out][kh][kw][c]. */
typedef struct sums {
    int64_t *dx, *dw;
} sums;

/* The pixel of image i under a tap, or -1. */
static ptrdiff_t pixel_at(const qg__geometry *g, int r, int q, int tap)
{
    const int y = r * g->stride + tap / g->kw - g->top, x = q * g->stride + tap % g->kw - g->left;
    return y < 0 || x < 0 || y >= g->h || x >= g->w ? -1 : (ptrdiff_t)y * g->w + x;
}

/* One tap of an output of image i, whose gradient has this code; returns its part of acc. */
static int64_t sum_tap(const definition *d, int i, int64_t dy, size_t pixel, size_t w, double *size, sums *s)
{
    const size_t c = (size_t)d->g.c, image = (size_t)i * qg__pixels(&d->g) * c, x = pixel * c;
    const double dy_value = fabs((double)dy * (double)d->dy_scale[i]);
    int64_t      acc = 0;
    for (size_t k = 0; k < c; k++) {
        const int64_t x_code = d->x[image + x + k], w_code = d->w[w + k];
        acc += x_code * w_code;
        *size += fabs((double)(x_code * w_code));
        s->dx[x + k] += w_code * dy;
        s->dw[w + k] += x_code * dy;
        d->dx_size[image + x + k] += fabs((double)w_code * (double)d->w_scale[0]) * dy_value;
        d->dw_size[w + k] += fabs((double)x_code * (double)d->x_scale) * dy_value;
    }
    return acc;
}

static void sum_image(const definition *d, int i, const float *b, sums *s)
{
    const qg__geometry *g    = &d->g;
    const int           taps = (int)qg__taps(g), results = (int)qg__results(g) * g->oc;
    const float         a    = (float)((double)d->w_scale[0] * (double)d->x_scale);
    for (int k = 0; k < results; k++) {
        const int    o = k % g->oc, r = k / g->oc / g->ow, q = k / g->oc % g->ow;
        const size_t at   = (size_t)i * (size_t)results + (size_t)k;
        int64_t      acc  = 0;
        double       size = 0;
        for (int tap = 0; tap < taps; tap++) {
            const ptrdiff_t pixel = pixel_at(g, r, q, tap);
            const size_t    w     = (size_t)(o * taps + tap) * (size_t)g->c;
            if (pixel >= 0) acc += sum_tap(d, i, d->dy[at], (size_t)pixel, w, &size, s);
        }
        d->y[at]      = a * (float)acc + (b ? b[o] : 0.0f);
        d->y_size[at] = size * (double)a + (b ? fabs((double)b[o]) : 0);
    }
}

/* [QG_SLICES][n] to their sum: neighbours, then pairs of neighbours, .. */
static void sum_tree(size_t n, float *slice)
{
    for (size_t apart = n; apart < QG_SLICES * n; apart *= 2)
        for (size_t at = 0; at < QG_SLICES * n; at += 2 * apart)
            for (size_t k = at; k < at + n; k++) slice[k] += slice[k + apart];
}

static void sum_batch(const trial *r, definition *d)
{
    const size_t n_w = qg_count(r->p->weight->shape), image = qg_row(r->x->shape);
    const float *b   = r->p->bias ? r->p->bias->value : NULL;
    float       *slice = numbers(QG_SLICES * n_w, sizeof *slice);
    sums         s     = { numbers(image, sizeof *s.dx), numbers(n_w, sizeof *s.dw) };
    for (int at = 0; at < QG_SLICES; at++)
        for (int i = qg_slice_at(d->n, at); i < qg_slice_at(d->n, at + 1); i++) {
            const float scale = d->x_scale * d->dy_scale[i];
            float      *dx = d->dx + (size_t)i * image, *dw = slice + (size_t)at * n_w;
            memset(s.dx, 0, image * sizeof *s.dx), memset(s.dw, 0, n_w * sizeof *s.dw);
            sum_image(d, i, b, &s);
            for (size_t k = 0; k < image; k++) dx[k] = d->w_scale[0] * (float)s.dx[k] * d->dy_scale[i];
            for (size_t k = 0; k < n_w; k++) dw[k] += scale * (float)s.dw[k];
        }
    sum_tree(n_w, slice);
    memcpy(d->dw, slice, n_w * sizeof *slice);
    free(slice), free(s.dx), free(s.dw);
}

void define(const trial *r, int product, const qg_var *y, definition *d)
{
    const qg_param *w   = r->p->weight;
    const size_t    n_w = qg_count(w->shape);
    qg__product     sizes;
    qg__product_sizes(r->p, r->x->shape, &sizes);
    *d = (definition){ .g        = sizes.g,
                       .n        = r->s.n,
                       .x        = numbers(r->images, sizeof(int32_t)),
                       .w        = numbers(n_w, sizeof(int32_t)),
                       .dy       = numbers(r->results, sizeof(int32_t)),
                       .w_scale  = numbers((size_t)r->s.out, sizeof(float)),
                       .dy_scale = numbers((size_t)r->s.n, sizeof(float)),
                       .y        = numbers(r->results, sizeof(float)),
                       .dx       = numbers(r->images, sizeof(float)),
                       .dw       = numbers(n_w, sizeof(float)),
                       .y_size   = numbers(r->results, sizeof(double)),
                       .dx_size  = numbers(r->images, sizeof(double)),
                       .dw_size  = numbers(n_w, sizeof(double)) };
    const qg_tensor x_latent = { r->x->shape, r->x->value }, w_latent = { w->shape, w->value };
    code_operand(&r->p->input_slot, x_latent, y->in[0]->data, d->x, &d->x_scale);
    code_operand(&r->p->weight_slot, w_latent, y->in[1]->data, d->w, d->w_scale);
    code_gradient(r, product, d);
    sum_batch(r, d);
}

void free_definition(definition *d)
{
    free(d->x), free(d->w), free(d->dy), free(d->w_scale), free(d->dy_scale);
    free(d->y), free(d->dx), free(d->dw), free(d->y_size), free(d->dx_size), free(d->dw_size);
}

/* --- comparisons -------------------------------------------------------------------------------- */

static bool is_equal_to(float got, float want)
{
    return isnan(want) ? !isfinite(got) : want == 0 ? got == 0 : !memcmp(&got, &want, sizeof got);
}

void assert_equal_to(const trial *r, const char *name, size_t n, const float *got, const float *want)
{
    for (size_t i = 0; i < n; i++)
        if (!is_equal_to(got[i], want[i]))
            fail_msg("%s: %s[%zu] of %zu is %.9g, by definition %.9g", r->what, name, i, n, (double)got[i],
                     (double)want[i]);
}

void assert_within(const trial *r, const char *name, size_t n, const float *got, const float *want,
                   const double *size, double roundings)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= roundings * ldexp(size[i], -24)))
            fail_msg("%s: %s[%zu] is %.9g, not %.9g; %g roundings of %g", r->what, name, i, (double)got[i],
                     (double)want[i], roundings, size[i]);
}
