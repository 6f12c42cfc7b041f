/* Files whose contents are not known beforehand.  With bit 0 of the first byte, the rest is the file.
 * Without it, two more bytes say how many bytes of data follow the header, which is the rest: so a change
 * of the header need not change its length as well. */
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "core/io/safetensors.h"
#include "core/io/utf8.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/bytes.h"
#include "tests/support/room.h"

static void check_entries(const qg_archive *a)
{
    size_t                n, m;
    const qg_named_array *e = qg_archive_entries(a, &n);
    for (size_t i = 0; i < n; i++) {
        MUST(qg_archive_find(a, e[i].name) == &e[i]);
        MUST(qg__utf8_valid(e[i].name, strlen(e[i].name)) && (i == 0 || strcmp(e[i - 1].name, e[i].name) < 0));
        fuzz_touch(e[i].array.data, e[i].bytes);
        if (!e[i].viewable) continue;
        MUST(qg_array_count(&e[i].array) * qg__dtype_bytes(e[i].array.dtype) == e[i].bytes);
        MUST((uintptr_t)e[i].array.data % qg__dtype_bytes(e[i].array.dtype) == 0);
    }
    const qg_note *note = qg__archive_notes(a, &m);
    for (size_t i = 0; i < m; i++) MUST(qg_archive_noted(a, note[i].key) == note[i].value);
}

/* Arrays that have a view here can be written, and are read as the same. */
static void write_and_read(const qg_archive *a)
{
    size_t                n, m, n_read, m_read;
    const qg_named_array *e    = qg_archive_entries(a, &n);
    const qg_note        *note = qg__archive_notes(a, &m);
    for (size_t i = 0; i < n; i++)
        if (!e[i].viewable) return;
    char path[ROOM_BYTES];
    strcpy(path, in_room("written"));
    MUST(!qg__safetensors_write(QG_BY_PATH, path, e, n, note, m));
    qg_archive *b = qg_archive_open(path);
    MUST(b);
    const qg_named_array *read = qg_archive_entries(b, &n_read);
    const qg_note        *kept = qg__archive_notes(b, &m_read);
    MUST(n_read == n);
    for (size_t i = 0; i < n; i++) {
        MUST(!strcmp(read[i].name, e[i].name) && read[i].array.dtype == e[i].array.dtype &&
             read[i].bytes == e[i].bytes);
        MUST(!e[i].bytes || !memcmp(read[i].array.data, e[i].array.data, e[i].bytes));
    }
    /* The checksum is that of the file, which a file of another program does not have. */
    MUST(qg_archive_noted(b, QG_SAFETENSORS_CHECKSUM) &&
         m_read == m + !qg_archive_noted(a, QG_SAFETENSORS_CHECKSUM));
    for (size_t i = 0; i < m_read; i++) {
        const char *before = qg_archive_noted(a, kept[i].key);
        if (strcmp(kept[i].key, QG_SAFETENSORS_CHECKSUM)) MUST(before && !strcmp(before, kept[i].value));
    }
    qg_archive_free(b);
}

static void write_file(const uint8_t *bytes, size_t n)
{
    if (bytes[0] & 1) {
        write_in_room("file", bytes + 1, n - 1);
        return;
    }
    const size_t   data = get_u16(bytes + 1) % 4096, header = n - 3;
    unsigned char *file = malloc(8 + header + data);
    MUST(file);
    put_u64(file, header);
    memcpy(file + 8, bytes + 3, header);
    for (size_t i = 0; i < data; i++) file[8 + header + i] = (unsigned char)(37 * i);
    write_in_room("file", file, 8 + header + data);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n < 3) return 0;
    write_file(bytes, n);
    char path[ROOM_BYTES];
    strcpy(path, in_room("file"));
    qg_archive *a = qg_archive_open(path);
    if (fuzz_got(a)) {
        check_entries(a);
        write_and_read(a);
    }
    qg_archive_free(a);
    return 0;
}
