/* qgrad quantize: a run whose net has the weights of another one and quantizers, calibrated but not trained. */
#include <stdio.h>
#include <string.h>

#include "cli/print.h"
#include "cli/run/report.h"
#include "cli/run/run_spec.h"
#include "core/clock.h"

typedef struct quantization {
    config            *asked;
    char               dir[QG__PATH_BYTES];     /* of the new run */
    qg_run            *of, *made;
    qg_run_quantized   result;
    double             began;
} quantization;

static qg_status choose_directory(quantization *z)
{
    const char *of = qg_run_directory(z->of), *slash = strrchr(of, '/'), *name = slash ? slash + 1 : of;
    const char *out = config_text(z->asked, "out");
    bool        exists;
    qg_status   status = out ? run_directory("out", out, z->dir) : QG_OK;
    if (status) return status;
    if (!out) {
        if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
            return qg_fail(QG_EARG, "out: %s has no name for the new run to derive its own from; pass --out", of);
        if (snprintf(z->dir, sizeof z->dir, "%s-quantized", of) >= QG__PATH_BYTES)
            return qg_fail(QG_EARG, "out: the path is too long");
    }
    status = qg__file_exists_in(QG_BY_PATH, z->dir, &exists);
    return status || !exists ? status : qg_fail(QG_ESTATE, "%s already exists; choose another directory with --out", z->dir);
}

static qg_status configure(quantization *z)
{
    z->of = run_open(z->asked);
    return z->of ? choose_directory(z) : qg_errcode();
}

static qg_status print_text(const quantization *z, const char *digest)
{
    const qg_run_quantized *r = &z->result;
    char                    data[64];
    print_safe(stdout, "from           %s\n", qg_run_file(z->of));
    printf("weights        %s, inputs %s, first and last %s\n", qg_run_get(z->made, "weight"), qg_run_get(z->made, "input"),
           qg_run_get(z->made, "first-last"));
    printf("calibrated     on %d training images of %s\n", r->images, run_data_name(qg_run_get(z->made, "data"), data));
    printf("test accuracy  %.2f %% ± %.2f %%, was %.2f %% ± %.2f %%\n", 100 * r->accuracy,
           100 * qg_proportion_error(r->accuracy, r->tested), 100 * r->accuracy_before,
           100 * qg_proportion_error(r->accuracy_before, r->tested));
    printf("test loss      %.6g, was %.6g\n", r->loss, r->loss_before);
    const qg_status status = report_bytes(qg_run_net(z->made), stdout);
    printf("digest         %s\n", digest);
    print_safe(stdout, "run            %s\n", z->dir);
    return status;
}

static qg_status print_json(const quantization *z, const char *digest)
{
    const qg_run_quantized *r = &z->result;
    char                    data[64];
    size_t                  packed;
    if (qg_net_packed_bytes(qg_run_net(z->made), &packed)) return QG_EMEM;
    qg__json j = qg__json_begin(stdout);
    qg__json_path(&j, "run", z->dir);
    qg__json_path(&j, "from", qg_run_file(z->of));
    qg__json_text(&j, "model", qg_run_get(z->made, "model"));
    qg__json_text(&j, "weight", qg_run_get(z->made, "weight"));
    qg__json_text(&j, "input", qg_run_get(z->made, "input"));
    qg__json_text(&j, "data", run_data_name(qg_run_get(z->made, "data"), data));
    qg__json_integer(&j, "calibrate", (uint64_t)r->images);
    qg__json_integer(&j, "images", r->tested);
    qg__json_real(&j, "test_accuracy_before", r->accuracy_before);
    qg__json_real(&j, "test_accuracy", r->accuracy);
    qg__json_real(&j, "test_accuracy_stderr", qg_proportion_error(r->accuracy, r->tested));
    qg__json_real(&j, "test_loss_before", r->loss_before);
    qg__json_real(&j, "test_loss", r->loss);
    qg__json_integer(&j, "float_bytes", qg_net_float_bytes(qg_run_net(z->made)));
    qg__json_bytes(&j, "packed_bytes", packed);
    qg__json_real(&j, "seconds", qg__now() - z->began);
    report_machine(&j);
    qg__json_text(&j, "digest", digest);
    qg__json_end(&j);
    return QG_OK;
}

static int quantize(quantization *z)
{
    char      digest[17];
    qg_status status = configure(z);
    if (status) return print_failure(z->asked);
    const config *asked = z->asked;
    status = qg_run_quantize(z->of, (qg_run_quantize_spec){ z->dir, asked->recipe, config_integer(asked, "calibrate") }, &z->result);
    z->made = status ? NULL : qg_run_open(z->dir, QG_RUN_LAST);
    if (!z->made || !qg_run_net(z->made)) return print_failure(z->asked);
    run_digest(z->made, digest);
    status = config_flag(asked, "json") ? print_json(z, digest) : print_text(z, digest);
    return status ? print_failure(z->asked) : EXIT_DONE;
}

static int quantize_main(config *asked)
{
    quantization z      = { .asked = asked, .began = qg__now() };
    const int    status = quantize(&z);
    qg_run_close(z.made);
    qg_run_close(z.of);
    return status;
}

static const verb_option own_options[] = {
    { "weight" }, { "input" }, { "first-last" }, { "layer" }, { "fold-batchnorm" }, { "seed" },
    { "data", "the images of a run that was imported without any" }, { "data-dir" }, { "threads" }, { "cache" },
    { "out", "the new run directory; default: the name of --run, followed by -quantized" },
    { "freeze", .not_of_run = true }, { "run" }, { "calibrate" }, { "best" }, { NULL }
};

const verb quantize_verb = {
    .name = "quantize", .about = "Quantize a trained run without training it, to 8 bits unless told otherwise, and measure what that costs",
    .usage = "quantize RUN [--weight SCHEME] [--input SCHEME] [options]", .run = quantize_main, .has_operand = true, .operand = "run", .reads_run = true,
    .options = (const verb_option *const[]){ common_options, own_options, NULL },
};
