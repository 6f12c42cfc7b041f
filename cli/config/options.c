#include "cli/config/options.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config/config.h"
#include "cli/config/lists.h"
#include "cli/config/models.h"
#include "cli/config/schemes.h"
#include "cli/print.h"
#include "core/dist/ranks.h"
#include "layers/layer.h"

const verb_option *verb_option_find(const verb *v, const char *name)
{
    const verb_option *found = NULL;
    for (const verb_option *const *table = v->options; *table; table++)
        for (const verb_option *o = *table; o->name; o++)
            if (!strcmp(o->name, name)) found = o;
    return found;
}

static bool is_of(const option *o, const verb *v) { return verb_option_find(v, o->name); }

/* What other programs call an option of ours. */
static const char *const elsewhere[][2] = {
    { "--learning-rate", "lr" }, { "--wd", "weight-decay" }, { "--grad-clip", "clip-norm" }, { "--early-stopping", "patience" },
};

/* The option of v that was meant, as "; did you mean --lr?"; empty: there is none. */
static const char *meant(const verb *v, const char *names, const char *typed, char hint[QG__NEAREST_BYTES])
{
    const size_t n = strcspn(typed, "=");
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
        const char *theirs = elsewhere[i][0], *ours = elsewhere[i][1];
        if (strlen(theirs) != n || strncmp(theirs, typed, n) || !verb_option_find(v, ours)) continue;
        snprintf(hint, QG__NEAREST_BYTES, "; did you mean --%s?", ours);
        return hint;
    }
    return qg__list_nearest(names, typed, n, hint);
}

/* Prints one line on stderr and returns the status of a usage error. */
static int usage_error(const verb *v, const char *what, const char *culprit)
{
    enum { MOST_LISTED = 16 };
    char names[2048] = "", hint[QG__NEAREST_BYTES];
    int  n = 0;
    for (int i = 0; i < OPTIONS; i++) {
        char dashed[64];
        snprintf(dashed, sizeof dashed, "--%s", option_at(i)->name);
        if (is_of(option_at(i), v)) qg__list_append(names, sizeof names, dashed), n++;
    }
    print_safe(stderr, "qgrad %s: %s '%s'", v->name, what, culprit);
    if (*meant(v, names, culprit, hint)) print_safe(stderr, "%s\n", hint);
    else if (n <= MOST_LISTED) print_safe(stderr, "; options: %s\n", names);
    else print_safe(stderr, "; see qgrad %s --help\n", v->name);
    return EXIT_USAGE;
}

/* Whether getopt took the name of another option, which the verb lacks, for an abbreviation of this one. */
static bool is_another(const option *o, const char *typed)
{
    char key[64] = "";
    if (!strncmp(typed, "--", 2)) snprintf(key, sizeof key, "%.*s", (int)strcspn(typed + 2, "="), typed + 2);
    return strlen(o->name) > strlen(key) && option_find(key);
}

/* Whether a message of the library begins with an option of the verb, which it calls by its key: "layer: lenet5
 * has no layer 'x'". */
static bool names_option(const verb *v, const char *message)
{
    char         key[64];
    const size_t n = strspn(message, "abcdefghijklmnopqrstuvwxyz0123456789-");
    snprintf(key, sizeof key, "%.*s", (int)n, message);
    return (message[n] == ':' || !strncmp(message + n, " is an option of ", 17)) && verb_option_find(v, key);
}

static int exit_status(void) { return qg_errcode() == QG_EARG ? EXIT_USAGE : EXIT_FAILED; }

int print_failure(const config *asked)
{
    char        line[4096];
    const int   status = exit_status();
    const char *dashes = status == EXIT_USAGE && names_option(asked->verb, qg_errmsg()) ? "--" : "";
    snprintf(line, sizeof line, "qgrad %s: %s%s", asked->verb->name, dashes, qg_errmsg());
    qg_ranks_abort(status, line);
    print_safe(stderr, "%s\n", line);
    return status;
}

