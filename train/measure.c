#include "train/measure.h"

#include <math.h>

#include "core/rng.h"

/* Smoothed labels are a means of training, and losses of tests should be comparable. */
qg_var *qg__loss(const qg_fit_spec *spec, qg_tape *t, qg_var *scores, const qg_batch *b)
{
    if (spec->loss) return scores ? spec->loss(spec->user, t, scores, b) : NULL;
    if (spec->label_smoothing == 0 || qg_tape_mode(t) == QG_EVAL) return qg_cross_entropy(t, scores, b->y);
    return qg_cross_entropy_with(t, scores, b->y, (qg_cross_entropy_spec){ .smoothing = spec->label_smoothing });
}

static qg_status assess(qg__assessment *all, const qg_var *scores, const qg_batch *b)
{
    const size_t classes = qg_row(scores->shape);
    qg_status    status  = QG_OK;
    if (classes != (size_t)all->classes)
        return qg_fail(QG_ESHAPE, "the net has %zu scores for %d classes", classes, all->classes);
    for (size_t i = 0; i < (size_t)scores->shape.n && !status; i++)
        status = qg__assess_add(all, scores->data + i * classes, b->y[i]);
    return status;
}

qg_status qg__measure(const qg_fit_spec *spec, qg_loader *images, qg_net *net, qg_tape *tape, uint64_t steps,
                      qg__assessment *all, qg__measured *out, bool *stopped)
{
    const uint64_t key = qg_rng_fork(spec->seed, QG_STREAM_TAPE);
    double         sum = 0;
    uint64_t       n = 0, correct = 0;
    *stopped = false;
    for (qg_batch b; qg_loader_next(images, &b);) {
        if (spec->stop && *spec->stop) {
            *stopped = true;
            return qg_loader_seek(images, 0, 0);
        }
        qg_tape_begin(tape, QG_EVAL, key, steps);
        qg_var *scores = qg_net_forward(net, tape, b.x);
        qg_var *loss   = qg__loss(spec, tape, scores, &b);
        if (!loss) return qg_tape_status(tape);
        if (all && assess(all, scores, &b)) return qg_errcode();
        if (spec->events.scores) spec->events.scores(spec->events.user, images, &b, scores);
        sum += (double)loss->data[0] * (double)b.x.shape.n;
        correct += (uint64_t)qg_correct(scores, b.y);
        n += (uint64_t)b.x.shape.n;
    }
    const qg_status status = qg_loader_status(images);
    if (status) return status;
    if (!isfinite(sum)) return qg_fail(QG_ENAN, "the loss on the %s images is not finite",
                                        images == spec->validation ? "validation" : "test");
    if (all) qg__assess_sort(all);
    *out = (qg__measured){ .images   = n,
                           .loss     = sum / (double)n,
                           .accuracy = (double)correct / (double)n };
    return QG_OK;
}
