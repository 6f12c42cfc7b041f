#include "cli/config/images.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/config/options.h"

/* In the order of value: low, high. */
static const qg_key range_keys[] = {
    { .name = "low", .min = -INFINITY, .max = INFINITY, .is = QG_KEY_REQUIRED, .below = "high",
      .about = "what byte 0 becomes" },
    { .name = "high", .min = -INFINITY, .max = INFINITY, .is = QG_KEY_REQUIRED,
      .about = "what byte 255 becomes" },
    { .name = NULL }
};

static const qg_variant normalisations[] = {
    [QG_TO_UNIT]     = { "unit", "bytes over 255, 0 to 1", NULL },
    [QG_TO_RANGE]    = { "range", "the same, scaled to another range, as in range:low=-1,high=1", range_keys },
    [QG_PER_CHANNEL] = { "channel", "mean 0 and deviation 1 in each channel", NULL },
    [QG_PER_PIXEL]   = { "pixel", "the same in each value of an image", NULL },
    [QG_WHITEN]      = { "whiten", "global contrast normalisation, then ZCA", NULL },
    { .name = NULL }
};

qg_status normalise_parse(const char *text, qg_normalise *n, char *canonical, size_t bytes)
{
    double value[QG_MAX_VALUES] = { 0 };
    int    kind;
    if (qg_variants_parse("normalisation", text, normalisations, &kind, value)) return QG_EARG;
    *n = (qg_normalise){ .kind = (qg_normalise_kind)kind, .low = (float)value[0], .high = (float)value[1] };
    qg_keys_print(normalisations[kind].name, normalisations[kind].keys, value, canonical, bytes);
    return QG_OK;
}

bool normalise_fits(qg_normalise n) { return n.kind != QG_TO_UNIT && n.kind != QG_TO_RANGE; }

/* By qg_augment; 0 is off. */
enum { PAD, BORDER, FLIP, CUTOUT };
static const qg_key augment_keys[] = {
    { .name = "pad", .min = 1, .max = 4096, .is = QG_KEY_WHOLE,
      .about = "pixels added on each side before a random crop" },
    { .name = "border", .words = "zero|reflect|repeat", .when = "pad=1..4096",
      .about = "what these pixels are" },
    { .name = "flip", .max = 1, .is = QG_KEY_FLAG, .about = "mirror half of the images" },
    { .name = "cutout", .min = 1, .max = 4096, .is = QG_KEY_WHOLE, .about = "side of a square that is set to 0" },
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

void images_help(FILE *out)
{
    fprintf(out, "\nNormalisations:\n");
    for (const qg_variant *n = normalisations; n->name; n++) keyed_help(n->name, n->about, n->keys, out);
    fprintf(out, "\nAugmentations:\n");
    keyed_help("none", "the images as they are", NULL, out);
    keyed_help("pad=4,flip", "any of these, in any order", augment_keys, out);
}
