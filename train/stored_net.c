#include "train/reader.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "quant/scheme.h"

enum { NAME_BYTES = 192, OPERANDS = 2 };

typedef struct stored {
    qg_layer          layer;
    const qg_archive *from;                 /* while the net is built */
    char              weight[NAME_BYTES];   /* the name of its weight; empty: it has none */
    qg_slot           slot[OPERANDS];       /* of the weight and of the input, as in qg_roles */
    char              unknown[OPERANDS][QG_MAX_KEYS * QG_KEY_BYTES];
} stored;

/* --- arrays ------------------------------------------------------------------------------- */

/* An array of the net: its average, if there is one. */
static const qg_array *find(const qg_archive *a, const char *name)
{
    char average[2 * NAME_BYTES + 8];
    snprintf(average, sizeof average, "ema.%.*s", 2 * NAME_BYTES, name);
    const qg_named_array *e = qg_archive_find(a, average);
    if (!e) e = qg_archive_find(a, name);
    return e && e->viewable && e->array.dtype == QG_F32 ? &e->array : NULL;
}

/* The shape of a parameter, of which the array is qg__param_array.  false: it is none. */
static bool shape_of(const qg_array *a, qg_shape *s)
{
    size_t d[4] = { 1, 1, 1, 1 };
    if (!a || a->rank > 4 || qg_array_count(a) == 0) return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->dims[i] > INT_MAX) return false;
        d[i == 0 && a->rank > 1 ? 0 : 4 - a->rank + i] = a->dims[i];
    }
    *s = (qg_shape){ (int)d[0], (int)d[1], (int)d[2], (int)d[3] };
    return true;
}

/* --- layers ------------------------------------------------------------------------------- */

static qg_param *declare(stored *s, const char *name, qg_shape shape, qg_group group)
{
    return qg_layer_declare(&s->layer, name + strlen(s->layer.name) + 1, (qg_param){ .shape = shape, .group = group });
}

/* What the quantizer learned. */
static bool declare_learned(stored *s, int operand)
{
    qg_slot *slot = &s->slot[operand];
    for (int i = 0; i < qg_learned_count(slot->q); i++) {
        const qg_learned *l = &slot->q.scheme->learned[i];
        char              name[2 * NAME_BYTES];
        qg_shape          shape;
        snprintf(name, sizeof name, "%s.%s.%s", s->layer.name, qg_role_name(qg_roles[operand]), l->name);
        if (!shape_of(find(s->from, name), &shape)) return false;
        slot->param[i] = declare(s, name, shape, l->tracked ? QG_TRACKED : QG_SCALES);
        if (!slot->param[i]) return false;
    }
    return true;
}

/* false: the quantizer is as good as unknown. */
static bool bind(stored *s, int operand)
{
    qg_slot       *slot = &s->slot[operand];
    const qg_shape x    = slot->of ? slot->of->shape : s->layer.in;
    return declare_learned(s, operand) && !qg_bind(slot->q, qg_roles[operand], x, &slot->bound);
}

static qg_status build(qg_layer *l)
{
    stored  *s = (stored *)l;
    qg_shape shape;
    if (*s->weight) {
        if (!shape_of(find(s->from, s->weight), &shape)) return qg_fail(QG_EFORMAT, "%s is no weight", s->weight);
        s->slot[0].of = declare(s, s->weight, shape, QG_WEIGHTS);
        if (!s->slot[0].of) return qg_errcode();
    }
    for (int i = 0; i < OPERANDS; i++)
        if (s->slot[i].q.scheme && !bind(s, i)) {
            snprintf(s->unknown[i], sizeof s->unknown[i], "%s, without what it learned", s->slot[i].q.scheme->name);
            s->slot[i] = (qg_slot){ .of = s->slot[i].of };
        }
    for (int i = 0; i < OPERANDS; i++) s->slot[i].unknown = *s->unknown[i] ? s->unknown[i] : NULL;
    return QG_OK;
}

static qg_var *forward(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    return x ? qg_reject(t, QG_ESTATE, "%s: only its program can compute it", l->name) : NULL;
}

