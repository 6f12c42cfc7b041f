/* Steps that are no products. */
#include <string.h>

#include "core/kernels/functions.h"
#include "infer/kernels/floats.h"
#include "infer/net.h"

/* --- quantizers --------------------------------------------------------------------------------- */

size_t qg__pixel_bytes(const qg__infer_step *s)
{
    return qg__image_bytes((qg__coding)s->r.coding, qg__codes_of_value(&s->r), 1, 1, s->r.oc);
}

static void find_levels(const qg__infer_step *s, size_t n, const float *z, float *y)
{
    enum { PIECE = 1024 };
    const qg__requantize_kernels *kernels = QG_KERNELS_OF(s->isa, qg__requantize_kernels);
    const qg__float_kernels      *floats  = QG_KERNELS_OF(s->isa, qg__float_kernels);
    uint8_t                       code[PIECE];
    for (size_t done = 0, now; done < n; done += now) {
        now = n - done < PIECE ? n - done : PIECE;
        kernels->find(&s->to.find, now, z + done, code);
        floats->look_up(now, s->to.find.count, s->to.level, code, y + done);
    }
}

void qg__quantize(const qg__infer_step *s, size_t pixels, const float *z, void *y)
{
    const size_t                  n       = pixels * (size_t)s->r.oc;
    const qg__requantize_kernels *kernels = QG_KERNELS_OF(s->isa, qg__requantize_kernels);
    switch (s->to.route) {
    case QG__ROUTE_FLOATS:
        if (s->r.relu) QG_KERNELS_OF(s->isa, qg__float_kernels)->relu(n, z, y);
        else if (y != z) memcpy(y, z, n * sizeof *z);
        break;
    case QG__ROUTE_BITS:
        kernels->find_bits(&s->to.find, s->to.alphabet, pixels, s->r.oc, z, y);
        break;
    case QG__ROUTE_BYTES: kernels->find(&s->to.find, n, z, y); break;
    case QG__ROUTE_LEVELS: find_levels(s, n, z, y); break;
    case QG__ROUTE_SUMS:
    case QG__ROUTE_FIXED: break;
    }
}

/* --- pools -------------------------------------------------------------------------------------- */

/* Pixels begin .. end - 1, of n along an axis, that window i reads. */
typedef struct range {
    int begin, end;
} range;

static range pixels_of(int i, int size, int stride, int before, int n)
{
    const int64_t begin = (int64_t)i * stride - before, end = begin + size;
    return (range){ (int)(begin < 0 ? 0 : begin > n ? n : begin), (int)(end < 0 ? 0 : end > n ? n : end) };
}

static range rows_of(const qg__packed_step *r, int i)
{
    return pixels_of(i, r->kh, r->stride, r->top, r->h);
}
static range columns_of(const qg__packed_step *r, int i)
{
    return pixels_of(i, r->kw, r->stride, r->left, r->w);
}

/* best = max(best, x) of one packed pixel.  Planes are compared from the top one on. */
static void max_bits(qg__alphabet a, size_t words, const uint64_t *x, uint64_t *best)
{
    for (size_t w = 0; w < words; w++) {
        if (a.kind == QG__TERNARY) {        /* positive if one is, else 0 if one is */
            const uint64_t positive = x[w] | best[w];
            best[words + w] = positive | (x[words + w] & best[words + w]);
            best[w]         = positive;
            continue;
        }
        uint64_t greater = 0, equal = ~(uint64_t)0;
        for (int j = a.bits - 1; j >= 0; j--) {
            const uint64_t negative = a.kind == QG__SIGNED && j == a.bits - 1 ? ~(uint64_t)0 : 0;
            const uint64_t own = x[(size_t)j * words + w] ^ negative,
                           other = best[(size_t)j * words + w] ^ negative;
            greater |= equal & own & ~other;
            equal &= ~(own ^ other);
        }
        for (int j = 0; j < a.bits; j++) {
            uint64_t *plane = best + (size_t)j * words + w;
            *plane          = (*plane & ~greater) | (x[(size_t)j * words + w] & greater);
        }
    }
}

static void max_signs(size_t words, const uint64_t *x, uint64_t *best)
{
    for (size_t w = 0; w < words; w++) best[w] |= x[w];
}

