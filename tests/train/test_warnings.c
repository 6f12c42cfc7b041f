/* What training says when it diverges and when learned values drift: the first layer, and the value, by name. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "qgrad.h"
#include "tests/support/room.h"
#include "train/learned.h"
#include "train/measure.h"

enum { SIDE = 4, CLASSES = 3, IMAGES = 6 };

/* --- divergence ----------------------------------------------------------------------------- */

typedef struct subject {
    qg_net      *net;
    qg_optim    *optim;
    qg_loader   *images, *test;
    qg_fit_spec  spec;
} subject;

static qg_loader *images(void)
{
    static const uint16_t label[IMAGES] = { 0, 1, 2, 0, 1, 2 };
    uint8_t               pixel[IMAGES * SIDE * SIDE];
    memset(pixel, 255, sizeof pixel);
    return qg_arrays((qg_shape){ IMAGES, SIDE, SIDE, 1 }, pixel, label, CLASSES, (qg_loader_spec){ .batch = 3, .in_order = true });
}

/* conv1, bn1, relu1, fc1, relu2, fc2; x is 1 everywhere.  weight is that of fc1. */
static subject open_with(const char *dir, qg_quant weight)
{
    subject s = { .net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 1 }),
                  .images = images(),
                  .test = images() };
    qg_net_conv2d(s.net, (qg_conv2d_spec){ .out = 2, .kernel = 3, .pad = 1 });
    qg_net_batchnorm(s.net), qg_net_relu(s.net);
    qg_net_dense(s.net, (qg_dense_spec){ .out = 4, .weight = weight });
    qg_net_relu(s.net);
    qg_net_dense(s.net, (qg_dense_spec){ .out = CLASSES });
    s.optim = qg_sgd(qg_net_build(s.net), (qg_sgd_spec){ .lr = 0.1f });
    s.spec  = (qg_fit_spec){ .dir = in_room(dir), .train = s.images, .test = s.test, .optim = s.optim, .epochs = 1 };
    assert_non_null(s.optim);
    assert_true(s.images && s.test);
    return s;
}

static subject open_subject(const char *dir) { return open_with(dir, (qg_quant){ 0 }); }

static void close_subject(subject *s) { qg_loader_free(s->test), qg_loader_free(s->images), qg_optim_free(s->optim), qg_net_free(s->net); }

static void set(qg_net *net, const char *name, float value)
{
    const qg_params *all = qg_net_params(net);
    for (int i = 0; i < all->count; i++)
        if (!strcmp(all->item[i]->name, name)) {
            for (size_t k = 0; k < qg_count(all->item[i]->shape); k++) all->item[i]->value[k] = value;
            return;
        }
    fail_msg("no parameter %s", name);
}

static void assert_diverges(subject *s, const char *part)
{
    assert_failed(qg_fit(s->net, s->spec, NULL), QG_ENAN, part);
    assert_message("; a lower learning rate, a warm-up, or a limit on the norm of the gradients usually helps");
    close_subject(s);
}

/* Sixteen or more sums of 1e38 overflow, and then everything behind them is not finite. */
static void test_the_first_layer_that_overflows(void **state)
{
    subject s = open_subject("conv");
    set(s.net, "conv1.weight", 1e38f);
    assert_diverges(&s, "epoch 1, step 1: backward: the loss is ");
    s = open_subject("conv-2");
    set(s.net, "conv1.weight", 1e38f);
    assert_diverges(&s, "; conv1 is the first layer whose result is not finite; a lower");
    s = open_subject("fc1");
    set(s.net, "bn1.beta", 1), set(s.net, "fc1.weight", 1e38f);
    assert_diverges(&s, "; fc1 is the first layer whose result is not finite; a lower");
}

/* Scores that a float holds, and a loss that it does not. */
static qg_var *cube(void *user, qg_tape *t, qg_var *scores, const qg_batch *b)
{
    return total(t, qg_mul(t, qg_mul(t, scores, scores), scores));
}

static void test_the_loss_itself_overflows(void **state)
{
    subject s = open_subject("cube");
    set(s.net, "fc2.weight", 0), set(s.net, "fc2.bias", 1e20f);
    s.spec.loss = cube;
    assert_diverges(&s, "backward: the loss is inf; the results of all layers are finite, but scores reach 1e+20; a lower");
}

