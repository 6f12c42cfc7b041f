#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/io/hash.h"
#include "datasets/dataset.h"
#include "datasets/image.h"

enum { MOST_CLASSES = 256, MOST_SIDE = 4096 };

/* The names in a folder, in byte order whatever the locale. */
typedef struct listing {
    struct dirent **name;
    int             n;
} listing;

typedef struct folder {
    const char *dir;
    listing     classes;
    listing     images[MOST_CLASSES];
} folder;

static int is_shown(const struct dirent *e) { return e->d_name[0] != '.'; }

static int is_image(const struct dirent *e)
{
    static const char *const endings[] = { ".png", ".jpg", ".jpeg", ".bmp" };
    const char              *ending    = strrchr(e->d_name, '.');
    for (size_t i = 0; is_shown(e) && ending && i < sizeof endings / sizeof *endings; i++)
        if (!strcasecmp(ending, endings[i])) return 1;
    return 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool list(const char *path, int (*keep)(const struct dirent *), listing *l)
{
    const int n = scandir(path, &l->name, keep, by_name);
    if (n < 0) qg_fail(QG_EIO, "cannot list '%s': %s", path, strerror(errno));
    l->n = n < 0 ? 0 : n;
    return n >= 0;
}

static void list_free(listing *l)
{
    for (int i = 0; i < l->n; i++) free(l->name[i]);
    free(l->name);
    *l = (listing){ 0 };
}

/* Removes entries that are not folders. */
static bool keep_folders(const char *dir, listing *l)
{
    int kept = 0;
    for (int i = 0; i < l->n; i++) {
        char        path[QG__PATH_BYTES];
        struct stat s;
        if (!qg__dataset_path(dir, l->name[i]->d_name, path)) return false;
        struct dirent *entry = l->name[i];
        if (stat(path, &s)) {           /* a broken link, perhaps to a whole class */
            qg_fail(QG_EIO, "'%s': %s", path, strerror(errno));
            return false;
        }
        if (!S_ISDIR(s.st_mode)) continue;
        l->name[i]      = l->name[kept];
        l->name[kept++] = entry;
    }
    for (int i = kept; i < l->n; i++) free(l->name[i]);
    l->n = kept;
    return true;
}

/* Lists classes and images.  Returns the number of images, 0 on failure. */
static int survey(folder *f)
{
    int total = 0;
    if (!list(f->dir, is_shown, &f->classes) || !keep_folders(f->dir, &f->classes)) return 0;
    if (f->classes.n < 1 || f->classes.n > MOST_CLASSES) {
        qg_fail(QG_EFORMAT, "'%s' has %d folders; it needs one per class, 1 to %d", f->dir, f->classes.n,
                (int)MOST_CLASSES);
        return 0;
    }
    for (int k = 0; k < f->classes.n; k++) {
        char path[QG__PATH_BYTES];
        if (!qg__dataset_path(f->dir, f->classes.name[k]->d_name, path)) return 0;
        if (!list(path, is_image, &f->images[k])) return 0;
        if (f->images[k].n == 0) {
            qg_fail(QG_EFORMAT, "'%s' contains no PNG, JPEG or BMP file", path);
            return 0;
        }
        total += f->images[k].n;
    }
    return total;
}

static bool read_class(const folder *f, int k, qg__dataset *set, int at)
{
    char dir[QG__PATH_BYTES], path[QG__PATH_BYTES];
    if (!qg__dataset_path(f->dir, f->classes.name[k]->d_name, dir)) return false;
    for (int i = 0; i < f->images[k].n; i++) {
        if (!qg__dataset_path(dir, f->images[k].name[i]->d_name, path)) return false;
        if (!qg__image_resized(path, set->shape, set->images + (size_t)(at + i) * qg_row(set->shape))) return false;
        set->labels[at + i] = (uint8_t)k;
    }
    return true;
}

static bool name_classes(const folder *f, qg__dataset *set)
{
    size_t bytes = 0;
    for (int k = 0; k < f->classes.n; k++) bytes += strlen(f->classes.name[k]->d_name) + 1;
    char *to = set->class_names = malloc(bytes);
    if (!to) {
        qg_fail(QG_EMEM, "'%s': out of memory: the names of %d classes", f->dir, f->classes.n);
        return false;
    }
    for (int k = 0; k < f->classes.n; k++) to = stpcpy(to, f->classes.name[k]->d_name) + 1;
    set->class_digest = qg_hash(QG_HASH_BASIS, set->class_names, bytes);
    return true;
}

static bool is_size(qg_shape s)
{
    return s.h >= 1 && s.w >= 1 && s.h <= MOST_SIDE && s.w <= MOST_SIDE && (s.c == 1 || s.c == 3);
}

qg_loader *qg_folder(const char *dir, qg_shape image, qg_loader_spec spec)
{
    folder f = { .dir = dir };
    if (!dir) {
        qg_fail(QG_EARG, "the directory of the images is NULL");
        return NULL;
    }
    if (!is_size(image)) {
        qg_fail(QG_EARG, "images of a folder cannot be %dx%dx%d: sides must be 1..%d, channels 1 or 3", image.h, image.w,
                image.c, (int)MOST_SIDE);
        return NULL;
    }
    const int   n   = survey(&f);
    qg__dataset set = { .shape = { n, image.h, image.w, image.c }, .classes = f.classes.n };
    bool        ok  = n > 0 && name_classes(&f, &set) && qg__dataset_allocate(&set);
    for (int k = 0, at = 0; ok && k < f.classes.n; at += f.images[k++].n) ok = read_class(&f, k, &set, at);
    if (!ok) qg__dataset_free(&set);
    for (int k = 0; k < MOST_CLASSES; k++) list_free(&f.images[k]);
    list_free(&f.classes);
    return qg__loader_new(set, spec);
}

qg_status qg_folder_same_classes(const char *a, const char *b)
{
    folder    f = { .dir = a }, g = { .dir = b };
    qg_status status = QG_OK;
    if (!a || !b) return qg_fail(QG_EARG, "the directory of the images is NULL");
    if (!list(a, is_shown, &f.classes) || !keep_folders(a, &f.classes) || !list(b, is_shown, &g.classes) ||
        !keep_folders(b, &g.classes))
        status = QG_EIO;
    for (int i = 0; !status && i < f.classes.n && i < g.classes.n; i++)
        if (strcmp(f.classes.name[i]->d_name, g.classes.name[i]->d_name))
            status = qg_fail(QG_EFORMAT, "'%s' has the class '%s' where '%s' has '%s'", b, g.classes.name[i]->d_name, a,
                             f.classes.name[i]->d_name);
    if (!status && f.classes.n != g.classes.n)
        status = qg_fail(QG_EFORMAT, "'%s' has %d classes, '%s' has %d", b, g.classes.n, a, f.classes.n);
    list_free(&f.classes), list_free(&g.classes);
    return status;
}
