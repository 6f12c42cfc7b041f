#include "cli/manual.h"

#include <stdlib.h>
#include <string.h>

#include "cli/config/config.h"
#include "cli/config/images.h"
#include "cli/config/models.h"
#include "cli/config/schemes.h"
#include "qgrad.h"

/* --- the manual page ------------------------------------------------------------------------ */

/* Writes text so that roff prints it as it is. */
static void roff(const char *text, FILE *out)
{
    bool begins = true;
    for (const char *c = text; *c; c++) {
        if (begins && (*c == '.' || *c == '\'')) fputs("\\&", out);
        if (*c == '\\') fputs("\\e", out);
        else if (*c == '-') fputs("\\-", out);
        else fputc(*c, out);
        begins = *c == '\n';
    }
}

/* What print writes, line by line. */
static qg_status roff_of(qg_status (*print)(const void *what, FILE *out), const void *what, FILE *out)
{
    char           *text;
    size_t          n;
    const qg_status status = qg__text_print(print, what, &text, &n);
    if (status) return status;
    fprintf(out, ".nf\n");
    roff(text + strspn(text, "\n"), out);
    fprintf(out, ".fi\n");
    free(text);
    return QG_OK;
}

static qg_status print_models(const void *what, FILE *out)
{
    (void)what;
    models_help(out);
    return QG_OK;
}

static qg_status print_data(const void *what, FILE *out)
{
    (void)what;
    data_help(out);
    images_help(out);
    fprintf(out, "\nSchedules:\n");
    for (const qg_variant *s = qg_schedules; s->name; s++) keyed_help(s->name, s->about, s->keys, out);
    return QG_OK;
}

static qg_status print_schemes(const void *what, FILE *out)
{
    (void)what;
    schemes_help(out, FOR_WEIGHT | FOR_INPUT | FOR_GRADIENT);
    return QG_OK;
}

static void command(const verb *v, FILE *out)
{
    fprintf(out, ".TP\n.B qgrad ");
    roff(v->usage, out);
    fputc('\n', out);
    roff(v->about, out);
    fprintf(out, ".\n");
}

/* "train, eval" */
static void owners(const option *o, const verb *verbs, int n, FILE *out)
{
    const char *before = "";
    for (int i = 0; i < n; i++) {
        if (!(o->use & verbs[i].bit)) continue;
        fprintf(out, "%s%s", before, verbs[i].name);
        before = ", ";
    }
}

/* Those of all commands are explained once. */
static void option_text(const option *o, const verb *verbs, int n, FILE *out)
{
    const bool in_files = !(o->use & VERBS);
    fprintf(out, ".TP\n.B ");
    roff(in_files ? "" : "--", out);
    roff(o->name, out);
    if (o->value) {
        fputc(' ', out);
        roff(o->value, out);
    }
    fputc('\n', out);
    roff(o->help, out);
    if (o->fallback) {
        fprintf(out, "; default ");
        roff(o->fallback, out);
    }
    fprintf(out, ".\n");
    if (in_files || (o->use & VERBS) == VERBS) return;
    fprintf(out, "(");
    owners(o, verbs, n, out);
    fprintf(out, ")\n");
}

int manual_page(const verb *verbs, int n, FILE *out)
{
    static const struct { const char *name, *about; } variables[] = {
        { "QGRAD_SHARE", "the directory with recipes and sample, in place of share/qgrad beside the program's directory" },
        { "QGRAD_CPU", "avx512, avx2 or baseline: a lower instruction set than that of the machine" },
        { "OMP_NUM_THREADS", "the number of threads, unless --threads sets it" },
        { "OPENBLAS_CORETYPE", "the kernels of OpenBLAS, in place of those that fit the CPU" },
    };
    fprintf(out, ".TH QGRAD 1 \"\" \"qgrad " QGRAD_VERSION "\" \"User Commands\"\n");
    fprintf(out, ".SH NAME\nqgrad \\- train, measure and inspect quantized neural networks\n");
    fprintf(out, ".SH SYNOPSIS\n.B qgrad\n.I COMMAND\n[options]\n.br\n.B qgrad\n.I COMMAND\n.B \\-\\-help\n.br\n"
                 ".B qgrad \\-\\-version\n");
    fprintf(out, ".SH DESCRIPTION\nqgrad trains binary, ternary and low\\-bit neural networks on the CPU, stores each training "
                 "in a run directory, and measures, quantizes and inspects what it has trained.\n");
    fprintf(out, ".SH COMMANDS\n");
    for (int i = 0; i < n; i++) {
        command(&verbs[i], out);
    }
    fprintf(out, ".SH OPTIONS\nA configuration file has the same options as lines\n.IR \"name = value\" ,\na subset of TOML.\n");
    for (int i = 0; i < OPTIONS; i++)
        if (options[i].use & VERBS) option_text(&options[i], verbs, n, out);
    fprintf(out, ".SS In files only\n");
    for (int i = 0; i < OPTIONS; i++)
        if (!(options[i].use & VERBS)) option_text(&options[i], verbs, n, out);
    fprintf(out, ".SH MODELS\n");
    qg_status status = roff_of(print_models, NULL, out);
    fprintf(out, ".SH SCHEMES\n");
    if (!status) status = roff_of(print_schemes, NULL, out);
    fprintf(out, ".SH DATA\n");
    if (!status) status = roff_of(print_data, NULL, out);
    fprintf(out, ".SH ENVIRONMENT\n");
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        fprintf(out, ".TP\n.B %s\n", variables[i].name);
        roff(variables[i].about, out);
        fprintf(out, ".\n");
    }
    fprintf(out, ".SH EXIT STATUS\n0 success, 1 failure, 2 usage error, 3 stopped by\n.BR \\-\\-budget ,\n"
                 "128 + N after signal N, as in 143 after SIGTERM.\n");
    return status ? options_report("qgrad", false) : EXIT_DONE;
}

