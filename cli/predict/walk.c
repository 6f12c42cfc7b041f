#include "cli/predict/walk.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/io/grow.h"
#include "datasets/preprocess.h"

/* A folder that is being listed, and the one that contains it. */
typedef struct place {
    dev_t               device;
    ino_t               inode;
    const struct place *within;
} place;

static qg_status add(walk *w, const char *path, const char *why)
{
    walk_item  to   = { .path = strdup(path), .why = why ? strdup(why) : NULL };
    walk_item *more = to.path && (to.why || !why) ? qg_grown(w->item, w->count, sizeof *w->item) : NULL;
    if (!more) {
        free(to.path), free(to.why);
        return qg_fail(QG_EMEM, "out of memory for the names of %zu files", w->count + 1);
    }
    w->item             = more;
    w->item[w->count++] = to;
    return QG_OK;
}

static void skip(walk *w, const char *path)
{
    if (!w->others++) snprintf(w->skipped, sizeof w->skipped, "%s", path);
}

static bool contains_itself(const place *p)
{
    for (const place *at = p->within; at; at = at->within)
        if (at->device == p->device && at->inode == p->inode) return true;
    return false;
}

static qg_status add_folder(walk *w, const char *path, const struct stat *s, const place *within);

static qg_status add_entry(walk *w, const char *dir, const char *name, const place *p)
{
    char        path[QG__PATH_BYTES];
    struct stat s;
    if (qg__path_join(dir, name, path)) return add(w, dir, qg_errmsg());
    if (!stat(path, &s) && S_ISDIR(s.st_mode)) return add_folder(w, path, &s, p);
    if (qg_image_named(name)) return add(w, path, NULL);
    skip(w, path);
    return QG_OK;
}

static qg_status add_folder(walk *w, const char *path, const struct stat *s, const place *within)
{
    const place     here = { s->st_dev, s->st_ino, within };
    struct dirent **name = NULL;
    char            why[QG__PATH_BYTES + 128];
    qg_status       status = QG_OK;
    if (contains_itself(&here)) return QG_OK;
    const int n = qg__names(path, &name);
    if (n < 0) {
        snprintf(why, sizeof why, "cannot list '%s': %s", path, strerror(errno));
        return errno == ENOMEM ? qg_fail(QG_EMEM, "%s", why) : add(w, path, why);
    }
    for (int i = 0; i < n && !status; i++) status = add_entry(w, path, name[i]->d_name, &here);
    qg__names_free(name, n);
    return status;
}

qg_status walk_add(walk *w, const char *path)
{
    const size_t before = w->count;
    struct stat  s;
    char         why[QG__PATH_BYTES + 64];
    if (stat(path, &s) || !S_ISDIR(s.st_mode)) return add(w, path, NULL);
    const qg_status status = add_folder(w, path, &s, NULL);
    if (status || w->count > before) return status;
    snprintf(why, sizeof why, "'%s' contains no PNG, JPEG or BMP file", path);
    return add(w, path, why);
}

void walk_end(walk *w)
{
    for (size_t i = 0; i < w->count; i++) free(w->item[i].path), free(w->item[i].why);
    free(w->item);
    *w = (walk){ .item = NULL };
}
