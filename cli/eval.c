/* qgrad eval: the accuracy of a run's weights on the test images, and their mistakes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/print.h"
#include "cli/run/report.h"
#include "cli/run/run_spec.h"
#include "cli/run/table.h"
#include "core/io/utf8.h"

typedef struct evaluation {
    config         *asked;
    qg_run         *run;
    qg_loader      *test;
    qg_net         *other;          /* with another quantizer for the weights, --weight; NULL: the run's own */
    char            fresh[1024];    /* its learned values that the run does not have */
    char            data[64];       /* the name of the set */
    qg_assessment   all;
} evaluation;

/* The data to test on are this verb's own affair, the run's configuration stays what it is. */
static qg_status load(evaluation *e)
{
    const config *asked = e->asked;
    const char   *data  = config_text(asked, "data");
    e->run              = run_open(asked);
    if (!e->run) return qg_errcode();
    e->test = qg_run_test(e->run, (qg_run_test_spec){ data, config_text(asked, "data-dir"), config_bytes(asked, "cache") });
    if (!e->test) return qg_errcode();
    run_data_name(data ? data : qg_run_get(e->run, "data"), e->data);
    report_warning(e->test);
    if (!config_text(asked, "weight")) return QG_OK;
    e->other = qg_run_net_with(e->run, asked->recipe, e->fresh, sizeof e->fresh);
    if (!e->other) return qg_errcode();
    report_unused(e->other, QG_WEIGHT, config_text(asked, "weight"), qg_run_get(e->run, "first-last"));
    return QG_OK;
}

/* --- mistakes ------------------------------------------------------------------------------ */

enum { MATRIX_CLASSES = 20, PAIRS = 20, WORST = 10, NAME_COLUMNS = 16 };

/* "3 cat", or "3" if the class is called so; what is beyond some columns is cut. */
static void title(const evaluation *e, int k, char text[64])
{
    const char *name = qg_run_class(e->run, k);
    char        number[16], cut[NAME_COLUMNS + 1];
    snprintf(number, sizeof number, "%d", k);
    qg__utf8_printable(name, cut, sizeof cut);
    snprintf(text, 64, "%s%s%s", number, strcmp(number, name) ? " " : "", strcmp(number, name) ? cut : "");
}

static qg_status print_matrix(const evaluation *e)
{
    const qg_assessment *a = &e->all;
    table                t = table_begin(1 + a->classes);
    char                 text[64];
    table_title(&t, "", false);
    for (int k = 0; k < a->classes; k++) snprintf(text, sizeof text, "%d", k), table_title(&t, text, true);
    for (int i = 0; i < a->classes; i++) {
        title(e, i, text);
        table_add(&t, text);
        for (int k = 0; k < a->classes; k++) {
            const uint64_t n = qg_assessment_confusion(a, i, k);
            snprintf(text, sizeof text, "%" PRIu64, n);
            table_add(&t, n ? text : ".");
        }
    }
    printf("\nconfusion      rows: labels; columns: predictions\n");
    return table_print(&t, stdout);
}

static void print_pairs(const evaluation *e)
{
    const qg_assessment *a = &e->all;
    printf("\nconfusion      the most frequent of %zu pairs\n", a->n_confused);
    for (size_t i = 0; i < a->n_confused && i < PAIRS; i++) {
        const qg_confused *c = &a->confused[i];
        print_safe(stdout, "  %s taken for %s: %" PRIu64 " of %" PRIu64 "\n", qg_run_class(e->run, c->label),
                   qg_run_class(e->run, c->predicted), c->count, a->labelled[c->label]);
    }
}

static void add_share(table *t, double x)
{
    char text[32];
    snprintf(text, sizeof text, "%.2f %%", 100 * x);
    table_add(t, isnan(x) ? "-" : text);
}

static qg_status print_classes(const evaluation *e)
{
    const qg_assessment *a = &e->all;
    table                t = table_begin(4);
    table_title(&t, "per class", false);
    table_title(&t, "images", true);
    table_title(&t, "recall", true);
    table_title(&t, "precision", true);
    for (int k = 0; k < a->classes; k++) {
        char text[64];
        title(e, k, text);
        table_add(&t, text);
        snprintf(text, sizeof text, "%" PRIu64, a->labelled[k]);
        table_add(&t, text);
        add_share(&t, qg_assessment_recall(a, k));
        add_share(&t, qg_assessment_precision(a, k));
    }
    fputc('\n', stdout);
    return table_print(&t, stdout);
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
        print_safe(stdout, ": %s %.2g %%, taken for %s %.2f %%\n", qg_run_class(e->run, m->label), 100 * m->probability,
                   qg_run_class(e->run, m->predicted), 100 * m->confidence);
    }
}

