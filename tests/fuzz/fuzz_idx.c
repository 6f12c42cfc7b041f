/* MNIST's two files.  The first byte chooses how images are loaded, the next two cut the rest into images
 * and labels. */
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "datasets/loader.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/loading.h"
#include "tests/support/bytes.h"
#include "tests/support/room.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n < 3) return 0;
    const size_t given = get_u16(bytes + 1), cut = given < n - 3 ? given : n - 3;
    write_in_room("train-images-idx3-ubyte", bytes + 3, cut);
    write_in_room("train-labels-idx1-ubyte", bytes + 3 + cut, n - 3 - cut);
    qg_loader *l = qg_data_train("mnist", room, (qg_loader_spec){ .batch = 3, .in_order = true });
    if (fuzz_got(l)) {
        const qg_shape s = qg_loader_shape(l);
        MUST(qg_count(s) == cut - 16 && (size_t)s.n == n - 3 - cut - 8);
        fuzz_load(l);
        /* Whitening takes the cube of an image's size. */
        qg_loader_spec spec = fuzz_loading(bytes[0]);
        if (spec.normalise.kind != QG_WHITEN || qg_row(s) <= 64) {
            qg_loader *other = qg_data_train("mnist", room, spec);
            fuzz_load(other);
            qg_loader_free(other);
        }
    }
    qg_loader_free(l);
    return 0;
}
