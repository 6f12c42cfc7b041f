/* qgrad bench train, bench eval, bench packed: how long a training step, a forward pass, or a run of the packed net takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench/infer.h"
#include "cli/bench/packed.h"
#include "cli/bench/peak.h"
#include "cli/print.h"
#include "cli/run/report.h"
#include "core/clock.h"
#include "core/kernels/cpu.h"
#include "core/kernels/parallel.h"
#include "core/profile.h"
#include "core/ranks.h"
#include "core/rng.h"
#include "core/slices.h"
#include "train/measure.h"

typedef struct bench {
    config    *asked;
    config     config;
    bool       forward;         /* bench eval: QG_EVAL, no loss, no backward, no update */
    bool       packed;          /* bench packed: forward in QG_TRAIN, then the engine */
    packed_speed engine;
    int        engine_batch;    /* of --batch; the loader's is SEEN_IMAGES or more */
    recipe     recipe;
    qg_fit_spec spec;
    qg_loader *data;
    qg_net    *net;
    qg_optim  *optim;           /* NULL: bench eval */
    qg_tape   *tape;
    qg_profile profile;
    double     batch, update;   /* seconds for gathering batches and for the optimizer */
    double     flops;           /* of the products, for one image */
    float     *ms;              /* of every measured step, in order of size */
    float     *peak;            /* multiply-adds in registers right behind each step, GFLOP/s, likewise */
    int        steps;
    uint64_t   taken;           /* steps, the warm-up's too */
    double     seconds;         /* of all measured steps */
    double     median;          /* ms */
    double     median_peak;     /* 0 with --profile, whose times a burst would disturb */
    qg__traffic traffic;        /* with other ranks, in all measured steps */
} bench;

/* Steps before the measured ones, for memory to be there: fewer where they take long. */
enum { WARM_UP = 5, LEAST_WARM_UP = 2, MAX_STEPS = 1 << 20 };
#define WARM_UP_SECONDS 3.0

/* A step is followed by multiply-adds in registers for a twentieth of its time. */
#define BURST_SHARE 0.05

/* Batch norms and observed ranges see so many images before a net is packed: one would give zeros. */
enum { SEEN_IMAGES = 8 };

/* Of --image: as many bytes as PyTorch holds for one batch of floats. */
enum { NOISE_BATCHES = 4, NOISE_CLASSES = 10 };

/* --image: noise of that shape.  Else mnist where it is, else noise in its shape, which costs the
 * same. */
static qg_status choose_data(config *asked)
{
    const char *data = config_text(asked, "data");
    if (config_text(asked, "image")) {
        if (data && strcmp(data, "synthetic"))
            return qg_fail(QG_EARG, "--image is the size of synthetic images, but --data is %s", data);
        return config_set(asked, option_find("data"), "synthetic");
    }
    if (data || asked->file || asked->named) return QG_OK;
    const char *dir  = asked->recipe.data_dir;
    const bool  here = access(dir ? dir : data_find("mnist")->dir, F_OK) == 0;
    if (!here) fprintf(stderr, "qgrad: mnist was not found; using noise instead\n");
    return config_set(asked, option_find("data"), here ? "mnist" : "synthetic");
}

static qg_loader *open_data(const bench *b)
{
    const recipe *r = &b->recipe;
    if (!config_text(b->asked, "image")) return recipe_data(r, false, NULL);
    return qg_synthetic(b->asked->image, NOISE_BATCHES * r->batch, NOISE_CLASSES, recipe_loading(r, false));
}

