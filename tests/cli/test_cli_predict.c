/* What a net says of single images, with the program build/qgrad, or $QGRAD: predict, and the mistakes that eval shows. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/pictures.h"
#include "tests/support/program.h"

enum { HEADER = 16, LABELS = 8, PIXELS = SIDE * SIDE };

/* The test images of the set as PNG files, test/00.png to test/59.png. */
static void write_images(uint8_t labels[N_TEST])
{
    static char all[HEADER + N_TEST * PIXELS + 1];
    uint8_t     pixels[3 * PIXELS];
    char        name[32];
    slurp(at("set/t10k-images-idx3-ubyte"), all, sizeof all);
    mkdir(at("test"), 0700);
    for (int i = 0; i < N_TEST; i++) {
        for (int k = 0; k < 3 * PIXELS; k++) pixels[k] = (uint8_t)all[HEADER + i * PIXELS + k / 3];
        snprintf(name, sizeof name, "test/%02d.png", i);
        write_png(at(name), pixels, SIDE, SIDE);
    }
    slurp(at("set/t10k-labels-idx1-ubyte"), all, LABELS + N_TEST + 1);
    memcpy(labels, all + LABELS, N_TEST);
}

static int set_up_run(void **state)
{
    if (set_up(state)) return -1;
    assert_status(TRAIN "--epochs 1 --normalise pixel --json --out @/run", 0);
    return 0;
}

static const cJSON *item(const cJSON *list, int i)
{
    const cJSON *found = cJSON_GetArrayItem(list, i);
    if (!found) fail_msg("no item %d in '%s'", i, last.out);
    return found;
}

static const cJSON *list_of(const cJSON *j, const char *key) { return cJSON_GetObjectItemCaseSensitive(j, key); }

/* --- the same scores as eval --------------------------------------------------------------- */

/* The probabilities of all classes, by their numbers. */
static void read_shares(const cJSON *image, double share[10])
{
    const cJSON *classes = list_of(image, "classes");
    double       sum = 0, before = 1;
    assert_int_equal(cJSON_GetArraySize(classes), 10);
    for (int i = 0; i < 10; i++) {
        const cJSON *c = item(classes, i);
        const int    k = (int)number(c, "class");
        char         name[8];
        snprintf(name, sizeof name, "%d", k);
        assert_string_equal(text(c, "name"), name);
        share[k] = number(c, "probability");
        assert_true(share[k] <= before);
        sum += before = share[k];
    }
    assert_true(fabs(sum - 1) < 1e-8);          /* ten numbers of nine digits */
}

static void test_it_agrees_with_eval(void **state)
{
    uint8_t labels[N_TEST];
    char    digest[32];
    write_images(labels);
    assert_status("eval --run @/run --json", 0);
    const double accuracy = last_number("test_accuracy"), loss = last_number("test_loss");
    snprintf(digest, sizeof digest, "%s", last_text("digest"));
    assert_status("predict --run @/run @/test --top 10 --json", 0);
    cJSON       *j      = parse();
    const cJSON *images = list_of(j, "images");
    double       correct = 0, sum = 0;
    assert_string_equal(text(j, "digest"), digest);
    assert_string_equal(text(j, "model"), SMALL_NET(10));
    assert_int_equal(cJSON_GetArraySize(images), N_TEST);
    for (int i = 0; i < N_TEST; i++) {
        double share[10];
        char   name[32];
        snprintf(name, sizeof name, "test/%02d.png", i);
        assert_string_equal(text(item(images, i), "file"), at(name));
        read_shares(item(images, i), share);
        correct += number(item(list_of(item(images, i), "classes"), 0), "class") == labels[i];
        sum -= log(share[labels[i]]);
    }
    assert_true(fabs(correct / N_TEST - accuracy) < 1e-8);      /* JSON has nine digits */
    assert_true(fabs(sum / N_TEST - loss) < 1e-6 * loss);       /* the loss of a batch is a float */
    cJSON_Delete(j);
}

