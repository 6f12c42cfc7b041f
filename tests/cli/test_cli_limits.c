/* The program where memory, addresses or processes are limited: it works or says why not, and never hangs.  Its restarts. */
#define _GNU_SOURCE     /* setgroups, dl_iterate_phdr */
#include "tests/support/testing.h"

#include <fcntl.h>
#include <grp.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/environment.h"
#include "tests/support/program.h"

static int    resource;
static rlim_t limit;

/* The superuser may start any number of processes and write anywhere. */
static bool become_nobody(void)
{
    enum { NOBODY = 65534 };
    return geteuid() || (!setgroups(0, NULL) && !setgid(NOBODY) && !setuid(NOBODY));
}

/* Runs in the child instead of the program: the limit, then the program. */
static int limited(int argc, char **argv)
{
    extern char       **environ;
    const int           self = open(program, O_RDONLY | O_CLOEXEC);     /* nobody may be unable to reach its directory */
    const struct rlimit both = { limit, limit };
    if (resource == RLIMIT_NPROC && !become_nobody()) return 78;
    if (setrlimit((unsigned)resource, &both)) return 79;     /* an unsigned enumeration with _GNU_SOURCE */
    fexecve(self, argv, environ);
    return 77;
}

/* The same with a umask, in the test's directory, which nobody may be unable to reach either. */
static mode_t mask;

static int masked(int argc, char **argv)
{
    extern char **environ;
    const int     self = open(program, O_RDONLY | O_CLOEXEC);
    if (chdir(root) || !become_nobody()) return 78;
    umask(mask);
    fexecve(self, argv, environ);
    return 77;
}

/* It ends by itself, with success or with one line about memory on stderr. */
static void assert_ends(const char *line)
{
    inside = limited;
    qgrad(line);
    const char *end = strchr(last.err, '\n');
    if (last.status == 0) return;
    if (last.status == 127 && strstr(last.err, "loading shared libraries")) return;     /* not even main */
    if (last.status != 1 || !end || end[1] || !strstr(last.err, "memory"))
        fail_msg("%s under a limit of %llu: status %d, '%s'", line, (unsigned long long)limit, last.status, last.err);
}

static void test_any_address_space_ends_in_success_or_a_message(void **state)
{
    static const int mib[] = { 20, 40, 60, 80, 120, 180, 250, 320, 400, 600, 900 };
    static const int kinds[] = { RLIMIT_AS, RLIMIT_DATA };
    if (SANITIZED) skip();
    assert_status(TRAIN "--epochs 1 --threads 2 --out @/run", 0);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        int trained = 0, failed = 0;
        resource = kinds[k];
        for (size_t i = 0; i < sizeof mib / sizeof *mib; i++) {
            limit = (rlim_t)mib[i] << 20;
            assert_ends("train --model lenet5 --data mnist --data-dir @/set --seed 3 --weight twn --batch 24 --epochs 1 --threads 2 --json "
                        "--out @/limited");
            trained += last.status == 0;
            failed += last.status != 0;
            run_shell("rm -rf @/limited");
            assert_ends("eval --run @/run --threads 2 --json");
            assert_ends("inspect @/run --json");
        }
        assert_true(trained > 0 && failed > 0);
    }
}

static void test_a_limit_of_processes_costs_threads_alone(void **state)
{
    if (SANITIZED) skip();
    resource = RLIMIT_NPROC;
    set_variable("OPENBLAS_CORETYPE", NULL);
    for (limit = 1; limit <= 4; limit++) {
        set_variable("OPENBLAS_NUM_THREADS", limit == 2 ? "8" : NULL);
        inside = limited;
        assert_runs("bench train --model lenet5 --image 16x16x1 --batch 4 --seconds 0.01 --threads 3 --json");
        assert_string_equal(last.err, "");
    }
}

/* The program restarts itself from /proc/self/exe, which must not become its name in ps and pkill. */
static void test_a_restart_keeps_the_name_of_the_process(void **state)
{
    char      path[64], name[32];
    siginfo_t ended;
    set_variable("OPENBLAS_NUM_THREADS", NULL);
    const pid_t pid = start("--version");
    assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);   /* its name is there until finish */
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    const bool known = access(path, R_OK) == 0;
    if (known) slurp(path, name, sizeof name);
    assert_int_equal(finish(pid), 0);
    if (!known) skip();
    assert_string_equal(name, "qgrad\n");
}

