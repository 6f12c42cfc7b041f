#include "core/slices.h"

typedef struct sums {
    qg__slices     b;
    size_t         n;
    qg__sum_images add;
    void          *context;
    double        *part;        /* [QG_SLICES][n] */
} sums;

static void sum_slice(void *context, int piece, int worker)
{
    const sums *s     = context;
    const int   slice = s->b.from + piece;
    double     *sum   = s->part + (size_t)slice * s->n;
    for (size_t k = 0; k < s->n; k++) sum[k] = 0;
    s->add(s->context, qg__slice_first(s->b, slice), qg__slice_first(s->b, slice + 1), sum);
}

const double *qg__sum_slices(qg_tape *t, qg__slices b, size_t n, qg__sum_images add, void *context)
{
    double *part = qg_scratch(t, QG_SLICES * n * sizeof *part);
    if (!part) return NULL;
    qg_parallel(b.to - b.from, sum_slice, &(sums){ b, n, add, context, part });
    if (!qg__slices_gather(t, b, part, n * sizeof *part)) return NULL;
    for (size_t k = 0; k < n; k++) {
        double sum = 0;
        for (size_t slice = 0; slice < QG_SLICES; slice++) sum += part[slice * n + k];
        part[k] = sum;
    }
    return part;
}

void qg__tree(int count, size_t stride, size_t n, float *restrict part)
{
    const float *p[QG_SLICES];
    for (int k = 0; k < count; k++) p[k] = part + (size_t)k * stride;
    /* In one pass: every number is read once. */
    switch (count) {
    case 2:
        for (size_t i = 0; i < n; i++) part[i] = p[0][i] + p[1][i];
        break;
    case 4:
        for (size_t i = 0; i < n; i++) part[i] = (p[0][i] + p[1][i]) + (p[2][i] + p[3][i]);
        break;
    case 8:
        for (size_t i = 0; i < n; i++)
            part[i] = ((p[0][i] + p[1][i]) + (p[2][i] + p[3][i])) + ((p[4][i] + p[5][i]) + (p[6][i] + p[7][i]));
        break;
    case 16:
        for (size_t i = 0; i < n; i++)
            part[i] = (((p[0][i] + p[1][i]) + (p[2][i] + p[3][i])) + ((p[4][i] + p[5][i]) + (p[6][i] + p[7][i]))) +
                      (((p[8][i] + p[9][i]) + (p[10][i] + p[11][i])) + ((p[12][i] + p[13][i]) + (p[14][i] + p[15][i])));
        break;
    default: break;
    }
}
