/* The grammar name:key=value,.. : what each text means, how it is printed again, and what a wrong one is told. */
#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "core/io/keys.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

enum { MODE, BITS, STEP, LOW, HIGH, MARKS, QUIET, LIST, KEYS = LIST };

static const qg_key keys[] = {
    { .name = "mode", .words = "learned|fixed|free" },
    { .name = "bits", .fallback = 4, .min = 1, .max = 16, .is = QG_KEY_WHOLE | QG_KEY_SHOWN, .also = 32, .alias = "b" },
    { .name = "step", .max = 1, .is = QG_KEY_ABOVE_MIN | QG_KEY_BELOW_MAX, .when = "bits=2..8" },
    { .name = "low", .fallback = -1, .min = -INFINITY, .max = INFINITY, .below = "high", .when = "mode=fixed|free" },
    { .name = "high", .fallback = 1, .min = -INFINITY, .max = INFINITY, .when = "mode=fixed|free" },
    { .name = "marks", .max = 1, .is = QG_KEY_BELOW_MAX, .most = 3 },
    { .name = "quiet", .max = 1, .is = QG_KEY_FLAG },
    { .name = NULL }
};

static const qg_key needy[] = {
    { .name = "rate", .max = INFINITY, .is = QG_KEY_REQUIRED | QG_KEY_ABOVE_MIN, .about = "per step" },
    { .name = "span", .max = INFINITY },
    { .name = NULL }
};

static const qg_key size[] = {
    { .name = "size", .min = 1, .max = 9, .is = QG_KEY_WHOLE | QG_KEY_SIZE, .most = 2 },
    { .name = NULL }
};

static const qg_key set[] = {
    { .name = "set", .max = 9, .is = QG_KEY_WHOLE | QG_KEY_ANY_ORDER, .most = 3 },
    { .name = NULL }
};

static const qg_key lists[] = {
    { .name = "a", .min = -9, .max = 9, .is = QG_KEY_SERIES, .most = 2 },
    { .name = "b", .max = 9, .is = QG_KEY_SERIES | QG_KEY_ABOVE_MIN, .most = 3 },
    { .name = NULL }
};

static const qg_variant variants[] = {
    { "plain", "", NULL }, { "rich", "", keys }, { "needy", "", needy }, { "size", "", size }, { "set", "", set }, { "lists", "", lists },
    { .name = NULL }
};

enum { PLAIN, RICH, NEEDY, SIZE, SET, LISTS };

/* printed NULL: as it was. */
static const struct { const char *text; int index; double value[KEYS + 3]; const char *printed; } good[] = {
    { "plain", PLAIN, { 0 }, NULL },
    { "rich", RICH, { 0, 4 }, "rich:bits=4" },
    { "rich:bits=2,step=0.5", RICH, { 0, 2, 0.5 }, NULL },
    { "rich:b=32", RICH, { 0, 32 }, "rich:bits=32" },
    { "rich:quiet,mode=fixed", RICH, { 1, 4, 0, -1, 1, 0, 1 }, "rich:mode=fixed,bits=4,quiet" },
    { "rich:mode=free,high=3,low=-0", RICH, { 2, 4, 0, 0, 3 }, "rich:mode=free,bits=4,low=0,high=3" },
    { "rich:low=-2.50,mode=free", RICH, { 2, 4, 0, -2.5, 1 }, "rich:mode=free,bits=4,low=-2.5" },
    { "rich:marks=0.25", RICH, { 0, 4, 0, 0, 0, 1, 0, 0.25 }, "rich:bits=4,marks=0.25" },
    { "rich:marks=0+.25+5e-1,bits=16", RICH, { 0, 16, 0, 0, 0, 3, 0, 0, 0.25, 0.5 }, "rich:bits=16,marks=0+0.25+0.5" },
    { "needy:rate=1e10", NEEDY, { 1e10 }, "needy:rate=1e+10" },
    { "needy:span=0,rate=2", NEEDY, { 2 }, "needy:rate=2" },
    { "size:3x9", SIZE, { 2, 3, 9 }, NULL },
    { "size:09x1", SIZE, { 2, 9, 1 }, "size:9x1" },
    { "set:set=7+0+9", SET, { 3, 7, 0, 9 }, NULL },
    { "lists", LISTS, { 0 }, NULL },
    { "lists:b=3+1+1,a=-2", LISTS, { 1, 3, -2, 0, 3, 1, 1 }, "lists:a=-2,b=3+1+1" },
    { "lists:b=0.5", LISTS, { 0, 1, 0, 0, 0.5 }, NULL },
};

