#include "tests/support/testing.h"

#include <math.h>

#include "core/kernels/parallel.h"
#include "core/ops/ops.h"
#include "tests/support/nets.h"

typedef qg_var *(*loss_op)(qg_tape *t, qg_var *x, const uint16_t *labels);

static qg_var *smoothed(qg_tape *t, qg_var *x, const uint16_t *labels)
{
    return qg_cross_entropy_with(t, x, labels, (qg_cross_entropy_spec){ .smoothing = 0.1f });
}

static const loss_op     losses[] = { qg_cross_entropy, qg_squared_hinge, smoothed };
static const char *const names[]  = { "cross_entropy", "squared_hinge", "smoothed cross_entropy" };

static qg_tape *begin(qg_mode mode)
{
    qg_tape *t = qg_tape_new();
    assert_non_null(t);
    qg_tape_begin(t, mode, 1, 0);
    return t;
}

static float value(loss_op op, qg_shape s, float *x, const uint16_t *labels)
{
    qg_tape *t = begin(QG_EVAL);
    qg_var  *y = op(t, qg_input(t, (qg_tensor){ s, x }), labels);
    assert_non_null(y);
    assert_true(qg_shape_equal(y->shape, (qg_shape){ 1, 1, 1, 1 }));
    assert_null(y->saved);
    const float v = y->data[0];
    qg_tape_free(t);
    return v;
}

/* --- values ------------------------------------------------------------------------------- */

static void cross_entropy_by_hand(void **state)
{
    /* Equal scores: log 4.  Scores log 1, log 2, log 3, log 4 and label 2: log(10 / 3). */
    float x[] = { 7, 7, 7, 7, 0, 0.693147181f, 1.09861229f, 1.38629436f };
    const uint16_t labels[] = { 1, 2 };
    const float   a = 1.38629436f, b = 1.20397280f, mean = (a + b) / 2;
    const float   got[] = { value(qg_cross_entropy, (qg_shape){ 1, 1, 1, 4 }, x, labels),
                            value(qg_cross_entropy, (qg_shape){ 2, 1, 1, 4 }, x, labels) };
    assert_close(got, (float[]){ a, mean }, 2, 2e-7);       /* two roundings near 1 */
}

static void cross_entropy_neither_overflows_nor_vanishes(void **state)
{
    float         x[] = { 1e30f, -1e30f, 0, -1e4f, -1e4f, -1e4f };
    const uint16_t right[] = { 0, 1 }, wrong[] = { 2, 1 };
    const float   got[]   = { value(qg_cross_entropy, (qg_shape){ 1, 1, 1, 3 }, x, right),
                              value(qg_cross_entropy, (qg_shape){ 1, 1, 1, 3 }, x + 3, right) };
    assert_close(got, (float[]){ 0, 1.09861229f }, 2, 1e-6);
    const float far = value(qg_cross_entropy, (qg_shape){ 1, 1, 1, 3 }, x, wrong);
    assert_true(far > 0.9e30f && far < 1.1e30f);
}

static void squared_hinge_by_hand(void **state)
{
    /* Label 1 of 2, -1, 0.5: (1 + 2)^2 + (1 + 1)^2 + (1 + 0.5)^2 over 3; the second row's is 0. */
    float         x[]      = { 2, -1, 0.5f, -3, -1, 1 };
    const uint16_t labels[] = { 1, 2 };
    const float   got[]    = { value(qg_squared_hinge, (qg_shape){ 2, 1, 1, 3 }, x, labels) };
    assert_close(got, (float[]){ (9 + 4 + 2.25f) / 6 }, 1, 2e-7);
}

/* A sum in float would lose one of 65536 equal rows in 10^4 and more. */
static void the_mean_is_taken_in_double(void **state)
{
    enum { N = 65536 };
    static float   x[2 * N];
    static uint16_t labels[N];
    for (int i = 0; i < N; i++) x[2 * i] = 0.3f;
    const float got = value(qg_cross_entropy, (qg_shape){ N, 1, 1, 2 }, x, labels);
    assert_close(&got, (float[]){ (float)log1p(exp(-(double)0.3f)) }, 1, 6e-8);
}

