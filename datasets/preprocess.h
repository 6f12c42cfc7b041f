/* datasets/preprocess.h — from the bytes of an image to the input of a net, in the same way as in training.
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
 *     QG_PER_CHANNEL      (x - m) / d               mean and deviation of a channel over all images
 *     QG_PER_PIXEL        (x - m) / d               mean and deviation of each value over all images
 *     QG_WHITEN           P (g - m)                 GCN, then ZCA:
 *                         g = 55 (x - mean(x)) / |x - mean(x)|, for each image separately
 *                         m = mean of g over the images,  C = their covariance
 *                         P = (C + 0.1)^(-1/2)
 *
 * Range    d divides by n, not n - 1.  For a value that never changes d is 1, so the result is 0.  An
 *          image of one colour has g = 0.
 * Memory   QG_WHITEN keeps the set as floats, and P: 600 + 38 MB for CIFAR-10.  Computing P takes 20 to
 *          60 seconds there.  The other kinds need two numbers per value of one image.
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

typedef struct qg_normalise {
    qg_normalise_kind kind;
    float             low, high;        /* for QG_TO_RANGE; low < high */
} qg_normalise;

/* That of a loader, which owns it. */
const qg_preprocess *qg_loader_preprocess(const qg_loader *l);

qg_shape             qg_preprocess_shape(const qg_preprocess *p);       /* of one image: 1,h,w,c */
qg_normalise         qg_preprocess_normalise(const qg_preprocess *p);

bool qg_preprocess_equal(const qg_preprocess *a, const qg_preprocess *b); /* the same x for every image */

/* An image from a PNG, JPEG or BMP file of any size, turned and resized like those of qg_folder: bytes
 * [h][w][c] of a shape with n = 1.  A colour image becomes grey if c is 1, and of 16 bits per value the
 * high ones count; *deep, unless deep is NULL: the file has so many.
 *
 * Fails    bytes may then hold anything.  As qg_folder; QG_EARG: c is neither 1 nor 3, or a side is above
 *          4096. */
QG_MUST_CHECK
qg_status            qg_image_read(const char *path, qg_shape image, uint8_t *bytes, bool *deep);

/* x = the preprocessed image of a PNG, JPEG or BMP file of any size, which is turned and resized like those
 * of qg_folder; a colour image becomes grey if c is 1, and of 16 bits per value the high ones count.
 *
 * Shapes   x [h][w][c].
 * Range    The bits are those of training, except with QG_WHITEN, where a product of matrices may round the
 *          last bit differently.
 * Fails    x is then unchanged.  As qg_folder; QG_EARG: p or path is NULL, c is neither 1 nor 3, or a side
 *          is above 4096.
 */
QG_MUST_CHECK
qg_status            qg_preprocess_image(const qg_preprocess *p, const char *path, float *x);

/* The same for an image of the right size in memory, bytes [h][w][c]. */
QG_MUST_CHECK
qg_status            qg_preprocess_bytes(const qg_preprocess *p, const uint8_t *bytes, float *x);

/* The preprocessing as x = (byte / 255 - mean) / deviation with so many numbers of each, as few as there
 * can be: 1, one per channel, or one per value of an image.  qg_packed_spec has these three.
 *
 * Memory   mean and deviation belong to p.
 * Fails    QG_EARG: p is NULL, or whitens, which no such numbers express. */
QG_MUST_CHECK
qg_status            qg_preprocess_numbers(const qg_preprocess *p, int *numbers, const float **mean,
                                           const float **deviation);

#define QG_WHITENING_FILE "whitening.safetensors"

/* Notes p in a checkpoint: "image" ("28x28x1"), "normalise" ("channel") and, as decimal numbers that round
 * to the same floats, "normalise.mean" and "normalise.deviation": one per channel or one per value, as the
 * kind has them.
 *
 * QG_WHITEN notes a hash of its matrix, which is too large for every checkpoint, as "normalise.whitening".
 * qg_preprocess_state adds the matrix and the mean to another state, borrowed, which is to be saved as
 * QG_WHITENING_FILE in the directory of the checkpoint.  For other kinds it adds nothing and returns
 * false. */
void                 qg_preprocess_note(const qg_preprocess *p, qg_state *checkpoint);
bool                 qg_preprocess_state(const qg_preprocess *p, qg_state *whitening);

/* The preprocessing of a checkpoint, of which it reads only the header and verifies only the checksum of
 * that.
 *
 * Memory   The caller's; qg_preprocess_free.
 * Fails    NULL.  As qg_archive_open; QG_ESTATE: the file notes none, as one of another program;
 *          QG_EFORMAT: what it notes is damaged, or whitening.safetensors has another matrix; QG_EMEM.  The
 *          message names the file.
 */
qg_preprocess       *qg_preprocess_open(const char *path);
void                 qg_preprocess_free(qg_preprocess *p);             /* NULL is ignored */

#endif
