#include "infer/kernels/reference.h"

#include <stdbool.h>

/* Whether tap (i, j) of output (r, q) is inside the image, and which pixel it is. */
static bool inside(const qg__geometry *g, int r, int q, int i, int j, size_t *pixel)
{
    const int row = r * g->stride + i - g->top, column = q * g->stride + j - g->left;
    if (row < 0 || row >= g->h || column < 0 || column >= g->w) return false;
    *pixel = (size_t)row * (size_t)g->w + (size_t)column;
    return true;
}

static float real(const qg__geometry *g, int r, int q, const float *x, const float *w)
{
    float  sum = 0;
    size_t pixel;
    for (int i = 0; i < g->kh; i++)
        for (int j = 0; j < g->kw; j++, w += g->c)
            if (inside(g, r, q, i, j, &pixel))
                for (int c = 0; c < g->c; c++) sum += w[c] * x[pixel * (size_t)g->c + (size_t)c];
    return sum;
}

void qg__reals_ref(const qg__geometry *g, int n, const float *x, const float *w, float *y)
{
    for (int m = 0; m < n; m++, x += qg__pixels(g) * (size_t)g->c)
        for (int r = 0; r < g->oh; r++)
            for (int q = 0; q < g->ow; q++)
                for (int o = 0; o < g->oc; o++) *y++ = real(g, r, q, x, w + (size_t)o * qg__row(g));
}