/* The program's interpreter, as this test's own: the test and the program were linked alike. */
static int find_loader(struct dl_phdr_info *info, size_t bytes, void *path)
{
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_INTERP) *(const char **)path = (const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return 1;       /* the first object is the program */
}

/* Runs in the child: the dynamic loader as a program, with an option and the program as arguments. */
static int by_loader(int argc, char **argv)
{
    static char option[] = "--library-path", nowhere[] = "/nowhere";
    char       *words[MAX_ARGS + 4] = { NULL, option, nowhere };
    const char *loader = NULL;
    dl_iterate_phdr(find_loader, &loader);
    memcpy(words + 3, argv, ((size_t)argc + 1) * sizeof *words);
    if (!loader) return 76;
    *words = (char *)(uintptr_t)loader;
    execv(loader, words);
    return 77;
}

static void test_the_dynamic_loader_can_start_it(void **state)
{
    char direct[2048];
    set_variable("OPENBLAS_NUM_THREADS", NULL);
    assert_status("--version", 0);
    assert_true(snprintf(direct, sizeof direct, "%s", last.out) < (int)sizeof direct);
    inside = by_loader;
    assert_status("--version", 0);
    assert_string_equal(last.out, direct);
    inside = by_loader;
    assert_status("sweep --model lenet5 --data mnist --data-dir @/set --batch 24 --epochs 1 --seed 1..2 --out @/all --json", 0);
    assert_int_equal(last_number("finished"), 2);
}

/* The limits of SECURITY.md, one byte more each.  The files are sparse: none is read to be refused. */
static void test_a_file_beyond_its_limit_is_refused_by_its_size(void **state)
{
    assert_status(TRAIN "--epochs 1 --out @/small", 0);
    run_shell("truncate -s 1048577 @/big.toml");
    assert_refuses("train --config @/big.toml", 1, "big.toml' has 1048577 bytes, must be 1048576 at most");
    run_shell("cp -r @/small @/long && truncate -s 268435457 @/long/metrics.csv");
    assert_refuses(TRAIN "--epochs 1 --out @/long --resume", 1, "metrics.csv' has 268435457 bytes, must be 268435456 at most");
    run_shell("cp -r @/small @/wide && truncate -s 1048577 @/wide/result.json");
    assert_refuses(TRAIN "--epochs 1 --out @/wide --resume", 1, "result.json' has 1048577 bytes, must be 1048576 at most");
    /* The length of the header, little endian: 100,000,001. */
    run_shell("cp -r @/small @/deep && printf '\\001\\341\\365\\005\\000\\000\\000\\000' >@/deep/last.safetensors && "
              "truncate -s 100000100 @/deep/last.safetensors");
    assert_refuses("inspect @/deep", 1, "is malformed: a header of 100000001 bytes in a file of 100000100");
    run_shell("mkdir -p @/images/train/a @/images/test/a && truncate -s 67108865 @/images/train/a/1.png");
    assert_refuses("train --model lenet5 --data folder:16x16x1 --data-dir @/images --out @/none", 1, "1.png' has 67108865 bytes, must be 67108864 at most");
}

/* What is made is removed again, with its parents. */
static void test_a_umask_that_takes_everything_leaves_nothing(void **state)
{
    static const mode_t masks[] = { 0777, 0222, 0444, 0111, 0277 };
#define HERE "train --model lenet5 --data mnist --data-dir set --threads 1 --epochs 1 --out free/"
    static const char *const lines[] = { HERE "a", HERE "a/b/c", "plot --out free/d/e" };
    run_shell("chmod 755 @ && chmod -R a+rX @/set && mkdir -m 777 @/free");
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
        for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
            mask   = masks[i];
            inside = masked;
            assert_refuses(lines[k], 1, ", which was just made: Permission denied; check the umask");
            run_shell("test -z \"$(ls -A @/free)\"");
        }
    mask   = 0077;
    inside = masked;
    assert_status(HERE "a/b", 0);
#undef HERE
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_address_space_ends_in_success_or_a_message),
        cmocka_unit_test_teardown(test_a_limit_of_processes_costs_threads_alone, restore_variables),
        cmocka_unit_test_teardown(test_a_restart_keeps_the_name_of_the_process, restore_variables),
        cmocka_unit_test_teardown(test_the_dynamic_loader_can_start_it, restore_variables),
        cmocka_unit_test(test_a_file_beyond_its_limit_is_refused_by_its_size),
        cmocka_unit_test(test_a_umask_that_takes_everything_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
