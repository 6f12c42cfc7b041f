#include "cli/run/report.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config/models.h"
#include "cli/print.h"
#include "cli/run/listing.h"
#include "core/clock.h"
#include "core/io/number.h"
#include "core/kernels/cpu.h"
#include "core/kernels/parallel.h"
#include "train/result.h"

void report_warning(const qg_loader *images)
{
    const char *text = qg_loader_warning(images);
    if (text) print_safe(stderr, "qgrad: warning: %s\n", text);
}

void report_presets(void)
{
    static const char *const presets[] = { "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_BLOCK_FACTOR" };
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (getenv(presets[i]))
            print_safe(stderr, "qgrad: warning: %s is set to %s, so OpenBLAS does not choose for itself: speed and bits differ\n",
                       presets[i], getenv(presets[i]));
}

void report_machine(qg__json *j)
{
    qg__json_integer(j, "peak_rss_bytes", qg__peak_rss_bytes());
    qg__json_integer(j, "threads", (uint64_t)qg_threads());
    qg__json_text(j, "blas_core", qg_blas_core());
    qg__json_text(j, "cpu_path", qg_cpu_path());
    qg__json_text(j, "commit", qg_commit());
}

void report_head(const report *r, FILE *out)
{
    const qg_shape  x = qg_loader_shape(r->spec->train);
    const qg__data *d = &r->config->data;
    char            path[QG__PATH_BYTES];
    const char     *dir = r->config->data_dir;
    snprintf(path, sizeof path, "datasets/%s", d->name);        /* the default (qg_data_train) */
    qg__share_find(path, path);
    if (!dir && qg__path_exists(path)) dir = path;
    fprintf(out, "model    %s: %s\n", qg__recipe_value(r->config, "model"), r->config->model.type->about);
    fprintf(out, "weights  %s, inputs %s, gradients %s, first and last %s\n",
            qg__recipe_value(r->config, "weight"), qg__recipe_value(r->config, "input"),
            qg__recipe_value(r->config, "gradient"), qg__recipe_value(r->config, "first-last"));
    char            held[32] = "";
    if (r->spec->validation) snprintf(held, sizeof held, ", %d validation", qg_loader_shape(r->spec->validation).n);
    print_safe(out, "data     %s: %d training%s and %d test images of %dx%dx%d%s%s\n", d->name, x.n, held,
               qg_loader_shape(r->spec->test).n, x.h, x.w, x.c, dir ? ", from " : "", dir ? dir : "");
    fprintf(out, "images   normalised by %s, augmented by %s\n", qg__recipe_value(r->config, "normalise"),
            qg__recipe_value(r->config, "augment"));
    fprintf(out, "steps    %d per epoch, of %d image%s each\n", qg_loader_batches(r->spec->train), r->config->batch,
            r->config->batch == 1 ? "" : "s");
    fprintf(out, "machine  %d thread%s, OpenBLAS core %s, kernels %s\n", qg_threads(),
            qg_threads() == 1 ? "" : "s", qg_blas_core(), qg_cpu_path());
    print_safe(out, "run      %s\n\n", r->paths->dir);
    qg_net_summary(r->net, out);
    fputc('\n', out);
}

/* --- the float run beside this one -------------------------------------------------------- */

typedef struct rival {
    char     dir[QG__PATH_BYTES];
    double   accuracy, seconds;
    uint64_t seed;
} rival;

static bool is_float(const qg_recipe *c)
{
    static const char *const plain[] = { "weight", "input", "gradient" };
    for (int i = 0; i < 3; i++) {
        const char *q = qg__recipe_value(c, plain[i]);
        if (!q || strcmp(q, "float")) return false;
    }
    return !qg__recipe_value(c, "layer");
}

/* Whether a and b train alike on the same data, except for their quantizers; Bop counts as one. */
static bool trains_alike(const qg_recipe *a, const qg_recipe *b)
{
    const bool        bop    = a->optimizer == QG__BOP || b->optimizer == QG__BOP;
    const char *const data_a = qg__recipe_value(a, "data-digest"), *const data_b = qg__recipe_value(b, "data-digest");
    const char *const init_a = qg__recipe_value(a, "init-digest"), *const init_b = qg__recipe_value(b, "init-digest");
    if (qg__recipe_difference(a, b, QG__IDENTITY, QG__PER_RUN | QG__QUANTIZES | (bop ? QG__OPTIMIZES : 0))) return false;
    if (data_a && data_b && strcmp(data_a, data_b)) return false;       /* older versions do not record it */
    return init_a && init_b ? !strcmp(init_a, init_b) : init_a == init_b;
}

/* Whether dir contains a finished float run that corresponds to the run of; writes its results to *out. */
static bool read_rival(const char *dir, const qg_recipe *of, rival *out)
{
    listing    l     = { 0 };
    const bool known = !listing_add(&l, dir) && l.item->state == LISTED_FINISHED && l.item->configured;
    const bool found = known && is_float(&l.item->config) && trains_alike(&l.item->config, of);
    if (found) {
        *out = (rival){ .accuracy = l.item->result.test_accuracy, .seconds = l.item->result.seconds, .seed = l.item->config.seed };
        snprintf(out->dir, sizeof out->dir, "%s", dir);
    }
    listing_free(&l);
    return found;
}

