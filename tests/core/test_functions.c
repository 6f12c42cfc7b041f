#include "tests/support/testing.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#include "core/io/hash.h"
#include "core/kernels/functions.h"
#include "core/rng.h"

static double exp_of(double x, double y) { return (void)y, qg__exp(x); }
static double tanh_of(double x, double y) { return (void)y, qg__tanh(x); }
static double log_of(double x, double y) { return (void)y, qg__log(x); }
static double cos_of(double x, double y) { return (void)y, qg__cos_pi(x); }

/* --- arguments ---------------------------------------------------------------------------------- */

/* Uniform in [0, 1), and in [lo, hi); 2^lo .. 2^hi with a uniform exponent. */
static double unit(uint64_t key, uint64_t i) { return (double)(qg_bits(key, i) >> 11) * 0x1p-53; }
static double between(double lo, double hi, uint64_t key, uint64_t i)
{
    return lo + (hi - lo) * unit(key, i);
}
static double scaled(int lo, int hi, uint64_t key, uint64_t i)
{
    return ldexp(1 + unit(key, i), lo + (int)(unit(key + 1, i) * (hi - lo)));
}

typedef struct arguments {
    double x, y;
} arguments;

static arguments exp_all(uint64_t i) { return (arguments){ between(-750, 712, 1, i), 0 }; }
static arguments exp_near(uint64_t i) { return (arguments){ between(-1, 1, 2, i), 0 }; }
static arguments exp_small(uint64_t i) { return (arguments){ scaled(-1074, 1, 3, i) * (i % 2 ? 1 : -1), 0 }; }
static arguments tanh_all(uint64_t i) { return (arguments){ between(-20, 20, 4, i), 0 }; }
static arguments tanh_near(uint64_t i) { return (arguments){ scaled(-40, 3, 5, i), 0 }; }
static arguments tanh_small(uint64_t i) { return (arguments){ -scaled(-1074, -20, 6, i), 0 }; }
static arguments log_all(uint64_t i) { return (arguments){ scaled(-1074, 1023, 7, i), 0 }; }
static arguments log_near(uint64_t i)
{
    return (arguments){ 1 + between(-0.6, 1, 8, i) * ldexp(1, -(int)(i % 50)), 0 };
}
static arguments cos_all(uint64_t i) { return (arguments){ between(-0x1p20, 0x1p20, 9, i), 0 }; }
static arguments cos_turn(uint64_t i) { return (arguments){ between(0, 2, 10, i), 0 }; }
static arguments cos_zero(uint64_t i)
{
    return (arguments){ 0.5 + between(-0.5, 0.5, 11, i) * ldexp(1, -(int)(i % 50)), 0 };
}
/* The steps of Adam, 1 to 2^20, and the progress of schedules. */
static arguments pow_step(uint64_t i)
{
    static const float beta[] = { 0.9f, 0.99f, 0.999f, 0.9999f, 0.5f };
    return (arguments){ (double)beta[i % 5], floor(scaled(0, 20, 12, i)) };
}
static arguments pow_progress(uint64_t i)
{
    return (arguments){ (double)(float)scaled(-30, 10, 13, i), unit(15, i) };
}
/* Results from the smallest to the largest double. */
static arguments pow_all(uint64_t i)
{
    const double x = scaled(-1074, 1023, 16, i);
    return (arguments){ x, between(-745, 710, 18, i) / qg__log(x) };
}

/* --- errors ------------------------------------------------------------------------------------- */

#if LDBL_MANT_DIG >= 64
static long double exact_exp(double x, double y) { return (void)y, expl(x); }
static long double exact_tanh(double x, double y) { return (void)y, tanhl(x); }
static long double exact_log(double x, double y) { return (void)y, logl(x); }
static long double exact_pow(double x, double y) { return powl(x, y); }
static long double exact_cos(double t, double y)
{
    const long double pi = 3.141592653589793238462643383279502884L, n = rintl(2 * (long double)t);
    const long double v  = pi * (t - n / 2);
    (void)y;
    switch ((long long)n & 3) {
    case 0: return cosl(v);
    case 1: return -sinl(v);
    case 2: return -cosl(v);
    default: return sinl(v);
    }
}
#define EXACT(name) exact_##name
#else
#define EXACT(name) NULL
#endif

