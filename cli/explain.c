/* qgrad explain: what a scheme computes, from the text beside its code. */
#include <stdio.h>
#include <string.h>

#include "cli/config/config.h"
#include "core/io/json_write.h"
#include "cli/config/schemes.h"
#include "cli/plot.h"
#include "cli/print.h"
#include "quant/scheme.h"

static const char *text_of(const scheme_text *s)
{
    return s->quant.scheme ? s->quant.scheme->explain : "The values stay as they are.\n";
}

static const char *use_of(const scheme_text *s)
{
    return s->use == QG_WEIGHT     ? "weights"
           : s->use == QG_INPUT    ? "inputs"
           : s->use == QG_GRADIENT ? "gradients"
                                    : "weights, inputs, gradients";
}

/* Whether name is that of the row, or has options that select this scheme; NULL: any name. */
static bool is_called(const scheme_text *s, const char *name)
{
    qg_quant q;
    if (!name || !strcmp(s->name, name)) return true;
    const size_t n = strlen(s->name);
    return !strncmp(s->name, name, n) && name[n] == ':' && s->quant.scheme &&
           !qg_quant_parse(name, s->use, &q) && q.scheme == s->quant.scheme;
}

/* Whether an earlier scheme has the same text: a scheme may serve several operands, and some of its variants have
 * separate names. */
static bool is_repeated(int i, const char *name)
{
    scheme_text s, before;
    if (!scheme_at(i, &s)) return false;
    for (int k = 0; k < i && scheme_at(k, &before); k++)
        if (is_called(&before, name) && text_of(&before) == text_of(&s)) return true;
    return false;
}

static void print_json(const char *name)
{
    qg__json j = qg__json_begin(stdout);
    qg__json_open(&j, "schemes", '[');
    scheme_text s;
    for (int i = 0; scheme_at(i, &s); i++) {
        if (!is_called(&s, name)) continue;
        qg__json_open(&j, NULL, '{');
        qg__json_text(&j, "name", s.name);
        qg__json_text(&j, "scheme", s.spelling);
        qg__json_text(&j, "about", s.about);
        qg__json_text(&j, "quantizes", use_of(&s));
        qg__json_integer(&j, "bits", (uint64_t)(s.quant.scheme ? s.quant.bits : 32));
        qg__json_open(&j, "learns", '[');
        for (int k = 0; k < qg_learned_count(s.quant); k++)
            if (!s.quant.scheme->learned[k].tracked)
                qg__json_text(&j, NULL, s.quant.scheme->learned[k].name);
        qg__json_close(&j, ']');
        qg__json_text(&j, "text", text_of(&s));
        qg__json_close(&j, '}');
    }
    qg__json_close(&j, ']');
    qg__json_end(&j);
}

/* Whether an earlier scheme with this text has the same name. */
static bool is_headed(int first, int i)
{
    scheme_text s, before;
    if (!scheme_at(i, &s)) return true;
    for (int k = first; k < i && scheme_at(k, &before); k++)
        if (text_of(&before) == text_of(&s) && !strcmp(before.spelling, s.spelling)) return true;
    return false;
}

/* The options of the schemes that have this text, once for each operand. */
static void print_options(const char *text, const char *name)
{
    scheme_text s, before = { .use = 0 };
    for (int i = 0; scheme_at(i, &s); i++) {
        if (text_of(&s) != text || !is_called(&s, name) || !s.quant.scheme || !qg_scheme_keys(s.quant.scheme, s.use)) continue;
        if (s.use == before.use && !strcmp(s.name, before.name)) continue;
        printf("\nOptions of %s for %s:\n", s.name, use_of(&s));
        scheme_options_help(&s, stdout);
        before = s;
    }
}