static void test_neither_threads_nor_the_batch_change_a_digit(void **state)
{
    static char together[TEXT_BYTES];
    uint8_t     labels[N_TEST];
    write_images(labels);
    assert_status("predict --run @/run @/test --threads 1", 0);
    strcpy(together, last.out);
    assert_status("predict --threads 3 --run @/run @/test", 0);
    assert_string_equal(last.out, together);
    assert_status("predict --run @/run @/test/17.png", 0);
    assert_true(strstr(together, last.out) != NULL);
    assert_status("predict @/test/17.png --best --run @/run/best.safetensors --top 1", 0);
    assert_true(strchr(last.out, ',') == NULL && strchr(last.out, '\n')[1] == '\0');
}

/* Scores are the same bit for bit, so texts are. */
static void test_a_packed_net_says_the_same(void **state)
{
    uint8_t labels[N_TEST];
    write_images(labels);
    assert_status("export --run @/run -o @/net.qg", 0);
    assert_status("predict --run @/run @/test --top 10 --json", 0);
    cJSON *j    = parse();
    char  *says = cJSON_PrintUnformatted(list_of(j, "images"));
    cJSON_Delete(j);
    for (int threads = 1; threads <= 3; threads++) {
        assert_runs("predict --packed @/net.qg @/test --top 10 --json --threads %d", threads);
        j           = parse();
        char *again = cJSON_PrintUnformatted(list_of(j, "images"));
        assert_string_equal(again, says);
        assert_string_equal(text(j, "model"), SMALL_NET(10));
        cJSON_Delete(j), cJSON_free(again);
    }
    cJSON_free(says);
    assert_refuses("predict --packed @/net.qg --run @/run @/test", 2, "--run and --packed were given; pass only one");
    assert_refuses("predict --packed @/none.qg @/test", 1, "none.qg");
}

/* --- images of one's own -------------------------------------------------------------------- */

/* Two classes of one colour each, of some size. */
static void write_colour(const char *path, int red, int blue, int h, int w)
{
    uint8_t pixels[3 * 40 * 40];
    for (int i = 0; i < h * w; i++) pixels[3 * i] = (uint8_t)red, pixels[3 * i + 1] = 40, pixels[3 * i + 2] = (uint8_t)blue;
    if (strstr(path, ".bmp")) write_bmp(at(path), pixels, h, w);
    else write_png(at(path), pixels, h, w);
}

static void train_colours(void)
{
    char name[64];
    run_shell("mkdir -p @/pics/train/red @/pics/train/sky-blue @/pics/test/red @/pics/test/sky-blue");
    for (int i = 0; i < 8; i++) {
        const bool test = i >= 6;
        snprintf(name, sizeof name, "pics/%s/red/%d.png", test ? "test" : "train", i);
        write_colour(name, 180 + 8 * i, 20 + i, 8, 8);
        snprintf(name, sizeof name, "pics/%s/sky-blue/%d.png", test ? "test" : "train", i);
        write_colour(name, 20 + i, 180 + 8 * i, 8, 8);
    }
    assert_status("train --model 4C3-R-2 --data folder:8x8x3 --data-dir @/pics --epochs 20 --batch 4 --lr 0.1 --threads 1 "
                  "--out @/colours --json", 0);
}

