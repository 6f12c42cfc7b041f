/* qgrad infer: the accuracy and speed of a packed net on the test images. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/print.h"
#include "cli/run/packed.h"
#include "cli/run/report.h"
#include "cli/run/run_spec.h"
#include "core/clock.h"
#include "core/io/utf8.h"
#include "core/kernels/parallel.h"

static const double PROFILE_SECONDS = 0.5;

typedef struct inference {
    config      *asked;
    const char  *path;
    const char  *data;              /* the name of the set, in */
    char         name[64];
    packed_net   packed;
    qg_loader   *test;
    float       *scores;            /* [images][scores] */
    int          most;              /* images that are read at a time: all, if they are in memory */
    uint8_t     *room;              /* for these, if they are in files; or NULL */
    double       seconds;
    double      *step;              /* [steps], microseconds of an image, with --profile */
    uint64_t     correct;
    uint64_t     equal, same_labels;    /* scores and labels that are those of --run */
    double       furthest;              /* the largest difference of two scores */
} inference;

/* Sets what no configuration stores but the table gives as the default. */
static qg_status set_default(config *asked, const char *name)
{
    const option *o = option_find(name);
    return config_text(asked, name) ? QG_OK : config_set(asked, name, o->fallback);
}

static qg_status configure(inference *v)
{
    v->path = config_text(v->asked, "packed");
    if (!v->path) return qg_fail(QG_EARG, "FILE is missing: the packed file that qgrad export wrote");
    if (config_flag(v->asked, "best") && !config_text(v->asked, "run"))
        return qg_fail(QG_EARG, "--best chooses the weights of --run, which is missing");
    return set_default(v->asked, "batch");
}

/* The directory of the images of --run, if these are the images. */
static qg_status take_directory(inference *v)
{
    qg_status status = QG_OK;
    if (!config_text(v->asked, "run") || config_text(v->asked, "data-dir")) return QG_OK;
    qg_run *run = qg_run_open(config_text(v->asked, "run"), config_flag(v->asked, "best") ? QG_RUN_BEST : QG_RUN_LAST);
    if (!run) return qg_errcode();
    const char *where = qg_run_get(run, "data-dir");
    if (where && !strcmp(qg_run_get(run, "data"), config_text(v->asked, "data"))) status = config_set(v->asked, "data-dir", where);
    qg_run_close(run);
    return status;
}

/* The images that the net was trained for, unless --data names others.  The file may come from anywhere, so it names a set, but
 * no files. */
static qg_status choose_data(inference *v)
{
    const char *noted = config_text(v->asked, "data") ? NULL : qg_infer_note(v->packed.net, "data");
    qg_status   status = noted ? config_set(v->asked, "data", noted) : QG_OK;
    if (!status && noted && run_data_names_files(noted)) status = QG_EARG;
    if (status) return qg_fail(status, "%s: was trained on %s; pass --data", v->path, noted);
    status = set_default(v->asked, "data");
    if (status) return status;
    v->data = run_data_name(config_text(v->asked, "data"), v->name);
    if (config_text(v->asked, "cache") && strcmp(v->data, "folder"))
        return qg_fail(QG_EARG, "cache: only images of a folder are decoded when they are needed; %s stays in memory", v->data);
    return take_directory(v);
}

/* Labels of a folder are numbers of names. */
static qg_status check_names(const inference *v)
{
    const char *noted = qg_infer_note(v->packed.net, "class-names"), *name = qg_loader_class_names(v->test);
    if (!noted || !name) return QG_OK;
    for (int k = 0; k < qg_loader_classes(v->test); k++, name += strlen(name) + 1) {
        char         shown[QG__PATH_BYTES];         /* as a checkpoint notes it */
        const size_t n = strcspn(noted, "/");
        qg__utf8_printable(name, shown, sizeof shown);
        if (strlen(shown) != n || memcmp(noted, shown, n))
            return qg_fail(QG_EARG, "%s: its class %d is %.*s, but that of the images is %s", v->path, k, (int)n, noted, name);
        noted += n + (noted[n] == '/');
    }
    return QG_OK;
}

static qg_status check_images(const inference *v)
{
    const qg_shape has = qg_loader_shape(v->test), is = v->packed.image;
    if (has.h != is.h || has.w != is.w || has.c != is.c)
        return qg_fail(QG_EARG, "%s: takes images of %dx%dx%d, but those of %s have %dx%dx%d", v->path, is.h, is.w, is.c, v->data,
                       has.h, has.w, has.c);
    if (qg_loader_classes(v->test) > v->packed.scores)
        return qg_fail(QG_EARG, "%s: has %d class%s, but %s has %d", v->path, v->packed.scores, v->packed.scores == 1 ? "" : "es",
                       v->data, qg_loader_classes(v->test));
    return check_names(v);
}

