/* The counts of train/assess.h, against numbers computed by hand. */
#include "tests/support/testing.h"

#include <math.h>

#include "core/rng.h"
#include "train/measure.h"

/* Scores whose softmax is p[0] : p[1] : p[2]; each is off by half a unit of the last place. */
static void add(qg_assessment *a, int label, double p0, double p1, double p2)
{
    const float score[] = { (float)log(p0), (float)log(p1), (float)log(p2) };
    assert_ok(qg__assess_add(a, score, label));
}

/* Logarithms of at most 5, in floats, so that probabilities are right to 5 x 2^-24 = 3e-7. */
static void assert_near(double is, double want)
{
    if (!(fabs(is - want) <= 3e-7)) fail_msg("%.9g is not %.9g", is, want);
}

/* Twelve images of three classes. */
static void set_up_dozen(qg_assessment *a, int worst)
{
    assert_ok(qg__assess_begin(a, 3, worst));
    add(a, 0, 0.90, 0.05, 0.05);        /*  0: right */
    add(a, 0, 0.70, 0.20, 0.10);        /*  1: right */
    add(a, 0, 0.20, 0.50, 0.30);        /*  2: 0 for 1, its label has 0.20 */
    add(a, 0, 0.30, 0.09, 0.61);        /*  3: 0 for 2, 0.30 */
    add(a, 1, 0.09, 0.82, 0.09);        /*  4: right */
    add(a, 1, 0.50, 0.40, 0.10);        /*  5: 1 for 0, 0.40 */
    add(a, 1, 0.97, 0.02, 0.01);        /*  6: 1 for 0, 0.02 */
    add(a, 1, 0.30, 0.21, 0.49);        /*  7: 1 for 2, 0.21 */
    add(a, 2, 0.09, 0.09, 0.82);        /*  8: right */
    add(a, 2, 0.05, 0.05, 0.90);        /*  9: right */
    add(a, 2, 0.10, 0.20, 0.70);        /* 10: right */
    add(a, 2, 0.55, 0.14, 0.31);        /* 11: 2 for 0, 0.31 */
    qg__assess_sort(a);
}

static void test_confusion_recall_and_precision(void **state)
{
    static const uint64_t matrix[3][3] = { { 2, 1, 1 }, { 2, 1, 1 }, { 1, 0, 3 } };
    qg_assessment        a;
    set_up_dozen(&a, 0);
    assert_int_equal(a.images, 12);
    assert_int_equal(a.correct, 6);
    for (int label = 0; label < 3; label++)
        for (int k = 0; k < 3; k++) assert_int_equal(qg_assessment_confusion(&a, label, k), matrix[label][k]);
    assert_true(qg_assessment_recall(&a, 0) == 2.0 / 4 && qg_assessment_recall(&a, 1) == 1.0 / 4 &&
                qg_assessment_recall(&a, 2) == 3.0 / 4);
    assert_true(qg_assessment_precision(&a, 0) == 2.0 / 5 && qg_assessment_precision(&a, 1) == 1.0 / 2 &&
                qg_assessment_precision(&a, 2) == 3.0 / 5);
    /* The most frequent pair first, the others by label and prediction. */
    static const int pair[][3] = { { 1, 0, 2 }, { 0, 1, 1 }, { 0, 2, 1 }, { 1, 2, 1 }, { 2, 0, 1 } };
    assert_int_equal(a.n_confused, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(a.confused[i].label, pair[i][0]);
        assert_int_equal(a.confused[i].predicted, pair[i][1]);
        assert_int_equal(a.confused[i].count, pair[i][2]);
    }
    assert_int_equal(a.n_worst, 0);
    qg_assessment_free(&a);
}

static void test_the_worst_mistakes(void **state)
{
    static const int    image[] = { 6, 2, 7, 3, 11, 5 };
    static const double label[] = { 0.02, 0.20, 0.21, 0.30, 0.31, 0.40 }, of[] = { 0.97, 0.50, 0.49, 0.61, 0.55, 0.50 };
    for (int most = 0; most <= 8; most++) {
        qg_assessment a;
        set_up_dozen(&a, most);
        assert_int_equal(a.n_worst, most < 6 ? most : 6);
        for (int i = 0; i < a.n_worst; i++) {
            assert_int_equal(a.worst[i].image, image[i]);
            assert_near(exp(-a.worst[i].loss), label[i]);
            assert_near(a.worst[i].probability, label[i]);
            assert_near(a.worst[i].confidence, of[i]);
        }
        qg_assessment_free(&a);
    }
}

/* Equal ones by index. */
static void test_equal_mistakes(void **state)
{
    qg_assessment a;
    assert_ok(qg__assess_begin(&a, 3, 2));
    for (int i = 0; i < 4; i++) add(&a, 1, i == 2 ? 0.7 : 0.5, i == 2 ? 0.1 : 0.3, 0.2);
    assert_true(a.n_worst == 2 && a.worst[0].image == 2 && a.worst[1].image == 0);
    qg_assessment_free(&a);
}

/* Of the dozen, in bins of 1/15 = 0.0667: 0.49, 0.50 and 0.50 are wrong, in bin 7; 0.55 is, in bin 8, and 0.61 in bin 9; 0.70
 * is right twice, in bin 10, 0.82 twice in bin 12, 0.90 twice in bin 13; 0.97 is wrong, in bin 14. */
