/* Ops along axes: sum, mean, broadcast, concat, slice, softmax. */
#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "core/ops/ops.h"
#include "tests/support/nets.h"

static qg_tape *begin(qg_mode mode)
{
    qg_tape *t = qg_tape_new();
    assert_non_null(t);
    qg_tape_begin(t, mode, 1, 0);
    return t;
}

/* An element by its index in each axis. */
static float at(const qg_var *v, int n, int h, int w, int c)
{
    const qg_shape s = v->shape;
    return v->data[((size_t)(n * s.h + h) * (size_t)s.w + (size_t)w) * (size_t)s.c + (size_t)c];
}

enum { N = 3, H = 5, W = 4, C = 7, ALL = N * H * W * C };

static const qg_shape shape = { N, H, W, C };

/* Multiples of 1/128, so that any order of a float sum is exact. */
static void fill(float *x)
{
    fill_uniform(x, ALL, -64, 64, 3);
    for (int i = 0; i < ALL; i++) x[i] = rintf(x[i]) / 128;
}

/* --- sum, mean, broadcast ----------------------------------------------------------------- */

static void every_set_of_axes_sums_what_it_says(void **state)
{
    float    x[ALL];
    qg_tape *t = begin(QG_EVAL);
    fill(x);
    qg_var *v = qg_input(t, (qg_tensor){ shape, x });
    for (unsigned axes = 1; axes <= QG_AXES; axes++) {
        const qg_var *sum = qg_sum(t, v, axes), *mean = qg_mean(t, v, axes);
        const int     kn = !(axes & QG_AXIS_N), kh = !(axes & QG_AXIS_H);    /* 1: kept */
        const int     kw = !(axes & QG_AXIS_W), kc = !(axes & QG_AXIS_C);
        assert_non_null(mean);
        assert_true(qg_shape_equal(sum->shape, (qg_shape){ kn ? N : 1, kh ? H : 1, kw ? W : 1, kc ? C : 1 }));
        float want[ALL] = { 0 };
        for (int n = 0; n < N; n++)
            for (int h = 0; h < H; h++)
                for (int w = 0; w < W; w++)
                    for (int c = 0; c < C; c++)
                        want[((n * kn * sum->shape.h + h * kh) * sum->shape.w + w * kw) * sum->shape.c + c * kc] +=
                            at(v, n, h, w, c);
        const size_t m = qg_count(sum->shape);
        for (size_t i = 0; i < m; i++)
            if (sum->data[i] != want[i] || mean->data[i] != (float)((double)want[i] / (double)(ALL / m)))
                fail_msg("axes %u at %zu: %g, %g", axes, i, (double)sum->data[i], (double)mean->data[i]);
        const qg_var *spread = qg_broadcast(t, (qg_var *)sum, shape);
        for (int n = 0; n < N; n++)
            for (int h = 0; h < H; h++)
                for (int w = 0; w < W; w++)
                    for (int c = 0; c < C; c++)
                        assert_true(at(spread, n, h, w, c) == at(sum, n * kn, h * kh, w * kw, c * kc));
        assert_null(sum->saved);
    }
    qg_tape_free(t);
}

/* One of 2^24 and many ones: a float would not count them. */
static void sums_are_in_double(void **state)
{
    static float x[4 * 1000];
    for (int i = 0; i < 4000; i++) x[i] = 1;
    x[0] = x[1] = 0x1p24f;
    qg_tape *t = begin(QG_EVAL);
    qg_var  *v = qg_input(t, (qg_tensor){ { 1000, 2, 1, 2 }, x });
    assert_close(qg_sum(t, v, QG_AXIS_N)->data, (float[]){ 0x1p24f + 1000, 0x1p24f + 1000, 1000, 1000 }, 4, 0);
    assert_close(qg_sum(t, v, QG_AXES)->data, (float[]){ 0x1p25f + 4000 }, 1, 0);
    assert_close(qg_mean(t, v, QG_AXES)->data, (float[]){ (float)((0x1p25 + 3998) / 4000) }, 1, 0);
    qg_tape_free(t);
}

/* Of 16 images each slice has one: 1 is lost in 2^60 before -2^60 is added. */
static void slices_are_added_in_order(void **state)
{
    float    x[16] = { 1, 0x1p60f, -0x1p60f };
    qg_tape *t     = begin(QG_EVAL);
    qg_var  *v     = qg_input(t, (qg_tensor){ { 16, 1, 1, 1 }, x });
    assert_close(qg_sum(t, v, QG_AXIS_N)->data, (float[]){ 0 }, 1, 0);
    qg_tape_free(t);
}

