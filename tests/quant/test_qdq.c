#include "tests/support/schemes.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/rng.h"
#include "quant/engine.h"
#include "quant/reference/qdq.h"

/* --- the bits of the operator ------------------------------------------------------------------ */

enum { N = 3 * 2 * 5 * 21 };
static const qg_shape shape = { 3, 2, 5, 21 };

enum { RANDOM, BETWEEN, AT_ENDS, NO_NUMBER_BUT_0, DENORMAL, UNUSUAL, FAR, KINDS };

/* x for codes of a range lo .. hi of which the longer side has `most` steps. */
static void fill(float *x, int kind, float lo, float hi, float most)
{
    const float end = fmaxf(-lo, hi), step = end / most;
    const float ends[]    = { lo, hi, 0, -0.0f, nextafterf(lo, -9), nextafterf(lo, 9), nextafterf(hi, -9), nextafterf(hi, 9) };
    const float zeros[]   = { -0.0f, 0, NAN };
    const float unusual[] = { NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX };
    for (size_t i = 0; i < N; i++) {
        const float u = qg_uniform((uint64_t)kind, i), k = floorf(u * (most + 2));
        switch (kind) {
        case RANDOM: x[i] = 1.3f * (lo + u * (hi - lo)); break;
        case BETWEEN: x[i] = ((i % 2 ? k : -k) + 0.5f) * step; break;
        case AT_ENDS: x[i] = ends[i % 8]; break;
        case NO_NUMBER_BUT_0: x[i] = zeros[(i + i / 63) % 3]; break;
        case DENORMAL: x[i] = (u - 0.5f) * 0x1p-130f; break;
        case UNUSUAL: x[i] = i % 50 == 7 ? unusual[i / 50 % 5] : lo + u * (hi - lo); break;
        default: x[i] = (u - 0.5f) * FLT_MAX;
        }
    }
}

static bool same(float a, float b) { return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b)); }

typedef struct operator {
    float    x[N], dy[N], y[N], dx[N];
    qg_array of[4];                     /* the same, as arrays */
} operator;

/* The operator's y and dx; false: it refuses the range. */
static bool run_operator(operator *o, qg_quantize_and_dequantize_attrs a, float lo, float hi)
{
    float          ends[2][21], dends[2][21];
    const size_t   depth = a.axis < 0 ? 1 : o->of[0].dims[a.axis];
    const qg_array range = { .dtype = QG_F32, .rank = a.axis < 0 ? 0 : 1, .dims = { depth } };
    qg_array       min = range, max = range, dmin = range, dmax = range;
    for (size_t i = 0; i < depth; i++) ends[0][i] = lo, ends[1][i] = hi;
    min.data = ends[0], max.data = ends[1], dmin.data = dends[0], dmax.data = dends[1];
    assert_ok(qg_quantize_and_dequantize_v4_gradient(a, &o->of[1], &o->of[0], &min, &max, &o->of[3], &dmin, &dmax));
    return qg_quantize_and_dequantize(a, &o->of[0], &min, &max, &o->of[2]) == QG_OK;
}

/* Both gradients are compared as numbers: dx is added to 0, so it is never -0. */
static void compare(qg_qdq_spec s, qg_role role, int kind, float lo, float hi)
{
    static operator o;
    rig             r;
    const qg_quant  q = qg_qdq(s);
    const float     most = ldexpf(1, s.is_unsigned ? q.bits : q.bits - 1);
    const bool      straight = s.surrogate.slope != NULL;
    const qg_quantize_and_dequantize_attrs a = {
        .version      = straight ? QG_QDQ_V2 : QG_QDQ_V4,
        .signed_input = !s.is_unsigned,
        .num_bits     = q.bits,
        .range_given  = s.range_given,
        .round_mode   = s.ties_up ? QG_HALF_UP : QG_HALF_TO_EVEN,
        .narrow_range = s.narrow_range,
        .axis         = !s.per_channel ? QG_NO_AXIS : role == QG_WEIGHT ? 0 : 3,
    };
    float *const data[] = { o.x, o.dy, o.y, o.dx };
    for (int i = 0; i < 4; i++) o.of[i] = rig_array(shape, data[i]);
    fill(o.x, kind, lo, hi, most);
    fill_uniform(o.dy, N, -1, 1, 5);
    o.dy[3] = INFINITY, o.dy[4] = NAN;
    open_rig(&r, q, role, shape);
    memcpy(r.x->value, o.x, sizeof o.x);
    if (!run_operator(&o, a, lo, hi)) assert_failed(run_rig(&r, QG_TRAIN, 0), QG_EARG, "float32 cannot scale");
    else {
        train_rig(&r, 0, o.dy);
        for (size_t i = 0; i < N; i++) {
            const float x = o.x[i], y = r.y->data[i], dx = r.x->grad[i];
            if (!same(y, o.y[i]))
                fail_msg("kind %d, %d bits, [%zu]: q(%a) is %a, expected %a", kind, q.bits, i, (double)x, (double)y, (double)o.y[i]);
            if (!same(dx, o.dx[i]) && dx != o.dx[i])
                fail_msg("kind %d, %d bits, [%zu]: dx at %a is %a, expected %a", kind, q.bits, i, (double)x, (double)dx,
                         (double)o.dx[i]);
        }
        assert_ok(run_rig(&r, QG_EVAL, 0));
        for (size_t i = 0; i < N; i++) assert_true(same(r.y->data[i], o.y[i]));
    }
    close_rig(&r);
}

