#include "infer/product.h"

#include <math.h>
#include <string.h>

#include "infer/kernels/depthwise.h"
#include "infer/kernels/int8.h"
#include "infer/kernels/real.h"
#include "infer/kernels/scale.h"
#include "infer/slice.h"

/* The product that a kernel runs: a group of the weights of one side, without padding by a value, and of
 * one pixel if it reads whole images. */
typedef enum method { BITS, INT8, REAL, EACH_CODE, EACH_REAL } method;

typedef struct part {
    method       method;
    qg__geometry g;
    qg__codes    w;
    int          groups, sides;     /* products with a channel per group are one part */
    bool         copies, flat;      /* x is copied; as one pixel */
} part;

bool qg__product_is_depthwise(const qg__product *p) { return p->groups > 1 && p->g.c == p->groups; }

/* The kernel int8.h subtracts a zero point that must be a byte. */
static bool has_bytes(qg__codes x)
{
    return x.step <= 2 && qg__highest(x) - x.lowest <= 255 && x.lowest <= 0 && qg__highest(x) >= 0;
}

bool qg__product_may_be_bytes(const qg__product *p)
{
    return p->x.count && p->w.count && p->w.count <= 256 && has_bytes(p->x);
}

qg__coding qg__product_coding(const qg__product *p)
{
    if (!p->x.count || !p->w.count) return QG__AS_FLOATS;
    if (!p->x_bytes && !p->zeros && qg__alphabet_of(p->x).bits && qg__alphabet_of(p->w).bits)
        return QG__AS_BITS;
    return qg__product_may_be_bytes(p) ? QG__AS_BYTES : QG__AS_FLOATS;
}

bool qg__product_is_exact(const qg__product *p) { return qg__product_coding(p) != QG__AS_FLOATS; }

/* A dense layer of an image.  Bytes and floats of all pixels are those of one.  Bits are copied, unless
 * pixels fill words. */
static bool is_flat(const qg__product *p)
{
    const qg__geometry *g = &p->g;
    return p->groups == 1 && g->h == g->kh && g->w == g->kw && g->oh == 1 && g->ow == 1 && !g->top &&
           !g->left && (qg__product_coding(p) != QG__AS_BITS || g->c % 64);
}

static part part_of(const qg__product *p)
{
    static const qg__codes zero_or_one = { 0, 1, 2 };
    const qg__coding       coding      = qg__product_coding(p);
    const bool             depthwise   = qg__product_is_depthwise(p);
    part                   t           = { .g = p->g, .w = p->two_sided ? zero_or_one : p->w,
                                           .sides = p->two_sided ? 2 : 1 };
    if (depthwise) t.method = coding == QG__AS_FLOATS ? EACH_REAL : EACH_CODE;
    else t.method = coding == QG__AS_FLOATS ? REAL : coding == QG__AS_BITS ? BITS : INT8;
    t.groups = depthwise ? 1 : p->groups;
    t.g.c    = depthwise ? p->g.oc : p->g.c / p->groups;
    t.g.oc   = p->g.oc / t.groups;
    t.copies = t.groups > 1 || p->pad != 0 || (depthwise && (coding == QG__AS_BITS || p->g.oc > p->g.c));
    if (is_flat(p)) {
        t.flat   = coding == QG__AS_BITS && qg__pixels(&p->g) > 1;
        t.copies = t.flat;
        t.g      = (qg__geometry){ 1, 1, p->g.h * p->g.w * p->g.c, 1, 1, p->g.oc, 1, 1, 1, 0, 0 };
    } else if (p->pad != 0) {
        t.g.h   = (p->g.oh - 1) * p->g.stride + p->g.kh;
        t.g.w   = (p->g.ow - 1) * p->g.stride + p->g.kw;
        t.g.top = t.g.left = 0;
    }
    return t;
}

/* The same for each kind of kernel. */
typedef struct problem {
    qg__bit_product  bits;
    qg__int8_product int8;
    qg__real_product real;
    qg__each_product each;
} problem;

