#include "datasets/augment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernels/functions.h"
#include "core/rng.h"

/* The index of each draw for an image. */
enum { DOWN, RIGHT, FLIP, CUTOUT_ROW, CUTOUT_COLUMN, ANGLE, SIZE };

/* 0 .. n-1; the bias of the remainder is below n / 2^64. */
static int draw(uint64_t key, int what, int n)
{
    return (int)(qg_bits(key, (uint64_t)what) % (uint64_t)n);
}

/* -pad .. pad */
static int offset(uint64_t key, int what, int pad) { return draw(key, what, 2 * pad + 1) - pad; }

/* -1 <= x < 1 */
static double spread(uint64_t key, int what) { return 2 * (double)qg_uniform(key, (uint64_t)what) - 1; }

qg_status qg__augment_check(const qg_augment *a, qg_shape image)
{
    const int side = image.h < image.w ? image.h : image.w;
    if (a->pad < 0 || a->pad > side - 1)
        return qg_fail(QG_EARG, "images of %dx%d can be padded by 0..%d, not by %d", image.h, image.w,
                       side - 1, a->pad);
    if (a->cutout < 0 || a->cutout > side)
        return qg_fail(QG_EARG, "images of %dx%d can have a cutout of 0..%d, not of %d", image.h, image.w,
                       side, a->cutout);
    if (!(a->rotate >= 0 && a->rotate <= 180))
        return qg_fail(QG_EARG, "images can be rotated by 0..180 degrees, not by %g", (double)a->rotate);
    if (!(a->scale >= 0 && a->scale <= 0.5f))
        return qg_fail(QG_EARG, "images can be scaled by 0..0.5, not by %g", (double)a->scale);
    if (a->border < QG_BORDER_ZERO || a->border > QG_BORDER_REPEAT)
        return qg_fail(QG_EARG, "%d is not a kind of border", (int)a->border);
    return QG_OK;
}

bool qg__augment_resamples(const qg_augment *a) { return a->rotate > 0 || a->scale > 0; }

/* The pixel of a line of n that stands for position i; -1: none. */
static int resolve(int i, int n, qg_border border)
{
    if (i >= 0 && i < n) return i;
    if (border == QG_BORDER_ZERO) return -1;
    if (border == QG_BORDER_REPEAT || n == 1) return i < 0 ? 0 : n - 1;
    const int period = 2 * (n - 1), at = abs(i) % period;
    return at < n ? at : period - at;
}

/* n pixels, from (row, column) on. */
static void copy(const qg__image *s, int row, int column, size_t n, float *to)
{
    const size_t c = (size_t)s->shape.c;
    const size_t k = ((size_t)row * (size_t)s->shape.w + (size_t)column) * c;
    if (s->bytes) qg__normalise(s->preprocess, s->bytes, k, n * c, to);
    else memcpy(to, s->floats + k, n * c * sizeof *to);
}

/* Row y of an image. */
static float *row_of(float *image, qg_shape s, int y)
{
    return image + (size_t)y * (size_t)s.w * (size_t)s.c;
}

/* Columns begin..end of a row of the result, which lie outside the image. */
static void fill_outside(const qg__image *s, qg_border border, int row, int right, int begin, int end,
                         float *to)
{
    const int c = s->shape.c;
    for (int x = begin; x < end; x++) {
        const int column = resolve(x + right, s->shape.w, border);
        if (column < 0) memset(to + x * c, 0, (size_t)c * sizeof *to);
        else copy(s, row, column, 1, to + x * c);
    }
}

/* A row of the result: row `row` of the image from column `right` on; -1 is a row of zeros. */
static void crop_row(const qg__image *s, qg_border border, int row, int right, float *to)
{
    const int w = s->shape.w, c = s->shape.c;
    if (row < 0) {
        memset(to, 0, (size_t)(w * c) * sizeof *to);
        return;
    }
    const int begin = right < 0 ? -right : 0, end = right > 0 ? w - right : w;
    copy(s, row, begin + right, (size_t)(end - begin), to + begin * c);
    fill_outside(s, border, row, right, 0, begin, to);
    fill_outside(s, border, row, right, end, w, to);
}

static void flip_row(float *row, int w, int c)
{
    for (int a = 0, b = w - 1; a < b; a++, b--)
        for (int k = 0; k < c; k++) {
            const float x  = row[a * c + k];
            row[a * c + k] = row[b * c + k];
            row[b * c + k] = x;
        }
}

