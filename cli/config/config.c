#include "cli/config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int index_of(const char *name)
{
    const option *o = option_find(name);
    QG_ASSERT(o);
    return (int)(o - options);
}

static bool is_among(const option *o, unsigned with, unsigned without)
{
    return (o->use & with) == with && !(o->use & without);
}

const char *list_next(const char *line)
{
    line += strcspn(line, "\n");
    return line + (*line == '\n');
}

/* old without the line that equals item before its '=', followed by item; from malloc. */
static char *list_with(const char *old, const char *item)
{
    const size_t key  = strcspn(item, "=") + 1;
    char        *list = malloc((old ? strlen(old) + 1 : 0) + strlen(item) + 1);
    char        *to   = list;
    for (const char *line = old; list && line && *line; line = list_next(line)) {
        const size_t n = strcspn(line, "\n");
        if (n >= key && !memcmp(line, item, key)) continue;
        memcpy(to, line, n);
        to[n] = '\n';
        to += n + 1;
    }
    if (list) strcpy(to, item);
    return list;
}

static void *value_of(config *c, const option *o) { return (char *)c + o->at; }

/* The text, from malloc, of an option whose value is set. */
static qg_status keep(config *c, const option *o, char *text)
{
    char **to = &c->text[o - options];
    if (!text) return qg_fail(QG_EMEM, "out of memory for --%s", o->name);
    free(*to);
    *to = text;
    if (o->kind == OPTION_TEXT) memcpy(value_of(c, o), to, sizeof *to);
    return QG_OK;
}

/* The text, from malloc, of an option as it was given. */
static qg_status keep_said(config *c, const option *o, char *text)
{
    if (!text) return qg_fail(QG_EMEM, "out of memory for --%s", o->name);
    free(c->said[o - options]);
    c->said[o - options] = text;
    return QG_OK;
}

qg_status config_set(config *c, const option *o, const char *text)
{
    char        canonical[VALUE_BYTES];
    const bool  list = o->kind == OPTION_LIST;
    const char *old  = list ? c->text[o - options] : NULL, *said = list ? c->said[o - options] : NULL;
    if (option_parse(o, text, value_of(c, o), canonical)) return QG_EARG;
    if (o->use & SCHEMES && keep_said(c, o, list_with(said, text))) return QG_EMEM;
    return keep(c, o, list_with(old, canonical));
}

void config_unset(config *c, const char *name)
{
    const int i = index_of(name);
    free(c->text[i]), free(c->said[i]);
    c->text[i] = c->said[i] = NULL;
    memset(value_of(c, &options[i]), 0, options[i].bytes);
}

static qg_status over_list(config *c, const option *o, const char *list)
{
    for (const char *line = list; *line; line = list_next(line)) {
        char item[VALUE_BYTES];
        snprintf(item, sizeof item, "%.*s", (int)strcspn(line, "\n"), line);
        const qg_status status = config_set(c, o, item);
        if (status) return status;
    }
    return QG_OK;
}

qg_status config_over(config *c, const config *top, unsigned with, unsigned without)
{
    qg_status status = QG_OK;
    for (int i = 0; i < OPTIONS && !status; i++) {
        const option *o    = &options[i];
        const char   *text = top->text[i];
        if (!text || !is_among(o, with, without)) continue;
        if (o->kind == OPTION_LIST) {
            status = over_list(c, o, top->said[i] ? top->said[i] : text);
        } else {
            memcpy(value_of(c, o), (const char *)top + o->at, o->bytes);
            status = keep(c, o, list_with(NULL, text));
            if (!status && top->said[i]) status = keep_said(c, o, list_with(NULL, top->said[i]));
        }
    }
    return status;
}

const char *config_text(const config *c, const char *name) { return c->text[index_of(name)]; }

/* Whether text equals value or, for lists, contains all of its lines. */
static bool is_said(const option *o, const char *value, const char *text)
{
    if (o->kind != OPTION_LIST) return !strcmp(value, text);
    for (const char *line = text; *line; line = list_next(line)) {
        const size_t n  = strcspn(line, "\n");
        const char  *at = value;
        while (*at && (strcspn(at, "\n") != n || memcmp(at, line, n))) at = list_next(at);
        if (!*at) return false;
    }
    return true;
}

/* NULL: unset. */
static const char *meant(const config *c, const option *o)
{
    const char *text = c->text[o - options];
    return text ? text : o->kind == OPTION_FLAG ? "false" : o->absent;
}

const option *config_conflict(const config *c, const config *asked, unsigned with, unsigned without)
{
    for (int i = 0; i < OPTIONS; i++) {
        const option *o    = &options[i];
        const char   *said = meant(c, o);
        if (!asked->text[i] || !is_among(o, with, without)) continue;
        if (!said || !is_said(o, said, asked->text[i])) return o;
    }
    return NULL;
}

const option *config_difference(const config *a, const config *b, unsigned with, unsigned without)
{
    const option *o = config_conflict(a, b, with, without);
    return o ? o : config_conflict(b, a, with, without);
}

void config_free(config *c)
{
    for (int i = 0; i < OPTIONS; i++) free(c->text[i]), free(c->said[i]), free(c->values[i]);
    *c = (config){ 0 };
}