static void print_section(int i, const char *text)
{
    scheme_text s;
    printf("\n##");
    for (int k = i; scheme_at(k, &s); k++)
        if (text_of(&s) == text && !is_headed(i, k)) printf("%s %s", k > i ? "," : "", s.spelling);
    printf("\n\n");
    for (int k = i; scheme_at(k, &s); k++)
        if (text_of(&s) == text) printf("- `%s` for %s: %s\n", s.spelling, use_of(&s), s.about);
    printf("\n");
    for (int k = i; scheme_at(k, &s); k++) {
        char shown[PLOT_TEXT_BYTES], file[PLOT_TEXT_BYTES];
        if (text_of(&s) == text && plot_of(&s, shown, file))
            printf("![%s for %s](plots/%s)\n", shown, use_of(&s), file);
    }
    printf("\n```text\n%s", text);
    print_options(text, NULL);
    printf("```\n");
}

static void print_markdown(void)
{
    scheme_text s;
    printf("# Quantization schemes\n\n"
           "This page shows the output of `qgrad explain SCHEME`; `make docs` writes it from the texts beside\n"
           "the code of each scheme.  Throughout, q is the function computed in the forward pass and s the\n"
           "surrogate whose slope the backward pass uses.  A d before a letter denotes a gradient.  In C, an\n"
           "option is a field of the constructor's spec; where its name or value differs, the name of the field\n"
           "follows in parentheses.  Pictures show q and s on numbers of a normal distribution, and the slope of s;\n"
           "`qgrad plot SCHEME` draws them with options of your own, or prints a table (`--csv`).\n");
    for (int i = 0; scheme_at(i, &s); i++)
        if (!is_repeated(i, NULL)) print_section(i, text_of(&s));
}

static int refuse(const char *name)
{
    char         names[QG_RECIPE_VALUE_BYTES] = "";
    const size_t n                  = strcspn(name, ":");
    scheme_text  s, before;
    for (int i = 0; scheme_at(i, &s); i++) {
        if (strlen(s.name) == n && !strncmp(s.name, name, n)) {     /* there is one, but not with these options */
            qg_quant q;
            if (!qg_quant_parse(name, s.use, &q)) continue;
            fprintf(stderr, "qgrad explain: %s\n", qg_errmsg());
            return EXIT_USAGE;
        }
        bool again = false;
        for (int k = 0; k < i && scheme_at(k, &before); k++) again |= !strcmp(before.name, s.name);
        if (!again) qg__list_append(names, sizeof names, s.name);
    }
    char hint[QG__NEAREST_BYTES];
    print_safe(stderr, "qgrad explain: unknown scheme '%s'; available: %s%s\n", name, names, qg__list_nearest(names, name, n, hint));
    return EXIT_USAGE;
}

static int explain_main(const char *program, const char *name, config *asked)
{
    (void)program;
    const bool  as_json = config_flag(asked, "json"), as_page = config_flag(asked, "markdown");
    scheme_text s;
    int         found = 0;
    if (as_page && (name || as_json)) {
        fprintf(stderr, "qgrad explain: --markdown takes neither a scheme nor --json\n");
        return EXIT_USAGE;
    }
    for (int i = 0; scheme_at(i, &s); i++) found += is_called(&s, name);
    if (!found) return refuse(name);
    if (as_page) print_markdown();
    else if (as_json) print_json(name);
    for (int i = 0; !name && !as_page && !as_json && scheme_at(i, &s); i++)
        printf("  %-28s %s; for %s\n", s.spelling, s.about, use_of(&s));
    for (int i = 0, printed = 0; name && !as_json && scheme_at(i, &s); i++)
        if (is_called(&s, name) && !is_repeated(i, name)) {
            printf("%s%s", printed++ ? "\n" : "", text_of(&s));
            print_options(text_of(&s), name);
        }
    return EXIT_DONE;
}

static const verb_option own_options[] = {
    { "markdown", .first = true }, { NULL }
};

const verb explain_verb = {
    .name = "explain", .about = "Explain what a quantization scheme computes, with its source",
    .usage = "explain [SCHEME] [options]", .run = explain_main, .has_operand = true, .lists_schemes = true,
    .options = (const verb_option *const[]){ common_options, own_options, NULL },
};
