#include "tests/support/testing.h"

#include <pthread.h>
#include <string.h>

#include "core/status.h"
#include "core/io/utf8.h"

static void fail_returns_its_status_and_keeps_the_text(void **state)
{
    assert_int_equal(qg_fail(QG_EARG, "lr %d is not above %s", -3, "zero"), QG_EARG);
    assert_string_equal(qg_errmsg(), "lr -3 is not above zero");
    assert_int_equal(qg_errcode(), QG_EARG);
    assert_int_equal(qg_fail(QG_EIO, "epoch 2: %s", qg_errmsg()), QG_EIO);
    assert_string_equal(qg_errmsg(), "epoch 2: lr -3 is not above zero");
}

static void long_text_is_cut(void **state)
{
    char text[1 << 15];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    qg_fail(QG_EFORMAT, "%s", text);
    assert_in_range(strlen(qg_errmsg()), 255, sizeof text - 2);
    assert_int_equal(strspn(qg_errmsg(), "x"), strlen(qg_errmsg()));
}

/* A terminal shows a message, and does not obey it. */
static void names_in_a_message_are_shown(void **state)
{
    static const char *const row[][2] = {
        { "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \\n", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \\n" },
        { "a\x1b]0;b\x07\n\r\t\x7f", "a\\u001b]0;b\\u0007\\u000a\\u000d\\u0009\\u007f" },
        { "\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", "\\u0080\\u009b\\u009f\xc2\xa0" },
        { "\x9b \xff\xc3", "\\x9b \\xff\\xc3" },
        { "\xc0\x9b\xed\xa0\x80\xf4\x90\x80\x80", "\\xc0\\x9b\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80" },
        { "\xd8\x9c\xe2\x80\x8f\xe2\x80\xa8\xe2\x80\xaf", "\\u061c\\u200f\\u2028\xe2\x80\xaf" },
        { "\xef\xbb\xbf" "a\xe2\x80\x8b\xe2\x81\xa0", "\\ufeffa\\u200b\\u2060" },
        { "\xe2\x80\xae\xe2\x81\xa5\xe2\x81\xa6\xe2\x81\xa9", "\\u202e\xe2\x81\xa5\\u2066\\u2069" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        qg_fail(QG_EIO, "%s", row[i][0]);
        assert_string_equal(qg_errmsg(), row[i][1]);
        qg_fail(QG_EIO, "%s", qg_errmsg());             /* once is enough */
        assert_string_equal(qg_errmsg(), row[i][1]);
    }
}

/* It is cut between characters, and an escape is a character. */
static void shown_text_is_cut_whole(void **state)
{
    char to[12];
    qg__utf8_printable("abcdefgh\xe2\x82\xac", to, sizeof to);
    assert_string_equal(to, "abcdefgh\xe2\x82\xac");
    qg__utf8_printable("abcdefghi\xe2\x82\xac", to, sizeof to);
    assert_string_equal(to, "abcdefghi");
    qg__utf8_printable("abcde\x1b", to, sizeof to);
    assert_string_equal(to, "abcde\\u001b");
    qg__utf8_printable("abcdef\x1b", to, sizeof to);
    assert_string_equal(to, "abcdef");
    qg__utf8_printable("a", to, 1);
    assert_string_equal(to, "");
}

static void *fail_elsewhere(void *seen)
{
    strncpy(seen, qg_errmsg(), 31);
    qg_fail(QG_EMEM, "the other thread");
    return NULL;
}

static void each_thread_has_its_own_text(void **state)
{
    char      seen[32] = { 0 };
    pthread_t other;
    qg_fail(QG_EARG, "this thread");
    assert_int_equal(pthread_create(&other, NULL, fail_elsewhere, seen), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_string_equal(seen, "no error");
    assert_string_equal(qg_errmsg(), "this thread");
    assert_int_equal(qg_errcode(), QG_EARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_returns_its_status_and_keeps_the_text),
        cmocka_unit_test(long_text_is_cut),
        cmocka_unit_test(names_in_a_message_are_shown),
        cmocka_unit_test(shown_text_is_cut_whole),
        cmocka_unit_test(each_thread_has_its_own_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
