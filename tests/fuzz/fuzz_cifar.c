/* CIFAR's binary files.  Four bytes choose how images are loaded, the set and the number of records, and
 * how many bytes are missing or too many; the rest repeats until the records are full. */
#include <stdlib.h>

#include "datasets/loader.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/loading.h"
#include "tests/support/room.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n < 4) return 0;
    const bool   fine    = bytes[1] & 1;
    const size_t record  = fine ? 3074 : 3073, records = bytes[1] / 2 % 4;
    size_t       size    = records * record;
    if (bytes[1] & 128) size = bytes[1] & 64 ? size + bytes[2] : size - (size < bytes[2] ? size : bytes[2]);
    uint8_t *file = malloc(size ? size : 1);
    MUST(file);
    for (size_t i = 0; i < size; i++) file[i] = bytes[3 + i % (n - 3)];
    write_in_room(fine ? "train.bin" : "test_batch.bin", file, size);
    qg_loader_spec spec = fuzz_loading(bytes[0]);
    if (spec.normalise.kind == QG_WHITEN) spec.normalise.kind = QG_PER_PIXEL;       /* it takes seconds */
    qg_loader *l = fine ? qg_data_train("cifar100", room, spec) : qg_data_test("cifar10", room, spec);
    if (fuzz_got(l)) {
        MUST(size == (size_t)qg_loader_shape(l).n * record && qg_loader_classes(l) == (fine ? 100 : 10));
        fuzz_load(l);
    }
    qg_loader_free(l);
    free(file);
    return 0;
}
