/* qgrad explain: what a scheme computes, from the text beside its code. */
#include <stdio.h>
#include <stdlib.h>
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

/* --- the page of all schemes -------------------------------------------------------------- */

/* Whether k is in the section of the page that begins with i: it has its name or its text. */
static bool is_with(const scheme_text *i, const scheme_text *k)
{
    return !strcmp(i->name, k->name) || text_of(i) == text_of(k);
}

/* Where the paragraph at p ends: behind its line break, or with the text. */
static const char *paragraph_end(const char *p)
{
    const char *blank = strstr(p, "\n\n");
    return blank ? blank + 1 : p + strlen(p);
}

/* Whether the section that begins with i has the paragraph of n bytes in a text before that of k. */
static bool is_said(const scheme_text *i, const scheme_text *k, const char *paragraph, size_t n)
{
    for (const scheme_text *s = i; s < k; s++) {
        if (!is_with(i, s) || text_of(s) == text_of(k)) continue;
        for (const char *p = text_of(s), *end; *p; p = end + (*end == '\n')) {
            end = paragraph_end(p);
            if ((size_t)(end - p) == n && !strncmp(p, paragraph, n)) return true;
        }
    }
    return false;
}

/* The explanation of a scheme may lack the last line break. */
static void end_line(const char *text)
{
    if (*text && text[strlen(text) - 1] != '\n') putchar('\n');
}

/* The text of k without what the section has said. */
static void print_rest(const scheme_text *i, const scheme_text *k)
{
    const char *text = text_of(k);
    for (const char *p = text, *end; *p; p = end + (*end == '\n')) {
        end = paragraph_end(p);
        if (!is_said(i, k, p, (size_t)(end - p))) printf("%s%.*s", p > text ? "\n" : "", (int)(end - p), p);
    }
    end_line(text);
}

/* Scheme k and those up to end with its text: how they are written and for what, and their pictures. */
static void print_uses(const scheme_text *k, const scheme_text *end)
{
    for (const scheme_text *s = k, *t; s < end; s++) {
        for (t = k; text_of(t) != text_of(k) || strcmp(t->about, s->about); t++)
            if (t == s) break;
        if (text_of(s) != text_of(k) || t < s) continue;
        const char *last = "";
        for (t = s; t < end; t++) {
            if (text_of(t) != text_of(k) || strcmp(t->about, s->about)) continue;
            if (!strcmp(last, t->spelling)) printf(" and %s", use_of(t));
            else printf("%s`%s` for %s", t > s ? ", " : "- ", t->spelling, use_of(t));
            last = t->spelling;
        }
        printf(": %s\n", s->about);
    }
    for (const scheme_text *s = k; s < end; s++) {
        char shown[PLOT_TEXT_BYTES], file[PLOT_TEXT_BYTES];
        if (text_of(s) == text_of(k) && plot_of(s, shown, file))
            printf("%s![%s](plots/%s)\n", s == k ? "\n" : "", shown, file);
    }
}

static void print_options(const scheme_text *i, const scheme_text *end)
{
    const scheme_text *t;
    for (const scheme_text *s = i; s < end; s++) {
        for (t = i; strcmp(t->name, s->name); t++) continue;
        if (is_with(i, s) && t == s && s->quant.scheme) scheme_options_help(s->name, stdout);
    }
}

/* Whether the section that begins with i has the text of s, which is in it, for the first time. */
static bool is_new(const scheme_text *i, const scheme_text *s)
{
    while (text_of(i) != text_of(s)) i++;
    return i == s;
}

/* All schemes of one name: their texts, and at the end once their options. */
static void print_section(const scheme_text *i, const scheme_text *end)
{
    const scheme_text *last = i;
    for (const scheme_text *s = i; s < end; s++)
        if (is_with(i, s) && is_new(i, s)) last = s;
    printf("\n## %s\n", i->name);
    for (const scheme_text *s = i; s <= last; s++) {
        if (!is_with(i, s) || !is_new(i, s)) continue;
        printf("\n");
        print_uses(s, end);
        printf("\n```text\n");
        print_rest(i, s);
        if (s == last) print_options(i, end);
        printf("```\n");
    }
}

static int print_markdown(void)
{
    scheme_text s;
    int         n = 0;
    while (scheme_at(n, &s)) n++;
    scheme_text *all = malloc((size_t)n * sizeof *all), *before;
    if (!all) return fprintf(stderr, "qgrad explain: out of memory\n"), EXIT_FAILED;
    printf("# Quantization schemes\n\n"
           "`qgrad explain SCHEME` prints what this page has; paragraphs that schemes of one name share are here once.\n"
           "q is the function of the forward pass, s the surrogate whose slope the backward pass uses, and a d before\n"
           "a letter denotes a gradient.  Pictures show q, s and the slope of s on values of a normal distribution;\n"
           "`qgrad plot SCHEME --out FILE.svg` draws them with other options.\n\n"
           "Options follow the name, as in `twn:threshold=0.5,per-channel=yes`.  In C, an option is a field of the\n"
           "constructor's spec; where its name or value differs, the field follows in parentheses.\n"
           SCHEMES_SHARE);
    for (int i = 0; i < n && scheme_at(i, &all[i]); i++) continue;
    for (int i = 0; i < n; i++) {
        for (before = all; before < all + i && !is_with(before, &all[i]); before++) continue;
        if (before == all + i) print_section(before, all + n);
    }
    printf("\nNext: [defaults that train](defaults.md), the [guide](guide.md) for the choice of a scheme, and\n"
           "[extending qgrad](extending.md#a-scheme) for a scheme of your own.\n");
    free(all);
    return EXIT_DONE;
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

static int explain_main(config *asked)
{
    const char *name    = asked->word;
    const bool  as_json = config_flag(asked, "json"), as_page = config_flag(asked, "markdown");
    scheme_text s;
    int         found = 0;
    if (as_page && (name || as_json)) return refuse(asked, "--markdown takes neither a scheme nor --json");
    for (int i = 0; scheme_at(i, &s); i++) found += is_called(&s, name);
    if (!found) return refuse_scheme(asked);
    if (as_page) return print_markdown();
    if (as_json) print_json(name);
    for (int i = 0; !name && !as_json && scheme_at(i, &s); i++)
        printf("  %-28s %s; for %s\n", s.spelling, s.about, use_of(&s));
    const char *last = NULL;
    for (int i = 0; name && !as_json && scheme_at(i, &s); i++)
        if (is_called(&s, name) && !is_repeated(i, name)) {
            printf("%s%s", last ? "\n" : "", text_of(&s));
            end_line(text_of(&s));
            last = s.name;
        }
    if (last && strcmp(last, "float")) {
        scheme_options_help(last, stdout);
        if (scheme_shares(last)) printf("\n" SCHEMES_SHARE);
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
