#include "cli/config/images.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/config/options.h"
#include "core/io/number.h"

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

qg_status holdout_parse(const char *text, qg_holdout *h, char *canonical, size_t bytes)
{
    const size_t n       = strcspn(text, "%");
    const bool   percent = text[n] == '%';
    double       value;
    char         number[QG_NUMBER_BYTES];
    const bool   is = qg_number_read(text, n, &value) && !(percent && text[n + 1]) && value >= 0;
    if (!is || (percent ? value >= 100 : value > INT_MAX || value != (int)value))
        return qg_fail(QG_EARG, "'%s' is neither a number of images nor a percentage below 100%%; write 5000 or 10%%", text);
    *h = percent ? (qg_holdout){ .share = value / 100 } : (qg_holdout){ .images = (int)value };
    qg_number_print(number, 9, value);
    if (percent) snprintf(canonical, bytes, "%s%%", number);
    else snprintf(canonical, bytes, "%d", (int)value);
    return QG_OK;
}

void images_help(FILE *out)
{
    fprintf(out, "\nNormalisations:\n");
    for (const qg_variant *n = qg_normalisations; n->name; n++) keyed_help(n->name, n->about, n->keys, out);
    fprintf(out, "\nAugmentations:\n");
    keyed_help("none", "the images as they are", NULL, out);
    keyed_help("pad=4,flip", "any of these, in any order", augment_keys, out);
}
