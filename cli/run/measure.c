#include "cli/run/measure.h"

#include <math.h>

#include "core/rng.h"

qg_status measure(const recipe *r, qg_net *net, qg_tape *tape, uint64_t steps, qg_loader *test,
                  const volatile sig_atomic_t *stop, measured *out, bool *stopped)
{
    const uint64_t key = qg_rng_fork(r->seed, QG_STREAM_TAPE);
    double         sum = 0;
    uint64_t       n = 0, correct = 0;
    *stopped = false;
    for (qg_batch b; qg_loader_next(test, &b);) {
        if (stop && *stop) {
            *stopped = true;
            return qg_loader_seek(test, 0, 0);
        }
        qg_tape_begin(tape, QG_EVAL, key, steps);
        qg_var *scores = qg_net_forward(net, tape, b.x);
        qg_var *loss   = recipe_loss(r, tape, scores, b.y);
        if (!loss) return qg_tape_status(tape);
        sum += (double)loss->data[0] * (double)b.x.shape.n;
        correct += (uint64_t)qg_correct(scores, b.y);
        n += (uint64_t)b.x.shape.n;
    }
    if (!isfinite(sum)) return qg_fail(QG_ENAN, "the loss on the test images is not finite");
    *out = (measured){ .images   = n,
                       .loss     = sum / (double)n,
                       .accuracy = (double)correct / (double)n };
    return QG_OK;
}
