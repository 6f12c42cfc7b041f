#include "core/io/utf8.h"

/* RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
bool qg_utf8_valid(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + n;
    while (p < end) {
        const unsigned lead = *p++;
        if (lead < 0x80) continue;
        if (lead < 0xC2 || lead > 0xF4) return false;
        const ptrdiff_t more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
        const unsigned  low  = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
        const unsigned  high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
        if (end - p < more || p[0] < low || p[0] > high) return false;
        for (ptrdiff_t i = 1; i < more; i++)
            if (p[i] < 0x80 || p[i] > 0xBF) return false;
        p += more;
    }
    return true;
}
