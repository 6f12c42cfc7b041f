/* Runs that a program trained with qg_fit: what build/qgrad, or $QGRAD, shows of a net that it cannot declare. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qgrad.h"
#include "tests/support/nets.h"
#include "tests/support/pictures.h"
#include "tests/support/program.h"
#include "tests/support/views.h"

/* --- the program ----------------------------------------------------------------------------- */

enum { IMAGE = 12, CLASSES = 3, TRAINED = 60, TESTED = 30 };

/* A scheme that nothing of qgrad knows. */
static qg_constants halved_constants(qg_quant q, qg_span w, const float *learned)
{
    (void)learned;
    const float a = qg_span_mean_abs(w);
    return (qg_constants){ .ternary = { (float)q.arg[0] * a, a, a } };
}

static const qg_key halved_keys[] = { { .name = "part", .fallback = 0.5, .min = 0.1, .max = 2 }, { .name = NULL } };
static const qg_scheme halved = { .name = "halved", .keys = halved_keys, .bits = 2, .roles = QG_WEIGHT, .form = &qg_ternary_form,
                                  .ops = QG_FORM_OPS("halved"), .constants = halved_constants };

/* A net of built-in parts. */
static qg_net *declare_plain(void)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = IMAGE, .width = IMAGE, .channels = 1, .seed = 4 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3, .weight = qg_twn((qg_twn_spec){ 0 }) });
    qg_net_batchnorm(net), qg_net_relu(net);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES });
    return net;
}

static qg_net *declare_net(bool folds)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = IMAGE, .width = IMAGE, .channels = 1, .seed = 4, .fold_batchnorm = folds });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3, .weight = qg_ttq((qg_ttq_spec){ 0 }) });
    if (folds) qg_net_batchnorm(net);
    qg_net_relu(net), qg_net_maxpool(net, 2);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 8, .kernel = 3, .input = qg_lsq((qg_lsq_spec){ .bits = 3 }),
                                         .weight = qg_quant_defaults((qg_quant){ .scheme = &halved }) });
    qg_net_batchnorm(net), qg_net_relu(net);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES, .name = "scores" });
    return net;
}

static qg_loader *bands(int n, uint64_t key, qg_loader_spec spec)
{
    float    x[TRAINED * IMAGE * IMAGE];
    uint8_t  image[TRAINED * IMAGE * IMAGE];
    uint16_t label[TRAINED];
    qg_shape shape = { n, IMAGE, IMAGE, 1 };
    fill_bands(shape, CLASSES, key, x, label);
    for (size_t i = 0; i < qg_count(shape); i++) image[i] = (uint8_t)(127 * x[i]);
    return qg_arrays(shape, image, label, CLASSES, spec);
}

/* Trains net in root/name, and returns it as it ended. */
static qg_net *train_net(qg_net *net, const char *name, float ema, int epochs, double budget)
{
    qg_optim  *optim = qg_adam(qg_net_build(net), (qg_adam_spec){ .lr = 0.01f });
    qg_loader *train = bands(TRAINED, 1, (qg_loader_spec){ .batch = 10, .seed = 1 }),
              *test  = bands(TESTED, 2, (qg_loader_spec){ .batch = 10, .in_order = true });
    if (!optim || !train || !test) fail_msg("%s", qg_errmsg());
    if (qg_fit(net, (qg_fit_spec){ .dir = at(name), .config = "optimizer = \"adam\"\n", .train = train, .test = test, .optim = optim,
                                   .epochs = epochs, .seed = 2, .ema_decay = ema, .budget = budget }, NULL))
        fail_msg("%s", qg_errmsg());
    qg_loader_free(test), qg_loader_free(train), qg_optim_free(optim);
    return net;
}

static qg_net *train(const char *name, bool folds, float ema, int epochs, double budget)
{
    return train_net(declare_net(folds), name, ema, epochs, budget);
}

static const cJSON *layer_of(const cJSON *j, const char *name)
{
    const cJSON *l;
    cJSON_ArrayForEach(l, cJSON_GetObjectItem(j, "layers")) if (!strcmp(text(l, "layer"), name)) return l;
    fail_msg("no layer %s", name);
    return NULL;
}

