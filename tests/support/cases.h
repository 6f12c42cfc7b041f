/* tests/support/cases.h — one test vector: its inputs, the library's outputs, what is expected.
 *
 * A runner of an operator reads its attributes and inputs, declares its outputs, calls the library
 * and records the status:
 *
 *     static void ste_sign(test_case *c)
 *     {
 *         const float     clip = case_float(c, "clip");
 *         const qg_array *x    = case_input(c, "x");
 *         qg_array       *y    = case_output_like(c, "y", QG_F32, x);
 *         if (case_ready(c)) case_result(c, qg_ste_sign(clip, x, y));
 *     }
 *
 * Two kinds of failure are kept apart.  A complaint is about the vector (a missing input, an
 * attribute that no runner asked for, data that does not fit its shape) and always fails the case.
 * A result other than QG_OK comes from the operator and is what a case with "expected_error" waits
 * for.  The first complaint sticks; accessors then return harmless values, so runners check once,
 * with case_ready.  Every attribute is to be read whether or not it matters: the unread ones are
 * unknown.
 */
#ifndef QG_TESTS_CASES_H
#define QG_TESTS_CASES_H

#include "core/io/array.h"
#include "core/status.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct test_case test_case;

/* Attributes.  The _or forms hold when the attribute is absent; without it absence is a complaint.
 * Numbers may be the strings "nan", "inf", "-inf".  float is the decimal rounded once, by way of
 * double. */
bool   case_bool(test_case *c, const char *name);
bool   case_bool_or(test_case *c, const char *name, bool absent);
int    case_int(test_case *c, const char *name);
int    case_int_or(test_case *c, const char *name, int absent);
double case_double(test_case *c, const char *name);
float  case_float(test_case *c, const char *name);
float  case_float_or_null(test_case *c, const char *name, bool *is_null);  /* null: 0 and true */
void   case_ints(test_case *c, const char *name, int n, int *values);      /* a list of exactly n */

/* The index in choices, a list that NULL ends; 0 with a complaint if the text is none of them. */
int    case_choice(test_case *c, const char *name, const char *const *choices);
int    case_choice_or(test_case *c, const char *name, const char *const *choices, int absent);

/* An input by name, of any dtype of the file format; never NULL.  Asking twice is free. */
const qg_array *case_input(test_case *c, const char *name);

/* The same, complaining unless it has this dtype. */
const qg_array *case_input_of(test_case *c, const char *name, qg_dtype dtype);

/* The value of a float32 input that the library takes by value.  If it is not of rank 0 the result
 * becomes QG_ESHAPE, as the operator itself would answer had it seen the shape. */
float           case_scalar(test_case *c, const char *name);

/* An output the library is to write; never NULL.  dims may be NULL for rank 0.  It is filled with a
 * pattern that has to be intact after a failure. */
qg_array       *case_output(test_case *c, const char *name, qg_dtype dtype, int rank,
                            const size_t *dims);
qg_array       *case_output_like(test_case *c, const char *name, qg_dtype dtype,
                                 const qg_array *shape);

/* An array that lives as long as the case, for what a runner computes on the way; never NULL. */
qg_array       *case_scratch(test_case *c, qg_dtype dtype, const qg_array *shape);

/* Whether "expected" names this output, and its dtype there; for what only the answer tells. */
bool            case_expects(const test_case *c, const char *name, qg_dtype *dtype);

bool      case_ready(const test_case *c);                 /* no complaint and no failure so far */
void      case_result(test_case *c, qg_status s);         /* the first failure stays */
QG_PRINTF(2, 3)
void      case_complain(test_case *c, const char *fmt, ...);

/* Runners by operator name; each table ends with { NULL, NULL } and lives in a file of its own. */
typedef struct case_op {
    const char *op;
    void      (*run)(test_case *c);
} case_op;

extern const case_op tf_cases[];        /* cases_tf.c */
extern const case_op integer_cases[];   /* cases_integer.c */
extern const case_op paper_cases[];     /* cases_papers.c */

/* Runs one entry of "cases".  False, with one line in why, unless it is well formed, its operator
 * is in a table and everything it expects came out within tolerance.  An expected decimal of a
 * float32 output is rounded to float32 first, so with a tolerance of 0 the nearest one passes and
 * its neighbours fail; the comparison itself is in double. */
bool      case_run(const cJSON *json, char *why, size_t why_bytes);

/* Runs every case of a file and prints a line per failure.  A file that cannot be read or parsed,
 * or that holds another number of cases than it says, counts as one failure. */
typedef struct case_count {
    int passed, failed;
} case_count;

case_count case_run_file(const char *path);

#endif