static void every_argument(qg_qdq_spec s)
{
    static const float ranges[][2] = { { -1.25f, 0.75f }, { -0.3f, 2 }, { 0, 1 }, { 0.5f, 3 }, { -4, -1 }, { -1e-30f, 1e-30f } };
    for (size_t g = 0; g < sizeof ranges / sizeof *ranges; g++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int role = QG_WEIGHT; role <= QG_INPUT; role++)
                for (int other = 0; other < 2; other++) {
                    const float lo = ranges[g][0], hi = ranges[g][1];
                    qg_qdq_spec one = s;
                    if (other) one.surrogate = qg_surrogate_identity();
                    if (s.range_given) one.min = lo, one.max = hi;
                    if (s.range_given && s.is_unsigned && hi <= 0) continue;    /* refused: all its codes are 0 */
                    compare(one, (qg_role)role, kind, lo, hi);
                }
}

/* For every combination of arguments. */
static void values_and_gradients_are_those_of_the_operator(void **state)
{
    static const int bits[] = { 1, 2, 3, 8, 16 };
    for (size_t b = 0; b < sizeof bits / sizeof *bits; b++)
        for (int how = 0; how < 32; how++) {
            qg_qdq_spec s = { .bits        = bits[b],
                              .is_unsigned = how & 1,
                              .range_given = how & 2,
                              .ties_up     = how & 4 };
            if (how & 8 && s.is_unsigned) continue;
            if (how & 16 && s.range_given) continue;
            if (bits[b] == 1 && !s.is_unsigned) continue;
            s.narrow_range = how & 8;
            s.per_channel  = how & 16;
            every_argument(s);
        }
}

/* The example of quant/reference/qdq.h: codes reach beyond a given range, and the gradient does not. */
static void a_given_range_clips_at_its_codes(void **state)
{
    const float x[]  = { 7, 9.95f, -11, 5, -10, 5.5f }, y[] = { 7.03125f, 9.921875f, -10, 5, -10, 5.46875f };
    const float dx[] = { 0, 0, 0, 1, 1, 0 }, dy[] = { 1, 1, 1, 1, 1, 1 };
    rig         r;
    open_rig(&r, qg_qdq((qg_qdq_spec){ .range_given = true, .min = -10, .max = 5 }), QG_INPUT, (qg_shape){ 1, 1, 1, 6 });
    memcpy(r.x->value, x, sizeof x);
    train_rig(&r, 0, dy);
    assert_close(r.y->data, y, 6, 0);
    assert_close(r.x->grad, dx, 6, 0);
    close_rig(&r);
}

/* --- codes ------------------------------------------------------------------------------------- */

static void codes_times_the_step_are_the_values(void **state)
{
    for (int bits = 1; bits <= 16; bits++)
        for (int how = 0; how < 16; how++) {
            const qg_qdq_spec s = { .bits         = bits,
                                    .is_unsigned  = bits == 1 || how & 1,
                                    .range_given  = how & 2,
                                    .narrow_range = !(bits == 1 || how & 1) && how & 4,
                                    .per_channel  = !(how & 2) && how & 8 };
            const int most = (1 << (s.is_unsigned ? bits : bits - 1)) - 1;
            rig       r;
            open_rig(&r, qg_qdq(s), QG_WEIGHT, (qg_shape){ 3, 1, 5, 63 });
            fill_uniform(r.x->value, r.n, s.is_unsigned ? 0 : -8, 7, (uint64_t)bits);
            assert_codes_give_values(&r, s.is_unsigned ? 0 : -most - !s.narrow_range, most, 0);
            close_rig(&r);
        }
}

/* They are values, but no codes. */
static void a_measured_range_has_no_codes_below_0(void **state)
{
    float          x[] = { -1, 0, 2, 4 }, scale[1];
    int32_t        code[4];
    qg_codes       codes = { .code = code, .scale = scale };
    const qg_quant q = qg_qdq((qg_qdq_spec){ .bits = 2, .is_unsigned = true });
    assert_failed(qg_encode(q, (qg_tensor){ { 1, 1, 1, 4 }, x }, NULL, &codes), QG_EARG, "qdq: -1 is below 0");
    x[0] = 0;
    assert_ok(qg_encode(q, (qg_tensor){ { 1, 1, 1, 4 }, x }, NULL, &codes));
    assert_true(code[2] == 2 && code[3] == 3 && codes.bits == 2);       /* 1.5 goes to the even one */
}

