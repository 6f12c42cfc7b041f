/* The binary convolutional net of Larq's MNIST tutorial, trained as Keras trains it. */
#include "tests/originals/training/steps.h"

#include <math.h>

#include "optim/rule.h"

/* Keras' Adam, all in float32:
 *
 *     m += (1 - beta1) (g - m)         v += (1 - beta2) (g^2 - v)
 *     w -= alpha m / (sqrt(v) + eps)   alpha = lr sqrt(1 - beta2^step) / (1 - beta1^step)
 *
 * eps is added to sqrt(v) before its correction, so in the first step, where sqrt(1 - beta2) is 0.03, it
 * weighs 30 times as much as in algorithm 1 of the paper, which qg_adam computes. */
typedef struct keras_adam {
    float lr, beta1, beta2, eps;
} keras_adam;

static void update(const void *spec, const qg_stretch *s)
{
    const keras_adam *a     = spec;
    const float       step  = (float)s->step;
    const float       alpha = s->lr * sqrtf(1 - powf(a->beta2, step)) / (1 - powf(a->beta1, step));
    const float       new1  = (float)(1 - 0.9), new2 = (float)(1 - 0.999);
    float            *m     = s->moment[0], *v = s->moment[1];
    for (size_t i = 0; i < s->n; i++) {
        m[i] += (s->g[i] - m[i]) * new1;
        v[i] += (s->g[i] * s->g[i] - v[i]) * new2;
        s->w[i] = qg_clipped(s->w[i] - m[i] * alpha / (sqrtf(v[i]) + a->eps), s->clip);
        s->g[i] = 0;
    }
}

static const qg_rule keras_rule = {
    .name = "keras-adam", .n_moments = 2, .moment = { "m", "v" }, .update = update
};

static qg_optim *optim(qg_params *p)
{
    const keras_adam spec = { .lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-7f };
    return qg_optim_new(p, &keras_rule, &spec, sizeof spec, spec.lr, 0);
}

/* gamma stays 1.  Keras' momentum is the weight of the old statistics. */
static void norm(qg_net *net)
{
    qg_net_batchnorm_with(net, (qg_batchnorm_spec){ .eps = 1e-3f, .momentum = 0.01f, .no_scale = true });
}

static qg_net *declare(void)
{
    const qg_quant w = qg_bnn((qg_bnn_spec){ .as_paper = true }),
                   x = qg_sign((qg_sign_spec){ 0 });

    qg_net *net = qg_net_new((qg_net_spec){ .height = 28, .width = 28, .channels = 1 });
    qg_net_conv2d (net, (qg_conv2d_spec){ .out = 32, .kernel = 3, .no_bias = true, .weight = w });
    qg_net_maxpool(net, 2);
    norm(net);
    qg_net_conv2d (net, (qg_conv2d_spec){ .out = 64, .kernel = 3, .no_bias = true, .weight = w, .input = x });
    qg_net_maxpool(net, 2);
    norm(net);
    qg_net_conv2d (net, (qg_conv2d_spec){ .out = 64, .kernel = 3, .no_bias = true, .weight = w, .input = x });
    norm(net);
    qg_net_dense  (net, (qg_dense_spec){ .out = 64, .no_bias = true, .weight = w, .input = x });
    norm(net);
    qg_net_dense  (net, (qg_dense_spec){ .out = 10, .no_bias = true, .weight = w, .input = x });
    norm(net);
    return net;
}

int main(int argc, char **argv)
{
    return train_steps(argc, argv,
                       (original_training){ .net = declare(), .optim = optim, .loss = qg_cross_entropy });
}
