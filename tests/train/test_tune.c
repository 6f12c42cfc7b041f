/* Fine-tuning with qg_fit: weights of another run, frozen layers, a teacher. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qgrad.h"
#include "tests/support/heap.h"
#include "tests/support/nets.h"
#include "tests/support/room.h"

enum { SIDE = 8, CLASSES = 5, CHOSEN = 3, N = 60, BATCH = 12, STEPS = N / BATCH, EPOCHS = 3 };

/* --- runs --------------------------------------------------------------------------------- */

typedef struct subject {
    qg_net      *net;
    qg_optim    *optim;
    qg_loader   *train, *test;
    qg_fit_spec  spec;
    char         dir[ROOM_BYTES], source[ROOM_BYTES];
    bool         starts;                    /* from the source */
} subject;

/* conv1 - bn1 - relu - conv2 - bn2 - relu - fc1, with learned steps of the second convolution. */
static qg_net *net_of(int classes, uint64_t seed)
{
    const qg_quant weight = qg_lsq((qg_lsq_spec){ .bits = 3, .is_signed = true }), input = qg_lsq((qg_lsq_spec){ .bits = 3 });
    qg_net *net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = seed });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 4, .kernel = 3 });
    qg_net_batchnorm(net);
    qg_net_relu(net);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 5, .kernel = 3, .weight = weight, .input = input });
    qg_net_batchnorm(net);
    qg_net_relu(net);
    qg_net_dense(net, (qg_dense_spec){ .out = classes });
    if (!qg_net_build(net)) fail_msg("%s", qg_errmsg());
    return net;
}

static qg_loader *bands(int classes, uint64_t key, bool test)
{
    static const uint16_t chosen[] = { 4, 0, 2 };
    float    x[N * SIDE * SIDE];
    uint8_t  image[N * SIDE * SIDE];
    uint16_t label[N];
    qg_shape shape = { N, SIDE, SIDE, 1 };
    fill_bands(shape, CLASSES, key, x, label);
    for (size_t i = 0; i < qg_count(shape); i++) image[i] = (uint8_t)(127 * x[i]);
    qg_loader_spec spec = { .batch = BATCH, .seed = 3, .in_order = test };
    if (classes == CHOSEN) spec.classes = chosen, spec.n_classes = CHOSEN;
    return qg_arrays(shape, image, label, CLASSES, spec);
}

static subject open_net(const char *name, qg_net *net, int classes)
{
    subject s = { .net = net };
    snprintf(s.dir, sizeof s.dir, "%s", in_room(name));
    snprintf(s.source, sizeof s.source, "%s", in_room("five"));
    s.optim = qg_adam(qg_net_params(s.net), (qg_adam_spec){ .lr = 0.01f, .weight_decay = 0.1f });
    s.train = bands(classes, 1, false);
    s.test  = bands(classes, 2, true);
    s.spec  = (qg_fit_spec){ .train = s.train, .test = s.test, .optim = s.optim, .epochs = EPOCHS };
    if (!s.optim || !s.train || !s.test) fail_msg("%s", qg_errmsg());
    return s;
}

static subject open_subject(const char *name, int classes)
{
    return open_net(name, net_of(classes, 1), classes);
}

static void close_subject(subject *s)
{
    qg_loader_free(s->test), qg_loader_free(s->train), qg_optim_free(s->optim), qg_net_free(s->net);
}

static qg_status fit(subject *s, qg_fit_result *r)
{
    s->spec.dir  = s->dir;
    s->spec.init = s->starts ? s->source : NULL;
    return qg_fit(s->net, s->spec, r);
}

static void refused(subject *s, qg_status status, const char *part)
{
    assert_failed(fit(s, NULL), status, part);
    close_subject(s);
}

/* The run of five classes that others begin with. */
static int train_five(void **state)
{
    if (room_enter(state)) return -1;
    subject s = open_subject("five", CLASSES);
    assert_ok(fit(&s, NULL));
    close_subject(&s);
    return 0;
}

/* Three of its classes, with a new last layer. */
static subject open_three(const char *name)
{
    subject s          = open_subject(name, CHOSEN);
    s.spec.init_except = "fc1";
    return s;
}

static subject from_five(const char *name)
{
    subject s = open_three(name);
    s.starts  = true;
    return s;
}

