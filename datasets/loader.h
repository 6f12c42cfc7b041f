/* datasets/loader.h — data sets in batches.
 *
 * A loader holds a whole data set in memory, one byte per value, and serves it as float batches.
 * If a folder has too many images for that, they are decoded when they are needed (.cache_bytes).
 * Each epoch contains every image once.  The order is a pure function of (seed, epoch), and the
 * augmentation of an image is a pure function of (seed, epoch, image).  The same seed therefore
 * gives the same batches on any number of threads and after any seek.
 *
 *     qg_loader *train = qg_data_train("cifar10", dir,
 *                                      (qg_loader_spec){ .batch     = 128,
 *                                                        .seed      = 7,
 *                                                        .normalise = { .kind = QG_PER_CHANNEL },
 *                                                        .augment   = { .pad = 4, .flip = true } });
 *     qg_loader *test  = qg_data_test("cifar10", dir,
 *                                     (qg_loader_spec){ .batch      = 500,
 *                                                       .preprocess = qg_loader_preprocess(train) });
 */
#ifndef QG_LOADER_H
#define QG_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/io/keys.h"
#include "core/status.h"
#include "core/tensor.h"
#include "datasets/preprocess.h"

enum { QG_MAX_CLASSES = 65535 };

typedef struct qg_batch {
    qg_tensor       x;      /* [n][h][w][c], normalised, then augmented */
    const uint16_t *y;      /* [n], class indices */
    uint64_t        step;   /* batches since the first epoch began */
    int             n;      /* images in the batch: x.shape.n, or of all ranks together (core/dist/ranks.h) */
} qg_batch;

/* What lies outside an image: zeros, the image mirrored at its outermost pixel, or copies
 * of the outermost pixel. */
typedef enum qg_border { QG_BORDER_ZERO, QG_BORDER_REFLECT, QG_BORDER_REPEAT } qg_border;

/* Random changes, drawn for each image in each epoch and applied in this order; {0} changes nothing.
 * rotate, scale and pad are one bilinear interpolation, unless there is only pad.  An image that shrinks is
 * not blurred before.  Augmentation follows normalisation, so per-pixel means stay with their pixels, and the
 * zeros of a border or a cutout are the mean of the images (black under QG_TO_UNIT, and
 * under QG_TO_RANGE the byte that becomes 0, as 127.5 in -1..1). */
typedef struct qg_augment {
    float     rotate;       /* by -rotate..rotate degrees around the center, uniform; 0..180 */
    float     scale;        /* to 1 - scale .. 1 + scale times its size, uniform; 0..0.5 */
    int       pad;          /* pixels on each side, followed by a random crop of the original size: every
                               offset in -pad..pad is equally likely.  Less than the smaller side */
    qg_border border;       /* what rotate, scale and pad show of the outside */
    bool      flip;         /* left to right, with probability 1/2 */
    int       cutout;       /* side of a square of zeros around a random pixel, clipped at the
                               border; at most the smaller side; 0: none.     arXiv:1708.04552v2 */
} qg_augment;

/* Images of a training set that are held out for validation: a number of images, or a fraction of
 * all, rounded; {0}: none.
 *
 * .seed of the loader determines which.  Each class gives images in proportion to its size: if n
 * of N images are held out, a class of m images gives n m / N, rounded down, and the classes with
 * the largest remainders give one more.  A class keeps at least one image.  The statistics of the
 * normalisation are computed from the images that remain. */
typedef struct qg_holdout {
    int    images;          /* fewer than all; 0: use share */
    double share;           /* a fraction, 0 <= share < 1 */
} qg_holdout;

