#include "quant/reference/fake_quant.h"

#include <float.h>

#include "quant/round.h"
#include "tests/support/views.h"

enum { LARGEST = 1024 };

static void fill(float *x, size_t n, uint64_t key, float width)
{
    for (size_t i = 0; i < n; i++) x[i] = width * (2.0f * qg_uniform(key, i) - 1.0f);
}

static uint32_t bits_of(float v)
{
    uint32_t b;
    memcpy(&b, &v, sizeof b);
    return b;
}

/* ---- roundings ---- */

static void roundings_equal_those_of_the_library(void **state)
{
    static const float edges[] = {
        0.0f,  -0.0f,       0.49999997f, 0.5f,       -0.5f,      1.5f,
        2.5f,  -2.5f,       0x1p22f,     8388607.5f, 8388609.0f, 0x1p23f,
        1e30f, -8388607.5f, INFINITY,    -INFINITY,  FLT_MIN,    -1e-45f
    };
    for (size_t i = 0; i < sizeof edges / sizeof edges[0] + 20000; i++) {
        float v = i < 20000 ? ldexpf(qg_uniform(1, i) - 0.5f, (int)(i % 40)) : edges[i - 20000];
        if (i % 3 == 0 && i < 20000) v = floorf(v) + 0.5f;
        assert_int_equal(bits_of(qg_round_even(v)), bits_of(rintf(v)));
        assert_int_equal(bits_of(qg_round_away(v)), bits_of(roundf(v)));
        assert_int_equal(bits_of(qg_floor(v)), bits_of(floorf(v)));
        assert_int_equal(bits_of(qg_round_up(v)), bits_of(floorf(v + 0.5f)));
    }
    assert_true(isnan(qg_round_even(NAN)) && isnan(qg_round_away(NAN)) && isnan(qg_round_up(NAN)));
    assert_true(qg_round_up(0.49999997f) == 1.0f && qg_round_up(8388609.0f) == 8388610.0f);
    assert_true(isnan(qg_clamp(NAN, -1.0f, 1.0f)));
    assert_int_equal(qg_to_int(2147483648.0, INT32_MIN, INT32_MAX), INT32_MAX);
    assert_int_equal(qg_to_int((double)NAN, 3, 9), 3);
    assert_int_equal(qg_to_int(-1.9, -128, 127), -1);
}

/* ---- nudging ---- */

static void nudging_is_float32(void **state)
{
    static const struct {
        float min, max;
        bool  narrow;
        int   bits, zero_point;
        float nmin, nmax;
    } rows[] = {
        /* The real zero point of a symmetric range is a tie; the float32 one decides. */
        { -1.0f, 1.0f, false, 8, 127, -0.996078491f, 1.00392163f },
        { -6.0f, 6.0f, false, 8, 128, -6.02352953f, 5.97647047f },
        { -0.125f, 63.625f, false, 8, 1, -0.25f, 63.5f },
        { -0.1f, 63.65f, false, 8, 0, 0.0f, 63.75f },
        { 0.0f, 254.0f, true, 8, 1, 0.0f, 254.0f },
        { -5.0f, 5.0f, false, 16, 32768, -5.00007629f, 4.99992371f },
        { 2.0f, 4.0f, false, 8, 0, 0.0f, 2.0f },
        { -4.0f, -2.0f, false, 8, 255, -2.0f, 0.0f },
        { 0.0f, 0.0f, true, 8, 1, 0.0f, 0.0f },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qg_fake_quant_range r;
        assert_ok(qg_fake_quant_nudge((qg_fake_quant_attrs){ rows[i].bits, rows[i].narrow }, rows[i].min, rows[i].max,
                  &r));
        assert_int_equal(r.zero_point, rows[i].zero_point);
        /* Two roundings of float32 lie between the inputs and the nudged ends. */
        assert_float_equal(r.nmin, rows[i].nmin, 2.0f * FLT_EPSILON * fabsf(rows[i].nmin));
        assert_float_equal(r.nmax, rows[i].nmax, 2.0f * FLT_EPSILON * fabsf(rows[i].nmax));
    }
}

static void expect_refusal(qg_fake_quant_attrs attrs, float min, float max, const char *culprit)
{
    qg_fake_quant_range r = { .zero_point = 77 };
    assert_int_equal(qg_fake_quant_nudge(attrs, min, max, &r), QG_EARG);
    assert_non_null(strstr(qg_errmsg(), culprit));
    assert_int_equal(r.zero_point, 77);
}

