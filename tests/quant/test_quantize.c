#include "quant/reference/quantize.h"

#include <float.h>

#include "tests/support/views.h"

enum { N = 65 };

/* ---- quantize_v2 and dequantize ---- */

/* Quantizes n floats; the range returned replaces the one passed. */
static qg_status quantize(qg_quantize_v2_attrs attrs, float *x, size_t n, float range[2],
                          qg_dtype dtype, void *q)
{
    float           out[2] = { 0 };
    const qg_status s = qg_quantize_v2(attrs, VECTOR(x, n), SCALAR(&range[0]), SCALAR(&range[1]), VIEW(dtype, q, n),
                                       SCALAR(&out[0]), SCALAR(&out[1]));
    if (s == QG_OK) memcpy(range, out, sizeof out);
    return s;
}

static qg_status dequantize(qg_dequantize_attrs attrs, qg_dtype dtype, void *q, size_t n,
                            float range[2], float *y)
{
    return qg_dequantize(attrs, VIEW(dtype, q, n), SCALAR(&range[0]), SCALAR(&range[1]), VECTOR(y, n));
}

/* TensorFlow's defaults. */
#define TF(m) { .mode = (m), .axis = QG_NO_AXIS, .ensure_minimum_range = 0.01f }
#define R14   { .mode = QG_SCALED, .axis = QG_NO_AXIS, .ensure_minimum_range = 0.01f, .scaled_variant = QG_SCALED_R14 }

static qg_quantize_v2_attrs tf(qg_quantize_mode mode)
{
    qg_quantize_v2_attrs attrs = qg_quantize_v2_defaults;
    attrs.mode                 = mode;
    return attrs;
}

static int32_t code_at(qg_dtype dtype, const void *codes, int i)
{
    if (dtype == QG_U8) return ((const uint8_t *)codes)[i];
    return dtype == QG_I8 ? ((const int8_t *)codes)[i] : ((const int32_t *)codes)[i];
}

static void codes_and_ranges(void **state)
{
    static const struct {
        const char          *what;
        qg_quantize_v2_attrs attrs;
        float                x[4], range[2];
        qg_dtype             dtype;
        int                  n;
        int32_t              q[4];
        float                out[2];        /* the range to dequantize with */
    } rows[] = {
        { "the range is widened to 0", TF(QG_MIN_FIRST), { 0.1f, 0.2f }, { 0.1f, 0.2f }, QG_U8, 2, { 128, 255 },
          { 0.0f, 0.2f } },
        { "and to the least width", TF(QG_MIN_FIRST), { 0.001f }, { 0.0f, 0.001f }, QG_U8, 1, { 26 }, { 0.0f, 0.01f } },
        { "unless that is 0", { .mode = QG_MIN_FIRST, .axis = QG_NO_AXIS }, { 0.001f }, { 0.0f, 0.001f }, QG_U8, 1, { 255 },
          { 0.0f, 0.001f } },
        { "zero, combined", TF(QG_MIN_COMBINED), { 0.0f }, { -1.0f, 1.0f }, QG_I8, 1, { -1 }, { -1.0f, 1.0f } },
        { "zero, unsigned", TF(QG_MIN_COMBINED), { 0.0f }, { -1.0f, 1.0f }, QG_U8, 1, { 128 }, { -1.0f, 1.0f } },
        { "zero, scaled", TF(QG_SCALED), { 0.0f }, { -1.0f, 1.0f }, QG_I8, 1, { 0 }, { -128.0f / 127.0f, 1.0f } },
        { "scaled", TF(QG_SCALED), { -10.0f, 5.0f, 9.0f }, { -10.0f, 9.0f }, QG_I8, 3, { -128, 64, 115 },
          { -10.0f, 9.921875f } },
        { "scaled in 1.4", R14, { -10.0f, 5.0f, 9.0f }, { -10.0f, 9.0f }, QG_I8, 3, { -127, 64, 114 },
          { -10.0f, 10.0f } },
        { "scaled in 1.4, unsigned", R14, { -10.0f, 5.0f, 9.0f }, { -10.0f, 9.0f }, QG_U8, 3, { 0, 128, 230 },
          { 0.0f, 10.0f } },
        { "ties away from zero", TF(QG_SCALED), { -2.5f, 2.5f, 0.5f }, { -128.0f, 127.0f }, QG_I8, 3, { -3, 3, 1 },
          { -128.0f, 127.0f } },
        { "ties to even", { QG_SCALED, .round_mode = QG_HALF_TO_EVEN, .axis = QG_NO_AXIS, .ensure_minimum_range = 0.01f },
          { -2.5f, 2.5f, 0.5f }, { -128.0f, 127.0f }, QG_I8, 3, { -2, 2, 0 }, { -128.0f, 127.0f } },
        /* int32 saturates, and NaN is 0. */
        { "int32, combined", TF(QG_MIN_COMBINED), { 1.0f, INFINITY, -INFINITY, NAN }, { -1.0f, 1.0f }, QG_I32, 4,
          { INT32_MAX, INT32_MAX, INT32_MIN, 0 }, { -1.0f, 1.0f } },
        { "int32, first", TF(QG_MIN_FIRST), { 1.0f, INFINITY, -INFINITY, NAN }, { -1.0f, 1.0f }, QG_I32, 4,
          { 2147483520, 2147483520, INT32_MIN, 0 }, { -1.0f, 1.0f } },
        { "int32, scaled", TF(QG_SCALED), { 1.0f, INFINITY, -INFINITY, NAN }, { -1.0f, 1.0f }, QG_I32, 4,
          { INT32_MAX, INT32_MAX, INT32_MIN, 0 }, { -1.0f, 1.0f } },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        float   x[4], range[2];
        int32_t q[4];
        memcpy(x, rows[r].x, sizeof x);
        memcpy(range, rows[r].range, sizeof range);
        if (quantize(rows[r].attrs, x, (size_t)rows[r].n, range, rows[r].dtype, q))
            fail_msg("%s: %s", rows[r].what, qg_errmsg());
        for (int i = 0; i < rows[r].n; i++)
            if (code_at(rows[r].dtype, q, i) != rows[r].q[i])
                fail_msg("%s: code %d is %d", rows[r].what, i, (int)code_at(rows[r].dtype, q, i));
        if (range[0] != rows[r].out[0] || range[1] != rows[r].out[1])
            fail_msg("%s: the range is %.9g .. %.9g", rows[r].what, (double)range[0], (double)range[1]);
    }
}

