#include "infer/product.h"

#include <math.h>
#include <string.h>

#include "infer/kernels/floats.h"

/* The product that a kernel runs: a group of the weights of one side, without padding by a value, and of
 * one pixel if it reads whole images. */
typedef enum method { BITS, INT8, REAL, EACH_CODE, EACH_REAL } method;

typedef struct part {
    method            method;
    qg__plain_product plain;
    int               groups, sides;    /* products with a channel per group are one part */
    bool              copies, flat;     /* x is copied; as one pixel */
} part;

size_t qg__image_bytes(qg__coding coding, qg__codes codes, int h, int w, int c)
{
    const size_t pixels = (size_t)h * (size_t)w;
    if (coding == QG__AS_FLOATS) return pixels * (size_t)c * sizeof(float);
    if (coding == QG__AS_BYTES) return pixels * (size_t)c;
    return qg__bit_words(qg__alphabet_of(codes), pixels, c) * sizeof(uint64_t);
}

bool qg__product_is_depthwise(const qg__product *p) { return p->groups > 1 && p->g.c == p->groups; }

bool qg__product_may_be_bytes(const qg__product *p)
{
    const int lowest = p->x.lowest, highest = qg__highest(p->x);
    if (!p->x.count || !p->w.count || p->w.count > 256) return false;
    /* Kernels subtract a zero point that must be a byte. */
    return p->x.step <= 2 && highest - lowest <= 255 && lowest <= 0 && highest >= 0;
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
    qg__geometry           g           = p->g;
    part                   t           = { .groups = p->groups, .sides = p->two_sided ? 2 : 1 };
    if (depthwise) t.groups = 1;
    if (depthwise) t.method = coding == QG__AS_FLOATS ? EACH_REAL : EACH_CODE;
    else t.method = coding == QG__AS_FLOATS ? REAL : coding == QG__AS_BITS ? BITS : INT8;
    g.c      = depthwise ? p->g.oc : p->g.c / p->groups;
    g.oc     = p->g.oc / t.groups;
    t.copies = t.groups > 1 || p->pad != 0 || (depthwise && (coding == QG__AS_BITS || p->g.oc > p->g.c));
    if (is_flat(p)) {
        t.flat   = coding == QG__AS_BITS && qg__pixels(&p->g) > 1;
        t.copies = t.flat;
        g        = (qg__geometry){ 1, 1, p->g.h * p->g.w * p->g.c, 1, 1, p->g.oc, 1, 1, 1, 0, 0 };
    } else if (p->pad != 0) {
        g.h   = (p->g.oh - 1) * p->g.stride + p->g.kh;
        g.w   = (p->g.ow - 1) * p->g.stride + p->g.kw;
        g.top = g.left = 0;
    }
    t.plain       = qg__plain_of(g, p->x, p->two_sided ? zero_or_one : p->w);
    t.plain.zeros = p->zeros;
    return t;
}

static const qg__plain_kernels *kernels_of(qg_isa isa, const part *t)
{
    switch (t->method) {
    case BITS: return &QG_KERNELS_OF(isa, qg__bit_kernels)->plain;
    case INT8: return QG_KERNELS_OF(isa, qg__int8_kernels);
    case REAL: return QG_KERNELS_OF(isa, qg__real_kernels);
    case EACH_CODE: return QG_KERNELS_OF(isa, qg__each_code_kernels);
    case EACH_REAL: break;
    }
    return QG_KERNELS_OF(isa, qg__each_real_kernels);
}

qg__plain_product qg__product_plain(const qg__product *p) { return part_of(p).plain; }

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

/* No intermediate sum of kernels of bits exceeds 4 * 2^(planes of w + planes of x) * taps * (c rounded up to
 * 64): kernels of 3 x 3 may have 14.9 million channels of signs, or 233 thousand of 4 bits. */
static bool bits_fit(const qg__plain_product *p)
{
    return (qg__taps(&p->g) * 64 * qg__words(p->g.c) << (p->wa.bits + p->xa.bits + 2)) <= INT32_MAX;
}

