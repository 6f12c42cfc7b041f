#include "core/io/keys.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/number.h"
#include "core/io/paths.h"

int qg_keys_count(const qg_key *keys)
{
    int n = 0;
    while (keys && keys[n].name) n++;
    QG_ASSERT(n <= QG_MAX_KEYS);
    return n;
}

int qg_key_words(const qg_key *key)
{
    int n = key->words ? 1 : 0;
    for (const char *c = key->words; c && *c; c++) n += *c == '|';
    return n;
}

static bool is_word(const char *word, const char *at, size_t n)
{
    return word && strlen(word) == n && !memcmp(word, at, n);
}

int qg_keys_find(const qg_key *keys, const char *name, size_t length)
{
    for (int i = 0; i < qg_keys_count(keys); i++)
        if (is_word(keys[i].name, name, length) || is_word(keys[i].alias, name, length)) return i;
    return -1;
}

/* --- legal values ------------------------------------------------------------------------- */

static bool is_whole(const qg_key *key) { return key->words || key->is & QG_KEY_WHOLE; }

/* Values are kept as floats unless they are whole, so bounds apply to what is kept. */
static double kept(const qg_key *key, double value) { return is_whole(key) ? value : (double)(float)value; }

static bool is_in_range(const qg_key *key, double value)
{
    const double min = kept(key, key->words ? 0 : key->min);
    const double max = kept(key, key->words ? qg_key_words(key) - 1 : key->max);
    value = kept(key, value);
    return (key->is & QG_KEY_ABOVE_MIN ? value > min : value >= min) &&
           (key->is & QG_KEY_BELOW_MAX ? value < max : value <= max);
}

static qg_status check_value(const qg_key *key, double value)
{
    char range[QG_KEY_BYTES * 4];
    if ((value == key->fallback && !key->most) || (key->also != 0 && value == key->also)) return QG_OK;
    const bool positive = isinf(key->max) && key->min == 0 && key->is & QG_KEY_ABOVE_MIN;
    if (!is_in_range(key, value) && positive) return qg_fail(QG_EARG, "%s is %.9g, must be positive", key->name, value);
    if (!is_in_range(key, value))
        return qg_fail(QG_EARG, "%s is %.9g, not %s%s", key->name, value,
                       key->words ? "one of " : isinf(key->max) ? "" : "in ", qg_key_range(key, range, sizeof range));
    if (!isfinite(kept(key, value))) return qg_fail(QG_EARG, "%s is %.9g, which is too large", key->name, value);
    if (is_whole(key) && value != floor(value))
        return qg_fail(QG_EARG, "%s is %.9g, not a whole number", key->name, value);
    return QG_OK;
}

static qg_status check_different(const qg_key *key, int count, const double *number)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (number[k] == number[i]) return qg_fail(QG_EARG, "%s has %.9g twice", key->name, number[i]);
    return QG_OK;
}

static qg_status check_list(const qg_key *key, int count, const double *number)
{
    const bool size = key->is & QG_KEY_SIZE, any_order = key->is & QG_KEY_ANY_ORDER, series = key->is & QG_KEY_SERIES;
    if (size && count != key->most)
        return qg_fail(QG_EARG, "%s needs %d numbers separated by x, not %d", key->name, key->most, count);
    if (count > key->most)
        return qg_fail(QG_EARG, "%s has %d numbers, more than %d", key->name, count, key->most);
    for (int i = 0; i < count; i++) {
        if (check_value(key, number[i])) return QG_EARG;
        if (i && !size && !any_order && !series && !(number[i] > number[i - 1]))
            return qg_fail(QG_EARG, "%s has %.7g after %.7g; its numbers must increase", key->name, number[i],
                           number[i - 1]);
    }
    return any_order ? check_different(key, count, number) : QG_OK;
}

/* -1: it is none of the words. */
static int index_of_word(const qg_key *key, const char *at, size_t n)
{
    const char *word = key->words;
    for (int index = 0; word; index++) {
        const size_t length = strcspn(word, "|");
        if (length == n && !memcmp(word, at, n)) return index;
        word = word[length] ? word + length + 1 : NULL;
    }
    return -1;
}

/* Whether the value lies in text, which is "word|word" or "2..8". */
static bool is_among(const qg_key *key, double value, const char *text)
{
    if (!key->words) {
        char      *dots;
        const long least = strtol(text, &dots, 10), most = strtol(dots + 2, NULL, 10);
        return value >= (double)least && value <= (double)most;
    }
    char word[QG_KEY_BYTES];
    qg_key_value(key, value, word);
    return index_of_word(&(qg_key){ .words = text }, word, strlen(word)) >= 0;
}

static int condition(const qg_key *keys, int i, size_t *length)
{
    *length = strcspn(keys[i].when, "=");
    return qg_keys_find(keys, keys[i].when, *length);
}