static void nan_survives(void **state)
{
    float    x[] = { 1, 2, NAN, 4, 5, 6 };
    qg_tape *t   = begin(QG_EVAL);
    qg_var  *v   = qg_input(t, (qg_tensor){ { 1, 2, 1, 3 }, x });
    const qg_var *sum = qg_sum(t, v, QG_AXIS_H), *rows = qg_softmax(t, v);
    assert_true(!isnan(sum->data[0]) && !isnan(sum->data[1]) && isnan(sum->data[2]));
    assert_true(isnan(qg_mean(t, v, QG_AXES)->data[0]));
    for (int i = 0; i < 6; i++) assert_int_equal(isnan(rows->data[i]) != 0, i < 3);
    qg_tape_free(t);
}

/* --- concat, slice ------------------------------------------------------------------------ */

static void concat_puts_channels_side_by_side(void **state)
{
    float x[8][2 * 3 * 8];
    qg_tape *t = begin(QG_EVAL);
    qg_var  *v[8];
    for (int i = 0; i < 8; i++) {       /* i + 1 channels: pixel p of operand i has 100 i + p */
        for (int k = 0; k < 6 * (i + 1); k++) x[i][k] = (float)(100 * i + k / (i + 1));
        v[i] = qg_input(t, (qg_tensor){ { 2, 1, 3, i + 1 }, x[i] });
    }
    for (int count = 1; count <= 8; count++) {
        const qg_var *y = qg_concat(t, count, v);
        assert_non_null(y);
        assert_int_equal(y->shape.c, count * (count + 1) / 2);
        for (int p = 0, j = 0; p < 6; p++)
            for (int i = 0; i < count; i++)
                for (int k = 0; k <= i; k++) assert_true(y->data[j++] == (float)(100 * i + p));
    }
    qg_tape_free(t);
}

static void slice_cuts_along_every_axis(void **state)
{
    float    x[ALL];
    qg_tape *t = begin(QG_EVAL);
    fill(x);
    qg_var *v = qg_input(t, (qg_tensor){ shape, x });
    const struct { qg_shape at, size, is; } cuts[] = {
        { { 0 }, { 0 }, shape },
        { { .c = 2 }, { .c = 3 }, { N, H, W, 3 } },
        { { .n = 1 }, { 0 }, { N - 1, H, W, C } },
        { { .h = 4 }, { .w = 2 }, { N, 1, 2, C } },
        { { 2, 1, 3, 6 }, { 1, 3, 1, 1 }, { 1, 3, 1, 1 } },
    };
    for (int i = 0; i < COUNT(cuts); i++) {
        const qg_shape from = cuts[i].at, s = cuts[i].is;
        const qg_var  *y    = qg_slice(t, v, from, cuts[i].size);
        assert_non_null(y);
        assert_true(qg_shape_equal(y->shape, s));
        for (int n = 0; n < s.n; n++)
            for (int h = 0; h < s.h; h++)
                for (int w = 0; w < s.w; w++)
                    for (int c = 0; c < s.c; c++)
                        assert_true(at(y, n, h, w, c) == at(v, n + from.n, h + from.h, w + from.w, c + from.c));
    }
    qg_tape_free(t);
}

/* --- softmax ------------------------------------------------------------------------------ */

static void softmax_by_formula(void **state)
{
    /* From the formula in double; the second pixel's scores would overflow. */
    const float x[] = { 0.5f, -1.25f, 2, 1000, 1000, -INFINITY }, dy[] = { 1, -2, 0.5f, 1, 0, 0 };
    qg_params   p   = { 0 };
    qg_param   *of  = declare(&p, "x", (qg_shape){ 1, 1, 2, 3 });
    allocate_apart(&p, 1);
    memcpy(of->value, x, sizeof x);
    qg_tape *t = begin(QG_TRAIN);
    qg_var  *y = qg_softmax(t, qg_parameter(t, of));
    assert_ok(qg_backward(t, weighed(t, y, dy)));
    assert_close(y->data, (float[]){ 0.176820182f, 0.0307267403f, 0.792453078f, 0.5f, 0.5f, 0 }, 6, 3e-8);
    assert_close(of->grad, (float[]){ 0.0863601722f, -0.0771730733f, -0.00918709891f, 0.25f, -0.25f, 0 }, 6, 3e-8);
    qg_tape_free(t);
    qg_params_release(&p);
}

