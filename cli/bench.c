/* qgrad bench train: how long a training step takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/progress.h"
#include "cli/report.h"
#include "core/cpu.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "core/rng.h"

enum { WARM_UP = 5, MAX_STEPS = 1 << 20 };

typedef struct bench {
    config     asked, config;
    recipe     recipe;
    qg_loader *data;
    qg_net    *net;
    qg_optim  *optim;
    qg_tape   *tape;
    qg_profile profile;
    float     *ms;              /* of every measured step */
    int        steps;
    double     median;          /* ms */
} bench;

/* mnist where it is, else noise of the same shape, which costs the same. */
static qg_status choose_data(config *asked)
{
    if (config_text(asked, "data") || config_text(asked, "config")) return QG_OK;
    const char *dir  = config_text(asked, "data-dir");
    const bool  here = access(dir ? dir : data_find("mnist")->dir, F_OK) == 0;
    if (!here) fprintf(stderr, "qgrad: no mnist here, so the images are noise\n");
    return config_set(asked, option_find("data"), here ? "mnist" : "synthetic");
}

static void warn(void)
{
    static const char *const presets[] = { "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE" };
    for (int i = 0; i < 2; i++)
        if (getenv(presets[i]))
            fprintf(stderr, "qgrad: warning: %s is set to %s; OpenBLAS would choose for itself\n",
                    presets[i], getenv(presets[i]));
}

static qg_status build(bench *b)
{
    qg_set_threads(b->recipe.threads);
    b->data  = recipe_data(&b->recipe, false);
    b->net = b->data ? recipe_net(&b->recipe, qg_loader_shape(b->data), qg_loader_classes(b->data))
                     : NULL;
    b->optim = b->net ? recipe_optim(&b->recipe, qg_net_params(b->net)) : NULL;
    b->tape  = b->optim ? qg_tape_new() : NULL;
    if (!b->tape) return QG_EMEM;
    if (qg_loader_shape(b->data).n < b->recipe.batch)
        return qg_fail(QG_EARG, "a batch of %d is more than the %d images of %s", b->recipe.batch,
                       qg_loader_shape(b->data).n, b->recipe.data->name);
    b->ms = malloc(MAX_STEPS * sizeof *b->ms);
    return b->ms ? QG_OK : qg_fail(QG_EMEM, "out of memory for %d step times", (int)MAX_STEPS);
}

/* The next batch of full size. */
static void next(bench *b, qg_batch *batch)
{
    while (!qg_loader_next(b->data, batch) || batch->x.shape.n < b->recipe.batch)
        ;
}

