#include "cli/schemes.h"

#include <stdlib.h>
#include <string.h>

#include "cli/options.h"

enum { SCHEME_OPTIONS = 4 };

/* threshold=0.7 behind the colon: a number in min..max, or one of the words in "identity|clip",
 * whose value is its index. */
typedef struct scheme_option {
    const char *name;
    float       fallback, min, max;
    const char *words;
} scheme_option;

typedef struct scheme_row {
    const char   *name;
    unsigned      use;
    scheme_option option[SCHEME_OPTIONS];           /* ends with a NULL name */
    qg_quant    (*make)(const float *value);        /* one value per option */
    const char   *about;
} scheme_row;

static qg_quant make_float(const float *value)
{
    (void)value;
    return (qg_quant){ 0 };
}

static qg_quant make_twn(const float *value)
{
    return qg_twn((qg_twn_spec){ .threshold = value[0] });
}

static qg_surrogate surrogate(float index)
{
    return index == 0 ? qg_ste_identity() : index == 1 ? qg_ste_clip(1.0f) : qg_ste_approx_sign();
}

#define SURROGATES "identity|clip|approx-sign"

static qg_quant make_binary(const float *value)
{
    return qg_binary((qg_binary_spec){ .surrogate = surrogate(value[0]) });
}

static qg_quant make_binary_channel(const float *value)
{
    return qg_binary((qg_binary_spec){ .per_channel = true, .surrogate = surrogate(value[0]) });
}

static qg_quant make_sign(const float *value)
{
    return qg_binary_activation((qg_binary_activation_spec){ .surrogate = surrogate(value[0]) });
}

static const scheme_row rows[] = {
    { "float", FOR_WEIGHT | FOR_INPUT, { { 0 } }, make_float, "not quantized" },
    { "twn", FOR_WEIGHT, { { "threshold", 0.7f, 0.01f, 10, NULL } }, make_twn,
      "{-a, 0, +a}, one a per layer" },
    { "binary", FOR_WEIGHT, { { "surrogate", 0, 0, 0, SURROGATES } }, make_binary,
      "{-a, +a}, one a per layer" },
    { "binary-channel", FOR_WEIGHT, { { "surrogate", 0, 0, 0, SURROGATES } }, make_binary_channel,
      "{-a, +a}, one a per output channel" },
    { "sign", FOR_INPUT, { { "surrogate", 1, 0, 0, SURROGATES } }, make_sign, "{-1, +1}" },
};

enum { ROWS = sizeof rows / sizeof *rows };

/* The n characters at at are word, whole. */
static bool same(const char *word, const char *at, size_t n)
{
    return strlen(word) == n && !memcmp(word, at, n);
}

static const scheme_row *find_row(const char *text, size_t n, unsigned use)
{
    for (int i = 0; i < ROWS; i++)
        if ((rows[i].use & use) && same(rows[i].name, text, n)) return &rows[i];
    char names[256] = "";
    for (int i = 0; i < ROWS; i++)
        if (rows[i].use & use) list_append(names, sizeof names, rows[i].name);
    qg_fail(QG_EARG, "no scheme '%.*s' for %s; there is %s", (int)n, text,
            use == FOR_WEIGHT ? "weights" : "inputs", names);
    return NULL;
}

static qg_status parse_word(const scheme_option *o, const char *at, size_t n, float *value)
{
    int index = 0;
    for (const char *word = o->words; word; index++) {
        const size_t length = strcspn(word, "|");
        if (length == n && !memcmp(word, at, n)) {
            *value = (float)index;
            return QG_OK;
        }
        word = word[length] ? word + length + 1 : NULL;
    }
    return qg_fail(QG_EARG, "%s '%.*s' is none of %s", o->name, (int)n, at, o->words);
}

static qg_status parse_value(const scheme_option *o, const char *at, size_t n, float *value)
{
    if (o->words) return parse_word(o, at, n, value);
    char *end;
    *value = strtof(at, &end);
    if (n == 0 || end != at + n)
        return qg_fail(QG_EARG, "%s '%.*s' is no number", o->name, (int)n, at);
    if (!(*value >= o->min && *value <= o->max))
        return qg_fail(QG_EARG, "%s %.*s is not in %g..%g", o->name, (int)n, at, (double)o->min,
                       (double)o->max);
    return QG_OK;
}

