#include "datasets/dataset.h"

#include <stdio.h>
#include <stdlib.h>

bool qg__dataset_classes(int classes)
{
    if (classes >= 1 && classes <= 256) return true;
    qg_fail(QG_EARG, "classes is %d, must be 1..256, because a label is a byte", classes);
    return false;
}

bool qg__dataset_allocate(qg__dataset *set)
{
    size_t    bytes   = 1;
    const int sizes[] = { set->shape.n, set->shape.h, set->shape.w, set->shape.c };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i] < 1 || bytes > SIZE_MAX / (size_t)sizes[i]) {
            qg_fail(QG_EARG, "images " QG_SHAPE_FMT " are empty or too large for memory",
                    QG_SHAPE_ARGS(set->shape));
            return false;
        }
        bytes *= (size_t)sizes[i];
    }
    set->images = malloc(bytes);
    set->labels = malloc((size_t)set->shape.n);
    if (set->images && set->labels) return true;
    qg_fail(QG_EMEM, "out of memory: %zu bytes of images " QG_SHAPE_FMT, bytes,
            QG_SHAPE_ARGS(set->shape));
    qg__dataset_free(set);
    return false;
}

void qg__dataset_free(qg__dataset *set)
{
    free(set->images);
    free(set->labels);
    free(set->class_names);
    set->images = set->labels = NULL;
    set->class_names = NULL;
}

const char *qg__dataset_path(const char *dir, const char *name, char path[QG__PATH_BYTES])
{
    if (!dir || !*dir) {
        qg_fail(QG_EARG, "the directory of '%s' is %s", name, dir ? "empty" : "NULL");
        return NULL;
    }
    const int n = snprintf(path, QG__PATH_BYTES, "%s/%s", dir, name);
    if (n >= 0 && n < QG__PATH_BYTES) return path;
    qg_fail(QG_EARG, "the path of '%s' is longer than %d bytes", name, QG__PATH_BYTES - 1);
    return NULL;
}
