#include "tests/support/schemes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "quant/reference/fake_quant.h"
#include "quant/channel.h"

static const qg_shape shapes[] = { { 1, 1, 1, 1 }, { 3, 1, 1, 1 }, { 1, 1, 31, 33 }, { 65, 3, 1, 63 }, { 31, 33, 5, 7 } };
enum { SHAPES = sizeof shapes / sizeof shapes[0], MOST = 31 * 33 * 5 * 7, MOST_CHANNELS = 65 };
enum { MIN, MAX, SEEN, SPAN };

static float x_data[MOST], dy[MOST], y_expected[MOST], dx_expected[MOST];

static qg_array vector(float *data, size_t n)
{
    return (qg_array){ .dtype = QG_F32, .rank = 1, .dims = { n }, .data = data };
}

/* --- against the plain operators -------------------------------------------------------------- */

/* The gradient of the range is not scaled. */
static qg_quant unscaled(qg_fake_quant_spec s)
{
    s.sum_gradient = true;
    return qg_fake_quant(s);
}

/* The last axis for an input, rows for a weight: the operator sees the latter transposed. */
static void compare_channels(qg_shape shape, qg_role role)
{
    rig          r;
    const bool   rows = role == QG_WEIGHT;
    const size_t n = qg_count(shape), d = (size_t)(rows ? shape.n : shape.c), other = n / d;
    float        lo[MOST_CHANNELS], hi[MOST_CHANNELS], dlo[MOST_CHANNELS], dhi[MOST_CHANNELS];
    float       *turned = malloc(2 * n * sizeof *turned);
    assert_non_null(turned);
    const qg_quant q = unscaled((qg_fake_quant_spec){ .bits = 4, .per_channel = true });
    open_rig(&r, q, role, shape);
    fill_uniform(r.x->value, n, -1.0f, 2.0f, 5);
    fill_uniform(dy, n, -1.0f, 1.0f, 6);
    for (size_t k = 0; k < d; k++) {
        r.learned[MIN]->value[k] = lo[k] = -0.01f * (float)k - 0.1f;
        r.learned[MAX]->value[k] = hi[k] = 0.02f * (float)k + 0.2f;
    }
    r.learned[SEEN]->value[0] = 1.0f;
    train_rig(&r, 0, dy);
    for (size_t k = 0; k < n; k++) {
        const size_t from = rows ? k % d * other + k / d : k;
        turned[k]     = r.x->value[from];
        turned[n + k] = dy[from];
    }
    qg_array  x  = { .dtype = QG_F32, .rank = 2, .dims = { other, d }, .data = turned };
    qg_array  g  = x, y = x, dx = x, min = vector(lo, d), max = vector(hi, d);
    qg_array  dmin = vector(dlo, d), dmax = vector(dhi, d);
    const qg_fake_quant_attrs a = { .num_bits = 4 };
    g.data  = turned + n;
    y.data  = y_expected;
    dx.data = dx_expected;
    assert_ok(qg_fake_quant_with_min_max_vars_per_channel(a, &x, &min, &max, &y));
    assert_ok(qg_fake_quant_with_min_max_vars_per_channel_gradient(a, &g, &x, &min, &max, &dx, &dmin, &dmax));
    for (size_t k = 0; k < n; k++) {
        const size_t from = rows ? k % d * other + k / d : k;
        assert_true(r.y->data[from] == y_expected[k]);
        assert_true(r.x->grad[from] == dx_expected[k]);
    }
    assert_close(r.learned[MIN]->grad, dlo, d, 1e-5);   /* some thousand terms below 1, as above */
    assert_close(r.learned[MAX]->grad, dhi, d, 1e-5);
    close_rig(&r);
    free(turned);
}

static void per_channel_equals_the_operator(void **state)
{
    for (int i = 0; i < SHAPES; i++) {
        compare_channels(shapes[i], QG_INPUT);
        compare_channels(shapes[i], QG_WEIGHT);
    }
    compare_channels((qg_shape){ 2, 3, 5, 65 }, QG_INPUT);  /* more channels than a chunk holds */
}

