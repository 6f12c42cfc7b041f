/* core/kernels/functions.h — exp, tanh, log, pow and cos in double, with the same bits on every machine.
 *
 * The functions of C libraries differ in the last bit between versions and machines.  These are sums,
 * products, quotients and selections of doubles in a fixed order, and IEEE 754 defines how each is rounded.
 * So a result does not depend on the compiler, the instruction set or the C library, as long as no product is
 * fused with a sum (-ffp-contract=off) and rounding is to nearest.
 *
 * Each function takes three steps [Cody, Waite 1980]: it reduces the argument to a small interval, sums a
 * Taylor series there, from its smallest term on, and undoes the reduction.  Where the rounding of a value
 * would show in the result, the value is kept as a sum of two doubles [Dekker 1971].  Errors are below 1 ulp
 * (tests/core/test_functions.c).  exp and tanh have no branches, so that loops over them vectorise.
 */
#ifndef QG_FUNCTIONS_H
#define QG_FUNCTIONS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/kernels/cpu.h"

static inline double qg__exp(double x);     /* e^x: 0 below about -745.1, inf above about 709.8 */
static inline double qg__tanh(double x);    /* odd; exactly +-1 from |x| = 19.07 on */
static inline double qg__log(double x);     /* as in C, -inf at 0 and NaN below it */
static inline double qg__pow(double x, double y);   /* x^y, 0 < x < inf, |y| < 2^900 */
static inline double qg__cos_pi(double t);  /* cos(pi t), |t| < 2^50: exactly 0 at 1/2, 1, 0 or -1 at n/2 */

/* Loops over n numbers. */
typedef struct qg__function_kernels {
    void (*exp)(size_t n, double *x);                       /* x = e^x */
    void (*sigmoid)(size_t n, const float *x, float *y);    /* y = 1 / (1 + e^-x), in double, rounded once */
    void (*tanh)(size_t n, const float *x, float *y);       /* likewise */
} qg__function_kernels;

QG_DECLARE_KERNELS(qg__function_kernels, qg__function_kernels);

/* e[k] = exp((x[k] - m) / temperature), the terms of a softmax, where *largest = m is the largest of x; a NaN is
 * skipped unless it is the first.  Returns their sum, in order. */
static inline double qg__softmax_terms(const qg__function_kernels *f, size_t n, const float *x, double temperature,
                                       double *e, double *largest)
{
    double m = (double)x[0], sum = 0;
    for (size_t k = 1; k < n; k++)
        if ((double)x[k] > m) m = (double)x[k];
    for (size_t k = 0; k < n; k++) e[k] = ((double)x[k] - m) / temperature;
    f->exp(n, e);
    for (size_t k = 0; k < n; k++) sum += e[k];
    *largest = m;
    return sum;
}

/* --- sums of two doubles -------------------------------------------------------------------- */

/* A double-double: high + low, where high is the sum rounded to double. */
typedef struct qg__dd {
    double high, low;
} qg__dd;

/* a + b without an error [Knuth, TAOCP 4.2.2, theorem B]. */
static inline qg__dd qg__two_sum(double a, double b)
{
    const double s = a + b, t = s - a;
    return (qg__dd){ s, (a - (s - t)) + (b - t) };
}

/* a b without an error, |a|, |b| < 2^996: halves of 26 bits have exact products [Dekker 1971]. */
static inline qg__dd qg__two_product(double a, double b)
{
    const double p = a * b, sa = a * (0x1p27 + 1), sb = b * (0x1p27 + 1);
    const double ah = sa - (sa - a), al = a - ah, bh = sb - (sb - b), bl = b - bh;
    return (qg__dd){ p, al * bl - (((p - ah * bh) - al * bh) - ah * bl) };
}

/* x + y, x y and x / y.  The error is some 2^-104 of the result; of a sum, of the larger term. */
static inline qg__dd qg__dd_plus(qg__dd x, qg__dd y)
{
    const qg__dd s = qg__two_sum(x.high, y.high);
    return qg__two_sum(s.high, s.low + (x.low + y.low));
}

static inline qg__dd qg__dd_times(qg__dd x, qg__dd y)
{
    const qg__dd p = qg__two_product(x.high, y.high);
    return qg__two_sum(p.high, p.low + (x.high * y.low + x.low * y.high));
}

static inline qg__dd qg__dd_over(qg__dd x, qg__dd y)
{
    const double q = x.high / y.high;
    const qg__dd p = qg__two_product(q, y.high);
    return qg__two_sum(q, (((x.high - p.high) - p.low) + (x.low - q * y.low)) / y.high);
}

