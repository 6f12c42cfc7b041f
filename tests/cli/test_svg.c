/* Charts: what a reader of the picture relies on, as text of the element. */
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "cli/svg.h"

static char *written(const svg_chart *c)
{
    char  *text;
    size_t n;
    FILE  *out = open_memstream(&text, &n);
    assert_non_null(out);
    svg_write(out, c);
    assert_int_equal(fclose(out), 0);
    return text;
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) n++;
    return n;
}

/* Every element is closed, in order, and attributes are in quotes. */
static void assert_well_formed(const char *text)
{
    char open[16][16];
    int  depth = 0;
    for (const char *at = text; (at = strchr(at, '<')); at++) {
        const char  *end = strchr(at, '>');
        const size_t n   = strcspn(at + 1 + (at[1] == '/'), " />");
        assert_non_null(end);
        assert_true(n > 0 && n < 16);
        if (at[1] == '/') {
            assert_true(depth > 0);
            assert_memory_equal(open[--depth], at + 2, n);
        } else if (end[-1] != '/') {
            assert_true(depth < 16);
            memcpy(open[depth], at + 1, n);
            open[depth++][n] = '\0';
        }
        int quotes = 0;
        for (const char *p = at; p < end; p++) quotes += *p == '"';
        assert_int_equal(quotes % 2, 0);
    }
    assert_int_equal(depth, 0);
}

static const double ramp[] = { 0, 1, 2, 3, 4 }, squares[] = { 0, 1, 4, 9, 16 };

static void test_a_line_spans_the_plot(void **state)
{
    const svg_chart c    = { .width = 200, .height = 100, .x = { .min = 0, .max = 4 }, .y = { .min = 0, .max = 16 },
                             .series = { { NULL, SVG_LINE, 5, ramp, squares, 0, NULL } }, .n_series = 1 };
    char           *text = written(&c);
    assert_well_formed(text);
    /* 52 pixels to the left of the plot and 14 to its right, 10 above and 18 below: (4, 16) is the corner at the top. */
    assert_non_null(strstr(text, "d=\"M52 82L85.5 77.5L119 64L152.5 41.5L186 10\""));
    assert_null(strstr(text, "xmlns"));
    free(text);
}

