#include "optim/ema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/safetensors.h"
#include "core/kernels/parallel.h"
#include "optim/rule.h"

static const float DECAY = 0.999f;

struct qg_ema {
    const qg_params *params;
    qg_ema_spec      spec;
    float           *average;       /* laid out as params->value */
    int64_t          steps;
    bool             swapped;
    qg_arena         arena;
};

/* --- update ------------------------------------------------------------------------------- */

typedef struct job {
    const qg_ema   *e;
    const qg_param *p;
    float           gain;           /* 1 - d */
} job;

static void update_block(void *context, int block, int worker)
{
    const job     *j    = context;
    const qg_param p    = *j->p;
    const size_t   n    = qg_count(p.shape), end = qg_block(n, block + 1);
    const float    clip = p.clip > 0 && !p.project && !p.frozen ? p.clip : INFINITY;
    float         *a    = j->e->average + p.offset;
    /* In this form a weight that does not move is its own average, to the bit. */
    for (size_t i = qg_block(n, block); i < end; i++)
        a[i] = p.flips ? p.value[i] : qg_clipped(a[i] + j->gain * (p.value[i] - a[i]), clip);
    if (!p.frozen) qg_param_bound(&p, end - qg_block(n, block), a + qg_block(n, block));
}

static double decay_at(const qg_ema *e, int64_t n)
{
    const double decay = (double)e->spec.decay, warm = (1.0 + (double)n) / (10.0 + (double)n);
    return e->spec.no_warmup || decay < warm ? decay : warm;
}

static qg_status check(const qg_ema *e)
{
    if (!e) return qg__fail_null(QG_ESTATE, "ema");
    return e->swapped ? qg_fail(QG_ESTATE, "ema: the averages are swapped in; call qg_ema_swap first")
                      : QG_OK;
}

qg_status qg_ema_update(qg_ema *e)
{
    if (check(e)) return QG_ESTATE;
    if (e->steps < 0 || e->steps == INT64_MAX)
        return qg_fail(QG_ESTATE, "ema: the count of updates is %lld", (long long)e->steps);
    const float gain = (float)(1.0 - decay_at(e, ++e->steps));
    for (int i = 0; i < e->params->count; i++) {
        const qg_param *p = e->params->item[i];
        if (p->group == QG_TRACKED) continue;
        qg_parallel(qg_blocks(qg_count(p->shape)), update_block, &(job){ e, p, gain });
        qg_param average = *p;
        average.value    = e->average + p->offset;
        if (!p->frozen) qg_param_project(&average);
    }
    return QG_OK;
}

qg_status qg_ema_restart(qg_ema *e)
{
    if (check(e)) return QG_ESTATE;
    memcpy(e->average, e->params->value, e->params->length * sizeof *e->average);
    e->steps = 0;
    return QG_OK;
}

/* --- swap --------------------------------------------------------------------------------- */

static void swap_block(void *context, int block, int worker)
{
    const qg_ema *e   = context;
    const size_t  end = qg_block(e->params->length, block + 1);
    for (size_t i = qg_block(e->params->length, block); i < end; i++) {
        const float w       = e->params->value[i];
        e->params->value[i] = e->average[i];
        e->average[i]       = w;
    }
}

qg_status qg_ema_swap(qg_ema *e)
{
    if (!e) return qg__fail_null(QG_ESTATE, "ema");
    qg_parallel(qg_blocks(e->params->length), swap_block, e);
    e->swapped = !e->swapped;
    return QG_OK;
}

/* --- construction, files ------------------------------------------------------------------ */

static qg_status take_memory(qg_ema *e)
{
    const size_t bytes = e->params->length * sizeof *e->average;
    e->average         = qg__arena_take(&e->arena, bytes + 1);
    if (!e->average) return QG_EMEM;
    memcpy(e->average, e->params->value, bytes);
    return QG_OK;
}

qg_ema *qg_ema_new(qg_params *p, qg_ema_spec spec)
{
    if (!p) return NULL;
    if (!p->value) return qg__refuse(QG_ESTATE, "ema: the parameters are not allocated");
    if (!(spec.decay >= 0 && spec.decay < 1))
        return qg__refuse(QG_EARG, "ema: decay is %g, must be 0 (for %g) or more and less than 1",
                          (double)spec.decay, (double)DECAY);
    qg_ema *e = calloc(1, sizeof *e);
    if (!e) return qg__refuse(QG_EMEM, "out of memory: ema");
    e->params = p;
    e->spec   = spec;
    if (spec.decay == 0) e->spec.decay = DECAY;
    if (take_memory(e)) {
        qg_ema_free(e);
        return NULL;
    }
    return e;
}

void qg_ema_state(qg_ema *e, qg_state *s)
{
    if (!e) return;
    for (int i = 0; i < e->params->count; i++) {
        const qg_param *p = e->params->item[i];
        if (p->group == QG_TRACKED) continue;
        qg__state_add_named(s, p->shape, e->average + p->offset, "ema.%s", p->name);
    }
    qg_state_add(s, "ema.steps", (qg_array){ .dtype = QG_I64, .data = &e->steps });
}

void qg_ema_free(qg_ema *e)
{
    if (!e) return;
    qg__arena_release(&e->arena);
    free(e);
}
