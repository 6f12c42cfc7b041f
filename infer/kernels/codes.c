#include "infer/kernels/codes.h"

static bool has(qg__alphabet a, qg__codes c)
{
    const qg__codes all  = qg__codes_of(a);
    const bool      same = all.step == 1 ||
                           ((c.lowest - all.lowest) % 2 == 0 && (c.count == 1 || c.step % 2 == 0));
    return same && c.lowest >= all.lowest && qg__highest(c) <= qg__highest(all);
}

qg__alphabet qg__alphabet_of(qg__codes c)
{
    for (int bits = 1; c.count && bits <= QG__MOST_PLANES; bits++) {
        const qg__alphabet kinds[] = { { QG__ODD, bits }, { QG__UNSIGNED, bits }, { QG__TERNARY, 2 },
                                       { QG__SIGNED, bits } };
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if ((kinds[i].kind != QG__TERNARY || bits == 2) && (kinds[i].kind != QG__SIGNED || bits > 1) &&
                has(kinds[i], c))
                return kinds[i];
    }
    return (qg__alphabet){ QG__ODD, 0 };
}

bool qg__codes_valid(qg__codes c)
{
    enum { MOST = 1 << 24 };
    if (c.count < 1 || c.count > 1 << 16 || c.step < 1 || c.step > MOST) return false;
    if (c.lowest < -MOST || c.lowest > MOST) return false;
    return c.lowest + (int64_t)c.step * (c.count - 1) <= MOST;
}
