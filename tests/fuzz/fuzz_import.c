/* Weights of another program for a small net.  Of the first byte, bit 0 chooses the layout, bit 1 a
 * map, and bit 2 says that the rest is the file, which is also the map.  Otherwise three bytes say
 * how many bytes of data follow the header, and how long the map is, which comes next; the rest is
 * the header.  The data are small floats of every type, or with bit 3 any bytes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "layers/models/text.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/bytes.h"
#include "tests/support/room.h"
#include "train/reader.h"

enum { SIDE = 4, CLASSES = 3, START = 4 };

static qg_net *net_of_text(void)
{
    qg_net *net = qg_net_from_text("2C3-BN-PR-DW3-R-5FC-BN-R-3", (qg_model_spec){ .height = SIDE,
                                                                              .width = SIDE,
                                                                              .channels = 1,
                                                                              .classes = CLASSES,
                                                                              .seed = 1 });
    MUST(net && qg_net_build(net));
    return net;
}

static void write_file(const uint8_t *bytes, size_t n)
{
    if (bytes[0] & 4) {
        write_in_room("file", bytes + START, n - START);
        write_in_room("map", bytes + START, n - START);
        return;
    }
    const size_t data = get_u16(bytes + 1) % 8192,
                 map = bytes[3] < n - START ? bytes[3] : n - START;
    const size_t   header = n - START - map;
    unsigned char *file   = malloc(8 + header + data);
    MUST(file);
    put_u64(file, header);
    memcpy(file + 8, bytes + START + map, header);
    for (size_t i = 0; i < data; i++)
        file[8 + header + i] = (unsigned char)(bytes[0] & 8 ? 37 * i : 0x3c);
    write_in_room("file", file, 8 + header + data);
    write_in_room("map", bytes + START, map);
    free(file);
}

/* Every layer with parameters has a module, and every value is legal. */
static void check(const qg_net *net, const char *pairs)
{
    const qg_params *p     = qg_net_params(net);
    int              lines = 0;
    for (const char *at = pairs; *at; at = strchr(at, '\n') + 1) lines++;
    MUST(lines == 7);
    for (int i = 0; i < p->count; i++)
        for (size_t k = 0; k < qg_count(p->item[i]->shape); k++) {
            MUST(isfinite(p->item[i]->value[k]));
            MUST(p->item[i]->value[k] >= 0 || !strstr(p->item[i]->name, "running_var"));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static qg_net *net;
    char           file[ROOM_BYTES], map[ROOM_BYTES], *pairs;
    if (n < START) return 0;
    if (!net) net = net_of_text();
    write_file(bytes, n);
    strcpy(file, in_room("file")), strcpy(map, in_room("map"));
    const qg_run_import_spec spec = { .weights = file,
                                      .layout = bytes[0] & 1 ? QG_HWIO : QG_OIHW,
                                      .map = bytes[0] & 2 ? map : NULL };
    if (fuzz_ok(qg__foreign_load(net, &spec, &pairs))) check(net, pairs);
    else MUST(!pairs);
    free(pairs);
    return 0;
}