/* --- gradients ---------------------------------------------------------------------------- */

/* Each op fresh and on top of what is there; concat of one var twice. */
static qg_var *build_sums(qg_tape *t, const qg_params *p, void *context)
{
    const unsigned axes = *(const unsigned *)context;
    qg_var        *x    = qg_scale(t, qg_parameter(t, p->item[0]), 2);
    qg_var        *y    = qg_add(t, qg_sum(t, x, axes), qg_mean(t, x, axes));
    return qg_add(t, qg_add(t, qg_broadcast(t, y, x->shape), qg_broadcast(t, y, x->shape)), x);
}

static qg_var *build_parts(qg_tape *t, const qg_params *p, void *context)
{
    qg_var *x = qg_scale(t, qg_parameter(t, p->item[0]), 2), *z = qg_scale(t, qg_parameter(t, p->item[1]), 3);
    qg_var *y = qg_concat(t, 5, (qg_var *[]){ x, z, x, qg_softmax(t, x), z });
    qg_var *part = qg_slice(t, y, (qg_shape){ .w = y->shape.w / 2, .c = 1 }, (qg_shape){ .c = x->shape.c });
    qg_var *rest = qg_slice(t, y, (qg_shape){ .w = y->shape.w / 2, .c = y->shape.c - x->shape.c }, (qg_shape){ 0 });
    return qg_mul(t, qg_softmax(t, part), qg_add(t, part, rest));
}

/* The result of one image counts images, one, and is repeated for all of others. */
static qg_var *build_one(qg_tape *t, const qg_params *p, void *context)
{
    static float   image[3] = { 1, -2, 0.5f };
    static float   images[5 * 4] = { 1, 2, -3, 4, 0.5f, -6, 7, -8, 9, 1, 2, 3, -4, 5, 6 };
    const qg_shape all = { 5, 1, 1, 4 };
    qg_var        *x   = qg_input(t, (qg_tensor){ { 1, 1, 1, 3 }, image });
    qg_var        *one = qg_dense(t, x, qg_parameter(t, p->item[0]), NULL);
    return qg_mul(t, qg_input(t, (qg_tensor){ all, images }), qg_broadcast(t, one, all));
}

static void one_image_is_repeated(void **state)
{
    qg_params p = { 0 };
    declare(&p, "w", (qg_shape){ 4, 1, 1, 3 });
    allocate_apart(&p, 3);
    assert_gradcheck((qg_gradcheck_spec){ .name = "one", .params = &p, .build = build_one });
    qg_params_release(&p);
}

static void gradients(void **state)
{
    const qg_shape shapes[] = { { 1, 1, 1, 1 }, { 3, 5, 4, 7 }, { 9, 3, 2, 33 }, { 2, 33, 31, 17 } };
    for (int s = 0; s < COUNT(shapes); s++) {
        qg_params p = { 0 };
        declare(&p, "x", shapes[s]);
        allocate_apart(&p, 4);
        for (unsigned axes = 1; axes <= QG_AXES; axes++)
            assert_gradcheck((qg_gradcheck_spec){ .name = "sums", .params = &p, .build = build_sums,
                                                  .context = &axes });
        qg_params_release(&p);
        if (shapes[s].c == 1) continue;
        p = (qg_params){ 0 };
        declare(&p, "x", shapes[s]);
        declare(&p, "z", (qg_shape){ shapes[s].n, shapes[s].h, shapes[s].w, 3 });
        allocate_apart(&p, 4);
        assert_gradcheck((qg_gradcheck_spec){ .name = "parts", .params = &p, .build = build_parts });
        qg_params_release(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_set_of_axes_sums_what_it_says),
        cmocka_unit_test(sums_are_in_double),
        cmocka_unit_test(slices_are_added_in_order),
        cmocka_unit_test(nan_survives),
        cmocka_unit_test(concat_puts_channels_side_by_side),
        cmocka_unit_test(slice_cuts_along_every_axis),
        cmocka_unit_test(softmax_by_formula),
        cmocka_unit_test(one_image_is_repeated),
        cmocka_unit_test(gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
