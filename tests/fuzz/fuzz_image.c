/* Image files.  The first byte chooses channels and what the rest is: a file of one of the kinds of
 * tests/fuzz/pictures.h, or a file of a folder of images. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "datasets/image.h"
#include "datasets/loader.h"
#include "datasets/preprocess.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/loading.h"
#include "tests/fuzz/pictures.h"
#include "tests/support/room.h"

static void read_folder(const uint8_t *bytes, size_t n, int channels)
{
    char dir[ROOM_BYTES];
    strcpy(dir, in_room("folder"));
    mkdir(dir, 0700);
    mkdir(in_room("folder/class"), 0700);
    write_in_room("folder/class/image.png", bytes, n);
    qg_loader *l = qg_folder(dir, (qg_shape){ 1, 3, 5, channels }, fuzz_loading((uint8_t)(n & 3)));
    fuzz_load(l);
    qg_loader_free(l);
}

static void read_image(const char *path, int channels)
{
    int      h, w;
    uint8_t *pixels = qg__image_read(path, channels, &h, &w, &(bool){ 0 }), small[7 * 3 * 3];
    if (fuzz_got(pixels)) {
        const size_t count = (size_t)h * (size_t)w;
        MUST(h >= 1 && w >= 1 && count <= (size_t)1 << 26);
        fuzz_touch(pixels, count * (size_t)channels);
        if (count <= 1 << 14)
            MUST(!qg_image_resize(pixels, (qg_shape){ 1, h, w, channels }, small, (qg_shape){ 1, 7, 3, channels }));
    }
    free(pixels);
}

static void read_sheet(const char *path, qg_shape want)
{
    const qg_shape asked  = want;
    uint8_t       *pixels = qg__png_read(path, &want);
    if (fuzz_got(pixels)) {
        MUST(want.h >= 1 && (want.h == asked.h || !asked.h) && want.w == asked.w && want.c == asked.c);
        fuzz_touch(pixels, qg_row(want));
    }
    free(pixels);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n < 1) return 0;
    const int channels = bytes[0] & 1 ? 1 : 3, what = bytes[0] / 2 % 4;
    if (what == 3) {
        read_folder(bytes + 1, n - 1, channels);
        return 0;
    }
    if (!fuzz_picture("image.png", (fuzz_kind)what, bytes + 1, n - 1)) return 0;
    char path[ROOM_BYTES];
    strcpy(path, in_room("image.png"));
    read_image(path, channels);
    read_sheet(path, (qg_shape){ 1, bytes[0] & 8 ? 0 : 4, 1 + bytes[0] / 16, channels });
    return 0;
}
