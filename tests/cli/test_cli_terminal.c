/* Whatever a file, a directory or an argument is called, a terminal shows it and does not obey it. */
#define _XOPEN_SOURCE 600   /* posix_openpt */
#include "tests/support/testing.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/utf8.h"
#include "tests/support/pictures.h"
#include "tests/support/program.h"

/* Clears the screen in three ways, rings, and reverses the rest of the line. */
#define EVIL  "\x1b[2J\xc2\x9b" "2J\x9b" "2J\x07\x7f\xe2\x80\xae\xc3\xa9"
#define SHOWN "\\u001b[2J\\u009b2J\\x9b2J\\u0007\\u007f\\u202e\xc3\xa9"
/* The same without the byte that is not UTF-8, as JSON has it. */
#define EVIL_UTF8 "\x1b[2J\xc2\x9b" "2J\x07\x7f\xe2\x80\xae\xc3\xa9"
#define EVIL_JSON "\\u001b[2J\\u009b2J\\u0007\\u007f\\u202e\xc3\xa9"

/* What the value of an option may contain: no control character of ASCII. */
#define VALUE       "\xc2\x9b" "2J\x9b" "2J\xe2\x80\xae\xc3\xa9"
#define VALUE_SHOWN "\\u009b2J\\x9b2J\\u202e\xc3\xa9"

static void assert_harmless(const char *text)
{
    for (const char *c = text; *c;) {
        char         shown[QG_SHOWN_BYTES];
        const size_t n = qg__utf8_show(c, strlen(c), shown);
        if (*c != '\n' && strncmp(c, shown, n)) fail_msg("byte %d is printed as it is", (int)(c - text));
        c += n;
    }
}

static void assert_shows(const char *line, int status, const char *part)
{
    assert_status(line, status);
    assert_harmless(last.out);
    assert_harmless(last.err);
    if (!strstr(last.out, part) && !strstr(last.err, part)) fail_msg("'%s' is not in '%s%s'", part, last.out, last.err);
}

/* A file with one array of four bytes. */
static void write_array(const char *path, const char *name, const char *dtype)
{
    char         file[512] = { 0 };
    const size_t n         = (size_t)snprintf(file + 8, sizeof file - 12,
                                              "{\"%s\":{\"dtype\":\"%s\",\"shape\":[1],\"data_offsets\":[0,4]}}", name, dtype);
    file[0] = (char)(unsigned char)n;
    assert_true(n < 256);
    write_bytes(path, file, 8 + n + 4);
}

static void test_arrays(void **state)
{
    write_array(at("name.safetensors"), EVIL_JSON, "F32");
    assert_shows(TRAIN "--init @/name.safetensors --out @/none", 1, EVIL_JSON);
    write_array(at("dtype.safetensors"), "conv1.weight", EVIL_JSON);
    assert_shows(TRAIN "--init @/dtype.safetensors --out @/none", 1, "unknown dtype");
    assert_shows(TRAIN "--init @/" VALUE " --out @/none", 1, VALUE_SHOWN);
    assert_status(TRAIN "--epochs 1 --out @/run --json", 0);
    run_shell("cp @/name.safetensors @/run/last.safetensors");
    assert_shows("eval --run @/run", 1, "does not note the size of its images");
    assert_shows("inspect @/run", 1, "does not note the size of its images");
    assert_shows("train --resume --out @/run", 1, EVIL_JSON);
}

static void write_line(const char *path, const char *line)
{
    write_bytes(path, line, strlen(line));
}

static void test_recipes_and_metrics(void **state)
{
    write_line(at("key.toml"), "\"" EVIL_UTF8 "\" = 1\n");
    assert_shows("train --config @/key.toml --out @/none", 2, "key.toml:1");
    write_line(at("bare.toml"), "a\xc2\x9b = 1\n");
    assert_shows("train --config @/bare.toml --out @/none", 2, "bare.toml:1");
    write_line(at("value.toml"), "model = \"" VALUE "\"\n");
    assert_shows("train --config @/value.toml --out @/none", 2, VALUE_SHOWN);
    assert_status(TRAIN "--epochs 2 --budget 0 --out @/metrics --json", 3);
    write_line(at("metrics/metrics.csv"), "epoch," EVIL "\n1,2\n");
    assert_status("train --resume --json --out @/metrics", 1);
    assert_harmless(last.err);
}