static const cJSON *member(const cJSON *j, const char *name) { return cJSON_GetObjectItem(j, name); }

/* --- inspect ------------------------------------------------------------------------------ */

/* Weights, codes and what was learned are those of the net. */
static void test_inspect_shows_the_net_of_a_program(void **state)
{
    qg_net *net = train("own", false, 0, 2, 0);
    assert_status("inspect @/own --json", 0);
    cJSON       *j = parse();
    const cJSON *conv1 = layer_of(j, "conv1"), *conv2 = layer_of(j, "conv2"), *scores = layer_of(j, "scores");
    const cJSON *q = member(conv1, "quantized"), *values = member(q, "values");
    const qg_param *w = qg_params_find(qg_net_params(net), "conv1.weight"), *wp = qg_params_find(qg_net_params(net), "conv1.weight.wp");
    float low = INFINITY, most = 0;
    for (size_t i = 0; i < qg_count(w->shape); i++) low = fminf(low, w->value[i]), most = fmaxf(most, fabsf(w->value[i]));
    size_t above = 0;
    for (size_t i = 0; i < qg_count(w->shape); i++) above += w->value[i] > 0.05f * most;
    assert_true(number(conv1, "weights") == (double)qg_count(w->shape));
    assert_near(number(member(conv1, "latent"), "min"), (double)low, 1e-7);
    assert_string_equal(text(q, "scheme"), "ttq");
    assert_int_equal(cJSON_GetArraySize(values), 3);
    assert_near(number(cJSON_GetArrayItem(values, 2), "max"), (double)wp->value[0], 1e-7);
    assert_near(number(cJSON_GetArrayItem(values, 2), "share"), (double)above / (double)qg_count(w->shape), 1e-7);
    assert_string_equal(text(cJSON_GetArrayItem(member(q, "learned"), 0), "name"), "conv1.weight.wp");
    assert_string_equal(text(member(conv2, "quantized"), "scheme"), "halved:part=0.5");
    assert_true(cJSON_IsFalse(member(member(conv2, "quantized"), "known")));
    assert_string_equal(text(member(conv2, "input"), "scheme"), "lsq");
    assert_true(cJSON_IsNull(member(scores, "quantized")));
    cJSON_Delete(j);
    qg_net_free(net);

    assert_status("inspect @/own", 0);
    assert_stdout("/own/last.safetensors, trained by a program, arithmetic 2\nconv1: {");
    assert_stdout("\nconv2: halved:part=0.5; only its program can compute it\n");
    assert_stdout("learned    conv2.input.step");
    assert_stdout("\nscores: float, not quantized\n");
    float   value[5000];
    int32_t code[5000];
    int     bits;
    qg_run *run = qg_run_open(at("own"), QG_RUN_LAST);
    assert_true(qg_count(qg_run_weight_at(run, 1).shape) <= 5000);
    assert_failed(qg_run_weight_quantized(run, 1, value, code, &bits), QG_EARG,
                  "conv2.weight: only its program can quantize it: halved:part=0.5");
    qg_run_close(run);
    assert_status("inspect @/own/best.safetensors --histogram", 0);
    assert_stdout("####");
}

/* Of the averages, where tests use these. */
static void test_averages_are_inspected(void **state)
{
    qg_net_free(train("averaged", false, 0.9f, 2, 0));
    assert_status("inspect @/averaged --json", 0);
    cJSON       *last_weights = parse();
    const double least = number(member(layer_of(last_weights, "scores"), "latent"), "min");
    cJSON_Delete(last_weights);
    qg_archive           *a = qg_archive_open(at("averaged/last.safetensors"));
    const qg_named_array *e = qg_archive_find(a, "ema.scores.weight"), *w = qg_archive_find(a, "scores.weight");
    float                 low[2] = { INFINITY, INFINITY };
    assert_non_null(e);
    for (size_t i = 0; i < qg_array_count(&e->array); i++) {
        low[0] = fminf(low[0], ((float *)e->array.data)[i]);
        low[1] = fminf(low[1], ((float *)w->array.data)[i]);
    }
    assert_true(low[0] != low[1]);
    assert_near(least, (double)low[0], 1e-7);
    qg_archive_free(a);
}