/* Charts of one series, and what their text has. */
static void test_charts_of_one_series(void **state)
{
    static const double gap[] = { 0, 2, NAN, 2, 4 }, constant[] = { 3, 3, 3, 3, 3 }, bars[] = { 2, 4 }, none[] = { NAN, -1 };
    static const double large[] = { 1e17 + 48, 1e17 + 64 };         /* a step of 5 does not change 1e17 */
    static const struct {
        svg_chart   chart;
        const char *part;
    } rows[] = {
        { { .width = 200, .height = 100, .y = { .min = 0, .max = 4 }, .series = { { NULL, SVG_LINE, 5, ramp, gap, 0, NULL } } },
          "d=\"M52 82L85.5 46M152.5 46L186 10\"" },
        { { .width = 200, .height = 100, .x = { .min = 0, .max = 2 }, .y = { .min = 0, .max = 4 },
            .series = { { NULL, SVG_BARS, 2, ramp, bars, 0, NULL } } }, "d=\"M52 82V46H119V10H186V82Z\"" },
        { { .title = "empty", .y = { .log = true }, .series = { { "y", SVG_LINE, 2, ramp + 1, none, 0, NULL } } }, "no numbers yet" },
        { { .series = { { NULL, SVG_LINE, 5, ramp, constant, 0, NULL } } }, ">3<" },
        { { .series = { { NULL, SVG_LINE, 2, large, ramp, 0, NULL } } }, "" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        svg_chart c = rows[i].chart;
        c.n_series  = 1;
        char *text  = written(&c);
        assert_well_formed(text);
        if (!strstr(text, rows[i].part)) fail_msg("%s is not in %s", rows[i].part, text);
        free(text);
    }
}

static void test_texts_cannot_leave_their_element(void **state)
{
    const svg_chart c    = { .title  = "<script>\"&'\x1b",
                             .series = { { "</svg>", SVG_STEPS, 4, ramp, squares, 0, NULL } }, .n_series = 1,
                             .mark   = { { .at = 1, .name = "<b>" } }, .n_marks = 1 };
    char           *text = written(&c);
    assert_null(strstr(text, "<script>"));
    assert_null(strstr(text, "<b>"));
    assert_null(strchr(text, '\x1b'));
    assert_non_null(strstr(text, "&lt;script&gt;&quot;&amp;&#39;\\u001b"));
    assert_int_equal(count(text, "</svg>"), 1);
    free(text);
}

/* A file has the namespace and the style once, and its charts side by side. */
static void test_a_picture_is_a_file_of_its_own(void **state)
{
    const svg_chart c = { .width = 200, .height = 100, .series = { { NULL, SVG_LINE, 5, ramp, squares, 0, NULL } }, .n_series = 1 };
    for (int charts = 1; charts <= 2; charts++) {
        char  *text, begins[128];
        size_t n;
        FILE  *out = open_memstream(&text, &n);
        assert_non_null(out);
        svg_picture(out, &c, charts > 1 ? &c : NULL);
        assert_int_equal(fclose(out), 0);
        assert_well_formed(text);
        snprintf(begins, sizeof begins, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d 100\"", 200 * charts);
        assert_memory_equal(text, begins, strlen(begins));
        assert_int_equal(count(text, "<style>"), 1);
        assert_int_equal(count(text, "class=\"qg\""), charts);
        assert_int_equal(count(text, "translate(200 0)"), charts - 1);
        free(text);
    }
}

static void test_axes_have_round_ticks(void **state)
{
    const double    x[] = { 1, 1000 }, y[] = { 0.5, 0.97 };
    const svg_chart c   = { .x = { .log = true, .label = "step" }, .y = { .percent = true, .label = "accuracy" },
                            .series = { { NULL, SVG_LINE, 2, x, y, 0, NULL } }, .n_series = 1 };
    char           *text = written(&c);
    assert_well_formed(text);
    assert_int_equal(count(text, ">1<"), 1);
    assert_int_equal(count(text, ">10<"), 1);
    assert_int_equal(count(text, ">100<"), 1);
    assert_int_equal(count(text, ">1000<"), 1);
    assert_int_equal(count(text, ">60 %<"), 1);
    assert_int_equal(count(text, ">80 %<"), 1);
    assert_null(strstr(text, ">100 %<"));
    free(text);
}

/* Ticks are some 24 pixels apart, so that a curve can be read, and written out down to 1e-4. */
static void test_a_small_chart_has_several_ticks(void **state)
{
    const double    y[]  = { 0.0004, 0.0005, 0.0012, 0.0015, 0.0016 };
    const svg_chart c    = { .series = { { NULL, SVG_LINE, 5, ramp, y, 0, NULL } }, .n_series = 1 };
    char           *text = written(&c);
    static const char *const labels[] = { ">0.0004<", ">0.0006<", ">0.0008<", ">0.001<", ">0.0012<", ">0.0014<", ">0.0016<" };
    for (int i = 0; i < 7; i++)
        if (count(text, labels[i]) != 1) fail_msg("no tick %s in %s", labels[i], text);
    free(text);
}

/* A name in the legend keeps its letters and stays inside; that of a mark may be at its lower end. */
static void test_names_stay_inside(void **state)
{
    char name[201] = "";
    for (int i = 0; i < 200; i++) name[i] = 'm';
    svg_chart c = { .width = 420, .height = 240, .x = { .min = 0, .max = 4 },
                    .series = { { name, SVG_LINE, 5, ramp, squares, 0, NULL }, { "y", SVG_LINE, 5, ramp, ramp, 0, NULL } }, .n_series = 2,
                    .mark = { { .at = 1, .name = "best" } }, .n_marks = 1 };
    char *high = written(&c);
    c.mark[0].low = true;
    char *low = written(&c);
    assert_int_equal(count(high, " textLength=\"332\" lengthAdjust=\"spacingAndGlyphs\">mmm"), 1);
    assert_int_equal(count(high, "textLength"), 1);
    assert_int_equal(count(high, name), 1);
    assert_int_equal(count(high, "y=\"52\">best<"), 1);          /* two rows of names end at 42 */
    assert_int_equal(count(low, "y=\"217\">best<"), 1);          /* the axis is at 222 */
    free(high), free(low);
}

static void test_a_long_line_is_thinned_and_keeps_its_end(void **state)
{
    enum { N = 20000 };
    static double   x[N], y[N];
    for (int i = 0; i < N; i++) x[i] = i, y[i] = i;
    const svg_chart c    = { .width = 200, .height = 100, .most = 500, .y = { .min = 0, .max = N - 1 },
                             .series = { { NULL, SVG_LINE, N, x, y, 0, NULL } }, .n_series = 1 };
    char           *text = written(&c);
    assert_true(strlen(text) < 10000);
    assert_non_null(strstr(text, "L186 10\""));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_spans_the_plot),
        cmocka_unit_test(test_charts_of_one_series),
        cmocka_unit_test(test_texts_cannot_leave_their_element),
        cmocka_unit_test(test_a_picture_is_a_file_of_its_own),
        cmocka_unit_test(test_axes_have_round_ticks),
        cmocka_unit_test(test_a_small_chart_has_several_ticks),
        cmocka_unit_test(test_names_stay_inside),
        cmocka_unit_test(test_a_long_line_is_thinned_and_keeps_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
