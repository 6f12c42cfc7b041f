#include "datasets/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/io/hash.h"
#include "core/kernels/parallel.h"
#include "datasets/image.h"

/* From malloc; NULL if it is not known. */
static char *here(void)
{
    char path[QG__PATH_BYTES];
    return getcwd(path, sizeof path) ? strdup(path) : NULL;
}

qg__files *qg__files_new(const char *dir, qg_shape image, int n, size_t bytes)
{
    qg__files *f = calloc(1, sizeof *f);
    if (f) {
        *f = (qg__files){ .users = 1, .shape = image, .n = n };
        f->dir   = strdup(dir);
        f->here  = *dir == '/' ? NULL : here();
        f->names = malloc(bytes);
        f->item  = calloc((size_t)n, sizeof *f->item);
        if (f->dir && f->names && f->item) return f;
    }
    qg__files_release(f);
    return qg__refuse(QG_EMEM, "'%s': out of memory: the names of %d images", dir, n);
}

void qg__files_release(qg__files *f)
{
    if (!f || --f->users > 0) return;
    free(f->dir);
    free(f->here);
    free(f->names);
    free(f->item);
    free(f->kept);
    free(f);
}

void qg__failed(qg__first_failure *f, int image)
{
    while (atomic_flag_test_and_set(&f->busy)) continue;
    if (image < f->image) {
        f->image  = image;
        f->status = qg_errcode();
        snprintf(f->why, sizeof f->why, "%s", qg_errmsg());
    }
    atomic_flag_clear(&f->busy);
}

qg_status qg__failure_of(const qg__first_failure *f)
{
    return f->status ? qg_fail(f->status, "%s", f->why) : QG_OK;
}

static bool decode(const qg__files *f, uint32_t index, uint8_t *to)
{
    char        dir[QG__PATH_BYTES], path[QG__PATH_BYTES];
    const char *at = f->dir;
    /* The program may have changed its directory since. */
    if (f->scanned && f->here && qg__dataset_path(f->here, f->dir, dir)) at = dir;
    return qg__dataset_path(at, f->names + f->item[index].name, path) &&
           qg__image_resized(path, f->shape, to, &f->item[index].deep);
}

static uint64_t hash_pixels(const qg__files *f, const uint8_t *image)
{
    return qg_hash_words(QG_HASH_BASIS, image, qg_row(f->shape));
}

const uint8_t *qg__files_image(const qg__files *f, uint32_t index, uint8_t *room)
{
    const qg__image_file *file = &f->item[index];
    if (f->scanned && file->slot >= 0) return f->kept + (size_t)file->slot * qg_row(f->shape);
    if (!decode(f, index, room)) return NULL;
    if (!f->scanned || hash_pixels(f, room) == file->pixels) return room;
    return qg__refuse(QG_EIO, "'%s/%s' has changed since it was first read", f->dir, f->names + file->name);
}

/* --- all images --------------------------------------------------------------------------- */

/* Whatever a batch is cut into: the digest of a set depends on their number. */
enum { SLICES = 8 };

/* Once, for all images of set, which have just been decoded. */
static qg_status warn_of_deep(qg__dataset *set)
{
    const qg__files *f = set->files;
    int              n = 0, first = 0;
    for (int i = set->shape.n - 1; i >= 0; i--)
        if (f->item[set->file[i]].deep) first = i, n++;
    if (!n) return QG_OK;
    return qg__dataset_warn(set,
                            "'%s': %d image%s 16 bits per value, such as '%s'; only the high 8 of them are "
                            "used",
                            f->dir, n, n == 1 ? " has" : "s have", f->names + f->item[set->file[first]].name);
}

typedef struct pass {
    qg__dataset   *set;
    const uint8_t *taken;
    size_t         width;
    int            slots;               /* images that are kept */
    uint8_t       *room;                /* [SLICES][row], of images that are not kept; or NULL */
    qg__sums      *sums;                /* [SLICES][width] or NULL */
    uint64_t       digest[SLICES];
    qg__first_failure failure;
} pass;

/* Image i of the set in its file, for the first time, or again for the digest of what was held out. */
static const uint8_t *first_seen(pass *p, int i, uint8_t *room)
{
    qg__files     *f     = p->set->files;
    const uint32_t index = p->set->file[i];
    const bool     keep  = !f->scanned && i < p->slots;
    uint8_t       *to    = keep ? f->kept + (size_t)i * qg_row(f->shape) : room;
    const uint8_t *image = qg__files_image(f, index, to);
    if (!image || f->scanned) return image;
    f->item[index].pixels = hash_pixels(f, image);
    f->item[index].slot   = keep ? i : -1;
    return image;
}

