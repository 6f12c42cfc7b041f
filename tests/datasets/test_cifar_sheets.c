/* build/cifar_sheets, by which datasets/fetch.sh makes CIFAR-10's files, on tiny sheets. */
#include "tests/support/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/io/file.h"
#include "tests/support/pictures.h"
#include "tests/support/room.h"

enum { PIXELS = 1024, ROWS = 3, RECORD = 1 + 3 * PIXELS };

static char log_text[512];

static uint8_t value(int i, int k, int c) { return (uint8_t)(50 * i + 3 * k + k / 256 + 100 * c); }

static void write_sheet(int width)
{
    static uint8_t sheet[ROWS * PIXELS * 3];
    for (int i = 0; i < ROWS * width; i++)
        for (int c = 0; c < 3; c++) sheet[3 * i + c] = value(i / width, i % width, c);
    write_png(in_room("sheet.png"), sheet, ROWS, width);
}

/* Runs it with this FIRST and returns the exit status; log_text is its output. */
static int convert(const char *first)
{
    char        command[512];
    const char *build = getenv("BUILD");
    snprintf(command, sizeof command,
             "%s/cifar_sheets %s/sheet.png %s/labels.json %s %s/out.bin >%s/log 2>&1",
             build ? build : "build", room, room, first, room, room);
    const int status = system(command);
    FILE     *f      = fopen(in_room("log"), "r");
    assert_non_null(f);
    log_text[fread(log_text, 1, sizeof log_text - 1, f)] = '\0';
    fclose(f);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void assert_refused(const char *first, const char *reason)
{
    assert_int_equal(convert(first), 1);
    if (!strstr(log_text, reason)) fail_msg("'%s' is not in '%s'", reason, log_text);
    assert_int_equal(access(in_room("out.bin"), F_OK), -1);
}

static void test_converts(void **state)
{
    unsigned char *bytes = NULL;
    size_t         n     = 0;
    write_sheet(PIXELS);
    write_text("labels.json", "[9, 9,7,0,\n 8,9]\n");
    assert_int_equal(convert("2"), 0);
    assert_string_equal(log_text, "");
    assert_ok(qg__file_read_in(QG_BY_PATH, in_room("out.bin"), 1 << 20, &bytes, &n));
    assert_int_equal(n, ROWS * RECORD);
    static const uint8_t labels[ROWS] = { 7, 0, 8 };
    for (int i = 0; i < ROWS; i++) {
        assert_int_equal(bytes[i * RECORD], labels[i]);
        for (int c = 0; c < 3; c++)
            for (int k = 0; k < PIXELS; k++)
                assert_int_equal(bytes[i * RECORD + 1 + c * PIXELS + k], value(i, k, c));
    }
    free(bytes);
}

static void test_refusals(void **state)
{
    write_text("labels.json", "[1,2,3]");
    assert_refused("0", "sheet.png");
    write_text("sheet.png", "no picture");
    assert_refused("0", "sheet.png' is not a PNG file");
    write_sheet(PIXELS - 1);
    assert_refused("0", "sheet.png' is 1023 x 3, 3 channels of 8 bits, expected 1024 x any height, 3 of 8");
    write_sheet(PIXELS);
    assert_refused("1", "fewer labels than images");
    write_text("labels.json", "[1,2,10]");
    assert_refused("0", "a label that is not in 0..9");
    write_text("labels.json", "[1,2,3");
    assert_refused("0", "labels.json");
    write_text("labels.json", "[1,2,3] 4");
    assert_refused("0", "labels.json");
    assert_int_equal(unlink(in_room("labels.json")), 0);
    assert_refused("0", "labels.json");
    assert_int_equal(convert("-1"), 2);
    assert_non_null(strstr(log_text, "usage: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_converts, room_enter, room_leave),
        cmocka_unit_test_setup_teardown(test_refusals, room_enter, room_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
