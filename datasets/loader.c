#include "datasets/loader.h"

#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/io/hash.h"
#include "core/kernels/parallel.h"
#include "core/dist/ranks.h"
#include "core/rng.h"
#include "core/slices.h"
#include "datasets/augment.h"
#include "datasets/files.h"
#include "datasets/normalise.h"

/* A batch of 64 is eight pieces: enough for eight threads, and each is worth handing out. */
enum { PIECE_IMAGES = 8 };

static int pieces(int images) { return 1 + (images - 1) / PIECE_IMAGES; }

struct qg_loader {
    qg_arena       memory;       /* order, x and y */
    qg__dataset    set;
    qg__files     *named;        /* those that a set in memory, which is .in_order, was read from; or NULL */
    uint32_t      *file;         /* [n], the index of each image in named */
    qg_preprocess  preprocess;
    float         *whitened;     /* [n][h][w][c], instead of set.images; or NULL */
    qg_loader_spec spec;         /* without preprocess and classes, which are the caller's */
    int            batches;      /* per epoch */
    uint64_t       epoch;
    int            at;           /* the next batch; batches at the end of the epoch */
    uint32_t      *order;        /* [n] */
    bool           ordered;      /* order is that of epoch */
    bool           whole;        /* batches are not divided between ranks */
    float         *x;            /* [min(batch, n)][h][w][c] */
    uint16_t      *y;
    uint8_t       *decoded;      /* [min(batch, n)][h][w][c], of images in files; or NULL */
    float         *plain;        /* [pieces of a batch][h][w][c], of images that are resampled; or NULL */
    uint64_t       digest;
    qg_status      status;       /* the failure of qg_loader_next, and its message */
    char          *why;
    qg_loader     *validation;   /* NULL: none */
};

/* --- a set -------------------------------------------------------------------------------- */

static bool allocate(qg_loader *l, int batch)
{
    const size_t n     = (size_t)batch;
    const size_t row   = qg_row(l->set.shape);
    const size_t bytes = row > SIZE_MAX / sizeof(float) / n ? SIZE_MAX : n * row * sizeof(float);

    l->order = qg__arena_take(&l->memory, (size_t)l->set.shape.n * sizeof *l->order);
    l->x     = l->order ? qg__arena_take(&l->memory, bytes) : NULL;
    l->y     = l->x ? qg__arena_take(&l->memory, n * sizeof *l->y) : NULL;
    if (l->y && l->set.files) l->decoded = qg__arena_take(&l->memory, n * row);
    if (!l->y || (l->set.files && !l->decoded)) return false;
    if (!qg__augment_resamples(&l->spec.augment)) return true;
    l->plain = qg__arena_take(&l->memory, (size_t)pieces(batch) * row * sizeof *l->plain);
    return l->plain;
}

/* Fits the preprocessing, or copies the caller's; for QG_WHITEN also makes the floats. */
static qg_status normalise(qg_loader *l)
{
    const qg_preprocess *as = l->spec.preprocess;
    l->spec.preprocess = NULL;
    if (l->set.files && (as ? as->normalise.kind : l->spec.normalise.kind) == QG_WHITEN)
        return qg_fail(QG_EARG, "'%s': whitening keeps all images in memory as floats, so a cache must hold "
                       "the %zu bytes of all images", l->set.files->dir,
                       (size_t)l->set.shape.n * qg_row(l->set.shape));
    const qg_shape a = l->set.shape, b = as ? as->shape : a;
    if (a.h != b.h || a.w != b.w || a.c != b.c)
        return qg_fail(QG_ESHAPE, "images of %dx%dx%d cannot be preprocessed as images of %dx%dx%d", a.h, a.w,
                       a.c, b.h, b.w, b.c);
    const qg_status status = as ? qg__preprocess_copy(&l->preprocess, as)
                                : qg__preprocess_fit(&l->preprocess, &l->set, l->spec.normalise);
    if (status || !l->preprocess.whitening) return status;
    l->whitened = qg__whiten(&l->preprocess, &l->set);
    if (!l->whitened) return QG_EMEM;
    free(l->set.images);
    l->set.images = NULL;
    return QG_OK;
}

