/* A heap that is exhausted at any moment, for once or from then on: what a program does from its first net to
 * its checkpoint fails with a message that says so, and leaks nothing (make asan sees that). */
#include "tests/support/testing.h"

#include <stdlib.h>
#include <string.h>

#include "qgrad.h"
#include "tests/support/heap.h"
#include "tests/support/pictures.h"
#include "tests/support/room.h"

/* --- a program ------------------------------------------------------------------------------ */

enum { SIDE = 12, CLASSES = 4 };

/* Schemes that learn, observe, draw and fuse. */
static qg_net *declare_net(void)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 1 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 8, .kernel = 3, .weight = qg_twn((qg_twn_spec){ .threshold = 0.7f }) });
    qg_net_batchnorm(net), qg_net_relu(net), qg_net_maxpool(net, 2);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out    = 8,
                                         .kernel = 3,
                                         .weight = qg_lsq((qg_lsq_spec){ .bits = 3, .is_signed = true }),
                                         .input  = qg_fake_quant((qg_fake_quant_spec){ .bits = 8 }) });
    qg_net_batchnorm(net);
    qg_net_dense(net, (qg_dense_spec){ .out      = CLASSES,
                                       .weight   = qg_ttq((qg_ttq_spec){ .threshold = 0.05f }),
                                       .gradient = qg_dorefa_gradient((qg_dorefa_gradient_spec){ .bits = 6 }) });
    return net;
}

static bool train(qg_net *net, qg_optim *o, qg_loader *l, qg_tape *t)
{
    for (int e = 0; e < 2; e++)
        for (qg_batch b; qg_loader_next(l, &b);) {
            qg_tape_begin(t, QG_TRAIN, 7, b.step);
            if (qg_backward(t, qg_cross_entropy(t, qg_net_forward(net, t, b.x), b.y)) || qg_optim_step(o)) return false;
        }
    return true;
}

static bool keep(qg_net *net, qg_optim *o)
{
    qg_state *s = qg_state_new();
    qg_net_state(net, s);
    qg_optim_state(o, s);
    qg_state_set_note(s, "about", "a note");
    const char *path = in_room("state");
    const bool  kept = !qg_state_save(s, path) && !qg_state_load(s, path) && !qg_net_save(net, path) && !qg_net_load(net, path);
    qg_state_free(s);
    return kept;
}

/* A checkpoint stands alone: files of images are preprocessed as it notes. */
static bool classify(const qg_loader *l)
{
    static const char *const names[] = { "a.bmp", "a.png", "a.jpg" };
    char      checkpoint[ROOM_BYTES];
    float     x[SIDE * SIDE];
    qg_state *s = qg_state_new(), *matrix = qg_state_new();
    strcpy(checkpoint, in_room("checkpoint"));
    qg_preprocess_note(qg_loader_preprocess(l), s);
    bool done = matrix && !qg_state_save(s, checkpoint);
    if (done && qg_preprocess_state(qg_loader_preprocess(l), matrix))
        done = !qg_state_save(matrix, in_room(QG_WHITENING_FILE));
    qg_state_free(s), qg_state_free(matrix);
    qg_preprocess *p = done ? qg_preprocess_open(checkpoint) : NULL;
    for (int i = 0; i < 3 && done; i++) done = p && !qg_preprocess_image(p, in_room(names[i]), x);
    qg_preprocess_free(p);
    return done;
}

static bool store_images(qg_normalise_kind kind)
{
    qg_loader *l = qg_synthetic((qg_shape){ 1, SIDE, SIDE, 1 }, 5, CLASSES,
                                (qg_loader_spec){ .batch = 5, .normalise = { .kind = kind } });
    const bool done = l && classify(l);
    qg_loader_free(l);
    return done;
}

static void write_images(void)
{
    uint8_t pixels[SIDE * SIDE * 3];
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(31 * i);
    write_bmp(in_room("a.bmp"), pixels, SIDE, SIDE);
    write_png(in_room("a.png"), pixels, SIDE, SIDE);
    write_jpeg(in_room("a.jpg"), (jpeg){ 16, 16, .components = 1, .value = { 128 }, .scans = 1 });
}

/* As a program that checks what it must and nothing more. */
static bool program(void)
{
    qg_net    *net = declare_net();
    qg_params *p   = qg_net_build(net);
    qg_optim  *o   = qg_adam(p, (qg_adam_spec){ .lr = 1e-3f });
    qg_loader *l   = qg_synthetic((qg_shape){ 1, SIDE, SIDE, 1 }, 30, CLASSES,
                                  (qg_loader_spec){ .batch = 8, .seed = 2, .normalise = { .kind = QG_WHITEN } });
    qg_tape   *t   = qg_tape_new();
    size_t     packed;
    const bool done = p && o && l && t && train(net, o, l, t) && keep(net, o) && store_images(QG_PER_PIXEL) &&
                      store_images(QG_WHITEN) && !qg_net_packed_bytes(net, &packed);
    if (done) assert_int_not_equal(packed, 0);
    qg_tape_free(t), qg_loader_free(l), qg_optim_free(o), qg_net_free(net);
    return done;
}

static void every_call_may_fail(void **state)
{
    qg_set_threads(1);                          /* whose calls come in one order */
    write_images();
    for (int on = 0; on < 2; on++) {
        long failures = 0;
        for (long k = 1;; k++, failures++) {
            qg_fail(QG_EIO, "something of before");
            heap_calls = 0, heap_denies_on = on, heap_denied = k;
            const bool done = program();
            heap_denied     = 0;
            if (done) {
                assert_true(heap_calls < k);         /* it did not reach the call, rather than do without */
                break;
            }
            if (!strstr(qg_errmsg(), "memory")) fail_msg("call %ld: %s", k, qg_errmsg());
        }
        assert_true(failures > 100);
    }
    qg_set_threads(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_call_may_fail) };
    return cmocka_run_group_tests(tests, room_enter, room_leave);
}
