#include <string.h>

#include "datasets/dataset.h"

qg_loader *qg_arrays(qg_shape shape, const uint8_t *images, const uint8_t *labels, int classes, qg_loader_spec spec)
{
    qg__dataset set = { .shape = shape, .classes = classes };
    if (!images || !labels) {
        qg_fail(QG_EARG, "the %s of a data set are NULL", images ? "labels" : "images");
        return NULL;
    }
    if (!qg__dataset_classes(classes)) return NULL;
    for (int i = 0; i < shape.n; i++)
        if (labels[i] >= classes) {
            qg_fail(QG_EARG, "label %d is %d, with classes 0..%d", i, labels[i], classes - 1);
            return NULL;
        }
    if (qg__dataset_allocate(&set)) {
        memcpy(set.images, images, qg_count(shape));
        memcpy(set.labels, labels, (size_t)shape.n);
    }
    return qg__loader_new(set, spec);
}
