/* docs/arithmetic.md as plain loops: products and batch norms, forward and backward, have these bits on every
 * instruction set. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernels/conv_kernel.h"
#include "core/ops/ops.h"
#include "core/slices.h"
#include "tests/support/conv_ref.h"
#include "tests/support/environment.h"
#include "tests/support/nets.h"

/* --- sums of a batch ---------------------------------------------------------------------- */

/* The sums of 16 slices of n images as a tree; those of empty slices are not there. */
static float tree(const float *sum, int n, int first, int count)
{
    if (count == 1) return sum[first];
    const int   half = count / 2, middle = first + half;
    const bool  low  = qg_slice_at(n, first) < qg_slice_at(n, middle);
    const bool  high = qg_slice_at(n, middle) < qg_slice_at(n, first + count);
    const float a = tree(sum, n, first, half), b = tree(sum, n, middle, half);
    return low && high ? a + b : high ? b : a;
}

/* --- convolutions ------------------------------------------------------------------------- */

/* Image n, row, column and channel of x, or its padding. */
static float input(const shapes *s, const float *x, int n, int row, int col, int k)
{
    if (row < 0 || row >= s->x.h || col < 0 || col >= s->x.w) return s->spec.pad_value;
    return x[((n * s->x.h + row) * s->x.w + col) * s->x.c + k];
}

/* The same of dy; 0 outside. */
static float gradient(const shapes *s, const result *r, int n, int row, int col, int o)
{
    if (row < 0 || row >= r->y.h || col < 0 || col >= r->y.w) return 0;
    return r->dy[((n * r->y.h + row) * r->y.w + col) * s->w.n + o];
}

static int weight(const shapes *s, int o, int tap, int k) { return (o * s->w.h * s->w.w + tap) * s->w.c + k; }

static int stride_of(const shapes *s) { return s->spec.stride ? s->spec.stride : 1; }

/* Outputs of a group, and the first output of the group that reads channel k of x. */
static int group_of(const shapes *s) { return s->w.n / (s->spec.groups ? s->spec.groups : 1); }
static int first_of(const shapes *s, int k) { return k / s->w.c * group_of(s); }

/* A pixel of a tensor: of x, y or one of their gradients. */
typedef struct pixel {
    int n, row, col;
} pixel;

static float output_chain(const shapes *s, const float *x, const float *w, float start, pixel at, int o)
{
    const int top = at.row * stride_of(s) - s->spec.pad_h, left = at.col * stride_of(s) - s->spec.pad_w;
    const int first = o / group_of(s) * s->w.c;
    for (int t = 0; t < s->w.h * s->w.w; t++)
        for (int k = 0; k < s->w.c; k++)
            start = fmaf(input(s, x, at.n, top + t / s->w.w, left + t % s->w.w, first + k),
                         w[weight(s, o, t, k)], start);
    return start;
}

static float weight_chains(const shapes *s, const float *x, const result *r, int o, int tap, int k)
{
    const int down = tap / s->w.w - s->spec.pad_h, right = tap % s->w.w - s->spec.pad_w;
    const int stride = stride_of(s);
    float     sum[QG_SLICES] = { 0 };
    k += o / group_of(s) * s->w.c;
    for (int slice = 0; slice < QG_SLICES; slice++)
        for (int n = qg_slice_at(r->y.n, slice); n < qg_slice_at(r->y.n, slice + 1); n++)
            for (int row = 0; row < r->y.h; row++)
                for (int col = 0; col < r->y.w; col++)
                    sum[slice] = fmaf(input(s, x, n, row * stride + down, col * stride + right, k),
                                      gradient(s, r, n, row, col, o), sum[slice]);
    return tree(sum, r->y.n, 0, QG_SLICES);
}

static bool is_depthwise(const shapes *s) { return s->spec.groups > 1 && s->w.c == 1; }

static bool is_mirrored(const shapes *s, const result *r)
{
    return stride_of(s) == 1 && r->y.h == s->x.h && r->y.w == s->x.w;
}

