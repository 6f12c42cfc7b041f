/* qgrad explain: what a scheme computes, from the text that stands beside its code. */
#include <stdio.h>
#include <string.h>

#include "cli/config.h"
#include "cli/json.h"
#include "cli/schemes.h"
#include "quant/scheme.h"

static const char *text_of(scheme_text s)
{
    return s.quant.scheme ? s.quant.scheme->explain : "The values stay as they are.\n";
}

static const char *use_of(scheme_text s)
{
    return s.use == FOR_WEIGHT ? "weights" : s.use == FOR_INPUT ? "inputs" : "weights, inputs";
}

/* Whether an earlier row has the same text: options of one scheme may have names of their own. */
static bool is_repeated(int i)
{
    for (int k = 0; k < i; k++)
        if (text_of(scheme_at(k)) == text_of(scheme_at(i))) return true;
    return false;
}

static void print_json(const scheme_text *only)
{
    json j = json_begin(stdout);
    json_open(&j, "schemes", '[');
    for (int i = 0; scheme_at(i).name; i++) {
        const scheme_text s = scheme_at(i);
        if (only && strcmp(only->name, s.name)) continue;
        json_open(&j, NULL, '{');
        json_text(&j, "name", s.name);
        json_text(&j, "about", s.about);
        json_text(&j, "quantizes", use_of(s));
        json_integer(&j, "bits", (uint64_t)(s.quant.scheme ? s.quant.bits : 32));
        json_open(&j, "learns", '[');
        for (int k = 0; k < qg_learned_count(s.quant); k++)
            if (!s.quant.scheme->learned[k].tracked)
                json_text(&j, NULL, s.quant.scheme->learned[k].name);
        json_close(&j, ']');
        json_text(&j, "text", text_of(s));
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_end(&j);
}

static void print_markdown(void)
{
    printf("# Quantization schemes\n\n"
           "What `qgrad explain SCHEME` prints; `make docs` writes this page from the same text, which\n"
           "stands beside the code of each scheme.  Throughout, q is what is computed forward, s the\n"
           "surrogate whose slope is used backward, and d in front of a letter a gradient.\n");
    for (int i = 0; scheme_at(i).name; i++) {
        const char *text = text_of(scheme_at(i));
        if (is_repeated(i)) continue;
        printf("\n## %s", scheme_at(i).name);
        for (int k = i + 1; scheme_at(k).name; k++)
            if (text_of(scheme_at(k)) == text) printf(", %s", scheme_at(k).name);
        printf("\n\n");
        for (int k = i; scheme_at(k).name; k++)
            if (text_of(scheme_at(k)) == text)
                printf("- `%s` for %s: %s\n", scheme_at(k).name, use_of(scheme_at(k)),
                       scheme_at(k).about);
        printf("\n```text\n%s```\n", text);
    }
}

static int explain(const char *name, const config *asked)
{
    const bool  as_json = config_flag(asked, "json"), as_page = config_flag(asked, "markdown");
    char        names[VALUE_BYTES] = "";
    scheme_text s;
    if (as_page && (name || as_json)) {
        fprintf(stderr, "qgrad explain: --markdown takes neither a scheme nor --json\n");
        return EXIT_USAGE;
    }
    if (as_page) return print_markdown(), EXIT_DONE;
    if (!name && as_json) return print_json(NULL), EXIT_DONE;
    if (!name) {
        for (int i = 0; s = scheme_at(i), s.name; i++)
            printf("  %-16s %s; for %s\n", s.name, s.about, use_of(s));
        return EXIT_DONE;
    }
    for (int i = 0; s = scheme_at(i), s.name; i++) {
        if (!strcmp(s.name, name)) break;
        list_append(names, sizeof names, s.name);
    }
    if (!s.name) {
        fprintf(stderr, "qgrad explain: no scheme '%s'; there is %s\n", name, names);
        return EXIT_USAGE;
    }
    if (as_json) print_json(&s);
    else fputs(text_of(s), stdout);
    return EXIT_DONE;
}

int explain_main(const verb *v, const char *program, int argc, char **argv)
{
    (void)program;
    config      asked  = { { 0 } };
    const char *name   = options_operand(v, &argc, argv);
    int         status = options_parse(v, argc, argv, &asked);
    if (status < 0) status = explain(name, &asked);
    config_free(&asked);
    return status;
}
