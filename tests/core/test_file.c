#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/file.h"
#include "tests/support/room.h"

/* Linked with -Wl,--wrap for both: what a commit asks of the disk, in order: 'f' for a file that is flushed,
 * 'd' for a directory, 'r' for a rename. */
int __real_fsync(int fd);
int __real_renameat(int dir, const char *from, int to_dir, const char *to);
int __wrap_fsync(int fd);
int __wrap_renameat(int dir, const char *from, int to_dir, const char *to);

static char asked[16];
static int  directory_errno;        /* of flushing a directory; 0: it works */

static void note(char c)
{
    const size_t n = strlen(asked);
    if (n + 1 < sizeof asked) asked[n] = c, asked[n + 1] = '\0';
}

int __wrap_fsync(int fd)
{
    struct stat s;
    const int   directory = fstat(fd, &s) == 0 && S_ISDIR(s.st_mode);
    note(directory ? 'd' : 'f');
    if (!directory || !directory_errno) return __real_fsync(fd);
    errno = directory_errno;
    return -1;
}

int __wrap_renameat(int dir, const char *from, int to_dir, const char *to)
{
    note('r');
    return __real_renameat(dir, from, to_dir, to);
}

/* Every test runs in an empty directory of its own. */
static int enter(void **state)
{
    return room_enter(state) || chdir(room);
}

static int leave(void **state)
{
    return chdir("/") || room_leave(state);
}

static void commit_text(const char *path, const char *text)
{
    qg_file *f = qg__file_begin_in(QG_BY_PATH, path);
    qg__file_put(f, text, strlen(text));
    assert_int_equal(qg__file_commit(f), QG_OK);
}

static void assert_holds(const char *path, const void *expected, size_t length)
{
    unsigned char *bytes = NULL;
    size_t         n     = 0;
    assert_int_equal(qg__file_read_in(QG_BY_PATH, path, 1 << 24, &bytes, &n), QG_OK);
    assert_int_equal(n, length);
    assert_memory_equal(bytes, expected, length);
    free(bytes);
}

static void assert_absent(const char *path)
{
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(errno, ENOENT);
}

/* The n-th temporary name of a in this process. */
static const char *tmp(int n)
{
    static char name[64];
    snprintf(name, sizeof name, "a.%ld-%d.tmp", (long)getpid(), n);
    return name;
}

static void assert_read_fails(const char *path, size_t limit, qg_status status, const char *reason)
{
    unsigned char *bytes = NULL;
    size_t         n     = 77;
    assert_int_equal(qg__file_read_in(QG_BY_PATH, path, limit, &bytes, &n), status);
    assert_null(bytes);
    assert_int_equal(n, 77);
    assert_non_null(strstr(qg_errmsg(), path));
    assert_non_null(strstr(qg_errmsg(), reason));
}

static void assert_commit_fails(qg_file *f, const char *path, const char *reason)
{
    assert_non_null(f);
    qg_fail(QG_ENAN, "another failure in between");
    assert_int_equal(qg__file_commit(f), QG_EIO);
    assert_non_null(strstr(qg_errmsg(), path));
    assert_non_null(strstr(qg_errmsg(), reason));
}

static void numbers_have_their_order(void **state)
{
    static const uint8_t p[] = { 0xFE, 0xDC, 0xBA, 0x98 };
    assert_true(qg__number_of(p, 4, true) == 0xFEDCBA98 && qg__number_of(p, 4, false) == 0x98BADCFE);
    assert_true(qg__number_of(p, 2, true) == 0xFEDC && qg__number_of(p + 1, 2, false) == 0xBADC);
}

/* Pieces below, at and above the size of the buffer arrive in order. */
static void pieces_arrive_in_order(void **state)
{
    const size_t   sizes[] = { 1, 3, 65535, 0, 1, 65536, 65, 65537, 200001, 31 };
    const size_t   total   = 4 * 65536 + 200001 + 100;
    unsigned char *all     = malloc(total);
    assert_non_null(all);
    for (size_t i = 0; i < total; i++) all[i] = (unsigned char)(i * 2654435761u >> 13);

    qg_file *f  = qg__file_begin_in(QG_BY_PATH, "a");
    size_t   at = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; at += sizes[i++])
        qg__file_put(f, all + at, sizes[i]);
    assert_true(at <= total);
    assert_int_equal(qg__file_commit(f), QG_OK);
    assert_holds("a", all, at);
    assert_absent(tmp(0));
    free(all);
}

static void empty_file(void **state)
{
    commit_text("a", "");
    unsigned char *bytes = NULL;
    size_t         n     = 1;
    assert_int_equal(qg__file_read_in(QG_BY_PATH, "a", 0, &bytes, &n), QG_OK);
    assert_non_null(bytes);
    assert_int_equal(n, 0);
    free(bytes);
}

