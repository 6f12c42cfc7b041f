/* tests/support/bits.h — packed pixels (infer/kernels/codes.h), one value at a time. */
#ifndef BITS_H
#define BITS_H

#include "infer/kernels/codes.h"

/* Packs values[pixels][c] of the alphabet. */
static inline void pack_values(qg__alphabet a, size_t pixels, int c, const int8_t *values, uint64_t *packed)
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

/* The value of a channel. */
static inline int value_of_pixel(qg__alphabet a, int c, const uint64_t *pixel, int channel)
{
    const uint64_t *word  = pixel + channel / 64;
    int             value = qg__offset(a);
    for (int j = 0; j < a.bits; j++, word += qg__words(c))
        value += qg__factor(a, j) * (int)(*word >> channel % 64 & 1);
    return value;
}

#endif
