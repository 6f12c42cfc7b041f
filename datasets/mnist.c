/* The idx format: 0, 0, type, rank; one big-endian 32-bit extent per dimension; the values.
 * MNIST and the sets made after it use unsigned bytes, images of rank 3 and labels of rank 1. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "datasets/dataset.h"

enum { CLASSES = 10, UNSIGNED_BYTES = 0x08, MAX_RANK = 3 };

/* Five times MNIST.  It keeps every extent, and so every product below, under 2^31. */
#define MAX_BYTES ((size_t)1 << 28)

/* Checks bytes [n] against their header and reads the extents. */
static qg_status idx_check(const char *path, const uint8_t *bytes, size_t n, int rank, int *dims)
{
    const size_t head = 4 + 4 * (size_t)rank;
    if (n >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b)
        return qg_fail(QG_EFORMAT, "'%s' is compressed with gzip; unpack it first", path);
    if (n < head)
        return qg_fail(QG_EFORMAT, "'%s' is truncated: it has %zu bytes, and its header takes %zu",
                       path, n, head);

    const uint32_t magic = (uint32_t)UNSIGNED_BYTES << 8 | (uint32_t)rank;
    if (qg__number_of(bytes, 4, true) != magic)
        return qg_fail(QG_EFORMAT,
                       "'%s' has magic number 0x%08" PRIx32 ", expected 0x%08" PRIx32
                       " (unsigned bytes, rank %d)",
                       path, qg__number_of(bytes, 4, true), magic, rank);

    /* Stopping at the first product beyond the file keeps it below 2^28 * 2^32. */
    uint64_t count = 1;
    for (int i = 0; i < rank && count <= n; i++) {
        const uint32_t extent = qg__number_of(bytes + 4 + 4 * i, 4, true);
        if (extent == 0) return qg_fail(QG_EFORMAT, "'%s' is empty: extent %d is 0", path, i);
        count *= extent;
        dims[i] = (int)extent;
    }
    if (count > n - head)
        return qg_fail(QG_EFORMAT, "'%s' is truncated: it has %zu bytes, but its header promises more",
                       path, n);
    if (count < n - head)
        return qg_fail(QG_EFORMAT, "'%s' is too long: it has %zu bytes, but its header promises %" PRIu64,
                       path, n, head + count);
    return QG_OK;
}

/* Returns the values, from malloc, and sets their extents. */
static uint8_t *idx_read(const char *path, int rank, int *dims)
{
    uint8_t *bytes = NULL;
    size_t   n     = 0;
    if (!path) return NULL;
    if (qg__file_read_in(QG_BY_PATH, path, MAX_BYTES, &bytes, &n))
        return (void)qg__dataset_absent(path), NULL;
    if (idx_check(path, bytes, n, rank, dims)) {
        free(bytes);
        return NULL;
    }
    const size_t head = 4 + 4 * (size_t)rank;
    return memmove(bytes, bytes + head, n - head);
}

/* *to receives the labels, from malloc. */
static qg_status labels_take(const char *path, const uint8_t *labels, int n, int images, uint16_t **to)
{
    if (n != images)
        return qg_fail(QG_EFORMAT, "'%s' has %d label%s for %d image%s", path, n, n == 1 ? "" : "s", images,
                       images == 1 ? "" : "s");
    for (int i = 0; i < n; i++)
        if (labels[i] >= CLASSES)
            return qg_fail(QG_EFORMAT, "'%s': label %d is %d, but the classes are 0..%d", path, i,
                           labels[i], CLASSES - 1);
    *to = malloc((size_t)n * sizeof **to);
    if (!*to) return qg_fail(QG_EMEM, "'%s': out of memory: %d labels", path, n);
    for (int i = 0; i < n; i++) (*to)[i] = labels[i];
    return QG_OK;
}

static qg_loader *mnist(const char *dir, const char *images, const char *labels,
                        qg_loader_spec spec)
{
    char        path[QG__PATH_BYTES];
    int         dims[MAX_RANK] = { 0 };
    qg__dataset set            = { .classes = CLASSES };

    set.images = idx_read(qg__dataset_path(dir, images, path), 3, dims);
    set.shape  = (qg_shape){ dims[0], dims[1], dims[2], 1 };
    uint8_t *bytes = set.images ? idx_read(qg__dataset_path(dir, labels, path), 1, dims) : NULL;
    if (!bytes || labels_take(path, bytes, dims[0], set.shape.n, &set.labels)) qg__dataset_free(&set);
    free(bytes);
    return qg__loader_new(set, spec);
}

qg_loader *qg__mnist(const char *dir, bool test, qg_loader_spec spec)
{
    return test ? mnist(dir, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", spec)
                : mnist(dir, "train-images-idx3-ubyte", "train-labels-idx1-ubyte", spec);
}