static void limit_is_inclusive(void **state)
{
    commit_text("a", "12345");
    assert_holds("a", "12345", 5);
    unsigned char *bytes;
    size_t         n;
    assert_int_equal(qg__file_read_in(QG_BY_PATH, "a", 5, &bytes, &n), QG_OK);
    free(bytes);
    assert_read_fails("a", 4, QG_EFORMAT, "5 bytes");
}

static void unreadable_paths(void **state)
{
    assert_read_fails("missing", 9, QG_EIO, strerror(ENOENT));
    assert_read_fails("/tmp", 9, QG_EIO, strerror(EISDIR));
    assert_read_fails("/dev/zero", 9, QG_EIO, "not a regular file");
    assert_int_equal(mkfifo("b", 0600), 0);
    assert_read_fails("b", 9, QG_EIO, "not a regular file");     /* and does not wait */
}

/* Until commit the old file is what a reader sees. */
static void old_file_stays_until_commit(void **state)
{
    commit_text("a", "old");
    qg_file *f = qg__file_begin_in(QG_BY_PATH, "a");
    qg__file_put(f, "new and longer", 14);
    assert_holds("a", "old", 3);
    assert_int_equal(qg__file_commit(f), QG_OK);
    assert_holds("a", "new and longer", 14);
    assert_absent(tmp(0));
}

/* What others left or planted under a temporary name, whatever it is, is neither written through nor removed. */
static void a_temporary_name_that_is_taken_is_left_alone(void **state)
{
    commit_text(tmp(0), "of another thread");
    commit_text("b", "precious");
    assert_int_equal(symlink("b", tmp(1)), 0);
    assert_int_equal(mkdir(tmp(2), 0700), 0);
    commit_text("a", "x");
    assert_holds("a", "x", 1);
    assert_holds("b", "precious", 8);
    assert_holds(tmp(0), "of another thread", 17);
    assert_absent(tmp(3));
}

/* Each has its own bytes, and the last commit remains. */
static void two_writers_of_one_path(void **state)
{
    qg_file *first  = qg__file_begin_in(QG_BY_PATH, "a");
    qg_file *second = qg__file_begin_in(QG_BY_PATH, "a");
    qg_file *third  = qg__file_begin_in(QG_BY_PATH, "a");
    for (int i = 0; i < 100000; i++) {
        qg__file_put(first, "1", 1);
        qg__file_put(second, "22", 2);
        qg__file_put(third, "333", 3);
    }
    assert_int_equal(qg__file_commit(third), QG_OK);
    assert_int_equal(qg__file_commit(second), QG_OK);
    struct stat s;
    assert_int_equal(stat("a", &s), 0);
    assert_int_equal(s.st_size, 200000);
    assert_int_equal(qg__file_commit(first), QG_OK);
    unsigned char *bytes;
    size_t         n;
    assert_int_equal(qg__file_read_in(QG_BY_PATH, "a", 1 << 20, &bytes, &n), QG_OK);
    assert_int_equal(n, 100000);
    for (size_t i = 0; i < n; i++) assert_int_equal(bytes[i], '1');
    free(bytes);
    for (int i = 0; i < 3; i++) assert_absent(tmp(i));
}

static void leftovers_are_swept(void **state)
{
    static const char *const gone[]  = { "a.12-0.tmp", "a.4194304-9999.tmp" };
    static const char *const stays[] = { "a", "a.tmp", "b.12-0.tmp", "a.12.tmp", "a.12-.tmp", "a.-0.tmp", "a.12-0.tmp.gz", "aa.12-0.tmp" };
    for (int in = 0; in < 2; in++) {
        for (int i = 0; i < 2; i++) commit_text(gone[i], "x");
        for (int i = 0; i < 8; i++) commit_text(stays[i], "x");
        const int dir = open(".", O_RDONLY | O_DIRECTORY);
        if (in) qg__file_sweep_in(dir, "no/such/a");
        else qg__file_sweep_in(QG_BY_PATH, "./a");
        assert_int_equal(close(dir), 0);
        for (int i = 0; i < 2; i++) assert_absent(gone[i]);
        for (int i = 0; i < 8; i++) assert_holds(stays[i], "x", 1);
    }
    qg__file_sweep_in(QG_BY_PATH, "missing/a");
}

/* What cannot be looked at, as in a loop of links, is not said to be missing. */
static void a_file_exists_or_not_or_nobody_knows(void **state)
{
    bool exists = false;
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_int_equal(qg__file_exists_in(QG_BY_PATH, "loop", &exists), QG_OK);
    assert_true(exists);
    commit_text("plain", "");
    assert_int_equal(qg__file_exists_in(QG_BY_PATH, "plain/file", &exists), QG_OK);
    assert_false(exists);
    assert_int_equal(qg__file_exists_in(QG_BY_PATH, "loop/file", &exists), QG_EIO);
    assert_true(exists);
    assert_non_null(strstr(qg_errmsg(), "whether 'loop/file' exists"));
}