static qg_status build(bench *b)
{
    qg_set_threads(b->recipe.threads);
    b->spec = recipe_fit(&b->recipe);
    b->data = open_data(b);
    b->net  = b->data ? recipe_net(&b->recipe, qg_loader_shape(b->data), qg_loader_classes(b->data)) : NULL;
    if (b->net && !b->forward) b->optim = recipe_optim(&b->recipe, qg_net_params(b->net));
    b->tape = b->optim || (b->net && b->forward) ? qg_tape_new() : NULL;
    if (!b->tape) return QG_EMEM;
    if (qg_loader_shape(b->data).n < b->recipe.batch)
        return qg_fail(QG_EARG, "a batch of %d exceeds the %d images of %s", b->recipe.batch,
                       qg_loader_shape(b->data).n, b->recipe.data.name);
    b->ms   = malloc(MAX_STEPS * sizeof *b->ms);
    b->peak = malloc(MAX_STEPS * sizeof *b->peak);
    return b->ms && b->peak ? QG_OK : qg_fail(QG_EMEM, "out of memory for %d step times", (int)MAX_STEPS);
}

/* The next batch of full size. */
static qg_status next(bench *b, qg_batch *batch)
{
    qg_status status = QG_OK;
    while (!status && (!qg_loader_next(b->data, batch) || batch->n < b->recipe.batch)) status = qg_loader_status(b->data);
    return status;
}

/* Gather, forward; and to train also loss, backward, update.  The tape begins first, which ends the
 * time of the step before. */
static qg_status step(bench *b)
{
    qg_batch batch;
    qg_tape_begin(b->tape, b->forward ? QG_EVAL : QG_TRAIN, qg_rng_fork(b->recipe.seed, QG_STREAM_TAPE),
                  b->taken++);
    const double from = qg__now();
    qg_status status = next(b, &batch);
    if (status) return status;
    b->batch += qg__now() - from;
    qg_var *scores = qg_net_forward(b->net, b->tape, batch.x);
    if (b->forward) return scores ? QG_OK : qg_tape_status(b->tape);
    qg_var   *loss   = qg__loss(&b->spec, b->tape, scores, &batch);
    status           = qg_backward(b->tape, loss);
    if (status) return status;
    const double done = qg__now();
    status            = qg_optim_step(b->optim);
    b->update += qg__now() - done;
    return status;
}

/* Time is counted from one op to the next, the first of them being the beginning of a step; the last
 * is complete once another step begins. */
static void start_profile(bench *b, qg_profile *p)
{
    qg_tape_profile(b->tape, p);
    qg_tape_begin(b->tape, QG_EVAL, 0, 0);
}

static void stop_profile(bench *b)
{
    qg_tape_begin(b->tape, QG_EVAL, 0, 0);
    qg_tape_profile(b->tape, NULL);
}

/* What the products of a step compute, from the ops themselves. */
static qg_status count_flops(bench *b)
{
    qg_profile p = { 0 };
    start_profile(b, &p);
    const qg_status status = step(b);
    stop_profile(b);
    for (int i = 0; i < p.rows; i++)
        b->flops += (p.row[i].forward_flops + p.row[i].backward_flops) / b->recipe.batch;
    return status;
}

static qg_status warm_up(bench *b)
{
    qg_status    status = QG_OK;
    const double began  = qg__now();
    for (int i = 1; i < WARM_UP && !status; i++)
        if (i < LEAST_WARM_UP || qg_ranks_any(qg__now() - began < WARM_UP_SECONDS)) status = step(b);
    if (!status) status = count_flops(b);
    b->batch  = 0;
    b->update = 0;
    return status;
}

