/* core/profile.h — the time that each op of a step takes. */
#ifndef QG_PROFILE_H
#define QG_PROFILE_H

typedef struct qg_profile_row {
    const char *op;             /* name of the op; "-": the time between ops */
    int         calls;
    double      forward, backward;              /* seconds */
    double      forward_flops, backward_flops;
} qg_profile_row;

enum { QG_PROFILE_ROWS = 64 };

typedef struct qg_profile {
    int            rows;
    qg_profile_row row[QG_PROFILE_ROWS];        /* in order of first use; ops beyond these are not counted */
} qg_profile;                                   /* {0} is empty; attach it with qg_tape_profile */

#endif
