/* core/io/utf8.h — UTF-8, and text of unknown origin that a terminal must not obey.  Internal. */
#ifndef QG_UTF8_H
#define QG_UTF8_H

#include <stdbool.h>
#include <stddef.h>

bool   qg__utf8_valid(const char *text, size_t n);

/* Writes the character at the start of text, n > 0 bytes, as a terminal can show it: unchanged, or as an escape, \u001b
 * or \xff.  Escaped are control characters (U+0000 to U+001F, U+007F to U+009F), characters that change the direction
 * of text or end a line (U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069), spaces without a width (U+200B, U+2060,
 * U+FEFF), and bytes that are not UTF-8.
 * Returns the number of bytes of the character. */
enum { QG_SHOWN_BYTES = 8 };
size_t qg__utf8_show(const char *text, size_t n, char shown[QG_SHOWN_BYTES]);

/* The same for a whole text, cut before the first character that does not fit into bytes > 0.  Applying it twice
 * changes nothing more. */
void   qg__utf8_printable(const char *text, char *to, size_t bytes);

#endif