static void test_folders_of_any_images_in_byte_order(void **state)
{
    static const char *const order[] = { "mine/B/2.BMP", "mine/a.png", "mine/b/c/1.jpeg", "mine/\xc3\xa9.png" };
    train_colours();
    run_shell("mkdir -p @/mine/B @/mine/b/c @/mine/.hidden && ln -s .. @/mine/b/up && echo text > @/mine/b/notes.txt");
    write_colour("mine/a.png", 250, 10, 31, 13);
    write_colour("mine/\xc3\xa9.png", 10, 250, 8, 8);
    write_colour("mine/.hidden/x.png", 10, 250, 8, 8);
    write_colour("mine/B/2.bmp", 10, 200, 40, 40);
    run_shell("mv @/mine/B/2.bmp @/mine/B/2.BMP");
    write_jpeg(at("mine/b/c/1.jpeg"), (jpeg){ .h = 16, .w = 24, .components = 1, .value = { 128 }, .scans = 1 });
    assert_status("predict --run @/colours @/mine/", 0);
    char *line = last.out;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        char head[320];
        snprintf(head, sizeof head, "%s: %s", at(order[i]), i == 0 || i == 3 ? "sky-blue " : i == 1 ? "red " : "");
        if (strncmp(line, head, strlen(head))) fail_msg("'%s' does not begin with '%s'", line, head);
        line = strchr(line, '\n') + 1;
    }
    assert_string_equal(line, "");
    assert_stderr("qgrad: warning: skipped 1 file that is not PNG, JPEG or BMP, such as '");
    assert_stderr("mine/b/notes.txt'\n");
    /* A file that the user names is opened, whatever its name says. */
    run_shell("cp @/mine/a.png @/-odd");
    assert_status("predict --run @/colours --json -- @/-odd", 0);
    assert_stdout("{\"class\":0,\"name\":\"red\",\"probability\":");
}

/* One photograph, as eight cameras hold it. */
static void test_a_turned_photograph_is_the_same(void **state)
{
    enum { SIZE = 16 };
    uint8_t pixels[3 * SIZE * SIZE] = { 0 };
    char    name[32], first[TEXT_BYTES];
    train_colours();
    for (int i = 0; i < SIZE * SIZE; i++) {
        if (i / SIZE < 8) pixels[3 * i] = i % SIZE < 8 ? 110 : 90;
        else pixels[3 * i + 2] = i % SIZE < 8 ? 120 : 60;
    }
    for (int o = 1; o <= 8; o++) {
        snprintf(name, sizeof name, "%d.jpg", o);
        write_turned_photo(at(name), pixels, SIZE, SIZE, o);
        assert_runs("predict --run @/colours --json @/%d.jpg", o);
        char *shares = strstr(last.out, ".jpg\"");
        *strchr(shares, ']') = '\0';
        if (o == 1) strcpy(first, shares);
        assert_string_equal(shares, first);
    }
}

/* However many there are. */
static void test_16_bits_are_warned_about_once(void **state)
{
    train_colours();
    write_deep_png(at("1.png"), 0xff00, 8, 8), write_deep_png(at("2.png"), 0xff, 8, 8);
    assert_status("predict --run @/colours @/1.png @/2.png @/1.png", 0);
    const char *warning = strstr(last.err, "1.png' has 16 bits per value; only the high 8 of them are used\n");
    assert_true(warning && !strstr(warning, "2.png"));
    assert_status("predict --run @/colours @/pics", 0);
    assert_string_equal(last.err, "");
}

static void test_a_bad_file_does_not_stop_the_others(void **state)
{
    train_colours();
    run_shell("mkdir -p @/mine/empty && echo text > @/mine/2.png && ln -s nowhere @/mine/3.png");
    write_colour("mine/1.png", 250, 10, 8, 8);
    write_colour("mine/4.png", 10, 250, 8, 8);
    run_shell("printf x | dd of=@/mine/4.png bs=1 seek=60 conv=notrunc status=none");
    write_colour("mine/5.png", 10, 250, 8, 8);
    assert_status("predict --run @/colours @/mine @/none.png @/mine/empty", 1);
    assert_stdout("mine/1.png: red ");
    assert_stdout("mine/5.png: sky-blue ");
    assert_stderr("mine/2.png' is not a PNG, JPEG or BMP file\n");
    assert_stderr("3.png': No such file or directory\n");
    assert_stderr("mine/4.png' is damaged: ");
    assert_stderr("none.png': No such file or directory\n");
    assert_stderr("mine/empty' contains no PNG, JPEG or BMP file\n");
    int lines = 0;
    for (const char *c = last.err; *c; c++) lines += *c == '\n';
    assert_int_equal(lines, 5);
    assert_status("predict --run @/colours @/mine --json", 1);
    cJSON       *j      = parse();
    const cJSON *images = list_of(j, "images");
    assert_true(number(j, "failed") == 3);
    assert_int_equal(cJSON_GetArraySize(images), 5);
    assert_non_null(strstr(text(item(images, 3), "error"), "is damaged"));
    assert_true(!list_of(item(images, 3), "classes") && !list_of(item(images, 4), "error"));
    cJSON_Delete(j);
}