/* Over outputs first .. end - 1. */
static float input_chain(const shapes *s, const float *w, const result *r, pixel at, int k, int first,
                         int end)
{
    const int stride = stride_of(s), kh = s->w.h, kw = s->w.w;
    float     sum = 0;
    for (int t = 0; t < kh * kw; t++) {
        const bool turned = is_mirrored(s, r) || is_depthwise(s);
        const int  i = turned ? kh - 1 - t / kw : t % kh, j = turned ? kw - 1 - t % kw : t / kh;
        const int  y = at.row + s->spec.pad_h - i, x = at.col + s->spec.pad_w - j;
        if (y < 0 || x < 0 || y % stride || x % stride) continue;
        for (int o = first; o < end; o++)
            sum = fmaf(gradient(s, r, at.n, y / stride, x / stride, o),
                       w[weight(s, o, i * kw + j, k % s->w.c)], sum);
    }
    return sum;
}

static float input_sum(const shapes *s, const float *w, const result *r, pixel at, int k)
{
    const int first = first_of(s, k), end = first + group_of(s);
    float     sum = 0;
    if (!is_depthwise(s)) return input_chain(s, w, r, at, k, first, end);
    for (int o = first; o < end; o++) sum += input_chain(s, w, r, at, k, o, o + 1);
    return sum;
}

static float bias_sum(const shapes *s, const result *r, int o)
{
    double all = 0;
    for (int n = 0; n < r->y.n; n++) {
        double sum = 0;
        for (int p = 0; p < r->y.h * r->y.w; p++) sum += (double)gradient(s, r, n, p / r->y.w, p % r->y.w, o);
        all += sum;
    }
    return (float)all;
}

/* --- Winograd's algorithm ----------------------------------------------------------------- */

enum { SIDE = 4, POINTS = 16 };

static void transform_4(const float *d, int step, float *v)
{
    const float d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
    v[0] = d0 - d2, v[step] = d1 + d2, v[2 * step] = d2 - d1, v[3 * step] = d1 - d3;
}

/* v = Bt d B */
static void transform_input(const float d[POINTS], float v[POINTS])
{
    float t[POINTS];
    for (int j = 0; j < SIDE; j++) transform_4(d + j, SIDE, t + j);
    for (int i = 0; i < SIDE; i++) transform_4(t + SIDE * i, 1, v + SIDE * i);
}

/* u = G g Gt */
static void transform_weight(const float g[9], float u[POINTS])
{
    float t[SIDE][3];
    for (int j = 0; j < 3; j++) {
        const float a = g[j], b = g[3 + j], c = g[6 + j];
        t[0][j] = a, t[1][j] = 0.5f * (a + b + c), t[2][j] = 0.5f * (a - b + c), t[3][j] = c;
    }
    for (int i = 0; i < SIDE; i++, u += SIDE) {
        const float a = t[i][0], b = t[i][1], c = t[i][2];
        u[0] = a, u[1] = 0.5f * (a + b + c), u[2] = 0.5f * (a - b + c), u[3] = c;
    }
}

/* y = At m A */
static void transform_output(const float m[POINTS], float y[4])
{
    float t[2][SIDE];
    for (int j = 0; j < SIDE; j++) {
        t[0][j] = m[j] + m[SIDE + j] + m[2 * SIDE + j];
        t[1][j] = m[SIDE + j] - m[2 * SIDE + j] - m[3 * SIDE + j];
    }
    for (int i = 0; i < 2; i++) {
        y[2 * i]     = t[i][0] + t[i][1] + t[i][2];
        y[2 * i + 1] = t[i][1] - t[i][2] - t[i][3];
    }
}

/* v = A dy At */
static void transform_gradient(const float dy[4], float v[POINTS])
{
    float t[SIDE][2];
    for (int j = 0; j < 2; j++) {
        const float a = dy[j], b = dy[2 + j];
        t[0][j] = a, t[1][j] = a + b, t[2][j] = a - b, t[3][j] = -b;
    }
    for (int i = 0; i < SIDE; i++, v += SIDE) {
        const float a = t[i][0], b = t[i][1];
        v[0] = a, v[1] = a + b, v[2] = a - b, v[3] = -b;
    }
}

