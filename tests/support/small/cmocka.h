/* tests/support/small/cmocka.h — what the tests of the engine use of cmocka, for systems that have none: musl and other
 * architectures (tests/matrix.sh).  Output as of cmocka, as far as tests/run.sh reads it. */
#ifndef SMALL_CMOCKA_H
#define SMALL_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
    int (*setup)(void **state), (*teardown)(void **state);
};

enum { SMALL_FAILED = 1, SMALL_SKIPPED = 2 };

/* Shared by all files of a program. */
__attribute__((weak)) jmp_buf small_cmocka_end;

__attribute__((unused, noreturn, format(printf, 3, 4)))
static void small_cmocka_fail(const char *file, int line, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    printf("[  ERROR   ] --- ");
    vprintf(fmt, args);
    printf("\n[   LINE   ] --- %s:%d: error: Failure!\n", file, line);
    va_end(args);
    longjmp(small_cmocka_end, SMALL_FAILED);
}

#define small_cmocka_assert(is, what) ((is) ? (void)0 : small_cmocka_fail(__FILE__, __LINE__, "%s", what))

#define fail_msg(...)                   small_cmocka_fail(__FILE__, __LINE__, __VA_ARGS__)
#define fail()                          small_cmocka_fail(__FILE__, __LINE__, "fail()")
#define skip()                          longjmp(small_cmocka_end, SMALL_SKIPPED)
#define assert_true(c)                  small_cmocka_assert(c, #c)
#define assert_false(c)                 small_cmocka_assert(!(c), "!(" #c ")")
#define assert_null(p)                  small_cmocka_assert((p) == NULL, #p " is NULL")
#define assert_non_null(p)              small_cmocka_assert((p) != NULL, #p " is not NULL")
#define assert_int_equal(a, b)          small_cmocka_assert((long long)(a) == (long long)(b), #a " == " #b)
#define assert_int_not_equal(a, b)      small_cmocka_assert((long long)(a) != (long long)(b), #a " != " #b)
#define assert_string_equal(a, b)       small_cmocka_assert(!strcmp(a, b), #a " == " #b)
#define assert_memory_equal(a, b, n)    small_cmocka_assert(!memcmp(a, b, n), #a " == " #b)

#define cmocka_unit_test(f)                             { #f, f, NULL, NULL }
#define cmocka_unit_test_teardown(f, down)              { #f, f, NULL, down }
#define cmocka_unit_test_setup_teardown(f, up, down)    { #f, f, up, down }
#define cmocka_run_group_tests(tests, up, down)         small_cmocka_run(tests, sizeof(tests) / sizeof *(tests), up, down)

/* 0, or how it ended. */
__attribute__((unused))
static int small_cmocka_one(const struct CMUnitTest *t, void **state)
{
    const int how = setjmp(small_cmocka_end);
    if (how) return how;
    if (t->setup && t->setup(state)) return SMALL_FAILED;
    t->run(state);
    return 0;
}

__attribute__((unused))
static int small_cmocka_run(const struct CMUnitTest *tests, size_t n, int (*up)(void **), int (*down)(void **))
{
    void *state = NULL;
    int   failed = up ? up(&state) != 0 : 0;
    for (size_t i = 0; i < n; i++) {
        printf("[ RUN      ] %s\n", tests[i].name);
        const int how = small_cmocka_one(&tests[i], &state);
        if (tests[i].teardown) (void)tests[i].teardown(&state);
        printf("%s %s\n", how == SMALL_FAILED ? "[  FAILED  ]" : how == SMALL_SKIPPED ? "[  SKIPPED ]" : "[       OK ]", tests[i].name);
        fflush(stdout);
        failed += how == SMALL_FAILED;
    }
    if (down) (void)down(&state);
    printf("[  PASSED  ] %zu test(s).\n", n - (size_t)failed);
    if (failed) printf("[  FAILED  ] %d test(s).\n", failed);
    return failed;
}

#endif