/* MIN_FIRST gains a code with each round trip, unless asked not to. */
static void zero_drifts(void **state)
{
    float range[] = { -1.0f, 1.0f };
    for (int drift = 0; drift < 2; drift++) {
        const qg_dequantize_attrs back = { QG_MIN_FIRST, false, -1, drift == 0 };
        float                     y    = 0.0f;
        for (int trip = 0; trip < 3; trip++) {
            uint8_t q;
            assert_ok(quantize(tf(QG_MIN_FIRST), &y, 1, range, QG_U8, &q));
            assert_int_equal(q, drift ? 128 + trip : 128);
            assert_ok(dequantize(back, QG_U8, &q, 1, range, &y));
        }
    }
}

/* TensorFlow's product and no sum: a range below 0 has a negative factor, and its code 0 is -0. */
static void the_sign_of_zero_is_that_of_the_product(void **state)
{
    const qg_dequantize_attrs scaled = { .mode = QG_SCALED, .axis = QG_NO_AXIS };
    uint8_t                   q[]    = { 0, 255 };
    float                     y[2];
    assert_ok(dequantize(scaled, QG_U8, q, 2, (float[]){ -4.0f, -2.0f }, y));
    assert_same(2, y, (float[]){ -0.0f, -2.0f });
    assert_ok(dequantize(scaled, QG_U8, q, 2, (float[]){ -4.0f, 2.0f }, y));
    assert_same(2, y, (float[]){ 0.0f, 2.0f });
}

/* Every code of 8 and 16 bits comes back from its float, in the modes where that is so. */
static void codes_survive_a_round_trip(void **state)
{
    static const qg_quantize_mode modes[] = { QG_MIN_COMBINED, QG_MIN_FIRST, QG_SCALED };
    static float                  y[65536];
    static int16_t                q[65536], again[65536];
    for (int m = 0; m < 3; m++) {
        float                     range[] = { -2.0f, 3.0f };
        float                     first   = 0.0f;
        const qg_dequantize_attrs back    = { .mode = modes[m], .axis = QG_NO_AXIS };
        assert_ok(quantize(tf(modes[m]), &first, 1, range, QG_I16, q));
        for (int i = 0; i < 65536; i++) q[i] = (int16_t)(i - 32768);
        assert_ok(dequantize(back, QG_I16, q, 65536, range, y));
        assert_ok(quantize(tf(modes[m]), y, 65536, range, QG_I16, again));
        assert_memory_equal(q, again, sizeof q);
    }
}

static void slices_along_any_axis(void **state)
{
    enum { A = 3, B = 5, C = 7 };
    float  x[A * B * C];
    int8_t q[A * B * C];
    float  lo[C], hi[C], out_lo[C], out_hi[C], y[A * B * C];
    for (size_t i = 0; i < A * B * C; i++) x[i] = 4.0f * (qg_uniform(1, i) - 0.5f);
    for (int k = 0; k < C; k++) {
        lo[k] = -0.5f - (float)k;
        hi[k] = 0.25f * (float)k;
    }
    for (int axis = 0; axis < 3; axis++) {
        const size_t dims[] = { A, B, C };
        qg_array     xs = { QG_F32, 3, { A, B, C }, x }, qs = { QG_I8, 3, { A, B, C }, q };
        qg_array     ys = { QG_F32, 3, { A, B, C }, y };
        qg_quantize_v2_attrs      attrs = tf(QG_SCALED);
        const qg_dequantize_attrs back  = { .mode = QG_SCALED, .axis = axis };
        const qg_dequantize_attrs one   = { .mode = QG_SCALED, .axis = QG_NO_AXIS };
        attrs.axis                      = axis;
        assert_ok(qg_quantize_v2(attrs, &xs, VECTOR(lo, dims[axis]), VECTOR(hi, dims[axis]), &qs,
                                 VECTOR(out_lo, dims[axis]), VECTOR(out_hi, dims[axis])));
        assert_ok(qg_dequantize(back, &qs, VECTOR(out_lo, dims[axis]), VECTOR(out_hi, dims[axis]), &ys));
        for (size_t i = 0; i < A * B * C; i++) {
            const size_t at[]    = { i / (B * C), i / C % B, i % C };
            const size_t k       = at[axis];
            float        range[] = { lo[k], hi[k] };
            int8_t       want;
            assert_ok(quantize(tf(QG_SCALED), &x[i], 1, range, QG_I8, &want));
            assert_int_equal(q[i], want);
            assert_true(out_lo[k] == range[0] && out_hi[k] == range[1]);
            float real;
            assert_ok(dequantize(one, QG_I8, &want, 1, range, &real));
            assert_true(y[i] == real);
        }
    }
}

