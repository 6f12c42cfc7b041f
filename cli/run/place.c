#include "cli/run/place.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/config/models.h"
#include "cli/run/run_spec.h"
#include "core/io/hash.h"
#include "train/runs.h"

/* --- names -------------------------------------------------------------------------------- */

/* Bytes of one component of a path, which may have 255 and gets a number or ".old-2". */
enum { NAME_BYTES = 200 };

void place_append(char *text, size_t bytes, const char *name, const char *value)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+=-";
    const size_t      used    = strlen(text);
    snprintf(text + used, bytes - used, "%s%s%s%s", used ? "-" : "", name, *name ? "=" : "", value);
    for (char *c = text + used; *c; c++)
        if (!strchr(plain, *c)) *c = '-';
}

void place_shorten(char *name)
{
    if (strlen(name) < NAME_BYTES) return;
    const uint64_t hash = qg_hash(QG_HASH_BASIS, name, strlen(name));
    snprintf(name + NAME_BYTES - 10, 10, "-%08" PRIx32, (uint32_t)hash);
}

void place_append_path(char *text, size_t bytes, const char *name, const char *path)
{
    char last[QG__VALUE_BYTES];
    snprintf(last, sizeof last, "%s", path);
    size_t n = strlen(last);
    while (n > 1 && last[n - 1] == '/') last[--n] = '\0';
    const char *slash = strrchr(last, '/');
    place_append(text, bytes, name, slash && slash[1] ? slash + 1 : last);
}

/* What the run would be without the changes. */
static qg_status baseline(const config *asked, qg_recipe *base)
{
    config    plain  = { .file = NULL };
    bool      usage;
    qg_status status = QG_OK;
    if (asked->recipe.named) status = config_set(&plain, option_find("recipe"), asked->recipe.named);
    if (!status && asked->file) status = config_set(&plain, option_find("config"), asked->file);
    const char *model = asked->recipe.named ? NULL : config_text(asked, "model");
    if (!status && model) status = config_set(&plain, option_find("model"), model);
    if (!status) status = config_resolve(&plain, NULL, base, &usage);
    config_free(&plain);
    return status;
}

/* Whether a name contains the option anyway. */
static bool is_told(const config *asked, const char *name)
{
    return !strcmp(name, "seed") || (!asked->recipe.named && (!strcmp(name, "model") || !strcmp(name, "weight")));
}

static void append_changes(const config *asked, const qg_recipe *base, char *text, size_t bytes)
{
    for (int i = 0; i < QG__RECIPE_KEYS; i++) {
        const qg__option *o     = &qg__recipe_keys[i];
        const char       *value = asked->recipe.text[i], *usual = base->text[i];
        if (!value || (o->use & QG__IDENTITY) != QG__IDENTITY || is_told(asked, o->name) || (usual && !strcmp(usual, value))) continue;
        if (!usual && o->kind == QG__FLAG && !strcmp(value, "false")) continue;
        for (const char *line = value; *line; line = qg__lines_next(line)) {
            char item[QG__VALUE_BYTES];
            snprintf(item, sizeof item, "%.*s", (int)strcspn(line, "\n"), line);
            place_append(text, bytes, strcmp(o->name, "data") ? o->name : "", item);
        }
    }
    if (asked->init && !base->init_recipe) place_append_path(text, bytes, "init", asked->init);
    if (asked->recipe.teacher_run) place_append_path(text, bytes, "teacher", asked->recipe.teacher_run);
}

qg_status place_name(const config *asked, const qg_recipe *c, char dir[QG__PATH_BYTES])
{
    char            name[QG__PATH_BYTES / 2] = "", weight[QG__VALUE_BYTES];
    const char     *seed                     = qg__recipe_value(c, "seed");
    qg_recipe       base                     = { 0 };
    const qg_status status                   = baseline(asked, &base);
    if (!status && !asked->recipe.named) {
        model_file_name(qg__recipe_value(c, "model"), name, sizeof name);
        snprintf(weight, sizeof weight, "%s", qg__recipe_value(c, "weight"));
        place_append(name, sizeof name, "", weight);
    }
    if (!status) append_changes(asked, &base, name, sizeof name - 64);
    place_shorten(name);
    if (!status && asked->recipe.named) snprintf(dir, QG__PATH_BYTES, "runs/%s/%s%sseed-%s", asked->recipe.named, name, *name ? "-" : "", seed);
    else if (!status) snprintf(dir, QG__PATH_BYTES, "runs/%s-%s", name, seed);
    qg__recipe_clear(&base);
    return status;
}

qg_status place_take(char dir[QG__PATH_BYTES], bool claim)
{
    enum { MOST = 100000 };
    const size_t n = strlen(dir);
    for (int i = 1; i < MOST; i++) {
        bool made;
        if (i > 1 && n + (size_t)snprintf(dir + n, QG__PATH_BYTES - n, "-%d", i) >= QG__PATH_BYTES)
            return qg_fail(QG_EARG, "%.64s..: the path is too long", dir);
        if (!claim && !qg__path_exists(dir)) return QG_OK;
        if (claim && qg__path_make(dir, &made)) return qg_errcode();
        if (claim && made) return QG_OK;
    }
    dir[n] = '\0';
    return qg_fail(QG_ESTATE, "%s to %s-%d all exist", dir, dir, MOST - 1);
}

/* --- runs that exist ---------------------------------------------------------------------- */

typedef enum kinship { STRANGER, NEAR, BUSY, SAME } kinship;    /* the later is told of rather than the earlier */