typedef struct qg_loader_spec {
    int              batch;         /* required, >= 1; the last batch of an epoch may be shorter */
    uint64_t         seed;
    bool             in_order;      /* in the order of the set; false: a new order each epoch */
    qg_normalise     normalise;     /* with the statistics of this set; or else: */
    const qg_preprocess *preprocess;    /* of the training images or of a checkpoint; copied.  NULL:
                                           use normalise */
    qg_augment       augment;       /* for training only */
    const uint16_t  *classes;       /* keep only the images of these classes, which become classes
                                       0, 1, 2 and so on in this order; read during the call; NULL:
                                       all classes */
    int              n_classes;     /* length of classes; 0 where the text of a set names classes */
    qg_holdout       validation;    /* of a training set: these images are qg_loader_validation */
    size_t           cache_bytes;   /* of a folder: bytes of decoded images that may stay in memory;
                                       other images are decoded, by all threads, whenever they are
                                       needed.  0: the whole set if it takes at most half of the
                                       memory, else a quarter of the memory, with a warning.
                                       Batches, digest and statistics do not depend on it */
} qg_loader_spec;

/* Every function below that returns a loader returns NULL if the spec is illegal.  QG_EARG: batch
 * < 1, an augmentation or range out of bounds, a class that the set does not have or that is given
 * twice, classes without images, or more validation images than the classes can spare.  QG_ESHAPE:
 * preprocess is for images of another size.  QG_EMEM. */

/* The training and the test images of a data set by name.
 *
 *     mnist            [60000][28][28][1] and [10000][28][28][1], classes 0..9: dir has
 *                      {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte, uncompressed, with
 *                      any number and size of images
 *     fashion-mnist    the same files, of clothes
 *     cifar10          [50000][32][32][3] and [10000][32][32][3], red, green, blue, classes 0..9:
 *                      data_batch_1.bin .. data_batch_5.bin and test_batch.bin of the binary version, with
 *                      any number of records
 *     cifar100         the same sizes, the fine classes 0..99: train.bin and test.bin
 *     sample           [2000][28][28][1] and [500][28][28][1], classes 0..9: train.png and test.png of
 *                      datasets/sample; image i has label i % 10
 *     synthetic        noise [8192][28][28][1] and [1024][28][28][1]; needs no files
 *     folder:32x32x3   qg_folder of dir/train and dir/test
 *     arrays:train=a.npy,train-labels=b.npy,test=c.npy,test-labels=d.npy,classes=10
 *                      qg_npy of these files in dir; a split that is not opened may be missing.
 *                      With validation= and validation-labels=, qg_loader_validation of the
 *                      training images, from which none are then held out
 *
 * mnist:classes=0+1+7 keeps these classes, as .classes does; all others except folder and arrays
 * have the same key.
 *
 * dir may be NULL, except for folder: it is then datasets/NAME, in the working directory, in
 * $QGRAD_SHARE or in PREFIX/share/qgrad.
 *
 * Memory   The loader is the caller's; qg_loader_free.
 * Fails    NULL.  QG_EARG: text is illegal; the message lists the legal values.  QG_EIO: a file is
 *          missing or unreadable; the message names it, and how to get it.  QG_EFORMAT: a file has
 *          another format, is shorter or longer than its header states, or has a label out of
 *          range.  QG_EMEM.
 */
qg_loader *qg_data_train(const char *text, const char *dir, qg_loader_spec spec);
qg_loader *qg_data_test(const char *text, const char *dir, qg_loader_spec spec);

/* What the authors of a set call its class k, such as class 3 of cifar10 "cat"; NULL: by its number. */
const char *qg_data_class(const char *name, int k);
/* The size of one image of the set, n = 1, and the number of classes (0: one for each directory, or
 * as many as the labels of arrays need), without reading the images.  Sets with a name of their own have the
 * size above; their files are not opened.
 *
 * Fails    {0}.  QG_EARG: text is illegal; QG_EIO: a file of arrays is missing or unreadable;
 *          QG_EFORMAT: it has another format. */
qg_shape   qg_data_image(const char *text, const char *dir, int *classes);

extern const qg_variant qg_data_sets[];     /* their names and keys */
extern const qg_variant qg_normalisations[];    /* the kinds of qg_normalise, in this order */
extern const qg_key     qg_augment_keys[];  /* of a qg_augment as text, "pad=4,flip" (qg_recipe_set) */

