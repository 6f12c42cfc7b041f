/* tests/support/pictures.h — picture files, written without a library. */
#ifndef PICTURES_H
#define PICTURES_H

#include <stddef.h>
#include <stdint.h>

/* pixels [h][w][3]: 8-bit RGB, not compressed.  Both fail the test unless they succeed. */
void write_png(const char *path, const uint8_t *pixels, int h, int w);
void write_bmp(const char *path, const uint8_t *pixels, int h, int w);

#endif
