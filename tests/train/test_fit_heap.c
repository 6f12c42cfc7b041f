/* What epochs of qg_fit take: from the second one on, a step makes no heap calls, and listeners take no time of them. */
#include "tests/support/testing.h"

#include <stdio.h>
#include <time.h>

#include "qgrad.h"
#include "tests/support/heap.h"
#include "tests/support/nets.h"
#include "tests/support/room.h"

enum { SIDE = 8, CLASSES = 3, TRAIN = 43, TEST = 20, BATCH = 8, EPOCHS = 4 };

/* Linked with -Wl,--wrap: time stands still while qg_fit works, so that no checkpoint is due between steps. */
static time_t now;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = (struct timespec){ .tv_sec = now };
    return 0;
}

static qg_net *small_net(void)
{
    const qg_quant input = qg_lsq((qg_lsq_spec){ .bits = 3 });
    qg_net *net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 1,
                                            .quantize_weights_after = 3, .quantize_inputs_after = 5 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3, .pad = 1 });
    qg_net_batchnorm(net);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3, .groups = QG_DEPTHWISE, .same = true, .input = input,
                                         .weight = qg_lsq((qg_lsq_spec){ .bits = 3, .is_signed = true }) });
    qg_net_batchnorm(net), qg_net_relu(net), qg_net_maxpool(net, 2), qg_net_dropout(net, 0.2f);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES, .weight = qg_twn((qg_twn_spec){ 0 }) });
    return net;
}

static qg_loader *bands(int n, qg_loader_spec spec)
{
    float    x[TRAIN * SIDE * SIDE];
    uint8_t  image[TRAIN * SIDE * SIDE];
    uint16_t label[TRAIN];
    qg_shape shape = { n, SIDE, SIDE, 1 };
    fill_bands(shape, CLASSES, 1, x, label);
    for (size_t i = 0; i < qg_count(shape); i++) image[i] = (uint8_t)(127 * x[i]);
    return qg_arrays(shape, image, label, CLASSES, spec);
}

typedef struct watch {
    int  steps, later;
    long calls;             /* when the last event ended */
} watch;

static void on_step(void *user, const qg_fit_progress *p)
{
    watch *w = user;
    if (p->epoch > 0 && heap_calls != w->calls)
        fail_msg("%ld heap calls in step %d of epoch %d", heap_calls - w->calls, (int)p->batch, (int)p->epoch + 1);
    w->steps++;
    w->later += p->epoch > 0;
    w->calls = heap_calls;
}

static void on_epoch(void *user, const qg_epoch *e, const qg_fit_result *r)
{
    enum { LISTENS = 9 };       /* less than the ten seconds after which a checkpoint is due */
    ((watch *)user)->calls = heap_calls;
    assert_true(e->epoch == (double)r->epochs);
    if (e->seconds != 0 || r->seconds != 0) fail_msg("epoch %g: %g s, in all %g s", e->epoch, e->seconds, r->seconds);
    now += LISTENS;
}

static void a_step_makes_no_heap_calls_and_listeners_take_no_time(void **state)
{
    qg_fit_result r;
    enum { STEPS = (TRAIN + BATCH - 1) / BATCH };
    watch      w     = { .steps = 0 };
    qg_net    *net   = small_net();
    qg_optim  *optim = qg_adam(qg_net_build(net), (qg_adam_spec){ .lr = 0.01f });
    qg_loader *train = bands(TRAIN, (qg_loader_spec){ .batch = BATCH, .seed = 3, .augment = { .pad = 1, .flip = true } });
    qg_loader *test  = bands(TEST, (qg_loader_spec){ .batch = 9, .in_order = true });
    if (!optim || !train || !test) fail_msg("%s", qg_errmsg());
    const long start = heap_calls;
    assert_ok(qg_fit(net, (qg_fit_spec){ .dir             = in_room("heap"),
                                         .train           = train,
                                         .test            = test,
                                         .optim           = optim,
                                         .epochs          = EPOCHS,
                                         .schedule        = { .kind = QG_COSINE },
                                         .label_smoothing = 0.1f,
                                         .clip_norm       = 1,
                                         .ema_decay       = 0.99f,
                                         .patience        = EPOCHS,
                                         .events          = { .user = &w, .step = on_step, .epoch = on_epoch } }, &r));
    assert_true(now > 0 && r.seconds == 0);
    assert_true(heap_calls > start && w.calls > start);         /* the counter counts */
    assert_true(w.steps == EPOCHS * STEPS && w.later == (EPOCHS - 1) * STEPS);
    qg_loader_free(test), qg_loader_free(train), qg_optim_free(optim), qg_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_step_makes_no_heap_calls_and_listeners_take_no_time) };
    return cmocka_run_group_tests(tests, room_enter, room_leave);
}