static qg_slot *slot(qg_layer *l, qg_role role)
{
    stored *s = (stored *)l;
    if (role == QG_WEIGHT) return *s->weight ? &s->slot[0] : NULL;
    return role == QG_INPUT ? &s->slot[1] : NULL;
}

static const qg_layer_type stored_type = { .name    = "stored",
                                           .size    = sizeof(stored),
                                           .build   = build,
                                           .forward = forward,
                                           .slot    = slot };

/* --- what is noted ------------------------------------------------------------------------ */

static bool skip(const char **at, const char *word)
{
    const size_t n    = strlen(word);
    const bool   same = !strncmp(*at, word, n);
    *at += same ? n : 0;
    return same;
}

static void take_quantizer(stored *s, int operand, const char *text)
{
    const bool folded = skip(&text, "folded "), own = skip(&text, "own ");
    qg_slot   *to     = &s->slot[operand];
    if (!strcmp(text, "float")) return;
    if (!own && !folded && !qg_quant_parse(text, qg_roles[operand], &to->q)) return;
    to->q = (qg_quant){ 0 };
    snprintf(s->unknown[operand], sizeof s->unknown[operand], "%s%s", text,
             folded ? ", after its batch norm is folded in" : "");
}

/* The layer of this name, which may be the newest. */
static stored *layer_of(qg_net *net, const qg_archive *a, const char *name)
{
    qg_layer *last = qg_net_layer(net, qg_net_layers(net) - 1);
    stored   *s    = (stored *)last;
    if (!last || strcmp(last->name, name)) s = qg_net_append(net, &stored_type, NULL, "layer", name);
    if (s) s->from = a;
    return s;
}

/* One operand: the name of a weight, or LAYER.input. */
static void add_operand(qg_net *net, const qg_archive *a, const char *name, const char *quantizer)
{
    char        layer[NAME_BYTES];
    const char *dot    = strrchr(name, '.');
    const bool  weight = find(a, name);
    if (!dot || dot == name || strlen(name) >= sizeof layer || (!weight && strcmp(dot, ".input"))) return;
    snprintf(layer, sizeof layer, "%.*s", (int)(dot - name), name);
    stored *s = layer_of(net, a, layer);
    if (!s) return;
    if (weight) strcpy(s->weight, name);
    take_quantizer(s, weight ? 0 : 1, quantizer);
}

static void add_noted(qg_net *net, const qg_archive *a, const char *noted)
{
    while (*noted) {
        char         line[NAME_BYTES + sizeof ((stored *)0)->unknown[0]];
        const size_t n = strcspn(noted, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(n < sizeof line ? n : sizeof line - 1), noted);
        char *space = strchr(line, ' ');
        if (space) {
            *space = '\0';
            add_operand(net, a, line, space + 1);
        }
        noted += n + (noted[n] == '\n');
    }
}

static qg_status fill(qg_params *p, const qg_archive *a)
{
    for (int i = 0; i < p->count; i++) {
        const qg_array *from = find(a, p->item[i]->name);
        if (!from || qg_array_count(from) != qg_count(p->item[i]->shape))
            return qg_fail(QG_EFORMAT, "%s is no parameter", p->item[i]->name);
        memcpy(p->item[i]->value, from->data, qg_array_count(from) * sizeof(float));
    }
    return QG_OK;
}

qg_net *qg__stored_net(const char *path)
{
    qg_archive *a     = qg_archive_open(path);
    qg_net     *net   = a ? qg_net_new((qg_net_spec){ .height = 1, .width = 1, .channels = 1 }) : NULL;
    const char *noted = a ? qg_archive_noted(a, "operands") : NULL;
    if (net && noted) add_noted(net, a, noted);
    qg_status s = net ? QG_OK : qg_errcode();
    if (!s && qg_net_layers(net) == 0) s = qg_fail(QG_EFORMAT, "%s: has no weights", path);
    qg_params *p = s ? NULL : qg_net_build(net);
    if (!s && (!p || fill(p, a))) s = qg_fail(p ? QG_EFORMAT : qg_errcode(), "%s: %s", path, qg_errmsg());
    qg_archive_free(a);
    if (!s) return net;
    qg_net_free(net);
    return NULL;
}
