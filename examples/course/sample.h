/* Chapter 5 and the homework: trains a net on the 2,000 images of datasets/sample, and tests it on 500. */
#include <math.h>

#include "qgrad.h"

/* Percent of the test images that are classified correctly; NaN: it has failed. */
static double learn(qg_net *net, int epochs, uint64_t seed)
{
    qg_loader *train = qg_data_train("sample", NULL, (qg_loader_spec){ .batch = 20, .seed = seed });
    qg_loader *test  = qg_data_test("sample", NULL, (qg_loader_spec){ .batch = 500, .in_order = true });
    qg_optim  *adam  = qg_adam(qg_net_build(net), (qg_adam_spec){ .lr = 2e-3f });
    qg_tape   *tape  = qg_tape_new();
    qg_assessment a  = { 0 };
    bool       fails = !train || !test || !adam || !tape;
    for (int epoch = 0; epoch < epochs; epoch++)
        for (qg_batch b; !fails && qg_loader_next(train, &b);) {
            qg_tape_begin(tape, QG_TRAIN, seed, b.step);
            qg_var *scores = qg_net_forward(net, tape, b.x);
            fails = qg_backward(tape, qg_cross_entropy(tape, scores, b.y)) || qg_optim_step(adam);
        }
    fails = fails || qg_evaluate(net, test, (qg_evaluate_spec){ 0 }, &a);
    const double accuracy = fails ? NAN : 100 * a.accuracy;
    qg_assessment_free(&a), qg_tape_free(tape), qg_optim_free(adam);
    qg_loader_free(test), qg_loader_free(train);
    return accuracy;
}