static qg_var *no_number(void *user, qg_tape *t, qg_var *scores, const qg_batch *b)
{
    return total(t, qg_affine(t, scores, 1, NAN));
}

/* Of finite scores, no learning rate helps. */
static void test_a_loss_of_the_program_is_no_number(void **state)
{
    subject s = open_subject("no-number");
    s.spec.loss = no_number;
    assert_failed(qg_fit(s.net, s.spec, NULL), QG_ENAN, "epoch 1, step 1: backward: the loss is nan; the results "
                  "of all layers are finite, but scores reach ");
    assert_message("; the program's own function .loss gave it");
    close_subject(&s);
}

/* dL/dscores is 1e38. */
static qg_var *steep(void *user, qg_tape *t, qg_var *scores, const qg_batch *b)
{
    return total(t, qg_affine(t, scores, 1e38f, 0));
}

/* Times 3,200 it overflows in the weights of fc2, but not in its bias, of three images 3e38. */
static void test_the_first_gradient_that_overflows(void **state)
{
    subject s = open_subject("bias");
    s.spec.loss = steep;
    set(s.net, "bn1.gamma", 0), set(s.net, "bn1.beta", 1), set(s.net, "fc1.weight", 100), set(s.net, "fc2.weight", 0);
    assert_diverges(&s, " is inf; going backward, that of fc2.weight is the first; a lower");
}

static void grow(void *user, const qg_fit_progress *p)
{
    (void)p;
    set(user, "fc1.weight", INFINITY);
}

/* What a quantizer refuses has a place as well, and numbers that grew are no argument of the user's. */
static void test_the_first_quantizer_that_refuses(void **state)
{
    subject s = open_with("range", qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_CURRENT }));
    s.spec.events = (qg_fit_events){ .user = s.net, .step = grow };
    assert_diverges(&s, "epoch 1, step 2: fc1: fake_quant: the range -inf .. inf of what it quantizes "
                        "overflows; a lower");
    s = open_with("scale", qg_qdq((qg_qdq_spec){ 0 }));
    set(s.net, "fc1.weight", 1e-37f);
    qg_layer_slot(qg_net_find(s.net, "fc1"), QG_WEIGHT)->of->value[0] = -1e-37f;
    assert_failed(qg_fit(s.net, s.spec, NULL), QG_EARG, "fc1: qdq: ");
    close_subject(&s);
}

static void test_images_of_a_test(void **state)
{
    subject       s = open_subject("test");
    qg_tape      *t = qg_tape_new();
    qg__measured  m;
    bool          stopped;
    uint64_t      epoch, batch;
    set(s.net, "fc1.weight", NAN);
    assert_failed(qg__measure(&s.spec, s.images, s.net, t, 0, NULL, &m, &stopped), QG_ENAN,
                  "the loss on the test images is not finite; fc1 is the first layer whose result is not finite; neither is "
                  "fc1.weight");
    qg_loader_tell(s.images, &epoch, &batch);
    assert_true(epoch == 0 && batch == 0);
    qg_tape_free(t);
    close_subject(&s);
}

/* --- learned values ------------------------------------------------------------------------- */

static qg_net *net_of(qg_quant weight, qg_quant input)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 1 });
    qg_net_dense(net, (qg_dense_spec){ .out = 8 });
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES, .weight = weight, .input = input });
    assert_non_null(qg_net_build(net));
    return net;
}

static qg_param *value_of(const qg_net *net, const char *name)
{
    const qg_params *all = qg_net_params(net);
    for (int i = 0; i < all->count; i++)
        if (!strcmp(all->item[i]->name, name)) return all->item[i];
    fail_msg("no parameter %s", name);
    return NULL;
}

