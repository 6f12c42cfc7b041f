/* cli/gradcheck/gradcheck.h — the derivatives that qgrad gradcheck looks at, in tables. */
#ifndef CLI_GRADCHECK_H
#define CLI_GRADCHECK_H

#include "core/gradcheck.h"

/* What a row says, and how it turned out. */
typedef struct gradcheck_line {
    const char         *name;       /* "conv2d, stride 2" */
    const char         *against;    /* what the gradient is compared with: "differences" */
    const char         *why;        /* NULL; else it has to fail, for this reason */
    bool                unstated;   /* nobody says which function has this gradient, so it is not checked */
    qg_gradcheck_result result;
} gradcheck_line;

/* Takes the rows of a table, one after the other. */
typedef struct gradcheck_report gradcheck_report;
void gradcheck_add(gradcheck_report *r, const gradcheck_line *line);

/* The rows of a table, or those of a role in it.  They fail when a check could not be made. */
typedef qg_status gradcheck_table(gradcheck_report *r, unsigned role);
gradcheck_table gradcheck_ops;          /* the ops of core/ops/ops.h, */
gradcheck_table gradcheck_norms;        /* and batch norm, alone and folded */
gradcheck_table gradcheck_schemes;      /* every scheme for the role, with its options */
gradcheck_table gradcheck_papers;       /* formulas that are no derivatives */

/* x[i]: a keyed order of n equally spaced values in centre +- spread.  None is closer to the centre
 * than spread / (n + 1), or to another than twice that. */
void gradcheck_fill(float *x, size_t n, float centre, float spread, uint64_t key);

#endif