/* The range of a single slice is of rank 0 behind quantize_v2, and may have any rank. */
static void a_single_slice_makes_a_round_trip(void **state)
{
    float                x[2] = { 1.0f, 0.5f }, range[2] = { -1.0f, 1.0f }, got[2], y[2];
    int8_t               q[2];
    qg_array             xs = { QG_F32, 2, { 2, 1 }, x }, qs = { QG_I8, 2, { 2, 1 }, q };
    qg_array             ys = { QG_F32, 2, { 2, 1 }, y };
    qg_array got_lo = scalar(got), got_hi = scalar(got + 1);
    qg_quantize_v2_attrs attrs = tf(QG_SCALED);
    attrs.axis                 = 1;
    assert_ok(qg_quantize_v2(attrs, &xs, VECTOR(range, 1), VECTOR(range + 1, 1), &qs, &got_lo, &got_hi));
    for (int rank = 0; rank < 4; rank++) {
        got_lo = got_hi = (qg_array){ QG_F32, rank, { 1, 1, 1 }, got };
        got_hi.data     = got + 1;
        assert_ok(qg_dequantize((qg_dequantize_attrs){ .mode = QG_SCALED, .axis = 1 }, &qs, &got_lo, &got_hi, &ys));
        assert_true(y[0] == 1.0f && y[1] == (float)q[1] * (1.0f / 127.0f));
    }
}

static void quantize_refuses_by_name(void **state)
{
    static const struct {
        qg_quantize_v2_attrs attrs;
        float                range[2];
        qg_dtype             dtype;
        const char          *part;
    } rows[] = {
        { TF(QG_SCALED), { 1.0f, 0.0f }, QG_U8, "min_range[0] is 1" },
        { TF(QG_SCALED), { 1.0f, NAN }, QG_U8, "max_range[0] is nan" },
        { { .mode = QG_SCALED, .axis = 1 }, { 1.0f, 2.0f }, QG_U8, "axis is 1, must be -1 .. 0" },
        { { .mode = QG_SCALED, .axis = QG_NO_AXIS, .ensure_minimum_range = -1.0f }, { 1.0f, 2.0f }, QG_U8,
          "ensure_minimum_range" },
        { { .mode = QG_MIN_FIRST, .axis = QG_NO_AXIS, .round_mode = QG_HALF_TO_EVEN }, { 1.0f, 2.0f }, QG_U8, "round_mode" },
        { { .mode = QG_SCALED, .axis = QG_NO_AXIS, .round_mode = QG_HALF_UP }, { 1.0f, 2.0f }, QG_U8, "round_mode" },
        { TF(QG_SCALED), { 1.0f, 2.0f }, QG_F32, "dtype of output is F32" },
    };
    float   x[] = { 0.0f };
    uint8_t q   = 99;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        float range[] = { rows[r].range[0], rows[r].range[1] };
        assert_failed(quantize(rows[r].attrs, x, 1, range, rows[r].dtype, &q), QG_EARG, rows[r].part);
    }
    assert_failed(dequantize((qg_dequantize_attrs){ .axis = INT32_MAX }, QG_U8, &q, 1, (float[]){ 1.0f, 2.0f }, x),
                   QG_EARG, "axis");
    assert_int_equal(q, 99);
    /* One range per slice is not for MIN_FIRST, but a single slice is one range. */
    float    two[2] = { 0 }, ends[4] = { -1, -1, 1, 1 }, out[4];
    uint8_t  codes[2];
    qg_array xs = view(QG_F32, two, 2), qs = view(QG_U8, codes, 2);
    qg_array lo = view(QG_F32, ends, 2), hi = view(QG_F32, ends + 2, 2);
    qg_array out_lo = view(QG_F32, out, 2), out_hi = view(QG_F32, out + 2, 2);
    const qg_quantize_v2_attrs first = { .mode = QG_MIN_FIRST, .ensure_minimum_range = 0.01f };
    assert_failed(qg_quantize_v2(first, &xs, &lo, &hi, &qs, &out_lo, &out_hi), QG_EARG, "MIN_FIRST");
    xs.dims[0] = qs.dims[0] = lo.dims[0] = hi.dims[0] = 1;
    out_lo.rank = out_hi.rank = 0;
    assert_ok(qg_quantize_v2(first, &xs, &lo, &hi, &qs, &out_lo, &out_hi));
}

