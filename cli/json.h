/* cli/json.h — writes a JSON object key by key. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct json {
    FILE *out;
    bool  comma;            /* a value stands before the next one */
} json;

json json_begin(FILE *out);
void json_end(json *j);                                         /* and a newline */

/* key NULL: an element of a list. */
void json_text(json *j, const char *key, const char *value);    /* NULL: null */
void json_real(json *j, const char *key, double value);         /* null where not finite */
void json_integer(json *j, const char *key, uint64_t value);
void json_flag(json *j, const char *key, bool value);
void json_open(json *j, const char *key, char bracket);         /* '{' or '[' */
void json_close(json *j, char bracket);                         /* '}' or ']' */

#endif