/* zero: of the outputs of the part, NULL while nothing runs. */
static problem problem_of(const qg__product *p, const part *t, const int32_t *zero)
{
    return (problem){ .bits = { t->g, qg__alphabet_of(t->w), qg__alphabet_of(p->x) },
                      .int8 = { t->g, -p->x.lowest, t->w, p->zeros, zero },
                      .real = { t->g, t->w, zero },
                      .each = { t->g, t->w, -p->x.lowest, zero } };
}

qg__bit_product qg__product_of_bits(const qg__product *p)
{
    const part t = part_of(p);
    return problem_of(p, &t, NULL).bits;
}

/* --- what fits ---------------------------------------------------------------------------------- */

static bool is_value(qg__codes c, float x)
{
    return x >= (float)c.lowest && x <= (float)qg__highest(c) && x == (float)(int)x &&
           ((int)x - c.lowest) % c.step == 0;
}

static bool is_shape(const qg__product *p)
{
    if (!qg__geometry_valid(&p->g) || p->groups < 1 || p->g.c % p->groups || p->g.oc % p->groups)
        return false;
    return (!p->x.count || qg__codes_valid(p->x)) && (!p->w.count || qg__codes_valid(p->w)) &&
           isfinite(p->pad);
}

bool qg__product_fits(const qg__product *p)
{
    if (!is_shape(p)) return false;
    if (p->two_sided && (p->w.lowest != -1 || p->w.step != 1 || p->w.count != 3)) return false;
    if (p->zeros && (p->two_sided || p->w.lowest || p->w.step != 1 || p->w.count < 1 || p->w.count > 256))
        return false;
    const bool exact = qg__product_is_exact(p);
    if (exact && p->pad != 0 && !is_value(p->x, p->pad)) return false;
    const part t = part_of(p);
    if (!qg__geometry_valid(&t.g)) return false;
    const problem k = problem_of(p, &t, NULL);
    if (t.method == BITS && !qg__bits_fit(&k.bits)) return false;
    if (!exact) return true;
    const uint64_t row  = qg__taps(&p->g) * (uint64_t)(p->g.c / p->groups);
    const uint64_t most = (uint64_t)qg__reach(p->x) * (uint64_t)qg__reach(p->w);
    return most <= INT32_MAX && row * most <= INT32_MAX;
}

/* --- weights ------------------------------------------------------------------------------------ */

/* Of a group and side, a multiple of 64. */
static size_t block_bytes(qg_isa isa, const qg__product *p, const part *t)
{
    const problem k = problem_of(p, t, NULL);
    switch (t->method) {
    case BITS: return qg__lines_of(QG_KERNELS_OF(isa, qg__bit_kernels)->weight_bytes(&k.bits));
    case INT8: return qg__lines_of(QG_KERNELS_OF(isa, qg__int8_kernels)->weight_bytes(&k.int8));
    case REAL: return qg__lines_of(QG_KERNELS_OF(isa, qg__real_kernels)->weight_bytes(&k.real));
    case EACH_CODE:
    case EACH_REAL: return qg__lines_of(QG_KERNELS_OF(isa, qg__each_kernels)->weight_bytes(&k.each));
    }
    return 0;
}

/* Zero points follow the blocks. */
static size_t blocks_bytes(qg_isa isa, const qg__product *p, const part *t)
{
    return (size_t)t->sides * (size_t)t->groups * block_bytes(isa, p, t);
}

size_t qg__product_weight_bytes(qg_isa isa, const qg__product *p)
{
    const part t = part_of(p);
    return blocks_bytes(isa, p, &t) + (p->zeros ? qg__lines_of((size_t)p->g.oc * sizeof(int32_t)) : 0);
}

/* NULL: there are none. */
static const int32_t *zeros_of(qg_isa isa, const qg__product *p, const part *t, const void *packed)
{
    return p->zeros ? (const int32_t *)(const void *)((const uint8_t *)packed + blocks_bytes(isa, p, t))
                    : NULL;
}

