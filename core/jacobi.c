#include "core/jacobi.h"

#include <math.h>
#include <stdbool.h>

/* The method converges quadratically: more sweeps are never needed. */
enum { MOST_SWEEPS = 50 };

/* Where element (p, q) becomes 0: cosine and sine of the smaller angle. */
static void angle(double pp, double pq, double qq, double *c, double *s)
{
    const double tau = (qq - pp) / (2 * pq);
    const double t   = (tau < 0 ? -1 : 1) / (fabs(tau) + sqrt(1 + tau * tau));
    *c = 1 / sqrt(1 + t * t);
    *s = t * *c;
}

/* (x, y) = (c x - s y, s x + c y), for n pairs of numbers that lie so far apart. */
static void turn(int n, int apart, double c, double s, double *x, double *y)
{
    for (int i = 0; i < n * apart; i += apart) {
        const double was = x[i];
        x[i] = c * was - s * y[i];
        y[i] = s * was + c * y[i];
    }
}

static bool sweep(int n, double least, double *a, double *vector)
{
    bool turned = false;
    for (int p = 0; p < n; p++)
        for (int q = p + 1; q < n; q++) {
            double c, s;
            if (fabs(a[p * n + q]) <= least) continue;
            angle(a[p * n + p], a[p * n + q], a[q * n + q], &c, &s);
            turn(n, n, c, s, a + p, a + q);                     /* columns, then rows */
            turn(n, 1, c, s, a + p * n, a + q * n);
            turn(n, 1, c, s, vector + p * n, vector + q * n);
            a[p * n + q] = a[q * n + p] = 0;
            turned = true;
        }
    return turned;
}

static void exchange(int n, double *x, double *y)
{
    for (int i = 0; i < n; i++) {
        const double was = x[i];
        x[i] = y[i];
        y[i] = was;
    }
}

void qg__jacobi(int n, double *a, double *value, double *vector)
{
    double squares = 0;
    for (int i = 0; i < n * n; i++) {
        squares += a[i] * a[i];
        vector[i] = i % (n + 1) == 0;
    }
    const double least = 0x1p-53 * sqrt(squares) / n;
    for (int i = 0; i < MOST_SWEEPS && sweep(n, least, a, vector); i++) { }
    for (int i = 0; i < n; i++) value[i] = a[i * n + i];
    for (int i = 0; i < n; i++) {
        int most = i;
        for (int k = i + 1; k < n; k++)
            if (value[k] > value[most]) most = k;
        if (most == i) continue;
        exchange(1, &value[i], &value[most]);
        exchange(n, vector + i * n, vector + most * n);
    }
}
