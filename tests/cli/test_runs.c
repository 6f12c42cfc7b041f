/* train/runs.h: what a program reads of runs of build/qgrad, or $QGRAD, and of its own. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qgrad.h"
#include "tests/support/nets.h"
#include "tests/support/program.h"

static void train_run(void)
{
    assert_runs(TRAIN "--epochs 2 --out @/run");
}

static qg_loader *test_images(qg_run *r) { return qg_run_test(r, (qg_run_test_spec){ 0 }); }

/* The directory, and each of its checkpoints alone. */
static void test_a_run_says_what_it_is(void **state)
{
    qg_fit_result result;
    int           epochs;
    train_run();
    qg_run *r = qg_run_open(at("run"), QG_RUN_BEST);
    if (!r) fail_msg("%s", qg_errmsg());
    assert_string_equal(qg_run_directory(r), at("run"));
    assert_string_equal(qg_run_file(r), at("run/best.safetensors"));
    assert_string_equal(qg_run_get(r, "weight"), "twn");
    assert_string_equal(qg_run_get(r, "optimizer"), "sgd");
    assert_null(qg_run_get(r, "clip-norm"));
    assert_null(qg_run_get(r, "no such key"));
    assert_string_equal(qg_run_note(r, "kind"), "weights");
    assert_null(qg_run_config(r));
    assert_int_equal(qg_run_image(r).h, SIDE);
    assert_int_equal(qg_run_classes(r), 10);
    assert_string_equal(qg_run_class(r, 3), "3");
    assert_null(qg_run_class(r, 10));
    assert_ok(qg_run_result(qg_run_directory(r), &result));
    assert_true(result.complete);
    const double *accuracy = qg_run_column(r, "test_accuracy", &epochs);
    assert_non_null(accuracy);
    assert_int_equal(epochs, 2);
    assert_true(fabs(accuracy[1] - result.test_accuracy) < 1e-6);
    assert_string_equal(qg_run_column_name(r, 0), "epoch");
    assert_null(qg_run_column_name(r, -1));
    assert_null(qg_run_column_name(r, 1000));
    assert_null(qg_run_column(r, "speed", &epochs));
    assert_non_null(strstr(qg_errmsg(), "metrics.csv: has no column 'speed'"));
    qg_run_close(r);

    run_shell("mkdir @/alone && cp @/run/last.safetensors @/alone/any.name");
    r = qg_run_open(at("alone/any.name"), QG_RUN_BEST);
    if (!r) fail_msg("%s", qg_errmsg());
    assert_string_equal(qg_run_note(r, "kind"), "checkpoint");
    assert_string_equal(qg_run_get(r, "weight"), "twn");
    assert_int_equal(qg_run_steps(r), 2 * N_TRAIN / 24);
    assert_int_equal(qg_run_result(qg_run_directory(r), &result), QG_EIO);
    qg_run_close(r);
}

/* Scores and accuracy are those of `qgrad eval`, whatever the number of images at a time, and the files stay as they are. */
static void test_a_run_computes_as_in_its_tests(void **state)
{
    qg_assessment a;
    uint8_t       bytes[3 * SIDE * SIDE];
    float         together[3 * 10], alone[10];
    train_run();
    run_shell("cp -r @/run @/before");
    for (int best = 0; best < 2; best++) {
        assert_runs("eval --run @/run --json%s", best ? " --best" : "");
        qg_run    *r      = qg_run_open(at("run"), best ? QG_RUN_BEST : QG_RUN_LAST);
        qg_loader *images = r ? test_images(r) : NULL;
        qg_batch   b;
        assert_true(qg_loader_next(images, &b));        /* what was read before does not matter */
        if (!images || qg_run_evaluate(r, images, (qg_run_evaluate_spec){ .worst = 3 }, &a)) fail_msg("%s", qg_errmsg());
        assert_int_equal(a.images, N_TEST);
        assert_true(fabs(a.accuracy - last_number("test_accuracy")) < 1e-8 && fabs(a.loss - last_number("test_loss")) < 1e-6);
        assert_true(fabs(qg_assessment_calibration_error(&a) - last_number("calibration_error")) < 1e-6);
        assert_true(a.n_worst <= 3);
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 37);
        assert_ok(qg_run_predict(r, 3, bytes, together));
        assert_ok(qg_run_predict(r, 1, bytes + 2 * SIDE * SIDE, alone));
        assert_memory_equal(alone, together + 20, sizeof alone);
        qg_assessment_free(&a), qg_loader_free(images), qg_run_close(r);
    }
    run_shell("diff -r @/run @/before");
}

