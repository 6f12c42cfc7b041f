/* Prints the lines of lines.h for the first N images of an idx file.
 *
 *     cc -std=c99 -DNET='"net.c"' -o hosted tests/export/hosted.c && ./hosted IMAGES N */
#include <stdio.h>
#include <stdlib.h>

static void put(const char *text) { fputs(text, stdout); }
#include "lines.h"

int main(int argc, char **argv)
{
    static uint8_t image[NET_HEIGHT * NET_WIDTH * NET_CHANNELS];
    FILE          *f = argc == 3 ? fopen(argv[1], "rb") : NULL;
    if (!f || fread(image, 1, 16, f) != 16) return 1;
    for (int i = atoi(argv[2]); i > 0; i--) {
        if (fread(image, 1, sizeof image, f) != sizeof image) return 1;
        put_line(image);
    }
    return 0;
}
