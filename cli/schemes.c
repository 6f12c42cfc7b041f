#include "cli/schemes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "cli/scheme_table.h"
#include "quant/scheme.h"

static const unsigned uses[] = { FOR_WEIGHT, FOR_INPUT, FOR_GRADIENT };

enum { USES = sizeof uses / sizeof *uses };

static const char *operand(unsigned use)
{
    return use == FOR_WEIGHT ? "weight" : use == FOR_INPUT ? "input" : "gradient";
}

/* --- reading ------------------------------------------------------------------------------ */

/* The n characters at at are word, whole. */
static bool same(const char *word, const char *at, size_t n)
{
    return strlen(word) == n && !memcmp(word, at, n);
}

static qg_status refuse(const char *text, size_t n, unsigned use)
{
    char names[256] = "", others[64] = "";
    for (int i = 0; i < SCHEME_ROWS; i++) {
        if (scheme_rows[i].use & use) list_append(names, sizeof names, scheme_rows[i].name);
        else if (same(scheme_rows[i].name, text, n)) {
            char plural[16];
            snprintf(plural, sizeof plural, "%ss", operand(scheme_rows[i].use));
            list_append(others, sizeof others, plural);
        }
    }
    if (*others)
        return qg_fail(QG_EARG, "%.*s is a scheme for %s, not for %ss; there is %s", (int)n, text, others,
                       operand(use), names);
    return qg_fail(QG_EARG, "no scheme '%.*s' for %ss; there is %s", (int)n, text, operand(use), names);
}

static const scheme_row *find_row(const char *text, size_t n, unsigned use)
{
    for (int i = 0; i < SCHEME_ROWS; i++)
        if ((scheme_rows[i].use & use) && same(scheme_rows[i].name, text, n)) return &scheme_rows[i];
    return NULL;
}

static qg_status parse_word(const scheme_option *o, const char *at, size_t n, double *value)
{
    int index = 0;
    for (const char *word = o->words; word; index++) {
        const size_t length = strcspn(word, "|");
        if (length == n && !memcmp(word, at, n)) {
            *value = index;
            return QG_OK;
        }
        word = word[length] ? word + length + 1 : NULL;
    }
    return qg_fail(QG_EARG, "%s '%.*s' is none of %s", o->name, (int)n, at, o->words);
}

static qg_status parse_value(const scheme_option *o, const char *at, size_t n, double *value)
{
    if (o->words) return parse_word(o, at, n, value);
    char *end;
    *value = strtod(at, &end);
    if (n == 0 || end != at + n)
        return qg_fail(QG_EARG, "%s '%.*s' is no number", o->name, (int)n, at);
    if (o->also != 0 && *value == o->also) return QG_OK;
    if (!(*value >= o->min && *value <= o->max)) {
        char also[32] = "";
        if (o->also != 0) snprintf(also, sizeof also, " or %g", o->also);
        return qg_fail(QG_EARG, "%s %.*s is not in %g..%g%s", o->name, (int)n, at, o->min, o->max, also);
    }
    if ((o->is & WHOLE) && *value != floor(*value))
        return qg_fail(QG_EARG, "%s '%.*s' is no whole number", o->name, (int)n, at);
    if (!(o->is & WHOLE)) *value = (double)(float)*value;
    return QG_OK;
}

static int count_options(const scheme_row *row)
{
    int n = 0;
    while (n < SCHEME_OPTIONS && row->option[n].name) n++;
    return n;
}

/* name=value,name=value into value[]. */
static qg_status parse_options(const scheme_row *row, const char *at, double *value)
{
    const int n_options = count_options(row);
    while (at) {
        const size_t n = strcspn(at, ","), key = strcspn(at, "=,");
        int          i = 0;
        while (i < n_options && !same(row->option[i].name, at, key)) i++;
        if (i == n_options) {
            char names[256] = "";
            for (int k = 0; k < n_options; k++)
                list_append(names, sizeof names, row->option[k].name);
            return qg_fail(QG_EARG, "%s has no option '%.*s'; there is %s", row->name, (int)key, at,
                           *names ? names : "none");
        }
        if (at[key] != '=') return qg_fail(QG_EARG, "%s: %s needs a value", row->name,
                                           row->option[i].name);
        if (parse_value(&row->option[i], at + key + 1, n - key - 1, &value[i]))
            return qg_fail(QG_EARG, "%s: %s", row->name, qg_errmsg());
        at = at[n] ? at + n + 1 : NULL;
    }
    return QG_OK;
}

/* The shortest decimal that reads back as the same float, or the word. */
static void print_value(const scheme_option *o, double value, char text[64])
{
    if (o->words) {
        const char *word = o->words;
        for (int i = 0; i < (int)value; i++) word = strchr(word, '|') + 1;
        snprintf(text, 64, "%.*s", (int)strcspn(word, "|"), word);
        return;
    }
    if (o->is & WHOLE) {
        snprintf(text, 64, "%.0f", value);
        return;
    }
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, 64, "%.*g", digits, value);
        const bool short_of_digits = strchr(text, 'e') && value >= 1e-4 && value < 1e6;
        if (strtof(text, NULL) == (float)value && !short_of_digits) return;
    }
}