static qg_archive *checkpoint(const char *run)
{
    char path[ROOM_BYTES];
    snprintf(path, sizeof path, "%s/last.safetensors", in_room(run));
    qg_archive *a = qg_archive_open(path);
    if (!a) fail_msg("%s", qg_errmsg());
    return a;
}

/* --- init --------------------------------------------------------------------------------- */

static bool is_layer(const char *name, const char *layer)
{
    return !strncmp(name, layer, strlen(layer)) && name[strlen(layer)] == '.';
}

/* A budget of none at all leaves the first checkpoint. */
static void a_run_starts_from_another_except_for_a_layer(void **state)
{
    subject s     = from_five("started");
    s.spec.budget = -1;
    assert_ok(fit(&s, NULL));
    qg_net          *fresh = net_of(CHOSEN, 1);
    qg_archive      *five  = checkpoint("five");
    const qg_params *p     = qg_net_params(s.net), *of_fresh = qg_net_params(fresh);
    for (int i = 0; i < p->count; i++) {
        const bool   own  = is_layer(p->item[i]->name, "fc1");
        const float *from = own ? of_fresh->item[i]->value : qg_archive_find(five, p->item[i]->name)->array.data;
        assert_memory_equal(p->item[i]->value, from, qg_count(p->item[i]->shape) * sizeof(float));
    }
    qg_archive_free(five), qg_net_free(fresh), close_subject(&s);
}

static void what_does_not_fit_is_named(void **state)
{
    subject s = from_five("none");
    s.spec.init_except = NULL;
    refused(&s, QG_ESHAPE, "five/last.safetensors: does not fit the net: fc1.weight: shape mismatch: checkpoint [5,4,4,5], model "
                           "[3,4,4,5], fc1.bias: shape mismatch: checkpoint [5], model [3]; to start these layers afresh, set "
                           ".init_except = \"fc1\"");
    s = from_five("none"), s.spec.init_except = "fc2";
    refused(&s, QG_EARG, "cannot except 'fc2': no layer is named 'fc2'; layers with parameters: conv1, bn1, conv2, bn2, fc1");
    s = from_five("none"), s.spec.init_except = "fc1,";
    refused(&s, QG_EARG, "cannot except ''");
    s = from_five("none"), s.starts = false;
    refused(&s, QG_EARG, "init_except needs init");
    s = from_five("none"), strcat(s.source, "-gone");
    refused(&s, QG_EIO, "five-gone");
}

/* Layers of the other net may be excepted, too. */
static void a_layer_that_only_the_file_has_may_be_excepted(void **state)
{
    for (int named = 0; named < 2; named++) {
        subject s = open_subject("shorter", CLASSES);
        qg_optim_free(s.optim), qg_net_free(s.net);
        s.net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 1 });
        qg_net_conv2d(s.net, (qg_conv2d_spec){ .out = 4, .kernel = 3 });
        qg_net_batchnorm(s.net);
        qg_net_dense(s.net, (qg_dense_spec){ .out = CLASSES });
        s.optim = s.spec.optim = qg_adam(qg_net_build(s.net), (qg_adam_spec){ .lr = 0.01f });
        s.starts               = true;
        s.spec.init_except     = named ? "conv2,bn2,fc1" : "fc1";
        s.spec.budget          = -1;
        if (!named) refused(&s, QG_ESHAPE, "set .init_except = \"bn2,conv2\"");
        else assert_ok(fit(&s, NULL)), close_subject(&s);
    }
}

static subject open_dotted(const char *name, qg_quant weight)
{
    subject s = open_subject(name, CLASSES);
    qg_optim_free(s.optim), qg_net_free(s.net);
    s.net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 1 });
    qg_net_dense(s.net, (qg_dense_spec){ .out = 4, .name = "head" });
    qg_net_dense(s.net, (qg_dense_spec){ .out = CLASSES, .weight = weight, .name = "head.last" });
    s.optim = s.spec.optim = qg_adam(qg_net_build(s.net), (qg_adam_spec){ .lr = 0.01f });
    s.spec.budget          = -1;
    snprintf(s.source, sizeof s.source, "%s", in_room("dotted"));
    return s;
}