/* The path tells the name alone; it may lead to another directory by now. */
static void files_in_a_directory_that_moves(void **state)
{
    unsigned char *bytes;
    size_t         n;
    bool           exists;
    assert_int_equal(mkdir("run", 0700), 0);
    const int dir = open("run", O_RDONLY | O_DIRECTORY);
    qg_file  *f   = qg__file_begin_in(dir, "run/a");
    assert_int_equal(rename("run", "moved"), 0);
    assert_int_equal(mkdir("run", 0700), 0);
    commit_text("run/a", "another's");
    *asked = '\0';
    qg__file_put(f, "mine", 4);
    assert_int_equal(qg__file_commit(f), QG_OK);
    assert_string_equal(asked, "frd");
    assert_holds("run/a", "another's", 9);
    assert_holds("moved/a", "mine", 4);
    assert_int_equal(qg__file_read_in(dir, "run/a", 9, &bytes, &n), QG_OK);
    assert_int_equal(n, 4);
    assert_memory_equal(bytes, "mine", 4);
    free(bytes);
    assert_int_equal(qg__file_exists_in(dir, "run/a", &exists), QG_OK);
    assert_true(exists);
    qg__file_remove_in(dir, "run/a");
    assert_int_equal(qg__file_exists_in(dir, "run/a", &exists), QG_OK);
    assert_false(exists);
    assert_holds("run/a", "another's", 9);
    assert_int_equal(rmdir("moved"), 0);            /* empty */
    assert_int_equal(close(dir), 0);
}

/* After a power loss the name leads to the old bytes or to the new, never to none. */
static void bytes_are_on_the_disk_before_their_name(void **state)
{
    *asked = '\0';
    commit_text("a", "x");
    assert_string_equal(asked, "frd");
}

static void a_link_is_replaced_and_not_followed(void **state)
{
    struct stat s;
    commit_text("b", "precious");
    assert_int_equal(symlink("b", "a"), 0);
    commit_text("a", "y");
    assert_holds("b", "precious", 8);
    assert_holds("a", "y", 1);
    assert_int_equal(lstat("a", &s), 0);
    assert_true(S_ISREG(s.st_mode));
    assert_int_equal(unlink("a"), 0);
    assert_int_equal(symlink("/dev/null", "a"), 0);
    assert_commit_fails(qg__file_begin_in(QG_BY_PATH, "a"), "a", "not a regular file");
    assert_int_equal(lstat("a", &s), 0);
    assert_true(S_ISLNK(s.st_mode));
}

static void a_file_in_parts(void **state)
{
    qg_reader r;
    char      text[6] = "";
    commit_text("a", "hello");
    assert_int_equal(qg__reader_open_in(&r, QG_BY_PATH, "a"), QG_OK);
    assert_int_equal(r.left, 5);
    assert_int_equal(qg__reader_take(&r, 3, text), QG_OK);
    assert_string_equal(text, "hel");
    assert_int_equal(r.left, 2);
    assert_int_equal(qg__reader_take(&r, 2, text), QG_OK);
    assert_string_equal(text, "lol");
    qg__reader_close(&r);
    qg__reader_close(&r);
    assert_int_equal(qg__reader_open_in(&r, QG_BY_PATH, "missing"), QG_EIO);
    assert_non_null(strstr(qg_errmsg(), "missing"));
    qg__reader_close(&r);
}

static void a_file_that_changes_in_between(void **state)
{
    for (off_t size = 4; size <= 6; size += 2) {
        qg_reader r;
        char      text[6];
        commit_text("a", "hello");
        assert_int_equal(qg__reader_open_in(&r, QG_BY_PATH, "a"), QG_OK);
        assert_int_equal(qg__reader_take(&r, 3, text), QG_OK);
        assert_int_equal(truncate("a", size), 0);
        assert_int_equal(qg__reader_take(&r, 2, text), QG_EIO);
        assert_non_null(strstr(qg_errmsg(), "'a'"));
        assert_non_null(strstr(qg_errmsg(), "changed while being read"));
        qg__reader_close(&r);
    }
}

static void unwritable_paths(void **state)
{
    assert_commit_fails(qg__file_begin_in(QG_BY_PATH, "missing/a"), "missing/a", strerror(ENOENT));
    assert_int_equal(mkdir("sub", 0700), 0);
    assert_commit_fails(qg__file_begin_in(QG_BY_PATH, "sub"), "sub", strerror(EISDIR));
    assert_commit_fails(qg__file_begin_in(QG_BY_PATH, "/dev/null"), "/dev/null", "not a regular file");
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_commit_fails(qg__file_begin_in(QG_BY_PATH, name), name, strerror(ENAMETOOLONG));
}

