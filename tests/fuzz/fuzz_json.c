/* The JSON reader: skipping a text and walking it token by token must accept the same texts. */
#include <stdlib.h>
#include <string.h>

#include "core/io/json.h"
#include "core/io/utf8.h"
#include "tests/fuzz/fuzz.h"

static bool walk(qg_json *j)
{
    const char *text;
    size_t      size;
    bool        more;
    if (qg__json_take(j, '{')) {
        for (bool first = true;; first = false) {
            if (!qg__json_key(j, first, &text)) return false;
            if (!text) return true;
            MUST(qg__utf8_valid(text, strlen(text)));
            if (!walk(j)) return false;
        }
    }
    if (qg__json_take(j, '[')) {
        for (bool first = true;; first = false) {
            if (!qg__json_next(j, first, ']', &more)) return false;
            if (!more) return true;
            if (!walk(j)) return false;
        }
    }
    if (j->at < j->end && *j->at == '"') {
        if (!qg__json_string(j, &text)) return false;
        MUST(qg__utf8_valid(text, strlen(text)));
        return true;
    }
    /* A whole number is a value of any kind, too.  A failure leaves the reader at the fault, so it gets
     * another one. */
    qg_json other = *j;
    if (qg__json_size(&other, &size)) MUST(size <= SIZE_MAX / 10 || other.at - j->at > 18);
    else MUST(!fuzz_ok(other.status));
    return qg__json_skip(j);
}

static qg_json begin(unsigned char *text, size_t n)
{
    return (qg_json){ .path = "input", .start = text, .at = text, .end = text + n };
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    /* Without the zero of fuzz_text: the reader must stop at the end that it was given. */
    unsigned char *text = malloc(n ? n : 1);
    MUST(text);
    if (n) memcpy(text, bytes, n);
    if (qg__utf8_valid((const char *)text, n)) {
        qg_json    j  = begin(text, n);
        const bool ok = qg__json_skip(&j) && qg__json_at_end(&j);
        MUST(fuzz_ok(j.status) == ok);
        if (n) memcpy(text, bytes, n);
        j = begin(text, n);
        if (ok) MUST(walk(&j) && qg__json_at_end(&j));
    }
    free(text);
    return 0;
}