static void test_classes_and_pictures(void **state)
{
    run_shell("mkdir -p '@/pets/train/" EVIL "' '@/pets/train/dog' '@/pets/test/" EVIL "' '@/pets/test/dog'");
    run_shell("echo >'@/pets/train/" EVIL "/" EVIL ".png'; echo >'@/pets/train/dog/x.png'");
    assert_shows("train --model lenet5 --data folder:16x16x1 --data-dir @/pets --out @/none", 1, SHOWN);
    run_shell("rm -r '@/pets/train/" EVIL "'");
    assert_shows("train --model lenet5 --data folder:16x16x1 --data-dir @/pets --out @/none", 1, "pets");
}

static void test_arguments(void **state)
{
    assert_shows(EVIL, 2, SHOWN);
    assert_shows("train --" EVIL, 2, SHOWN);
    assert_shows("train " EVIL, 2, SHOWN);
    assert_shows("train --model " VALUE, 2, VALUE_SHOWN);
    assert_shows("train --model " EVIL, 2, "--model");
    assert_shows("train --epochs " VALUE, 2, VALUE_SHOWN);
    assert_shows("bench " EVIL, 2, SHOWN);
    assert_shows("explain " EVIL, 2, SHOWN);
    assert_shows("inspect " EVIL, 1, SHOWN);
    assert_shows("eval --run @/" VALUE, 1, VALUE_SHOWN);
}

static void test_directories(void **state)
{
    assert_shows(TRAIN "--epochs 1 --out @/" VALUE, 0, "/" VALUE_SHOWN "\n");
    assert_stdout("/\\302\\2332J\\2332J\\342\\200\\256\\303\\251' --best\n");     /* bash, ksh and zsh read it */
    assert_shows("eval --run @/" VALUE, 0, "/" VALUE_SHOWN "/last");
    assert_shows("inspect @/" VALUE, 0, "/" VALUE_SHOWN "/last");
    assert_shows(TRAIN "--epochs 1 --force --json --out @/" VALUE, 0, "/" VALUE_SHOWN ".old");
    assert_shows("eval --json --run @/" VALUE, 0, "/\\u009b2J\\\\x9b2J\\u202e\xc3\xa9\"");
    run_shell("mv '@/" VALUE "' '@/" EVIL_UTF8 "'");
    assert_shows("inspect --json @/" EVIL_UTF8, 0, "/" EVIL_JSON "\"");
    char name[300];
    snprintf(name, sizeof name, "%s", at(EVIL_UTF8));
    assert_string_equal(last_text("run"), name);
}

/* Names in which a newline, a letter of Arabic's direction and a byte of Latin-1 stand: nothing but the ends of lines is a
 * newline, a net knows its classes again, and names that differ do so in JSON. */
#define ODD       "x\ny\xe2\x80\x8f" "caf\xe9"
#define ODD_SHOWN "x\\u000ay\\u200f" "caf\\xe9"

static void write_picture(const char *path, int bright)
{
    uint8_t pixels[8 * 8 * 3];
    memset(pixels, bright, sizeof pixels);
    write_png(path, pixels, 8, 8);
}

