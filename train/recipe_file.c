/* Recipes as files: `key = value` lines, a subset of TOML: strings, numbers, booleans, arrays of strings, comments; no tables, no
 * dates, an array on one line.  Four keys have no effect on a run and are only for readers and for the table of results:
 * reproduces, reported, provenance, deviations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/number.h"
#include "quant/scheme.h"
#include "train/recipe_keys.h"
#include "train/run.h"

enum { MAX_CONFIG_BYTES = 1 << 20 };

/* --- reading ------------------------------------------------------------------------------ */

/* The position of the parser; lines count from 1. */
typedef struct reader {
    const char *at, *origin;
    int         line;
    int         defaults;       /* version of the defaults with which the text was written */
} reader;

static qg_status bad(const reader *r, const char *reason)
{
    return qg_fail(QG_EARG, "%s:%d: %s", r->origin, r->line, reason);
}

static void skip_blank(reader *r) { r->at += strspn(r->at, " \t"); }

/* The character that an escape in a basic string denotes; 0 if it is not legal in a value. */
static char unescaped(char c) { return c == '"' || c == '\\' ? c : '\0'; }

static qg_status read_string(reader *r, char text[QG_RECIPE_VALUE_BYTES])
{
    const char quote = *r->at++;
    size_t     n     = 0;
    while (*r->at != quote) {
        char c = *r->at++;
        if (c == '\0' || c == '\n') return r->at--, bad(r, "unterminated string");
        if (c == '\\' && quote == '"') {
            c = unescaped(*r->at);
            if (!c) return bad(r, "an escape sequence other than \\\" and \\\\");
            r->at++;
        }
        if (n + 1 == QG_RECIPE_VALUE_BYTES) return bad(r, "the string is too long");
        text[n++] = c;
    }
    r->at++;
    text[n] = '\0';
    return QG_OK;
}

/* A number or a boolean, verbatim. */
static qg_status read_bare(reader *r, const qg_recipe_key *o, char text[QG_RECIPE_VALUE_BYTES])
{
    const size_t n = strcspn(r->at, " \t\r\n#]");
    if (n == 0) return bad(r, "the value is missing");
    if (n >= QG_RECIPE_VALUE_BYTES) return bad(r, "the value is too long");
    memcpy(text, r->at, n);
    text[n] = '\0';
    if (strchr(text, ',') && strspn(text, "0123456789.,+-eE") == n)
        return qg_fail(QG_EARG, "%s:%d: %s is '%s' with a comma; write numbers with a point, as in 0.002", r->origin, r->line,
                       o->name, text);
    r->at += n;
    return QG_OK;
}

static qg_status put(qg_recipe *c, const reader *r, const qg_recipe_key *o, const char *text)
{
    char      current[QG_RECIPE_VALUE_BYTES];
    qg_status status = QG_OK;
    if (o->is & QG_RECIPE_SCHEMES && r->defaults < QG_DEFAULTS) {
        status = qg__scheme_rewrite(o->name, text, r->defaults, QG_DEFAULTS, current, sizeof current);
        text   = current;
    }
    if (!status) status = qg__recipe_put(c, o->name, text);
    return status ? qg_fail(status, "%s:%d: %s", r->origin, r->line, qg_errmsg()) : QG_OK;
}

static qg_status read_list(qg_recipe *c, reader *r, const qg_recipe_key *o)
{
    char text[QG_RECIPE_VALUE_BYTES];
    r->at++;
    for (skip_blank(r); *r->at != ']'; skip_blank(r)) {
        if (*r->at != '"' && *r->at != '\'') return bad(r, "expected a string or ] in the array");
        if (read_string(r, text) || put(c, r, o, text)) return qg_errcode();
        skip_blank(r);
        if (*r->at == ',') r->at++;
        else if (*r->at != ']') return bad(r, "expected , or ] in the array");
    }
    r->at++;
    return QG_OK;
}

static bool is_string(const qg_recipe_key *o)
{
    return o->kind == QG_RECIPE_TEXT || o->kind == QG_RECIPE_WORD || o->kind == QG_RECIPE_VALUE;
}

