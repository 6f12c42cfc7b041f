/* tests/support/pictures.h — picture files, written without a library but for the last. */
#ifndef PICTURES_H
#define PICTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* pixels [h][w][3]: 8-bit RGB, not compressed.  All of these fail the test unless they succeed. */
void write_png(const char *path, const uint8_t *pixels, int h, int w);
void write_deep_png(const char *path, int value, int h, int w);      /* one grey value of 16 bits */
void write_bmp(const char *path, const uint8_t *pixels, int h, int w);

/* A JPEG of one colour. */
typedef struct jpeg {
    int h, w;               /* multiples of 8 */
    int components;         /* 1 grey; 3 Y, Cb, Cr; 4 cyan, magenta, yellow, black, as Adobe stores them */
    int value[4];           /* of each: 128, 65..96 or 160..191 */
    int scans;              /* 1: baseline.  More, up to 800: progressive, of one component.  Each refines another
                               bit of a frequency, all 0 */
    int codes;              /* codes of each length in the Huffman table for the high frequencies; 0: as many as fit */
} jpeg;
void write_jpeg(const char *path, jpeg p);

/* pixels [h][w][3] as a JPEG of the best quality, which libjpeg writes, with the n bytes of exif as a segment of type APP1. */
void write_photo(const char *path, const uint8_t *pixels, int h, int w, const void *exif, size_t n);

/* The same for a picture that is stored turned, so that its orientation is 1..8: decoders that know of Exif see the picture. */
void write_turned_photo(const char *path, const uint8_t *pixels, int h, int w, int orientation);

/* "Exif", a zero and another, and a block with this orientation only; big: in the other order of bytes. */
enum { EXIF_NAME = 6, EXIF_BYTES = EXIF_NAME + 26 };
void write_exif(uint8_t to[EXIF_BYTES], int orientation, bool big);

/* to [h][w][3], or from 5 on [w][h][3]: the pixels [h][w][3] of a picture as a file of this orientation stores them. */
void store_turned(const uint8_t *pixels, int h, int w, int orientation, uint8_t *to);

#endif