typedef struct set {
    const char *name;
    double      (*of)(double x, double y);
    long double (*exact)(double x, double y);
    arguments   (*at)(uint64_t i);
    uint64_t    digest;         /* of the first DIGESTED results */
} set;

enum { DIGESTED = 10000 };

static const set sets[] = {
    { "exp", exp_of, EXACT(exp), exp_all, 0x5276A9E61F7A6EF3u },
    { "exp, -1..1", exp_of, EXACT(exp), exp_near, 0x6E5E0FDEAEBFFB34u },
    { "exp, small", exp_of, EXACT(exp), exp_small, 0x052FEAE40E85C91Fu },
    { "tanh", tanh_of, EXACT(tanh), tanh_all, 0x2F841547C77B37A0u },
    { "tanh, near 0", tanh_of, EXACT(tanh), tanh_near, 0xF4E966C17413D8F3u },
    { "tanh, small", tanh_of, EXACT(tanh), tanh_small, 0xCA72683D9DDAD67Eu },
    { "log", log_of, EXACT(log), log_all, 0xC3ECB0CB8A694495u },
    { "log, near 1", log_of, EXACT(log), log_near, 0x413800E0628DB866u },
    { "cos", cos_of, EXACT(cos), cos_all, 0x87BC77D63BE61DA4u },
    { "cos, one turn", cos_of, EXACT(cos), cos_turn, 0x81CD799B9BBBF169u },
    { "cos, near 1/2", cos_of, EXACT(cos), cos_zero, 0xE6B20AA7EF7B0CB6u },
    { "pow, steps", qg__pow, EXACT(pow), pow_step, 0xE230DD021B58BBE3u },
    { "pow, progress", qg__pow, EXACT(pow), pow_progress, 0x6F379E6F4C030993u },
    { "pow", qg__pow, EXACT(pow), pow_all, 0x260DCCA5B52741A2u },
};
enum { SETS = sizeof sets / sizeof *sets };

#if LDBL_MANT_DIG >= 64
/* In units of the last bit of a double as large as want. */
static double ulps(double got, long double want)
{
    int e;
    if (isinf((double)want) || isinf(got)) return got == (double)want ? 0 : INFINITY;
    frexpl(want, &e);
    return (double)fabsl((got - want) / ldexpl(1, (e < -1021 ? -1021 : e) - 53));
}

/* The functions of long double are off by a few of their ulps, each 2^-11 of a double's.  Where they have quadruple
 * precision, they take long. */
static void errors_are_below_1_ulp(void **state)
{
    const uint64_t n = LDBL_MANT_DIG > 64 ? 5000 : 400000;
    for (int s = 0; s < SETS; s++)
        for (uint64_t i = 0; i < n; i++) {
            const arguments a   = sets[s].at(i);
            const double    got = sets[s].of(a.x, a.y), error = ulps(got, sets[s].exact(a.x, a.y));
            if (!(error < 1 - 0x1p-8))
                fail_msg("%s of %.17g, %.17g: %.17g, %.3f ulp off", sets[s].name, a.x, a.y, got, error);
        }
}
#endif

/* --- bits --------------------------------------------------------------------------------------- */

/* Trainings end in the same bytes on every machine because these do. */
static void bits_are_those_recorded(void **state)
{
    char text[SETS * 64];
    int  n = 0;
    for (int s = 0; s < SETS; s++) {
        uint64_t digest = 0;
        for (uint64_t i = 0; i < DIGESTED; i++) {
            const arguments a = sets[s].at(i);
            const double    y = sets[s].of(a.x, a.y);
            uint64_t        bits;
            memcpy(&bits, &y, sizeof bits);
            digest = qg_hash_word(digest, bits);
        }
        if (digest != sets[s].digest)
            n += snprintf(text + n, sizeof text - (size_t)n, "\n%s: 0x%016llX", sets[s].name, (unsigned long long)digest);
    }
    if (n) fail_msg("others:%s", text);
}

typedef struct value {
    double (*of)(double x, double y);
    double x, y, want;
} value;

