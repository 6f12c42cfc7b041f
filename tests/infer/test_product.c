/* Products of all operands against loops over the definition, on every instruction set that the machine
 * has. */
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
#include "infer/kernels/floats.h"
#include "infer/kernels/isa.h"
#include "infer/product.h"
#include "tests/support/bits.h"
#include "tests/support/environment.h"

/* --- operands ----------------------------------------------------------------------------------- */

/* Codes of 1 to 8 bits: odd, unsigned, signed, and some that fill no alphabet and no byte. */
static const qg__codes operands[] = {
    { 0, 0, 0 },     { -1, 2, 2 },    { -1, 1, 3 },  { 0, 1, 2 },     { 0, 1, 4 },     { -3, 2, 4 },    { -2, 1, 4 },     { -7, 2, 8 },
    { -4, 1, 8 },    { 0, 1, 16 },    { -15, 2, 16 }, { -8, 1, 16 },  { -7, 1, 15 },   { 0, 1, 32 },    { -16, 1, 32 },   { -31, 2, 32 },
    { -63, 2, 64 },  { 0, 1, 128 },   { -64, 1, 128 }, { -127, 2, 128 }, { 0, 1, 256 }, { -128, 1, 256 }, { -255, 2, 256 }, { -200, 1, 250 },
    { -127, 1, 255 }, { 3, 1, 40 },
};
enum { OPERANDS = sizeof operands / sizeof *operands };
static const qg__codes floats = { 0, 0, 0 };

/* Alignment of weights and scratch. */
enum { LINE = 64 };

static void *room(size_t bytes)
{
    void *p = aligned_alloc(LINE, qg__lines_of(bytes + 1));
    assert_non_null(p);
    memset(p, 0xA5, qg__lines_of(bytes + 1));
    return p;
}

static float draw(qg__codes c, uint64_t key, size_t i)
{
    if (!c.count) return 2 * qg_uniform(key, i) - 1;
    return (float)(c.lowest + c.step * (int)(qg_bits(key, i) % (unsigned)c.count));
}

static float *drawn(qg__codes c, uint64_t key, size_t n)
{
    float *v = room(n * sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = draw(c, key, i);
    return v;
}

/* Values x[pixels][c] as the product wants them. */
static void *coded(const qg__product *p, size_t pixels, const float *x)
{
    const size_t     n      = pixels * (size_t)p->g.c;
    const qg__coding coding = qg__product_coding(p);
    if (coding == QG__AS_BITS) {
        const qg__alphabet a      = qg__alphabet_of(p->x);
        int8_t            *values = room(n);
        uint64_t          *bits   = room(qg__bit_words(a, pixels, p->g.c) * sizeof *bits);
        for (size_t i = 0; i < n; i++) values[i] = (int8_t)x[i];
        pack_values(a, pixels, p->g.c, values, bits);
        free(values);
        return bits;
    }
    uint8_t *bytes = room(n * sizeof(float));
    if (coding == QG__AS_FLOATS) memcpy(bytes, x, n * sizeof *x);
    else
        for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)((int)x[i] - p->x.lowest);
    return bytes;
}

/* --- the definition ----------------------------------------------------------------------------- */

/* One output: exact, as all terms are integers or sums of doubles; `magnitude` is the sum of their absolute
 * values. */
static double sum_of(const qg__product *p, int side, const float *x, const float *w, int r, int q, int o,
                     double *magnitude)
{
    const qg__geometry *g = &p->g;
    const int           own = g->c / p->groups, first = o / (g->oc / p->groups) * own;
    double              sum = 0;
    *magnitude              = 0;
    w += (size_t)o * qg__taps(g) * (size_t)own;
    for (int i = 0; i < g->kh; i++)
        for (int j = 0; j < g->kw; j++)
            for (int k = 0; k < own; k++, w++) {
                const int    row = r * g->stride + i - g->top, column = q * g->stride + j - g->left;
                const bool   inside = row >= 0 && row < g->h && column >= 0 && column < g->w;
                const double value  = inside ? x[(row * g->w + column) * g->c + first + k] : p->pad;
                const double weight = !p->two_sided ? *w : side ? *w < 0 : *w > 0;
                sum += value * weight;
                *magnitude += fabs(value * weight);
            }
    return sum;
}