/* A batch norm is multiplied into the weight before it is quantized; which one, the checkpoint does not say. */
static void test_a_folded_weight_is_shown_as_it_is_stored(void **state)
{
    qg_net_free(train("folded", true, 0, 1, 0));
    assert_status("inspect @/folded", 0);
    assert_stdout("conv1: ttq:threshold=0.05");
    assert_stdout(", after its batch norm is folded in; only its program can compute it");
}

/* --- report ------------------------------------------------------------------------------- */

static char page[1 << 20];

static void read_page(const char *name)
{
    FILE *in = fopen(at(name), "rb");
    assert_non_null(in);
    page[fread(page, 1, sizeof page - 1, in)] = '\0';
    fclose(in);
}

static void assert_page(const char *part)
{
    if (!strstr(page, part)) fail_msg("the page lacks %s", part);
}

static void test_report_makes_a_page_of_a_program(void **state)
{
    qg_net_free(train("paged", false, 0, 3, 0));
    assert_status("report @/paged", 0);
    assert_stdout("/paged/report.html\n");
    assert_stderr("only the program that trained the run knows its images and its net");
    read_page("paged/report.html");
    static const char *const parts[] = { " of 3</b>", "Accuracy", "<h3>conv1</h3>", "54 weights, ttq, 2 bits<", "conv1: fraction of each level",
                                         "weight.wp", "halved:part=0.5; input lsq, 3 bits<", "optimizer = &quot;adam&quot;",
                                         "A program trained this run" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) assert_page(parts[i]);
    assert_null(strstr(page, "qgrad train --config"));
    assert_null(strstr(page, "weights, packed"));
    assert_status(TRAIN "--epochs 1 --out @/usual --json", 0);
    assert_status("report @/paged @/usual --out @/both.html", 0);
    read_page("both.html");
    assert_page("<h1>2 runs</h1>");
    qg_net_free(train("short", false, 0, 3, -1));
    assert_refuses("report @/short", 1, "no epoch is finished yet");
}

/* --- packed files ------------------------------------------------------------------------- */

static const char qg__class_names[] = "top/middle/bottom";

/* The most probable class of a picture by `qgrad predict`, which must have the scores of the net. */
static void assert_predicts(qg_net *net, const qg_preprocess *p)
{
    uint8_t bytes[IMAGE * IMAGE], grey[IMAGE * IMAGE * 3];
    float   x[IMAGE * IMAGE];
    for (int i = 0; i < IMAGE * IMAGE; i++) bytes[i] = (uint8_t)(i * 7 % 200 + (i / IMAGE == 5 ? 50 : 0));
    for (int i = 0; i < IMAGE * IMAGE * 3; i++) grey[i] = bytes[i / 3];
    write_png(at("i.png"), grey, IMAGE, IMAGE);
    assert_ok(qg_preprocess_bytes(p, bytes, x));
    qg_tape *t = qg_tape_new();
    qg_tape_begin(t, QG_EVAL, 0, 1000);
    const qg_var *y    = qg_softmax(t, qg_net_forward(net, t, (qg_tensor){ { 1, IMAGE, IMAGE, 1 }, x }));
    int           best = 0;
    for (int k = 1; k < CLASSES; k++) best = y->data[k] > y->data[best] ? k : best;
    assert_status("predict --packed @/net.qg --json @/i.png", 0);
    cJSON       *j   = parse();
    const cJSON *top = cJSON_GetArrayItem(member(cJSON_GetArrayItem(member(j, "images"), 0), "classes"), 0);
    assert_string_equal(text(top, "name"), best == 0 ? "top" : best == 1 ? "middle" : "bottom");
    assert_near(number(top, "probability"), (double)y->data[best], 1e-5);
    cJSON_Delete(j);
    qg_tape_free(t);
}

