/* A training that can be interrupted.  Stop it with Ctrl-C or kill it at any moment: when it is
 * started again, it continues, and ends with the same bytes.
 *
 *     build/examples/fit [DIRECTORY [EPOCHS]] */
#include <signal.h>
#include <stdlib.h>

#include "qgrad.h"

static volatile sig_atomic_t stop;

static void on_signal(int number) { stop = number; }

static void print_epoch(void *user, const qg_epoch *e, const qg_fit_result *r)
{
    (void)user, (void)r;
    printf("epoch %2.0f   train loss %.4f   test accuracy %.1f %%\n", e->epoch, e->train_loss,
           100 * e->test_accuracy);
}

int main(int argc, char **argv)
{
    qg_loader *train = qg_data_train("sample", NULL, (qg_loader_spec){
                           .batch = 50, .seed = 7, .normalise = { .kind = QG_PER_CHANNEL } });
    qg_loader *test  = qg_data_test("sample", NULL, (qg_loader_spec){
                           .batch = 50, .in_order = true,
                           .preprocess = qg_loader_preprocess(train) });
    qg_net    *net   = qg_net_from_text("8C5-BN-R-MP2-{8C3-BN-R-8C3-BN}-R-MP2-10", (qg_model_spec){
                           .height = 28, .width = 28, .channels = 1, .seed = 7,
                           .weight = qg_twn((qg_twn_spec){ 0 }),
                           .input  = qg_lsq((qg_lsq_spec){ .bits = 4 }) });
    qg_optim  *adam  = qg_adam(qg_net_build(net), (qg_adam_spec){ .lr = 3e-3f });
    qg_fit_result r;
    if (signal(SIGINT, on_signal) == SIG_IGN) signal(SIGINT, SIG_IGN);      /* in the background */
    signal(SIGTERM, on_signal);
    if (qg_fit(net, (qg_fit_spec){ .dir      = argc > 1 ? argv[1] : "runs/fit",
                                   .config   = "optimizer = \"adam\"\n",
                                   .train    = train,
                                   .test     = test,
                                   .optim    = adam,
                                   .epochs   = argc > 2 ? atoi(argv[2]) : 8,
                                   .schedule = { .kind = QG_COSINE },
                                   .stop     = &stop,
                                   .events   = { .epoch = print_epoch } }, &r))
        return qg_print_error("fit");
    printf("%s: best test accuracy %.1f %%\n",
           r.complete ? "finished" : "stopped; start it again to continue",
           100 * r.best_test_accuracy);
    qg_loader_free(test), qg_loader_free(train), qg_optim_free(adam), qg_net_free(net);
    return 0;
}