qg_loader_spec qg__loader_validates(const qg_loader *l)
{
    return (qg_loader_spec){ .batch       = l->spec.batch,
                             .seed        = l->spec.seed,
                             .in_order    = true,
                             .normalise   = l->spec.normalise,
                             .preprocess  = &l->preprocess,
                             .cache_bytes = l->spec.cache_bytes };
}

void qg__loader_adopt(qg_loader *l, qg_loader *validation)
{
    const uint64_t digest[] = { l->digest, validation->digest };
    l->digest               = qg_hash(QG_HASH_BASIS, digest, sizeof digest);
    l->validation           = validation;
}

static qg_status allocate_images(qg__dataset *set)
{
    const size_t bytes = (size_t)set->shape.n * qg_row(set->shape);
    set->images        = malloc(bytes);
    return set->images ? QG_OK
                       : qg_fail(QG_EMEM, "out of memory: %zu bytes of images " QG_SHAPE_FMT, bytes,
                                 QG_SHAPE_ARGS(set->shape));
}

/* Of a set whose images are in memory now.  A test set keeps their names. */
static void leave_files(qg_loader *l, bool divides)
{
    qg__dataset *set = &l->set;
    if (!set->files || !set->images) return;
    if (l->spec.in_order && !divides) l->named = set->files, l->file = set->file;
    else qg__files_release(set->files), free(set->file);
    set->files = NULL;
    set->file  = NULL;
}

/* Images of files: allocates memory for all of them if the cache, or half of the memory, can hold them.
 * *bytes: of a cache that cannot. */
static qg_status open_files(qg_loader *l, size_t *bytes)
{
    const size_t all = (size_t)l->set.shape.n * qg_row(l->set.shape), memory = qg__memory();
    const bool   automatic = !l->spec.cache_bytes;
    *bytes = automatic ? memory / 4 : l->spec.cache_bytes;
    if (l->set.files->scanned) return QG_OK;            /* held out of a set that is not in memory */
    if (all <= (automatic ? memory / 2 : *bytes)) return allocate_images(&l->set);
    if (!automatic) return QG_OK;
    return qg__dataset_warn(&l->set, "'%s': %d images of %dx%dx%d take %zu MiB of memory, but there are %zu "
                            "MiB; they are decoded in every epoch, except as many as a cache of %zu MiB "
                            "holds",
                            l->set.files->dir, l->set.shape.n, l->set.shape.h, l->set.shape.w, l->set.shape.c,
                            all >> 20, memory >> 20, *bytes >> 20);
}

/* Warns of classes that cannot be learned: labels that count from 1, for example, leave class 0 empty.
 * Test sets, which are read in order, may lack a class. */
static qg_status warn_of_empty(qg__dataset *set)
{
    bool *has = calloc((size_t)set->classes, sizeof *has);
    int   empty = 0, first = 0;
    if (!has) return qg_fail(QG_EMEM, "out of memory: %d classes", set->classes);
    for (int i = 0; i < set->shape.n; i++) has[set->labels[i]] = true;
    for (int k = set->classes - 1; k >= 0; k--)
        if (!has[k]) empty++, first = k;
    free(has);
    if (!empty) return QG_OK;
    return qg__dataset_warn(set, "no image is of class %d%s; %d of %d classes %s empty%s", first,
                            empty == 1 ? "" : ", for example", empty, set->classes, empty == 1 ? "is" : "are",
                            first ? "" : ", and labels count from 0");
}

/* Floats in 0..1 that a cast made bytes.  Files of a folder are not looked at. */
static qg_status warn_of_darkness(qg__dataset *set)
{
    const size_t n = set->files ? 0 : qg_count(set->shape);
    size_t       i = 0;
    while (i < n && set->images[i] < 2) i++;
    return i < n || !n ? QG_OK
                       : qg__dataset_warn(set, "no byte of the images is above 1, but white is 255: "
                                               "multiply floats in 0..1 by 255 before they become bytes");
}

