#include "train/calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/io/number.h"
#include "datasets/dataset.h"
#include "layers/plan.h"
#include "train/reader.h"
#include "train/statistics.h"

/* A quantizer of an input, or of a weight. */
typedef struct range {
    qg_layer *layer;
    qg_slot  *slot;
    qg_role   role;
    bool      was_frozen, averaged;
    double   *sum[QG_MAX_LEARNED];      /* of what it tracked after each batch, times its images */
} range;

typedef struct calibration {
    qg_net        *net;
    qg_tape       *tape;
    qg_arena       arena;
    qg_loader     *images;
    int            count;
    qg__statistics statistics;
    range         *range;
    int            ranges;
} calibration;

/* --- what there is to calibrate ----------------------------------------------------------- */

/* What learns something starts once and is then trained. */
static bool only_tracks(const qg_quant *q)
{
    int tracked = 0;
    for (int i = 0; i < qg_learned_count(*q); i++) tracked += q->scheme->learned[i].tracked;
    return tracked > 0 && tracked == qg_learned_count(*q);
}

static qg_status add_range(calibration *c, qg_layer *l, qg_slot *slot, qg_role role)
{
    range *r = &c->range[c->ranges++];
    *r       = (range){ .layer = l, .slot = slot, .role = role, .was_frozen = slot->bound.frozen };
    if (role == QG_WEIGHT) {
        slot->bound.frozen = true;
        return QG_OK;
    }
    r->averaged = only_tracks(&slot->q);
    for (int i = 0; r->averaged && i < qg_learned_count(slot->q); i++)
        if (!(r->sum[i] = qg__zeros(&c->arena, qg_count(slot->param[i]->shape), sizeof **r->sum))) return QG_EMEM;
    return QG_OK;
}

static qg_status add_layer(calibration *c, qg_layer *l)
{
    qg_status status = QG_OK;
    if (l->frozen) return QG_OK;
    for (int i = 0; i < QG_ROLES && !status; i++) {
        qg_slot *slot = l->type->slot ? l->type->slot(l, qg_roles[i]) : NULL;
        if (slot && slot->q.scheme && qg_roles[i] != QG_GRADIENT) status = add_range(c, l, slot, qg_roles[i]);
    }
    return status;
}

static qg_status begin(calibration *c)
{
    const size_t layers = (size_t)qg_net_layers(c->net);
    c->tape             = qg_tape_new();
    c->range            = qg__zeros(&c->arena, QG_ROLES * layers, sizeof *c->range);
    c->net->skips = true;
    if (!c->tape || !c->range) return QG_EMEM;
    qg_status status = qg__statistics_begin(&c->statistics, c->net, 0);
    for (int i = 0; i < (int)layers && !status; i++) status = add_layer(c, qg_net_layer(c->net, i));
    return status;
}

/* The net as it was declared, with its new values. */
static void end(calibration *c)
{
    qg__statistics_end(&c->statistics);
    for (int i = 0; i < c->ranges; i++) c->range[i].slot->bound.frozen = c->range[i].was_frozen;
    c->net->skips = false;
    qg_tape_free(c->tape);
    qg__arena_release(&c->arena);
}

/* --- ranges ------------------------------------------------------------------------------- */

/* As if the next batch were the first. */
static void restart_ranges(calibration *c)
{
    for (int i = 0; i < c->ranges; i++)
        if (c->range[i].averaged) qg_slot_start(c->range[i].slot, (qg_tensor){ .data = NULL });
}

static void add_ranges(calibration *c, double n)
{
    for (int i = 0; i < c->ranges; i++) {
        const range *r = &c->range[i];
        for (int k = 0; k < QG_MAX_LEARNED && r->sum[k]; k++)
            for (size_t at = 0; at < qg_count(r->slot->param[k]->shape); at++)
                r->sum[k][at] += n * (double)r->slot->param[k]->value[at];
    }
}

static bool has_started(const qg_slot *slot)
{
    for (int i = 0; i < qg_learned_count(slot->q); i++)
        if (slot->q.scheme->learned[i].quiet && slot->param[i]->value[0] == 0) return false;
    return true;
}

