#include "tests/support/packed.h"

#include "tests/support/testing.h"

#include <stdlib.h>
#include <string.h>

#include "core/io/hash.h"

enum { CHECKSUM_AT = 56 };

void packed_put(uint8_t *at, uint32_t v)
{
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(v >> 8 * i);
}

void packed_put_float(uint8_t *at, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    packed_put(at, bits);
}

void packed_seal(uint8_t *file, size_t n)
{
    uint64_t h = qg_hash_words(QG_HASH_BASIS, file, CHECKSUM_AT);
    h          = qg_hash_words(h, file + QG__HEADER_BYTES, n - QG__HEADER_BYTES);
    packed_put(file + CHECKSUM_AT, (uint32_t)h);
    packed_put(file + CHECKSUM_AT + 4, (uint32_t)(h >> 32));
}

/* --- sizes -------------------------------------------------------------------------------------- */

size_t packed_own_floats(const qg__packed_step *r)
{
    switch ((qg__kind)r->kind) {
    case QG__PRODUCT: return (r->two_sided ? 3 : 2) * (size_t)r->oc;
    case QG__AFFINE: return 2 * (size_t)r->c;
    case QG__PRELU: return (size_t)r->c;
    case QG__RPRELU: return 3 * (size_t)r->c;
    case QG__CLIP: return 2;
    default: return 0;
    }
}

size_t packed_floats(const qg__packed_step *r)
{
    size_t n = packed_own_floats(r);
    if ((r->kind == QG__PRODUCT || r->kind == QG__QUANTIZE) && r->q_count)
        n += (size_t)r->q_count - 1 + (r->coding == QG__AS_FLOATS ? (size_t)r->q_count : 0);
    return n;
}

/* With the zero point. */
static size_t row_weights(const qg__packed_step *r)
{
    return (size_t)r->kh * (size_t)r->kw * (size_t)(r->c / r->groups) + (r->w_zeros ? 1 : 0);
}

size_t packed_row_bytes(const qg__packed_step *r)
{
    return r->kind == QG__PRODUCT ? ((size_t)r->w_bits * row_weights(r) + 7) / 8 : 0;
}

static size_t file_bytes(const packed_net *net)
{
    size_t n = packed_record(net->steps) + 8 * (size_t)net->normal;
    for (int i = 0; i < net->steps; i++) {
        const packed_step *s = &net->step[i];
        n += 4 * packed_floats(&s->r) + packed_row_bytes(&s->r) * (size_t)s->r.oc + (s->name ? strlen(s->name) : 0) + 1;
    }
    for (int i = 0; i < 2 * net->notes; i++) n += strlen(net->note[i]) + 1;
    return n;
}

/* --- parts -------------------------------------------------------------------------------------- */

static void put_record(uint8_t *at, const qg__packed_step *r)
{
    const int32_t field[] = { r->kind, r->x, r->z, r->h, r->w, r->c, r->oh, r->ow, r->oc, r->kh, r->kw, r->stride, r->top, r->left,
                              r->groups, r->w_lowest, r->w_step, r->w_count, r->w_bits, r->two_sided, 0, r->relu, r->flag, r->coding,
                              r->q_lowest, r->q_step, r->q_count };
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) packed_put(at + 4 * i, (uint32_t)field[i]);
    packed_put_float(at + 80, r->pad);
    packed_put_float(at + 108, r->q_scale);
    packed_put(at + 112, (uint32_t)r->w_zeros);
}

static uint8_t *put_floats(uint8_t *at, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++, at += 4) packed_put_float(at, x[i]);
    return at;
}

static void put_row(uint8_t *at, const qg__packed_step *r, const float *w)
{
    if (!r->w_count) {
        put_floats(at, w, row_weights(r));
        return;
    }
    for (size_t i = 0, bit = 0; i < row_weights(r); i++) {
        const unsigned code = (unsigned)(((int)w[i] - r->w_lowest) / r->w_step);
        for (int j = 0; j < r->w_bits; j++, bit++) at[bit / 8] |= (uint8_t)((code >> j & 1) << bit % 8);
    }
}

static uint8_t *put_text(uint8_t *at, const char *text)
{
    memcpy(at, text, strlen(text) + 1);
    return at + strlen(text) + 1;
}

uint8_t *packed_file(const packed_net *net, size_t *n)
{
    *n            = file_bytes(net);
    uint8_t *file = calloc(*n, 1), *at = file + packed_record(net->steps);
    assert_non_null(file);
    memcpy(file, "\x89qgnet\r\n", 8);
    packed_put(file + 8, 1);
    for (int i = 0; i < net->steps; i++)
        if (net->step[i].r.w_zeros) packed_put(file + 8, 2);
    packed_put(file + 12, (uint32_t)net->steps);
    packed_put(file + 16, (uint32_t)*n);
    packed_put(file + 24, (uint32_t)net->h);
    packed_put(file + 28, (uint32_t)net->w);
    packed_put(file + 32, (uint32_t)net->c);
    packed_put(file + 36, (uint32_t)net->normal);
    packed_put(file + 40, (uint32_t)net->notes);
    at = put_floats(at, net->normalisation, 2 * (size_t)net->normal);
    for (int i = 0; i < net->steps; i++) {
        put_record(file + packed_record(i), &net->step[i].r);
        at = put_floats(at, net->step[i].floats, packed_floats(&net->step[i].r));
    }
    for (int i = 0; i < net->steps; i++) {
        const packed_step *s = &net->step[i];
        for (int o = 0; packed_row_bytes(&s->r) && o < s->r.oc; o++, at += packed_row_bytes(&s->r))
            put_row(at, &s->r, s->w + (size_t)o * row_weights(&s->r));
    }
    for (int i = 0; i < net->steps; i++) at = put_text(at, net->step[i].name ? net->step[i].name : "");
    for (int i = 0; i < 2 * net->notes; i++) at = put_text(at, net->note[i]);
    assert_true(at == file + *n);
    packed_seal(file, *n);
    return file;
}
