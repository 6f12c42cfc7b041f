/* cli/run/measure.h — loss and accuracy on a test split. */
#ifndef CLI_MEASURE_H
#define CLI_MEASURE_H

#include <signal.h>

#include "cli/config/recipe.h"

typedef struct measured {
    uint64_t images;
    double   loss, accuracy;        /* means over them */
} measured;

/* Every batch of test, from its first.  steps: of training so far, since a quantizer may wait for
 * some.  stop: *stop other than 0 ends it early, with *stopped set,
 * *out untouched and the loader back at its start; NULL: nothing does.  Fails with QG_ENAN (the
 * loss is not finite) and as the ops. */
QG_MUST_CHECK
qg_status measure(const recipe *r, qg_net *net, qg_tape *tape, uint64_t steps, qg_loader *test,
                  const volatile sig_atomic_t *stop, measured *out, bool *stopped);

#endif
