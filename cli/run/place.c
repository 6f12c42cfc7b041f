#include "cli/run/place.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/config/lists.h"
#include "cli/config/models.h"
#include "cli/run/run_spec.h"
#include "core/io/hash.h"
#include "train/runs.h"

/* --- names -------------------------------------------------------------------------------- */

/* Bytes of one component of a path, which may have 255 and gets a number or ".old-2". */
enum { NAME_BYTES = 200 };

/* ["-"] NAME=VALUE, in characters that no shell and no path interprets. */
static void append(char *text, size_t bytes, const char *name, const char *value)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+=-";
    const size_t      used    = strlen(text);
    snprintf(text + used, bytes - used, "%s%s%s%s", used ? "-" : "", name, *name ? "=" : "", value);
    for (char *c = text + used; *c; c++)
        if (!strchr(plain, *c)) *c = '-';
}

/* Cuts a name that is too long for a directory, and marks it by a hash of the whole. */
static void shorten(char *name)
{
    if (strlen(name) < NAME_BYTES) return;
    const uint64_t hash = qg_hash(QG_HASH_BASIS, name, strlen(name));
    snprintf(name + NAME_BYTES - 10, 10, "-%08" PRIx32, (uint32_t)hash);
}

/* The same with the last component of a path. */
static void append_path(char *text, size_t bytes, const char *name, const char *path)
{
    char last[QG_RECIPE_VALUE_BYTES];
    snprintf(last, sizeof last, "%.*s", (int)qg__path_length(path), path);
    const char *slash = strrchr(last, '/');
    append(text, bytes, name, slash && slash[1] ? slash + 1 : last);
}

/* What the run would be without the changes. */
static qg_status baseline(const config *asked, config *plain)
{
    static const char *const kept[] = { "recipe", "config", "model" };
    qg_status status = QG_OK;
    for (int i = 0; i < 3 && !status; i++) {
        const char *text = config_text(asked, kept[i]);
        if (text && !(i == 2 && config_text(asked, "recipe"))) status = config_set(plain, kept[i], text);
    }
    return status ? status : config_read(plain);
}

/* Whether a name contains the option anyway. */
static bool is_told(const config *asked, const char *name)
{
    return !strcmp(name, "seed") || (!config_text(asked, "recipe") && (!strcmp(name, "model") || !strcmp(name, "weight")));
}

static void append_changes(const config *asked, qg_recipe *base, char *text, size_t bytes)
{
    for (const qg_recipe_key *o = qg_recipe_keys; o->name; o++) {
        const char *value = config_text_of(asked, o), *usual = value ? qg_recipe_get(base, o->name) : NULL;
        if (!value || !(o->is & QG_RECIPE_IDENTITY) || is_told(asked, o->name) || (usual && !strcmp(usual, value))) continue;
        if (!usual && o->kind == QG_RECIPE_FLAG && !strcmp(value, "false")) continue;
        for (const char *line = value; *line; line = qg__lines_next(line)) {
            char item[QG_RECIPE_VALUE_BYTES];
            snprintf(item, sizeof item, "%.*s", (int)strcspn(line, "\n"), line);
            append(text, bytes, strcmp(o->name, "data") ? o->name : "", item);
        }
    }
    const char *init = config_text(asked, "init"), *teacher = config_text(asked, "teacher");
    if (init && !qg_recipe_get(base, "init-recipe")) append_path(text, bytes, "init", init);
    if (teacher) append_path(text, bytes, "teacher", teacher);
}

qg_status place_name(const config *asked, char dir[QG__PATH_BYTES])
{
    char            name[QG__PATH_BYTES / 2] = "";
    const char     *recipe                   = config_text(asked, "recipe"), *seed = qg_recipe_get(asked->recipe, "seed");
    config          base                     = { 0 };
    const qg_status status                   = seed ? baseline(asked, &base) : qg_errcode();
    if (!status && !recipe) {
        model_file_name(qg_recipe_get(asked->recipe, "model"), name, sizeof name);
        append(name, sizeof name, "", qg_recipe_get(asked->recipe, "weight"));
    }
    if (!status) append_changes(asked, base.recipe, name, sizeof name - 64);
    shorten(name);
    if (!status && recipe) snprintf(dir, QG__PATH_BYTES, "runs/%s/%s%sseed-%s", recipe, name, *name ? "-" : "", seed);
    else if (!status) snprintf(dir, QG__PATH_BYTES, "runs/%s-%s", name, seed);
    config_free(&base);
    return status;
}

/* --- names of sweeps ---------------------------------------------------------------------- */

static void append_value(char *text, size_t bytes, const option *o, const char *value)
{
    char name[QG_RECIPE_VALUE_BYTES];
    if (!strcmp(o->name, "model")) model_file_name(value, name, sizeof name), value = name;
    if (o->kind == QG_RECIPE_TEXT && o->is & QG_RECIPE_COMMAS) append_path(text, bytes, o->name, value);
    else append(text, bytes, o->name, value);
}

