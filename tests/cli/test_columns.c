/* metrics.csv as columns, and what a chart makes of numbers that are not finite. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/gather.h"
#include "cli/svg.h"
#include "train/reader.h"
#include "tests/support/room.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static const char *written(const char *text)
{
    write_text("metrics.csv", text);
    return in_room("metrics.csv");
}

static void test_numbers_that_are_not_finite(void **state)
{
    qg__columns t;
    assert_ok(qg__columns_read(&t, written("epoch,a\n1,nan\n2,-nan\n3,inf\n4,-inf\n5,\n6,-1.5e-3\n")));
    const double *a = qg__columns_find(&t, "a");
    assert_int_equal(t.rows, 6);
    assert_true(isnan(a[0]) && isnan(a[1]) && isnan(a[4]));
    assert_true(a[2] == INFINITY && a[3] == -INFINITY && a[5] == -1.5e-3);
    qg__columns_free(&t);
    static const char *const bad[] = { "na", "nano", "+nan", "--inf", "infinity", "-", "x" };
    for (int i = 0; i < COUNT(bad); i++) {
        char text[64];
        snprintf(text, sizeof text, "epoch,a\n1,%s\n", bad[i]);
        assert_failed(qg__columns_read(&t, written(text)), QG_EFORMAT, "line 2, a is not a number");
    }
}

/* Also if its digits are those of a number. */
static void test_a_digest_is_no_number(void **state)
{
    qg__columns t;
    assert_ok(qg__columns_read(&t, written("epoch,digest,a\n1,0123456789abcdef,5\n2,1234567890123456,6\n3,,7\n")));
    const double *digest = qg__columns_find(&t, "digest"), *a = qg__columns_find(&t, "a");
    assert_true(isnan(digest[0]) && isnan(digest[1]) && isnan(digest[2]) && a[0] == 5 && a[2] == 7);
    qg__columns_free(&t);
}

/* Attributes have numbers only, and the axes end at those that are finite. */
static void test_they_leave_no_trace_in_a_chart(void **state)
{
    static const svg_kind kinds[] = { SVG_LINE, SVG_DASHES, SVG_POINTS };
    qg__columns        t;
    assert_ok(qg__columns_read(&t, written("epoch,a\n1,2\n2,-nan\n3,inf\n4,-inf\n5,nan\n6,4\n")));
    for (int i = 0; i < 2 * COUNT(kinds); i++) {
        svg_chart c = { .x = { .whole = true }, .y = { .log = i % 2 } };
        char     *text;
        size_t    n;
        FILE     *out = open_memstream(&text, &n);
        assert_non_null(out);
        c.series[c.n_series++] = (svg_series){ .kind = kinds[i / 2],
                                               .n    = t.rows,
                                               .x    = qg__columns_find(&t, "epoch"),
                                               .y    = qg__columns_find(&t, "a") };
        c.mark[c.n_marks++] = (svg_mark){ .at = NAN };
        c.mark[c.n_marks++] = (svg_mark){ .at = INFINITY, .horizontal = true };
        svg_write(out, &c);
        assert_int_equal(fclose(out), 0);
        if (strstr(text, "nan") || strstr(text, "inf")) fail_msg("%s", text);
        assert_non_null(strstr(text, ">2</text>"));
        assert_non_null(strstr(text, ">4</text>"));
        free(text);
    }
    qg__columns_free(&t);
}

/* A layer may be called as the columns of another one are. */
static void test_the_layer_of_a_column(void **state)
{
    static const struct {
        const char *column, *part;
    } cases[] = {
        { "epoch", NULL },
        { "test_loss", NULL },
        { "conv1.zeros", "zeros" },
        { "conv1.code.2", "code.2" },
        { "block1.conv1.flipped", "flipped" },
        { "block1.conv1.weight.wp", "weight.wp" },
        { "x.code.1.zeros", "zeros" },
        { "x.code.1.code.0", "code.0" },
        { "x.weight.input.step.greatest", "input.step.greatest" },
        { "zeros.flipped", "flipped" },
        { "x.flippedy", NULL },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        const char *part = metric_column_part(cases[i].column);
        if (!cases[i].part) assert_null(part);
        else if (!part || strcmp(part, cases[i].part)) fail_msg("%s: %s", cases[i].column, part ? part : "none");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_that_are_not_finite),
        cmocka_unit_test(test_a_digest_is_no_number),
        cmocka_unit_test(test_they_leave_no_trace_in_a_chart),
        cmocka_unit_test(test_the_layer_of_a_column),
    };
    return cmocka_run_group_tests(tests, room_enter, room_leave);
}
