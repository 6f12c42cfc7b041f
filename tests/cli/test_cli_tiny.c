/* examples/tiny.c, the definition of the arithmetic as a program: its digests are those of qgrad. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernels/cpu.h"
#include "datasets/loader.h"
#include "tests/support/environment.h"
#include "tests/support/program.h"

/* Without vectors of multiply-adds an epoch of 2,000 images takes minutes. */
enum { ALL = 2000, MANY = 400, SOME = 200, FEW = 100 };
static int most(int images) { return qg__isa() == QG_ISA_BASELINE ? FEW : images; }

static void put_number(FILE *f, uint32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(number >> shift & 255), f);
}

/* n images of the sample, as MNIST's files @/name-images-idx3-ubyte and @/name-labels-idx1-ubyte. */
static void write_images(qg_loader *from, const char *dir, const char *name, int n)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte", dir, name);
    FILE *images = fopen(at(path), "wb");
    snprintf(path, sizeof path, "%s/%s-labels-idx1-ubyte", dir, name);
    FILE *labels = fopen(at(path), "wb");
    qg_batch b;
    assert_true(images && labels && qg_loader_next(from, &b) && b.n >= n);
    put_number(images, 0x803), put_number(images, (uint32_t)n);
    put_number(images, 28), put_number(images, 28);
    put_number(labels, 0x801), put_number(labels, (uint32_t)n);
    for (int i = 0; i < n * 28 * 28; i++) fputc((int)lrintf(b.x.data[i] * 255), images);
    for (int i = 0; i < n; i++) fputc(b.y[i], labels);
    assert_int_equal(fclose(images) | fclose(labels), 0);
    qg_loader_free(from);
}

static void write_sample(const char *dir, int n)
{
    const qg_loader_spec all = { .batch = ALL, .in_order = true };
    run_shell("mkdir @/%s", dir);
    write_images(qg_data_train("sample", NULL, all), dir, "train", n);
    write_images(qg_data_test("sample", NULL, all), dir, "t10k", FEW);
}

/* What tiny prints, from the rows of metrics.csv. */
static void expect(char text[TEXT_BYTES])
{
    static char csv[TEXT_BYTES];
    int         epoch;
    double      accuracy;
    char        digest[17];
    slurp(at("run/metrics.csv"), csv, sizeof csv);
    *text = '\0';
    for (const char *row = csv; (row = strchr(row, '\n')) && *++row;) {
        /* epoch, lr, losses and accuracies of training and test images, images_per_second, seconds, digest */
        assert_int_equal(sscanf(row, "%d,%*[^,],%*[^,],%lf,%*[^,],%*[^,],%*[^,],%*[^,],%16[0-9a-f]", &epoch,
                                &accuracy, digest), 3);
        sprintf(strchr(text, '\0'), "epoch %d  training accuracy %.2f %%  digest %s\n", epoch, 100 * accuracy,
                digest);
    }
}

static void compare(const char *dir, int epochs, const char *weight)
{
    static char printed[TEXT_BYTES], expected[TEXT_BYTES];
    run_shell("@/tiny @/%s %d %s >@/printed", dir, epochs, weight);
    assert_runs("train --model lenet5 --data mnist --data-dir @/%s --weight %s --epochs %d --out @/run "
                "--force", dir, weight, epochs);
    slurp(at("printed"), printed, sizeof printed);
    expect(expected);
    assert_string_equal(printed, expected);
}

/* As its first lines say, or where the compiler does not know the machine. */
static void compile(void)
{
    run_shell("for native in -march=native ''; do "
              "${CC:-cc} -std=c11 -O3 $native -ffp-contract=off -o @/tiny examples/tiny.c -lm && exit; "
              "done; exit 1");
}

static void the_sample(void **state)
{
    compile();
    write_sample("sample", most(every_combination() ? ALL : MANY));
    compare("sample", 1, "twn");
}

static void more_epochs_and_learned_levels(void **state)
{
    write_sample("few", most(SOME));
    if (every_combination()) compare("few", 2, "twn");
    compare("few", 2, "ttq");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sample),
        cmocka_unit_test(more_epochs_and_learned_levels),
    };
    return cmocka_run_group_tests_name("cli_tiny", tests, set_up, tear_down);
}