/* --- cases -------------------------------------------------------------------------------------- */

static qg__geometry square(int h, int w, int c, int oc, int kernel, int stride, int pad)
{
    return (qg__geometry){ .h = h, .w = w, .c = c, .oc = oc, .kh = kernel, .kw = kernel, .stride = stride, .top = pad, .left = pad,
                           .oh = (h + 2 * pad - kernel) / stride + 1, .ow = (w + 2 * pad - kernel) / stride + 1 };
}

typedef struct operand_set {
    float *x, *w;           /* numbers; w minus the zero points */
    void  *coded, *packed;
} operand_set;

/* Outputs as threads may pack them: the last unit first.  o < 0: begins, or has ended. */
static int packed_after(const qg__product *p, int o)
{
    const int unit = qg__product_pack_unit(p);
    if (o < 0) return (p->g.oc - 1) / unit * unit;
    if ((o + 1) % unit && o + 1 < p->g.oc) return o + 1;
    return o / unit * unit - unit;
}

/* Packs rows whose zero points come first, and makes numbers of them: [oc] of 1 + row to [oc] of row. */
static void pack_with_zeros(const qg__product *p, size_t row, uint64_t key, float *w, void *packed)
{
    float *codes = drawn(p->w, key, 1 + row);
    for (int o = packed_after(p, -1); o >= 0; o = packed_after(p, o)) {
        float *own = w + (size_t)o * row;
        codes[0]   = o % 5 ? draw(p->w, key + 1, (size_t)o) : o % 2 ? 0 : (float)(p->w.count - 1);
        memcpy(codes + 1, own, row * sizeof *own);
        qg__product_pack(qg__infer_isa(), p, o, codes, packed);
        for (size_t i = 0; i < row; i++) own[i] -= codes[0];
    }
    free(codes);
}

static operand_set operands_of(const qg__product *p, int n, uint64_t key)
{
    const size_t row = qg__taps(&p->g) * (size_t)(p->g.c / p->groups), pixels = (size_t)n * qg__pixels(&p->g);
    operand_set  s   = { .x = drawn(p->x, key, pixels * (size_t)p->g.c),
                         .w = drawn(p->w, key + 1, row * (size_t)p->g.oc) };
    s.coded          = coded(p, pixels, s.x);
    s.packed         = room(qg__product_weight_bytes(qg__infer_isa(), p));
    if (p->zeros) pack_with_zeros(p, row, key + 2, s.w, s.packed);
    else
        for (int o = packed_after(p, -1); o >= 0; o = packed_after(p, o))
            qg__product_pack(qg__infer_isa(), p, o, s.w + (size_t)o * row, s.packed);
    return s;
}

static void release(operand_set s) { free(s.x), free(s.w), free(s.coded), free(s.packed); }

/* Scratch of exactly the size that it reports, and a byte of guard. */
static void run(const qg__product *p, int n, const void *x, const void *packed, void *acc)
{
    const size_t bytes   = qg__product_scratch_bytes(qg__infer_isa(), p, n);
    uint8_t     *scratch = room(bytes);
    qg__product_run(qg__infer_isa(), p, n, x, packed, acc, scratch);
    assert_int_equal(scratch[bytes], 0xA5);
    free(scratch);
}

static size_t image_bytes(const qg__product *p)
{
    switch (qg__product_coding(p)) {
    case QG__AS_BITS:
        return qg__bit_words(qg__alphabet_of(p->x), qg__pixels(&p->g), p->g.c) * sizeof(uint64_t);
    case QG__AS_BYTES: return qg__pixels(&p->g) * (size_t)p->g.c;
    case QG__AS_FLOATS: break;
    }
    return qg__pixels(&p->g) * (size_t)p->g.c * sizeof(float);
}

