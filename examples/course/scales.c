/* Chapter 3: the best threshold and scale of ternary weights of three distributions, found by scanning.
 *
 *     build/examples/course/scales [CURVES] */
#include <math.h>
#include <stdlib.h>

#include "qgrad.h"

enum { N = 40000 };

static float w[N];

static float gaussian(uint64_t i) { return qg_normal(1, i); }
static float uniform(uint64_t i) { return 2 * qg_uniform(1, i) - 1; }
static float laplace(uint64_t i) { return copysignf(logf(1 - qg_uniform(1, i)), qg_uniform(2, i) - 0.5f); }

/* For threshold d: the scale a, the mean |w| of the weights beyond d, and what is lost, the sum of
 * (w - q)^2 as a fraction of the sum of w^2. */
static double lost(double d, double *a)
{
    double sum = 0, n = 0, all = 0, error = 0;
    for (int i = 0; i < N; i++)
        if (fabsf(w[i]) > d) sum += fabsf(w[i]), n++;
    *a = sum / fmax(n, 1);
    for (int i = 0; i < N; i++) {
        const double q = fabsf(w[i]) > d ? copysign(*a, w[i]) : 0;
        error += (w[i] - q) * (w[i] - q), all += w[i] * w[i];
    }
    return error / all;
}

int main(int argc, char **argv)
{
    (void)argv;
    static const struct { const char *name; float (*draw)(uint64_t); } distribution[] = {
        { "gaussian", gaussian }, { "uniform", uniform }, { "laplace", laplace } };
    const bool curves = argc > 1;               /* print what the figure shows */
    if (!curves) printf("weights      best d / mean|w|   a / d   lost there   lost at 0.7\n");
    for (int k = 0; k < 3; k++) {
        double mean = 0, best = 0, least = 1, a;
        for (int i = 0; i < N; i++) w[i] = distribution[k].draw((uint64_t)i), mean += fabsf(w[i]) / N;
        for (double t = 0; t < 2; t += curves ? 0.05 : 0.01) {
            const double now = lost(t * mean, &a);
            if (curves) printf("%s %.2f %.4f\n", distribution[k].name, t, now);
            if (now < least) least = now, best = t;
        }
        lost(best * mean, &a);
        const double ratio = a / (best * mean), paper = lost(0.7 * mean, &a);
        if (!curves) printf("%-10s %18.2f %7.2f %10.2f %% %11.2f %%\n", distribution[k].name, best, ratio,
                            100 * least, 100 * paper);
        /* The library's TWN has the same scale as the loop above. */
        float         *q = malloc(sizeof w);
        qg_quantizer  *z = qg_quantizer_parse("twn", QG_WEIGHT, (qg_shape){ 1, 1, 1, N });
        if (!q || !z || qg_quantizer_forward(z, QG_EVAL, w, q)) return qg_print_error("scales");
        for (int i = 0; i < N; i++)
            if (q[i] != 0 && fabs(fabsf(q[i]) - a) > 1e-5 * a) return printf("twn has another scale\n"), 1;
        qg_quantizer_free(z), free(q);
    }
    return 0;
}
