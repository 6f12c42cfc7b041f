/* core/io/utf8.h — whether text is UTF-8.  Internal. */
#ifndef QG_UTF8_H
#define QG_UTF8_H

#include <stdbool.h>
#include <stddef.h>

bool qg_utf8_valid(const char *text, size_t n);

#endif