void qg__shift(const qg__image *from, qg_border border, int down, int right, bool mirrored, float *to)
{
    const qg_shape s = from->shape;
    for (int y = 0; y < s.h; y++) {
        crop_row(from, border, resolve(y + down, s.h, border), right, row_of(to, s, y));
        if (mirrored) flip_row(row_of(to, s, y), s.w, s.c);
    }
}

/* The weight of pixel *i of a line of n, which becomes a pixel of the image; 0: none stands for it. */
static float weigh(int *i, int n, qg_border border, float weight)
{
    const int is = resolve(*i, n, border);
    *i           = is < 0 ? 0 : is;
    return is < 0 ? 0 : weight;
}

/* The value at (y, x), which may lie between pixels and outside the image: bilinear interpolation. */
static void interpolate(const float *image, qg_shape s, qg_border border, double y, double x, float *to)
{
    const double top = floor(y), left = floor(x);
    const float  down = (float)(y - top), right = (float)(x - left);
    int          row[]    = { (int)top, (int)top + 1 }, column[] = { (int)left, (int)left + 1 };
    const float  above    = weigh(&row[0], s.h, border, 1 - down);
    const float  below    = weigh(&row[1], s.h, border, down);
    const float  before   = weigh(&column[0], s.w, border, 1 - right);
    const float  behind   = weigh(&column[1], s.w, border, right);
    const size_t w        = (size_t)s.w, c = (size_t)s.c;
    const float *upper    = image + (size_t)row[0] * w * c, *lower = image + (size_t)row[1] * w * c;
    const size_t first    = (size_t)column[0] * c, second = (size_t)column[1] * c;
    for (size_t k = 0; k < c; k++)
        to[k] = above * (before * upper[first + k] + behind * upper[second + k]) +
                below * (before * lower[first + k] + behind * lower[second + k]);
}

/* Rotates and scales an image around its center, and then shifts it as crop does.  A pixel has the value of
 * the point that it comes from. */
static void resample(const qg_augment *a, uint64_t key, qg_shape s, const float *from, float *to)
{
    const double turn  = (double)a->rotate / 180 * spread(key, ANGLE);
    const double size  = 1 + (double)a->scale * spread(key, SIZE);
    const double along = qg__cos_pi(turn) / size, across = qg__cos_pi(turn - 0.5) / size;
    const double my    = 0.5 * (s.h - 1), mx = 0.5 * (s.w - 1);         /* the center */
    const double down  = offset(key, DOWN, a->pad) - my, right = offset(key, RIGHT, a->pad) - mx;
    for (int y = 0; y < s.h; y++)
        for (int x = 0; x < s.w; x++) {
            const double dy = y + down, dx = x + right;
            interpolate(from, s, a->border, my + (along * dy - across * dx), mx + (across * dy + along * dx),
                        row_of(to, s, y) + x * s.c);
        }
}

static void cut_out(int side, uint64_t key, qg_shape s, float *to)
{
    const int top  = draw(key, CUTOUT_ROW, s.h) - side / 2, bottom = top + side;
    const int left = draw(key, CUTOUT_COLUMN, s.w) - side / 2, right = left + side;
    const int x0 = left < 0 ? 0 : left, x1 = right > s.w ? s.w : right;
    for (int y = top < 0 ? 0 : top; y < bottom && y < s.h; y++)
        memset(row_of(to, s, y) + x0 * s.c, 0, (size_t)((x1 - x0) * s.c) * sizeof *to);
}

static void crop(const qg_augment *a, uint64_t key, const qg__image *from, float *to)
{
    const int down  = offset(key, DOWN, a->pad);
    const int right = offset(key, RIGHT, a->pad);
    qg__shift(from, a->border, down, right, false, to);
}

void qg__augment(const qg_augment *a, uint64_t key, const qg__image *from, float *plain, float *to)
{
    const qg_shape s    = from->shape;
    const bool     warp = qg__augment_resamples(a);
    if (warp && !from->floats) copy(from, 0, 0, (size_t)s.h * (size_t)s.w, plain);
    if (warp) resample(a, key, s, from->floats ? from->floats : plain, to);
    else if (a->pad) crop(a, key, from, to);
    else copy(from, 0, 0, (size_t)s.h * (size_t)s.w, to);
    if (a->flip && draw(key, FLIP, 2))
        for (int y = 0; y < s.h; y++) flip_row(row_of(to, s, y), s.w, s.c);
    if (a->cutout) cut_out(a->cutout, key, s, to);
}
