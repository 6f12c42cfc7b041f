/* The depthwise kernels of every instruction set against loops over their definition. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/kernels/depthwise_kernel.h"
#include "tests/support/environment.h"
#include "tests/support/guarded.h"

/* Channels beside and on every vector length, rows that fill no tile and several, windows wider than the image, strides
 * beyond the kernel, padding wider than the kernel, and none. */
static const qg__depthwise cases[] = {
    { .h = 1, .w = 1, .c = 1, .oh = 1, .ow = 1, .kh = 1, .kw = 1, .stride = 1 },
    { .h = 5, .w = 6, .c = 3, .oh = 5, .ow = 6, .kh = 3, .kw = 3, .stride = 1, .top = 1, .left = 1 },
    { .h = 7, .w = 31, .c = 31, .oh = 7, .ow = 31, .kh = 3, .kw = 3, .stride = 1, .top = 1, .left = 1 },
    { .h = 6, .w = 7, .c = 33, .oh = 3, .ow = 4, .kh = 3, .kw = 3, .stride = 2, .top = 0, .left = 1 },
    { .h = 4, .w = 8, .c = 16, .oh = 2, .ow = 4, .kh = 3, .kw = 3, .stride = 2, .top = 0, .left = 0 },
    { .h = 9, .w = 33, .c = 65, .oh = 3, .ow = 11, .kh = 2, .kw = 3, .stride = 3, .top = 1, .left = 1 },
    { .h = 3, .w = 2, .c = 63, .oh = 5, .ow = 4, .kh = 5, .kw = 5, .stride = 1, .top = 3, .left = 3 },
    { .h = 2, .w = 3, .c = 8, .oh = 2, .ow = 2, .kh = 1, .kw = 2, .stride = 4, .top = 1, .left = 2 },
    { .h = 6, .w = 40, .c = 40, .oh = 6, .ow = 40, .kh = 3, .kw = 3, .stride = 1, .top = 1, .left = 1 },
    { .h = 8, .w = 9, .c = 17, .oh = 9, .ow = 10, .kh = 4, .kw = 4, .stride = 1, .top = 2, .left = 2 },
    { .h = 3, .w = 30, .c = 130, .oh = 3, .ow = 28, .kh = 3, .kw = 3, .stride = 1, .top = 1, .left = 0 },
    { .h = 2, .w = 2, .c = 36, .oh = 2, .ow = 2, .kh = 3, .kw = 3, .stride = 1, .top = 1, .left = 1 },
    { .h = 4, .w = 1, .c = 9, .oh = 4, .ow = 1, .kh = 3, .kw = 3, .stride = 1, .top = 1, .left = 1 },
    { .h = 3, .w = 4, .c = 24, .oh = 5, .ow = 6, .kh = 3, .kw = 3, .stride = 1, .top = 2, .left = 2 },
    { .h = 5, .w = 9, .c = 18, .oh = 2, .ow = 5, .kh = 1, .kw = 3, .stride = 2, .top = 0, .left = 1 },
    { .h = 2, .w = 2, .c = 20, .oh = 3, .ow = 3, .kh = 2, .kw = 2, .stride = 3, .top = 3, .left = 3 },
};
enum { CASES = sizeof cases / sizeof *cases };

extern const qg__depthwise_kernels qg__depthwise_kernels_sixteen;
static const qg__depthwise_kernels *const of[] = TABLES_OF(qg__depthwise_kernels);

typedef struct tensors {
    guarded x, w, bias, dy;
} tensors;

static size_t x_size(const qg__depthwise *g) { return (size_t)(g->h * g->w * g->c); }
static size_t y_size(const qg__depthwise *g) { return (size_t)(g->oh * g->ow * g->c); }
static size_t w_size(const qg__depthwise *g) { return (size_t)(g->kh * g->kw * g->c); }

static tensors draw(const qg__depthwise *g, bool whole)
{
    return (tensors){ values(x_size(g), 1, whole), values(w_size(g), 2, whole), values((size_t)g->c, 3, whole),
                      values(y_size(g), 4, whole) };
}

static void discard(tensors t) { release(t.x), release(t.w), release(t.bias), release(t.dy); }

/* Every product that x, w and dy contribute to y, dx and dw. */
static void loops(const qg__depthwise *g, const tensors *t, float *y, float *dx, float *dw)
{
    for (int r = 0; r < g->oh; r++)
        for (int q = 0; q < g->ow; q++)
            for (int tap = 0; tap < g->kh * g->kw; tap++)
                for (int k = 0; k < g->c; k++) {
                    const int   row = r * g->stride + tap / g->kw - g->top, col = q * g->stride + tap % g->kw - g->left;
                    const bool  in = row >= 0 && row < g->h && col >= 0 && col < g->w;
                    const int   out = (r * g->ow + q) * g->c + k, at = (row * g->w + col) * g->c + k, wi = tap * g->c + k;
                    const float x = in ? t->x.at[at] : g->pad;
                    y[out] += x * t->w.at[wi];
                    dw[wi] += x * t->dy.at[out];
                    if (in) dx[at] += t->dy.at[out] * t->w.at[wi];
                }
}

static void assert_whole(guarded a, const float *expected, float more)
{
    for (size_t i = 0; i < a.n; i++)
        if (a.at[i] != expected[i] + more) fail_msg("[%zu] is %g, not %g", i, (double)a.at[i], (double)(expected[i] + more));
}