/* A run with averages tests these; best.safetensors has nothing else. */
static void test_averages_are_what_a_run_tested(void **state)
{
    assert_runs(TRAIN "--epochs 2 --ema 0.9 --out @/averaged --json");
    const double tested = last_number("test_accuracy");
    qg_assessment a;
    qg_run       *r      = qg_run_open(at("averaged"), QG_RUN_LAST);
    qg_loader    *images = r ? test_images(r) : NULL;
    if (!images || qg_run_evaluate(r, images, (qg_run_evaluate_spec){ 0 }, &a)) fail_msg("%s", qg_errmsg());
    assert_true(fabs(a.accuracy - tested) < 1e-8);
    qg_assessment_free(&a), qg_loader_free(images), qg_run_close(r);
}

/* As `qgrad eval --weight`; what the old quantizer learned is not taken. */
static void test_a_run_is_measured_with_other_quantizers(void **state)
{
    train_run();
    assert_runs("eval --run @/run --weight ttq --json");
    char          fresh[64];
    qg_assessment a, own;
    qg_recipe    *changes = qg_recipe_new();
    qg_run       *r       = qg_run_open(at("run"), QG_RUN_LAST);
    qg_loader    *images  = r ? test_images(r) : NULL;
    assert_ok(qg_recipe_set(changes, "weight", "ttq"));
    qg_net *net = images ? qg_run_net_with(r, changes, fresh, sizeof fresh) : NULL;
    if (!net || qg_run_evaluate(r, images, (qg_run_evaluate_spec){ .net = net }, &a)) fail_msg("%s", qg_errmsg());
    assert_true(fabs(a.accuracy - last_number("test_accuracy")) < 1e-8 && fabs(a.loss - last_number("test_loss")) < 1e-6);
    assert_non_null(strstr(fresh, ".weight.wp, "));
    assert_ok(qg_run_evaluate(r, images, (qg_run_evaluate_spec){ 0 }, &own));
    assert_true(own.loss != a.loss);
    qg_assessment_free(&a), qg_assessment_free(&own), qg_net_free(net);

    qg_recipe *wrong = qg_recipe_new();
    assert_ok(qg_recipe_set(wrong, "layer", "nowhere:weight=ttq"));
    assert_null(qg_run_net_with(r, wrong, NULL, 0));
    assert_int_equal(qg_errcode(), QG_EARG);
    qg_recipe_free(wrong), qg_recipe_free(changes), qg_loader_free(images), qg_run_close(r);
}

/* The first weights are those of a training that has not begun. */
static void test_a_run_knows_its_first_weights(void **state)
{
    train_run();
    qg_recipe *recipe = qg_recipe_new();
    assert_ok(qg_recipe_read(recipe, at("run/config.toml")));
    qg_run *r     = qg_run_open(at("run"), QG_RUN_START), *ended = qg_run_open(at("run"), QG_RUN_LAST);
    qg_net *begun = qg_recipe_net(recipe, qg_run_image(ended), 10);
    assert_true(r && begun && qg_run_net(r) && qg_run_net(ended));
    const uint64_t is = qg_params_digest(qg_net_params(qg_run_net(r)));
    assert_true(is == qg_params_digest(qg_net_params(begun)) && is != qg_params_digest(qg_net_params(qg_run_net(ended))));
    assert_int_equal(qg_run_steps(r), 0);
    assert_null(qg_run_net_with(r, recipe, NULL, 0));
    assert_int_equal(qg_errcode(), QG_ESTATE);
    qg_net_free(begun), qg_recipe_free(recipe), qg_run_close(r), qg_run_close(ended);

    assert_runs(TRAIN "--init @/run --out @/later");
    assert_runs("train --model 4C3-R-GAP-10 --data mnist --data-dir @/set --epochs 1 --whiten-patches conv1"
                " --out @/white");
    for (int white = 0; white < 2; white++) {
        r = qg_run_open(at(white ? "white" : "later"), QG_RUN_START);
        assert_non_null(r);
        assert_null(qg_run_net(r));
        assert_int_equal(qg_errcode(), QG_ESTATE);
        qg_run_close(r);
    }
    assert_runs("report @/white");              /* without the column of the first weights */
}