static void test_names_of_classes_and_files(void **state)
{
    static const char *const names[]  = { "caf\xc3\xa9.png", "caf\xe9.png", "caf\\xe9.png", "caf\\x5cxe9.png", "\\\xe9.png", "caf\\e9\xc3\xa9\xc3.png" };
    static const char *const in_json[] = { "caf\xc3\xa9.png", "caf\\xe9.png", "caf\\x5cxe9.png", "caf\\x5cx5cxe9.png", "\\\\xe9.png",
                                           "caf\\e9\xc3\xa9\\xc3.png" };
    enum { NAMES = sizeof names / sizeof *names };
    run_shell("mkdir -p '@/odd/train/" ODD "' @/odd/train/z '@/odd/test/" ODD "' @/odd/test/z @/mine");
    for (int test = 0; test < 2; test++)
        for (int z = 0; z < 2; z++) {
            char path[96];
            snprintf(path, sizeof path, "odd/%s/%s/" ODD ".png", test ? "test" : "train", z ? "z" : ODD);
            write_picture(at(path), z ? 250 : 5);
        }
    assert_shows("train --model 4C3-R-2 --data folder:8x8x1 --data-dir @/odd --batch 2 --epochs 1 --out @/odd-run", 0, "odd-run");
    assert_shows("export --run @/odd-run --out @/odd.qg", 0, "odd.qg");
    assert_shows("infer --packed @/odd.qg --data-dir @/odd --run @/odd-run", 0, "2 of 2 labels equal");
    assert_shows("eval --run @/odd-run --confusion --worst 2", 0, ODD_SHOWN);
    assert_shows("predict --run @/odd-run @/odd/test", 0, "/" ODD_SHOWN "/" ODD_SHOWN ".png: ");
    int lines = 0;
    for (const char *c = last.out; *c; c++) lines += *c == '\n';
    assert_int_equal(lines, 2);

    char path[NAMES][96];
    for (int i = 0; i < NAMES; i++) {
        snprintf(path[i], sizeof path[i], "mine/%s", names[i]);
        write_picture(at(path[i]), 128);
    }
    assert_status("predict --packed @/odd.qg @/mine --json", 0);
    assert_true(qg__utf8_valid(last.out, strlen(last.out)));
    cJSON       *j      = parse();
    const cJSON *images = cJSON_GetObjectItemCaseSensitive(j, "images");
    assert_int_equal(cJSON_GetArraySize(images), NAMES);
    for (int i = 0; i < NAMES; i++) {
        int found = 0;
        snprintf(path[i], sizeof path[i], "mine/%s", in_json[i]);
        for (int k = 0; k < NAMES; k++) found += !strcmp(text(cJSON_GetArrayItem(images, k), "file"), at(path[i]));
        if (found != 1) fail_msg("%d files are called %s", found, path[i]);
    }
    cJSON_Delete(j);
}

/* Values of options may be names, too. */
static void test_tables(void **state)
{
    assert_status(TRAIN "--epochs 1 --out @/plain --json", 0);
    run_shell("rm -rf '@/" VALUE "' && cp -r @/plain '@/" VALUE "' && cp -r @/plain '@/" VALUE "2'");
    assert_shows("runs @/" VALUE, 0, "/" VALUE_SHOWN);
    assert_shows("runs --csv @/" VALUE, 0, "/" VALUE_SHOWN ",");
    assert_shows("runs --json @/" VALUE, 0, "\"run\":\"");
    for (int i = 0; i < 3; i++) {
        static const char *const form[] = { "", "--csv", "--json" };
        char                     line[1000];
        snprintf(line, sizeof line, "sweep " SET "--epochs 1 --batch 24 --init @/" VALUE " --init @/" VALUE "2 --out @/sweep%d %s", i, form[i]);
        assert_shows(line, 0, "\\u009b2J");
    }
}

static int terminal;

/* Runs in the child instead of the program: the program with a terminal as its stderr. */
static int on_terminal(int argc, char **argv)
{
    if (dup2(terminal, STDERR_FILENO) < 0 || setenv("TERM", "xterm", 1) || unsetenv("NO_COLOR")) return 78;
    close(terminal);
    execv(program, argv);
    return 77;
}

/* The program's own escapes reach the terminal: it shows the best accuracy so far in green. */
static void test_colours_are_not_escaped(void **state)
{
    static char shown[1 << 16];
    size_t      n     = 0;
    const int   other = posix_openpt(O_RDWR | O_NOCTTY);
    if (other < 0) skip();              /* a sandbox without terminals */
    assert_true(!grantpt(other) && !unlockpt(other));
    fcntl(other, F_SETFD, FD_CLOEXEC);
    terminal = open(ptsname(other), O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0);
    inside          = on_terminal;
    const pid_t pid = start(TRAIN "--epochs 1 --json --out @/colour");
    close(terminal);
    for (ssize_t got; n < sizeof shown - 1 && (got = read(other, shown + n, sizeof shown - 1 - n)) > 0;) n += (size_t)got;
    close(other);
    assert_int_equal(finish(pid), 0);
    assert_non_null(strstr(shown, "accuracy \x1b[32m"));
    assert_null(strstr(shown, "\\u001b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_recipes_and_metrics),
        cmocka_unit_test(test_classes_and_pictures),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_directories),
        cmocka_unit_test(test_names_of_classes_and_files),
        cmocka_unit_test(test_tables),
        cmocka_unit_test_teardown(test_colours_are_not_escaped, end_background),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