/* What lies between ops is gathering, updating and the rest. */
static void split_rest(bench *b)
{
    qg_profile *p = &b->profile;
    for (int i = 0; i < p->rows; i++)
        if (!strcmp(p->row[i].op, "-")) p->row[i].forward -= b->batch + b->update;
    if (p->rows + 2 > QG_PROFILE_ROWS) return;
    p->row[p->rows++] = (qg_profile_row){ .op = "(batch)", .calls = b->steps, .forward = b->batch };
    if (!b->forward)
        p->row[p->rows++] = (qg_profile_row){ .op = "(update)", .calls = b->steps, .backward = b->update };
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Sorts n values and returns the one in the middle. */
static double median(float *value, int n)
{
    qsort(value, (size_t)n, sizeof *value, by_size);
    return 0.5 * ((double)value[n / 2] + (double)value[(n - 1) / 2]);
}

static qg_status measure(bench *b)
{
    const bool profile = b->asked->profile;
    qg_status  status  = warm_up(b);
    if (status) return status;
    if (profile) start_profile(b, &b->profile);
    const double limit = b->asked->seconds;
    const qg__traffic before = qg__ranks_traffic();
    while (b->steps < MAX_STEPS && qg_ranks_any(b->seconds < limit || b->steps < 3)) {
        const double from = qg__now();
        status            = step(b);
        if (status) return status;
        const double took   = qg__now() - from;
        b->ms[b->steps]     = (float)(1e3 * took);
        b->peak[b->steps++] = profile ? 0.0f : (float)bench_burst(BURST_SHARE * took);
        b->seconds += took;
    }
    const qg__traffic after = qg__ranks_traffic();
    b->traffic = (qg__traffic){ after.bytes - before.bytes, after.seconds - before.seconds, after.messages - before.messages,
                                after.hidden - before.hidden };
    stop_profile(b);
    if (b->profile.rows) split_rest(b);
    b->median      = median(b->ms, b->steps);
    b->median_peak = median(b->peak, b->steps);
    return QG_OK;
}

static qg_status measure_packed(bench *b)
{
    qg_batch batch;
    next(b, &batch);
    batch.x.shape.n = SEEN_IMAGES;
    qg_tape_begin(b->tape, QG_TRAIN, qg_rng_fork(b->recipe.seed, QG_STREAM_TAPE), b->taken++);
    if (!qg_net_forward(b->net, b->tape, batch.x)) return qg_tape_status(b->tape);
    next(b, &batch);
    return packed_speed_measure(b->net, b->engine_batch, batch.x.data, b->asked->seconds, b->asked->profile, &b->engine);
}

/* --- printing ------------------------------------------------------------------------------- */

static double per_second(double flops, double seconds) { return seconds > 0 ? 1e-9 * flops / seconds : 0; }

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
                (double)r->calls / b->steps, 1e3 * r->forward / b->steps, 1e3 * r->backward / b->steps,
                per_second(r->forward_flops, r->forward), per_second(r->backward_flops, r->backward),
                total > 0 ? 100 * (r->forward + r->backward) / total : 0);
    }
}

static void print_traffic(const bench *b)
{
    if (qg_ranks() == 1) return;
    printf("\n%d ranks: rank 0 sends %.3f MiB in %.0f messages per step; it waits for %.3f ms, and messages are under way for another "
           "%.3f ms, hidden by computing\n", qg_ranks(), b->traffic.bytes / (1 << 20) / b->steps,
           (double)b->traffic.messages / b->steps, 1e3 * b->traffic.seconds / b->steps, 1e3 * b->traffic.hidden / b->steps);
}

static void print_profile_json(const bench *b, qg__json *j)
{
    qg__json_open(j, "profile", '[');
    for (int i = 0; i < b->profile.rows; i++) {
        const qg_profile_row *r = &b->profile.row[i];
        qg__json_open(j, NULL, '{');
        qg__json_text(j, "op", r->op);
        qg__json_real(j, "calls_per_step", (double)r->calls / b->steps);
        qg__json_real(j, "forward_ms", 1e3 * r->forward / b->steps);
        qg__json_real(j, "backward_ms", 1e3 * r->backward / b->steps);
        qg__json_real(j, "forward_gflops", per_second(r->forward_flops, r->forward));
        qg__json_real(j, "backward_gflops", per_second(r->backward_flops, r->backward));
        qg__json_close(j, '}');
    }
    qg__json_close(j, ']');
}

static double images_per_second(const bench *b) { return 1e3 * b->recipe.batch / b->median; }

