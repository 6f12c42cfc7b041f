/* cli/run/measure.h — loss and accuracy on a test split. */
#ifndef CLI_MEASURE_H
#define CLI_MEASURE_H

#include <signal.h>

#include "cli/config/recipe.h"

typedef struct measured {
    uint64_t images;
    double   loss, accuracy;        /* means over them */
} measured;

/* Measures over all batches of test.  steps: the training steps so far, because a quantizer may start late.
 * stop: if *stop becomes nonzero, the measurement ends early, sets *stopped, leaves *out unchanged and resets the
 * loader; NULL: it always runs to the end.  Fails with QG_ENAN (the loss is not finite) and as the ops. */
QG_MUST_CHECK
qg_status measure(const recipe *r, qg_net *net, qg_tape *tape, uint64_t steps, qg_loader *test,
                  const volatile sig_atomic_t *stop, measured *out, bool *stopped);

#endif
