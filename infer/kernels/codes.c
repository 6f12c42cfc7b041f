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

void qg__pack_values(qg__alphabet a, size_t pixels, int c, const int8_t *values, uint64_t *packed)
{
    const size_t words = qg__words(c);
    for (size_t i = 0; i < pixels; i++, values += c)
        for (int j = 0; j < a.bits; j++, packed += words)
            for (size_t w = 0; w < words; w++) {
                packed[w] = 0;
                for (int k = (int)(64 * w); k < c && k < (int)(64 * w) + 64; k++)
                    packed[w] |= (uint64_t)qg__bit(a, values[k], j) << k % 64;
            }
}

int qg__value(qg__alphabet a, int c, const uint64_t *pixel, int channel)
{
    const uint64_t *word  = pixel + channel / 64;
    int             value = qg__offset(a);
    for (int j = 0; j < a.bits; j++, word += qg__words(c))
        value += qg__factor(a, j) * (int)(*word >> channel % 64 & 1);
    return value;
}
