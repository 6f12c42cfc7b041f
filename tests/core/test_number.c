/* Numbers as text: the same in every locale. */
#include "tests/support/testing.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/number.h"
#include "optim/schedule.h"
#include "tests/support/comma.h"

static void numbers_are_read(void)
{
    static const struct { const char *text; double value; } good[] = {
        { "0", 0 }, { "007", 7 }, { "1.5", 1.5 }, { "-1.5e-3", -0.0015 }, { "+.5", 0.5 }, { "5.", 5 },
        { "0.1", 0.1 }, { "1E3", 1000 }, { "9007199254740993", 9007199254740992.0 }, { "1e400", INFINITY },
        { "2.2250738585072014e-308", 2.2250738585072014e-308 }, { "123456.789", 123456.789 },
    };
    static const char *const bad[] = { "", ".", "-", "e5", "1e", "1,5", "1 ", " 1", "1.5.5", "0x10", "inf", "nan", "1e5x" };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        double value = -1;
        if (!qg__number_read(good[i].text, strlen(good[i].text), &value)) fail_msg("'%s' is not read", good[i].text);
        if (value != good[i].value) fail_msg("'%s' is read as %a", good[i].text, value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double value = 0;
        if (qg__number_read(bad[i], strlen(bad[i]), &value)) fail_msg("'%s' is read", bad[i]);
    }
    double value = 0;           /* n characters, whatever follows them */
    assert_true(qg__number_read("1.55,2", 4, &value) && value == 1.55);
    assert_true(qg__number_read("12", 1, &value) && value == 1);
    char many[400];
    memset(many, '1', sizeof many);
    assert_false(qg__number_read(many, sizeof many, &value));
}

static void numbers_are_printed(void)
{
    static const struct { double value; const char *float_text, *double_text, *nine; } row[] = {
        { 0, "0", "0", "0" },
        { 0.1, "0.1", "0.1", "0.1" },
        { 1.0 / 3, "0.33333334", "0.3333333333333333", "0.333333333" },
        { 100, "100", "100", "100" },
        { -250000, "-250000", "-250000", "-250000" },
        { 1e6, "1e+06", "1e+06", "1000000" },
        { 1e-4, "0.0001", "0.0001", "0.0001" },
        { 2.5e-5, "2.5e-05", "2.5e-05", "2.5e-05" },
        { -2.2250738585072014e-308, "-0", "-2.2250738585072014e-308", "-2.22507386e-308" },
        { INFINITY, "inf", "inf", "inf" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char text[QG_NUMBER_BYTES];
        qg__number_print_float(text, (float)row[i].value);
        assert_string_equal(text, row[i].float_text);
        qg__number_print_double(text, row[i].value);
        assert_string_equal(text, row[i].double_text);
        qg__number_print(text, 9, row[i].value);
        assert_string_equal(text, row[i].nine);
    }
    assert_false(signbit(qg__number_shown(copysign(NAN, -1))));
    assert_true(qg__number_shown(-INFINITY) == -INFINITY && qg__number_shown(-1.5) == -1.5);
}

static void schedules_are_read_and_printed(void)
{
    qg_schedule s;
    char        text[128];
    assert_ok(qg_schedule_parse("step:at=0.5+0.75,factor=0.25,warmup=0.0625", &s));
    assert_true(s.milestone[0] == 0.5f && s.milestone[1] == 0.75f && s.factor == 0.25f && s.warmup == 0.0625f);
    qg_schedule_print(&s, text, sizeof text);
    assert_string_equal(text, "step:at=0.5+0.75,factor=0.25,warmup=0.0625");
    assert_int_equal(qg_schedule_parse("exponential:factor=0,5", &s), QG_EARG);
}

static void in_the_c_locale(void **state)
{
    numbers_are_read();
    numbers_are_printed();
    schedules_are_read_and_printed();
}

static void where_numbers_have_a_comma(void **state)
{
    char text[16];
    if (!comma_begin()) skip();
    numbers_are_read();
    numbers_are_printed();
    schedules_are_read_and_printed();
    snprintf(text, sizeof text, "%g", 1.5);             /* the program's own locale is what it was */
    assert_string_equal(text, "1,5");
}

/* Another thread prints in the program's locale all the while. */
static void *print_commas(void *context)
{
    atomic_int *done  = context;
    int         wrong = 0;
    while (!atomic_load(done)) {
        char text[16];
        snprintf(text, sizeof text, "%g", 1.5);
        wrong += strcmp(text, "1,5") != 0;
    }
    return wrong ? NULL : context;
}

static void other_threads_keep_their_comma(void **state)
{
    pthread_t  other;
    atomic_int done   = 0;
    void      *result = NULL;
    if (!comma_begin()) skip();
    assert_int_equal(pthread_create(&other, NULL, print_commas, &done), 0);
    for (int i = 0; i < 1000; i++) numbers_are_read();
    atomic_store(&done, 1);
    assert_int_equal(pthread_join(other, &result), 0);
    assert_ptr_equal(result, &done);
}

static int point(void **state)
{
    comma_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_the_c_locale),
        cmocka_unit_test_teardown(where_numbers_have_a_comma, point),
        cmocka_unit_test_teardown(other_threads_keep_their_comma, point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
