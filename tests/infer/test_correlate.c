/* Sums over pixels of products of codes against loops over the definition, on every instruction set that the
 * machine has. */
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
#include "infer/kernels/correlate.h"
#include "tests/support/environment.h"

extern const qg__correlate_kernels qg__correlate_kernels_sixteen;      /* see test_kernels.c */

/* h w c, oh ow oc, kh kw, stride, top left: channels and outputs beside and on every length of vectors and
 * tiles, rows that quads do not fill, windows partly and completely outside. */
static const int shapes[][11] = {
    { 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0 }, { 5, 4, 3, 5, 4, 5, 3, 3, 1, 1, 1 },
    { 6, 7, 31, 6, 7, 33, 3, 3, 1, 1, 1 }, { 4, 4, 33, 6, 6, 31, 3, 3, 1, 2, 2 },
    { 8, 8, 16, 8, 8, 16, 3, 3, 1, 1, 1 }, { 9, 5, 6, 5, 1, 64, 5, 5, 1, 0, 0 },
    { 12, 13, 17, 12, 13, 8, 1, 1, 1, 0, 0 }, { 3, 40, 7, 3, 40, 70, 1, 3, 1, 0, 1 },
    { 2, 2, 4, 4, 4, 2, 5, 5, 1, 3, 3 }, { 16, 16, 64, 16, 16, 64, 3, 3, 1, 1, 1 },
    { 1, 37, 50, 1, 37, 40, 1, 1, 1, 0, 0 }, { 32, 32, 13, 32, 32, 9, 3, 3, 1, 1, 1 },
    { 8, 8, 16, 4, 4, 32, 3, 3, 2, 1, 1 }, { 9, 7, 5, 4, 3, 6, 3, 3, 2, 0, 0 },
    { 11, 12, 3, 4, 4, 9, 5, 3, 3, 2, 1 }, { 6, 6, 4, 3, 3, 4, 1, 1, 2, 0, 0 },
    { 5, 5, 2, 4, 4, 3, 2, 2, 2, 1, 2 }, { 7, 9, 4, 2, 3, 5, 1, 3, 4, 0, 1 }, { 3, 5, 2, 1, 1, 3, 3, 3, 50000, 1, 1 },
};

/* Of x and dy: every number of parts, and every length of run. */
static const qg__codes pairs_of_codes[][2] = {
    { { 0, 1, 2 }, { -63, 2, 64 } },    { { 0, 1, 4 }, { -63, 2, 64 } },     { { -1, 2, 2 }, { -1, 2, 2 } },
    { { 0, 1, 16 }, { -127, 1, 255 } }, { { 0, 1, 256 }, { -127, 1, 255 } }, { { -128, 1, 256 }, { -7, 1, 15 } },
    { { -3, 1, 8 }, { -127, 1, 255 } }, { { -5, 1, 17 }, { -3, 2, 4 } },
};

/* draw i of n: all values, and in the first and last image the extremes alone. */
static uint8_t code_of(qg__codes c, bool extreme, uint64_t key, size_t i)
{
    const uint64_t bits = qg_bits(key, i);
    const int      u    = extreme ? c.count - 1 : (int)(bits % (uint64_t)c.count);
    return (uint8_t)(c.step * u);
}

static void define(const qg__correlation *p, const uint8_t *x, const uint8_t *dy, float scale, float *dw)
{
    const qg__geometry *g = &p->g;
    for (int o = 0; o < g->oc; o++)
        for (int a = 0; a < g->kh; a++)
            for (int b = 0; b < g->kw; b++)
                for (int k = 0; k < g->c; k++, dw++) {
                    int64_t sum = 0;
                    for (int r = 0; r < g->oh; r++)
                        for (int q = 0; q < g->ow; q++) {
                            const int i = r * g->stride + a - g->top, j = q * g->stride + b - g->left;
                            if (i < 0 || j < 0 || i >= g->h || j >= g->w) continue;
                            sum += (x[(i * g->w + j) * g->c + k] + p->x.lowest) *
                                   (dy[(r * g->ow + q) * g->oc + o] + p->dy.lowest);
                        }
                    *dw += scale * (float)sum;
                }
}

static void *bytes_of(size_t n)
{
    void *p = aligned_alloc(64, qg__lines_of(n));
    assert_non_null(p);
    memset(p, 0xA5, qg__lines_of(n));
    return p;
}