int refuse(const config *asked, const char *why)
{
    qg_fail(QG_EARG, "%s", why);
    return print_failure(asked);
}

/* What an option had before the command line set it again, which is not what people mean. */
typedef struct earlier {
    char *text[OPTIONS];                        /* the first value, of a list those of its items; NULL: it was given once */
} earlier;

/* The item of a list with the same text before its '='; NULL: none. */
static const char *item_like(const char *list, const char *item)
{
    const size_t key = strcspn(item, "=") + 1;
    while (list && *list && strncmp(list, item, key)) list = qg__lines_next(list);
    return list && *list ? list : NULL;
}

static void warn_of_earlier(const earlier *e, const config *asked)
{
    for (int i = 0; i < OPTIONS; i++)
        for (const char *was = e->text[i]; was && *was; was = qg__lines_next(was)) {
            const option *o   = option_at(i);
            const char   *all = config_text_of(asked, o), *now = o->kind == QG_RECIPE_LIST ? item_like(all, was) : all;
            const int     n = (int)strcspn(was, "\n"), m = (int)strcspn(now, "\n");
            if (n == m && !strncmp(was, now, (size_t)n)) continue;
            print_safe(stderr, "qgrad: warning: --%s is given twice: %.*s counts, not %.*s\n", o->name, m, now, n, was);
        }
}

static void earlier_free(earlier *e)
{
    for (int i = 0; i < OPTIONS; i++) free(e->text[i]);
}

/* Sets an option and keeps the value that it replaces.  Recipes have lists of different items; others have any. */
static qg_status set(config *asked, const option *o, const char *text, earlier *e)
{
    char      **first = &e->text[option_index(o)], replaced[QG_RECIPE_VALUE_BYTES];
    const bool  list  = o->kind == QG_RECIPE_LIST;
    const char *was   = config_text_of(asked, o);
    if (list) was = option_is_of_recipe(o) ? item_like(was, text) : NULL;
    if (was && !(list ? item_like(*first, text) : *first)) {
        snprintf(replaced, sizeof replaced, "%.*s", (int)strcspn(was, "\n"), was);
        char *kept = qg__lines_with(*first, replaced);
        if (!kept) return qg_fail(QG_EMEM, "out of memory for --%s", o->name);
        free(*first);
        *first = kept;
    }
    return config_set(asked, o->name, text);
}

static qg_status take(const verb *v, config *asked, const option *o, const char *text, earlier *e)
{
    return v->takes_lists && lists_take(o) ? lists_add(asked, o, text) : set(asked, o, text, e);
}

/* Whether a value that train refuses looks like several for sweep. */
static bool is_list(const verb *v, const option *o, const char *text)
{
    const bool number = o->kind == QG_RECIPE_INTEGER || o->kind == QG_RECIPE_REAL || o->kind == QG_RECIPE_WORD;
    return !v->takes_lists && verb_option_find(v, "epochs") && number && text && (strchr(text, ',') || strstr(text, ".."));
}

/* Sets defaults of options that no recipe has; qg_recipe_get knows the others. */
static int set_defaults(const verb *v, config *asked)
{
    for (int i = 0; i < OPTIONS; i++) {
        const option *o = option_at(i);
        if (!is_of(o, v) || option_is_of_recipe(o) || !o->fallback || config_text_of(asked, o)) continue;
        if (config_set(asked, o->name, o->fallback)) return print_failure(asked);
    }
    return -1;
}

/* An argument that belongs to no option, and the one before it. */
static int unexpected(const verb *v, const char *before, const char *text)
{
    const option *o = strncmp(before, "--", 2) ? NULL : option_find(before + 2);
    if (o && o->kind == QG_RECIPE_FLAG)
        print_safe(stderr, "qgrad %s: unexpected argument '%s'; %s takes no value\n", v->name, text, before);
    else if (verb_option_find(v, "model") && model_of(text) && model_of(text) != &qg_model_text)
        print_safe(stderr, "qgrad %s: unexpected argument '%s'; did you mean --model %s?\n", v->name, text, text);
    else return usage_error(v, "unexpected argument", text);
    return EXIT_USAGE;
}

