/* A default stands in the table of a scheme's keys.  Comments of quant/quant.h that repeat it must agree. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/scheme.h"
#include "tests/support/testing.h"
#include "train/recipe_keys.h"

/* The scheme whose spec is qg_NAME_spec, with its role. */
static const struct {
    const char *spec, *scheme;
    qg_role     role;
} specs[] = {
    { "twn", "twn", QG_WEIGHT },
    { "ttq", "ttq", QG_WEIGHT },
    { "dorefa_weight", "dorefa", QG_WEIGHT },
    { "dorefa_activation", "dorefa", QG_INPUT },
    { "dorefa_gradient", "dorefa", QG_GRADIENT },
    { "stochastic_gradient", "stochastic", QG_GRADIENT },
    { "fake_quant", "fake_quant", QG_INPUT },
    { "lsq", "lsq", QG_INPUT },
    { "pact", "pact", QG_INPUT },
    { "linear", "linear", QG_INPUT },
    { "unit", "unit", QG_INPUT },
    { "qdq", "qdq", QG_INPUT },
};

/* The key of a field: underscores are hyphens. */
static const qg_key *key_of(const qg_scheme *scheme, qg_role role, const char *field)
{
    char          name[64];
    const qg_key *keys = qg_scheme_keys(scheme, role);
    snprintf(name, sizeof name, "%s", field);
    for (char *c = name; *c; c++)
        if (*c == '_') *c = '-';
    const int i = qg_keys_find(keys, name, strlen(name));
    return i < 0 ? NULL : &keys[i];
}

/* Compares "float threshold; .. 0: 0.7" with the key threshold; whether there was something to compare. */
static bool compare(const char *line, const qg_scheme *scheme, qg_role role)
{
    char        type[16], field[64];
    const char *said = strstr(line, " 0: ");
    if (!said || sscanf(line, " %15s %63[a-z_]", type, field) != 2 || (strcmp(type, "float") && strcmp(type, "int"))) return false;
    const qg_key *key = key_of(scheme, role, field);
    char         *end;
    const double  value = strtod(said + 4, &end);
    if (!key || end == said + 4 || !qg_key_has_default(key)) return false;
    if ((float)value != (float)key->fallback)
        fail_msg("quant/quant.h: %s of %s is %g by default, not as in: %s", field, scheme->name, key->fallback, line);
    return true;
}

static void comments_repeat_the_tables(void **state)
{
    (void)state;
    char  line[256];
    int   compared = 0, at = -1;
    FILE *f = fopen("quant/quant.h", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        char name[64];
        if (sscanf(line, "typedef struct qg_%63[a-z_] {", name) == 1) {
            at = -1;
            for (int i = 0; i < (int)(sizeof specs / sizeof *specs); i++)
                if (strlen(name) == strlen(specs[i].spec) + 5 && !strncmp(name, specs[i].spec, strlen(specs[i].spec))) at = i;
        }
        if (at < 0) continue;
        qg_quant q;
        assert_ok(qg_quant_parse(specs[at].scheme, specs[at].role, &q));
        compared += compare(line, q.scheme, specs[at].role);
    }
    fclose(f);
    assert_true(compared >= 12);
}

/* What as=paper stands for is legal, differs from the default, and has its own spelling. */
static void every_scheme_has_the_rule_of_its_source(void **state)
{
    (void)state;
    for (const qg_scheme *const *s = qg_schemes; *s; s++)
        for (unsigned role = QG_WEIGHT; role <= QG_GRADIENT; role *= 2) {
            qg_quant plain, paper, again;
            char     text[256];
            /* A scheme that someone adds may have one rule. */
            if (!((*s)->roles & role) || qg_keys_find(qg_scheme_keys(*s, (qg_role)role), "as", 2) < 0) continue;
            assert_ok(qg_scheme_parse(*s, (qg_role)role, NULL, &plain));
            assert_ok(qg_scheme_parse(*s, (qg_role)role, "as=paper", &paper));
            qg_quant_print(paper, text, sizeof text);
            assert_non_null(strstr(text, ":as=paper"));
            assert_null(strstr(text, "gradient"));          /* what as=paper stands for is not repeated */
            assert_ok(qg_quant_parse(text, (qg_role)role, &again));
            assert_memory_equal(again.arg, paper.arg, sizeof paper.arg);
            assert_true(paper.as_paper && again.as_paper && !plain.as_paper);
        }
}

/* The help of first-last names the weight schemes with which models keep their ends in float, and no others. */
static void the_help_names_the_schemes_with_float_ends(void **state)
{
    (void)state;
    const char *said  = strstr(qg__recipe_key("first-last")->help, "default: float with");
    int         ends = 0, named = 0;
    assert_non_null(said);
    for (const qg_scheme *const *s = qg_schemes; *s; s++) ends += ((*s)->roles & QG_WEIGHT) && (*s)->float_ends;
    for (const char *at = said + strlen("default: float with"); *at; at += strcspn(at, ", \n")) {
        char name[64] = "";
        at += strspn(at, ", \n");
        if (!strncmp(at, "else", 4)) break;
        if (!strncmp(at, "and ", 4)) at += 4;
        sscanf(at, "%63[a-z-]", name);
        bool found = false;
        for (const qg_scheme *const *s = qg_schemes; *s; s++)
            found |= ((*s)->roles & QG_WEIGHT) && (*s)->float_ends && !strcmp((*s)->name, name);
        if (!found) fail_msg("first-last: '%s' is no scheme with float ends", name);
        named++;
    }
    assert_int_equal(named, ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(comments_repeat_the_tables),
                                        cmocka_unit_test(every_scheme_has_the_rule_of_its_source),
                                        cmocka_unit_test(the_help_names_the_schemes_with_float_ends) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
