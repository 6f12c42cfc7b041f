#include "cli/config/config.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/keys.h"
#include "core/io/number.h"

/* --- options ------------------------------------------------------------------------------ */

/* "50m", "90s", "1h", "1.5h" or a number of seconds. */
static qg_status check_duration(const char *text, char canonical[QG_RECIPE_VALUE_BYTES])
{
    double       seconds;
    const size_t n    = strcspn(text, "hms");
    const double unit = text[n] == 'h' ? 3600 : text[n] == 'm' ? 60 : 1;
    if (!qg__number_read(text, n, &seconds) || (text[n] && text[n + 1]) || !(seconds >= 0) || !isfinite(seconds * unit))
        return qg_fail(QG_EARG, "budget: '%s' is not a duration; write 90s, 50m, 1h or a number of seconds", text);
    qg__number_print(canonical, 9, seconds * unit);
    return QG_OK;
}

/* The keys of --image and --link, without names: their message begins with that of the option. */
static const qg_key image_keys[] = {
    { .name = "size", .min = 1, .max = 4096, .is = QG_KEY_WHOLE | QG_KEY_SIZE, .most = 3,
      .about = "height, width and channels, as in 32x32x3" },
    { .name = NULL }
};

const qg_key config_link_keys[] = {
    { .name = "latency", .min = 0, .max = 1e6, .is = QG_KEY_REQUIRED, .about = "microseconds" },
    { .name = "gbits", .min = 0, .max = 1e6, .is = QG_KEY_REQUIRED | QG_KEY_ABOVE_MIN, .about = "Gbit/s" },
    { .name = NULL }
};

static qg_status check_keys(const char *name, const char *text, const qg_key *keys, char canonical[QG_RECIPE_VALUE_BYTES])
{
    double value[QG_MAX_VALUES];
    if (qg_keys_parse(NULL, text, keys, value)) return qg_fail(QG_EARG, "%s: %s", name, qg_errmsg());
    qg_keys_print(NULL, keys, value, canonical, QG_RECIPE_VALUE_BYTES);
    return QG_OK;
}

qg_status config_check(const option *o, const char *text, char canonical[QG_RECIPE_VALUE_BYTES])
{
    if (!strcmp(o->name, "budget")) return check_duration(text, canonical);
    if (!strcmp(o->name, "image")) return check_keys(o->name, text, image_keys, canonical);
    if (!strcmp(o->name, "link")) return check_keys(o->name, text, config_link_keys, canonical);
    return qg_recipe_key_check(o, text, canonical);
}

static qg_status keep(config *c, const option *o, char *text)
{
    char **to = &c->text[option_index(o)];
    if (!text) return qg_fail(QG_EMEM, "out of memory for --%s", o->name);
    free(*to);
    *to = text;
    return QG_OK;
}

/* In the recipe the text is as the user wrote it, since what a canonical text omits depends on the version of the defaults. */
static qg_status put(config *c, const option *o, const char *text)
{
    if (!option_is_of_recipe(o)) return QG_OK;
    if (!c->recipe) c->recipe = qg_recipe_new();
    return qg_recipe_set(c->recipe, o->name, text);
}

/* The items of a list with one more: in a recipe, in place of the one for the same operand. */
static char *with_item(const config *c, const option *o, const char *item)
{
    const char *old = o->kind == QG_RECIPE_LIST ? config_text_of(c, o) : NULL;
    if (!old || option_is_of_recipe(o)) return qg__lines_with(old, item);
    const size_t bytes = strlen(old) + strlen(item) + 2;
    char        *all   = malloc(bytes);
    if (all) snprintf(all, bytes, "%s\n%s", old, item);
    return all;
}

static qg_status unset(config *c, const option *o)
{
    char **text = &c->text[option_index(o)];
    free(*text);
    *text = NULL;
    return put(c, o, NULL);
}

qg_status config_set(config *c, const char *name, const char *text)
{
    const option *o = option_find(name);
    char          canonical[QG_RECIPE_VALUE_BYTES];
    if (!text) return unset(c, o);
    if (config_check(o, text, canonical)) return QG_EARG;
    const qg_status status = put(c, o, text);
    return status ? status : keep(c, o, with_item(c, o, canonical));
}

qg_status config_take(config *c, const option *o, const char *text)
{
    qg_status status = QG_OK;
    if (o->kind != QG_RECIPE_LIST) return config_set(c, o->name, text);
    for (const char *line = text; *line && !status; line = qg__lines_next(line)) {
        char item[QG_RECIPE_VALUE_BYTES];
        snprintf(item, sizeof item, "%.*s", (int)strcspn(line, "\n"), line);
        status = config_set(c, o->name, item);
    }
    return status;
}

