#include "optim/schedule.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/io/keys.h"
#include "core/io/number.h"
#include "core/kernels/functions.h"

#define LEAST_EVERY 0.0001f

/* --- the kinds ---------------------------------------------------------------------------- */

#define WARMUP                                                                                               \
    {                                                                                                        \
        .name = "warmup", .max = 1, .about = "fraction of the run with a linearly rising rate"               \
    }
#define FACTOR(...) { .name = "factor", .max = INFINITY, __VA_ARGS__ }

static const qg_key constant_keys[] = { WARMUP, { .name = NULL } };

static const qg_key step_keys[] = {
    { .name = "at", .max = 1, .is = QG_KEY_ABOVE_MIN | QG_KEY_BELOW_MAX, .most = QG_MILESTONES,
      .about = "fractions of the run after which the rate is multiplied by factor" },
    { .name = "every", .min = (double)LEAST_EVERY, .max = 1, .is = QG_KEY_BELOW_MAX,
      .about = "the same after each multiple of this share" },
    FACTOR(.is = QG_KEY_ABOVE_MIN, .about = "what each step multiplies the rate by; 0.1 unless given"),
    WARMUP, { .name = NULL }
};

static const qg_key exponential_keys[] = {
    FACTOR(.is = QG_KEY_ABOVE_MIN | QG_KEY_REQUIRED, .about = "last rate, as a multiple of the first"),
    WARMUP, { .name = NULL }
};

/* Also those of linear. */
static const qg_key cosine_keys[] = {
    FACTOR(.about = "last rate, as a multiple of the first"), WARMUP, { .name = NULL }
};

const qg_variant qg_schedules[] = {
    [QG_CONSTANT]    = { "constant", "the same rate throughout", constant_keys },
    [QG_STEP]        = { "step", "down in steps; needs either at or every", step_keys },
    [QG_EXPONENTIAL] = { "exponential", "down by the same factor in equal times", exponential_keys },
    [QG_COSINE]      = { "cosine", "down along half a cosine", cosine_keys },
    [QG_LINEAR]      = { "linear", "down along a straight line", cosine_keys },
    { .name = NULL }
};

/* A kind without a row is not legal, so nobody else has to know the first and the last one. */
static const qg_variant *row_of(qg_schedule_kind kind)
{
    const int kinds = (int)(sizeof qg_schedules / sizeof *qg_schedules) - 1;
    return (int)kind >= 0 && (int)kind < kinds && qg_schedules[kind].name ? &qg_schedules[kind] : NULL;
}

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
    if (s->kind == QG_STEP) return steps_down(s, progress);
    if (s->kind == QG_EXPONENTIAL)
        return factor == 0 && progress >= 0 ? progress == 0 : qg__pow(factor, progress);
    if (s->kind == QG_COSINE) return factor + (1 - factor) * 0.5 * (1 + qg__cos_pi(progress));
    if (s->kind == QG_LINEAR) return factor + (1 - factor) * (1 - progress);
    return 1;
}

double qg_schedule_lr(const qg_schedule *s, double lr, double progress)
{
    if (!s || (s->kind == QG_CONSTANT && !(s->warmup > 0))) return lr;
    if (isnan(progress)) return progress;
    progress = progress < 0 ? 0 : progress > 1 ? 1 : progress;
    const double rate = lr * annealed(s, progress);
    if ((float)progress < s->warmup) return rate * progress / (double)s->warmup;
    return rate;
}

/* Computed from the decimal number that was written, so that 0.8 of 10 epochs is 8 / 15 of 15. */
static float extended(float share, int epochs, int more)
{
    char   text[QG_NUMBER_BYTES];
    double written;
    qg__number_print_float(text, share);
    return qg__number_read(text, strlen(text), &written) ? (float)(written * epochs / more) : share;
}

qg_schedule qg_schedule_extend(const qg_schedule *s, int epochs, int more)
{
    qg_schedule e = s ? *s : (qg_schedule){ 0 };
    e.warmup      = extended(e.warmup, epochs, more);
    e.every       = extended(e.every, epochs, more);
    for (int i = 0; i < e.n_milestones && i < QG_MILESTONES; i++)
        e.milestone[i] = extended(e.milestone[i], epochs, more);
    return e;
}

/* --- text --------------------------------------------------------------------------------- */

/* Where a schedule keeps the value of a key that is not a list. */
static size_t offset_of(const qg_key *key)
{
    return !strcmp(key->name, "every")    ? offsetof(qg_schedule, every)
           : !strcmp(key->name, "factor") ? offsetof(qg_schedule, factor)
                                          : offsetof(qg_schedule, warmup);
}

qg_status qg_schedule_parse(const char *text, qg_schedule *out)
{
    double value[QG_MAX_VALUES];
    int    kind;
    if (!text || !out) return qg__fail_null(QG_EARG, "schedule");
    if (qg__variants_parse("schedule", text, qg_schedules, &kind, value)) return QG_EARG;
    const qg_key *keys = qg_schedules[kind].keys;
    const int     n    = qg_keys_count(keys);
    qg_schedule   s    = { .kind = (qg_schedule_kind)kind };
    for (int i = 0; i < n; i++) {
        if (keys[i].most) s.n_milestones = (int)value[i];
        else *(float *)(void *)((char *)&s + offset_of(&keys[i])) = (float)value[i];
    }
    for (int i = 0; i < s.n_milestones; i++) s.milestone[i] = (float)value[n + i];
    if (kind == QG_STEP && !s.n_milestones == (s.every == 0))
        return qg_fail(QG_EARG, "step: needs at= or every=%s", s.n_milestones ? ", not both" : "");
    *out = s;
    return QG_OK;
}

int qg_schedule_print(const qg_schedule *s, char *text, int bytes)
{
    static const qg_schedule constant = { 0 };
    if (!s) s = &constant;
    const qg_variant *row = row_of(s->kind);
    if (!row) return snprintf(text, bytes > 0 ? (size_t)bytes : 0, "%d", (int)s->kind);
    char          line[256];            /* enough for every key at its longest */
    double        value[QG_MAX_VALUES];
    const qg_key *keys = row->keys;
    const int     n    = qg_keys_count(keys);
    const int     milestones = s->n_milestones < QG_MILESTONES ? s->n_milestones : QG_MILESTONES;
    for (int i = 0; i < n; i++)
        value[i] = keys[i].most
                       ? milestones
                       : (double)*(const float *)(const void *)((const char *)s + offset_of(&keys[i]));
    for (int i = 0; i < milestones; i++) value[n + i] = (double)s->milestone[i];
    qg_keys_print(row->name, keys, value, line, sizeof line);
    return snprintf(text, bytes > 0 ? (size_t)bytes : 0, "%s", line);
}

/* What its text says is what trains. */
qg_status qg_schedule_check(const qg_schedule *s)
{
    char        text[256];
    qg_schedule same;
    if (s && !row_of(s->kind)) return qg_fail(QG_EARG, "%d is not a kind of schedule", (int)s->kind);
    qg_schedule_print(s, text, sizeof text);
    return qg_schedule_parse(text, &same) ? qg_fail(QG_EARG, "schedule %s: %s", text, qg_errmsg()) : QG_OK;
}
