#include "cli/manual.h"

#include <stdlib.h>
#include <string.h>

#include "cli/config/config.h"
#include "cli/config/images.h"
#include "cli/config/models.h"
#include "cli/config/schemes.h"
#include "qgrad.h"

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
