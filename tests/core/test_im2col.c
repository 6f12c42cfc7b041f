#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/kernels/gemm.h"
#include "core/kernels/im2col.h"
#include "core/kernels/parallel.h"
#include "core/rng.h"

/* h w c, oc, kh kw, stride */
static const int cases[][7] = {
    { 1, 1, 1, 1, 1, 1, 1 },   { 5, 7, 3, 4, 3, 2, 1 },    { 9, 6, 5, 31, 3, 3, 2 },
    { 8, 8, 33, 16, 5, 5, 1 }, { 10, 3, 16, 65, 2, 3, 3 }, { 6, 5, 31, 63, 1, 1, 2 },
};
enum { CASES = sizeof cases / sizeof *cases };

static qg__conv geometry(int i)
{
    const int *s = cases[i];
    return (qg__conv){
        .h = s[0], .w = s[1], .c = s[2], .oc = s[3], .kh = s[4], .kw = s[5], .stride = s[6],
        .oh = (s[0] - s[4]) / s[6] + 1, .ow = (s[1] - s[5]) / s[6] + 1,
    };
}

static size_t image(const qg__conv *g)  { return (size_t)(g->h * g->w * g->c); }
static size_t output(const qg__conv *g) { return (size_t)(g->oh * g->ow * g->oc); }
static int    window(const qg__conv *g) { return g->kh * g->kw * g->c; }
static size_t matrix(const qg__conv *g) { return (size_t)(g->oh * g->ow * window(g)); }

/* Exactly as long as needed, so that ASan sees a step too far; aligned as packed arrays must be. */
static float *array(size_t n)
{
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, 64, n * sizeof(float)), 0);
    return p;
}

static float *zeros(size_t n)
{
    float *x = array(n);
    memset(x, 0, n * sizeof *x);
    return x;
}

static float *whole(size_t n, uint64_t key)
{
    float *x = array(n);
    for (size_t i = 0; i < n; i++) x[i] = (float)(qg_bits(key, i) % 9) - 4.0f;
    return x;
}

static void pad_frames_the_image(void **state)
{
    (void)state;
    static const int sizes[][5] = { { 1, 1, 1, 0, 0 }, { 2, 3, 5, 1, 2 }, { 3, 1, 4, 0, 1 },
                                    { 1, 4, 3, 2, 0 }, { 5, 5, 31, 1, 1 } };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const int h = sizes[s][0], w = sizes[s][1], c = sizes[s][2];
        const int pad_h = sizes[s][3], pad_w = sizes[s][4];
        const int rows = h + 2 * pad_h, cols = w + 2 * pad_w;
        float    *x      = whole((size_t)(h * w * c), s);
        float    *padded = array((size_t)(rows * cols * c));
        qg__pad(h, w, c, pad_h, pad_w, -1.5f, x, padded);
        for (int i = 0; i < rows * cols * c; i++) {
            const int row = i / c / cols - pad_h, col = i / c % cols - pad_w;
            const int in  = row >= 0 && row < h && col >= 0 && col < w;
            assert_true(padded[i] == (in ? x[(row * w + col) * c + i % c] : -1.5f));
        }
        free(x), free(padded);
    }
}

static void im2col_gathers_windows(void **state)
{
    (void)state;
    for (int s = 0; s < CASES; s++) {
        const qg__conv g    = geometry(s);
        float         *x    = whole(image(&g), 1);
        float         *cols = array(matrix(&g));
        qg__im2col(&g, x, cols);
        const float *at = cols;
        for (int r = 0; r < g.oh; r++)
            for (int q = 0; q < g.ow; q++)
                for (int i = 0; i < g.kh; i++)
                    for (int j = 0; j < g.kw; j++)
                        for (int c = 0; c < g.c; c++) {
                            const int row = r * g.stride + i, col = q * g.stride + j;
                            assert_true(*at++ == x[(row * g.w + col) * g.c + c]);
                        }
        free(x), free(cols);
    }
}

