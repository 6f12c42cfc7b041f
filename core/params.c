/* Parameters: declarations that become one block of memory. */
#include "core/params.h"

#include <string.h>

#include "core/io/hash.h"
#include "core/kernels/parallel.h"

/* A parameter starts on a cache line, so no two threads share one and vectors load aligned. */
enum { ALIGN_FLOATS = 16 };

/* Values, gradients and tracked arrays of so many floats each have fewer than 2^64 bytes. */
#define MOST_FLOATS ((size_t)1 << 59)

static qg_status grow(qg_params *p)
{
    const int  capacity = p->capacity ? 2 * p->capacity : 32;
    qg_param **item     = qg__arena_take(&p->arena, (size_t)capacity * sizeof *item);
    if (!item) return QG_EMEM;
    if (p->count) memcpy(item, p->item, (size_t)p->count * sizeof *item);
    p->item     = item;
    p->capacity = capacity;
    return QG_OK;
}

static qg_param *find(const qg_params *p, const char *name)
{
    for (int i = 0; i < p->count; i++)
        if (!strcmp(p->item[i]->name, name)) return p->item[i];
    return NULL;
}

qg_param *qg_params_declare(qg_params *p, qg_param spec)
{
    if (!p) return qg__fail_null(QG_EARG, "parameters"), NULL;
    if (!spec.name) return qg__refuse(QG_EARG, "a parameter has no name");
    if (p->value)
        return qg__refuse(QG_ESTATE, "parameter %s: declared after the parameters were allocated", spec.name);
    if ((unsigned)spec.group >= QG_GROUPS)
        return qg__refuse(QG_EARG, "parameter %s: its group is %d, must be 0..%d", spec.name, (int)spec.group, QG_GROUPS - 1);
    size_t *length = spec.group == QG_TRACKED ? &p->tracked_length : &p->length;
    if (!qg_shape_valid(spec.shape) || *length + qg_count(spec.shape) > MOST_FLOATS)
        return qg__refuse(QG_ESHAPE, "parameter %s: shape " QG_SHAPE_FMT " is empty or beyond any memory", spec.name,
                          QG_SHAPE_ARGS(spec.shape));
    const qg_shape s = spec.shape;
    if (spec.rank != 0 && spec.rank != 4 && !(spec.rank == 2 && s.h == 1 && s.w == 1) &&
        !(spec.rank == 1 && s.n == 1 && s.h == 1 && s.w == 1))
        return qg__refuse(QG_EARG, "parameter %s: " QG_SHAPE_FMT " cannot be an array of rank %d", spec.name, QG_SHAPE_ARGS(s),
                          spec.rank);
    if (find(p, spec.name)) return qg__refuse(QG_EARG, "parameter %s: the name is taken", spec.name);
    if (p->count == p->capacity && grow(p)) return NULL;
    qg_param *item = qg__arena_take(&p->arena, sizeof *item);
    if (!item) return NULL;
    *item      = spec;
    item->name = qg__arena_text(&p->arena, spec.name);
    if (!item->name) return NULL;
    item->offset   = *length;
    *length += (qg_count(spec.shape) + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
    p->item[p->count++] = item;
    return item;
}

qg_status qg_params_allocate(qg_params *p)
{
    if (!p) return qg_fail(QG_ESTATE, "allocate: no parameters");
    if (p->value) return qg_fail(QG_ESTATE, "the parameters are already allocated");
    const size_t floats = 2 * p->length + p->tracked_length;
    p->value = qg__arena_take(&p->arena, (floats ? floats : 1) * sizeof(float));
    if (!p->value) return qg_fail(QG_EMEM, "parameters: %s", qg_errmsg());
    memset(p->value, 0, floats * sizeof(float));
    p->grad    = p->value + p->length;
    p->tracked = p->grad + p->length;
    for (int i = 0; i < p->count; i++) {
        qg_param  *item    = p->item[i];
        const bool tracked = item->group == QG_TRACKED;
        item->value        = (tracked ? p->tracked : p->value) + item->offset;
        item->grad         = tracked ? NULL : p->grad + item->offset;
    }
    return QG_OK;
}

qg_param *qg_params_find(const qg_params *p, const char *name)
{
    if (!p) return NULL;
    qg_param *found = name ? find(p, name) : NULL;
    if (!found) qg_fail(QG_EARG, "unknown parameter '%s'", name ? name : "NULL");
    return found;
}

void qg_param_bound(const qg_param *p, size_t n, float *w)
{
    for (size_t i = 0; (p->least != 0 || p->greatest != 0) && i < n; i++)
        if (w[i] != 0) w[i] = w[i] < p->least ? p->least : w[i] > p->greatest ? p->greatest : w[i];
}

static void project_row(void *context, int row, int worker)
{
    const qg_param *p = context;
    p->project(p, p->value + (size_t)row * qg_row(p->shape));
}

void qg_param_project(const qg_param *p)
{
    qg_param copy = *p;
    if (p->project) qg_parallel(p->shape.n, project_row, &copy);
}

void qg_params_clear_gradients(qg_params *p)
{
    if (p && p->grad) memset(p->grad, 0, p->length * sizeof *p->grad);
}

size_t qg_params_trained(const qg_params *p)
{
    size_t n = 0;
    for (int i = 0; p && i < p->count; i++)
        if (p->item[i]->group != QG_TRACKED) n += qg_count(p->item[i]->shape);
    return n;
}

uint64_t qg_params_digest(const qg_params *p)
{
    uint64_t h = QG_HASH_BASIS;
    for (int i = 0; p && i < p->count; i++) {
        const qg_param *item = p->item[i];
        h = qg_hash(h, item->name, strlen(item->name) + 1);
        h = qg_hash(h, &item->shape, sizeof item->shape);
        if (item->value) h = qg_hash(h, item->value, qg_count(item->shape) * sizeof(float));
    }
    return h;
}

void qg_params_release(qg_params *p)
{
    if (!p) return;
    qg_arena arena = p->arena;
    *p             = (qg_params){ 0 };
    qg__arena_release(&arena);
}