/* Two images, each with a scale of its own. */
static void compare(const qg__correlate_kernels *k, const char *isa, const qg__correlation *p, bool extreme)
{
    const size_t image = qg__pixels(&p->g) * (size_t)p->g.c, results = qg__results(&p->g) * (size_t)p->g.oc;
    const size_t weights = qg__row(&p->g) * (size_t)p->g.oc;
    uint8_t *x = bytes_of(image), *dy = bytes_of(results), *frame = bytes_of(k->frame_bytes(p));
    uint8_t *packed[2][2];
    float   *want = calloc(weights, sizeof *want), *got = bytes_of(weights * sizeof *got);
    float   *acc = bytes_of(k->unit_floats(p) * sizeof *acc);
    static const float scale[2] = { 0.37f, 1.9f };
    assert_true(qg__correlation_fits(p));
    for (int n = 0; n < 2; n++) {
        for (size_t i = 0; i < image; i++) x[i] = code_of(p->x, extreme, 1 + (uint64_t)n, i);
        for (size_t i = 0; i < results; i++) dy[i] = code_of(p->dy, extreme, 7 + (uint64_t)n, i);
        define(p, x, dy, scale[n], want);
        packed[n][0] = bytes_of(k->x_bytes(p)), packed[n][1] = bytes_of(k->dy_bytes(p));
        k->pack_x(p, x, frame, packed[n][0]);
        k->pack_dy(p, dy, packed[n][1]);
    }
    for (int u = 0; u < k->units(p); u++) {
        memset(acc, 0, k->unit_floats(p) * sizeof *acc);
        for (int n = 0; n < 2; n++) k->add(p, u, packed[n][0], packed[n][1], scale[n], acc);
        k->unpack(p, u, acc, false, got);
    }
    for (size_t i = 0; i < weights; i++)
        if (memcmp(&want[i], &got[i], sizeof *got))
            fail_msg("%s, %d x %d x %d by %d, x %d..%d, dy %d..%d: weight %zu is %.9g, not %.9g", isa, p->g.h,
                     p->g.w, p->g.c, p->g.oc, p->x.lowest, qg__highest(p->x), p->dy.lowest,
                     qg__highest(p->dy), i, (double)got[i], (double)want[i]);
    for (int u = 0; u < k->units(p); u++) {
        memset(acc, 0, k->unit_floats(p) * sizeof *acc);
        k->unpack(p, u, acc, true, got);
    }
    assert_memory_equal(got, want, weights * sizeof *got);
    for (int n = 0; n < 4; n++) free(packed[n / 2][n % 2]);
    free(x), free(dy), free(frame), free(want), free(got), free(acc);
}

static void compare_all(const qg__correlate_kernels *k, const char *isa)
{
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t c = 0; c < sizeof pairs_of_codes / sizeof *pairs_of_codes; c++) {
            const int            *n = shapes[s];
            const qg__geometry    g = { n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10] };
            const qg__correlation p = { g, pairs_of_codes[c][0], pairs_of_codes[c][1] };
            compare(k, isa, &p, false);
            compare(k, isa, &p, true);
        }
}

static void sums_are_exact_on_every_instruction_set(void **state)
{
    (void)state;
    compare_all(&qg__correlate_kernels_baseline, "baseline");
#if defined(__x86_64__)
    if (widest_path() < QG_ISA_AVX2) return;
    compare_all(&qg__correlate_kernels_avx2, "avx2");
    compare_all(&qg__correlate_kernels_sixteen, "sixteen");
    if (widest_path() >= QG_ISA_AVX512 && __builtin_cpu_supports("avx512vnni"))
        compare_all(&qg__correlate_kernels_avx512, "avx512");
#endif
}

static void sums_that_may_overflow_do_not_fit(void **state)
{
    (void)state;
    qg__correlation p = { { 300, 300, 1, 300, 300, 1, 1, 1, 1, 0, 0 }, { 0, 1, 256 }, { -127, 1, 255 } };
    assert_false(qg__correlation_fits(&p));     /* 255 * 127 * 90,000 */
    p.x.count = 2;
    assert_true(qg__correlation_fits(&p));
    p.dy = (qg__codes){ -128, 1, 256 };
    assert_false(qg__correlation_fits(&p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_exact_on_every_instruction_set),
        cmocka_unit_test(sums_that_may_overflow_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
