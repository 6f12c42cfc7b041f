#include "core/slices.h"

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
