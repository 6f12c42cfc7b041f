#include "optim/optim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/io/number.h"
#include "core/io/safetensors.h"
#include "core/kernels/parallel.h"
#include "optim/rule.h"

static const char *const group_name[QG_TRACKED] = {
    [QG_WEIGHTS]    = "weights",
    [QG_BIASES]     = "biases",
    [QG_NORMS]      = "norms",
    [QG_SCALES]  = "scales",
};

struct qg_optim {
    const qg_params *params;
    const qg_rule   *rule;
    const void      *spec;
    float            lr;
    qg_group_spec    group[QG_GROUPS];
    bool             set_untrained;             /* the caller set a group that is not trained, */
    int              untrained;                 /* this one */
    int64_t          step;                      /* updates made */
    float           *moment[QG_MOMENTS];        /* laid out as params->value */
    qg_param       **item;                      /* [count] the trained ones, by rising offset */
    int              count;
    int              blocks;                    /* of the flat vector: equal work whatever the parameters */
    int             *first;                     /* [blocks] the item that contains the block's start */
    bool            *bad;                       /* [blocks] has a gradient that is not finite */
    double          *squares;                   /* [blocks] sum of squares of its gradients */
    float            max_norm;                  /* the norm at which gradients are clipped; 0: never */
    double           norm;                      /* before the last clipping */
    float            factor;                    /* of the gradients in this step; 1: as they are */
    qg_arena         arena;
};

static size_t at_most(size_t n, size_t limit) { return n < limit ? n : limit; }

/* --- settings of one parameter ------------------------------------------------------------ */

static bool frozen(const qg_optim *o, const qg_param *p)
{
    return p->frozen || o->group[p->group].frozen;
}

static float rate_of(const qg_optim *o, const qg_param *p)
{
    const float group = o->group[p->group].lr_scale;
    return o->lr * (group == 0 ? 1.0f : group) * (p->lr_scale == 0 ? 1.0f : p->lr_scale);
}

/* --- checks: nothing is touched before they pass ------------------------------------------ */

static bool legal(float x) { return x >= 0 && isfinite(x); }

static qg_status check_settings(qg_optim *o)
{
    const bool untrained = o->set_untrained;
    o->set_untrained     = false;           /* the next step need not fail as well */
    if (untrained)
        return qg_fail(QG_EARG, "step: group %d cannot be set; groups 0..%d are trained", o->untrained,
                       QG_TRACKED - 1);
    if (!legal(o->lr)) return qg_fail(QG_EARG, "step: lr is %g, must be 0 or more", (double)o->lr);
    if (!legal(o->max_norm))
        return qg_fail(QG_EARG, "step: clip norm is %g, must be 0 or more", (double)o->max_norm);
    for (int g = 0; g < QG_TRACKED; g++) {
        const qg_group_spec *s = &o->group[g];
        if (!legal(s->lr_scale) || !legal(s->weight_decay))
            return qg_fail(QG_EARG,
                           "step: %s have lr_scale %g, weight_decay %g, must be 0 or more",
                           group_name[g], (double)s->lr_scale, (double)s->weight_decay);
    }
    for (int i = 0; i < o->count; i++) {
        const qg_param *p = o->item[i];
        if (!legal(p->lr_scale) || !legal(p->decay) || !(p->clip >= 0) || !legal(rate_of(o, p)))
            return qg_fail(QG_EARG,
                           "step: %s has lr_scale %g, decay %g, clip %g and learning rate %g; each "
                           "must be 0 or more",
                           p->name, (double)p->lr_scale, (double)p->decay, (double)p->clip,
                           (double)rate_of(o, p));
    }
    if (o->step < 0 || o->step == INT64_MAX)
        return qg_fail(QG_ESTATE, "step: the count of steps is %lld", (long long)o->step);
    return QG_OK;
}

static void inspect(void *context, int block, int worker)
{
    qg_optim    *o     = context;
    const size_t start = qg_block(o->params->length, block);
    const size_t n     = qg_block(o->params->length, block + 1) - start;
    o->bad[block]      = !qg__all_finite(o->params->grad + start, n);
}

static qg_status check_gradients(qg_optim *o)
{
    qg_parallel(o->blocks, inspect, o);
    for (int b = 0; b < o->blocks; b++) {
        if (!o->bad[b]) continue;
        size_t at = qg_block(o->params->length, b);
        while (qg__all_finite(o->params->grad + at, 1)) at++;
        int i = o->first[b];
        while (i + 1 < o->count && o->item[i + 1]->offset <= at) i++;
        return qg_fail(QG_ENAN, "step: gradient %zu of %s is %g", at - o->item[i]->offset,
                       o->item[i]->name, qg__number_shown(o->params->grad[at]));
    }
    return QG_OK;
}