static const value values[] = {
    /* Exact results, and what is no number or none that a double holds. */
    { exp_of, 0, 0, 1 },
    { exp_of, -0.0, 0, 1 },
    { exp_of, 0x1p-1074, 0, 1 },
    { exp_of, INFINITY, 0, INFINITY },
    { exp_of, -INFINITY, 0, 0 },
    { exp_of, 1e300, 0, INFINITY },
    { exp_of, -1e300, 0, 0 },
    { exp_of, 709.78271289338409, 0, INFINITY },
    { exp_of, -745.13321910194122, 0, 0 },
    { exp_of, -745.13321910194111, 0, 0x1p-1074 },
    { exp_of, NAN, 0, NAN },
    { tanh_of, 0, 0, 0 },
    { tanh_of, -0.0, 0, -0.0 },
    { tanh_of, 0x1p-1074, 0, 0x1p-1074 },
    { tanh_of, -0x1p-1022, 0, -0x1p-1022 },
    { tanh_of, 19.0625, 0, 1 },
    { tanh_of, -INFINITY, 0, -1 },
    { tanh_of, 1e300, 0, 1 },
    { tanh_of, NAN, 0, NAN },
    { log_of, 1, 0, 0 },
    { log_of, 0, 0, -INFINITY },
    { log_of, -0.0, 0, -INFINITY },
    { log_of, -0x1p-1074, 0, NAN },
    { log_of, INFINITY, 0, INFINITY },
    { log_of, NAN, 0, NAN },
    { cos_of, 0, 0, 1 },
    { cos_of, 1, 0, -1 },
    { cos_of, -0x1p40 - 1, 0, -1 },
    { qg__pow, 2, 10, 1024 },
    { qg__pow, 0.5, 1074, 0x1p-1074 },
    { qg__pow, 2, 1024, INFINITY },
    { qg__pow, 0.3, 0, 1 },
    { qg__pow, 1, 1e6, 1 },
    { qg__pow, 0.1, 1, 0.1 },
};

static void values_are_exact_where_they_can_be(void **state)
{
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const value  v = values[i];
        const double y = v.of(v.x, v.y);
        if (isnan(v.want) ? !isnan(y) : y != v.want || !signbit(y) != !signbit(v.want))
            fail_msg("%zu: of %.17g, %.17g: %.17g, not %.17g", i, v.x, v.y, y, v.want);
    }
    assert_true(qg__cos_pi(0.5) == 0 && qg__cos_pi(1.5) == 0 && qg__cos_pi(-123456.5) == 0);
}

/* --- loops -------------------------------------------------------------------------------------- */

/* Each instruction set, each length of a last vector, and NaN, which both keep. */
static void loops_have_the_bits_of_the_functions(void **state)
{
    enum { MOST = 67 };
    static const float special[] = { 0,       -0.0f,    INFINITY,  -INFINITY, NAN,
                                     FLT_MAX, -FLT_MAX, 0x1p-149f, -800,      90 };
    for (int isa = 0; isa <= (int)qg__isa(); isa++)
        for (size_t n = 0; n <= MOST; n++) {
            const qg__function_kernels *k = QG_KERNELS_OF((qg_isa)isa, qg__function_kernels);
            double e[MOST];
            float  x[MOST], s[MOST], t[MOST];
            for (size_t i = 0; i < n; i++)
                x[i] = i % 7 ? (float)between(-30, 30, n, i) : special[(i / 7 + n) % 10];
            for (size_t i = 0; i < n; i++) e[i] = (double)x[i];
            k->exp(n, e);
            k->sigmoid(n, x, s);
            k->tanh(n, x, t);
            for (size_t i = 0; i < n; i++) {
                const double v = (double)x[i], of[] = { qg__exp(v), 1 / (1 + qg__exp(-v)), qg__tanh(v) };
                const double got[] = { e[i], (double)s[i], (double)t[i] };
                for (int f = 0; f < 3; f++) {
                    const double want = f == 0 ? of[f] : (double)(float)of[f];
                    if (isnan(x[i]) ? !isnan(got[f]) : memcmp(&want, &got[f], sizeof want))
                        fail_msg("isa %d, n %zu, function %d of %.9g: %.17g", isa, n, f, v, got[f]);
                }
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#if LDBL_MANT_DIG >= 64
        cmocka_unit_test(errors_are_below_1_ulp),
#endif
        cmocka_unit_test(bits_are_those_recorded),
        cmocka_unit_test(values_are_exact_where_they_can_be),
        cmocka_unit_test(loops_have_the_bits_of_the_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
