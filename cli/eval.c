/* qgrad eval: the accuracy of a run's weights on the test images, and their mistakes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/print.h"
#include "train/classes.h"
#include "cli/run/report.h"
#include "cli/run/run_spec.h"
#include "core/io/utf8.h"
#include "core/kernels/parallel.h"
#include "train/init.h"

typedef struct evaluation {
    config     *asked;
    qg_run     *run;
    qg_recipe   config;         /* its own; borrowed texts */
    qg_recipe   recipe;
    qg_loader  *train;          /* training images of the run, if its checkpoints do not note their preprocessing; or NULL */
    qg_preprocess *noted;       /* by its checkpoints; or NULL */
    qg_loader  *test;
    qg_recipe   other_config;   /* with another quantizer for the weights, --weight */
    qg_net     *other;          /* NULL: the run's own */
    qg__init_report init;
    qg_assessment   all;
    qg__class_names classes;
} evaluation;

/* The run's configuration with the weights' scheme of --weight. */
static qg_status exchange(evaluation *e)
{
    qg_status status = qg__recipe_over(&e->other_config, &e->config, 0, 0);
    if (!status) status = qg__recipe_put(&e->other_config, qg__recipe_key("weight"), config_text(e->asked, "weight"));
    qg__recipe_unset(&e->other_config, "quantize-weights-after");      /* of the weights' own quantizer */
    return status ? status : qg__recipe_check(&e->other_config);
}

/* A program has told neither its images nor how many it tests at a time, which decides no score. */
static qg_status take_program(evaluation *e)
{
    enum { BATCH = 64 };
    if (config_text(e->asked, "weight"))
        return qg_fail(QG_EARG, "weight: a program trained %s with qg_fit, so only its own quantizers are known", qg_run_directory(e->run));
    if (!config_text(e->asked, "data"))
        return qg_fail(QG_EARG, "%s: a program trained it with qg_fit, which does not say on which images; pass --data",
                       qg_run_directory(e->run));
    e->recipe.batch = BATCH;
    return QG_OK;
}

static qg_status configure(evaluation *e, bool *usage)
{
    const char *dir = e->asked->run;
    *usage          = !dir;
    if (!dir) return qg_fail(QG_EARG, "--run is missing: the directory of a run, or a checkpoint");
    e->run = run_open(dir, e->asked->best);
    if (!e->run) return qg_errcode();
    e->recipe = e->config = e->run->recipe;
    if (config_text(e->asked, "threads")) e->recipe.threads = e->asked->recipe.threads;
    if (config_text(e->asked, "cache")) e->recipe.cache = e->asked->recipe.cache;
    if (qg_run_config(e->run)) return take_program(e);
    return config_text(e->asked, "weight") ? exchange(e) : QG_OK;
}

static qg_status check_names(const evaluation *e, const qg_loader *l, const char *dir)
{
    if (qg__reader_has_classes(&e->config, l)) return QG_OK;
    return qg_fail(QG_EARG, "%s: its class names differ from those the run was trained on", dir);
}

/* The training images in dir, for the statistics of the normalisation, if they are those of the run; else NULL. */
static qg_loader *images_of_run(const evaluation *e, const char *dir)
{
    const char *stored = e->config.data_digest;
    qg_recipe   there  = e->recipe;
    char        found[32] = "";
    there.data_dir   = dir;
    qg_loader *train = qg__recipe_data(&there, false, NULL);
    if (!train || !stored) return train;
    qg_loader *test = qg__recipe_test_of(&there, train);
    if (test) snprintf(found, sizeof found, "%016" PRIx64, qg__data_digest(train, test));
    qg_loader_free(test);
    if (!strcmp(stored, found)) return train;
    if (*found && !check_names(e, train, dir))
        qg_fail(QG_EARG, "%s: the images have digest %s, but the run was trained on images with digest %s",
                dir ? dir : there.data.name, found, stored);
    qg_loader_free(train);
    return NULL;
}

/* *as: what the run does to its images, with statistics from its checkpoint or, if an earlier version wrote that, from its
 * training images, which may have moved to where the others are. */
static qg_status preprocessing(evaluation *e, const char *from, const qg_preprocess **as)
{
    *as = NULL;
    if (!qg_run_config(e->run) && !qg__normalise_fits(e->recipe.normalise)) return QG_OK;
    *as = e->noted = qg_preprocess_open(qg_run_file(e->run));
    if (*as) e->recipe.normalise = qg_preprocess_normalise(*as);
    if (*as || qg_errcode() != QG_ESTATE) return *as ? QG_OK : qg_errcode();
    e->train = images_of_run(e, e->recipe.data_dir);
    if (!e->train && from) e->train = images_of_run(e, from);
    *as = qg_loader_preprocess(e->train);
    return *as ? QG_OK : QG_EIO;
}