const char *config_text_of(const config *c, const option *o) { return c->text[option_index(o)]; }
const char *config_text(const config *c, const char *name) { return config_text_of(c, option_find(name)); }

bool config_flag(const config *c, const char *name)
{
    const char *text = config_text(c, name);
    return text && !strcmp(text, "true");
}

double config_number(const config *c, const char *name)
{
    const char *text  = config_text(c, name);
    double      value = 0;
    return text && qg__number_read(text, strlen(text), &value) ? value : 0;
}

int config_integer(const config *c, const char *name) { return (int)config_number(c, name); }

int config_word(const config *c, const char *name)
{
    const option *o     = option_find(name);
    const char   *text  = config_text_of(c, o);
    int           index = 0;
    for (const char *word = o->value; text && *word; index++) {
        const size_t n = strcspn(word, "|");
        if (strlen(text) == n && !memcmp(text, word, n)) return index;
        word += n + (word[n] == '|');
    }
    return 0;
}

size_t config_bytes(const config *c, const char *name)
{
    static const char units[] = "KMG";
    const char       *text    = config_text(c, name);
    const size_t      n       = text ? strcspn(text, units) : 0;
    double            number;
    if (!text || !qg__number_read(text, n, &number)) return 0;
    const double bytes = number * (text[n] ? (double)((size_t)1024 << 10 * (strchr(units, text[n]) - units)) : 1);
    return bytes < 1 ? 1 : (size_t)bytes;
}

qg_shape config_image(const config *c)
{
    const char *text = config_text(c, "image");
    double      value[QG_MAX_VALUES];
    if (!text || qg_keys_parse(NULL, text, image_keys, value)) return (qg_shape){ 0 };
    return (qg_shape){ 1, (int)value[1], (int)value[2], (int)value[3] };
}

void config_free(config *c)
{
    qg_recipe_free(c->recipe);
    for (int i = 0; i < OPTIONS; i++) free(c->text[i]), free(c->values[i]);
    *c = (config){ 0 };
}

/* --- the file of --config or --recipe ------------------------------------------------------- */

#define ENDING ".toml"

/* The characters before the ending of a file's name; 0: it has another. */
static size_t stem(const char *name)
{
    const size_t n = strlen(name), m = strlen(ENDING);
    return n > m && !strcmp(name + n - m, ENDING) ? n - m : 0;
}

static qg_status unknown(const char *named, const char *path)
{
    char            names[1536] = "", dir[QG__PATH_BYTES], hint[QG__NEAREST_BYTES];
    struct dirent **entry;
    qg__share_find(RECIPES, dir);
    const int n = qg__names(dir, &entry);
    for (int i = 0; i < n; i++) {
        char *name       = entry[i]->d_name;
        name[stem(name)] = '\0';
        if (*name) qg__list_append(names, sizeof names, name);
    }
    qg__names_free(entry, n);
    qg__list_nearest(names, named, stem(named) ? stem(named) : strlen(named), hint);
    return qg_fail(QG_EARG, "recipe: %s does not exist; available: %s%s", path,
                   *names ? names : "none in this directory", hint);
}

qg_status config_path(const config *asked, char path[QG__PATH_BYTES])
{
    const char *named = config_text(asked, "recipe"), *file = config_text(asked, "config");
    *path             = '\0';
    if (file && named) return qg_fail(QG_EARG, "--recipe and --config exclude each other");
    if (file) {
        if (strlen(file) >= QG__PATH_BYTES) return qg_fail(QG_EARG, "config: the path is too long");
        qg__share_find(file, path);
        if (qg__path_is_directory(path))
            return qg_fail(QG_EARG, "config: '%s' is a directory; the options of a run are in its "
                           "config.toml", file);
    }
    if (named) {
        snprintf(path, QG__PATH_BYTES, RECIPES "/%s" ENDING, named);
        qg__share_find(path, path);
    }
    return named && !qg__path_exists(path) ? unknown(named, path) : QG_OK;
}

qg_status config_read(config *asked)
{
    char            path[QG__PATH_BYTES];
    const qg_status status = config_path(asked, path);
    if (!asked->recipe) asked->recipe = qg_recipe_new();
    if (status || !*path || asked->has_read) return status;
    asked->has_read = true;
    return qg_recipe_read(asked->recipe, path);
}