static void texts_and_values_become_each_other(void **state)
{
    for (int i = 0; i < COUNT(good); i++) {
        double value[QG_MAX_VALUES] = { 0 };
        char   text[128];
        int    index;
        if (qg__variants_parse("thing", good[i].text, variants, &index, value)) fail_msg("%s", qg_errmsg());
        assert_int_equal(index, good[i].index);
        for (int k = 0; k < KEYS + 3; k++)
            if (value[k] != good[i].value[k] || signbit(value[k]) != signbit(good[i].value[k]))
                fail_msg("%s: value %d is %g, not %g", good[i].text, k, value[k], good[i].value[k]);
        qg_keys_print(variants[index].name, variants[index].keys, value, text, sizeof text);
        assert_string_equal(text, good[i].printed ? good[i].printed : good[i].text);
        if (qg__keys_check(variants[index].name, variants[index].keys, value)) fail_msg("%s", qg_errmsg());
    }
}

#define ALL "; available: mode, bits, step, low, high, marks, quiet"

static const struct { const char *text, *message; } bad[] = {
    { "", "unknown thing ''; available: plain, rich, needy, size, set, lists" },
    { "ric", "unknown thing 'ric'; available: plain, rich, needy, size, set, lists; did you mean rich?" },
    { "richer:bits=2", "unknown thing 'richer'; available: plain, rich, needy, size, set, lists; did you mean rich?" },
    { "plain:", "plain: unknown option ''; available: none" },
    { "plain:bits=2", "plain: unknown option 'bits'; available: none" },
    { "rich:", "rich: unknown option ''" ALL },
    { "rich:bits=2,", "rich: unknown option ''" ALL },
    { "rich:bit=2", "rich: unknown option 'bit'" ALL "; did you mean bits?" },
    { "rich:Bits=2", "rich: unknown option 'Bits'" ALL "; did you mean bits?" },
    { "rich:bits=2,b=2", "rich: bits is given twice" },
    { "rich:bits", "rich: bits needs a value" },
    { "rich:bits=", "rich: bits '' is not a number" },
    { "rich:bits=two", "rich: bits 'two' is not a number" },
    { "rich:bits=2.5", "rich: bits is 2.5, not a whole number" },
    { "rich:bits=17", "rich: bits is 17, not in 1..16 or 32" },
    { "rich:bits=0", "rich: bits is 0, not in 1..16 or 32" },
    { "rich:mode=fix", "rich: mode 'fix' is not one of learned|fixed|free; did you mean fixed?" },
    { "rich:mode=fixed|free", "rich: mode 'fixed|free' is not one of learned|fixed|free; did you mean fixed?" },
    { "rich:step=0", "rich: step is 0, not in (0, 1)" },
    { "rich:step=1", "rich: step is 1, not in (0, 1)" },
    { "rich:step=0.999999999999", "rich: step is 1, not in (0, 1)" },
    { "rich:step=0.5,bits=16", "rich: step has no effect with bits=16; it requires bits=2..8" },
    { "rich:low=0", "rich: low has no effect with mode=learned; it requires mode=fixed|free" },
    { "rich:low=1,mode=free", "rich: low is 1, not below high, 1" },
    { "rich:high=-2,mode=free", "rich: low is -1, not below high, -2" },
    { "rich:high=1e39,mode=free", "rich: high is 1e+39, which is too large" },
    { "rich:high=inf,mode=free", "rich: high 'inf' is not a number" },
    { "rich:marks=", "rich: marks '' is not a number" },
    { "rich:marks=0.5+", "rich: marks '' is not a number" },
    { "rich:marks=0.5x0.75", "rich: marks '0.5x0.75' is not a number" },
    { "rich:high=0,05", "rich: high is '0,05' with a comma; write numbers with a point, as in 0.05" },
    { "rich:high=-0,05,mode=free", "rich: high is '-0,05' with a comma; write numbers with a point, as in 0.05" },
    { "rich:marks=0,5+0,75", "rich: marks is '0,5' with a comma; write numbers with a point, as in 0.05" },
    { "rich:bits=2,5", "rich: bits is '2,5' with a comma; it is one number; a list repeats the name, a:bits=2,a:bits=4" },
    { "rich:marks=0.5+1", "rich: marks is 1, not in [0, 1)" },
    { "rich:marks=0.5+0.25", "rich: marks has 0.25 after 0.5; its numbers must increase" },
    { "rich:marks=0.5+0.5", "rich: marks has 0.5 after 0.5; its numbers must increase" },
    { "rich:marks=0+0.25+0.5+0.75", "rich: marks has 4 numbers, more than 3" },
    { "rich:quiet=1", "rich: quiet takes no value" },
    { "needy", "needy: rate is missing: per step" },
    { "needy:span=1", "needy: rate is missing: per step" },
    { "needy:rate=0", "needy: rate is 0, must be positive" },
    { "needy:rate=1,span=-1", "needy: span is -1, not 0 or more" },
    { "size", "size: size is missing" },
    { "size:", "size: size '' is not a number" },
    { "size:3", "size: size needs 2 numbers separated by x, not 1" },
    { "size:3x4x5", "size: size needs 2 numbers separated by x, not 3" },
    { "size:3x0", "size: size is 0, not in 1..9" },
    { "size:3+4", "size: size '3+4' is not a number" },
    { "set:set=7+0+7", "set: set has 7 twice" },
    { "lists:a=1+1+1", "lists: a has 3 numbers, more than 2" },
    { "lists:b=1+0", "lists: b is 0, not in (0, 9]" },
    { "set:set=7+0+10", "set: set is 10, not in 0..9" },
    { "set:set=1+2+3+4", "set: set has 4 numbers, more than 3" },
};