/* --- clipping by norm --------------------------------------------------------------------- */

/* In double, where no square overflows.  Eight sums, by index, in a fixed order: one would wait for each
 * addition. */
static double sum_of_squares(const float *g, size_t n)
{
    double lane[8] = { 0 }, sum = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; k++) lane[k] += (double)g[i + k] * (double)g[i + k];
    for (size_t k = 0; i + k < n; k++) lane[k] += (double)g[i + k] * (double)g[i + k];
    for (size_t k = 0; k < 8; k++) sum += lane[k];
    return sum;
}

static void square(void *context, int block, int worker)
{
    qg_optim    *o     = context;
    const size_t start = qg_block(o->params->length, block), end = qg_block(o->params->length, block + 1);
    double       sum   = 0;
    for (int i = o->first[block]; i < o->count && o->item[i]->offset < end; i++) {
        const qg_param *p    = o->item[i];
        const size_t    from = p->offset > start ? p->offset : start;
        const size_t    to   = at_most(p->offset + qg_count(p->shape), end);
        if (!frozen(o, p) && from < to) sum += sum_of_squares(o->params->grad + from, to - from);
    }
    o->squares[block] = sum;
}

/* g *= max_norm / norm where norm > max_norm. */
static void find_clip_factor(qg_optim *o)
{
    o->factor = 1;
    if (o->max_norm == 0) return;
    qg_parallel(o->blocks, square, o);
    double sum = 0;
    for (int b = 0; b < o->blocks; b++) sum += o->squares[b];
    o->norm = sqrt(sum);
    if (o->norm > (double)o->max_norm) o->factor = (float)((double)o->max_norm / o->norm);
}

/* --- the step ----------------------------------------------------------------------------- */

/* Blocks and parameters start at multiples of 16 floats, so no block starts in padding. */
static void update(void *context, int block, int worker)
{
    const qg_optim *o     = context;
    const size_t    start = qg_block(o->params->length, block);
    const size_t    end   = qg_block(o->params->length, block + 1);
    for (int i = o->first[block]; i < o->count && o->item[i]->offset < end; i++) {
        const qg_param *p    = o->item[i];
        const size_t    from = p->offset > start ? p->offset : start;
        const size_t    to   = at_most(p->offset + qg_count(p->shape), end);
        qg_stretch s = { .param = p,
                         .n     = to - from,
                         .w     = o->params->value + from,
                         .g     = o->params->grad + from,
                         .lr    = rate_of(o, p),
                         .decay = p->decay == 0 ? o->group[p->group].weight_decay : p->decay,
                         .clip  = p->clip > 0 && !p->project ? p->clip : INFINITY,
                         .step  = o->step };
        for (int m = 0; m < o->rule->n_moments; m++) s.moment[m] = o->moment[m] + from;
        for (size_t k = 0; o->factor < 1 && k < s.n; k++) s.g[k] *= o->factor;
        if (frozen(o, p)) memset(s.g, 0, s.n * sizeof *s.g);
        else o->rule->update(o->spec, &s), qg_param_bound(p, s.n, s.w);
    }
}

qg_status qg_optim_step(qg_optim *o)
{
    if (!o) return qg__fail_null(QG_ESTATE, "optimizer");
    qg_status s = check_settings(o);
    if (!s) s = check_gradients(o);
    if (s) return s;
    o->step++;
    find_clip_factor(o);
    qg_parallel(o->blocks, update, o);
    for (int i = 0; i < o->count; i++)      /* whole rows: a block may end within one */
        if (!frozen(o, o->item[i])) qg_param_project(o->item[i]);
    return QG_OK;
}

int64_t qg_optim_steps(const qg_optim *o) { return o ? o->step : 0; }

const qg_params *qg_optim_params(const qg_optim *o) { return o ? o->params : NULL; }

/* --- construction ------------------------------------------------------------------------- */

static void list_items(qg_optim *o)
{
    for (int i = 0; i < o->params->count; i++)
        if (o->params->item[i]->group != QG_TRACKED) o->item[o->count++] = o->params->item[i];
    for (int b = 0, i = 0; b < o->blocks; b++) {
        while (i + 1 < o->count && o->item[i + 1]->offset <= qg_block(o->params->length, b)) i++;
        o->first[b] = i;
    }
}

