#include "core/kernels/functions.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* --- log ------------------------------------------------------------------------------------ */

/* x = 2^k m, sqrt(1/2) <= m < sqrt(2), for 0 < x < inf. */
static double mantissa(double x, double *k)
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
double qg__log(double x)
{
    static const double c[] = { 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13,
                                2.0 / 11, 2.0 / 9,  2.0 / 7,  2.0 / 5,  2.0 / 3 };
    if (!(x > 0 && x < INFINITY)) return x < 0 ? NAN : x == 0 ? -INFINITY : x;
    double       k;
    const double f = mantissa(x, &k) - 1, s = f / (2 + f), z = s * s, h = 0.5 * f * f;
    const double series = z * qg__polynomial(z, COUNT(c), c);
    return k * QG__LN2_HIGH - ((h - (s * (h + series) + k * QG__LN2_LOW)) - f);
}

/* --- pow ------------------------------------------------------------------------------------ */

/* log x with an error of some 2^-65 of it.  Of log m = 2 s (1 + z (1/3 + z (1/5 + .. + z^10/25))), z = s^2,
 * what follows 1/3 is so small that one double suffices. */
static qg__dd log_in_two(double x)
{
    static const qg__dd third = { 1.0 / 3, 0x1p-54 / 3 };
    static const qg__dd ln2   = { 0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56 };
    static const double c[] = { 1.0 / 25, 1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15,
                                1.0 / 13, 1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5 };
    double       k;
    const double m      = mantissa(x, &k);
    const qg__dd s      = qg__dd_over((qg__dd){ m - 1, 0 }, qg__two_sum(m, 1));
    const qg__dd z      = qg__dd_times(s, s);
    const double rest   = z.high * qg__polynomial(z.high, COUNT(c), c);
    const qg__dd series = qg__dd_plus(third, (qg__dd){ rest, 0 });
    const qg__dd half   = qg__dd_plus(s, qg__dd_times(s, qg__dd_times(z, series)));
    return qg__dd_plus(qg__dd_times((qg__dd){ k, 0 }, ln2), (qg__dd){ 2 * half.high, 2 * half.low });
}

/* e^(y log x).  An error of y log x, which may be 700, is the relative error of the result: hence the two
 * doubles. */
double qg__pow(double x, double y)
{
    const qg__dd l = log_in_two(x), product = qg__two_product(y, l.high);
    return qg__exp_of_sum(product.high, product.low + y * l.low);
}

/* --- cos ------------------------------------------------------------------------------------ */

/* t = n/2 + r, |r| <= 1/4, exactly.  With v = pi r, cos(pi t) is cos v, -sin v, -cos v or sin v where n is 0,
 * 1, 2 or 3 modulo 4:
 *
 *     sin v = v + v^3 (-1/3! + v^2/5! - .. + v^14/17!)
 *     cos v = 1 - v^2/2 + v^4 (1/4! - v^2/6! + .. - v^14/18!)         the next terms are below 2^-62 */
double qg__cos_pi(double t)
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
    const int    quarter = (int)((int64_t)n & 3);
    double       y;
    if (quarter & 1) {
        y = v.high + (v.high * z * qg__polynomial(z, COUNT(sine), sine) + v.low);
    } else {
        const double h = 0.5 * z, one = 1 - h;          /* 1 - h = one + ((1 - one) - h) */
        y = one + (((1 - one) - h) + (z * z * qg__polynomial(z, COUNT(cosine), cosine) - v.high * v.low));
    }
    return quarter == 1 || quarter == 2 ? -y : y;
}