/* Weights of one output. */
static size_t row_of(const qg__product *p) { return qg__taps(&p->g) * (size_t)(p->g.c / p->groups); }

/* Sums of x alone fit, too, and thresholds, which are one more than the largest sum. */
bool qg__product_fits(const qg__product *p)
{
    if (!is_shape(p)) return false;
    if (p->two_sided && (p->w.lowest != -1 || p->w.step != 1 || p->w.count != 3)) return false;
    if (p->zeros && (p->two_sided || p->w.lowest || p->w.step != 1 || p->w.count < 1 || p->w.count > 256))
        return false;
    const bool exact = qg__product_is_exact(p);
    if (exact && p->pad != 0 && !is_value(p->x, p->pad)) return false;
    const part t = part_of(p);
    if (!qg__geometry_valid(&t.plain.g) || (t.method == BITS && !bits_fit(&t.plain))) return false;
    if (!exact) return true;
    const uint64_t w    = (uint64_t)(qg__reach(p->w) ? qg__reach(p->w) : 1);
    const uint64_t most = (uint64_t)qg__reach(p->x) * w;
    return most <= INT32_MAX && row_of(p) * most < INT32_MAX;
}

/* --- weights ------------------------------------------------------------------------------------ */

/* Of a group and side, a multiple of 64. */
static size_t block_bytes(qg_isa isa, const part *t)
{
    return qg__lines_of(kernels_of(isa, t)->weight_bytes(&t->plain));
}

/* Zero points follow the blocks. */
static size_t blocks_bytes(qg_isa isa, const part *t)
{
    return (size_t)t->sides * (size_t)t->groups * block_bytes(isa, t);
}

size_t qg__product_weight_bytes(qg_isa isa, const qg__product *p)
{
    const part t = part_of(p);
    return blocks_bytes(isa, &t) + (p->zeros ? qg__lines_of((size_t)p->g.oc * sizeof(int32_t)) : 0);
}

/* The weights of one side: 1 where w has the sign of the side, else 0. */
static void pack_side(qg_isa isa, const part *t, float sign, int o, size_t n, const float *row, void *block)
{
    enum { PIECE = 256 };
    float piece[PIECE];
    for (size_t done = 0, now; done < n; done += now) {
        now = n - done < PIECE ? n - done : PIECE;
        for (size_t i = 0; i < now; i++) piece[i] = row[done + i] == sign;
        kernels_of(isa, t)->pack_weights(&t->plain, o, done, now, piece, block);
    }
}

void qg__product_pack(qg_isa isa, const qg__product *p, int o, const float *row, void *packed)
{
    const part   t     = part_of(p);
    const size_t n     = row_of(p), bytes = block_bytes(isa, &t);
    const int    own   = t.plain.g.oc;
    uint8_t     *block = (uint8_t *)packed + (size_t)(o / own) * bytes;
    if (p->zeros) ((int32_t *)(void *)((uint8_t *)packed + blocks_bytes(isa, &t)))[o] = (int32_t)*row++;
    if (!p->two_sided) {
        kernels_of(isa, &t)->pack_weights(&t.plain, o % own, 0, n, row, block);
        return;
    }
    pack_side(isa, &t, 1.0f, o % own, n, row, block);
    pack_side(isa, &t, -1.0f, o % own, n, row, block + (size_t)t.groups * bytes);
}

int qg__product_pack_unit(const qg__product *p)
{
    if (p->groups > 1) return p->g.oc;
    return part_of(p).method == BITS ? QG__PACKED_BITS : QG__PACKED;
}

/* --- copies of images ----------------------------------------------------------------------------- */

/* An image as kernels want it: some of its channels, and a frame of one value around them; or all of its
 * pixels as the channels of one. */
typedef struct slice {
    qg__coding from, to;            /* the same, or bits and bytes */
    qg__codes  x;
    int        h, w, c;             /* of the image */
    int        first, channels;     /* that the slice has */
    int        repeat;              /* each so many times in turn; 1 for bits */
    int        to_h, to_w;          /* of the slice */
    int        top, left;           /* rows and columns of the frame before the image; >= 0 */
    bool       flat;                /* from bits to bits: one pixel of h * w * c channels, and no frame */
    float      pad;                 /* what the frame has; a value of x */
} slice;