qg_status place_of_sweep(const config *asked, char dir[QG__PATH_BYTES])
{
    char        name[QG__PATH_BYTES / 2] = "", value[QG_RECIPE_VALUE_BYTES];
    const char *out                      = config_text(asked, "out");
    if (out) return run_directory("out", out, dir);
    for (int pass = 0; pass < 2; pass++)            /* what all have, then what differs */
        for (int i = 0; i < OPTIONS; i++) {
            const option *o     = option_at(i);
            const bool    quiet = !strcmp(o->name, "seed") || !strcmp(o->name, "data-dir") || lists_is_free(o);
            if (!asked->values[i] || quiet || (lists_count(asked, o) > 1) != (pass == 1)) continue;
            lists_value(asked, 0, o, value);
            if (pass == 1) append(name, sizeof name, "", o->name);
            else if (!strcmp(o->name, "recipe") || !strcmp(o->name, "data")) append(name, sizeof name, "", value);
            else if (!strcmp(o->name, "model")) model_file_name(value, name, sizeof name);
            else append_value(name, sizeof name, o, value);
        }
    for (const char *item = config_text(asked, "layer"); item && *item; item = qg__lines_next(item)) {
        snprintf(value, sizeof value, "%.*s", (int)strcspn(item, "\n"), item);
        append(name, sizeof name, "layer", value);
    }
    shorten(name);
    snprintf(dir, QG__PATH_BYTES, "runs/sweep%s%s", *name ? "-" : "", name);
    return QG_OK;
}

qg_status place_of_combination(const char *out, const config *asked, int k, const config *one, char dir[QG__PATH_BYTES])
{
    const char *recipe                   = config_text(one, "recipe");
    char        name[QG__PATH_BYTES / 2] = "", value[QG_RECIPE_VALUE_BYTES];
    for (int i = 0; i < OPTIONS; i++) {
        const option *o = option_at(i);
        if (lists_count(asked, o) < 2 || !strcmp(o->name, "seed") || !strcmp(o->name, "recipe")) continue;
        lists_value(asked, k, o, value);
        append_value(name, sizeof name - 64, o, value);
    }
    shorten(name);
    const int n = snprintf(dir, QG__PATH_BYTES, "%s%s%s/%s%sseed-%s", out, recipe ? "/" : "", recipe ? recipe : "", name,
                           *name ? "-" : "", qg_recipe_get(one->recipe, "seed"));
    return n < QG__PATH_BYTES ? QG_OK : qg_fail(QG_EARG, "%.64s..: the path is too long", dir);
}

/* --- directories -------------------------------------------------------------------------- */

qg_status place_take(char dir[QG__PATH_BYTES], size_t *made)
{
    enum { MOST = 100000 };
    const size_t n = strlen(dir);
    for (int i = 1; i < MOST; i++) {
        if (i > 1 && n + (size_t)snprintf(dir + n, QG__PATH_BYTES - n, "-%d", i) >= QG__PATH_BYTES)
            return qg_fail(QG_EARG, "%.64s..: the path is too long", dir);
        if (!made && !qg__path_exists(dir)) return QG_OK;
        if (made && qg__path_make(dir, made)) return qg_errcode();
        if (made && *made) return QG_OK;
    }
    dir[n] = '\0';
    return qg_fail(QG_ESTATE, "%s to %s-%d all exist", dir, dir, MOST - 1);
}

/* --- runs that exist ---------------------------------------------------------------------- */

/* The later is told of rather than the earlier. */
typedef enum kinship { STRANGER, NEAR, OTHER_VERSION, BUSY, SAME } kinship;

typedef struct candidate {
    char            dir[QG__PATH_BYTES];
    kinship         is;
    char            differs[2 * QG_RECIPE_VALUE_BYTES];   /* if NEAR: "lr, which is 0.1 there" */
    uint64_t        arithmetic;         /* under which it was begun, if SAME and unfinished */
    bool            unfinished;
    int             alike;              /* how many of its initial weights and teacher are those asked for */
    bool            same_images;        /* they are where they are asked for */
    struct timespec time;
} candidate;

/* NAME.old or NAME.old-2, as the trainer calls it. */
static bool is_aside(const char *name)
{
    const char *old = strrchr(name, '.');
    return old && (!strcmp(old, ".old") || !strncmp(old, ".old-", 5));
}

static struct timespec time_of(const run_paths *p)
{
    struct stat s;
    if (!stat(p->file[RUN_LAST], &s) || !stat(p->file[RUN_CONFIG], &s)) return s.st_mtim;
    return (struct timespec){ 0 };
}

const qg_recipe_key *place_difference(qg_recipe *asked, qg_recipe *run, const qg_recipe_key *after)
{
    while ((after = qg_recipe_difference(asked, run, after)))
        if (after->is & QG_RECIPE_IDENTITY && (!(after->is & QG_RECIPE_PER_RUN) || !strcmp(after->name, "seed"))) break;
    return after;
}