static void pack_piece(qg_isa isa, const qg__product *p, const part *t, int o, size_t first, size_t n,
                       const float *values, void *block)
{
    const problem k = problem_of(p, t, NULL);
    switch (t->method) {
    case BITS: QG_KERNELS_OF(isa, qg__bit_kernels)->pack_weights(&k.bits, o, first, n, values, block); break;
    case INT8: QG_KERNELS_OF(isa, qg__int8_kernels)->pack_weights(&k.int8, o, first, n, values, block); break;
    case REAL: QG_KERNELS_OF(isa, qg__real_kernels)->pack_weights(&k.real, o, first, n, values, block); break;
    case EACH_CODE:
    case EACH_REAL:
        QG_KERNELS_OF(isa, qg__each_kernels)->pack_weights(&k.each, o, first, n, values, block);
        break;
    }
}

/* The weights of one side: 1 where w has the sign of the side, else 0. */
static void pack_side(qg_isa isa, const qg__product *p, const part *t, float sign, int o, size_t n,
                      const float *row, void *block)
{
    enum { PIECE = 256 };
    float piece[PIECE];
    for (size_t done = 0, now; done < n; done += now) {
        now = n - done < PIECE ? n - done : PIECE;
        for (size_t i = 0; i < now; i++) piece[i] = row[done + i] == sign;
        pack_piece(isa, p, t, o, done, now, piece, block);
    }
}

void qg__product_pack(qg_isa isa, const qg__product *p, int o, const float *row, void *packed)
{
    const part   t     = part_of(p);
    const size_t n     = qg__taps(&p->g) * (size_t)(p->g.c / p->groups), bytes = block_bytes(isa, p, &t);
    uint8_t     *block = (uint8_t *)packed + (size_t)(o / t.g.oc) * bytes;
    if (p->zeros) ((int32_t *)(void *)((uint8_t *)packed + blocks_bytes(isa, p, &t)))[o] = (int32_t)*row++;
    if (!p->two_sided) {
        pack_piece(isa, p, &t, o % t.g.oc, 0, n, row, block);
        return;
    }
    pack_side(isa, p, &t, 1.0f, o % t.g.oc, n, row, block);
    pack_side(isa, p, &t, -1.0f, o % t.g.oc, n, row, block + (size_t)t.groups * bytes);
}

/* --- running ------------------------------------------------------------------------------------ */

static size_t kernel_scratch(qg_isa isa, const qg__product *p, const part *t, int n)
{
    const problem k = problem_of(p, t, NULL);
    switch (t->method) {
    case BITS: return QG_KERNELS_OF(isa, qg__bit_kernels)->scratch_bytes(&k.bits, n);
    case INT8: return QG_KERNELS_OF(isa, qg__int8_kernels)->scratch_bytes(&k.int8, n);
    case REAL: return QG_KERNELS_OF(isa, qg__real_kernels)->scratch_bytes(&k.real);
    case EACH_CODE:
    case EACH_REAL: return QG_KERNELS_OF(isa, qg__each_kernels)->scratch_bytes(&k.each);
    }
    return 0;
}

/* What a kernel reads of the weights: a block, and the zero points of its outputs. */
typedef struct weights {
    const uint8_t *block;
    const int32_t *zero;
} weights;

/* finish: NULL, or of the kernel int8.h. */
static void run_kernel(qg_isa isa, const qg__product *p, const part *t, int n, const void *x, weights w,
                       const qg__finish *finish, void *acc, void *scratch)
{
    const problem k = problem_of(p, t, w.zero);
    switch (t->method) {
    case BITS: QG_KERNELS_OF(isa, qg__bit_kernels)->run(&k.bits, n, x, w.block, acc, scratch); break;
    case INT8: QG_KERNELS_OF(isa, qg__int8_kernels)->run(&k.int8, n, x, w.block, finish, acc, scratch); break;
    case REAL: QG_KERNELS_OF(isa, qg__real_kernels)->run(&k.real, n, x, w.block, acc, scratch); break;
    case EACH_CODE: QG_KERNELS_OF(isa, qg__each_kernels)->codes(&k.each, n, x, w.block, acc, scratch); break;
    case EACH_REAL: QG_KERNELS_OF(isa, qg__each_kernels)->reals(&k.each, n, x, w.block, acc, scratch); break;
    }
}

