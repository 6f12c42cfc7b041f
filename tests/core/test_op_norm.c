#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/ops/conv2d.h"
#include "core/rng.h"
#include "tests/support/nets.h"

/* Images, and vectors whose batch does not divide into sixteen slices. */
static const qg_shape shapes[] = {
    { 1, 1, 1, 1 },  { 1, 3, 5, 1 },  { 2, 7, 5, 3 },    { 7, 1, 1, 33 },  { 9, 1, 1, 65 }, { 63, 1, 1, 31 },
    { 3, 6, 6, 31 }, { 8, 1, 9, 16 }, { 65, 2, 1, 5 },   { 2, 28, 28, 33 }, { 3, 1, 1, 17 },
};

/* Both statistics of channel k in double, the variance biased. */
static void moments(qg_shape s, const float *x, int k, double *mean, double *var)
{
    const size_t c = (size_t)s.c, m = qg_count(s) / c;
    *mean = *var = 0;
    for (size_t i = 0; i < m; i++) *mean += (double)x[i * c + (size_t)k] / (double)m;
    for (size_t i = 0; i < m; i++) *var += pow((double)x[i * c + (size_t)k] - *mean, 2) / (double)m;
}

typedef struct fixture {
    qg_params p;
    qg_param *x, *gamma, *beta, *mean, *var;
    qg_tape  *t;
} fixture;

static fixture fixture_new(qg_shape s)
{
    const qg_shape c = { 1, 1, 1, s.c };
    fixture        f = { .t = qg_tape_new() };
    f.x     = declare(&f.p, "x", s);
    f.gamma = declare(&f.p, "gamma", c);
    f.beta  = declare(&f.p, "beta", c);
    f.mean  = qg_params_declare(&f.p, (qg_param){ .name = "mean", .shape = c, .group = QG_TRACKED });
    f.var   = qg_params_declare(&f.p, (qg_param){ .name = "var", .shape = c, .group = QG_TRACKED });
    assert_ok(qg_params_allocate(&f.p));
    fill_uniform(f.x->value, qg_count(s), -2, 3, 1);
    fill_uniform(f.gamma->value, (size_t)s.c, -1, 2, 2);
    fill_uniform(f.beta->value, (size_t)s.c, -1, 1, 3);
    fill_uniform(f.mean->value, (size_t)s.c, -1, 1, 4);
    fill_uniform(f.var->value, (size_t)s.c, 0.5f, 2, 5);
    return f;
}

static void fixture_free(fixture *f)
{
    qg_tape_free(f->t);
    qg_params_release(&f->p);
}

/* spec's running statistics are the fixture's.  with NULL: the plain op. */
static qg_var *norm_with(fixture *f, qg_mode mode, qg_norm_spec spec, const qg_norm_fusion *with)
{
    qg_tape_begin(f->t, mode, 1, 0);
    spec.mean = f->mean->value, spec.var = f->var->value;
    qg_var *x = qg_parameter(f->t, f->x), *gamma = qg_parameter(f->t, f->gamma), *beta = qg_parameter(f->t, f->beta);
    qg_var *y = with ? qg_norm_fused(f->t, x, gamma, beta, spec, *with) : qg_norm(f->t, x, gamma, beta, spec);
    assert_non_null(y);
    return y;
}

static qg_var *norm(fixture *f, qg_mode mode, qg_norm_spec spec) { return norm_with(f, mode, spec, NULL); }

/* Channel k of y, of two steps of running statistics that began as rm and rv. */
static void check_channel(const fixture *f, const float *y, int k, double rm, double rv, qg_norm_spec spec)
{
    const size_t c = (size_t)f->x->shape.c, m = qg_count(f->x->shape) / c;
    const double momentum = spec.momentum == 0 ? 0.1 : (double)spec.momentum;
    const double eps      = spec.eps == 0 ? 1e-5 : (double)spec.eps;
    double       mean, var;
    moments(f->x->shape, f->x->value, k, &mean, &var);
    const double unbiased = m > 1 ? var * (double)m / (double)(m - 1) : var;
    for (int step = 0; step < 2; step++)
        rm += momentum * (mean - rm), rv += momentum * (unbiased - rv);
    /* Values below 3, a handful of float roundings each. */
    assert_true(fabs((double)f->mean->value[k] - rm) < 2e-6);
    assert_true(fabs((double)f->var->value[k] - rv) < 2e-6);
    for (size_t r = 0; r < m; r++) {
        const double xhat = ((double)f->x->value[r * c + (size_t)k] - mean) / sqrt(var + eps);
        const double z    = (double)f->gamma->value[k] * xhat + (double)f->beta->value[k];
        assert_true(fabs((double)y[r * c + (size_t)k] - z) < 5e-6);
    }
}