/* g = Gt s G */
static void transform_sums(const float s[POINTS], float g[9])
{
    float t[3][SIDE];
    for (int j = 0; j < SIDE; j++) {
        const float b = 0.5f * s[SIDE + j], c = 0.5f * s[2 * SIDE + j];
        t[0][j] = s[j] + b + c, t[1][j] = b - c, t[2][j] = b + c + s[3 * SIDE + j];
    }
    for (int i = 0; i < 3; i++) {
        const float b = 0.5f * t[i][1], c = 0.5f * t[i][2];
        g[3 * i] = t[i][0] + b + c, g[3 * i + 1] = b - c, g[3 * i + 2] = b + c + t[i][3];
    }
}

/* One channel of the tile that the results at (row, col) read: of x, or if x is NULL of dy, for dx. */
static void tile_of(const shapes *s, const result *r, const float *x, pixel at, int k, float v[POINTS])
{
    float     d[POINTS];
    const int top  = s->spec.pad_h + (x ? 0 : s->spec.extra_h);
    const int left = s->spec.pad_w + (x ? 0 : s->spec.extra_w);
    for (int p = 0; p < POINTS; p++) {
        const int row = at.row + p / SIDE - top, col = at.col + p % SIDE - left;
        d[p]          = x ? input(s, x, at.n, row, col, k) : gradient(s, r, at.n, row, col, k);
    }
    transform_input(d, v);
}

/* The 2 x 2 results at (row, col): output `to` of y, or if x is NULL channel `to` of dx. */
static void winograd_tile(const shapes *s, const result *r, const float *x, const float *w, pixel at, int to,
                          float y[4])
{
    const int group = group_of(s), c = s->w.c;
    const int first = x ? to / group * c : to / c * group, count = x ? c : group;
    float     sum[POINTS] = { 0 };
    for (int k = first; k < first + count; k++) {
        float v[POINTS], u[POINTS], g[9];
        for (int t = 0; t < 9; t++)
            g[t] = x ? w[weight(s, to, t, k - first)] : w[weight(s, k, 8 - t, to % c)];
        tile_of(s, r, x, at, k, v);
        transform_weight(g, u);
        for (int p = 0; p < POINTS; p++) sum[p] = fmaf(v[p], u[p], sum[p]);
    }
    transform_output(sum, y);
}

static void winograd_products(const shapes *s, const result *r, const float *x, const float *w,
                              const float *b, int channels, float *out)
{
    for (int n = 0; n < r->y.n; n++)
        for (int row = 0; row < r->y.h; row += 2)
            for (int col = 0; col < r->y.w; col += 2)
                for (int k = 0; k < channels; k++) {
                    float     y[4];
                    const int at = (n * r->y.h + row) * r->y.w + col;
                    winograd_tile(s, r, x, w, (pixel){ n, row, col }, k, y);
                    for (int p = 0; p < 4; p++)
                        out[(at + p / 2 * r->y.w + p % 2) * channels + k] = y[p] + (b ? b[k] : 0);
                }
}

static void winograd_weight(const shapes *s, const float *x, const result *r, int o, int k, float g[9])
{
    float sum[POINTS][QG_SLICES] = { { 0 } }, all[POINTS];
    for (int slice = 0; slice < QG_SLICES; slice++)
        for (int n = qg_slice_at(r->y.n, slice); n < qg_slice_at(r->y.n, slice + 1); n++)
            for (int tile = 0; tile < r->y.h * r->y.w / 4; tile++) {
                const int row = tile / (r->y.w / 2) * 2, col = tile % (r->y.w / 2) * 2;
                float     v[POINTS], dy[4], dv[POINTS];
                tile_of(s, r, x, (pixel){ n, row, col }, o / group_of(s) * s->w.c + k, v);
                for (int p = 0; p < 4; p++) dy[p] = gradient(s, r, n, row + p / 2, col + p % 2, o);
                transform_gradient(dy, dv);
                for (int p = 0; p < POINTS; p++) sum[p][slice] = fmaf(v[p], dv[p], sum[p][slice]);
            }
    for (int p = 0; p < POINTS; p++) all[p] = tree(sum[p], r->y.n, 0, QG_SLICES);
    transform_sums(all, g);
}

/* --- all of a convolution ----------------------------------------------------------------- */