static void current_is_symmetric(void **state)
{
    for (int per_channel = 0; per_channel < 2; per_channel++)
        for (int i = 0; i < SHAPES; i++) {
            rig          r;
            const size_t n = qg_count(shapes[i]), d = per_channel ? (size_t)shapes[i].n : 1, row = n / d;
            open_rig(&r, qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_CURRENT, .per_channel = per_channel }),
                     QG_WEIGHT, shapes[i]);
            fill_uniform(r.x->value, n, -0.3f, 0.2f, 5);
            fill_uniform(dy, n, -1.0f, 1.0f, 6);
            train_rig(&r, 0, dy);
            assert_memory_equal(r.x->grad, dy, n * sizeof *dy);
            for (size_t k = 0; k < d; k++) {
                float m = 0.0f;
                for (size_t j = 0; j < row; j++) m = fmaxf(m, fabsf(r.x->value[k * row + j]));
                qg_fake_quant_range range;
                assert_ok(qg_fake_quant_nudge((qg_fake_quant_attrs){ 8, true }, -m, m, &range));
                assert_int_equal(range.zero_point, 128);
                (per_channel ? qg_fake_quant_multiply : qg_fake_quant_divide)(&range, row, r.x->value + k * row,
                                                                              y_expected + k * row);
            }
            assert_memory_equal(r.y->data, y_expected, n * sizeof *y_expected);
            assert_codes_give_values(&r, -127, 127, 0);
            memset(r.x->value, 0, n * sizeof *r.x->value);
            assert_ok(run_rig(&r, QG_EVAL, 0));
            for (size_t k = 0; k < n; k++) assert_true(r.y->data[k] == 0.0f);
            r.x->value[0] = INFINITY;
            assert_true(run_rig(&r, QG_EVAL, 0) != QG_OK);
            assert_true((strstr(qg_errmsg(), "channel 0") != NULL) == per_channel);
            close_rig(&r);
        }
}

/* --- gradients -------------------------------------------------------------------------------- */

static double clip(double x, void *context)
{
    const float *limits = context;
    return fmin(fmax(x, (double)limits[0]), (double)limits[1]);
}

static void slope_is_that_of_the_nudged_clip(void **state)
{
    const float         learned[QG_MAX_LEARNED] = { -0.5f, 1.0f, 1.0f };
    qg_fake_quant_range r;
    assert_ok(qg_fake_quant_nudge((qg_fake_quant_attrs){ 3, false }, -0.5f, 1.0f, &r));
    float limits[2] = { r.nmin, r.nmax };
    assert_true(r.nmin != -0.5f);       /* or the test could not tell which of the two is used */
    assert_slope(qg_fake_quant((qg_fake_quant_spec){ .bits = 3 }), QG_INPUT, learned, clip, limits, -2.0f, 2.0f);
    float wide[2] = { -1.5f, 1.5f };
    assert_slope(qg_fake_quant((qg_fake_quant_spec){ .bits = 3, .surrogate = qg_surrogate_clip(1.5f) }), QG_INPUT, learned,
                 clip, wide, -2.0f, 2.0f);
}

typedef struct build_case {
    qg_quant q;
    float    min, max, x;       /* x [33] steps away from x, outward */
    bool     trains_max;
} build_case;

static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    static float      one = 1.0f;
    build_case       *k = context;
    const qg_shape    scalar_shape = { 1, 1, 1, 1 };
    qg_var           *trained = qg_parameter(t, p->item[0]);
    qg_var           *fixed = qg_input(t, (qg_tensor){ scalar_shape, k->trains_max ? &k->min : &k->max });
    qg_var *learned[] = { k->trains_max ? fixed : trained, k->trains_max ? trained : fixed,
                          qg_input(t, (qg_tensor){ scalar_shape, &one }),
                          qg_input(t, (qg_tensor){ scalar_shape, &one }) };
    for (int i = 0; i < 33; i++) x_data[i] = i % 2 ? k->x * (1.0f + (float)i / 8.0f) : -k->x;
    return qg_quantize(t, k->q, qg_input(t, (qg_tensor){ { 1, 1, 1, 33 }, x_data }), learned);
}

