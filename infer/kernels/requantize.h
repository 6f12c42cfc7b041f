/* infer/kernels/requantize.h — from accumulators and floats to the codes of the next product.
 *
 * Nothing needs more alignment than its type, and nothing is allocated.
 */
#ifndef QG_INFER_REQUANTIZE_H
#define QG_INFER_REQUANTIZE_H

#include <stdbool.h>

#include "core/kernels/cpu.h"
#include "infer/kernels/codes.h"

enum { QG__MOST_FOUND = 256, QG__FEW_FOUND = 16 };

/* How the code of a number is found: by the thresholds, or by a formula alone.  All formulas and guesses must
 * have been proved for the thresholds at hand. */
typedef enum qg__search {
    QG__BISECTION,
    QG__COUNT,          /* by comparing with each threshold; of at most QG__FEW_FOUND codes */
    QG__GUESS,          /* g or g + 1 with g = (x - first) * inverse, rounded and limited: one comparison
                           decides */
    QG__LINE,           /* g */
    QG__RATIO,          /* (x - first) / scale, rounded with halves up, and limited */
    QG__MULTIPLE,       /* x * inverse - lowest, rounded with halves to even, and limited */
    QG__QUOTIENT        /* x / scale - lowest, the same */
} qg__search;

/* The code of a number is how many of ascending thresholds it reaches; that of NaN is 0. */
typedef struct qg__finder {
    const float *threshold;         /* QG__MOST_FOUND of them; NaN from the last one on, which nothing
                                       reaches */
    float        few[QG__FEW_FOUND];        /* the first of them */
    int          count;             /* codes */
    qg__search   search;
    float        first, inverse;
    float        scale;
    int          lowest;            /* within -2^20 .. 2^20 */
    int          least;             /* smaller codes become this one, but not that of NaN */
    int          base, step;        /* a code u is stored as base + step * u, at most 255 */
} qg__finder;

/* Whether codes are found without lookups in memory. */
static inline bool qg__has_formula(const qg__finder *f)
{
    return f->search != QG__BISECTION && (f->search != QG__GUESS || f->count <= QG__FEW_FOUND);
}

/* What a kernel of products makes of its sums while they are at hand: z = fl(fl(a acc) + b), uncontracted,
 * and then its code, or max(z, 0) of floats, where NaN stays. */
typedef struct qg__finish {
    const float      *a, *b;        /* [oc] */
    const qg__finder *find;         /* with a formula; NULL: floats */
    bool              relu;         /* of floats */
} qg__finish;

/* TFLite's operator: u = clip(zero + round(round((acc + bias) * fraction / 2^31) * 2^shift), least, most),
 * the inner rounding with ties toward +inf and the outer one, for shift < 0, away from zero; sums and
 * products saturate at int32. */
typedef struct qg__fixed_point {
    const int32_t *bias, *fraction, *shift;     /* [c]; shift within -31 .. 64 */
    int            zero, least, most, step;
} qg__fixed_point;

typedef struct qg__requantize_kernels {
    /* Bits of an alphabet of two or three values for acc[pixels][c].  Its value number u is reached where
     * (acc ^ flip[k]) >= least[u - 1][k]; least has a row for each value but the first.  flip: 0, or -1
     * where codes fall as acc grows; NULL: 0. */
    void (*bits)(qg__alphabet a, const int32_t *least, const int32_t *flip, size_t pixels, int c,
                 const int32_t *acc, uint64_t *packed);

    void (*find)(const qg__finder *f, size_t n, const float *x, uint8_t *codes);

    /* The same of x[pixels][c] as bits of the alphabet, whose values are stored as 0, 1, .. */
    void (*find_bits)(const qg__finder *f, qg__alphabet a, size_t pixels, int c, const float *x,
                      uint64_t *packed);
    void (*fixed)(const qg__fixed_point *f, size_t pixels, int c, const int32_t *acc, uint8_t *codes);
} qg__requantize_kernels;

QG_DECLARE_KERNELS(qg__requantize_kernels, qg__requantize_kernels);

#endif