/* --- completion ------------------------------------------------------------------------------ */

static void words(const char *list, const char *separators, FILE *out)
{
    for (const char *c = list; *c; c++) fputc(strchr(separators, *c) ? ' ' : *c, out);
}

/* What may follow a command that has a choice: "train eval .. " of "bench train|eval|.. [options]". */
static void choices(const verb *v, FILE *out)
{
    const char *word = strchr(v->usage, ' ') + 1, *end = word + strspn(word, "abcdefghijklmnopqrstuvwxyz|");
    if (*end != ' ' || end == word) return;
    for (; word <= end; word++) fputc(*word == '|' ? ' ' : *word, out);
}

static void scheme_words(unsigned role, FILE *out)
{
    const qg_scheme *scheme, *before = NULL;
    unsigned         of;
    fputs("float", out);
    for (int i = 0; scheme_in_role(i, &scheme, &of); i++) {
        if (!(of & role) || (before && !strcmp(before->name, scheme->name))) continue;
        fprintf(out, " %s", scheme->name);
        before = scheme;
    }
}

/* The words of the value of an option; none: it is a number, a text or a path. */
static qg_status print_words(const void *of, FILE *out)
{
    const option *o                  = of;
    char          names[VALUE_BYTES] = "";
    if (o->kind == OPTION_WORD) words(o->value, "|", out);
    else if (!strcmp(o->name, "model")) model_names(names, sizeof names);
    else if (!strcmp(o->name, "data")) data_names(names, sizeof names);
    else if (!strcmp(o->name, "weight")) scheme_words(FOR_WEIGHT, out);
    else if (!strcmp(o->name, "input")) scheme_words(FOR_INPUT, out);
    else if (!strcmp(o->name, "gradient")) scheme_words(FOR_GRADIENT, out);
    else if (!strcmp(o->name, "schedule"))
        for (const qg_variant *s = qg_schedules; s->name; s++) qg__list_append(names, sizeof names, s->name);
    else if (!strcmp(o->name, "normalise"))
        for (const qg_variant *s = qg_normalisations; s->name; s++) qg__list_append(names, sizeof names, s->name);
    words(names, ",", out);
    return QG_OK;
}

static bool is_path(const option *o)
{
    return o->value && (!strcmp(o->value, "DIR") || !strcmp(o->value, "FILE") || !strcmp(o->value, "RUN"));
}

/* The cases of options whose values are known: `--model) words=".." ;;`. */
static qg_status values(FILE *out)
{
    for (int i = 0; i < OPTIONS; i++) {
        const option   *o = &options[i];
        char           *text;
        size_t          n;
        const qg_status status = qg__text_print(print_words, o, &text, &n);
        if (status) return status;
        if (n) fprintf(out, "    --%s) words='%s' ;;\n", o->name, text);
        else if (!strcmp(o->name, "recipe")) fprintf(out, "    --recipe) words=$(_qgrad_recipes) ;;\n");
        else if (is_path(o))
            fprintf(out, "    --%s) compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n", o->name);
        else if (o->kind != OPTION_FLAG) fprintf(out, "    --%s) return ;;\n", o->name);
        free(text);
    }
    return QG_OK;
}

static void dashed(unsigned bits, FILE *out)
{
    for (int i = 0; i < OPTIONS; i++)
        if (options[i].use & bits) fprintf(out, " --%s", options[i].name);
}

int manual_completion(const verb *verbs, int n, FILE *out)
{
    fprintf(out, "# bash completion for qgrad " QGRAD_VERSION "\n\n"
                 "_qgrad_recipes() {\n"
                 "    local dir=${QGRAD_SHARE:-$(dirname -- \"$(command -v qgrad)\")/../share/qgrad} file\n"
                 "    for file in {.,\"$dir\"}/" RECIPES "/*.toml; do\n"
                 "        [ ! -e \"$file\" ] || basename -- \"$file\" .toml\n"
                 "    done\n"
                 "}\n\n"
                 "_qgrad() {\n"
                 "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\n"
                 "    COMPREPLY=()\n"
                 "    case $before in\n");
    if (values(out)) return options_report("qgrad", false);
    fprintf(out, "    *)\n"
                 "        if [ \"$COMP_CWORD\" = 1 ]; then\n"
                 "            words='");
    for (int i = 0; i < n; i++) fprintf(out, "%s ", verbs[i].name);
    fprintf(out, "--help --version'\n"
                 "        else\n"
                 "            case ${COMP_WORDS[1]} in\n");
    for (int i = 0; i < n; i++) {
        fprintf(out, "            %s) words='", verbs[i].name);
        choices(&verbs[i], out);
        if (verbs[i].bit & (VERB_EXPLAIN | VERB_PLOT)) scheme_words(FOR_WEIGHT | FOR_INPUT | FOR_GRADIENT, out);
        dashed(verbs[i].bit, out);
        fprintf(out, "' ;;\n");
    }
    fprintf(out, "            esac\n"
                 "            [ \"${word#-}\" != \"$word\" ] || { compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\")); }\n"
                 "        fi ;;\n"
                 "    esac\n"
                 "    COMPREPLY+=($(compgen -W \"$words\" -- \"$word\"))\n"
                 "}\n"
                 "complete -F _qgrad qgrad\n");
    return EXIT_DONE;
}
