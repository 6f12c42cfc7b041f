/* Chapter 1: gradient descent on 32 weights of +1 or -1, with four answers to the question of how steep the
 * sign is.  A neuron y = sum of sign(w[i]) x[i] learns the signs of another neuron from its outputs.
 *
 *     cc -std=c11 -O2 -o staircase examples/course/staircase.c -lm && ./staircase [REACH] */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 32, STEPS = 3000 };

static double sign(double w) { return w >= 0 ? 1 : -1; }

/* Four answers. */
static double difference(double w) { return (sign(w + 1e-4) - sign(w - 1e-4)) / 2e-4; }
static double identity(double w) { (void)w; return 1; }
static double clip(double w) { return fabs(w) <= 1; }
static double approx_sign(double w) { return fmax(0, 2 - 2 * fabs(w)); }

/* Pseudo-random numbers, uniform in [-1, 1). */
static uint64_t state;
static double   uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / (1ull << 52) - 1;
}

static int right(const double *w, const double *teacher)
{
    int n = 0;
    for (int i = 0; i < N; i++) n += sign(w[i]) == teacher[i];
    return n;
}

/* reach: the weights start between -reach and reach. */
static void train(const char *name, double (*slope)(double), double reach)
{
    double w[N], teacher[N], x[N];
    state = 1;                                          /* the same start and the same data for every slope */
    for (int i = 0; i < N; i++) teacher[i] = sign(uniform()), w[i] = reach * uniform();
    printf("%-11s", name);
    for (int step = 0; step <= STEPS; step++) {
        if (step == 0 || step == 30 || step == 300 || step == STEPS) printf("%10d", right(w, teacher));
        double error = 0;                               /* loss = error^2 / 2 */
        for (int i = 0; i < N; i++) x[i] = uniform(), error += (sign(w[i]) - teacher[i]) * x[i];
        for (int i = 0; i < N; i++) w[i] -= 0.02 * error * x[i] * slope(w[i]);
    }
    int flat = 0;                                       /* wrong, and with a slope that will never move it */
    for (int i = 0; i < N; i++) flat += sign(w[i]) != teacher[i] && slope(w[i]) == 0;
    printf("%7d\n", flat);
}

int main(int argc, char **argv)
{
    const double reach = argc > 1 ? atof(argv[1]) : 1.5;
    printf("signs that are right, of %d\nslope          start   step 30  step 300  step 3000  stuck\n", N);
    train("difference", difference, reach), train("identity", identity, reach);
    train("clip", clip, reach), train("approx-sign", approx_sign, reach);
    return 0;
}