static void print_text(const bench *b, bool profile)
{
    const double   rate  = images_per_second(b);
    const qg_shape image = qg_loader_shape(b->data);
    printf("%s %s, weights %s, inputs %s, gradients %s, %s %dx%dx%d, batch %d: %d thread%s, "
           "OpenBLAS core %s, kernels %s\n",
           b->forward ? "evaluate" : "train", config_text(&b->config, "model"), config_text(&b->config, "weight"),
           config_text(&b->config, "input"), config_text(&b->config, "gradient"),
           b->recipe.data.name, image.h, image.w, image.c,
           b->recipe.batch, qg_threads(), qg_threads() == 1 ? "" : "s", qg_blas_core(), qg_cpu_path());
    printf("%.0f images/s, %.3f ms per step (median of %d; fastest %.3f), %.1f GFLOP/s", rate, b->median,
           b->steps, (double)b->ms[0], 1e-9 * rate * b->flops);
    if (b->median_peak > 0) printf(" of %.1f available meanwhile", b->median_peak);
    printf(", %.1f MiB at most\n", (double)qg__peak_rss_bytes() / (1 << 20));
    if (profile) print_profile(b, stdout);
    if (profile) print_traffic(b);
}

static void print_net_json(const bench *b, qg__json *j)
{
    const qg_shape image = qg_loader_shape(b->data);
    qg__json_text(j, "model", config_text(&b->config, "model"));
    qg__json_text(j, "data", b->recipe.data.name);
    qg__json_open(j, "image", '[');
    qg__json_integer(j, NULL, (uint64_t)image.h);
    qg__json_integer(j, NULL, (uint64_t)image.w);
    qg__json_integer(j, NULL, (uint64_t)image.c);
    qg__json_close(j, ']');
    qg__json_text(j, "weight", config_text(&b->config, "weight"));
    qg__json_text(j, "input", config_text(&b->config, "input"));
    qg__json_text(j, "gradient", config_text(&b->config, "gradient"));
    qg__json_integer(j, "batch", (uint64_t)(b->packed ? b->engine_batch : b->recipe.batch));
}

static void print_json(const bench *b, bool profile)
{
    const double rate = images_per_second(b);
    qg__json j = qg__json_begin(stdout);
    qg__json_text(&j, "bench", b->forward ? "eval" : "train");
    print_net_json(b, &j);
    qg__json_real(&j, "images_per_second", rate);
    qg__json_real(&j, "ms_per_step", b->median);
    qg__json_integer(&j, "steps", (uint64_t)b->steps);
    qg__json_real(&j, "seconds", b->seconds);
    qg__json_real(&j, "flops_per_image", b->flops);
    qg__json_real(&j, "gflops", 1e-9 * rate * b->flops);
    if (b->median_peak > 0) qg__json_real(&j, "gflops_meanwhile", b->median_peak);
    report_machine(&j);
    if (qg_ranks() > 1) {
        qg__json_integer(&j, "ranks", (uint64_t)qg_ranks());
        qg__json_real(&j, "bytes_per_step", b->traffic.bytes / b->steps);
        qg__json_real(&j, "messages_per_step", (double)b->traffic.messages / b->steps);
        qg__json_real(&j, "exchange_ms_per_step", 1e3 * b->traffic.seconds / b->steps);
        qg__json_real(&j, "hidden_ms_per_step", 1e3 * b->traffic.hidden / b->steps);
    }
    if (profile) print_profile_json(b, &j);
    qg__json_end(&j);
}

static void print_packed(const bench *b)
{
    const qg_shape image = qg_loader_shape(b->data);
    printf("packed %s, weights %s, inputs %s, %s %dx%dx%d, batch %d: %d thread%s, kernels %s\n", config_text(&b->config, "model"),
           config_text(&b->config, "weight"), config_text(&b->config, "input"), b->recipe.data.name, image.h, image.w, image.c,
           b->engine_batch, qg_threads(), qg_threads() == 1 ? "" : "s", qg_cpu_path());
    packed_speed_print(&b->engine);
}

static void print_packed_json(const bench *b)
{
    qg__json j = qg__json_begin(stdout);
    qg__json_text(&j, "bench", "packed");
    print_net_json(b, &j);
    packed_speed_json(&b->engine, &j);
    report_machine(&j);
    qg__json_end(&j);
}

static void print_bench(const bench *b)
{
    if (b->packed) {
        if (b->asked->json) print_packed_json(b);
        else print_packed(b);
        return;
    }
    const bool profile = b->asked->profile;
    if (b->asked->json) print_json(b, profile);
    else print_text(b, profile);
}

