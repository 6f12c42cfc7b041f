/* A quantizer of your own: weights that are powers of two, so that products are shifts.
 *
 *     build/examples/own_scheme [EPOCHS] */
#include <math.h>
#include <stdlib.h>

#include "qgrad.h"

/* q(w) = sign(w) 2^e with e = round(log2 |w|) in -7..0, which are 16 values: 4 bits. */
static float power_of_two(float w)
{
    return copysignf(exp2f(fminf(fmaxf(rintf(log2f(fabsf(w))), -7), 0)), w);
}

static const qg_op power_op = { .name = "power-of-two", .backward = qg_surrogate_backward };

static qg_var *power_apply(qg_tape *t, const qg_binding *b, qg_var *w, qg_var *const *learned)
{
    (void)learned;
    qg_var *y = qg_record_surrogate(t, &power_op, w, qg_surrogate_now(t, b->q));
    for (size_t i = 0, n = y ? qg_count(y->shape) : 0; i < n; i++)
        y->data[i] = power_of_two(w->data[i]);
    return y;
}

static const qg_scheme power_of_two_scheme = {
    .name = "power-of-two", .bits = 4, .roles = QG_WEIGHT, .apply = power_apply,
    .explain = "q(w) = sign(w) 2^round(log2 |w|), s(w) = w",
};

int main(int argc, char **argv)
{
    const qg_quant power = qg_quant_defaults((qg_quant){ .scheme = &power_of_two_scheme });
    const int  epochs = argc > 1 ? atoi(argv[1]) : 3;
    qg_loader *train  = qg_data_train("sample", NULL, (qg_loader_spec){ .batch = 50, .seed = 7 });
    qg_loader *test   = qg_data_test("sample", NULL, (qg_loader_spec){ .batch = 50 });
    qg_net    *net    = qg_net_from_text("8C5-BN-R-MP2-16C5-BN-R-MP2-64FC-BN-R-10", (qg_model_spec){
                            .height = 28, .width = 28, .channels = 1, .seed = 7, .weight = power });
    qg_optim  *adam   = qg_adam(qg_net_build(net), (qg_adam_spec){ .lr = 2e-3f });
    qg_tape   *tape   = qg_tape_new();
    qg_assessment a;
    if (!train || !test || !adam || !tape) return qg_print_error("own_scheme");

    for (int epoch = 0; epoch < epochs; epoch++)
        for (qg_batch b; qg_loader_next(train, &b);) {
            qg_tape_begin(tape, QG_TRAIN, 7, b.step);
            qg_var *loss = qg_cross_entropy(tape, qg_net_forward(net, tape, b.x), b.y);
            if (qg_backward(tape, loss) || qg_optim_step(adam)) return qg_print_error("own_scheme");
        }
    if (qg_evaluate(net, test, (qg_evaluate_spec){ 0 }, &a)) return qg_print_error("own_scheme");
    printf("test accuracy %.2f %%\n", 100 * a.accuracy);
    const float *w = qg_params_find(qg_net_params(net), "fc1.weight")->value;
    for (int i = 0; i < 5; i++)
        printf("%+.6f becomes %+.6f\n", (double)w[i], (double)power_of_two(w[i]));
    qg_assessment_free(&a), qg_tape_free(tape), qg_optim_free(adam), qg_net_free(net);
    qg_loader_free(test), qg_loader_free(train);
    return 0;
}
