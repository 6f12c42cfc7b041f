/* The kernels of the engine against loops over the definition, on every instruction set that the machine
 * has. */
#include <float.h>
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

/* With the lanes of AVX-512 on what has but AVX2; see the Makefile. */
extern const qg__bit_kernels   qg__bit_kernels_sixteen;
extern const qg__plain_kernels qg__int8_kernels_sixteen, qg__real_kernels_sixteen;
extern const qg__float_kernels qg__float_kernels_sixteen;
extern const qg__requantize_kernels qg__requantize_kernels_sixteen;

typedef struct table {
    const char              *isa;
    const qg__plain_kernels *bits, *int8, *real;
    const qg__float_kernels *floats;
    const qg__requantize_kernels *codes;
} table;

#define TABLE(isa)                                                                                           \
    {                                                                                                        \
#isa, &qg__bit_kernels_##isa.plain, &qg__int8_kernels_##isa, &qg__real_kernels_##isa,                \
            &qg__float_kernels_##isa, &qg__requantize_kernels_##isa                                          \
    }

/* Those that this machine can run, the widest last. */
enum { TABLES = 4 };

static int tables_of(table of[TABLES])
{
    int n = 0;
    of[n++] = (table)TABLE(baseline);
#if defined(__x86_64__)
    if (widest_path() < QG_ISA_AVX2) return n;
    of[n++] = (table)TABLE(avx2);
    of[n++] = (table)TABLE(sixteen);
    if (widest_path() >= QG_ISA_AVX512 && __builtin_cpu_supports("avx512vpopcntdq") &&
        __builtin_cpu_supports("avx512vnni"))
        of[n++] = (table)TABLE(avx512);
#endif
    return n;
}

/* --- cases ------------------------------------------------------------------------------------ */

/* n, h w c, oc, kh kw, stride, top left, and rows and columns that the windows go on for behind a symmetric
 * padding.  Channels beside and on every length of words, steps, groups and vectors; tiles of every size,
 * along rows, columns and batches; windows that are partly and completely outside. */
static const int cases[][12] = {
    { 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0 },   { 2, 5, 4, 3, 5, 3, 3, 1, 1, 1, 0, 0 },
    { 1, 6, 7, 31, 33, 3, 3, 2, 1, 1, 0, 0 }, { 3, 4, 4, 33, 31, 3, 3, 1, 2, 2, 0, 0 },
    { 1, 5, 9, 63, 3, 3, 2, 1, 0, 1, 0, 0 },  { 2, 3, 17, 65, 65, 1, 3, 1, 0, 1, 0, 0 },
    { 1, 16, 16, 64, 64, 3, 3, 1, 1, 1, 0, 0 }, { 2, 5, 6, 24, 19, 3, 5, 1, 1, 2, 0, 0 },
    { 1, 17, 3, 8, 63, 3, 1, 1, 1, 0, 0, 0 },
    { 3, 1, 1, 65, 10, 1, 1, 1, 0, 0, 0, 0 }, { 90, 1, 1, 20, 9, 1, 1, 1, 0, 0, 0, 0 },
    { 2, 7, 7, 12, 16, 2, 2, 2, 0, 0, 1, 1 }, { 1, 2, 2, 4, 2, 5, 5, 1, 2, 2, 0, 0 },
    { 1, 3, 3, 5, 4, 2, 2, 3, 4, 3, 2, 3 },   { 2, 14, 12, 130, 40, 3, 3, 1, 1, 1, 0, 0 },
    { 1, 8, 9, 16, 17, 4, 3, 2, 0, 1, 1, 0 }, { 1, 1, 40, 7, 96, 1, 5, 1, 0, 2, 0, 0 },
    { 3, 4, 1, 32, 5, 2, 3, 1, 1, 1, 0, 0 },  { 1, 9, 8, 96, 33, 3, 3, 2, 1, 1, 1, 1 },
    { 2, 1, 1, 8, 3, 3, 3, 1, 1, 1, 0, 0 },   { 1, 3, 3, 16, 4, 2, 3, 3, 4, 2, 2, 2 },
    { 1, 1, 1, 144, 149, 1, 1, 1, 0, 0, 0, 0 }, { 1, 2, 2, 50, 73, 1, 1, 1, 0, 0, 0, 0 },
};
enum { CASES = sizeof cases / sizeof *cases };

static qg__geometry geometry_of(const int s[12])
{
    return (qg__geometry){
        .h = s[1], .w = s[2], .c = s[3], .oc = s[4], .kh = s[5], .kw = s[6], .stride = s[7], .top = s[8], .left = s[9],
        .oh = (s[1] + s[10] + 2 * s[8] - s[5]) / s[7] + 1, .ow = (s[2] + s[11] + 2 * s[9] - s[6]) / s[7] + 1,
    };
}

/* --- memory ----------------------------------------------------------------------------------- */

enum { GUARD = 64, POISON = 0xA5 };

/* Aligned memory of exactly so many bytes between guards; ASan and valgrind see reads past the end of
 * exact(). */
typedef struct region {
    uint8_t *block, *at;
    size_t   n;
} region;

