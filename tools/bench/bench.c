/* qgrad bench train, bench eval, bench packed: how long a training step, a forward pass, or a run of the packed net takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench.h"
#include "core/clock.h"
#include "cli/print.h"
#include "cli/run/report.h"
#include "core/kernels/cpu.h"
#include "core/kernels/parallel.h"
#include "core/dist/ranks.h"
#include "core/rng.h"

/* Batch norms and observed ranges see so many images before a net is packed: one would give zeros. */
enum { SEEN_IMAGES = 8 };

static qg_status measure_packed(bench *b)
{
    qg_batch  batch;
    qg_status status = bench_next(b, &batch);
    if (status) return status;
    batch.x.shape.n = SEEN_IMAGES;
    qg_tape_begin(b->tape, QG_TRAIN, qg_rng_fork(b->recipe.seed, QG_STREAM_TAPE), b->taken++);
    if (!qg_net_forward(b->net, b->tape, batch.x)) return qg_tape_status(b->tape);
    status = bench_next(b, &batch);
    if (status) return status;
    return packed_speed_measure(b->net, b->engine_batch, batch.x.data, config_number(b->asked, "seconds"), config_flag(b->asked, "profile"), &b->engine);
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
           (double)b->traffic.messages / b->steps, b->median_exchange, 1e3 * b->traffic.hidden / b->steps);
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

void bench_print_net(const bench *b)
{
    const qg_shape image = b->image;
    printf("%s, weights %s, inputs %s, gradients %s, %s %dx%dx%d", qg__recipe_value(b->config, "model"), qg__recipe_value(b->config, "weight"),
           qg__recipe_value(b->config, "input"), qg__recipe_value(b->config, "gradient"), b->recipe.data.name, image.h, image.w, image.c);
}

static void print_head(const bench *b)
{
    printf("%s ", b->forward ? "evaluate" : "train");
    bench_print_net(b);
    printf(", batch %d: %d thread%s, kernels %s\n", b->recipe.batch, qg_threads(), qg_threads() == 1 ? "" : "s", qg_cpu_path());
}

static void print_text(const bench *b, bool profile)
{
    const double rate = bench_images_per_second(b);
    print_head(b);
    printf("%.0f images/s, %.3f ms per step (median of %d; fastest %.3f), %.1f GFLOP/s", rate, b->median,
           b->steps, b->ms[0], 1e-9 * rate * b->flops);
    if (b->median_peak > 0) printf(" of %.1f available meanwhile", b->median_peak);
    printf(", %.1f MiB at most\n", (double)qg__peak_rss_bytes() / (1 << 20));
    if (profile) print_profile(b, stdout);
    if (profile) print_traffic(b);
}

void bench_json_net(const bench *b, qg__json *j)
{
    const qg_shape image = b->image;
    qg__json_text(j, "model", qg__recipe_value(b->config, "model"));
    qg__json_text(j, "data", b->recipe.data.name);
    qg__json_open(j, "image", '[');
    qg__json_integer(j, NULL, (uint64_t)image.h);
    qg__json_integer(j, NULL, (uint64_t)image.w);
    qg__json_integer(j, NULL, (uint64_t)image.c);
    qg__json_close(j, ']');
    qg__json_text(j, "weight", qg__recipe_value(b->config, "weight"));
    qg__json_text(j, "input", qg__recipe_value(b->config, "input"));
    qg__json_text(j, "gradient", qg__recipe_value(b->config, "gradient"));
    qg__json_integer(j, "batch", (uint64_t)(b->packed ? b->engine_batch : b->recipe.batch));
}

static void print_json(const bench *b, bool profile)
{
    const double rate = bench_images_per_second(b);
    qg__json j = qg__json_begin(stdout);
    qg__json_text(&j, "bench", b->forward ? "eval" : "train");
    bench_json_net(b, &j);
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
        qg__json_real(&j, "exchange_ms_per_step", b->median_exchange);
        qg__json_real(&j, "hidden_ms_per_step", 1e3 * b->traffic.hidden / b->steps);
    }
    if (profile) print_profile_json(b, &j);
    qg__json_end(&j);
}

static void print_packed(const bench *b)
{
    const qg_shape image = b->image;
    printf("packed %s, weights %s, inputs %s, %s %dx%dx%d, batch %d: %d thread%s, kernels %s\n", qg__recipe_value(b->config, "model"),
           qg__recipe_value(b->config, "weight"), qg__recipe_value(b->config, "input"), b->recipe.data.name, image.h, image.w, image.c,
           b->engine_batch, qg_threads(), qg_threads() == 1 ? "" : "s", qg_cpu_path());
    packed_speed_print(&b->engine);
}

static void print_packed_json(const bench *b)
{
    qg__json j = qg__json_begin(stdout);
    qg__json_text(&j, "bench", "packed");
    bench_json_net(b, &j);
    packed_speed_json(&b->engine, &j);
    report_machine(&j);
    qg__json_end(&j);
}

static void print_bench(const bench *b)
{
    if (b->packed) {
        if (config_flag(b->asked, "json")) print_packed_json(b);
        else print_packed(b);
        return;
    }
    const bool profile = config_flag(b->asked, "profile");
    if (config_flag(b->asked, "json")) print_json(b, profile);
    else print_text(b, profile);
}

/* --- the verb ------------------------------------------------------------------------------- */

