/* result.json, and the joining of its texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/paths.h"
#include "cli/run/result.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/room.h"

static char *print(const result *r)
{
    char  *text = NULL;
    size_t n    = 0;
    FILE  *out  = open_memstream(&text, &n);
    MUST(out);
    json j = json_begin(out);
    result_put(&j, r);
    json_end(&j);
    MUST(!fclose(out));
    return text;
}

static void join(const char *a, const char *b)
{
    char once[RESULT_TEXT], twice[RESULT_TEXT];
    result_join(once, a, b);
    result_join(twice, once, b);
    MUST(strlen(once) < RESULT_TEXT && !strcmp(once, twice));
}

/* Of a written file, a changed byte is noticed or has no meaning.  text: what was written. */
static void change(const char *path, const char *text, size_t at, uint8_t by)
{
    char  *file;
    size_t n;
    result r;
    MUST(!text_read(QG_BY_PATH, path, 1 << 20, &file, &n));
    file[at % n] ^= (char)by;
    write_in_room("result.json", file, n);
    if (fuzz_ok(result_read(&r, QG_BY_PATH, path))) {
        char *other = print(&r);
        MUST(!strcmp(text, other));
        free(other);
    }
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    result r, again;
    char   path[ROOM_BYTES];
    strcpy(path, in_room("result.json"));
    write_in_room("result.json", bytes, n);
    if (!fuzz_ok(result_read(&r, QG_BY_PATH, path))) return 0;
    char *text = print(&r);
    MUST(!result_write(QG_BY_PATH, path, text, strlen(text)));
    MUST(!result_read(&again, QG_BY_PATH, path));
    char *other = print(&again);
    MUST(!strcmp(text, other));
    change(path, text, n * 31 + bytes[n / 2], bytes[n - 1] | 1);
    join(r.commit, r.digest);
    join(r.blas_core, r.cpu_path);
    free(text);
    free(other);
    return 0;
}