/* A string that is a number needs no quotes, and neither does a number that may be a string. */
static bool takes(const qg_recipe_key *o, bool quoted, const char *text)
{
    double number;
    if (quoted) return is_string(o) || qg__recipe_key_counts(o);
    return !is_string(o) || qg__number_read(text, strlen(text), &number);
}

static qg_status read_value(qg_recipe *c, reader *r, const qg_recipe_key *o)
{
    char       text[QG_RECIPE_VALUE_BYTES];
    const bool quoted = *r->at == '"' || *r->at == '\'';
    if ((o->kind == QG_RECIPE_LIST) != (*r->at == '['))
        return qg_fail(QG_EARG, "%s:%d: %s takes %s", r->origin, r->line, o->name,
                       o->kind == QG_RECIPE_LIST ? "an array of strings" : "a single value, not an array");
    if (o->kind == QG_RECIPE_LIST) return read_list(c, r, o);
    if (quoted ? read_string(r, text) : read_bare(r, o, text)) return qg_errcode();
    if (!takes(o, quoted, text))
        return qg_fail(QG_EARG, "%s:%d: %s takes %s", r->origin, r->line, o->name,
                       quoted ? "a value without quotes" : "a string in quotes");
    return put(c, r, o, text);
}

static qg_status read_line(qg_recipe *c, reader *r, bool seen[QG__RECIPE_KEYS])
{
    char         key[64];
    const size_t n = strcspn(r->at, " \t\r\n=#\"'[]{},.");
    if (n == 0 || n >= sizeof key) return bad(r, "expected key = value");
    snprintf(key, sizeof key, "%.*s", (int)n, r->at);
    r->at += n;
    skip_blank(r);
    if (*r->at != '=') return bad(r, "expected = after the key");
    r->at++;
    skip_blank(r);
    const qg_recipe_key *o = qg__recipe_key(key);
    if (!o) return bad(r, qg_errmsg());
    if (seen[o - qg_recipe_keys])
        return qg_fail(QG_EARG, "%s:%d: %s is set twice", r->origin, r->line, key);
    seen[o - qg_recipe_keys] = true;
    return read_value(c, r, o);
}

/* Whether a run wrote the text, or r if it is NULL: it writes every option, also those that hardly anyone sets.  The oldest did
 * not note the digest of their images. */
static bool is_written_by_a_run(const char *text, const qg_recipe *r)
{
    static const char *const key[] = { "data-digest", "quantize-after", "norm-decay", "quantizer-decay" };
    bool                     has[4];
    for (int i = 0; i < 4; i++) has[i] = text ? qg__identity_value(text, key[i]) : qg__recipe_value(r, key[i]);
    return has[0] || (has[1] && has[2] && has[3]);
}

bool qg__recipe_is_of_run(const qg_recipe *r) { return is_written_by_a_run(NULL, r); }

static int version_of(const char *text)
{
    const char *said = qg__identity_value(text, "defaults");
    return said ? atoi(said) : is_written_by_a_run(text, NULL) ? 1 : QG_DEFAULTS;
}

qg_status qg__recipe_parse(qg_recipe *c, const char *text, const char *origin)
{
    bool   seen[QG__RECIPE_KEYS] = { false };
    reader r             = { .at = text, .origin = origin, .line = 1, .defaults = version_of(text) };
    if (r.defaults < QG_DEFAULTS && qg__recipe_put(c, "defaults", "1")) return qg_errcode();
    while (*r.at) {
        skip_blank(&r);
        if (!strchr("#\r\n", *r.at) && read_line(c, &r, seen)) return qg_errcode();
        skip_blank(&r);
        if (*r.at == '#') r.at += strcspn(r.at, "\n");
        if (*r.at == '\r') r.at++;
        if (*r.at == '\n') r.at++, r.line++;
        else if (*r.at) return bad(&r, "expected the end of the line");
    }
    return QG_OK;
}

qg_status qg__recipe_parse_stored(qg_recipe *c, const char *text, const char *origin)
{
    const qg_status status = qg__recipe_parse(c, text, origin);
    return status == QG_EARG ? qg_fail(QG_EFORMAT, "%s", qg_errmsg()) : status;
}