/* One value that starts healthy, is so up to a hundred times that, and is then told of once. */
static void assert_watched(qg_quant weight, qg_quant input, const char *name, const char *says)
{
    qg__learned_list list;
    char             text[512], part[128];
    qg_net          *net = net_of(weight, input);
    qg_param        *p   = value_of(net, name);
    const float      start = p->value[0];
    const float      fine[] = { 1, 99, 1 / 99.0f }, far[] = { 101, 1 / 101.0f };
    assert_true(start > 0);
    for (size_t k = 0; k < 2; k++) {
        assert_ok(qg__learned_begin(&list, net));
        for (size_t i = 0; i < 3; i++) {
            p->value[0] = start * fine[i];
            if (qg__learned_unhealthy(&list, text, sizeof text)) fail_msg("%s", text);
        }
        p->value[0] = start * far[k];
        assert_true(qg__learned_unhealthy(&list, text, sizeof text));
        const char *scheme = weight.scheme ? weight.scheme->name : input.scheme->name;
        snprintf(part, sizeof part, "%s is %.3g, but %s %.3g; %s: ", name, (double)p->value[0], says, (double)start, scheme);
        if (strncmp(text, part, strlen(part))) fail_msg("'%s' is not '%s..'", text, part);
        assert_false(qg__learned_unhealthy(&list, text, sizeof text));
        qg__learned_end(&list);
    }
    qg_net_free(net);
}

static void test_scales_far_from_their_weights(void **state)
{
    const qg_quant none = { .scheme = NULL };
    assert_watched(qg_lsq((qg_lsq_spec){ .bits = 4, .is_signed = true }), none, "fc2.weight.step", "these weights suggest");
    assert_watched(qg_lsq((qg_lsq_spec){ .bits = 16, .is_signed = true }), none, "fc2.weight.step", "these weights suggest");
    assert_watched(qg_ttq((qg_ttq_spec){ 0 }), none, "fc2.weight.wp", "these weights suggest");
    assert_watched(qg_ttq((qg_ttq_spec){ .per_channel = true }), none, "fc2.weight.wn", "these weights suggest");
    assert_watched(qg_ttq((qg_ttq_spec){ .as_paper = true }), none, "fc2.weight.wp", "it started at");
    assert_watched(none, qg_pact((qg_pact_spec){ .bits = 4 }), "fc2.input.alpha", "it started at");
}

/* The first batch decides where a step of inputs starts, so the first call remembers it. */
static void test_scales_of_inputs(void **state)
{
    qg__learned_list list;
    char             text[512];
    qg_net          *net  = net_of((qg_quant){ .scheme = NULL }, qg_lsq((qg_lsq_spec){ .bits = 4 }));
    qg_param        *step = value_of(net, "fc2.input.step");
    assert_ok(qg__learned_begin(&list, net));
    for (int i = 0; i < 3; i++) {
        step->value[0] = (float[]){ 0, 0.02f, 1.9f }[i];
        assert_false(qg__learned_unhealthy(&list, text, sizeof text));
    }
    step->value[0] = 2.1f;
    assert_true(qg__learned_unhealthy(&list, text, sizeof text));
    assert_string_equal(text, "fc2.input.step is 2.1, but it was 0.02; lsq: a lower learning rate of quantizers usually helps");
    qg__learned_end(&list);
    qg_net_free(net);
}

/* The weights move as well, and a step that follows them stays healthy. */
static void test_the_weights_are_those_of_now(void **state)
{
    qg__learned_list list;
    char             text[512];
    qg_net          *net = net_of(qg_lsq((qg_lsq_spec){ .bits = 4, .is_signed = true }), (qg_quant){ .scheme = NULL });
    qg_param        *w = value_of(net, "fc2.weight"), *step = value_of(net, "fc2.weight.step");
    float            before[8 * CLASSES];
    assert_ok(qg__learned_begin(&list, net));
    for (size_t i = 0; i < 8 * CLASSES; i++) before[i] = w->value[i] *= 1000;
    step->value[0] *= 500;
    assert_false(qg__learned_unhealthy(&list, text, sizeof text));
    assert_memory_equal(w->value, before, sizeof before);
    for (size_t i = 0; i < 8 * CLASSES; i++) w->value[i] /= 1000;
    assert_true(qg__learned_unhealthy(&list, text, sizeof text));
    qg__learned_end(&list);
    qg_net_free(net);
}

#define TTQ_REMEDY "; ttq: scales that start from the weights, scaled gradients or a lower learning rate of quantizers usually help"