static void test_calibration_error(void **state)
{
    qg_assessment a;
    set_up_dozen(&a, 0);
    assert_int_equal(a.bin[7].images, 3);
    assert_int_equal(a.bin[8].images, 1);
    assert_int_equal(a.bin[9].images, 1);
    assert_int_equal(a.bin[10].images, 2);
    assert_int_equal(a.bin[10].correct, 2);
    assert_int_equal(a.bin[14].images, 1);
    const double error = (1.49 + 0.55 + 0.61 + (2 - 1.40) + (2 - 1.64) + (2 - 1.80) + 0.97) / 12;
    assert_near(qg_assessment_calibration_error(&a), error);
    qg_assessment_free(&a);
    /* Half of the images with probability 0.5 are right: no error. */
    assert_ok(qg__assess_begin(&a, 3, 0));
    add(&a, 0, 0.5, 0.25, 0.25);
    add(&a, 2, 0.5, 0.25, 0.25);
    assert_near(qg_assessment_calibration_error(&a), 0);
    qg_assessment_free(&a);
}

static void test_probabilities(void **state)
{
    double p[3];
    qg_probabilities((float[]){ (float)log(0.2), (float)log(0.5), (float)log(0.3) }, 3, p);
    assert_near(p[0], 0.2);
    assert_near(p[1], 0.5);
    assert_near(p[2], 0.3);
    qg_probabilities((float[]){ -3e38f, 0, 3e38f }, 3, p);
    assert_true(p[0] == 0 && p[1] == 0 && p[2] == 1);
}

/* The ends of bins, equal scores, and scores whose exponentials no double holds. */
static void test_extremes(void **state)
{
    qg_assessment none;
    assert_int_equal(qg__assess_begin(&none, 3, -1), QG_EARG);
    qg_assessment a;
    assert_ok(qg__assess_begin(&a, 3, 2));
    assert_true(isnan(qg_assessment_calibration_error(&a)) && isnan(qg_assessment_recall(&a, 0)) && isnan(qg_assessment_precision(&a, 2)));
    assert_ok(qg__assess_add(&a, (float[]){ 7, 7, 7 }, 1));             /* 1/3 is the end of the fifth bin */
    assert_int_equal(a.bin[4].images, 1);
    assert_int_equal(a.worst[0].predicted, 0);
    assert_ok(qg__assess_add(&a, (float[]){ 3e38f, -3e38f, 0 }, 1));    /* 1, and 0 for the label */
    assert_int_equal(a.bin[14].images, 1);
    assert_true(a.worst[0].image == 1 && isfinite(a.worst[0].loss) && a.worst[0].confidence == 1);
    assert_ok(qg__assess_add(&a, (float[]){ 2e38f, -3e38f, 0 }, 1));    /* of two zeros, the smaller */
    assert_true(a.worst[0].image == 1 && a.worst[1].image == 2);
    assert_failed(qg__assess_add(&a, (float[]){ 0, NAN, 0 }, 1), QG_ENAN, "score 1 of image 3 is nan");
    assert_failed(qg__assess_add(&a, (float[]){ 0, 0, INFINITY }, 1), QG_ENAN, "score 2 of image 3 is inf");
    assert_failed(qg__assess_add(&a, (float[]){ 0, 0, 0 }, 3), QG_EARG, "label 3 is not in 0..2");
    assert_failed(qg__assess_add(&a, (float[]){ 0, 0, 0 }, -1), QG_EARG, "label -1 is not in 0..2");
    assert_int_equal(a.images, 3);
    qg_assessment_free(&a);
}

/* More classes than a matrix of them would have room for: counts against ones made one by one. */
static void test_many_classes(void **state)
{
    enum { CLASSES = 65535, IMAGES = 40, GROUPS = 4 };
    static float   score[CLASSES];
    qg_assessment a;
    uint64_t       expected[GROUPS][GROUPS] = { { 0 } };
    assert_ok(qg__assess_begin(&a, CLASSES, 3));
    for (uint64_t i = 0; i < IMAGES; i++) {
        const int label = (int)(qg_bits(1, i) % GROUPS), predicted = (int)(qg_bits(2, i) % GROUPS);
        score[predicted * 20000] = 1;
        assert_ok(qg__assess_add(&a, score, label * 20000));
        score[predicted * 20000] = 0;
        expected[label][predicted]++;
    }
    qg__assess_sort(&a);
    for (int i = 0; i < GROUPS; i++)
        for (int k = 0; k < GROUPS; k++)
            assert_int_equal(qg_assessment_confusion(&a, i * 20000, k * 20000), expected[i][k]);
    assert_int_equal(qg_assessment_confusion(&a, 1, 2), 0);
    for (size_t i = 1; i < a.n_confused; i++) assert_true(a.confused[i - 1].count >= a.confused[i].count);
    qg_assessment_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_confusion_recall_and_precision),
        cmocka_unit_test(test_the_worst_mistakes),
        cmocka_unit_test(test_equal_mistakes),
        cmocka_unit_test(test_calibration_error),
        cmocka_unit_test(test_probabilities),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_many_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
