#include "cli/run/report.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "cli/config/models.h"
#include "cli/paths.h"
#include "cli/print.h"
#include "cli/run/progress.h"
#include "core/kernels/cpu.h"
#include "core/io/file.h"
#include "core/kernels/parallel.h"

/* The commit's first 12 digits, and "-dirty" if the sources had uncommitted changes; set by the Makefile. */
#ifndef QGRAD_COMMIT
#define QGRAD_COMMIT "unknown"
#endif

double report_error(double p, uint64_t n) { return n ? sqrt(p * (1 - p) / (double)n) : 0; }

size_t peak_rss_bytes(void)
{
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u)) return 0;
#ifdef __APPLE__
    return (size_t)u.ru_maxrss;
#else
    return (size_t)u.ru_maxrss * 1024;
#endif
}

void report_digest(const qg_net *net, char text[17])
{
    snprintf(text, 17, "%016" PRIx64, qg_params_digest(qg_net_params(net)));
}

void report_machine(json *j)
{
    json_integer(j, "peak_rss_bytes", peak_rss_bytes());
    json_integer(j, "threads", (uint64_t)qg_threads());
    json_text(j, "blas_core", qg_blas_core());
    json_text(j, "cpu_path", qg_cpu_path());
    json_text(j, "commit", QGRAD_COMMIT);
}

void report_head(const report *r, FILE *out, const qg_loader *train, const qg_loader *test)
{
    const qg_shape  x = qg_loader_shape(train);
    const data_set *d = &r->run->config->recipe.data;
    const char     *dir = r->run->config->recipe.data_dir ? r->run->config->recipe.data_dir : d->dir;
    fprintf(out, "model    %s: %s\n", config_text(r->run->config, "model"), r->run->config->recipe.model.type->about);
    fprintf(out, "weights  %s, inputs %s, gradients %s, first and last %s\n",
            config_text(r->run->config, "weight"), config_text(r->run->config, "input"),
            config_text(r->run->config, "gradient"), config_text(r->run->config, "first-last"));
    print_safe(out, "data     %s: %d training and %d test images of %dx%dx%d%s%s\n", d->name, x.n,
               qg_loader_shape(test).n, x.h, x.w, x.c, dir ? ", from " : "", dir ? dir : "");
    fprintf(out, "images   normalised by %s, augmented by %s\n", config_text(r->run->config, "normalise"),
            config_text(r->run->config, "augment"));
    fprintf(out, "machine  %d thread%s, OpenBLAS core %s, kernels %s\n", qg_threads(),
            qg_threads() == 1 ? "" : "s", qg_blas_core(), qg_cpu_path());
    print_safe(out, "run      %s\n\n", r->run->paths.dir);
    qg_net_summary(r->run->net, out);
    fputc('\n', out);
}

/* --- the float run beside this one -------------------------------------------------------- */

typedef struct rival {
    char     dir[PATH_BYTES];
    double   accuracy, seconds;
    uint64_t seed;
} rival;

static bool is_float(const config *c)
{
    static const char *const plain[] = { "weight", "input", "gradient" };
    for (int i = 0; i < 3; i++) {
        const char *q = config_text(c, plain[i]);
        if (!q || strcmp(q, "float")) return false;
    }
    return !config_text(c, "layer");
}

/* Whether a and b train alike on the same data, except for their quantizers; Bop counts as one. */
static bool trains_alike(const config *a, const config *b)
{
    const bool        bop    = a->recipe.optimizer == BOP || b->recipe.optimizer == BOP;
    const char *const data_a = config_text(a, "data-digest"), *const data_b = config_text(b, "data-digest");
    const char *const init_a = config_text(a, "init-digest"), *const init_b = config_text(b, "init-digest");
    if (config_difference(a, b, IDENTITY, PER_RUN | QUANTIZES | (bop ? OPTIMIZES : 0))) return false;
    if (data_a && data_b && strcmp(data_a, data_b)) return false;       /* older versions do not record it */
    return init_a && init_b ? !strcmp(init_a, init_b) : init_a == init_b;
}

