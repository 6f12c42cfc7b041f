#include "infer/kernels/correlate.h"
#include "infer/kernels/lanes.h"

/* Four neighbouring pixels of a row of dy are a quad, and a lane of a tile sums the products of a quad of an
 * output with four pixels of x:
 *
 *     x     [parts][c][plane], a plane of pixels for each channel: [phases][rows][pitch], 0 around the image.
 *           With stride s rows and columns are dealt out to s phases each, so that what a tap reads are
 *           neighbours in one of them; phases that no tap reads are left out
 *     dy    [blocks of OUTPUTS][oh][quads][lanes][4], signed, then int32 [blocks][OUTPUTS], the sum of each
 *           output; lanes are OUTPUTS, or VL in a last block that fills one vector
 *     acc   of a unit, a block of outputs and some channels: [kh][kw][channels][OUTPUTS]
 *
 * A tile is channels x vectors of sums, as those of infer/kernels/int8_kernel.c.  AVX-512 adds four products
 * of bytes in one instruction.  Elsewhere a multiply-add of bytes gives sums of two products in 16 bits,
 * which must be widened before they overflow, the later the smaller the values are.  So bytes of more than 4
 * bits become two parts, which are two products. */
enum { VECTORS = 2, OUTPUTS = VECTORS * VL, QUAD = 4 };

#if defined(__AVX512VNNI__)
enum { PART_BITS = 8, LONGEST_RUN = 1 << 20 };
#else
enum { PART_BITS = 4, LONGEST_RUN = INT16_MAX };
#endif
enum { PART_MOST = (1 << PART_BITS) - 1 };

static int    up(int n, int of) { return (n + of - 1) / of * of; }
static int    span_of(qg__codes c)                  { return qg__highest(c) - c.lowest; }
static int    parts_of(const qg__correlation *p)    { return span_of(p->x) > PART_MOST ? 2 : 1; }
static int    quads_of(const qg__correlation *p)    { return up(p->g.ow, QUAD) / QUAD; }
static int    rows_of(const qg__correlation *p)     { return p->g.oh + (p->g.kh - 1) / p->g.stride; }
static int    pitch_of(const qg__correlation *p)
{
    return quads_of(p) * QUAD + (p->g.kw - 1) / p->g.stride;
}
static size_t phase_of(const qg__correlation *p)    { return (size_t)rows_of(p) * (size_t)pitch_of(p); }
static int    phases_h(const qg__correlation *p)    { return least(p->g.stride, p->g.kh); }
static int    phases_w(const qg__correlation *p)    { return least(p->g.stride, p->g.kw); }
static size_t plane_of(const qg__correlation *p)
{
    return (phase_of(p) * (size_t)phases_h(p) * (size_t)phases_w(p) + 15) / 16 * 16;
}
static int    blocks_of(const qg__correlation *p)   { return up(p->g.oc, OUTPUTS) / OUTPUTS; }
static int    vectors_of(const qg__correlation *p, int block)
{
    return p->g.oc - block * OUTPUTS > VL ? VECTORS : 1;
}

/* Quads whose sums of 16 bits fit. */
static int run_of(const qg__correlation *p)
{
    const int most = least(span_of(p->x), PART_MOST) * qg__reach(p->dy) * 2;
    return most ? LONGEST_RUN / most : 1;
}

/* --- packing ---------------------------------------------------------------------------------- */

typedef uint8_t b16 __attribute__((vector_size(16), aligned(1), may_alias));

#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (b16){ __VA_ARGS__ })
#endif
#define LOW(a, b)   SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b)  SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOW2(a, b)  SHUFFLE(a, b, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23)
#define HIGH2(a, b) SHUFFLE(a, b, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31)

/* 16 pixels of 16 channels to 16 planes. */
static void turn(const uint8_t *from, size_t c, int shift, uint8_t *to, size_t plane)
{
    b16 a[16], b[16];
    UNROLL
    for (int i = 0; i < 16; i++) a[i] = *(const b16 *)(from + (size_t)i * c) >> shift & PART_MOST;
    for (int step = 0; step < 4; step++) {
        UNROLL
        for (int i = 0; i < 8; i++) {
            b[2 * i]     = LOW(a[i], a[i + 8]);
            b[2 * i + 1] = HIGH(a[i], a[i + 8]);
        }
        memcpy(a, b, sizeof a);
    }
    UNROLL
    for (int i = 0; i < 16; i++) *(b16 *)(to + (size_t)i * plane) = a[i];
}