static void max_pixel(const qg__infer_step *s, qg__alphabet a, const qg__float_kernels *k, const uint8_t *x,
                      uint8_t *best)
{
    const size_t    c    = (size_t)s->r.c;
    const uint64_t *bits = (const uint64_t *)(const void *)x;
    if (s->r.coding == QG__AS_FLOATS) k->max_floats(c, (const float *)(const void *)x, (float *)(void *)best);
    else if (s->r.coding == QG__AS_BYTES) k->max_bytes(c, x, best);
    else if (a.bits == 1) max_signs(qg__words(s->r.c), bits, (uint64_t *)(void *)best);
    else max_bits(a, qg__words(s->r.c), bits, (uint64_t *)(void *)best);
}

static void max_pool(const qg__infer_step *s, const uint8_t *x, uint8_t *y)
{
    const qg__packed_step   *r = &s->r;
    const qg__float_kernels *k = QG_KERNELS_OF(s->isa, qg__float_kernels);
    const qg__alphabet       a = qg__alphabet_of(qg__codes_of_value(r));
    const size_t             pixel = qg__pixel_bytes(s);
    for (int i = 0; i < r->oh; i++)
        for (int j = 0; j < r->ow; j++, y += pixel) {
            const range rows = rows_of(r, i), columns = columns_of(r, j);
            for (int p = rows.begin; p < rows.end; p++)
                for (int q = columns.begin; q < columns.end; q++) {
                    const uint8_t *own = x + ((size_t)p * (size_t)r->w + (size_t)q) * pixel;
                    if (p == rows.begin && q == columns.begin) memcpy(y, own, pixel);
                    else max_pixel(s, a, k, own, y);
                }
        }
}

/* A window of more pixels than this is summed in parts (core/ops/pool.c). */
enum { PART = 1024 };

/* part: c floats. */
static void average_pool(const qg__infer_step *s, const float *x, float *y, float *part)
{
    const qg__packed_step   *r = &s->r;
    const qg__float_kernels *k = QG_KERNELS_OF(s->isa, qg__float_kernels);
    const size_t             c = (size_t)r->c;
    for (int i = 0; i < r->oh; i++)
        for (int j = 0; j < r->ow; j++, y += c) {
            const range   rows = rows_of(r, i), columns = columns_of(r, j);
            const int     width = columns.end - columns.begin;
            const int64_t n = (int64_t)(rows.end - rows.begin) * width;
            for (int64_t begin = 0, end; begin < n; begin = end) {
                float *sum = begin ? part : y;
                end        = n - begin < PART ? n : begin + PART;
                memset(sum, 0, c * sizeof *sum);
                for (int64_t q = begin; q < end; q++) {
                    const size_t row = (size_t)(rows.begin + q / width),
                                 column = (size_t)(columns.begin + q % width);
                    k->add(c, sum, x + (row * (size_t)r->w + column) * c, sum);
                }
                if (begin) k->add(c, y, part, y);
            }
            k->divide(c, r->flag ? (float)n : (float)((int64_t)r->kh * r->kw), y);
        }
}

/* --- XNOR-Net's K ------------------------------------------------------------------------------- */

/* The sum of |x| over the channels of a pixel, in eight running sums, as evaluation adds them
 * (quant/reduce_kernel.c). */