static void wrong_texts_are_told_why(void **state)
{
    for (int i = 0; i < COUNT(bad); i++) {
        double value[QG_MAX_VALUES];
        int    index;
        if (qg__variants_parse("thing", bad[i].text, variants, &index, value) != QG_EARG) fail_msg("'%s' is accepted", bad[i].text);
        assert_string_equal(qg_errmsg(), bad[i].message);
    }
}

/* Values that no text gives. */
static void wrong_values_are_told_why(void **state)
{
    static const struct { int at; double value; const char *message; } row[] = {
        { MODE, 3, "x: mode is 3, not one of learned|fixed|free" },
        { BITS, NAN, "x: bits is nan, not in 1..16 or 32" },
        { STEP, 2, "x: step is 2, not in (0, 1)" },
        { LOW, 5, "x: low is 5, not below high, 1" },
        { HIGH, INFINITY, "x: high is inf, which is too large" },
        { MARKS, 4, "x: marks has 4 numbers, more than 3" },
        { LIST, 0.75, "x: marks has 0.5 after 0.75; its numbers must increase" },
        { LIST, 1, "x: marks is 1, not in [0, 1)" },
    };
    const double legal[QG_MAX_VALUES] = { 1, 4, 0.5, -1, 1, 2, 0, 0.25, 0.5 };
    assert_ok(qg__keys_check("x", keys, legal));
    for (int i = 0; i < COUNT(row); i++) {
        double value[QG_MAX_VALUES];
        memcpy(value, legal, sizeof value);
        value[row[i].at] = row[i].value;
        assert_int_equal(qg__keys_check("x", keys, value), QG_EARG);
        assert_string_equal(qg_errmsg(), row[i].message);
    }
}

static void help_tells_ranges_and_defaults(void **state)
{
    static const struct { const qg_key *key; const char *range, *fallback; } row[] = {
        { &keys[MODE], "learned|fixed|free", "learned" }, { &keys[BITS], "1..16 or 32", "4" },
        { &keys[STEP], "(0, 1)", "auto" },             { &keys[LOW], "a number", "-1" },
        { &keys[MARKS], "[0, 1)", "none" },               { &needy[0], "more than 0", "required" },
        { &needy[1], "0 or more", "0" },                  { &size[0], "1..9", "required" },
    };
    for (int i = 0; i < COUNT(row); i++) {
        char range[64], own[QG_KEY_BYTES];
        assert_string_equal(qg_key_range(row[i].key, range, sizeof range), row[i].range);
        assert_string_equal(qg_key_default(row[i].key, own), row[i].fallback);
    }
}

/* As much as there is room for. */
static void a_short_text_is_cut(void **state)
{
    const double value[QG_MAX_VALUES] = { 1, 4, 0.5, -1, 1, 0, 1 };
    char         text[]               = "##########";
    qg_keys_print("x", keys, value, text, 8);
    assert_memory_equal(text, "x:mode=\0##", sizeof "x:mode=\0##");
}

/* Defaults of another time or table: keys and words that this one lacks are skipped. */
static void what_stands_under_a_text_is_its_default(void **state)
{
    static const char under[] = "mode=fixed,bits=8,other=3", lacking[] = "bits=8,mode=drifting";
    double value[QG_MAX_VALUES];
    char   text[64];
    assert_ok(qg__keys_parse_over("rich", under, "high=2", keys, value));
    assert_true(value[MODE] == 1 && value[BITS] == 8 && value[LOW] == -1 && value[HIGH] == 2);
    qg__keys_print_over("rich", under, keys, value, text, sizeof text);
    assert_string_equal(text, "rich:bits=8,high=2");
    assert_ok(qg__keys_parse_over("rich", lacking, NULL, keys, value));
    assert_true(value[MODE] == 0 && value[BITS] == 8);
    assert_ok(qg__keys_parse_over("rich", lacking, "mode=free", keys, value));
    assert_true(value[MODE] == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_and_values_become_each_other),
        cmocka_unit_test(wrong_texts_are_told_why),
        cmocka_unit_test(wrong_values_are_told_why),
        cmocka_unit_test(help_tells_ranges_and_defaults),
        cmocka_unit_test(a_short_text_is_cut),
        cmocka_unit_test(what_stands_under_a_text_is_its_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
