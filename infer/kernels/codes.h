/* infer/kernels/codes.h — activations as bits and bytes.
 *
 * An alphabet says which integers the codes of an operand stand for, and by which bits ("planes"):
 *
 *     QG__ODD        bits    2 c - (2^bits - 1)              c = sum of 2^j plane j; with one bit -1, +1
 *     QG__UNSIGNED   bits    c, 0 .. 2^bits - 1
 *     QG__SIGNED     bits    two's complement, -2^(bits-1) .. 2^(bits-1) - 1; bits >= 2
 *     QG__TERNARY    2       -1, 0, 1: plane 0 is value > 0, plane 1 is value != 0
 *
 * Packed activations have the same layout on every machine, so the codes between layers are the same
 * everywhere:
 *
 *     uint64_t x[pixels][planes][words],  words = (c + 63) / 64
 *
 * Channel k is bit k % 64 of word k / 64.  Bits of channels that do not exist are 0.
 */
#ifndef QG_INFER_CODES_H
#define QG_INFER_CODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QG__MOST_PLANES = 4 };

typedef enum qg__alphabet_kind { QG__ODD, QG__UNSIGNED, QG__SIGNED, QG__TERNARY } qg__alphabet_kind;

typedef struct qg__alphabet {
    qg__alphabet_kind kind;
    int               bits;     /* planes, 1 .. QG__MOST_PLANES; QG__TERNARY has 2 */
} qg__alphabet;

/* The integers lowest, lowest + step, .. of count codes; count 0: floats. */
typedef struct qg__codes {
    int lowest, step, count;
} qg__codes;

/* Bits that numbers of so many codes need, at least 1. */
static inline int qg__code_bits(int count)
{
    int bits = 1;
    while (1 << bits < count) bits++;
    return bits;
}

static inline int qg__highest(qg__codes c) { return c.lowest + c.step * (c.count - 1); }

/* Whether there are 1 .. 2^16 of them, step is at least 1, and all are within -2^24 .. 2^24, so that floats
 * have them. */
bool qg__codes_valid(qg__codes c);

/* The alphabet that has all codes of c, with as few planes as possible; .bits is 0 if none has. */
qg__alphabet qg__alphabet_of(qg__codes c);

/* Bits of a code in memory that is shifted and masked, not taken plane by plane: a power of 2; 0: no
 * alphabet. */
static inline int qg__field_bits(qg__alphabet a) { return a.bits == 3 ? 4 : a.bits; }

/* value = qg__offset + sum over j of qg__factor(j) * plane j, in every alphabet. */
static inline int qg__factor(qg__alphabet a, int j)
{
    if (a.kind == QG__TERNARY) return j ? -1 : 2;
    if (a.kind == QG__SIGNED && j == a.bits - 1) return -(1 << j);
    return (a.kind == QG__ODD ? 2 : 1) << j;
}

static inline int qg__offset(qg__alphabet a) { return a.kind == QG__ODD ? 1 - (1 << a.bits) : 0; }

/* Values are lowest, lowest + step, .., highest. */
static inline int qg__lowest(qg__alphabet a)
{
    if (a.kind == QG__TERNARY) return -1;
    return a.kind == QG__SIGNED ? -(1 << (a.bits - 1)) : qg__offset(a);
}

static inline int qg__step(qg__alphabet a)   { return a.kind == QG__ODD ? 2 : 1; }
static inline int qg__values(qg__alphabet a) { return a.kind == QG__TERNARY ? 3 : 1 << a.bits; }

static inline qg__codes qg__codes_of(qg__alphabet a)
{
    const qg__codes c = { qg__lowest(a), qg__step(a), qg__values(a) };
    return c;
}

/* The largest absolute value. */
static inline int qg__reach(qg__codes c)
{
    const int highest = qg__highest(c);
    return highest > -c.lowest ? highest : -c.lowest;
}

/* Plane j of a value of the alphabet. */
static inline unsigned qg__bit(qg__alphabet a, int value, int j)
{
    if (a.kind == QG__TERNARY) return j ? value != 0 : value > 0;
    const int code = a.kind == QG__ODD ? (value - qg__offset(a)) / 2 : value;
    return (unsigned)code >> j & 1;
}

static inline size_t qg__words(int c) { return ((size_t)c + 63) / 64; }

/* Words of so many packed pixels. */
static inline size_t qg__bit_words(qg__alphabet a, size_t pixels, int c)
{
    return pixels * (size_t)a.bits * qg__words(c);
}

static inline int32_t qg__ones(const uint64_t *x, size_t n)
{
    int32_t count = 0;
    for (size_t i = 0; i < n; i++) count += (int32_t)__builtin_popcountll(x[i]);
    return count;
}

/* The sum of the values of a packed pixel. */
static inline int32_t qg__sum_of_values(qg__alphabet a, int c, const uint64_t *pixel)
{
    int32_t sum = c * qg__offset(a);
    for (int j = 0; j < a.bits; j++, pixel += qg__words(c))
        sum += qg__factor(a, j) * qg__ones(pixel, qg__words(c));
    return sum;
}

#endif