/* Labels above 255, to the greatest and one beyond it: log(sum of exp(0)) is log(classes). */
static void labels_above_a_byte(void **state)
{
    static float     x[65535];
    static const int classes[] = { 257, 65535 };
    for (int i = 0; i < 2; i++) {
        const uint16_t label[] = { (uint16_t)(classes[i] - 1) }, beyond[] = { (uint16_t)classes[i] };
        const qg_shape shape   = { 1, 1, 1, classes[i] };
        const float    got     = value(qg_cross_entropy, shape, x, label);
        assert_close(&got, (float[]){ (float)log(classes[i]) }, 1, 6e-8);
        qg_tape *t = begin(QG_EVAL);
        qg_var  *v = qg_input(t, (qg_tensor){ shape, x });
        x[classes[i] - 1] = 1;
        assert_int_equal(qg_count_correct(v, label), 1);
        assert_int_equal(qg_count_correct(v, (uint16_t[]){ (uint16_t)((classes[i] - 1) & 0xff) }), 0);
        x[classes[i] - 1] = 0;
        assert_null(qg_cross_entropy(t, v, beyond));
        char want[64];
        snprintf(want, sizeof want, "label %d at index 0 is not in 0..%d", classes[i], classes[i] - 1);
        assert_message(want);
        qg_tape_free(t);
    }
}

static void nan_survives(void **state)
{
    const uint16_t labels[] = { 0 };
    for (int op = 0; op < COUNT(losses); op++)
        for (int at = 0; at < 3; at++) {
            float x[] = { 1, 2, 3 };
            x[at]     = NAN;
            assert_true(isnan(value(losses[op], (qg_shape){ 1, 1, 1, 3 }, x, labels)));
        }
}

/* --- gradients ---------------------------------------------------------------------------- */

static void cross_entropy_gradient_by_hand(void **state)
{
    qg_params p = { 0 };
    qg_param *x = declare(&p, "x", (qg_shape){ 2, 1, 1, 2 });
    assert_ok(qg_params_allocate(&p));
    x->value[3]      = 1.09861229f;                 /* softmax of (0, log 3) is (1/4, 3/4) */
    uint16_t label[] = { 1, 0 };
    qg_tape *t       = begin(QG_TRAIN);
    qg_var  *y       = qg_scale(t, qg_cross_entropy(t, qg_parameter(t, x), label), 4);
    label[0] = label[1] = 200;                      /* labels may go once the op has returned */
    assert_ok(qg_backward(t, y));
    assert_close(x->grad, (float[]){ 1, -1, -1.5f, 1.5f }, 4, 3e-7);
    qg_tape_free(t);
    qg_params_release(&p);
}

typedef struct setting {
    loss_op op;
    uint16_t labels[33];
} setting;

static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    const setting *s = context;
    qg_var        *x = qg_parameter(t, p->item[0]), *v = qg_scale(t, x, 1.7f);
    qg_var        *y = qg_add(t, s->op(t, v, s->labels), s->op(t, v, s->labels));
    return qg_add(t, y, s->op(t, x, s->labels));
}

static void gradients(void **state)
{
    const qg_shape shapes[] = { { 1, 1, 1, 1 }, { 3, 1, 1, 2 }, { 31, 1, 1, 10 }, { 33, 1, 1, 15 } };
    for (int op = 0; op < COUNT(losses); op++)
        for (size_t k = 0; k < 4; k++) {
            if (losses[op] == smoothed && shapes[k].c == 1) continue;       /* a constant */
            qg_params p = { 0 };
            setting   s = { .op = losses[op] };
            declare(&p, "x", shapes[k]);
            allocate_apart(&p, 3);
            for (int i = 0; i < shapes[k].n; i++)
                s.labels[i] = (uint8_t)((size_t)(7 * i) % qg_row(shapes[k]));
            /* The slope of the hinge has a kink at s x = 1, at which no value of the small shapes
             * lies; of many, the few near it add less than the tolerance. */
            assert_gradcheck((qg_gradcheck_spec){ .name = names[op], .params = &p, .build = build,
                                                  .context = &s });
            qg_params_release(&p);
        }
}