/* What a quantizer has learned has no place in a float net; "head" does not stand for "head.last". */
static void names_may_have_dots(void **state)
{
    subject s = open_dotted("dotted", qg_lsq((qg_lsq_spec){ .bits = 3, .is_signed = true }));
    assert_ok(fit(&s, NULL));
    const float first = qg_params_find(qg_net_params(s.net), "head.last.weight")->value[0];
    close_subject(&s);
    for (int head = 0; head < 2; head++) {
        s                  = open_dotted(head ? "but-head" : "floats", (qg_quant){ 0 });
        s.spec.init_except = head ? "head" : NULL;
        s.starts           = true;
        assert_ok(fit(&s, NULL));
        assert_true(qg_params_find(qg_net_params(s.net), "head.last.weight")->value[0] == first);
        close_subject(&s);
    }
}

static void the_source_is_part_of_the_configuration(void **state)
{
    subject s = from_five("own");
    assert_ok(fit(&s, NULL));
    close_subject(&s);
    s = from_five("own"), snprintf(s.source, sizeof s.source, "%s", in_room("own"));
    refused(&s, QG_EARG, "init-digest");
    s = from_five("own"), s.spec.init_except = "bn1,fc1";
    refused(&s, QG_EARG, "init-digest");
    s = from_five("own"), s.spec.freeze = "bn1";
    refused(&s, QG_EARG, "but this one has 'freeze = \"bn1\"'");
    s = from_five("own");
    assert_ok(fit(&s, NULL));
    close_subject(&s);
}

/* --- freeze ------------------------------------------------------------------------------- */

static bool stays(const char *name) { return is_layer(name, "conv1") || is_layer(name, "bn1") || is_layer(name, "conv2") || is_layer(name, "bn2"); }

/* Values, running statistics and learned steps, with decay, and the averages and moments that follow them. */
static void frozen_layers_keep_every_bit(void **state)
{
    subject s        = from_five("frozen");
    s.spec.freeze    = "conv1,conv2";
    s.spec.ema_decay = 0.9f;
    s.spec.clip_norm = 1;
    assert_ok(fit(&s, NULL));
    close_subject(&s);
    size_t                n;
    qg_archive           *five = checkpoint("five"), *three = checkpoint("frozen");
    const qg_named_array *e    = qg_archive_entries(three, &n);
    int                   kept = 0, moved = 0;
    for (size_t i = 0; i < n; i++) {
        const char           *name = e[i].name, *of = strstr(name, "ema.") == name ? name + 4 : name;
        const qg_named_array *was  = qg_archive_find(five, of);
        const bool            same = was && was->bytes == e[i].bytes && !memcmp(was->array.data, e[i].array.data, was->bytes);
        if (stays(of) && !same) fail_msg("%s is not as it was", name);
        if (is_layer(of, "fc1") && !same) moved++;
        kept += stays(of);
        if (strncmp(name, "optim.m.", 8) || !stays(name + 8)) continue;
        for (size_t k = 0; k < qg_array_count(&e[i].array); k++) assert_true(((const float *)e[i].array.data)[k] == 0);
    }
    assert_true(kept > 20 && moved == 4);               /* fc1 and its averages */
    qg_archive_free(five), qg_archive_free(three);
}

/* conv1 - conv2 - fc1, the last two with latent weights of mean 0, or float. */
static subject open_centred(const char *name, bool centred, uint64_t seed)
{
    const qg_quant weight = centred ? qg_xnor((qg_xnor_spec){ .centred = true }) : (qg_quant){ .bits = 0 };
    qg_net *net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = seed });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 9, .kernel = 3 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 7, .kernel = 3, .weight = weight });
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES, .weight = weight });
    if (!qg_net_build(net)) fail_msg("%s", qg_errmsg());
    return open_net(name, net, CLASSES);
}

static bool same_array(const qg_archive *a, const char *name, const qg_archive *b, const char *other)
{
    const qg_named_array *x = qg_archive_find(a, name), *y = qg_archive_find(b, other);
    return x && y && x->bytes == y->bytes && !memcmp(x->array.data, y->array.data, x->bytes);
}

/* To subtract the mean again would subtract what roundings left.  Weights of a float run are centred at
 * first. */
static void centred_weights_are_not_centred_again(void **state)
{
    for (int centred = 0; centred <= 1; centred++) {
        subject s = open_centred(centred ? "centred" : "float", centred, 1);
        assert_ok(fit(&s, NULL));
        close_subject(&s);
        s             = open_centred(centred ? "again" : "anew", true, 2);
        s.spec.freeze = "conv2", s.spec.ema_decay = 0.9f, s.starts = true;
        snprintf(s.source, sizeof s.source, "%s", in_room(centred ? "centred" : "float"));
        assert_ok(fit(&s, NULL));
        close_subject(&s);
        qg_archive *was = checkpoint(centred ? "centred" : "float");
        qg_archive *is  = checkpoint(centred ? "again" : "anew");
        assert_true(same_array(was, "conv2.weight", is, "conv2.weight") == centred);
        assert_true(same_array(is, "conv2.weight", is, "ema.conv2.weight"));
        qg_archive_free(was), qg_archive_free(is);
    }
}