bool qg__key_has_effect(const qg_key *keys, int i, const double *value)
{
    size_t length;
    if (!keys[i].when) return true;
    const int k = condition(keys, i, &length);
    return is_among(&keys[k], value[k], keys[i].when + length + 1);
}

/* Nobody would notice an option that does nothing, least of all its author. */
static qg_status refuse_without_effect(const qg_key *keys, int i, const double *value)
{
    char      word[QG_KEY_BYTES];
    size_t    length;
    const int k = condition(keys, i, &length);
    return qg_fail(QG_EARG, "%s has no effect with %s=%s; it requires %s", keys[i].name, keys[k].name,
                   qg_key_value(&keys[k], value[k], word), keys[i].when);
}

static qg_status check_order(const qg_key *keys, int i, const double *value)
{
    if (!keys[i].below) return QG_OK;
    const int k = qg_keys_find(keys, keys[i].below, strlen(keys[i].below));
    if (value[i] < value[k]) return QG_OK;
    return qg_fail(QG_EARG, "%s is %.9g, not below %s, %.9g", keys[i].name, value[i], keys[k].name, value[k]);
}

/* Where the numbers of list i are among the values. */
static int place_of_list(const qg_key *keys, int i)
{
    int at = qg_keys_count(keys);
    for (int k = 0; k < i; k++) at += keys[k].most;
    return at;
}

static qg_status check_at(const qg_key *keys, int i, const double *value)
{
    if (qg__key_has_effect(keys, i, value)) {
        const qg_status s = keys[i].most ? check_list(&keys[i], (int)value[i], value + place_of_list(keys, i))
                                         : check_value(&keys[i], value[i]);
        return s ? s : check_order(keys, i, value);
    }
    return value[i] != 0 ? refuse_without_effect(keys, i, value) : QG_OK;
}

/* A key that others depend on comes before them in the table, so its value is checked first. */
qg_status qg__keys_check(const char *name, const qg_key *keys, const double *value)
{
    for (int i = 0; i < qg_keys_count(keys); i++)
        if (check_at(keys, i, value)) return qg_fail(QG_EARG, "%s: %s", name, qg_errmsg());
    return QG_OK;
}

/* --- reading ------------------------------------------------------------------------------ */

static qg_status parse_word(const qg_key *key, const char *at, size_t n, double *value)
{
    const int index = index_of_word(key, at, n);
    char      hint[QG__NEAREST_BYTES];
    if (index < 0)
        return qg_fail(QG_EARG, "%s '%.*s' is not one of %s%s", key->name, (int)n, at, key->words,
                       qg__list_nearest(key->words, at, n, hint));
    *value = index;
    return QG_OK;
}

/* A number that is equal to an illegal default is illegal in a text. */
static qg_status parse_number(const qg_key *key, const char *at, size_t n, double *value)
{
    if (!qg__number_read(at, n, value)) return qg_fail(QG_EARG, "%s '%.*s' is not a number", key->name, (int)n, at);
    const qg_key strict = { .name = key->name, .fallback = NAN, .min = key->min, .max = key->max, .is = key->is,
                            .also = key->also };
    if (check_value(&strict, *value)) return QG_EARG;
    *value = kept(key, *value) + 0.0;       /* -0 is 0 */
    return QG_OK;
}

static char mark_of(const qg_key *key) { return key->is & QG_KEY_SIZE ? 'x' : '+'; }

/* at: "0.5+0.8", n characters. */
static qg_status parse_list(const qg_key *key, const char *at, size_t n, double *count, double number[QG_MAX_LIST])
{
    int found = 0;
    for (const char *end = at + n, *next; at; at = next ? next + 1 : NULL) {
        double one;
        next = memchr(at, mark_of(key), (size_t)(end - at));
        if (parse_number(key, at, (size_t)((next ? next : end) - at), &one)) return QG_EARG;
        if (found < key->most) number[found] = one;
        found++;
    }
    *count = found;
    return check_list(key, found, number);
}

static qg_status parse_value(const qg_key *key, const char *at, size_t n, double *value, double *list)
{
    return key->words ? parse_word(key, at, n, value)
           : key->most ? parse_list(key, at, n, value, list)
                       : parse_number(key, at, n, value);
}

/* at: "key=value", n characters, or of a flag "key". */
static qg_status parse_pair(const qg_key *key, const char *at, size_t n, double *value, double *list)
{
    const size_t length = strcspn(at, "=,");
    if (length < n && key->is & QG_KEY_FLAG) return qg_fail(QG_EARG, "%s takes no value", key->name);
    if (length == n && !(key->is & QG_KEY_FLAG)) return qg_fail(QG_EARG, "%s needs a value", key->name);
    *value = 1;
    return key->is & QG_KEY_FLAG ? QG_OK : parse_value(key, at + length + 1, n - length - 1, value, list);
}

