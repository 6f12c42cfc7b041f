/* A net in C computes what the net computes in QG_EVAL, bit for bit.  Each file is compiled by $CC,
 * with warnings as errors, and loaded.  With QGRAD_EVERY set, all nets of tests/support/exported.h
 * have their turn (make check-c). */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "core/io/paths.h"
#include "layers/export/export.h"
#include "layers/models/text.h"
#include "quant/schemes/formulas.h"
#include "tests/support/environment.h"
#include "tests/support/exported.h"
#include "tests/support/nets.h"
#include "tests/support/room.h"
#include "tests/support/testing.h"

#define WARNINGS "-Wall -Wextra -Wpedantic -Werror"

enum { N = 3 };

typedef int (*predictor)(const void *image, float *scores);

/* Compiles a file of the room, with flags. */
static void compile(const char *flags, const char *from, const char *to, const char *what)
{
    char        command[800];
    const char *cc = getenv("CC");
    snprintf(command, sizeof command, "cd %s && %s -std=c99 %s -o %s %s >log 2>&1", room, cc ? cc : "cc", flags, to,
             from);
    if (!system(command)) return;
    snprintf(command, sizeof command, "head -n 20 %s/log", room);
    (void)!system(command);
    fail_msg("%s: the file does not compile", what);
}

static unsigned char *export(const qg_net *net, qg_export_spec spec, size_t *bytes, const char *what)
{
    unsigned char *text;
    spec.format = QG_EXPORT_C;
    spec.step   = 1;
    if (qg_export_bytes(net, spec, &text, bytes)) fail_msg("%s: %s", what, qg_errmsg());
    write_in_room("net.c", text, *bytes);
    return text;
}

/* The scores and labels of all images of the rig, which the net in C reads at images. */
static void compare(rig *r, const void *images, size_t image_bytes, qg_export_spec spec, const char *what)
{
    static int count;               /* a library of the same name would not be loaded again */
    char       name[32];
    size_t     bytes;
    free(export(r->net, spec, &bytes, what));
    snprintf(name, sizeof name, "net%d.so", count++);
    compile(WARNINGS " -O1 -shared -fPIC", "net.c", name, what);
    void *library = dlopen(in_room(name), RTLD_NOW | RTLD_LOCAL);
    void *symbol  = library ? dlsym(library, "net_predict") : NULL;
    if (!symbol) fail_msg("%s: %s", what, dlerror());
    predictor predict;
    memcpy(&predict, &symbol, sizeof symbol);
    const qg_var *y      = rig_scores(r, r->image.n);
    const size_t  row    = qg_row(y->shape);
    float        *scores = malloc(row * sizeof *scores);
    assert_non_null(scores);
    for (int i = 0; i < r->image.n; i++) {
        const float *z = y->data + (size_t)i * row;
        size_t       best = 0;
        for (size_t k = 1; k < row; k++) best = z[k] > z[best] ? k : best;
        assert_int_equal(predict((const char *)images + (size_t)i * image_bytes, scores), best);
        for (size_t k = 0; k < row; k++)
            if (memcmp(&scores[k], &z[k], sizeof *z))
                fail_msg("%s: image %d: score %zu is %.9g, in evaluation %.9g", what, i, k, (double)scores[k],
                         (double)z[k]);
    }
    dlclose(library);
    free(scores);
}

/* Whether the net, of which some quantizers have no codes, is refused by name. */
static bool is_refused(const qg_net *net)
{
    unsigned char       *text;
    size_t               bytes;
    const qg_export_spec spec = { .format = QG_EXPORT_C, .floats_only = true };
    if (!qg_export_bytes(net, spec, &text, &bytes)) return free(text), false;
    assert_message("fc1: its input has");
    return true;
}

static void nets_of_every_sort_are_exact(void **state)
{
    static const int steps[EXPORTED_SORTS] = { 101, 23, 2, 0 };
    for (exported_sort sort = 0; sort < EXPORTED_SORTS; sort++) {
        const int step = every_combination() ? 1 : steps[sort], n = step ? exported_count(sort) : 0;
        for (int i = 0; i < n; i += step) {
            char what[WHAT_BYTES];
            rig  r;
            if (!rig_begin(&r, exported_declare(sort, i, what), N)) {
                if (!exported_may_fail(sort, i)) fail_msg("%s: %s", what, qg_errmsg());
            } else if (sort != EXPORTED_PAIRS || !is_refused(r.net)) {
                const qg_export_spec spec = { .floats_only = true };
                compare(&r, r.x, qg_row(r.image) * sizeof *r.x, spec, what);
            }
            rig_end(&r);
        }
    }
}