/* The data to test on are this verb's own affair, the run's configuration stays what it is. */
static qg_status open_images(evaluation *e)
{
    const char *data = config_text(e->asked, "data"), *from = e->asked->recipe.data_dir;
    const bool  other = data && (qg_run_config(e->run) || strcmp(data, qg__recipe_value(&e->config, "data")));
    const qg_preprocess *as;
    const qg_status status = preprocessing(e, other ? NULL : from, &as);
    if (status) return status;
    if (from || other) e->recipe.data_dir = from;
    if (data) e->recipe.data = e->asked->recipe.data;
    e->test = qg__recipe_data(&e->recipe, true, as);
    return e->test ? QG_OK : QG_EIO;
}

/* A second net with the parameters that the run's own net has just loaded and checked. */
static qg_status load_other(evaluation *e)
{
    const qg_shape image = qg_loader_shape(e->test);
    e->other = qg__reader_net(e->run, &e->other_config, image, qg_loader_classes(e->test), &e->init);
    return e->other ? QG_OK : qg_errcode();
}

/* The arrays do not fit a net for the test images: because these are of another size than the run's, or
 * else for the reason that is told already. */
static qg_status explain_misfit(const evaluation *e)
{
    if (!qg_run_classes(e->run)) return QG_ESHAPE;
    const char *data = e->recipe.data_dir ? e->recipe.data_dir : e->recipe.data.name;
    return qg__reader_check_size(data, e->test, qg_run_image(e->run), qg_run_classes(e->run)) ? QG_EARG : QG_ESHAPE;
}

static qg_status load(evaluation *e)
{
    qg_set_threads(e->recipe.threads);
    qg_status status = open_images(e);
    if (!status) status = check_names(e, e->test, e->recipe.data_dir);
    if (status) return status;
    report_warning(e->test);
    status = qg__reader_load(e->run, qg_loader_shape(e->test), qg_loader_classes(e->test));
    if (status == QG_ESHAPE) status = explain_misfit(e);
    return status || !config_text(e->asked, "weight") ? status : load_other(e);
}

/* --- mistakes ------------------------------------------------------------------------------ */

enum { MATRIX_CLASSES = 20, PAIRS = 20, WORST = 10, NAME_COLUMNS = 16 };

/* "3 cat", or "3" if the class is called so; what is beyond some columns is cut. */
static void title(const evaluation *e, int k, char text[64])
{
    const char *name = e->classes.name[k];
    char        number[16], cut[NAME_COLUMNS + 1];
    snprintf(number, sizeof number, "%d", k);
    qg__utf8_printable(name, cut, sizeof cut);
    snprintf(text, 64, "%s%s%s", number, strcmp(number, name) ? " " : "", strcmp(number, name) ? cut : "");
}