static bool is_winograd(const shapes *s, const result *r)
{
    const qg__conv g = { .c = s->w.c, .oc = group_of(s), .oh = r->y.h, .ow = r->y.w, .kh = s->w.h,
                         .kw = s->w.w, .stride = stride_of(s) };
    return is_mirrored(s, r) && !is_depthwise(s) && qg__winograd_fits(&g);
}

static void define(const shapes *s, const float *x, const float *w, const float *b, result *r)
{
    const bool winograd = is_winograd(s, r);
    const int  taps = s->w.h * s->w.w;
    if (winograd) winograd_products(s, r, x, w, b, s->w.n, r->out);
    if (winograd) winograd_products(s, r, NULL, w, NULL, s->x.c, r->dx);
    for (int i = 0, n = (int)qg_count(r->y); i < n && !winograd; i++) {
        const int   o  = i % s->w.n, row = i / s->w.n / r->y.w;
        const pixel at = { row / r->y.h, row % r->y.h, i / s->w.n % r->y.w };
        r->out[i]      = output_chain(s, x, w, b[o], at, o);
    }
    for (int i = 0, n = (int)qg_count(s->x); i < n && !winograd; i++) {
        const int row = i / s->x.c / s->x.w;
        r->dx[i] = input_sum(s, w, r, (pixel){ row / s->x.h, row % s->x.h, i / s->x.c % s->x.w }, i % s->x.c);
    }
    for (int o = 0; o < s->w.n; o++)
        for (int k = 0; k < s->w.c; k++) {
            float g[9];
            if (winograd) winograd_weight(s, x, r, o, k, g);
            for (int t = 0; t < taps; t++)
                r->dw[weight(s, o, t, k)] = winograd ? g[t] : weight_chains(s, x, r, o, t, k);
        }
    for (int o = 0; o < s->w.n; o++) r->db[o] = bias_sum(s, r, o);
}

static const shapes convolutions[] = {
    { { 2, 7, 5, 3 }, { 5, 3, 3, 3 }, { .pad_h = 1, .pad_w = 1, .pad_value = -1 } },
    { { 17, 6, 9, 5 }, { 16, 2, 3, 5 }, { .stride = 2, .pad_h = 1 } },
    { { 33, 7, 6, 32 }, { 20, 5, 4, 32 }, { 0 } },
    { { 9, 5, 7, 33 }, { 47, 3, 3, 33 }, { .stride = 3, .pad_w = 2, .pad_value = 1 } },
    { { 20, 5, 7, 4 }, { 6, 2, 2, 4 }, { .extra_h = 1, .extra_w = 1 } },
    { { 18, 6, 5, 33 }, { 66, 3, 3, 11 }, { .pad_h = 1, .extra_w = 1, .groups = 3 } },
    { { 1, 2, 3, 180 }, { 260, 2, 3, 180 }, { 0 } },            /* units of a large weight */
    /* Winograd's */
    { { 2, 4, 6, 16 }, { 16, 3, 3, 16 }, { .pad_h = 1, .pad_w = 1 } },
    { { 17, 8, 10, 16 }, { 48, 3, 3, 16 }, { .pad_h = 1, .pad_w = 1, .pad_value = -1 } },
    { { 9, 4, 4, 32 }, { 64, 3, 3, 16 }, { .extra_h = 2, .pad_w = 1, .groups = 2 } },
    /* depthwise */
    { { 2, 7, 5, 3 }, { 3, 3, 3, 1 }, { .pad_h = 1, .pad_w = 1, .groups = 3 } },
    { { 19, 5, 6, 31 }, { 31, 3, 3, 1 }, { .stride = 2, .pad_h = 1, .pad_value = 1, .groups = 31 } },
    { { 9, 9, 8, 33 }, { 33, 5, 4, 1 }, { .stride = 3, .pad_h = 2, .pad_w = 1, .extra_w = 2, .groups = 33 } },
    { { 16, 6, 5, 5 }, { 15, 3, 3, 1 }, { .stride = 2, .pad_h = 1, .pad_w = 1, .groups = 5 } },
};

static void same_bits(const char *what, int i, const float *got, const float *want, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (memcmp(&got[k], &want[k], sizeof *got))
            fail_msg("case %d: %s[%zu] is %a, not %a", i, what, k, (double)got[k], (double)want[k]);
}

