/* qgrad quantize: a run whose net has the weights of another one and quantizers, calibrated but not trained. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/print.h"
#include "cli/run/report.h"
#include "cli/run/run_spec.h"
#include "core/clock.h"
#include "core/kernels/cpu.h"
#include "core/kernels/parallel.h"
#include "layers/plan.h"
#include "train/calibrate.h"
#include "train/measure.h"

typedef struct quantization {
    config         *asked;
    qg_recipe       was, config;            /* of the run, with borrowed texts, and of the one it becomes */
    char            dir[QG__PATH_BYTES];    /* of the latter */
    qg_run         *of;
    qg_loader      *train, *test;
    qg_net         *net;
    qg__init_report init;
    qg_optim       *optim;                  /* whose moments are in the checkpoint: a run of no steps */
    qg_fit_spec     spec;
    qg__run         run;
    qg__measured    before, after;
    int             count;                  /* of the images that calibrate it */
    double          began;
} quantization;

/* --- the configuration -------------------------------------------------------------------- */

static qg_status choose_directory(quantization *z)
{
    char      of[QG__PATH_BYTES];
    bool      exists;
    qg_status status = run_directory("run", qg_run_directory(z->of), of);
    if (!status && z->asked->out) status = run_directory("out", z->asked->out, z->dir);
    if (status) return status;
    const char *slash = strrchr(of, '/'), *name = slash ? slash + 1 : of;
    if (!z->asked->out) {
        if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
            return qg_fail(QG_EARG, "out: %s has no name for the new run to derive its own from; pass --out", of);
        if (snprintf(z->dir, sizeof z->dir, "%s-quantized", of) >= QG__PATH_BYTES)
            return qg_fail(QG_EARG, "out: the path is too long");
    }
    status = qg_file_exists_in(QG_BY_PATH, z->dir, &exists);
    return status || !exists ? status : qg_fail(QG_ESTATE, "%s already exists; choose another directory with --out", z->dir);
}

/* What the run did that the new one does not: its recipe, a teacher, delays, other initial weights. */
static qg_status leave_out(qg_recipe *c)
{
    static const char *const keys[] = { "recipe", "init-recipe", "reproduces", "reported", "provenance", "deviations",
                                        "teacher", "teacher-digest", "distil", "init-digest", "init-except", "freeze",
                                        "quantize-weights-after", "norm-sync", "ranks" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) qg__recipe_unset(c, keys[i]);
    const qg__option *reestimate = qg__recipe_key("reestimate-batchnorm");
    if (!qg__recipe_value(c, reestimate->name) && qg__recipe_put(c, reestimate, reestimate->fallback)) return qg_errcode();
    return qg__recipe_put(c, qg__recipe_key("quantize-after"), "0");
}

/* What a run without quantizers says about its ends decided nothing. */
static qg_status decide_ends(quantization *z)
{
    const qg_recipe *was = &z->was, *r = &z->config;
    if (config_text(z->asked, "first-last") || was->weight.scheme || was->input.scheme || was->gradient.scheme ||
        !qg_model_keeps_ends(r->weight, r->input, r->gradient))
        return QG_OK;
    return qg__recipe_put(&z->config, qg__recipe_key("first-last"), "float");
}

static qg_status configure(quantization *z, bool *usage)
{
    *usage = !z->asked->run;
    if (!z->asked->run) return qg_fail(QG_EARG, "--run is missing: the directory of a run, or a checkpoint");
    z->of = run_open(z->asked->run, z->asked->best);
    if (!z->of) return qg_errcode();
    z->was           = z->of->recipe;
    qg_status status = QG_OK;
    if (!status) status = choose_directory(z);
    if (!status) status = qg__recipe_over(&z->config, &z->was, 0, 0);
    if (!status) status = leave_out(&z->config);
    if (!status) status = qg__recipe_over(&z->config, &z->asked->recipe, QG__SAVED, 0);
    if (!status) status = decide_ends(z);
    if (status) return status;
    *usage = true;
    return qg__recipe_check(&z->config);
}

/* --- images ------------------------------------------------------------------------------- */