/* Whether dir contains a finished float run that corresponds to the run of; writes its results to *out. */
static bool read_rival(const char *dir, const config *of, rival *out)
{
    run_paths p;
    config    c     = { 0 };
    metrics   m     = { 0 };
    bool      found = !run_paths_of(dir, &p) && !config_read(&c, p.file[RUN_CONFIG]) && is_float(&c) && trains_alike(&c, of) &&
                 !metrics_read(&m, QG_BY_PATH, p.file[RUN_METRICS], -1) && m.epochs == c.recipe.epochs;
    if (found) {
        *out = (rival){ .accuracy = m.last.test_accuracy,
                        .seconds  = m.seconds,
                        .seed     = c.recipe.seed };
        snprintf(out->dir, sizeof out->dir, "%s", dir);
    }
    metrics_end(&m);
    config_free(&c);
    return found;
}

/* The run with the same seed, or else the first by name. */
static bool find_rival(const report *r, rival *out)
{
    char parent[PATH_BYTES], prefix[VALUE_BYTES];
    bool found = false;
    snprintf(parent, sizeof parent, "%s", r->run->paths.dir);
    char *slash = strrchr(parent, '/');
    if (slash) *slash = '\0';
    else strcpy(parent, ".");
    model_file_name(config_text(r->run->config, "model"), prefix, sizeof prefix);
    const size_t used = strlen(prefix);
    snprintf(prefix + used, sizeof prefix - used, "-float-");
    const size_t n = strlen(prefix);
    DIR      *dir = opendir(*parent ? parent : "/");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char  path[PATH_BYTES];
        rival other;
        if (strncmp(e->d_name, prefix, n) || path_join(parent, e->d_name, path)) continue;
        if (!slash) snprintf(path, sizeof path, "%s", e->d_name);
        if (!strcmp(path, r->run->paths.dir) || !read_rival(path, r->run->config, &other)) continue;
        const uint64_t seed  = r->run->config->recipe.seed;
        const bool    better = (other.seed == seed) != (found && out->seed == seed)
                                   ? other.seed == seed
                                   : !found || strcmp(other.dir, out->dir) < 0;
        if (better) *out = other;
        found = true;
    }
    if (dir) closedir(dir);
    return found;
}

/* --- for people --------------------------------------------------------------------------- */

static double percent(double share) { return 100 * share; }

static void print_accuracy(const report *r, FILE *out)
{
    const run_record *at = &r->run->record;
    rival             other;
    fprintf(out, "test accuracy  %.2f %% ± %.2f %%, best %.2f %% after epoch %" PRIu64 "\n",
            percent(at->test_accuracy), percent(report_error(at->test_accuracy, at->tested)),
            percent(at->best_accuracy), at->best_epoch);
    if (is_float(r->run->config) || !find_rival(r, &other)) return;
    fprintf(out, "in float       %.2f %% ± %.2f %%, in %.1f s: %s\n", percent(other.accuracy),
            percent(report_error(other.accuracy, at->tested)), other.seconds, other.dir);
}

/* The options of a float run that corresponds to the quantized run c. */
static void print_as_float(const config *c, FILE *out)
{
    static const char *const operands[] = { "weight", "input", "gradient" };
    for (int i = 0; i < 3; i++)
        if (strcmp(config_text(c, operands[i]), "float")) fprintf(out, " --%s float", operands[i]);
    for (const char *line = config_text(c, "layer"); line && *line; line = list_next(line))
        fprintf(out, " --layer %.*s=float", (int)strcspn(line, "="), line);
    if (c->recipe.quantize_after) fprintf(out, " --quantize-after 0");
    if (c->recipe.optimizer == BOP) fprintf(out, " --optimizer adam");
}

static void print_config(const char *does, const report *r, FILE *out)
{
    fprintf(out, "  %s %s --config ", r->program, does);
    path_print(r->run->paths.file[RUN_CONFIG], out);
}

/* Suggests the same run in float, or with twn if this one is in float, in a directory where find_rival looks.  No
 * suggestion if that directory already has a run, or if options cannot undo what this run uses: folded batch norms,
 * initial weights from another run. */
static void print_twin(const report *r, FILE *out)
{
    const config *c = r->run->config;
    const char   *dir = r->run->paths.dir, *slash = strrchr(dir, '/');
    char          model[VALUE_BYTES], twin[PATH_BYTES];
    model_file_name(config_text(r->run->config, "model"), model, sizeof model);
    const int n = snprintf(twin, sizeof twin, "%.*s%s-%s-%" PRIu64, slash ? (int)(slash + 1 - dir) : 0, dir, model,
                           is_float(c) ? "twn" : "float", r->run->config->recipe.seed);
    if (n >= PATH_BYTES || path_exists(twin) || c->recipe.fold_batchnorm || c->init_digest)
        return;
    print_config("train", r, out);
    if (is_float(c)) fprintf(out, " --weight twn");
    else print_as_float(c, out);
    fputs(" --out ", out);
    path_print(twin, out);
    fputc('\n', out);
}

