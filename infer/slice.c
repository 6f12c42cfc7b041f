#include "infer/slice.h"

#include <string.h>

/* Bytes of a pixel with so many channels. */
static size_t pixel_bytes(qg__coding coding, qg__codes x, int channels)
{
    switch (coding) {
    case QG__AS_FLOATS: return (size_t)channels * sizeof(float);
    case QG__AS_BITS: return qg__bit_words(qg__alphabet_of(x), 1, channels) * sizeof(uint64_t);
    case QG__AS_BYTES: break;
    }
    return (size_t)channels;
}

static size_t source_pixel(const qg__slice *s) { return pixel_bytes(s->from, s->x, s->c); }
static size_t slice_pixel(const qg__slice *s)  { return pixel_bytes(s->to, s->x, s->channels * s->repeat); }

size_t qg__slice_source_bytes(const qg__slice *s) { return (size_t)s->h * (size_t)s->w * source_pixel(s); }
size_t qg__slice_bytes(const qg__slice *s)
{
    return (size_t)s->to_h * (size_t)s->to_w * slice_pixel(s);
}

/* The bits of channels that exist in word w of a plane. */
static uint64_t channels_of_word(int channels, size_t w)
{
    const size_t left = (size_t)channels - 64 * w;
    return left < 64 ? ((uint64_t)1 << left) - 1 : ~(uint64_t)0;
}

/* --- pixels ------------------------------------------------------------------------------------- */

static void copy_bits(const qg__slice *s, int planes, const uint64_t *x, uint64_t *to)
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
static void copy_bits_as_bytes(const qg__slice *s, qg__alphabet a, const uint64_t *x, uint8_t *to)
{
    const size_t words = qg__words(s->c);
    for (int k = 0; k < s->channels; k++) {
        int value = qg__offset(a) - s->x.lowest;
        for (int j = 0; j < a.bits; j++)
            value += qg__factor(a, j) * (int)(x[(size_t)j * words + (size_t)(k / 64)] >> k % 64 & 1);
        for (int r = 0; r < s->repeat; r++) *to++ = (uint8_t)value;
    }
}

static void copy_pixel(const qg__slice *s, qg__alphabet a, const uint8_t *x, uint8_t *to)
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

static void copy_pixels(const qg__slice *s, size_t n, const uint8_t *x, uint8_t *to)
{
    const size_t       from = source_pixel(s), into = slice_pixel(s);
    const qg__alphabet a = qg__alphabet_of(s->x);
    if (s->from == s->to && s->channels == s->c && s->repeat == 1) memcpy(to, x, n * from);
    else
        for (size_t i = 0; i < n; i++) copy_pixel(s, a, x + i * from, to + i * into);
}

static uint8_t *fill_pixels(const qg__slice *s, int n, uint8_t *to)
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
static void flatten(const qg__slice *s, const uint64_t *x, uint64_t *to)
{
    const int    planes = qg__alphabet_of(s->x).bits;
    const size_t words  = qg__words(s->c), pixels = (size_t)s->h * (size_t)s->w;
    memset(to, 0, qg__slice_bytes(s));
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

/* --- images ------------------------------------------------------------------------------------- */

static int least(int a, int b) { return a < b ? a : b; }

void qg__slice_copy(const qg__slice *s, const void *image, void *slice)
{
    const uint8_t *x  = image;
    uint8_t       *to = slice;
    if (s->flat) {
        flatten(s, image, slice);
        return;
    }
    if (s->to_h == s->h && s->to_w == s->w && !s->top && !s->left) {
        copy_pixels(s, (size_t)s->h * (size_t)s->w, x, to);
        return;
    }
    const int left = least(s->left, s->to_w), inside = least(s->w, s->to_w - left);
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