/* --- the verb ------------------------------------------------------------------------------- */

static int run_bench(bench *b)
{
    bool      usage  = true;
    qg_status status = qg_ranks_begin(NULL, NULL);
    if (!status) status = choose_data(b->asked);
    if (!status) status = config_resolve(b->asked, NULL, &b->config, &usage);
    if (!status) {
        usage  = true;
        status = config_check(&b->config);
        if (!status && !b->forward) status = recipe_trains(&b->config.recipe);
    }
    if (status) qg_ranks_abort(EXIT_USAGE, NULL);
    if (status) return options_report("qgrad bench", usage);
    b->recipe = b->config.recipe;
    if (b->forward) b->recipe.augment = (qg_augment){ 0 };
    if (qg_rank() == 0) report_presets();
    b->engine_batch = b->recipe.batch;
    if (b->packed && b->recipe.batch < SEEN_IMAGES) b->recipe.batch = SEEN_IMAGES;
    status = build(b);
    if (!status) status = b->packed ? measure_packed(b) : measure(b);
    if (status) qg_ranks_abort(EXIT_FAILED, NULL);
    if (status) return qg_report("qgrad bench");
    if (qg_rank() == 0) print_bench(b);
    qg_ranks_end();
    return EXIT_DONE;
}

static int bench_step(bench *b)
{
    const int status = run_bench(b);
    packed_speed_free(&b->engine);
    free(b->ms);
    free(b->peak);
    qg_tape_free(b->tape);
    qg_optim_free(b->optim);
    qg_net_free(b->net);
    qg_loader_free(b->data);
    config_free(&b->config);
    return status;
}

/* --- which benchmark ---------------------------------------------------------------------- */

static int bench_train(const char *program, const char *operand, config *asked)
{
    (void)program, (void)operand;
    return bench_step(&(bench){ .asked = asked });
}

static int bench_eval(const char *program, const char *operand, config *asked)
{
    (void)program, (void)operand;
    return bench_step(&(bench){ .asked = asked, .forward = true });
}

static int bench_packed(const char *program, const char *operand, config *asked)
{
    (void)program, (void)operand;
    return bench_step(&(bench){ .asked = asked, .forward = true, .packed = true });
}

static int bench_machine(const char *program, const char *operand, config *asked)
{
    (void)program, (void)operand;
    return bench_peak(asked);
}

static int bench_kernels(const char *program, const char *operand, config *asked)
{
    (void)program, (void)operand;
    report_presets();
    return bench_infer(asked);
}

static int bench_traffic(const char *program, const char *operand, config *asked)
{
    (void)program, (void)operand;
    return bench_memory(asked);
}

const verb benches[] = {
    { .name = "bench train", .about = "Measure the speed of training",
      .usage = "bench train --model NAME [--weight SCHEME] [options]", .bit = VERB_BENCH, .run = bench_train, .shares = true },
    { .name = "bench eval", .about = "Measure the speed of evaluation: forward only",
      .usage = "bench eval --model NAME [--weight SCHEME] [options]", .bit = VERB_BENCH, .run = bench_eval, .shares = true },
    { .name = "bench packed", .about = "Measure the speed of a packed net in the engine, with random weights",
      .usage = "bench packed --model NAME [--weight SCHEME] [options]", .bit = VERB_BENCH, .run = bench_packed },
    { .name = "bench peak", .about = "Measure what this machine can do: multiply-adds and memory",
      .usage = "bench peak [--threads N] [--seconds S] [--json]", .bit = VERB_PEAK, .run = bench_machine },
    { .name = "bench infer", .about = "Measure the kernels of the engine beside float convolutions",
      .usage = "bench infer [--seconds S] [--json]", .bit = VERB_INFER, .run = bench_kernels },
    { .name = "bench memory", .about = "Measure a depthwise convolution beside the bandwidth of memory",
      .usage = "bench memory [--threads N] [--seconds S] [--json]", .bit = VERB_PEAK, .run = bench_traffic },
    { .name = NULL }
};
