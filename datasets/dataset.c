#include "datasets/dataset.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/io/hash.h"
#include "core/kernels/parallel.h"
#include "core/rng.h"
#include "datasets/files.h"

bool qg__dataset_classes(int classes)
{
    if (classes >= 1 && classes <= QG_MAX_CLASSES) return true;
    return qg_fail(QG_EARG, "classes is %d, must be 1..%d", classes, QG_MAX_CLASSES), false;
}

bool qg__dataset_allocate(qg__dataset *set)
{
    size_t    bytes   = 1;
    const int sizes[] = { set->shape.n, set->shape.h, set->shape.w, set->shape.c };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i] < 1 || bytes > SIZE_MAX / (size_t)sizes[i])
            return qg_fail(QG_EARG, "images " QG_SHAPE_FMT " are empty or too large for memory",
                           QG_SHAPE_ARGS(set->shape)), false;
        bytes *= (size_t)sizes[i];
    }
    set->images = malloc(bytes);
    set->labels = malloc((size_t)set->shape.n * sizeof *set->labels);
    if (set->images && set->labels) return true;
    qg_fail(QG_EMEM, "out of memory: %zu bytes of images " QG_SHAPE_FMT, bytes,
            QG_SHAPE_ARGS(set->shape));
    qg__dataset_free(set);
    return false;
}

void qg__dataset_free(qg__dataset *set)
{
    free(set->images);
    free(set->labels);
    free(set->class_names);
    free(set->warning);
    qg__files_release(set->files);
    free(set->file);
    free(set->sums);
    *set = (qg__dataset){ .shape = set->shape, .classes = set->classes };
}

qg_status qg__dataset_warn(qg__dataset *set, const char *fmt, ...)
{
    const size_t before = set->warning ? strlen(set->warning) : 0;
    const size_t most   = before + 2 * QG__PATH_BYTES + 256;
    char        *joined = realloc(set->warning, most);
    va_list      args;
    if (!joined) return qg_fail(QG_EMEM, "out of memory: a warning");
    if (before) strcpy(joined + before, "; ");
    char *end = joined + (before ? before + 2 : 0);
    va_start(args, fmt);
    vsnprintf(end, (size_t)(joined + most - end), fmt, args);
    va_end(args);
    set->warning = joined;
    return QG_OK;
}

/* --- chosen classes ----------------------------------------------------------------------- */

enum { NOT_CHOSEN = -1 };

/* now [set->classes]: the new number of each class. */
static qg_status renumber(const qg__dataset *set, const uint16_t *classes, int n, int *now)
{
    if (!classes) return qg_fail(QG_EARG, "n_classes is %d, but classes is NULL", n);
    if (n < 1) return qg_fail(QG_EARG, "n_classes is %d, but must be at least 1", n);
    for (int k = 0; k < set->classes; k++) now[k] = NOT_CHOSEN;
    for (int i = 0; i < n; i++) {
        const int k = classes[i];
        if (k >= set->classes)
            return qg_fail(QG_EARG, "class %d cannot be chosen, the classes are 0..%d", k, set->classes - 1);
        if (now[k] != NOT_CHOSEN) return qg_fail(QG_EARG, "class %d is chosen twice", k);
        now[k] = i;
    }
    return QG_OK;
}

/* The name of a class: at[class], or its number if at is NULL. */
static const char *name_of(const char *const *at, int k, char number[8])
{
    snprintf(number, 8, "%d", k);
    return at ? at[k] : number;
}

static qg_status name_chosen(qg__dataset *set, const uint16_t *classes, int n)
{
    char         number[8];
    size_t       bytes = 0;
    const char **at    = set->class_names ? malloc((size_t)set->classes * sizeof *at) : NULL;
    const char  *name  = set->class_names;
    if (name && !at) return qg_fail(QG_EMEM, "out of memory: the names of %d classes", set->classes);
    for (int k = 0; at && k < set->classes; k++, name += strlen(name) + 1) at[k] = name;
    for (int i = 0; i < n; i++) bytes += strlen(name_of(at, classes[i], number)) + 1;
    char *names = malloc(bytes), *to = names;
    for (int i = 0; names && i < n; i++) to = stpcpy(to, name_of(at, classes[i], number)) + 1;
    free(at);
    if (!names) return qg_fail(QG_EMEM, "out of memory: the names of %d classes", n);
    free(set->class_names);
    set->class_names  = names;
    set->class_digest = qg_hash(QG_HASH_BASIS, names, bytes);
    return QG_OK;
}