/* float32 cannot cut these ranges into codes: TensorFlow's codes of the wide ones are all alike, its
 * scale of the narrow ones is infinite. */
static void ranges_beyond_float32_are_refused(void **state)
{
    static const struct {
        qg_quantize_mode  mode;
        qg_scaled_variant variant;
        bool              wide;         /* int32 codes, else int8 */
        float             lo, hi, ensure;
        bool              ok;
    } rows[] = {
        { QG_MIN_COMBINED, QG_SCALED_TF2, false, -3e38f, 3e38f, 0.01f, false },
        { QG_MIN_FIRST, QG_SCALED_TF2, false, -3e38f, 3e38f, 0.01f, false },
        { QG_SCALED, QG_SCALED_TF2, false, -3e38f, 3e38f, 0.01f, true },
        { QG_SCALED, QG_SCALED_R14, false, -3e38f, 3e38f, 0.01f, true },
        { QG_MIN_COMBINED, QG_SCALED_TF2, false, -1.7e38f, 1.7e38f, 0.01f, true },
        { QG_MIN_FIRST, QG_SCALED_TF2, true, -1.7e38f, 1.7e38f, 0.01f, true },
        /* -128 codes of FLT_MAX / 127 each reach below -FLT_MAX. */
        { QG_SCALED, QG_SCALED_TF2, false, -FLT_MAX, FLT_MAX, 0.01f, false },
        { QG_SCALED, QG_SCALED_R14, false, -FLT_MAX, FLT_MAX, 0.01f, true },
        { QG_MIN_COMBINED, QG_SCALED_TF2, false, 0.0f, FLT_MAX, 0.01f, true },
        { QG_SCALED, QG_SCALED_TF2, false, -1.0f, 1.0f, FLT_MAX, false },      /* ensured: wider still */
        { QG_MIN_FIRST, QG_SCALED_TF2, false, -2.0f, 1.0f, FLT_MAX, false },
        { QG_MIN_COMBINED, QG_SCALED_TF2, false, 0.0f, 7e-37f, 0.0f, false },
        { QG_MIN_COMBINED, QG_SCALED_TF2, false, 0.0f, 8e-37f, 0.0f, true },
        { QG_MIN_FIRST, QG_SCALED_TF2, false, 0.0f, 7e-37f, 0.0f, false },
        { QG_MIN_FIRST, QG_SCALED_TF2, false, 0.0f, 8e-37f, 0.0f, true },
        { QG_MIN_COMBINED, QG_SCALED_TF2, true, 0.0f, 1e-29f, 0.0f, false },
        { QG_MIN_COMBINED, QG_SCALED_TF2, true, 0.0f, 2e-29f, 0.0f, true },
        { QG_SCALED, QG_SCALED_TF2, false, -3e-37f, 3e-37f, 0.0f, false },
        { QG_SCALED, QG_SCALED_TF2, false, -4e-37f, 4e-37f, 0.0f, true },
        { QG_SCALED, QG_SCALED_R14, false, -3e-37f, 3e-37f, 0.0f, false },
        { QG_SCALED, QG_SCALED_R14, false, -4e-37f, 4e-37f, 0.0f, true },
        { QG_SCALED, QG_SCALED_TF2, false, -1e-45f, 1e-45f, 0.0f, false },
        { QG_MIN_COMBINED, QG_SCALED_TF2, false, 0.0f, 1e-45f, 0.0f, false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qg_quantize_v2_attrs attrs = tf(rows[i].mode);
        attrs.scaled_variant       = rows[i].variant;
        attrs.ensure_minimum_range = rows[i].ensure;
        float   x[3] = { rows[i].lo, 0.0f, rows[i].hi }, range[2] = { rows[i].lo, rows[i].hi };
        int8_t  q[3]    = { 99, 99, 99 };
        int32_t wide[3] = { 99, 99, 99 };
        const qg_status s = quantize(attrs, x, 3, range, rows[i].wide ? QG_I32 : QG_I8,
                                     rows[i].wide ? (void *)wide : (void *)q);
        if ((s == QG_OK) != rows[i].ok) fail_msg("row %zu: %s", i, s ? qg_errmsg() : "accepted");
        if (!rows[i].ok) {
            assert_non_null(strstr(qg_errmsg(), "min_range[0]"));
            assert_true(q[0] == 99 && q[1] == 99 && q[2] == 99 && wide[0] == 99);
            assert_true(range[0] == rows[i].lo && range[1] == rows[i].hi);
            continue;
        }
        assert_true(isfinite(range[0]) && isfinite(range[1]));
        assert_true(rows[i].wide ? wide[0] <= wide[1] && wide[1] < wide[2] : q[0] <= q[1] && q[1] < q[2]);
    }
}

/* Every code of an empty range is its one value. */
static void an_empty_range_has_the_lowest_code(void **state)
{
    for (int first = 0; first < 2; first++) {
        qg_quantize_v2_attrs attrs = tf(first ? QG_MIN_FIRST : QG_MIN_COMBINED);
        attrs.ensure_minimum_range = 0.0f;
        float   x[] = { -1.0f, 0.0f, 5.0f, INFINITY }, range[] = { 0.0f, 0.0f }, y[4];
        int8_t  q[4];
        uint8_t u[4];
        assert_ok(quantize(attrs, x, 3, range, QG_I8, q));
        assert_ok(quantize(attrs, x, 3, range, QG_U8, u));
        for (int i = 0; i < 3; i++) assert_true(q[i] == -128 && u[i] == 0);
        const qg_dequantize_attrs back = { .mode = attrs.mode, .axis = QG_NO_AXIS };
        assert_ok(dequantize(back, QG_I8, q, 3, range, y));
        for (int i = 0; i < 3; i++) assert_true(y[i] == 0.0f);
    }
}

static void dequantize_refuses_ranges_beyond_float32(void **state)
{
    static const struct {
        qg_quantize_mode mode;
        bool             drift_free;
        float            lo, hi;
        bool             ok;
    } rows[] = {
        { QG_MIN_COMBINED, false, -3e38f, 3e38f, false }, { QG_MIN_FIRST, false, -3e38f, 3e38f, false },
        { QG_MIN_FIRST, true, -3e38f, 3e38f, false },     { QG_SCALED, false, -3e38f, 3e38f, true },
        { QG_MIN_COMBINED, false, 3e38f, -3e38f, false }, { QG_MIN_FIRST, false, 0.0f, 1e-45f, false },
        { QG_MIN_FIRST, false, 0.0f, 1e-42f, true },      { QG_MIN_FIRST, true, 0.0f, 7e-37f, false },
        { QG_MIN_FIRST, true, 0.0f, 8e-37f, true },       { QG_MIN_COMBINED, false, 0.0f, 1e-45f, true },
        { QG_MIN_COMBINED, false, -1.7e38f, 1.7e38f, true },
    };
    /* Only what is there counts: code -128 of this range is below -FLT_MAX. */
    float                     most[] = { -FLT_MAX, FLT_MAX }, real = 99.0f;
    int8_t                    low = -126;
    const qg_dequantize_attrs scaled = { .mode = QG_SCALED, .axis = QG_NO_AXIS };
    assert_ok(dequantize(scaled, QG_I8, &low, 1, most, &real));
    assert_true(real <= -3.3e38f);
    low = -128;
    assert_failed(dequantize(scaled, QG_I8, &low, 1, most, &real), QG_EARG, "code -128 is -inf");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const qg_dequantize_attrs attrs = { rows[i].mode, false, -1, rows[i].drift_free };
        int8_t                    q[]   = { -127, 0, 127 };
        float                     y[3]  = { 99.0f, 99.0f, 99.0f }, range[] = { rows[i].lo, rows[i].hi };
        const qg_status           s     = dequantize(attrs, QG_I8, q, 3, range, y);
        if ((s == QG_OK) != rows[i].ok) fail_msg("row %zu: %s", i, s ? qg_errmsg() : "accepted");
        for (int k = 0; k < 3; k++) assert_true(s == QG_OK ? isfinite(y[k]) : y[k] == 99.0f);
        if (s) assert_non_null(strstr(qg_errmsg(), "min_range[0]"));
    }
}

