/* Chapter 6: float, binary and ternary nets learn two half moons, with a constant and a falling rate.
 *
 *     cc -std=c11 -O2 -o moons examples/course/moons.c -lm && ./moons [SEEDS [flips]] */
#include <stdlib.h>
#include "moons.h"

enum { BATCH = 10, STEPS = TRAIN / BATCH, EPOCHS = 40 };

static double flipped[EPOCHS];          /* codes that changed in each epoch, in percent, summed over seeds */

static int code(int k) { return (q[k] > 0) - (q[k] < 0); }

/* Returns the accuracy on the test points, in percent. */
static double train(int levels, bool falls)
{
    int before[W];
    for (int step = 0; step <= EPOCHS * STEPS; step++) {
        begin(levels);
        for (int k = 0; k < W && step % STEPS == 0; k++) {              /* an epoch ends or begins */
            if (step > 0) flipped[step / STEPS - 1] += 100.0 / W * (code(k) != before[k]);
            before[k] = code(k);
        }
        if (step == EPOCHS * STEPS) break;
        int loss = leaf(0);
        for (int b = 0; b < BATCH; b++) {
            const int i = step % STEPS * BATCH + b, error = add(forward(i), leaf(-side[i]));
            loss = add(loss, mul(error, error));
        }
        backward(loss);
        const double progress = (double)step / (EPOCHS * STEPS);
        const double rate = 0.1 * (falls ? (1 + cos(3.14159265 * progress)) / 2 : 1);
        for (int k = 0; k < ALL; k++) latent[k] -= rate / BATCH * tape[k].grad;
    }
    double right = 0;
    for (int i = TRAIN, first = n_vars; i < TRAIN + TEST; i++, n_vars = first)
        right += value(forward(i)) * side[i] > 0;
    return 100 * right / TEST;
}

int main(int argc, char **argv)
{
    const int seeds = argc > 1 ? atoi(argv[1]) : 5;
    static const struct { int levels; const char *name; } net[] = { { 0, "float" }, { 2, "binary" },
                                                                    { 3, "ternary" } };
    if (seeds < 1) return fprintf(stderr, "usage: moons [SEEDS [flips]]\n"), 2;
    if (argc < 3) printf("weights  rate      accuracy  flipped in the last epoch\n");
    for (int n = 0; n < 3; n++)
        for (int falls = 0; falls < 2; falls++) {
            double accuracy = 0;
            for (int e = 0; e < EPOCHS; e++) flipped[e] = 0;
            for (int seed = 1; seed <= seeds; seed++)
                start((uint64_t)seed), accuracy += train(net[n].levels, falls);
            const char *rate = falls ? "cosine" : "constant";
            if (argc < 3) printf("%-8s %-8s %7.1f %% %9.1f %%\n", net[n].name, rate, accuracy / seeds,
                                 flipped[EPOCHS - 1] / seeds);
            for (int e = 0; e < EPOCHS && argc > 2; e++)        /* what the figure shows */
                printf("%s %s %d %.3f\n", net[n].name, rate, e + 1, flipped[e] / seeds);
        }
    return 0;
}