static void a_batch_is_normalised_and_tracked(void **state)
{
    for (int i = 0; i < COUNT(shapes); i++) {
        const qg_norm_spec spec = { .momentum = i & 1 ? 0.25f : 0, .eps = i & 1 ? 1e-3f : 0 };
        const fixture      fresh = fixture_new(shapes[i]);
        fixture            f = fixture_new(shapes[i]);
        norm(&f, QG_TRAIN, spec);
        const qg_var *y = norm(&f, QG_TRAIN, spec);
        for (int k = 0; k < shapes[i].c; k++)
            check_channel(&f, y->data, k, (double)fresh.mean->value[k], (double)fresh.var->value[k], spec);
        fixture_free(&f);
        fixture_free((fixture *)&fresh);
    }
}

static void running_statistics_are_used_and_left_alone(void **state)
{
    for (int i = 0; i < COUNT(shapes); i++) {
        const qg_shape s = shapes[i];
        const size_t   n = qg_count(s), c = (size_t)s.c;
        fixture        f = fixture_new(s);
        float         *kept = malloc((2 * c + n) * sizeof *kept), *y = kept + 2 * c;
        assert_non_null(kept);
        memcpy(kept, f.mean->value, c * sizeof *kept);
        memcpy(kept + c, f.var->value, c * sizeof *kept);
        memcpy(y, norm(&f, QG_EVAL, (qg_norm_spec){ 0 })->data, n * sizeof *y);
        for (size_t at = 0; at < n; at++) {
            const size_t k    = at % c;
            const double a = (double)f.gamma->value[k] / sqrt((double)kept[c + k] + 1e-5);
            const double b = (double)f.beta->value[k] - (double)kept[k] * a;
            const volatile float product = (float)a * f.x->value[at];       /* not contracted with the sum */
            assert_float_equal(y[at], product + (float)b, 0);
        }
        qg_var *frozen = norm(&f, QG_TRAIN, (qg_norm_spec){ .frozen = true });
        assert_close(frozen->data, y, n, 5e-6);         /* values below 12 */
        assert_ok(qg_backward(f.t, qg_sum(f.t, frozen, QG_AXES)));
        for (size_t at = 0; at < n; at++) {             /* the statistics have no part in the slope */
            const float inv = (float)(1 / sqrt((double)kept[c + at % c] + 1e-5));
            assert_true(f.x->grad[at] == f.gamma->value[at % c] * inv);
        }
        assert_memory_equal(f.mean->value, kept, c * sizeof *kept);
        assert_memory_equal(f.var->value, kept + c, c * sizeof *kept);
        free(kept);
        fixture_free(&f);
    }
}

static void no_gamma_is_one_and_no_beta_is_zero(void **state)
{
    fixture f = fixture_new((qg_shape){ 3, 5, 4, 33 });
    for (int k = 0; k < 33; k++) f.gamma->value[k] = 1, f.beta->value[k] = 0;
    const qg_norm_spec spec = { .mean = f.mean->value, .var = f.var->value };
    for (int mode = QG_TRAIN; mode <= QG_EVAL; mode++) {
        const qg_var *with = norm(&f, (qg_mode)mode, (qg_norm_spec){ 0 });
        const qg_var *none = qg_norm(f.t, qg_parameter(f.t, f.x), NULL, NULL, spec);
        if (mode == QG_EVAL) assert_memory_equal(with->data, none->data, 3 * 5 * 4 * 33 * sizeof(float));
        /* In training the first of the two moved running statistics that neither uses. */
        else assert_memory_equal(with->data, none->data, 3 * 5 * 4 * 33 * sizeof(float));
    }
    fixture_free(&f);
}

/* Sums are taken relative to a row of the block, at most some deviations away: d = 5 makes squares
 * of up to 25 var, summed in two chains of 392 roundings of 2^-24, which walk to sqrt(392) of
 * them.  25 sqrt(392) 2^-24 = 3e-5.  Naive float sums of x^2 would be off by 1e6 2^-24 = 6 %. */