void keyed_help(const char *name, const char *about, const qg_key *keys, FILE *out)
{
    fprintf(out, "  %-16s %s\n", name, about);
    for (int i = 0; i < qg_keys_count(keys); i++) {
        const qg_key *key = &keys[i];
        char          range[256], own[QG_KEY_BYTES];
        fprintf(out, "  %-18s ", "");
        qg_key_range(key, range, sizeof range);
        if (key->is & QG_KEY_FLAG) fprintf(out, "%s", key->name);
        else if (key->is & QG_KEY_SIZE) fprintf(out, ":%s, each number in %s", key->name, range);
        else fprintf(out, "%s=%s%s", key->name, range, key->most ? "+.." : "");
        if (key->is & QG_KEY_REQUIRED || (qg_key_has_default(key) && !(key->is & QG_KEY_FLAG)))
            fprintf(out, " [%s]", qg_key_default(key, own));
        fprintf(out, "%s%s\n", key->about ? "  " : "", key->about ? key->about : "");
    }
}

void variant_names(const qg_variant *v, char *text, size_t bytes)
{
    for (; v->name; v++) qg__list_append(text, bytes, v->name);
}

static void data_help(FILE *out)
{
    fprintf(out, "\nData sets:\n");
    for (const qg_variant *d = qg_data_sets; d->name; d++) keyed_help(d->name, d->about, d->keys, out);
}

static void images_help(FILE *out)
{
    fprintf(out, "\nNormalisations:\n");
    for (const qg_variant *n = qg_normalisations; n->name; n++) keyed_help(n->name, n->about, n->keys, out);
    fprintf(out, "\nAugmentations:\n");
    keyed_help("none", "the images as they are", NULL, out);
    keyed_help("pad=4,flip", "any of these, in any order", qg_augment_keys, out);
}

/* One option and what it means to the verb. */
static void option_help(const verb *v, const option *o, FILE *out)
{
    const verb_option *its  = verb_option_find(v, o->name);
    const char        *help = its->help ? its->help : o->help;
    char               head[64];
    snprintf(head, sizeof head, "--%s %s", o->name, o->value ? o->value : "");
    fprintf(out, "  %-30s ", head);
    for (const char *c = help; *c; c++) {
        fputc(*c, out);
        if (*c == '\n') fprintf(out, "  %-30s ", "");
    }
    if (v->reads_run && option_is_of_recipe(o) && !its->not_of_run) fputs(" [as in the run]\n", out);
    else fprintf(out, o->fallback && !strstr(help, "default:") ? " [%s]\n" : "\n", o->fallback);
}

/* The operands whose schemes the help lists. */
static unsigned scheme_uses(const verb *v)
{
    unsigned uses = 0;
    for (int i = 0; i < QG_ROLES; i++)
        if (v->lists_schemes || verb_option_find(v, qg_role_name(qg_roles[i]))) uses |= qg_roles[i];
    return uses;
}

/* What the values of the options may be. */
static void values_help(const verb *v, FILE *out)
{
    const bool nets = verb_option_find(v, "model"), steps = verb_option_find(v, "schedule");
    if (v->takes_lists) lists_help(out);
    if (nets) models_help(out);
    if (scheme_uses(v)) schemes_help(out, scheme_uses(v));
    if (verb_option_find(v, "data")) data_help(out);
    if (!steps) return;
    images_help(out);
    fprintf(out, "\nSchedules, as in step:at=0.5+0.8,factor=0.1:\n");
    for (const qg_variant *s = qg_schedules; s->name; s++) keyed_help(s->name, s->about, s->keys, out);
}