/* Each output channel has its own; more than three are counted, and what helps is said once. */
static void test_channels_and_many_values(void **state)
{
    qg__learned_list list;
    char             text[512];
    qg_net          *net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 1 });
    const qg_quant   ttq = qg_ttq((qg_ttq_spec){ .per_channel = true, .as_paper = true });
    for (int i = 0; i < 3; i++) qg_net_dense(net, (qg_dense_spec){ .out = 8, .weight = ttq });
    assert_non_null(qg_net_build(net));
    assert_ok(qg__learned_begin(&list, net));
    value_of(net, "fc2.weight.wn")->value[7] = 1000;
    assert_true(qg__learned_unhealthy(&list, text, sizeof text));
    assert_string_equal(text, "fc2.weight.wn is 1e+03, but it started at 1" TTQ_REMEDY);
    for (int i = 0; i < list.count; i++) ((float *)list.item[i].param->value)[3] = 1e-7f;
    assert_true(qg__learned_unhealthy(&list, text, sizeof text));
    assert_string_equal(text, "fc1.weight.wp is 1e-07, not 1e-06 .. inf; fc1.weight.wn is 1e-07, not 1e-06 .. inf; "
                              "fc2.weight.wp is 1e-07, not 1e-06 .. inf; and 2 more" TTQ_REMEDY);
    assert_false(qg__learned_unhealthy(&list, text, sizeof text));
    qg__learned_end(&list);
    qg_net_free(net);
}

/* A range that is sixteen times as wide as its weights. */
static void test_ranges_that_lost_their_tensor(void **state)
{
    qg__learned_list list;
    char             text[512];
    const qg_quant   learned = qg_fake_quant((qg_fake_quant_spec){ .bits = 4, .range = QG_RANGE_LEARNED });
    qg_net          *net     = net_of(learned, (qg_quant){ .scheme = NULL });
    assert_ok(qg__learned_begin(&list, net));
    value_of(net, "fc2.weight.span")->value[0] = 0.0604f;
    assert_true(qg__learned_unhealthy(&list, text, sizeof text));
    assert_string_equal(text, "fc2.weight.span is 0.0604, not 0.25 .. 100; fake_quant: the range no longer fits what it quantizes; set "
                              "where it starts (min, max), let it be measured instead (range=current of weights, range=observed of "
                              "inputs), or lower the learning rate of quantizers");
    qg__learned_end(&list);
    qg_net_free(net);
}

/* The next step or test raises a scale to 2^-30, so that is what is told; 0 is a scale that is not known yet. */
static void test_scales_below_the_floor(void **state)
{
    qg__learned_list list;
    char             text[512];
    qg_net          *net = net_of(qg_ttq((qg_ttq_spec){ 0 }), qg_lsq((qg_lsq_spec){ .bits = 4 }));
    qg_param        *wp = value_of(net, "fc2.weight.wp"), *step = value_of(net, "fc2.input.step");
    const qg_learned *entry = qg_layer_slot(qg_net_find(net, "fc2"), QG_WEIGHT)->q.scheme->learned;
    assert_ok(qg__learned_begin(&list, net));
    step->value[0] = 0.02f;
    assert_false(qg__learned_unhealthy(&list, text, sizeof text));
    wp->value[0] = -0.5f, step->value[0] = -0.25f;
    const qg__learned_values v = qg__learned_values_of(wp, entry);
    assert_true(v.least == 0x1p-30 && v.mean == 0x1p-30 && v.greatest == 0x1p-30);
    assert_true(qg__learned_unhealthy(&list, text, sizeof text));
    assert_string_equal(text, "fc2.weight.wp is 9.31e-10, not 1e-06 .. inf; fc2.input.step is 9.31e-10, but it was 0.02" TTQ_REMEDY
                              "; lsq: a lower learning rate of quantizers usually helps");
    wp->value[0] = 0;
    assert_true(qg__learned_values_of(wp, entry).least == 0);
    qg__learned_end(&list);
    qg_net_free(net);
}

/* --- chance ----------------------------------------------------------------------------------- */

enum { MANY = 240, PAIR = 2, FEW = 60 };        /* an epoch has 120 steps */

