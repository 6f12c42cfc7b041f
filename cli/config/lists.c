#include "cli/config/lists.h"

#include <stdlib.h>
#include <string.h>

#include "core/io/number.h"

bool lists_take(const option *o)
{
    return verb_option_find(&train_verb, o->name) && o->kind != QG_RECIPE_LIST && (option_is_of_recipe(o) || !strcmp(o->name, "init") || !strcmp(o->name, "config"));
}

bool lists_is_free(const option *o) { return !(o->is & QG_RECIPE_IDENTITY) && o->kind != QG_RECIPE_TEXT; }

/* --- from texts --------------------------------------------------------------------------- */

/* Whether a comma may separate values at all. */
static bool is_cut(const option *o)
{
    return o->kind != QG_RECIPE_FLAG && !(o->is & QG_RECIPE_COMMAS);
}

/* Whether a comma is in a number, as in "threshold=0,05": digits follow, and precede it after a '='.  Refused as one value. */
static bool is_decimal(const char *text, size_t n)
{
    size_t after = n + 1 + strspn(text + n + 1, "0123456789"), before = n;
    while (before && strchr("0123456789", text[before - 1])) before--;
    return after > n + 1 && (!text[after] || text[after] == ',') && before < n && before && text[before - 1] == '=';
}

/* Whether what follows a comma begins another value, and not with key=. */
static bool begins_value(const option *o, const char *part)
{
    return o->kind != QG_RECIPE_VALUE || part[strspn(part, "abcdefghijklmnopqrstuvwxyz-_0123456789")] != '=';
}

/* A comma in parentheses belongs to a layer of a net as text. */
static size_t length_of_value(const option *o, const char *text)
{
    int depth = 0;
    if (!is_cut(o)) return strlen(text);
    for (size_t n = 0;; n++) {
        if (text[n] == '(') depth++;
        if (text[n] == ')') depth--;
        if (!text[n] || (text[n] == ',' && depth <= 0 && begins_value(o, text + n + 1) && !is_decimal(text, n))) return n;
    }
}

static bool has_line(const char *lines, const char *line)
{
    const size_t n = strlen(line);
    for (; lines && *lines; lines = qg__lines_next(lines))
        if (strcspn(lines, "\n") == n && !memcmp(lines, line, n)) return true;
    return false;
}

/* Adds one value, in its canonical spelling. */
static qg_status add(config *asked, const option *o, const char *text)
{
    char      value[QG_RECIPE_VALUE_BYTES];
    char    **lines  = &asked->values[option_index(o)];
    qg_status status = config_check(o, text, value);
    if (!status && has_line(*lines, value)) status = qg_fail(QG_EARG, "%s: %s is given twice", o->name, value);
    if (!status && *lines && lists_is_free(o))
        status = qg_fail(QG_EARG, "%s: takes one value, because it does not change the results", o->name);
    if (!status) {
        const size_t used  = *lines ? strlen(*lines) + 1 : 0;
        char        *grown = realloc(*lines, used + strlen(value) + 1);
        if (!grown) status = qg_fail(QG_EMEM, "out of memory for --%s", o->name);
        else *lines = grown;
        if (!status && used) grown[used - 1] = '\n';
        if (!status) strcpy(grown + used, value);
    }
    return status;
}

/* "1..3", whose ends are legal values; *last is *first if the text is no range. */
static qg_status read_range(const option *o, const char *text, double *first, double *last)
{
    const bool  whole = o->kind == QG_RECIPE_INTEGER;
    const bool  dash  = whole && *text != '-' && text[strspn(text, "0123456789")] == '-';     /* "1-3" */
    const char *dots  = whole ? strstr(text, "..") : NULL;
    *first = *last = 0;
    if (!dots && !dash) return QG_OK;
    if (!dots || !qg__number_read(text, (size_t)(dots - text), first) || !qg__number_read(dots + 2, strlen(dots + 2), last) ||
        strspn(text, "0123456789.") != strlen(text) || *last < *first)
        return qg_fail(QG_EARG, "%s: '%s' is not a range; write 1..3, from the lower to the higher", o->name, text);
    if (*last - *first >= MOST_COMBINATIONS)
        return qg_fail(QG_EARG, "%s: '%s' are more than %d values", o->name, text, MOST_COMBINATIONS);
    return QG_OK;
}

