#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/kernels/conv_kernel.h"
#include "tests/support/environment.h"
#include "tests/support/guarded.h"

/* h w c, oc, kh kw, stride.  Channels beside and on every vector length, outputs smaller and larger
 * than a tile, kernels as large as the image, smaller than the stride, and images with rows that no
 * window reaches.  Where c is a vector and oc no more, tiles end with the row. */
static const int cases[][7] = {
    { 1, 1, 1, 1, 1, 1, 1 },     { 5, 5, 1, 1, 3, 3, 1 },    { 7, 9, 3, 5, 3, 2, 1 },
    { 8, 10, 16, 16, 3, 3, 1 },  { 6, 9, 16, 16, 3, 3, 1 },  { 5, 34, 16, 16, 3, 3, 1 },
    { 10, 10, 16, 33, 3, 3, 2 }, { 9, 11, 31, 32, 3, 3, 2 }, { 12, 12, 32, 64, 5, 5, 1 },
    { 7, 7, 33, 65, 3, 1, 3 },   { 28, 28, 1, 32, 5, 5, 1 }, { 6, 6, 50, 20, 1, 1, 1 },
    { 6, 5, 64, 63, 1, 1, 2 },   { 11, 4, 5, 17, 4, 4, 3 },  { 3, 3, 128, 5, 3, 3, 1 },
    { 4, 30, 8, 9, 2, 3, 1 },    { 8, 8, 20, 50, 5, 5, 1 },  { 5, 70, 2, 4, 1, 5, 1 },
    { 8, 20, 66, 130, 3, 3, 1 }, { 30, 14, 64, 66, 3, 1, 1 }, { 9, 40, 33, 64, 2, 3, 2 },
    { 12, 3, 4, 7, 3, 3, 4 },    { 34, 6, 3, 16, 3, 3, 1 },  { 3, 30, 16, 16, 3, 3, 1 },
    { 4, 10, 16, 5, 3, 3, 1 },   { 4, 14, 8, 7, 3, 3, 1 },   { 5, 18, 4, 3, 2, 3, 1 },
    /* Winograd's: one tile, an odd number, a visit and a part, an unfilled block, several units. */
    { 4, 4, 16, 16, 3, 3, 1 },   { 8, 12, 48, 32, 3, 3, 1 }, { 12, 16, 16, 48, 3, 3, 1 },
    { 4, 6, 32, 272, 3, 3, 1 },
};
enum { CASES = sizeof cases / sizeof *cases, IMAGES = 3 };

static qg__conv geometry(int i)
{
    const int *s = cases[i];
    return (qg__conv){
        .h = s[0], .w = s[1], .c = s[2], .oc = s[3], .kh = s[4], .kw = s[5], .stride = s[6],
        .oh = (s[0] - s[4]) / s[6] + 1, .ow = (s[1] - s[5]) / s[6] + 1,
    };
}

extern const qg__conv_kernels qg__conv_kernels_sixteen, qg__winograd_kernels_sixteen;
static const qg__conv_kernels *const direct[] = TABLES_OF(qg__conv_kernels);
static const qg__conv_kernels *const winograd[] = TABLES_OF(qg__winograd_kernels);

/* Both kinds: 2 tables() of them. */
static const qg__conv_kernels *either(int k) { return k < tables() ? direct[k] : winograd[k - tables()]; }

/* Winograd's way is defined wherever this holds; qg__winograd_fits asks that it pays, too. */
static bool is_defined(const qg__conv *g)
{
    return g->kh == 3 && g->kw == 3 && g->stride == 1 && g->oh % 2 == 0 && g->ow % 2 == 0 && g->c % 16 == 0 &&
           g->oc % 16 == 0;
}

static bool fits(const qg__conv_kernels *k, const qg__conv *g) { return !k->points || is_defined(g); }

/* --- the seven loops ---------------------------------------------------------------------- */

typedef struct tensors {
    guarded x, w, bias, dy;     /* IMAGES of x and dy */
} tensors;

/* A sum in double, and the root of the sum of its squared terms: its typical size. */
typedef struct expected {
    double *value, *squares;
    size_t  n;
} expected;