static region guarded_bytes(size_t n)
{
    region r = { .n = n };
    r.block  = aligned_alloc(GUARD, qg__lines_of(n) + 3 * GUARD);
    assert_non_null(r.block);
    memset(r.block, POISON, qg__lines_of(n) + 3 * GUARD);
    r.at = r.block + GUARD;
    return r;
}

static void check_guards(region r)
{
    for (int i = 0; i < GUARD; i++) {
        assert_int_equal(r.block[i], POISON);
        assert_int_equal(r.at[r.n + (size_t)i], POISON);
    }
    free(r.block);
}

static void *exact(size_t n)
{
    void *p = malloc(n ? n : 1);
    assert_non_null(p);
    return p;
}

static void assert_same(const char *isa, const char *what, int number, const void *got, const void *want,
                        size_t n)
{
    const uint32_t *a = got, *b = want;
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i])
            fail_msg("%s, %s, case %d: output %zu of %zu is %08x instead of %08x", isa, what, number, i, n,
                     (unsigned)a[i], (unsigned)b[i]);
}

/* --- codes of 1 to 4 bits --------------------------------------------------------------------- */

static const qg__codes    SIGNS = { -1, 2, 2 }, TERNARY = { -1, 1, 3 };
static const qg__alphabet alphabets[] = {
    { QG__ODD, 1 },      { QG__TERNARY, 2 },  { QG__UNSIGNED, 1 }, { QG__UNSIGNED, 2 }, { QG__UNSIGNED, 3 },
    { QG__UNSIGNED, 4 }, { QG__SIGNED, 2 },   { QG__SIGNED, 3 },   { QG__SIGNED, 4 },   { QG__ODD, 2 },
    { QG__ODD, 3 },      { QG__ODD, 4 },
};
enum { ALPHABETS = sizeof alphabets / sizeof *alphabets };

/* Values of codes: drawn, or all the highest, or all the lowest, or drawn of these two. */
typedef enum draw { DRAWN, HIGHEST, LOWEST, ENDS } draw;

static int drawn(qg__codes c, draw how, uint64_t key, size_t i)
{
    const int code = how == HIGHEST  ? c.count - 1
                     : how == LOWEST ? 0
                     : how == ENDS   ? (int)(qg_bits(key, i) % 2) * (c.count - 1)
                                     : (int)(qg_bits(key, i) % (unsigned)c.count);
    return c.lowest + c.step * code;
}

static void fill_values(qg__alphabet a, draw how, size_t n, uint64_t key, int8_t *v)
{
    for (size_t i = 0; i < n; i++) v[i] = (int8_t)drawn(qg__codes_of(a), how, key, i);
}

static int16_t *wider(size_t n, const int8_t *v)
{
    int16_t *wide = exact(n * sizeof *wide);
    for (size_t i = 0; i < n; i++) wide[i] = v[i];
    return wide;
}