/* Their names alone, in lines of 100 columns. */
static void names_help(const char *what, const char *names, FILE *out)
{
    int column = fprintf(out, "%s", what);
    for (const char *at = names; *at;) {
        const int n = (int)strcspn(at, " ");
        if (column + 1 + n > 100) column = fprintf(out, "\n   ") - 1;
        column += fprintf(out, " %.*s", n, at);
        at += n + (at[n] == ' ');
    }
    fputc('\n', out);
}

static void brief_help(const verb *v, FILE *out)
{
    char names[1024];
    fputc('\n', out);
    if (verb_option_find(v, "model")) {
        *names = '\0';
        model_names(names, sizeof names);
        names_help("Models:", names, out);
    }
    for (int i = 0; i < QG_ROLES; i++) {
        char what[64];
        if (!(scheme_uses(v) & qg_roles[i])) continue;
        snprintf(what, sizeof what, "Schemes for --%s:", qg_role_name(qg_roles[i]));
        *names = '\0';
        scheme_names(qg_roles[i], names, sizeof names);
        names_help(what, names, out);
    }
    if (verb_option_find(v, "data")) {
        *names = '\0';
        variant_names(qg_data_sets, names, sizeof names);
        names_help("Data sets:", names, out);
    }
    if (verb_option_find(v, "model") && verb_option_find(v, "epochs"))
        fprintf(out, "\nThe training defaults of a model replace the values in [..] above.");
    fprintf(out, "\nqgrad %s --help all has every option, and the keys of models, schemes and data sets.\n", v->name);
    if (scheme_uses(v) && strcmp(v->name, "explain")) fprintf(out, "See qgrad explain SCHEME for what a scheme computes.\n");
}

/* Whether there is a short help: some rows are in it. */
static bool has_brief(const verb *v)
{
    for (const verb_option *const *table = v->options; *table; table++)
        for (const verb_option *o = *table; *table != common_options && o->name; o++)
            if (o->first) return true;
    return false;
}

static void options_help(const verb *v, bool all, FILE *out)
{
    const bool brief = !all && has_brief(v);
    fprintf(out, "usage: qgrad %s\n%s.\n\n", v->usage, v->about);
    for (int i = 0; i < OPTIONS; i++)
        if (is_of(option_at(i), v) && (!brief || verb_option_find(v, option_at(i)->name)->first)) option_help(v, option_at(i), out);
    if (brief) {
        brief_help(v, out);
        return;
    }
    values_help(v, out);
    if (verb_option_find(v, "resume"))
        fputs("\nExtending a run, as in --resume --out DIR --epochs 20: constant continues; step and warmup stay in their epochs; cosine, linear\n"
              "and exponential end with the run and are refused.  Another --schedule is legal if its rates agree so far.\n", out);
    fprintf(out, "\nExit status: 0 success, 1 failure%s, 2 usage error, %s130 after SIGINT, 143 after SIGTERM.\n",
            v->fails ? v->fails : "", verb_option_find(v, "budget") ? "3 stopped by --budget, " : "");
}

/* --- reading them -------------------------------------------------------------------------- */