static int smaller(int a, int b) { return a < b ? a : b; }

/* For the scores of all images and, if these stay in files, for a batch of each thread. */
static qg_status take_memory(inference *v)
{
    const int  all = qg_loader_shape(v->test).n;
    const bool in_files = !qg_loader_bytes(v->test, 0, 0, NULL);
    v->most   = in_files ? smaller(all, v->packed.batch * v->packed.threads) : all;
    v->scores = malloc((size_t)all * (size_t)v->packed.scores * sizeof *v->scores);
    if (in_files) v->room = malloc((size_t)v->most * qg_row(v->packed.image));
    return v->scores && (v->room || !in_files) ? QG_OK : qg_fail(QG_EMEM, "out of memory: the scores of all images");
}

static qg_status open(inference *v)
{
    const config *asked = v->asked;
    const int     batch = config_integer(asked, "batch");
    qg_set_threads(config_integer(asked, "threads"));
    qg_status status = packed_open(&v->packed, v->path, (qg_infer_requantize)config_word(asked, "requantize"));
    if (!status) status = choose_data(v);
    if (status) return status;
    const qg_loader_spec how = { .batch = batch, .in_order = true, .cache_bytes = config_bytes(asked, "cache") };
    v->test = qg_data_test(config_text(asked, "data"), config_text(asked, "data-dir"), how);
    if (!v->test) return qg_errcode();
    report_warning(v->test);
    status = check_images(v);
    if (!status) status = packed_prepare(&v->packed, batch);
    return status ? status : take_memory(v);
}

/* Scores images first .. first + n - 1, of which v->most are read at a time.  Adds up the seconds that the engine takes. */
static qg_status score(inference *v, int first, int n)
{
    qg_status status = QG_OK;
    for (int at = first, now; at < first + n && !status; at += now) {
        now                   = smaller(first + n - at, v->most);
        const uint8_t *images = qg_loader_bytes(v->test, at, now, v->room);
        if (!images) return qg_errcode();
        const double began = qg__now();
        status = packed_score(&v->packed, v->path, now, images, v->scores + (size_t)at * (size_t)v->packed.scores);
        v->seconds += qg__now() - began;
    }
    return status;
}

/* All images once, after a first batch that touches the memory. */
static qg_status run(inference *v)
{
    const int n      = qg_loader_shape(v->test).n;
    qg_status status = score(v, 0, smaller(n, v->packed.batch * v->packed.threads));
    v->seconds       = 0;
    if (!status) status = score(v, 0, n);
    const qg_var scores = { .shape = { n, 1, 1, v->packed.scores }, .data = v->scores };
    if (!status) v->correct = (uint64_t)qg_count_correct(&scores, qg_loader_labels(v->test));
    return status;
}

/* The first of the largest scores. */
static int label_of(const float *scores, int n)
{
    int best = 0;
    for (int k = 1; k < n; k++) best = scores[k] > scores[best] ? k : best;
    return best;
}

static void compare_image(inference *v, const float *here, const float *there)
{
    const int n = v->packed.scores;
    for (int k = 0; k < n; k++) {
        const double difference = fabs((double)here[k] - (double)there[k]);
        v->equal += !memcmp(&here[k], &there[k], sizeof *here);
        if (!(difference <= v->furthest)) v->furthest = difference;
    }
    v->same_labels += label_of(here, n) == label_of(there, n);
}

/* The scores with those of evaluation, for all images. */
static qg_status compare_with(inference *v, qg_run *r)
{
    const size_t scores = (size_t)v->packed.scores;
    const int    all    = qg_loader_shape(v->test).n;
    if (!qg_shape_equal(qg_run_image(r), v->packed.image) || qg_run_classes(r) != v->packed.scores)
        return qg_fail(QG_EARG, "%s: has other images or classes than %s", config_text(v->asked, "run"), v->path);
    const char *noted = qg_infer_note(v->packed.net, "digest");
    char        digest[17];
    run_digest(r, digest);
    if (noted && strcmp(noted, digest))
        print_safe(stderr, "qgrad: warning: the weights of %s have digest %s, and those of %s %s; was it "
                   "exported from another run, or with --best?\n", v->path, noted, qg_run_file(r), digest);
    float    *there  = malloc((size_t)v->most * scores * sizeof *there);
    qg_status status = there ? QG_OK : qg_fail(QG_EMEM, "out of memory: the scores of %d images", v->most);
    for (int at = 0; at < all && !status; at += v->most) {
        const int      n      = smaller(all - at, v->most);
        const uint8_t *images = qg_loader_bytes(v->test, at, n, v->room);
        status                = images ? qg_run_predict(r, n, images, there) : qg_errcode();
        for (size_t i = 0; i < (size_t)n && !status; i++)
            compare_image(v, v->scores + ((size_t)at + i) * scores, there + i * scores);
    }
    free(there);
    return status;
}

