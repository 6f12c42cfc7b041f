#include <stdlib.h>
#include <string.h>

#include "datasets/dataset.h"
#include "datasets/image.h"

enum { SIDE = 28, CLASSES = 10 };

/* Tile i of the sheet, counted along its rows, is image i. */
static void cut(const uint8_t *sheet, int columns, qg__dataset *set)
{
    for (int i = 0; i < set->shape.n; i++) {
        const size_t pitch = (size_t)columns * SIDE;
        const size_t top   = (size_t)(i / columns) * SIDE;
        const size_t left  = (size_t)(i % columns) * SIDE;
        uint8_t     *image = set->images + (size_t)i * SIDE * SIDE;
        for (size_t r = 0; r < SIDE; r++)
            memcpy(image + r * SIDE, sheet + (top + r) * pitch + left, SIDE);
        set->labels[i] = (uint16_t)(i % CLASSES);
    }
}

static qg_loader *sample(const char *dir, const char *name, int rows, int columns,
                         qg_loader_spec spec)
{
    char        buffer[QG__PATH_BYTES];
    const char *path = qg__dataset_path(dir, name, buffer);
    qg_shape    size = { 1, rows * SIDE, columns * SIDE, 1 };
    qg__dataset set  = { .shape = { rows * columns, SIDE, SIDE, 1 }, .classes = CLASSES };

    uint8_t *sheet = path ? qg__png_read(path, &size) : NULL;
    if (path && !sheet) (void)qg__dataset_absent(path);
    if (sheet && qg__dataset_allocate(&set)) cut(sheet, columns, &set);
    free(sheet);
    return qg__loader_new(set, spec);
}

qg_loader *qg__sample(const char *dir, bool test, qg_loader_spec spec)
{
    return test ? sample(dir, "test.png", 25, 20, spec) : sample(dir, "train.png", 40, 50, spec);
}
