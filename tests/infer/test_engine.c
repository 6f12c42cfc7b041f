/* Random packed nets against loops over the definitions of infer/format.h: every kind of step, bit for bit,
 * on every instruction set that the machine has. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"
#include "infer/infer.h"
#include "tests/support/environment.h"
#include "tests/support/packed.h"

enum { LINE = 64, MOST = 40, IMAGES = 9 };

/* --- random choices ------------------------------------------------------------------------------- */

typedef struct source {
    uint64_t key, at;
} source;

static int draw(source *s, int lo, int hi)
{
    return lo + (int)(qg_bits(s->key, s->at++) % (unsigned)(hi - lo + 1));
}

static bool chance(source *s, int of) { return draw(s, 1, of) == 1; }

static float draw_float(source *s, float lo, float hi)
{
    return lo + (hi - lo) * qg_uniform(s->key, s->at++);
}

static float *drawn(source *s, size_t n, float lo, float hi)
{
    float *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) x[i] = draw_float(s, lo, hi);
    return x;
}

/* --- a net ------------------------------------------------------------------------------------------ */

typedef struct value {
    int        h, w, c;
    qg__coding coding;
    qg__codes  codes;       /* .count 0: floats */
    bool       plain;       /* a step may read it again as a second operand */
} value;

typedef struct test_net {
    packed_net  file;
    packed_step step[MOST];
    value       value[MOST + 1];
    qg__product p[MOST];
    int         next;       /* of pairs, for which the current value was quantized */
} test_net;