static int count_options(const scheme_row *row)
{
    int n = 0;
    while (n < SCHEME_OPTIONS && row->option[n].name) n++;
    return n;
}

/* name=value,name=value into value[]. */
static qg_status parse_options(const scheme_row *row, const char *at, float *value)
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
static void print_value(const scheme_option *o, float value, char text[64])
{
    if (o->words) {
        const char *word = o->words;
        for (int i = 0; i < (int)value; i++) word = strchr(word, '|') + 1;
        snprintf(text, 64, "%.*s", (int)strcspn(word, "|"), word);
        return;
    }
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, 64, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) return;
    }
}

qg_status scheme_parse(const char *text, unsigned use, qg_quant *out, char *canonical, size_t bytes)
{
    const size_t      n   = strcspn(text, ":");
    const scheme_row *row = find_row(text, n, use);
    if (!row) return QG_EARG;
    float value[SCHEME_OPTIONS] = { 0 };
    for (int i = 0; i < count_options(row); i++) value[i] = row->option[i].fallback;
    if (text[n] && parse_options(row, text + n + 1, value)) return QG_EARG;
    *out = row->make(value);
    snprintf(canonical, bytes, "%s", row->name);
    for (int i = 0, printed = 0; i < count_options(row); i++) {
        char         number[64];
        const size_t used = strlen(canonical);
        if (value[i] == row->option[i].fallback) continue;
        print_value(&row->option[i], value[i], number);
        snprintf(canonical + used, bytes - used, "%c%s=%s", printed++ ? ',' : ':',
                 row->option[i].name, number);
    }
    return QG_OK;
}

qg_status choice_parse(const char *text, qg_choice *out, char name[LAYER_NAME_BYTES],
                       char *canonical, size_t bytes)
{
    const size_t n = strcspn(text, ":"), key = strcspn(text, "=");
    const char  *operand = text[n] ? text + n + 1 : "";
    const bool   weight = !strncmp(operand, "weight=", 7), input = !strncmp(operand, "input=", 6);
    if (n == 0 || n >= LAYER_NAME_BYTES || (!weight && !input))
        return qg_fail(QG_EARG, "'%s' is neither LAYER:weight=SCHEME nor LAYER:input=SCHEME", text);
    char     spelt[VALUE_BYTES];
    qg_quant q;
    if (scheme_parse(text + key + 1, weight ? FOR_WEIGHT : FOR_INPUT, &q, spelt, sizeof spelt))
        return QG_EARG;
    snprintf(name, LAYER_NAME_BYTES, "%.*s", (int)n, text);
    snprintf(canonical, bytes, "%s:%s=%s", name, weight ? "weight" : "input", spelt);
    *out = (qg_choice){ .layer = name, .has_weight = weight, .has_input = input };
    if (weight) out->weight = q;
    else out->input = q;
    return QG_OK;
}

scheme_text scheme_at(int i)
{
    if (i >= ROWS) return (scheme_text){ 0 };
    float value[SCHEME_OPTIONS] = { 0 };
    for (int k = 0; k < count_options(&rows[i]); k++) value[k] = rows[i].option[k].fallback;
    return (scheme_text){ rows[i].name, rows[i].about, rows[i].use, rows[i].make(value) };
}

void schemes_help(FILE *out)
{
    fprintf(out, "\nSchemes, with options as in twn:threshold=0.5:\n");
    for (int i = 0; i < ROWS; i++) {
        const scheme_row *row = &rows[i];
        fprintf(out, "  %-16s %s; for %s", row->name, row->about,
                row->use == FOR_WEIGHT  ? "weights"
                : row->use == FOR_INPUT ? "inputs"
                                        : "both");
        for (int k = 0; k < count_options(row); k++) {
            char text[64];
            print_value(&row->option[k], row->option[k].fallback, text);
            fprintf(out, "; %s=%s [%s]", row->option[k].name,
                    row->option[k].words ? row->option[k].words : "X", text);
        }
        fputc('\n', out);
    }
}