/* *held: the images for validation, if there are any. */
static qg_status divide(qg_loader *l, qg__dataset *held)
{
    const qg_holdout part   = l->spec.validation;
    const bool       fits   = !l->spec.preprocess && !l->spec.normalise.given;
    const size_t     width  = fits ? qg__sums_width(l->spec.normalise.kind, l->set.shape) : 0;
    uint8_t         *taken  = NULL;
    int              images = 0;
    size_t           bytes  = 0;
    qg_status        status = QG_OK;
    if (part.images || part.share != 0)
        status = qg__dataset_draw(&l->set, part, l->spec.seed, &taken, &images);
    if (!status && l->set.files) status = open_files(l, &bytes);
    if (!status) status = qg__dataset_scan(&l->set, taken, width, bytes, &l->digest);
    if (!status) leave_files(l, taken);
    if (!status && taken) status = qg__dataset_hold_out(&l->set, taken, images, held);
    free(taken);
    return status;
}

static qg_status prepare(qg_loader *l, qg__dataset *held)
{
    qg_status status = qg__augment_check(&l->spec.augment, l->set.shape);
    if (!status && !l->spec.in_order) status = warn_of_empty(&l->set);
    if (!status && !l->spec.in_order) status = warn_of_darkness(&l->set);
    if (!status) status = divide(l, held);
    const int n = l->set.shape.n;
    l->batches  = 1 + (n - 1) / l->spec.batch;
    if (!status) status = normalise(l);
    if (!status && !allocate(l, l->spec.batch < n ? l->spec.batch : n)) status = QG_EMEM;
    return status;
}

/* Keeps the classes of the spec. */
static qg_status choose(qg__dataset *set, const qg_loader_spec *spec)
{
    if ((!set->images && !set->files) || !set->labels) return QG_EARG;      /* the reader has failed */
    if (spec->batch < 1) return qg_fail(QG_EARG, "batch is %d, but must be at least 1", spec->batch);
    return spec->classes || spec->n_classes ? qg__dataset_choose(set, spec->classes, spec->n_classes) : QG_OK;
}

qg_loader *qg__loader_new(qg__dataset set, qg_loader_spec spec)
{
    qg__dataset     held   = { .images = NULL };
    const qg_status status = choose(&set, &spec);
    qg_loader      *l      = status ? NULL : malloc(sizeof *l);
    if (!status && !l) qg_fail(QG_EMEM, "out of memory: a loader of %zu bytes", sizeof *l);
    if (!l) return qg__dataset_free(&set), NULL;
    spec.classes   = NULL;
    spec.n_classes = 0;
    *l             = (qg_loader){ .set = set, .spec = spec };
    if (prepare(l, &held)) qg__dataset_free(&held);
    else if (!held.labels || (l->validation = qg__loader_new(held, qg__loader_validates(l)))) return l;
    qg_loader_free(l);
    return NULL;
}

/* --- batches ------------------------------------------------------------------------------ */

static void draw_order(qg_loader *l)
{
    const size_t n = (size_t)l->set.shape.n;
    if (l->spec.in_order) {
        for (size_t i = 0; i < n; i++) l->order[i] = (uint32_t)i;
    } else {
        const uint64_t key = qg_rng_fork(l->spec.seed, QG_STREAM_SHUFFLE);
        qg__permutation(qg_rng_fork(key, l->epoch), n, l->order);
    }
    l->ordered = true;
}

struct gathering {
    const qg_loader *l;
    const qg_augment *augment;
    const uint32_t  *order;    /* of this batch */
    int              n;        /* images of this batch */
    uint64_t         key;      /* of this epoch's augmentation */
    qg__first_failure failure;
};

/* The bytes of image i of the batch, which are decoded if they are not in memory; NULL on failure. */
static const uint8_t *bytes_of(const struct gathering *g, int i)
{
    const qg__dataset *set = &g->l->set;
    const size_t       row = qg_row(set->shape);
    if (set->images) return set->images + g->order[i] * row;
    return qg__files_image(set->files, set->file[g->order[i]], g->l->decoded + (size_t)i * row);
}