static void check(const qg__depthwise_kernels *k, const qg__depthwise *g)
{
    const tensors t = draw(g, true);
    guarded       y = guard(y_size(g)), dx = guard(x_size(g)), acc = guard(w_size(g));
    float        *ys = calloc(y.n, sizeof *ys), *dxs = calloc(dx.n, sizeof *dxs), *dws = calloc(acc.n, sizeof *dws);
    assert_true(ys && dxs && dws);
    loops(g, &t, ys, dxs, dws);

    k->forward(g, t.x.at, t.w.at, NULL, y.at);
    assert_whole(y, ys, 0);
    for (size_t i = 0; i < y.n; i++) ys[i] += t.bias.at[i % (size_t)g->c];
    k->forward(g, t.x.at, t.w.at, t.bias.at, y.at);
    assert_whole(y, ys, 0);

    k->input_gradient(g, t.dy.at, t.w.at, false, dx.at);
    assert_whole(dx, dxs, 0);
    for (size_t i = 0; i < dx.n; i++) dx.at[i] = 3;
    k->input_gradient(g, t.dy.at, t.w.at, true, dx.at);
    assert_whole(dx, dxs, 3);

    for (size_t i = 0; i < acc.n; i++) acc.at[i] = 2;
    k->weight_gradient(g, 0, g->c, t.x.at, t.dy.at, acc.at);
    assert_whole(acc, dws, 2);
    release(y), release(dx), release(acc);
    free(ys), free(dxs), free(dws);
    discard(t);
}

/* Sums of small whole numbers are exact in any order. */
static void kernels_agree_with_loops(void **state)
{
    const int n = tables();
    for (int run = 0; run < 3 * CASES * n; run++) {
        qg__depthwise g = cases[run / n % CASES];
        g.pad           = (float)(run / n / CASES - 1);
        check(of[run % n], &g);
    }
}

static void weight_gradient_does_not_depend_on_how_it_is_cut(void **state)
{
    const int n = tables();
    for (int run = 0; run < CASES * n; run++) {
        const qg__depthwise *g = &cases[run / n];
        const tensors        t = draw(g, false);
        guarded              once = guard(w_size(g)), parts = guard(w_size(g));
        zero(once), zero(parts);
        of[run % n]->weight_gradient(g, 0, g->c, t.x.at, t.dy.at, once.at);
        for (int k = 0, end; k < g->c; k = end) {
            end = k + 16 <= g->c - 16 ? k + 16 : g->c;
            of[run % n]->weight_gradient(g, k, end, t.x.at, t.dy.at, parts.at);
        }
        assert_memory_equal(once.at, parts.at, once.n * sizeof *once.at);
        release(once), release(parts);
        discard(t);
    }
}

static void vector_lengths_give_the_same_bits(void **state)
{
    for (int run = 0; run < 2 * CASES; run++) {
        qg__depthwise g = cases[run % CASES];
        g.pad           = run < CASES ? 0 : 0.3f;
        const tensors t = draw(&g, false);
        guarded       y[2], dx[2], dw[2];
        for (int pair = 0; pair + 1 < tables(); pair++) {
            for (int v = 0; v < 2; v++) {
                const qg__depthwise_kernels *k = of[pair + v];
                y[v] = guard(y_size(&g)), dx[v] = guard(x_size(&g)), dw[v] = guard(w_size(&g));
                zero(dw[v]);
                k->forward(&g, t.x.at, t.w.at, t.bias.at, y[v].at);
                k->input_gradient(&g, t.dy.at, t.w.at, false, dx[v].at);
                k->weight_gradient(&g, 0, g.c, t.x.at, t.dy.at, dw[v].at);
            }
            assert_memory_equal(y[0].at, y[1].at, y[0].n * sizeof(float));
            assert_memory_equal(dx[0].at, dx[1].at, dx[0].n * sizeof(float));
            assert_memory_equal(dw[0].at, dw[1].at, dw[0].n * sizeof(float));
            for (int v = 0; v < 2; v++) release(y[v]), release(dx[v]), release(dw[v]);
        }
        discard(t);
    }
}

/* A NaN reaches its own channel in the outputs whose windows hold it, and nothing else. */
static void nan_spreads_exactly_as_far_as_its_windows(void **state)
{
    const int n = tables();
    for (int run = 0; run < CASES * n; run++) {
        const qg__depthwise *g = &cases[run / n];
        const tensors        t = draw(g, false);
        guarded              y = guard(y_size(g));
        const int            row = g->h / 2, col = g->w / 2, channel = g->c / 2;
        t.x.at[(row * g->w + col) * g->c + channel] = NAN;
        of[run % n]->forward(g, t.x.at, t.w.at, NULL, y.at);
        for (size_t i = 0; i < y.n; i++) {
            const int  pixel = (int)i / g->c;
            const int  down  = row - (pixel / g->ow * g->stride - g->top);
            const int  right = col - (pixel % g->ow * g->stride - g->left);
            const bool held  = down >= 0 && down < g->kh && right >= 0 && right < g->kw && (int)i % g->c == channel;
            assert_true(isnan(y.at[i]) == held);
        }
        release(y);
        discard(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_agree_with_loops),
        cmocka_unit_test(weight_gradient_does_not_depend_on_how_it_is_cut),
        cmocka_unit_test(vector_lengths_give_the_same_bits),
        cmocka_unit_test(nan_spreads_exactly_as_far_as_its_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