/* Images of which a bright row tells the label, or all alike; the first `first` images of ten have label 0. */
static qg_loader *rows(int n, bool alike, int first, qg_loader_spec spec)
{
    static uint8_t  pixel[MANY][SIDE][SIDE];
    static uint16_t label[MANY];
    memset(pixel, 0, sizeof pixel);
    for (int i = 0; i < n; i++) {
        label[i] = (uint16_t)(i % 10 < first ? 0 : i % CLASSES);
        memset(pixel[i][alike ? 0 : label[i]], 255, SIDE);
    }
    return qg_arrays((qg_shape){ n, SIDE, SIDE, 1 }, pixel[0][0], label, CLASSES, spec);
}

typedef struct trial {
    bool     train_alike, test_alike, norm, keeps, validates;
    int      first, steps;              /* of a hundred and twenty; 0: all */
    float    lr, start;                 /* of all weights of fc1; 0: as drawn */
    qg_quant weight, input, last;       /* of fc1, fc2, and the weights of fc3 */
    const char *says;                   /* NULL: nothing */
} trial;

static int  notices;
static char noticed[1024];

static void note(void *user, qg_fit_notice what, const char *text)
{
    (void)user;
    if (what != QG_FIT_AT_CHANCE) return;
    notices++;
    snprintf(noticed, sizeof noticed, "%s", text);
}

/* fc1, bn1, relu1, fc2, relu2, fc3. */
static void attempt(trial k)
{
    static int number;
    char       dir[32];
    qg_net    *net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 1 });
    qg_net_dense(net, (qg_dense_spec){ .out = 8, .weight = k.weight });
    if (k.norm) qg_net_batchnorm(net);
    qg_net_relu(net);
    qg_net_dense(net, (qg_dense_spec){ .out = 8, .input = k.input });
    qg_net_relu(net);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES, .weight = k.last });
    qg_optim  *optim = qg_sgd(qg_net_build(net), (qg_sgd_spec){ .lr = k.lr != 0 ? k.lr : 0.05f });
    qg_loader *train = rows(k.steps ? PAIR * k.steps : MANY, k.train_alike, k.first, (qg_loader_spec){ .batch = PAIR, .seed = 1 });
    qg_loader *held  = rows(FEW, k.test_alike, 0, (qg_loader_spec){ .batch = FEW, .in_order = true });
    qg_loader *test  = rows(FEW, k.test_alike, 0, (qg_loader_spec){ .batch = FEW, .in_order = true });
    assert_true(optim && train && held && test);
    if (k.start != 0) set(net, "fc1.weight", k.start);
    snprintf(dir, sizeof dir, "chance-%d", number++);
    notices = 0;
    assert_ok(qg_fit(net, (qg_fit_spec){ .dir = in_room(dir), .train = train, .test = test, .validation = k.validates ? held : NULL,
                                         .optim = optim, .epochs = 2, .keep_running_statistics = k.keeps,
                                         .events = { .notice = note } }, NULL));
    if (notices != (k.says != NULL)) fail_msg("%s: told %d times: %s", k.says ? k.says : "nothing", notices, notices ? noticed : "");
    if (k.says && !strstr(noticed, k.says)) fail_msg("'%s' is not in '%s'", k.says, noticed);
    qg_loader_free(test), qg_loader_free(held), qg_loader_free(train), qg_optim_free(optim), qg_net_free(net);
}