static size_t frame_bytes(const qg__correlation *p)
{
    return qg__lines_of(plane_of(p) * (size_t)p->g.c);
}

static size_t x_bytes(const qg__correlation *p) { return (size_t)parts_of(p) * frame_bytes(p); }

/* A row of a phase, which holds columns b, b + stride, .. of the padded row that x is the inside of. */
static void put_row(const qg__correlation *p, const uint8_t *x, int b, uint8_t *to)
{
    const qg__geometry *g = &p->g;
    const size_t        c = (size_t)g->c;
    int q = b >= g->left ? 0 : (g->left - b + g->stride - 1) / g->stride;
    if (g->stride == 1) {
        if (q < pitch_of(p)) memcpy(to + (size_t)q * c, x, (size_t)least(g->w, pitch_of(p) - q) * c);
        return;
    }
    for (int j; q < pitch_of(p) && (j = q * g->stride + b - g->left) < g->w; q++)
        memcpy(to + (size_t)q * c, x + (size_t)j * c, c);
}

/* An image within its frame, [plane][c]. */
static void put_in_frame(const qg__correlation *p, const uint8_t *x, uint8_t *frame)
{
    const qg__geometry *g = &p->g;
    const size_t        c = (size_t)g->c, row = (size_t)pitch_of(p) * c;
    memset(frame, -p->x.lowest, plane_of(p) * c);
    for (int a = 0; a < phases_h(p); a++)
        for (int b = 0; b < phases_w(p); b++)
            for (int r = 0; r < rows_of(p); r++, frame += row) {
                const int i = r * g->stride + a - g->top;
                if (i >= 0 && i < g->h) put_row(p, x + (size_t)(i * g->w) * c, b, frame);
            }
}

static void pack_x(const qg__correlation *p, const uint8_t *x, uint8_t *frame, uint8_t *packed)
{
    const size_t plane = plane_of(p), c = (size_t)p->g.c;
    put_in_frame(p, x, frame);
    for (int part = 0; part < parts_of(p); part++, packed += frame_bytes(p)) {
        size_t k = 0;
        for (; k + 16 <= c; k += 16)
            for (size_t i = 0; i < plane; i += 16)
                turn(frame + i * c + k, c, part * PART_BITS, packed + k * plane + i, plane);
        for (; k < c; k++)
            for (size_t i = 0; i < plane; i++)
                packed[k * plane + i] = (uint8_t)(frame[i * c + k] >> part * PART_BITS & PART_MOST);
    }
}

/* Where a block of dy begins; that after the last one: where its sums do. */
static size_t block_at(const qg__correlation *p, int block)
{
    const int lanes = least(block * OUTPUTS, up(p->g.oc, VL));
    return (size_t)(p->g.oh * quads_of(p)) * (size_t)(lanes * QUAD);
}

static size_t dy_bytes(const qg__correlation *p)
{
    return block_at(p, blocks_of(p)) + (size_t)blocks_of(p) * OUTPUTS * sizeof(int32_t);
}

/* n <= 4 pixels of 16 outputs to quads. */
static void interleave(const uint8_t *from, size_t oc, int n, uint8_t zero, uint8_t *to)
{
    b16 v[QUAD] = { { 0 } };
    for (int i = 0; i < n; i++) v[i] = *(const b16 *)(from + (size_t)i * oc) - zero;
    const b16 a = LOW(v[0], v[1]), b = HIGH(v[0], v[1]), c = LOW(v[2], v[3]), d = HIGH(v[2], v[3]);
    *(b16 *)to = LOW2(a, c), *(b16 *)(to + 16) = HIGH2(a, c);
    *(b16 *)(to + 32) = LOW2(b, d), *(b16 *)(to + 48) = HIGH2(b, d);
}