/* With the other end at 0 the zero point does not move, and values beyond the range are the end
 * itself: there TensorFlow's gradient is a true derivative.  Elsewhere it leaves out how the levels
 * and the zero point follow the range; test_operators.c covers that. */
static void gradients_of_the_range_are_those_of_the_loss(void **state)
{
    for (int side = 0; side < 2; side++) {
        build_case k = { .q = unscaled((qg_fake_quant_spec){ .bits = 4 }), .trains_max = side };
        k.x          = side ? 1.5f : -1.5f;
        qg_params p  = { 0 };
        declare(&p, side ? "max" : "min", (qg_shape){ 1, 1, 1, 1 });
        assert_ok(qg_params_allocate(&p));
        p.item[0]->value[0] = side ? 1.0f : -1.0f;
        assert_gradcheck((qg_gradcheck_spec){ .name = "range", .params = &p, .build = build, .context = &k });
        qg_params_release(&p);
    }
}

/* --- ranges ----------------------------------------------------------------------------------- */

static void learned_range_stays_legal(void **state)
{
    rig         r;
    const float g[2] = { 1.0f, 2.0f };
    open_rig(&r, unscaled((qg_fake_quant_spec){ 0 }), QG_WEIGHT, (qg_shape){ 1, 1, 1, 2 });
    memcpy(r.x->value, (float[]){ -1.0f, 1.0f }, sizeof g);
    r.learned[MIN]->value[0]  = 0.5f;       /* turned over */
    r.learned[MAX]->value[0]  = -0.25f;
    r.learned[SEEN]->value[0] = 1.0f;
    assert_ok(run_rig(&r, QG_EVAL, 0));
    assert_true(r.learned[MIN]->value[0] == 0.5f && r.learned[MAX]->value[0] == -0.25f);
    train_rig(&r, 0, g);
    assert_true(r.learned[MIN]->value[0] == 0.0f && r.learned[MAX]->value[0] == 0x1p-30f);
    assert_true(r.learned[MIN]->grad[0] == 1.0f && r.learned[MAX]->grad[0] == 2.0f);    /* the way back */
    r.learned[MAX]->value[0] = INFINITY;
    assert_failed(run_rig(&r, QG_EVAL, 0), QG_ENAN,
                  "fake_quant: the range 0 .. inf of what it quantizes overflows");
    close_rig(&r);
}

static void learned_range_starts_from_the_first_values(void **state)
{
    rig         r;
    const float g[4] = { 1.0f, 1.0f, 1.0f, 1.0f };
    qg_quant    q = qg_fake_quant((qg_fake_quant_spec){ 0 });
    q.after = 3;
    open_rig(&r, q, QG_INPUT, (qg_shape){ 1, 1, 1, 4 });
    start_rig(&r, false);
    memcpy(r.x->value, (float[]){ 1.0f, 5.0f, 2.0f, NAN }, sizeof g);
    train_rig(&r, 2, g);            /* waits */
    assert_ok(run_rig(&r, QG_EVAL, 3));
    assert_true(r.learned[SEEN]->value[0] == 0.0f && r.y->data[0] == 1.0f);
    train_rig(&r, 3, g);
    assert_true(r.learned[SEEN]->value[0] == 1.0f);
    assert_true(r.learned[MIN]->value[0] == 0.0f && r.learned[MAX]->value[0] == 5.0f);
    r.x->value[1] = 50.0f;
    train_rig(&r, 4, g);            /* once */
    assert_true(r.learned[MAX]->value[0] == 5.0f);
    close_rig(&r);

    open_rig(&r, qg_fake_quant((qg_fake_quant_spec){ .per_channel = true }), QG_WEIGHT, (qg_shape){ 3, 1, 1, 2 });
    memcpy(r.x->value, (float[]){ -1.0f, 2.0f, 3.0f, 4.0f, 0.0f, 0.0f }, 6 * sizeof(float));
    start_rig(&r, true);
    assert_memory_equal(r.learned[MIN]->value, ((float[]){ -1.0f, 0.0f, 0.0f }), 3 * sizeof(float));
    assert_memory_equal(r.learned[MAX]->value, ((float[]){ 2.0f, 4.0f, 0.0f }), 3 * sizeof(float));
    assert_true(r.learned[SEEN]->value[0] == 1.0f);
    close_rig(&r);
}

