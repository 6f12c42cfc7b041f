/* tests/support/pictures.h — picture files, written without a library. */
#ifndef PICTURES_H
#define PICTURES_H

#include <stddef.h>
#include <stdint.h>

/* pixels [h][w][3]: 8-bit RGB, not compressed.  All of these fail the test unless they succeed. */
void write_png(const char *path, const uint8_t *pixels, int h, int w);
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

#endif
