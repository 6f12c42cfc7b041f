/* datasets/loader.h — batches.
 *
 * A loader holds a whole data set in memory, one byte per value, and hands it out as float batches:
 * every image once per epoch, in an order that is a pure function of (seed, epoch), and changed in a
 * way that is a pure function of (seed, epoch, image).  The same seed therefore gives the same
 * batches on any number of threads and after any seek.
 *
 *     qg_loader *train = qg_cifar10_train(dir, (qg_loader_spec){ .batch     = 128,
 *                                                                .seed      = 7,
 *                                                                .normalise = { .kind = QG_PER_CHANNEL },
 *                                                                .augment   = { .pad = 4, .flip = true } });
 *     qg_loader *test  = qg_cifar10_test(dir, (qg_loader_spec){ .batch = 500, .normalise_as = train });
 */
#ifndef QG_LOADER_H
#define QG_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include "core/tensor.h"

typedef struct qg_loader qg_loader;

typedef struct qg_batch {
    qg_tensor      x;       /* [n][h][w][c], normalised, then augmented */
    const uint8_t *y;       /* [n], class indices */
    uint64_t       step;    /* batches since the first epoch began */
} qg_batch;

/* How the bytes of an image become what a net reads, with x = byte / 255.
 *
 *     QG_TO_UNIT          x                            0..1, rounded once
 *     QG_TO_RANGE         low + (high - low) x         { QG_TO_RANGE, -1, 1 } is 2x - 1
 *     QG_PER_CHANNEL   (x - m) / d                  mean and deviation of a channel, over all images
 *     QG_PER_PIXEL     (x - m) / d                  of each value of the image, over all images
 *     QG_WHITEN        P (g - m)                    GCN, then ZCA:
 *                      g = 55 (x - mean(x)) / |x - mean(x)|, each image by itself
 *                      m = mean of g over the images,  C = their covariance
 *                      P = (C + 0.1)^(-1/2)
 *
 * Range    d is the deviation of the whole set (not n - 1 of it); where a value never changes, 1 and
 *          thus the result 0.  An image of one colour has g = 0.
 * Memory   QG_WHITEN keeps the set as floats, and P: 600 + 38 MB for CIFAR-10, whose P takes 20 to 60
 *          seconds.  The others need two numbers per value of one image.
 * Source   QG_WHITEN is Pylearn2's CIFAR-10 "gcn_whitened", which BinaryConnect (1511.00363v3) and
 *          others train on.
 */
typedef enum qg_normalise_kind {
    QG_TO_UNIT,
    QG_TO_RANGE,
    QG_PER_CHANNEL,
    QG_PER_PIXEL,
    QG_WHITEN
} qg_normalise_kind;

typedef struct qg_normalise {
    qg_normalise_kind kind;
    float             low, high;        /* of QG_TO_RANGE, low < high */
} qg_normalise;

/* What is beyond the border of an image: 0, the image mirrored in its outermost pixel, or its
 * outermost pixel. */
typedef enum qg_border { QG_BORDER_ZERO, QG_BORDER_REFLECT, QG_BORDER_REPEAT } qg_border;

/* What is drawn anew for each image in each epoch; {0} changes nothing.  In this order, and after
 * normalisation: the zeros of a border and of a cutout are the mean of the images where that is
 * taken off, black under QG_TO_UNIT, and no recipe's per-pixel means move with the image. */
typedef struct qg_augment {
    int       pad;          /* on each side, then a random crop of the old size: every offset of
                               -pad..pad has the same chance.  Less than the smaller side */
    qg_border border;       /* of pad */
    bool      flip;         /* left to right, in half of the cases */
    int       cutout;       /* side of a square of zeros around a random pixel, cut at the border;
                               at most the smaller side.  1708.04552v2 */
} qg_augment;

typedef struct qg_loader_spec {
    int              batch;         /* required, >= 1; the last batch of an epoch may be shorter */
    uint64_t         seed;
    bool             in_order;      /* default: a new permutation each epoch */
    qg_normalise     normalise;     /* by statistics of this set, */
    const qg_loader *normalise_as;  /* or by those of another loader, which are copied; NULL: none */
    qg_augment       augment;       /* for training alone */
} qg_loader_spec;

