/* datasets/dataset.h — for authors of data sets: from files to a qg__dataset to a loader. */
#ifndef QG_DATASET_H
#define QG_DATASET_H

#include <stdint.h>

#include "datasets/loader.h"

/* A whole set in memory.  Both arrays come from malloc. */
typedef struct qg__dataset {
    qg_shape shape;      /* n images; every extent >= 1 */
    int      classes;    /* 1..256 */
    uint8_t *images;     /* [n][h][w][c], 0..255 */
    uint8_t *labels;     /* [n], 0 .. classes-1; the reader has checked */
    uint64_t names;      /* a hash of the names of the classes; 0: they have none */
} qg__dataset;

/* A loader over set, which it owns from now on, also when it fails.  A set that lacks an array is
 * one whose reader has failed: the result is NULL and the message stays. */
qg_loader *qg__loader_new(qg__dataset set, qg_loader_spec spec);

/* A label is a byte, so classes are 1 to 256; false, QG_EARG, if not. */
bool qg__dataset_classes(int classes);

/* Room for the set's images and labels; false, QG_EMEM or QG_EARG if it cannot be. */
bool qg__dataset_allocate(qg__dataset *set);
void qg__dataset_free(qg__dataset *set);

/* dir/name, or NULL and QG_EARG if there is no dir or no room. */
enum { QG__PATH_BYTES = 4096 };
const char *qg__dataset_path(const char *dir, const char *name, char path[QG__PATH_BYTES]);

#endif