/* Every image alone has the bits that it has in the batch. */
static void check_alone(const qg__product *p, int n, const operand_set *s, const uint32_t *acc)
{
    const size_t results = qg__results(&p->g) * (size_t)p->g.oc;
    uint32_t    *alone   = room(2 * results * sizeof *alone);
    for (int m = 0; n > 1 && m < n; m += 1 + n / 3) {
        run(p, 1, (const uint8_t *)s->coded + (size_t)m * image_bytes(p), s->packed, alone);
        for (int side = 0; side <= p->two_sided; side++)
            assert_memory_equal(alone + (size_t)side * results,
                                acc + ((size_t)side * (size_t)n + (size_t)m) * results,
                                results * sizeof *acc);
    }
    free(alone);
}

/* Against the definition: exactly in integers, and in floats within 1e-5 of the sum of absolute terms. */
static void check_values(const qg__product *p, int n, const operand_set *s, const void *acc, const char *text)
{
    const qg__geometry *g     = &p->g;
    const size_t        image = qg__pixels(g) * (size_t)g->c;
    size_t              at    = 0;
    for (int side = 0; side <= p->two_sided; side++)
        for (int m = 0; m < n; m++)
            for (int r = 0; r < g->oh; r++)
                for (int q = 0; q < g->ow; q++)
                    for (int o = 0; o < g->oc; o++, at++) {
                        double       magnitude;
                        const double want  = sum_of(p, side, s->x + (size_t)m * image, s->w, r, q, o,
                                                    &magnitude);
                        const bool   exact = qg__product_is_exact(p);
                        const double got   = exact ? ((const int32_t *)acc)[at]
                                                   : (double)((const float *)acc)[at];
                        if (!(fabs(got - want) <= (exact ? 0 : 1e-5 * magnitude)))
                            fail_msg("%s: image %d, output %d %d %d, side %d is %.9g instead of %.9g", text,
                                     m, r, q, o, side, got, want);
                    }
}

static void check(const qg__product *p, int n, uint64_t key)
{
    const size_t   results = (size_t)n * qg__results(&p->g) * (size_t)p->g.oc * (p->two_sided ? 2 : 1);
    const qg_isa   widest  = widest_path();
    assert_true(qg__product_fits(p));
    uint32_t *acc = room((results + 1) * sizeof *acc);
    for (int path = 0; path <= (int)widest; path++) {
        char text[256];
        snprintf(text, sizeof text,
                 "path %d, case %d: x %d:%d:%d, w %d:%d:%d%s, %d x %d x %d -> %d, kernel %d, stride %d, "
                 "groups %d, pad %d of %g",
                 path, (int)key, p->x.lowest, p->x.step, p->x.count, p->w.lowest, p->w.step, p->w.count,
                 p->zeros ? " - zero" : "", p->g.h, p->g.w, p->g.c, p->g.oc, p->g.kh, p->g.stride, p->groups,
                 p->g.top, (double)p->pad);
        use_path(path);
        const operand_set s = operands_of(p, n, key);
        acc[results]        = 0xA5A5A5A5;
        run(p, n, s.coded, s.packed, acc);
        assert_int_equal(acc[results], 0xA5A5A5A5);
        check_values(p, n, &s, acc, text);
        check_alone(p, n, &s, acc);
        release(s);
    }
    free(acc);
}

/* --- tests -------------------------------------------------------------------------------------- */