/* A and its transpose have <A x, m> = <x, A^T m> for all x and m; small integers make it exact. */
static void col2im_is_the_transpose(void **state)
{
    (void)state;
    for (int s = 0; s < CASES; s++) {
        const qg__conv g    = geometry(s);
        float         *x    = whole(image(&g), 2);
        float         *m    = whole(matrix(&g), 3);
        float         *cols = array(matrix(&g));
        float         *back = array(image(&g));
        double         left = 0.0, right = 0.0;
        qg__im2col(&g, x, cols);
        qg__col2im(&g, m, back);
        for (size_t i = 0; i < matrix(&g); i++) left += (double)cols[i] * (double)m[i];
        for (size_t i = 0; i < image(&g); i++) right += (double)back[i] * (double)x[i];
        assert_true(left == right);
        free(x), free(m), free(cols), free(back);
    }
}

/* The portable way through GEMM and the direct kernels of this machine.  Small integers: every sum
 * is exact in float, so the order of the terms cannot show and the bits must agree. */
static void gemm_on_windows_agrees_with_the_kernels(void **state)
{
    (void)state;
    const qg__conv_kernels *k = QG_KERNELS(qg__conv_kernels);
    for (int s = 0; s < CASES; s++) {
        const qg__conv g = geometry(s);
        const int      n = g.oh * g.ow, kk = window(&g);
        float *x = whole(image(&g), 4), *dy = whole(output(&g), 5);
        float *w = whole((size_t)(g.oc * kk), 6), *cols = array(matrix(&g));
        float *y[2]  = { array(output(&g)), array(output(&g)) };
        float *dx[2] = { array(image(&g)), array(image(&g)) };
        float *dw[2] = { zeros((size_t)(g.oc * kk)), zeros((size_t)(g.oc * kk)) };
        float *wf = array(qg__conv_forward_size(k, &g)), *wb = array(qg__conv_backward_size(k, &g));
        float *acc = zeros(qg__conv_forward_size(k, &g)), *scratch = array(k->scratch(&g));

        qg__im2col(&g, x, cols);
        qg__gemm_nt(n, g.oc, kk, cols, kk, w, kk, 0.0f, y[0], g.oc);
        qg__gemm_tn(g.oc, kk, n, dy, g.oc, cols, kk, 1.0f, dw[0], kk);
        qg__gemm_nn(n, kk, g.oc, dy, g.oc, w, kk, 0.0f, cols, kk);
        qg__col2im(&g, cols, dx[0]);

        k->pack_forward(&g, 0, qg__conv_blocks(k, g.oc), w, wf);
        k->pack_backward(&g, 0, qg__conv_blocks(k, g.c), w, wb);
        k->forward(&g, x, wf, NULL, y[1], scratch);
        k->input_gradient(&g, dy, wb, dx[1]);
        k->weight_gradient(&g, 0, k->units(&g), 1, x, dy, acc, scratch);
        k->add_weight_gradient(&g, 0, qg__conv_blocks(k, g.oc), acc, dw[1]);

        for (size_t i = 0; i < output(&g); i++) assert_true(y[0][i] == y[1][i]);
        for (size_t i = 0; i < image(&g); i++) assert_true(dx[0][i] == dx[1][i]);
        for (int i = 0; i < g.oc * kk; i++) assert_true(dw[0][i] == dw[1][i]);
        for (int i = 0; i < 2; i++) free(y[i]), free(dx[i]), free(dw[i]);
        free(x), free(dy), free(w), free(cols), free(wf), free(wb), free(acc), free(scratch);
    }
}

int main(void)
{
    qg_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pad_frames_the_image),
        cmocka_unit_test(im2col_gathers_windows),
        cmocka_unit_test(col2im_is_the_transpose),
        cmocka_unit_test(gemm_on_windows_agrees_with_the_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