static void pack_quad(const qg__correlation *p, const uint8_t *from, int n, int o, int lanes, uint8_t *to)
{
    const int     outputs = least(lanes, p->g.oc - o);
    const size_t  oc      = (size_t)p->g.oc;
    const uint8_t zero    = (uint8_t)-p->dy.lowest;
    int           k       = 0;
    for (; k + 16 <= outputs; k += 16) interleave(from + o + k, oc, n, zero, to + k * QUAD);
    for (; k < lanes; k++)
        for (int i = 0; i < QUAD; i++)
            to[k * QUAD + i] =
                k < outputs && i < n ? (uint8_t)(from[(size_t)i * oc + (size_t)(o + k)] - zero) : 0;
}

static void pack_dy(const qg__correlation *p, const uint8_t *dy, uint8_t *packed)
{
    const int quads = quads_of(p), oc = p->g.oc;
    int32_t  *sum   = (int32_t *)(void *)(packed + block_at(p, blocks_of(p)));
    for (int b = 0; b < blocks_of(p); b++) {
        const int lanes = vectors_of(p, b) * VL;
        for (int r = 0; r < p->g.oh; r++)
            for (int q = 0; q < quads; q++, packed += lanes * QUAD)
                pack_quad(p, dy + (size_t)(r * p->g.ow + q * QUAD) * (size_t)oc,
                          least(QUAD, p->g.ow - q * QUAD), b * OUTPUTS, lanes, packed);
    }
    if (p->x.lowest == 0) return;
    for (int o = 0; o < oc; o++) sum[o] = 0;
    for (size_t i = 0, n = qg__results(&p->g); i < n; i++, dy += oc)
        for (int o = 0; o < oc; o++) sum[o] += dy[o] + p->dy.lowest;
}

/* --- units ------------------------------------------------------------------------------------ */

/* Channels are divided evenly into tiles, an even number of them if the blocks alone cannot be shared evenly
 * by two threads. */
static int tiles_of(const qg__correlation *p)
{
    const int most = p->g.oc <= VL ? PIXELS_1 : PIXELS_2, tiles = up(p->g.c, most) / most;
    return blocks_of(p) % 2 && tiles % 2 && p->g.c > tiles ? tiles + 1 : tiles;
}

typedef struct unit {
    int block, first, channels;
} unit;

static unit unit_of(const qg__correlation *p, int i)
{
    const int tiles = tiles_of(p), t = i % tiles, first = cut(p->g.c, t, tiles);
    return (unit){ i / tiles, first, cut(p->g.c, t + 1, tiles) - first };
}

static int units(const qg__correlation *p) { return blocks_of(p) * tiles_of(p); }

static size_t unit_floats(const qg__correlation *p)
{
    return qg__taps(&p->g) * (size_t)(up(p->g.c, tiles_of(p)) / tiles_of(p)) * OUTPUTS;
}

typedef int32_t four __attribute__((aligned(1), may_alias));

/* The sums of an image for one tap; x is where its window begins. */
INLINE void run_tile(int channels, int vectors, const qg__correlation *p, const uint8_t *x,
                     const uint8_t *dy, int shift, vi (*to)[VECTORS])
{
    const int       quads = quads_of(p), all = p->g.oh * quads, run = run_of(p);
    const ptrdiff_t plane = (ptrdiff_t)plane_of(p), gap = pitch_of(p) - quads * QUAD;
    int             left = quads;                       /* of the row */
    for (int done = 0, n; done < all; done += n) {
        vi sum[PIXELS_1][VECTORS] = { { { 0 } } };
        n = least(run, all - done);
        for (int i = 0; i < n; i++, dy += vectors * VL * QUAD) {
            vi w[VECTORS];
            UNROLL
            for (int v = 0; v < vectors; v++) w[v] = *(const vi *)(const void *)(dy + v * VL * QUAD);
            UNROLL
            for (int k = 0; k < channels; k++) {
                const vi own = *(const four *)(const void *)(x + k * plane) + (vi){ 0 };
                UNROLL
                for (int v = 0; v < vectors; v++) sum[k][v] = add_signed_quads(sum[k][v], own, w[v]);
            }
            const int end = -(--left == 0);             /* a branch would cost the sums their registers */
            x += QUAD + (gap & end);
            left += quads & end;
        }
        EACH(k, channels, v, vectors) to[k][v] += add_signed_part((vi){ 0 }, sum[k][v]) << shift;
    }
}