/* With both files and memory, this is where the images go. */
static const uint8_t *image_of(pass *p, int i, uint8_t *room)
{
    const qg__dataset *set = p->set;
    uint8_t           *to  = set->images ? set->images + (size_t)i * qg_row(set->shape) : NULL;
    if (!to) return first_seen(p, i, room);
    return !set->files || decode(set->files, set->file[i], to) ? to : NULL;
}

static void add_sums(qg__sums *sums, size_t width, const uint8_t *image, size_t row)
{
    for (size_t i = 0; i < row; i += width)
        for (size_t k = 0; k < width; k++) {
            sums[k].first += image[i + k];
            sums[k].second += (uint64_t)image[i + k] * image[i + k];
        }
}

/* Labels of at most 256 classes are hashed as bytes, all others in two bytes, the low one first. */
static uint64_t hash_labels(const qg__dataset *set, int first, int end, uint64_t h)
{
    const size_t bytes = set->classes > 256 ? 2 : 1;
    for (int i = first; i < end; i++)
        h = qg_hash(h, (const uint8_t[]){ (uint8_t)set->labels[i], (uint8_t)(set->labels[i] >> 8) }, bytes);
    return h;
}

static int slice_at(int n, int slice) { return (int)((long long)n * slice / SLICES); }

static void scan_slice(void *context, int slice, int worker)
{
    pass              *p     = context;
    const qg__dataset *set   = p->set;
    const size_t       row   = qg_row(set->shape);
    const int          first = slice_at(set->shape.n, slice), end = slice_at(set->shape.n, slice + 1);
    uint8_t           *room  = p->room ? p->room + (size_t)slice * row : NULL;
    uint64_t           h     = QG_HASH_BASIS;
    for (int i = first; i < end; i++) {
        const uint8_t *image = image_of(p, i, room);
        if (!image) {
            qg__failed(&p->failure, i);
            return;
        }
        h = qg_hash(h, image, row);
        if (p->sums && !(p->taken && p->taken[i]))
            add_sums(p->sums + (size_t)slice * p->width, p->width, image, row);
    }
    p->digest[slice] = hash_labels(set, first, end, h);
}

/* The first images that bytes hold; fewer where memory is short. */
static int keep(qg__files *f, int n, size_t bytes)
{
    const size_t most  = bytes / qg_row(f->shape);
    size_t       slots = most < (size_t)n ? most : (size_t)n;
    while (slots && !(f->kept = malloc(slots * qg_row(f->shape)))) slots /= 2;
    return (int)slots;
}

qg_status qg__dataset_scan(qg__dataset *set, const uint8_t *taken, size_t width, size_t bytes,
                           uint64_t *digest)
{
    const size_t row    = qg_row(set->shape);
    qg__files   *f      = set->files;
    const bool   stay   = f && !set->images, first = f && !f->scanned;
    pass         p      = { .set = set, .taken = taken, .width = width, .failure = QG__NO_FAILURE };
    qg_status    status = QG_OK;
    p.room              = stay ? malloc(SLICES * row) : NULL;
    p.sums              = width ? calloc(SLICES * width, sizeof *p.sums) : NULL;
    set->sums           = width ? calloc(width, sizeof *set->sums) : NULL;
    if ((stay && !p.room) || (width && (!p.sums || !set->sums))) {
        status = qg_fail(QG_EMEM, "out of memory: sums or images of %zu values", row);
    } else {
        p.slots = first && stay ? keep(f, set->shape.n, bytes) : 0;
        qg_parallel(SLICES, scan_slice, &p);
        status = qg__failure_of(&p.failure);
        if (!status && first) status = warn_of_deep(set);
        if (!status && stay) f->scanned = true;
        for (size_t k = 0; k < SLICES * width; k++) {
            set->sums[k % width].first += p.sums[k].first;
            set->sums[k % width].second += p.sums[k].second;
        }
        *digest = qg_hash(qg_hash(QG_HASH_BASIS, &set->shape, sizeof set->shape), p.digest, sizeof p.digest);
    }
    free(p.room);
    free(p.sums);
    return status;
}

/* --- memory ------------------------------------------------------------------------------- */

size_t qg__memory(void)
{
    const long    pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t        most  = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : SIZE_MAX;
    struct rlimit limit;
    if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur < most) most = (size_t)limit.rlim_cur;
    FILE *container = fopen("/sys/fs/cgroup/memory.max", "r");
    if (!container) return most;
    unsigned long long bytes;
    if (fscanf(container, "%llu", &bytes) == 1 && bytes < most) most = (size_t)bytes; /* or it is "max" */
    fclose(container);
    return most;
}
