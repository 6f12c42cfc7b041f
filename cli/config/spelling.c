#include "cli/config/spelling.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config/options.h"
#include "core/io/number.h"

int spelling_count(const spelling_option *o, int most)
{
    int n = 0;
    while (n < most && o[n].name) n++;
    return n;
}

int spelling_words(const spelling_option *o)
{
    int n = o->words ? 1 : 0;
    for (const char *c = o->words; c && *c; c++) n += *c == '|';
    return n;
}

bool spelling_same(const char *word, const char *at, size_t n)
{
    return strlen(word) == n && !memcmp(word, at, n);
}

/* --- reading ------------------------------------------------------------------------------ */

static qg_status parse_word(const spelling_option *o, const char *at, size_t n, double *value)
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

static qg_status parse_value(const spelling_option *o, const char *at, size_t n, double *value)
{
    if (o->words) return parse_word(o, at, n, value);
    if (!qg_number_read(at, n, value))
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

/* The value of o lies in text, which is "word|word" or "2..8". */
static bool one_of(const spelling_option *o, double value, const char *text)
{
    if (!o->words) {
        char      *dots;
        const long least = strtol(text, &dots, 10), most = strtol(dots + 2, NULL, 10);
        return value >= (double)least && value <= (double)most;
    }
    char word[64];
    spelling_value(o, value, word);
    for (size_t n; *text; text += n + (text[n] == '|')) {
        n = strcspn(text, "|");
        if (spelling_same(word, text, n)) return true;
    }
    return false;
}

static int find(const spelling_option *o, int n, const char *name, size_t length)
{
    int i = 0;
    while (i < n && !spelling_same(o[i].name, name, length)) i++;
    return i;
}

/* Nobody notices an option that does nothing, least of all who wrote it. */
static qg_status check_effect(const spelling_option *o, int n, int i, const double *value)
{
    const size_t key = strcspn(o[i].when, "=");
    const int    k   = find(o, n, o[i].when, key);
    char         word[64];
    if (one_of(&o[k], value[k], o[i].when + key + 1)) return QG_OK;
    spelling_value(&o[k], value[k], word);
    return qg_fail(QG_EARG, "%s has no effect with %s=%s; it belongs to %s", o[i].name, o[k].name, word, o[i].when);
}

static qg_status check_together(const spelling_option *o, int n, const double *value, uint64_t given)
{
    for (int i = 0; i < n; i++) {
        if (!(given >> i & 1)) continue;
        if (o[i].when && check_effect(o, n, i, value)) return QG_EARG;
        const int k = o[i].below ? find(o, n, o[i].below, strlen(o[i].below)) : i;
        if (k != i && !(value[i] < value[k]))
            return qg_fail(QG_EARG, "%s is %g, not below %s, %g", o[i].name, value[i], o[k].name, value[k]);
    }
    return QG_OK;
}

/* key=value,key=value behind the colon. */
static qg_status parse_options(const char *name, int length, const char *at, const spelling_option *o, int n_options,
                               double *value)
{
    uint64_t given = 0;                         /* a bit for each option */
    QG_ASSERT(n_options <= 64);
    while (at) {
        const size_t n = strcspn(at, ","), key = strcspn(at, "=,");
        const int    i = find(o, n_options, at, key);
        if (i == n_options) {
            char names[256] = "";
            for (int k = 0; k < n_options; k++) list_append(names, sizeof names, o[k].name);
            return qg_fail(QG_EARG, "%.*s has no option '%.*s'; available: %s", length, name, (int)key, at,
                           *names ? names : "none");
        }
        if (given >> i & 1)
            return qg_fail(QG_EARG, "%.*s: %s is given twice", length, name, o[i].name);
        given |= UINT64_C(1) << i;
        if (at[key] != '=') return qg_fail(QG_EARG, "%.*s: %s needs a value", length, name, o[i].name);
        if (parse_value(&o[i], at + key + 1, n - key - 1, &value[i]))
            return qg_fail(QG_EARG, "%.*s: %s", length, name, qg_errmsg());
        at = at[n] ? at + n + 1 : NULL;
    }
    return check_together(o, n_options, value, given) ? qg_fail(QG_EARG, "%.*s: %s", length, name, qg_errmsg()) : QG_OK;
}

qg_status spelling_parse(const char *text, const spelling_option *o, int n, double *value)
{
    const size_t name = strcspn(text, ":");
    for (int i = 0; i < n; i++) value[i] = o[i].fallback;
    return text[name] ? parse_options(text, (int)name, text + name + 1, o, n, value) : QG_OK;
}

/* --- writing ------------------------------------------------------------------------------ */

void spelling_value(const spelling_option *o, double value, char text[64])
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
    qg_number_print_float(text, (float)value);
}

void spelling_print(const char *name, const spelling_option *o, int n, const double *value, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s", name);
    for (int i = 0, printed = 0; i < n; i++) {
        char         word[64];
        const size_t used = strlen(text);
        if (value[i] == o[i].fallback && !(o[i].is & SHOWN)) continue;
        spelling_value(&o[i], value[i], word);
        snprintf(text + used, bytes - used, "%c%s=%s", printed++ ? ',' : ':', o[i].name, word);
    }
}
