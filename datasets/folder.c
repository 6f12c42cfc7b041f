#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/io/hash.h"
#include "datasets/files.h"
#include "datasets/image.h"
#include "datasets/preprocess.h"

enum { WARNING_BYTES = 2 * QG__PATH_BYTES };

/* The names in a folder, in byte order whatever the locale. */
typedef struct listing {
    struct dirent **name;
    int             n;
} listing;

typedef struct folder {
    const char *dir;
    listing     classes;
    listing    *images;                 /* [classes.n] */
    int         beside, nested, others; /* skipped: files next to the classes; folders and other files in
                                           them */
    char        skipped[QG__PATH_BYTES];    /* the first of these */
} folder;

static qg_status list(const char *path, listing *l)
{
    l->n = qg__names(path, &l->name);
    if (l->n >= 0) return QG_OK;
    l->n = 0;
    qg_fail(QG_EIO, "cannot list '%s': %s", path, strerror(errno));
    (void)qg__dataset_absent(path);
    return QG_EIO;
}

static void list_free(listing *l)
{
    qg__names_free(l->name, l->n);
    *l = (listing){ 0 };
}

/* Removes the entries for which keep, an array of n, is false. */
static void list_keep(listing *l, const bool *keep)
{
    int kept = 0;
    for (int i = 0; i < l->n; i++) {
        if (keep[i]) l->name[kept++] = l->name[i];
        else free(l->name[i]);
    }
    l->n = kept;
}

/* *is: dir/name is a folder.  Fails with a broken link, perhaps to a whole class. */
static qg_status check_folder(const char *dir, const char *name, bool *is)
{
    char        path[QG__PATH_BYTES];
    struct stat s;
    if (!qg__dataset_path(dir, name, path)) return QG_EARG;
    if (stat(path, &s)) return qg_fail(QG_EIO, "'%s': %s", path, strerror(errno));
    *is = S_ISDIR(s.st_mode);
    return QG_OK;
}

static void skip(folder *f, const char *dir, const char *name, int *count)
{
    if (!*f->skipped) (void)qg__dataset_path(dir, name, f->skipped);
    ++*count;
}

/* Lists a directory and keeps its folders, the classes, or its images; what is neither is counted.  A
 * broken link in a class is skipped, too, or fails when it is read. */
static qg_status list_only(folder *f, const char *dir, bool classes, listing *l)
{
    qg_status status = list(dir, l);
    if (status) return status;
    bool *keep = malloc((size_t)l->n + 1);
    if (!keep) return qg_fail(QG_EMEM, "'%s': out of memory: its %d names", dir, l->n);
    for (int i = 0; !status && i < l->n; i++) {
        const char *name  = l->name[i]->d_name;
        bool        inner = false;
        if (check_folder(dir, name, &inner) && classes) status = qg_errcode();
        keep[i] = classes ? inner : qg_image_named(name) && !inner;
        if (!status && !keep[i]) skip(f, dir, name, classes ? &f->beside : inner ? &f->nested : &f->others);
    }
    if (!status) list_keep(l, keep);
    free(keep);
    return status;
}

static qg_status list_class(folder *f, int k)
{
    char      path[QG__PATH_BYTES], also[96] = "";
    const int nested = f->nested, others = f->others;
    if (!qg__dataset_path(f->dir, f->classes.name[k]->d_name, path)) return QG_EARG;
    const qg_status status = list_only(f, path, false, &f->images[k]);
    if (status || f->images[k].n) return status;
    if (f->nested > nested || f->others > others)
        snprintf(also, sizeof also, ", but %d folder(s) and %d other file(s)", f->nested - nested,
                 f->others - others);
    return qg_fail(QG_EFORMAT, "'%s' contains no PNG, JPEG or BMP file%s; each folder in '%s' is a class",
                   path, also, f->dir);
}

