/* tests/support/weighed.h — a loss whose gradient is whatever a test wants, and rows of a table. */
#ifndef WEIGHED_H
#define WEIGHED_H

#include "core/tape.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

/* An op: sum of r[i] y[i], so that dL/dy = r.  r [shape of y] is borrowed. */
qg_var *weighed(qg_tape *t, qg_var *y, const float *r);

/* The paths of core/cpu.h.  use_path(i) sets QGRAD_CPU; restore_path gives the machine its choice. */
enum { PATHS = 3 };
void use_path(int i);
void restore_path(void);

#endif
