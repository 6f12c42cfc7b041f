/* Files that --out names: what is replaced, what is refused, and what is written to. */
#include "tests/support/testing.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/program.h"

#define SCALING "bench scaling --model 8C3-BN-R-MP2-300FC-R-10 --image 12x12x1 --batch 32 --weight twn --threads 1 --seconds 0.01 " \
                "--link latency=1,gbits=1 "

/* The verbs that write a file of their user's choice, up to its name. */
static const char *const writers[] = { "export --run @/run --to packed -o ", "report @/run --out ", SCALING "--out " };

enum { WRITERS = sizeof writers / sizeof *writers };

static int set_up_run(void **state)
{
    if (set_up(state)) return -1;
    assert_status(TRAIN "--epochs 1 --out @/run", 0);
    run_shell("cp -r @/run @/whole");
    return 0;
}

static void assert_writes(int writer, const char *to)
{
    char line[400];
    snprintf(line, sizeof line, "%s%s", writers[writer], to);
    assert_status(line, 0);
}

static void assert_does_not_write(int writer, const char *to, int status, const char *message)
{
    char line[400];
    snprintf(line, sizeof line, "%s%s", writers[writer], to);
    assert_refuses(line, status, message);
}

/* --- what is refused ------------------------------------------------------------------------ */

static void test_a_file_of_a_run_is_not_replaced(void **state)
{
    static const char *const files[] = { "config.toml",      "metrics.csv",           "result.json", "last.safetensors",
                                         "best.safetensors", "whitening.safetensors" };
    char to[100], message[100];
    for (int w = 0; w < WRITERS; w++)
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            snprintf(to, sizeof to, "@/run/%s", files[i]);
            snprintf(message, sizeof message, "run/%s' is the name of a file of a run; choose another name", files[i]);
            assert_does_not_write(w, to, 2, message);
        }
    run_shell("ln -s run/best.safetensors @/weights");
    assert_does_not_write(0, "@/weights", 1, "weights' is not a packed net, so it is not replaced");
    run_shell("test -L @/weights && diff -r @/run @/whole");
}

static void test_another_kind_of_file_is_not_replaced(void **state)
{
    static const char *const kinds[WRITERS] = { "a packed net", "a page of qgrad report", "a picture of qgrad" };
    char message[200];
    run_shell("printf '\\211PNG\\r\\n\\032\\n..' >@/photo && echo '<!doctype html><title>mine</title>' >@/mine && "
              "echo '<svg viewBox=\"0 0 1 1\"/>' >@/drawing && printf '\\211qgn' >@/short && cat @/photo @/mine @/drawing @/short >@/all");
    for (int w = 0; w < WRITERS; w++) {
        snprintf(message, sizeof message, "' is not %s, so it is not replaced; choose another name, or remove it", kinds[w]);
        assert_does_not_write(w, "@/photo", 1, message);
        assert_does_not_write(w, "@/mine", 1, message);
        assert_does_not_write(w, "@/drawing", 1, message);
        assert_does_not_write(w, "@/short", 1, message);
        assert_does_not_write(w, "@/run", 1, "which would be replaced: Is a directory");
    }
    run_shell("cat @/photo @/mine @/drawing @/short | cmp - @/all");
}

static void test_pictures_of_schemes_and_kept_pages_replace_their_kind(void **state)
{
    run_shell("mkdir -p @/plots && echo mine >@/plots/weight-twn.svg");
    assert_refuses("plot --out @/plots", 1, "plots/weight-twn.svg' is not a picture of qgrad");
    run_shell("rm @/plots/weight-twn.svg");
    assert_status("plot --out @/plots", 0);
    assert_status("plot --out @/plots", 0);
    run_shell("cp -r @/run @/noted && echo 'lr 0.1 was too high' >@/noted/report.html");
    assert_refuses("report @/noted", 1, "noted/report.html' is not a page of qgrad report");
    assert_status("train --resume --epochs 2 --out @/noted", 0);
    assert_stderr("qgrad: warning: report.html is not up to date: ");
    run_shell("echo 'lr 0.1 was too high' | cmp - @/noted/report.html");
    run_shell("rm @/noted/report.html && mkfifo @/noted/report.html");
    assert_refuses("report @/noted", 1, "noted/report.html");
}

/* --- what is written ------------------------------------------------------------------------ */

/* Neither a dangling link nor one to a file of its kind is followed, and a second name keeps the old file. */
static void test_a_file_of_its_kind_is_replaced(void **state)
{
    for (int w = 0; w < WRITERS; w++) {
        assert_writes(w, "@/new");
        run_shell("cp @/new @/before && ln @/new @/second && ln -s second @/link && ln -s elsewhere @/dangling && : >@/empty");
        assert_writes(w, "@/new");
        assert_writes(w, "@/empty");
        assert_writes(w, "@/link");
        assert_writes(w, "@/dangling");
        run_shell("for f in new empty link dangling; do test ! -L @/$f && cmp -n 9 @/$f @/before || exit; done && "
                  "cmp @/second @/before && test ! -e @/elsewhere && rm @/new @/second @/link @/dangling @/empty");
    }
}

static void test_pipes_and_devices_are_written_to(void **state)
{
    assert_writes(0, "@/net.qg");
    run_shell("%s export --run @/run -o /dev/stdout | cmp - @/net.qg", program);
    run_shell("ln -s /proc/self/fd/1 @/stdout");
    if (access(at("stdout"), F_OK)) skip();
    run_shell("%s export --run @/run -o @/stdout >@/redirected && cmp @/redirected @/net.qg && test -L @/stdout", program);
    run_shell("mkfifo @/fifo && { cat @/fifo >@/read & } && %s export --run @/run -o @/fifo >@/told && wait && cmp @/read @/net.qg && "
              "test -p @/fifo && grep -q ^digest @/told", program);
    for (int w = 0; w < WRITERS; w++) assert_writes(w, "/dev/null");
    struct stat s;
    assert_true(!stat("/dev/null", &s) && S_ISCHR(s.st_mode));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_of_a_run_is_not_replaced),
        cmocka_unit_test(test_another_kind_of_file_is_not_replaced),
        cmocka_unit_test(test_pictures_of_schemes_and_kept_pages_replace_their_kind),
        cmocka_unit_test(test_a_file_of_its_kind_is_replaced),
        cmocka_unit_test(test_pipes_and_devices_are_written_to),
    };
    return cmocka_run_group_tests(tests, set_up_run, tear_down);
}
