/* metrics.csv.  The first byte says how many rows are asked for. */
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/room.h"
#include "train/metrics.h"

static void read_at(const char *path, int epochs, qg__metrics *m)
{
    if (!fuzz_ok(qg__metrics_read(m, QG_BY_PATH, path, epochs, 0))) return;
    MUST(epochs < 0 || m->epochs == epochs);
    MUST(strlen(m->text) == m->length && m->text[m->length - 1] == '\n');
    MUST(qg__metrics_rate(m) >= 0);
    MUST(m->epochs == 0 || (m->last.epoch == m->epochs && m->best.test_accuracy >= m->last.test_accuracy));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    qg__metrics   m, again;
    bool      rows;
    char      path[ROOM_BYTES];
    const int epochs = n ? bytes[0] % 8 - 1 : -1;
    strcpy(path, in_room("metrics.csv"));
    write_in_room("metrics.csv", bytes + !!n, n - !!n);
    MUST(!qg__metrics_has_rows(QG_BY_PATH, path, &rows));
    read_at(path, epochs, &m);
    if (m.epochs && m.length) {
        MUST(rows);
        MUST(!qg__metrics_write(&m, QG_BY_PATH, path));
        read_at(path, m.epochs, &again);
        MUST(again.text && m.length == again.length && !memcmp(m.text, again.text, m.length));
        qg__metrics_end(&again);
    }
    qg__metrics_end(&m);
    return 0;
}
