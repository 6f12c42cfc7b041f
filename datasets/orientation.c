/* The orientation of a photograph: cameras store the pixels as the sensor lies, and an Exif block says
 * how to turn the picture.
 *
 * The block is that of TIFF: "II" or "MM" for the order of bytes, 42, the offset of a directory; the
 * directory has a count and entries of 12 bytes: tag, type, count, value.
 *
 * Source   Exif 2.32 (CIPA DC-008), 4.6.4: tag 274, Orientation, one SHORT from 1 to 8. */
#include <stdlib.h>

#include "core/io/file.h"
#include "datasets/image.h"

enum { HEAD = 8, ENTRY = 12, ORIENTATION = 274, SHORT = 3 };

typedef struct block {
    const uint8_t *bytes;       /* [n] */
    size_t         n;
    bool           big;         /* the high byte comes first */
} block;

static uint32_t two(const block *b, size_t at) { return qg__number_of(b->bytes + at, 2, b->big); }
static uint32_t four(const block *b, size_t at)
{
    return qg__number_of(b->bytes + at, 4, b->big);
}

int qg__exif_orientation(const uint8_t *bytes, size_t n)
{
    if (n < HEAD || bytes[0] != bytes[1] || (bytes[0] != 'I' && bytes[0] != 'M')) return 1;
    const block b = { bytes, n, bytes[0] == 'M' };
    size_t      at = four(&b, 4);
    if (two(&b, 2) != 42 || at > n - 2) return 1;
    /* At most 65535 entries; those beyond the block are not read. */
    uint32_t entries = two(&b, at);
    for (at += 2; entries && n - at >= ENTRY; entries--, at += ENTRY) {
        if (two(&b, at) != ORIENTATION) continue;
        const uint32_t value = two(&b, at + 8);
        const bool     legal = two(&b, at + 2) == SHORT && four(&b, at + 4) == 1;
        return legal && value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

/* The eight ways to store the picture of orientation 1:
 *
 *     1 ab   2 ba   3 dc   4 cd   5 ac   6 bd   7 db   8 ca
 *       cd     dc     ba     ab     bd     ac     ca     db
 *
 * Row y and column x of the picture are row y and column x of the file, from 5 on row x and column y;
 * rows count from the last one in 3, 4, 6 and 7, columns in 2, 3, 7 and 8. */
bool qg__image_turn(qg__picture *m, int orientation)
{
    const qg__picture from  = *m;
    const int         o     = orientation;
    const bool        swaps = o >= 5;
    const bool        up    = o == 3 || o == 4 || o == 6 || o == 7;
    const bool        left  = o == 2 || o == 3 || o == 7 || o == 8;
    if (o == 1) return true;
    if (!qg__image_allocate(m, swaps ? from.w : from.h, swaps ? from.h : from.w, from.c)) {
        m->pixels = from.pixels;
        return false;
    }
    uint8_t *to = m->pixels;
    for (int y = 0; y < m->h; y++)
        for (int x = 0; x < m->w; x++) {
            const int      r = swaps ? x : y, k = swaps ? y : x;
            const size_t   row    = (size_t)(up ? from.h - 1 - r : r);
            const size_t   column = (size_t)(left ? from.w - 1 - k : k);
            const uint8_t *p      = from.pixels + (row * (size_t)from.w + column) * (size_t)from.c;
            for (int c = 0; c < from.c; c++) *to++ = p[c];
        }
    free(from.pixels);
    return true;
}
