#include "train/recipe_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/run.h"

static int index_of(const char *name)
{
    const qg_recipe_key *o = qg__recipe_key(name);
    QG_ASSERT(o);
    return (int)(o - qg_recipe_keys);
}

static bool is_among(const qg_recipe_key *o, unsigned with, unsigned without)
{
    return (o->is & with) == with && !(o->is & without);
}

/* The text, from malloc, of a key whose value is set. */
static qg_status keep(qg_recipe *r, const qg_recipe_key *o, char *text)
{
    char **to = &r->text[o - qg_recipe_keys];
    if (!text) return qg_fail(QG_EMEM, "out of memory for --%s", o->name);
    free(*to);
    *to = text;
    if (o->kind == QG_RECIPE_TEXT) memcpy((char *)r + o->field->at, to, sizeof *to);
    return QG_OK;
}

/* The text, from malloc, of a key as it was given. */
static qg_status keep_said(qg_recipe *r, const qg_recipe_key *o, char *text)
{
    if (!text) return qg_fail(QG_EMEM, "out of memory for --%s", o->name);
    free(r->said[o - qg_recipe_keys]);
    r->said[o - qg_recipe_keys] = text;
    return QG_OK;
}

qg_status qg__recipe_put(qg_recipe *r, const char *name, const char *text)
{
    char                 canonical[QG_RECIPE_VALUE_BYTES];
    const int            i    = index_of(name);
    const qg_recipe_key *o    = &qg_recipe_keys[i];
    const bool           list = o->kind == QG_RECIPE_LIST;
    const char          *old  = list ? r->text[i] : NULL, *said = list ? r->said[i] : NULL;
    if (qg__recipe_key_parse(o, text, r, canonical)) return QG_EARG;
    if (o->is & QG_RECIPE_SCHEMES && keep_said(r, o, qg__lines_with(said, text))) return QG_EMEM;
    return keep(r, o, qg__lines_with(old, canonical));
}

void qg__recipe_unset(qg_recipe *r, const char *name)
{
    const int i = index_of(name);
    free(r->text[i]), free(r->said[i]);
    r->text[i] = r->said[i] = NULL;
    memset((char *)r + qg_recipe_keys[i].field->at, 0, qg_recipe_keys[i].field->bytes);
}

static qg_status over_list(qg_recipe *r, const qg_recipe_key *o, const char *list)
{
    for (const char *line = list; *line; line = qg__lines_next(line)) {
        char item[QG_RECIPE_VALUE_BYTES];
        snprintf(item, sizeof item, "%.*s", (int)strcspn(line, "\n"), line);
        const qg_status status = qg__recipe_put(r, o->name, item);
        if (status) return status;
    }
    return QG_OK;
}

qg_status qg__recipe_over(qg_recipe *r, const qg_recipe *top, unsigned with, unsigned without)
{
    qg_status status = QG_OK;
    for (int i = 0; i < QG__RECIPE_KEYS && !status; i++) {
        const qg_recipe_key *o    = &qg_recipe_keys[i];
        const char          *text = top->text[i];
        if (!text || !is_among(o, with, without)) continue;
        if (o->kind == QG_RECIPE_LIST) {
            status = over_list(r, o, top->said[i] ? top->said[i] : text);
        } else {
            memcpy((char *)r + o->field->at, (const char *)top + o->field->at, o->field->bytes);
            status = keep(r, o, qg__lines_with(NULL, text));
            if (!status && top->said[i]) status = keep_said(r, o, qg__lines_with(NULL, top->said[i]));
        }
    }
    return status;
}

const char *qg__recipe_value(const qg_recipe *r, const char *name) { return r->text[index_of(name)]; }

/* Whether text equals value or, for lists, contains all of its lines. */
static bool is_said(const qg_recipe_key *o, const char *value, const char *text)
{
    if (o->kind != QG_RECIPE_LIST) return !strcmp(value, text);
    for (const char *line = text; *line; line = qg__lines_next(line)) {
        const size_t n  = strcspn(line, "\n");
        const char  *at = value;
        while (*at && (strcspn(at, "\n") != n || memcmp(at, line, n))) at = qg__lines_next(at);
        if (!*at) return false;
    }
    return true;
}

/* NULL: unset. */
static const char *meant(const qg_recipe *r, const qg_recipe_key *o)
{
    const char *text = r->text[o - qg_recipe_keys];
    return text ? text : o->kind == QG_RECIPE_FLAG ? "false" : o->absent;
}

const qg_recipe_key *qg__recipe_conflict(const qg_recipe *r, const qg_recipe *asked, unsigned with, unsigned without)
{
    for (int i = 0; i < QG__RECIPE_KEYS; i++) {
        const qg_recipe_key *o    = &qg_recipe_keys[i];
        const char          *said = meant(r, o);
        if (!asked->text[i] || !is_among(o, with, without)) continue;
        if (!said || !is_said(o, said, asked->text[i])) return o;
    }
    return NULL;
}

static bool differ(const qg_recipe *a, const qg_recipe *b, int i)
{
    const qg_recipe_key *o = &qg_recipe_keys[i];
    const char          *x = meant(a, o), *y = meant(b, o);
    return (a->text[i] || b->text[i]) && (!x || !y || !is_said(o, x, y) || !is_said(o, y, x));
}