static void fill(qg_params *p)
{
    assert_ok(qg_params_allocate(p));
    for (int i = 0; i < p->count; i++)
        fill_uniform(p->item[i]->value, qg_count(p->item[i]->shape), -1, 1, (uint64_t)i);
}

static void convolutions_are_defined(void **state)
{
    for (int i = 0; i < COUNT(convolutions); i++) {
        const shapes *s = &convolutions[i];
        qg_params     p = { 0 };
        qg_param     *x = declare(&p, "x", s->x), *w = declare(&p, "w", s->w);
        qg_param     *b = declare(&p, "b", (qg_shape){ 1, 1, 1, s->w.n });
        result        want = result_new(s);
        fill(&p);
        define(s, x->value, w->value, b->value, &want);
        for (int path = 0; path < PATHS; path++) {
            qg_tape *t = qg_tape_new();
            use_path(path);
            qg_params_clear_gradients(&p);
            qg_tape_begin(t, QG_TRAIN, 1, 0);
            qg_var *y = qg_conv2d(t, qg_parameter(t, x), qg_parameter(t, w), qg_parameter(t, b), s->spec);
            same_bits("y", i, y->data, want.out, qg_count(want.y));
            assert_ok(qg_backward(t, weighed(t, y, want.dy)));
            same_bits("dx", i, x->grad, want.dx, qg_count(s->x));
            same_bits("dw", i, w->grad, want.dw, qg_count(s->w));
            same_bits("db", i, b->grad, want.db, (size_t)s->w.n);
            qg_tape_free(t);
        }
        result_free(want);
        qg_params_release(&p);
    }
}

/* --- dense products ----------------------------------------------------------------------- */

enum { CHAIN = 128 };

/* The sum over steps of a[s a_step] b[s b_step]. */
static float chains(int steps, const float *a, int a_step, const float *b, int b_step)
{
    float all = 0;
    for (int from = 0; from < steps; from += CHAIN) {
        float sum = 0;
        for (int s = from; s < steps && s < from + CHAIN; s++) sum = fmaf(a[s * a_step], b[s * b_step], sum);
        all = from ? all + sum : sum;
    }
    return all;
}

static const struct sizes { int n, o, k; } products[] = {
    { 1, 1, 1 },        { 3, 33, 31 },  { 50, 10, 512 },   { 129, 47, 130 },
    { 300, 257, 300 },  { 2, 600, 65 }, { 16, 64, 1025 },
};

static void dense_products_are_defined(void **state)
{
    for (int i = 0; i < COUNT(products); i++) {
        const int n = products[i].n, o = products[i].o, k = products[i].k;
        qg_params p = { 0 };
        qg_param *x = declare(&p, "x", (qg_shape){ n, 1, 1, k });
        qg_param *w = declare(&p, "w", (qg_shape){ o, 1, 1, k });
        qg_param *b = declare(&p, "b", (qg_shape){ 1, 1, 1, o });
        float    *y = floats((size_t)(n * o)), *dy = floats((size_t)(n * o)), *dx = floats((size_t)(n * k));
        float    *dw = floats((size_t)(o * k)), *db = floats((size_t)o);
        fill(&p);
        fill_uniform(dy, (size_t)(n * o), -1, 1, 7);
        for (int j = 0; j < n * o; j++)
            y[j] = chains(k, x->value + j / o * k, 1, w->value + j % o * k, 1) + b->value[j % o];
        for (int j = 0; j < n * k; j++) dx[j] = chains(o, dy + j / k * o, 1, w->value + j % k, k);
        for (int j = 0; j < o * k; j++) dw[j] = chains(n, dy + j / k, o, x->value + j % k, k);
        for (int j = 0; j < o; j++) {
            double sum = 0;
            for (int r = 0; r < n; r++) sum += (double)dy[r * o + j];
            db[j] = (float)sum;
        }
        for (int path = 0; path < PATHS; path++) {
            qg_tape *t = qg_tape_new();
            use_path(path);
            qg_params_clear_gradients(&p);
            qg_tape_begin(t, QG_TRAIN, 1, 0);
            qg_var *got = qg_dense(t, qg_parameter(t, x), qg_parameter(t, w), qg_parameter(t, b));
            same_bits("y", i, got->data, y, (size_t)(n * o));
            assert_ok(qg_backward(t, weighed(t, got, dy)));
            same_bits("dx", i, x->grad, dx, (size_t)(n * k));
            same_bits("dw", i, w->grad, dw, (size_t)(o * k));
            same_bits("db", i, b->grad, db, (size_t)o);
            qg_tape_free(t);
        }
        free(y), free(dy), free(dx), free(dw), free(db);
        qg_params_release(&p);
    }
}