/* Whether the images are those of the run, whose statistics the normalisation has. */
static qg_status check_images(const quantization *z)
{
    const uint64_t is[]    = { qg__data_digest(z->train, z->test), qg_loader_class_digest(z->train) };
    const char    *was[]   = { z->was.data_digest, z->was.class_digest };
    static const char *const what[] = { "images", "names of the classes" };
    const qg_recipe  *r       = &z->config;
    for (int i = 0; i < 2; i++) {
        char found[32];
        snprintf(found, sizeof found, "%016" PRIx64, is[i]);
        if (was[i] && strcmp(was[i], found))
            return qg_fail(QG_EARG, "%s: the %s have digest %s, but the run was trained on %s",
                           r->data_dir ? r->data_dir : r->data.name, what[i], found, was[i]);
    }
    return QG_OK;
}

/* The images of the training as a test would see them: nothing is augmented. */
static qg_status open_images(quantization *z)
{
    qg_recipe         plain = z->config;
    qg_preprocess *noted = NULL;
    plain.augment        = (qg_augment){ 0 };
    if (qg_normalise_fits(plain.normalise)) {
        noted = qg_preprocess_open(qg_run_file(z->of));
        if (!noted && qg_errcode() != QG_ESTATE) return qg_errcode();       /* earlier versions noted nothing */
    }
    z->train = qg__recipe_data(&plain, false, noted);
    qg_preprocess_free(noted);
    z->test = qg__recipe_test_of(&plain, z->train);
    return z->test ? check_images(z) : QG_EIO;
}

/* --- the net ------------------------------------------------------------------------------ */

#define FLOAT "float"

static void spell(const qg_slot *slot, char text[QG__VALUE_BYTES])
{
    strcpy(text, FLOAT);
    if (slot && slot->q.scheme) qg_quant_print(slot->q, text, QG__VALUE_BYTES);
}

/* What l and the layer of this name in the other net quantize: "twn" or "float". */
static void spell_both(qg_layer *l, const qg_net *other, qg_role role, char here[QG__VALUE_BYTES], char there[QG__VALUE_BYTES])
{
    spell(qg_layer_slot(l, role), here);
    spell(qg_layer_slot(qg_net_find(other, l->name), role), there);
}

/* The weights of the run were trained for its quantizers, so it keeps those. */
static qg_status check_kept(const quantization *z, qg_layer *l, qg_role role)
{
    char was[QG__VALUE_BYTES], is[QG__VALUE_BYTES];
    spell_both(l, z->net, role, was, is);
    if (!strcmp(was, FLOAT) || !strcmp(was, is)) return QG_OK;
    return qg_fail(QG_EARG, "%s is already quantized: %s.%s was trained as %s, which cannot become %s",
                   qg_run_directory(z->of), l->name, qg_role_name(role), was, is);
}

static bool is_new(const quantization *z, qg_layer *l, qg_role role)
{
    char is[QG__VALUE_BYTES], was[QG__VALUE_BYTES];
    spell_both(l, z->of->net, role, is, was);
    return strcmp(is, FLOAT) && !strcmp(was, FLOAT);
}

static qg_status check_quantizers(const quantization *z)
{
    bool      any    = false;
    qg_status status = QG_OK;
    for (int i = 0; i < qg_net_layers(z->of->net); i++)
        for (int r = 0; r < QG_ROLES && !status; r++) status = check_kept(z, qg_net_layer(z->of->net, i), qg_roles[r]);
    for (int i = 0; i < qg_net_layers(z->net); i++)
        for (int r = 0; r < QG_ROLES; r++) any |= is_new(z, qg_net_layer(z->net, i), qg_roles[r]);
    if (status || any) return status;
    return qg_fail(QG_EARG, "nothing to quantize: name a scheme that %s does not have with --weight, --input or --layer",
                   qg_run_directory(z->of));
}

static qg_status freeze(const quantization *z)
{
    char      layer[QG__INIT_LAYER];
    qg_status status = QG_OK;
    for (const char *at = z->config.freeze; !status && qg__list_next(&at, layer, sizeof layer);)
        status = qg_net_freeze(z->net, layer);
    return status;
}

