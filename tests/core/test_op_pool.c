#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/ops/ops.h"
#include "core/rng.h"

/* --- the definition, one element at a time ------------------------------------------------ */

typedef struct window {
    size_t at[81];      /* of its pixels in x, in order */
    int    n;
} window;

static window window_of(qg_shape x, qg_pool_spec s, int n, int i, int j, int k)
{
    window w = { .n = 0 };
    for (int p = 0; p < s.size; p++)
        for (int q = 0; q < s.size; q++) {
            const int row = i * s.stride + p - s.pad, column = j * s.stride + q - s.pad;
            if (row < 0 || row >= x.h || column < 0 || column >= x.w) continue;
            w.at[w.n++] = (((size_t)n * (size_t)x.h + (size_t)row) * (size_t)x.w + (size_t)column) * (size_t)x.c + (size_t)k;
        }
    return w;
}

static qg_shape pooled(qg_shape x, qg_pool_spec s)
{
    return (qg_shape){ x.n, (x.h + 2 * s.pad - s.size) / s.stride + 1, (x.w + 2 * s.pad - s.size) / s.stride + 1, x.c };
}

/* y, and dx for a gradient of 1 everywhere. */
static void pool_ref(bool max, qg_shape x, qg_pool_spec s, const float *in, float *y, float *dx)
{
    const qg_shape out = pooled(x, s);
    memset(dx, 0, qg_count(x) * sizeof *dx);
    for (int n = 0; n < x.n; n++)
        for (int i = 0; i < out.h; i++)
            for (int j = 0; j < out.w; j++)
                for (int k = 0; k < x.c; k++, y++) {
                    const window w      = window_of(x, s, n, i, j, k);
                    const int    divide = s.exclude_pad ? w.n : s.size * s.size;
                    size_t       best   = w.at[0];
                    double       sum    = 0;
                    for (int e = 0; e < w.n; e++) {
                        if (in[w.at[e]] > in[best]) best = w.at[e];
                        sum += (double)in[w.at[e]];
                        if (!max) dx[w.at[e]] += 1.0f / (float)divide;
                    }
                    *y = max ? in[best] : (float)(sum / divide);
                    if (max) dx[best] += 1;
                }
}

/* Side by side, overlapping, padded, apart; a last window that leaves pixels out; windows larger than the image. */
static const struct { qg_shape x; qg_pool_spec spec; } cases[] = {
    { { 1, 1, 1, 1 }, { 1, 1, 0, false } }, { { 3, 3, 3, 1 }, { 3, 3, 0, false } }, { { 1, 5, 7, 3 }, { 2, 2, 0, false } },
    { { 2, 7, 5, 31 }, { 3, 3, 0, false } }, { { 3, 9, 9, 33 }, { 9, 9, 0, false } }, { { 1, 4, 63, 2 }, { 4, 4, 0, false } },
    { { 2, 10, 65, 1 }, { 2, 2, 0, false } }, { { 9, 8, 6, 63 }, { 2, 2, 0, false } }, { { 2, 7, 8, 5 }, { 3, 2, 0, false } },
    { { 2, 8, 7, 33 }, { 3, 2, 1, false } }, { { 1, 5, 6, 3 }, { 3, 1, 0, false } }, { { 3, 5, 4, 17 }, { 3, 1, 1, false } },
    { { 1, 1, 1, 2 }, { 3, 2, 1, false } }, { { 2, 1, 9, 4 }, { 2, 1, 1, false } }, { { 1, 9, 7, 3 }, { 2, 3, 0, false } },
    { { 1, 9, 8, 3 }, { 2, 5, 1, false } }, { { 2, 6, 5, 7 }, { 4, 3, 3, false } }, { { 1, 2, 2, 1 }, { 5, 4, 4, false } },
    { { 2, 8, 7, 9 }, { 3, 2, 1, true } }, { { 2, 6, 5, 7 }, { 4, 3, 3, true } }, { { 1, 7, 7, 3 }, { 3, 2, 0, true } },
    { { 1, 2, 3, 5 }, { 5, 1, 3, true } },
};
enum { CASES = sizeof cases / sizeof *cases };