/* --- refusals ---------------------------------------------------------------------------------- */

static void ranges_that_cannot_be_scaled_are_named(void **state)
{
    const float    x[] = { 1, -2, 1e-37f, -1e-37f };
    float          scale[2];
    int32_t        code[4];
    qg_codes       codes = { .code = code, .scale = scale };
    rig            r;
    open_rig(&r, qg_qdq((qg_qdq_spec){ .per_channel = true }), QG_WEIGHT, (qg_shape){ 2, 1, 1, 2 });
    memcpy(r.x->value, x, sizeof x);
    assert_failed(run_rig(&r, QG_TRAIN, 0), QG_EARG,
                  "qdq: -9.99999991e-38 .. 9.99999991e-38 is a range that float32 cannot scale to codes of 8 bits (channel 1)");
    assert_failed(qg_encode(r.q, (qg_tensor){ r.x->shape, r.x->value }, NULL, &codes), QG_EARG, "channel 1");
    close_rig(&r);
    open_rig(&r, qg_qdq((qg_qdq_spec){ 0 }), QG_INPUT, (qg_shape){ 1, 1, 1, 2 });
    memcpy(r.x->value, x + 2, 2 * sizeof *x);
    assert_failed(run_rig(&r, QG_EVAL, 0), QG_EARG, "codes of 8 bits");
    assert_null(strstr(qg_errmsg(), "channel"));
    close_rig(&r);
}

static void arguments_that_contradict_each_other_are_named(void **state)
{
    qg_quant other = qg_qdq((qg_qdq_spec){ 0 });
    other.scheme   = qg_qdq((qg_qdq_spec){ .range_given = true }).scheme;
    const struct {
        qg_quant    q;
        const char *part;
    } rows[] = {
        { qg_qdq((qg_qdq_spec){ .bits = 17 }), "bits is 17, not in 1..16" },
        { qg_qdq((qg_qdq_spec){ .bits = 1 }), "bits is 1, must be 2 .. 16" },
        { qg_qdq((qg_qdq_spec){ .max = 1 }), "max has no effect with range=measured; it requires range=given" },
        { qg_qdq((qg_qdq_spec){ .range_given = true, .min = 1 }), "min is 1, not below max, 0" },
        { qg_qdq((qg_qdq_spec){ .range_given = true, .max = NAN }), "min is 0, not below max, nan" },
        { qg_qdq((qg_qdq_spec){ .range_given = true, .min = -1, .is_unsigned = true }), "all unsigned codes are 0" },
        { qg_qdq((qg_qdq_spec){ .range_given = true, .min = -1e-37f, .max = 1e-37f }), "float32 cannot scale" },
        { qg_qdq((qg_qdq_spec){ .is_unsigned = true, .narrow_range = true }), "narrow-range has no effect with signed=no" },
        { qg_qdq((qg_qdq_spec){ .range_given = true, .per_channel = true }), "per-channel has no effect with range=given" },
        { other, "arg says range=measured, but the scheme is that of range=given" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) assert_failed(qg__quant_check(rows[i].q), QG_EARG, rows[i].part);
    const qg_quant own = qg_qdq((qg_qdq_spec){ .range_given = true });
    assert_true(own.bits == 8 && own.arg[2] == -6 && own.arg[3] == 6);
}

/* --- in nets ----------------------------------------------------------------------------------- */

static void nets_train_alike(void **state)
{
    const qg_quant none = { 0 }, measured = qg_qdq((qg_qdq_spec){ .bits = 4 });
    const qg_quant channels = qg_qdq((qg_qdq_spec){ .bits = 4, .per_channel = true });
    const qg_quant given = qg_qdq((qg_qdq_spec){ .bits = 3, .range_given = true, .max = 2, .is_unsigned = true });
    const qg_quant rows[][2] = { { measured, measured }, { channels, channels }, { given, given }, { none, given } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_trains_alike(rows[i][0], rows[i][1]);
        assert_any_threads(rows[i][0], rows[i][1], none, false);
    }
    assert_fused_equals_unfused(given, "qdq", 0);
    assert_fused_equals_unfused(measured, "qdq", -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_gradients_are_those_of_the_operator),
        cmocka_unit_test(a_given_range_clips_at_its_codes),
        cmocka_unit_test(codes_times_the_step_are_the_values),
        cmocka_unit_test(a_measured_range_has_no_codes_below_0),
        cmocka_unit_test(ranges_that_cannot_be_scaled_are_named),
        cmocka_unit_test(arguments_that_contradict_each_other_are_named),
        cmocka_unit_test(nets_train_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
