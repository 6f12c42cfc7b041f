#include "tests/support/cases.h"

#include <stdio.h>
#include <stdlib.h>

/* The whole file, ended by a zero byte; NULL if it cannot be read.  The caller frees it. */
static char *read_all(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char  *text = NULL;
    size_t used = 0;
    size_t room = 0;
    for (;;) {
        if (room - used < 2) {
            room        = room ? 2 * room : 1u << 16;
            char *grown = realloc(text, room);
            if (!grown) break;
            text = grown;
        }
        const size_t n = fread(text + used, 1, room - used - 1, f);
        used += n;
        if (n == 0) {
            if (ferror(f)) break;
            fclose(f);
            text[used] = 0;
            *bytes     = used;
            return text;
        }
    }
    fclose(f);
    free(text);
    return NULL;
}

static case_count run_cases(const char *path, const cJSON *cases)
{
    case_count   count = { 0, 0 };
    const cJSON *json;
    cJSON_ArrayForEach(json, cases) {
        char         why[600];
        const cJSON *name = cJSON_GetObjectItemCaseSensitive(json, "name");
        if (case_run(json, why, sizeof why)) {
            count.passed++;
            continue;
        }
        count.failed++;
        printf("%s: %s: %s\n", path, cJSON_IsString(name) ? name->valuestring : "?", why);
    }
    return count;
}

case_count case_run_file(const char *path)
{
    case_count count = { 0, 1 };
    size_t     bytes = 0;
    char      *text  = read_all(path, &bytes);
    if (!text) {
        printf("%s: cannot be read\n", path);
        return count;
    }
    /* With the zero byte, and required to end there: text after the object is an error. */
    cJSON       *root  = cJSON_ParseWithLengthOpts(text, bytes + 1, NULL, 1);
    const cJSON *cases = cJSON_GetObjectItemCaseSensitive(root, "cases");
    const cJSON *n     = cJSON_GetObjectItemCaseSensitive(root, "n_cases");
    free(text);
    if (!cJSON_IsArray(cases)) {
        printf("%s: is not JSON with a list of cases\n", path);
    } else {
        count = run_cases(path, cases);
        if (n && cJSON_GetNumberValue(n) != (double)cJSON_GetArraySize(cases)) {
            printf("%s: n_cases does not agree with the %d listed\n", path,
                   cJSON_GetArraySize(cases));
            count.failed++;
        }
    }
    cJSON_Delete(root);
    return count;
}
