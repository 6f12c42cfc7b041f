#include "cli/config/images.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/number.h"

/* By qg_normalise_kind. */
static const char *const kinds[] = { "unit", "range", "channel", "pixel", "whiten" };
/* By qg_border. */
static const char *const borders[] = { "zero", "reflect", "repeat" };

enum { KINDS = sizeof kinds / sizeof *kinds, BORDERS = sizeof borders / sizeof *borders, MOST_PIXELS = 4096 };

/* Which of the words the n characters are; -1: none. */
static int find(const char *const *words, int count, const char *at, size_t n)
{
    for (int i = 0; i < count; i++)
        if (strlen(words[i]) == n && !memcmp(words[i], at, n)) return i;
    return -1;
}

/* key=number, with what ends it behind; NULL: it is none of this key. */
static const char *read_number(const char *at, const char *key, char end, double *value)
{
    const size_t n = strlen(key);
    if (strncmp(at, key, n) || at[n] != '=') return NULL;
    const char  *number = at + n + 1;
    const size_t length = strcspn(number, ",");
    if (!qg_number_read(number, length, value) || number[length] != end) return NULL;
    return number + length + (end != '\0');
}

static qg_status parse_range(const char *options, qg_normalise *n, char *canonical, size_t bytes)
{
    double      low = 0, high = 0;
    const char *next = read_number(options, "low", ',', &low);
    if (!next || !read_number(next, "high", '\0', &high) || !isfinite(high - low) || !(low < high))
        return qg_fail(QG_EARG, "range takes two numbers, the lower one first, as range:low=-1,high=1");
    low += 0.0, high += 0.0;                    /* -0 is 0 */
    n->low  = (float)low;
    n->high = (float)high;
    char from[QG_NUMBER_BYTES], to[QG_NUMBER_BYTES];
    qg_number_print(from, 9, low), qg_number_print(to, 9, high);
    snprintf(canonical, bytes, "range:low=%s,high=%s", from, to);
    return QG_OK;
}

qg_status normalise_parse(const char *text, qg_normalise *n, char *canonical, size_t bytes)
{
    const size_t length = strcspn(text, ":");
    const int    kind   = find(kinds, KINDS, text, length);
    if (kind < 0 || ((kind != QG_TO_RANGE) && text[length]))
        return qg_fail(QG_EARG, "unknown normalisation '%s'; available: unit, range:low=-1,high=1, channel, pixel, "
                       "whiten", text);
    *n = (qg_normalise){ .kind = (qg_normalise_kind)kind };
    if (kind == QG_TO_RANGE) return parse_range(text + length + (text[length] == ':'), n, canonical, bytes);
    snprintf(canonical, bytes, "%s", kinds[kind]);
    return QG_OK;
}

bool normalise_fits(qg_normalise n) { return n.kind != QG_TO_UNIT && n.kind != QG_TO_RANGE; }

/* The n characters as a number of pixels. */
static bool read_pixels(const char *at, size_t n, int *pixels)
{
    if (n < 1 || n > 4 || strspn(at, "0123456789") < n) return false;
    *pixels = atoi(at);
    return *pixels >= 1 && *pixels <= MOST_PIXELS;
}

enum { PAD, BORDER, FLIP, CUTOUT, PARTS };

/* By the names above. */
static const char *const parts[PARTS] = { "pad", "border", "flip", "cutout" };

/* What stands behind a part's =, n characters; NULL: there is no =. */
static bool read_part(int part, const char *at, size_t n, qg_augment *a)
{
    if (part == FLIP || !at) return a->flip = part == FLIP && !at;
    if (part == PAD) return read_pixels(at, n, &a->pad);
    if (part == CUTOUT) return read_pixels(at, n, &a->cutout);
    const int border = find(borders, BORDERS, at, n);
    a->border        = border < 0 ? QG_BORDER_ZERO : (qg_border)border;
    return border >= 0;
}

static void spell(const qg_augment *a, char *text, size_t bytes)
{
    char pad[16] = "", cutout[16] = "", border[16] = "";
    if (a->pad) snprintf(pad, sizeof pad, ",pad=%d", a->pad);
    if (a->border != QG_BORDER_ZERO) snprintf(border, sizeof border, ",border=%s", borders[a->border]);
    if (a->cutout) snprintf(cutout, sizeof cutout, ",cutout=%d", a->cutout);
    char all[64];
    snprintf(all, sizeof all, "%s%s%s%s", pad, border, a->flip ? ",flip" : "", cutout);
    snprintf(text, bytes, "%s", *all ? all + 1 : "none");
}

qg_status augment_parse(const char *text, qg_augment *a, char *canonical, size_t bytes)
{
    bool given[PARTS] = { false };
    *a                = (qg_augment){ 0 };
    for (const char *at = strcmp(text, "none") ? text : NULL; at;) {
        const size_t n = strcspn(at, ","), key = strcspn(at, "=,");
        const int    part = find(parts, PARTS, at, key);
        if (part < 0 || !read_part(part, key < n ? at + key + 1 : NULL, key < n ? n - key - 1 : 0, a))
            return qg_fail(QG_EARG, "unknown augmentation '%.*s'; available: none, or some of pad=4, "
                           "border=zero|reflect|repeat, flip, cutout=8, joined by commas", (int)n, at);
        if (given[part]) return qg_fail(QG_EARG, "augmentation: %s is given twice", parts[part]);
        given[part] = true;
        at          = at[n] ? at + n + 1 : NULL;
    }
    if (given[BORDER] && !a->pad) return qg_fail(QG_EARG, "augmentation: a border needs pad=N");
    spell(a, canonical, bytes);
    return QG_OK;
}