/* The run's own net, and the one with quantizers. */
static qg_status load(quantization *z)
{
    const qg_recipe  *r     = &z->config;
    qg_shape       image = qg_loader_shape(z->train);
    const int      n     = qg_loader_classes(z->train);
    qg_status      status = qg__reader_load(z->of, image, n);
    if (status) return status;
    z->net = qg__reader_net(z->of, r, image, n, &z->init);
    if (!z->net) return qg_errcode();
    status = check_quantizers(z);
    if (!status) status = freeze(z);
    if (!status) status = qg__recipe_put(&z->config, qg__recipe_key("init-digest"), z->init.digest);
    return status;
}

static qg_status calibrate(quantization *z)
{
    const int all = qg_loader_shape(z->train).n;
    bool      stopped;
    z->count = z->asked->calibrate ? z->asked->calibrate : all < QG_CALIBRATION_IMAGES ? all : QG_CALIBRATION_IMAGES;
    if (z->count > all)
        return qg_fail(QG_EARG, "calibrate: %d images were asked for, but %s has %d for training", z->count,
                       z->config.data.name, all);
    qg_fit_spec     spec   = qg__recipe_fit(&z->was);
    spec.test              = z->test;
    const qg_status status = qg__measure(&spec, z->test, z->of->net, z->of->tape, z->of->steps, NULL, &z->before, &stopped);
    return status ? status : qg_calibrate(z->net, (qg_calibrate_spec){ .images = z->train, .count = z->count });
}

/* --- the run ------------------------------------------------------------------------------ */

/* The run before its first step: compare train/fit.c. */
static qg_status begin_run(quantization *z)
{
    qg_fit_spec *s      = &z->spec;
    qg_status    status = qg__recipe_spec(&z->config, &z->spec);
    z->optim            = qg__recipe_optim(&z->config, qg_net_params(z->net));
    if (status || !z->optim) return status ? status : QG_EMEM;
    s->mode  = QG_FIT_RESUME;
    s->train = z->train;
    s->test  = z->test;
    s->optim = z->optim;
    return qg__run_compose(&z->run, z->net, s);
}

static qg_status measure(quantization *z)
{
    bool             stopped;
    qg__run_record  *at     = &z->run.record;
    const qg_status  status = qg__measure(&z->spec, z->test, z->net, z->run.tape, at->steps, NULL, &z->after,
                                           &stopped);
    if (status) return status;
    at->tested        = z->after.images;
    at->test_loss     = z->after.loss;
    at->test_accuracy = at->best_accuracy = z->after.accuracy;
    return QG_OK;
}

static qg_status write_result(const quantization *z)
{
    const qg__measured *m = &z->after;
    qg_fit_result       r = { .test_accuracy        = m->accuracy,
                              .best_test_accuracy   = m->accuracy,
                              .test_accuracy_stderr = qg_proportion_error(m->accuracy, m->images),
                              .test_images          = m->images,
                              .train_loss           = NAN,
                              .seconds              = qg__now() - z->began,
                              .seed                 = z->config.seed,
                              .threads              = (uint64_t)qg_threads() };
    qg__result_join(r.blas_core, "", qg_blas_core());
    qg__result_join(r.cpu_path, "", qg_cpu_path());
    qg__result_join(r.commit, "", qg_commit());
    qg__digest(z->net, r.digest);
    return qg__result_save(&r, &z->spec, z->net, z->run.lock, z->run.paths.file[QG__RUN_RESULT]);
}

static void remove_files(const qg__run *r)
{
    for (qg__run_file f = 0; f < QG__RUN_FILES; f++) qg_file_remove_in(r->lock, r->paths.file[f]);
}

static qg_status write_files(quantization *z)
{
    remove_files(&z->run);              /* of a process that was killed */
    qg_status status = qg__run_create(&z->run);
    if (!status) status = qg__run_save_best(&z->run);
    return status ? status : write_result(z);
}