static qg__slice slice_of(const qg__product *p, const part *t, int group)
{
    const bool depthwise = qg__product_is_depthwise(p);
    qg__slice  s = { .from = qg__product_coding(p), .x = p->x, .h = p->g.h, .w = p->g.w, .c = p->g.c,
                     .first = depthwise ? 0 : group * t->g.c, .channels = depthwise ? p->g.c : t->g.c,
                     .repeat = depthwise ? p->g.oc / p->g.c : 1, .to_h = t->g.h, .to_w = t->g.w,
                     .pad = p->pad };
    s.to   = t->method == EACH_CODE ? QG__AS_BYTES : s.from;
    s.flat = t->flat;
    if (p->pad != 0) s.top = p->g.top, s.left = p->g.left;
    return s;
}

/* Scratch: the copy of x, the results of a group, the kernel's. */
typedef struct rooms {
    size_t image, x, acc, kernel;       /* image: of one */
    int    images;                      /* at once */
} rooms;

static rooms rooms_of(qg_isa isa, const qg__product *p, const part *t, int n)
{
    rooms r = { .images = n };
    if (t->copies) {
        const qg__slice s = slice_of(p, t, 0);
        r.images = qg__images_at_once(&t->g, n);
        r.image  = qg__slice_bytes(&s);
        r.x      = qg__lines_of((size_t)r.images * r.image);
        const size_t results = (size_t)r.images * qg__results(&t->g) * (size_t)t->g.oc;
        if (t->groups > 1) r.acc = qg__lines_of(results * sizeof(int32_t));
    }
    r.kernel = kernel_scratch(isa, p, t, r.images);
    return r;
}

size_t qg__product_scratch_bytes(qg_isa isa, const qg__product *p, int n)
{
    const part  t = part_of(p);
    const rooms r = rooms_of(isa, p, &t, n);
    return r.x + r.acc + r.kernel;
}

/* A group of n images, each of which is copied. */
static void run_copies(qg_isa isa, const qg__product *p, const part *t, int group, int n, const uint8_t *x,
                       weights w, int32_t *acc, uint8_t *scratch)
{
    const rooms     r       = rooms_of(isa, p, t, n);
    const qg__slice s       = slice_of(p, t, group);
    const size_t    results = qg__results(&t->g), oc = (size_t)p->g.oc, own = (size_t)t->g.oc;
    int32_t        *part_of_acc = (int32_t *)(void *)(scratch + r.x);
    for (int done = 0, now; done < n; done += now, acc += (size_t)now * results * oc) {
        now = n - done < r.images ? n - done : r.images;
        for (int i = 0; i < now; i++)
            qg__slice_copy(&s, x + (size_t)(done + i) * qg__slice_source_bytes(&s),
                           scratch + (size_t)i * r.image);
        run_kernel(isa, p, t, now, scratch, w, NULL, t->groups > 1 ? part_of_acc : acc,
                   scratch + r.x + r.acc);
        for (size_t i = 0; t->groups > 1 && i < (size_t)now * results; i++)
            memcpy(acc + i * oc + (size_t)group * own, part_of_acc + i * own, own * sizeof *acc);
    }
}