const qg_recipe_key *qg__recipe_difference(const qg_recipe *a, const qg_recipe *b, unsigned with, unsigned without)
{
    for (int i = 0; i < QG__RECIPE_KEYS; i++)
        if (is_among(&qg_recipe_keys[i], with, without) && differ(a, b, i)) return &qg_recipe_keys[i];
    return NULL;
}

void qg__recipe_clear(qg_recipe *r)
{
    for (int i = 0; i < QG__RECIPE_KEYS; i++) free(r->text[i]), free(r->said[i]);
    free(r->identity), free(r->file);
    *r = (qg_recipe){ 0 };
}

/* --- recipes as objects ------------------------------------------------------------------- */

qg_recipe *qg_recipe_new(void)
{
    qg_recipe *r = calloc(1, sizeof *r);
    if (!r) qg_fail(QG_EMEM, "out of memory for a recipe");
    return r;
}

static void free_other(qg_recipe **r)
{
    if (*r) qg__recipe_clear(*r);
    free(*r);
    *r = NULL;
}

void qg_recipe_free(qg_recipe *r)
{
    if (!r) return;
    free_other(&r->base), free_other(&r->full);
    qg__recipe_clear(r);
    free(r);
}

qg_status qg__recipe_status(const qg_recipe *r)
{
    if (!r) return qg_fail(QG_EMEM, "out of memory: the recipe is NULL");
    return r->failed ? qg_fail(r->failed, "%s", r->failure) : QG_OK;
}

qg_status qg__recipe_changes(const qg_recipe *r, qg_recipe *to)
{
    qg_status status = qg__recipe_status(r);
    if (!status && r->base) status = qg__recipe_over(to, r->base, QG_RECIPE_QUANTIZES, 0);
    return status ? status : qg__recipe_over(to, r, 0, 0);
}

static qg_status keep_failure(qg_recipe *r, qg_status status)
{
    r->failed = status;
    if (status) snprintf(r->failure, sizeof r->failure, "%s", qg_errmsg());
    return status;
}

qg_status qg_recipe_set(qg_recipe *r, const char *key, const char *text)
{
    const qg_status status = qg__recipe_status(r);
    if (status) return status;
    free_other(&r->full);
    if (!qg__recipe_key(key ? key : "")) return keep_failure(r, QG_EARG);
    if (!text) qg__recipe_unset(r, key);
    return text ? keep_failure(r, qg__recipe_put(r, key, text)) : QG_OK;
}

qg_status qg_recipe_read(qg_recipe *r, const char *path)
{
    qg_status status = qg__recipe_status(r);
    if (status) return status;
    free_other(&r->full);
    if (!r->base && !(r->base = qg_recipe_new())) return keep_failure(r, QG_EMEM);
    return keep_failure(r, path ? qg__recipe_read(r->base, path) : qg_fail(QG_EARG, "the path of a recipe is NULL"));
}

qg_recipe *qg__recipe_full(qg_recipe *r)
{
    if (qg__recipe_status(r)) return NULL;
    if (r->resolved) return r;
    if (r->full) return r->full;
    r->full = qg_recipe_new();
    if (r->full && qg__recipe_resolve(r, r->base, false, NULL, r->full)) free_other(&r->full);
    return r->full;
}

const char *qg_recipe_get(qg_recipe *r, const char *key)
{
    const qg_recipe_key *o    = key ? qg__recipe_key(key) : NULL;
    const qg_recipe  *full = o ? qg__recipe_full(r) : NULL;
    return full ? full->text[o - qg_recipe_keys] : NULL;
}

qg_recipe *qg_recipe_of_run(const char *dir)
{
    qg__run_paths p;
    qg_recipe    *r      = qg_recipe_new();
    qg_status     status = r ? qg__run_paths_of(dir, &p) : QG_EMEM;
    if (!status) status = qg__recipe_of_run(p.file[QG__RUN_CONFIG], r);
    if (!status) r->resolved = r->of_run = true;
    if (!status) return r;
    qg_recipe_free(r);
    return NULL;
}

/* A run of a version that lacked a key continues without it, unless that is asked for. */
static bool lacks(const qg_recipe *run, const qg_recipe *asked, int i)
{
    const qg_recipe_key *key = &qg_recipe_keys[i];
    return run->of_run && key->absent && key->fallback && !run->text[i] && !asked->text[i];
}

const qg_recipe_key *qg_recipe_difference(qg_recipe *a, qg_recipe *b, const qg_recipe_key *after)
{
    const qg_recipe *x = qg__recipe_full(a), *y = x ? qg__recipe_full(b) : NULL;
    for (int i = after ? (int)(after - qg_recipe_keys) + 1 : 0; y && i < QG__RECIPE_KEYS; i++)
        if (differ(x, y, i) && !lacks(y, a, i)) return &qg_recipe_keys[i];
    return NULL;
}

qg_status qg_recipe_check(qg_recipe *r)
{
    const qg_recipe *full = qg__recipe_full(r);
    return full ? qg__recipe_check(full, true) : qg_errcode();
}