static void all_pairs_of_operands_agree_with_the_definition(void **state)
{
    static const int channels[] = { 1, 3, 31, 33, 63, 65 };
    uint64_t         key        = 0;
    for (int x = 0; x < OPERANDS; x++)
        for (int w = 0; w < OPERANDS; w++, key++) {
            const int c = channels[key % 6], oc = channels[(key / 6 + key) % 6];
            check(&(qg__product){ .g = square(3, 4, c, oc, 3, 1 + (int)key % 2, (int)key % 3),
                                  .groups = 1,
                                  .x = operands[x],
                                  .w = operands[w] },
                  1 + (int)key % 3, key);
        }
}

/* Floats, bits and bytes as x, with the weights that choose each kernel. */
static const qg__codes pairs[][2] = {
    { { 0, 0, 0 }, { 0, 0, 0 } },   { { 0, 0, 0 }, { -1, 2, 2 } },   { { 0, 0, 0 }, { -1, 1, 3 } },   { { 0, 0, 0 }, { -127, 1, 255 } },
    { { -1, 2, 2 }, { -1, 2, 2 } }, { { -1, 2, 2 }, { -1, 1, 3 } },  { { 0, 1, 4 }, { -3, 2, 4 } },   { { -8, 1, 16 }, { -1, 1, 3 } },
    { { 0, 1, 256 }, { -1, 1, 3 } }, { { -128, 1, 256 }, { -127, 1, 255 } }, { { -1, 2, 2 }, { -255, 2, 256 } },
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

/* All shapes of windows, batches, groups and padding. */
static void all_shapes_agree_with_the_definition(void **state)
{
    static const int kernels[] = { 1, 3, 5 };
    /* c, oc, groups; the last ones have a channel per group. */
    static const int widths[][3] = { { 1, 3, 1 },  { 3, 31, 1 },   { 33, 1, 1 },   { 63, 65, 1 },
                                     { 62, 6, 2 }, { 66, 66, 2 },  { 63, 9, 3 },   { 195, 33, 3 },
                                     { 3, 3, 3 },  { 31, 31, 31 }, { 65, 65, 65 }, { 33, 66, 33 } };
    uint64_t         key = 1000;
    for (int i = 0; i < PAIRS; i++)
        for (int width = 0; width < 12; width++, key++) {
            const int        k    = kernels[key % 3], pad = (int)(key / 2 % 3);
            const qg__codes  x    = pairs[i][0];
            const float      edge = !x.count ? 0.5f : (float)qg__highest(x);
            qg__product      p    = { .g = square(5, 6, widths[width][0], widths[width][1], k, 1 + (int)(key / 3 % 2), pad),
                                      .groups = widths[width][2], .x = x, .w = pairs[i][1], .pad = key % 2 ? edge : 0 };
            if (x.count && qg__product_is_exact(&p) && key % 4 == 1) p.pad = (float)x.lowest;
            if (p.g.oh && p.g.ow) check(&p, 1 + (int)key % 9, key);
        }
}

/* Each output has a zero point: codes of 2 to 8 bits, some of which fill no alphabet and no byte. */
static void zero_points_of_outputs_agree_with_the_definition(void **state)
{
    static const int counts[] = { 2, 3, 4, 7, 15, 16, 17, 128, 129, 255, 256 };
    static const int widths[][3] = { { 1, 3, 1 },  { 33, 31, 1 },  { 63, 65, 1 },  { 64, 64, 1 },
                                     { 62, 6, 2 }, { 195, 33, 3 }, { 65, 65, 65 }, { 33, 66, 33 } };
    uint64_t         key = 5000;
    for (int w = 0; w < 11; w++)
        for (int x = 0; x < OPERANDS; x++, key++) {
            const int   width = (int)key % 8, k = 1 + 2 * (int)(key / 3 % 2), pad = (int)(key % 3) * (k > 1);
            qg__product p = { .g = square(4, 5, widths[width][0], widths[width][1], k, 1 + (int)key % 2, pad),
                              .groups = widths[width][2],
                              .x = operands[x],
                              .w = { 0, 1, counts[w] },
                              .zeros = true };
            if (key % 4 == 0) p.pad = operands[x].count ? (float)qg__highest(operands[x]) : 0.5f;
            assert_int_not_equal(qg__product_coding(&p), QG__AS_BITS);
            check(&p, 1 + (int)key % 5, key);
        }
    for (int x = 0; x < OPERANDS; x++)
        for (int n = 1; n <= 9; n += 8, key++)      /* dense, of images of one pixel and of several */
            check(&(qg__product){ .g = x % 2 ? square(1, 1, 300, 33, 1, 1, 0) : (qg__geometry){ 3, 5, 20, 1, 1, 33, 3, 5, 1, 0, 0 },
                                  .groups = 1, .x = operands[x], .w = { 0, 1, 256 }, .zeros = true }, n, key);
}

/* With a channel per group, lines of every length, weights of more than 16 bits, and x whose zero point is at
 * either end. */
static void products_of_a_channel_agree_with_the_definition(void **state)
{
    static const qg__codes ws[] = { { -128, 1, 256 }, { -32767, 1, 200 }, { -32768, 300, 220 },
                                    { -40000, 400, 201 } },
                           xs[] = { { 0, 1, 256 }, { -255, 1, 256 }, { -100, 1, 256 } };
    for (int i = 0; i < 24; i++) {
        const int c = i % 2 ? 35 : 16;
        check(&(qg__product){ .g = square(3 + i % 3, 2 + i, c, c, 3, 1 + i / 12, 1), .groups = c,
                              .x = xs[i % 3], .w = ws[i % 4] },
              1 + i % 2 * 9, 6000 + (uint64_t)i);
    }
}

static void two_sides_have_sums_of_their_own(void **state)
{
    const qg__codes ternary = { -1, 1, 3 }, xs[] = { floats, { -1, 2, 2 }, { 0, 1, 4 }, { 0, 1, 256 } };
    static const int widths[][2] = { { 9, 1 }, { 66, 2 }, { 63, 3 }, { 18, 18 } };      /* c, groups */
    for (int i = 0; i < 16; i++)
        check(&(qg__product){ .g = square(4, 5, widths[i / 4][0], 18, 3, 1 + i % 2, 1),
                              .groups = widths[i / 4][1],
                              .x = xs[i % 4],
                              .w = ternary,
                              .two_sided = true },
              1 + i % 5, 2000 + (uint64_t)i);
}

/* Long rows and a batch whose images are one pixel. */
static void dense_products_agree_with_the_definition(void **state)
{
    for (int i = 0; i < PAIRS; i++)
        for (int n = 1; n <= 9; n += 4)
            check(&(qg__product){ .g = square(1, 1, 700, 65, 1, 1, 0),
                                  .groups = 1,
                                  .x = pairs[i][0],
                                  .w = pairs[i][1] },
                  n, 3000 + (uint64_t)i);
}

/* Of images of several pixels, whose bits do not fill words, and whose last ones may fill them partly.
 * Nothing reads the padding. */
static void dense_products_of_images_agree_with_the_definition(void **state)
{
    static const int channels[] = { 1, 3, 31, 33, 63, 64, 65, 128 };
    for (int i = 0; i < PAIRS * 8; i++) {
        const qg__codes x = pairs[i / 8][0];
        check(&(qg__product){ .g = { .h = 3, .w = 5, .c = channels[i % 8], .oh = 1, .ow = 1, .oc = 11, .kh = 3, .kw = 5, .stride = 1 + i % 2 },
                              .groups = 1, .x = x, .w = pairs[i / 8][1], .pad = i % 3 && x.count ? (float)qg__highest(x) : 0 },
              1 + i % 4 * 15, 4000 + (uint64_t)i);
    }
}

/* Sums of floats have the same bits in any tile: for each size of a row of outputs, and at its other
 * places. */
static void sums_of_floats_do_not_depend_on_the_tile(void **state)
{
    for (int groups = 1; groups <= 24; groups += 23)
        for (int path = 0; path <= (int)widest_path(); path++) {
            use_path(path);
            const qg__product wide = { .g = square(1, 40, 24, 24, 1, 1, 0), .groups = groups };
            const operand_set s    = operands_of(&wide, 1, 7);
            float             all[40 * 24], some[40 * 24];
            run(&wide, 1, s.coded, s.packed, all);
            for (int w = 1; w < 40; w++) {
                const qg__product p = { .g = square(1, w, 24, 24, 1, 1, 0), .groups = groups };
                run(&p, 1, (const float *)s.coded + (40 - w) * 24, s.packed, some);
                assert_memory_equal(some, all + (40 - w) * 24, (size_t)w * 24 * sizeof *some);
            }
            release(s);
        }
}

static void sums_of_signs_and_ternary_weights_have_the_same_bits_everywhere(void **state)
{
    for (int w = 1; w < 3; w++) {
        const qg__product p = { .g = square(5, 5, 33, 31, 3, 1, 1), .groups = 1, .w = operands[w] };
        float             first[25 * 31], other[25 * 31];
        for (int path = 0; path <= (int)widest_path(); path++) {
            use_path(path);
            const operand_set s = operands_of(&p, 1, 11);
            run(&p, 1, s.coded, s.packed, path ? other : first);
            if (path) assert_memory_equal(first, other, sizeof first);
            release(s);
        }
    }
}

static void codes_choose_their_coding(void **state)
{
    const qg__geometry g = square(3, 3, 8, 8, 3, 1, 1);
    const struct {
        qg__codes  x, w;
        qg__coding coding;
    } rows[] = {
        { floats, floats, QG__AS_FLOATS },           { floats, { -1, 2, 2 }, QG__AS_FLOATS },     { { -1, 2, 2 }, floats, QG__AS_FLOATS },
        { { -1, 2, 2 }, { -1, 1, 3 }, QG__AS_BITS }, { { 0, 1, 16 }, { -15, 2, 16 }, QG__AS_BITS }, { { 0, 1, 17 }, { -1, 2, 2 }, QG__AS_BYTES },
        { { -1, 2, 2 }, { 0, 1, 17 }, QG__AS_BYTES }, { { -127, 2, 128 }, { -255, 2, 256 }, QG__AS_BYTES },
        { { -255, 2, 256 }, { -1, 2, 2 }, QG__AS_FLOATS }, { { 1, 1, 200 }, { -1, 2, 2 }, QG__AS_FLOATS }, { { 0, 1, 256 }, { 0, 1, 257 }, QG__AS_FLOATS },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const qg__product p = { .g = g, .groups = 1, .x = rows[i].x, .w = rows[i].w };
        assert_int_equal(qg__product_coding(&p), rows[i].coding);
        assert_int_equal(qg__product_is_exact(&p), rows[i].coding != QG__AS_FLOATS);
        assert_true(qg__product_fits(&p));
    }
    const struct {
        qg__codes    codes;
        qg__alphabet alphabet;
    } of[] = { { { -1, 2, 2 }, { QG__ODD, 1 } },  { { -1, 1, 3 }, { QG__TERNARY, 2 } }, { { 0, 1, 3 }, { QG__UNSIGNED, 2 } },
               { { 0, 1, 2 }, { QG__UNSIGNED, 1 } }, { { -2, 1, 4 }, { QG__SIGNED, 2 } }, { { -3, 1, 7 }, { QG__SIGNED, 3 } },
               { { -1, 2, 3 }, { QG__ODD, 2 } },  { { -2, 2, 3 }, { QG__SIGNED, 3 } },  { { 0, 1, 1 }, { QG__UNSIGNED, 1 } },
               { { 0, 1, 17 }, { QG__ODD, 0 } },  { floats, { QG__ODD, 0 } } };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const qg__alphabet a = qg__alphabet_of(of[i].codes);
        assert_int_equal(a.bits, of[i].alphabet.bits);
        assert_int_equal(a.kind, of[i].alphabet.kind);
    }
}