void qg__product_run(qg_isa isa, const qg__product *p, int n, const void *x, const void *packed, void *acc,
                     void *scratch)
{
    const part   t     = part_of(p);
    const size_t bytes = block_bytes(isa, p, &t), side = (size_t)n * qg__results(&p->g) * (size_t)p->g.oc;
    weights      w     = { packed, zeros_of(isa, p, &t, packed) };
    for (int i = 0; i < t.sides; i++)
        for (int group = 0; group < t.groups; group++, w.block += bytes) {
            int32_t *to = (int32_t *)acc + (size_t)i * side;
            if (t.copies) run_copies(isa, p, &t, group, n, x, w, to, scratch);
            else run_kernel(isa, p, &t, n, x, w, NULL, to, scratch);
            if (w.zero) w.zero += t.g.oc;
        }
}

bool qg__product_finishes(const qg__product *p)
{
    const part t = part_of(p);
    return t.method == INT8 && t.sides == 1 && !t.copies;
}

void qg__product_run_finished(qg_isa isa, const qg__product *p, int n, const void *x, const void *packed,
                              const qg__finish *finish, void *y, void *scratch)
{
    const part t = part_of(p);
    run_kernel(isa, p, &t, n, x, (weights){ packed, zeros_of(isa, p, &t, packed) }, finish, y, scratch);
}

/* --- scales ------------------------------------------------------------------------------------- */

void qg__product_scale(qg_isa isa, const qg__product *p, qg__scales k, size_t pixels, const void *acc,
                       float *z)
{
    const qg__scale_kernels *kernels = QG_KERNELS_OF(isa, qg__scale_kernels);
    const int                oc      = p->g.oc;
    const size_t             side    = pixels * (size_t)oc;
    const int32_t           *sums    = acc;
    const float             *reals   = acc;
    if (qg__product_is_exact(p)) {
        if (p->two_sided) kernels->two_integers(pixels, oc, k.a, k.an, k.b, sums, sums + side, z);
        else kernels->integers(pixels, oc, k.a, k.b, sums, z);
    } else {
        if (p->two_sided) kernels->two_reals(pixels, oc, k.a, k.an, k.b, reals, reals + side, z);
        else kernels->reals(pixels, oc, k.a, k.b, reals, z);
    }
}

void qg__product_scale_channels(qg_isa isa, const qg__product *p, qg__scales k, int first, int n,
                                const int32_t *acc, float *z)
{
    qg__product      own = *p;
    const qg__scales from = { k.a + first, NULL, k.b + first };
    own.g.oc              = n;
    qg__product_scale(isa, &own, from, 1, acc, z);
}

int32_t qg__product_largest_sum(const qg__product *p)
{
    const size_t row = qg__taps(&p->g) * (size_t)(p->g.c / p->groups);
    return (int32_t)(row * (size_t)qg__reach(p->x) * (size_t)qg__reach(p->w));
}

void qg__product_least_sums(qg_isa isa, const qg__product *p, qg__scales k, int first, int n, float bound,
                            const int32_t *flip, int32_t *least)
{
    const int32_t most = qg__product_largest_sum(p);
    int32_t       hi[QG__MOST_CHANNELS], middle[QG__MOST_CHANNELS], acc[QG__MOST_CHANNELS] = { 0 };
    float         z[QG__MOST_CHANNELS];
    bool          open = true;
    for (int i = 0; i < n; i++) {
        least[i] = -most - 1;
        hi[i]    = most + 1;            /* not reached */
    }
    while (open) {
        open = false;
        for (int i = 0; i < n; i++) {
            middle[i] = (int32_t)(((int64_t)least[i] + hi[i]) >> 1);
            acc[i]    = middle[i] ^ flip[i];
        }
        qg__product_scale_channels(isa, p, k, first, n, acc, z);
        for (int i = 0; i < n; i++) {
            if (least[i] == hi[i]) continue;
            if (z[i] >= bound) hi[i] = middle[i];
            else least[i] = middle[i] + 1;
            open = open || least[i] < hi[i];
        }
    }
}

void qg__affine(qg_isa isa, size_t pixels, int c, const float *a, const float *b, const float *x, float *y)
{
    QG_KERNELS_OF(isa, qg__scale_kernels)->reals(pixels, c, a, b, x, y);
}
