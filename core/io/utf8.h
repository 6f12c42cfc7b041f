/* core/io/utf8.h — UTF-8, and text of unknown origin that a terminal must not obey.  Internal. */
#ifndef QG_UTF8_H
#define QG_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of the character at p, which is before end, and its number; 0: it is not UTF-8.
 * RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
static inline size_t qg__utf8_character(const unsigned char *p, const unsigned char *end, uint32_t *c)
{
    const unsigned lead = *c = *p++;
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    const ptrdiff_t more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    const unsigned  low  = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned  high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (end - p < more || p[0] < low || p[0] > high) return 0;
    *c = lead & (0x3Fu >> more);
    for (ptrdiff_t i = 0; i < more; i++) {
        if (p[i] < 0x80 || p[i] > 0xBF) return 0;
        *c = *c << 6 | (p[i] & 0x3Fu);
    }
    return (size_t)more + 1;
}

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