static slice slice_of(const qg__product *p, const part *t, int group)
{
    const bool depthwise = qg__product_is_depthwise(p);
    const int  channels  = t->plain.g.c;
    slice      s = { .from = qg__product_coding(p), .x = p->x, .h = p->g.h, .w = p->g.w, .c = p->g.c,
                     .first = depthwise ? 0 : group * channels, .channels = depthwise ? p->g.c : channels,
                     .repeat = depthwise ? p->g.oc / p->g.c : 1, .to_h = t->plain.g.h, .to_w = t->plain.g.w,
                     .pad = p->pad };
    s.to   = t->method == EACH_CODE ? QG__AS_BYTES : s.from;
    s.flat = t->flat;
    if (p->pad != 0) s.top = p->g.top, s.left = p->g.left;
    return s;
}

static size_t source_pixel(const slice *s) { return qg__image_bytes(s->from, s->x, 1, 1, s->c); }
static size_t slice_pixel(const slice *s)
{
    return qg__image_bytes(s->to, s->x, 1, 1, s->channels * s->repeat);
}

/* The bits of channels that exist in word w of a plane. */
static uint64_t channels_of_word(int channels, size_t w)
{
    const size_t left = (size_t)channels - 64 * w;
    return left < 64 ? ((uint64_t)1 << left) - 1 : ~(uint64_t)0;
}

static void copy_bits(const slice *s, int planes, const uint64_t *x, uint64_t *to)
{
    const size_t words = qg__words(s->c), own = qg__words(s->channels);
    const int    shift = s->first % 64;
    for (int j = 0; j < planes; j++, x += words)
        for (size_t w = 0; w < own; w++) {
            const size_t at   = (size_t)(s->first / 64) + w;
            uint64_t     bits = x[at] >> shift;
            if (shift && at + 1 < words) bits |= x[at + 1] << (64 - shift);
            *to++ = bits & channels_of_word(s->channels, w);
        }
}

/* The bits of all channels as value - lowest. */
static void copy_bits_as_bytes(const slice *s, qg__alphabet a, const uint64_t *x, uint8_t *to)
{
    const size_t words = qg__words(s->c);
    for (int k = 0; k < s->channels; k++) {
        int value = qg__offset(a) - s->x.lowest;
        for (int j = 0; j < a.bits; j++)
            value += qg__factor(a, j) * (int)(x[(size_t)j * words + (size_t)(k / 64)] >> k % 64 & 1);
        for (int r = 0; r < s->repeat; r++) *to++ = (uint8_t)value;
    }
}

static void copy_pixel(const slice *s, qg__alphabet a, const uint8_t *x, uint8_t *to)
{
    if (s->from == QG__AS_BITS && s->to == QG__AS_BITS) {
        copy_bits(s, a.bits, (const uint64_t *)(const void *)x, (uint64_t *)(void *)to);
    } else if (s->from == QG__AS_BITS) {
        copy_bits_as_bytes(s, a, (const uint64_t *)(const void *)x, to);
    } else {
        const size_t each = s->from == QG__AS_FLOATS ? sizeof(float) : 1, n = (size_t)s->channels;
        x += (size_t)s->first * each;
        if (s->repeat == 1) memcpy(to, x, n * each);
        else
            for (size_t k = 0; k < n; k++, x += each)
                for (int r = 0; r < s->repeat; r++, to += each) memcpy(to, x, each);
    }
}

static void copy_pixels(const slice *s, size_t n, const uint8_t *x, uint8_t *to)
{
    const size_t       from = source_pixel(s), into = slice_pixel(s);
    const qg__alphabet a = qg__alphabet_of(s->x);
    if (s->from == s->to && s->channels == s->c && s->repeat == 1) memcpy(to, x, n * from);
    else
        for (size_t i = 0; i < n; i++) copy_pixel(s, a, x + i * from, to + i * into);
}