static void impossible_ranges_are_refused_by_name(void **state)
{
    const qg_fake_quant_attrs good = { 8, false };
    expect_refusal((qg_fake_quant_attrs){ 0, false }, 0.0f, 1.0f, "num_bits is 0, must be 2 .. 16");
    expect_refusal((qg_fake_quant_attrs){ 1, false }, 0.0f, 1.0f, "num_bits is 1,");
    expect_refusal((qg_fake_quant_attrs){ 17, false }, 0.0f, 1.0f, "num_bits is 17,");
    expect_refusal(good, 1.0f, -1.0f, "min is 1, must be smaller than max, -1");
    expect_refusal(good, 0.5f, 0.5f, "both 0.5");
    expect_refusal(good, NAN, 1.0f, "finite");
    expect_refusal(good, 0.0f, INFINITY, "finite");
    expect_refusal(good, -FLT_MAX, FLT_MAX, "max - min is inf");
    expect_refusal(good, 0.0f, 1e-44f, "not a float32 range");
}

/* steps * scale may round to more than the width, and more than FLT_MAX is an infinity: with it every
 * result of these ranges would be NaN, or those near max infinite. */
static void a_nudged_end_beyond_float32_is_refused(void **state)
{
    expect_refusal((qg_fake_quant_attrs){ 8, true }, -FLT_MAX, 0.0f, "nudged to -inf .. 0");
    expect_refusal((qg_fake_quant_attrs){ 8, true }, -FLT_MAX, -1e-29f, "min is -3.4028");
    expect_refusal((qg_fake_quant_attrs){ 16, false }, -FLT_MAX, -119.7f, "nudged to -inf .. 0");
    expect_refusal((qg_fake_quant_attrs){ 16, true }, -0.5f, FLT_MAX, ".. inf, not a float32 range");
    for (int bits = 2; bits <= 16; bits++)
        for (int kind = 0; kind < 6; kind++) {
            const qg_fake_quant_attrs attrs = { bits, kind % 2 };
            const float               min = kind < 2 ? -FLT_MAX : kind < 4 ? 0.0f : -FLT_MAX / 2;
            const float               max = kind < 2 ? 0.0f : kind < 4 ? FLT_MAX : FLT_MAX / 2;
            const float               x[] = { -FLT_MAX, min, 0.0f, max, FLT_MAX };
            float                     y[5];
            qg_fake_quant_range       r;
            if (qg_fake_quant_nudge(attrs, min, max, &r)) continue;
            assert_true(isfinite(r.nmin) && isfinite(r.nmax));
            for (int rule = 0; rule < 2; rule++) {
                if (rule) qg_fake_quant_divide(&r, 5, x, y);
                else qg_fake_quant_multiply(&r, 5, x, y);
                assert_true(isfinite(y[0]) && isfinite(y[1]) && y[2] == 0.0f && isfinite(y[3]) && isfinite(y[4]));
            }
        }
}

/* A step may be subnormal as long as its inverse is a float: no limit but that of the formulas. */
static void tiny_ranges_follow_the_formulas(void **state)
{
    qg_fake_quant_range r;
    const float         max = 1e-36f, scale = max / 255.0f;
    assert_true(scale > 0.0f && scale < FLT_MIN);
    assert_ok(qg_fake_quant_nudge((qg_fake_quant_attrs){ 8, false }, 0.0f, max, &r));
    assert_true(r.scale == scale && r.inv == 255.0f / max && r.zero_point == 0);
    const float x[] = { 5e-37f, 2e-36f, -1.0f };
    float       y[3];
    qg_fake_quant_divide(&r, 3, x, y);
    assert_true(y[0] == 128.0f * scale && y[1] == 255.0f * scale && y[2] == 0.0f);
}

/* ---- properties of the forward ---- */

/* Every value is a multiple of the step that a code reaches; 0 and all results are fixed points. */
static void
check_codebook(qg_fake_quant_attrs attrs, float min, float max, const float *x, size_t n,
               void (*forward)(const qg_fake_quant_range *, size_t, const float *, float *))
{
    qg_fake_quant_range r;
    float               y[LARGEST];
    float               again[LARGEST];
    assert_ok(qg_fake_quant_nudge(attrs, min, max, &r));
    forward(&r, n, x, y);
    forward(&r, n, y, again);
    const int qmin = attrs.narrow_range ? 1 : 0;
    const int qmax = (1 << attrs.num_bits) - 1;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(bits_of(again[i]), bits_of(y[i]));
        const float k = roundf(y[i] / r.scale);
        assert_true(y[i] == k * r.scale);
        assert_in_range((uintmax_t)(k + (float)r.zero_point), (uintmax_t)qmin, (uintmax_t)qmax);
        /* Half a step, and what float32 loses of the largest code at 16 bits. */
        if (x[i] >= r.nmin && x[i] <= r.nmax)
            assert_true(fabsf(y[i] - x[i]) <= r.scale * (0.5f + 0x1p-6f));
    }
    const float zero = 0.0f;
    float       kept;
    forward(&r, 1, &zero, &kept);
    assert_true(kept == 0.0f);
}

