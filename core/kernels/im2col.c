#include "core/kernels/im2col.h"

#include <string.h>

static float *fill(float *to, size_t n, float value)
{
    for (size_t i = 0; i < n; i++) to[i] = value;
    return to + n;
}

void qg__pad(int h, int w, int c, int pad_h, int pad_w, float value, const float *x, float *padded)
{
    const size_t inside = (size_t)w * (size_t)c;
    const size_t side   = (size_t)pad_w * (size_t)c;
    const size_t above  = (size_t)pad_h * (inside + 2 * side);
    /* What is right of one row and left of the next lies side by side. */
    float *to = fill(padded, above + side, value);
    for (int r = 0; r < h; r++, x += inside) {
        memcpy(to, x, inside * sizeof *x);
        to = fill(to + inside, r + 1 < h ? 2 * side : side, value);
    }
    fill(to, above, value);
}

void qg__im2col(const qg__conv *g, const float *x, float *cols)
{
    const size_t row  = (size_t)g->w * (size_t)g->c;
    const size_t part = (size_t)g->kw * (size_t)g->c;       /* one row of a window is contiguous */
    for (int r = 0; r < g->oh; r++)
        for (int q = 0; q < g->ow; q++) {
            const float *from = x + (size_t)(r * g->stride) * row + (size_t)(q * g->stride * g->c);
            for (int i = 0; i < g->kh; i++, cols += part, from += row)
                memcpy(cols, from, part * sizeof *cols);
        }
}

void qg__col2im(const qg__conv *g, const float *cols, float *x)
{
    const size_t row  = (size_t)g->w * (size_t)g->c;
    const size_t part = (size_t)g->kw * (size_t)g->c;
    fill(x, (size_t)g->h * row, 0.0f);
    for (int r = 0; r < g->oh; r++)
        for (int q = 0; q < g->ow; q++) {
            float *to = x + (size_t)(r * g->stride) * row + (size_t)(q * g->stride * g->c);
            for (int i = 0; i < g->kh; i++, cols += part, to += row)
                for (size_t k = 0; k < part; k++) to[k] += cols[k];
        }
}
