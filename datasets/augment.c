#include "datasets/augment.h"

#include <string.h>

#include "core/rng.h"

/* What is drawn of an image, by index. */
enum { DOWN, RIGHT, FLIP, CUTOUT_ROW, CUTOUT_COLUMN };

/* 0 .. n-1; the bias of the remainder is below n / 2^64. */
static int draw(uint64_t key, int what, int n)
{
    return (int)(qg_bits(key, (uint64_t)what) % (uint64_t)n);
}

qg_status qg__augment_check(const qg_augment *a, qg_shape image)
{
    const int side = image.h < image.w ? image.h : image.w;
    if (a->pad < 0 || a->pad > side - 1)
        return qg_fail(QG_EARG, "images of %dx%d can be padded by 0..%d, not by %d", image.h, image.w,
                       side - 1, a->pad);
    if (a->cutout < 0 || a->cutout > side)
        return qg_fail(QG_EARG, "images of %dx%d can have a cutout of 0..%d, not of %d", image.h, image.w,
                       side, a->cutout);
    if (a->border < QG_BORDER_ZERO || a->border > QG_BORDER_REPEAT)
        return qg_fail(QG_EARG, "%d is no kind of border", (int)a->border);
    return QG_OK;
}

/* Where -n < i < 2n - 1 of a line of n is found; -1: nowhere. */
static int resolve(int i, int n, qg_border border)
{
    if (i >= 0 && i < n) return i;
    if (border == QG_BORDER_ZERO) return -1;
    if (border == QG_BORDER_REPEAT) return i < 0 ? 0 : n - 1;
    return i < 0 ? -i : 2 * (n - 1) - i;
}

/* n pixels, from (row, column) on. */
static void copy(const qg__source *s, int row, int column, size_t n, float *to)
{
    const size_t c = (size_t)s->shape.c;
    const size_t k = ((size_t)row * (size_t)s->shape.w + (size_t)column) * c;
    if (s->bytes) qg__normalise(s->statistics, s->bytes, k, n * c, to);
    else memcpy(to, s->floats + k, n * c * sizeof *to);
}

/* Row y of an image. */
static float *row_of(float *image, qg_shape s, int y)
{
    return image + (size_t)y * (size_t)s.w * (size_t)s.c;
}

/* Columns begin..end of a row of the result, which lie outside of the image. */
static void fill_outside(const qg__source *s, qg_border border, int row, int right, int begin, int end,
                         float *to)
{
    const int c = s->shape.c;
    for (int x = begin; x < end; x++) {
        const int column = resolve(x + right, s->shape.w, border);
        if (column < 0) memset(to + x * c, 0, (size_t)c * sizeof *to);
        else copy(s, row, column, 1, to + x * c);
    }
}

/* A row of the result: that of the image, or of its border, from column `right` on. */
static void crop_row(const qg__source *s, qg_border border, int row, int right, float *to)
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

static void crop(const qg_augment *a, uint64_t key, const qg__source *from, float *to)
{
    const qg_shape s     = from->shape;
    const int      down  = draw(key, DOWN, 2 * a->pad + 1) - a->pad;
    const int      right = draw(key, RIGHT, 2 * a->pad + 1) - a->pad;
    for (int y = 0; y < s.h; y++)
        crop_row(from, a->border, resolve(y + down, s.h, a->border), right, row_of(to, s, y));
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

static void cut_out(int side, uint64_t key, qg_shape s, float *to)
{
    const int top  = draw(key, CUTOUT_ROW, s.h) - side / 2, bottom = top + side;
    const int left = draw(key, CUTOUT_COLUMN, s.w) - side / 2, right = left + side;
    const int x0 = left < 0 ? 0 : left, x1 = right > s.w ? s.w : right;
    for (int y = top < 0 ? 0 : top; y < bottom && y < s.h; y++)
        memset(row_of(to, s, y) + x0 * s.c, 0, (size_t)((x1 - x0) * s.c) * sizeof *to);
}

void qg__augment(const qg_augment *a, uint64_t key, const qg__source *from, float *to)
{
    const qg_shape s = from->shape;
    if (a->pad) crop(a, key, from, to);
    else copy(from, 0, 0, (size_t)s.h * (size_t)s.w, to);
    if (a->flip && draw(key, FLIP, 2))
        for (int y = 0; y < s.h; y++) flip_row(row_of(to, s, y), s.w, s.c);
    if (a->cutout) cut_out(a->cutout, key, s, to);
}