/* Lists classes and images.  *total: of the images. */
static qg_status survey(folder *f, int *total)
{
    const qg_status status = list_only(f, f->dir, true, &f->classes);
    *total                 = 0;
    if (status) return status;
    if (!f->classes.n && f->beside)
        return qg_fail(QG_EFORMAT, "'%s' has %d file%s, such as '%s', but no folder; each folder in it is a "
                       "class and contains the images", f->dir, f->beside, f->beside == 1 ? "" : "s",
                       f->skipped);
    if (f->classes.n < 1 || f->classes.n > QG_MAX_CLASSES)
        return qg_fail(QG_EFORMAT, "'%s' has %d folders; it needs one per class, 1 to %d", f->dir,
                       f->classes.n, QG_MAX_CLASSES);
    f->images = calloc((size_t)f->classes.n, sizeof *f->images);
    if (!f->images) return qg_fail(QG_EMEM, "'%s': out of memory: %d classes", f->dir, f->classes.n);
    for (int k = 0; k < f->classes.n; k++) {
        if (list_class(f, k)) return qg_errcode();
        if (*total > INT_MAX - f->images[k].n)
            return qg_fail(QG_EFORMAT, "'%s' has more than %d images", f->dir, INT_MAX);
        *total += f->images[k].n;
    }
    return QG_OK;
}

static void folder_free(folder *f)
{
    for (int k = 0; f->images && k < f->classes.n; k++) list_free(&f->images[k]);
    free(f->images);
    list_free(&f->classes);
}

/* --- what may be a mistake ---------------------------------------------------------------- */

static int lower(char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : (unsigned char)c; }

static int by_letters(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    for (; *x && lower(*x) == lower(*y); x++, y++) continue;
    return lower(*x) - lower(*y);
}

/* Two classes whose names differ only in the case of the letters A to Z, which other file systems do not
 * distinguish. */
static bool find_twins(const folder *f, const char *twin[2])
{
    const int    n    = f->classes.n;
    const char **name = malloc((size_t)n * sizeof *name);
    bool         any  = false;
    for (int k = 0; name && k < n; k++) name[k] = f->classes.name[k]->d_name;
    if (name) qsort(name, (size_t)n, sizeof *name, by_letters);
    for (int k = 1; name && k < n && !any; k++) {
        any     = !by_letters(&name[k - 1], &name[k]);
        twin[0] = name[k - 1], twin[1] = name[k];
    }
    free(name);
    return any;
}

QG_PRINTF(2, 3)
static void add(char text[WARNING_BYTES], const char *fmt, ...)
{
    const size_t n = strlen(text);
    va_list      args;
    va_start(args, fmt);
    vsnprintf(text + n, WARNING_BYTES - n, fmt, args);
    va_end(args);
}

static void add_count(char text[WARNING_BYTES], int n, const char *one, const char *many, bool *any)
{
    if (n) add(text, "%s%d %s", *any ? ", " : "; skipped ", n, n == 1 ? one : many);
    *any |= n > 0;
}

/* Sets the warning of qg_loader_warning, if there is any. */
static qg_status warn(const folder *f, qg__dataset *set)
{
    char        text[WARNING_BYTES] = "";
    const char *twin[2];
    bool        any = false;
    add_count(text, f->nested, "folder within a class", "folders within classes", &any);
    add_count(text, f->others, "file that is not PNG, JPEG or BMP", "files that are not PNG, JPEG or BMP",
              &any);
    add_count(text, f->beside, "file next to the classes", "files next to the classes", &any);
    if (any) add(text, ", such as '%s'", f->skipped);
    if (f->classes.n == 1)
        add(text, "; '%s' is the only class, so there is nothing to learn", f->classes.name[0]->d_name);
    if (find_twins(f, twin)) add(text, "; the classes '%s' and '%s' differ only in case", twin[0], twin[1]);
    return *text ? qg__dataset_warn(set, "'%s':%s", f->dir, text + 1) : QG_OK;
}

