/* The cost of a training step as a net grows.  The nets are plain chains of 3x3 convolutions, batch norm
 * and relu; width, depth and image side vary one at a time.
 *
 *     cost [seconds per net]          prints one line per net: what varies, its size, its work and its time
 *
 * If cost is proportional to work, GFLOP/s stay constant or rise. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "qgrad.h"

enum { BATCH = 32, WARM_UP = 3, MAX_STEPS = 4096 };

typedef struct size {
    const char *grows;
    int         width, depth, side;     /* channels, convolutions, pixels */
} size;

static const size sizes[] = {
    { "width", 16, 4, 16 },  { "width", 32, 4, 16 },  { "width", 64, 4, 16 },
    { "width", 128, 4, 16 }, { "width", 256, 4, 16 },
    { "depth", 64, 1, 16 },  { "depth", 64, 2, 16 },  { "depth", 64, 4, 16 },
    { "depth", 64, 8, 16 },  { "depth", 64, 16, 16 },
    { "side", 64, 4, 8 },    { "side", 64, 4, 16 },   { "side", 64, 4, 32 },
    { "side", 64, 4, 64 },
};

static qg_net *declare(size s)
{
    qg_net *net = qg_net_new((qg_net_spec){ s.side, s.side, s.width, .seed = 1 });
    for (int i = 0; i < s.depth; i++) {
        qg_net_conv2d   (net, (qg_conv2d_spec){ .out = s.width, .kernel = 3, .pad = 1 });
        qg_net_batchnorm(net);
        qg_net_relu     (net);
    }
    qg_net_global_avgpool(net);
    qg_net_dense(net, (qg_dense_spec){ .out = 10 });
    return net;
}

/* Every product runs once forward and twice backward, except that the first passes no gradient on. */
static double flops(const qg_net *net)
{
    double sum = -2.0 * (double)qg_net_layer(net, 0)->macs;
    for (int i = 0; i < qg_net_layers(net); i++) sum += 6.0 * (double)qg_net_layer(net, i)->macs;
    return sum;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median step in seconds; negative if training failed. */
static double measure(qg_net *net, qg_loader *data, double limit)
{
    static double took[MAX_STEPS];
    qg_optim     *sgd   = qg_sgd(qg_net_params(net), (qg_sgd_spec){ .lr = 0.01f, .momentum = 0.9f });
    qg_tape      *tape  = qg_tape_new();
    bool          works = sgd && tape;
    int           steps = -WARM_UP;
    const double  until = now() + limit;
    for (; works && steps < MAX_STEPS && (now() < until || steps < 3); steps++) {
        const double from = now();
        qg_batch     b;
        while (!qg_loader_next(data, &b)) continue;
        qg_tape_begin(tape, QG_TRAIN, 1, b.step);
        qg_var *loss = qg_cross_entropy(tape, qg_net_forward(net, tape, b.x), b.y);

        works = !qg_backward(tape, loss) && !qg_optim_step(sgd);
        if (steps >= 0) took[steps] = now() - from;
    }
    qg_tape_free(tape);
    qg_optim_free(sgd);
    if (!works) return -1;
    qsort(took, (size_t)steps, sizeof *took, by_size);
    return took[steps / 2];
}

int main(int argc, char **argv)
{
    const double limit = argc > 1 ? strtod(argv[1], NULL) : 1;
    printf("%-6s %6s %6s %6s %14s %14s %10s\n", "grows", "width", "depth", "side", "MFLOP/image",
           "ms/image", "GFLOP/s");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size s     = sizes[i];
        qg_net      *net = declare(s);
        qg_loader   *data = qg_synthetic((qg_shape){ 1, s.side, s.side, s.width }, BATCH, 10,
                                         (qg_loader_spec){ .batch = BATCH, .seed = 1 });
        const double took = qg_net_build(net) && data ? measure(net, data, limit) / BATCH : -1;
        if (took < 0) return qg_print_error("cost");
        printf("%-6s %6d %6d %6d %14.3f %14.5f %10.1f\n", s.grows, s.width, s.depth, s.side,
               1e-6 * flops(net), 1e3 * took, 1e-9 * flops(net) / took);
        fflush(stdout);
        qg_loader_free(data);
        qg_net_free(net);
    }
    return 0;
}