static void values_lie_on_the_codebook(void **state)
{
    static const size_t sizes[] = { 0, 1, 3, 31, 33, 63, 65, LARGEST };
    float               x[LARGEST];
    for (int bits = 2; bits <= 16; bits++)
        for (int narrow = 0; narrow <= 1; narrow++)
            for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
                const float min = -3.0f * qg_uniform(7, s) - 0.01f;
                const float max = 5.0f * qg_uniform(8, s + (size_t)bits) + 0.01f;
                fill(x, sizes[s], 9 + s, 6.0f);
                check_codebook((qg_fake_quant_attrs){ bits, narrow }, min, max, x, sizes[s],
                               qg_fake_quant_divide);
                check_codebook((qg_fake_quant_attrs){ bits, narrow }, min, max, x, sizes[s],
                               qg_fake_quant_multiply);
            }
}

static void special_inputs(void **state)
{
    float    x[]    = { NAN, INFINITY, -INFINITY, -0.0f };
    float    y[4]   = { 9.0f, 9.0f, 9.0f, 9.0f };
    float    min    = -1.0f;
    float    max    = 1.0f;
    const qg_fake_quant_attrs attrs = { 8, false };
    assert_ok(qg_fake_quant_with_min_max_vars(attrs, VECTOR(x, 4), SCALAR(&min), SCALAR(&max), VECTOR(y, 4)));
    assert_true(isnan(y[0]) && y[1] == 128.0f * (2.0f / 255.0f) &&
                y[2] == -127.0f * (2.0f / 255.0f));
    assert_true(y[3] == 0.0f);
    min = max = 0.0f;
    assert_ok(qg_fake_quant_with_min_max_vars(attrs, VECTOR(x, 4), SCALAR(&min), SCALAR(&max), VECTOR(y, 4)));
    for (int i = 0; i < 4; i++) assert_true(y[i] == 0.0f);
    qg_array none = { .dtype = QG_F32, .rank = 2, .dims = { 0, 4 } };
    assert_ok(qg_fake_quant_with_min_max_vars(attrs, &none, SCALAR(&min), SCALAR(&max), &none));
}

static void divide_and_multiply_differ_at_ties(void **state)
{
    const float         x = 1.0f;
    float               divided;
    float               multiplied;
    qg_fake_quant_range r;
    assert_ok(qg_fake_quant_nudge((qg_fake_quant_attrs){ 8, false }, 2.0f, 4.0f, &r));
    qg_fake_quant_divide(&r, 1, &x, &divided);
    qg_fake_quant_multiply(&r, 1, &x, &multiplied);
    assert_true(divided == 127.0f * r.scale && multiplied == 128.0f * r.scale);
}

static void no_fused_multiply_add(void **state)
{
    float    x  = -0x1.3ababcp+2f;
    float    y  = 0.0f;
    assert_ok(qg_fake_quant_with_min_max_args((qg_fake_quant_args){ -6.0f, 6.0f, 8, false }, VECTOR(&x, 1),
                                              VECTOR(&y, 1)));
    /* Fused the code would be one lower, -4.9411764. */
    assert_float_equal(y, -4.89411783f, 1e-6f);
}

/* ---- gradients ---- */

static void gradients_use_the_nudged_range(void **state)
{
    float    x[]  = { -0.05f, 63.7f, 63.8f, NAN, INFINITY };
    float    g[]  = { 1.0f, 2.0f, 4.0f, 8.0f, INFINITY };
    float    dx[] = { 9.0f, 9.0f, 9.0f, 9.0f, 9.0f };
    float    ends[] = { -0.1f, 63.65f, 9.0f, 9.0f };
    qg_array e[4];
    for (int i = 0; i < 4; i++) e[i] = scalar(&ends[i]);
    const qg_fake_quant_attrs attrs = { 8, false };
    assert_ok(qg_fake_quant_with_min_max_vars_gradient(attrs, VECTOR(g, 5), VECTOR(x, 5), &e[0], &e[1], VECTOR(dx, 5),
                                                       &e[2], &e[3]));
    static const float want[] = { 0.0f, 2.0f, 0.0f, 0.0f, 0.0f };
    for (int i = 0; i < 5; i++) assert_true(dx[i] == want[i]);
    assert_true(ends[2] == 1.0f && isinf(ends[3]));
    ends[0] = ends[1] = 0.0f;
    g[4]              = 16.0f;
    assert_ok(qg_fake_quant_with_min_max_vars_gradient(attrs, VECTOR(g, 5), VECTOR(x, 5), &e[0], &e[1], VECTOR(dx, 5),
                                                       &e[2], &e[3]));
    for (int i = 0; i < 5; i++) assert_true(dx[i] == g[i]);
    assert_true(ends[2] == 0.0f && ends[3] == 0.0f);
}