static void refuses_what_does_not_fit(void **state)
{
    const qg__product good = {
        .g = square(3, 3, 8, 8, 3, 1, 1), .groups = 2, .x = { -1, 2, 2 }, .w = { -1, 1, 3 }
    };
    qg__product       p    = good;
    assert_true(qg__product_fits(&p));
    p.groups = 3;
    assert_false(qg__product_fits(&p));
    p.groups = 0;
    assert_false(qg__product_fits(&p));
    p = good, p.g.stride = 0;
    assert_false(qg__product_fits(&p));
    p = good, p.pad = 0.5f;
    assert_false(qg__product_fits(&p));
    p.pad = 3;
    assert_false(qg__product_fits(&p));
    p.pad = NAN;
    assert_false(qg__product_fits(&p));
    p.pad = -1;
    assert_true(qg__product_fits(&p));
    p.x = floats, p.pad = 0.5f;
    assert_true(qg__product_fits(&p));
    p = good, p.x.step = 0;
    assert_false(qg__product_fits(&p));
    p = good, p.w.count = -1;
    assert_false(qg__product_fits(&p));
    const qg__codes zeros[] = { { 0, 1, 256 },  { 0, 1, 1 },   { 0, 1, 257 },
                                { -1, 1, 256 }, { 0, 2, 128 }, { 0, 0, 0 } };
    for (int i = 0; i < 6; i++) {
        p = good, p.zeros = true, p.w = zeros[i];
        assert_int_equal(qg__product_fits(&p), i < 2);
    }
    p = good, p.two_sided = p.zeros = true;
    assert_false(qg__product_fits(&p));
    p = good, p.w.lowest = INT32_MIN;
    assert_false(qg__product_fits(&p));
    p = good, p.two_sided = true;
    assert_true(qg__product_fits(&p));
    p.w.count = 2;
    assert_false(qg__product_fits(&p));
}

