#include "train/statistics.h"

#include <string.h>

#include "core/dist/ranks.h"
#include "core/io/number.h"
#include "core/rng.h"
#include "layers/plan.h"
#include "quant/engine.h"
#include "train/measure.h"

/* Batches of an estimate: one of 16 in an epoch, whose forward passes take about 2 % of its time.  The
 * noise of fewer than 4 batches of 64 images costs accuracy; more than 32 change nothing. */
enum { SHARE = 16, FEWEST = 4, MOST = 32 };

/* A batch norm as it was, and the statistics of the batches so far. */
typedef struct qg__norm {
    qg_batchnorm     *of;
    qg_batchnorm_spec declared;
    size_t            channels;
    double            each, n;              /* values of a channel in one image, and so far */
    double           *mean, *squares;       /* [channels] of these n: mean, sum of (x - mean)^2 */
    const float      *was_var;              /* [channels] the running variance at the beginning */
} qg__norm;

void *qg__zeros(qg_arena *a, size_t n, size_t size)
{
    void *at = qg__arena_take(a, n * size + 1);
    return at ? memset(at, 0, n * size) : NULL;
}

static qg_status add_norm(qg__statistics *s, qg_batchnorm *bn)
{
    const size_t c = qg_count(bn->mean->shape);
    qg__norm    *k = &s->norm[s->norms];
    *k = (qg__norm){ .of       = bn,
                     .declared = bn->spec,
                     .channels = c,
                     .each     = (double)(qg_row(bn->layer.in) / c),
                     .was_var  = s->was + bn->var->offset };
    k->mean    = qg__zeros(&s->memory, c, sizeof *k->mean);
    k->squares = qg__zeros(&s->memory, c, sizeof *k->squares);
    if (!k->mean || !k->squares) return QG_EMEM;
    bn->spec.momentum     = 1;
    bn->spec.freeze_after = 0;
    s->norms++;
    return QG_OK;
}

qg_status qg__statistics_begin(qg__statistics *s, qg_net *net, uint64_t step)
{
    const int        layers = qg_net_layers(net);
    const qg_params *p      = qg_net_params(net);
    *s      = (qg__statistics){ .net = net };
    s->norm = qg__zeros(&s->memory, (size_t)layers, sizeof *s->norm);
    s->was  = qg__zeros(&s->memory, p->tracked_length, sizeof *s->was);
    qg_status status = s->norm && s->was ? QG_OK : QG_EMEM;
    if (!status) memcpy(s->was, p->tracked, p->tracked_length * sizeof *s->was);
    for (int i = 0; i < layers && !status; i++) {
        qg_batchnorm *bn = qg__batchnorm(qg_net_layer(net, i));
        if (bn && !qg__batchnorm_frozen(bn, step)) status = add_norm(s, bn);
    }
    if (status) qg__statistics_end(s);
    return status;
}

/* One that is not folded reads no running statistics, and from 0 they become those of the batch to
 * the last bit. */
void qg__statistics_next(qg__statistics *s)
{
    for (int i = 0; i < s->norms; i++) {
        const qg__norm *k      = &s->norm[i];
        const size_t    bytes  = k->channels * sizeof(float);
        const bool      folded = !qg__net_step(s->net, &k->of->layer);
        memset(k->of->mean->value, 0, bytes);
        if (folded) memcpy(k->of->var->value, k->was_var, bytes);
        else memset(k->of->var->value, 0, bytes);
    }
}

/* Merges m values with mean b, variance v (unbiased) into n with mean a, sum of squares S:
 *     d = b - a,    a += d m / (n + m),    S += (m - 1) v + d^2 n m / (n + m) */
void qg__statistics_add(qg__statistics *s, double images)
{
    for (int i = 0; i < s->norms; i++) {
        qg__norm    *k = &s->norm[i];
        const double m = k->each * images, all = k->n + m;
        for (size_t at = 0; at < k->channels; at++) {
            const double d = (double)k->of->mean->value[at] - k->mean[at];
            k->mean[at] += d * m / all;
            k->squares[at] += (m - 1) * (double)k->of->var->value[at] + d * d * k->n * m / all;
        }
        k->n = all;
    }
}

