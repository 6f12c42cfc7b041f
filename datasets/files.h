/* datasets/files.h — images that stay in their files and are decoded when they are needed.  Internal.
 *
 * The first images of a set are kept in memory as they are first decoded, as many as a cache holds, and
 * never leave it: an epoch needs every image once, so no image is worth more than another, and a cache that
 * replaced images would lose most of them before they are needed again.  No lock is needed either, and
 * which images are kept depends on nothing but the set.
 */
#ifndef QG_FILES_H
#define QG_FILES_H

#include <limits.h>
#include <stdatomic.h>

#include "datasets/dataset.h"

/* An image file, in a folder for each class. */
typedef struct qg__image_file {
    size_t   name;          /* "cat/1.png", from here in qg__files.names */
    uint64_t pixels;        /* their hash, as they were first decoded */
    int      slot;          /* of kept; -1: none */
    bool     deep;          /* it has 16 bits per value */
} qg__image_file;

struct qg__files {
    int       users;        /* the training set and what it holds out */
    qg_shape  shape;        /* of each image */
    char     *dir, *names;
    char     *here;         /* where a relative dir begins; NULL: dir is absolute, or it is not known */
    qg__image_file *item;   /* [n] */
    int       n;
    uint8_t  *kept;         /* [slots][h][w][c] */
    bool      scanned;      /* pixels and kept are known */
};

/* n files of dir, whose names, each ended by NUL, take bytes.  NULL, QG_EMEM. */
qg__files *qg__files_new(const char *dir, qg_shape image, int n, size_t bytes);
void       qg__files_release(qg__files *f);         /* by one of its users; NULL is ignored */

/* Looks at each image of set once, in parallel.  One in a file is decoded to set->images if these are
 * allocated; if not, what qg__files_image needs is noted, and the first images, as far as bytes suffice, are
 * kept.  Warns of images of 16 bits (set->warning).
 *
 *   digest  The hash of the set's shape and of one hash for each of eight slices, since a hash is sequential:
 *           that of the bytes of its images and, from there on, of its labels.
 *   width   Unless it is 0, set->sums [width] become the sums of those images for which taken, [n] or NULL,
 *           is 0.
 *   Fails   as qg__image_resized, for the first image in the order of the set that cannot be decoded; with
 *           QG_EMEM. */
QG_MUST_CHECK
qg_status  qg__dataset_scan(qg__dataset *set, const uint8_t *taken, size_t width, size_t bytes,
                            uint64_t *digest);

/* The image with this index in f, decoded to room [h][w][c] unless it is kept.  Fails with NULL, as
 * qg__image_resized; QG_EIO: the file was another image when it was scanned. */
const uint8_t *qg__files_image(const qg__files *f, uint32_t index, uint8_t *room);

/* The failure of the first of several images that threads decode at the same time: messages belong to a
 * thread. */
enum { QG__WHY_BYTES = 512 };
typedef struct qg__first_failure {
    atomic_flag busy;
    int         image;          /* INT_MAX: none has failed */
    qg_status   status;
    char        why[QG__WHY_BYTES];
} qg__first_failure;

#define QG__NO_FAILURE { .busy = ATOMIC_FLAG_INIT, .image = INT_MAX }

/* Takes over this thread's failure of an image, unless an earlier image has failed. */
void       qg__failed(qg__first_failure *f, int image);
QG_MUST_CHECK
qg_status  qg__failure_of(const qg__first_failure *f);         /* QG_OK: none */

/* The memory that this process may use: physical memory, or less by RLIMIT_AS or by the limit of a
 * container. */
size_t     qg__memory(void);

#endif