static void refuses_sums_that_do_not_fit(void **state)
{
    qg__product p = { .g = square(1, 1, INT32_MAX / (255 * 128), 1, 1, 1, 0),
                      .groups = 1,
                      .x = { 0, 1, 256 },
                      .w = { -128, 1, 256 } };
    assert_true(qg__product_fits(&p));
    p.g.c++;
    assert_false(qg__product_fits(&p));
    p.x = floats;
    assert_true(qg__product_fits(&p));
    p.x = p.w = (qg__codes){ -15, 2, 16 };
    p.g.c     = 1 << 22;
    assert_false(qg__product_fits(&p));
    p.w = (qg__codes){ 0, 1, 1 }, p.x = (qg__codes){ 0, 1, 256 };
    assert_true(qg__product_fits(&p));
}

/* The sum with the largest terms does not overflow. */
static void the_longest_sums_are_exact(void **state)
{
    const int c = INT32_MAX / (255 * 255);
    for (int end = 0; end < 2; end++)
        for (int path = 0; path <= (int)widest_path(); path++) {
            use_path(path);
            const qg__product p      = {
                .g = square(1, 1, c, 1, 1, 1, 0), .groups = 1, .x = { 0, 1, 256 }, .w = { -255, 2, 256 }
            };
            float            *w      = room((size_t)c * sizeof *w);
            uint8_t *x = room((size_t)c), *packed = room(qg__product_weight_bytes(qg__infer_isa(), &p));
            int32_t           acc    = 0;
            assert_true(qg__product_fits(&p));
            memset(x, 255, (size_t)c);
            for (int k = 0; k < c; k++) w[k] = end ? 255 : -255;
            qg__product_pack(qg__infer_isa(), &p, 0, w, packed);
            run(&p, 1, x, packed, &acc);
            assert_int_equal(acc, (end ? 1 : -1) * 255 * 255 * c);
            free(w), free(x), free(packed);
        }
}

