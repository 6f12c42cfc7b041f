/* --validation of the program build/qgrad, or $QGRAD: images are held out, they choose, and the test is read at the end. */
#include "tests/support/testing.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/inside.h"
#include "tests/support/program.h"

#define HELD TRAIN "--normalise channel --augment pad=2,flip --validation 25% "

static void test_what_is_no_number_of_images_is_refused(void **state)
{
    static const char *const bad[] = { "x", "-1", "1.5", "100%", "10%%", "%", "3000000000" };
    char line[256];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(line, sizeof line, TRAIN "--validation %s", bad[i]);
        assert_refuses(line, 2, "is neither a number of images nor a percentage below 100%; write 5000 or 10%");
    }
    assert_refuses(TRAIN "--validation 240 --out @/none", 2, "validation: 240 of 240 images, but the classes can spare at most 230");
    assert_refuses(TRAIN "--validation 0.1% --out @/none", 2, "validation: a fraction of 0.001 of 240 images is none");
}

/* A whole run: on two threads, and in pieces; and its test accuracies are those of its files. */
static void test_resumed_runs_hold_out_the_same_images(void **state)
{
    char text[TEXT_BYTES];
    assert_status(HELD "--epochs 6 --threads 1 --out @/whole --json", 0);
    assert_true(last_number("validation_images") == 60 && last_number("test_images") == N_TEST && last_truth("complete"));
    const double test = last_number("test_accuracy"), best = last_number("best_test_accuracy");
    slurp(at("whole/config.toml"), text, sizeof text);
    assert_non_null(strstr(text, "validation = \"25%\"\n"));
    assert_status(HELD "--epochs 6 --threads 2 --out @/two --json", 0);
    assert_same_run("whole", "two");
    assert_status(HELD "--epochs 6 --out @/parts --budget 0 --json", 3);
    assert_stdout("\"test_accuracy\":null");
    finish_in_sittings("parts", 25);
    assert_same_run("whole", "parts");

    assert_status("eval --run @/parts --json", 0);
    assert_true(last_number("test_accuracy") == test);
    assert_status("eval --run @/parts --best --json", 0);
    assert_true(last_number("test_accuracy") == best);
    assert_status("inspect --run @/parts", 0);
    assert_status("train --resume --out @/whole --json", 0);
    assert_true(last_number("test_accuracy") == test && last_number("best_test_accuracy") == best);
    assert_refuses("train --resume --out @/whole --validation 60", 2, "validation is 25% in the run, but 60 was requested");
    assert_status(TRAIN "--epochs 1 --init @/whole --validation 60 --out @/tuned --json", 0);
    assert_true(last_number("validation_images") == 60);
    assert_null(strstr(last.err, "validate this run"));
    assert_status(TRAIN "--epochs 1 --init @/whole --validation 60 --seed 9 --out @/others --json", 0);
    assert_stderr("/whole was trained on images that validate this run");
}

static void test_what_is_printed(void **state)
{
    assert_status(HELD "--epochs 2 --out @/shown", 0);
    assert_stdout("180 training, 60 validation and 60 test images of 16x16x1");
    assert_stdout("\nvalidation     ");
    assert_stdout("\ntest accuracy  ");
    assert_stderr("  validation loss ");
    assert_null(strstr(last.err, "test loss"));
    assert_status(HELD "--epochs 2 --budget 0 --out @/stopped", 3);
    assert_null(strstr(last.out, "test accuracy"));
}

/* Without the option everything is as it was, and 0 is the same as none but for what is written. */
static void test_none_is_held_out_by_default(void **state)
{
    char plain[TEXT_BYTES], none[TEXT_BYTES];
    assert_status(TRAIN "--epochs 2 --out @/plain --json", 0);
    assert_null(strstr(last.out, "validation"));
    slurp(at("plain/metrics.csv"), plain, sizeof plain);
    assert_null(strstr(plain, "validation"));
    assert_status(TRAIN "--epochs 2 --validation 0 --out @/zero --json", 0);
    slurp(at("zero/metrics.csv"), none, sizeof none);
    assert_memory_equal(plain, none, strcspn(plain, "\n") + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_no_number_of_images_is_refused),
        cmocka_unit_test(test_resumed_runs_hold_out_the_same_images),
        cmocka_unit_test(test_what_is_printed),
        cmocka_unit_test(test_none_is_held_out_by_default),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