static void test_what_is_no_run_is_refused(void **state)
{
    train_run();
    assert_null(qg_run_open(at("none"), QG_RUN_LAST));
    assert_non_null(strstr(qg_errmsg(), "no such directory or checkpoint"));
    assert_null(qg_run_open("", QG_RUN_LAST));
    assert_null(qg_run_open(NULL, QG_RUN_LAST));
    qg_run_close(NULL);
    run_shell("cp -r @/run @/other && sed -i s/batch.=.24/batch=12/ @/other/config.toml");
    qg_run *r = qg_run_open(at("other"), QG_RUN_LAST);
    assert_non_null(r);
    assert_null(qg_run_net(r));
    assert_non_null(strstr(qg_errmsg(), "belongs to a run with batch 24, not 12"));
    qg_run_close(r);
    run_shell("cp -r @/run @/cut && truncate -s -9 @/cut/last.safetensors");
    r = qg_run_open(at("cut"), QG_RUN_LAST);
    assert_true(!r || !qg_run_net(r));
    assert_int_equal(qg_errcode(), QG_EFORMAT);
    qg_run_close(r);
}

/* Whoever checks only the end still learns why a run could not be opened. */
static void test_a_run_that_is_null(void **state)
{
    qg_run        *r = qg_run_open(at("none"), QG_RUN_LAST);
    qg_assessment  a;
    qg_run_export  e;
    qg_run_quantized q;
    uint8_t        bytes[1] = { 0 };
    float          value[1];
    int32_t        code[1];
    int            n;
    assert_null(r);
    assert_true(!qg_run_directory(r) && !qg_run_file(r) && !qg_run_get(r, "model") && !qg_run_note(r, "kind") && !qg_run_config(r));
    assert_true(!qg_run_arithmetic(r) && !qg_run_image(r).h && !qg_run_classes(r) && !qg_run_class(r, 0) && !qg_run_steps(r));
    assert_true(!qg_run_net(r) && !qg_run_net_with(r, NULL, NULL, 0) && !qg_run_preprocess(r));
    assert_true(!qg_run_test(r, (qg_run_test_spec){ 0 }) && !qg_run_column_name(r, 0) && !qg_run_column(r, "epoch", &n) && !n);
    assert_null(qg_run_weight_at(r, 0).layer);
    assert_int_equal(qg_run_weight_quantized(r, 0, value, code, &n), QG_EARG);
    assert_int_equal(qg_run_predict(r, 1, bytes, value), QG_EARG);
    assert_int_equal(qg_run_export_of(r, &e), QG_EARG);
    assert_int_equal(qg_run_quantize(r, (qg_run_quantize_spec){ .dir = at("q") }, &q), QG_EARG);
    assert_non_null(strstr(qg_errmsg(), "no such directory or checkpoint"));
    qg_loader *images = qg_synthetic((qg_shape){ 2, 2, 2, 1 }, 2, 1, (qg_loader_spec){ .batch = 2 });
    assert_int_equal(qg_run_evaluate(r, images, (qg_run_evaluate_spec){ 0 }, &a), QG_EARG);
    qg_loader_free(images), qg_assessment_free(&a), qg_assessment_free(NULL);
    assert_true(!qg_loader_labels(NULL) && !qg_loader_bytes(NULL, 0, 1, bytes) && !qg_image_named(NULL));
}