static uint8_t *fill_pixels(const slice *s, int n, uint8_t *to)
{
    const size_t       channels = (size_t)n * (size_t)(s->channels * s->repeat);
    const qg__alphabet a        = qg__alphabet_of(s->x);
    if (n <= 0) return to;
    if (s->to == QG__AS_FLOATS) {
        for (size_t k = 0; k < channels; k++) memcpy(to + k * sizeof s->pad, &s->pad, sizeof s->pad);
    } else if (s->to == QG__AS_BYTES) {
        memset(to, (int)s->pad - s->x.lowest, channels);
    } else {
        uint64_t *words = (uint64_t *)(void *)to;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < a.bits; j++)
                for (size_t w = 0; w < qg__words(s->channels); w++)
                    *words++ = qg__bit(a, (int)s->pad, j) ? channels_of_word(s->channels, w) : 0;
    }
    return to + (size_t)n * slice_pixel(s);
}

/* Each plane: the c bits of one pixel after those of another.  Bits of channels that do not exist are 0 in
 * both. */
static void flatten(const slice *s, const uint64_t *x, uint64_t *to)
{
    const int    planes = qg__alphabet_of(s->x).bits;
    const size_t words  = qg__words(s->c), pixels = (size_t)s->h * (size_t)s->w;
    memset(to, 0, slice_pixel(s));
    for (int j = 0; j < planes; j++, to += qg__words(s->channels)) {
        size_t at = 0;
        for (size_t i = 0; i < pixels; i++)
            for (size_t w = 0; w < words; w++) {
                const uint64_t bits = x[(i * (size_t)planes + (size_t)j) * words + w];
                const size_t   n    = w + 1 < words ? 64 : (size_t)s->c - 64 * w, shift = at % 64;
                to[at / 64] |= bits << shift;
                if (shift + n > 64) to[at / 64 + 1] |= bits >> (64 - shift);
                at += n;
            }
    }
}

static void copy_slice(const slice *s, const uint8_t *x, uint8_t *to)
{
    if (s->flat) {
        flatten(s, (const uint64_t *)(const void *)x, (uint64_t *)(void *)to);
        return;
    }
    if (s->to_h == s->h && s->to_w == s->w && !s->top && !s->left) {
        copy_pixels(s, (size_t)s->h * (size_t)s->w, x, to);
        return;
    }
    const int left   = s->left < s->to_w ? s->left : s->to_w;
    const int inside = s->w < s->to_w - left ? s->w : s->to_w - left;
    for (int r = 0; r < s->to_h; r++) {
        if (r < s->top || r - s->top >= s->h) {
            to = fill_pixels(s, s->to_w, to);
            continue;
        }
        to = fill_pixels(s, left, to);
        copy_pixels(s, (size_t)inside, x + (size_t)(r - s->top) * (size_t)s->w * source_pixel(s), to);
        to = fill_pixels(s, s->to_w - left - inside, to + (size_t)inside * slice_pixel(s));
    }
}

/* --- running ------------------------------------------------------------------------------------ */

/* Scratch: the copy of x, the results of a group, the kernel's. */
typedef struct rooms {
    size_t image, x, acc, kernel;       /* image: of one */
    int    images;                      /* at once: scratch of copies and of bits has room for no more */
} rooms;

static rooms rooms_of(qg_isa isa, const qg__product *p, const part *t, int n)
{
    rooms r = { .images = n };
    if (t->copies || t->method == BITS) r.images = qg__images_at_once(&t->plain.g, n);
    if (t->copies) {
        const slice s = slice_of(p, t, 0);
        r.image  = (size_t)s.to_h * (size_t)s.to_w * slice_pixel(&s);
        r.x      = qg__lines_of((size_t)r.images * r.image);
        const size_t results = (size_t)r.images * qg__results(&t->plain.g) * (size_t)t->plain.g.oc;
        if (t->groups > 1) r.acc = qg__lines_of(results * sizeof(int32_t));
    }
    r.kernel = kernels_of(isa, t)->scratch_bytes(&t->plain, r.images);
    return r;
}

