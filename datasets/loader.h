/* datasets/loader.h — batches.
 *
 * A loader holds a whole data set in memory, one byte per value, and hands it out as float batches:
 * every image once per epoch, in an order that is a pure function of (seed, epoch).  The same seed
 * therefore gives the same batches on any number of threads and after any seek.
 */
#ifndef QG_LOADER_H
#define QG_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include "core/tensor.h"

typedef struct qg_loader qg_loader;

typedef struct qg_batch {
    qg_tensor      x;       /* [n][h][w][c], 0..1: byte / 255, rounded once */
    const uint8_t *y;       /* [n], class indices */
    uint64_t       step;    /* batches since the first epoch began */
} qg_batch;

typedef struct qg_loader_spec {
    int      batch;         /* required, >= 1; the last batch of an epoch may be shorter */
    uint64_t seed;
    bool     in_order;      /* default: a new permutation each epoch */
} qg_loader_spec;

/* Handwritten digits: [60000][28][28][1] and [10000][28][28][1], classes 0..9.
 *
 * dir holds {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte, not compressed;
 * `datasets/fetch.sh mnist` puts them there.  Sets in the same format, such as Fashion-MNIST, are
 * read as well, with any number and size of images.
 *
 * Memory   The loader is the caller's; qg_loader_free.
 * Fails    NULL.  QG_EIO: a file is missing or unreadable.  QG_EFORMAT: wrong magic number, an
 *          extent of zero, shorter or longer than its header says, not as many labels as images, a
 *          label above 9.  QG_EARG: dir is NULL, spec.batch < 1.  QG_EMEM.  The message names the
 *          file.
 */
qg_loader *qg_mnist_train(const char *dir, qg_loader_spec spec);
qg_loader *qg_mnist_test(const char *dir, qg_loader_spec spec);

/* The sample in datasets/sample: [2000][28][28][1] and [500][28][28][1], pictures of clothes,
 * classes 0..9 in equal parts.  Image i has label i % 10.
 *
 * Memory   The loader is the caller's; qg_loader_free.
 * Fails    NULL.  QG_EIO: dir/train.png or dir/test.png is missing or unreadable.  QG_EFORMAT: it
 *          is no 8-bit grey PNG of the right size, or cannot be unpacked (checksums are not
 *          compared).  QG_EARG and QG_EMEM as above.
 */
qg_loader *qg_sample_train(const char *dir, qg_loader_spec spec);
qg_loader *qg_sample_test(const char *dir, qg_loader_spec spec);

/* n images of noise for benchmarks: bytes are uniform, image i has label i % classes.
 *
 * Shapes   image is the shape of one image; its n is ignored.
 * Range    1 <= n, 1 <= classes <= 256.  The same images for every spec: the seed orders them.
 * Memory   The loader is the caller's; qg_loader_free.
 * Fails    NULL.  QG_EARG: out of range.  QG_EMEM.
 */
qg_loader *qg_synthetic(qg_shape image, int n, int classes, qg_loader_spec spec);

/* The next batch; false ends the epoch, and the call after that starts the next one.
 *
 *     for (qg_batch b; qg_loader_next(l, &b); ) ...        one epoch, or the rest of it
 *
 * Memory   b.x and b.y belong to the loader and are overwritten by the next call.  Nothing is
 *          allocated.
 * Fails    Never.  NULL: false, at once.
 */
bool qg_loader_next(qg_loader *l, qg_batch *b);

/* Where the loader stands, and how to stand there again: the next qg_loader_next gives that batch
 * of that epoch, both counted from 0.  batch = qg_loader_batches(l) is the end of the epoch: the
 * next qg_loader_next returns false.
 *
 * Range    batch 0..qg_loader_batches(l); epoch as far as b.step fits in 64 bits.
 * Fails    qg_loader_seek: QG_EARG, and the loader stands where it stood.
 */
void      qg_loader_tell(const qg_loader *l, uint64_t *epoch, uint64_t *batch);
QG_MUST_CHECK
qg_status qg_loader_seek(qg_loader *l, uint64_t epoch, uint64_t batch);

qg_shape  qg_loader_shape(const qg_loader *l);      /* of the set: n images of [h][w][c] */
int       qg_loader_classes(const qg_loader *l);    /* labels are 0 .. classes-1 */
int       qg_loader_batches(const qg_loader *l);    /* per epoch, the short one included */
void      qg_loader_free(qg_loader *l);             /* NULL is ignored */

#endif