/* A step then allocates nothing. */
static qg_status take_memory(qg_optim *o, const void *spec, size_t spec_bytes)
{
    void *copy = qg__arena_take(&o->arena, spec_bytes + 1);
    o->blocks  = qg_blocks(o->params->length);
    o->first   = qg__arena_take(&o->arena, ((size_t)o->blocks + 1) * sizeof *o->first);
    o->bad     = qg__arena_take(&o->arena, ((size_t)o->blocks + 1) * sizeof *o->bad);
    o->squares = qg__arena_take(&o->arena, ((size_t)o->blocks + 1) * sizeof *o->squares);
    o->item    = qg__arena_take(&o->arena, ((size_t)o->params->count + 1) * sizeof *o->item);
    if (!copy || !o->first || !o->bad || !o->squares || !o->item) return QG_EMEM;
    o->spec = spec_bytes ? memcpy(copy, spec, spec_bytes) : copy;
    list_items(o);
    for (int m = 0; m < o->rule->n_moments; m++) {
        const size_t bytes = o->params->length * sizeof(float);
        o->moment[m]       = qg__arena_take(&o->arena, bytes + 1);
        if (!o->moment[m]) return QG_EMEM;
        memset(o->moment[m], 0, bytes);
    }
    return QG_OK;
}

const qg_param *qg__first_that_flips(const qg_params *p)
{
    for (int i = 0; i < p->count; i++)
        if (p->item[i]->flips) return p->item[i];
    return NULL;
}

qg_optim *qg_optim_new(qg_params *p, const qg_rule *rule, const void *spec, size_t spec_bytes,
                        float lr, float weight_decay)
{
    QG_ASSERT(rule && rule->name && rule->update && rule->n_moments >= 0 && rule->n_moments <= QG_MOMENTS);
    for (int i = 0; i < rule->n_moments; i++) QG_ASSERT(rule->moment[i]);
    if (!p) return NULL;
    if (!p->value) return qg__refuse(QG_ESTATE, "%s: the parameters are not allocated", rule->name);
    if (!(lr > 0 && isfinite(lr)))
        return qg__refuse(QG_EARG, "%s: lr is %g; it must be positive and finite", rule->name, (double)lr);
    if (!legal(weight_decay))
        return qg__refuse(QG_EARG, "%s: weight_decay is %g, must be 0 or more", rule->name,
                          (double)weight_decay);
    const qg_param *flips = rule->flips ? NULL : qg__first_that_flips(p);
    if (flips)      /* small updates would make +-1 into any number */
        return qg__refuse(QG_EARG, "%s: the values of %s can only flip; use the optimizer bop", rule->name,
                          flips->name);
    qg_optim *o = calloc(1, sizeof *o);
    if (!o) return qg__refuse(QG_EMEM, "%s: out of memory", rule->name);
    o->params = p;
    o->rule   = rule;
    o->lr     = lr;
    o->group[QG_WEIGHTS].weight_decay = weight_decay;
    if (take_memory(o, spec, spec_bytes)) {
        qg_optim_free(o);
        return NULL;
    }
    return o;
}

void qg_optim_set_group(qg_optim *o, qg_group g, qg_group_spec spec)
{
    if (!o) return;
    if ((int)g >= 0 && (int)g < QG_TRACKED) {
        o->group[g] = spec;
        return;
    }
    o->set_untrained = true;
    o->untrained     = (int)g;
}

void qg_optim_set_lr(qg_optim *o, float lr)
{
    if (o) o->lr = lr;
}

float qg_optim_lr(const qg_optim *o) { return o ? o->lr : 0; }

void qg_optim_set_clip_norm(qg_optim *o, float norm)
{
    if (o) o->max_norm = norm;
}

double qg_optim_norm(const qg_optim *o) { return o ? o->norm : 0; }

void qg_optim_state(qg_optim *o, qg_state *s)
{
    if (!o) return;
    for (int m = 0; m < o->rule->n_moments; m++)
        for (int i = 0; i < o->count; i++) {
            const qg_param *p = o->item[i];
            float          *v = o->moment[m] + p->offset;
            qg__state_add_named(s, p->shape, v, "optim.%s.%s", o->rule->moment[m], p->name);
        }
    qg_state_add(s, "optim.step", (qg_array){ .dtype = QG_I64, .data = &o->step });
}

void qg_optim_free(qg_optim *o)
{
    if (!o) return;
    qg__arena_release(&o->arena);
    free(o);
}