/* The run with the same seed, or else the first by name. */
static bool find_rival(const report *r, rival *out)
{
    char parent[QG__PATH_BYTES], prefix[QG__VALUE_BYTES];
    bool found = false;
    snprintf(parent, sizeof parent, "%s", r->paths->dir);
    char *slash = strrchr(parent, '/');
    if (slash) *slash = '\0';
    else strcpy(parent, ".");
    model_file_name(qg__recipe_value(r->config, "model"), prefix, sizeof prefix);
    const size_t used = strlen(prefix);
    snprintf(prefix + used, sizeof prefix - used, "-float-");
    const size_t n = strlen(prefix);
    DIR      *dir = opendir(*parent ? parent : "/");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char  path[QG__PATH_BYTES];
        rival other;
        if (strncmp(e->d_name, prefix, n) || qg__path_join(parent, e->d_name, path)) continue;
        if (!slash) snprintf(path, sizeof path, "%s", e->d_name);
        if (!strcmp(path, r->paths->dir) || !read_rival(path, r->config, &other)) continue;
        const uint64_t seed  = r->config->seed;
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
    const qg_fit_result *at = &r->result;
    rival                other;
    if (at->validation_images)
        fprintf(out, "validation     %.2f %%, best %.2f %% after epoch %" PRIu64 "\n", percent(at->validation_accuracy),
                percent(at->best_validation_accuracy), at->best_epoch);
    if (isnan(at->test_accuracy)) return;       /* not tested yet */
    fprintf(out, "test accuracy  %.2f %% ± %.2f %%, best %.2f %% after epoch %" PRIu64 "\n",
            percent(at->test_accuracy), percent(at->test_accuracy_stderr),
            percent(at->best_test_accuracy), at->best_epoch);
    if (is_float(r->config) || !find_rival(r, &other)) return;
    fprintf(out, "in float       %.2f %% ± %.2f %%, in %.1f s: %s\n", percent(other.accuracy),
            percent(qg_proportion_error(other.accuracy, at->test_images)), other.seconds, other.dir);
}

/* The options of a float run that corresponds to the quantized run c. */
static void print_as_float(const qg_recipe *c, FILE *out)
{
    static const char *const operands[] = { "weight", "input", "gradient" };
    for (int i = 0; i < 3; i++)
        if (strcmp(qg__recipe_value(c, operands[i]), "float")) fprintf(out, " --%s float", operands[i]);
    for (const char *line = qg__recipe_value(c, "layer"); line && *line; line = qg__lines_next(line))
        fprintf(out, " --layer %.*s=float", (int)strcspn(line, "="), line);
    if (c->quantize_after.count) fprintf(out, " --quantize-after 0");
    if (c->quantize_weights_after.count) fprintf(out, " --quantize-weights-after 0");
    if (c->optimizer == QG__BOP) fprintf(out, " --optimizer adam");
}

static void print_config(const char *does, const report *r, FILE *out)
{
    fprintf(out, "  %s %s --config ", r->program, does);
    print_path(r->paths->file[RUN_CONFIG], out);
}

/* Suggests the same run in float, or with twn if this one is in float, in a directory where find_rival looks.  No
 * suggestion if that directory already has a run, or if options cannot undo what this run uses: folded batch norms,
 * initial weights from another run. */
static void print_twin(const report *r, FILE *out)
{
    const qg_recipe *c = r->config;
    const char   *dir = r->paths->dir, *slash = strrchr(dir, '/');
    char          model[QG__VALUE_BYTES], twin[QG__PATH_BYTES];
    model_file_name(qg__recipe_value(r->config, "model"), model, sizeof model);
    const int n = snprintf(twin, sizeof twin, "%.*s%s-%s-%" PRIu64, slash ? (int)(slash + 1 - dir) : 0, dir, model,
                           is_float(c) ? "twn" : "float", r->config->seed);
    if (n >= QG__PATH_BYTES || qg__path_exists(twin) || c->fold_batchnorm || c->init_digest)
        return;
    print_config("train", r, out);
    if (is_float(c)) fprintf(out, " --weight twn");
    else print_as_float(c, out);
    fputs(" --out ", out);
    print_path(twin, out);
    fputc('\n', out);
}

static void print_next(const report *r, FILE *out)
{
    fprintf(out, "\nTry next:\n  %s eval --run ", r->program);
    print_path(r->paths->dir, out);
    fputs(" --best\n", out);
    print_twin(r, out);
    print_config("bench train", r, out);
    fputs(" --profile\n", out);
}

void report_bytes(const qg_net *net, FILE *out)
{
    const size_t floats = qg_net_float_bytes(net), packed = qg_net_packed_bytes(net);
    fprintf(out, "bytes          %zu as float, ", floats);
    char ratio[QG_NUMBER_BYTES];
    if (packed) fprintf(out, "%zu packed: %s\n", packed, qg__number_ratio(ratio, packed, floats));
    else print_safe(out, "no packed file: %s\n", qg_errmsg());
}

void report_result(const report *r, FILE *out)
{
    const qg_fit_result *at = &r->result;
    char                 page[QG__PATH_BYTES];
    fputc('\n', out);
    if (at->epochs) print_accuracy(r, out);
    report_bytes(r->net, out);
    fprintf(out, "time           %.1f s, %.0f images/s\n", at->seconds, at->images_per_second);
    fprintf(out, "digest         %s\n", at->digest);
    print_safe(out, "run            %s\n", r->paths->dir);
    if (r->page && !qg__path_join(r->paths->dir, r->page, page) && qg__path_exists(page))
        print_safe(out, "page           %s\n", page);
    if (at->complete) print_next(r, out);
}

void report_json(const report *r, FILE *out)
{
    if (qg__result_print(&r->result, r->spec, r->net, r->paths->dir, out)) qg_print_error("qgrad train");
}