#define TILES(n)                                                                                             \
    TILE one_##n(const qg__correlation *p, const uint8_t *x, const uint8_t *dy, int shift,                   \
                vi (*to)[VECTORS])                                                                           \
    {                                                                                                        \
        run_tile(n <= PIXELS_1 ? n : 1, 1, p, x, dy, shift, to);                                             \
    }                                                                                                        \
    TILE two_##n(const qg__correlation *p, const uint8_t *x, const uint8_t *dy, int shift,                   \
                vi (*to)[VECTORS])                                                                           \
    {                                                                                                        \
        run_tile(n <= PIXELS_2 ? n : 1, VECTORS, p, x, dy, shift, to);                                       \
    }
EACH_LENGTH(TILES)
#undef TILES

static void tile(int channels, int vectors, const qg__correlation *p, const uint8_t *x, const uint8_t *dy,
                 int shift, vi (*to)[VECTORS])
{
#define CASE(n)                                                                                              \
    case n:                                                                                                  \
        if (vectors == 1) { if (n <= PIXELS_1) one_##n(p, x, dy, shift, to); }                               \
        else if (n <= PIXELS_2) two_##n(p, x, dy, shift, to);                                                \
        break;
    switch (channels) { EACH_LENGTH(CASE) }
#undef CASE
}

/* What the sums of each output begin with: x is a byte plus the lowest value. */
static void start_of(const qg__correlation *p, int block, const uint8_t *dy, vi start[VECTORS])
{
    const uint8_t *sums = dy + block_at(p, blocks_of(p));
    const float   *own  = (const float *)(const void *)sums + block * OUTPUTS;
    const int      n    = p->g.oc - block * OUTPUTS;
    for (int v = 0; v < VECTORS; v++) {
        start[v] = (vi){ 0 };
        if (p->x.lowest && n > v * VL) start[v] = (vi)load(own + v * VL, least(VL, n - v * VL)) * p->x.lowest;
    }
}

static void add(const qg__correlation *p, int i, const uint8_t *x, const uint8_t *dy, float scale, float *acc)
{
    const unit     u       = unit_of(p, i);
    const int      vectors = vectors_of(p, u.block), stride = p->g.stride;
    const uint8_t *own     = dy + block_at(p, u.block);
    vi             start[VECTORS];
    start_of(p, u.block, dy, start);
    x += (size_t)u.first * plane_of(p);
    for (int a = 0; a < p->g.kh; a++)
        for (int b = 0; b < p->g.kw; b++, acc += u.channels * OUTPUTS) {
            const size_t phase = (size_t)(a % stride * phases_w(p) + b % stride) * phase_of(p);
            const size_t tap   = phase + (size_t)(a / stride * pitch_of(p) + b / stride);
            vi           total[PIXELS_1][VECTORS];
            for (int k = 0; k < u.channels; k++) memcpy(total[k], start, sizeof start);
            for (int part = 0; part < parts_of(p); part++)
                tile(u.channels, vectors, p, x + (size_t)part * frame_bytes(p) + tap, own, part * PART_BITS,
                     total);
            for (int k = 0; k < u.channels; k++)
                for (int v = 0; v < vectors; v++)
                    *(vf *)(acc + k * OUTPUTS + v * VL) += scale * __builtin_convertvector(total[k][v], vf);
        }
}

static void unpack(const qg__correlation *p, int i, const float *acc, bool adds, float *dw)
{
    const unit u = unit_of(p, i);
    const int  first = u.block * OUTPUTS, outputs = least(OUTPUTS, p->g.oc - first);
    const int  taps  = (int)qg__taps(&p->g);
    for (int o = 0; o < outputs; o++)
        for (int t = 0; t < taps; t++) {
            float *to = dw + ((size_t)(first + o) * (size_t)taps + (size_t)t) * (size_t)p->g.c + u.first;
            for (int k = 0; k < u.channels; k++) {
                const float own = acc[(t * u.channels + k) * OUTPUTS + o];
                to[k] = adds ? to[k] + own : own;
            }
        }
}

const qg__correlate_kernels QG_PER_ISA(qg__correlate_kernels) = {
    .x_bytes     = x_bytes,
    .frame_bytes = frame_bytes,
    .dy_bytes    = dy_bytes,
    .pack_x      = pack_x,
    .pack_dy     = pack_dy,
    .units       = units,
    .unit_floats = unit_floats,
    .add         = add,
    .unpack      = unpack,
};
