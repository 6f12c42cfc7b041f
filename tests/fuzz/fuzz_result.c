/* result.json, and the joining of its texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/paths.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/room.h"
#include "train/result.h"

static char *print(const qg_fit_result *r)
{
    char  *text = NULL;
    size_t n    = 0;
    FILE  *out  = open_memstream(&text, &n);
    MUST(out);
    qg__json j = qg__json_begin(out);
    qg__result_put(&j, r);
    qg__json_end(&j);
    MUST(!fclose(out));
    return text;
}

static void join(const char *a, const char *b)
{
    char once[QG_FIT_TEXT], twice[QG_FIT_TEXT];
    qg__result_join(once, a, b);
    qg__result_join(twice, once, b);
    MUST(strlen(once) < QG_FIT_TEXT && !strcmp(once, twice));
}

/* Of a written file, a changed byte is noticed or has no meaning.  text: what was written. */
static void change(const char *path, const char *text, size_t at, uint8_t by)
{
    char  *file;
    size_t n;
    qg_fit_result r;
    MUST(!qg__text_read(QG_BY_PATH, path, 1 << 20, &file, &n));
    file[at % n] ^= (char)by;
    write_in_room("result.json", file, n);
    if (fuzz_ok(qg__result_read(&r, QG_BY_PATH, path))) {
        char *other = print(&r);
        MUST(!strcmp(text, other));
        free(other);
    }
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    qg_fit_result r, again;
    char          path[ROOM_BYTES];
    strcpy(path, in_room("result.json"));
    write_in_room("result.json", bytes, n);
    if (!fuzz_ok(qg__result_read(&r, QG_BY_PATH, path))) return 0;
    char *text = print(&r);
    MUST(!qg__result_write(QG_BY_PATH, path, text, strlen(text)));
    MUST(!qg__result_read(&again, QG_BY_PATH, path));
    char *other = print(&again);
    MUST(!strcmp(text, other));
    change(path, text, n * 31 + bytes[n / 2], bytes[n - 1] | 1);
    join(r.commit, r.digest);
    join(r.cpu_path, r.commit);
    free(text);
    free(other);
    return 0;
}