/* The words of a known set, also where --data chose a part of it. */
static void test_classes_of_known_sets_have_names(void **state)
{
    uint8_t pixels[3 * 28 * 28] = { 0 };
    write_png(at("dark.png"), pixels, 28, 28);
    assert_status("train --model 5 --data sample:classes=9+0+1+2+3 --epochs 1 --out @/five --json", 0);
    assert_status("predict --run @/five @/dark.png --top 99 --json", 0);
    assert_stdout("{\"class\":0,\"name\":\"ankle boot\"");
    assert_stdout("{\"class\":4,\"name\":\"dress\"");
}

/* --- eval: mistakes ------------------------------------------------------------------------- */

/* Counted again from what predict says of the same images. */
static void test_eval_counts_what_predict_says(void **state)
{
    uint8_t  labels[N_TEST];
    uint64_t confused[10][10] = { { 0 } };
    double   share[N_TEST][10], gap[15] = { 0 }, error = 0;
    write_images(labels);
    assert_status("predict --run @/run @/test --top 10 --json", 0);
    cJSON *j = parse();
    for (int i = 0; i < N_TEST; i++) {
        const cJSON *image = item(list_of(j, "images"), i);
        read_shares(image, share[i]);
        const int    k = (int)number(item(list_of(image, "classes"), 0), "class");
        confused[labels[i]][k]++;
        gap[(int)ceil(share[i][k] * 15) - 1] += (k == labels[i]) - share[i][k];
    }
    cJSON_Delete(j);
    for (int i = 0; i < 15; i++) error += fabs(gap[i]) / N_TEST;
    assert_status("eval --run @/run --json", 0);
    j = parse();
    assert_true(fabs(number(j, "calibration_error") - error) < 1e-8);       /* of numbers with nine digits */
    const cJSON *pair, *mistake;
    uint64_t     before = N_TEST, mistakes = 0;
    cJSON_ArrayForEach(pair, list_of(j, "confused"))
    {
        const int label = (int)number(pair, "label"), k = (int)number(pair, "predicted");
        assert_true(label != k && number(pair, "images") > 0 && number(pair, "images") <= (double)before);
        assert_true(number(pair, "images") == (double)confused[label][k]);
        mistakes += before = confused[label][k];
    }
    for (int k = 0; k < 10; k++) {
        const cJSON *class = item(list_of(j, "classes"), k);
        uint64_t     of = 0, as = 0;
        for (int i = 0; i < 10; i++) of += confused[k][i], as += confused[i][k];
        assert_true(number(class, "images") == (double)of && number(class, "predicted") == (double)as &&
                    number(class, "correct") == (double)confused[k][k]);
        if (of) assert_true(fabs(number(class, "recall") - (double)confused[k][k] / (double)of) < 1e-8);
        if (as) assert_true(fabs(number(class, "precision") - (double)confused[k][k] / (double)as) < 1e-8);
        mistakes += confused[k][k];
    }
    assert_int_equal(mistakes, N_TEST);
    double last_share = 0;
    assert_int_equal(cJSON_GetArraySize(list_of(j, "worst")), 10);
    cJSON_ArrayForEach(mistake, list_of(j, "worst"))
    {
        const int i = (int)number(mistake, "image");
        assert_true(number(mistake, "label") == labels[i] && number(mistake, "predicted") != labels[i]);
        assert_true(fabs(number(mistake, "label_probability") - share[i][labels[i]]) < 1e-8);
        assert_true(number(mistake, "label_probability") >= last_share - 1e-9);
        last_share = number(mistake, "label_probability");
    }
    cJSON_Delete(j);
}

