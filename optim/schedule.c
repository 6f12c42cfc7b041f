#include "optim/schedule.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/io/number.h"

static const double PI = 3.14159265358979323846;

enum { TEXT_BYTES = 256 };      /* enough for every option at its longest */

static const float LEAST_EVERY = 0.0001f;

/* The options that a kind takes, and those that it needs. */
typedef struct kind_row {
    const char *name;
    const char *words;
    bool        takes_at, takes_factor;
    bool        needs_at, needs_factor;
} kind_row;

static const kind_row kinds[] = {
    [QG_CONSTANT]    = { "constant", "warmup", false, false, false, false },
    [QG_STEP]        = { "step", "at, every, factor, warmup", true, true, true, false },
    [QG_EXPONENTIAL] = { "exponential", "factor, warmup", false, true, false, true },
    [QG_COSINE]      = { "cosine", "factor, warmup", false, true, false, false },
};

/* Part of the text. */
typedef struct slice {
    const char *text;
    int         length;
} slice;

/* --- value -------------------------------------------------------------------------------- */

/* Progress is rounded to float first, so that epoch 8 of 10 has passed the milestone 0.8f, which is greater
 * than 0.8. */
static double steps_down(const qg_schedule *s, double progress)
{
    const double factor = s->factor == 0 ? 0.1 : (double)s->factor;
    double       scale  = 1;
    for (int i = 0; i < s->n_milestones && i < QG_MILESTONES; i++)
        if ((float)progress >= s->milestone[i]) scale *= factor;
    /* every, a float, is off from the written number by half of FLT_EPSILON, relatively. */
    const double reached = progress * (1 + (double)FLT_EPSILON);
    const double every   = fmax((double)s->every, (double)LEAST_EVERY);
    for (int i = 1; s->every > 0 && reached >= i * every; i++) scale *= factor;
    return scale;
}

static double annealed(const qg_schedule *s, double progress)
{
    const double factor = (double)s->factor;
    switch (s->kind) {
    case QG_CONSTANT: return 1;
    case QG_STEP: return steps_down(s, progress);
    case QG_EXPONENTIAL: return pow(factor, progress);
    case QG_COSINE: return factor + (1 - factor) * 0.5 * (1 + cos(PI * progress));
    }
    return 1;
}

double qg_schedule_lr(const qg_schedule *s, double lr, double progress)
{
    if (!s) return lr;
    progress = progress < 0 ? 0 : progress > 1 ? 1 : progress;
    const double rate = lr * annealed(s, progress);
    if ((float)progress < s->warmup) return rate * progress / (double)s->warmup;
    return rate;
}

/* --- text to schedule --------------------------------------------------------------------- */

static bool is(slice a, const char *word)
{
    return strlen(word) == (size_t)a.length && !strncmp(a.text, word, (size_t)a.length);
}

/* Splits *rest at the first mark: returns the part before it and leaves the part after it, or NULL text if
 * there is no mark. */
static slice cut(slice *rest, char mark)
{
    const char *end  = memchr(rest->text, mark, (size_t)rest->length);
    const slice head = { rest->text, end ? (int)(end - rest->text) : rest->length };
    *rest = end ? (slice){ end + 1, rest->length - head.length - 1 } : (slice){ NULL, 0 };
    return head;
}

static bool number(slice value, float *out)
{
    double read = 0;
    if (value.length < 1 || !qg_number_read(value.text, (size_t)value.length, &read)) return false;
    *out = (float)read;
    return isfinite(*out);
}

static bool milestones(slice value, qg_schedule *out)
{
    while (value.text) {
        float at = 0;
        if (out->n_milestones == QG_MILESTONES || !number(cut(&value, '+'), &at)) return false;
        const float before = out->n_milestones ? out->milestone[out->n_milestones - 1] : 0;
        if (at <= before || at >= 1) return false;
        out->milestone[out->n_milestones++] = at;
    }
    return out->n_milestones > 0;
}

static qg_status refuse(const kind_row *k, slice word, slice value, const char *legal)
{
    return qg_fail(QG_EARG, "schedule: %s: %.*s is '%.*s', %s", k->name, word.length, word.text,
                   value.length, value.text ? value.text : "", legal);
}

