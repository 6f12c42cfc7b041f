/* tests/support/cases.h — one test vector: its inputs, the library's outputs, the expected outputs.
 *
 * A runner of an operator reads its attributes and inputs, declares its outputs, calls the library
 * and records the status:
 *
 *     static void linear(test_case *c)
 *     {
 *         const int       bit = case_int(c, "bit");
 *         const float     max = case_float(c, "max_value");
 *         const qg_array *x   = case_input(c, "x");
 *         qg_array       *y   = case_output_like(c, "y", QG_F32, x);
 *         if (case_ready(c)) case_result(c, qg_linear_mid_tread_half_quantizer(x, bit, max, y));
 *     }
 *
 * There are two kinds of failure.  A complaint is about the vector (a missing input, an attribute that
 * the runner did not read, data that does not fit its shape) and always fails the case.  A result other
 * than QG_OK comes from the operator; a case with "expected_error" requires one.  The first complaint
 * sticks; accessors then return harmless values, so runners check once, with case_ready.  A runner must
 * read every attribute, even one that has no effect, because unread attributes count as unknown.
 */
#ifndef QG_TESTS_CASES_H
#define QG_TESTS_CASES_H

#include "core/io/array.h"
#include "core/status.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct test_case test_case;

/* Attributes.  The _or forms return a default if the attribute is absent; in the other forms absence is a complaint.
 * Numbers may be the strings "nan", "inf", "-inf".  A float is the decimal read as a double and then rounded. */
bool   case_bool(test_case *c, const char *name);
bool   case_bool_or(test_case *c, const char *name, bool absent);
int    case_int(test_case *c, const char *name);
int    case_int_or(test_case *c, const char *name, int absent);
double case_double(test_case *c, const char *name);
float  case_float(test_case *c, const char *name);
float  case_float_or_null(test_case *c, const char *name, bool *is_null);  /* null: 0 and true */
void   case_ints(test_case *c, const char *name, int n, int *values);      /* a list of exactly n */

/* The index in choices, a list that ends with NULL; 0 with a complaint if the text is not one of them. */
int    case_choice(test_case *c, const char *name, const char *const *choices);
int    case_choice_or(test_case *c, const char *name, const char *const *choices, int absent);

/* An input by name, of any dtype of the file format; never NULL.  May be called repeatedly. */
const qg_array *case_input(test_case *c, const char *name);

/* The same, with a complaint unless it has this dtype. */
const qg_array *case_input_of(test_case *c, const char *name, qg_dtype dtype);

/* The value of a float32 input that the library takes by value.  If its rank is not 0, the result of the case becomes
 * QG_ESHAPE, which the operator would return if it saw the shape. */
float           case_scalar(test_case *c, const char *name);

/* An output for the library to write; never NULL.  dims may be NULL for rank 0.  It is filled with a pattern that must
 * be intact after a failure. */
qg_array       *case_output(test_case *c, const char *name, qg_dtype dtype, int rank,
                            const size_t *dims);
qg_array       *case_output_like(test_case *c, const char *name, qg_dtype dtype,
                                 const qg_array *shape);

/* A temporary array for the runner, which lives as long as the case; never NULL. */
qg_array       *case_scratch(test_case *c, qg_dtype dtype, const qg_array *shape);

/* Whether "expected" names this output, and its dtype there, for operators whose outputs only the expectation
 * determines. */
bool            case_expects(const test_case *c, const char *name, qg_dtype *dtype);

bool      case_ready(const test_case *c);                 /* no complaint and no failure so far */
void      case_result(test_case *c, qg_status s);         /* the first failure stays */
QG_PRINTF(2, 3)
void      case_complain(test_case *c, const char *fmt, ...);

/* Runners by operator name; each table has its own file and ends with { NULL, NULL }. */
typedef struct case_op {
    const char *op;
    void      (*run)(test_case *c);
} case_op;

extern const case_op tf_cases[];        /* cases_tf.c */
extern const case_op integer_cases[];   /* cases_integer.c */
extern const case_op paper_cases[];     /* cases_papers.c */

/* Runs one entry of "cases".  Returns false, with one line in why, unless the entry is well formed, its operator is in
 * a table and every expected output is within tolerance.  The expected decimal of a float32 output is rounded to
 * float32 first, so with a tolerance of 0 only the nearest float passes; the comparison is in double. */
bool      case_run(const cJSON *json, char *why, size_t why_bytes);

/* Runs every case of a file and prints a line per failure.  A file that cannot be read or parsed,
 * or whose number of cases is not the one it states, counts as one failure. */
typedef struct case_count {
    int passed, failed;
} case_count;

case_count case_run_file(const char *path);

#endif