static void spell(const scheme_row *row, const double *value, char *canonical, size_t bytes)
{
    snprintf(canonical, bytes, "%s", row->name);
    for (int i = 0, printed = 0; i < count_options(row); i++) {
        char         text[64];
        const size_t used = strlen(canonical);
        if (value[i] == row->option[i].fallback && !(row->option[i].is & SHOWN)) continue;
        print_value(&row->option[i], value[i], text);
        snprintf(canonical + used, bytes - used, "%c%s=%s", printed++ ? ',' : ':', row->option[i].name,
                 text);
    }
}

/* The scheme's own word on its constants, which knows what no single option can. */
static qg_status check(qg_quant q, unsigned use)
{
    q.role = (qg_role)use;
    return q.scheme && q.scheme->check ? q.scheme->check(q) : QG_OK;
}

qg_status scheme_parse(const char *text, unsigned use, qg_quant *out, char *canonical, size_t bytes)
{
    const size_t      n   = strcspn(text, ":");
    const scheme_row *row = find_row(text, n, use);
    if (!row) return refuse(text, n, use);
    double value[SCHEME_OPTIONS] = { 0 };
    for (int i = 0; i < count_options(row); i++) value[i] = row->option[i].fallback;
    if (text[n] && parse_options(row, text + n + 1, value)) return QG_EARG;
    if (row->make(value, out)) return qg_fail(QG_EARG, "%s: %s", row->name, qg_errmsg());
    spell(row, value, canonical, bytes);
    return check(*out, use);
}

qg_status choice_parse(const char *text, qg_choice *out, char name[LAYER_NAME_BYTES],
                       char *canonical, size_t bytes)
{
    const size_t n = strcspn(text, ":"), key = strcspn(text, "=");
    const char  *rest = text[n] ? text + n + 1 : "";
    unsigned     use  = 0;
    for (int i = 0; i < USES; i++) {
        const size_t length = strlen(operand(uses[i]));
        if (!strncmp(rest, operand(uses[i]), length) && rest[length] == '=') use = uses[i];
    }
    if (n == 0 || n >= LAYER_NAME_BYTES || use == 0)
        return qg_fail(QG_EARG,
                       "'%s' is none of LAYER:weight=SCHEME, LAYER:input=SCHEME and LAYER:gradient=SCHEME",
                       text);
    char     spelt[VALUE_BYTES];
    qg_quant q;
    if (scheme_parse(text + key + 1, use, &q, spelt, sizeof spelt)) return QG_EARG;
    snprintf(name, LAYER_NAME_BYTES, "%.*s", (int)n, text);
    snprintf(canonical, bytes, "%s:%s=%s", name, operand(use), spelt);
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
    for (int k = 0; k < count_options(row); k++) {
        const scheme_option *o = &row->option[k];
        char                 text[64], range[64];
        if (!strcmp(o->name, "surrogate-arg")) continue;
        print_value(o, o->fallback, text);
        if (!o->words) snprintf(range, sizeof range, "%g..%g", o->min, o->max);
        else snprintf(range, sizeof range, "%s", strcmp(o->name, "surrogate") ? o->words : "..");
        fprintf(out, "%s%s=%s", k % 4 ? "; " : "\n                     ", o->name, range);
        if (o->also != 0) fprintf(out, " or %g", o->also);
        fprintf(out, " [%s]", o->words || o->fallback >= o->min ? text : "its own");
    }
    fputc('\n', out);
}

void schemes_help(FILE *out)
{
    fprintf(out, "\nSchemes, with options as in twn:threshold=0.5,per-channel=yes.  surrogate is one of\n"
                 SURROGATES ";\n"
                 "surrogate-arg the bound of clip, the beta of swish or the temperature of tanh.\n");
    for (int u = 0; u < USES; u++) {
        fprintf(out, "\nfor --%s:\n", operand(uses[u]));
        for (int i = 0; i < SCHEME_ROWS; i++)
            if (scheme_rows[i].use & uses[u]) row_help(&scheme_rows[i], out);
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
    for (int i = 0; i < count_options(row); i++) {
        const scheme_option *o = &row->option[i];
        char                 word[64];
        value[i] = i == k ? w : o->fallback;
        if (!o->words || (value[i] == o->fallback && !(o->is & SHOWN))) continue;
        print_value(o, value[i], word);
        used += (size_t)snprintf(t.spelling + used, sizeof t.spelling - used, "%c%s=%s", before, o->name,
                                 word);
        before = ',';
    }
    const qg_status status = row->make(value, &t.quant);
    QG_ASSERT(!status);                 /* a word alone contradicts no default */
    return t;
}

static int count_words(const scheme_option *o)
{
    int n = o->words ? 1 : 0;
    for (const char *c = o->words; c && *c; c++) n += *c == '|';
    return n;
}

bool scheme_at(int i, scheme_text *out)
{
    for (int r = 0; r < SCHEME_ROWS; r++) {
        const scheme_row *row  = &scheme_rows[r];
        const scheme_text base = with_word(row, -1, 0);
        *out                   = base;
        if (i-- == 0) return true;
        for (int k = 0; k < count_options(row); k++)
            for (int w = 0; w < count_words(&row->option[k]); w++) {
                *out = with_word(row, k, w);
                if (out->quant.scheme != base.quant.scheme && i-- == 0) return true;
            }
    }
    return false;
}