static void a_large_mean_costs_no_variance(void **state)
{
    const qg_shape s = { 3, 28, 28, 17 };
    for (int outlier = 0; outlier < 2; outlier++) {
        fixture f = fixture_new(s);
        for (size_t i = 0; i < qg_count(s); i++) f.x->value[i] = 1000 + qg_normal(8, i);
        /* If the row that sums are relative to is itself far off, 783 equal squares are summed where
         * one of them is left in the end: an error of 1e-6 in the sum becomes 783 times that. */
        for (size_t k = 0; outlier && k < 17; k++) f.x->value[k] = 0;
        norm(&f, QG_TRAIN, (qg_norm_spec){ .momentum = 1 });
        for (int k = 0; k < s.c; k++) {
            double mean, var;
            moments(s, f.x->value, k, &mean, &var);
            const double m = 3 * 28 * 28, off = (double)f.var->value[k] * (m - 1) / m - var;
            assert_true(fabs(off) < (outlier ? 1e-3 : 3e-5) * var);
            /* 1000 2^-24 = 6e-5 */
            assert_true(fabs((double)f.mean->value[k] - mean) < (outlier ? 1e-3 : 1e-4));
        }
        fixture_free(&f);
    }
}

/* Behind a padded convolution the first pixel is an odd one.  What it spoils is its part of the image. */
static void an_odd_first_pixel_costs_a_large_image_no_variance(void **state)
{
    const qg_shape s = { 1, 256, 256, 3 };
    fixture        f = fixture_new(s);
    for (size_t i = 0; i < qg_count(s); i++) f.x->value[i] = i < 3 ? 0 : 100 + 0.1f * qg_normal(8, i);
    norm(&f, QG_TRAIN, (qg_norm_spec){ .momentum = 1 });
    for (int k = 0; k < s.c; k++) {
        double mean, var;
        moments(s, f.x->value, k, &mean, &var);
        /* 1,023 squares of 1e4 in two chains: sqrt(512) roundings of 5e6 2^-24 are 7 of the 1e4 that the
         * odd pixel leaves of them, and of var it is nearly all. */
        assert_true(fabs((double)f.var->value[k] - var) < 1e-3 * var);
        assert_true(fabs((double)f.mean->value[k] - mean) < 100 * 0x1p-24 * 2);
    }
    fixture_free(&f);
}

/* In y and in dx a mean must not be rounded as the large number it is: at 1000 deviations that would be
 * 1000 2^-24 = 6e-5 for all numbers of a channel alike.  Of roundings of each number by itself, 2^-24 of values
 * up to 5 and to both sides, 2,352 have a mean far below 1e-6. */
static void a_large_mean_costs_no_digits(void **state)
{
    const qg_shape s = { 3, 28, 28, 17 };
    const size_t   n = qg_count(s), c = (size_t)s.c;
    fixture        f = fixture_new(s);
    float         *r = malloc(n * sizeof *r);
    assert_non_null(r);
    for (size_t i = 0; i < n; i++) f.x->value[i] = 1000 + (float)(i % c) / 7 + qg_normal(8, i);
    for (size_t i = 0; i < n; i++) r[i] = f.x->value[i] - 1000;     /* so that dgamma is as large as can be */
    for (size_t k = 0; k < c; k++) f.gamma->value[k] = 1, f.beta->value[k] = 0;
    qg_var *y = norm(&f, QG_TRAIN, (qg_norm_spec){ 0 });
    double  sum_y[17] = { 0 }, sum_dx[17] = { 0 };
    for (size_t i = 0; i < n; i++) sum_y[i % c] += (double)y->data[i];
    assert_ok(qg_backward(f.t, weighed(f.t, y, r)));
    for (size_t i = 0; i < n; i++) sum_dx[i % c] += (double)f.x->grad[i];
    for (size_t k = 0; k < c; k++) {
        assert_true(fabs(sum_y[k]) < 1e-6 * (double)(n / c));
        assert_true(fabs(sum_dx[k]) < 1e-6 * (double)(n / c));
    }
    free(r);
    fixture_free(&f);
}

/* Sums of signs are integers, and some are the mean of their batch: what a sign makes of those must not depend on
 * roundings.  Thirds of each channel are M - d, M and M + d. */
static void the_mean_itself_becomes_beta(void **state)
{
    const qg_shape s[] = { { 3, 1, 1, 65 }, { 63, 1, 1, 33 }, { 2, 3, 5, 33 } };
    for (int i = 0; i < COUNT(s); i++) {
        const size_t n = qg_count(s[i]), c = (size_t)s[i].c;
        fixture      f = fixture_new(s[i]);
        for (size_t at = 0; at < n; at++) {
            const int k = (int)(at % c), third = (int)(at / c % 3) - 1;
            f.x->value[at] = (float)(3 * k - 40 + third * (1 + k % 7));
        }
        const qg_var *y = norm(&f, QG_TRAIN, (qg_norm_spec){ 0 });
        for (size_t at = 0; at < n; at++)
            if (at / c % 3 == 1) assert_true(y->data[at] == f.beta->value[at % c]);
        fixture_free(&f);
    }
}