/* With the sum itself, a range of many weights leaves its tensor in a few steps. */
static void the_gradient_of_a_learned_range_is_scaled(void **state)
{
    const qg_shape shape = { 4, 3, 3, 64 };
    const size_t   n     = qg_count(shape);
    for (int per_channel = 0; per_channel < 2; per_channel++)
        for (int weight = 0; weight < 2; weight++) {
            float     grad[2][64];
            const int channels = !per_channel ? 1 : weight ? shape.n : shape.c;
            for (int scaled = 0; scaled < 2; scaled++) {
                rig r;
                const qg_quant q = qg_fake_quant((qg_fake_quant_spec){ .per_channel = per_channel, .sum_gradient = !scaled });
                open_rig(&r, q, weight ? QG_WEIGHT : QG_INPUT, shape);
                for (int i = 0; i < channels; i++) r.learned[MIN]->value[i] = -0.3f, r.learned[MAX]->value[i] = 0.2f;
                r.learned[SEEN]->value[0] = 1.0f;
                fill_uniform(r.x->value, n, -1.0f, 1.0f, 3);
                fill_uniform(dy, n, -1.0f, 1.0f, 4);
                train_rig(&r, 1, dy);
                memcpy(grad[scaled], r.learned[MAX]->grad, (size_t)channels * sizeof(float));
                close_rig(&r);
            }
            /* Those that share a range: of a weight all, of an input those of one image. */
            const double share = (double)(weight ? n : qg_row(shape)) / channels;
            for (int i = 0; i < channels; i++) {
                assert_true(grad[0][i] != 0.0f);
                const float want = (float)((double)grad[0][i] / sqrt(share));
                assert_close(&grad[1][i], &want, 1, 1e-6 * fabs((double)want));     /* two roundings */
            }
        }
}

static void learned_range_starts_where_it_is_told(void **state)
{
    rig         r;
    const float g[2] = { 1.0f, 1.0f };
    open_rig(&r, qg_fake_quant((qg_fake_quant_spec){ .min = -6.0f, .max = 6.0f }), QG_INPUT, (qg_shape){ 1, 1, 1, 2 });
    start_rig(&r, false);
    assert_true(r.learned[MIN]->value[0] == -6.0f && r.learned[MAX]->value[0] == 6.0f);
    memcpy(r.x->value, (float[]){ -1.0f, 2.0f }, sizeof g);
    train_rig(&r, 0, g);
    assert_true(r.learned[MIN]->value[0] == -6.0f && r.learned[MAX]->value[0] == 6.0f);
    assert_true(r.learned[SPAN]->value[0] == 0.25f);
    close_rig(&r);

    open_rig(&r, qg_fake_quant((qg_fake_quant_spec){ .min = -0.5f, .max = 0.25f, .per_channel = true }), QG_WEIGHT,
             (qg_shape){ 2, 1, 1, 2 });
    memcpy(r.x->value, (float[]){ -3.0f, 3.0f, 0.0f, 0.375f }, 4 * sizeof(float));
    start_rig(&r, true);
    assert_memory_equal(r.learned[MIN]->value, ((float[]){ -0.5f, -0.5f }), 2 * sizeof(float));
    assert_memory_equal(r.learned[MAX]->value, ((float[]){ 0.25f, 0.25f }), 2 * sizeof(float));
    assert_memory_equal(r.learned[SPAN]->value, ((float[]){ 8.0f, 0.5f }), 2 * sizeof(float));
    close_rig(&r);
}

