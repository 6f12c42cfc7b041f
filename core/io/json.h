/* core/io/json.h — a strict JSON reader that the caller pulls token by token.  Internal.
 *
 *     if (!qg__json_expect(j, '{')) return false;
 *     for (bool first = true;; first = false) {
 *         const char *key;
 *         if (!qg__json_key(j, first, &key)) return false;
 *         if (!key) break;
 *         ... read or skip the value ...
 *     }
 *
 * RFC 8259 to the letter: no comments, no trailing commas, no leading zeros.  Nothing is allocated: strings are
 * decoded in place, which destroys the text.  The text must be valid UTF-8.
 *
 * Fails    A function returns false, and the caller returns at once.  status is QG_EFORMAT and the message
 *          names the path, the fault and the byte.
 */
#ifndef QG_JSON_H
#define QG_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

typedef struct qg_json {
    const char    *path;             /* for messages */
    const char    *part;             /* of the file, " of the header"; NULL: the whole */
    unsigned char *start, *at, *end;
    qg_status      status;
} qg_json;

bool qg__json_bad(qg_json *j, const char *what);        /* fail at the current byte; false */
bool qg__json_take(qg_json *j, char c);                 /* if c is next, take it; cannot fail */
bool qg__json_expect(qg_json *j, char c);
bool qg__json_at_end(qg_json *j);                       /* only white space is left */
bool qg__json_next(qg_json *j, bool first, char closing, bool *more); /* to an element or the end */
bool qg__json_key(qg_json *j, bool first, const char **key);          /* NULL: end of the object */
bool qg__json_string(qg_json *j, const char **text);    /* inside the text; no \u0000 */
bool qg__json_size(qg_json *j, size_t *v);              /* digits only, that fit in a size_t */
bool qg__json_skip(qg_json *j);                         /* a value of any kind, 128 levels deep */

#endif
