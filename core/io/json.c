#include "core/io/json.h"

#include <stdint.h>
#include <string.h>

/* The recursion below is as deep as the text asks, so the depth is limited. */
enum { MAX_DEPTH = 128 };

bool qg__json_bad(qg_json *j, const char *what)
{
    j->status = qg_fail(QG_EFORMAT, "'%s' is malformed: %s, at byte %zu%s", j->path, what,
                        (size_t)(j->at - j->start), j->part ? j->part : "");
    return false;
}

static void skip_space(qg_json *j)
{
    while (j->at < j->end && memchr(" \t\n\r", *j->at, 4)) j->at++;
}

/* Takes c without white space before it. */
static bool glued(qg_json *j, char c)
{
    if (j->at == j->end || *j->at != (unsigned char)c) return false;
    j->at++;
    return true;
}

bool qg__json_take(qg_json *j, char c)
{
    skip_space(j);
    return glued(j, c);
}

bool qg__json_expect(qg_json *j, char c)
{
    char what[] = "expected '?'";
    what[sizeof what - 3] = c;
    return qg__json_take(j, c) || qg__json_bad(j, what);
}

bool qg__json_at_end(qg_json *j)
{
    skip_space(j);
    return j->at == j->end || qg__json_bad(j, "more text after the last bracket");
}

bool qg__json_next(qg_json *j, bool first, char closing, bool *more)
{
    *more = first ? !qg__json_take(j, closing) : qg__json_take(j, ',');
    return *more || first || qg__json_expect(j, closing);
}

bool qg__json_key(qg_json *j, bool first, const char **key)
{
    bool more;
    *key = NULL;
    if (!qg__json_next(j, first, '}', &more)) return false;
    return !more || (qg__json_string(j, key) && qg__json_expect(j, ':'));
}

static bool read_hex4(qg_json *j, uint32_t *v)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    *v = 0;
    for (int i = 0; i < 4; i++, j->at++) {
        const char *d = j->at < j->end ? memchr(digits, *j->at, sizeof digits - 1) : NULL;
        if (!d) return qg__json_bad(j, "\\u without four hexadecimal digits");
        const uint32_t value = (uint32_t)(d - digits);
        *v = *v << 4 | (value < 16 ? value : value - 6);
    }
    return true;
}

/* After "\u": up to 12 characters of text become up to 4 bytes at *to. */
static bool read_unicode(qg_json *j, unsigned char **to)
{
    static const unsigned char lead[] = { 0, 0xC0, 0xE0, 0xF0 };
    uint32_t                   u, low;
    if (!read_hex4(j, &u)) return false;
    if (u == 0) return qg__json_bad(j, "NUL inside a string");
    if (u >= 0xDC00 && u <= 0xDFFF) return qg__json_bad(j, "half a surrogate pair");
    if (u >= 0xD800 && u <= 0xDBFF) {
        if (j->end - j->at < 2 || memcmp(j->at, "\\u", 2) != 0)
            return qg__json_bad(j, "half a surrogate pair");
        j->at += 2;
        if (!read_hex4(j, &low)) return false;
        if (low < 0xDC00 || low > 0xDFFF) return qg__json_bad(j, "half a surrogate pair");
        u = 0x10000 + ((u - 0xD800) << 10) + (low - 0xDC00);
    }
    const int more = u < 0x80 ? 0 : u < 0x800 ? 1 : u < 0x10000 ? 2 : 3;
    *(*to)++ = (unsigned char)(lead[more] | u >> 6 * more);
    for (int i = more - 1; i >= 0; i--) *(*to)++ = (unsigned char)(0x80 | (u >> 6 * i & 63));
    return true;
}

static bool read_escape(qg_json *j, unsigned char **to)
{
    static const char name[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    j->at++;
    if (j->at < j->end && *j->at == 'u') {
        j->at++;
        return read_unicode(j, to);
    }
    const char *n = j->at < j->end ? memchr(name, *j->at, sizeof name - 1) : NULL;
    if (!n) return qg__json_bad(j, "unknown escape");
    j->at++;
    *(*to)++ = (unsigned char)meaning[n - name];
    return true;
}

/* The decoded bytes never outgrow the quoted ones, and the NUL that ends them fits where the
 * closing quote was. */
bool qg__json_string(qg_json *j, const char **text)
{
    if (!qg__json_expect(j, '"')) return false;
    unsigned char *to = j->at;
    *text = (const char *)to;
    while (j->at < j->end && *j->at != '"') {
        if (*j->at < 0x20) return qg__json_bad(j, "control character inside a string");
        if (*j->at != '\\') *to++ = *j->at++;
        else if (!read_escape(j, &to)) return false;
    }
    if (j->at == j->end) return qg__json_bad(j, "unterminated string");
    j->at++;
    *to = '\0';
    return true;
}

static size_t pass_digits(qg_json *j)
{
    const unsigned char *from = j->at;
    while (j->at < j->end && *j->at >= '0' && *j->at <= '9') j->at++;
    return (size_t)(j->at - from);
}

bool qg__json_size(qg_json *j, size_t *v)
{
    skip_space(j);
    const unsigned char *first = j->at;
    const size_t         n     = pass_digits(j);
    if (n == 0 || (n > 1 && *first == '0')) return qg__json_bad(j, "expected a whole number");
    *v = 0;
    for (size_t i = 0; i < n; i++)
        if (__builtin_mul_overflow(*v, 10u, v) || __builtin_add_overflow(*v, first[i] - '0', v))
            return qg__json_bad(j, "number too large");
    return true;
}

static bool skip_number(qg_json *j)
{
    glued(j, '-');
    bool good = glued(j, '0') || pass_digits(j) > 0;
    if (good && glued(j, '.')) good = pass_digits(j) > 0;
    if (good && (glued(j, 'e') || glued(j, 'E'))) {
        if (!glued(j, '+')) glued(j, '-');
        good = pass_digits(j) > 0;
    }
    return good || qg__json_bad(j, "expected a value");
}

static bool skip_value(qg_json *j, int depth)
{
    static const char *const words[] = { "true", "false", "null" };
    const char              *text;
    skip_space(j);
    for (int i = 0; i < 3; i++) {
        const size_t n = strlen(words[i]);
        if ((size_t)(j->end - j->at) >= n && memcmp(j->at, words[i], n) == 0) {
            j->at += n;
            return true;
        }
    }
    if (j->at < j->end && *j->at == '"') return qg__json_string(j, &text);
    const bool object = qg__json_take(j, '{');
    if (!object && !qg__json_take(j, '[')) return skip_number(j);
    if (depth == MAX_DEPTH) return qg__json_bad(j, "nested too deep");
    for (bool first = true, more;; first = false) {
        if (!qg__json_next(j, first, object ? '}' : ']', &more)) return false;
        if (!more) return true;
        if (object && !(qg__json_string(j, &text) && qg__json_expect(j, ':'))) return false;
        if (!skip_value(j, depth + 1)) return false;
    }
}

bool qg__json_skip(qg_json *j)
{
    return skip_value(j, 0);
}