/* The span is measured at the start and every 1024 steps, in training only. */
static void span_says_how_far_a_range_is_from_its_tensor(void **state)
{
    rig         r;
    const float g[2] = { 0.0f, 0.0f };
    open_rig(&r, qg_fake_quant((qg_fake_quant_spec){ 0 }), QG_INPUT, (qg_shape){ 1, 1, 1, 2 });
    start_rig(&r, false);
    memcpy(r.x->value, (float[]){ -1.0f, 3.0f }, sizeof g);
    train_rig(&r, 5, g);
    assert_true(r.learned[SPAN]->value[0] == 1.0f);
    r.learned[MIN]->value[0] = -8.0f;
    r.learned[MAX]->value[0] = 8.0f;
    train_rig(&r, 1023, g);
    assert_ok(run_rig(&r, QG_EVAL, 1024));
    assert_true(r.learned[SPAN]->value[0] == 1.0f);
    train_rig(&r, 1024, g);
    assert_true(r.learned[SPAN]->value[0] == 0.25f);
    r.x->value[1] = INFINITY;                               /* says nothing */
    train_rig(&r, 2048, g);
    assert_true(r.learned[SPAN]->value[0] == 0.25f);
    close_rig(&r);
}

static void observed_range_is_a_moving_average(void **state)
{
    rig         r;
    const float g[3] = { 1.0f, 1.0f, 1.0f };
    qg_quant    q = qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_OBSERVED, .decay = 0.75f, .freeze_after = 5 });
    q.after = 2;
    open_rig(&r, q, QG_INPUT, (qg_shape){ 1, 1, 1, 3 });
    memcpy(r.x->value, (float[]){ -1.0f, NAN, 4.0f }, sizeof g);
    assert_ok(run_rig(&r, QG_EVAL, 3));       /* nothing to quantize with: passes */
    assert_true(r.y->data[2] == 4.0f && r.learned[SEEN]->value[0] == 0.0f);
    train_rig(&r, 0, g);                                    /* waits, and looks already */
    assert_true(r.y->data[0] == -1.0f);
    assert_true(r.learned[MIN]->value[0] == -1.0f && r.learned[MAX]->value[0] == 4.0f);
    memcpy(r.x->value, (float[]){ 1.0f, 2.0f, 8.0f }, sizeof g);
    train_rig(&r, 2, g);                                    /* 0 belongs to every range */
    assert_true(r.learned[MIN]->value[0] == -0.75f && r.learned[MAX]->value[0] == 0.75f * 4.0f + 0.25f * 8.0f);
    assert_true(r.y->data[0] != 1.0f);
    r.x->value[0] = INFINITY;                               /* teaches nothing, and is clipped */
    train_rig(&r, 3, g);
    assert_true(r.learned[MAX]->value[0] == 5.0f && r.y->data[0] < 5.1f);
    r.x->value[0] = 9.0f;
    assert_ok(run_rig(&r, QG_EVAL, 4));       /* never in evaluation */
    assert_true(r.learned[MAX]->value[0] == 5.0f);
    train_rig(&r, 5, g);                                    /* frozen */
    assert_true(r.learned[MIN]->value[0] == -0.75f && r.learned[MAX]->value[0] == 5.0f);
    close_rig(&r);
}

static void a_batch_with_an_infinity_is_not_the_first(void **state)
{
    rig         r;
    const float g[4] = { 1.0f, 1.0f, 1.0f, 1.0f };
    open_rig(&r, qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_OBSERVED, .per_channel = true }), QG_INPUT,
             (qg_shape){ 2, 1, 1, 2 });
    memcpy(r.x->value, (float[]){ 1.0f, 2.0f, INFINITY, 3.0f }, sizeof g);
    train_rig(&r, 0, g);
    assert_true(r.learned[SEEN]->value[0] == 0.0f && r.y->data[3] == 3.0f);
    memcpy(r.x->value, (float[]){ 4.0f, -1.0f, 1.0f, 1.0f }, sizeof g);
    train_rig(&r, 1, g);
    assert_true(r.learned[SEEN]->value[0] == 1.0f);
    assert_memory_equal(r.learned[MIN]->value, ((float[]){ 0.0f, -1.0f }), 2 * sizeof(float));
    assert_memory_equal(r.learned[MAX]->value, ((float[]){ 4.0f, 1.0f }), 2 * sizeof(float));
    close_rig(&r);
}

