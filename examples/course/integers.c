/* Chapter 7: three sums that need no floats.
 *
 *     cc -std=c11 -O2 -o integers examples/course/integers.c -lm && ./integers */
#include <math.h>
#include <stdint.h>
#include <stdio.h>

/* x = scale (code - zero), codes 0 .. 255, for a range of -0.4 .. 1.2. */
static void zero_point(void)
{
    static const double x[] = { -0.4, 0, 0.33, 0.7, 1.2 };
    static const int    w[] = { 3, -7, 1, 0, -2 };              /* codes of weights, whose scale is 0.05 */
    const double scale = (1.2 + 0.4) / 255;
    const int    zero  = (int)lrint(0.4 / scale);               /* the code of 0: a whole number */
    long         codes = 0, weights = 0;
    double       floats = 0;
    printf("scale %.6f, zero point %d\n       x   code   scale (code - zero)\n", scale, zero);
    for (int i = 0; i < 5; i++) {
        const int code = (int)lrint(x[i] / scale) + zero;
        printf("%8.4f %6d %21.4f\n", x[i], code, scale * (code - zero));
        codes += code * w[i], weights += w[i];
        floats += scale * (code - zero) * 0.05 * w[i];
    }
    const long sum = codes - zero * weights;
    printf("sum of floats %.6f, of codes %ld - %d * (%ld) = %ld, times both scales %.6f\n\n", floats, codes,
           zero, weights, sum, scale * 0.05 * (double)sum);
}

/* sign(gamma (y - mean) / deviation + beta) of a sum y of n signs compares y with a whole number. */
static void threshold(void)
{
    const double gamma = 0.8, mean = 3.7, deviation = 9.1, beta = -0.25;
    const double crosses = mean - beta * deviation / gamma;     /* where the batch norm is 0 */
    const int    n = 64, least = (int)ceil(crosses);
    int          differ = 0;
    for (int y = -n; y <= n; y++)
        differ += (gamma * (y - mean) / deviation + beta >= 0) != (y >= least);
    printf("the batch norm is %.4f (y - %.4f): its sign is +1 where y >= %d\n", gamma / deviation, crosses,
           least);
    printf("of %d sums y, both disagree on %d\n\n", 2 * n + 1, differ);
}

/* The dot product of 64 signs: bit 1 stands for +1, bit 0 for -1. */
static void popcount(void)
{
    const uint64_t a = 0x0123456789abcdefu * 0x9e3779b97f4a7c15u, b = a * 0xbf58476d1ce4e5b9u;
    int            dot = 0, unequal = 0;
    for (int i = 0; i < 64; i++) dot += ((a >> i & 1) ? 1 : -1) * ((b >> i & 1) ? 1 : -1);
    for (uint64_t rest = a ^ b; rest; rest &= rest - 1) unequal++;      /* removes the lowest bit that is 1 */
    printf("64 products and a sum: %d;  64 - 2 popcount(a xor b) = 64 - 2 * %d = %d\n", dot, unequal,
           64 - 2 * unequal);
}

int main(void)
{
    zero_point(), threshold(), popcount();
    return 0;
}