/* Both ways a gradient arrives: fresh is false for a parameter, true for the op after one. */
static void check_pool(bool max, bool fresh, qg_shape s, qg_pool_spec spec)
{
    const qg_shape out = pooled(s, spec);
    const size_t   m   = qg_count(s);
    qg_params      p   = { 0 };
    qg_param      *x   = declare(&p, "x", s);
    float         *dx = malloc((m + qg_count(out)) * sizeof *dx), *y = dx + m;
    qg_tape       *t  = qg_tape_new();
    assert_non_null(dx);
    assert_ok(qg_params_allocate(&p));
    /* Seven negative values, so that ties abound, and zeros from outside the image would be maxima. */
    for (size_t i = 0; i < m; i++) x->value[i] = (float)((i * i + 3 * i) % 7) - 8;
    pool_ref(max, s, spec, x->value, y, dx);
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *v = qg_parameter(t, x);
    if (fresh) v = qg_scale(t, v, 1);
    v = max ? qg_maxpool_with(t, v, spec) : qg_avgpool_with(t, v, spec);
    assert_ok(qg_backward(t, total(t, v)));
    assert_true(qg_shape_equal(v->shape, out));
    /* Sums of integers are exact; a quotient of at most 8 is rounded once on either side. */
    assert_close(v->data, y, qg_count(v->shape), max ? 0 : 1e-6);
    /* At most 25 windows share a pixel; the reference adds the same terms in another order. */
    assert_close(x->grad, dx, m, max ? 0 : 1e-6);
    qg_tape_free(t);
    qg_params_release(&p);
    free(dx);
}

static void pools_are_their_definition(void **state)
{
    for (int i = 0; i < CASES; i++)
        for (int way = 0; way < 4; way++) check_pool(way & 1, way & 2, cases[i].x, cases[i].spec);
}

/* --- by hand ------------------------------------------------------------------------------ */

static void values_by_hand(void **state)
{
    /* Two channels of 3 x 5; the last row and column belong to no window of 2. */
    float x[] = { 1, -1, 2, -2, 3, -3, 4, -4, 99, 99,
                  5, -5, 6, -6, 9, -9, 8, -8, 99, 99,
                  99, 99, 99, 99, 99, 99, 99, 99, 99, 99 };
    qg_tape *t = qg_tape_new();
    qg_tape_begin(t, QG_EVAL, 1, 0);
    qg_var *v   = qg_input(t, (qg_tensor){ { 1, 3, 5, 2 }, x });
    qg_var *max = qg_maxpool(t, v, 2), *mean = qg_avgpool(t, v, 2), *all = qg_global_avgpool(t, v);
    assert_non_null(max), assert_non_null(mean), assert_non_null(all);
    assert_close(max->data, (float[]){ 6, -1, 9, -3 }, 4, 0);
    assert_close(mean->data, (float[]){ 3.5f, -3.5f, 6, -6 }, 4, 0);
    /* 38 or -38, and seven times 99, of 15: sums are exact, one division rounds. */
    assert_close(all->data, (float[]){ 731.0f / 15, 655.0f / 15 }, 2, 0);
    assert_null(max->saved), assert_null(mean->saved), assert_null(all->saved);
    qg_tape_free(t);
}

/* PyTorch's MaxPool2d(3, 2, 1) and AvgPool2d(3, 2, 1), and the mean of the image's own pixels. */
static void padding_by_hand(void **state)
{
    float x[] = { -1, -2, -3,
                  -4, -5, -6,
                  -7, -8, -9 };
    const qg_pool_spec spec = { .size = 3, .stride = 2, .pad = 1 };
    qg_tape *t = qg_tape_new();
    qg_tape_begin(t, QG_EVAL, 1, 0);
    qg_var *v   = qg_input(t, (qg_tensor){ { 1, 3, 3, 1 }, x });
    qg_var *max = qg_maxpool_with(t, v, spec), *mean = qg_avgpool_with(t, v, spec);
    qg_var *own = qg_avgpool_with(t, v, (qg_pool_spec){ .size = 3, .stride = 2, .pad = 1, .exclude_pad = true });
    assert_non_null(max), assert_non_null(mean), assert_non_null(own);
    assert_close(max->data, (float[]){ -1, -2, -4, -5 }, 4, 0);
    assert_close(mean->data, (float[]){ -12.0f / 9, -16.0f / 9, -24.0f / 9, -28.0f / 9 }, 4, 0);
    assert_close(own->data, (float[]){ -3, -4, -6, -7 }, 4, 0);
    qg_tape_free(t);
}