static void check_scale(int c, size_t pixels, bool exact, bool two)
{
    enum { GUARD = 16 };
    const size_t n = pixels * (size_t)c;
    qg__product  p = { .g = square(1, 1, 8, c, 1, 1, 0), .groups = 1, .w = { -1, 1, 3 }, .two_sided = two };
    if (exact) p.x = (qg__codes){ 0, 1, 256 };
    float   *a = drawn(floats, 1, (size_t)c), *an = drawn(floats, 2, (size_t)c),
            *b = drawn(floats, 3, (size_t)c), *reals = drawn(floats, 4, 2 * n);
    int32_t *sums = room(2 * n * sizeof *sums);
    float   *z    = room((n + GUARD) * sizeof *z);
    for (size_t k = 0; k < 2 * n; k++) sums[k] = (int32_t)(uint32_t)qg_bits(5, k) >> (k % 20);
    for (size_t k = 0; k < GUARD; k++) z[n + k] = 7;
    qg__product_scale(qg__infer_isa(), &p, (qg__scales){ a, an, b }, pixels, exact ? (void *)sums : reals, z);
    for (size_t k = 0; k < n; k++) {
        volatile float positive = a[k % (size_t)c] * (exact ? (float)sums[k] : reals[k]);
        volatile float negative = an[k % (size_t)c] * (exact ? (float)sums[n + k] : reals[n + k]);
        volatile float sum      = two ? positive - negative : positive;
        assert_true(z[k] == sum + b[k % (size_t)c]);
    }
    for (size_t k = 0; k < GUARD; k++) assert_true(z[n + k] == 7);
    QG_INFER_KERNELS(qg__float_kernels)->scale(false, pixels, c, a, NULL, b, reals, NULL, reals);
    float *again = drawn(floats, 4, 2 * n);
    for (size_t k = 0; k < n; k++) {
        volatile float product = a[k % (size_t)c] * again[k];
        assert_true(reals[k] == product + b[k % (size_t)c]);
    }
    free(a), free(an), free(b), free(reals), free(sums), free(z), free(again);
}