bool place_starts_alike(const config *asked, qg_recipe *run)
{
    qg_recipe *c      = asked->recipe;
    const bool inits  = config_text(asked, "init") || qg_recipe_get(c, "init-digest") || qg_recipe_get(c, "init-recipe");
    const bool learns = qg_recipe_get(c, "teacher");
    return inits == (qg_recipe_get(run, "init-digest") != NULL) && learns == (qg_recipe_get(run, "teacher-digest") != NULL);
}

/* That of its checkpoint, or if it has none, of this program. */
static uint64_t arithmetic_of(const char *dir, const config *asked)
{
    qg_run        *run     = qg_run_open(dir, QG_RUN_LAST);
    const uint64_t version = run ? qg_run_arithmetic(run) : qg_recipe_arithmetic(asked->recipe);
    qg_run_close(run);
    return version;
}

static bool same_place(const config *asked, qg_recipe *run, const char *key)
{
    const char *a = qg_recipe_get(asked->recipe, key), *b = qg_recipe_get(run, key);
    return a ? b && !strcmp(a, b) : !b;
}

/* What a run in dir, if there is one, has to do with what is asked for. */
static void read_candidate(const char *dir, const config *asked, const char *derived, candidate *out)
{
    run_paths     p;
    qg_fit_result r;
    qg_recipe    *run = run_paths_of(dir, &p) ? NULL : qg_recipe_of_run(dir);
    out->is           = STRANGER;
    if (run && place_starts_alike(asked, run)) {
        const qg_recipe_key *o = place_difference(asked->recipe, run, NULL);
        const char          *there = o ? qg_recipe_get(run, o->name) : NULL;
        if (!o) out->is = qg__path_locked(dir) ? BUSY : SAME;
        else if (o->kind != QG_RECIPE_LIST && !place_difference(asked->recipe, run, o)) out->is = NEAR;
        if (out->is == NEAR)
            snprintf(out->differs, sizeof out->differs, "%s, which is %s there", o->name,
                     there ? there : o->kind == QG_RECIPE_FLAG ? "off" : "not set");
        out->unfinished = qg_run_result(dir, &r) || !r.complete;
        if (out->is == SAME && out->unfinished) {
            out->arithmetic = arithmetic_of(dir, asked);
            if (out->arithmetic != qg_recipe_arithmetic(asked->recipe)) out->is = OTHER_VERSION;
        }
        /* What they are is known only when they have been read, and they may have moved: where they are
         * decides between several runs alone.  The name of a run has the place of its initial weights. */
        const bool named = config_text(asked, "init") && !strncmp(dir, derived, strlen(derived));
        out->alike       = named + same_place(asked, run, "teacher");
        out->same_images = same_place(asked, run, "data-dir");
        out->time       = time_of(&p);
        strcpy(out->dir, dir);
    }
    qg_recipe_free(run);
}

static bool is_better(const candidate *a, const candidate *b)
{
    if (a->is != b->is) return a->is > b->is;
    if (a->alike != b->alike) return a->alike > b->alike;
    if (a->unfinished != b->unfinished) return a->unfinished;
    if (a->same_images != b->same_images) return a->same_images;
    if (a->time.tv_sec != b->time.tv_sec) return a->time.tv_sec > b->time.tv_sec;
    if (a->time.tv_nsec != b->time.tv_nsec) return a->time.tv_nsec > b->time.tv_nsec;
    return strcmp(a->dir, b->dir) > 0;
}

static void tell(const candidate *of, const config *asked, char missed[PLACE_MISSED_BYTES])
{
    *missed = '\0';
    if (of->is == BUSY) snprintf(missed, PLACE_MISSED_BYTES, "a process is training in %s", of->dir);
    if (of->is == OTHER_VERSION)
        snprintf(missed, PLACE_MISSED_BYTES,
                 "%s was begun under version %" PRIu64 " of the arithmetic, and this program trains it under "
                 "version %" PRIu64, of->dir, of->arithmetic, qg_recipe_arithmetic(asked->recipe));
    if (of->is == NEAR) snprintf(missed, PLACE_MISSED_BYTES, "%s differs only in %s", of->dir, of->differs);
}

void place_find(const config *asked, char dir[QG__PATH_BYTES], bool *found, char missed[PLACE_MISSED_BYTES])
{
    char      parent[QG__PATH_BYTES];
    candidate best = { .is = STRANGER }, other;
    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(dir, '/') - dir), dir);
    DIR *all = opendir(parent);
    for (struct dirent *e; all && (e = readdir(all));) {
        char path[QG__PATH_BYTES];
        if (*e->d_name == '.' || is_aside(e->d_name) || qg__path_join(parent, e->d_name, path)) continue;
        read_candidate(path, asked, dir, &other);
        if (other.is != STRANGER && (best.is == STRANGER || is_better(&other, &best))) best = other;
    }
    if (all) closedir(all);
    *found = best.is == SAME;
    if (*found) strcpy(dir, best.dir);
    tell(&best, asked, missed);
}