static void gradients_add_up(void **state)
{
    for (int rows = 0; rows < 2; rows++) {
        rig         r;
        const float g[4] = { 1.0f, 2.0f, 4.0f, 8.0f };
        open_rig(&r, qg_fake_quant((qg_fake_quant_spec){ .per_channel = true }), rows ? QG_WEIGHT : QG_INPUT,
                 rows ? (qg_shape){ 1, 1, 1, 4 } : (qg_shape){ 4, 1, 1, 1 });
        memcpy(r.x->value, (float[]){ -2.0f, -0.5f, 0.5f, 3.0f }, sizeof g);
        r.learned[MIN]->value[0]  = -1.0f;
        r.learned[MAX]->value[0]  = 1.0f;
        r.learned[SEEN]->value[0] = 1.0f;
        train_rig(&r, 0, g);
        train_rig_on(&r, 1, g);
        assert_memory_equal(r.x->grad, ((float[]){ 0.0f, 4.0f, 8.0f, 0.0f }), sizeof g);
        const float scale = rows ? 0.5f : 1.0f;     /* 1 / sqrt(4 weights), of one number of an image */
        assert_true(r.learned[MIN]->grad[0] == 2.0f * scale && r.learned[MAX]->grad[0] == 16.0f * scale);
        close_rig(&r);
    }
}

static void an_observed_range_may_be_empty(void **state)
{
    rig         r;
    const float g[2] = { 1.0f, 2.0f };
    open_rig(&r, qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_OBSERVED }), QG_INPUT, (qg_shape){ 1, 1, 1, 2 });
    train_rig(&r, 0, g);
    assert_true(r.learned[SEEN]->value[0] == 1.0f && r.learned[MAX]->value[0] == 0.0f);
    assert_true(r.y->data[0] == 0.0f);
    assert_memory_equal(r.x->grad, g, sizeof g);
    r.x->value[0] = 1e-38f;                 /* a width that has no float32 steps counts as none */
    train_rig(&r, 1, g);
    assert_true(r.y->data[0] == 0.0f);
    close_rig(&r);
}

/* --- observers -------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void expect_ranks(qg_split c, double percentile)
{
    static float sorted[MOST];
    float        lo[MOST_CHANNELS], hi[MOST_CHANNELS], least[MOST_CHANNELS], most[MOST_CHANNELS];
    qg__percentiles(c, 0, c.depth, x_data, percentile, lo, hi);
    qg__min_max(c, 0, c.depth, x_data, least, most);
    for (size_t channel = 0; channel < c.depth; channel++) {
        size_t m = 0;
        for (size_t o = 0; o < c.outer; o++)
            for (size_t i = 0; i < c.inner; i++) {
                const float v = x_data[(o * c.depth + channel) * c.inner + i];
                if (!isnan(v)) sorted[m++] = v;
            }
        qsort(sorted, m, sizeof *sorted, by_value);
        if (m == 0) {
            assert_true(isinf(lo[channel]) && isinf(least[channel]) && most[channel] < 0.0f);
            continue;
        }
        const size_t k = (size_t)ceil(percentile / 100.0 * (double)m) - 1;
        assert_true(hi[channel] == sorted[k] && lo[channel] == sorted[m - 1 - k]);
        assert_true(least[channel] == sorted[0] && most[channel] == sorted[m - 1]);
    }
}

static void observers_find_what_sorting_finds(void **state)
{
    static const qg_split splits[] = { { 1, 1, 1 },   { 1, 1, 33 },  { 1, 1, MOST }, { 31, 63, 1 },
                                        { 1, 65, 31 }, { 3, 33, 31 }, { 1, 63, 1 },   { 65, 17, 1 } };
    for (int three = 1; three <= 3; three++) {
        qg_set_threads(three);
        for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
            const size_t n = splits[i].outer * splits[i].depth * splits[i].inner;
            fill_uniform(x_data, n, -1.0f, 1.0f, i);
            for (size_t k = 0; k < n; k += 7) x_data[k] *= 1e-3f;   /* many digits, ties and both zeros */
            for (size_t k = 0; k < n; k += 11) x_data[k] = k % 2 ? 0.25f : 0.0f;
            for (size_t k = 3; k < n; k += 13) x_data[k] = NAN;
            expect_ranks(splits[i], 100.0);
            expect_ranks(splits[i], 99.99);
            expect_ranks(splits[i], 90.0);
            expect_ranks(splits[i], 50.5);
        }
    }
    qg_set_threads(0);
    for (int k = 0; k < 33; k++) x_data[k] = NAN;
    expect_ranks((qg_split){ 1, 1, 33 }, 99.0);
}