static qg_status add_range(config *asked, const option *o, const char *text)
{
    double    first, last;
    qg_status status = read_range(o, text, &first, &last);
    if (status || !strstr(text, "..") || o->kind != QG_RECIPE_INTEGER) return status ? status : add(asked, o, text);
    for (double i = first; i <= last && !status; i++) {
        char number[32];
        snprintf(number, sizeof number, "%.0f", i);
        status = add(asked, o, number);
    }
    return status;
}

qg_status lists_add(config *asked, const option *o, const char *text)
{
    char value[QG_RECIPE_VALUE_BYTES];
    for (const char *at = text;;) {
        const size_t n = length_of_value(o, at);
        if (n >= QG_RECIPE_VALUE_BYTES) return qg_fail(QG_EARG, "%s: the value is longer than %d bytes", o->name, QG_RECIPE_VALUE_BYTES - 1);
        snprintf(value, sizeof value, "%.*s", (int)n, at);
        const qg_status status = add_range(asked, o, value);
        if (status || !at[n]) return status;
        at += n + 1;
    }
}

/* --- combinations ------------------------------------------------------------------------- */

static int count(const config *asked, int i)
{
    int n = 0;
    for (const char *line = asked->values[i]; line && *line; line = qg__lines_next(line)) n++;
    return n;
}

int lists_count(const config *asked, const option *o) { return count(asked, option_index(o)); }

qg_status lists_combinations(const config *asked, int *n)
{
    long long all = 1;
    for (int i = 0; i < OPTIONS; i++) {
        const int of = count(asked, i);
        if (of) all *= of;
        if (all > MOST_COMBINATIONS) return qg_fail(QG_EARG, "these are more than %d combinations", MOST_COMBINATIONS);
    }
    *n = (int)all;
    return QG_OK;
}

int lists_index(const config *asked, int k, const option *o)
{
    for (int i = OPTIONS - 1; i >= 0; i--) {
        const int of = count(asked, i);
        if (option_at(i) == o) return of ? k % of : 0;
        if (of) k /= of;
    }
    return 0;
}

void lists_value(const config *asked, int k, const option *o, char text[QG_RECIPE_VALUE_BYTES])
{
    const char *line = asked->values[option_index(o)];
    *text            = '\0';
    if (!line) return;
    for (int i = lists_index(asked, k, o); i > 0; i--) line = qg__lines_next(line);
    snprintf(text, QG_RECIPE_VALUE_BYTES, "%.*s", (int)strcspn(line, "\n"), line);
}

qg_status lists_pick(const config *asked, int k, config *one)
{
    qg_status status = QG_OK;
    for (int i = 0; i < OPTIONS && !status; i++)
        if (asked->text[i] && verb_option_find(&train_verb, option_at(i)->name))
            status = config_take(one, option_at(i), asked->text[i]);
    for (int i = 0; i < OPTIONS && !status; i++) {
        char value[QG_RECIPE_VALUE_BYTES];
        lists_value(asked, k, option_at(i), value);
        if (asked->values[i]) status = config_set(one, option_at(i)->name, value);
    }
    return status;
}

void lists_help(FILE *out)
{
    fputs("\nLists: an option that is given several times has each of these values, and --lr 0.1,0.03 is the same as --lr 0.1 --lr 0.03.\n"
          "Whole numbers may be ranges, as in --seed 1..3,7.  In values with keys a comma separates values unless key= follows:\n"
          "--weight twn,ttq:threshold=0.05,gradient=scaled has two.  To --augment, --distil, --layer, names of files and lists of layers\n"
          "commas belong, so repeat the option; of --layer, as in train, every item holds.\n", out);
}