/* ---- quantize_and_dequantize ---- */

static qg_status qdq(qg_quantize_and_dequantize_attrs attrs, float *x, size_t n, float lo, float hi,
                     float *y)
{
    return qg_quantize_and_dequantize(attrs, VECTOR(x, n), SCALAR(&lo), SCALAR(&hi), VECTOR(y, n));
}

static const qg_quantize_and_dequantize_attrs int8_given = {
    .version = QG_QDQ_V4, .signed_input = true, .num_bits = 8, .range_given = true,
    .round_mode = QG_HALF_TO_EVEN, .axis = QG_NO_AXIS,
};

static qg_status gradient(qg_quantize_and_dequantize_attrs attrs, float *g, float *x, size_t n, const float range[2],
                          float *dx, float drange[2])
{
    float    ends[] = { range[0], range[1] };
    qg_array gs = view(QG_F32, g, n), xs = view(QG_F32, x, n), ds = view(QG_F32, dx, n), lo = scalar(ends);
    qg_array hi = scalar(ends + 1), dlo = scalar(drange), dhi = scalar(drange + 1);
    return qg_quantize_and_dequantize_v4_gradient(attrs, &gs, &xs, &lo, &hi, &ds, &dlo, &dhi);
}

#define EVEN QG_HALF_TO_EVEN
#define UP   QG_HALF_UP