qg_status qg__recipe_read(qg_recipe *c, const char *path)
{
    char     *text;
    size_t    n;
    qg_status status = qg__text_read(QG_BY_PATH, path, MAX_CONFIG_BYTES, &text, &n);
    if (status) return status;
    const bool wide = n >= 2 && (!memcmp(text, "\xFF\xFE", 2) || !memcmp(text, "\xFE\xFF", 2));
    if (wide) status = qg_fail(QG_EFORMAT, "%s: is UTF-16; save it as UTF-8", path);
    else if (strlen(text) < n) status = qg_fail(QG_EFORMAT, "%s: contains a zero byte, so it is not a configuration", path);
    else if (qg__identity_of_program(text))
        status = qg_fail(QG_EARG, "%s: a program trained this run with qg_fit; start that program again to continue it", path);
    else status = qg__recipe_parse(c, text, path);
    free(text);
    const char *named = status ? NULL : qg__recipe_value(c, "recipe");
    if (named && !is_written_by_a_run(NULL, c))
        status = qg_fail(QG_EARG, "%s: recipe only notes where a run came from; to begin with its options, "
                         "pass --recipe %s", path, named);
    return status;
}

/* --- writing ------------------------------------------------------------------------------ */

static void put_string(FILE *out, const char *text, size_t n)
{
    fputc('"', out);
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"' || text[i] == '\\') fputc('\\', out);
        fputc(text[i], out);
    }
    fputc('"', out);
}

/* "2epochs" */
static bool is_written_as_string(const qg_recipe_key *o, const char *value)
{
    return qg__recipe_key_counts(o) && value[strspn(value, "0123456789")];
}

/* A line of a value as it is written: schemes in texts of a run of version 1 are its own. */
static void put_line(FILE *out, const qg_recipe_key *o, int version, const char *line)
{
    char item[QG_RECIPE_VALUE_BYTES], old[QG_RECIPE_VALUE_BYTES] = "";
    if (version == QG_DEFAULTS || !(o->is & QG_RECIPE_SCHEMES)) {
        put_string(out, line, strcspn(line, "\n"));
        return;
    }
    snprintf(item, sizeof item, "%.*s", (int)strcspn(line, "\n"), line);
    QG_ASSERT(!qg__scheme_rewrite(o->name, item, QG_DEFAULTS, 1, old, sizeof old));
    put_string(out, old, strlen(old));
}

static void put_list(FILE *out, const qg_recipe_key *o, int version, const char *list)
{
    fputc('[', out);
    for (const char *line = list; *line; line = qg__lines_next(line)) {
        if (line != list) fputs(", ", out);
        put_line(out, o, version, line);
    }
    fputc(']', out);
}

typedef struct selection {
    const qg_recipe *recipe;
    unsigned      use;
} selection;

static qg_status print_selection(const void *what, FILE *out)
{
    const selection *of      = what;
    const int        version = of->recipe->defaults ? of->recipe->defaults : QG_DEFAULTS;
    const bool       known   = version < QG_DEFAULTS && is_written_by_a_run(NULL, of->recipe);     /* without the line */
    if (of->recipe->defaults && !known) fprintf(out, "defaults = %d\n", version);
    for (int i = 0; i < QG__RECIPE_KEYS; i++) {
        const qg_recipe_key *o     = &qg_recipe_keys[i];
        const char          *value = of->recipe->text[i];
        if (!value || (o->is & of->use) != of->use || !strcmp(o->name, "defaults")) continue;
        fprintf(out, "%s = ", o->name);
        if (o->kind == QG_RECIPE_LIST) put_list(out, o, version, value);
        else if (is_string(o) || is_written_as_string(o, value)) put_line(out, o, version, value);
        else fputs(value, out);
        fputc('\n', out);
    }
    return QG_OK;
}

char *qg__recipe_print(const qg_recipe *c, unsigned use)
{
    const selection of = { c, use };
    char           *text;
    size_t          n;
    return qg__text_print(print_selection, &of, &text, &n) ? NULL : text;
}
