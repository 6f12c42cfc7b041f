/* Multiply-adds are rounded once on every instruction set, in vectors and alone: compared with integers.  An
 * argument is the number of triples of each kind in place of half a million. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/environment.h"
#include "tests/support/fma_kernel.h"

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* --- the definition, in integers -------------------------------------------------------------- */

__extension__ typedef unsigned __int128 wide;

/* m 2^e, negative or not. */
typedef struct number {
    bool negative;
    wide m;
    int  e;
} number;

static number number_of(float f)
{
    const uint32_t u = bits_of(f), e = u >> 23 & 255;
    return (number){ u >> 31, (u & 0x7fffff) | (e ? 0x800000 : 0), (e ? (int)e : 1) - 150 };
}

/* x + y; neither is 0.  Where one is so much smaller that it only says on which side of the other the sum
 * lies, a 1 in its place says the same. */
static number sum_of(number x, number y)
{
    if (x.e < y.e) {
        const number t = x;
        x = y, y = t;
    }
    const int shift = x.e - y.e > 75 ? 75 : x.e - y.e;
    if (x.e - shift > y.e) y.m = 1;
    x.m <<= shift, x.e -= shift;
    if (x.negative == y.negative) return (number){ x.negative, x.m + y.m, x.e };
    return x.m >= y.m ? (number){ x.negative, x.m - y.m, x.e } : (number){ y.negative, y.m - x.m, x.e };
}

/* To nearest, halves to even. */
static float rounded(number x)
{
    int drop = -149 - x.e;                      /* bits; 127 are more than there are */
    if (drop > 127) drop = 127;
    while (x.m >> 24 && (drop < 0 || x.m >> drop >> 24)) drop = drop < 0 ? 1 : drop + 1;
    if (drop > 0) {
        const wide rest = x.m & (((wide)1 << drop) - 1), half = (wide)1 << (drop - 1);
        x.m >>= drop, x.e += drop;
        x.m += rest > half || (rest == half && x.m & 1);
    }
    const float f = ldexpf((float)(uint32_t)x.m, x.e);
    return x.negative ? -f : f;
}

/* a b + c; any NaN stands for all. */
static float by_integers(float a, float b, float c)
{
    if (isnan(a) || isnan(b) || isnan(c) || (isinf(a) && b == 0) || (a == 0 && isinf(b))) return NAN;
    if (isinf(a) || isinf(b)) {
        const float p = (a < 0) == (b < 0) ? INFINITY : -INFINITY;
        return isinf(c) && c != p ? NAN : p;
    }
    if (isinf(c)) return c;
    const number x = number_of(a), y = number_of(b), z = number_of(c);
    const number p = { x.negative != y.negative, x.m * y.m, x.e + y.e };
    if (p.m == 0) return z.m == 0 && p.negative == z.negative ? c : c + 0.0f;
    const number sum = z.m == 0 ? p : sum_of(p, z);
    return sum.m == 0 ? 0.0f : rounded(sum);
}

/* --- triples ---------------------------------------------------------------------------------- */

typedef enum kind { ANY, ORDINARY, TIES, CANCEL, DENORMAL, SPECIAL, HUGE_ONES, MIDDLE, KINDS } kind;
enum { RUN = 4096 };            /* triples at a time */

static uint64_t drawn;          /* so many numbers */

static uint32_t draw(void)
{
    uint64_t z = ++drawn * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32);
}

/* A float whose exponent is one of n from `least` on, with the bits of the significand in mask. */
static float drawn_float(uint32_t least, uint32_t n, uint32_t mask)
{
    const uint32_t u = draw();
    return float_of((u & (0x80000000 | mask)) | (least + (draw() % n)) << 23);
}

/* a b + c a little beside the middle between two floats: 2^e (2 m + 1 - i^2 2^-46). */
static void beside_middle(float *a, float *b, float *c)
{
    const bool  tiny = draw() % 3 == 0;
    const int   i = (int)(draw() % 8192), f = (int)(draw() % 60) - 30;
    const int   e = tiny ? -150 : (int)(draw() % 200) - 100;        /* denormal, or not */
    const float m = (float)(draw() >> (tiny ? 9 + draw() % 23 : 9)), top = tiny ? 0 : 0x1p23f;
    *a = ldexpf(1.0f + (float)i * 0x1p-23f, e / 2 + f);
    *b = ldexpf(draw() & 1 ? -1.0f + (float)i * 0x1p-23f : 1.0f - (float)i * 0x1p-23f, e - e / 2 - f);
    *c = (draw() & 1 ? -2.0f : 2.0f) * ldexpf(top + (m >= 0x1p23f ? m - 0x1p23f : m), e);
}

