#include "cli/completion.h"

#include <string.h>

#include "cli/config/config.h"
#include "cli/config/models.h"
#include "cli/config/schemes.h"
#include "qgrad.h"

/* The words of a list "a, b" or "a|b". */
static void words(const char *list, FILE *out)
{
    for (const char *c = list; *c; c++) fputc(strchr("|,", *c) ? ' ' : *c, out);
}

/* What may follow a command that has a choice: "train eval .. " of "bench train|eval|.. [options]". */
static void choices(const verb *v, FILE *out)
{
    const char *word = strchr(v->usage, ' ') + 1, *end = word + strspn(word, "abcdefghijklmnopqrstuvwxyz|");
    if (*end != ' ' || end == word) return;
    for (; word <= end; word++) fputc(*word == '|' ? ' ' : *word, out);
}

/* A list of the words that an option takes, perhaps in names; "": it takes a number, a text or a path. */
static const char *words_of(const option *o, char names[QG_RECIPE_VALUE_BYTES])
{
    const char *name = o->name;
    *names           = '\0';
    if (o->kind == QG_RECIPE_WORD) return o->value;
    if (!strcmp(name, "model")) model_names(names, QG_RECIPE_VALUE_BYTES);
    else if (!strcmp(name, "data")) variant_names(qg_data_sets, names, QG_RECIPE_VALUE_BYTES);
    else if (!strcmp(name, "schedule")) variant_names(qg_schedules, names, QG_RECIPE_VALUE_BYTES);
    else if (!strcmp(name, "normalise")) variant_names(qg_normalisations, names, QG_RECIPE_VALUE_BYTES);
    for (int i = 0; i < QG_ROLES; i++)
        if (!strcmp(name, qg_role_name(qg_roles[i]))) scheme_names(qg_roles[i], names, QG_RECIPE_VALUE_BYTES);
    return names;
}

static bool is_path(const option *o)
{
    return o->value && (!strcmp(o->value, "DIR") || !strcmp(o->value, "FILE") || !strcmp(o->value, "RUN"));
}

/* The cases of options whose values are known: `--model) words=".." ;;`. */
static void values(FILE *out)
{
    for (int i = 0; i < OPTIONS; i++) {
        const option *o = option_at(i);
        char          names[QG_RECIPE_VALUE_BYTES];
        const char   *list = words_of(o, names);
        if (*list) fprintf(out, "    --%s) words='", o->name), words(list, out), fputs("' ;;\n", out);
        else if (!strcmp(o->name, "recipe")) fprintf(out, "    --recipe) words=$(_qgrad_recipes) ;;\n");
        else if (is_path(o))
            fprintf(out, "    --%s) compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n", o->name);
        else if (o->kind != QG_RECIPE_FLAG) fprintf(out, "    --%s) return ;;\n", o->name);
    }
}

static void dashed(const verb *v, FILE *out)
{
    for (int i = 0; i < OPTIONS; i++)
        if (verb_option_find(v, option_at(i)->name)) fprintf(out, " --%s", option_at(i)->name);
}

void completion_print(const verb *const *verbs, int n, FILE *out)
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
    values(out);
    fprintf(out, "    *)\n"
                 "        if [ \"$COMP_CWORD\" = 1 ]; then\n"
                 "            words='");
    for (int i = 0; i < n; i++) fprintf(out, "%s ", verbs[i]->name);
    fprintf(out, "--help --version'\n"
                 "        else\n"
                 "            case ${COMP_WORDS[1]} in\n");
    for (int i = 0; i < n; i++) {
        fprintf(out, "            %s) words='", verbs[i]->name);
        choices(verbs[i], out);
        char names[QG_RECIPE_VALUE_BYTES] = "";
        if (verbs[i]->lists_schemes) scheme_names(QG_WEIGHT | QG_INPUT | QG_GRADIENT, names, sizeof names);
        words(names, out);
        dashed(verbs[i], out);
        fprintf(out, "' ;;\n");
    }
    fprintf(out, "            esac\n"
                 "            [ \"${word#-}\" != \"$word\" ] || { compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\")); }\n"
                 "        fi ;;\n"
                 "    esac\n"
                 "    COMPREPLY+=($(compgen -W \"$words\" -- \"$word\"))\n"
                 "}\n"
                 "complete -F _qgrad qgrad\n");
}