static qg_status read_word(const kind_row *k, slice word, slice value, qg_schedule *out)
{
    if (is(word, "warmup"))
        return number(value, &out->warmup) && out->warmup >= 0 && out->warmup <= 1
                   ? QG_OK
                   : refuse(k, word, value, "must be 0 to 1");
    if (k->takes_at && is(word, "at"))
        return milestones(value, out)
                   ? QG_OK
                   : refuse(k, word, value, "must be 1 to 8 increasing numbers in (0, 1), separated by +");
    if (k->takes_at && is(word, "every"))
        return number(value, &out->every) && out->every >= LEAST_EVERY && out->every < 1
                   ? QG_OK
                   : refuse(k, word, value, "must be 0.0001 or more and less than 1");
    if (k->takes_factor && is(word, "factor")) {
        const bool fits = number(value, &out->factor);
        if (out->kind == QG_COSINE)
            return fits && out->factor >= 0 ? QG_OK : refuse(k, word, value, "must be 0 or more");
        return fits && out->factor > 0 ? QG_OK : refuse(k, word, value, "must be more than 0");
    }
    return qg_fail(QG_EARG, "schedule: %s has no option '%.*s'; available: %s", k->name, word.length,
                   word.text, k->words);
}

static qg_status read_words(const kind_row *k, slice rest, qg_schedule *out)
{
    bool at = false, every = false, factor = false, warmup = false;
    while (rest.text) {
        slice       value = cut(&rest, ',');
        const slice word  = cut(&value, '=');
        if (read_word(k, word, value, out)) return QG_EARG;
        bool *given = is(word, "at")       ? &at
                      : is(word, "every")  ? &every
                      : is(word, "factor") ? &factor
                                           : &warmup;
        if (*given)
            return qg_fail(QG_EARG, "schedule: %s: %.*s is given twice", k->name, word.length,
                           word.text);
        *given = true;
    }
    if (k->needs_at && at == every)
        return qg_fail(QG_EARG, "schedule: %s: needs at= or every=%s", k->name, at ? ", not both" : "");
    if (k->needs_factor && !factor) return qg_fail(QG_EARG, "schedule: %s: needs factor=", k->name);
    return QG_OK;
}

qg_status qg_schedule_parse(const char *text, qg_schedule *out)
{
    if (!text || !out) return qg_fail(QG_EARG, "schedule: the %s is NULL", text ? "place of the result" : "text");
    if (strlen(text) >= TEXT_BYTES)
        return qg_fail(QG_EARG, "schedule: the text is longer than %d bytes", TEXT_BYTES - 1);
    slice       rest = { text, (int)strlen(text) };
    const slice name = cut(&rest, ':');
    qg_schedule s    = { 0 };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!is(name, kinds[i].name)) continue;
        s.kind = (qg_schedule_kind)i;
        if (read_words(&kinds[i], rest, &s)) return QG_EARG;
        *out = s;
        return QG_OK;
    }
    return qg_fail(QG_EARG, "schedule: unknown kind '%.*s'; available: constant, step, exponential, cosine",
                   name.length, name.text);
}

/* --- schedule to text --------------------------------------------------------------------- */

typedef struct line {
    char text[TEXT_BYTES];
    int  length;
    char mark;              /* what comes before the next word or milestone */
} line;

static void put(line *to, const char *word, float x)
{
    char digits[QG_NUMBER_BYTES];
    qg_number_print_float(digits, x);
    to->length += snprintf(to->text + to->length, sizeof to->text - (size_t)to->length, "%c%s%s",
                           to->mark, word, digits);
    to->mark = ',';
}

int qg_schedule_print(const qg_schedule *s, char *text, int bytes)
{
    static const qg_schedule constant = { 0 };
    if (!s) s = &constant;
    const kind_row *k  = &kinds[s->kind];
    line            to = { .mark = ':' };
    to.length          = snprintf(to.text, sizeof to.text, "%s", k->name);
    for (int i = 0; k->takes_at && i < s->n_milestones && i < QG_MILESTONES; i++) {
        if (i) to.mark = '+';
        put(&to, i ? "" : "at=", s->milestone[i]);
    }
    if (k->takes_at && s->every != 0) put(&to, "every=", s->every);
    if (k->takes_factor && s->factor != 0) put(&to, "factor=", s->factor);
    if (s->warmup != 0) put(&to, "warmup=", s->warmup);
    return snprintf(text, bytes > 0 ? (size_t)bytes : 0, "%s", to.text);
}
