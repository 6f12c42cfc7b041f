#include "cli/config/schemes.h"

#include <string.h>

#include "cli/config/options.h"
#include "cli/config/scheme_table.h"
#include "layers/layer.h"
#include "quant/scheme.h"

/* --- reading ------------------------------------------------------------------------------ */

static qg_status refuse(const char *text, size_t n, unsigned use)
{
    char names[256] = "", others[64] = "";
    for (int i = 0; i < SCHEME_ROWS; i++) {
        if (scheme_rows[i].use & use) list_append(names, sizeof names, scheme_rows[i].name);
        else if (spelling_same(scheme_rows[i].name, text, n)) {
            char plural[16];
            snprintf(plural, sizeof plural, "%ss", qg_role_name(scheme_rows[i].use));
            list_append(others, sizeof others, plural);
        }
    }
    if (*others)
        return qg_fail(QG_EARG, "%.*s is a scheme for %s, not for %ss; available: %s", (int)n, text, others,
                       qg_role_name(use), names);
    return qg_fail(QG_EARG, "unknown scheme '%.*s' for %ss; available: %s", (int)n, text, qg_role_name(use), names);
}

static const scheme_row *find_row(const char *text, size_t n, unsigned use)
{
    for (int i = 0; i < SCHEME_ROWS; i++)
        if ((scheme_rows[i].use & use) && spelling_same(scheme_rows[i].name, text, n)) return &scheme_rows[i];
    return NULL;
}

/* The scheme's own word on its constants, which knows what no single option can. */
static qg_status check(qg_quant q, unsigned use)
{
    q.role = (qg_role)use;
    return qg_quant_check(q);
}

qg_status scheme_parse(const char *text, unsigned use, qg_quant *out, char *canonical, size_t bytes)
{
    const size_t      n   = strcspn(text, ":");
    const scheme_row *row = find_row(text, n, use);
    if (!row) return refuse(text, n, use);
    double value[SCHEME_OPTIONS] = { 0 };
    const int n_options = spelling_count(row->option, SCHEME_OPTIONS);
    if (spelling_parse(text, row->option, n_options, value)) return QG_EARG;
    *out = row->make(value);
    spelling_print(row->name, row->option, n_options, value, canonical, bytes);
    return check(*out, use);
}

qg_status choice_parse(const char *text, qg_choice *out, char name[LAYER_NAME_BYTES],
                       char *canonical, size_t bytes)
{
    const size_t n = strcspn(text, ":"), key = strcspn(text, "=");
    const char  *rest = text[n] ? text + n + 1 : "";
    unsigned     use  = 0;
    for (int i = 0; i < QG_ROLES; i++) {
        const size_t length = strlen(qg_role_name(qg_roles[i]));
        if (!strncmp(rest, qg_role_name(qg_roles[i]), length) && rest[length] == '=') use = qg_roles[i];
    }
    if (n == 0 || n >= LAYER_NAME_BYTES || use == 0)
        return qg_fail(QG_EARG,
                       "'%s' is none of LAYER:weight=SCHEME, LAYER:input=SCHEME and LAYER:gradient=SCHEME",
                       text);
    char     spelt[VALUE_BYTES];
    qg_quant q;
    if (scheme_parse(text + key + 1, use, &q, spelt, sizeof spelt)) return QG_EARG;
    snprintf(name, LAYER_NAME_BYTES, "%.*s", (int)n, text);
    snprintf(canonical, bytes, "%s:%s=%s", name, qg_role_name(use), spelt);
    *out = (qg_choice){ .layer        = name,
                        .has_weight   = use == FOR_WEIGHT,
                        .has_input    = use == FOR_INPUT,
                        .has_gradient = use == FOR_GRADIENT };
    *(use == FOR_WEIGHT ? &out->weight : use == FOR_INPUT ? &out->input : &out->gradient) = q;
    return QG_OK;
}

/* --- help --------------------------------------------------------------------------------- */

static void row_help(const scheme_row *row, FILE *out)
{
    fprintf(out, "  %-16s %s", row->name, row->about);
    for (int k = 0; k < spelling_count(row->option, SCHEME_OPTIONS); k++) {
        const spelling_option *o = &row->option[k];
        char                 text[64], range[64];
        if (!strcmp(o->name, "surrogate-arg")) continue;
        spelling_value(o, o->fallback, text);
        if (!o->words) snprintf(range, sizeof range, "%g..%g", o->min, o->max);
        else snprintf(range, sizeof range, "%s", strcmp(o->name, "surrogate") ? o->words : "..");
        fprintf(out, "%s%s=%s", k % 4 ? "; " : "\n                     ", o->name, range);
        if (o->also != 0) fprintf(out, " or %g", o->also);
        fprintf(out, " [%s]", o->words || (o->fallback >= o->min && o->fallback <= o->max) ? text : "its own");
    }
    fputc('\n', out);
}

void schemes_help(FILE *out, unsigned uses)
{
    fprintf(out, "\nSchemes, with options as in twn:threshold=0.5,per-channel=yes.  surrogate is one of\n"
                 SURROGATES ";\n"
                 "surrogate-arg the bound of clip, the beta of swish or the temperature of tanh.\n");
    for (int u = 0; u < QG_ROLES; u++) {
        if (!(uses & qg_roles[u])) continue;
        fprintf(out, "\nfor --%s:\n", qg_role_name(qg_roles[u]));
        for (int i = 0; i < SCHEME_ROWS; i++)
            if (scheme_rows[i].use & qg_roles[u]) row_help(&scheme_rows[i], out);
    }
}

/* --- one by one --------------------------------------------------------------------------- */

/* Row at its defaults, but for option k, which has its word w. */
static scheme_text with_word(const scheme_row *row, int k, int w)
{
    scheme_text t = { .name = row->name, .about = row->about, .use = row->use };
    double      value[SCHEME_OPTIONS] = { 0 };
    size_t      used = (size_t)snprintf(t.spelling, sizeof t.spelling, "%s", row->name);
    char        before = ':';
    for (int i = 0; i < spelling_count(row->option, SCHEME_OPTIONS); i++) {
        const spelling_option *o = &row->option[i];
        char                 word[64];
        value[i] = i == k ? w : o->fallback;
        if (!o->words || (value[i] == o->fallback && !(o->is & SHOWN))) continue;
        spelling_value(o, value[i], word);
        used += (size_t)snprintf(t.spelling + used, sizeof t.spelling - used, "%c%s=%s", before, o->name,
                                 word);
        before = ',';
    }
    t.quant = row->make(value);
    return t;
}

bool scheme_at(int i, scheme_text *out)
{
    for (int r = 0; r < SCHEME_ROWS; r++) {
        const scheme_row *row  = &scheme_rows[r];
        const scheme_text base = with_word(row, -1, 0);
        *out                   = base;
        if (i-- == 0) return true;
        for (int k = 0; k < spelling_count(row->option, SCHEME_OPTIONS); k++)
            for (int w = 0; w < spelling_words(&row->option[k]); w++) {
                *out = with_word(row, k, w);
                if (out->quant.scheme != base.quant.scheme && i-- == 0) return true;
            }
    }
    return false;
}