static float *as_floats(size_t n, const int8_t *v)
{
    float *x = exact(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = v[i];
    return x;
}

/* Each row in two pieces. */
#define PACK(k, p, w, packed)                                                                                \
    for (int o = 0; o < (p)->g.oc; o++) {                                                                    \
        const size_t row_ = qg__row(&(p)->g), piece_ = row_ / 3;                                             \
        (k)->pack_weights(p, o, 0, piece_, (w) + (size_t)o * row_, packed);                                  \
        (k)->pack_weights(p, o, piece_, row_ - piece_, (w) + (size_t)o * row_ + piece_, packed);             \
    }

/* Whether tap (i, j) of output (r, q) is inside the image, and which pixel it is. */
static bool inside(const qg__geometry *g, int r, int q, int i, int j, size_t *pixel)
{
    const int row = r * g->stride + i - g->top, column = q * g->stride + j - g->left;
    if (row < 0 || row >= g->h || column < 0 || column >= g->w) return false;
    *pixel = (size_t)row * (size_t)g->w + (size_t)column;
    return true;
}

static int32_t integer(const qg__geometry *g, int r, int q, const int16_t *x, const int16_t *w)
{
    int32_t sum = 0;
    size_t  pixel;
    for (int i = 0; i < g->kh; i++)
        for (int j = 0; j < g->kw; j++, w += g->c)
            if (inside(g, r, q, i, j, &pixel))
                for (int c = 0; c < g->c; c++) sum += w[c] * x[pixel * (size_t)g->c + (size_t)c];
    return sum;
}

/* acc[n][oh][ow][oc] by the definition, of x[n][h][w][c] and w[oc][kh][kw][c], both real integers: values of an alphabet, or codes
 * minus their zero points. */
static void integers_ref(const qg__geometry *g, int n, const int16_t *x, const int16_t *w, int32_t *acc)
{
    for (int m = 0; m < n; m++, x += qg__pixels(g) * (size_t)g->c)
        for (int r = 0; r < g->oh; r++)
            for (int q = 0; q < g->ow; q++)
                for (int o = 0; o < g->oc; o++) *acc++ = integer(g, r, q, x, w + (size_t)o * qg__row(g));
}

static float real(const qg__geometry *g, int r, int q, const float *x, const float *w)
{
    float  sum = 0;
    size_t pixel;
    for (int i = 0; i < g->kh; i++)
        for (int j = 0; j < g->kw; j++, w += g->c)
            if (inside(g, r, q, i, j, &pixel))
                for (int c = 0; c < g->c; c++) sum = fmaf(w[c], x[pixel * (size_t)g->c + (size_t)c], sum);
    return sum;
}

/* The same of floats, each sum a chain of fused multiply-adds in the order kernel row, column, channel. */
static void reals_ref(const qg__geometry *g, int n, const float *x, const float *w, float *y)
{
    for (int m = 0; m < n; m++, x += qg__pixels(g) * (size_t)g->c)
        for (int r = 0; r < g->oh; r++)
            for (int q = 0; q < g->ow; q++)
                for (int o = 0; o < g->oc; o++) *y++ = real(g, r, q, x, w + (size_t)o * qg__row(g));
}

static int32_t *expected_integers(const qg__geometry *g, int n, size_t n_x, const int8_t *x, size_t n_w,
                                  const int8_t *w)
{
    int16_t *wide_x = wider(n_x, x), *wide_w = wider(n_w, w);
    int32_t *acc = exact((size_t)n * qg__results(g) * (size_t)g->oc * sizeof *acc);
    integers_ref(g, n, wide_x, wide_w, acc);
    free(wide_x);
    free(wide_w);
    return acc;
}

static void check_bits(const int s[12], qg__alphabet w_of, qg__alphabet x_of, draw how_w, draw how_x, int number)
{
    const qg__plain_product p = qg__plain_of(geometry_of(s), qg__codes_of(x_of), qg__codes_of(w_of));
    const int               n = s[0];
    const qg__geometry *g   = &p.g;
    const size_t        row = qg__row(g), pixels = (size_t)n * qg__pixels(g),
                        results = (size_t)n * qg__results(g) * (size_t)g->oc;
    const size_t        n_x = pixels * (size_t)g->c, n_w = row * (size_t)g->oc,
                        words = qg__bit_words(p.xa, pixels, g->c);
    int8_t             *x = exact(n_x), *w = exact(n_w);
    uint64_t           *bits = exact(words * sizeof *bits);
    assert_true(qg__product_fits(&(qg__product){ .g = *g, .groups = 1, .x = p.x, .w = p.w }));
    fill_values(p.xa, how_x, n_x, 1 + (uint64_t)number, x);
    fill_values(p.wa, how_w, n_w, 1000 + (uint64_t)number, w);
    pack_values(p.xa, pixels, g->c, x, bits);
    int32_t *want = expected_integers(g, n, n_x, x, n_w, w);
    float   *floats = as_floats(n_w, w);
    table    of[TABLES];
    for (int t = 0, tables = tables_of(of); t < tables; t++) {
        const qg__plain_kernels *k     = of[t].bits;
        region packed = guarded_bytes(k->weight_bytes(&p)), scratch = guarded_bytes(k->scratch_bytes(&p, n));
        region                 acc     = guarded_bytes(results * sizeof(int32_t));
        PACK(k, &p, floats, packed.at)
        k->run(&p, n, bits, packed.at, acc.at, scratch.at);
        char what[64];
        snprintf(what, sizeof what, "w %d:%d, x %d:%d", (int)w_of.kind, w_of.bits, (int)x_of.kind, x_of.bits);
        assert_same(of[t].isa, what, number, acc.at, want, results);
        check_guards(packed);
        check_guards(scratch);
        check_guards(acc);
    }
    free(x);
    free(w);
    free(bits);
    free(want);
    free(floats);
}

/* Every pair of alphabets, each with another shape; and every shape with the pairs that nets have. */
static void products_of_bits_agree_with_the_definition(void **state)
{
    int number = 0;
    for (int w = 0; w < ALPHABETS; w++)
        for (int x = 0; x < ALPHABETS; x++, number++)
            check_bits(cases[1 + number % 7], alphabets[w], alphabets[x], DRAWN, DRAWN, number);
    const qg__alphabet pairs[][2] = { { { QG__ODD, 1 }, { QG__ODD, 1 } },
                                      { { QG__TERNARY, 2 }, { QG__ODD, 1 } },
                                      { { QG__TERNARY, 2 }, { QG__TERNARY, 2 } },
                                      { { QG__ODD, 1 }, { QG__UNSIGNED, 2 } },
                                      { { QG__ODD, 2 }, { QG__UNSIGNED, 2 } } };
    for (int i = 0; i < CASES; i++)
        for (int pair = 0; pair < 5; pair++)
            check_bits(cases[i], pairs[pair][0], pairs[pair][1], DRAWN, DRAWN, 1000 + 10 * i + pair);
}

/* The longest runs of additions of the largest numbers: over 256 moves of full bytes into 16 bits. */
static void products_of_bits_do_not_overflow(void **state)
{
    const int long_row[12] = { 2, 1, 1, 5000, 3, 1, 1, 1, 0, 0, 0, 0 },
              longer[12] = { 1, 1, 1, 70001, 2, 1, 1, 1, 0, 0, 0, 0 };
    const draw ends[2] = { HIGHEST, LOWEST };
    for (int i = 0; i < 4; i++) {
        for (int w = 0; w < ALPHABETS; w++)
            for (int x = 0; x < ALPHABETS; x += 1 + (w + i) % 3)
                check_bits(long_row, alphabets[w], alphabets[x], ends[i / 2], ends[i % 2], 100 * w + x);
        for (int w = 0; w < 2; w++)
            for (int x = 0; x < 2; x++)
                check_bits(longer, alphabets[w], alphabets[x], ends[i / 2], ends[i % 2], 2000 + i);
    }
}

static void refuses_products_whose_sums_might_not_fit(void **state)
{
    const qg__codes four = qg__codes_of((qg__alphabet){ QG__ODD, 4 });
    qg__product     p    = {
        .g = { .h = 1, .w = 1, .c = 1 << 19, .oh = 1, .ow = 1, .oc = 1, .kh = 1, .kw = 1, .stride = 1 },
        .groups = 1, .x = four, .w = four
    };
    assert_true(qg__product_fits(&p));
    p.g.c = (1 << 21) + 1;
    assert_false(qg__product_fits(&p));
    p.w = p.x = SIGNS;
    assert_true(qg__product_fits(&p));
    qg__geometry good = geometry_of(cases[2]), bad = good;
    assert_true(qg__geometry_valid(&good));
    bad.stride = 0;
    assert_false(qg__geometry_valid(&bad));
    bad = good, bad.top = -1;
    assert_false(qg__geometry_valid(&bad));
    bad = good, bad.h = bad.w = 1 << 16;
    assert_false(qg__geometry_valid(&bad));
    bad = good, bad.oh = bad.stride = 1 << 15;
    assert_false(qg__geometry_valid(&bad));
    bad = good, bad.c = bad.oc = 1 << 15;
    assert_false(qg__geometry_valid(&bad));
}

/* Weights of 8 bits. */
#define EIGHT { -128, 1, 256 }

static size_t weight_bytes(const qg__plain_kernels *k, qg__geometry g, qg__codes x, qg__codes w)
{
    const qg__plain_product p = qg__plain_of(g, x, w);
    return k->weight_bytes(&p);
}

/* Where channels fill words and outputs fill vectors, a weight takes one bit per plane, or 4 bits if bytes or
 * floats are multiplied with codes of 3 or 4 bits. */
static void packed_weights_take_their_bits(void **state)
{
    const int s[12] = { 1, 8, 8, 128, 64, 3, 3, 1, 1, 1, 0, 0 };
    table     of[TABLES];
    for (int t = 0, tables = tables_of(of); t < tables; t++) {
        const qg__geometry g     = geometry_of(s);
        const qg__codes    eight = EIGHT, none = { 0 };
        assert_int_equal(weight_bytes(of[t].bits, g, SIGNS, TERNARY), 2 * 64 * 9 * 128 / 8);
        assert_int_equal(weight_bytes(of[t].real, g, none, SIGNS), 64 * 9 * 128 / 8);
        assert_int_equal(weight_bytes(of[t].int8, g, eight, eight), 64 * 9 * 128);
        assert_int_equal(weight_bytes(of[t].int8, g, eight, TERNARY), 2 * 64 * 9 * 128 / 8);
        for (int bits = 3; bits <= 4; bits++) {
            const qg__codes w = { 0, 1, 1 << bits };
            assert_int_equal(weight_bytes(of[t].int8, g, eight, w), 64 * 9 * 128 / 2);
            assert_int_equal(weight_bytes(of[t].real, g, none, w), 64 * 9 * 128 / 2);
        }
        assert_int_equal(weight_bytes(of[t].real, g, none, eight), 64 * 9 * 128);
        assert_int_equal(weight_bytes(of[t].real, g, none, none), 64 * 9 * 128 * 4);
    }
}

/* --- codes of floats -------------------------------------------------------------------------- */

/* Codes that are 0.07 apart; thresholds are not exactly, as guesses allow. */
static qg__finder finder_of(qg__search search, int count, int least)
{
    static float threshold[QG__MOST_FOUND];
    qg__finder   f = { .threshold = threshold, .count = count, .search = search, .first = -0.3f,
                       .inverse = 1 / 0.07f, .scale = 0.07f, .lowest = -4, .least = least, .step = 1 };
    for (int u = 0; u < QG__MOST_FOUND; u++)
        threshold[u] = u < count - 1 ? -0.3f + 0.07f * (float)u + (float)(u % 3 - 1) * 0x1p-9f : NAN;
    memcpy(f.few, threshold, sizeof f.few);
    return f;
}

/* The code as infer/kernels/requantize.h defines it. */
static int stored_ref(const qg__finder *f, float x)
{
    float v    = f->search == QG__LINE       ? floorf((x - f->first) * f->inverse + 0.5f)
                 : f->search == QG__RATIO    ? floorf((x - f->first) / f->scale + 0.5f)
                 : f->search == QG__MULTIPLE ? rintf(x * f->inverse) - (float)f->lowest
                                             : rintf(x / f->scale) - (float)f->lowest;
    int   code = 0;
    if (f->search <= QG__GUESS)
        for (v = 0; v < (float)(f->count - 1) && x >= f->threshold[(int)v]; v++) {}
    if (v > 0) code = v < (float)(f->count - 1) ? (int)v : f->count - 1;
    if (x == x && code < f->least) code = f->least;
    return f->base + f->step * code;
}

/* Around every threshold and tie, far from all, not finite; as bytes and as bits. */
static void codes_of_floats_agree_with_the_definition(void **state)
{
    enum { MOST = 2 * 300 };
    static const int channels[] = { 1, 16, 31, 33, 64, 65, 130, 300 };
    static const float special[] = { 0.0f, -0.0f, INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX, 0x1p-149f };
    table of[TABLES];
    float x[MOST];
    for (int i = 0; i < MOST; i++)
        x[i] = i % 31 < 8 ? special[i % 31]
                          : (float)(i % 97 - 20) * 0.035f - 0.3f + (float)(i % 5 - 2) * 0x1p-9f;
    for (int t = 0, tables = tables_of(of); t < tables; t++)
        for (qg__search search = QG__BISECTION; search <= QG__QUOTIENT; search++)
            for (int a = 0; a < ALPHABETS; a++)
                for (int i = 0; i < 8; i++) {
                    const qg__alphabet abc = alphabets[a];
                    const int          c = channels[i], base = (a + i) % 2;
                    const size_t       n = 2 * (size_t)c, words = qg__bit_words(abc, 2, c);
                    const int          count = qg__values(abc) - base;
                    qg__finder         f = finder_of(search, count, i % 3 == 2 && count > 1);
                    uint64_t           want[MOST];
                    int8_t             values[MOST];
                    region             bits = guarded_bytes(words * sizeof *want), bytes = guarded_bytes(n);
                    f.base = base;
                    of[t].codes->find(&f, n, x, bytes.at);
                    of[t].codes->find_bits(&f, abc, 2, c, x, (uint64_t *)(void *)bits.at);
                    for (size_t k = 0; k < n; k++) {
                        const int number = stored_ref(&f, x[k]);
                        if (bytes.at[k] != number)
                            fail_msg("%s, search %d, %d codes: %g is %d, not %d", of[t].isa, (int)search,
                                     f.count, (double)x[k], bytes.at[k], number);
                        values[k] = (int8_t)(qg__lowest(abc) + qg__step(abc) * number);
                    }
                    pack_values(abc, 2, c, values, want);
                    assert_memory_equal(bits.at, want, bits.n);
                    check_guards(bits), check_guards(bytes);
                }
}

/* --- 8 bits ----------------------------------------------------------------------------------- */

typedef struct int8_case {
    int       x_zero;
    draw      how;
    qg__codes w;
} int8_case;

/* Floats with and without relu, and codes by each formula.  Sums of small products reach both ends of the
 * codes and much between. */
static void check_finished(const char *isa, const qg__plain_kernels *k, qg__plain_product p, int n,
                           const uint8_t *x, const void *packed, void *scratch, const int32_t *acc,
                           int number)
{
    const size_t oc = (size_t)p.g.oc, results = (size_t)n * qg__results(&p.g) * oc;
    float       *a = exact(oc * sizeof *a), *b = exact(oc * sizeof *b), *z = exact(results * sizeof *z);
    uint8_t     *codes = exact(results);
    for (size_t i = 0; i < oc; i++) {
        a[i] = (i % 3 ? 1.0f : -1.0f) / (float)(997 * (i + 3));
        b[i] = (float)i / 7 - 1.0f;
    }
    for (size_t i = 0; i < results; i++) {
        const float product = a[i % oc] * (float)acc[i];
        z[i]                = product + b[i % oc];
    }
    for (qg__search as = QG__COUNT; as <= QG__QUOTIENT + 2; as++) {
        const bool       finds = as <= QG__QUOTIENT, relu = as == QG__QUOTIENT + 2;
        const qg__finder find  = finder_of(as, as > QG__GUESS ? 200 : 16, number % 2 ? 9 : 0);
        const qg__finish finish = { a, b, finds ? &find : NULL, relu };
        region           y      = guarded_bytes(finds ? results : results * sizeof(float));
        p.finish = &finish;
        k->run(&p, n, x, packed, y.at, scratch);
        if (finds) {
            qg__requantize_kernels_baseline.find(&find, results, z, codes);
            assert_memory_equal(y.at, codes, results);
        } else {
            for (size_t i = 0; relu && i < results; i++) z[i] = z[i] < 0 ? 0 : z[i];
            assert_same(isa, "finished int8", number, y.at, z, results);
        }
        check_guards(y);
    }
    free(a), free(b), free(z), free(codes);
}

/* x of s[0] images, and weights that are codes of c. */
static void check_int8_of(const int s[12], int8_case c, const uint8_t *x, const int16_t *wide_w, int number)
{
    const qg__geometry g   = geometry_of(s);
    const int          n   = s[0];
    const size_t n_w = qg__row(&g) * (size_t)g.oc, n_x = (size_t)n * qg__pixels(&g) * (size_t)g.c;
    const size_t results = (size_t)n * qg__results(&g) * (size_t)g.oc;
    float       *w       = exact(n_w * sizeof *w);
    int16_t     *wide_x  = exact(n_x * sizeof *wide_x);
    int32_t     *want    = exact(results * sizeof *want);
    for (size_t i = 0; i < n_x; i++) wide_x[i] = (int16_t)(x[i] - c.x_zero);
    for (size_t i = 0; i < n_w; i++) w[i] = wide_w[i];
    integers_ref(&g, n, wide_x, wide_w, want);
    const qg__plain_product p = qg__plain_of(g, (qg__codes){ -c.x_zero, 1, 256 }, c.w);
    table of[TABLES];
    for (int t = 0, tables = tables_of(of); t < tables; t++) {
        const qg__plain_kernels *k     = of[t].int8;
        region packed = guarded_bytes(k->weight_bytes(&p)), scratch = guarded_bytes(k->scratch_bytes(&p, n));
        region                  acc    = guarded_bytes(results * sizeof(int32_t));
        PACK(k, &p, w, packed.at)
        k->run(&p, n, x, packed.at, acc.at, scratch.at);
        assert_same(of[t].isa, "int8", number, acc.at, want, results);
        check_finished(of[t].isa, k, p, n, x, packed.at, scratch.at, want, number);
        check_guards(packed);
        check_guards(scratch);
        check_guards(acc);
    }
    free(w), free(wide_x), free(want);
}

static void check_int8(const int s[12], int8_case c, int number)
{
    const qg__geometry g   = geometry_of(s);
    const size_t       n_w = qg__row(&g) * (size_t)g.oc, n_x = (size_t)s[0] * qg__pixels(&g) * (size_t)g.c;
    uint8_t           *x   = exact(n_x);
    int16_t           *w   = exact(n_w * sizeof *w);
    for (size_t i = 0; i < n_x; i++)
        x[i] = (uint8_t)drawn((qg__codes){ 0, 1, 256 }, c.how, (uint64_t)number, i);
    for (size_t i = 0; i < n_w; i++) w[i] = (int16_t)drawn(c.w, c.how, 99 + (uint64_t)number, i);
    check_int8_of(s, c, x, w, number);
    free(x), free(w);
}

static void products_of_8_bits_agree_with_the_definition(void **state)
{
    const int8_case kinds[] = { { 0, DRAWN, EIGHT },             { 128, DRAWN, EIGHT },            { 17, DRAWN, EIGHT },
                                { 17, DRAWN, { -31, 1, 256 } },  { 255, DRAWN, { -255, 2, 256 } }, { 127, DRAWN, { -5, 3, 99 } },
                                { 3, DRAWN, { -127, 2, 128 } } };
    enum { KINDS = sizeof kinds / sizeof *kinds };
    for (int i = 0; i < CASES; i++)
        for (int k = 0; k < KINDS; k++)
            if (every_combination() || (i + k) % 2) check_int8(cases[i], kinds[k], 10 * i + k);
}

static void products_of_8_bits_with_packed_weights_agree_with_the_definition(void **state)
{
    for (int i = 0; i < CASES; i++)
        for (int a = i % 3; a < ALPHABETS; a += 3)
            check_int8(cases[i],
                       (int8_case){ .x_zero = 7, .how = DRAWN, .w = qg__codes_of(alphabets[a]) },
                       10 * i + a);
    for (int a = 0; a < ALPHABETS; a++)
        for (int end = HIGHEST; end <= LOWEST; end++)
            for (int i = 0; i < 2; i++)         /* the second is dense */
                check_int8(cases[i ? CASES - 2 : 2],
                           (int8_case){ .x_zero = 255, .how = (draw)end, .w = qg__codes_of(alphabets[a]) },
                           a);
}

/* The largest products of the largest number of channels: x - x_zero and w are +-255. */
static void products_of_8_bits_do_not_overflow(void **state)
{
    const int       widest[12] = { 1, 1, 1, 33025, 3, 1, 1, 1, 0, 0, 0, 0 },
                    window[12] = { 1, 4, 4, 63, 5, 3, 3, 1, 1, 1, 0, 0 };
    const int8_case ends[] = { { 0, HIGHEST, { 0, 1, 256 } },     { 255, LOWEST, { -255, 1, 256 } }, { 0, HIGHEST, { -255, 2, 256 } },
                               { 255, LOWEST, { -255, 2, 256 } }, { 0, HIGHEST, EIGHT },             { 255, LOWEST, EIGHT } };
    for (int k = 0; k < 6; k++) {
        check_int8(widest, ends[k], k);
        check_int8(window, ends[k], k);
    }
}

/* Kernels of 3 x 3 and 5 x 5 with stride 1 and an even number of channels, which run on patches of 4 x 4
 * outputs: patches that end before, at and behind the outputs, in more than are computed at once; channels
 * in one part and in several; windows outside of the image. */
static const int patched[][12] = {
    { 7, 9, 11, 16, 20, 3, 3, 1, 1, 1, 0, 0 }, { 1, 32, 31, 8, 16, 3, 3, 1, 1, 1, 0, 0 },
    { 5, 8, 8, 64, 17, 3, 3, 1, 1, 1, 0, 0 }, { 1, 4, 5, 114, 9, 3, 3, 1, 2, 1, 1, 0 },
    { 2, 6, 6, 230, 33, 3, 3, 1, 0, 0, 0, 0 }, { 1, 3, 3, 10, 5, 3, 3, 1, 5, 2, 3, 1 },
    { 3, 12, 12, 32, 40, 5, 5, 1, 0, 0, 0, 0 }, { 2, 9, 10, 66, 17, 5, 5, 1, 2, 2, 0, 0 },
    { 1, 8, 4, 34, 4, 5, 5, 1, 4, 3, 2, 1 }, { 9, 8, 8, 14, 8, 5, 5, 1, 2, 2, 0, 0 },
};
enum { PATCHED = sizeof patched / sizeof *patched };

static void products_on_patches_agree_with_the_definition(void **state)
{
    const int8_case kinds[] = { { 0, DRAWN, EIGHT },         { 128, ENDS, EIGHT },
                                { 255, ENDS, { -5, 3, 99 } }, { 17, DRAWN, { -255, 2, 256 } },
                                { 3, DRAWN, { -1, 1, 3 } },  { 0, ENDS, { -15, 2, 16 } },
                                { 255, ENDS, { -127, 2, 128 } } };
    enum { KINDS = sizeof kinds / sizeof *kinds };
    for (int i = 0; i < PATCHED; i++)
        for (int k = 0; k < KINDS; k++)
            if (every_combination() || (i + k) % 2) check_int8(patched[i], kinds[k], 100 * i + k);
}

/* The largest results, of channels in several parts; and the largest numbers that the 36 points of a patch
 * have, in each of 36 images: x is 255 where it adds to the point, or where it subtracts, and weights have
 * the signs of the point. */
static void products_on_patches_do_not_overflow(void **state)
{
    static const int inputs[6][6] = { { 4, 0, -5, 0, 1, 0 },  { 0, -4, -4, 1, 1, 0 }, { 0, 4, -4, -1, 1, 0 },
                                      { 0, -2, -1, 2, 1, 0 }, { 0, 2, -1, -2, 1, 0 }, { 0, 4, 0, -5, 0, 1 } };
    static const int signs[6][3]  = { { 1, 1, 1 },  { 1, 1, 1 }, { 1, -1, 1 },
                                      { 1, 1, 1 }, { 1, -1, 1 }, { 1, 1, 1 } };
    static const int parts[][12] = { { 1, 4, 5, 228, 5, 3, 3, 1, 1, 1, 0, 0 },
                                     { 1, 8, 6, 82, 9, 5, 5, 1, 2, 2, 0, 0 } };
    const int8_case  ends[]      = { { 0, HIGHEST, EIGHT }, { 255, LOWEST, EIGHT },
                                     { 255, LOWEST, { -255, 2, 256 } } };
    for (int k = 0; k < 6; k++) check_int8(parts[k % 2], ends[k / 2], k);
    for (int kernel = 3; kernel <= 5; kernel += 2)
        for (int end = 0; end < 4; end++) {
            const int c = kernel == 3 ? 112 : 32, side = kernel + 3;
            const int s[12] = { 36, side, side, c, 36, kernel, kernel, 1, 0, 0, 0, 0 };
            uint8_t  *x = exact((size_t)(36 * side * side * c));
            int16_t  *w = exact((size_t)(36 * kernel * kernel * c) * sizeof *w);
            for (int point = 0, at = 0; point < 36; point++)
                for (int i = 0; i < side; i++)
                    for (int j = 0; j < side; j++) {
                        const int product = inputs[point / 6][i % 6] * inputs[point % 6][j % 6];
                        for (int k = 0; k < c; k++) x[at++] = (end % 2 ? product > 0 : product < 0) ? 255 : 0;
                    }
            for (int point = 0, at = 0; point < 36; point++)
                for (int i = 0; i < kernel; i++)
                    for (int j = 0; j < kernel; j++) {
                        const bool negative = signs[point / 6][i % 3] * signs[point % 6][j % 3] > 0;
                        for (int k = 0; k < c; k++) w[at++] = negative ? -128 : 127;
                    }
            check_int8_of(s, (int8_case){ .x_zero = end < 2 ? 0 : 255, .w = EIGHT }, x, w, end);
            free(x), free(w);
        }
}

/* --- floats ----------------------------------------------------------------------------------- */

static void check_floats(const int s[12], qg__codes of_w, int number)
{
    const qg__plain_product p = qg__plain_of(geometry_of(s), (qg__codes){ 0 }, of_w);
    const qg__geometry     *g = &p.g;
    const size_t n_w = qg__row(g) * (size_t)g->oc, n_x = (size_t)s[0] * qg__pixels(g) * (size_t)g->c,
                 results = (size_t)s[0] * qg__results(g) * (size_t)g->oc;
    const uint64_t key = 5 + (uint64_t)number;
    float *x = exact(n_x * sizeof *x), *w = exact(n_w * sizeof *w), *want = exact(results * sizeof *want);
    for (size_t k = 0; k < n_x; k++) x[k] = 2 * qg_uniform((uint64_t)number, k) - 1;
    for (size_t k = 0; k < n_w; k++)
        w[k] = of_w.count ? (float)drawn(of_w, DRAWN, key, k) : 2 * qg_uniform(key, k) - 1;
    reals_ref(g, s[0], x, w, want);
    table of[TABLES];
    for (int t = 0, tables = tables_of(of); t < tables; t++) {
        const qg__plain_kernels *k = of[t].real;
        region packed = guarded_bytes(k->weight_bytes(&p)), y = guarded_bytes(results * sizeof(float));
        region scratch = guarded_bytes(k->scratch_bytes(&p, s[0]));
        PACK(k, &p, w, packed.at)
        k->run(&p, s[0], x, packed.at, y.at, scratch.at);
        assert_same(of[t].isa, "floats", number, y.at, want, results);
        check_guards(packed);
        check_guards(scratch);
        check_guards(y);
    }
    free(x), free(w), free(want);
}

static void products_with_floats_have_the_bits_of_the_definition(void **state)
{
    const qg__codes of_weights[] = { SIGNS, TERNARY, { 0, 1, 2 },
                                     { -3, 2, 4 }, { -8, 1, 16 }, { -15, 2, 16 }, { 0, 1, 11 }, { -4, 1, 8 },
                                     EIGHT, { -40000, 300, 256 } };
    const int       kinds = sizeof of_weights / sizeof *of_weights;
    for (int i = 0; i < kinds * CASES; i++)
        if (every_combination() || (i / kinds + i % kinds) % 3 == 0)
            check_floats(cases[i / kinds], of_weights[i % kinds], i);
}

/* Outputs that fill their last vector up to any number, of images and of a pixel. */
static void any_number_of_outputs_has_the_bits_of_the_definition(void **state)
{
    const qg__codes of_weights[] = { { 0 }, TERNARY, EIGHT };
    for (int oc = 1; oc <= 50; oc++)
        for (int i = 0; i < 3; i++) {
            const int images[12] = { 2, 5, 6, 2, oc, 3, 3, 1, 1, 1, 0, 0 },
                      pixel[12] = { 1, 1, 1, 37, oc, 1, 1, 1, 0, 0, 0, 0 };
            check_floats(images, of_weights[i], 10 * oc + i);
            check_floats(pixel, of_weights[i], 10 * oc + i);
        }
}

/* --- packing ---------------------------------------------------------------------------------- */

static void packed_values_are_read_back(void **state)
{
    static const int channels[] = { 1, 3, 31, 33, 63, 64, 65, 129 };
    for (int a = 0; a < ALPHABETS; a++)
        for (int i = 0; i < 8; i++) {
            const int c = channels[i];
            int8_t    values[3 * 129];
            uint64_t  packed[3 * 4 * 3];
            fill_values(alphabets[a], DRAWN, 3 * (size_t)c, (uint64_t)i, values);
            memset(packed, POISON, sizeof packed);
            pack_values(alphabets[a], 3, c, values, packed);
            for (int pixel = 0; pixel < 3; pixel++) {
                const uint64_t *at  = packed + qg__bit_words(alphabets[a], (size_t)pixel, c);
                int             sum = 0;
                for (int k = 0; k < c; k++) {
                    assert_int_equal(value_of_pixel(alphabets[a], c, at, k), values[pixel * c + k]);
                    assert_true(abs(values[pixel * c + k]) <= qg__reach(qg__codes_of(alphabets[a])));
                    sum += values[pixel * c + k];
                }
                assert_int_equal(qg__sum_of_values(alphabets[a], c, at), sum);
            }
        }
}

/* Of any length, with one value at any place. */
static void values_that_are_not_finite_are_found(void **state)
{
    static const struct { float x; bool finite; } of[] = {
        { NAN, false }, { -NAN, false }, { INFINITY, false }, { -INFINITY, false }, { FLT_MAX, true }, { -FLT_MAX, true },
        { 0x1p-149f, true }, { -0x1p-126f, true }, { -0.0f, true }, { 1.0f, true }
    };
    table of_isa[TABLES];
    for (int t = 0, tables = tables_of(of_isa); t < tables; t++)
        for (int n = 0; n <= 70; n++) {
            float *x = exact((size_t)n * sizeof *x);
            for (int i = 0; i < n; i++) x[i] = (float)(i - 30);
            assert_true(of_isa[t].floats->are_finite((size_t)n, x));
            for (int i = 0; i < n; i++)
                for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
                    const float kept = x[i];
                    x[i]             = of[k].x;
                    if (of_isa[t].floats->are_finite((size_t)n, x) != of[k].finite)
                        fail_msg("%s: %g", of_isa[t].isa, (double)of[k].x);
                    x[i] = kept;
                }
            free(x);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_bits_agree_with_the_definition),
        cmocka_unit_test(products_of_bits_do_not_overflow),
        cmocka_unit_test(refuses_products_whose_sums_might_not_fit),
        cmocka_unit_test(packed_weights_take_their_bits),
        cmocka_unit_test(codes_of_floats_agree_with_the_definition),
        cmocka_unit_test(products_of_8_bits_agree_with_the_definition),
        cmocka_unit_test(products_of_8_bits_with_packed_weights_agree_with_the_definition),
        cmocka_unit_test(products_of_8_bits_do_not_overflow),
        cmocka_unit_test(products_on_patches_agree_with_the_definition),
        cmocka_unit_test(products_on_patches_do_not_overflow),
        cmocka_unit_test(products_with_floats_have_the_bits_of_the_definition),
        cmocka_unit_test(any_number_of_outputs_has_the_bits_of_the_definition),
        cmocka_unit_test(packed_values_are_read_back),
        cmocka_unit_test(values_that_are_not_finite_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
