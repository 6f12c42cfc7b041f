/* A validation set: images drawn from every class of a training set in proportion. */
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "datasets/files.h"

/* A class, and what it gives. */
typedef struct part {
    int      label, has, gives;
    uint64_t remainder;         /* of its exact share */
} part;

/* *images: how many are held out. */
static qg_status count(const qg__dataset *set, qg_holdout h, int *images)
{
    const int n = set->shape.n;
    if (!(h.share >= 0 && h.share < 1))
        return qg_fail(QG_EARG, "validation: a fraction of %g, must be 0 or more and less than 1", h.share);
    if (h.images < 0) return qg_fail(QG_EARG, "validation: %d images, must be 0 or more", h.images);
    if (h.images && h.share != 0)
        return qg_fail(QG_EARG, "validation: %d images and a fraction of %g exclude each other", h.images,
                       h.share);
    *images = h.images ? h.images : (int)(h.share * n + 0.5);
    if (*images) return QG_OK;
    return qg_fail(QG_EARG, "validation: a fraction of %g of %d images is none", h.share, n);
}

static int by_label(const void *a, const void *b)
{
    return ((const part *)a)->label - ((const part *)b)->label;
}

static int by_remainder(const void *a, const void *b)
{
    const uint64_t x = ((const part *)a)->remainder, y = ((const part *)b)->remainder;
    return x == y ? by_label(a, b) : x < y ? 1 : -1;
}

/* Divides images between the classes. */
static qg_status divide(const qg__dataset *set, int images, part *p)
{
    const int      classes = set->classes;
    const uint64_t n       = (uint64_t)set->shape.n;
    int            spare = 0, left = images;
    for (int k = 0; k < classes; k++) p[k] = (part){ .label = k };
    for (uint64_t i = 0; i < n; i++) p[set->labels[i]].has++;
    for (int k = 0; k < classes; k++) {
        const uint64_t share = (uint64_t)images * (uint64_t)p[k].has;
        p[k].gives           = (int)(share / n);
        p[k].remainder       = share % n;
        spare += p[k].has ? p[k].has - 1 : 0;
        left -= p[k].gives;
    }
    if (images > spare)
        return qg_fail(QG_EARG, "validation: %d of %d images, but the classes can spare at most %d, since "
                       "each keeps one", images, set->shape.n, spare);
    qsort(p, (size_t)classes, sizeof *p, by_remainder);
    for (int k = 0; left > 0; k = (k + 1) % classes)
        if (p[k].gives + 1 < p[k].has) p[k].gives++, left--;
    qsort(p, (size_t)classes, sizeof *p, by_label);
    return QG_OK;
}

/* Each class gives its first images of a permutation: taken[i] is 1. */
static void draw(const qg__dataset *set, uint64_t seed, part *p, uint32_t *order, uint8_t *taken)
{
    const size_t n = (size_t)set->shape.n;
    qg__permutation(qg_rng_fork(seed, QG_STREAM_HOLDOUT), n, order);
    for (size_t i = 0; i < n; i++) {
        part *of        = &p[set->labels[order[i]]];
        taken[order[i]] = of->gives > 0;
        of->gives -= of->gives > 0;
    }
}

static qg_status name_held(const qg__dataset *set, qg__dataset *held)
{
    size_t bytes = 0;
    if (!set->class_names) return QG_OK;
    for (int k = 0; k < set->classes; k++) bytes += strlen(set->class_names + bytes) + 1;
    held->class_names = malloc(bytes);
    if (!held->class_names) return qg_fail(QG_EMEM, "out of memory: the names of %d classes", set->classes);
    memcpy(held->class_names, set->class_names, bytes);
    held->class_digest = set->class_digest;
    return QG_OK;
}

static void move(qg__dataset *set, const uint8_t *taken, qg__dataset *held)
{
    const size_t row  = qg_row(set->shape);
    size_t       kept = 0, moved = 0;
    for (size_t i = 0, n = (size_t)set->shape.n; i < n; i++) {
        const uint8_t *from = set->images ? set->images + i * row : NULL;
        if (taken[i]) {
            if (from) memcpy(held->images + moved * row, from, row);
            else held->file[moved] = set->file[i];
            held->labels[moved++] = set->labels[i];
        } else {
            if (from) memmove(set->images + kept * row, from, row);
            else set->file[kept] = set->file[i];
            set->labels[kept++] = set->labels[i];
        }
    }
    uint8_t *fewer = set->images ? realloc(set->images, kept * row) : NULL;
    if (fewer) set->images = fewer;
    set->shape.n = (int)kept;
}

qg_status qg__dataset_draw(const qg__dataset *set, qg_holdout h, uint64_t seed, uint8_t **taken, int *images)
{
    qg_status status = count(set, h, images);
    if (status) return status;
    const size_t n     = (size_t)set->shape.n;
    part        *p     = malloc((size_t)set->classes * sizeof *p);
    uint32_t    *order = malloc(n * sizeof *order);
    *taken = malloc(n);
    status = p && order && *taken ? divide(set, *images, p)
                                  : qg_fail(QG_EMEM, "out of memory: a permutation of %zu images", n);
    if (status) {
        free(*taken);
        *taken = NULL;
    } else {
        draw(set, seed, p, order, *taken);
    }
    free(p), free(order);
    return status;
}

static qg_status share_files(const qg__dataset *set, qg__dataset *held)
{
    const size_t n = (size_t)held->shape.n;
    held->labels   = malloc(n * sizeof *held->labels);
    held->file     = malloc(n * sizeof *held->file);
    if (!held->labels || !held->file) return qg_fail(QG_EMEM, "out of memory: %zu images for validation", n);
    held->files = set->files;
    held->files->users++;
    return QG_OK;
}

qg_status qg__dataset_hold_out(qg__dataset *set, const uint8_t *taken, int images, qg__dataset *held)
{
    qg_status status = QG_OK;
    *held         = (qg__dataset){ .shape = set->shape, .classes = set->classes };
    held->shape.n = images;
    if (set->files) status = share_files(set, held);
    else if (!qg__dataset_allocate(held)) status = qg_errcode();
    if (!status) status = name_held(set, held);
    if (status) qg__dataset_free(held);
    else move(set, taken, held);
    return status;
}
