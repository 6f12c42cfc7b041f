#include "tests/support/foreign.h"

#include "tests/support/testing.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/io/file.h"
#include "core/io/safetensors.h"
#include "core/io/state.h"

void forget_checksum(const char *path)
{
    static const char key[] = "\"" QG_SAFETENSORS_CHECKSUM "\":\"";
    unsigned char    *bytes;
    size_t            n, at = 8;
    if (qg__file_read_in(QG_BY_PATH, path, 1 << 24, &bytes, &n)) fail_msg("%s", qg_errmsg());
    while (at + sizeof key < n && memcmp(bytes + at, key, sizeof key - 1)) at++;
    assert_true(at + sizeof key < n);
    size_t end = at + sizeof key - 1;
    while (bytes[end++] != '"') assert_true(end < n);
    end += bytes[end] == ',';
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    memset(bytes + at, ' ', end - at);
    assert_int_equal(pwrite(file, bytes + at, end - at, (off_t)at), end - at);
    assert_int_equal(close(file), 0);
    free(bytes);
}

void note_anew(const char *path, const char *key, const char *value)
{
    size_t      n;
    qg_state   *s = qg_state_new();
    qg_archive *a = qg_archive_open(path);
    if (!a) fail_msg("%s", qg_errmsg());
    const qg_named_array *entry = qg_archive_entries(a, &n);
    for (size_t i = 0; i < n; i++) qg_state_add(s, entry[i].name, entry[i].array);
    const qg_note *note = qg__archive_notes(a, &n);
    for (size_t i = 0; i < n; i++) qg_state_set_note(s, note[i].key, note[i].value);
    qg_state_set_note(s, key, value);
    assert_ok(qg_state_save(s, path));
    qg_state_free(s);
    qg_archive_free(a);
}