static void test_what_does_not_learn_is_told_why(void **state)
{
    const qg_quant dorefa = qg_dorefa_activation((qg_dorefa_activation_spec){ .bits = 2 });
    const qg_quant signs  = qg_binaryconnect((qg_binaryconnect_spec){ 0 });
    const qg_quant zeros  = qg_ste_tern((qg_ste_tern_spec){ .threshold = 0.05f });
    attempt((trial){ .train_alike = true, .test_alike = true, .says = "after epoch 1 33.33 % of the test images are classified correctly, "
                     "no better than with one class for all (33.33 % ± 6.09 %); likely cause: the learning rate, 0.05; a higher or a lower one," });
    attempt((trial){ .train_alike = true, .test_alike = true, .validates = true, .says = "33.33 % of the validation images" });
    attempt((trial){ .train_alike = true, .test_alike = true, .input = dorefa,
                     .says = "likely cause: fc2 quantizes its input (dorefa), and no batch norm is between fc1 and fc2; put one there" });
    attempt((trial){ .train_alike = true, .test_alike = true, .weight = signs,
                     .says = "likely cause: fc1 quantizes its weights (binaryconnect), and no batch norm is between fc1 and fc2" });
    attempt((trial){ .train_alike = true, .test_alike = true, .input = dorefa, .weight = signs, .norm = true, .says = "the learning rate, " });
    attempt((trial){ .train_alike = true, .test_alike = true, .weight = zeros, .norm = true, .start = 0.01f, .lr = 1e-6f,
                     .says = "likely cause: all weights of fc1 have the same code of ste-tern; give it a threshold relative to the weights" });
    const qg_quant one_bit[] = { qg_sign((qg_sign_spec){ { 0 } }),
                                 qg_xnor_activation((qg_xnor_activation_spec){ .no_scale = false }),
                                 qg_unit((qg_unit_spec){ .bits = 1 }), qg_adabin_activation() };
    const qg_quant two_bits  = qg_unit((qg_unit_spec){ .bits = 2 });
    for (int i = 0; i < 4; i++) {
        char says[128];
        snprintf(says, sizeof says, "likely cause: fc2 quantizes its input (%s), but relu1 before it leaves "
                 "no negative values; remove relu1", one_bit[i].scheme->name);
        attempt((trial){ .train_alike = true, .test_alike = true, .norm = i % 2, .input = one_bit[i],
                         .says = says });
    }
    attempt((trial){ .train_alike = true, .test_alike = true, .norm = true, .input = two_bits,
                     .says = "likely cause: the learning rate, 0.05" });
    attempt((trial){ .train_alike = true, .test_alike = true, .start = 30, .lr = 1e-6f, .last = signs,
                     .says = "likely cause: fc3 quantizes its weights (binaryconnect) without a scale, and no "
                             "batch norm is after it" });
    attempt((trial){ .test_alike = true, .norm = true, .lr = 1.8f,
                     .says = "likely cause: the learning rate, 1.8, is too high: the training loss, 1.79" });
    attempt((trial){ .train_alike = true, .test_alike = true, .lr = 50,
                     .says = "likely cause: the learning rate, 50, is too high: the training loss, " });
    attempt((trial){ .train_alike = true, .test_alike = true, .first = 8,
                     .says = "of the training images have class 0; train on about as many of each" });
    attempt((trial){ .test_alike = true, .says = " % of the training images are, so these images may have other classes, or be normalised" });
    attempt((trial){ .test_alike = true, .norm = true, .weight = signs, .keeps = true,
                     .says = "so the running statistics of batch norms may lag behind the weights; let them be estimated again before each" });
}

/* And no run whose first hundred steps are not over. */
static void test_only_what_does_not_learn_is_told(void **state)
{
    attempt((trial){ .norm = true });
    attempt((trial){ .norm = true, .weight = qg_twn((qg_twn_spec){ 0 }) });
    attempt((trial){ .train_alike = true, .test_alike = true, .steps = 49 });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_layer_that_overflows),
        cmocka_unit_test(test_the_loss_itself_overflows),
        cmocka_unit_test(test_a_loss_of_the_program_is_no_number),
        cmocka_unit_test(test_the_first_gradient_that_overflows),
        cmocka_unit_test(test_the_first_quantizer_that_refuses),
        cmocka_unit_test(test_images_of_a_test),
        cmocka_unit_test(test_scales_far_from_their_weights),
        cmocka_unit_test(test_scales_of_inputs),
        cmocka_unit_test(test_the_weights_are_those_of_now),
        cmocka_unit_test(test_channels_and_many_values),
        cmocka_unit_test(test_ranges_that_lost_their_tensor),
        cmocka_unit_test(test_scales_below_the_floor),
        cmocka_unit_test(test_what_does_not_learn_is_told_why),
        cmocka_unit_test(test_only_what_does_not_learn_is_told),
    };
    return cmocka_run_group_tests(tests, room_enter, room_leave);
}