/* --- soft targets, targets that are numbers ------------------------------------------------ */

/* Scores of a row, and those of its target; the values below are from the formulas in double. */
static const float student[] = { 0.5f, -1.25f, 2, 0, 0, 3 }, teacher[] = { 1, 0.25f, -0.5f, 2, -1, 0 };

typedef struct pair {
    qg_tape  *t;
    qg_params p;
    qg_param *x, *z;
} pair;

static pair open_pair(qg_shape s)
{
    pair f = { .t = begin(QG_TRAIN) };
    f.x    = declare(&f.p, "x", s);
    f.z    = declare(&f.p, "z", s);
    allocate_apart(&f.p, 3);
    return f;
}

static pair open_scores(int n)
{
    pair f = open_pair((qg_shape){ n, 1, 1, 3 });
    for (int i = 0; i < 3 * n; i++) f.x->value[i] = student[i], f.z->value[i] = teacher[i];
    return f;
}

static void close_pair(pair *f)
{
    qg_tape_free(f->t);
    qg_params_release(&f->p);
}

static void smoothing_by_formula(void **state)
{
    /* Softmax (0.1768, 0.0307, 0.7925), targets 1/30, 1/30 and 28/30. */
    const uint16_t label[] = { 2 };
    pair          f       = open_scores(1);
    qg_var       *y       = smoothed(f.t, qg_parameter(f.t, f.x), label);
    assert_ok(qg_backward(f.t, y));
    assert_close(y->data, (float[]){ 0.390955316f }, 1, 6e-8);          /* 0.1f is not 0.1 */
    assert_close(f.x->grad, (float[]){ 0.143486849f, -0.00260659301f, -0.140880256f }, 3, 2e-8);
    close_pair(&f);
}

static void no_smoothing_has_the_bits_of_cross_entropy(void **state)
{
    const uint16_t label[] = { 2, 0 };
    pair          f       = open_scores(2);
    f.x->value[0]         = -INFINITY;          /* another class with an infinite loss */
    qg_var *a = qg_cross_entropy(f.t, qg_parameter(f.t, f.x), label);
    qg_var *b = qg_cross_entropy_with(f.t, qg_parameter(f.t, f.x), label, (qg_cross_entropy_spec){ 0 });
    assert_true(isfinite(a->data[0]));
    assert_memory_equal(a->data, b->data, sizeof(float));
    close_pair(&f);
}

static void kl_by_formula(void **state)
{
    pair    f = open_scores(1);
    qg_var *x = qg_parameter(f.t, f.x), *z = qg_parameter(f.t, f.z);
    qg_var *y = qg_kl(f.t, x, z, 4), *one = qg_kl(f.t, x, z, 1);
    assert_close(one->data, (float[]){ 1.08844199f }, 1, 6e-8);         /* half a unit near 1 */
    assert_close(y->data, (float[]){ 1.38123633f }, 1, 6e-8);
    assert_ok(qg_backward(f.t, y));
    assert_close(f.x->grad, (float[]){ -0.299567683f, -0.484921615f, 0.784489298f }, 3, 3e-8);
    assert_close(f.z->grad, (float[]){ 0.194704092f, 0.490876498f, -0.685580591f }, 3, 3e-8);
    close_pair(&f);
    f = open_scores(2);
    y = qg_kl(f.t, qg_parameter(f.t, f.x), qg_parameter(f.t, f.z), 2);  /* the mean of two rows */
    assert_close(y->data, (float[]){ 1.87932797f }, 1, 6e-8);
    close_pair(&f);
}

/* Probabilities 1/4, 3/4 and 0 as logarithms, against equal scores: log 3 - entropy. */
static void kl_reads_logarithms_of_probabilities(void **state)
{
    pair f = open_pair((qg_shape){ 1, 1, 1, 3 });
    for (int i = 0; i < 3; i++) f.x->value[i] = 5;
    f.z->value[0] = logf(0.25f), f.z->value[1] = logf(0.75f), f.z->value[2] = -INFINITY;
    qg_var *y = qg_kl(f.t, qg_parameter(f.t, f.x), qg_parameter(f.t, f.z), 1);
    assert_ok(qg_backward(f.t, y));
    assert_close(y->data, (float[]){ 0.536277147f }, 1, 6e-8);          /* logf rounds the probabilities */
    assert_close(f.x->grad, (float[]){ 1 / 3.0f - 0.25f, 1 / 3.0f - 0.75f, 1 / 3.0f }, 3, 6e-8);
    for (int i = 0; i < 3; i++) assert_true(isfinite(f.z->grad[i]));
    close_pair(&f);
}