/* Every function below that makes a loader can also fail because of its spec, with NULL and QG_EARG:
 * batch < 1, an augmentation or a range that is none; QG_ESHAPE: normalise_as images of another size;
 * QG_EMEM. */

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

/* Small photographs: [50000][32][32][3] and [10000][32][32][3], red, green, blue; classes 0..9, or
 * 0..99: the fine ones.
 *
 * dir holds the binary version of the set, unpacked: data_batch_1.bin .. data_batch_5.bin and
 * test_batch.bin of CIFAR-10, which `datasets/fetch.sh cifar10` puts there, or train.bin and test.bin
 * of CIFAR-100.  A file has records and nothing else, so any whole number of them is read.
 *
 * Memory   The loader is the caller's; qg_loader_free.
 * Fails    NULL.  QG_EIO: a file is missing or unreadable.  QG_EFORMAT: it is no whole number of
 *          records, at least one; or a label is not of its classes.  QG_EARG and QG_EMEM as above.
 *          The message names the file.
 */
qg_loader *qg_cifar10_train(const char *dir, qg_loader_spec spec);
qg_loader *qg_cifar10_test(const char *dir, qg_loader_spec spec);
qg_loader *qg_cifar100_train(const char *dir, qg_loader_spec spec);
qg_loader *qg_cifar100_test(const char *dir, qg_loader_spec spec);

/* A folder of images: one folder per class in dir, PNG, JPEG or BMP files in each.  Classes are
 * numbered by name, and so are the images of a class, in byte order; what begins with a dot and other
 * kinds of files in a class are skipped, as are files beside the classes.
 *
 * Shapes   image is the shape of one image, its n is ignored; c is 1 (grey) or 3 (red, green, blue).
 *          An image of another size is resized, without regard to its proportions, by a triangle
 *          filter: linear interpolation, widened to cover every pixel where it shrinks.
 * Range    1 to 256 classes, at least one image in each.
 * Memory   The loader is the caller's; qg_loader_free.
 * Fails    NULL.  QG_EIO: a folder or file is missing or unreadable.  QG_EFORMAT: an image is
 *          damaged (a PNG's checksums are compared), a class is empty, classes are too many or none.  QG_EARG: image.  QG_EMEM.  The
 *          message names the file or folder.
 */
qg_loader *qg_folder(const char *dir, qg_shape image, qg_loader_spec spec);

/* QG_OK if the classes of both have the same names, and so the same numbers: those of a training and
 * a test folder must.  Fails with QG_EFORMAT and the first that differs; QG_EIO; QG_EARG: NULL. */
QG_MUST_CHECK
qg_status  qg_folder_same_classes(const char *a, const char *b);

/* The sample in datasets/sample: [2000][28][28][1] and [500][28][28][1], pictures of clothes,
 * classes 0..9 in equal parts.  Image i has label i % 10.
 *
 * Memory   The loader is the caller's; qg_loader_free.
 * Fails    NULL.  QG_EIO: dir/train.png or dir/test.png is missing or unreadable.  QG_EFORMAT: it
 *          is no 8-bit grey PNG of the right size, or damaged.  QG_EARG and QG_EMEM as above.
 */
qg_loader *qg_sample_train(const char *dir, qg_loader_spec spec);
qg_loader *qg_sample_test(const char *dir, qg_loader_spec spec);

/* Images that the program has itself: bytes [n][h][w][c] and labels [n], both copied.
 *
 * Range    1 <= classes <= 256; labels 0 .. classes-1.
 * Memory   The loader is the caller's; qg_loader_free.
 * Fails    NULL.  QG_EARG: NULL, an empty shape, classes, a label that is none; the message names it.
 *          QG_EMEM.
 */
qg_loader *qg_arrays(qg_shape shape, const uint8_t *images, const uint8_t *labels, int classes, qg_loader_spec spec);

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

/* Of the bytes and labels of the set, whatever is made of them: a hash that tells sets apart. */
uint64_t  qg_loader_digest(const qg_loader *l);

/* Of the names of the classes, in the order of their numbers; 0 where there are none: in all sets but
 * folders. */
uint64_t  qg_loader_class_digest(const qg_loader *l);
void      qg_loader_free(qg_loader *l);             /* NULL is ignored */

#endif
