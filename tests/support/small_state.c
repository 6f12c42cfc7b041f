#include "tests/support/small_state.h"

#include "core/io/file.h"
#include "core/io/state.h"
#include "tests/support/testing.h"

qg_array array_of(qg_dtype dtype, void *data, size_t n)
{
    return (qg_array){ .dtype = dtype, .rank = 1, .dims = { n }, .data = data };
}

void read_all(const char *path, unsigned char **bytes, size_t *n)
{
    assert_int_equal(qg__file_read_in(QG_BY_PATH, path, 1 << 20, bytes, n), QG_OK);
}

void save_small(const char *path)
{
    float     f[6] = { 1, -2, 3, 0.5f, 0, 65 };
    int8_t    i[3] = { -1, 0, 1 };
    qg_state *s    = qg_state_new();
    qg_state_add(s, "codes", array_of(QG_I8, i, 3));
    qg_state_add(s, "caf\xC3\xA9\"\n", (qg_array){ QG_F32, 2, { 2, 3 }, f });
    qg_state_set_note(s, "k", "v\x01");
    qg_state_set_note(s, "empty", "");
    qg_state_set_note(s, "lines", "a\nb\\");
    assert_int_equal(qg_state_save(s, path), QG_OK);
    qg_state_free(s);
}
