/* One axis at a time, the rows first.  Pixel i of a line covers i..i+1, so pixel i of the result is
 * centred on (i + 1/2) was/is.  Its weights are a triangle of half width max(1, was/is): linear
 * interpolation when it grows, a mean of everything under it when it shrinks. */
#include <math.h>
#include <stdlib.h>

#include "core/status.h"
#include "datasets/image.h"

/* Resizes a line of `was` values to `is`; `step` floats separate the values of a line. */
static void resize_line(const float *from, int was, float *to, int is, size_t step)
{
    const double ratio = (double)was / is, half = ratio > 1 ? ratio : 1;
    for (int i = 0; i < is; i++) {
        const double centre = (i + 0.5) * ratio;
        const int    begin  = (int)fmax(0, floor(centre - half));
        const int    end    = (int)fmin(was, ceil(centre + half));
        double       sum = 0, weights = 0;
        for (int k = begin; k < end; k++) {
            const double weight = 1 - fabs(k + 0.5 - centre) / half;
            if (weight <= 0) continue;
            sum += weight * (double)from[(size_t)k * step];
            weights += weight;
        }
        to[(size_t)i * step] = (float)(sum / weights);
    }
}

static uint8_t to_byte(float x) { return (uint8_t)lroundf(x < 0 ? 0 : x > 255 ? 255 : x); }

bool qg__resize(const uint8_t *from, qg_shape is, uint8_t *to, qg_shape want)
{
    const size_t c = (size_t)is.c, was_row = (size_t)is.w * c, row = (size_t)want.w * c;
    /* was: the image; wide: [is.h][want.w][c]; all: [want.h][want.w][c]. */
    float *was  = malloc((size_t)is.h * was_row * sizeof *was);
    float *wide = malloc((size_t)is.h * row * sizeof *wide);
    float *all  = malloc((size_t)want.h * row * sizeof *all);
    const bool ok = was && wide && all;
    if (ok) {
        for (size_t i = 0; i < (size_t)is.h * was_row; i++) was[i] = from[i];
        for (int r = 0; r < is.h; r++)
            for (size_t k = 0; k < c; k++)
                resize_line(was + (size_t)r * was_row + k, is.w, wide + (size_t)r * row + k, want.w, c);
        for (size_t k = 0; k < row; k++) resize_line(wide + k, is.h, all + k, want.h, row);
        for (size_t i = 0; i < (size_t)want.h * row; i++) to[i] = to_byte(all[i]);
    } else {
        qg_fail(QG_EMEM, "out of memory: resizing an image of %d x %d", is.w, is.h);
    }
    free(was);
    free(wide);
    free(all);
    return ok;
}
