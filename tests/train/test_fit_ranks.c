/* qg_fit on several ranks, which are processes that reach each other over sockets. */
#include "tests/support/testing.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/io/hash.h"
#include "qgrad.h"
#include "tests/support/nets.h"
#include "tests/support/ranks.h"
#include "tests/support/room.h"

enum { SIDE = 8, CLASSES = 3, TRAIN = 66, TEST = 37, BATCH = 20 };      /* the last batches have 6 and 1 images */

/* What a process does with the run. */
typedef struct task {
    const char *dir;
    int         stop_after;         /* steps; 0: never */
    int         different;          /* the rank that has another seed; 0: none */
    int         matrix;             /* .. another matrix of whitening; 0: none */
    qg_status   expected;
} task;

static volatile sig_atomic_t stop;
static int                   steps_left;
static uint64_t              images_told;

static void count_step(void *user, const qg_fit_progress *p)
{
    (void)user, (void)p;
    if (--steps_left == 0) stop = 1;
}

static void count_scores(void *user, qg_loader *images, const qg_batch *b, const qg_var *scores)
{
    (void)user, (void)images;
    for (int i = 0; i < scores->shape.n; i++) images_told = qg_hash(images_told, &b->y[i], sizeof b->y[i]);
    images_told = qg_hash(images_told, scores->data, qg_count(scores->shape) * sizeof(float));
}

static qg_loader *bands(int n, uint64_t key, qg_loader_spec spec)
{
    static float    x[TRAIN * SIDE * SIDE];
    static uint8_t  image[TRAIN * SIDE * SIDE];
    static uint16_t label[TRAIN];
    const qg_shape  shape = { n, SIDE, SIDE, 1 };
    fill_bands(shape, CLASSES, key, x, label);
    for (size_t i = 0; i < qg_count(shape); i++) image[i] = (uint8_t)(127 * x[i]);
    return qg_arrays(shape, image, label, CLASSES, spec);
}

static uint64_t hash_file(uint64_t h, const char *dir, const char *name)
{
    char   path[ROOM_BYTES + 32], bytes[1 << 16];
    size_t n = 0;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    if (f) n = fread(bytes, 1, sizeof bytes, f), fclose(f);
    return qg_hash(h, bytes, n);
}

/* What rank 0 has told the program of the images that it measured. */
static void note_told(const char *dir)
{
    char path[ROOM_BYTES + 32];
    snprintf(path, sizeof path, "%s/told", dir);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(&images_told, sizeof images_told, 1, f) != 1 || fclose(f)) _exit(1);
}

static uint64_t fit(void *context)
{
    const task *k    = context;
    qg_net     *net  = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 1 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3, .pad = 1 });
    qg_net_batchnorm(net), qg_net_relu(net);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3, .weight = qg_ttq((qg_ttq_spec){ 0 }),
                                         .input = qg_lsq((qg_lsq_spec){ .bits = 3 }) });
    qg_net_batchnorm(net), qg_net_relu(net), qg_net_dropout(net, 0.2f);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES, .weight = qg_twn((qg_twn_spec){ 0 }) });
    qg_optim  *optim = qg_adam(qg_net_build(net), (qg_adam_spec){ .lr = 0.01f });
    const qg_normalise normalise = { .kind = k->matrix ? QG_WHITEN : QG_TO_UNIT };
    qg_loader *others = k->matrix && k->matrix == qg_rank() ? bands(TRAIN, 7, (qg_loader_spec){ .batch = BATCH, .normalise = normalise }) : NULL;
    qg_loader *train = bands(TRAIN, 1, (qg_loader_spec){ .batch = BATCH, .seed = 3, .augment = { .pad = 1 }, .validation = { .images = 9 },
                                                         .normalise = normalise, .preprocess = others ? qg_loader_preprocess(others) : NULL });
    qg_loader *test  = bands(TEST, 2, (qg_loader_spec){ .batch = 9, .in_order = true });
    steps_left  = k->stop_after;
    images_told = 0;
    const qg_fit_spec spec = { .dir = k->dir, .config = "optimizer = \"adam\"\n", .train = train, .test = test,
                               .validation = qg_loader_validation(train), .optim = optim, .epochs = 3,
                               .seed = k->different && k->different == qg_rank() ? 6 : 5, .mode = QG_FIT_RESUME, .ema_decay = 0.9f,
                               .clip_norm = 1, .stop = &stop, .events = { .step = count_step, .scores = count_scores } };
    const qg_status status = qg_fit(net, spec, NULL);
    if (status != k->expected) {
        fprintf(stderr, "rank %d of %d: %s\n", qg_rank(), qg_ranks(), qg_errmsg());
        _exit(1);
    }
    if (qg_rank() == 0 && !status) note_told(k->dir);
    uint64_t    said = qg_hash(QG_HASH_BASIS, qg_errmsg(), status ? strlen(qg_errmsg()) : 0);
    const char *want = k->matrix ? "ranks do not agree: rank 1 has 'whitening = \"" : "ranks do not agree: rank 1 has 'seed = 6', but rank 0 has 'seed = 5'";
    if (status && !strstr(qg_errmsg(), want)) said = (uint64_t)qg_rank();
    const uint64_t digest = qg_params_digest(qg_net_params(net));
    qg_loader_free(test), qg_loader_free(train), qg_loader_free(others), qg_optim_free(optim), qg_net_free(net);
    return status ? said : digest;
}

