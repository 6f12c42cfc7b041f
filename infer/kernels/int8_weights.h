/* infer/kernels/int8_weights.h — weights of products of bytes, packed and not.  For int8_kernel.c only.
 *
 *     [blocks of outputs][kh][kw][groups][2 vectors][VL][CODES]
 *
 * Those of an alphabet are codes of 1, 2 or 4 bits.  Four neighbouring channels of all taps, with those that
 * fill groups, are a quad, and four quads a round:
 *
 *     [blocks of outputs][rounds][bits][VL][4 channels] bytes
 *
 * Each has the codes of one, two or four quads, from the lowest bits on, of either vector in turn.  In dense
 * products the sums of the codes of its outputs follow a block. */
#ifndef QG_INFER_INT8_WEIGHTS_H
#define QG_INFER_INT8_WEIGHTS_H

#include "infer/kernels/plain.h"
#include "infer/kernels/lanes.h"

enum { VECTORS = 2, OUTPUTS = VECTORS * VL };
_Static_assert(QG__PACKED % OUTPUTS == 0, "groups of outputs");
enum { GROUP_BYTES = OUTPUTS * CODES, QUAD = 4, QUADS = 4, ROUND = QUADS * QUAD };

static size_t groups_of(int c) { return ((size_t)c + CODES - 1) / CODES; }
static size_t block_bytes(const qg__geometry *g) { return qg__taps(g) * groups_of(g->c) * GROUP_BYTES; }

static size_t rounds_of(const qg__geometry *g)
{
    return (qg__taps(g) * groups_of(g->c) * CODES + ROUND - 1) / ROUND;
}

/* Bits of a packed weight: 8, or 1, 2 or 4 of an alphabet. */
static int bits_of_weight(const qg__plain_product *p) { return p->wa.bits ? qg__field_bits(p->wa) : 8; }

/* Of the codes of a block, and of the block as it is packed. */
static size_t code_bytes(const qg__plain_product *p)
{
    return rounds_of(&p->g) * (size_t)bits_of_weight(p) * BYTES;
}

static size_t packed_bytes(const qg__plain_product *p)
{
    if (bits_of_weight(p) == 8) return block_bytes(&p->g);
    return code_bytes(p) + (qg__is_pointwise(&p->g) ? OUTPUTS * sizeof(uint32_t) : 0);
}

static size_t weight_bytes(const qg__plain_product *p)
{
    return ((size_t)p->g.oc + OUTPUTS - 1) / OUTPUTS * packed_bytes(p);
}

/* Steps are 1 or 2. */
INLINE int shift_of(qg__alphabet a) { return qg__step(a) - 1; }

/* A weight of 8 bits is w_step * byte - w_zero. */
static bool is_byte(const qg__plain_product *p)
{
    return p->wa.bits || (p->w.lowest >= -128 && qg__highest(p->w) <= 127);
}
static int w_step(const qg__plain_product *p) { return is_byte(p) ? 1 : p->w.step; }
static int w_zero(const qg__plain_product *p) { return is_byte(p) ? 0 : -(p->w.lowest + 128 * p->w.step); }

/* Whether sums of x are subtracted. */
static bool has_windows(const qg__plain_product *p) { return p->zeros || w_zero(p); }

static void pack_weights(const qg__plain_product *p, int o, size_t first, size_t n, const float *values,
                         void *packed)
{
    const qg__alphabet a    = p->wa;
    const size_t       c    = (size_t)p->g.c, lane = (size_t)(o % OUTPUTS);
    const size_t       bits = (size_t)bits_of_weight(p);
    const int          step = w_step(p), zero = w_zero(p);
    uint8_t           *to   = (uint8_t *)packed + (size_t)(o / OUTPUTS) * packed_bytes(p);
    uint32_t          *sum  = (uint32_t *)(void *)(to + code_bytes(p)) + lane;
    if (lane == 0 && first == 0) memset(to, 0, packed_bytes(p));
    size_t tap = first / c, k = first % c;
    for (size_t i = 0; i < n; i++) {
        const int    value = (int)values[i];
        const size_t at    = tap * groups_of(p->g.c) * CODES + k;
        if (bits == 8) {
            const int code = step == 1 ? value + zero : (value + zero) / step;
            to[at / CODES * GROUP_BYTES + lane * CODES + at % CODES] = (uint8_t)code;
        } else {
            const unsigned code  = (unsigned)(value - qg__lowest(a)) >> shift_of(a);
            const size_t   field = at / QUAD * VECTORS + lane / VL;
            to[field * bits / 8 * BYTES + lane % VL * QUAD + at % QUAD] |=
                (uint8_t)(code << field * bits % 8);
            if (qg__is_pointwise(&p->g)) *sum += code;
        }
        if (++k == c) k = 0, tap++;
    }
}

/* --- as bytes ----------------------------------------------------------------------------------- */

/* Code number f of each byte.  Numbers of 16 bits are shifted, and what enters a byte is masked. */
INLINE bytes field_of(int bits, bytes v, int f)
{
    return (bytes)((pairs)v >> (bits * f)) & (uint8_t)((1 << bits) - 1);
}

/* The groups of a quad: as it is, or each half of its lanes. */
INLINE void store_quad(const bytes v[VECTORS], int8_t *to)
{
#if VL == 16
    memcpy(to, v, VECTORS * sizeof *v);
#else
    typedef uint16_t halves __attribute__((vector_size(2 * VL)));
    UNROLL
    for (int i = 0; i < 2 * VECTORS; i++) {
        const halves own = __builtin_convertvector((vu)v[i % VECTORS] >> i / VECTORS * 16 & 0xFFFF, halves);
        memcpy(to + i * (int)sizeof own, &own, sizeof own);
    }
#endif
}

/* A block as bytes: lowest + step * code. */
INLINE void expand(int bits, const qg__plain_product *p, const bytes *w, int8_t *to)
{
    const qg__alphabet a      = p->wa;
    const bytes        lowest = (bytes){ 0 } + (uint8_t)qg__lowest(a);
    const int          shift  = shift_of(a), fields = 8 / bits;
    for (size_t n = rounds_of(&p->g) * (size_t)bits; n > 0; n--, w++)
        UNROLL
        for (int f = 0; f < fields; f += VECTORS, to += VECTORS * BYTES) {
            bytes values[VECTORS];
            UNROLL
            for (int v = 0; v < VECTORS; v++)
                values[v] = (bytes)((pairs)field_of(bits, *w, f + v) << shift) + lowest;
            store_quad(values, to);
        }
}

static const int8_t *bytes_of(const qg__plain_product *p, const int8_t *packed, int8_t *expanded)
{
    const bytes *w = (const bytes *)(const void *)packed;
#define CASE(b) case b: expand(b, p, w, expanded); return expanded;
    switch (bits_of_weight(p)) { CASE(1) CASE(2) CASE(4) }
#undef CASE
    return packed;
}

#endif