/* Codes of bytes come from a table, or are the bytes; floats are normalised. */
static void bytes_are_read_as_in_training(void **state)
{
    static const char *const texts[] = { "IQ-8C3s2-BN-R-6", "8C3s2-BN-R-6" };
    static const float       mean[3] = { 0.4f, 0.5f, 0.3f }, deviation[3] = { 0.2f, 0.3f, 1 };
    static const float       zero[1], one[1] = { 1 };
    const qg_quant           w = qg_lsq((qg_lsq_spec){ .bits = 8, .is_signed = true });
    const qg_fake_quant_spec range = { .range = QG_RANGE_FIXED, .min = 0, .max = 1 };
    for (int i = 0; i < 4; i++) {
        const bool          own = i / 2;
        rig                 r;
        unsigned char       byte[N * 6 * 5 * 3];
        const qg_model_spec spec = { .height = 6, .width = 5, .channels = 3, .classes = 6, .seed = 2,
                                     .weight = w, .input = qg_fake_quant(range) };
        assert_true(rig_begin(&r, qg_net_from_text(texts[i % 2], spec), N));
        for (int k = 0; k < COUNT(byte); k++) {
            byte[k] = (unsigned char)(k * 37 % 256);
            r.x[k]  = (float)byte[k] / 255.0f;
            if (own) r.x[k] = (r.x[k] - mean[k % 3]) / deviation[k % 3];
        }
        compare(&r, byte, sizeof byte / N,
                own ? (qg_export_spec){ .numbers = 3, .mean = mean, .deviation = deviation }
                    : (qg_export_spec){ .numbers = 1, .mean = zero, .deviation = one }, texts[i % 2]);
        char *text = NULL;
        assert_ok(qg__text_read(QG_BY_PATH, in_room("net.c"), 1 << 20, &text, &(size_t){ 0 }));
        const bool floats = strstr(text, "normalise(") != NULL, table = strstr(text, "look_up(") != NULL;
        assert_true(floats == i % 2 && table == (i == 2));         /* of i = 0 the bytes are the codes */
        if (!floats) assert_null(strstr(text, "find("));            /* no code is found with floats */
        free(text);
        rig_end(&r);
    }
}

/* Names of layers become identifiers, which differ from each other and from those of the file itself. */
static void names_of_layers_do_not_meet(void **state)
{
    static const char *const names[] = { "image", "a_2", "a_b", "a-b", "a_numbers",
                                         "quantize", "codes_to", "7", "a b" };
    static const float       zero[1], one[1] = { 1 };
    unsigned char            byte[N * 4];
    rig                      r;
    qg_net_spec              spec = { .height = 2, .width = 2, .channels = 1, .seed = 3 };
    qg_net                  *net  = qg_net_new(spec);
    for (int i = 0; i < COUNT(names); i++) qg_net_dense(net, (qg_dense_spec){ .out = 4, .name = names[i] });
    assert_true(rig_begin(&r, net, N));
    for (int k = 0; k < COUNT(byte); k++) r.x[k] = (float)(byte[k] = (unsigned char)(k * 37)) / 255.0f;
    compare(&r, byte, 4, (qg_export_spec){ .numbers = 1, .mean = zero, .deviation = one }, "names");
    rig_end(&r);
}

/* The program reads a PPM, of which the header may have comments, and prints the label and the scores. */
static void the_program_prints_label_and_scores(void **state)
{
    static const qg_note names = { "class-names", "a\"b/?\?/\303\244" };
    static const float   zero[1], one[1] = { 1 };
    rig                  r;
    unsigned char        image[64] = "P6 # a comment\n4 2\n255\n";
    const size_t         head = strlen((char *)image);
    char                 command[200], line[64], expected[64];
    size_t               bytes;
    const qg_model_spec  spec = { .height = 2, .width = 4, .channels = 3, .classes = 3, .seed = 2 };
    assert_true(rig_begin(&r, qg_net_from_text("3", spec), 1));
    for (size_t i = 0; i < 24; i++) r.x[i] = (float)(image[head + i] = (unsigned char)(10 * i)) / 255.0f;
    const qg_export_spec read = { .numbers = 1, .mean = zero, .deviation = one, .notes = 1, .note = &names };
    free(export(r.net, read, &bytes, "main"));
    compile(WARNINGS " -DNET_MAIN", "net.c", "net", "main");
    write_in_room("image.ppm", image, head + 24);
    snprintf(command, sizeof command, "cd %s && ./net image.ppm", room);
    FILE        *out = popen(command, "r");
    const float *z   = rig_scores(&r, 1)->data;
    const int    best = z[1] > z[0] ? (z[2] > z[1] ? 2 : 1) : z[2] > z[0] ? 2 : 0;
    assert_non_null(out);
    assert_non_null(fgets(line, sizeof line, out));
    assert_string_equal(line, ((const char *[]){ "a\"b\n", "?\?\n", "\303\244\n" })[best]);
    for (int k = 0; k < 3; k++) {
        snprintf(expected, sizeof expected, "%.9g\n", (double)z[k]);
        assert_non_null(fgets(line, sizeof line, out));
        assert_string_equal(line, expected);
    }
    assert_int_equal(pclose(out), 0);
    snprintf(command, sizeof command, "cd %s && ./net net.c 2>log", room);
    assert_true(system(command) != 0);
    rig_end(&r);
}

/* Also where no program can read the images. */
static void every_file_names_its_classes(void **state)
{
    static const float  zero[1], one[1] = { 1 };
    rig                 r;
    size_t              bytes;
    const qg_model_spec spec = { .height = 2, .width = 4, .channels = 2, .classes = 3, .seed = 2 };
    assert_true(rig_begin(&r, qg_net_from_text("3", spec), 1));
    const qg_export_spec read = { .numbers = 1, .mean = zero, .deviation = one };
    char                *text = (char *)export(r.net, read, &bytes, "names");
    assert_non_null(strstr(text, "net_names[NET_SCORES]"));
    free(text);
    compile(WARNINGS " -DNET_NAMES -Wno-unused-const-variable -shared -fPIC", "net.c", "net.so", "names");
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nets_of_every_sort_are_exact, room_enter, room_leave),
        cmocka_unit_test_setup_teardown(bytes_are_read_as_in_training, room_enter, room_leave),
        cmocka_unit_test_setup_teardown(names_of_layers_do_not_meet, room_enter, room_leave),
        cmocka_unit_test_setup_teardown(every_file_names_its_classes, room_enter, room_leave),
        cmocka_unit_test_setup_teardown(the_program_prints_label_and_scores, room_enter, room_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
