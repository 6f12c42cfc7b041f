/* datasets/dataset.h — for authors of data sets: a reader fills a qg__dataset and makes a loader of it. */
#ifndef QG_DATASET_H
#define QG_DATASET_H

#include <stdint.h>

#include "core/io/paths.h"
#include "datasets/loader.h"

typedef struct qg__files qg__files;     /* datasets/files.h */

/* Sums of bytes and of their squares.  Integers, so the order of the images does not matter. */
typedef struct qg__sums {
    uint64_t first, second;
} qg__sums;

/* A set, in memory or in files.  The arrays come from malloc. */
typedef struct qg__dataset {
    qg_shape  shape;            /* n images; every extent >= 1 */
    int       classes;          /* 1..QG_MAX_CLASSES */
    uint8_t  *images;           /* [n][h][w][c], 0..255; NULL: they are in */
    qg__files *files;           /* which a reader gives instead of images */
    uint32_t *file;             /* [n], the index of each in files */
    qg__sums *sums;             /* of the training images, for each channel or value; or NULL */
    uint16_t *labels;           /* [n], 0 .. classes-1, checked by the reader */
    char     *class_names;      /* one after the other, each ended by NUL; or NULL */
    uint64_t  class_digest;     /* their hash, or 0 */
    char     *warning;          /* of qg_loader_warning, or NULL */
} qg__dataset;

/* A loader of set, whose arrays it takes over even on failure.  A set that lacks an array comes from a reader
 * that failed: the result is NULL, and the reader's message is kept. */
qg_loader *qg__loader_new(qg__dataset set, qg_loader_spec spec);

/* True for 1..QG_MAX_CLASSES; otherwise false, QG_EARG. */
bool qg__dataset_classes(int classes);

/* Allocates images and labels for set->shape.  False: QG_EMEM, or QG_EARG for a shape that is empty or too
 * large. */
bool qg__dataset_allocate(qg__dataset *set);
void qg__dataset_free(qg__dataset *set);

/* Keeps only the images of these classes and renumbers them (qg_loader_spec.classes).  Fails with QG_EARG
 * and QG_EMEM. */
QG_MUST_CHECK
qg_status qg__dataset_choose(qg__dataset *set, const uint16_t *classes, int n);

/* Draws the images of part (qg_loader_spec.validation) by seed: *taken [n], from malloc, is 1 for these and
 * 0 for the others; *images is their number.  Fails with QG_EARG and QG_EMEM. */
QG_MUST_CHECK
qg_status qg__dataset_draw(const qg__dataset *set, qg_holdout part, uint64_t seed, uint8_t **taken,
                           int *images);

/* Moves these images from set to *held, which must be {0}.  Both keep the order that the images had.  Fails
 * with QG_EMEM; set is then unchanged. */
QG_MUST_CHECK
qg_status qg__dataset_hold_out(qg__dataset *set, const uint8_t *taken, int images, qg__dataset *held);

/* Joins a formatted text to the warning of set.  Fails with QG_EMEM. */
QG_PRINTF(2, 3) QG_MUST_CHECK
qg_status qg__dataset_warn(qg__dataset *set, const char *fmt, ...);

/* order: 0 .. n-1, permuted.  n < 2^32. */
void qg__permutation(uint64_t key, size_t n, uint32_t *order);

/* A hash that identifies the set: of its bytes and labels, before normalisation and before images
 * are held out; and one of the names of its classes, 0 if they have none. */
uint64_t  qg__loader_digest(const qg_loader *l);
uint64_t  qg__loader_class_digest(const qg_loader *l);

/* How a loader was made, without .preprocess and .classes. */
qg_loader_spec qg__loader_spec(const qg_loader *l);

/* How validation images from elsewhere are loaded for l; l takes their loader over (qg_loader_validation),
 * and their digest into its own. */
qg_loader_spec qg__loader_validates(const qg_loader *l);
void           qg__loader_adopt(qg_loader *l, qg_loader *validation);

/* Whether ranks share each batch, as at first; otherwise this one reads all of it, and ops exchange
 * nothing. */
void qg__loader_divide(qg_loader *l, bool among_ranks);

/* Call it when path could not be opened.  If path does not exist but its directory does, the message
 * also says what that contains, perhaps the same under another name.  True: it does. */
bool qg__dataset_absent(const char *path);

/* dir/name, or NULL, QG_EARG, if dir is NULL or empty or the path is too long. */
const char *qg__dataset_path(const char *dir, const char *name, char path[QG__PATH_BYTES]);

#endif