/* --- the rest --------------------------------------------------------------------------------- */

static void codes_are_what_apply_gives(void **state)
{
    for (int kind = QG_RANGE_LEARNED; kind <= QG_RANGE_FIXED; kind++)
        for (int per_channel = 0; per_channel < (kind == QG_RANGE_FIXED ? 1 : 2); per_channel++)
            for (int bits = 2; bits <= 16; bits += 7) {
                rig r;
                qg_fake_quant_spec s = { .bits = bits, .range = (qg_range_kind)kind, .per_channel = per_channel };
                if (kind == QG_RANGE_PERCENTILE) s.percentile = 95.0f;
                if (kind == QG_RANGE_FIXED) s.min = -0.4f, s.max = 0.9f;
                open_rig(&r, qg_fake_quant(s), QG_WEIGHT, (qg_shape){ 3, 1, 5, 63 });
                fill_uniform(r.x->value, 3 * 5 * 63, -1.0f, 2.0f, 9);
                if (kind != QG_RANGE_FIXED) start_rig(&r, true);
                assert_codes_give_values(&r, 1 - (1 << bits), (1 << bits) - 1, 0);
                close_rig(&r);
            }
}

/* One number for eight channels would be written past its end. */
static void learned_values_have_their_shapes(void **state)
{
    float    x[8] = { 0 }, v[3] = { 0 };
    qg_tape *t    = qg_tape_new();
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *learned[3];
    for (int i = 0; i < 3; i++) learned[i] = qg_input(t, (qg_tensor){ { 1, 1, 1, 1 }, &v[i] });
    const qg_quant q = qg_fake_quant((qg_fake_quant_spec){ .per_channel = true, .range = QG_RANGE_OBSERVED });
    assert_null(qg_quantize(t, q, qg_input(t, (qg_tensor){ { 1, 1, 1, 8 }, x }), learned));
    assert_failed(qg_tape_status(t), QG_ESHAPE, "fake_quant: min is [1,1,1,1], for x [1,1,1,8] it must be [1,1,1,8]");
    qg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learned_values_have_their_shapes),
        cmocka_unit_test(per_channel_equals_the_operator),
        cmocka_unit_test(current_is_symmetric),
        cmocka_unit_test(slope_is_that_of_the_nudged_clip),
        cmocka_unit_test(gradients_of_the_range_are_those_of_the_loss),
        cmocka_unit_test(learned_range_stays_legal),
        cmocka_unit_test(learned_range_starts_from_the_first_values),
        cmocka_unit_test(the_gradient_of_a_learned_range_is_scaled),
        cmocka_unit_test(learned_range_starts_where_it_is_told),
        cmocka_unit_test(span_says_how_far_a_range_is_from_its_tensor),
        cmocka_unit_test(observed_range_is_a_moving_average),
        cmocka_unit_test(a_batch_with_an_infinity_is_not_the_first),
        cmocka_unit_test(gradients_add_up),
        cmocka_unit_test(an_observed_range_may_be_empty),
        cmocka_unit_test(observers_find_what_sorting_finds),
        cmocka_unit_test(codes_are_what_apply_gives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