/* The columns of a text in UTF-8, of which most scripts have one per character. */
static int columns(const char *text)
{
    int n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

static void print_title(const evaluation *e, int k, int width)
{
    char text[64];
    title(e, k, text);
    printf("  %s%*s", text, width - columns(text), "");
}

static int title_width(const evaluation *e)
{
    int width = 0;
    for (int k = 0; k < e->all.classes; k++) {
        char text[64];
        title(e, k, text);
        if (columns(text) > width) width = columns(text);
    }
    return width;
}

static int digits(uint64_t n) { return n < 10 ? 1 : 1 + digits(n / 10); }

static void print_matrix(const evaluation *e)
{
    const qg_assessment *a = &e->all;
    const int             width = title_width(e);
    uint64_t              most = (uint64_t)a->classes - 1;
    for (int k = 0; k < a->classes; k++)
        if (a->labelled[k] > most) most = a->labelled[k];
    const int cell = digits(most) + 1;
    printf("\nconfusion      rows: labels; columns: predictions\n  %*s", width, "");
    for (int k = 0; k < a->classes; k++) printf(" %*d", cell, k);
    for (int i = 0; i < a->classes; i++) {
        fputc('\n', stdout);
        print_title(e, i, width);
        for (int k = 0; k < a->classes; k++) {
            const uint64_t n = qg_assessment_confusion(a, i, k);
            if (n) printf(" %*" PRIu64, cell, n);
            else printf(" %*s", cell, ".");
        }
    }
    fputc('\n', stdout);
}

static void print_pairs(const evaluation *e)
{
    const qg_assessment *a = &e->all;
    printf("\nconfusion      the most frequent of %zu pairs\n", a->n_confused);
    for (size_t i = 0; i < a->n_confused && i < PAIRS; i++) {
        const qg_confused *c = &a->confused[i];
        print_safe(stdout, "  %s taken for %s: %" PRIu64 " of %" PRIu64 "\n", e->classes.name[c->label],
                   e->classes.name[c->predicted], c->count, a->labelled[c->label]);
    }
}

static void print_share(double x)
{
    if (isnan(x)) printf("  %9s", "-");
    else printf("  %7.2f %%", 100 * x);
}

static void print_classes(const evaluation *e)
{
    const qg_assessment *a = &e->all;
    const int             width = title_width(e), n = digits(a->images) > 6 ? digits(a->images) : 6;
    printf("\nper class%*s  %*s  %9s  %9s\n", width > 7 ? width - 7 : 0, "", n, "images", "recall", "precision");
    for (int k = 0; k < a->classes; k++) {
        print_title(e, k, width > 7 ? width : 7);
        printf("  %*" PRIu64, n, a->labelled[k]);
        print_share(qg_assessment_recall(a, k));
        print_share(qg_assessment_precision(a, k));
        fputc('\n', stdout);
    }
}

static void print_worst(const evaluation *e)
{
    const qg_assessment *a = &e->all;
    printf("\nworst          %d of %" PRIu64 " mistakes: those whose label is the least probable\n", a->n_worst,
           a->images - a->correct);
    for (int i = 0; i < a->n_worst; i++) {
        const qg_mistake *m = &a->worst[i];
        char              file[QG__PATH_BYTES];
        if (qg_loader_file(e->test, m->image, file, sizeof file)) print_safe(stdout, "  %s", file);
        else printf("  image %" PRIu64, m->image);
        print_safe(stdout, ": %s %.2g %%, taken for %s %.2f %%\n", e->classes.name[m->label], 100 * exp(-m->loss),
                   e->classes.name[m->predicted], 100 * m->confidence);
    }
}

static void json_classes(const evaluation *e, qg__json *j)
{
    const qg_assessment *a = &e->all;
    qg__json_open(j, "classes", '[');
    for (int k = 0; k < a->classes; k++) {
        qg__json_open(j, NULL, '{');
        qg__json_text(j, "name", e->classes.name[k]);
        qg__json_integer(j, "images", a->labelled[k]);
        qg__json_integer(j, "predicted", a->predicted[k]);
        qg__json_integer(j, "correct", a->hit[k]);
        qg__json_real(j, "recall", qg_assessment_recall(a, k));
        qg__json_real(j, "precision", qg_assessment_precision(a, k));
        qg__json_close(j, '}');
    }
    qg__json_close(j, ']');
    qg__json_open(j, "confused", '[');
    for (size_t i = 0; i < a->n_confused; i++) {
        qg__json_open(j, NULL, '{');
        qg__json_integer(j, "label", (uint64_t)a->confused[i].label);
        qg__json_integer(j, "predicted", (uint64_t)a->confused[i].predicted);
        qg__json_integer(j, "images", a->confused[i].count);
        qg__json_close(j, '}');
    }
    qg__json_close(j, ']');
}

static void json_calibration(const qg_assessment *a, qg__json *j)
{
    qg__json_real(j, "calibration_error", qg_assessment_calibration_error(a));
    qg__json_open(j, "calibration", '[');
    for (int i = 0; i < QG_CALIBRATION_BINS; i++) {
        const qg_calibration_bin *bin = &a->bin[i];
        qg__json_open(j, NULL, '{');
        qg__json_integer(j, "images", bin->images);
        qg__json_real(j, "accuracy", (double)bin->correct / (double)bin->images);
        qg__json_real(j, "probability", bin->confidence / (double)bin->images);
        qg__json_close(j, '}');
    }
    qg__json_close(j, ']');
}

static void json_worst(const evaluation *e, qg__json *j)
{
    qg__json_open(j, "worst", '[');
    for (int i = 0; i < e->all.n_worst; i++) {
        const qg_mistake *m = &e->all.worst[i];
        char              file[QG__PATH_BYTES];
        qg__json_open(j, NULL, '{');
        qg__json_integer(j, "image", m->image);
        if (qg_loader_file(e->test, m->image, file, sizeof file)) qg__json_path(j, "file", file);
        qg__json_integer(j, "label", (uint64_t)m->label);
        qg__json_integer(j, "predicted", (uint64_t)m->predicted);
        qg__json_real(j, "label_probability", exp(-m->loss));
        qg__json_real(j, "probability", m->confidence);
        qg__json_close(j, '}');
    }
    qg__json_close(j, ']');
}

/* --- the result ---------------------------------------------------------------------------- */

static void print(const evaluation *e)
{
    const char  *file = run_file_name(e->run), *trained = qg_run_get(e->run, "weight");
    const char  *weight = e->other ? qg__recipe_value(&e->other_config, "weight") : trained;
    const double margin = qg_proportion_error(e->all.accuracy, e->all.images);
    char         digest[17];
    run_digest(e->run, digest);
    if (!e->asked->json) {
        print_safe(stdout, "run            %s\n", qg_run_file(e->run));
        if (e->other) printf("weights        %s, trained as %s\n", weight, trained);
        if (*e->init.kept) print_safe(stdout, "               initialised as usual: %s\n", e->init.kept);
        printf("data           %s, %" PRIu64 " test images\n", e->recipe.data.name,
               e->all.images);
        printf("test accuracy  %.2f %% ± %.2f %%\n", 100 * e->all.accuracy, 100 * margin);
        printf("test loss      %.6g\n", e->all.loss);
        printf("calibration    error %.2f %% (15 bins)\n", 100 * qg_assessment_calibration_error(&e->all));
        printf("digest         %s\n", digest);
        if (e->asked->confusion) e->all.classes > MATRIX_CLASSES ? print_pairs(e) : print_matrix(e);
        if (e->asked->per_class) print_classes(e);
        if (e->all.most_worst) print_worst(e);
        return;
    }
    qg__json j = qg__json_begin(stdout);
    qg__json_path(&j, "run", qg_run_directory(e->run));
    qg__json_text(&j, "file", file);
    qg__json_text(&j, "model", qg__recipe_value(&e->config, "model"));
    qg__json_text(&j, "weight", weight);
    qg__json_text(&j, "data", e->recipe.data.name);
    qg__json_integer(&j, "images", e->all.images);
    qg__json_real(&j, "test_accuracy", e->all.accuracy);
    qg__json_real(&j, "test_accuracy_stderr", margin);
    qg__json_real(&j, "test_loss", e->all.loss);
    json_calibration(&e->all, &j);
    json_classes(e, &j);
    json_worst(e, &j);
    report_machine(&j);
    qg__json_text(&j, "digest", digest);
    qg__json_end(&j);
}

static qg_status measure(evaluation *e)
{
    const config *asked   = e->asked;
    const int     classes = qg_loader_classes(e->test), worst = asked->json && !config_text(asked, "worst") ? WORST : asked->worst;
    qg_status     status = qg__class_names_begin(&e->classes, qg_run_note(e->run, "class-names"), e->recipe.data.name, classes);
    return status ? status : qg__reader_evaluate(e->run, e->other ? e->other : e->run->net, e->test, worst, &e->all);
}

static int evaluate(evaluation *e)
{
    bool      usage;
    qg_status status = configure(e, &usage);
    if (status) return options_report("qgrad eval", usage);
    status = load(e);
    if (!status) status = measure(e);
    if (status) return qg_print_error("qgrad eval");
    print(e);
    return EXIT_DONE;
}

static int eval_main(const char *program, const char *operand, config *asked)
{
    (void)program, (void)operand;
    evaluation e      = { .asked = asked };
    const int  status = evaluate(&e);
    qg__class_names_end(&e.classes);
    qg_assessment_free(&e.all);
    qg_net_free(e.other);
    qg_loader_free(e.test);
    qg_loader_free(e.train);
    qg_preprocess_free(e.noted);
    qg__recipe_clear(&e.other_config);
    qg_run_close(e.run);
    return status;
}

static const verb_option own_options[] = {
    { "data" }, { "weight" }, { "data-dir" }, { "threads" }, { "cache" }, { "run" }, { "best" }, { "confusion" }, { "per-class" },
    { "worst" }, { NULL }
};

const verb eval_verb = {
    .name = "eval", .about = "Measure the test accuracy of a run", .usage = "eval RUN [options]",
    .run = eval_main, .has_operand = true, .operand = "run", .reads_run = true,
    .options = (const verb_option *const[]){ common_options, own_options, NULL },
};