static uint64_t files(const char *dir)
{
    return hash_file(hash_file(QG_HASH_BASIS, dir, "last.safetensors"), dir, "best.safetensors");
}

static uint64_t expected, expected_files, expected_told;

static int one_rank(void **state)
{
    char dir[ROOM_BYTES];
    if (room_enter(state)) return -1;
    snprintf(dir, sizeof dir, "%s", in_room("one"));
    expected       = run_ranks(1, 1, fit, &(task){ .dir = dir });
    expected_files = files(dir);
    expected_told  = hash_file(QG_HASH_BASIS, dir, "told");
    return 0;
}

static void ranks_write_the_same_files(void **state)
{
    char dir[ROOM_BYTES];
    snprintf(dir, sizeof dir, "%s", in_room("many"));
    assert_true(run_ranks(4, 1, fit, &(task){ .dir = dir }) == expected);
    assert_true(files(dir) == expected_files);
    assert_true(hash_file(QG_HASH_BASIS, dir, "told") == expected_told);
}

/* Stopped inside the second epoch, and again inside the third. */
static void a_run_goes_on_with_other_ranks(void **state)
{
    const int ranks[][3] = { { 2, 1, 4 }, { 1, 8, 2 } };
    for (int i = 0; i < COUNT(ranks); i++) {
        char dir[ROOM_BYTES];
        snprintf(dir, sizeof dir, "%s", in_room(i ? "b" : "a"));
        run_ranks(ranks[i][0], 2, fit, &(task){ .dir = dir, .stop_after = 4 });
        assert_true(files(dir) != expected_files);
        run_ranks(ranks[i][1], 1, fit, &(task){ .dir = dir, .stop_after = 4 });
        assert_true(run_ranks(ranks[i][2], 1, fit, &(task){ .dir = dir }) == expected);
        assert_true(files(dir) == expected_files);
    }
}

static void ranks_that_differ_do_not_begin(void **state)
{
    char dir[ROOM_BYTES];
    snprintf(dir, sizeof dir, "%s", in_room("differ"));
    run_ranks(2, 1, fit, &(task){ .dir = dir, .different = 1, .expected = QG_EARG });
    run_ranks(2, 1, fit, &(task){ .dir = dir, .matrix = 1, .expected = QG_EARG });
    assert_int_not_equal(access(dir, F_OK), 0);
}

/* A norm that sees the images of a rank alone needs two of them, too. */
static uint64_t fit_parts(void *context)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 1, .batchnorm_per_rank = true });
    qg_net_dense(net, (qg_dense_spec){ .out = 8 });
    qg_net_batchnorm(net), qg_net_relu(net);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES });
    qg_optim       *optim  = qg_adam(qg_net_build(net), (qg_adam_spec){ .lr = 0.01f });
    qg_loader      *train  = bands(TRAIN, 1, (qg_loader_spec){ .batch = *(const int *)context });
    qg_loader      *test   = bands(TEST, 2, (qg_loader_spec){ .batch = 9, .in_order = true });
    const qg_status status = qg_fit(net, (qg_fit_spec){ .dir = in_room("parts"), .train = train, .test = test, .optim = optim, .epochs = 1,
                                                        .mode = QG_FIT_FORCE }, NULL);
    const uint64_t  said   = qg_hash(QG_HASH_BASIS, qg_errmsg(), status ? strlen(qg_errmsg()) : 0);
    qg_loader_free(test), qg_loader_free(train), qg_optim_free(optim), qg_net_free(net);
    return said;
}

static void parts_of_one_image_are_refused(void **state)
{
    (void)state;
    static const char said[] = "batches of 4 images (norm-sync off, on 4 ranks) give bn1 one value per channel, whose variance is 0; "
                               "it needs 2 or more";
    assert_true(run_ranks(4, 1, fit_parts, &(int){ 4 }) == qg_hash(QG_HASH_BASIS, said, strlen(said)));
    for (int ranks = 2; ranks <= 8; ranks *= 4)         /* two images each; more ranks than images */
        assert_true(run_ranks(ranks, 1, fit_parts, &(int){ 4 }) == QG_HASH_BASIS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_write_the_same_files),
        cmocka_unit_test(a_run_goes_on_with_other_ranks),
        cmocka_unit_test(ranks_that_differ_do_not_begin),
        cmocka_unit_test(parts_of_one_image_are_refused),
    };
    return cmocka_run_group_tests(tests, one_rank, room_leave);
}
