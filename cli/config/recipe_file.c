#include "cli/config/recipe_file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENDING ".toml"

static int is_recipe(const struct dirent *e)
{
    const size_t n = strlen(e->d_name), m = strlen(ENDING);
    return *e->d_name != '.' && n > m && !strcmp(e->d_name + n - m, ENDING);
}

static qg_status unknown(const char *path)
{
    char            names[1536] = "";
    struct dirent **entry;
    const int       n = scandir(RECIPES, &entry, is_recipe, alphasort);
    for (int i = 0; i < n; i++) {
        char name[sizeof entry[i]->d_name];
        snprintf(name, sizeof name, "%.*s", (int)(strlen(entry[i]->d_name) - strlen(ENDING)), entry[i]->d_name);
        list_append(names, sizeof names, name);
        free(entry[i]);
    }
    if (n >= 0) free(entry);
    return qg_fail(QG_EARG, "recipe: no file %s; available: %s", path,
                   *names ? names : "none, seen from this directory");
}

qg_status recipe_file(const config *asked, char path[PATH_BYTES])
{
    const char *file = config_text(asked, "config"), *recipe = config_text(asked, "recipe");
    *path = '\0';
    if (file && recipe)
        return qg_fail(QG_EARG, "--recipe is short for a --config file; give one of them");
    if (file) {
        if (strlen(file) >= PATH_BYTES) return qg_fail(QG_EARG, "config: the path is too long");
        strcpy(path, file);
    }
    if (recipe) snprintf(path, PATH_BYTES, RECIPES "/%s" ENDING, recipe);
    return recipe && !path_exists(path) ? unknown(path) : QG_OK;
}