static const struct {
    qg__codes x, w;
    bool      zeros;
} pairs[] = {
    { { -1, 2, 2 }, { -1, 2, 2 }, false },       { { -1, 2, 2 }, { -1, 1, 3 }, false },   { { 0, 1, 2 }, { -1, 2, 2 }, false },
    { { -1, 1, 3 }, { -1, 1, 3 }, false },       { { 0, 1, 4 }, { -1, 2, 2 }, false },    { { 0, 1, 4 }, { -3, 2, 4 }, false },
    { { -3, 1, 7 }, { -1, 1, 3 }, false },       { { 0, 1, 16 }, { -7, 1, 15 }, false },  { { -7, 2, 8 }, { -1, 2, 2 }, false },
    { { -8, 1, 16 }, { -1, 2, 2 }, false },      { { 0, 1, 256 }, { -127, 1, 255 }, false }, { { -128, 1, 256 }, { -127, 1, 255 }, false },
    { { -77, 1, 256 }, { -1, 1, 3 }, false },    { { 0, 1, 100 }, { -1, 2, 2 }, false },  { { -127, 2, 128 }, { -127, 1, 255 }, false },
    { { 0, 1, 3 }, { -1, 1, 3 }, false },        { { 0, 1, 256 }, { 0, 1, 256 }, true },  { { -77, 1, 256 }, { 0, 1, 256 }, true },
    { { 0, 1, 4 }, { 0, 1, 4 }, true },          { { -1, 2, 2 }, { 0, 1, 16 }, true },    { { -128, 1, 256 }, { 0, 1, 31 }, true },
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

static const struct {
    qg__codes w;
    bool      zeros;
} weights[] = { { { 0, 0, 0 }, false },  { { -1, 2, 2 }, false },     { { -1, 1, 3 }, false },
                { { -3, 2, 4 }, false }, { { -127, 1, 255 }, false }, { { -300, 1, 601 }, false },
                { { 0, 1, 256 }, true }, { { 0, 1, 7 }, true } };
enum { WEIGHTS = sizeof weights / sizeof *weights };

static const int channels[] = { 1, 3, 8, 31, 33, 63, 64, 65, 130 };
enum { CHANNELS = sizeof channels / sizeof *channels };

static value *current(test_net *n)                  { return &n->value[n->file.steps]; }
static packed_step *append(test_net *n, value made)
{
    const value *x = current(n);
    assert_true(n->file.steps < MOST);
    packed_step *s = &n->step[n->file.steps];
    s->r = (qg__packed_step){
        .x = n->file.steps, .z = -1, .h = x->h, .w = x->w, .c = x->c, .oh = made.h, .ow = made.w, .oc = made.c
    };
    n->value[++n->file.steps] = made;
    return s;
}

/* Ascending thresholds, uniform or not, some of them equal or infinite. */
static void fill_thresholds(source *s, int n, float *t)
{
    const float first = draw_float(s, -2, 0), spacing = draw_float(s, 0.5f, 4) / (float)(n + 1);
    const bool  uniform = !chance(s, 3);
    for (int u = 0; u < n; u++)
        t[u] = uniform ? first + spacing * (float)u : (u ? t[u - 1] : first) + draw_float(s, 0, 2 * spacing);
    if (n > 2 && chance(s, 4)) t[1] = t[2];
    if (n > 2 && chance(s, 4)) t[n - 1] = INFINITY;
    if (n > 2 && chance(s, 8)) t[0] = -INFINITY;
}

/* Those of rint(x / scale), or of a line, exactly. */
static void fill_levels(source *s, qg__codes codes, float scale, float *t)
{
    const bool  line = chance(s, 2);
    const float first = scale * (float)codes.lowest, inverse = 1 / scale;
    for (int u = 0; u + 1 < codes.count; u++) {
        float x = ((float)(codes.lowest + u) + 0.499f) * scale;
        if (line)
            while (truncf((x - first) * inverse + 0.5f) < (float)(u + 1)) x = nextafterf(x, INFINITY);
        else
            while (rintf(x / scale) < (float)(codes.lowest + u + 1)) x = nextafterf(x, INFINITY);
        t[u] = x;
    }
}

/* The quantizer of step s, as floats or for a product that comes next. */
static void add_quantizer(source *src, test_net *n, packed_step *s, size_t own, bool levels)
{
    const int       pair  = draw(src, 0, PAIRS - 1);
    const qg__codes codes = pairs[pair].x;
    value          *v     = current(n);
    const qg__product p   = { .groups = 1, .x = codes, .w = pairs[pair].w, .zeros = pairs[pair].zeros };
    s->r.q_lowest = codes.lowest, s->r.q_step = codes.step, s->r.q_count = codes.count;
    s->r.q_scale = 0.03f;
    if (!levels) {
        v->coding = qg__product_coding(&p);
        v->codes  = codes;
        n->next   = pair;
        v->plain  = false;
    }
    s->r.coding = (int32_t)v->coding;
    float *floats = realloc((float *)(uintptr_t)s->floats, (own + 2 * (size_t)codes.count) * sizeof *floats);
    assert_non_null(floats);
    if (codes.step == 1 && chance(src, 2)) fill_levels(src, codes, s->r.q_scale, floats + own);
    else fill_thresholds(src, codes.count - 1, floats + own);
    for (int u = 0; levels && u < codes.count; u++)
        floats[own + (size_t)codes.count - 1 + (size_t)u] = draw_float(src, -2, 2);
    s->floats = floats;
}

static float draw_weight(source *s, qg__codes w)
{
    return w.count ? (float)(w.lowest + w.step * draw(s, 0, w.count - 1)) : draw_float(s, -1, 1);
}

static int pick_channels(source *s, int groups)
{
    return groups * channels[draw(s, 0, groups > 4 ? 0 : groups > 1 ? 2 : CHANNELS - 1)];
}

static void add_product(source *src, test_net *n, bool last)
{
    const value x = *current(n);
    const bool  coded = x.codes.count, dense = chance(src, 4) || last;
    const int       of_floats = draw(src, 0, WEIGHTS - 1);
    const qg__codes w     = coded ? pairs[n->next].w : weights[of_floats].w;
    const bool      zeros = coded ? pairs[n->next].zeros : weights[of_floats].zeros;
    const int   groups = dense ? 1 : chance(src, 3) ? x.c : x.c % 3 == 0 && chance(src, 2) ? 3 : 1;
    const int   kh = dense ? x.h : draw(src, 1, 3), kw = dense ? x.w : draw(src, 1, 3),
                stride = dense ? 1 : draw(src, 1, 2);
    const int   top = dense ? 0 : draw(src, 0, kh - 1), left = dense ? 0 : draw(src, 0, kw - 1);
    const int   oh = dense ? 1 : (x.h + top - 1) / stride + 1, ow = dense ? 1 : (x.w + left - 1) / stride + 1;
    const bool  two = w.count == 3 && w.lowest == -1 && chance(src, 2);
    const value made = { oh, ow, last ? 10 : pick_channels(src, groups), QG__AS_FLOATS, { 0 }, true };
    packed_step *s = append(n, made);
    int          bits = 1;
    while (1 << bits < w.count) bits++;
    s->r.kind = QG__PRODUCT;
    s->r.kh = kh, s->r.kw = kw, s->r.stride = stride, s->r.top = top, s->r.left = left, s->r.groups = groups;
    s->r.w_lowest = w.lowest, s->r.w_step = w.step, s->r.w_count = w.count,
    s->r.w_bits = w.count ? bits : QG__FLOAT_BITS;
    s->r.two_sided = two;
    s->r.w_zeros   = zeros;
    s->r.relu      = chance(src, 3);
    if (!dense && chance(src, 4))
        s->r.pad = coded ? (float)(x.codes.lowest + x.codes.step * draw(src, 0, x.codes.count - 1)) : 0.5f;
    const size_t row = (size_t)kh * (size_t)kw * (size_t)(x.c / groups), oc = (size_t)made.c,
                 numbers = oc * (row + zeros);
    float       *values = malloc(numbers * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < numbers; i++) values[i] = draw_weight(src, w);
    s->w = values;
    const float reach = (float)((coded ? qg__reach(x.codes) : 1) * (w.count ? qg__reach(w) : 1)),
                size = 2 / (reach * sqrtf((float)row));
    const size_t own = packed_own_floats(&s->r);
    float       *floats = drawn(src, own, -size, size);
    for (size_t k = 0; k < oc; k++) {
        floats[own - oc + k] = draw_float(src, -1, 1);
        if (chance(src, 16)) floats[k] = 0;
        else if (chance(src, 2)) floats[k] = fabsf(floats[k]);
    }
    s->floats = floats;
    n->p[s - n->step] = (qg__product){ .g = { x.h, x.w, x.c, oh, ow, made.c, kh, kw, stride, top, left }, .groups = groups, .x = x.codes,
                                       .w = w, .two_sided = two, .zeros = zeros, .pad = s->r.pad };
    assert_true(qg__product_fits(&n->p[s - n->step]));
    if (!last && chance(src, 2)) add_quantizer(src, n, s, own, chance(src, 5));
}

static void add_pool(source *src, test_net *n, qg__kind kind)
{
    const value x = *current(n);
    const int   kh = draw(src, 1, 3), kw = draw(src, 1, 3), stride = draw(src, 1, 3),
                top = draw(src, 0, kh - 1), left = draw(src, 0, kw - 1);
    value       made = x;
    made.h = (x.h + top - 1) / stride + 1, made.w = (x.w + left - 1) / stride + 1;
    made.plain = !x.codes.count;
    if (kind == QG__MEAN_ABS) made.c = 1;
    packed_step *s = append(n, made);
    s->r.kind = (int32_t)kind;
    s->r.kh = kh, s->r.kw = kw, s->r.stride = stride, s->r.top = top, s->r.left = left;
    s->r.flag = kind == QG__AVGPOOL && chance(src, 2);
    if (!x.codes.count) return;
    s->r.coding = (int32_t)x.coding;
    s->r.q_lowest = x.codes.lowest, s->r.q_step = x.codes.step, s->r.q_count = x.codes.count;
}

/* An earlier value of floats with this size; -1: none.  c 0: any number of channels. */
static int earlier(source *src, const test_net *n, int h, int w, int c)
{
    const int from = draw(src, 0, n->file.steps);
    for (int i = 0; i <= n->file.steps; i++) {
        const int    v = (from + i) % (n->file.steps + 1);
        const value *x = &n->value[v];
        if (x->plain && x->h == h && x->w == w && (!c || x->c == c)) return v;
    }
    return -1;
}

static void add_float_step(source *src, test_net *n)
{
    static const qg__kind kinds[] = { QG__AFFINE, QG__RELU,  QG__CLIP,  QG__SIGMOID,
                                      QG__TANH,   QG__PRELU, QG__RPRELU };
    value made = *current(n);
    made.plain = true;
    const value x = made;
    int         z;
    switch (draw(src, 0, 8)) {
    case 0: add_pool(src, n, QG__MAXPOOL); return;
    case 1: add_pool(src, n, QG__AVGPOOL); return;
    case 2: {
        packed_step *s = append(n, made);
        s->r.kind      = QG__QUANTIZE;
        add_quantizer(src, n, s, 0, chance(src, 4));
        return;
    }
    case 3: {
        const int stride = draw(src, 1, 2);
        made = (value){
            (x.h - 1) / stride + 1, (x.w - 1) / stride + 1, x.c + draw(src, 0, 5), QG__AS_FLOATS, { 0 }, true
        };
        packed_step *s = append(n, made);
        s->r.kind      = QG__SHORTCUT;
        s->r.stride    = stride;
        return;
    }
    case 4:
        z = earlier(src, n, x.h, x.w, x.c);
        append(n, made)->r.kind = QG__ADD;
        n->step[n->file.steps - 1].r.z = z;
        return;
    case 5:
        z = earlier(src, n, x.h, x.w, 0);
        if (x.c + n->value[z].c > 200) return;
        made.c += n->value[z].c;
        append(n, made)->r.kind = QG__CONCAT;
        n->step[n->file.steps - 1].r.z = z;
        return;
    case 6: {           /* K of windows of 1 x 1, and of others, times x */
        const int before = n->file.steps;
        made.c = 1;
        packed_step *mean = append(n, made);
        mean->r.kind = QG__MEAN_ABS;
        mean->r.kh = draw(src, 1, 5), mean->r.kw = draw(src, 1, 5), mean->r.stride = 1;
        mean->r.top = mean->r.kh / 2, mean->r.left = mean->r.kw / 2;
        made.c = x.c;
        packed_step *s = append(n, made);
        s->r.kind = QG__MULTIPLY;
        s->r.x = before, s->r.z = before + 1, s->r.c = x.c;
        return;
    }
    default: {
        packed_step *s = append(n, made);
        s->r.kind      = (int32_t)kinds[draw(src, 0, 6)];
        float *floats  = drawn(src, packed_own_floats(&s->r), -1, 1);
        if (s->r.kind == QG__CLIP) floats[0] = -0.5f, floats[1] = chance(src, 2) ? INFINITY : 0.75f;
        s->floats = floats;
    }
    }
}

static void build(test_net *n, uint64_t key)
{
    static const float normal[] = { 0.5f, 0.25f };
    source src = { key, 0 };
    memset(n, 0, sizeof *n);
    n->file  = (packed_net){
        .h = draw(&src, 1, 9), .w = draw(&src, 1, 9), .c = channels[draw(&src, 0, 6)], .step = n->step
    };
    n->value[0] = (value){ n->file.h, n->file.w, n->file.c, QG__AS_FLOATS, { 0 }, true };
    if (n->file.c == 1) n->file.normal = 1, n->file.normalisation = normal;
    const int steps = draw(&src, 1, 12);
    for (int i = 0; i < steps; i++) {
        const value *x = current(n);
        if (x->codes.count && chance(&src, 2)) add_pool(&src, n, QG__MAXPOOL);
        else if (x->codes.count || chance(&src, 3)) add_product(&src, n, false);
        else add_float_step(&src, n);
    }
    if (current(n)->codes.count || chance(&src, 2)) add_product(&src, n, true);
}

static void discard(test_net *n)
{
    for (int i = 0; i < n->file.steps; i++) {
        free((float *)(uintptr_t)n->step[i].floats);
        free((float *)(uintptr_t)n->step[i].w);
    }
}

/* --- the definition --------------------------------------------------------------------------------- */

static int code_of(const float *threshold, int count, float x)
{
    int u = 0;
    while (u < count - 1 && x >= threshold[u]) u++;
    return u;
}

static float quantized(const packed_step *s, float z)
{
    const qg__packed_step *r         = &s->r;
    const float           *threshold = s->floats + packed_own_floats(r);
    if (r->relu && z < 0) z = 0;
    if (!r->q_count) return z;
    const int u = code_of(threshold, r->q_count, z);
    return r->coding == QG__AS_FLOATS ? threshold[r->q_count - 1 + u] : (float)(r->q_lowest + r->q_step * u);
}

/* The sum of one side: integers, which codes are, or floats in the order of infer/kernels/plain.h. */
static float sum_of(const test_net *n, int step, const float *x, int i, int j, int o, int side, bool *inside)
{
    const packed_step     *s   = &n->step[step];
    const qg__packed_step *r   = &s->r;
    const bool             exact = qg__product_is_exact(&n->p[step]);
    const int              own = r->c / r->groups, first = o / (r->oc / r->groups) * own;
    const float           *w   = s->w + (size_t)o * (size_t)(r->kh * r->kw * own + r->w_zeros);
    const float            zero = r->w_zeros ? *w++ : 0;
    int64_t                integer = 0;
    float                  real    = 0;
    for (int p = 0; p < r->kh; p++)
        for (int q = 0; q < r->kw; q++)
            for (int k = 0; k < own; k++, w++) {
                const int   row = i * r->stride + p - r->top, column = j * r->stride + q - r->left;
                const bool  in  = row >= 0 && row < r->h && column >= 0 && column < r->w;
                const float weight = side < 0 ? *w - zero : side ? *w < 0 : *w > 0;
                if (!in && r->pad == 0) continue;
                const float v = in ? x[(row * r->w + column) * r->c + first + k] : r->pad;
                *inside       = true;
                if (exact) integer += (int64_t)weight * (int64_t)v;
                else real = fmaf(weight, v, real);
            }
    return exact ? (float)integer : real;
}

static void product(const test_net *n, int step, const float *x, float *y)
{
    const packed_step     *s  = &n->step[step];
    const qg__packed_step *r  = &s->r;
    const float           *a = s->floats, *an = a + r->oc, *b = r->two_sided ? an + r->oc : an;
    for (int i = 0; i < r->oh; i++)
        for (int j = 0; j < r->ow; j++)
            for (int o = 0; o < r->oc; o++) {
                bool  inside = false;
                float z      = a[o] * sum_of(n, step, x, i, j, o, r->two_sided ? 0 : -1, &inside);
                if (r->two_sided) {
                    const float negative = an[o] * sum_of(n, step, x, i, j, o, 1, &inside);
                    z -= negative;
                }
                *y++ = quantized(s, z + b[o]);
            }
}

static void pool(const qg__packed_step *r, const float *x, float *y)
{
    for (int i = 0; i < r->oh; i++)
        for (int j = 0; j < r->ow; j++)
            for (int k = 0; k < r->c; k++, y++) {
                float best = -INFINITY, sum = 0;
                int   count = 0;
                for (int p = 0; p < r->kh; p++)
                    for (int q = 0; q < r->kw; q++) {
                        const int row = i * r->stride + p - r->top, column = j * r->stride + q - r->left;
                        if (row < 0 || row >= r->h || column < 0 || column >= r->w) continue;
                        const float v = x[(row * r->w + column) * r->c + k];
                        if (v > best) best = v;
                        sum += v;
                        count++;
                    }
                assert_true(count > 0);
                *y = r->kind == QG__MAXPOOL ? best : sum / (float)(r->flag ? count : r->kh * r->kw);
            }
}

static double sum_of_abs(const qg__packed_step *r, const float *pixel)
{
    double lane[8] = { 0 };
    for (int k = 0; k < r->c; k++) lane[k % 8] += (double)fabsf(pixel[k]);
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

static void mean_abs(const qg__packed_step *r, const float *x, float *y)
{
    for (int i = 0; i < r->oh; i++)
        for (int j = 0; j < r->ow; j++) {
            double sum = 0;
            for (int q = 0; q < r->kw; q++) {
                double    own    = 0;
                const int column = j * r->stride + q - r->left;
                if (column < 0 || column >= r->w) continue;
                for (int p = 0; p < r->kh; p++) {
                    const int row = i * r->stride + p - r->top;
                    if (row >= 0 && row < r->h) own += sum_of_abs(r, x + (row * r->w + column) * r->c);
                }
                sum += own;
            }
            *y++ = (float)(sum / ((double)r->c * r->kh * r->kw));
        }
}

static float number(const packed_step *s, int k, float x, float z)
{
    const qg__packed_step *r = &s->r;
    const float           *f = s->floats;
    float                  u;
    switch ((qg__kind)r->kind) {
    case QG__AFFINE: u = f[k] * x; return u + f[r->c + k];
    case QG__QUANTIZE: return quantized(s, x);
    case QG__RELU: return x < 0 ? 0 : x;
    case QG__CLIP: return x < f[0] ? f[0] : x > f[1] ? f[1] : x;
    case QG__SIGMOID: return (float)(1.0 / (1.0 + exp(-(double)x)));
    case QG__TANH: return (float)tanh((double)x);
    case QG__PRELU: return x > 0 ? x : f[k] * x;
    case QG__RPRELU:
        u = x - f[k];
        u = u > 0 ? u : f[r->c + k] * u;
        return u + f[2 * r->c + k];
    case QG__ADD: return x + z;
    case QG__MULTIPLY: return x * z;
    default: fail(); return 0;
    }
}

static void elementwise(const packed_step *s, const float *x, const float *z, float *y)
{
    const qg__packed_step *r = &s->r;
    for (int i = 0; i < r->h * r->w; i++)
        for (int k = 0; k < r->c; k++) {
            const float other = r->kind == QG__ADD ? z[i * r->c + k] : r->kind == QG__MULTIPLY ? z[i] : 0;
            y[i * r->c + k]   = number(s, k, x[i * r->c + k], other);
        }
}

static void rearrange(const qg__packed_step *r, int z_channels, const float *x, const float *z, float *y)
{
    const int first = r->kind == QG__SHORTCUT ? (r->oc - r->c) / 2 : 0,
              stride = r->kind == QG__SHORTCUT ? r->stride : 1;
    for (int i = 0; i < r->oh; i++)
        for (int j = 0; j < r->ow; j++)
            for (int k = 0; k < r->oc; k++, y++) {
                const int pixel = i * stride * r->w + j * stride, from = k - first;
                if (from >= 0 && from < r->c) *y = x[pixel * r->c + from];
                else *y = z ? z[pixel * z_channels + k - r->c] : 0;
            }
}

/* All values of one image; those of the last step are returned. */
static float *defined(const test_net *n, const float *image)
{
    float *v[MOST + 1];
    v[0] = (float *)(uintptr_t)image;
    for (int i = 0; i < n->file.steps; i++) {
        const packed_step *s = &n->step[i];
        const float       *x = v[s->r.x], *z = s->r.z >= 0 ? v[s->r.z] : NULL;
        v[i + 1] = malloc((size_t)(s->r.oh * s->r.ow * s->r.oc) * sizeof(float));
        assert_non_null(v[i + 1]);
        switch ((qg__kind)s->r.kind) {
        case QG__PRODUCT: product(n, i, x, v[i + 1]); break;
        case QG__MAXPOOL:
        case QG__AVGPOOL: pool(&s->r, x, v[i + 1]); break;
        case QG__MEAN_ABS: mean_abs(&s->r, x, v[i + 1]); break;
        case QG__CONCAT:
        case QG__SHORTCUT: rearrange(&s->r, z ? n->value[s->r.z].c : 0, x, z, v[i + 1]); break;
        default: elementwise(s, x, z, v[i + 1]);
        }
    }
    for (int i = 1; i < n->file.steps; i++) free(v[i]);
    return v[n->file.steps];
}

/* --- cases ------------------------------------------------------------------------------------------ */

typedef struct loaded {
    uint8_t        *file;
    size_t          n;
    void           *memory;
    const qg_infer *net;
} loaded;

static void *lines(size_t bytes)
{
    void *p = aligned_alloc(LINE, (bytes / LINE + 1) * LINE);
    assert_non_null(p);
    memset(p, 0xA5, (bytes / LINE + 1) * LINE);
    return p;
}

/* The file is gone before the net runs. */
static loaded load(const packed_net *p)
{
    loaded l;
    size_t bytes;
    l.file = packed_file(p, &l.n);
    assert_int_equal(qg_infer_size(l.file, l.n, &bytes), QG_INFER_OK);
    l.memory = lines(bytes);
    assert_int_equal(qg_infer_load(l.file, l.n, l.memory, bytes, &l.net), QG_INFER_OK);
    assert_int_equal(((uint8_t *)l.memory)[bytes], 0xA5);
    memset(l.file, 0, l.n);
    free(l.file);
    return l;
}

static void run(const qg_infer *net, int n, const float *images, float *scores)
{
    const size_t bytes   = qg_infer_context_bytes(net, n);
    uint8_t     *context = lines(bytes);
    assert_int_equal(qg_infer_run(net, n, images, scores, context, bytes), QG_INFER_OK);
    assert_int_equal(context[bytes], 0xA5);
    free(context);
}

static size_t image_floats(const test_net *n) { return (size_t)(n->file.h * n->file.w * n->file.c); }

/* The scores of IMAGES images, by the definition. */
static float *all_defined(const test_net *n, const float *images, size_t scores)
{
    float *all = malloc(IMAGES * scores * sizeof *all);
    assert_non_null(all);
    for (size_t i = 0; i < IMAGES; i++) {
        float *own = defined(n, images + i * image_floats(n));
        memcpy(all + i * scores, own, scores * sizeof *all);
        free(own);
    }
    return all;
}

/* Zeros of either sign are the same. */
static void assert_same(const float *a, const float *b, size_t n, uint64_t key)
{
    for (size_t i = 0; i < n; i++)
        if (!(a[i] == b[i]))
            fail_msg("net %d: number %d of %d is %.9g, not %.9g", (int)key, (int)i, (int)n, (double)a[i],
                     (double)b[i]);
}

/* What the loader chooses, and each choice that can be forced. */
static const char *const choices[] = { NULL, "bits", "bytes" };
enum { CHOICES = sizeof choices / sizeof *choices };

static void check_choice(const test_net *n, const float *images, const float *expected, uint64_t key)
{
    loaded       l      = load(&n->file);
    const size_t scores = (size_t)qg_infer_scores(l.net);
    float       *got    = malloc(IMAGES * scores * sizeof *got);
    assert_non_null(got);
    for (int batch = 1; batch <= IMAGES; batch += batch < 3 ? 1 : 3) {
        run(l.net, batch, images, got);
        assert_same(got, expected, (size_t)batch * scores, key);
    }
    run(l.net, IMAGES, images, got);
    assert_same(got, expected, IMAGES * scores, key);
    free(got), free(l.memory);
}

static void check_net(uint64_t key)
{
    static test_net n;
    build(&n, key);
    source       src    = { key + 1000000, 0 };
    const value *last   = current(&n);
    float       *images = drawn(&src, IMAGES * image_floats(&n), -2, 2),
                *expected = all_defined(&n, images, (size_t)(last->h * last->w * last->c));
    for (int i = 0; i < CHOICES; i++) {
        set_variable("QGRAD_PRODUCTS", choices[i]);
        check_choice(&n, images, expected, key);
    }
    free(images), free(expected);
    discard(&n);
}

enum { NETS = 100 };

static void random_nets_agree_with_the_definition(void **state)
{
    for (int path = 0; path <= (int)widest_path(); path++) {
        use_path(path);
        for (uint64_t key = 0; key < NETS; key++) check_net(key);
    }
}

/* A product of 3 x 3 signs, or of a channel per group, for images of 8 x 8. */
static const char *chosen(int c, int groups)
{
    static char kind[32];
    const int   row = 9 * c / groups;
    float      *floats = calloc((size_t)(2 * c), sizeof *floats), *w = malloc((size_t)(row * c) * sizeof *w);
    assert_true(floats && w);
    for (int i = 0; i < row * c; i++) w[i] = i % 2 ? -1 : 1;
    const packed_step step[] = {
        { { .kind = QG__QUANTIZE, .z = -1, .h = 8, .w = 8, .c = c, .oh = 8, .ow = 8, .oc = c,
            .coding = QG__AS_BITS, .q_lowest = -1, .q_step = 2, .q_count = 2 }, floats, NULL, NULL },
        { { .kind = QG__MAXPOOL, .x = 1, .z = -1, .h = 8, .w = 8, .c = c, .oh = 8, .ow = 8, .oc = c, .kh = 1,
            .kw = 1, .stride = 1, .coding = QG__AS_BITS, .q_lowest = -1, .q_step = 2, .q_count = 2 },
          NULL, NULL, NULL },
        { { .kind = QG__PRODUCT, .x = 2, .z = -1, .h = 8, .w = 8, .c = c, .oh = 8, .ow = 8, .oc = c, .kh = 3,
            .kw = 3, .stride = 1, .top = 1, .left = 1, .groups = groups, .w_lowest = -1, .w_step = 2,
            .w_count = 2, .w_bits = 1 }, floats, w, NULL } };
    loaded l = load(&(packed_net){ 8, 8, c, 0, NULL, 3, step, 0, NULL });
    snprintf(kind, sizeof kind, "%s", qg_infer_step_kind(l.net, 2));
    free(l.memory), free(floats), free(w);
    return kind;
}

static void each_product_is_computed_the_faster_way(void **state)
{
    for (int path = 0; path <= (int)widest_path(); path++) {
        use_path(path);
        set_variable("QGRAD_PRODUCTS", NULL);
        assert_string_equal(chosen(256, 1), "product, 1 x 1 bits, as bits");
        assert_string_equal(chosen(64, 64), "product, 1 x 1 bits, as bytes");
        set_variable("QGRAD_PRODUCTS", "bytes");
        assert_string_equal(chosen(256, 1), "product, 1 x 1 bits, as bytes");
        set_variable("QGRAD_PRODUCTS", "bits");
        assert_string_equal(chosen(64, 64), "product, 1 x 1 bits, as bits");
    }
}

/* Whatever the environment says afterwards. */
static void a_net_runs_on_the_kernels_for_which_it_was_loaded(void **state)
{
    enum { FEW = 10 };
    for (int path = 0; path <= (int)widest_path(); path++)
        for (uint64_t key = 0; key < FEW; key++) {
            static test_net n;
            use_path(path);
            build(&n, key);
            source       src    = { key + 1000000, 0 };
            float       *images = drawn(&src, IMAGES * image_floats(&n), -2, 2);
            loaded       l      = load(&n.file);
            const size_t scores = (size_t)qg_infer_scores(l.net),
                         bytes = qg_infer_context_bytes(l.net, IMAGES);
            float       *expected = malloc(IMAGES * scores * sizeof *expected),
                        *got = malloc(IMAGES * scores * sizeof *got);
            assert_true(expected && got);
            run(l.net, IMAGES, images, expected);
            for (int other = 0; other < PATHS; other++) {
                use_path(other);
                assert_int_equal(qg_infer_context_bytes(l.net, IMAGES), bytes);
                run(l.net, IMAGES, images, got);
                assert_memory_equal(got, expected, IMAGES * scores * sizeof *got);
            }
            free(images), free(expected), free(got), free(l.memory);
            discard(&n);
        }
}

/* Of more than 1024 pixels, as core/ops/pool.c sums them. */
static void large_windows_are_summed_in_parts(void **state)
{
    enum { SIDE = 50, PIXELS = SIDE * SIDE, C = 3, PART = 1024 };
    const packed_step step = { { .kind = QG__AVGPOOL, .z = -1, .h = SIDE, .w = SIDE, .c = C, .oh = 1, .ow = 1, .oc = C, .kh = SIDE,
                                 .kw = SIDE, .stride = 1 }, NULL, NULL, NULL };
    source src = { 5, 0 };
    float *x   = drawn(&src, PIXELS * C, 0, 1), y[C];
    loaded l   = load(&(packed_net){ SIDE, SIDE, C, 0, NULL, 1, &step, 0, NULL });
    run(l.net, 1, x, y);
    for (int k = 0; k < C; k++) {
        float sum = 0;
        for (int begin = 0; begin < PIXELS; begin += PART) {
            float part = 0;
            for (int i = begin; i < begin + PART && i < PIXELS; i++) part += x[i * C + k];
            sum = begin ? sum + part : part;
        }
        assert_true(y[k] == sum / (float)PIXELS);
    }
    free(x), free(l.memory);
}

#define WITH_PATHS(test) cmocka_unit_test_teardown(test, restore_variables)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PATHS(random_nets_agree_with_the_definition),
        WITH_PATHS(each_product_is_computed_the_faster_way),
        WITH_PATHS(a_net_runs_on_the_kernels_for_which_it_was_loaded),
        cmocka_unit_test(large_windows_are_summed_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