/* --- batch norm --------------------------------------------------------------------------- */

typedef struct normed {
    qg_shape x;
    int      pool;
    float   *z, *dz, *dx, *dgamma, *dbeta;
    int     *from;              /* of z: the x that was the largest of its window */
} normed;

/* Where block b of rows of an image, or of a slice, begins. */
static int rows_at(const normed *v, int b, int rows)
{
    return v->x.h * v->x.w == 1 ? qg_slice_at(v->x.n, b) : b * rows;
}

typedef struct line {
    float centre, rest, inverse, slope, offset;
} line;

static line line_of(const normed *v, const float *x, float gamma, float beta, int k)
{
    enum { PART = 1024, MOST = 64 };
    const int rows = v->x.h * v->x.w, blocks = rows == 1 ? QG_SLICES : v->x.n;
    double    r[MOST], first[MOST], s[MOST], q[MOST], mean = 0, var = 0;
    int       parts = 0;
    for (int b = 0; b < blocks; b++)
        for (int at = rows_at(v, b, rows), end = rows_at(v, b + 1, rows); at < end; at += PART, parts++) {
            const int n = end - at < PART ? end - at : PART;
            float     d[2] = { 0 }, d2[2] = { 0 };
            for (int i = 0; i < n; i++) {
                const float off = x[(at + i) * v->x.c + k] - x[at * v->x.c + k];
                d[i % 2] += off;
                d2[i % 2] = fmaf(off, off, d2[i % 2]);
            }
            assert_true(parts < MOST);
            r[parts] = n, first[parts] = (double)x[at * v->x.c + k];
            s[parts] = (double)(d[0] + d[1]), q[parts] = (double)(d2[0] + d2[1]);
            mean += r[parts] * first[parts] + s[parts];
        }
    const double m = (double)v->x.n * rows;
    mean /= m;
    for (int i = 0; i < parts; i++) {
        const double off = first[i] + s[i] / r[i] - mean;
        var += q[i] - s[i] * s[i] / r[i] + r[i] * off * off;
    }
    line l    = { .centre = (float)mean, .inverse = (float)(1 / sqrt(var / m + 1e-5)) };
    l.rest    = (float)(mean - (double)l.centre);
    l.slope   = gamma * l.inverse;
    l.offset  = beta - l.slope * l.rest;
    return l;
}

/* z of each window: the largest, and relu. */
static void define_z(normed *v, const float *x, line l, int k)
{
    const int h = v->x.h / v->pool, w = v->x.w / v->pool, c = v->x.c;
    for (int i = 0; i < v->x.n * h * w; i++) {
        float most = -INFINITY;
        for (int t = 0; t < v->pool * v->pool; t++) {
            const int   row = i / w / h * v->x.h + i / w % h * v->pool + t / v->pool;
            const int   at  = (row * v->x.w + i % w * v->pool + t % v->pool) * c + k;
            const float z   = fmaf(l.slope, x[at] - l.centre, l.offset);
            if (z > most) most = z, v->from[i * c + k] = at;
        }
        v->z[i * c + k] = most < 0 ? 0 : most;
    }
}

/* Relu's gradient. */
static float dz_of(const normed *v, int i) { return v->z[i] <= 0 ? 0 : v->dz[i]; }