/* The run that `qgrad quantize` makes, and its mistakes. */
static void test_a_run_is_quantized(void **state)
{
    qg_run_quantized q;
    train_run();
    assert_runs("quantize --run @/run --input fake_quant:range=observed --calibrate 20 --out @/verb");
    qg_run    *r       = qg_run_open(at("run"), QG_RUN_LAST);
    qg_recipe *changes = qg_recipe_new();
    assert_non_null(r);
    assert_ok(qg_recipe_set(changes, "input", "fake_quant:range=observed"));
    char dir[256];
    snprintf(dir, sizeof dir, "%s/", at("here"));
    qg_run_quantize_spec spec = { .dir = dir, .changes = changes, .images = 20 };
    assert_ok(qg_run_quantize(r, spec, &q));
    assert_int_equal(q.images, 20);
    assert_true(q.accuracy >= 0 && q.accuracy <= 1 && isfinite(q.loss_before) && isfinite(q.loss));
    run_shell("for f in config.toml last.safetensors best.safetensors metrics.csv; do cmp @/verb/$f @/here/$f; done");
    assert_int_equal(qg_run_quantize(r, spec, &q), QG_ESTATE);
    assert_non_null(strstr(qg_errmsg(), "already exists"));
    *dir = '\0';
    assert_int_equal(qg_run_quantize(r, spec, &q), QG_EARG);
    assert_non_null(strstr(qg_errmsg(), "the path of a directory is empty"));
    assert_int_equal(qg_run_quantize(r, (qg_run_quantize_spec){ .changes = changes }, &q), QG_EARG);
    run_shell("printf 'epochs = 9\\ninput = \"fake_quant:range=observed\"\\n' >@/changes.toml");
    qg_recipe *file = qg_recipe_new();
    assert_ok(qg_recipe_read(file, at("changes.toml")));
    snprintf(dir, sizeof dir, "%s", at("read"));
    spec.changes = file;
    assert_ok(qg_run_quantize(r, spec, &q));
    run_shell("cmp @/verb/last.safetensors @/read/last.safetensors && cmp @/verb/config.toml @/read/config.toml");
    qg_recipe_free(file);
    spec.changes = changes;
    snprintf(dir, sizeof dir, "%s", at("other"));
    assert_ok(qg_recipe_set(changes, "layer", "conv9:weight=ttq"));
    assert_int_equal(qg_run_quantize(r, spec, &q), QG_EARG);
    qg_recipe_free(changes);
    qg_run_close(r);
}

/* The weights of the small net, in the order of its layers. */
enum { CONV1, CONV2, FC1, FC2, WEIGHTS, MOST = 40 * 12 * 16 };
static float   value[MOST];
static int32_t code[MOST];

static qg_run_weight read_weight(qg_run *r, int i, int *bits)
{
    const qg_run_weight w = qg_run_weight_at(r, i);
    assert_non_null(w.layer);
    assert_in_range(qg_count(w.shape), 1, MOST);
    for (int k = 0; k < MOST; k++) code[k] = 99;
    assert_ok(qg_run_weight_quantized(r, i, value, code, bits));
    return w;
}

/* The mean of |x| in row o. */
static double mean(const float *x, qg_shape s, int o)
{
    double    sum = 0;
    const int row = (int)qg_row(s);
    for (int k = 0; k < row; k++) sum += fabs(x[o * row + k]);
    return sum / row;
}

/* Ternary weights with one scale each, and a layer that keeps floats. */
static void test_a_run_shows_its_weights(void **state)
{
    static const char *const names[WEIGHTS] = { "conv1", "conv2", "fc1", "fc2" };
    int bits;
    assert_runs(TRAIN "--epochs 1 --layer fc2:weight=float --out @/run");
    qg_run *r = qg_run_open(at("run"), QG_RUN_LAST);
    for (int i = 0; i < WEIGHTS; i++) {
        const qg_run_weight w = read_weight(r, i, &bits);
        float a = 0;
        assert_string_equal(w.layer, names[i]);
        for (size_t k = 0; k < qg_count(w.shape); k++) a = fmaxf(a, fabsf(value[k]));
        assert_int_equal(bits, i == FC2 ? 0 : 2);
        for (size_t k = 0; k < qg_count(w.shape); k++) {
            if (bits) assert_true(value[k] == a * (float)code[k] && (float)code[k] * w.latent[k] >= 0);
            else
                assert_true(value[k] == w.latent[k] && code[k] == 99);
        }
    }
    assert_int_equal(qg_run_weight_at(r, FC2).shape.c, 40);
    assert_null(qg_run_weight_at(r, WEIGHTS).layer);
    assert_null(qg_run_weight_at(r, -1).layer);
    assert_int_equal(qg_run_weight_quantized(r, WEIGHTS, value, code, &bits), QG_EARG);
    assert_non_null(strstr(qg_errmsg(), "run: has no weight 4"));
    qg_run_close(r);
}

