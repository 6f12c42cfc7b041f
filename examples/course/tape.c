/* Chapter 2: a small tape at work, and the check that a quantizer's gradient needs.
 *
 *     cc -std=c11 -O2 -o tape examples/course/tape.c -lm && ./tape */
#include "tape.h"

enum { IN = 3, OUT = 2, WEIGHTS = IN * OUT };

static const double x[IN] = { 0.5, -1, 0.8 }, target[OUT] = { 0.3, -0.6 }, threshold = 0.3, scale = 0.7;

static double ternary(double w) { return w > threshold ? scale : w < -threshold ? -scale : 0; }

/* The loss of y = tanh(W x) with ternary W.  at NULL: q is the staircase; else it is the surrogate, a line of
 * slope 1 that meets the staircase at the weights in at. */
static int loss_of(const double *w, const double *at)
{
    n_vars = 0;                                 /* a new tape; the weights are its first vars */
    for (int i = 0; i < WEIGHTS; i++) leaf(w[i]);
    int loss = leaf(0);
    for (int o = 0; o < OUT; o++) {
        int sum = leaf(0);
        for (int i = 0; i < IN; i++) {
            const int    k = o * IN + i;
            const double q = at ? ternary(at[k]) + w[k] - at[k] : ternary(w[k]);
            sum = add(sum, mul(quantized(k, q, 1), leaf(x[i])));
        }
        const int error = add(tanh_of(sum), leaf(-target[o]));
        loss = add(loss, mul(error, error));
    }
    return loss;
}

/* How fast the loss changes with weight k: (L(w + h) - L(w - h)) / 2h. */
static double difference(const double *w, int k, const double *at)
{
    const double h = 1e-4;
    double       above[WEIGHTS], below[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++) above[i] = below[i] = w[i];
    above[k] += h, below[k] -= h;
    return (value(loss_of(above, at)) - value(loss_of(below, at))) / (2 * h);
}

int main(void)
{
    const var *t = tape;
    const int  a = leaf(2), b = leaf(-0.25), y = tanh_of(add(mul(a, b), a));
    backward(y);
    printf("var  op      of       value    d y / d var\n");
    for (int i = 0; i < n_vars; i++)
        printf("%3d  %-6s %3d %3d %9.4f %14.4f\n", i, t[i].op, t[i].a, t[i].b, t[i].value, t[i].grad);

    const double w[WEIGHTS] = { 0.9, -0.1, -0.5, 0.2, 0.35, -1.2 };
    double       grad[WEIGHTS];
    backward(loss_of(w, NULL));
    for (int k = 0; k < WEIGHTS; k++) grad[k] = tape[k].grad;
    printf("\n     w     q(w)   backward  difference  difference of the surrogate\n");
    for (int k = 0; k < WEIGHTS; k++)
        printf("%6.2f %8.2f %10.4f %11.4f %12.4f\n", w[k], ternary(w[k]), grad[k], difference(w, k, NULL),
               difference(w, k, w));
    return 0;
}