static void values_of_8_bits(void **state)
{
    static const struct {
        const char    *what;
        bool           is_signed, given;
        qg_qdq_version version;
        qg_round_mode  round_mode;
        size_t         n;
        float          x[4], lo, hi, y[4];
    } rows[] = {
        { "clips at the adjusted range", true, true, QG_QDQ_V4, EVEN, 3, { 7.0f, 9.95f, -11.0f }, -10.0f, 5.0f,
          { 7.03125f, 9.921875f, -10.0f } },
        { "unsigned, measured and negative", false, false, QG_QDQ_V4, EVEN, 2, { -1.0f, -2.0f }, 0, 0, { 0.0f, 0.0f } },
        { "zeros, unsigned", false, false, QG_QDQ_V4, EVEN, 2, { 0.0f, 0.0f }, 0, 0, { 0.0f, 0.0f } },
        { "zeros, signed", true, false, QG_QDQ_V4, EVEN, 2, { 0.0f, 0.0f }, 0, 0, { 0.0f, 0.0f } },
        { "nothing", true, false, QG_QDQ_V4, EVEN, 0, { 0.0f }, 0, 0, { 0.0f } },
        /* An infinite measured range: a result of zeros would hide that the input is bad. */
        { "signed and -inf", true, false, QG_QDQ_V4, EVEN, 3, { 1.0f, -INFINITY, -2.0f }, 0, 0, { NAN, NAN, NAN } },
        { "signed and inf", true, false, QG_QDQ_V4, EVEN, 3, { 1.0f, INFINITY, -2.0f }, 0, 0, { NAN, NAN, NAN } },
        { "unsigned and -inf, below the codes", false, false, QG_QDQ_V4, EVEN, 3, { 1.0f, -INFINITY, -2.0f }, 0, 0,
          { 1.0f, -INFINITY, -2.0f } },
        { "unsigned and inf", false, false, QG_QDQ_V4, EVEN, 3, { 1.0f, INFINITY, -2.0f }, 0, 0, { NAN, NAN, NAN } },
        { "V4 rounds as it is told", true, false, QG_QDQ_V4, UP, 4, { 127.0f, 2.5f, -2.5f, 3.5f }, 0, 0,
          { 127.0f, 3.0f, -2.0f, 4.0f } },
        { "V3 rounds half to even", true, false, QG_QDQ_V3, UP, 4, { 127.0f, 2.5f, -2.5f, 3.5f }, 0, 0,
          { 127.0f, 2.0f, -2.0f, 4.0f } },
        /* 0.3f * 255f is the tie 76.5 in float32; in double it would be above it. */
        { "float32 product", false, true, QG_QDQ_V4, EVEN, 1, { 0.3f }, 0.0f, 1.0f, { 76.0f * (1.0f / 255.0f) } },
        { "float32 product, up", false, true, QG_QDQ_V4, UP, 1, { 0.3f }, 0.0f, 1.0f, { 77.0f * (1.0f / 255.0f) } },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        qg_quantize_and_dequantize_attrs attrs = int8_given;
        attrs.version                          = rows[r].version;
        attrs.signed_input                     = rows[r].is_signed;
        attrs.range_given                      = rows[r].given;
        attrs.round_mode                       = rows[r].round_mode;
        float x[4], y[4] = { 9.0f, 9.0f, 9.0f, 9.0f };
        memcpy(x, rows[r].x, sizeof x);
        if (qdq(attrs, x, rows[r].n, rows[r].lo, rows[r].hi, y)) fail_msg("%s: %s", rows[r].what, qg_errmsg());
        for (size_t i = 0; i < rows[r].n; i++)
            if (isnan(rows[r].y[i]) ? !isnan(y[i]) : y[i] != rows[r].y[i])
                fail_msg("%s: [%zu] is %.9g", rows[r].what, i, (double)y[i]);
    }
}

/* NaN is left out of a measured range, wherever it stands, and stays NaN. */
static void a_measured_range_leaves_nan_out(void **state)
{
    enum { MOST_COLUMNS = 35 };
    for (size_t n = 2; n <= MOST_COLUMNS; n += 3)
        for (int axis = -1; axis <= 1; axis++)
            for (size_t at = 0; at <= 2 * n; at++) {
                float x[2 * MOST_COLUMNS], y[2 * MOST_COLUMNS], want[2 * MOST_COLUMNS];
                for (size_t i = 0; i < 2 * n; i++) x[i] = 4.0f * (qg_uniform(8, i) - 0.5f);
                if (at < 2 * n) x[at] = 0.0f;       /* a number that widens no range */
                qg_array xs = { QG_F32, 2, { 2, n }, x }, ys = { QG_F32, 2, { 2, n }, want };
                qg_quantize_and_dequantize_attrs attrs = int8_given;
                attrs.range_given                      = false;
                attrs.axis                             = axis;
                for (int is_signed = 0; is_signed < 2; is_signed++) {
                    attrs.signed_input = is_signed;
                    ys.data            = want;
                    if (at < 2 * n) x[at] = 0.0f;
                    assert_ok(qg_quantize_and_dequantize(attrs, &xs, NULL, NULL, &ys));
                    if (at < 2 * n) want[at] = x[at] = NAN;
                    ys.data = y;
                    assert_ok(qg_quantize_and_dequantize(attrs, &xs, NULL, NULL, &ys));
                    for (size_t i = 0; i < 2 * n; i++)
                        assert_true(i == at ? isnan(y[i]) : y[i] == want[i]);
                }
            }
    float only[] = { NAN, NAN }, y[2];
    for (int kind = 0; kind < 4; kind++) {
        qg_quantize_and_dequantize_attrs attrs = int8_given;
        attrs.range_given                      = kind & 1;
        attrs.signed_input                     = kind & 2;
        assert_ok(qdq(attrs, only, 2, -1.0f, 0.0f, y));
        assert_true(isnan(y[0]) && isnan(y[1]));
    }
}