static void a_batch_without_variance_is_finite(void **state)
{
    const qg_shape same[] = { { 1, 1, 1, 5 }, { 9, 1, 1, 5 }, { 3, 4, 4, 5 } };
    for (int i = 0; i < COUNT(same); i++) {
        fixture      f = fixture_new(same[i]);
        const size_t n = qg_count(same[i]);
        float       *r = malloc(n * sizeof *r);
        assert_non_null(r);
        fill_uniform(r, n, -1, 1, 6);
        for (size_t k = 0; k < n; k++) f.x->value[k] = 0.1f * (float)(k % 5) - 0.3f;
        qg_var *y = norm(&f, QG_TRAIN, (qg_norm_spec){ .momentum = 1 });
        /* z = beta but for x - mean, a rounding of 2^-26, times 1 / sqrt(eps) = 316 and gamma. */
        for (size_t k = 0; k < n; k++) assert_true(fabsf(y->data[k] - f.beta->value[k % 5]) < 2e-5f);
        for (int k = 0; k < 5; k++) assert_true(f.var->value[k] >= 0 && f.var->value[k] < 1e-12f);
        assert_ok(qg_backward(f.t, weighed(f.t, y, r)));
        for (size_t k = 0; k < n; k++) assert_true(isfinite(f.x->grad[k]));
        /* One number is its own mean and cannot move y: a dz - a dz, a = gamma 316, rounded once. */
        for (size_t k = 0; n == 5 && k < 5; k++) assert_true(fabsf(f.x->grad[k]) < 632 * 0x1p-24f);
        free(r);
        fixture_free(&f);
    }
}

static void nan_survives(void **state)
{
    const qg_shape s = { 2, 5, 4, 33 };
    const size_t   c = 33;
    for (int way = 0; way < 10; way++) {
        const qg_norm_fusion with = { .relu = way & 1, .pool = way & 2 ? 2 : 0 };
        const qg_mode        mode = way & 4 || way == 9 ? QG_EVAL : QG_TRAIN;
        fixture            f = fixture_new(s);
        f.x->value[(4 + 1) * c + 32] = NAN;     /* row 1, column 1 of the first image */
        const qg_var *y = norm_with(&f, mode, (qg_norm_spec){ 0 }, way < 8 ? &with : NULL);
        for (size_t i = 0; i < qg_count(y->shape); i++) {
            const size_t at = way & 2 ? 0 : 5;  /* the window, or the pixel itself */
            const bool   hit = i % c == 32 && (mode == QG_TRAIN || i / c == at);
            assert_true(!!isnan(y->data[i]) == hit);
        }
        fixture_free(&f);
    }
}

/* Values, running statistics and gradients, with a retained tape or not. */
static void fusing_nothing_gives_the_bits_of_the_plain_op(void **state)
{
    static const qg_shape of[] = { { 3, 6, 5, 33 }, { 1, 1, 1, 7 }, { 9, 1, 1, 5 },
                                   { 40, 1, 1, 17 }, { 2, 40, 40, 3 }, { 17, 2, 1, 8 } };
    for (int i = 0; i < COUNT(of); i++)
        for (int way = 0; way < 12; way++) {
            const qg_mode mode = (qg_mode)(way % 3);
            fixture       f[2];
            float        *y[2];
            const size_t  bytes = qg_count(of[i]) * sizeof **y;
            for (int fused = 0; fused < 2; fused++) {
                f[fused] = fixture_new(of[i]);
                y[fused] = malloc(bytes);
                assert_non_null(y[fused]);
                qg_tape_retain(f[fused].t, way >= 6);
                qg_var *v = norm_with(&f[fused], mode, (qg_norm_spec){ .frozen = way / 3 % 2 },
                                      fused ? &(qg_norm_fusion){ 0 } : NULL);
                memcpy(y[fused], v->data, bytes);
                qg_tape *t = f[fused].t;
                if (mode == QG_TRAIN) assert_ok(qg_backward(t, qg_mean(t, qg_mul(t, v, qg_tanh(t, v)), QG_AXES)));
            }
            assert_memory_equal(y[0], y[1], bytes);
            assert_memory_equal(f[0].p.tracked, f[1].p.tracked, f[0].p.tracked_length * sizeof *f[0].p.tracked);
            assert_memory_equal(f[0].p.grad, f[1].p.grad, f[0].p.length * sizeof *f[0].p.grad);
            for (int fused = 0; fused < 2; fused++) free(y[fused]), fixture_free(&f[fused]);
        }
}