static void json_classes(const evaluation *e, qg__json *j)
{
    const qg_assessment *a = &e->all;
    qg__json_open(j, "classes", '[');
    for (int k = 0; k < a->classes; k++) {
        qg__json_open(j, NULL, '{');
        qg__json_text(j, "name", qg_run_class(e->run, k));
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
        qg__json_real(j, "label_probability", m->probability);
        qg__json_real(j, "probability", m->confidence);
        qg__json_close(j, '}');
    }
    qg__json_close(j, ']');
}

/* --- the result ---------------------------------------------------------------------------- */

static void print_tta(const evaluation *e)
{
    const double a = e->all.tta_accuracy;
    printf("with --tta     %.2f %% ± %.2f %%\n", 100 * a, 100 * qg_proportion_error(a, e->all.images));
}

static qg_status print(const evaluation *e)
{
    const char  *file = run_file_name(e->run), *trained = qg_run_get(e->run, "weight");
    const char  *weight = e->other ? config_text(e->asked, "weight") : trained;
    const double margin = qg_proportion_error(e->all.accuracy, e->all.images);
    qg_status    status = QG_OK;
    char         digest[17];
    run_digest(e->run, digest);
    if (!config_flag(e->asked, "json")) {
        print_safe(stdout, "run            %s\n", qg_run_file(e->run));
        if (e->other) printf("weights        %s, trained as %s\n", weight, trained);
        if (*e->fresh) print_safe(stdout, "               initialised as usual: %s\n", e->fresh);
        printf("data           %s, %" PRIu64 " test images\n", e->data, e->all.images);
        printf("test accuracy  %.2f %% ± %.2f %%\n", 100 * e->all.accuracy, 100 * margin);
        if (config_flag(e->asked, "tta")) print_tta(e);
        printf("test loss      %.6g\n", e->all.loss);
        printf("calibration    error %.2f %% (15 bins)\n", 100 * qg_assessment_calibration_error(&e->all));
        printf("digest         %s\n", digest);
        if (config_flag(e->asked, "confusion") && e->all.classes > MATRIX_CLASSES) print_pairs(e);
        else if (config_flag(e->asked, "confusion")) status = print_matrix(e);
        if (!status && config_flag(e->asked, "per-class")) status = print_classes(e);
        if (!status && e->all.most_worst) print_worst(e);
        return status;
    }
    qg__json j = qg__json_begin(stdout);
    qg__json_path(&j, "run", qg_run_directory(e->run));
    qg__json_text(&j, "file", file);
    qg__json_text(&j, "model", qg_run_get(e->run, "model"));
    qg__json_text(&j, "weight", weight);
    qg__json_text(&j, "data", e->data);
    qg__json_integer(&j, "images", e->all.images);
    qg__json_real(&j, "test_accuracy", e->all.accuracy);
    qg__json_real(&j, "test_accuracy_stderr", margin);
    if (config_flag(e->asked, "tta")) {
        qg__json_real(&j, "tta_accuracy", e->all.tta_accuracy);
        qg__json_real(&j, "tta_accuracy_stderr", qg_proportion_error(e->all.tta_accuracy, e->all.images));
    }
    qg__json_real(&j, "test_loss", e->all.loss);
    json_calibration(&e->all, &j);
    json_classes(e, &j);
    json_worst(e, &j);
    report_machine(&j);
    qg__json_text(&j, "digest", digest);
    qg__json_end(&j);
    return status;
}

static int evaluate(evaluation *e)
{
    const config *asked = e->asked;
    const int     worst = config_flag(asked, "json") && !config_text(asked, "worst") ? WORST : config_integer(asked, "worst");
    qg_status status = load(e);
    const qg_run_evaluate_spec spec = { .worst = worst, .tta = config_flag(asked, "tta"), .net = e->other };
    if (!status) status = qg_run_evaluate(e->run, e->test, spec, &e->all);
    if (!status) status = print(e);
    return status ? print_failure(asked) : EXIT_DONE;
}

static int eval_main(config *asked)
{
    evaluation e      = { .asked = asked };
    const int  status = evaluate(&e);
    qg_assessment_free(&e.all);
    qg_net_free(e.other);
    qg_loader_free(e.test);
    qg_run_close(e.run);
    return status;
}

static const verb_option own_options[] = {
    { "data" }, { "weight" }, { "data-dir" }, { "threads" }, { "cache" }, { "run" }, { "best" }, { "tta" }, { "confusion" }, { "per-class" },
    { "worst" }, { NULL }
};

const verb eval_verb = {
    .name = "eval", .about = "Measure the test accuracy of a run", .usage = "eval RUN [options]",
    .run = eval_main, .has_operand = true, .operand = "run", .reads_run = true,
    .options = (const verb_option *const[]){ common_options, own_options, NULL },
};