/* What TensorFlow makes of these is not finite: -1e-37 has a scale of 1.28e39. */
static void a_range_without_a_float32_scale_is_refused(void **state)
{
    static const struct {
        float lo, hi;
        int   bits;
        bool  is_signed, given, measured;       /* accepted as a given range, and as a measured one */
    } rows[] = {
        { -1e-37f, 1e-37f, 8, true, false, false },     { 0.0f, 1e-37f, 8, false, false, false },
        { 0.0f, 1e-45f, 1, false, false, false },       { -2e-37f, 1e-37f, 8, false, false, false },
        /* A single side leaves FLT_MAX for the other, and all is 0: finite, as in TensorFlow. */
        { 0.0f, 1e-37f, 8, true, true, true },          { -1e-45f, 0.0f, 2, true, true, true },
        { -4e-37f, 4e-37f, 8, true, true, true },       { -3e38f, 3e38f, 8, true, true, true },
        { -FLT_MAX, FLT_MAX, 2, true, true, true },     { 0.0f, FLT_MAX, 62, false, true, true },
        { -1e-21f, 1e-21f, 61, true, false, false },    { 0.0f, 0.0f, 8, true, true, true },
        /* Negative numbers are not clamped when the range is measured, and this one would overflow. */
        { -3e38f, 1e-30f, 8, false, true, false },      { -1.0f, 1.0f, 8, false, true, true },
        { -FLT_MAX, 1e36f, 2, false, true, false },     { -3e38f, 1e36f, 2, false, true, true },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int given = 0; given < 2; given++) {
            qg_quantize_and_dequantize_attrs attrs = int8_given;
            attrs.num_bits                         = rows[i].bits;
            attrs.signed_input                     = rows[i].is_signed;
            attrs.range_given                      = given;
            float           x[] = { rows[i].lo, 0.0f, rows[i].hi }, y[] = { 99.0f, 99.0f, 99.0f };
            const bool      ok  = given ? rows[i].given : rows[i].measured;
            const qg_status s   = qdq(attrs, x, 3, rows[i].lo, rows[i].hi, y);
            if ((s == QG_OK) != ok) fail_msg("row %zu, %d: %s", i, given, s ? qg_errmsg() : "accepted");
            for (int k = 0; k < 3; k++) assert_true(s == QG_OK ? isfinite(y[k]) : y[k] == 99.0f);
            if (s) assert_non_null(strstr(qg_errmsg(), given ? "input_min .. input_max[0]" : "span of input[0]"));
            else assert_true(y[1] == 0.0f);
        }
}

/* A slice that is refused leaves the slices before it unwritten. */
static void no_slice_is_written_before_all_are_checked(void **state)
{
    float    x[] = { 1.0f, 2.0f, 1e-37f, -1e-37f }, y[] = { 9.0f, 9.0f, 9.0f, 9.0f };
    float    lo[] = { -1.0f, -1e-37f }, hi[] = { 1.0f, 1e-37f };
    qg_array xs = { QG_F32, 2, { 2, 2 }, x }, ys = { QG_F32, 2, { 2, 2 }, y };
    qg_array los = view(QG_F32, lo, 2), his = view(QG_F32, hi, 2);
    qg_quantize_and_dequantize_attrs attrs = int8_given;
    attrs.axis                             = 0;
    for (int given = 0; given < 2; given++) {
        attrs.range_given = given;
        assert_int_equal(qg_quantize_and_dequantize(attrs, &xs, &los, &his, &ys), QG_EARG);
        assert_non_null(strstr(qg_errmsg(), given ? "input_min .. input_max[1]" : "span of input[1]"));
        for (int i = 0; i < 4; i++) assert_true(y[i] == 9.0f);
    }
    uint8_t q[] = { 9, 9, 9, 9 };
    float   out[4] = { 9.0f, 9.0f, 9.0f, 9.0f };
    lo[1]       = -3e38f, hi[1] = 3e38f;
    qg_array qs = { QG_U8, 2, { 2, 2 }, q };
    qg_array out_lo = view(QG_F32, out, 2), out_hi = view(QG_F32, out + 2, 2);
    qg_quantize_v2_attrs combined = tf(QG_MIN_COMBINED);
    combined.axis                 = 0;
    assert_failed(qg_quantize_v2(combined, &xs, &los, &his, &qs, &out_lo, &out_hi), QG_EARG, "min_range[1]");
    for (int i = 0; i < 4; i++) assert_true(q[i] == 9 && out[i] == 9.0f);
}