/* Each product and sum is rounded by itself, on every instruction set.  Channels that fill vectors, that do
 * so for several pixels together, and that are too many for that. */
static void scales_are_not_contracted(void **state)
{
    static const int    widths[] = { 48, 61, 96, 100, 129, 300 };
    static const size_t pixels[] = { 1, 2, 7, 90 };
    for (int path = 0; path <= (int)widest_path(); path++)
        for (int c = 1; c <= 34 + 6; c++)
            for (int i = 0; i < 16; i++) {
                use_path(path);
                check_scale(c <= 34 ? c : widths[c - 35], pixels[i / 4], i & 1, i & 2);
            }
}

#define WITH_PATHS(test) cmocka_unit_test_teardown(test, restore_variables)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PATHS(all_pairs_of_operands_agree_with_the_definition),
        WITH_PATHS(all_shapes_agree_with_the_definition),
        WITH_PATHS(zero_points_of_outputs_agree_with_the_definition),
        WITH_PATHS(products_of_a_channel_agree_with_the_definition),
        WITH_PATHS(two_sides_have_sums_of_their_own),
        WITH_PATHS(dense_products_agree_with_the_definition),
        WITH_PATHS(dense_products_of_images_agree_with_the_definition),
        WITH_PATHS(sums_of_floats_do_not_depend_on_the_tile),
        WITH_PATHS(sums_of_signs_and_ternary_weights_have_the_same_bits_everywhere),
        WITH_PATHS(codes_choose_their_coding),
        WITH_PATHS(refuses_what_does_not_fit),
        WITH_PATHS(refuses_sums_that_do_not_fit),
        WITH_PATHS(the_longest_sums_are_exact),
        WITH_PATHS(scales_are_not_contracted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
