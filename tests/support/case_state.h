/* tests/support/case_state.h — the state that the accessors and the judge of a test vector share. */
#ifndef QG_TESTS_CASE_STATE_H
#define QG_TESTS_CASE_STATE_H

#include "tests/support/cases.h"

enum { CASE_NAMES = 32, CASE_WHY_BYTES = 512, CASE_POISON = 0xA5 };

typedef struct case_slot {
    const char *name;       /* NULL: scratch */
    qg_array    array;
    bool        written;    /* by a call that succeeded */
} case_slot;

struct test_case {
    const cJSON *attrs, *inputs, *expected;     /* expected: NULL if an error is expected */
    const char  *asked[CASE_NAMES];             /* attributes that the runner knows */
    case_slot    in[CASE_NAMES], out[CASE_NAMES];
    int          n_asked, n_in, n_out;
    bool         has_result;
    qg_status    result;
    char         error[CASE_WHY_BYTES];         /* the operator's message, if it failed */
    char         complaint[CASE_WHY_BYTES];     /* empty: none */
};

/* A number, or a string for a number that JSON cannot represent. */
bool   case__number(const cJSON *a, double *value);

/* The dtype of {"dtype", "shape", "data"}; false if it is unknown. */
bool   case__dtype(const cJSON *tensor, qg_dtype *dtype);

/* Writes its shape to the rank and dims of a, which were 0. */
bool   case__shape(const cJSON *tensor, qg_array *a);

/* Whether the shape of a has exactly n elements; safe for any dims. */
bool   case__fills(const qg_array *a, size_t n);

double case__element(const qg_array *a, size_t i);

/* Whether an output no longer holds the pattern that case_output filled it with. */
bool   case__touched(const qg_array *a);

#endif
