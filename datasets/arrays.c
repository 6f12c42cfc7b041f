/* Sets without files: arrays of the program, and noise. */
#include <string.h>

#include "core/rng.h"
#include "datasets/dataset.h"

qg_loader *qg_arrays(qg_shape shape, const uint8_t *images, const uint16_t *labels, int classes,
                     qg_loader_spec spec)
{
    qg__dataset set = { .shape = shape, .classes = classes };
    if (!images || !labels)
        return qg__refuse(QG_EARG, "the %s of a data set are NULL", images ? "labels" : "images");
    if (!qg__dataset_classes(classes)) return NULL;
    for (int i = 0; i < shape.n; i++)
        if (labels[i] >= classes)
            return qg__refuse(QG_EARG, "label %d is %d, with classes 0..%d", i, labels[i], classes - 1);
    if (qg__dataset_allocate(&set)) {
        memcpy(set.images, images, qg_count(shape));
        memcpy(set.labels, labels, (size_t)shape.n * sizeof *labels);
    }
    return qg__loader_new(set, spec);
}

/* A constant, so that the seed of a run changes the order and not the images. */
#define NOISE_KEY 0x6E6F697365u

qg_loader *qg_synthetic(qg_shape image, int n, int classes, qg_loader_spec spec)
{
    qg__dataset set = { .shape = { n, image.h, image.w, image.c }, .classes = classes };
    if (!qg__dataset_classes(classes)) return NULL;
    if (qg__dataset_allocate(&set)) {
        for (size_t i = 0, all = qg_count(set.shape); i < all; i++)
            set.images[i] = (uint8_t)(qg_bits(NOISE_KEY, i) >> 56);
        for (int i = 0; i < n; i++) set.labels[i] = (uint16_t)(i % classes);
    }
    return qg__loader_new(set, spec);
}
