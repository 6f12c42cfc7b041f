/* metrics.csv.  The first byte says how many rows are asked for. */
#include <stdlib.h>
#include <string.h>

#include "cli/run/metrics.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/room.h"

static void read_at(const char *path, int epochs, metrics *m)
{
    if (!fuzz_ok(metrics_read(m, QG_BY_PATH, path, epochs))) return;
    MUST(epochs < 0 || m->epochs == epochs);
    MUST(strlen(m->text) == m->length && m->text[m->length - 1] == '\n');
    MUST(metrics_rate(m) >= 0);
    MUST(m->epochs == 0 || (m->last.epoch == m->epochs && m->best.test_accuracy >= m->last.test_accuracy));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    metrics   m, again;
    bool      rows;
    char      path[ROOM_BYTES];
    const int epochs = n ? bytes[0] % 8 - 1 : -1;
    strcpy(path, in_room("metrics.csv"));
    write_in_room("metrics.csv", bytes + !!n, n - !!n);
    MUST(!metrics_has_rows(QG_BY_PATH, path, &rows));
    read_at(path, epochs, &m);
    if (m.epochs && m.length) {
        MUST(rows);
        MUST(!metrics_write(&m, QG_BY_PATH, path));
        read_at(path, m.epochs, &again);
        MUST(again.text && m.length == again.length && !memcmp(m.text, again.text, m.length));
        metrics_end(&again);
    }
    metrics_end(&m);
    return 0;
}