static void what_cannot_be_frozen_is_named(void **state)
{
    subject s     = open_subject("none", CLASSES);
    s.spec.freeze = "conv1,conv9";
    refused(&s, QG_EARG, "freeze: no layer is named 'conv9'; layers with parameters: conv1, bn1");
    s             = open_subject("none", CLASSES);
    s.spec.freeze = "conv1,conv2,fc1";
    refused(&s, QG_EARG, "freeze: every parameter of the net is frozen");
}

/* --- a teacher ---------------------------------------------------------------------------- */

/* Scores [n][classes] of all images of l, in order. */
static void scores_of(qg_net *net, qg_loader *l, float *scores, uint16_t *labels)
{
    qg_tape *t  = qg_tape_new();
    int      at = 0;
    for (qg_batch b; qg_loader_next(l, &b); at += b.x.shape.n) {
        qg_tape_begin(t, QG_EVAL, 0, UINT64_MAX);
        const qg_var *y = qg_net_forward(net, t, b.x);
        if (!y) fail_msg("%s", qg_errmsg());
        memcpy(scores + at * CLASSES, y->data, qg_count(y->shape) * sizeof(float));
        memcpy(labels + at, b.y, (size_t)b.x.shape.n * sizeof *b.y);
    }
    qg_tape_free(t);
}

/* log softmax(x / T)[k] */
static double log_share(const float *x, double temperature, int k)
{
    double sum = 0;
    for (int i = 0; i < CLASSES; i++) sum += exp((double)x[i] / temperature);
    return (double)x[k] / temperature - log(sum);
}

/* Hinton, Vinyals, Dean, section 2, with the entropy of the teacher subtracted. */
static double loss_by_hand(const float *x, const float *z, int label, double temperature, double weight)
{
    double kl = 0;
    for (int k = 0; k < CLASSES; k++) {
        const double log_p = log_share(z, temperature, k), log_q = log_share(x, temperature, k);
        kl += exp(log_p) * (log_p - log_q);
    }
    return -(1 - weight) * log_share(x, 1, label) + weight * temperature * temperature * kl;
}

static qg_net *dense_net(void)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 2 });
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES });
    if (!qg_net_build(net)) fail_msg("%s", qg_errmsg());
    return net;
}

/* One step of all images, so the loss of the epoch is that of the initial weights.  Scores are floats, so losses of some
 * units agree to 1e-6. */
static void the_loss_is_that_of_the_paper(void **state)
{
    static const struct { float temperature, weight, is_t, is_w; } cases[] = { { 0, 0, 4, 0.9f }, { 1, 0.5f, 1, 0.5f }, { 2.5f, 1, 2.5f, 1 } };
    for (int i = 0; i < 3; i++) {
        float         x[N * CLASSES], z[N * CLASSES];
        uint16_t     label[N];
        double        want = 0;
        char          name[24];
        qg_net       *teacher = net_of(CLASSES, 5);
        qg_fit_result r;
        snprintf(name, sizeof name, "hand-%d", i);
        subject s = open_subject(name, CLASSES);
        qg_optim_free(s.optim), qg_net_free(s.net), qg_loader_free(s.train);
        s.net   = dense_net();
        s.train = s.spec.train = qg_synthetic((qg_shape){ 1, SIDE, SIDE, 1 }, N, CLASSES, (qg_loader_spec){ .batch = N, .in_order = true });
        s.optim = s.spec.optim = qg_sgd(qg_net_params(s.net), (qg_sgd_spec){ .lr = 0.1f });
        scores_of(s.net, s.train, x, label), scores_of(teacher, s.train, z, label);
        for (int k = 0; k < N; k++)
            want += loss_by_hand(x + k * CLASSES, z + k * CLASSES, label[k], (double)cases[i].is_t, (double)cases[i].is_w) / N;
        s.spec.epochs  = 1;
        s.spec.teacher = (qg_fit_teacher){ .net = teacher, .temperature = cases[i].temperature, .weight = cases[i].weight };
        assert_ok(fit(&s, &r));
        if (!(fabs(r.train_loss - want) < 1e-6 * (1 + want))) fail_msg("case %d: %.9g, by hand %.9g", i, r.train_loss, want);
        qg_net_free(teacher), close_subject(&s);
    }
}

