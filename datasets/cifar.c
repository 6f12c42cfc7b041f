/* The binary version of CIFAR: records of labels, then 1024 bytes each of red, green and blue. */
#include <stdio.h>
#include <stdlib.h>

#include "core/io/file.h"
#include "datasets/dataset.h"

enum { SIDE = 32, PLANE = SIDE * SIDE, CHANNELS = 3, IMAGE = CHANNELS * PLANE, MOST_FILES = 5 };

/* Five times CIFAR-100. */
#define MAX_BYTES ((size_t)1 << 30)

typedef struct layout {
    int classes;
    int labels;             /* bytes before an image, the last of which is the class */
} layout;

static const layout cifar10 = { 10, 1 }, cifar100 = { 100, 2 };

static int record_bytes(layout l) { return l.labels + IMAGE; }

/* The records of a file, from malloc, and their number; NULL on failure. */
static uint8_t *records_read(const char *path, layout l, int *n)
{
    uint8_t     *bytes  = NULL;
    size_t       size   = 0;
    const size_t record = (size_t)record_bytes(l);
    if (!path) return NULL;
    if (qg__file_read_in(QG_BY_PATH, path, MAX_BYTES, &bytes, &size)) {
        if (qg__dataset_absent(path))
            qg_fail(QG_EIO, "%s; the binary version of CIFAR-%d is needed", qg_errmsg(), l.classes);
        return NULL;
    }
    if (size > 0 && size % record == 0) {
        *n = (int)(size / record);
        return bytes;
    }
    const bool gzip   = size >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
    const bool pickle = size >= 2 && bytes[0] == 0x80 && bytes[1] <= 5;
    if (gzip)
        qg_fail(QG_EFORMAT, "'%s' is compressed with gzip; unpack it first", path);
    else if (pickle)
        qg_fail(QG_EFORMAT, "'%s' is of the Python version of CIFAR-%d; the binary version is needed", path,
                l.classes);
    else
        qg_fail(QG_EFORMAT, "'%s' is truncated or not a CIFAR-%d file: %zu bytes are not a multiple of %zu",
                path, l.classes, size, record);
    free(bytes);
    return NULL;
}

/* Planes to pixels. */
static void interleave(const uint8_t *planes, uint8_t *image)
{
    for (int i = 0; i < PLANE; i++)
        for (int c = 0; c < CHANNELS; c++) image[CHANNELS * i + c] = planes[c * PLANE + i];
}

static qg_status unpack(const char *path, layout l, const uint8_t *records, int n, qg__dataset *set, int at)
{
    for (int i = 0; i < n; i++) {
        const uint8_t *record = records + (size_t)i * (size_t)record_bytes(l);
        const int      label  = record[l.labels - 1];
        if (label >= l.classes)
            return qg_fail(QG_EFORMAT, "'%s': label %d is %d, but the classes are 0..%d", path, i, label,
                           l.classes - 1);
        set->labels[at + i] = (uint16_t)label;
        interleave(record + l.labels, set->images + (size_t)(at + i) * IMAGE);
    }
    return QG_OK;
}

static qg_loader *cifar(const char *dir, layout l, const char *const *names, int files, qg_loader_spec spec)
{
    char        path[QG__PATH_BYTES];
    uint8_t    *records[MOST_FILES] = { NULL };
    int         n[MOST_FILES]       = { 0 };
    qg__dataset set = { .shape = { 0, SIDE, SIDE, CHANNELS }, .classes = l.classes };
    bool        ok  = true;
    for (int i = 0; ok && i < files; i++) {
        records[i] = records_read(qg__dataset_path(dir, names[i], path), l, &n[i]);
        ok         = records[i] != NULL;
        set.shape.n += n[i];
    }
    ok = ok && qg__dataset_allocate(&set);
    for (int i = 0, at = 0; ok && i < files; at += n[i++])
        ok = !unpack(qg__dataset_path(dir, names[i], path), l, records[i], n[i], &set, at);
    for (int i = 0; i < files; i++) free(records[i]);
    if (!ok) qg__dataset_free(&set);
    return qg__loader_new(set, spec);
}

qg_loader *qg__cifar10(const char *dir, bool test, qg_loader_spec spec)
{
    static const char *const names[] = { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                         "data_batch_4.bin", "data_batch_5.bin" };
    return test ? cifar(dir, cifar10, (const char *const[]){ "test_batch.bin" }, 1, spec)
                : cifar(dir, cifar10, names, 5, spec);
}

qg_loader *qg__cifar100(const char *dir, bool test, qg_loader_spec spec)
{
    return cifar(dir, cifar100, (const char *const[]){ test ? "test.bin" : "train.bin" }, 1, spec);
}