static void draw_triple(kind k, float *a, float *b, float *c)
{
    static const uint32_t special[] = {
        0, 1, 0x7fffff, 0x800000, 0x3f800000, 0x3f800001, 0x7f7fffff, 0x7f800000, 0x7fc00000,
        0x80000000, 0x80000001, 0xbf800000, 0xff7fffff, 0xff800000,
    };
    enum { SPECIALS = sizeof special / sizeof *special };
    static const uint32_t least[KINDS] = { 0, 112, 120, 100, 1, 0, 180, 0 };        /* exponents, biased */
    static const uint32_t n[KINDS]     = { 256, 24, 12, 50, 126, 256, 76, 256 };
    const uint32_t mask = k == TIES ? 0x780001 : 0x7fffff;
    *a = drawn_float(least[k], n[k], mask);
    *b = drawn_float(least[k], n[k], mask);
    *c = drawn_float(least[k], n[k], mask);
    if (k == CANCEL) *c = -(*a * *b) * (1.0f + (float)((int)(draw() % 5) - 2) * 0x1p-23f);
    if (k == DENORMAL) *a *= 0x1p-20f, *c = drawn_float(0, 3, mask);
    if (k == SPECIAL) {
        if (draw() & 1) *a = float_of(special[draw() % SPECIALS]);
        if (draw() & 1) *b = float_of(special[draw() % SPECIALS]);
        if (draw() & 1) *c = float_of(special[draw() % SPECIALS]);
    }
    if (k == HUGE_ONES) *a = drawn_float(100, 60, mask);
    if (k == MIDDLE) beside_middle(a, b, c);
}

/* --- the tests -------------------------------------------------------------------------------- */

static long triples = 500000;   /* of each kind */

static bool same(float x, float y) { return isnan(x) ? isnan(y) : bits_of(x) == bits_of(y); }

extern const fma_kernels fma_kernels_sixteen;
static const fma_kernels *const of[] = TABLES_OF(fma_kernels);

static void check_run(kind k)
{
    static float a[RUN], b[RUN], c[RUN], y[RUN], z[RUN], want[RUN];
    for (int i = 0; i < RUN; i++) {
        draw_triple(k, &a[i], &b[i], &c[i]);
        want[i] = by_integers(a[i], b[i], c[i]);
    }
    for (int t = 0; t < tables(); t++) {
        of[t]->vectors(RUN, a, b, c, y);
        of[t]->floats(RUN, a, b, c, z);
        for (int i = 0; i < RUN; i++)
            if (!same(y[i], want[i]) || !same(z[i], want[i]))
                fail_msg("table %d, kind %d: %a * %a + %a is %a, in a vector %a, alone %a", t, (int)k,
                         (double)a[i], (double)b[i], (double)c[i], (double)want[i], (double)y[i], (double)z[i]);
    }
}

static void products_and_sums_are_rounded_once(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++)
        for (long i = 0; i < triples; i += RUN) check_run((kind)k);
}

/* Numbers that one can compute by hand: ties, denormals, the largest float, signs of zero. */
static void the_definition_is_right(void **state)
{
    enum { CASES = 18 };
    const float ulp = 0x1p-23f, tiny = 0x1p-149f, far = INFINITY;
    const float cases[CASES][4] = {
        { 1 + ulp, 1 + ulp, -1 - 2 * ulp, 0x1p-46f },
        { 1, 1, 0x1p-24f, 1 },
        { 1, 1, 0x1p-24f + 0x1p-47f, 1 + ulp },
        { -1, 1 + ulp, -0x1p-24f, -1 - 2 * ulp },
        { tiny, 0.5f, 0, 0 },
        { tiny, 0.75f, 0, tiny },
        { 3 * tiny, 0.5f, 0, 2 * tiny },
        { tiny, tiny, 0x1p100f, 0x1p100f },
        { tiny, -tiny, 3 * tiny, 3 * tiny },
        { -tiny, tiny, 0, -0.0f },
        { 0x1p127f, 2, -0x1p127f, 0x1p127f },
        { 0x1p127f, 2, 0, far },
        { FLT_MAX, 1, 0x1p102f, FLT_MAX },
        { FLT_MAX, 1, 0x1p103f, far },
        { -0.0f, 1, -0.0f, -0.0f },
        { -0.0f, 1, 0, 0 },
        { 1, 1, -1, 0 },
        { far, 1, -far, NAN },
    };
    (void)state;
    for (int i = 0; i < CASES; i++)
        if (!same(by_integers(cases[i][0], cases[i][1], cases[i][2]), cases[i][3])) fail_msg("case %d", i);
}

int main(int n, char **argument)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_definition_is_right),
        cmocka_unit_test(products_and_sums_are_rounded_once),
    };
    if (n > 1) triples = atol(argument[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