static void kl_of_equals_is_0_and_large_scores_do_not_overflow(void **state)
{
    pair    f = open_scores(1);
    qg_var *x = qg_parameter(f.t, f.x);
    qg_var *y = qg_kl(f.t, x, x, 3);
    assert_true(y->data[0] == 0);
    assert_ok(qg_backward(f.t, y));
    for (int i = 0; i < 3; i++) assert_true(f.x->grad[i] == 0);
    f.x->value[0] = 1e30f, f.z->value[0] = -1e30f;
    qg_tape_begin(f.t, QG_TRAIN, 1, 1);
    y = qg_kl(f.t, qg_parameter(f.t, f.x), qg_parameter(f.t, f.z), 1);
    assert_true(y->data[0] > 0.9e30f && y->data[0] < 1.1e30f);
    close_pair(&f);
}

static void mse_by_hand(void **state)
{
    /* Differences -1, 2, 0 and 4 of 4 numbers: 21 / 4; slopes are half of them. */
    pair        f   = open_pair((qg_shape){ 2, 1, 2, 1 });
    const float x[] = { 1, 2, 3, 4 }, z[] = { 2, 0, 3, 0 };
    for (int i = 0; i < 4; i++) f.x->value[i] = x[i], f.z->value[i] = z[i];
    qg_var *y = qg_mse(f.t, qg_parameter(f.t, f.x), qg_parameter(f.t, f.z));
    assert_true(y->data[0] == 5.25f);
    assert_ok(qg_backward(f.t, y));
    assert_close(f.x->grad, (float[]){ -0.5f, 1, 0, 2 }, 4, 0);
    assert_close(f.z->grad, (float[]){ 0.5f, -1, 0, -2 }, 4, 0);
    close_pair(&f);
}

/* A sum in float would lose small squares beside a large one. */
static void mse_sums_in_double(void **state)
{
    pair f = open_pair((qg_shape){ 5, 1, 1, QG_BLOCK });
    for (size_t i = 0, m = qg_count(f.x->shape); i < m; i++) f.x->value[i] = i == 0 ? 4096 : 1, f.z->value[i] = 0;
    const qg_var *y = qg_mse(f.t, qg_parameter(f.t, f.x), qg_parameter(f.t, f.z));
    const double  m = 5.0 * QG_BLOCK;
    assert_close(y->data, (float[]){ (float)((4096.0 * 4096 + m - 1) / m) }, 1, 0);
    close_pair(&f);
}

/* In double, in the order of the images: four squares of 2^-52 lift 4 + 2^-22 off the tie between two floats;
 * after 4 they would be lost. */
static void mse_adds_images_in_order(void **state)
{
    static const float x[] = { 0x1p-26f, 0x1p-26f, 0x1p-26f, 0x1p-26f, 0x1p-11f, 2, 0, 0 };
    pair f = open_pair((qg_shape){ 8, 1, 1, 1 });
    for (int i = 0; i < 8; i++) f.x->value[i] = x[i], f.z->value[i] = 0;
    const qg_var *y = qg_mse(f.t, qg_parameter(f.t, f.x), qg_parameter(f.t, f.z));
    assert_close(y->data, (float[]){ 0.5f + 0x1p-24f }, 1, 0);
    close_pair(&f);
}

static void pairs_keep_nan(void **state)
{
    for (int k = 0; k < 2; k++) {
        pair f = open_scores(2);
        (k ? f.z : f.x)->value[4] = NAN;
        qg_var *x = qg_parameter(f.t, f.x), *z = qg_parameter(f.t, f.z);
        assert_true(isnan(qg_kl(f.t, x, z, 2)->data[0]) && isnan(qg_mse(f.t, x, z)->data[0]));
        close_pair(&f);
    }
}