/* V2 and V3 are straight-through, whatever the range; only V4 has a mask, which is of the range as given. */
static void the_gradient_follows_the_version(void **state)
{
    for (int v = QG_QDQ_V2; v <= QG_QDQ_V4; v++)
        for (int given = 0; given < 2; given++) {
            float x[] = { -11.0f, -10.0f, 0.0f, 5.0f, 7.0f, NAN, INFINITY, 9.95f };
            float g[] = { 1.0f, 2.0f, 3.0f, 4.0f, INFINITY, 6.0f, 7.0f, 1.0f }, dx[8], drange[] = { 9.0f, 9.0f };
            qg_quantize_and_dequantize_attrs attrs = int8_given;
            attrs.version                          = (qg_qdq_version)v;
            attrs.range_given                      = given;
            assert_ok(gradient(attrs, g, x, 8, (float[]){ -10.0f, 5.0f }, dx, drange));
            for (int i = 0; i < 8; i++) {
                const bool masked = v == QG_QDQ_V4 && given && (i == 0 || i > 3);
                if (dx[i] != (masked ? 0.0f : g[i]))
                    fail_msg("V%d, given %d: dx[%d] is %g", v + 2, given, i, (double)dx[i]);
            }
            assert_true(drange[0] == 0.0f && drange[1] == 0.0f);
            if (!given) assert_ok(gradient(attrs, g, x, 8, (float[]){ 0.0f, 0.0f }, dx, drange));
            for (int i = 0; i < 8 && !given; i++) assert_true(dx[i] == g[i]);
        }
}

static void qdq_lies_on_its_codes(void **state)
{
    for (int bits = 2; bits <= 16; bits++)
        for (int kind = 0; kind < 4; kind++) {
            float                            x[N], y[N], again[N];
            qg_quantize_and_dequantize_attrs attrs = int8_given;
            attrs.num_bits                         = bits;
            attrs.signed_input                     = kind & 1;
            attrs.narrow_range                     = kind & 2;
            for (size_t i = 0; i < N; i++) x[i] = 6.0f * (qg_uniform(5, i) - 0.5f);
            assert_ok(qdq(attrs, x, N, -2.0f, 1.5f, y));
            assert_ok(qdq(attrs, y, N, -2.0f, 1.5f, again));
            assert_memory_equal(y, again, sizeof y);
            float zero = 0.0f;
            assert_ok(qdq(attrs, &zero, 1, -2.0f, 1.5f, &zero));
            assert_true(zero == 0.0f);
        }
}

static void qdq_refuses_by_name(void **state)
{
    float                            x = 0.0f;
    float                            y = 9.0f;
    qg_quantize_and_dequantize_attrs attrs = int8_given;
    static const struct {
        bool is_signed;
        int  bits;
        bool ok;
    } rows[] = {
        { true, 0, false }, { true, 1, false },  { true, 61, true },   { true, 62, false },
        { false, 1, true }, { false, 62, true }, { false, 63, false }, { false, -3, false }
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        attrs.signed_input = rows[i].is_signed;
        attrs.num_bits     = rows[i].bits;
        assert_int_equal(qdq(attrs, &x, 1, -1.0f, 1.0f, &y), rows[i].ok ? QG_OK : QG_EARG);
        if (!rows[i].ok) assert_non_null(strstr(qg_errmsg(), "num_bits"));
    }
    attrs            = int8_given;
    attrs.round_mode = QG_HALF_AWAY_FROM_ZERO;
    assert_int_equal(qdq(attrs, &x, 1, -1.0f, 1.0f, &y), QG_EARG);
    assert_failed(qdq(int8_given, &x, 1, 1.0f, 0.0f, &y), QG_EARG, "input_min[0] is 1");
    /* V3 wraps a negative axis, the others do not; -1 is none for all. */
    qg_array xs = { QG_F32, 2, { 1, 1 }, &x };
    qg_array ys = { QG_F32, 2, { 1, 1 }, &y };
    attrs             = int8_given;
    attrs.range_given = false;
    for (int axis = -4; axis <= 3; axis++)
        for (int v = QG_QDQ_V2; v <= QG_QDQ_V4; v++) {
            attrs.version = (qg_qdq_version)v;
            attrs.axis    = axis;
            const bool ok = axis < 2 && axis >= (v == QG_QDQ_V3 ? -2 : -1);
            assert_int_equal(qg_quantize_and_dequantize(attrs, &xs, NULL, NULL, &ys),
                             ok ? QG_OK : QG_EARG);
            if (!ok) assert_non_null(strstr(qg_errmsg(), "axis"));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_and_ranges),
        cmocka_unit_test(zero_drifts),
        cmocka_unit_test(the_sign_of_zero_is_that_of_the_product),
        cmocka_unit_test(codes_survive_a_round_trip),
        cmocka_unit_test(slices_along_any_axis),
        cmocka_unit_test(a_single_slice_makes_a_round_trip),
        cmocka_unit_test(quantize_refuses_by_name),
        cmocka_unit_test(ranges_beyond_float32_are_refused),
        cmocka_unit_test(an_empty_range_has_the_lowest_code),
        cmocka_unit_test(dequantize_refuses_ranges_beyond_float32),
        cmocka_unit_test(values_of_8_bits),
        cmocka_unit_test(a_measured_range_leaves_nan_out),
        cmocka_unit_test(a_range_without_a_float32_scale_is_refused),
        cmocka_unit_test(no_slice_is_written_before_all_are_checked),
        cmocka_unit_test(the_gradient_follows_the_version),
        cmocka_unit_test(qdq_lies_on_its_codes),
        cmocka_unit_test(qdq_refuses_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
