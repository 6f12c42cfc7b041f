#include "infer/kernels/depthwise.h"
#include "infer/kernels/lanes.h"

typedef struct visit {
    const qg__geometry *g;
    const void         *x, *w;
    void               *y;
    int                 x_zero;
} visit;

static void reals_of_line(void *context, const qg__line *line)
{
    const visit        *at = context;
    const qg__geometry *g  = at->g;
    const ptrdiff_t     c  = g->c;
    for (int p = 0; p < line->outputs; p++) {
        const float *pixel = (const float *)at->x + ((ptrdiff_t)line->x + p * line->x_step) * c;
        float       *y     = (float *)at->y + ((ptrdiff_t)line->y + p * line->y_step) * c;
        for (int k = 0; k < g->c; k += VL) {
            const int lanes = least(g->c - k, VL);
            vf        sum   = { 0 };
            for (int i = line->i0; i < line->i1; i++)
                for (int j = line->j0; j < line->j1; j++) {
                    const float *x = pixel + ((i - line->i0) * g->w + j - line->j0) * c + k;
                    const float *w = (const float *)at->w + (i * g->kw + j) * c + k;
                    sum += load(x, lanes) * load(w, lanes);
                }
            store(y + k, sum, lanes);
        }
    }
}

static void reals(const qg__geometry *g, int n, const float *x, const float *w, float *y)
{
    qg__lines(g, n, reals_of_line, &(visit){ .g = g, .x = x, .w = w, .y = y });
}

static void codes_of_line(void *context, const qg__line *line)
{
    const visit        *at = context;
    const qg__geometry *g  = at->g;
    const ptrdiff_t     c  = g->c;
    for (int p = 0; p < line->outputs; p++) {
        const uint8_t *pixel = (const uint8_t *)at->x + ((ptrdiff_t)line->x + p * line->x_step) * c;
        int32_t       *y     = (int32_t *)at->y + ((ptrdiff_t)line->y + p * line->y_step) * c;
        memset(y, 0, (size_t)c * sizeof *y);
        for (int i = line->i0; i < line->i1; i++)
            for (int j = line->j0; j < line->j1; j++) {
                const uint8_t *x = pixel + ((i - line->i0) * g->w + j - line->j0) * c;
                const int32_t *w = (const int32_t *)at->w + (i * g->kw + j) * c;
                for (int k = 0; k < g->c; k++) y[k] += (x[k] - at->x_zero) * w[k];
            }
    }
}

static void codes(const qg__geometry *g, int x_zero, int n, const uint8_t *x, const int32_t *w, int32_t *acc)
{
    qg__lines(g, n, codes_of_line, &(visit){ .g = g, .x_zero = x_zero, .x = x, .w = w, .y = acc });
}

const qg__each_kernels QG_PER_ISA(qg__each_kernels) = {
    .reals = reals,
    .codes = codes,
};