static expected expect(size_t n)
{
    expected e = { calloc(n, sizeof *e.value), calloc(n, sizeof *e.squares), n };
    assert_non_null(e.value);
    assert_non_null(e.squares);
    return e;
}

static expected copy_of(expected e)
{
    expected copy = expect(e.n);
    memcpy(copy.value, e.value, e.n * sizeof *e.value);
    memcpy(copy.squares, e.squares, e.n * sizeof *e.squares);
    return copy;
}

static void forget(expected e)
{
    free(e.value);
    free(e.squares);
}

static void term(expected e, size_t i, float a, float b)
{
    assert_true(i < e.n);
    e.value[i] += (double)a * (double)b;
    e.squares[i] += (double)a * (double)b * (double)a * (double)b;
}

/* Adds every product that one image contributes to y, dx and dw. */
static void seven_loops(const qg__conv *g, const tensors *t, int image, expected y, expected dx,
                        expected dw)
{
    const float *x  = t->x.at + image * g->h * g->w * g->c;
    const float *dy = t->dy.at + image * g->oh * g->ow * g->oc;
    for (int r = 0; r < g->oh; r++)
        for (int q = 0; q < g->ow; q++)
            for (int o = 0; o < g->oc; o++) {
                const size_t out = (size_t)((r * g->ow + q) * g->oc + o);
                for (int i = 0; i < g->kh; i++)
                    for (int j = 0; j < g->kw; j++)
                        for (int c = 0; c < g->c; c++) {
                            const int row = r * g->stride + i, col = q * g->stride + j;
                            const int in  = (row * g->w + col) * g->c + c;
                            const int k   = ((o * g->kh + i) * g->kw + j) * g->c + c;
                            term(y, out, x[in], t->w.at[k]);
                            term(dx, (size_t)in, dy[out], t->w.at[k]);
                            term(dw, (size_t)k, dy[out], x[in]);
                        }
            }
}

/* A chain of k multiply-adds makes k roundings, each of at most half an eps of what has been summed
 * so far, typically size.  They point anywhere and add up as sqrt(k) does: to sqrt(k) / 4 eps of
 * size or so, and 8 times that is never seen.  Winograd's way rounds elsewhere: 0.6 times that much forward,
 * 0.8 to 1.5 times in the weights.  Sums of small integers are exact in any order and either way. */
static void assert_sum(expected e, const float *actual, int k, bool whole, double start)
{
    for (size_t i = 0; i < e.n; i++) {
        const double size  = sqrt(e.squares[i] + start * start);
        const double bound = whole ? 0.0 : 2.0 * sqrt(k + 1.0) * 0x1p-23 * size;
        if (!(fabs((double)actual[i] - e.value[i]) <= bound))
            fail_msg("[%zu] is %.9g, not %.9g to within %g", i, (double)actual[i], e.value[i],
                     bound);
    }
}

/* --- the kernels ---------------------------------------------------------------------------- */

/* The channels that fill a block up are written too; gaps are not. */
static void assert_written(guarded p, int row, int gap)
{
    for (size_t i = 0; i < p.n; i++)
        if ((int)i % (row + gap) < row) assert_true(!isnan(p.at[i]));
}

/* Packed in pieces, the last block first. */
static guarded packed_forward(const qg__conv_kernels *k, const qg__conv *g, const float *w)
{
    guarded p = aligned(qg__conv_forward_size(k, g));
    for (int b = qg__conv_blocks(k, g->oc); b-- > 0;) k->pack_forward(g, b, w, p.at);
    assert_written(p, g->c * qg__conv_block(k, g->oc), k->gap);
    return p;
}

static guarded packed_backward(const qg__conv_kernels *k, const qg__conv *g, const float *w)
{
    guarded p = aligned(qg__conv_backward_size(k, g));
    for (int b = qg__conv_blocks(k, g->c); b-- > 0;) k->pack_backward(g, b, w, p.at);
    assert_written(p, g->oc * qg__conv_block(k, g->c), k->gap);
    return p;
}

