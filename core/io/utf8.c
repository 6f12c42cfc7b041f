#include "core/io/utf8.h"

#include <stdio.h>
#include <string.h>

bool qg__utf8_valid(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + n;
    while (p < end) {
        uint32_t     c;
        const size_t bytes = qg__utf8_character(p, end, &c);
        if (!bytes) return false;
        p += bytes;
    }
    return true;
}

/* A terminal acts on it instead of showing it, or shows nothing. */
static bool is_unseen(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x61C || c == 0x200B || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || c == 0x2060 || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

size_t qg__utf8_show(const char *text, size_t n, char shown[QG_SHOWN_BYTES])
{
    const unsigned char *p = (const unsigned char *)text;
    uint32_t             c;
    const size_t         bytes = qg__utf8_character(p, p + n, &c);
    if (!bytes) {
        snprintf(shown, QG_SHOWN_BYTES, "\\x%02x", (unsigned)*p);
        return 1;
    }
    if (is_unseen(c)) {
        snprintf(shown, QG_SHOWN_BYTES, "\\u%04x", (unsigned)c & 0xFFFF);
    } else {
        memcpy(shown, text, bytes);
        shown[bytes] = '\0';
    }
    return bytes;
}

void qg__utf8_printable(const char *text, char *to, size_t bytes)
{
    const char *end = text + strlen(text);
    char        shown[QG_SHOWN_BYTES];
    while (text < end) {
        text += qg__utf8_show(text, (size_t)(end - text), shown);
        const size_t n = strlen(shown);
        if (n >= bytes) break;
        memcpy(to, shown, n);
        to += n;
        bytes -= n;
    }
    *to = '\0';
}
