/* How long a run is: when its quantizers have started, when it ends, its learning rate, and whether it can become longer. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "quant/engine.h"
#include "quant/scheme.h"
#include "train/run.h"

static uint64_t epoch_steps(const qg__run *r)
{
    return (uint64_t)qg_loader_batches(r->spec->train);
}

/* Whether q quantizes an input and must see a batch first, in the step in which it starts. */
static bool needs_batch(const qg_quant *q, qg_role role)
{
    if (role != QG_INPUT || !qg__scheme_hooks(q->scheme).observes) return false;
    for (int i = 0; i < qg_learned_count(*q); i++)
        if (!q->scheme->learned[i].tracked)
            return true; /* tracked values are observed before it starts */
    return false;
}

uint64_t qg__last_start(qg_net *net, uint64_t step, bool done)
{
    uint64_t last = 0;
    for (int i = 0; i < qg_net_layers(net); i++)
        for (int r = 0; r < QG_ROLES; r++) {
            const qg_slot *slot = qg_layer_slot(qg_net_layer(net, i), qg_roles[r]);
            if (!slot || !slot->q.scheme || slot->q.after == 0 || qg_roles[r] == QG_GRADIENT)
                continue;
            const uint64_t at = slot->q.after + (done && needs_batch(&slot->q, qg_roles[r]));
            if (at > last && at <= step) last = at;
        }
    return last;
}

uint64_t qg__first_quantized_epoch(const qg__run *r)
{
    const uint64_t start = qg__last_start(r->net, UINT64_MAX, true);
    return start / epoch_steps(r) + (start % epoch_steps(r) > 0);
}

bool qg__run_is_finished(const qg__run *r)
{
    const qg__run_record *at = &r->record;
    if (at->epoch == (uint64_t)r->spec->epochs) return true;
    return r->spec->patience && at->epoch >= qg__first_quantized_epoch(r) &&
           at->epoch - at->best_epoch >= (uint64_t)r->spec->patience;
}

/* --- a longer run ------------------------------------------------------------------------- */

bool qg__run_is_extended(const qg__run *r)
{
    const qg_fit_spec *s = r->spec;
    const qg_fit_span *was = &r->was;
    char               here[256], there[256];
    qg_schedule_print(&s->schedule, here, sizeof here);
    qg_schedule_print(&was->schedule, there, sizeof there);
    return s->epochs != was->epochs || s->patience != was->patience || strcmp(here, there);
}

static qg_status check_length(const qg__run *r)
{
    const qg_fit_spec    *s = r->spec;
    const qg_fit_span    *was = &r->was;
    const qg__run_record *at = &r->record;
    if (s->epochs < was->epochs)
        return qg_fail(QG_EARG, "epochs: the run in %s has %d, and cannot be shortened to %d",
                       r->paths.dir, was->epochs, s->epochs);
    if (s->patience && (!was->patience || s->patience < was->patience))
        return qg_fail(
            QG_EARG,
            "patience: the run in %s began with %d; it can go on with more or with 0, not with %d",
            r->paths.dir, was->patience, s->patience);
    if (qg__run_is_finished(r) && s->epochs > was->epochs && at->epoch < (uint64_t)s->epochs)
        return qg_fail(QG_EARG,
                       "epochs: patience %d ended the run in %s after epoch %" PRIu64
                       ", and would also end one of %d epochs "
                       "there; extend it with more patience, or with 0",
                       s->patience, r->paths.dir, at->epoch, s->epochs);
    return QG_OK;
}

/* The learning rate in a step.  It is a function of the step only, so checkpoints do not store
 * it. */
static double rate_of(const qg__run *r, int epochs, const qg_schedule *s, uint64_t step)
{
    return qg_schedule_lr(s, r->spec->lr, (double)step / ((double)epoch_steps(r) * epochs));
}

double qg__run_rate(const qg__run *r, uint64_t step)
{
    return rate_of(r, r->spec->epochs, &r->spec->schedule, step);
}

/* The rate of each step so far, rounded as the optimizer gets it. */
static qg_status check_rates(const qg__run *r)
{
    const qg_fit_spec *s = r->spec;
    const qg_fit_span *was = &r->was;
    char               text[256];
    for (uint64_t i = 0; i < r->record.steps; i++) {
        const double here = qg__run_rate(r, i), there = rate_of(r, was->epochs, &was->schedule, i);
        if ((float)here == (float)there) continue;
        qg_schedule_print(&s->schedule, text, sizeof text);
        return qg_fail(QG_EARG,
                       "epochs: the run in %s cannot be extended: with %d epochs and schedule %s "
                       "its step %" PRIu64 " would have had the rate %.9g, but had %.9g; start a "
                                           "new run from its weights instead, or name a schedule "
                       "that agrees so far",
                       r->paths.dir, s->epochs, text, i + 1, here, there);
    }
    return QG_OK;
}

qg_status qg__run_check_extension(const qg__run *r)
{
    const qg_status status = check_length(r);
    return status ? status : check_rates(r);
}
