/* A run whose directory is moved and replaced, at whatever call that touches its files.
 *
 *     test_cli_moved [RACES]
 */
#include "tests/support/testing.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/io/paths.h"
#include "tests/support/inside.h"
#include "tests/support/program.h"

/* Linked with -Wl,--wrap: from the first lock on, the process stops before the call of this number. */
static int  stop_at, calls;
static bool locked;

static void meet(void)
{
    if (locked && ++calls == stop_at) raise(SIGSTOP);
}

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...);
int __real_renameat(int dir, const char *from, int to_dir, const char *to);
int __wrap_renameat(int dir, const char *from, int to_dir, const char *to);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);

int __wrap_flock(int fd, int operation)
{
    locked = stop_at > 0;
    return __real_flock(fd, operation);
}

static mode_t mode_of(int flags, va_list rest) { return flags & O_CREAT ? va_arg(rest, mode_t) : 0; }

int __wrap_open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_of(flags, rest);
    va_end(rest);
    meet();
    return __real_open(path, flags, mode);
}

int __wrap_openat(int dir, const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_of(flags, rest);
    va_end(rest);
    meet();
    return __real_openat(dir, path, flags, mode);
}

int __wrap_renameat(int dir, const char *from, int to_dir, const char *to)
{
    meet();
    return __real_renameat(dir, from, to_dir, to);
}

/* What was asked of the disk: a directory's name, or "fsync" and what it flushed. */
static char asked[1024];
static bool asks;

static void note(const char *what, ino_t inode)
{
    const size_t n = strlen(asked);
    if (asks) snprintf(asked + n, sizeof asked - n, "%s %lu\n", what, (unsigned long)inode);
}

static ino_t inode_of(const char *path)
{
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    return s.st_ino;
}

int __wrap_fsync(int fd)
{
    struct stat s;
    meet();
    if (asks && fstat(fd, &s) == 0) note("fsync", s.st_ino);
    return stop_at ? 0 : __real_fsync(fd);          /* a race needs no disk */
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    const int status = __real_mkdir(path, mode);
    if (asks && status == 0) note("mkdir", inode_of(path));
    return status;
}

static void test_the_parents_of_new_directories_are_flushed(void **state)
{
    char want[1024];
    size_t made;
    asks = true;
    assert_ok(qg__path_make(at("new/inner"), &made));
    asks = false;
    assert_int_equal(made, strlen(at("new")));
    snprintf(want, sizeof want, "mkdir %lu\nfsync %lu\nmkdir %lu\nfsync %lu\n", (unsigned long)inode_of(at("new")),
             (unsigned long)inode_of(root), (unsigned long)inode_of(at("new/inner")), (unsigned long)inode_of(at("new")));
    assert_string_equal(asked, want);
}

/* --- races -------------------------------------------------------------------------------- */

#define RUN TRAIN "--epochs 100 --json "

static int races = 12, apart = 9;       /* of the calls; 9: throughout the first epochs */

static const char *const files[] = { "config.toml", "metrics.csv", "result.json", "last.safetensors", "best.safetensors" };

enum { FILES = sizeof files / sizeof *files };

/* Moves the run's directory, and puts one in its place that holds other files of the same names, or none. */
static void replace_directory(int n)
{
    assert_int_equal(rename(at("run"), at("moved")), 0);
    assert_int_equal(mkdir(at("run"), 0700), 0);
    for (int i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "run/%s", files[i]);
        write_bytes(at(name), "precious", 8);
    }
}

static void race(int call, int n)
{
    siginfo_t info;
    stop_at         = call;
    const pid_t pid = start_inside(RUN "--out @/run");
    stop_at         = 0;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WEXITED | WNOWAIT), 0);
    assert_int_equal(info.si_code, CLD_STOPPED);
    replace_directory(n);
    kill(pid, SIGCONT);
    assert_int_equal(finish(pid), 1);
    assert_stderr("run is no longer the directory that this run started in");
    run_shell("for f in @/run/*; do [ ! -e $f ] || [ \"$(cat $f)\" = precious ] || exit; done; [ $(ls -A @/run | wc -l) = %d ]", n);
    assert_status(RUN "--resume --budget 0 --out @/moved", 3);
    run_shell("rm -r @/run @/moved");
}

static void test_a_run_writes_into_no_directory_but_its_own(void **state)
{
    for (int i = 0; i < races; i++) race(1 + i * apart, i % 2 ? FILES : 0);
    print_message("%d races\n", races);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_parents_of_new_directories_are_flushed),
        cmocka_unit_test_teardown(test_a_run_writes_into_no_directory_but_its_own, end_background),
    };
    if (argc > 1) races = atoi(argv[1]), apart = 1;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