/* With its batch norm folded in, a row has another scale. */
static void test_a_run_shows_folded_weights(void **state)
{
    int bits, others = 0;
    for (int folds = 0; folds < 2; folds++) {
        assert_runs("%s", folds ? TRAIN "--weight binary-channel --epochs 1 --out @/folded --fold-batchnorm"
                                : TRAIN "--weight binary-channel --epochs 1 --out @/plain");
        qg_run             *r = qg_run_open(at(folds ? "folded" : "plain"), QG_RUN_LAST);
        const qg_run_weight w = read_weight(r, CONV2, &bits);
        for (int o = 0; o < w.shape.n; o++) {
            const double ratio = mean(value, w.shape, o) / mean(w.latent, w.shape, o);
            if (!folds) assert_true(fabs(ratio - 1) < 1e-5);        /* sums of 90 floats */
            others += fabs(ratio - 1) > 0.01;
        }
        qg_run_close(r);
    }
    assert_true(others > 6);
}

/* Bytes of a set, and what is counted of scores that are known. */
static void test_scores_that_are_known_are_assessed(void **state)
{
    qg_assessment a = { 0 };
    uint8_t       bytes[4]  = { 1, 2, 3, 4 };
    uint16_t      labels[4] = { 0, 1, 1, 0 };
    float         scores[4][2] = { { 2, 1 }, { 2, 1 }, { 0, 1 }, { 3, 1 } };
    qg_loader    *l = qg_arrays((qg_shape){ 4, 1, 1, 1 }, bytes, labels, 2, (qg_loader_spec){ .batch = 3, .in_order = true });
    assert_non_null(l);
    assert_int_equal(qg_loader_bytes(l, 2, 1, NULL)[0], 3);
    assert_int_equal(qg_loader_labels(l)[2], 1);
    int at_image = 0;
    for (qg_batch b; qg_loader_next(l, &b); at_image += b.n) {
        const qg_var s = { .shape = { b.n, 1, 1, 2 }, .data = scores[at_image] };
        assert_ok(qg_assessment_add(&a, l, &b, &s, 1));
    }
    assert_int_equal(a.images, 4);
    assert_true(a.accuracy == 0.75);
    assert_int_equal(a.n_confused, 1);
    assert_int_equal(a.worst[0].image, 1);
    assert_int_equal(qg_assessment_confusion(&a, 1, 0), 1);
    qg_assessment_free(&a);
    qg_loader_free(l);
}

/* Whatever a file notes, no more scores are written than it has classes. */
static void test_a_net_with_other_scores_is_refused(void **state)
{
    static const char *const note[][2] = { { "format", "qgrad 2" }, { "kind", "weights" }, { "image", "4x4x1" }, { "classes", "2" },
                                           { "normalise", "unit" }, { "steps", "9" }, { "recipe", "sgd = 1\nepochs = 3\nnet-digest = \"0\"\n" } };
    static const uint8_t image[16] = { 0 };
    float     scores[8] = { 0 };
    qg_net   *net = qg_net_new((qg_net_spec){ .height = 4, .width = 4, .channels = 1 });
    qg_state *s   = qg_state_new();
    qg_net_dense(net, (qg_dense_spec){ .out = 8 });
    assert_non_null(qg_net_build(net));
    char *text = qg_net_print(net);
    for (size_t i = 0; i < sizeof note / sizeof *note; i++) qg_state_set_note(s, note[i][0], note[i][1]);
    qg_state_set_note(s, "net", text);
    qg_net_state(net, s);
    assert_ok(qg_state_save(s, at("odd.safetensors")));
    qg_run *r = qg_run_open(at("odd.safetensors"), QG_RUN_LAST);
    assert_non_null(r);
    assert_int_equal(qg_run_predict(r, 1, image, scores), QG_EFORMAT);
    assert_non_null(strstr(qg_errmsg(), "the net has 8 scores, but 2 classes"));
    qg_run_close(r), qg_state_free(s), qg_net_free(net), free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_run_says_what_it_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_run_computes_as_in_its_tests, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_averages_are_what_a_run_tested, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_run_is_measured_with_other_quantizers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_run_knows_its_first_weights, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_no_run_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_run_that_is_null, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_run_is_quantized, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_run_shows_its_weights, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_run_shows_folded_weights, set_up, tear_down),
        cmocka_unit_test(test_scores_that_are_known_are_assessed),
        cmocka_unit_test_setup_teardown(test_a_net_with_other_scores_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
