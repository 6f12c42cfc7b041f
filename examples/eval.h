/* examples/eval.h — an evaluation loop.  It needs layers and datasets, so it is user code. */
#ifndef EVAL_H
#define EVAL_H

#include "qgrad.h"

/* Share of the loader's images that the net classifies correctly, 0..1; -1 on failure.  step is the number
 * of updates so far; quantizers with a delay depend on it. */
static inline double accuracy(qg_net *net, qg_tape *tape, qg_loader *test, uint64_t step)
{
    int correct = 0, seen = 0;
    for (qg_batch b; qg_loader_next(test, &b); seen += b.x.shape.n) {
        qg_tape_begin(tape, QG_EVAL, 0, step);
        const qg_var *logits = qg_net_forward(net, tape, b.x);
        if (!logits) return -1;
        correct += qg_count_correct(logits, b.y);
    }
    return qg_loader_status(test) ? -1 : (double)correct / seen;
}

#endif