static void define_gradient(normed *v, const float *x, line l, int k)
{
    const int    rows = v->x.h * v->x.w, windows = v->x.h / v->pool * (v->x.w / v->pool), c = v->x.c;
    const double m = (double)v->x.n * rows, slope = (double)l.slope, inverse = (double)l.inverse;
    double       sum = 0, sum_x = 0;
    for (int b = 0; b < (rows == 1 ? QG_SLICES : v->x.n); b++) {
        float s = 0, q = 0;
        for (int i = rows_at(v, b, windows) * c + k; i < rows_at(v, b + 1, windows) * c; i += c) {
            s += dz_of(v, i);
            q = fmaf(dz_of(v, i), x[v->from[i]] - l.centre, q);
        }
        sum += (double)s, sum_x += (double)q;
    }
    const double dgamma = (sum_x - (double)l.rest * sum) * inverse, p = -slope * inverse * dgamma / m;
    const double q = -slope * sum / m - p * (double)l.rest;
    v->dbeta[k] = (float)sum, v->dgamma[k] = (float)dgamma;
    for (int i = k; i < v->x.n * rows * c; i += c) v->dx[i] = fmaf((float)p, x[i] - l.centre, (float)q);
    for (int i = k; i < v->x.n * windows * c; i += c)
        v->dx[v->from[i]] = fmaf(l.slope, dz_of(v, i), v->dx[v->from[i]]);
    for (int i = k; i < v->x.n * rows * c; i += c) v->dx[i] += 0.0f;    /* that of a parameter starts at 0 */
}

static const struct norm_case { qg_shape x; int pool; } norms[] = {
    { { 3, 6, 6, 33 }, 1 },    { { 17, 5, 4, 3 }, 2 },  { { 2, 40, 31, 5 }, 1 },
    { { 2, 33, 64, 16 }, 3 },  { { 50, 1, 1, 65 }, 1 }, { { 9, 1, 1, 7 }, 1 },
};

static void batch_norms_are_defined(void **state)
{
    for (int i = 0; i < COUNT(norms); i++) {
        const qg_shape shape = norms[i].x;
        const int      pool = norms[i].pool;
        const qg_shape z = { shape.n, shape.h / pool, shape.w / pool, shape.c }, c = { 1, 1, 1, shape.c };
        qg_params      p = { 0 };
        qg_param      *x = declare(&p, "x", shape), *gamma = declare(&p, "gamma", c);
        qg_param      *beta = declare(&p, "beta", c);
        float         *mean = floats((size_t)shape.c), *var = floats((size_t)shape.c);
        normed         v = { .x = shape, .pool = pool, .z = floats(qg_count(z)), .dz = floats(qg_count(z)) };
        v.dx = floats(qg_count(shape)), v.dgamma = floats((size_t)shape.c), v.dbeta = floats((size_t)shape.c);
        v.from = calloc(qg_count(z), sizeof *v.from);
        fill(&p);
        fill_uniform(v.dz, qg_count(z), -1, 1, 7);
        for (int k = 0; k < shape.c; k++) {
            const line l = line_of(&v, x->value, gamma->value[k], beta->value[k], k);
            define_z(&v, x->value, l, k);
            define_gradient(&v, x->value, l, k);
        }
        for (int path = 0; path < PATHS; path++) {
            qg_tape *t = qg_tape_new();
            use_path(path);
            qg_params_clear_gradients(&p);
            qg_tape_begin(t, QG_TRAIN, 1, 0);
            qg_var *y = qg_norm_fused(t, qg_parameter(t, x), qg_parameter(t, gamma), qg_parameter(t, beta),
                                      (qg_norm_spec){ .mean = mean, .var = var },
                                      (qg_norm_fusion){ .pool = pool, .relu = true });
            same_bits("z", i, y->data, v.z, qg_count(z));
            assert_ok(qg_backward(t, weighed(t, y, v.dz)));
            same_bits("dgamma", i, gamma->grad, v.dgamma, (size_t)shape.c);
            same_bits("dbeta", i, beta->grad, v.dbeta, (size_t)shape.c);
            same_bits("dx", i, x->grad, v.dx, qg_count(shape));
            qg_tape_free(t);
        }
        free(mean), free(var), free(v.z), free(v.dz), free(v.dx), free(v.dgamma), free(v.dbeta), free(v.from);
        qg_params_release(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(convolutions_are_defined, restore_variables),
        cmocka_unit_test_teardown(dense_products_are_defined, restore_variables),
        cmocka_unit_test_teardown(batch_norms_are_defined, restore_variables),
    };
    return cmocka_run_group_tests_name("arithmetic", tests, NULL, NULL);
}