static subject taught(const char *name, uint64_t seed)
{
    subject s      = open_subject(name, CLASSES);
    s.spec.teacher = (qg_fit_teacher){ .net = net_of(CLASSES, seed) };
    return s;
}

static void refused_with_teacher(subject s, qg_status status, const char *part)
{
    qg_net *teacher = s.spec.teacher.net;
    refused(&s, status, part);
    qg_net_free(teacher);
}

static void a_teacher_must_suit_the_net(void **state)
{
    qg_net *unbuilt = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1 });
    subject s       = open_subject("none", CLASSES);
    s.spec.teacher.net = unbuilt;
    refused_with_teacher(s, QG_ESTATE, "teacher: ");
    s = open_three("none"), s.spec.init_except = NULL, s.spec.teacher.net = net_of(CLASSES, 5);
    refused_with_teacher(s, QG_ESHAPE, "teacher: its result is 1x1x5, that of the net 1x1x3");
    s = taught("none", 5), s.spec.teacher.temperature = -1;
    refused_with_teacher(s, QG_EARG, "teacher: temperature is -1, must be positive");
    s = taught("none", 5), s.spec.teacher.weight = 1.5f;
    refused_with_teacher(s, QG_EARG, "teacher: weight is 1.5, not in (0, 1]");
}

static void the_teacher_is_part_of_the_configuration(void **state)
{
    for (int i = 0; i < 4; i++) {
        subject s = taught("taught", i == 1 ? 6 : 5);
        qg_net *teacher = s.spec.teacher.net;
        if (i == 0) assert_ok(fit(&s, NULL));
        if (i == 1) assert_failed(fit(&s, NULL), QG_EARG, "but this one has 'teacher-digest = ");
        if (i == 2) s.spec.teacher.temperature = 2;
        if (i == 2) assert_failed(fit(&s, NULL), QG_EARG, "with 'distil = \"temperature=4,weight=0.9\"', but this one has "
                                                          "'distil = \"temperature=2,weight=0.9\"'");
        if (i == 3) s.spec.teacher = (qg_fit_teacher){ .net = NULL };
        if (i == 3) assert_failed(fit(&s, NULL), QG_EARG, "with 'distil");
        close_subject(&s), qg_net_free(teacher);
    }
}

/* --- the heap ----------------------------------------------------------------------------- */

typedef struct counter {
    int  steps, with_calls;
    long calls;
} counter;

/* What is between two steps of an epoch. */
static void count_calls(void *user, const qg_fit_progress *p)
{
    counter *c = user;
    if (p->epoch > 0 && p->batch > 1) c->steps++, c->with_calls += heap_calls != c->calls;
    c->calls = heap_calls;
}

static void steps_with_a_teacher_make_no_heap_calls(void **state)
{
    counter c      = { .steps = 0 };
    subject s      = taught("heap", 5);
    qg_net *teacher = s.spec.teacher.net;
    s.spec.freeze  = "conv1";
    s.spec.events  = (qg_fit_events){ .user = &c, .step = count_calls };
    assert_ok(fit(&s, NULL));
    assert_int_equal(c.steps, (EPOCHS - 1) * (STEPS - 1));
    assert_true(heap_calls > 0 && c.with_calls <= 1);   /* a slow machine may save a checkpoint */
    close_subject(&s), qg_net_free(teacher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_starts_from_another_except_for_a_layer),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(a_layer_that_only_the_file_has_may_be_excepted),
        cmocka_unit_test(names_may_have_dots),
        cmocka_unit_test(the_source_is_part_of_the_configuration),
        cmocka_unit_test(frozen_layers_keep_every_bit),
        cmocka_unit_test(centred_weights_are_not_centred_again),
        cmocka_unit_test(what_cannot_be_frozen_is_named),
        cmocka_unit_test(the_loss_is_that_of_the_paper),
        cmocka_unit_test(a_teacher_must_suit_the_net),
        cmocka_unit_test(the_teacher_is_part_of_the_configuration),
        cmocka_unit_test(steps_with_a_teacher_make_no_heap_calls),
    };
    return cmocka_run_group_tests(tests, train_five, room_leave);
}
