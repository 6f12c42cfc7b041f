#include "cli/config/config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- options ------------------------------------------------------------------------------ */

static void *value_of(config *c, const option *o) { return (char *)c + o->key->at; }

/* The text, from malloc, of an option whose value is set. */
static qg_status keep(config *c, const option *o, char *text)
{
    char **to = &c->text[o - options];
    if (!text) return qg_fail(QG_EMEM, "out of memory for --%s", o->key->name);
    free(*to);
    *to = text;
    if (o->key->kind == QG__TEXT) memcpy(value_of(c, o), to, sizeof *to);
    return QG_OK;
}

qg_status config_set(config *c, const option *o, const char *text)
{
    char canonical[QG__VALUE_BYTES];
    if (option_is_of_recipe(o)) return qg__recipe_put(&c->recipe, o->key, text);
    if (qg__option_parse(o->key, text, value_of(c, o), canonical)) return QG_EARG;
    return keep(c, o, qg__lines_with(o->key->kind == QG__LIST ? c->text[o - options] : NULL, canonical));
}

qg_status config_over(config *c, const config *top, const verb *v)
{
    qg_status status = qg__recipe_over(&c->recipe, &top->recipe, 0, 0);
    for (const option *o = options; o < options + OPTIONS && !status; o++) {
        if (!top->text[o - options] || !verb_option_find(v, o->key->name)) continue;
        memcpy(value_of(c, o), (const char *)top + o->key->at, o->key->bytes);
        status = keep(c, o, strdup(top->text[o - options]));
    }
    return status;
}

const char *config_text_of(const config *c, const option *o)
{
    return option_is_of_recipe(o) ? c->recipe.text[o->key - qg__recipe_keys] : c->text[o - options];
}

const char *config_text(const config *c, const char *name) { return config_text_of(c, option_find(name)); }

void config_free(config *c)
{
    qg__recipe_clear(&c->recipe);
    for (int i = 0; i < OPTIONS; i++) free(c->text[i]), free(c->values[i]);
    *c = (config){ .file = NULL };
}

/* --- the file of --config or --recipe ------------------------------------------------------- */

#define ENDING ".toml"

static int is_recipe(const struct dirent *e)
{
    const size_t n = strlen(e->d_name), m = strlen(ENDING);
    return *e->d_name != '.' && n > m && !strcmp(e->d_name + n - m, ENDING);
}

static qg_status unknown(const char *path)
{
    char            names[1536] = "", dir[QG__PATH_BYTES];
    struct dirent **entry;
    qg__share_find(RECIPES, dir);
    const int n = scandir(dir, &entry, is_recipe, alphasort);
    for (int i = 0; i < n; i++) {
        char name[sizeof entry[i]->d_name];
        snprintf(name, sizeof name, "%.*s", (int)(strlen(entry[i]->d_name) - strlen(ENDING)), entry[i]->d_name);
        qg__list_append(names, sizeof names, name);
        free(entry[i]);
    }
    if (n >= 0) free(entry);
    return qg_fail(QG_EARG, "recipe: %s does not exist; available: %s", path,
                   *names ? names : "none in this directory");
}

qg_status config_path(const config *asked, char path[QG__PATH_BYTES])
{
    const char *named = asked->recipe.named;
    *path             = '\0';
    if (asked->file && named) return qg_fail(QG_EARG, "--recipe and --config exclude each other");
    if (asked->file) {
        if (strlen(asked->file) >= QG__PATH_BYTES) return qg_fail(QG_EARG, "config: the path is too long");
        qg__share_find(asked->file, path);
    }
    if (named) {
        snprintf(path, QG__PATH_BYTES, RECIPES "/%s" ENDING, named);
        qg__share_find(path, path);
    }
    return named && !qg__path_exists(path) ? unknown(path) : QG_OK;
}

/* *usage: the error is in the command line. */
static qg_status read_file(const config *asked, qg_recipe *file, bool *usage)
{
    char      path[QG__PATH_BYTES];
    qg_status status = config_path(asked, path);
    *usage           = status != QG_OK;
    return status || !*path ? status : qg__recipe_read(file, path);
}

qg_status config_resolve(const config *asked, const qg_recipe *stored, qg_recipe *out, bool *usage)
{
    qg_recipe file   = { 0 };
    qg_status status = read_file(asked, &file, usage);
    if (!status) status = qg__recipe_resolve(&asked->recipe, &file, asked->init, stored, out, usage);
    qg__recipe_clear(&file);
    return status;
}

qg_status config_resolve_as(const config *asked, const qg_recipe *run, qg_recipe *out)
{
    qg_recipe file = { 0 };
    bool      usage;
    qg_status status = read_file(asked, &file, &usage);
    if (!status) status = qg__recipe_resolve_as(&asked->recipe, &file, asked->init, run, out);
    qg__recipe_clear(&file);
    return status;
}