/* Gather, forward, loss, backward, update. */
static qg_status step(bench *b)
{
    qg_batch batch;
    next(b, &batch);
    qg_tape_begin(b->tape, QG_TRAIN, qg_rng_fork(b->recipe.seed, QG_STREAM_TAPE), batch.step);
    qg_var         *scores = qg_net_forward(b->net, b->tape, batch.x);
    qg_var         *loss   = recipe_loss(&b->recipe, b->tape, scores, batch.y);
    const qg_status status = qg_backward(b->tape, loss);
    return status ? status : qg_optim_step(b->optim);
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static qg_status measure(bench *b)
{
    for (int i = 0; i < WARM_UP; i++) {
        const qg_status status = step(b);
        if (status) return status;
    }
    if (config_flag(&b->asked, "profile")) qg_tape_profile(b->tape, &b->profile);
    const double limit = config_real(&b->asked, "seconds"), began = now_seconds();
    for (double now = began; (now - began < limit || b->steps < 3) && b->steps < MAX_STEPS;) {
        const double    from   = now;
        const qg_status status = step(b);
        if (status) return status;
        now                 = now_seconds();
        b->ms[b->steps++] = (float)(1e3 * (now - from));
    }
    qg_tape_profile(b->tape, NULL);
    qsort(b->ms, (size_t)b->steps, sizeof *b->ms, by_size);
    b->median = 0.5 * ((double)b->ms[b->steps / 2] + (double)b->ms[(b->steps - 1) / 2]);
    return QG_OK;
}

/* --- printing ----------------------------------------------------------------------------- */

static double per_second(double flops, double seconds)
{
    return seconds > 0 ? 1e-9 * flops / seconds : 0;
}

static void print_profile(const bench *b, FILE *out)
{
    double total = 0;
    for (int i = 0; i < b->profile.rows; i++)
        total += b->profile.row[i].forward + b->profile.row[i].backward;
    fprintf(out, "\n%-20s %10s %12s %12s %16s %16s %7s\n", "op", "calls/step", "forward ms",
            "backward ms", "forward GFLOP/s", "backward GFLOP/s", "share");
    for (int i = 0; i < b->profile.rows; i++) {
        const qg_profile_row *r = &b->profile.row[i];
        fprintf(out, "%-20s %10.1f %12.4f %12.4f %16.1f %16.1f %5.1f %%\n", r->op,
                (double)r->calls / b->steps, 1e3 * r->forward / b->steps,
                1e3 * r->backward / b->steps, per_second(r->forward_flops, r->forward),
                per_second(r->backward_flops, r->backward),
                total > 0 ? 100 * (r->forward + r->backward) / total : 0);
    }
}

static void print_profile_json(const bench *b, json *j)
{
    json_open(j, "profile", '[');
    for (int i = 0; i < b->profile.rows; i++) {
        const qg_profile_row *r = &b->profile.row[i];
        json_open(j, NULL, '{');
        json_text(j, "op", r->op);
        json_real(j, "calls_per_step", (double)r->calls / b->steps);
        json_real(j, "forward_ms", 1e3 * r->forward / b->steps);
        json_real(j, "backward_ms", 1e3 * r->backward / b->steps);
        json_real(j, "forward_gflops", per_second(r->forward_flops, r->forward));
        json_real(j, "backward_gflops", per_second(r->backward_flops, r->backward));
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void print(const bench *b)
{
    const bool   profile = config_flag(&b->asked, "profile");
    const double rate    = 1e3 * b->recipe.batch / b->median;
    if (!config_flag(&b->asked, "json")) {
        printf("%s, weights %s, inputs %s, gradients %s, %s, batch %d: %d threads, OpenBLAS core %s, "
               "kernels %s\n",
               b->recipe.model->name, config_text(&b->config, "weight"),
               config_text(&b->config, "input"), config_text(&b->config, "gradient"),
               b->recipe.data->name, b->recipe.batch, qg_threads(), qg_blas_core(), qg_cpu_path());
        printf("%.0f images/s, %.3f ms per step (median of %d; fastest %.3f), %.1f MiB at most\n",
               rate, b->median, b->steps, (double)b->ms[0], (double)peak_rss_bytes() / (1 << 20));
        if (profile) print_profile(b, stdout);
        return;
    }
    json j = json_begin(stdout);
    json_text(&j, "model", b->recipe.model->name);
    json_text(&j, "data", b->recipe.data->name);
    json_text(&j, "weight", config_text(&b->config, "weight"));
    json_text(&j, "input", config_text(&b->config, "input"));
    json_text(&j, "gradient", config_text(&b->config, "gradient"));
    json_integer(&j, "batch", (uint64_t)b->recipe.batch);
    json_real(&j, "images_per_second", rate);
    json_real(&j, "ms_per_step", b->median);
    json_integer(&j, "steps", (uint64_t)b->steps);
    report_machine(&j);
    if (profile) print_profile_json(b, &j);
    json_end(&j);
}

static int run_bench(bench *b)
{
    bool      usage  = true;
    qg_status status = choose_data(&b->asked);
    if (!status) status = recipe_resolve(&b->asked, NULL, &b->config, &usage);
    if (!status) {
        usage  = true;
        status = recipe_read(&b->config, &b->recipe);
        if (!status) status = recipe_trains(&b->recipe);
    }
    if (status) return qg_report("qgrad bench"), usage ? EXIT_USAGE : EXIT_FAILED;
    warn();
    status = build(b);
    if (!status) status = measure(b);
    if (status) return qg_report("qgrad bench");
    print(b);
    return EXIT_DONE;
}

int bench_main(const verb *v, const char *program, int argc, char **argv)
{
    (void)program;
    const bool named = argc > 1 && argv[1][0] != '-';
    if (named && strcmp(argv[1], "train")) {
        fprintf(stderr, "qgrad bench: no benchmark '%s'; there is train\n", argv[1]);
        return EXIT_USAGE;
    }
    bench b      = { 0 };
    int   status = options_parse(v, named ? argc - 1 : argc, named ? argv + 1 : argv, &b.asked);
    if (status < 0 && !named) {
        fprintf(stderr, "qgrad bench: name the benchmark first; there is train\n");
        status = EXIT_USAGE;
    }
    if (status < 0) status = run_bench(&b);
    free(b.ms);
    qg_tape_free(b.tape);
    qg_optim_free(b.optim);
    qg_net_free(b.net);
    qg_loader_free(b.data);
    config_free(&b.config);
    config_free(&b.asked);
    return status;
}
