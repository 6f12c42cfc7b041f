/* Writes a folder of JPEG files, one folder for each class in DIR/train and in DIR/test, to measure
 * training on more images than memory holds.  Each class is a grating of its own direction and frequency,
 * in the colours and noise of each image, so nets learn it.  The bytes depend on the arguments and the
 * libraries alone.
 *
 *     build/examples/jpegs DIR [TRAIN [TEST [CLASSES [SIDE]]]]         100000 1000 100 64
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jpeglib.h>

#include "qgrad.h"

enum { MOST_SIDE = 512, QUALITY = 90 };

static const double PI = 3.14159265358979323846;

/* pixels [side][side][3] of image i; each draw is a function of (key, index). */
static void draw(uint64_t key, int class, int classes, int side, uint8_t *pixels)
{
    const double angle = PI * class / classes, waves = 3 + class % 5,
                 phase = 2 * PI * (double)qg_uniform(key, 0);
    const double dx = 2 * PI * waves * cos(angle) / side, dy = 2 * PI * waves * sin(angle) / side;
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++)
            for (int c = 0; c < 3; c++) {
                const double tone  = 0.5 + 0.5 * (double)qg_uniform(key, 1 + (uint64_t)c);
                const double noise = (double)qg_uniform(key, 8 + (uint64_t)((y * side + x) / 8)) - 0.5;
                pixels[(y * side + x) * 3 + c] = (uint8_t)(128 + 90 * tone * sin(dx * x + dy * y + phase) +
                                                           40 * noise);
            }
}

static int write(const char *path, uint8_t *pixels, int side)
{
    struct jpeg_compress_struct j;
    struct jpeg_error_mgr       errors;
    FILE                       *f = fopen(path, "wb");
    if (!f) return perror(path), 1;
    j.err = jpeg_std_error(&errors);
    jpeg_create_compress(&j);
    jpeg_stdio_dest(&j, f);
    j.image_width = j.image_height = (JDIMENSION)side;
    j.input_components = 3;
    j.in_color_space   = JCS_RGB;
    jpeg_set_defaults(&j);
    jpeg_set_quality(&j, QUALITY, TRUE);
    jpeg_start_compress(&j, TRUE);
    for (int y = 0; y < side; y++) jpeg_write_scanlines(&j, (JSAMPROW[]){ pixels + y * side * 3 }, 1);
    jpeg_finish_compress(&j);
    jpeg_destroy_compress(&j);
    return fclose(f) ? perror(path), 1 : 0;
}

static int folder(const char *path) { return mkdir(path, 0777) && errno != EEXIST ? perror(path), 1 : 0; }

/* One split: image i is of class i % classes. */
static int split(const char *dir, const char *name, uint64_t key, int n, int classes, int side)
{
    static uint8_t pixels[MOST_SIDE * MOST_SIDE * 3];
    char           path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (folder(path)) return 1;
    for (int i = 0; i < n; i++) {
        const int class = i % classes, at = snprintf(path, sizeof path, "%s/%s/%03d", dir, name, class);
        if (i < classes && folder(path)) return 1;
        snprintf(path + at, sizeof path - (size_t)at, "/%06d.jpg", i);
        draw(qg_rng_fork(key, (uint64_t)i), class, classes, side, pixels);
        if (write(path, pixels, side)) return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    int n[] = { 100000, 1000, 100, 64 };        /* training and test images, classes, side */
    for (int i = 2; i < argc && i < 6; i++) n[i - 2] = atoi(argv[i]);
    if (argc < 2 || n[2] < 1 || n[2] > 1000 || n[0] < n[2] || n[1] < n[2] || n[3] < 1 || n[3] > MOST_SIDE) {
        fprintf(stderr, "usage: jpegs DIR [TRAIN [TEST [CLASSES [SIDE]]]]\n");
        return 2;
    }
    return folder(argv[1]) || split(argv[1], "train", 1, n[0], n[2], n[3]) ||
           split(argv[1], "test", 2, n[1], n[2], n[3]);
}
