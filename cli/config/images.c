#include "cli/config/images.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/io/keys.h"
#include "core/io/number.h"

/* By qg_normalise_kind. */
static const char *const kinds[] = { "unit", "range", "channel", "pixel", "whiten" };
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Which kind the n characters name; -1: none. */
static int find_kind(const char *at, size_t n)
{
    for (int i = 0; i < KINDS; i++)
        if (strlen(kinds[i]) == n && !memcmp(kinds[i], at, n)) return i;
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
    const int    kind   = find_kind(text, length);
    if (kind < 0 || ((kind != QG_TO_RANGE) && text[length]))
        return qg_fail(QG_EARG, "unknown normalisation '%s'; available: unit, range:low=-1,high=1, channel, pixel, "
                       "whiten", text);
    *n = (qg_normalise){ .kind = (qg_normalise_kind)kind };
    if (kind == QG_TO_RANGE) return parse_range(text + length + (text[length] == ':'), n, canonical, bytes);
    snprintf(canonical, bytes, "%s", kinds[kind]);
    return QG_OK;
}

bool normalise_fits(qg_normalise n) { return n.kind != QG_TO_UNIT && n.kind != QG_TO_RANGE; }

/* By qg_augment; 0 is off. */
enum { PAD, BORDER, FLIP, CUTOUT };
static const qg_key augment_keys[] = {
    { .name = "pad", .min = 1, .max = 4096, .is = QG_KEY_WHOLE },
    { .name = "border", .words = "zero|reflect|repeat", .when = "pad=1..4096" },
    { .name = "flip", .max = 1, .is = QG_KEY_FLAG },
    { .name = "cutout", .min = 1, .max = 4096, .is = QG_KEY_WHOLE },
    { .name = NULL }
};

qg_status augment_parse(const char *text, qg_augment *a, char *canonical, size_t bytes)
{
    double value[QG_MAX_KEYS];
    if (qg_keys_parse("augmentation", strcmp(text, "none") ? text : NULL, augment_keys, value)) return QG_EARG;
    *a = (qg_augment){ .pad    = (int)value[PAD],
                       .border = (qg_border)value[BORDER],
                       .flip   = value[FLIP] != 0,
                       .cutout = (int)value[CUTOUT] };
    qg_keys_print(NULL, augment_keys, value, canonical, bytes);
    if (!*canonical) snprintf(canonical, bytes, "none");
    return QG_OK;
}
