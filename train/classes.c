#include "train/reader.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/utf8.h"

enum { NUMBER_BYTES = 12 };

/* The word for a class of a known set that is called by its number, or the name as it is. */
static const char *word_for(const char *name, const char *data)
{
    const char *word = *name >= '0' && *name <= '9' && !name[1] ? qg_data_class(data, *name - '0') : NULL;
    return word ? word : name;
}

static int count(const char *noted)
{
    int n = noted && *noted;
    for (; noted && *noted; noted++) n += *noted == '/';
    return n;
}

qg_status qg__class_names_begin(qg__class_names *c, const char *noted, const char *data, int n)
{
    const bool   have  = count(noted) == n;
    /* Names from elsewhere may contain what controls a terminal, which becomes text of up to six bytes. */
    const size_t bytes = have ? 6 * strlen(noted) + 1 : (size_t)n * NUMBER_BYTES + 1;
    *c = (qg__class_names){ .n = n, .name = calloc((size_t)n + 1, sizeof *c->name), .text = calloc(bytes, 1) };
    if (!c->name || !c->text) {
        qg__class_names_end(c);
        return qg_fail(QG_EMEM, "out of memory for the names of %d classes", n);
    }
    char *to = c->text;
    if (have) qg__utf8_printable(noted, to, bytes);
    for (int k = 0; k < n; k++) {
        char *name = to;
        if (have) to += strcspn(to, "/");
        else to += snprintf(to, NUMBER_BYTES, "%d", k);
        *to++      = '\0';
        c->name[k] = word_for(name, data);
    }
    return QG_OK;
}

qg_status qg__class_names_join(const qg__class_names *c, char **joined)
{
    size_t bytes = 1;
    bool   words = false;
    for (int k = 0; k < c->n; k++) {
        char number[NUMBER_BYTES];
        snprintf(number, sizeof number, "%d", k);
        words |= strcmp(c->name[k], number) != 0;
        bytes += strlen(c->name[k]) + 1;
    }
    char *to = *joined = words ? malloc(bytes) : NULL;
    if (words && !to) return qg_fail(QG_EMEM, "out of memory for the names of %d classes", c->n);
    for (int k = 0; words && k < c->n; k++) to += sprintf(to, "%s%s", k ? "/" : "", c->name[k]);
    return QG_OK;
}

void qg__class_names_end(qg__class_names *c)
{
    free(c->name);
    free(c->text);
    *c = (qg__class_names){ 0 };
}
