#include "train/measure.h"

#include <math.h>
#include <string.h>

#include "core/dist/ranks.h"
#include "core/rng.h"
#include "core/slices.h"
#include "layers/plan.h"

/* Smoothed labels are a means of training, and losses of tests should be comparable. */
qg_var *qg__loss(const qg_fit_spec *spec, qg_tape *t, qg_var *scores, const qg_batch *b)
{
    if (spec->loss) return scores ? spec->loss(spec->user, t, scores, b) : NULL;
    if (spec->label_smoothing == 0 || qg_tape_mode(t) == QG_EVAL) return qg_cross_entropy(t, scores, b->y);
    return qg_cross_entropy_with(t, scores, b->y, (qg_cross_entropy_spec){ .smoothing = spec->label_smoothing });
}

static qg_status diverged(const qg_fit_spec *spec, const qg_loader *images, const qg_net *net, qg_tape *tape)
{
    char where[QG__DIVERGED_BYTES];
    qg__diverged_forward(net, tape, where);
    return qg_fail(QG_ENAN, "the loss on the %s images is not finite; %s",
                   images == spec->validation ? "validation" : "test", where);
}

static qg_status assess(qg_assessment *all, const qg_var *scores, const qg_batch *b)
{
    const size_t classes = qg_row(scores->shape);
    qg_status    status  = QG_OK;
    if (classes != (size_t)all->classes)
        return qg_fail(QG_ESHAPE, "the net has %zu score%s for %d class%s", classes, classes == 1 ? "" : "s", all->classes,
                       all->classes == 1 ? "" : "es");
    for (size_t i = 0; i < (size_t)scores->shape.n && !status; i++)
        status = qg__assess_add(all, scores->data + i * classes, b->y[i]);
    return status;
}

/* Only rank 0 has listeners, who see the whole batch.  false: the step has failed. */
static bool tell_scores(const qg_fit_spec *spec, qg_loader *images, qg_tape *t, const qg_var *scores, const qg_batch *b)
{
    const qg_fit_events *e = &spec->events;
    if (!qg__slices_of(scores).shared) {
        if (e->scores) e->scores(e->user, images, b, scores);
        return true;
    }
    if (!qg_ranks_any(e->scores)) return true;
    const qg__slices at  = qg__slices_of(scores);
    const qg_tensor  all = qg__whole_batch(t, scores);
    uint16_t        *y   = qg_scratch(t, (size_t)at.n * sizeof *y);
    if (!all.data || !y) return false;
    memcpy(y + at.first, b->y, (size_t)at.count * sizeof *y);
    if (!qg__images_gather(t, at, y, sizeof *y)) return false;
    qg_batch whole = *b;
    qg_var   seen  = *scores;
    whole.y = y;
    seen.shape = all.shape, seen.data = all.data, seen.batch = all.shape.n;
    if (e->scores) e->scores(e->user, images, &whole, &seen);
    return true;
}

bool qg__read_batch(qg_loader *l, uint64_t epoch, uint64_t batch, qg_batch *b)
{
    return !qg_loader_seek(l, epoch, batch) && qg_loader_next(l, b);
}

static qg_status measure(const qg_fit_spec *spec, qg_loader *images, uint64_t epoch, qg_net *net,
                         qg_tape *tape, uint64_t steps, qg_assessment *all, qg__measured *out, bool *stopped)
{
    const uint64_t key = qg_rng_fork(spec->seed, QG_STREAM_TAPE);
    double         sum = 0;
    uint64_t       n = 0, correct = 0, read = 0;
    for (qg_batch b; qg__read_batch(images, epoch, read, &b); read++) {
        *stopped = qg_ranks_any(spec->stop && *spec->stop);
        if (*stopped) return QG_OK;
        qg_tape_begin(tape, QG_EVAL, key, steps);
        qg_var *scores = qg_net_forward(net, tape, b.x);
        qg_var *loss   = qg__loss(spec, tape, scores, &b);
        const qg_status status = qg_tape_status(tape);
        if (!loss) return status ? status : qg_fail(QG_ESTATE, "evaluate: the loss is NULL");
        if (!isfinite(loss->data[0])) return diverged(spec, images, net, tape);
        if (all && assess(all, scores, &b)) return qg_errcode();
        sum += (double)loss->data[0] * (double)b.n;
        correct += (uint64_t)qg_count_correct(scores, b.y);
        n += (uint64_t)b.n;
        /* Last, since a listener may read another batch. */
        if (!tell_scores(spec, images, tape, scores, &b)) return qg_tape_status(tape);
    }
    const qg_status status = qg_loader_status(images);
    if (status) return status;
    if (all) qg__assess_sort(all);
    *out = (qg__measured){ .images   = n,
                           .loss     = sum / (double)n,
                           .accuracy = (double)correct / (double)n };
    return QG_OK;
}

qg_status qg__measure(const qg_fit_spec *spec, qg_loader *images, qg_net *net, qg_tape *tape, uint64_t steps,
                      qg_assessment *all, qg__measured *out, bool *stopped)
{
    uint64_t epoch, batch;
    *stopped = false;
    qg_loader_tell(images, &epoch, &batch);
    const qg_status status = measure(spec, images, epoch, net, tape, steps, all, out, stopped);
    const qg_status back   = qg_loader_seek(images, epoch, batch);
    return status ? status : back;
}

qg_status qg_assessment_add(qg_assessment *a, const qg_loader *images, const qg_batch *b,
                            const qg_var *scores, int worst)
{
    const uint64_t all    = (uint64_t)qg_loader_shape(images).n;
    qg_status      status = a->classes ? QG_OK : qg__assess_begin(a, qg_loader_classes(images), worst);
    if (!status) status = assess(a, scores, b);
    if (status || a->images != all) return status;
    qg__assess_sort(a);
    a->accuracy = (double)a->correct / (double)all;
    return QG_OK;
}

qg_status qg_evaluate(qg_net *net, qg_loader *images, qg_evaluate_spec spec, qg_assessment *a)
{
    const qg_fit_spec of   = { .seed = spec.seed, .test = images, .loss = spec.loss, .user = spec.user };
    qg__measured      m    = { .images = 0 };
    bool              stopped;
    if (!a) return qg_fail(QG_EARG, "evaluate: the assessment is missing");
    *a = (qg_assessment){ .classes = 0 };
    if (!net || !images) return qg__fail_null(QG_EARG, net ? "evaluate: images" : "evaluate: net");
    qg_tape  *tape   = qg_tape_new();
    qg_status status = tape ? QG_OK : qg_errcode();
    if (!status) status = qg__assess_begin(a, qg_loader_classes(images), spec.worst);
    const uint64_t steps = qg__step_given(spec.steps);
    if (!status) status = qg__measure(&of, images, net, tape, steps, a, &m, &stopped);
    if (!status && spec.tta) status = qg__measure_views(&of, images, net, tape, steps, &a->tta_accuracy);
    a->loss     = m.loss;
    a->accuracy = m.accuracy;
    qg_tape_free(tape);
    return status;
}