static int run_bench(bench *b)
{
    qg_status status = qg_ranks_begin(NULL, NULL);
    if (!status) status = bench_choose_data(b->asked);
    if (!status) status = config_read(b->asked);
    if (!status) {
        b->config = qg__recipe_full(b->asked->recipe);
        status    = !b->config ? qg_errcode() : qg__recipe_check(b->config, !b->forward);
    }
    if (status) return print_failure(b->asked);
    b->recipe = *b->config;
    if (b->forward) b->recipe.augment = (qg_augment){ 0 };
    b->engine_batch = b->recipe.batch;
    if (b->packed && b->recipe.batch < SEEN_IMAGES) b->recipe.batch = SEEN_IMAGES;
    status = bench_build(b);
    if (!status) status = b->packed ? measure_packed(b) : bench_measure(b);
    if (status) return print_failure(b->asked);
    if (qg_rank() == 0) print_bench(b);
    qg_ranks_end();
    return EXIT_DONE;
}

static int run_and_free(bench *b)
{
    const int status = run_bench(b);
    packed_speed_free(&b->engine);
    bench_free(b);
    return status;
}

/* --- the benchmarks ----------------------------------------------------------------------- */

static int bench_train(config *asked)
{
    return run_and_free(&(bench){ .asked = asked });
}

static int bench_eval(config *asked)
{
    return run_and_free(&(bench){ .asked = asked, .forward = true });
}

static int bench_packed(config *asked)
{
    return run_and_free(&(bench){ .asked = asked, .forward = true, .packed = true });
}

static const verb_option bench_options[] = {
    { "data-dir" }, { "image", .first = true }, { "seconds", .first = true }, { "profile", .first = true }, { NULL }
};

static const verb_option forward_options[] = {
    { "normalise" }, { "batch", "images that pass through the net together", .first = true },
    { "threads", .first = true }, { NULL }
};

static const verb_option scaling_options[] = {
    { "out", "a picture of the table, as SVG", .first = true }, { "image", .first = true },
    { "seconds", "how long to measure each line of the table, twice", .first = true }, { "link", .first = true }, { NULL }
};

static const verb_option machine_options[] = { { "threads" }, { "seconds" }, { NULL } };
static const verb_option seconds_options[] = { { "seconds" }, { NULL } };

/* Tables of options. */
#define TAKES(...) .options = (const verb_option *const[]){ __VA_ARGS__, common_options, NULL }
#define STEPS      net_options, step_options
#define FORWARD    net_options, forward_options

static const verb benches[] = {
    { .name = "bench train", .about = "Measure the speed of training",
      .usage = "bench train --model NAME [--weight SCHEME] [options]", TAKES(STEPS, bench_options),
      .run = bench_train, .shares = true },
    { .name = "bench eval", .about = "Measure the speed of evaluation: forward only",
      .usage = "bench eval --model NAME [--weight SCHEME] [options]", TAKES(FORWARD, bench_options),
      .run = bench_eval, .shares = true },
    { .name = "bench packed", .about = "Measure the speed of a packed net in the engine, with random weights",
      .usage = "bench packed --model NAME [--weight SCHEME] [options]", TAKES(FORWARD, bench_options),
      .run = bench_packed },
    { .name = "bench scaling", .about = "Measure training on 1, 2, 4 .. ranks and compare it with a model",
      .usage = "bench scaling --model NAME [--link latency=US,gbits=G] [options]", TAKES(STEPS, scaling_options),
      .run = bench_scaling, .shares = true },
    { .name = "bench peak", .about = "Measure what this machine can do: multiply-adds and memory",
      .usage = "bench peak [--threads N] [--seconds S] [--json]", TAKES(machine_options),
      .run = bench_peak },
    { .name = "bench infer", .about = "Measure the kernels of the engine and float convolutions",
      .usage = "bench infer [--seconds S] [--json]", TAKES(seconds_options),
      .run = bench_infer },
    { .name = "bench memory", .about = "Measure a depthwise convolution and the bandwidth of memory",
      .usage = "bench memory [--threads N] [--seconds S] [--json]", TAKES(machine_options),
      .run = bench_memory },
    { .name = NULL }
};

/* --- which benchmark -------------------------------------------------------------------------- */

static const char *word_of(const verb *v) { return strchr(v->name, ' ') + 1; }

static int help(void)
{
    printf("usage: qgrad bench BENCHMARK [options]\nMeasure the speed of training, of evaluation, of packed nets and of the machine.\n\n");
    for (const verb *b = benches; b->name; b++) printf("  %-12s  %s.\n", b->name, b->about);
    printf("\nSee qgrad bench train --help and so on for the options.\n");
    return EXIT_DONE;
}

int bench_main(int argc, char **argv)
{
    char        names[64] = "";
    const char *word      = argc > 1 ? argv[1] : "-";
    if (!strcmp(word, "--help") || !strcmp(word, "-h")) return help();
    for (const verb *b = benches; b->name; b++) {
        if (!strcmp(word_of(b), word)) return verb_run(b, argv[0], argc - 1, argv + 1);
        qg__list_append(names, sizeof names, word_of(b));
    }
    if (*word == '-') fprintf(stderr, "qgrad bench: the benchmark is missing; available: %s\n", names);
    else print_safe(stderr, "qgrad bench: unknown benchmark '%s'; available: %s\n", word, names);
    return EXIT_USAGE;
}