static void check_forward(const qg__conv_kernels *k, const qg__conv *g, const tensors *t,
                          bool whole, expected e)
{
    const int n  = g->kh * g->kw * g->c;
    guarded   wf = packed_forward(k, g, t->w.at);
    guarded   y  = guard(e.n), scratch = aligned(k->scratch(g));
    k->forward(g, t->x.at, wf.at, NULL, false, y.at, scratch.at);
    assert_sum(e, y.at, n, whole, 0.0);

    for (size_t i = 0; i < e.n; i++) y.at[i] = 3.0f, e.value[i] += 3.0;
    k->forward(g, t->x.at, wf.at, NULL, true, y.at, scratch.at);
    assert_sum(e, y.at, n, whole, 3.0);

    for (size_t i = 0; i < e.n; i++) e.value[i] += (double)t->bias.at[i % (size_t)g->oc] - 3.0;
    k->forward(g, t->x.at, wf.at, t->bias.at, false, y.at, scratch.at);
    assert_sum(e, y.at, n, whole, 4.0);
    release(wf);
    release(y);
    release(scratch);
}

static void check_input_gradient(const qg__conv_kernels *k, const qg__conv *g, const tensors *t,
                                 bool whole, expected e)
{
    if (!k->input_gradient) return;
    guarded wb = packed_backward(k, g, t->w.at);
    guarded dx = guard(e.n);
    k->input_gradient(g, t->dy.at, wb.at, dx.at);
    assert_sum(e, dx.at, g->kh * g->kw * g->oc, whole, 0.0);
    release(wb);
    release(dx);
}

static void check_weight_gradient(const qg__conv_kernels *k, const qg__conv *g, const tensors *t,
                                  bool whole, expected e)
{
    guarded acc     = aligned(qg__conv_forward_size(k, g));
    guarded scratch = aligned(k->scratch(g));
    guarded dw      = guard(e.n);
    zero(acc);
    k->weight_gradient(g, 0, k->units(g), IMAGES, t->x.at, t->dy.at, acc.at, scratch.at);
    for (size_t i = 0; i < e.n; i++) dw.at[i] = 2.0f, e.value[i] += 2.0;
    for (int b = qg__conv_blocks(k, g->oc); b-- > 0;)
        k->add_weight_gradient(g, b, acc.at, dw.at);
    assert_sum(e, dw.at, IMAGES * g->oh * g->ow, whole, 2.0);
    release(acc);
    release(scratch);
    release(dw);
}

static tensors draw(const qg__conv *g, bool whole)
{
    return (tensors){
        .x    = values((size_t)(IMAGES * g->h * g->w * g->c), 1, whole),
        .w    = values((size_t)(g->oc * g->kh * g->kw * g->c), 2, whole),
        .bias = values((size_t)g->oc, 3, whole),
        .dy   = values((size_t)(IMAGES * g->oh * g->ow * g->oc), 4, whole),
    };
}

static void discard(tensors t)
{
    release(t.x);
    release(t.w);
    release(t.bias);
    release(t.dy);
}

static void kernels_agree_with_seven_loops(void **state)
{
    const int n = 2 * tables();
    for (int run = 0; run < 2 * CASES; run++) {
        const bool     whole = run % 2;
        const qg__conv g     = geometry(run / 2);
        const tensors  t     = draw(&g, whole);
        expected y    = expect((size_t)(g.oh * g.ow * g.oc)), y_more = expect(y.n);
        expected dx   = expect((size_t)(g.h * g.w * g.c)), dx_more = expect(dx.n);
        expected dw   = expect(t.w.n);
        seven_loops(&g, &t, 0, y, dx, dw);
        for (int image = 1; image < IMAGES; image++)
            seven_loops(&g, &t, image, y_more, dx_more, dw);
        for (int k = 0; k < n; k++) {
            if (!fits(either(k), &g)) continue;
            expected its_y = copy_of(y), its_dw = copy_of(dw);      /* which the checks change */
            check_forward(either(k), &g, &t, whole, its_y);
            check_input_gradient(either(k), &g, &t, whole, dx);
            check_weight_gradient(either(k), &g, &t, whole, its_dw);
            forget(its_y), forget(its_dw);
        }
        forget(y), forget(y_more), forget(dx), forget(dx_more), forget(dw);
        discard(t);
    }
}

