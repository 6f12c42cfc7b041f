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
    const char *explain = s->quant.scheme ? s->quant.scheme->explain : "The values stay as they are.\n";
    return explain ? explain : s->about;
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

/* The texts of the schemes of this name, each once, and their options.  Returns the name without options. */
static const char *explain_one(const char *name)
{
    const char *bare = NULL;
    scheme_text s;
    for (int i = 0; scheme_at(i, &s); i++) {
        if (!is_called(&s, name) || is_repeated(i, name)) continue;
        const char *text = text_of(&s);
        printf("%s%s%s", bare ? "\n" : "", text, *text && text[strlen(text) - 1] != '\n' ? "\n" : "");
        bare = s.name;
    }
    scheme_options_help(bare, stdout);
    return bare;
}

/* --- the page of all schemes -------------------------------------------------------------- */

static void print_section(const char *name)
{
    scheme_text s;
    char        shown[PLOT_TEXT_BYTES], file[PLOT_TEXT_BYTES];
    int         pictures = 0;
    printf("\n## %s\n\n", name);
    for (int i = 0; scheme_at(i, &s); i++)
        if (!strcmp(s.name, name)) printf("- `%s` for %s: %s\n", s.spelling, use_of(&s), s.about);
    for (int i = 0; scheme_at(i, &s); i++)
        if (!strcmp(s.name, name) && plot_of(&s, shown, file))
            printf("%s![%s](plots/%s)\n", pictures++ ? "" : "\n", shown, file);
    printf("\n```text\n");
    (void)explain_one(name);
    printf("```\n");
}

static void print_markdown(void)
{
    char names[512] = "";
    printf("# Quantization schemes\n\n"
           "`qgrad explain SCHEME` prints what this page has.\n"
           "q is the function of the forward pass, s the surrogate whose slope the backward pass uses, and a d before\n"
           "a letter denotes a gradient.  Pictures show q, s and the slope of s on values of a normal distribution;\n"
           "`qgrad plot SCHEME --out FILE.svg` draws them with other options.\n\n"
           "Options follow the name, as in `twn:threshold=0.5,per-channel=yes`.  In C, an option is a field of the\n"
           "constructor's spec; where its name or value differs, the field follows in parentheses.\n"
           SCHEMES_SHARE);
    scheme_names(QG_WEIGHT | QG_INPUT | QG_GRADIENT, names, sizeof names);
    for (const char *name = strtok(names, ", "); name; name = strtok(NULL, ", ")) print_section(name);
    printf("\nNext: [defaults that train](defaults.md), the [guide](guide.md) for the choice of a scheme, and\n"
           "[extending qgrad](extending.md#a-scheme) for a scheme of your own.\n");
}

static int refuse_scheme(const config *asked)
{
    const char  *name   = asked->word;
    const size_t n      = strcspn(name, ":");
    qg_status    status = QG_OK;
    scheme_text  s;
    for (int i = 0; !status && scheme_at(i, &s); i++) {     /* one of this name, but not with these options */
        qg_quant q;
        if (strlen(s.name) == n && !strncmp(s.name, name, n)) status = qg_quant_parse(name, s.use, &q);
    }
    if (!status) (void)scheme_unknown(name);
    return print_failure(asked);
}

#define FIELDS_IN_C "Names in parentheses, such as (per_channel), are fields of the scheme's spec in C.\n"

static int explain_main(config *asked)
{
    const char *name    = asked->word;
    const bool  as_json = config_flag(asked, "json"), as_page = config_flag(asked, "markdown");
    scheme_text s;
    int         found = 0;
    if (as_page && (name || as_json)) return refuse(asked, "--markdown takes neither a scheme nor --json");
    for (int i = 0; scheme_at(i, &s); i++) found += is_called(&s, name);
    if (!found) return refuse_scheme(asked);
    if (as_page) print_markdown();
    else if (as_json) print_json(name);
    else if (name && scheme_shares(explain_one(name))) printf("\n" FIELDS_IN_C SCHEMES_SHARE);
    for (int i = 0; !name && !as_json && !as_page && scheme_at(i, &s); i++)
        printf("  %-28s %s; for %s\n", s.spelling, s.about, use_of(&s));
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
