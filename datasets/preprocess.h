/* datasets/preprocess.h — turns the bytes of an image into the input of a net, as in training.
 *
 * A loader fits a preprocessing to its images.  A checkpoint stores it, so a program that uses the net
 * needs no training images:
 *
 *     qg_preprocess *p = qg_preprocess_open("runs/digits/best.safetensors");
 *     float         *x = malloc(qg_row(qg_preprocess_shape(p)) * sizeof *x);
 *     if (qg_preprocess_image(p, "seven.png", x)) ...
 */
#ifndef QG_PREPROCESS_H
#define QG_PREPROCESS_H

#include "core/io/state.h"
#include "core/status.h"
#include "core/tensor.h"

typedef struct qg_preprocess qg_preprocess;
typedef struct qg_loader qg_loader;

/* How the bytes of an image become the input of a net, with x = byte / 255.
 *
 *     QG_TO_UNIT          x                            0..1, rounded once
 *     QG_TO_RANGE         low + (high - low) x         { QG_TO_RANGE, -1, 1 } is 2x - 1
 *     QG_PER_CHANNEL      (x - m) / d               m, d: mean, standard deviation of each channel,
 *                                                   of the images or as given
 *     QG_PER_PIXEL        (x - m) / d               m, d: the same of each value, over all images
 *     QG_WHITEN           P (g - m)                 GCN, then ZCA:
 *                         g = 55 (x - mean(x)) / |x - mean(x)|, for each image separately
 *                         m = mean of g over the images,  C = their covariance
 *                         P = (C + 0.1)^(-1/2)
 *
 * Range    The variance is divided by n, not n - 1.  If a value never changes, d is 1, so the
 *          result is 0.  An image of one color has g = 0.
 * Memory   QG_WHITEN keeps the set as floats, and P: 600 + 38 MB for CIFAR-10, where computing P
 *          takes 20 to 60 seconds.  The other kinds need two floats per value of one image.
 * Source   QG_WHITEN is Pylearn2's CIFAR-10 "gcn_whitened", the training set of BinaryConnect
 *          (1511.00363v3) and others.
 */
typedef enum qg_normalise_kind {
    QG_TO_UNIT,
    QG_TO_RANGE,
    QG_PER_CHANNEL,
    QG_PER_PIXEL,
    QG_WHITEN
} qg_normalise_kind;

enum { QG_MOST_GIVEN = 4 };

typedef struct qg_normalise {
    qg_normalise_kind kind;
    float             low, high;        /* for QG_TO_RANGE; low < high */
    int               given;            /* for QG_PER_CHANNEL, the length of mean and deviation:
                                           1, or the number of channels; 0: those of the images */
    float             mean[QG_MOST_GIVEN], deviation[QG_MOST_GIVEN];    /* of x */
} qg_normalise;

/* The preprocessing of a loader, which owns it. */
const qg_preprocess *qg_loader_preprocess(const qg_loader *l);

qg_shape             qg_preprocess_shape(const qg_preprocess *p);       /* of one image: 1,h,w,c */
qg_normalise         qg_preprocess_normalise(const qg_preprocess *p);

/* Reads a PNG, JPEG or BMP file of any size, turned and resized as by qg_folder, to bytes
 * [h][w][c] of a shape with n = 1.  A color image becomes gray if c is 1; of 16 bits per value the
 * high 8 are used, and *deep, unless deep is NULL, is then true.  With NULL for bytes it reads
 * nothing and only checks the shape; path is then what the message names.
 *
 * Fails    As qg_folder; QG_EARG: c is neither 1 nor 3, or a side is above 4096.  The contents of
 *          bytes are then unspecified. */
QG_MUST_CHECK
qg_status            qg_image_read(const char *path, qg_shape image, uint8_t *bytes, bool *deep);

/* Whether a file name ends as those of such files do: .png, .jpg, .jpeg or .bmp, in either case. */
bool                 qg_image_named(const char *name);

/* Resizes an image in memory as qg_image_read does: from [is.h][is.w][c], to [want.h][want.w][c].
 *
 * Fails    QG_ESHAPE: the channels differ, or an extent is less than 1; QG_EMEM.  to is then unchanged. */
QG_MUST_CHECK
qg_status            qg_image_resize(const uint8_t *from, qg_shape is, uint8_t *to, qg_shape want);

/* Reads an image file as qg_image_read does, and preprocesses it: x is the input of the net.
 *
 * Shapes   x [h][w][c].
 * Range    x has the same bits as in training.
 * Fails    x is then unchanged.  As qg_folder; QG_EARG: p or path is NULL, c is neither 1 nor 3, or a side
 *          is above 4096.
 */
QG_MUST_CHECK
qg_status            qg_preprocess_image(const qg_preprocess *p, const char *path, float *x);

/* The same for an image of the right size in memory: bytes [h][w][c], x [h][w][c]. */
QG_MUST_CHECK
qg_status            qg_preprocess_bytes(const qg_preprocess *p, const uint8_t *bytes, float *x);

/* The preprocessing as x = (byte / 255 - mean) / deviation, for the three fields of
 * qg_export_spec.  *numbers is the length of mean and of deviation, as small as possible: 1, one
 * per channel, or one per value of an image.
 *
 * Memory   mean and deviation belong to p.
 * Fails    QG_EARG: p is NULL, or it whitens, which this formula cannot express. */
QG_MUST_CHECK
qg_status            qg_preprocess_numbers(const qg_preprocess *p, int *numbers, const float **mean,
                                           const float **deviation);

#define QG_WHITENING_FILE "whitening.safetensors"

/* qg_preprocess_note notes p in a checkpoint: "image" ("28x28x1"), "normalise" ("channel") and, as
 * decimal numbers that round to the same floats, "normalise.mean" and "normalise.deviation", one
 * per channel or one per value, depending on the kind.
 *
 * The matrix of QG_WHITEN is too large for every checkpoint, so only its hash is noted, as
 * "normalise.whitening".  qg_preprocess_state adds the matrix and the mean to another state, which
 * borrows them; save it as QG_WHITENING_FILE in the directory of the checkpoint.  For other kinds
 * it adds nothing and returns false. */
void                 qg_preprocess_note(const qg_preprocess *p, qg_state *checkpoint);
bool                 qg_preprocess_state(const qg_preprocess *p, qg_state *whitening);

/* Reads the preprocessing of a checkpoint.  It reads only the header of the file, and verifies
 * only the header's checksum.
 *
 * Memory   The caller's; qg_preprocess_free.
 * Fails    NULL.  As qg_archive_open; QG_ESTATE: the file has no such notes, because another
 *          program wrote it; QG_EFORMAT: the notes are damaged, or whitening.safetensors has
 *          another matrix; QG_EMEM.  The message names the file.
 */
qg_preprocess       *qg_preprocess_open(const char *path);
void                 qg_preprocess_free(qg_preprocess *p);             /* NULL is ignored */

#endif