/* The directory appears with all files or not at all: they are written to DIR.part, which is then renamed. */
static qg_status write_run(quantization *z)
{
    char part[QG__PATH_BYTES], why[512];
    if (snprintf(part, sizeof part, "%s.part", z->dir) >= QG__PATH_BYTES)
        return qg_fail(QG_EARG, "out: the path is too long");
    qg_status status = qg__run_paths_of(part, &z->run.paths);
    if (!status) status = qg__run_claim(&z->run);
    if (status) return status;
    status = write_files(z);
    if (!status && rename(part, z->dir))
        status = qg_fail(QG_EIO, "cannot rename %s to %s: %s", part, z->dir, strerror(errno));
    if (!status) return qg_file_flush_name_in(QG_BY_PATH, z->dir);
    snprintf(why, sizeof why, "%s", qg_errmsg());
    remove_files(&z->run);
    rmdir(part);
    return qg_fail(status, "%s", why);
}

/* --- what is printed ---------------------------------------------------------------------- */

static double margin(const qg__measured *m) { return qg_proportion_error(m->accuracy, m->images); }

static void print_text(const quantization *z, const char *digest)
{
    print_safe(stdout, "from           %s\n", qg_run_file(z->of));
    printf("weights        %s, inputs %s, first and last %s\n", qg__recipe_value(&z->config, "weight"),
           qg__recipe_value(&z->config, "input"), qg__recipe_value(&z->config, "first-last"));
    printf("calibrated     on %d training images of %s\n", z->count, z->config.data.name);
    printf("test accuracy  %.2f %% ± %.2f %%, was %.2f %% ± %.2f %%\n", 100 * z->after.accuracy, 100 * margin(&z->after),
           100 * z->before.accuracy, 100 * margin(&z->before));
    printf("test loss      %.6g, was %.6g\n", z->after.loss, z->before.loss);
    report_bytes(z->net, stdout);
    printf("digest         %s\n", digest);
    print_safe(stdout, "run            %s\n", z->dir);
}

static void print_json(const quantization *z, const char *digest)
{
    qg__json j = qg__json_begin(stdout);
    qg__json_path(&j, "run", z->dir);
    qg__json_path(&j, "from", qg_run_file(z->of));
    qg__json_text(&j, "model", qg__recipe_value(&z->config, "model"));
    qg__json_text(&j, "weight", qg__recipe_value(&z->config, "weight"));
    qg__json_text(&j, "input", qg__recipe_value(&z->config, "input"));
    qg__json_text(&j, "data", z->config.data.name);
    qg__json_integer(&j, "calibrate", (uint64_t)z->count);
    qg__json_integer(&j, "images", z->after.images);
    qg__json_real(&j, "test_accuracy_before", z->before.accuracy);
    qg__json_real(&j, "test_accuracy", z->after.accuracy);
    qg__json_real(&j, "test_accuracy_stderr", margin(&z->after));
    qg__json_real(&j, "test_loss_before", z->before.loss);
    qg__json_real(&j, "test_loss", z->after.loss);
    qg__json_integer(&j, "float_bytes", qg_net_float_bytes(z->net));
    qg__json_bytes(&j, "packed_bytes", qg_net_packed_bytes(z->net));
    qg__json_real(&j, "seconds", qg__now() - z->began);
    report_machine(&j);
    qg__json_text(&j, "digest", digest);
    qg__json_end(&j);
}

static int quantize(quantization *z)
{
    bool      usage;
    char      digest[17];
    qg_status status = configure(z, &usage);
    if (status) return options_report("qgrad quantize", usage);
    qg_set_threads(z->config.threads);
    report_presets();
    status = open_images(z);
    if (!status) status = load(z);
    if (!status) status = calibrate(z);
    if (!status) status = begin_run(z);
    if (!status) status = measure(z);
    if (!status) status = write_run(z);
    if (status) return qg_print_error("qgrad quantize");
    qg__digest(z->net, digest);
    if (z->asked->json) print_json(z, digest);
    else print_text(z, digest);
    return EXIT_DONE;
}

int quantize_main(const char *program, const char *operand, config *asked)
{
    (void)program, (void)operand;
    quantization z      = { .asked = asked, .run = { .lock = QG_BY_PATH }, .began = qg__now() };
    const int    status = quantize(&z);
    qg__run_end(&z.run);
    qg_run_close(z.of);
    qg_optim_free(z.optim);
    qg_net_free(z.net);
    qg_loader_free(z.test);
    qg_loader_free(z.train);
    qg__recipe_clear(&z.config);
    return status;
}
