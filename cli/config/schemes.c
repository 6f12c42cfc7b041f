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
static const char *about(row r) { return r.scheme ? r.scheme->about : "not quantized"; }

void scheme_names(unsigned uses, char *text, size_t bytes)
{
    const qg_scheme *scheme, *before = NULL;
    unsigned         of;
    qg__list_append(text, bytes, "float");
    for (int i = 0; scheme_in_role(i, &scheme, &of); i++) {
        if (!(of & uses) || scheme == before) continue;
        qg__list_append(text, bytes, scheme->name);
        before = scheme;
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
                 "describes them.  Every scheme takes as=paper: the rule of its source.  surrogate is one of\n" QG_SURROGATE_WORDS ";\n"
                 "surrogate-arg is the bound of clip, the beta of swish or the temperature of tanh.  A default of [auto]\n"
                 "depends on the other options.\n");
    for (int u = 0; u < QG_ROLES; u++) {
        row r;
        if (!(uses & qg_roles[u])) continue;
        fprintf(out, "\nfor --%s:\n", qg_role_name(qg_roles[u]));
        for (int i = 0; row_at(i, &r); i++)
            if (r.use & qg_roles[u]) row_help(r, out);
    }
}

void scheme_options_help(const scheme_text *s, FILE *out)
{
    const qg_key *keys = qg_scheme_keys(s->quant.scheme, s->use);
    for (int k = 0; k < qg_keys_count(keys); k++) {
        char range[256], own[QG_KEY_BYTES], text[256];
        snprintf(text, sizeof text, "%s=%s [%s]", keys[k].name, qg_key_range(&keys[k], range, sizeof range),
                 qg_key_default(&keys[k], own));
        fprintf(out, "    %s\n        %s%s%s", text, keys[k].about, keys[k].when ? "; only with " : "",
                keys[k].when ? keys[k].when : "");
        if (!strcmp(keys[k].name, "as")) fprintf(out, ", %s", s->quant.scheme->paper ? s->quant.scheme->paper : "which is the default");
        fputc('\n', out);
    }
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
