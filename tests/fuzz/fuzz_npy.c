/* Arrays of NumPy.  The first byte chooses how images are loaded, the next two cut the rest into images and
 * labels. */
#include <string.h>

#include "core/io/file.h"
#include "datasets/loader.h"
#include "datasets/sets.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/loading.h"
#include "tests/support/bytes.h"
#include "tests/support/room.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char images[ROOM_BYTES], labels[ROOM_BYTES];
    if (n < 3) return 0;
    const size_t given = get_u16(bytes + 1), cut = given < n - 3 ? given : n - 3;
    strcpy(images, in_room("images.npy")), strcpy(labels, in_room("labels.npy"));
    write_in_room("images.npy", bytes + 3, cut);
    write_in_room("labels.npy", bytes + 3 + cut, n - 3 - cut);
    qg_shape shape;
    int      classes;
    bool has = fuzz_ok(qg__npy_shape(images, &shape)), counts = fuzz_ok(qg__npy_classes(labels, &classes));
    qg_loader *l = qg_npy(images, labels, 0, (qg_loader_spec){ .batch = 3, .in_order = true });
    if (fuzz_got(l)) {
        MUST(has && counts && qg_shape_equal(shape, qg_loader_shape(l)) && classes == qg_loader_classes(l));
        MUST(qg_count(shape) < cut);
        fuzz_load(l);
        qg_loader_spec spec = fuzz_loading(bytes[0]);
        if (spec.normalise.kind != QG_WHITEN || qg_row(shape) <= 64) {
            qg_loader *other = qg_npy(images, labels, bytes[0], spec);
            fuzz_load(other);
            qg_loader_free(other);
        }
    }
    qg_loader_free(l);
    return 0;
}