/* The other way to dx, where the output is as large as the image: it must be the inside of it. */
static void mirror_is_the_input_gradient(void **state)
{
    static const int sizes[][3] = { { 3, 16, 16 }, { 3, 33, 20 }, { 1, 5, 64 }, { 5, 3, 31 }, { 3, 16, 48 },
                                    { 3, 80, 32 } };
    const int n = 2 * tables();
    for (int run = 0; run < 6 * n; run++) {
        const qg__conv_kernels *k    = either(run % n);
        const int              *size = sizes[run / n];
        const int               side = 8, pad = size[0] / 2, row = side + 2 * pad;
        const qg__conv g = { .h = row, .w = row, .c = size[1], .oc = size[2], .kh = size[0],
                             .kw = size[0], .stride = 1, .oh = side, .ow = side };
        if (!fits(k, &g)) continue;
        const qg__conv m      = qg__conv_mirror(&g);
        const tensors  t      = draw(&g, true);
        guarded        wb     = packed_backward(k, &g, t.w.at), want = packed_backward(direct[0], &g, t.w.at);
        guarded        whole  = guard((size_t)(row * row * g.c));
        guarded        inside = guard((size_t)(side * side * g.c));
        guarded        framed = values((size_t)(row * row * g.oc), 0, true);
        zero(framed);
        for (int r = 0; r < side; r++)
            memcpy(framed.at + ((r + pad) * row + pad) * g.oc, t.dy.at + r * side * g.oc,
                   (size_t)(side * g.oc) * sizeof *framed.at);
        guarded scratch = aligned(k->scratch(&g));
        direct[0]->input_gradient(&g, t.dy.at, want.at, whole.at);
        k->forward(&m, framed.at, wb.at, NULL, false, inside.at, scratch.at);
        for (int r = 0; r < side; r++)      /* small integers: both are exact */
            assert_memory_equal(inside.at + r * side * g.c,
                                whole.at + ((r + pad) * row + pad) * g.c,
                                (size_t)(side * g.c) * sizeof *inside.at);
        release(wb), release(whole), release(inside), release(framed), release(scratch);
        release(want);
        discard(t);
    }
}

/* Rounding happens here, so equal bits mean equal order. */
static void weight_gradient_does_not_depend_on_how_it_is_cut(void **state)
{
    const int n = 2 * tables();
    for (int run = 0; run < CASES * n; run++) {
        const qg__conv_kernels *k     = either(run % n);
        const qg__conv          g     = geometry(run / n);
        if (!fits(k, &g)) continue;
        const tensors           t     = draw(&g, false);
        const int               units = k->units(&g);
        guarded                 acc[2] = { aligned(qg__conv_forward_size(k, &g)),
                                           aligned(qg__conv_forward_size(k, &g)) };
        guarded                 scratch = aligned(k->scratch(&g));
        for (int i = 0; i < 2; i++) zero(acc[i]);
        k->weight_gradient(&g, 0, units, IMAGES, t.x.at, t.dy.at, acc[0].at, scratch.at);
        for (int image = 0; image < IMAGES; image++)
            for (int u = units; u-- > 0;)
                k->weight_gradient(&g, u, u + 1, 1, t.x.at + image * g.h * g.w * g.c,
                                   t.dy.at + image * g.oh * g.ow * g.oc, acc[1].at, scratch.at);
        assert_memory_equal(acc[0].at, acc[1].at, acc[0].n * sizeof(float));
        release(acc[0]), release(acc[1]), release(scratch);
        discard(t);
    }
}

/* Small images share a visit of a tile: here 150 of 4 pixels, more than one visit takes. */
static void many_small_images_are_one_chain(void **state)
{
    enum { MANY = 150 };
    const qg__conv g = { .h = 4, .w = 4, .c = 8, .oc = 16, .kh = 3, .kw = 3, .stride = 1, .oh = 2, .ow = 2 };
    guarded x  = values(MANY * 4 * 4 * 8, 5, false);
    guarded dy = values(MANY * 2 * 2 * 16, 6, false);
    for (int i = 0; i < tables(); i++) {
        const qg__conv_kernels *k       = direct[i];
        guarded                 once    = aligned(qg__conv_forward_size(k, &g));
        guarded                 apart   = aligned(once.n);
        guarded                 scratch = aligned(k->scratch(&g));
        zero(once);
        zero(apart);
        k->weight_gradient(&g, 0, k->units(&g), MANY, x.at, dy.at, once.at, scratch.at);
        for (int image = 0; image < MANY; image++)
            k->weight_gradient(&g, 0, k->units(&g), 1, x.at + image * 4 * 4 * 8,
                               dy.at + image * 2 * 2 * 16, apart.at, scratch.at);
        assert_memory_equal(once.at, apart.at, once.n * sizeof *once.at);
        release(once), release(apart), release(scratch);
    }
    release(x), release(dy);
}

