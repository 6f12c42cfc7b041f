/* One axis at a time, the rows first.  Pixel i of a line covers i..i+1, so pixel i of the result is
 * centred on (i + 1/2) was/is.  Its weights are a triangle of half width max(1, was/is): linear
 * interpolation when it grows, a mean of everything under it when it shrinks.
 *
 * Each row is added to the rows of the result that it lies under as soon as it has its new width, so the
 * memory is that of a row and of the result, however high the image is. */
#include <math.h>
#include <stdlib.h>

#include "core/status.h"
#include "datasets/preprocess.h"

/* What pixel i of a line of `is` covers of one of `was`: begin .. end - 1. */
typedef struct cover {
    double centre, half;
    int    begin, end;
} cover;

static cover cover_of(int i, int was, int is)
{
    const double ratio = (double)was / is, half = ratio > 1 ? ratio : 1, centre = (i + 0.5) * ratio;
    return (cover){ centre, half, (int)fmax(0, floor(centre - half)), (int)fmin(was, ceil(centre + half)) };
}

static double weight_of(cover c, int k) { return 1 - fabs(k + 0.5 - c.centre) / c.half; }

/* Resizes a line of `was` values to `is`; `step` values separate those of a line. */
static void resize_line(const uint8_t *from, int was, float *to, int is, size_t step)
{
    for (int i = 0; i < is; i++) {
        const cover c = cover_of(i, was, is);
        double      sum = 0, weights = 0;
        for (int k = c.begin; k < c.end; k++) {
            const double weight = weight_of(c, k);
            if (weight <= 0) continue;
            sum += weight * from[(size_t)k * step];
            weights += weight;
        }
        to[(size_t)i * step] = (float)(sum / weights);
    }
}

static uint8_t to_byte(float x) { return (uint8_t)lroundf(x < 0 ? 0 : x > 255 ? 255 : x); }

/* The rows of the result, whose columns are sums over the rows above. */
typedef struct rows {
    int     first;          /* earlier ones are complete */
    double *sum;            /* [want.h][row] */
    double *weights;        /* [want.h] */
} rows;

static void add_row(rows *y, int r, int was, int is, size_t row, const float *wide)
{
    for (int i = y->first; i < is; i++) {
        const cover c = cover_of(i, was, is);
        if (c.begin > r) break;
        if (c.end <= r) {
            y->first = i + 1;
            continue;
        }
        const double weight = weight_of(c, r);
        if (weight <= 0) continue;
        double *sum = y->sum + (size_t)i * row;
        for (size_t k = 0; k < row; k++) sum[k] += weight * (double)wide[k];
        y->weights[i] += weight;
    }
}

qg_status qg_image_resize(const uint8_t *from, qg_shape is, uint8_t *to, qg_shape want)
{
    if (is.h < 1 || is.w < 1 || is.c < 1 || want.h < 1 || want.w < 1)
        return qg_fail(QG_ESHAPE, "an image of %d x %d x %d cannot become one of %d x %d", is.h, is.w, is.c,
                       want.h, want.w);
    if (is.c != want.c)
        return qg_fail(QG_ESHAPE, "an image of %d channels cannot become one of %d", is.c, want.c);
    const size_t c = (size_t)is.c, was_row = (size_t)is.w * c, row = (size_t)want.w * c, h = (size_t)want.h;
    float       *wide = malloc(row * sizeof *wide);
    rows         y    = { 0, calloc(h * row, sizeof *y.sum), calloc(h, sizeof *y.weights) };
    const bool   ok   = wide && y.sum && y.weights;
    if (ok) {
        for (int r = 0; r < is.h; r++) {
            for (size_t k = 0; k < c; k++)
                resize_line(from + (size_t)r * was_row + k, is.w, wide + k, want.w, c);
            add_row(&y, r, is.h, want.h, row, wide);
        }
        for (size_t i = 0; i < h; i++)
            for (size_t k = 0; k < row; k++)
                to[i * row + k] = to_byte((float)(y.sum[i * row + k] / y.weights[i]));
    } else {
        (void)qg_fail(QG_EMEM, "out of memory: resizing an image of %d x %d", is.w, is.h);
    }
    free(wide);
    free(y.sum);
    free(y.weights);
    return ok ? QG_OK : QG_EMEM;
}
