/* core/profile.h — where a step spends its time, op by op. */
#ifndef QG_PROFILE_H
#define QG_PROFILE_H

typedef struct qg_profile_row {
    const char *op;             /* name of the op; "-" is what lies between ops */
    int         calls;
    double      forward, backward;              /* seconds */
    double      forward_flops, backward_flops;
} qg_profile_row;

enum { QG_PROFILE_ROWS = 64 };

typedef struct qg_profile {
    int            rows;
    qg_profile_row row[QG_PROFILE_ROWS];        /* in order of first use; further ops are not counted */
} qg_profile;                                   /* {0} is empty; attach with qg_tape_profile */

#endif