/* Each operand fresh, then added to; and one var as both operands. */
static qg_var *build_kl(qg_tape *t, const qg_params *p, void *context)
{
    qg_var *x = qg_scale(t, qg_parameter(t, p->item[0]), 1.5f), *z = qg_scale(t, qg_parameter(t, p->item[1]), 2);
    return qg_add(t, qg_kl(t, x, z, 2), qg_add(t, qg_kl(t, z, x, 0.5f), qg_kl(t, x, x, 1)));
}

static qg_var *build_mse(qg_tape *t, const qg_params *p, void *context)
{
    qg_var *x = qg_scale(t, qg_parameter(t, p->item[0]), 1.5f), *z = qg_scale(t, qg_parameter(t, p->item[1]), 2);
    return qg_add(t, qg_mse(t, x, z), qg_add(t, qg_mse(t, z, x), qg_mse(t, x, x)));
}

static void gradients_of_pairs(void **state)
{
    const qg_shape shapes[] = { { 3, 1, 1, 2 }, { 31, 1, 1, 10 }, { 33, 1, 1, 15 } };
    for (int s = 0; s < COUNT(shapes); s++) {
        pair f = open_pair(shapes[s]);
        assert_gradcheck((qg_gradcheck_spec){ .name = "kl", .params = &f.p, .build = build_kl });
        close_pair(&f);
    }
    const qg_shape maps[] = { { 1, 1, 1, 1 }, { 3, 5, 7, 2 }, { 2, 31, 33, 17 } };
    for (int s = 0; s < COUNT(maps); s++) {
        pair f = open_pair(maps[s]);
        assert_gradcheck((qg_gradcheck_spec){ .name = "mse", .params = &f.p, .build = build_mse });
        close_pair(&f);
    }
}

/* --- counting ----------------------------------------------------------------------------- */

static void correct_rows_are_counted(void **state)
{
    float    x[] = { 1, 2, 3, 3, 2, 1, 5, 5, 5, 5, 5, 5, NAN, 1, 0, 1, NAN, 0, 0, 0, 1 };
    qg_tape *t   = begin(QG_EVAL);
    qg_var  *v   = qg_input(t, (qg_tensor){ { 7, 1, 1, 3 }, x });
    /* right, wrong, the first of equals, a later one, twice a NaN, a label that is none. */
    assert_int_equal(qg_count_correct(v, (uint16_t[]){ 2, 2, 0, 1, 0, 0, 3 }), 2);
    assert_int_equal(qg_count_correct(v, (uint16_t[]){ 0, 0, 1, 0, 1, 1, 2 }), 3);
    assert_int_equal(qg_count_correct(NULL, (uint16_t[]){ 0 }), 0);
    assert_int_equal(qg_count_correct(v, NULL), 0);
    v = qg_input(t, (qg_tensor){ { 1, 1, 3, 1 }, x });      /* no row, but three scores of one class */
    assert_int_equal(qg_count_correct(v, (uint16_t[]){ 2 }), 0);
    qg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cross_entropy_by_hand),
        cmocka_unit_test(cross_entropy_neither_overflows_nor_vanishes),
        cmocka_unit_test(squared_hinge_by_hand),
        cmocka_unit_test(the_mean_is_taken_in_double),
        cmocka_unit_test(labels_above_a_byte),
        cmocka_unit_test(nan_survives),
        cmocka_unit_test(cross_entropy_gradient_by_hand),
        cmocka_unit_test(gradients),
        cmocka_unit_test(smoothing_by_formula),
        cmocka_unit_test(no_smoothing_has_the_bits_of_cross_entropy),
        cmocka_unit_test(kl_by_formula),
        cmocka_unit_test(kl_reads_logarithms_of_probabilities),
        cmocka_unit_test(kl_of_equals_is_0_and_large_scores_do_not_overflow),
        cmocka_unit_test(mse_by_hand),
        cmocka_unit_test(mse_sums_in_double),
        cmocka_unit_test(mse_adds_images_in_order),
        cmocka_unit_test(pairs_keep_nan),
        cmocka_unit_test(gradients_of_pairs),
        cmocka_unit_test(correct_rows_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