/* What the header of qg_export says is all that `qgrad predict` needs. */
static void test_a_program_exports_a_net_that_predicts(void **state)
{
    static const qg_normalise how[] = { { .kind = QG_TO_UNIT }, { QG_TO_RANGE, -1, 1 }, { .kind = QG_PER_CHANNEL }, { .kind = QG_PER_PIXEL } };
    qg_note names = { "class-names", qg__class_names };
    qg_net *net   = declare_plain();
    assert_non_null(qg_net_build(net));
    assert_failed(qg_export(net, at("net.qg"), (qg_export_spec){ 0 }), QG_EARG, "qg_preprocess_numbers gives");
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        qg_loader      *train = bands(TRAINED, 1, (qg_loader_spec){ .batch = 10, .normalise = how[i] });
        qg_export_spec  spec  = { .notes = 1, .note = &names };
        const qg_preprocess *p = qg_loader_preprocess(train);
        assert_ok(qg_preprocess_numbers(p, &spec.numbers, &spec.mean, &spec.deviation));
        assert_ok(qg_export(net, at("net.qg"), spec));
        assert_predicts(net, p);
        qg_loader_free(train);
    }
    assert_ok(qg_export(net, at("net.qg"), (qg_export_spec){ .floats_only = true }));
    assert_refuses("predict --packed @/net.qg @/i.png", 1, "net.qg: does not say how images of bytes are normalised");
    qg_net_free(net);
}

/* --- a net of the library's parts ------------------------------------------------------------- */

/* The checkpoint declares it, so nothing needs the program: the accuracy is the one that qg_fit measured. */
static void test_a_plain_net_needs_no_program(void **state)
{
    for (int averages = 0; averages < 2; averages++)
        for (int best = 0; best < 2; best++) {
            qg_fit_result  said;
            qg_assessment  a;
            qg_net        *net  = train_net(declare_plain(), averages ? "smooth" : "plain", averages ? 0.5f : 0, 3, 0);
            qg_loader     *test = bands(TESTED, 2, (qg_loader_spec){ .batch = 10, .in_order = true });
            qg_run        *run  = qg_run_open(at(averages ? "smooth" : "plain"), best ? QG_RUN_BEST : QG_RUN_LAST);
            assert_non_null(run);
            assert_non_null(strstr(qg_run_config(run), "optimizer = \"adam\"\n"));
            assert_ok(qg_run_result(qg_run_directory(run), &said));
            assert_ok(qg_run_evaluate(run, test, (qg_run_evaluate_spec){ 0 }, &a));
            assert_true(a.accuracy == (best ? said.best_test_accuracy : said.test_accuracy));
            char *is = qg_net_print(qg_run_net(run)), *was = qg_net_print(net);
            assert_string_equal(is, was);
            free(is), free(was);
            qg_assessment_free(&a), qg_run_close(run), qg_loader_free(test), qg_net_free(net);
        }
    static const uint8_t white[IMAGE * IMAGE * 3] = { 200, 100 };
    write_png(at("x.png"), white, IMAGE, IMAGE);
    assert_status("predict --run @/plain @/x.png", 0);
    assert_status("export --run @/plain --out @/plain.qg", 0);
    assert_status("inspect @/plain", 0);
    assert_status("report @/plain --out @/plain.html", 0);
    assert_refuses("eval --run @/plain", 2, "a program trained it with qg_fit, which does not say on which images; pass --data");
    assert_refuses("eval --run @/plain --data sample", 2, "sample: its images are 28x28x1 in 10 classes, but the run's are 12x12x1 in 3");
    qg_run *r = qg_run_open(at("plain"), QG_RUN_LAST);
    assert_true(r && !qg_run_net_with(r, NULL, NULL, 0));
    qg_recipe *changes = qg_recipe_new();
    assert_ok(qg_recipe_set(changes, "weight", "twn"));
    assert_null(qg_run_net_with(r, changes, NULL, 0));
    assert_non_null(strstr(qg_errmsg(), "weight: a program trained "));
    qg_recipe_free(changes), qg_run_close(r);
    assert_refuses("quantize --run @/plain --weight twn", 2, "so it has no recipe to add quantizers to");
}

/* --- what it cannot do, and what files may say ----------------------------------------------- */