static int parse(const verb *v, int argc, char **argv, config *asked, earlier *e)
{
    enum { OPERAND = 1, FIRST = 256 };          /* above every character getopt may return */
    struct option longs[OPTIONS + 1];
    int           n = 0;
    for (int i = 0; i < OPTIONS; i++) {
        if (!is_of(option_at(i), v)) continue;
        const int has = option_at(i)->kind == QG_RECIPE_FLAG ? no_argument : required_argument;
        longs[n++]    = (struct option){ option_at(i)->name, has, NULL, FIRST + i };
    }
    longs[n] = (struct option){ 0 };
    optind   = 0;                               /* with 1, getopt would go on in an earlier word that -h left unfinished */
    opterr   = 0;
    int n_operands = 0;                         /* argv[1 .. n_operands], which have been read before they are overwritten */
    const char *shorts = v->has_operand || v->has_operands ? "-:ho:" : "+:ho:";
    for (int c, at; at = optind ? optind : 1, (c = getopt_long(argc, argv, shorts, longs, NULL)) != -1;) {
        const char *culprit = argv[at];
        if (c == OPERAND) {
            if (v->has_operand && n_operands) return unexpected(v, argv[at - 1], optarg);
            argv[++n_operands] = optarg;
            continue;
        }
        if (c == ':') {
            print_safe(stderr, "qgrad %s: %s needs a value\n", v->name, culprit);
            return EXIT_USAGE;
        }
        if (c == '?' && optopt >= FIRST) {
            fprintf(stderr, "qgrad %s: --%s takes no value\n", v->name, option_at(optopt - FIRST)->name);
            return EXIT_USAGE;
        }
        if (c == '?' || (c == 'o' && !verb_option_find(v, "out"))) return usage_error(v, "unknown option", culprit);
        if (c == 'o') c = FIRST + option_index(option_find("out"));
        const bool another = c >= FIRST && is_another(option_at(c - FIRST), culprit);
        if (another) return usage_error(v, "unknown option", culprit);
        if (c != 'h' && take(v, asked, option_at(c - FIRST), optarg ? optarg : "true", e)) {
            fprintf(stderr, "qgrad %s: %s%s%s\n", v->name, exit_status() == EXIT_USAGE ? "--" : "", qg_errmsg(),
                    is_list(v, option_at(c - FIRST), optarg) ? "; qgrad sweep takes lists" : "");
            return exit_status();
        }
        if (c == 'h' || config_flag(asked, "help")) {
            options_help(v, optind < argc && !strcmp(argv[optind], "all"), stdout);
            return EXIT_DONE;
        }
    }
    while (optind < argc && (v->has_operands || (v->has_operand && !n_operands))) argv[++n_operands] = argv[optind++];
    if (optind < argc) return unexpected(v, argv[optind - 1], argv[optind]);
    asked->operand  = argv + 1;
    asked->operands = n_operands;
    asked->word     = v->has_operand && n_operands ? argv[1] : NULL;
    warn_of_earlier(e, asked);
    return set_defaults(v, asked);
}

int options_parse(const verb *v, int argc, char **argv, config *asked)
{
    earlier   e      = { { NULL } };
    const int status = parse(v, argc, argv, asked, &e);
    earlier_free(&e);
    return status;
}

/* --- running a verb ----------------------------------------------------------------------- */

/* Several ranks would each do the whole work of a command that is not made for them, and write the same files.  Programs without MPI
 * are processes of their own. */
bool verb_refuses_ranks(const verb *v)
{
    char line[128];
    if (v->shares || qg_ranks_started() == 1) return false;
    snprintf(line, sizeof line, "qgrad %s: runs in one process, but mpirun has started %d", v->name, qg_ranks_started());
    const qg_status status = qg_ranks_begin(NULL, NULL);
    if (!status && qg_ranks() == 1) return false;
    /* Without a connection, none of them can speak for the others. */
    if (status == QG_ESTATE) fprintf(stderr, "%s\n", line);
    qg_ranks_abort(EXIT_USAGE, line);
    return true;
}

static int set_operand(const verb *v, config *asked, const char *text)
{
    const option *o = option_find(v->operand);
    if (config_text_of(asked, o)) {
        print_safe(stderr, "qgrad %s: '%s' and --%s were given; pass only one\n", v->name, text, o->name);
        return EXIT_USAGE;
    }
    return config_set(asked, o->name, text) ? print_failure(asked) : -1;
}

int verb_run(const verb *v, const char *program, int argc, char **argv)
{
    config asked  = { .recipe = qg_recipe_new(), .verb = v, .program = program };
    int    status = options_parse(v, argc, argv, &asked);
    if (status < 0 && asked.word && v->operand) status = set_operand(v, &asked, asked.word);
    if (status < 0 && verb_refuses_ranks(v)) status = EXIT_USAGE;
    if (status < 0) status = v->run(&asked);
    config_free(&asked);
    return status;
}