size_t qg__product_scratch_bytes(qg_isa isa, const qg__product *p, int n)
{
    const part  t = part_of(p);
    const rooms r = rooms_of(isa, p, &t, n);
    return r.x + r.acc + r.kernel;
}

/* A group of n images, which kernels read in place or as copies. */
static void run_group(qg_isa isa, const qg__product *p, const part *t, int group, int n, const uint8_t *x,
                      const void *block, int32_t *acc, uint8_t *scratch)
{
    const rooms  r       = rooms_of(isa, p, t, n);
    const slice  s       = slice_of(p, t, group);
    const size_t results = qg__results(&t->plain.g), oc = (size_t)p->g.oc, own = (size_t)t->plain.g.oc;
    const size_t image   = (size_t)s.h * (size_t)s.w * source_pixel(&s);
    int32_t     *part_of_acc = (int32_t *)(void *)(scratch + r.x);
    for (int done = 0, now; done < n; done += now, acc += (size_t)now * results * oc) {
        now = n - done < r.images ? n - done : r.images;
        for (int i = 0; t->copies && i < now; i++)
            copy_slice(&s, x + (size_t)(done + i) * image, scratch + (size_t)i * r.image);
        kernels_of(isa, t)->run(&t->plain, now, t->copies ? scratch : x + (size_t)done * image, block,
                                t->groups > 1 ? part_of_acc : acc, scratch + r.x + r.acc);
        for (size_t i = 0; t->groups > 1 && i < (size_t)now * results; i++)
            memcpy(acc + i * oc + (size_t)group * own, part_of_acc + i * own, own * sizeof *acc);
    }
}

/* Those of all outputs, which follow the blocks. */
static const int32_t *zeros_of(qg_isa isa, const part *t, const void *packed)
{
    return (const int32_t *)(const void *)((const uint8_t *)packed + blocks_bytes(isa, t));
}

void qg__product_run(qg_isa isa, const qg__product *p, int n, const void *x, const void *packed, void *acc,
                     void *scratch)
{
    part           t     = part_of(p);
    const size_t   bytes = block_bytes(isa, &t), side = (size_t)n * qg__results(&p->g) * (size_t)p->g.oc;
    const uint8_t *block = packed;
    if (p->zeros) t.plain.zero = zeros_of(isa, &t, packed);
    for (int i = 0; i < t.sides; i++)
        for (int group = 0; group < t.groups; group++, block += bytes) {
            run_group(isa, p, &t, group, n, x, block, (int32_t *)acc + (size_t)i * side, scratch);
            if (p->zeros) t.plain.zero += t.plain.g.oc;
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
    part t         = part_of(p);
    t.plain.finish = finish;
    if (p->zeros) t.plain.zero = zeros_of(isa, &t, packed);
    kernels_of(isa, &t)->run(&t.plain, n, x, packed, y, scratch);
}

/* --- scales ------------------------------------------------------------------------------------- */

void qg__product_scale(qg_isa isa, const qg__product *p, qg__scales k, size_t pixels, const void *acc,
                       float *z)
{
    const int   oc       = p->g.oc;
    const bool  exact    = qg__product_is_exact(p);
    const void *negative = p->two_sided ? (const float *)acc + pixels * (size_t)oc : NULL;
    QG_KERNELS_OF(isa, qg__float_kernels)->scale(exact, pixels, oc, k.a, k.an, k.b, acc, negative, z);
}

void qg__product_scale_channels(qg_isa isa, qg__scales k, int first, int n, const int32_t *acc, float *z)
{
    QG_KERNELS_OF(isa, qg__float_kernels)->scale(true, 1, n, k.a + first, NULL, k.b + first, acc, NULL, z);
}

int32_t qg__product_largest_sum(const qg__product *p)
{
    const size_t row = row_of(p);
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
        qg__product_scale_channels(isa, k, first, n, acc, z);
        for (int i = 0; i < n; i++) {
            if (least[i] == hi[i]) continue;
            if (z[i] >= bound) hi[i] = middle[i];
            else least[i] = middle[i] + 1;
            open = open || least[i] < hi[i];
        }
    }
}