/* A blue image among the red ones is the only mistake. */
static void test_eval_shows_confusion_and_files(void **state)
{
    train_colours();
    write_colour("pics/test/red/also-blue.png", 10, 245, 8, 8);
    assert_status("eval --run @/colours --confusion --per-class --worst 3", 0);
    assert_stdout("confusion      rows: labels; columns: predictions\n"
                  "            0  1\n"
                  "0 red       2  1\n"
                  "1 sky-blue  .  2\n");
    assert_stdout("per class   images    recall  precision\n"
                  "0 red            3   66.67 %   100.00 %\n"
                  "1 sky-blue       2  100.00 %    66.67 %\n");
    assert_stdout("worst          1 of 1 mistakes: those whose label is the least probable\n");
    assert_stdout("pics/test/red/also-blue.png: red ");
    assert_stdout(" %, taken for sky-blue ");
    assert_status("report @/colours", 0);
    run_shell("grep -q 'pics/test/red/also-blue.png\">also-blue.png</span><br>loss ' @/colours/report.html");
    assert_status("eval --run @/colours --json --worst 0", 0);
    assert_stdout("\"worst\":[]");
    assert_status("eval --run @/colours", 0);
    assert_stdout("calibration    error ");
    assert_true(!strstr(last.out, "confusion") && !strstr(last.out, "per class") && !strstr(last.out, "worst"));
}

/* Of more than 20 classes, pairs: CIFAR-100's format, with coarse label 0 and the fine one before the pixels. */
static void test_eval_lists_pairs_of_many_classes(void **state)
{
    enum { RECORD = 2 + 3072, IMAGES = 6 };
    static uint8_t records[IMAGES * RECORD];
    for (int i = 0; i < IMAGES; i++) records[i * RECORD + 1] = (uint8_t)(i < 4 ? 40 : 41);
    mkdir(at("hundred"), 0700);
    write_bytes(at("hundred/train.bin"), records, sizeof records);
    write_bytes(at("hundred/test.bin"), records, sizeof records);
    /* Black images, so all get the class that most of them have. */
    assert_status("train --model 100 --data cifar100 --data-dir @/hundred --epochs 30 --batch 6 --lr 1 --optimizer sgd --json "
                  "--out @/pairs", 0);
    assert_status("eval --run @/pairs --confusion", 0);
    assert_stdout("confusion      the most frequent of 1 pairs\n  41 taken for 40: 2 of 2\n");
}

static void test_mistakes_are_named(void **state)
{
    assert_refuses("predict --run @/run", 2, "the images are missing: files or folders");
    assert_refuses("predict @/test", 2, "--run is missing");
    assert_refuses("predict --run @/run @/x.png --top 0", 2, "top 0 is not in 1..1000000");
    assert_refuses("predict --run @/run @/x.png --data mnist", 2, "unknown option '--data'");
    assert_refuses("predict --run @/none @/x.png", 1, "there is no run");
    assert_refuses("predict --run @/run @/none.png", 1, "qgrad predict: cannot open '");
    run_shell("rm @/run/best.safetensors");
    assert_refuses("predict --run @/run --best @/x.png", 1, "run/best.safetensors");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_it_agrees_with_eval, set_up_run, tear_down),
        cmocka_unit_test_setup_teardown(test_a_packed_net_says_the_same, set_up_run, tear_down),
        cmocka_unit_test_setup_teardown(test_neither_threads_nor_the_batch_change_a_digit, set_up_run, tear_down),
        cmocka_unit_test_setup_teardown(test_folders_of_any_images_in_byte_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_turned_photograph_is_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_16_bits_are_warned_about_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_bad_file_does_not_stop_the_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_classes_of_known_sets_have_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_eval_counts_what_predict_says, set_up_run, tear_down),
        cmocka_unit_test_setup_teardown(test_eval_shows_confusion_and_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_eval_lists_pairs_of_many_classes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_mistakes_are_named, set_up_run, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