static qg_status fix_ranges(calibration *c)
{
    for (int i = 0; i < c->ranges; i++) {
        const range *r = &c->range[i];
        for (int k = 0; k < QG_MAX_LEARNED && r->sum[k]; k++)
            for (size_t at = 0; at < qg_count(r->slot->param[k]->shape); at++)
                r->slot->param[k]->value[at] = (float)(r->sum[k][at] / c->count);
        if (!has_started(r->slot))
            return qg_fail(QG_ESTATE, "calibrate: %s.%s: %s found nothing to start from in %d images", r->layer->name,
                           qg_role_name(r->role), r->slot->q.scheme->name, c->count);
        r->slot->bound.frozen = true;
    }
    return QG_OK;
}

/* --- passes ------------------------------------------------------------------------------- */

/* The step is later than the delay of any quantizer. */
static qg_status forward(calibration *c, qg_mode mode, qg_tensor x)
{
    qg__statistics_next(&c->statistics);
    qg_tape_begin(c->tape, mode, 0, UINT64_MAX);
    const qg_var *scores = qg_net_forward(c->net, c->tape, x);
    if (!scores) return qg_tape_status(c->tape);
    if (qg__all_finite(scores->data, qg_count(scores->shape))) return QG_OK;
    return qg_fail(QG_ENAN, "calibrate: the scores of an image are not finite");
}

/* Runs the batches, in QG_TRAIN for the ranges, and in QG_ESTIMATE for the running statistics. */
static qg_status pass(calibration *c, qg_mode mode)
{
    qg_status status = qg_loader_seek(c->images, 0, 0);
    int       left   = c->count;
    qg__loader_divide(c->images, false);        /* the last batch is cut, and every rank computes all of them */
    for (qg_batch b; !status && left > 0 && qg_loader_next(c->images, &b);) {
        if (b.x.shape.n > left) b.x.shape.n = left;
        left -= b.x.shape.n;
        if (mode == QG_TRAIN) restart_ranges(c);
        status = forward(c, mode, b.x);
        if (!status && mode == QG_TRAIN) add_ranges(c, b.x.shape.n);
        if (!status && mode == QG_ESTIMATE) qg__statistics_add(&c->statistics, b.x.shape.n);
    }
    qg__loader_divide(c->images, true);
    if (!status) status = qg_loader_status(c->images);
    const qg_status rewound = qg_loader_seek(c->images, 0, 0);
    return status ? status : rewound;
}

/* ------------------------------------------------------------------------------------------ */

static qg_status check(const qg_net *net, const qg_calibrate_spec *s)
{
    if (!net) return qg__fail_null(QG_EARG, "net");
    if (!qg_net_params(net)) return qg_errcode();
    if (!s->images) return qg__fail_null(QG_EARG, "images");
    const int all = qg_loader_shape(s->images).n;
    if (s->count < 0 || s->count > all)
        return qg_fail(QG_EARG, "calibrate: %d images were asked for, but there are %d", s->count, all);
    return QG_OK;
}

qg_status qg_calibrate(qg_net *net, qg_calibrate_spec spec)
{
    qg__init_report init;
    qg_status       status = check(net, &spec);
    if (!status && spec.init) status = qg__reader_init(net, spec.init, NULL, &init);
    if (status) return status;
    const int   all = qg_loader_shape(spec.images).n, usual = all < QG_CALIBRATION_IMAGES ? all : QG_CALIBRATION_IMAGES;
    calibration c   = { .net = net, .images = spec.images, .count = spec.count ? spec.count : usual };
    status          = begin(&c);
    if (!status) status = pass(&c, QG_TRAIN);
    if (!status) status = fix_ranges(&c);
    if (!status) status = pass(&c, QG_ESTIMATE);
    if (!status && (status = qg__statistics_set(&c.statistics))) qg_fail(status, "calibrate: %s", qg_errmsg());
    end(&c);
    return status;
}