/* A folder of images: dir has one folder per class, each with PNG, JPEG or BMP files.  Classes,
 * and the images of a class, are numbered by name, in byte order.  Names that begin with a dot are
 * skipped.  Folders and other kinds of files within a class, and files next to the class folders,
 * are skipped with a warning (qg_loader_warning).  There is also a warning if there is only one
 * class, and if the names of classes differ only in case, which other file systems do not
 * distinguish.
 *
 * Shapes   image is the shape of one image; its n is ignored; c is 1 (grey) or 3 (red, green, blue).
 *          A photograph is turned as its orientation in Exif says.  An image of another size is resized to
 *          this shape, without keeping its proportions, by a triangle filter: linear interpolation, which
 *          widens to cover every pixel when it shrinks.
 * Range    1 to QG_MAX_CLASSES classes, at least one image in each.  A file has at most 64 MiB, 2^26 pixels
 *          and, as a progressive JPEG, 100 scans.
 * Memory   The loader is the caller's; qg_loader_free.  It decodes every image once, even if they do not
 *          stay in memory (.cache_bytes), in which case whitening fails with QG_EARG.
 * Fails    NULL.  QG_EIO: a folder or file is missing or unreadable.  QG_EFORMAT: an image is
 *          damaged (checksums of a PNG are verified) or beyond a limit, a class is empty, there are no
 *          classes or too many.  QG_EARG: image.  QG_EMEM.  The message names the file or folder.
 */
qg_loader *qg_folder(const char *dir, qg_shape image, qg_loader_spec spec);

/* Images from memory: bytes [n][h][w][c], where shape is { n, h, w, c }, and labels [n]; both are
 * copied.
 *
 * Range    1 <= classes <= QG_MAX_CLASSES; labels 0 .. classes-1.
 * Memory   The loader is the caller's; qg_loader_free.
 * Fails    NULL.  QG_EARG: NULL, an empty shape, classes or a label out of range; the message names it.
 *          QG_EMEM.
 */
qg_loader *qg_arrays(qg_shape shape, const uint8_t *images, const uint16_t *labels, int classes,
                     qg_loader_spec spec);

/* Images and labels in two files written by NumPy's save: versions 1 to 3 of the format, in C
 * order, little-endian.
 *
 * Shapes   images: uint8 [n][h][w] (one channel) or [n][h][w][c]; h, w and c are at most 4096.
 *          labels: any integer type, [n] or [n][1].
 * Range    Labels are 0 .. classes-1.  classes 0: one more than the greatest label.
 * Memory   The loader is the caller's; qg_loader_free.
 * Fails    NULL.  QG_EIO: a file is missing or unreadable.  QG_EFORMAT: a file has another format,
 *          type, order or shape, is truncated or too long, has a label out of range, or the
 *          numbers of images and labels differ.  QG_EARG and QG_EMEM as above.  The message names
 *          the file.  There is a warning (qg_loader_warning) if channels seem to come before the
 *          height, as in PyTorch.
 */
qg_loader *qg_npy(const char *images, const char *labels, int classes, qg_loader_spec spec);

/* n images of noise, for benchmarks: bytes are uniform; image i has label i % classes.
 *
 * Shapes   image is the shape of one image; its n is ignored.
 * Range    1 <= n, 1 <= classes <= QG_MAX_CLASSES.  Every spec gives the same images; the seed only orders
 *          them.
 * Memory   The loader is the caller's; qg_loader_free.
 * Fails    NULL.  QG_EARG: out of range.  QG_EMEM.
 */
qg_loader *qg_synthetic(qg_shape image, int n, int classes, qg_loader_spec spec);

/* The next batch, or false at the end of the epoch; the call after that begins the next epoch.
 *
 *     for (qg_batch b; qg_loader_next(l, &b); ) ...        one epoch, or the rest of it
 *
 * Memory   b.x and b.y belong to the loader and stay valid until the next call.  Nothing is allocated,
 *          except by the decoders of images that are not in memory.
 * Fails    Only if an image that is not in memory cannot be decoded again, or has changed since
 *          the loader was made: it then returns false, in this call and all later ones, and
 *          qg_loader_status returns the failure; at the end of an epoch that is QG_OK.  If l is
 *          NULL, it returns false.
 */
