/* qgrad import: a run whose net has the weights of another program, such as PyTorch. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/print.h"
#include "cli/run/report.h"
#include "cli/run/run_spec.h"
#include "core/clock.h"

typedef struct importing {
    config         *asked;
    char            dir[QG__PATH_BYTES];        /* of the new run */
    qg_run         *made;
    qg_run_imported result;
    double          began;
} importing;

static qg_status print_text(const importing *i, const char *digest)
{
    const qg_run_imported *r = &i->result;
    char                   data[64];
    for (const char *line = r->names; *line; line = qg__lines_next(line))
        print_safe(stdout, "%.*s\n", (int)strcspn(line, "\n"), line);
    if (r->tested)
        printf("test accuracy  %.2f %% ± %.2f %% on %s\ntest loss      %.6g\n", 100 * r->accuracy,
               100 * qg_proportion_error(r->accuracy, r->tested),
               run_data_name(qg_run_get(i->made, "data"), data), r->loss);
    printf("images         normalised by %s\n", qg_run_get(i->made, "normalise"));
    const qg_status status = report_bytes(qg_run_net(i->made), stdout);
    printf("digest         %s\n", digest);
    print_safe(stdout, "run            %s\n", i->dir);
    return status;
}

static void print_json(const importing *i, const char *digest)
{
    const qg_run_imported *r = &i->result;
    char                   pair[1024];
    qg__json               j = qg__json_begin(stdout);
    qg__json_path(&j, "run", i->dir);
    qg__json_text(&j, "model", qg_run_get(i->made, "model"));
    qg__json_open(&j, "map", '[');
    for (const char *line = r->names; *line; line = qg__lines_next(line)) {
        snprintf(pair, sizeof pair, "%.*s", (int)strcspn(line, "\n"), line);
        qg__json_text(&j, NULL, pair);
    }
    qg__json_close(&j, ']');
    qg__json_integer(&j, "images", r->tested);
    qg__json_real(&j, "test_accuracy", r->tested ? r->accuracy : (double)NAN);
    qg__json_real(&j, "test_loss", r->tested ? r->loss : (double)NAN);
    qg__json_integer(&j, "float_bytes", qg_net_float_bytes(qg_run_net(i->made)));
    qg__json_real(&j, "seconds", qg__now() - i->began);
    report_machine(&j);
    qg__json_text(&j, "digest", digest);
    qg__json_end(&j);
}

/* Weights of another layout, or other statistics of images, show in nothing else.  A trained net is a tenth of
 * the way from chance to perfection or further; one with other images is mostly not. */
static void warn_of_chance(const importing *i)
{
    const double one = 1.0 / qg_run_classes(i->made), tenth = one + 0.1 * (1 - one);
    if (!i->result.tested || i->result.accuracy > tenth) return;
    fprintf(stderr, "qgrad: warning: %.2f %% is hardly better than chance; were images normalised in the "
            "training (--normalise), are the axes others (--layout), or the order of classes or layers "
            "(--map)?\n", 100 * i->result.accuracy);
}

static qg_status require(const config *asked)
{
    static const char *const required[][2] = { { "model", "the net" },
                                               { "weights", "a safetensors file" },
                                               { "out", "the new run directory" } };
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        if (!config_text(asked, required[i][0]))
            return qg_fail(QG_EARG, "--%s is missing: %s", required[i][0], required[i][1]);
    return QG_OK;
}

/* What mostly causes a misfit. */
static const char *remedy(const char *misfits)
{
    const char *bias = strstr(misfits, ".bias ["), *missing = bias ? strstr(bias, "] is missing in ") : NULL;
    if (missing && !memchr(bias, ',', (size_t)(missing - bias)))
        return "; in --model, b0 is a product without a bias, as in 32C5b0";
    return strstr(misfits, ".weight [") && strstr(misfits, " in the net, ")
               ? "; the padding of --model (32C5p0), --layout or --map may be another" : "";
}

static int import(importing *i)
{
    const config *asked  = i->asked;
    char          digest[17];
    qg_status     status = require(asked);
    if (!status) status = run_directory("out", config_text(asked, "out"), i->dir);
    if (status) return print_failure(i->asked);
    status = qg_run_import((qg_run_import_spec){ .dir = i->dir,
                                                 .weights = config_text(asked, "weights"),
                                                 .recipe = asked->recipe,
                                                 .image = config_text(asked, "image")
                                                              ? config_image(asked)
                                                              : (qg_shape){ 0 },
                                                 .classes = config_text(asked, "classes"),
                                                 .layout = (qg_layout)config_word(asked, "layout"),
                                                 .map = config_text(asked, "map") },
                           &i->result);
    if (status == QG_ESHAPE) status = qg_fail(status, "%s%s", qg_errmsg(), remedy(qg_errmsg()));
    i->made = status ? NULL : qg_run_open(i->dir, QG_RUN_LAST);
    if (!i->made || !qg_run_net(i->made)) return print_failure(i->asked);
    warn_of_chance(i);
    run_digest(i->made, digest);
    if (config_flag(asked, "json")) print_json(i, digest);
    else status = print_text(i, digest);
    return status ? print_failure(i->asked) : EXIT_DONE;
}

static int import_main(config *asked)
{
    importing i      = { .asked = asked, .began = qg__now() };
    const int status = import(&i);
    qg_run_close(i.made);
    free(i.result.names);
    return status;
}

static const verb_option own_options[] = {
    { "model", .first = true }, { "image", "the size of the images, as 28x28x1; default: that of --data", .first = true },
    { "weights", .first = true }, { "out", "the new run directory; required", .first = true },
    { "data", "the data set whose test images are measured; default: none", .first = true },
    { "data-dir" }, { "normalise", .first = true }, { "classes", .first = true }, { "layout", .first = true }, { "map", .first = true },
    { "seed" }, { "threads" }, { "cache" }, { NULL }
};

const verb import_verb = {
    .name = "import",
    .about = "Make a run of float weights that PyTorch, or another program, saved as safetensors",
    .usage = "import --model NAME --weights FILE --out DIR [options]",
    .run = import_main,
    .options = (const verb_option *const[]){ common_options, own_options, NULL },
};
