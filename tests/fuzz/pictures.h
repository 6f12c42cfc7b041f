/* tests/fuzz/pictures.h — image files, for the targets that read them. */
#ifndef FUZZ_PICTURES_H
#define FUZZ_PICTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum fuzz_kind {
    FUZZ_FILE,          /* the bytes are a file */
    FUZZ_REPAIRED,      /* a PNG file whose checksums are repaired, since libpng reads nothing of a chunk
                           with a wrong one */
    FUZZ_ROWS           /* the header of a PNG file and its rows with their filters, which are compressed
                           here */
} fuzz_kind;

/* Writes the file into the room; false: there are too few bytes for it. */
bool fuzz_picture(const char *name, fuzz_kind kind, const uint8_t *bytes, size_t n);

#endif