static qg_status refuse_key(const qg_key *keys, const char *at)
{
    char         names[256] = "", hint[QG__NEAREST_BYTES];
    const size_t length = strcspn(at, "=,");
    for (int i = 0; i < qg_keys_count(keys); i++) qg__list_append(names, sizeof names, keys[i].name);
    if (*at >= '0' && *at <= '9')           /* as no key begins */
        return qg_fail(QG_EARG, "'%.*s' is a value without its option, as in key=value; available: %s",
                       (int)length, at, *names ? names : "none");
    return qg_fail(QG_EARG, "unknown option '%.*s'; available: %s%s", (int)length, at, *names ? names : "none",
                   qg__list_nearest(names, at, length, hint));
}

/* at: "threshold=0,05", whose first n characters are a pair.  No key begins with a digit. */
static qg_status refuse_comma(const qg_key *key, const char *at, size_t n)
{
    const char *value = at + strcspn(at, "=,");
    if (key->words || *value != '=' || at[n] != ',' || !strchr("0123456789", at[n + 1]) || !at[n + 1]) return QG_OK;
    value++;
    const char *how = !(key->is & QG_KEY_WHOLE) ? "write numbers with a point, as in 0.05"
                      : key->most               ? "write several numbers as 0+1+2"
                                                : "it is one number; a list repeats the name, a:bits=2,a:bits=4";
    return qg_fail(QG_EARG, "%s is '%.*s' with a comma; %s", key->name,
                   (int)(at + n + 1 - value + (ptrdiff_t)strspn(at + n + 1, "0123456789")), value, how);
}

static qg_status refuse_missing(const qg_key *key)
{
    return qg_fail(QG_EARG, "%s is missing%s%s", key->name, key->about ? ": " : "", key->about ? key->about : "");
}

static qg_status parse(const char *text, const qg_key *keys, double *value)
{
    const int n_keys = qg_keys_count(keys);
    uint64_t  given  = 0;
    if (n_keys && keys->is & QG_KEY_SIZE)
        return text ? parse_list(keys, text, strlen(text), value, value + 1) : refuse_missing(keys);
    for (const char *at = text; at;) {
        const size_t n = strcspn(at, ",");
        const int    i = qg_keys_find(keys, at, strcspn(at, "=,"));
        if (i < 0) return refuse_key(keys, at);
        if (given >> i & 1) return qg_fail(QG_EARG, "%s is given twice", keys[i].name);
        given |= UINT64_C(1) << i;
        if (refuse_comma(&keys[i], at, n)) return QG_EARG;
        if (parse_pair(&keys[i], at, n, &value[i], value + place_of_list(keys, i))) return QG_EARG;
        at = at[n] ? at + n + 1 : NULL;
    }
    for (int i = 0; i < n_keys; i++)
        if (keys[i].is & QG_KEY_REQUIRED && !(given >> i & 1) && qg__key_has_effect(keys, i, value))
            return refuse_missing(&keys[i]);
    for (int i = 0; i < n_keys; i++) {
        const bool effect = qg__key_has_effect(keys, i, value), written = given >> i & 1;
        if (written && !effect) return refuse_without_effect(keys, i, value);
        if (effect && check_order(keys, i, value)) return QG_EARG;
        if (!effect) value[i] = 0;
    }
    return QG_OK;
}

void qg__keys_over(const char *under, const qg_key *keys, double *value)
{
    for (const char *at = under; at;) {
        const size_t n = strcspn(at, ","), name = strcspn(at, "=,");
        const int    i = qg_keys_find(keys, at, name);
        const bool   none = i < 0 || (keys[i].words && name < n && index_of_word(&keys[i], at + name + 1, n - name - 1) < 0);
        const bool   set  = !none && !keys[i].most && !parse_pair(&keys[i], at, n, &value[i], NULL);
        QG_ASSERT(none || set);
        at = at[n] ? at + n + 1 : NULL;
    }
}

static void defaults_over(const char *under, const qg_key *keys, double *value)
{
    for (int i = 0; i < qg_keys_count(keys); i++) value[i] = keys[i].fallback;
    qg__keys_over(under, keys, value);
}

qg_status qg__keys_parse_over(const char *name, const char *under, const char *text, const qg_key *keys, double *value)
{
    defaults_over(under, keys, value);
    if (!parse(text, keys, value)) return QG_OK;
    return name ? qg_fail(QG_EARG, "%s: %s", name, qg_errmsg()) : QG_EARG;
}

qg_status qg_keys_parse(const char *name, const char *text, const qg_key *keys, double *value)
{
    return qg__keys_parse_over(name, NULL, text, keys, value);
}