/* Permissions do not bind root, which is who runs the tests in a container. */
static void directory_without_permission(void **state)
{
    const uid_t user = geteuid();
    assert_int_equal(mkdir("sub", 0700), 0);
    commit_text("sub/a", "old");
    assert_int_equal(chmod("sub", 0555), 0);
    assert_int_equal(chmod(".", 0755), 0);
    if (user == 0 && seteuid(65534)) skip();
    qg_file *f = qg__file_begin_in(QG_BY_PATH, "sub/a");
    qg__file_put(f, "new", 3);
    const qg_status s = qg__file_commit(f);
    assert_int_equal(seteuid(user), 0);
    assert_int_equal(s, QG_EIO);
    assert_non_null(strstr(qg_errmsg(), "cannot write 'sub/a'"));
    assert_non_null(strstr(qg_errmsg(), strerror(EACCES)));
    assert_holds("sub/a", "old", 3);
}

/* A limit on the file size stops write() half way, as a full disk does. */
static void full_disk(void **state)
{
    commit_text("a", "old");
    unsigned char *zeros = calloc(1, 300000);
    assert_non_null(zeros);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    const size_t pieces[] = { 65, 300000 };     /* through the buffer, and past it */
    for (int i = 0; i < 2; i++) {
        const struct rlimit small = { .rlim_cur = 100000, .rlim_max = before.rlim_max };
        qg_file            *f     = qg__file_begin_in(QG_BY_PATH, "a");
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        for (size_t at = 0; at < 300000; at += pieces[i]) qg__file_put(f, zeros, pieces[i]);
        const qg_status s = qg__file_commit(f);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(s, QG_EIO);
        assert_non_null(strstr(qg_errmsg(), "cannot write 'a'"));
        assert_non_null(strstr(qg_errmsg(), strerror(EFBIG)));
        assert_holds("a", "old", 3);
        assert_absent(tmp(0));
    }
    signal(SIGXFSZ, handler);
    free(zeros);
}

static void null_is_ignored(void **state)
{
    qg_fail(QG_ENAN, "the first failure");
    qg__file_put(NULL, "x", 1);
    assert_int_equal(qg__file_commit(NULL), QG_EMEM);
    assert_string_equal(qg_errmsg(), "the first failure");
}

static void a_directory_that_is_not_flushed_is_told(void **state)
{
    assert_int_equal(mkdir("sub", 0700), 0);
    directory_errno = EIO;
    qg_file *f      = qg__file_begin_in(QG_BY_PATH, "sub/a");
    assert_commit_fails(f, "sub/a", "cannot flush the directory of");
    assert_commit_fails(qg__file_begin_in(QG_BY_PATH, "a"), "'a'", "cannot flush the directory of");
    directory_errno = EINVAL;               /* some file systems cannot */
    commit_text("sub/a", "w");
    directory_errno = ENOTSUP;
    commit_text("sub/a", "x");
    directory_errno = 0;
    assert_holds("sub/a", "x", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_their_order),
        cmocka_unit_test_setup_teardown(pieces_arrive_in_order, enter, leave),
        cmocka_unit_test_setup_teardown(empty_file, enter, leave),
        cmocka_unit_test_setup_teardown(limit_is_inclusive, enter, leave),
        cmocka_unit_test_setup_teardown(unreadable_paths, enter, leave),
        cmocka_unit_test_setup_teardown(old_file_stays_until_commit, enter, leave),
        cmocka_unit_test_setup_teardown(a_temporary_name_that_is_taken_is_left_alone, enter, leave),
        cmocka_unit_test_setup_teardown(two_writers_of_one_path, enter, leave),
        cmocka_unit_test_setup_teardown(leftovers_are_swept, enter, leave),
        cmocka_unit_test_setup_teardown(files_in_a_directory_that_moves, enter, leave),
        cmocka_unit_test_setup_teardown(bytes_are_on_the_disk_before_their_name, enter, leave),
        cmocka_unit_test_setup_teardown(a_link_is_replaced_and_not_followed, enter, leave),
        cmocka_unit_test_setup_teardown(a_file_in_parts, enter, leave),
        cmocka_unit_test_setup_teardown(a_file_that_changes_in_between, enter, leave),
        cmocka_unit_test_setup_teardown(a_file_exists_or_not_or_nobody_knows, enter, leave),
        cmocka_unit_test_setup_teardown(unwritable_paths, enter, leave),
        cmocka_unit_test_setup_teardown(directory_without_permission, enter, leave),
        cmocka_unit_test_setup_teardown(full_disk, enter, leave),
        cmocka_unit_test_setup_teardown(a_directory_that_is_not_flushed_is_told, enter, leave),
        cmocka_unit_test(null_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