bool qg_loader_next(qg_loader *l, qg_batch *b);

/* QG_OK, or the failure of an earlier qg_loader_next, with its message: as qg_folder, or QG_EIO if
 * a file has changed.  QG_EARG: l is NULL; the message says why it could not be made. */
QG_MUST_CHECK
qg_status qg_loader_status(const qg_loader *l);

/* The position of the loader: the epoch and the batch that qg_loader_next returns next, both counted from 0.
 * batch = qg_loader_batches(l) is the end of the epoch: the next call of qg_loader_next returns
 * false.
 *
 * Range    batch 0..qg_loader_batches(l); epoch such that b.step fits in 64 bits.
 * Fails    qg_loader_seek: QG_EARG; the position does not change.
 */
void      qg_loader_tell(const qg_loader *l, uint64_t *epoch, uint64_t *batch);
QG_MUST_CHECK
qg_status qg_loader_seek(qg_loader *l, uint64_t epoch, uint64_t batch);

qg_shape  qg_loader_shape(const qg_loader *l);      /* of the set: n images of [h][w][c] */
int       qg_loader_classes(const qg_loader *l);    /* labels are 0 .. classes-1 */
int       qg_loader_batches(const qg_loader *l);    /* per epoch, including a short last one */

/* The bytes and labels of the set in its order, before preprocessing, for programs that preprocess
 * images themselves, as the engine does (infer/infer.h): bytes [n][h][w][c] of images
 * first .. first + n - 1, and all labels.
 *
 * Memory   Owned by l.  Images that are in memory are not copied; others are decoded by all threads
 *          into room [n][h][w][c], which is then the result.
 * Fails    qg_loader_bytes: NULL.  As qg_loader_next, with the message of the first image that
 *          fails; QG_EARG: the set lacks one of these images, the images have been whitened, or they are
 *          not in memory and room is NULL. */
const uint8_t  *qg_loader_bytes(const qg_loader *l, int first, int n, uint8_t *room);
const uint16_t *qg_loader_labels(const qg_loader *l);

/* Image i of the set, preprocessed and without augmentation: x [h][w][c].  The position of the loader
 * does not change, and of several ranks each may read other images.  Fails as qg_loader_next. */
QG_MUST_CHECK
qg_status qg_loader_image(qg_loader *l, uint64_t i, float *x);

/* Writes the path of the file of image i, as "DIR/cat/7.png".  False: the set is none of qg_folder;
 * its images are in memory, and it is not .in_order, or some are held out; or the path is longer than
 * bytes. */
bool      qg_loader_file(const qg_loader *l, uint64_t i, char *path, size_t bytes);

/* The images that .validation has held out, preprocessed like those of l, in the order of the set
 * and without augmentation; NULL: there are none.
 *
 *     qg_loader *train = qg_data_train("cifar10", dir, (qg_loader_spec){ .batch = 128, .seed = 7,
 *                                                                        .validation = { .images = 5000 } });
 *     .. qg_fit(net, (qg_fit_spec){ .train = train, .validation = qg_loader_validation(train), ..
 *
 * Memory   Owned by l, and freed with it. */
qg_loader *qg_loader_validation(const qg_loader *l);

/* The names of the classes in the order of their numbers, each ended by NUL.  Classes have names in
 * a folder, and if they were chosen with .classes; without a folder, the name is then the former
 * number, "7".  Otherwise the result is NULL. */
const char *qg_loader_class_names(const qg_loader *l);

/* A warning, in one line, about what may be a mistake in the set: files that were skipped; images
 * with 16 bits per value, of which the high 8 are used; arrays that look like [n][c][h][w]; files that each
 * epoch decodes again for lack of memory; unless .in_order, a class without images, or only bytes 0 and 1.
 * NULL: nothing.  It belongs to l. */
const char *qg_loader_warning(const qg_loader *l);
void      qg_loader_free(qg_loader *l);             /* NULL is ignored */

#endif