qg_status qg__dataset_choose(qg__dataset *set, const uint16_t *classes, int n)
{
    int kept = 0, *now = malloc((size_t)set->classes * sizeof *now);
    if (!now) return qg_fail(QG_EMEM, "out of memory: the new numbers of %d classes", set->classes);
    if (renumber(set, classes, n, now)) {
        free(now);
        return QG_EARG;
    }
    const size_t row = qg_row(set->shape);
    for (int i = 0; i < set->shape.n; i++) {
        const int label = now[set->labels[i]];
        if (label == NOT_CHOSEN) continue;
        if (set->images) memmove(set->images + (size_t)kept * row, set->images + (size_t)i * row, row);
        else set->file[kept] = set->file[i];
        set->labels[kept++] = (uint16_t)label;
    }
    free(now);
    if (!kept) return qg_fail(QG_EARG, "no image is of a chosen class");
    uint8_t *fewer = set->images ? realloc(set->images, (size_t)kept * row) : NULL;
    if (fewer) set->images = fewer;
    const qg_status status = name_chosen(set, classes, n);
    set->shape.n           = kept;
    set->classes           = n;
    return status;
}

const char *qg__dataset_path(const char *dir, const char *name, char path[QG__PATH_BYTES])
{
    if (!dir || !*dir)
        return qg__refuse(QG_EARG, "the directory of '%s' is %s", name, dir ? "empty" : "NULL");
    const int n = snprintf(path, QG__PATH_BYTES, "%s/%s", dir, name);
    if (n >= 0 && n < QG__PATH_BYTES) return path;
    return qg__refuse(QG_EARG, "the path of '%s' is longer than %d bytes", name, QG__PATH_BYTES - 1);
}

/* --- what is there instead ---------------------------------------------------------------- */

static size_t alike(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n]) n++;
    return n;
}

/* Adds the names in dir to the message, that which begins most like the missing one first. */
static void say_contents(const char *dir, const char *missing, struct dirent *const *name, int n)
{
    char list[160] = "";
    int  nearest   = 0;
    for (int i = 1; i < n; i++)
        if (alike(name[i]->d_name, missing) > alike(name[nearest]->d_name, missing)) nearest = i;
    if (n) qg__list_append(list, sizeof list, name[nearest]->d_name);
    for (int i = 0; i < n; i++)
        if (i != nearest) qg__list_append(list, sizeof list, name[i]->d_name);
    const size_t length = strlen(missing);
    const char  *first  = n ? name[nearest]->d_name : "";
    const bool   packed = !strncmp(first, missing, length) && !strcmp(first + length, ".gz");
    if (!n) (void)qg_fail(QG_EIO, "%s; '%s' is empty", qg_errmsg(), dir);
    else (void)qg_fail(QG_EIO, "%s; '%s' contains %s%s", qg_errmsg(), dir, list,
                       packed ? "; unpack the files that end in .gz" : "");
}

bool qg__dataset_absent(const char *path)
{
    char            dir[QG__PATH_BYTES];
    const char     *slash = strrchr(path, '/');
    struct dirent **name;
    if (qg_errcode() != QG_EIO || access(path, F_OK) == 0) return false;
    const int length = slash && slash != path ? (int)(slash - path) : 1;
    snprintf(dir, sizeof dir, "%.*s", length, slash ? path : ".");
    const int n = qg__names(dir, &name);
    if (n < 0) return false;
    say_contents(dir, slash ? slash + 1 : path, name, n);
    qg__names_free(name, n);
    return true;
}

void qg__permutation(uint64_t key, size_t n, uint32_t *order)
{
    for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
    /* Fisher-Yates.  The modulo bias is below n / 2^64. */
    for (size_t i = n; i > 1; i--) {
        const size_t   j = (size_t)(qg_bits(key, i) % i);
        const uint32_t o = order[i - 1];
        order[i - 1]     = order[j];
        order[j]         = o;
    }
}
