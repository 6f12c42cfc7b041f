/* Exports a data set as folders of PNG files, OUT/train/CLASS/00042.png and OUT/test/CLASS/00042.png, as
 * --data folder reads them.
 *
 *     build/examples/export_images cifar10|mnist|sample OUT TRAIN TEST
 *
 * takes the first TRAIN and TEST images of each class. */
#include <errno.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "qgrad.h"

enum { CLASSES = 10, SETS = 3, PATH = 1024, BELOW = 64 };   /* at most "/train/automobile/00042.png" */

static const struct set {
    const char *name, *class[CLASSES];
} sets[SETS] = {
    { "cifar10",
      { "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck" } },
    { "mnist",
      { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9" } },
    { "sample",
      { "t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot" } },
};

static int make(const char *dir)
{
    if (!mkdir(dir, 0777) || errno == EEXIST) return 0;
    fprintf(stderr, "%s: %s\n", dir, strerror(errno));
    return 1;
}

/* One image of a batch; its floats are bytes / 255. */
static int write_png(const char *path, qg_shape s, const float *x)
{
    png_image      png = { .version = PNG_IMAGE_VERSION, .width = (unsigned)s.w, .height = (unsigned)s.h };
    const size_t   n   = (size_t)s.h * (size_t)s.w * (size_t)s.c;
    unsigned char *pixel = malloc(n);
    png.format           = s.c == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    for (size_t i = 0; pixel && i < n; i++) pixel[i] = (unsigned char)(255 * x[i] + 0.5f);
    const int written = pixel && png_image_write_to_file(&png, path, 0, pixel, 0, NULL);
    if (!written) fprintf(stderr, "cannot write %s: %s\n", path, png.message);
    free(pixel);
    return !written;
}

/* The first `most` images of each class. */
static int export(qg_loader *images, const struct set *set, const char *out, const char *split, int most)
{
    char   path[PATH];
    int    count[CLASSES] = { 0 }, at = 0;
    snprintf(path, sizeof path, "%s/%s", out, split);
    if (make(path)) return 1;
    for (int k = 0; k < CLASSES; k++) {
        snprintf(path, sizeof path, "%s/%s/%s", out, split, set->class[k]);
        if (make(path)) return 1;
    }
    for (qg_batch b; qg_loader_next(images, &b);)
        for (int i = 0; i < b.x.shape.n; i++, at++) {
            const int    k = b.y[i];
            const size_t n = qg_count(b.x.shape) / (size_t)b.x.shape.n;
            if (count[k]++ >= most) continue;
            snprintf(path, sizeof path, "%s/%s/%s/%05d.png", out, split, set->class[k], at);
            if (write_png(path, b.x.shape, b.x.data + (size_t)i * n)) return 1;
        }
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const split[] = { "train", "test" };
    const struct set        *set     = sets;
    while (argc == 5 && set < sets + SETS && strcmp(set->name, argv[1])) set++;
    if (argc != 5 || set == sets + SETS || atoi(argv[3]) < 1 || atoi(argv[4]) < 1) {
        fprintf(stderr, "usage: %s cifar10|mnist|sample OUT TRAIN TEST\n", argv[0]);
        return 2;
    }
    if (strlen(argv[2]) > PATH - BELOW) {
        fprintf(stderr, "%.64s..: the path is too long\n", argv[2]);
        return 1;
    }
    if (make(argv[2])) return 1;
    for (int i = 0; i < 2; i++) {
        qg_loader *images = (i ? qg_data_test
                               : qg_data_train)(set->name, NULL,
                                                (qg_loader_spec){ .batch = 100, .in_order = true });
        if (!images) return qg_print_error("export_images");
        const int failed = export(images, set, argv[2], split[i], atoi(argv[3 + i]));
        qg_loader_free(images);
        if (failed) return 1;
    }
    return 0;
}