/* Image i of the batch, as augmented in this epoch.  False: it cannot be decoded. */
static bool make(const struct gathering *g, int i, float *to)
{
    const qg_loader *l     = g->l;
    const uint32_t   index = g->order[i];
    const size_t     row   = qg_row(l->set.shape);
    const qg__image  from  = { .preprocess = &l->preprocess,
                               .bytes      = l->whitened ? NULL : bytes_of(g, i),
                               .floats     = l->whitened ? l->whitened + index * row : NULL,
                               .shape      = l->set.shape };
    if (!from.bytes && !from.floats) return false;
    float           *plain = l->plain ? l->plain + (size_t)(i / PIECE_IMAGES) * row : NULL;
    qg__augment(g->augment, qg_rng_fork(g->key, index), &from, plain, to);
    return true;
}

static void gather(void *context, int piece, int worker)
{
    struct gathering       *g     = context;
    const size_t            row   = qg_row(g->l->set.shape);
    const int               begin = piece * PIECE_IMAGES;
    const int               end   = g->n - begin < PIECE_IMAGES ? g->n : begin + PIECE_IMAGES;
    for (int i = begin; i < end; i++) {
        if (!make(g, i, g->l->x + (size_t)i * row)) qg__failed(&g->failure, i);
        g->l->y[i] = g->l->set.labels[g->order[i]];
    }
}

qg_status qg_loader_status(const qg_loader *l)
{
    if (!l) return qg__fail_null(QG_EARG, "loader");
    return l->status ? qg_fail(l->status, "%s", l->why ? l->why : "an image cannot be decoded") : QG_OK;
}

bool qg_loader_next(qg_loader *l, qg_batch *b)
{
    if (!l || !b || l->status) return false;
    if (l->at == l->batches) {
        l->epoch++;
        l->at      = 0;
        l->ordered = l->ordered && l->spec.in_order;
        return false;
    }
    if (!l->ordered) draw_order(l);

    const int        first = l->at * l->spec.batch;
    const int        rest  = l->set.shape.n - first;
    const uint64_t   key   = qg_rng_fork(l->spec.seed, QG_STREAM_AUGMENT);
    struct gathering g     = { .l      = l,
                               .augment = &l->spec.augment,
                               .order  = l->order + first,
                               .n      = rest < l->spec.batch ? rest : l->spec.batch,
                               .key    = qg_rng_fork(key, l->epoch),
                               .failure = QG__NO_FAILURE };
    b->n = g.n;
    /* Fewer images than ranks: every rank has all of them. */
    if (qg_ranks() > 1 && g.n >= qg_ranks() && !l->whole) {
        int from;
        g.n = qg__images_here(b->n, &from);
        g.order += from;
    }
    qg_parallel(pieces(g.n), gather, &g);
    l->status = qg__failure_of(&g.failure);
    if (l->status) return l->why = strdup(g.failure.why), false;

    qg_shape shape = l->set.shape;
    shape.n        = g.n;
    b->x           = (qg_tensor){ shape, l->x, g.n < b->n ? b->n : 0 };
    b->y           = l->y;
    b->step        = l->epoch * (uint64_t)l->batches + (uint64_t)l->at;
    l->at++;
    return true;
}

void qg_loader_tell(const qg_loader *l, uint64_t *epoch, uint64_t *batch)
{
    if (epoch) *epoch = l ? l->epoch : 0;
    if (batch) *batch = l ? (uint64_t)l->at : 0;
}

qg_status qg_loader_seek(qg_loader *l, uint64_t epoch, uint64_t batch)
{
    if (!l) return qg__fail_null(QG_EARG, "loader");
    const uint64_t batches = (uint64_t)l->batches;
    if (batch > batches)
        return qg_fail(QG_EARG, "seek to batch %" PRIu64 ", but an epoch has batches 0..%" PRIu64,
                       batch, batches);
    /* qg_loader_next advances to the epoch after it unchecked, so that must still have step numbers. */
    const uint64_t last = UINT64_MAX / batches - 2;
    if (epoch > last)
        return qg_fail(QG_EARG, "seek to epoch %" PRIu64 ", but the last is %" PRIu64, epoch, last);
    if (epoch != l->epoch) l->ordered = l->ordered && l->spec.in_order;
    l->epoch = epoch;
    l->at    = (int)batch;
    return QG_OK;
}

