/* infer/kernels/find.h — the codes of a vector of floats (infer/kernels/requantize.h).  For *_kernel.c
 * files only. */
#ifndef QG_INFER_FIND_H
#define QG_INFER_FIND_H

#include "infer/kernels/lanes.h"
#include "infer/kernels/requantize.h"

/* fl(fl(a sum) + b) */
INLINE vf scaled(vf a, vf b, vf sum) { return a * sum + b; }

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

/* A number of less than 2^22 is rounded by this sum. */
INLINE vi quotient_code(const qg__finder *f, vf x)
{
    const float magic = 0x1.8p23f, least = (float)f->lowest;
    const vf    v     = limited(x / f->scale, least, least + (float)(f->count - 1)) + magic;
    return __builtin_convertvector(v - magic - least, vi);
}

INLINE vi counted_code(const qg__finder *f, vf x)
{
    vi code = { 0 };
    for (int u = 0; u + 1 < f->count; u++) code -= (vi)(x >= splat(f->threshold[u]));
    return code;
}

/* A code as it is stored. */
INLINE vi stored_code(const qg__finder *f, vf x, vi code)
{
    if (f->least) code = (vi)pick((code < f->least) & (vi)(x == x), (vf)((vi){ 0 } + f->least), (vf)code);
    if (f->step != 1) code *= f->step;
    return code;
}

/* By a search that looks up nothing; `search`, which is f->search, is a constant. */
INLINE vi code_of(qg__search search, const qg__finder *f, vf x)
{
    const vi code = search == QG__COUNT   ? counted_code(f, x)
                    : search == QG__LINE  ? line_code(f, x)
                    : search == QG__RATIO ? ratio_code(f, x)
                                          : quotient_code(f, x);
    return stored_code(f, x, code);
}

#endif
