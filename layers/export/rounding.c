#include <float.h>
#include <math.h>

#include "layers/export/writer.h"

enum { FEW = 16 };              /* thresholds that are compared faster than one of them is looked up */

/* Each operation is rounded to float. */
static float number_of(const qg__rounding *f, float x)
{
    float v = x - f->first;
    v       = f->multiplies ? v * f->by : v / f->by;
    v       = f->half_up ? floorf(v + 0.5f) : rintf(v);
    return fminf(fmaxf(v, f->lowest), f->highest);
}

/* Whether code u of x is found. */
static bool finds(const qg__rounding *f, float x, int u)
{
    const float n = number_of(f, x) - f->lowest;
    if (f->how == QG__ROUNDS) return n == (float)u;
    return n == (float)u || n == (float)(u - 1);
}

/* n never falls while x grows, so both ends of each interval between thresholds tell. */
static bool finds_all(const qg__rounding *f, int thresholds, const float *threshold)
{
    int reached = 0;
    while (reached < thresholds && threshold[reached] == -INFINITY) reached++;
    if (!finds(f, -FLT_MAX, reached)) return false;
    for (int u = reached; u < thresholds && threshold[u] < INFINITY; u++) {
        const float below = nextafterf(threshold[u], -INFINITY);
        if (u + 1 < thresholds && threshold[u + 1] == threshold[u]) return false; /* a code that no x has */
        if (!finds(f, below, u) || !finds(f, threshold[u], u + 1)) return false;
        reached = u + 1;
    }
    return finds(f, FLT_MAX, reached);
}

/* The formulas of most quantizers, from the simplest one on. */
static bool find_exact(qg__rounding *f, const qg__packed_step *r, const float *threshold)
{
    const float scale = r->q_scale, ways[] = { scale, 1.0f / scale, rintf(1.0f / scale) };
    for (int shifted = 0; shifted < 2; shifted++)
        for (int up = 0; up < 2; up++)
            for (int way = 0; way < 3; way++) {
                const float lowest = shifted ? 0.0f : (float)r->q_lowest;
                *f = (qg__rounding){ .how = QG__ROUNDS, .multiplies = way > 0, .half_up = up > 0,
                                     .first = shifted ? scale * (float)r->q_lowest : 0.0f, .by = ways[way],
                                     .lowest = lowest, .highest = lowest + (float)(r->q_count - 1) };
                if (f->by > 0 && isfinite(f->by) && finds_all(f, r->q_count - 1, threshold)) return true;
            }
    return false;
}

/* A line through the first and the last finite threshold. */
static bool find_guess(qg__rounding *f, int thresholds, const float *threshold)
{
    int first = 0, last = thresholds - 1;
    while (first < last && !isfinite(threshold[first])) first++;
    while (last > first && !isfinite(threshold[last])) last--;
    if (first == last) return false;
    const double spacing = ((double)threshold[last] - (double)threshold[first]) / (last - first);
    *f = (qg__rounding){ .how = QG__GUESSES, .multiplies = true, .by = (float)(1.0 / spacing),
                         .first = (float)((double)threshold[first] - spacing * first),
                         .highest = (float)(thresholds - 1) };
    return f->by > 0 && isfinite(f->by) && isfinite(f->first) && finds_all(f, thresholds, threshold);
}

qg__rounding qg__rounding_of(const qg__packed_step *r, const float *threshold)
{
    qg__rounding f = { .how = QG__ROUNDS, .by = 1 };
    if (r->q_count == 1) return f;
    if (r->q_step == 1 && r->q_scale > 0 && find_exact(&f, r, threshold)) return f;
    if (r->q_count > FEW && find_guess(&f, r->q_count - 1, threshold)) return f;
    return (qg__rounding){ .how = QG__COMPARES };
}