qg_shape qg_loader_shape(const qg_loader *l)
{
    return l ? l->set.shape : (qg_shape){ 0 };
}

const uint16_t *qg_loader_labels(const qg_loader *l) { return l ? l->set.labels : NULL; }

struct reading {
    const qg__dataset *set;
    int                first;
    uint8_t           *room;
    qg__first_failure  failure;
};

static void read_image(void *context, int i, int worker)
{
    struct reading *r    = context;
    const size_t    row  = qg_row(r->set->shape);
    uint8_t        *to   = r->room + (size_t)i * row;
    const uint8_t  *from = qg__files_image(r->set->files, r->set->file[r->first + i], to);
    if (!from) qg__failed(&r->failure, i);
    else if (from != to) memcpy(to, from, row);
}

const uint8_t *qg_loader_bytes(const qg_loader *l, int first, int n, uint8_t *room)
{
    if (!l) return NULL;
    if (first < 0 || n < 0 || first > l->set.shape.n - n)
        return qg__refuse(QG_EARG, "%d images from image %d on, of %d", n, first, l->set.shape.n);
    struct reading r = { .set = &l->set, .first = first, .room = room, .failure = QG__NO_FAILURE };
    if (l->set.images) return l->set.images + (size_t)first * qg_row(l->set.shape);
    if (!l->set.files || !room)
        return qg__refuse(QG_EARG, "the images have been whitened, or are not in memory");
    qg_parallel(n, read_image, &r);
    return qg__failure_of(&r.failure) ? NULL : room;
}

qg_status qg_loader_image(qg_loader *l, uint64_t i, float *x)
{
    static const qg_augment none  = { 0 };
    const uint32_t          index = (uint32_t)i;
    const struct gathering  g     = { .l = l, .augment = &none, .order = &index, .n = 1 };
    if (!l) return QG_EARG;              /* the message says why the loader is NULL */
    if (i >= (uint64_t)l->set.shape.n) return qg_fail(QG_EARG, "image %" PRIu64 " of %d", i, l->set.shape.n);
    return make(&g, 0, x) ? QG_OK : qg_errcode();
}

bool qg_loader_file(const qg_loader *l, uint64_t i, char *path, size_t bytes)
{
    if (!l) return false;
    const qg__files *f    = l->named ? l->named : l->set.files;
    const uint32_t  *file = l->named ? l->file : l->set.file;
    char             whole[QG__PATH_BYTES];
    if (!f || i >= (uint64_t)l->set.shape.n) return false;
    if (!qg__dataset_path(f->dir, f->names + f->item[file[i]].name, whole)) return false;
    return (size_t)snprintf(path, bytes, "%s", whole) < bytes;
}

int qg_loader_classes(const qg_loader *l)
{
    return l ? l->set.classes : 0;
}

int qg_loader_batches(const qg_loader *l)
{
    return l ? l->batches : 0;
}

const qg_preprocess *qg_loader_preprocess(const qg_loader *l) { return l ? &l->preprocess : NULL; }

const char *qg_loader_class_names(const qg_loader *l) { return l ? l->set.class_names : NULL; }

const char *qg_loader_warning(const qg_loader *l) { return l ? l->set.warning : NULL; }

uint64_t qg__loader_class_digest(const qg_loader *l) { return l ? l->set.class_digest : 0; }

qg_loader *qg_loader_validation(const qg_loader *l) { return l ? l->validation : NULL; }

qg_loader_spec qg__loader_spec(const qg_loader *l) { return l->spec; }

void qg__loader_divide(qg_loader *l, bool among_ranks) { l->whole = !among_ranks; }

uint64_t qg__loader_digest(const qg_loader *l)
{
    return l ? l->digest : 0;
}

void qg_loader_free(qg_loader *l)
{
    if (!l) return;
    qg_loader_free(l->validation);
    qg__dataset_free(&l->set);
    qg__files_release(l->named);
    free(l->file);
    qg__preprocess_clear(&l->preprocess);
    free(l->whitened);
    free(l->why);
    qg__arena_release(&l->memory);
    free(l);
}
