/* The sums of each image over its pixels, taken while its value is in cache, for a norm after the convolution. */
#include "core/ops/conv2d.h"

#include "core/walk.h"

/* Floats in the sums of an image. */
static size_t sums_size(qg_shape y) { return qg__norm_parts((size_t)y.h * (size_t)y.w) * 3 * (size_t)y.c; }

void *qg__save_with_sums(qg_tape *t, qg_var *y, size_t bytes, bool summed)
{
    const bool   sums  = summed && qg_tape_mode(t) != QG_EVAL && y->shape.h * y->shape.w > 1;
    const size_t extra = sums ? (size_t)y->shape.n * sums_size(y->shape) * sizeof(float) : 0;
    char        *saved = qg_save(t, y, bytes + extra);
    if (sums) y->marks |= QG__HAS_SUMS;
    if (saved) *(float **)(void *)saved = sums ? (float *)(void *)(saved + bytes) : NULL;
    return saved;
}

void qg__gather_sums(const qg__norm_kernels *norm, const qg_var *y, int i)
{
    const size_t row = qg_row(y->shape), c = (size_t)y->shape.c;
    float       *sums = *(float *const *)y->saved;
    if (sums) norm->sums(row / c, (int)c, y->data + (size_t)i * row, sums + (size_t)i * sums_size(y->shape));
}

const float *qg__image_sums(const qg_var *y)
{
    while (y->op && y->in[0] && y->in[0]->data == y->data) y = y->in[0];
    return y->marks & QG__HAS_SUMS ? *(float *const *)y->saved : NULL;
}
