/* tests/support/testing.h — shared by all test programs; includes cmocka. */
#ifndef TESTING_H
#define TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/gradcheck.h"
#include "core/params.h"

/* x[i] keyed and uniform in [lo, hi). */
void fill_uniform(float *x, size_t n, float lo, float hi, uint64_t key);

/* A keyed order of n equally spaced values in -1..1: with m = n or n + 1, whichever is even, no two
 * are closer than 2 / m and none is closer to 0 than 1 / m. */
void fill_apart(float *x, size_t n, uint64_t key);

/* Declares a trained parameter of group QG_WEIGHTS. */
qg_param *declare(qg_params *p, const char *name, qg_shape shape);

/* Allocates p and fills value by value with fill_apart, key and its index. */
void allocate_apart(qg_params *p, uint64_t key);

/* An op: the sum of x, a loss under which dL/dx of the op before it is its slope. */
qg_var *total(qg_tape *t, qg_var *x);

/* Asserts |actual[i] - expected[i]| <= tolerance and no NaN; names the first i that differs. */
void assert_close(const float *actual, const float *expected, size_t n, double tolerance);

/* qg_errmsg() contains part. */
void assert_message(const char *part);

/* Assert that a status is QG_OK, that it is another one, or that a pointer is NULL; the last two also check that the
 * message contains part. */
#define assert_ok(status)               check_status(status, QG_OK, "", __FILE__, __LINE__)
#define assert_failed(status, how, part) check_status(status, how, part, __FILE__, __LINE__)
#define assert_none(pointer, part)      check_none(pointer, part, __FILE__, __LINE__)

void check_status(qg_status got, qg_status want, const char *part, const char *file, int line);
void check_none(const void *p, const char *part, const char *file, int line);

/* Asserts that qg_gradcheck runs and passes; prints the error if it does not. */
void assert_gradcheck(qg_gradcheck_spec spec);

#endif