static double sum_of_abs(size_t c, const float *x)
{
    enum { LANES = 8 };
    double lane[LANES] = { 0 };
    size_t at = 0;
    for (; at + LANES <= c; at += LANES)
        for (size_t l = 0; l < LANES; l++) lane[l] += (double)fabsf(x[at + l]);
    for (size_t l = 0; at + l < c; l++) lane[l] += (double)fabsf(x[at + l]);
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

/* pixel: a double for each of x. */
static void mean_abs(const qg__infer_step *s, const float *x, float *y, double *pixel)
{
    const qg__packed_step *r     = &s->r;
    const size_t           c     = (size_t)r->c, w = (size_t)r->w;
    const double           count = (double)r->c * (double)r->kh * (double)r->kw;
    for (size_t i = 0; i < (size_t)r->h * w; i++) pixel[i] = sum_of_abs(c, x + i * c);
    for (int i = 0; i < r->oh; i++)
        for (int j = 0; j < r->ow; j++) {
            const range rows = rows_of(r, i), columns = columns_of(r, j);
            double      sum = 0;
            for (int q = columns.begin; q < columns.end; q++) {
                double column = 0;
                for (int p = rows.begin; p < rows.end; p++) column += pixel[(size_t)p * w + (size_t)q];
                sum += column;
            }
            *y++ = (float)(sum / count);
        }
}

/* --- pixels ------------------------------------------------------------------------------------- */

static void shortcut(const qg__packed_step *r, const float *x, float *y)
{
    const size_t c = (size_t)r->c, oc = (size_t)r->oc, first = (oc - c) / 2;
    memset(y, 0, (size_t)r->oh * (size_t)r->ow * oc * sizeof *y);
    for (int i = 0; i < r->oh; i++)
        for (int j = 0; j < r->ow; j++, y += oc)
            memcpy(y + first, x + ((size_t)i * (size_t)r->w + (size_t)j) * (size_t)r->stride * c,
                   c * sizeof *y);
}

static void concat(size_t pixels, size_t c, size_t oc, const float *x, const float *z, float *y)
{
    for (size_t i = 0; i < pixels; i++, y += oc) {
        memcpy(y, x + i * c, c * sizeof *y);
        memcpy(y + c, z + i * (oc - c), (oc - c) * sizeof *y);
    }
}

/* --- all ---------------------------------------------------------------------------------------- */

size_t qg__op_scratch_bytes(const qg__infer_step *s)
{
    if (s->r.kind == QG__AVGPOOL) return (size_t)s->r.c * sizeof(float);
    return s->r.kind == QG__MEAN_ABS ? (size_t)s->r.h * (size_t)s->r.w * sizeof(double) : 0;
}

static void run_pixels(const qg__infer_step *s, size_t pixels, const float *x, const float *z, void *y)
{
    const qg__float_kernels *k = QG_KERNELS_OF(s->isa, qg__float_kernels);
    const qg__packed_step   *r = &s->r;
    const size_t             n = pixels * (size_t)r->c;
    switch ((qg__kind)r->kind) {
    case QG__QUANTIZE: qg__quantize(s, pixels, x, y); break;
    case QG__AFFINE: k->scale(false, pixels, r->c, s->number[0], NULL, s->number[1], x, NULL, y); break;
    case QG__RELU: k->relu(n, x, y); break;
    case QG__CLIP: k->clip(n, s->number[0][0], s->number[1][0], x, y); break;
    case QG__SIGMOID: QG_KERNELS_OF(s->isa, qg__function_kernels)->sigmoid(n, x, y); break;
    case QG__TANH: QG_KERNELS_OF(s->isa, qg__function_kernels)->tanh(n, x, y); break;
    case QG__PRELU:
    case QG__RPRELU: k->prelu(pixels, r->c, s->number[0], s->number[1], s->number[2], x, y); break;
    case QG__ADD: k->add(n, x, z, y); break;
    case QG__MULTIPLY: k->scale_pixels(pixels, r->c, x, z, y); break;
    case QG__CONCAT: concat(pixels, (size_t)r->c, (size_t)r->oc, x, z, y); break;
    default: break;
    }
}

void qg__op_run(const qg__infer_step *s, int n, const void *x, const float *z, void *y, void *scratch)
{
    const qg__packed_step *r      = &s->r;
    const size_t           pixels = (size_t)r->h * (size_t)r->w, floats = pixels * (size_t)r->c;
    uint8_t               *to     = y;
    if (r->kind != QG__MAXPOOL && r->kind != QG__AVGPOOL && r->kind != QG__MEAN_ABS &&
        r->kind != QG__SHORTCUT) {
        run_pixels(s, (size_t)n * pixels, x, z, y);
        return;
    }
    const size_t bytes = r->kind == QG__MAXPOOL
                             ? qg__image_bytes((qg__coding)r->coding, qg__codes_of_value(r), r->h, r->w, r->c)
                             : floats * sizeof(float);
    for (int i = 0; i < n; i++, to += s->bytes) {
        const uint8_t *image = (const uint8_t *)x + (size_t)i * bytes;
        const float   *reals = (const float *)(const void *)image;
        if (r->kind == QG__MAXPOOL) max_pool(s, image, to);
        else if (r->kind == QG__AVGPOOL) average_pool(s, reals, (float *)(void *)to, scratch);
        else if (r->kind == QG__MEAN_ABS) mean_abs(s, reals, (float *)(void *)to, scratch);
        else shortcut(r, reals, (float *)(void *)to);
    }
}