/* Every multiply-add rounds once and their order is that of the header, so the vector length cannot show. */
static void same_bits(const qg__conv_kernels *const of[2], const qg__conv *g)
{
    const tensors t = draw(g, false);
    guarded       y[2], dx[2], dw[2];
    for (int v = 0; v < 2; v++) {
        const qg__conv_kernels *k       = of[v];
        guarded                 wf      = packed_forward(k, g, t.w.at);
        guarded                 wb      = packed_backward(k, g, t.w.at);
        guarded                 acc     = aligned(qg__conv_forward_size(k, g));
        guarded                 scratch = aligned(k->scratch(g));
        y[v]  = guard((size_t)(g->oh * g->ow * g->oc));
        dx[v] = guard((size_t)(g->h * g->w * g->c));
        dw[v] = guard(t.w.n);
        zero(acc);
        zero(dx[v]);
        zero(dw[v]);
        k->forward(g, t.x.at, wf.at, t.bias.at, false, y[v].at, scratch.at);
        if (k->input_gradient) k->input_gradient(g, t.dy.at, wb.at, dx[v].at);
        k->weight_gradient(g, 0, k->units(g), IMAGES, t.x.at, t.dy.at, acc.at, scratch.at);
        for (int b = 0; b < qg__conv_blocks(k, g->oc); b++) k->add_weight_gradient(g, b, acc.at, dw[v].at);
        release(wf), release(wb), release(acc), release(scratch);
    }
    assert_memory_equal(y[0].at, y[1].at, y[0].n * sizeof(float));
    assert_memory_equal(dx[0].at, dx[1].at, dx[0].n * sizeof(float));
    assert_memory_equal(dw[0].at, dw[1].at, dw[0].n * sizeof(float));
    for (int v = 0; v < 2; v++) release(y[v]), release(dx[v]), release(dw[v]);
    discard(t);
}

static void vector_lengths_give_the_same_bits(void **state)
{
    for (int i = 0; i < CASES; i++)
        for (int pair = 0; pair + 1 < tables(); pair++) {
            const qg__conv g = geometry(i);
            same_bits(direct + pair, &g);
            if (is_defined(&g)) same_bits(winograd + pair, &g);
        }
}

/* A NaN reaches the outputs whose windows hold it and no others: no tile reads a neighbour's. */
static void nan_spreads_exactly_as_far_as_its_windows(void **state)
{
    const int n = 2 * tables();
    for (int run = 0; run < CASES * n; run++) {
        const qg__conv_kernels *k   = either(run % n);
        const qg__conv          g   = geometry(run / n);
        if (!fits(k, &g)) continue;
        const tensors           t   = draw(&g, false);
        guarded                 wf  = packed_forward(k, &g, t.w.at);
        guarded                 y   = guard((size_t)(g.oh * g.ow * g.oc));
        guarded                 scratch = aligned(k->scratch(&g));
        const int               row = g.h / 2, col = g.w / 2;
        t.x.at[(row * g.w + col) * g.c + g.c - 1] = NAN;
        k->forward(&g, t.x.at, wf.at, NULL, false, y.at, scratch.at);
        for (size_t i = 0; i < y.n; i++) {
            const int  pixel = (int)i / g.oc;
            const int  down  = row - pixel / g.ow * g.stride;
            const int  right = col - pixel % g.ow * g.stride;
            const bool held  = down >= 0 && down < g.kh && right >= 0 && right < g.kw;
            assert_true(isnan(y.at[i]) == held);
        }
        release(wf), release(y), release(scratch);
        discard(t);
    }
}

