/* infer/kernels/find.h — the codes of a vector of floats, and results of a vector of sums
 * (infer/kernels/requantize.h).  For *_kernel.c files only. */
#ifndef QG_INFER_FIND_H
#define QG_INFER_FIND_H

#include "infer/kernels/lanes.h"
#include "infer/kernels/requantize.h"

/* NaN becomes the least, and numbers are limited before they are converted. */
INLINE vf limited(vf v, float least, float most) { return less_of(greater_of(v, splat(least)), splat(most)); }

INLINE vi nearest_code(const qg__finder *f, vf v)
{
    return __builtin_convertvector(limited(v + 0.5f, 0.0f, (float)(f->count - 1)), vi);
}

INLINE vi line_code(const qg__finder *f, vf x)
{
    return nearest_code(f, (x - f->first) * f->inverse);
}
INLINE vi ratio_code(const qg__finder *f, vf x) { return nearest_code(f, (x - f->first) / f->scale); }

/* A number of less than 2^22 is rounded by a sum whose last bit is 1, so the bits of the sum count on. */
INLINE vi even_code(const qg__finder *f, vf v)
{
    const vf    magic = splat(0x1.8p23f);
    const float least = (float)f->lowest;
    return (vi)(limited(v, least, least + (float)(f->count - 1)) + magic) - ((vi)magic + f->lowest);
}

INLINE vi guessed_code(const qg__finder *f, vf x)
{
    const vi guess = line_code(f, x);
    return guess - (vi)(x >= one_of_16(f->few, guess));
}

INLINE vi counted_code(const qg__finder *f, vf x)
{
    vi code = { 0 };
    for (int u = 0; u + 1 < f->count; u++) code -= (vi)(x >= splat(f->few[u]));
    return code;
}

/* A code as it is stored. */
INLINE vi stored_code(const qg__finder *f, vf x, vi code)
{
    if (f->least) code = (vi)pick((code < f->least) & (vi)(x == x), (vf)((vi){ 0 } + f->least), (vf)code);
    if (f->step != 1) code *= f->step;
    return code + f->base;
}

/* By a search that looks up nothing in memory; `search`, which is f->search, is a constant. */
INLINE vi code_of(qg__search search, const qg__finder *f, vf x)
{
    const vi code = search == QG__COUNT      ? counted_code(f, x)
                    : search == QG__GUESS    ? guessed_code(f, x)
                    : search == QG__LINE     ? line_code(f, x)
                    : search == QG__RATIO    ? ratio_code(f, x)
                    : search == QG__MULTIPLE ? even_code(f, x * f->inverse)
                                             : even_code(f, x / f->scale);
    return stored_code(f, x, code);
}

/* How results are stored, besides a search for codes. */
enum { SUMS = -2, FLOATS = -1 };

/* n results of a vector; find and relu: of the finish. */
INLINE void store_result(int as, const qg__finder *find, bool relu, vi sum, vf a, vf b, int n, uint8_t *y)
{
    float *reals = (float *)(void *)y;
    if (as == SUMS) {
        store(reals, (vf)sum, n);
        return;
    }
    const vf z = a * __builtin_convertvector(sum, vf) + b;          /* both rounded */
    if (as == FLOATS) store(reals, relu ? greater_of(splat(0.0f), z) : z, n);
    else store_bytes(y, code_of((qg__search)as, find, z), n);
}

#endif