typedef struct candidate {
    char            dir[QG__PATH_BYTES];
    kinship         is;
    char            differs[2 * QG__VALUE_BYTES];   /* if NEAR: "lr, which is 0.1 there" */
    bool            unfinished;
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

/* Digests are known only when the files that they are of have been read. */
static bool has_configuration(const config *asked, const qg_recipe *c, const qg_recipe *run)
{
    const bool inits = asked->init || c->init_digest || c->init_recipe, learns = asked->recipe.teacher_run || c->teacher_run;
    return !qg__recipe_difference(c, run, QG__IDENTITY, QG__PER_RUN) && c->seed == run->seed && inits == (run->init_digest != NULL) &&
           learns == (run->teacher_digest != NULL);
}

/* Says in text in which option alone a run has another value; false: in more than one, or in what it started from. */
static bool differs_in_one(const config *asked, const qg_recipe *c, const qg_recipe *run, char text[2 * QG__VALUE_BYTES])
{
    qg_recipe     same = { 0 };
    const qg__option *o    = qg__recipe_difference(c, run, QG__IDENTITY, QG__PER_RUN);
    if (!o && c->seed != run->seed) o = qg__recipe_key("seed");
    bool          one  = o && o->kind != QG__LIST && !qg__recipe_over(&same, run, 0, 0);
    const char   *here = one ? qg__recipe_value(c, o->name) : NULL, *there = one ? qg__recipe_value(run, o->name) : NULL;
    if (one && here) one = !qg__recipe_put(&same, o, here);
    else if (one) qg__recipe_unset(&same, o->name);
    one = one && has_configuration(asked, c, &same);
    if (one) snprintf(text, 2 * QG__VALUE_BYTES, "%s, which is %s there", o->name, there ? there : o->kind == QG__FLAG ? "off" : "not set");
    qg__recipe_clear(&same);
    return one;
}

/* A run of a version that lacked an option goes on without it, unless the user asks for it. */
static qg_status take_absent(const config *asked, const qg_recipe *c, qg_recipe *run)
{
    qg_status status = QG_OK;
    for (int i = 0; i < QG__RECIPE_KEYS && !status; i++)
        if (qg__recipe_keys[i].absent && !run->text[i] && !asked->recipe.text[i] && c->text[i])
            status = qg__recipe_put(run, &qg__recipe_keys[i], c->text[i]);
    return status;
}

/* Whether an unfinished run of an older version is what asked meant when it began. */
static bool was_meant(const config *asked, const qg_recipe *c, const qg_recipe *stored, const qg_recipe *run)
{
    qg_recipe  then = { 0 };
    const bool was  = stored->defaults == 1 && !config_resolve_as(asked, stored, &then) && !take_absent(asked, c, &then) &&
                     has_configuration(asked, &then, run);
    qg__recipe_clear(&then);
    return was;
}

/* What a run in dir, if there is one, has to do with this configuration. */
static void read_candidate(const char *dir, const config *asked, const qg_recipe *c, candidate *out)
{
    run_paths p;
    qg_fit_result r;
    qg_recipe     stored = { 0 }, run = { 0 };
    out->is = STRANGER;
    if (!run_paths_of(dir, &p) && !qg__recipe_stored(p.file[RUN_CONFIG], &stored) &&
        !qg__recipe_as_stored(&stored, &run) && !take_absent(asked, c, &run)) {
        out->unfinished = qg_run_result(dir, &r) || !r.complete;
        if (has_configuration(asked, c, &run) || (out->unfinished && was_meant(asked, c, &stored, &run)))
            out->is = qg__path_locked(dir) ? BUSY : SAME;
        else if (differs_in_one(asked, c, &run, out->differs)) out->is = NEAR;
        out->time       = time_of(&p);
        strcpy(out->dir, dir);
    }
    qg__recipe_clear(&stored);
    qg__recipe_clear(&run);
}

static bool is_better(const candidate *a, const candidate *b)
{
    if (a->is != b->is) return a->is > b->is;
    if (a->unfinished != b->unfinished) return a->unfinished;
    if (a->time.tv_sec != b->time.tv_sec) return a->time.tv_sec > b->time.tv_sec;
    if (a->time.tv_nsec != b->time.tv_nsec) return a->time.tv_nsec > b->time.tv_nsec;
    return strcmp(a->dir, b->dir) > 0;
}

static void tell(const candidate *of, char missed[PLACE_MISSED_BYTES])
{
    *missed = '\0';
    if (of->is == BUSY) snprintf(missed, PLACE_MISSED_BYTES, "a process is training in %s", of->dir);
    if (of->is == NEAR) snprintf(missed, PLACE_MISSED_BYTES, "%s differs only in %s", of->dir, of->differs);
}

qg_status place_find(const config *asked, qg_recipe *c, char dir[QG__PATH_BYTES], bool *found, char missed[PLACE_MISSED_BYTES])
{
    char        parent[QG__PATH_BYTES];
    candidate   best    = { .is = STRANGER }, other;
    const char *teacher = asked->recipe.teacher_run ? asked->recipe.teacher_run : c->teacher_run;
    *found              = false;
    /* A run that learns from a teacher states how. */
    if (teacher && !qg__recipe_value(c, "distil") && qg__recipe_put(c, qg__recipe_key("distil"), "")) return qg_errcode();
    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(dir, '/') - dir), dir);
    DIR *all = opendir(parent);
    for (struct dirent *e; all && (e = readdir(all));) {
        char path[QG__PATH_BYTES];
        if (*e->d_name == '.' || is_aside(e->d_name) || qg__path_join(parent, e->d_name, path)) continue;
        read_candidate(path, asked, c, &other);
        if (other.is != STRANGER && (best.is == STRANGER || is_better(&other, &best))) best = other;
    }
    if (all) closedir(all);
    *found = best.is == SAME;
    if (*found) strcpy(dir, best.dir);
    tell(&best, missed);
    return QG_OK;
}