/* Tiles of every size that a visit may be cut into, and one tile more than a visit takes. */
static void winograd_takes_any_number_of_tiles(void **state)
{
    for (int run = 0; run < 2 * 25; run++) {
        const int      across = run % 25 + 1, oc = run / 25 ? 32 : 16;
        const qg__conv g      = { .h = 4, .w = 2 * across + 2, .c = 16, .oc = oc, .kh = 3, .kw = 3, .stride = 1,
                                  .oh = 2, .ow = 2 * across };
        const tensors  t      = draw(&g, true);
        expected       y      = expect((size_t)(g.oh * g.ow * g.oc)), dx = expect((size_t)(g.h * g.w * g.c));
        expected       dw     = expect(t.w.n), y_more = expect(y.n);
        seven_loops(&g, &t, 0, y, dx, dw);
        for (int image = 1; image < IMAGES; image++) seven_loops(&g, &t, image, y_more, dx, dw);
        for (int k = 0; k < tables(); k++) {
            expected its_y = copy_of(y), its_dw = copy_of(dw);
            check_forward(winograd[k], &g, &t, true, its_y);
            check_weight_gradient(winograd[k], &g, &t, true, its_dw);
            forget(its_y), forget(its_dw);
        }
        forget(y), forget(y_more), forget(dx), forget(dw);
        discard(t);
    }
}

static void winograd_fits_where_it_is_defined(void **state)
{
    const qg__conv fitting = { .h = 6, .w = 8, .c = 16, .oc = 32, .kh = 3, .kw = 3, .stride = 1, .oh = 4, .ow = 6 };
    assert_true(qg__winograd_fits(&fitting));
    assert_true(qg__winograd_fits(&(qg__conv){ 4, 10, 256, 2, 8, 256, 3, 3, 1 }));     /* the least of both */
    for (int i = 0; i < 10; i++) {
        qg__conv g = fitting;
        switch (i) {
            case 0: g.kh = 1; break;
            case 1: g.kw = 5; break;
            case 2: g.stride = 2; break;
            case 3: g.oh = 5; break;
            case 4: g.ow = 7; break;
            case 5: g.c = 24; break;
            case 6: g.oc = 8; break;
            case 7: g.c = 512; break;
            case 8: g.oc = 272; break;
            case 9: g.oh = 2; break;
        }
        assert_false(qg__winograd_fits(&g));
    }
}

static void a_frame_around_an_image(void **state)
{
    static const int sizes[][7] = { { 1, 1, 1, 0, 0, 0, 0 }, { 2, 3, 5, 1, 2, 1, 2 }, { 3, 1, 4, 0, 1, 0, 1 },
                                    { 1, 4, 3, 2, 0, 2, 0 }, { 5, 5, 31, 1, 1, 1, 1 }, { 2, 3, 5, 0, 0, 1, 1 },
                                    { 2, 3, 4, 0, 2, 1, 0 }, { 1, 1, 3, 2, 1, 3, 4 } };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const int h = sizes[s][0], w = sizes[s][1], c = sizes[s][2];
        const int top = sizes[s][3], left = sizes[s][4], bottom = sizes[s][5], right = sizes[s][6];
        const int rows = top + h + bottom, cols = left + w + right;
        float     x[5 * 5 * 31], padded[7 * 7 * 31];
        for (int i = 0; i < h * w * c; i++) x[i] = (float)i;
        qg__pad(h, w, c, (qg__frame){ top, left, bottom, right, -1.5f }, x, padded);
        for (int i = 0; i < rows * cols * c; i++) {
            const int row = i / c / cols - top, col = i / c % cols - left;
            const int in  = row >= 0 && row < h && col >= 0 && col < w;
            assert_true(padded[i] == (in ? x[(row * w + col) * c + i % c] : -1.5f));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_around_an_image),
        cmocka_unit_test(kernels_agree_with_seven_loops),
        cmocka_unit_test(mirror_is_the_input_gradient),
        cmocka_unit_test(weight_gradient_does_not_depend_on_how_it_is_cut),
        cmocka_unit_test(many_small_images_are_one_chain),
        cmocka_unit_test(vector_lengths_give_the_same_bits),
        cmocka_unit_test(winograd_takes_any_number_of_tiles),
        cmocka_unit_test(winograd_fits_where_it_is_defined),
        cmocka_unit_test(nan_spreads_exactly_as_far_as_its_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