static void print_next(const report *r, FILE *out)
{
    fprintf(out, "\nTry next:\n  %s eval --run ", r->program);
    path_print(r->run->paths.dir, out);
    fputs(" --best\n", out);
    print_twin(r, out);
    print_config("bench train", r, out);
    fputs(" --profile\n", out);
}

void report_result(const report *r, FILE *out)
{
    const run_record *at = &r->run->record;
    const size_t      floats = qg_net_float_bytes(r->run->net), packed = qg_net_packed_bytes(r->run->net);
    char              digest[17];
    report_digest(r->run->net, digest);
    fputc('\n', out);
    if (at->epoch) print_accuracy(r, out);
    fprintf(out, "bytes          %zu as float, %zu packed", floats, packed);
    if (packed) fprintf(out, ": %.1f times smaller", (double)floats / (double)packed);
    fprintf(out, "\ntime           %.1f s, %.0f images/s\n", r->run->metrics.seconds + r->seconds,
            r->rate);
    fprintf(out, "digest         %s\n", digest);
    print_safe(out, "run            %s\n", r->run->paths.dir);
    if (at->epoch == (uint64_t)r->run->config->recipe.epochs) print_next(r, out);
}

/* --- for programs ------------------------------------------------------------------------- */

/* A process that finds the run complete has not worked on it. */
static result result_of(const report *r)
{
    const run_record *at   = &r->run->record;
    const bool        some = at->epoch > 0, worked = !r->before->complete;
    result            now  = { .test_accuracy        = some ? at->test_accuracy : NAN,
                               .best_test_accuracy   = some ? at->best_accuracy : NAN,
                               .best_epoch           = at->best_epoch,
                               .test_accuracy_stderr = some ? report_error(at->test_accuracy, at->tested) : NAN,
                               .test_images          = at->tested,
                               .train_loss           = some ? at->train_loss : NAN,
                               .epochs               = at->epoch,
                               .complete             = at->epoch == (uint64_t)r->run->config->recipe.epochs,
                               .images_per_second    = r->rate,
                               .seconds              = r->run->metrics.seconds + r->seconds,
                               .threads              = (uint64_t)qg_threads(),
                               .seed                 = r->run->config->recipe.seed };
    result_join(now.blas_core, r->before->blas_core, worked ? qg_blas_core() : "");
    result_join(now.cpu_path, r->before->cpu_path, worked ? qg_cpu_path() : "");
    result_join(now.commit, r->before->commit, worked ? QGRAD_COMMIT : "");
    report_digest(r->run->net, now.digest);
    return now;
}

static void print_json(const report *r, FILE *out, bool with_run)
{
    const result now = result_of(r);
    json         j   = json_begin(out);
    json_text(&j, "model", config_text(r->run->config, "model"));
    json_text(&j, "data", r->run->config->recipe.data.name);
    json_text(&j, "weight", config_text(r->run->config, "weight"));
    json_text(&j, "input", config_text(r->run->config, "input"));
    json_text(&j, "gradient", config_text(r->run->config, "gradient"));
    json_integer(&j, "parameters", qg_params_trained(qg_net_params(r->run->net)));
    json_integer(&j, "float_bytes", qg_net_float_bytes(r->run->net));
    json_integer(&j, "packed_bytes", qg_net_packed_bytes(r->run->net));
    json_integer(&j, "peak_rss_bytes", peak_rss_bytes());
    if (with_run) json_text(&j, "run", r->run->paths.dir);
    result_put(&j, &now);
    json_end(&j);
}

void report_json(const report *r, FILE *out) { print_json(r, out, true); }

/* Without the directory, because the file may be moved. */
static qg_status print_result(const void *r, FILE *out)
{
    print_json(r, out, false);
    return QG_OK;
}

qg_status report_save(const report *r)
{
    char     *text;
    size_t    n;
    qg_status status = text_print(print_result, r, &text, &n);
    if (!status) status = result_write(r->run->lock, r->run->paths.file[RUN_RESULT], text, n);
    free(text);
    return status;
}