static void sums_are_rounded_once(void **state)
{
    float    x[65], g[65], dx[65];
    double   want = 0.0;
    float    ends[] = { -1.0f, 1.0f, 0.0f, 0.0f };
    qg_array e[4];
    for (int i = 0; i < 4; i++) e[i] = scalar(&ends[i]);
    for (int i = 0; i < 65; i++) {
        x[i] = 2.0f;
        g[i] = i == 7 ? 0x1p24f : 1.0f;     /* in float32 every 1 after it would vanish */
        want += (double)g[i];
    }
    assert_ok(qg_fake_quant_with_min_max_vars_gradient((qg_fake_quant_attrs){ 4, false }, VECTOR(g, 65), VECTOR(x, 65),
                                                       &e[0], &e[1], VECTOR(dx, 65), &e[2], &e[3]));
    assert_true(ends[3] == (float)want && ends[2] == 0.0f);
}

/* ---- per channel ---- */

/* Each column against the per-tensor operator of the same rule. */
static void channels_are_independent(void **state)
{
    static const size_t widths[] = { 1, 3, 31, 63, 64, 65, 129 };
    enum { ROWS = 5, WIDEST = 129 };
    static float x[ROWS * WIDEST], g[ROWS * WIDEST], y[ROWS * WIDEST], dx[ROWS * WIDEST];
    static float              min[WIDEST], max[WIDEST], dmin[WIDEST], dmax[WIDEST];
    const qg_fake_quant_attrs attrs = { 5, true };
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        const size_t d = widths[w];
        fill(x, ROWS * d, 20 + w, 4.0f);
        fill(g, ROWS * d, 40 + w, 1.0f);
        for (size_t c = 0; c < d; c++) {
            min[c] = c % 7 == 3 ? 0.0f : -2.0f * qg_uniform(3, c);
            max[c] = c % 7 == 3 ? 0.0f : 0.1f + 2.0f * qg_uniform(4, c);
        }
        qg_array xs = matrix(x, ROWS, d), gs = matrix(g, ROWS, d), ys = matrix(y, ROWS, d);
        qg_array ds = matrix(dx, ROWS, d), lo = vector(min, d), hi = vector(max, d);
        qg_array dlo = vector(dmin, d), dhi = vector(dmax, d);
        assert_ok(qg_fake_quant_with_min_max_vars_per_channel(attrs, &xs, &lo, &hi, &ys));
        assert_ok(qg_fake_quant_with_min_max_vars_per_channel_gradient(attrs, &gs, &xs, &lo, &hi, &ds, &dlo, &dhi));
        for (size_t c = 0; c < d; c++) {
            qg_fake_quant_range r;
            double              below = 0.0;
            double              above = 0.0;
            assert_ok(qg_fake_quant_nudge(attrs, min[c], max[c], &r));
            for (size_t row = 0; row < ROWS; row++) {
                const size_t i     = row * d + c;
                const bool   empty = min[c] == max[c];
                const bool   under = !empty && x[i] < r.nmin, over = !empty && x[i] > r.nmax;
                float        want;
                qg_fake_quant_multiply(&r, 1, &x[i], &want);
                assert_true(y[i] == want && dx[i] == (under || over ? 0 : g[i]));
                below += under ? (double)g[i] : 0;
                above += over ? (double)g[i] : 0;
            }
            assert_true(dmin[c] == (float)below && dmax[c] == (float)above);
        }
    }
}

