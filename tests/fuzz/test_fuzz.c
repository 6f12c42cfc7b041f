/* Every fuzz target on the inputs of its folder in tests/fuzz/corpus: seeds, and inputs that once failed.
 * One test per target.  The Makefile gives the targets as FUZZ_TARGETS, X(config) X(json) .. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/testing.h"

#define CORPUS "tests/fuzz/corpus"

#define X(name) int fuzz_##name(const uint8_t *bytes, size_t n);
FUZZ_TARGETS
#undef X

static const struct target {
    const char *name;
    int (*run)(const uint8_t *bytes, size_t n);
} targets[] = {
#define X(name) { #name, fuzz_##name },
    FUZZ_TARGETS
#undef X
};

enum { TARGETS = sizeof targets / sizeof *targets };

static int is_input(const struct dirent *e) { return *e->d_name != '.'; }

/* The input is named first, since what fails ends the program. */
static void replay_one(const struct target *t, const char *name)
{
    unsigned char *bytes;
    size_t         n;
    char           path[512];
    snprintf(path, sizeof path, CORPUS "/%s/%s", t->name, name);
    printf("%s\n", path);
    fflush(stdout);
    assert_ok(qg__file_read_in(QG_BY_PATH, path, 1 << 20, &bytes, &n));
    assert_int_equal(t->run(bytes, n), 0);
    free(bytes);
}

static void replay(void **state)
{
    const struct target *t = *state;
    struct dirent      **entry;
    char                 dir[128];
    snprintf(dir, sizeof dir, CORPUS "/%s", t->name);
    const int n = scandir(dir, &entry, is_input, alphasort);
    if (n < 1) fail_msg("%s has no input", dir);
    for (int i = 0; i < n; i++) {
        replay_one(t, entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    printf("%-12s %4d inputs\n", t->name, n);
}

/* A folder whose target was renamed would never be read again. */
static void every_folder_has_a_target(void **state)
{
    struct dirent **entry;
    const int       n = scandir(CORPUS, &entry, is_input, alphasort);
    assert_int_equal(n, TARGETS);
    for (int i = 0; i < n; i++) {
        assert_string_equal(entry[i]->d_name, targets[i].name);
        free(entry[i]);
    }
    free(entry);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[TARGETS + 1] = { cmocka_unit_test(every_folder_has_a_target) };
    for (int i = 0; i < TARGETS; i++)
        tests[i + 1] = (struct CMUnitTest){ .name = targets[i].name,
                                            .test_func = replay,
                                            .initial_state = (void *)&targets[i] };
    if (LLVMFuzzerInitialize(&argc, &argv)) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
