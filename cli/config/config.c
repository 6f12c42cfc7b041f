#include "cli/config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/number.h"

static int index_of(const char *name)
{
    const option *o = option_find(name);
    QG_ASSERT(o);
    return (int)(o - options);
}

const char *list_next(const char *line)
{
    line += strcspn(line, "\n");
    return line + (*line == '\n');
}

/* old without the line that says the same as item before its '=', then item; from malloc. */
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

qg_status config_set(config *c, const option *o, const char *text)
{
    char canonical[VALUE_BYTES];
    if (option_check(o, text, canonical)) return QG_EARG;
    char **value = &c->value[o - options];
    char  *copy  = list_with(o->kind == OPTION_LIST ? *value : NULL, canonical);
    if (!copy) return qg_fail(QG_EMEM, "out of memory for --%s", o->name);
    free(*value);
    *value = copy;
    return QG_OK;
}

void config_unset(config *c, const char *name)
{
    char **value = &c->value[index_of(name)];
    free(*value);
    *value = NULL;
}

qg_status config_over(config *c, const config *top)
{
    for (int i = 0; i < OPTIONS; i++) {
        for (const char *line = top->value[i]; line && *line; line = list_next(line)) {
            char item[VALUE_BYTES];
            snprintf(item, sizeof item, "%.*s", (int)strcspn(line, "\n"), line);
            const qg_status status = config_set(c, &options[i], item);
            if (status) return status;
        }
    }
    return QG_OK;
}

const char *config_text(const config *c, const char *name) { return c->value[index_of(name)]; }

bool config_says(const config *c, const char *name, const char *word)
{
    const char *text = config_text(c, name);
    return text && !strcmp(text, word);
}

bool config_flag(const config *c, const char *name) { return config_says(c, name, "true"); }

static const char *number_text(const config *c, const char *name)
{
    const int   i    = index_of(name);
    const char *text = c->value[i] ? c->value[i] : options[i].fallback;
    return text ? text : "0";
}

double config_real(const config *c, const char *name)
{
    double      value = 0;
    const char *text  = number_text(c, name);
    (void)qg_number_read(text, strlen(text), &value);      /* it is one: option_check */
    return value;
}

int64_t config_integer(const config *c, const char *name) { return strtoll(number_text(c, name), NULL, 10); }

/* text is value, or, where both are lists, all of its lines are in it. */
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

/* A flag that is not set is false. */
static const char *value_of(const config *c, int i)
{
    return c->value[i] ? c->value[i] : options[i].kind == OPTION_FLAG ? "false" : NULL;
}

const option *config_conflict(const config *c, const config *asked, unsigned use)
{
    for (int i = 0; i < OPTIONS; i++) {
        const char *said = value_of(c, i);
        if (!asked->value[i] || (options[i].use & use) != use) continue;
        if (!said || !is_said(&options[i], said, asked->value[i])) return &options[i];
    }
    return NULL;
}

const option *config_difference(const config *a, const config *b, unsigned use)
{
    const option *o = config_conflict(a, b, use);
    return o ? o : config_conflict(b, a, use);
}

void config_free(config *c)
{
    for (int i = 0; i < OPTIONS; i++) free(c->value[i]);
    *c = (config){ 0 };
}