static qg_status compare(inference *v)
{
    qg_run         *r      = run_open(v->asked);
    const qg_status status = r && !qg_run_predict(r, 0, NULL, NULL) ? compare_with(v, r) : qg_errcode();
    qg_run_close(r);
    return status;
}

static void print(const inference *v)
{
    const uint64_t images   = (uint64_t)qg_loader_shape(v->test).n;
    const double   accuracy = (double)v->correct / (double)images, margin = qg_proportion_error(accuracy, images);
    const double   speed    = (double)images / v->seconds;
    const qg_infer *net     = v->packed.net;
    if (!config_flag(v->asked, "json")) {
        print_safe(stdout, "net            %s, %zu bytes, %d step%s\n", v->path, v->packed.bytes, qg_infer_steps(net),
                   qg_infer_steps(net) == 1 ? "" : "s");
        printf("data           %s, %" PRIu64 " test images\n", v->data, images);
        printf("test accuracy  %.2f %% ± %.2f %%\n", 100 * accuracy, 100 * margin);
        if (config_word(v->asked, "requantize"))
            printf("requantized    %d products by TFLite's fixed-point operator\n", qg_infer_fixed_point(net));
        printf("speed          %.0f images/s, batches of %d, %d thread%s, %s\n", speed, v->packed.batch, v->packed.threads,
               v->packed.threads == 1 ? "" : "s", qg_cpu_path());
        if (config_text(v->asked, "run"))
            printf("evaluation     %" PRIu64 " of %" PRIu64 " scores equal, the others within %.3g; %" PRIu64 " of %" PRIu64
                   " labels equal\n", v->equal, images * (uint64_t)v->packed.scores, v->furthest, v->same_labels, images);
        if (v->step) packed_print_profile(&v->packed, v->step, 32);
        return;
    }
    qg__json j = qg__json_begin(stdout);
    qg__json_path(&j, "packed", v->path);
    qg__json_integer(&j, "file_bytes", v->packed.bytes);
    qg__json_integer(&j, "weight_bytes", qg_infer_weight_bytes(net));
    qg__json_integer(&j, "steps", (uint64_t)qg_infer_steps(net));
    qg__json_text(&j, "digest", qg_infer_note(net, "digest"));
    qg__json_text(&j, "data", v->data);
    qg__json_integer(&j, "images", images);
    qg__json_real(&j, "test_accuracy", accuracy);
    qg__json_real(&j, "test_accuracy_stderr", margin);
    qg__json_text(&j, "requantize", config_text(v->asked, "requantize"));
    qg__json_integer(&j, "fixed_point", (uint64_t)qg_infer_fixed_point(net));
    qg__json_integer(&j, "batch", (uint64_t)v->packed.batch);
    qg__json_real(&j, "seconds", v->seconds);
    qg__json_real(&j, "images_per_second", speed);
    if (config_text(v->asked, "run")) {
        qg__json_integer(&j, "equal_scores", v->equal);
        qg__json_integer(&j, "equal_labels", v->same_labels);
        qg__json_real(&j, "largest_difference", v->furthest);
    }
    if (v->step) packed_json_profile(&v->packed, v->step, &j);
    report_machine(&j);
    qg__json_end(&j);
}

static int infer(inference *v)
{
    qg_status status = configure(v);
    if (!status) status = open(v);
    if (!status) status = run(v);
    if (!status && config_text(v->asked, "run")) status = compare(v);
    if (!status && config_flag(v->asked, "profile"))
        status = packed_profile(&v->packed, v->path, PROFILE_SECONDS, &v->step);
    if (status) return print_failure(v->asked);
    print(v);
    return EXIT_DONE;
}

static int infer_main(config *asked)
{
    inference v      = { .asked = asked };
    const int status = infer(&v);
    packed_close(&v.packed);
    qg_loader_free(v.test);
    free(v.scores);
    free(v.room);
    free(v.step);
    return status;
}

static const verb_option own_options[] = {
    { "data", "the data set; default: that of the net" }, { "batch", "images that pass through the net together" },
    { "data-dir" }, { "threads" }, { "cache" },
    { "run", "a run, or a checkpoint, whose scores are compared with those of\nthe packed net" }, { "best" },
    { "packed" }, { "requantize" }, { "profile" }, { NULL }
};

const verb infer_verb = {
    .name = "infer", .about = "Run an exported net on the test images", .usage = "infer FILE [--data NAME] [options]",
    .run = infer_main, .has_operand = true, .operand = "packed",
    .options = (const verb_option *const[]){ common_options, own_options, NULL },
};