qg_status qg__variants_find(const char *what, const char *text, const qg_variant *variants, int *index)
{
    const size_t n = strcspn(text, ":");
    char         names[256] = "", hint[QG__NEAREST_BYTES];
    for (*index = 0; variants[*index].name; ++*index) {
        if (is_word(variants[*index].name, text, n)) return QG_OK;
        qg__list_append(names, sizeof names, variants[*index].name);
    }
    return qg_fail(QG_EARG, "unknown %s '%.*s'; available: %s%s", what, (int)n, text, *names ? names : "none",
                   qg__list_nearest(names, text, n, hint));
}

qg_status qg__variants_parse(const char *what, const char *text, const qg_variant *variants, int *index, double *value)
{
    const char *colon = strchr(text, ':');
    if (qg__variants_find(what, text, variants, index)) return QG_EARG;
    return qg_keys_parse(variants[*index].name, colon ? colon + 1 : NULL, variants[*index].keys, value);
}

/* --- writing ------------------------------------------------------------------------------ */

const char *qg_key_value(const qg_key *key, double value, char text[QG_KEY_BYTES])
{
    if (key->words) {
        const char *word = key->words;
        for (int i = 0; i < (int)value && strchr(word, '|'); i++) word = strchr(word, '|') + 1;
        snprintf(text, QG_KEY_BYTES, "%.*s", (int)strcspn(word, "|"), word);
    } else if (key->is & QG_KEY_WHOLE) {
        snprintf(text, QG_KEY_BYTES, "%.0f", value);
    } else {
        qg__number_print_float(text, (float)value);
    }
    return text;
}

/* A text that grows; what does not fit is left out. */
typedef struct buffer {
    char  *text;
    size_t bytes, used;
} buffer;

static void put(buffer *to, const char *word)
{
    if (to->used < to->bytes) to->used += (size_t)snprintf(to->text + to->used, to->bytes - to->used, "%s", word);
}

/* value: of key i. */
static void put_value(buffer *to, const qg_key *keys, int i, const double *value)
{
    const qg_key *key = &keys[i];
    const double *list = key->most ? value + place_of_list(keys, i) : &value[i];
    const int     n    = key->most ? (int)value[i] : 1;
    const char    mark[2] = { mark_of(key), '\0' };
    for (int k = 0; k < n; k++) {
        char word[QG_KEY_BYTES];
        if (k) put(to, mark);
        put(to, qg_key_value(key, list[k], word));
    }
}

void qg_keys_print(const char *name, const qg_key *keys, const double *value, char *text, size_t bytes)
{
    qg__keys_print_over(name, NULL, keys, value, text, bytes);
}

void qg__keys_print_over(const char *name, const char *under, const qg_key *keys, const double *value, char *text, size_t bytes)
{
    const char *before = name ? ":" : "";
    buffer      to     = { text, bytes, 0 };
    double      own[QG_MAX_VALUES];
    defaults_over(under, keys, own);
    put(&to, name ? name : "");
    for (int i = 0; i < qg_keys_count(keys); i++) {
        if (!qg__key_has_effect(keys, i, value)) continue;
        if (value[i] == own[i] && !(keys[i].is & (QG_KEY_SHOWN | QG_KEY_REQUIRED))) continue;
        put(&to, before);
        if (!(keys[i].is & QG_KEY_SIZE)) put(&to, keys[i].name);
        if (!(keys[i].is & (QG_KEY_SIZE | QG_KEY_FLAG))) put(&to, "=");
        if (!(keys[i].is & QG_KEY_FLAG)) put_value(&to, keys, i, value);
        before = ",";
    }
}

const char *qg_key_range(const qg_key *key, char *text, size_t bytes)
{
    const bool above = key->is & QG_KEY_ABOVE_MIN, below = key->is & QG_KEY_BELOW_MAX;
    if (key->words) snprintf(text, bytes, "%s", key->words);
    else if (isinf(key->min)) snprintf(text, bytes, "a number");
    else if (isinf(key->max)) snprintf(text, bytes, above ? "more than %g" : "%g or more", key->min);
    else if (above || below)
        snprintf(text, bytes, "%c%g, %g%c", above ? '(' : '[', key->min, key->max, below ? ')' : ']');
    else if (key->also != 0) snprintf(text, bytes, "%g..%g or %g", key->min, key->max, key->also);
    else snprintf(text, bytes, "%g..%g", key->min, key->max);
    return text;
}

bool qg_key_has_default(const qg_key *key)
{
    return !(key->is & (QG_KEY_REQUIRED | QG_KEY_SIZE)) && !key->most && is_in_range(key, key->fallback);
}

const char *qg_key_default(const qg_key *key, char text[QG_KEY_BYTES])
{
    if (key->is & (QG_KEY_REQUIRED | QG_KEY_SIZE)) return "required";
    if (key->most) return "none";
    if (qg_key_has_default(key)) return qg_key_value(key, key->fallback, text);
    snprintf(text, QG_KEY_BYTES, "auto");
    return text;
}