/* In one float the sum of 2^18 tenths would be 0.25 % too small.  The engine has these parts as well. */
static void a_large_window_is_summed_in_parts(void **state)
{
    enum { C = 3, PART = 1024 };
    static const int sides[] = { 50, 512 };
    qg_tape         *t = qg_tape_new();
    for (int i = 0; i < 2; i++) {
        const int n = sides[i] * sides[i];
        float    *x = malloc((size_t)n * C * sizeof *x);
        assert_non_null(x);
        fill_uniform(x, (size_t)n * C, 0, 1, 5);
        qg_tape_begin(t, QG_EVAL, 1, 0);
        qg_var *in = qg_input(t, (qg_tensor){ { 1, sides[i], sides[i], C }, x });
        qg_var *all = qg_global_avgpool(t, in), *by_side = qg_avgpool(t, in, sides[i]);
        assert_non_null(all), assert_non_null(by_side);
        for (int k = 0; k < C; k++) {
            float sum = 0;
            for (int begin = 0; begin < n; begin += PART) {
                float part = 0;
                for (int p = begin; p < begin + PART && p < n; p++) part += x[p * C + k];
                sum = begin ? sum + part : part;
            }
            assert_true(all->data[k] == sum / (float)n && by_side->data[k] == all->data[k]);
        }
        free(x);
    }
    qg_tape_free(t);
}

static void nan_survives_wherever_it_stands(void **state)
{
    qg_tape *t = qg_tape_new();
    for (int at = 0; at < 4; at++) {
        float x[] = { 1, 2, 3, 2 };
        x[at]     = NAN;
        qg_tape_begin(t, QG_EVAL, 1, 0);
        qg_var *v = qg_input(t, (qg_tensor){ { 1, 2, 2, 1 }, x });
        assert_true(isnan(qg_maxpool(t, v, 2)->data[0]));
        assert_true(isnan(qg_maxpool_with(t, v, (qg_pool_spec){ .size = 3, .pad = 1 })->data[0]));
        assert_true(isnan(qg_avgpool(t, v, 2)->data[0]));
        assert_true(isnan(qg_global_avgpool(t, v)->data[0]));
    }
    qg_tape_free(t);
}

/* --- gradients ---------------------------------------------------------------------------- */

static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    const qg_pool_spec *spec = context;
    qg_var             *v    = qg_scale(t, qg_parameter(t, p->item[0]), 2);
    qg_var             *both = qg_add(t, qg_maxpool_with(t, v, *spec), qg_scale(t, qg_avgpool_with(t, v, *spec), 3));
    return qg_bias(t, both, qg_bias(t, qg_parameter(t, p->item[1]), qg_parameter(t, p->item[1])));
}

static qg_var *build_global(qg_tape *t, const qg_params *p, void *context)
{
    qg_var *v = qg_parameter(t, p->item[0]);
    return qg_add(t, qg_global_avgpool(t, qg_scale(t, v, 2)), qg_global_avgpool(t, v));
}

/* The elements of each window: size^2 values 2 / size^2 apart, begun at a keyed place.  If all windows of an image begin
 * at the same, any size x size pixels have each value once; windows that are not side by side need that. */
static void spread(qg_param *x, qg_pool_spec spec)
{
    const qg_shape s     = x->shape;
    const int      ranks = spec.size * spec.size, block = spec.stride == spec.size && !spec.pad ? spec.size : s.h + s.w;
    float         *v     = x->value;
    for (int i = 0; i < s.n * s.h; i++)
        for (int j = 0; j < s.w; j++)
            for (int k = 0; k < s.c; k++) {
                const int row   = i % s.h, corner = i - row + row / block;
                const int place = (corner * s.w + j / block) * s.c + k;
                const int first = (int)(qg_bits(17, (uint64_t)place) % (uint64_t)ranks);
                const int rank  = (row % spec.size * spec.size + j % spec.size + first) % ranks;
                *v++             = -1.0f + ((float)rank + 0.5f) * 2.0f / (float)ranks;
            }
}

static void gradients(void **state)
{
    for (int i = 0; i < CASES; i++) {
        qg_pool_spec spec = cases[i].spec;
        qg_params    p    = { 0 };
        declare(&p, "x", cases[i].x);
        declare(&p, "b", (qg_shape){ 1, 1, 1, cases[i].x.c });
        allocate_apart(&p, 13);
        spread(p.item[0], spec);
        /* Two values move by 2h towards each other: 4h < 2 / size^2. */
        assert_gradcheck((qg_gradcheck_spec){ .name = "pool", .params = &p, .build = build,
                                              .context = &spec, .h = 0.2f / (float)(spec.size * spec.size) });
        p.item[1]->frozen = true;
        assert_gradcheck((qg_gradcheck_spec){ .name   = "global", .params = &p,
                                              .build = build_global });
        qg_params_release(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools_are_their_definition),
        cmocka_unit_test(values_by_hand),
        cmocka_unit_test(padding_by_hand),
        cmocka_unit_test(a_large_window_is_summed_in_parts),
        cmocka_unit_test(nan_survives_wherever_it_stands),
        cmocka_unit_test(gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
