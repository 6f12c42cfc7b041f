#include "tests/support/testing.h"

#include <pthread.h>
#include <string.h>

#include "core/status.h"

static void every_status_has_a_text(void **state)
{
    for (int s = QG_OK; s <= QG_ENAN; s++)
        assert_string_not_equal(qg_status_text((qg_status)s), "unknown status");
    assert_string_equal(qg_status_text(QG_OK), "ok");
    assert_string_equal(qg_status_text(QG_EMEM), "out of memory");
    assert_string_equal(qg_status_text((qg_status)99), "unknown status");
}

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
    char text[8192];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    qg_fail(QG_EFORMAT, "%s", text);
    assert_in_range(strlen(qg_errmsg()), 255, sizeof text - 2);
    assert_int_equal(strspn(qg_errmsg(), "x"), strlen(qg_errmsg()));
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
        cmocka_unit_test(every_status_has_a_text),
        cmocka_unit_test(fail_returns_its_status_and_keeps_the_text),
        cmocka_unit_test(long_text_is_cut),
        cmocka_unit_test(each_thread_has_its_own_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
