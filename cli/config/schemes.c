#include "cli/config/schemes.h"

#include <string.h>

#include "cli/config/options.h"
#include "core/io/paths.h"
#include "layers/layer.h"
#include "quant/scheme.h"

enum { EVERY_USE = QG_WEIGHT | QG_INPUT | QG_GRADIENT };

/* A scheme for one kind of operand; scheme NULL is float, for any operand. */
typedef struct row {
    const qg_scheme *scheme;
    unsigned         use;
} row;

static bool row_at(int i, row *out)
{
    *out = (row){ NULL, EVERY_USE };
    if (i-- == 0) return true;
    for (int r = 0; r < QG_ROLES; r++)
        for (const qg_scheme *const *s = qg_schemes; *s; s++) {
            if (!((*s)->roles & qg_roles[r]) || i-- > 0) continue;
            *out = (row){ *s, qg_roles[r] };
            return true;
        }
    return false;
}

bool scheme_in_role(int i, const qg_scheme **scheme, unsigned *role)
{
    row        r;
    const bool is = row_at(i + 1, &r);
    *scheme       = r.scheme;
    *role         = r.use;
    return is;
}

static const char *name_of(row r) { return r.scheme ? r.scheme->name : "float"; }
static const char *about(row r) { return !r.scheme ? "not quantized" : r.scheme->about ? r.scheme->about : "quantized"; }

void scheme_names(unsigned uses, char *text, size_t bytes)
{
    const qg_scheme *scheme, *before;
    unsigned         of, other;
    qg__list_append(text, bytes, "float");
    for (int i = 0, k; scheme_in_role(i, &scheme, &of); i++) {
        if (!(of & uses)) continue;
        for (k = 0; scheme_in_role(k, &before, &other); k++)
            if (other & uses && !strcmp(before->name, scheme->name)) break;
        if (k == i) qg__list_append(text, bytes, scheme->name);
    }
}

/* --- help --------------------------------------------------------------------------------- */

static void row_help(row r, FILE *out)
{
    const qg_key *keys = qg_scheme_keys(r.scheme, r.use);
    fprintf(out, "  %-16s %s", name_of(r), about(r));
    for (int k = 0; k < qg_keys_count(keys); k++) {
        char range[256], own[QG_KEY_BYTES];
        if (!strcmp(keys[k].name, "surrogate-arg") || !strcmp(keys[k].name, "as")) continue;
        const bool surrogate = !strcmp(keys[k].name, "surrogate");
        fprintf(out, "%s%s=%s [%s]", (k - 1) % 4 ? "; " : "\n                     ", keys[k].name,
                surrogate ? ".." : qg_key_range(&keys[k], range, sizeof range), qg_key_default(&keys[k], own));
    }
    fputc('\n', out);
}

void schemes_help(FILE *out, unsigned uses)
{
    fprintf(out, "\nSchemes.  Options follow the name, as in twn:threshold=0.5,per-channel=yes; qgrad explain SCHEME\n"
                 "describes them.  " SCHEMES_SHARE);
    for (int u = 0; u < QG_ROLES; u++) {
        row r;
        if (!(uses & qg_roles[u])) continue;
        fprintf(out, "\nfor --%s:\n", qg_role_name(qg_roles[u]));
        for (int i = 0; row_at(i, &r); i++)
            if (r.use & qg_roles[u]) row_help(r, out);
    }
}

/* An option of a scheme: what is typed, and what it is for. */
typedef struct option_text {
    char typed[320], about[320];
} option_text;

/* Empty if schemes_help says all that there is to say. */
static option_text option_of(const qg_scheme *scheme, const qg_key *key)
{
    option_text t = { "", "" };
    char        range[256], own[QG_KEY_BYTES];
    qg_key_default(key, own);
    if (!strcmp(key->name, "surrogate")) snprintf(t.typed, sizeof t.typed, "surrogate=NAME [%s]", own);
    else if (!strcmp(key->name, "as") && scheme->paper) {
        snprintf(t.typed, sizeof t.typed, "as=paper");
        snprintf(t.about, sizeof t.about, "%s", scheme->paper);
    } else if (strcmp(key->name, "as") && strcmp(key->name, "surrogate-arg")) {
        snprintf(t.typed, sizeof t.typed, "%s=%s [%s]", key->name, qg_key_range(key, range, sizeof range), own);
        snprintf(t.about, sizeof t.about, "%s%s%s", key->about, key->when ? "; only with " : "", key->when ? key->when : "");
    }
    return t;
}