static void sums_from_conv2d_are_its_own_sums(void **state)
{
    for (int n = 1; n <= 9; n += 4)
        for (int k = 1; k <= 5; k += 2) {       /* 5: one pixel is left, and conv2d gathers nothing */
            fixture   f = fixture_new((qg_shape){ n, 5, 5, 33 });
            qg_params w = { 0 };
            float     y[2][9 * 25 * 33], mean[2][33], dx[9 * 25 * 33], dw[33 * 25 * 33];
            declare(&w, "w", (qg_shape){ 33, k, k, 33 });
            allocate_apart(&w, 7);
            for (int sums = 0; sums < 2; sums++) {
                memset(f.mean->value, 0, sizeof mean[0]);
                qg_tape_begin(f.t, QG_TRAIN, 1, 0);
                qg_var *x = qg__conv2d(f.t, qg_parameter(f.t, f.x), qg_parameter(f.t, w.item[0]), NULL,
                                       (qg_conv_spec){ 0 }, sums);
                assert_true((qg__image_sums(x) != NULL) == (sums && k < 5));
                qg_var *v = qg_norm(f.t, x, NULL, NULL, (qg_norm_spec){ .mean = f.mean->value,
                                                                        .var = f.var->value });
                memcpy(y[sums], v->data, qg_count(v->shape) * sizeof(float));
                memcpy(mean[sums], f.mean->value, sizeof mean[0]);
                assert_ok(qg_backward(f.t, qg_mean(f.t, qg_mul(f.t, v, qg_tanh(f.t, v)), QG_AXES)));
                const size_t x_bytes = qg_count(f.x->shape) * sizeof *dx, w_bytes = qg_count(w.item[0]->shape) * sizeof *dw;
                if (sums) assert_memory_equal(dx, f.x->grad, x_bytes), assert_memory_equal(dw, w.item[0]->grad, w_bytes);
                else memcpy(dx, f.x->grad, x_bytes), memcpy(dw, w.item[0]->grad, w_bytes);
                memset(f.p.grad, 0, f.p.length * sizeof *f.p.grad);
                memset(w.grad, 0, w.length * sizeof *w.grad);
            }
            assert_memory_equal(y[0], y[1], (size_t)(n * (6 - k) * (6 - k) * 33) * sizeof(float));
            assert_memory_equal(mean[0], mean[1], sizeof mean[0]);
            qg_params_release(&w);
            fixture_free(&f);
        }
}

/* Nobody could train on after one bad batch: a NaN in them would stay. */
static void running_statistics_stay_finite(void **state)
{
    float    x[8] = { 1, NAN, 3, 1, 5, 2, 7, 3e38f }, mean[2] = { 0.5f, 0.25f }, var[2] = { 2, 3 };
    qg_tape *t    = qg_tape_new();
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *y = qg_norm(t, qg_input(t, (qg_tensor){ { 4, 1, 1, 2 }, x }), NULL, NULL,
                        (qg_norm_spec){ .mean = mean, .var = var });
    assert_true(isnan(y->data[1]) && y->data[0] < y->data[2]);
    assert_true(mean[0] > 0.8f && mean[0] < 0.9f && mean[1] == 0.25f && var[1] == 3);   /* 0.9 0.5 + 0.1 4 */
    float far[2] = { 3e38f, -3e38f };           /* mean 0, and a variance beyond floats */
    qg_tape_begin(t, QG_TRAIN, 1, 1);
    assert_non_null(qg_norm(t, qg_input(t, (qg_tensor){ { 2, 1, 1, 1 }, far }), NULL, NULL,
                            (qg_norm_spec){ .mean = mean + 1, .var = var + 1 }));
    assert_true(mean[1] == 0.25f && var[1] == 3);
    qg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_is_normalised_and_tracked),
        cmocka_unit_test(running_statistics_are_used_and_left_alone),
        cmocka_unit_test(no_gamma_is_one_and_no_beta_is_zero),
        cmocka_unit_test(a_large_mean_costs_no_variance),
        cmocka_unit_test(an_odd_first_pixel_costs_a_large_image_no_variance),
        cmocka_unit_test(a_large_mean_costs_no_digits),
        cmocka_unit_test(the_mean_itself_becomes_beta),
        cmocka_unit_test(a_batch_without_variance_is_finite),
        cmocka_unit_test(nan_survives),
        cmocka_unit_test(fusing_nothing_gives_the_bits_of_the_plain_op),
        cmocka_unit_test(sums_from_conv2d_are_its_own_sums),
        cmocka_unit_test(running_statistics_stay_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