/* --- steps that functions share ------------------------------------------------------------- */

/* c[0] x^(n - 1) + .. + c[n - 1], by Horner's rule. */
static inline double qg__polynomial(double x, int n, const double *c)
{
    double p = c[0];
    for (int i = 1; i < n; i++) p = p * x + c[i];
    return p;
}

/* The nearest integer, of two the even one; |x| < 2^51.  Doubles from 2^52 on have no fractions. */
static inline double qg__nearest(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

/* 2^k for whole k, -1022 <= k <= 1023.  The last bits of the sum are k + 1023, the exponent field of 2^k. */
static inline double qg__power_of_2(double k)
{
    const double sum = k + (0x1.8p52 + 1023);
    uint64_t     bits;
    double       power;
    memcpy(&bits, &sum, sizeof bits);
    bits <<= 52;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* ln 2 = high + low; high has 32 bits, so that k high is exact for whole |k| < 2^21. */
#define QG__LN2_HIGH 0x1.62e42feep-1
#define QG__LN2_LOW  0x1.a39ef35793c76p-33

/* --- exp ------------------------------------------------------------------------------------ */

/* e^(x + low) = 2^k (1 + result), with k = round(x / ln 2), |x| < 2^20 and |low| at most an ulp of x:
 *
 *     x + low - k ln 2 = r + rest,   r rounded, |r| <= ln(2) / 2
 *     e^r - 1 = r + r^2 (1/2! + r/3! + .. + r^12/14!)             the next term is below 2^-63 */
static inline qg__dd qg__exp_reduced(double x, double low, double *k)
{
    static const double c[] = { 1.0 / 87178291200, 1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800,
                                1.0 / 3628800,     1.0 / 362880,     1.0 / 40320,     1.0 / 5040,
                                1.0 / 720,         1.0 / 120,        1.0 / 24,        1.0 / 6,
                                1.0 / 2 };
    *k = qg__nearest(x * 0x1.71547652b82fep+0);         /* x / ln 2 */
    const double a = x - *k * QG__LN2_HIGH, b = low - *k * QG__LN2_LOW, r = a + b, rest = (a - r) + b;
    const double tail = r * r * qg__polynomial(r, sizeof c / sizeof *c, c) + rest, sum = r + tail;
    return (qg__dd){ sum, (r - sum) + tail };
}

/* e^(x + low).  2^k may be larger than any double, or smaller than any normal one; in two factors it is
 * neither, and only the second one rounds. */
static inline double qg__exp_of_sum(double x, double low)
{
    double       k;
    const double e    = qg__exp_reduced(x < -746 ? -746 : x > 710 ? 710 : x, low, &k).high;
    const double half = qg__nearest(0.5 * k);
    return (1 + e) * qg__power_of_2(half) * qg__power_of_2(k - half);
}

static inline double qg__exp(double x) { return qg__exp_of_sum(x, 0); }

/* --- tanh ----------------------------------------------------------------------------------- */

/* With e = e^(2|x|) - 1:  tanh |x| = e / (e + 2). */
static inline double qg__tanh(double x)
{
    double       k;
    const double a     = fabs(x) > 19.0625 ? 19.0625 : fabs(x);         /* there 1 - tanh is 2^-54 */
    const qg__dd r     = qg__exp_reduced(2 * a, 0, &k);
    const double power = qg__power_of_2(k);
    const qg__dd e     = qg__dd_plus(qg__two_sum(power - 1, power * r.high), (qg__dd){ power * r.low, 0 });
    const qg__dd d     = qg__two_sum(e.high, 2);
    return copysign(qg__dd_over(e, (qg__dd){ d.high, d.low + e.low }).high, x);
}

/* --- log ------------------------------------------------------------------------------------ */

/* x = 2^k m, sqrt(1/2) <= m < sqrt(2), for 0 < x < inf. */
static inline double qg__mantissa(double x, double *k)
{
    int    e;
    double m = frexp(x, &e);
    if (m < 0x1.6a09e667f3bcdp-1) m *= 2, e--;
    *k = e;
    return m;
}

/* With f = m - 1, s = f / (2 + f) and h = f^2 / 2, of which 2 s = f - f s and f s = h - h s:
 *
 *     log m = log((1 + s) / (1 - s)) = 2 s + 2/3 s^3 + 2/5 s^5 + ..
 *           = f - (h - s (h + 2/3 s^2 + 2/5 s^4 + .. + 2/21 s^20))      the next term is below 2^-59 f
 *
 * The one large term, f, is exact, so that the error of s is small in the result [fdlibm]. */
static inline double qg__log(double x)
{
    static const double c[] = { 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13,
                                2.0 / 11, 2.0 / 9,  2.0 / 7,  2.0 / 5,  2.0 / 3 };
    if (!(x > 0 && x < INFINITY)) return x < 0 ? NAN : x == 0 ? -INFINITY : x;
    double       k;
    const double f = qg__mantissa(x, &k) - 1, s = f / (2 + f), z = s * s, h = 0.5 * f * f;
    const double series = z * qg__polynomial(z, sizeof c / sizeof *c, c);
    return k * QG__LN2_HIGH - ((h - (s * (h + series) + k * QG__LN2_LOW)) - f);
}

/* --- pow ------------------------------------------------------------------------------------ */

/* log x with an error of some 2^-65 of it.  Of log m = 2 s (1 + z (1/3 + z (1/5 + .. + z^10/25))), z = s^2,
 * what follows 1/3 is so small that one double suffices. */
static inline qg__dd qg__log_in_two(double x)
{
    static const qg__dd third = { 1.0 / 3, 0x1p-54 / 3 };
    static const qg__dd ln2   = { 0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56 };
    static const double c[] = { 1.0 / 25, 1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15,
                                1.0 / 13, 1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5 };
    double       k;
    const double m      = qg__mantissa(x, &k);
    const qg__dd s      = qg__dd_over((qg__dd){ m - 1, 0 }, qg__two_sum(m, 1));
    const qg__dd z      = qg__dd_times(s, s);
    const double rest   = z.high * qg__polynomial(z.high, sizeof c / sizeof *c, c);
    const qg__dd series = qg__dd_plus(third, (qg__dd){ rest, 0 });
    const qg__dd half   = qg__dd_plus(s, qg__dd_times(s, qg__dd_times(z, series)));
    return qg__dd_plus(qg__dd_times((qg__dd){ k, 0 }, ln2), (qg__dd){ 2 * half.high, 2 * half.low });
}

/* e^(y log x).  An error of y log x, which may be 700, is the relative error of the result: hence the two
 * doubles. */
static inline double qg__pow(double x, double y)
{
    const qg__dd l = qg__log_in_two(x), product = qg__two_product(y, l.high);
    return qg__exp_of_sum(product.high, product.low + y * l.low);
}

/* --- cos ------------------------------------------------------------------------------------ */

/* t = n/2 + r, |r| <= 1/4, exactly.  With v = pi r, cos(pi t) is cos v, -sin v, -cos v or sin v where n is 0,
 * 1, 2 or 3 modulo 4:
 *
 *     sin v = v + v^3 (-1/3! + v^2/5! - .. + v^14/17!)
 *     cos v = 1 - v^2/2 + v^4 (1/4! - v^2/6! + .. - v^14/18!)         the next terms are below 2^-62 */
static inline double qg__cos_pi(double t)
{
    static const qg__dd pi = { 0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53 };
    static const double sine[]   = { 1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800,
                                     -1.0 / 39916800,       1.0 / 362880,         -1.0 / 5040,
                                     1.0 / 120,             -1.0 / 6 };
    static const double cosine[] = { -1.0 / 6402373705728000, 1.0 / 20922789888000, -1.0 / 87178291200,
                                     1.0 / 479001600,         -1.0 / 3628800,       1.0 / 40320,
                                     -1.0 / 720,              1.0 / 24 };
    const double n = qg__nearest(2 * t);
    const qg__dd v = qg__dd_times((qg__dd){ t - 0.5 * n, 0 }, pi);
    const double z = v.high * v.high;
    const int    quarter = fabs(t) < 0x1p50 ? (int)((int64_t)n & 3) : 0;     /* NaN is no integer */
    double       y;
    if (quarter & 1) {
        y = v.high + (v.high * z * qg__polynomial(z, sizeof sine / sizeof *sine, sine) + v.low);
    } else {
        const double series = z * z * qg__polynomial(z, sizeof cosine / sizeof *cosine, cosine);
        const double h = 0.5 * z, one = 1 - h;          /* 1 - h = one + ((1 - one) - h) */
        y = one + (((1 - one) - h) + (series - v.high * v.low));
    }
    return quarter == 1 || quarter == 2 ? -y : y;
}

#endif