static bool has_option(row r, const option_text *o)
{
    const qg_key *keys = qg_scheme_keys(r.scheme, r.use);
    for (int k = 0; k < qg_keys_count(keys); k++) {
        const option_text t = option_of(r.scheme, &keys[k]);
        if (!strcmp(t.typed, o->typed) && !strcmp(t.about, o->about)) return true;
    }
    return false;
}

static bool next_of(const char *name, int *i, row *r)
{
    while (row_at(++*i, r))
        if (r->scheme && !strcmp(r->scheme->name, name)) return true;
    return false;
}

void scheme_options_help(const char *name, FILE *out)
{
    row      r, other;
    unsigned all = 0, printed = 0;
    for (int i = -1; next_of(name, &i, &r);) all |= r.use;
    for (int i = -1; next_of(name, &i, &r);) {
        const qg_key *keys = qg_scheme_keys(r.scheme, r.use);
        for (int k = 0; k < qg_keys_count(keys); k++) {
            const option_text o   = option_of(r.scheme, &keys[k]);
            unsigned          of  = 0;
            bool              had = !*o.typed;
            for (int n = -1; next_of(name, &n, &other);) {
                if (!has_option(other, &o)) continue;
                had |= n < i;
                of |= other.use;
            }
            if (had) continue;
            if (!printed++) fprintf(out, "\nOptions of %s:\n", name);
            fprintf(out, "    %s", o.typed);
            for (int u = 0, n = 0; of != all && u < QG_ROLES; u++)
                if (of & qg_roles[u]) fprintf(out, "%s%ss", n++ ? ", " : " for ", qg_role_name(qg_roles[u]));
            fprintf(out, "%s%s\n", *o.about ? "\n        " : "", o.about);
        }
    }
}

bool scheme_shares(const char *name)
{
    row r;
    for (int i = -1; next_of(name, &i, &r);)
        if (qg_keys_find(qg_scheme_keys(r.scheme, r.use), "as", strlen("as")) >= 0) return true;
    return false;
}

/* --- one by one --------------------------------------------------------------------------- */

/* Row r with its defaults, except that key k has its word w. */
static scheme_text with_word(row r, int k, int w)
{
    const qg_key *keys = qg_scheme_keys(r.scheme, r.use);
    scheme_text   t    = { .name = name_of(r), .about = about(r), .use = r.use };
    double        value[QG_MAX_KEYS];
    char          chosen[QG_SPELLING_BYTES] = "", word[QG_KEY_BYTES];
    size_t        used = 0;
    for (int i = 0; i < qg_keys_count(keys); i++) {
        const qg_key *key = &keys[i];
        value[i]          = i == k ? w : key->fallback;
        if (!key->words || (value[i] == key->fallback && !(key->is & QG_KEY_SHOWN))) continue;
        used += (size_t)snprintf(chosen + used, sizeof chosen - used, "%s%s=%s", used ? "," : "", key->name,
                                 qg_key_value(key, value[i], word));
    }
    snprintf(t.spelling, sizeof t.spelling, "%s%s%s", t.name, used ? ":" : "", chosen);
    if (r.scheme && qg_scheme_parse(r.scheme, r.use, used ? chosen : NULL, &t.quant)) t.quant = (qg_quant){ 0 };
    return t;
}

bool scheme_at(int i, scheme_text *out)
{
    row r;
    for (int n = 0; row_at(n, &r); n++) {
        const scheme_text base = with_word(r, -1, 0);
        const qg_key     *keys = qg_scheme_keys(r.scheme, r.use);
        *out                   = base;
        if (i-- == 0) return true;
        for (int k = 0; k < qg_keys_count(keys); k++)
            for (int w = 0; w < qg_key_words(&keys[k]); w++) {
                *out = with_word(r, k, w);
                if (out->quant.scheme && out->quant.scheme != base.quant.scheme && i-- == 0) return true;
            }
    }
    return false;
}

qg_status scheme_unknown(const char *name)
{
    const size_t n          = strcspn(name, ":");
    char         names[512] = "", hint[QG__NEAREST_BYTES];
    scheme_names(QG_WEIGHT | QG_INPUT | QG_GRADIENT, names, sizeof names);
    return qg_fail(QG_EARG, "unknown scheme '%.*s'; available: %s%s", (int)n, name, names,
                   qg__list_nearest(names, name, n, hint));
}