/* Lists the images in set, by class and name. */
static qg_status take_files(const folder *f, qg__dataset *set)
{
    const size_t n     = (size_t)set->shape.n;
    size_t       bytes = 0;
    for (int k = 0; k < f->classes.n; k++)
        for (int i = 0; i < f->images[k].n; i++)
            bytes += strlen(f->classes.name[k]->d_name) + strlen(f->images[k].name[i]->d_name) + 2;
    set->labels = malloc(n * sizeof *set->labels);
    set->file   = malloc(n * sizeof *set->file);
    if (!set->labels || !set->file) return qg_fail(QG_EMEM, "'%s': out of memory: %zu labels", f->dir, n);
    set->files = qg__files_new(f->dir, set->shape, set->shape.n, bytes);
    if (!set->files) return QG_EMEM;
    char *name = set->files->names;
    for (int k = 0, at = 0; k < f->classes.n; k++)
        for (int i = 0; i < f->images[k].n; i++, at++) {
            set->files->item[at].name = (size_t)(name - set->files->names);
            set->file[at]             = (uint32_t)at;
            set->labels[at]           = (uint16_t)k;
            name = stpcpy(stpcpy(name, f->classes.name[k]->d_name), "/");
            name = stpcpy(name, f->images[k].name[i]->d_name) + 1;
        }
    return QG_OK;
}

static qg_status name_classes(const folder *f, qg__dataset *set)
{
    size_t bytes = 0;
    for (int k = 0; k < f->classes.n; k++) bytes += strlen(f->classes.name[k]->d_name) + 1;
    char *to = set->class_names = malloc(bytes);
    if (!to) return qg_fail(QG_EMEM, "'%s': out of memory: the names of %d classes", f->dir, f->classes.n);
    for (int k = 0; k < f->classes.n; k++) to = stpcpy(to, f->classes.name[k]->d_name) + 1;
    set->class_digest = qg_hash(QG_HASH_BASIS, set->class_names, bytes);
    return QG_OK;
}

qg_loader *qg_folder(const char *dir, qg_shape image, qg_loader_spec spec)
{
    folder f = { .dir = dir };
    int    n;
    if (!dir) return qg__refuse(QG_EARG, "the directory of the images is NULL");
    if (qg__image_wanted(dir, image)) return NULL;
    qg_status   status = survey(&f, &n);
    qg__dataset set    = { .shape = { n, image.h, image.w, image.c }, .classes = f.classes.n };
    if (!status) status = name_classes(&f, &set);
    if (!status) status = take_files(&f, &set);
    if (!status) status = warn(&f, &set);
    if (status) qg__dataset_free(&set);
    folder_free(&f);
    return qg__loader_new(set, spec);
}

qg_status qg__folder_same_classes(const char *a, const char *b)
{
    folder    f = { .dir = a }, g = { .dir = b };
    qg_status status;
    if (!a || !b) return qg_fail(QG_EARG, "the directory of the images is NULL");
    status = list_only(&f, a, true, &f.classes);
    if (!status) status = list_only(&g, b, true, &g.classes);
    for (int i = 0; !status && i < f.classes.n && i < g.classes.n; i++) {
        const char *x = f.classes.name[i]->d_name, *y = g.classes.name[i]->d_name;
        const int   order = strcmp(x, y);           /* that of the lists */
        if (order && !by_letters(&x, &y))
            status = qg_fail(QG_EFORMAT, "'%s' has the class '%s' where '%s' has '%s', which differs only in "
                             "case", b, y, a, x);
        else if (order)
            status = qg_fail(QG_EFORMAT, "'%s' has no class '%s', which '%s' has", order < 0 ? b : a,
                             order < 0 ? x : y, order < 0 ? a : b);
    }
    if (!status && f.classes.n != g.classes.n)
        status = qg_fail(QG_EFORMAT, "'%s' has %d class%s, '%s' has %d", b, g.classes.n,
                         g.classes.n == 1 ? "" : "es", a, f.classes.n);
    folder_free(&f), folder_free(&g);
    return status;
}