static void test_the_others_need_its_program(void **state)
{
    static const char *const lines[] = { "eval --run @/mine", "export --run @/mine --out @/mine.qg", "predict --run @/mine @/x.png",
                                         "quantize --run @/mine --weight twn" };
    qg_net_free(train("mine", false, 0, 1, 0));
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_refuses(lines[i], 2, "only the program that trained it with qg_fit can declare its net: ");
        assert_stderr("conv2: the scheme halved of its weight or the surrogate is not the library's");
        assert_stderr("'qgrad report' and 'qgrad inspect' show it");
    }
}

/* A checkpoint of a program with these operands, NULL: an older version, which notes none. */
static void write_checkpoint(const char *name, const char *operands)
{
    float     w[2 * 3 * 3 * 4], wp = 2, step = 1;
    qg_state *s = qg_state_new();
    for (int i = 0; i < 72; i++) w[i] = (float)(i % 9 - 4);
    qg_state_add(s, "a.b.weight", (qg_array){ QG_F32, 4, { 2, 3, 3, 4 }, w });
    qg_state_add(s, "a.b.weight.wp", (qg_array){ QG_F32, 1, { 1 }, &wp });
    qg_state_add(s, "optim.momentum.weight", (qg_array){ QG_F32, 2, { 6, 12 }, w });
    qg_state_add(s, "a.b.input.step", (qg_array){ QG_F32, 1, { 1 }, &step });
    qg_state_set_note(s, "format", "qgrad 2");
    qg_state_set_note(s, "kind", "weights");
    qg_state_set_note(s, "recipe", "net-digest = \"0\"\n");
    qg_state_set_note(s, "image", "1x1x4");
    qg_state_set_note(s, "classes", "2");
    qg_state_set_note(s, "operands", operands);
    assert_ok(qg_state_save(s, at(name)));
    qg_state_free(s);
}

static void test_what_a_checkpoint_notes_is_checked(void **state)
{
    static const struct { const char *operands, *shows; } rows[] = {
        { "a.b.weight twn:threshold=0.7\n", "a.b: {-3, 0, +3}" },
        { "a.b.weight twn:threshold=0.7", "a.b: {-3, 0, +3}" },
        { "a.b.weight ttq\n", "a.b: ttq, without what it learned; " },
        { "a.b.weight later:x=1\n", "a.b: later:x=1; " },
        { "a.b.weight own twn\n", "a.b: twn; " },
        { "a.b.weight float\na.b.input lsq\n", "input      lsq, without what it learned; " },
        { "a.b.input dorefa:bits=2\n", "a.b: has no weights\n  input      dorefa, 2 bits" },
        { "noise\n\n \na.b.weight float\n", "a.b: float, not quantized" },
    };
    static const struct { const char *operands; int status; const char *says; } bad[] = {
        { NULL, 1, "a.safetensors: has no weights" },
        { "", 1, "a.safetensors: has no weights" },
        { "weight twn\n", 1, "has no weights" },
        { "c.weight twn\n", 1, "has no weights" },
        { "a.b.weight twn\nc.input sign\na.b.input lsq\n", 2, "the name 'a.b' is taken" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_checkpoint("a.safetensors", rows[i].operands);
        assert_status("inspect @/a.safetensors", 0);
        assert_stdout(rows[i].shows);
        assert_status("inspect @/a.safetensors --json --histogram", 0);
        cJSON_Delete(parse());
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_checkpoint("a.safetensors", bad[i].operands);
        assert_refuses("inspect @/a.safetensors", bad[i].status, bad[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inspect_shows_the_net_of_a_program),
        cmocka_unit_test(test_averages_are_inspected),
        cmocka_unit_test(test_a_folded_weight_is_shown_as_it_is_stored),
        cmocka_unit_test(test_report_makes_a_page_of_a_program),
        cmocka_unit_test(test_a_program_exports_a_net_that_predicts),
        cmocka_unit_test(test_a_plain_net_needs_no_program),
        cmocka_unit_test(test_the_others_need_its_program),
        cmocka_unit_test(test_what_a_checkpoint_notes_is_checked),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
