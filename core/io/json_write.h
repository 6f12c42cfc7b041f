/* core/io/json_write.h — writes a JSON object key by key.  Internal. */
#ifndef QG_JSON_WRITE_H
#define QG_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct qg__json {
    FILE *out;
    bool  comma;            /* a value stands before the next one */
} qg__json;

qg__json qg__json_begin(FILE *out);
void qg__json_end(qg__json *j);                                         /* and a newline */

/* key NULL: an element of a list.  A byte that is not UTF-8 is written as on a terminal, as \xe9.
 * Names of files may have any bytes, so in a path a backslash before x is \x5c: replacing each \xhh by
 * its byte gives the name back. */
void qg__json_text(qg__json *j, const char *key, const char *value);    /* NULL: null */
void qg__json_path(qg__json *j, const char *key, const char *path);
void qg__json_real(qg__json *j, const char *key, double value);         /* null where not finite */
void qg__json_integer(qg__json *j, const char *key, uint64_t value);
void qg__json_bytes(qg__json *j, const char *key, size_t bytes);        /* null where 0: there are none */
void qg__json_flag(qg__json *j, const char *key, bool value);
void qg__json_open(qg__json *j, const char *key, char bracket);         /* '{' or '[' */
void qg__json_close(qg__json *j, char bracket);                         /* '}' or ']' */

#endif