qg_status qg__statistics_set(qg__statistics *s)
{
    for (int i = 0; i < s->norms; i++) {
        const qg__norm *k = &s->norm[i];
        if (!(k->n > 1))
            return qg_fail(QG_EARG, "%s has one value per channel in 1 image, which has no variance",
                           k->of->layer.name);
    }
    for (int i = 0; i < s->norms; i++) {
        const qg__norm *k = &s->norm[i];
        for (size_t at = 0; at < k->channels; at++) {
            k->of->mean->value[at] = (float)k->mean[at];
            k->of->var->value[at]  = (float)(k->squares[at] / (k->n - 1));
        }
    }
    return QG_OK;
}

void qg__statistics_undo(qg__statistics *s)
{
    const qg_params *p = qg_net_params(s->net);
    if (s->was) memcpy(p->tracked, s->was, p->tracked_length * sizeof *s->was);
}

void qg__statistics_end(qg__statistics *s)
{
    for (int i = 0; i < s->norms; i++) s->norm[i].of->spec = s->norm[i].declared;
    qg__arena_release(&s->memory);
    *s = (qg__statistics){ .norms = 0 };
}

/* --- in a run ------------------------------------------------------------------------------- */

bool qg__statistics_lag(const qg__run *r)
{
    const uint64_t step      = r->record.steps;
    bool           quantizes = false, tracks = false;
    for (int i = 0; i < qg_net_layers(r->net); i++) {
        qg_layer           *l    = qg_net_layer(r->net, i);
        const qg_slot      *slot = qg_layer_slot(l, QG_WEIGHT);
        const qg_batchnorm *bn   = qg__batchnorm(l);
        quantizes |= slot && slot->q.scheme && !qg__quant_is_delayed(slot->q, step);
        tracks |= bn && !qg__batchnorm_frozen(bn, step);
    }
    return quantizes && tracks;
}

bool qg__reestimates(const qg__run *r)
{
    return !r->spec->keep_running_statistics && qg__statistics_lag(r);
}

static int batches_of(const qg_loader *train)
{
    const int some = qg_loader_batches(train) / SHARE;
    return some < FEWEST ? FEWEST : some > MOST ? MOST : some;
}

/* The scores of a rank are those of its images. */
static qg_status check_scores(const qg__run *r, const qg_var *scores)
{
    char where[QG__DIVERGED_BYTES];
    if (!qg_ranks_any(!qg__all_finite(scores->data, qg_count(scores->shape)))) return QG_OK;
    qg__diverged_forward(r->net, r->tape, where);
    return qg_fail(QG_ENAN, "the scores of training images are not finite; %s", where);
}

static qg_status add_batch(qg__statistics *s, const qg__run *r, const qg_batch *b)
{
    qg__statistics_next(s);
    qg_tape_begin(r->tape, QG_ESTIMATE, qg_rng_fork(r->record.seed, QG_STREAM_TAPE), r->record.steps);
    const qg_var   *scores = qg_net_forward(r->net, r->tape, b->x);
    const qg_status status = scores ? check_scores(r, scores) : qg_tape_status(r->tape);
    if (!status) qg__statistics_add(s, b->n);
    return status;
}

static qg_status add_batches(qg__statistics *s, const qg__run *r, bool *stopped)
{
    const qg_fit_spec *spec   = r->spec;
    int                left   = batches_of(spec->train);
    qg_status          status = QG_OK;
    for (qg_batch b; left > 0 && !status && qg_loader_next(spec->train, &b); left--) {
        *stopped = qg_ranks_any(spec->stop && *spec->stop);
        if (*stopped) return QG_OK;
        status = add_batch(s, r, &b);
    }
    if (!status) status = qg_loader_status(spec->train);
    return status ? status : qg__statistics_set(s);
}

qg_status qg__reestimate(qg__statistics *s, const qg__run *r, bool *stopped)
{
    const uint64_t next   = r->record.epoch + 1;
    qg_loader     *train  = r->spec->train;
    qg_status      status = qg__statistics_begin(s, r->net, r->record.steps);
    *stopped = false;
    if (!status) status = qg_loader_seek(train, next, 0);
    if (!status) status = add_batches(s, r, stopped);
    return status ? status : qg_loader_seek(train, next, 0);
}
