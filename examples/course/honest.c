/* Chapter 8: what chance alone does to a test accuracy.  Every net here classifies an image correctly with a
 * probability of 87.5 %, so none is better than another.
 *
 *     cc -std=c11 -O2 -o honest examples/course/honest.c -lm && ./honest */
#include <math.h>
#include <stdint.h>
#include <stdio.h>

enum { TRIALS = 2000 };
static const double p = 0.875;

/* Pseudo-random, uniform in [0, 1). */
static double uniform(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / (1ull << 53);
}

/* The accuracy that a test on n images measures. */
static double measured(int n)
{
    int right = 0;
    for (int i = 0; i < n; i++) right += uniform() < p;
    return (double)right / n;
}

int main(void)
{
    static const int images[] = { 500, 2000, 10000 }, looks[] = { 1, 3, 10, 30 };
    printf("images   standard error   two equal nets differ by a point or more\n");
    for (int k = 0; k < 3; k++) {
        const int n = images[k];
        int       apart = 0;
        for (int t = 0; t < 10 * TRIALS; t++) apart += fabs(measured(n) - measured(n)) >= 0.0099;
        printf("%6d %14.2f %% %26.0f %%\n", n, 100 * sqrt(p * (1 - p) / n), 10.0 * apart / TRIALS);
    }
    printf("\nlooks at 500 test images   the best of them, on average\n");
    for (int k = 0; k < 4; k++) {
        double sum = 0;
        for (int t = 0; t < TRIALS; t++) {
            double best = 0;
            for (int i = 0; i < looks[k]; i++) best = fmax(best, measured(500));
            sum += best / TRIALS;
        }
        printf("%14d %26.1f %%\n", looks[k], 100 * sum);
    }
    /* 435 and 440 of the same 500 images are right: 87.0 and 88.0 %.  On 20 images only the first net is
     * right, on 25 only the second.  If neither were better, each of these 45 would be a toss of a coin. */
    int as_far = 0;
    for (int t = 0; t < 10 * TRIALS; t++) {
        int heads = 0;
        for (int i = 0; i < 45; i++) heads += uniform() < 0.5;
        as_far += heads <= 20 || heads >= 25;
    }
    printf("\n45 coins fall 20 to 25 or further apart in %.0f %% of trials\n", 10.0 * as_far / TRIALS);
    return 0;
}
