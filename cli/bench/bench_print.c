/* What qgrad bench train and bench eval say. */
#include <stdio.h>

#include "cli/bench/bench.h"
#include "cli/run/report.h"
#include "core/kernels/cpu.h"
#include "core/kernels/parallel.h"

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
    if (b->median_peak > 0) printf(" of %.1f that the machine gave meanwhile", b->median_peak);
    printf(", %.1f MiB at most\n", (double)peak_rss_bytes() / (1 << 20));
    if (profile) print_profile(b, stdout);
}

static void print_json(const bench *b, bool profile)
{
    const double   rate  = images_per_second(b);
    const qg_shape image = qg_loader_shape(b->data);
    json j = json_begin(stdout);
    json_text(&j, "bench", b->forward ? "eval" : "train");
    json_text(&j, "model", config_text(&b->config, "model"));
    json_text(&j, "data", b->recipe.data.name);
    json_open(&j, "image", '[');
    json_integer(&j, NULL, (uint64_t)image.h);
    json_integer(&j, NULL, (uint64_t)image.w);
    json_integer(&j, NULL, (uint64_t)image.c);
    json_close(&j, ']');
    json_text(&j, "weight", config_text(&b->config, "weight"));
    json_text(&j, "input", config_text(&b->config, "input"));
    json_text(&j, "gradient", config_text(&b->config, "gradient"));
    json_integer(&j, "batch", (uint64_t)b->recipe.batch);
    json_real(&j, "images_per_second", rate);
    json_real(&j, "ms_per_step", b->median);
    json_integer(&j, "steps", (uint64_t)b->steps);
    json_real(&j, "seconds", b->seconds);
    json_real(&j, "flops_per_image", b->flops);
    json_real(&j, "gflops", 1e-9 * rate * b->flops);
    if (b->median_peak > 0) json_real(&j, "gflops_meanwhile", b->median_peak);
    report_machine(&j, NULL);
    if (profile) print_profile_json(b, &j);
    json_end(&j);
}

void bench_print(const bench *b)
{
    const bool profile = b->asked.profile;
    if (b->asked.json) print_json(b, profile);
    else print_text(b, profile);
}
