/* The grammar of small texts, name:key=value,key=value, with a table that has a key of every kind. */
#include <stdlib.h>
#include <string.h>

#include "core/io/keys.h"
#include "tests/fuzz/fuzz.h"

static const qg_key every[] = {
    { .name = "real", .fallback = 0.5, .min = 0.01, .max = 10 },
    { .name = "above", .min = 0, .max = 1, .is = QG_KEY_ABOVE_MIN | QG_KEY_BELOW_MAX },
    { .name = "whole", .fallback = 2, .min = 1, .max = 16, .is = QG_KEY_WHOLE | QG_KEY_SHOWN, .also = 32 },
    { .name = "word", .words = "exact|as-printed|own", .alias = "rule" },
    { .name = "flag", .is = QG_KEY_FLAG, .max = 1 },
    { .name = "when", .fallback = 1, .min = -5, .max = 5, .when = "word=exact|own" },
    { .name = "bits", .fallback = 3, .min = 1, .max = 8, .is = QG_KEY_WHOLE, .when = "whole=2..8" },
    { .name = "low", .fallback = -1, .min = -1e9, .max = 1e9, .below = "high" },
    { .name = "high", .fallback = 1, .min = -1e9, .max = 1e9 },
    { .name = "at", .min = 0, .max = 1, .is = QG_KEY_ABOVE_MIN | QG_KEY_BELOW_MAX, .most = 8 },
    { .name = NULL },
};
static const qg_key set[] = {
    { .name = "set", .max = 99, .is = QG_KEY_WHOLE | QG_KEY_ANY_ORDER, .most = 100 }, { .name = NULL }
};
static const qg_key size[] = {
    { .name = "HxWxC", .min = 1, .max = 4096, .is = QG_KEY_WHOLE | QG_KEY_SIZE | QG_KEY_REQUIRED, .most = 3 },
    { .name = NULL }
};
static const qg_key required[] = {
    { .name = "factor", .min = 0, .max = 1e30, .is = QG_KEY_ABOVE_MIN | QG_KEY_REQUIRED }, { .name = NULL }
};

static const qg_variant variants[] = { { "every", "every kind of key", every },
                                       { "size", "a size", size },
                                       { "required", "a key without default", required },
                                       { "set", "different numbers in any order", set },
                                       { "none", "no key", NULL },
                                       { NULL, NULL, NULL } };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char  *text                 = fuzz_text(bytes, n);
    double value[QG_MAX_VALUES] = { 0 }, again[QG_MAX_VALUES] = { 0 };
    int    index, other;
    if (fuzz_ok(qg__variants_parse("thing", text, variants, &index, value))) {
        char printed[512], twice[512];
        qg_keys_print(variants[index].name, variants[index].keys, value, printed, sizeof printed);
        MUST(strlen(printed) + 1 < sizeof printed);
        MUST(!qg__keys_check(variants[index].name, variants[index].keys, value));
        MUST(!qg__variants_parse("thing", printed, variants, &other, again));
        qg_keys_print(variants[other].name, variants[other].keys, again, twice, sizeof twice);
        MUST(index == other && !strcmp(printed, twice));
    }
    free(text);
    return 0;
}