static void shapes_are_checked_before_writing(void **state)
{
    float x[6] = { 0 }, y[6] = { 9, 9, 9, 9, 9, 9 }, min[3] = { -1, -1, -1 }, max[3] = { 1, 1, -2 };
    qg_array xs = matrix(x, 2, 3), ys = matrix(y, 2, 3), lo = vector(min, 3), hi = vector(max, 3);
    const qg_fake_quant_attrs attrs = { 8, false };
    assert_failed(qg_fake_quant_with_min_max_vars_per_channel(attrs, &xs, &lo, &hi, &ys), QG_EARG, "channel 2");
    qg_array none = matrix(NULL, 2, 0), no_range = vector(NULL, 0);
    assert_int_equal(qg_fake_quant_with_min_max_vars_per_channel(
                         (qg_fake_quant_attrs){ 1, false }, &none, &no_range, &no_range, &none),
                     QG_EARG);      /* attributes are checked without a channel to apply them to */
    assert_ok(qg_fake_quant_with_min_max_vars_per_channel(attrs, &none, &no_range, &no_range, &none));
    max[2]     = 1.0f;
    hi.dims[0] = 2;
    assert_failed(qg_fake_quant_with_min_max_vars_per_channel(attrs, &xs, &lo, &hi, &ys), QG_ESHAPE,
                   "shape of max is [2], must be [3]");
    qg_array one = scalar(x);
    assert_int_equal(qg_fake_quant_with_min_max_vars_per_channel(attrs, &one, &lo, &hi, &one),
                     QG_ESHAPE);
    assert_failed(qg_fake_quant_with_min_max_vars(attrs, &xs, &lo, &hi, &ys), QG_ESHAPE,
                   "rank of min is 1, must be 0");
    xs.dtype = QG_I32;
    assert_failed(qg_fake_quant_with_min_max_args((qg_fake_quant_args){ -1, 1, 8, false }, &xs, &ys), QG_EARG,
                   "dtype of inputs is I32");
    xs = matrix(NULL, 2, 3);
    assert_int_equal(qg_fake_quant_with_min_max_args((qg_fake_quant_args){ -1, 1, 8, false }, &xs,
                                                     &ys), QG_EARG);
    xs = matrix(x, (size_t)1 << 40, (size_t)1 << 40);
    assert_int_equal(qg_fake_quant_with_min_max_args((qg_fake_quant_args){ -1, 1, 8, false }, &xs,
                                                     &ys), QG_ESHAPE);
    xs = matrix(x, 2, 3);
    assert_int_equal(qg_fake_quant_with_min_max_args((qg_fake_quant_args){ 0, 0, 8, false }, &xs,
                                                     &ys), QG_EARG);
    for (int i = 0; i < 6; i++) assert_true(y[i] == 9.0f);
}

/* Codes are what the values are, 0 and NaN included, with both rules and both widths. */
static void codes_times_scale_are_the_values(void **state)
{
    for (int bits = 2; bits <= 8; bits++)
        for (int narrow = 0; narrow < 2; narrow++) {
            qg_fake_quant_range r;
            float               x[63], y[2][63];
            uint8_t             code[63];
            assert_ok(qg_fake_quant_nudge((qg_fake_quant_attrs){ bits, narrow }, -0.7f, 1.9f, &r));
            for (int i = 0; i < 63; i++) x[i] = -1.0f + 0.05f * (float)i;
            qg_fake_quant_divide(&r, 63, x, y[0]);
            qg_fake_quant_multiply(&r, 63, x, y[1]);
            for (int k = 0; k < 2; k++) {
                qg_fake_quant_codes(&r, 63, y[k], code);
                assert_int_equal(code[0], narrow);
                assert_int_equal(code[62], (1 << bits) - 1);
                for (int i = 0; i < 63; i++)
                    assert_true((float)(code[i] - r.zero_point) * r.scale == y[k][i]);
            }
        }
    const float               odd[] = { NAN, 0, 1 };
    const qg_fake_quant_range none  = { 0 };
    uint8_t                   code[3];
    qg_fake_quant_range       r;
    assert_ok(qg_fake_quant_nudge((qg_fake_quant_attrs){ .num_bits = 8 }, -1, 3, &r));
    qg_fake_quant_codes(&r, 3, odd, code);
    assert_int_equal(code[0], r.zero_point);
    assert_int_equal(code[1], r.zero_point);
    qg_fake_quant_codes(&none, 3, odd, code);
    for (int i = 0; i < 3; i++) assert_int_equal(code[i], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roundings_equal_those_of_the_library),
        cmocka_unit_test(nudging_is_float32),
        cmocka_unit_test(impossible_ranges_are_refused_by_name),
        cmocka_unit_test(a_nudged_end_beyond_float32_is_refused),
        cmocka_unit_test(tiny_ranges_follow_the_formulas),
        cmocka_unit_test(values_lie_on_the_codebook),
        cmocka_unit_test(special_inputs),
        cmocka_unit_test(divide_and_multiply_differ_at_ties),
        cmocka_unit_test(no_fused_multiply_add),
        cmocka_unit_test(gradients_use_the_nudged_range),
        cmocka_unit_test(sums_are_rounded_once),
        cmocka_unit_test(channels_are_independent),
        cmocka_unit_test(shapes_are_checked_before_writing),
        cmocka_unit_test(codes_times_scale_are_the_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
