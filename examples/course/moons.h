/* Chapter 6: two half moons, and a small net on the tape of chapter 2 that tells them apart. */
#include <stdint.h>
#include "tape.h"

/* The net is y = sum over h of v[h] tanh(u[h][0] x0 + u[h][1] x1 + b[h]) + c; y > 0 means the first moon. */
enum { TRAIN = 200, TEST = 500, H = 16, FIRST = 2 * H, W = 3 * H, ALL = W + H + 1 };

static double   point[TRAIN + TEST][2], side[TRAIN + TEST];     /* side: +1 or -1, which moon it is */
static double   latent[ALL], q[ALL];                            /* u, v, b, c; b and c are never quantized */
static uint64_t state;

static double uniform(void)                                     /* pseudo-random, in [-1, 1) */
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / (1ull << 52) - 1;
}

/* Draws the points and the initial values. */
static void start(uint64_t seed)
{
    state = seed;
    for (int i = 0; i < TRAIN + TEST; i++) {
        const double angle = 1.5707963 * (1 + uniform()), s = side[i] = i % 2 ? 1 : -1;
        for (int k = 0; k < 2; k++) {
            const double noise = 0.4 * uniform();
            point[i][k] = 2 * s * (k ? sin(angle) - 0.25 : cos(angle) - 0.5) + noise + 0.4 * uniform();
        }
    }
    for (int k = 0; k < ALL; k++) latent[k] = (k < W ? 1 : 2) * uniform();
}

/* levels 0: q = w;  2: -a or +a;  3: -a, 0 or +a, by the rule of TWN (chapter 3). */
static void quantize(int levels, int from, int to)
{
    double mean = 0, sum = 0, n = 0;
    for (int k = from; k < to; k++) mean += fabs(latent[k]) / (to - from);
    const double d = levels == 3 ? 0.7 * mean : 0;
    for (int k = from; k < to; k++)
        if (fabs(latent[k]) > d) sum += fabs(latent[k]), n++;
    for (int k = from; k < to; k++)
        q[k] = levels == 0 ? latent[k] : fabs(latent[k]) > d ? copysign(sum / n, latent[k]) : 0;
}

/* A new tape.  Vars 0 to ALL - 1 are the latent values, the next ALL are what the net computes with. */
static void begin(int levels)
{
    quantize(levels, 0, FIRST), quantize(levels, FIRST, W), quantize(0, W, ALL);
    n_vars = 0;
    for (int k = 0; k < ALL; k++) leaf(latent[k]);
    for (int k = 0; k < ALL; k++) quantized(k, q[k], 1);            /* straight through */
}

/* Records the net at point i and returns y. */
static int forward(int i)
{
    const int x0 = leaf(point[i][0]), x1 = leaf(point[i][1]);
    int       y = 2 * ALL - 1;
    for (int h = 0; h < H; h++) {
        const int z = add(add(mul(ALL + 2 * h, x0), mul(ALL + 2 * h + 1, x1)), ALL + W + h);
        y = add(y, mul(ALL + FIRST + h, tanh_of(z)));
    }
    return y;
}
