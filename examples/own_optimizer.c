/* An optimizer of your own: Lion, which steps by the sign of a momentum.
 *
 *     build/examples/own_optimizer [EPOCHS] */
#include <stdlib.h>

#include "qgrad.h"

typedef struct lion_spec {
    float lr, beta1, beta2, weight_decay;
} lion_spec;

/* u = beta1 m + (1 - beta1) g,   w -= lr (sign(u) + decay w),   m = beta2 m + (1 - beta2) g
 *                                      [Chen et al. 2023, arXiv:2302.06675v4, algorithm 2] */
static void lion_update(const void *spec, const qg_stretch *s)
{
    const lion_spec *lion = spec;
    float           *m    = s->moment[0];
    for (size_t i = 0; i < s->n; i++) {
        const float u    = lion->beta1 * m[i] + (1 - lion->beta1) * s->g[i];
        const float sign = (float)((u > 0) - (u < 0));
        s->w[i]          = qg_clipped(s->w[i] - s->lr * (sign + s->decay * s->w[i]), s->clip);
        m[i]             = lion->beta2 * m[i] + (1 - lion->beta2) * s->g[i];
        s->g[i]          = 0;
    }
}

static const qg_rule lion_rule = { .name = "lion", .n_moments = 1, .moment = { "m" },
                                   .update = lion_update };

static qg_optim *lion(qg_params *p, lion_spec spec)
{
    return qg_optim_new(p, &lion_rule, &spec, sizeof spec, spec.lr, spec.weight_decay);
}

int main(int argc, char **argv)
{
    const int  epochs = argc > 1 ? atoi(argv[1]) : 3;
    qg_loader *train  = qg_data_train("sample", NULL, (qg_loader_spec){ .batch = 50, .seed = 7 });
    qg_loader *test   = qg_data_test("sample", NULL, (qg_loader_spec){ .batch = 50 });
    qg_net    *net    = qg_net_from_text("8C5-BN-R-MP2-16C5-BN-R-MP2-64FC-BN-R-10", (qg_model_spec){
                            .height = 28, .width = 28, .channels = 1, .seed = 7,
                            .weight = qg_twn((qg_twn_spec){ 0 }) });
    qg_optim  *optim  = lion(qg_net_build(net), (lion_spec){ 3e-4f, 0.9f, 0.99f, 0.01f });
    qg_tape   *tape   = qg_tape_new();
    qg_assessment a;
    if (!train || !test || !optim || !tape) return qg_print_error("own_optimizer");

    for (int epoch = 0; epoch < epochs; epoch++)
        for (qg_batch b; qg_loader_next(train, &b);) {
            qg_tape_begin(tape, QG_TRAIN, 7, b.step);
            qg_var *loss = qg_cross_entropy(tape, qg_net_forward(net, tape, b.x), b.y);
            if (qg_backward(tape, loss) || qg_optim_step(optim)) return qg_print_error("own_optimizer");
        }
    if (qg_evaluate(net, test, (qg_evaluate_spec){ 0 }, &a)) return qg_print_error("own_optimizer");
    printf("test accuracy %.2f %%\n", 100 * a.accuracy);
    qg_assessment_free(&a), qg_tape_free(tape), qg_optim_free(optim), qg_net_free(net);
    qg_loader_free(test), qg_loader_free(train);
    return 0;
}
