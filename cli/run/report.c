#include "cli/run/report.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config/models.h"
#include "cli/print.h"
#include "cli/run/run_spec.h"
#include "core/clock.h"
#include "core/io/number.h"
#include "core/kernels/cpu.h"
#include "core/kernels/parallel.h"
#include "layers/layer.h"
#include "train/runs.h"

void report_warning(const qg_loader *images)
{
    const char *text = qg_loader_warning(images);
    if (text) print_safe(stderr, "qgrad: warning: %s\n", text);
}

void report_unused(const qg_net *net, qg_role role, const char *scheme, const char *first_last)
{
    const bool ends = first_last && !strcmp(first_last, "float");
    for (int i = 0; i < qg_net_layers(net); i++) {
        const qg_slot *slot = qg_layer_slot(qg_net_layer(net, i), role);
        if (slot && slot->q.scheme) return;
    }
    if (scheme && strcmp(scheme, "float"))
        print_safe(stderr, "qgrad: warning: no layer has %ss for %s%s%s\n", qg_role_name(role), scheme,
                   ends ? "; --first-last quantized includes the first and the last" : "",
                   ends && role == QG_INPUT ? ", but not the image" : "");
}

void report_machine(qg__json *j)
{
    qg__json_integer(j, "peak_rss_bytes", qg__peak_rss_bytes());
    qg__json_integer(j, "threads", (uint64_t)qg_threads());
    qg__json_text(j, "cpu_path", qg_cpu_path());
    qg__json_text(j, "commit", qg_commit());
}

static const char *get(const report *r, const char *key) { return qg_recipe_get(r->of->recipe, key); }

void report_head(const report *r, FILE *out)
{
    const qg_loader *train = r->of->train, *held = qg_loader_validation(train);
    const qg_shape   x     = qg_loader_shape(train);
    const char      *batch = get(r, "batch"), *dir = get(r, "data-dir");
    char             validation[32] = "", data[64], path[QG__PATH_BYTES];
    snprintf(path, sizeof path, "datasets/%s", run_data_name(get(r, "data"), data));      /* the default (qg_data_train) */
    qg__share_find(path, path);
    if (!dir && qg__path_exists(path)) dir = path;
    fprintf(out, "model    %s: %s\n", get(r, "model"), model_of(get(r, "model"))->about);
    const bool plain = !strcmp(get(r, "weight"), "float") && !strcmp(get(r, "input"), "float");
    fprintf(out, "weights  %s, inputs %s, gradients %s", get(r, "weight"), get(r, "input"), get(r, "gradient"));
    fprintf(out, plain ? "\n" : ", first and last %s\n", get(r, "first-last"));
    if (held) snprintf(validation, sizeof validation, ", %d validation", qg_loader_shape(held).n);
    print_safe(out, "data     %s: %d training%s and %d test images of %dx%dx%d%s%s\n", data, x.n, validation,
               qg_loader_shape(r->of->test).n, x.h, x.w, x.c, dir ? ", from " : "", dir ? dir : "");
    fprintf(out, "images   normalised by %s, augmented by %s\n", get(r, "normalise"), get(r, "augment"));
    fprintf(out, "steps    %d per epoch, of %s image%s each, by %s: lr %s, schedule %s\n", qg_loader_batches(train), batch,
            strcmp(batch, "1") ? "s" : "", get(r, "optimizer"), get(r, "lr"), get(r, "schedule"));
    fprintf(out, "machine  %d thread%s, kernels %s\n", qg_threads(), qg_threads() == 1 ? "" : "s", qg_cpu_path());
    print_safe(out, "run      %s\n\n", r->paths->dir);
    qg_net_summary(r->of->net, out);
    fputc('\n', out);
}

/* --- the float run beside this one -------------------------------------------------------- */

typedef struct rival {
    char   dir[QG__PATH_BYTES];
    double accuracy, seconds;
    bool   same_seed;
} rival;

/* Whether a key of r, if it is set, has this value. */
static bool is(qg_recipe *r, const char *key, const char *value)
{
    const char *text = qg_recipe_get(r, key);
    return text && !strcmp(text, value);
}

static bool is_float(qg_recipe *r)
{
    return is(r, "weight", "float") && is(r, "input", "float") && is(r, "gradient", "float") && !qg_recipe_get(r, "layer");
}

/* Whether two runs train alike on the same data, except for their quantizers; Bop counts as one.  Older versions do not record the
 * digest of their data. */
static bool trains_alike(qg_recipe *a, qg_recipe *b)
{
    const bool     bop = is(a, "optimizer", "bop") || is(b, "optimizer", "bop");
    const unsigned own = QG_RECIPE_PER_RUN | QG_RECIPE_QUANTIZES | (bop ? QG_RECIPE_OPTIMIZES : 0);
    for (const qg_recipe_key *k = NULL; (k = qg_recipe_difference(a, b, k));) {
        const bool images  = !strcmp(k->name, "data-digest") && qg_recipe_get(a, k->name) && qg_recipe_get(b, k->name);
        const bool weights = !strcmp(k->name, "init-digest");
        if (k->is & QG_RECIPE_IDENTITY && (!(k->is & own) || images || weights)) return false;
    }
    return true;
}

/* Whether dir contains a finished float run that corresponds to this run; writes its results to *out. */
static bool read_rival(const char *dir, qg_recipe *of, rival *out)
{
    qg_fit_result r;
    qg_recipe    *other = qg_recipe_of_run(dir);
    const bool    found = other && is_float(other) && trains_alike(other, of) && !qg_run_result(dir, &r) && r.complete;
    if (found) *out = (rival){ .accuracy = r.test_accuracy, .seconds = r.seconds, .same_seed = is(other, "seed", qg_recipe_get(of, "seed")) };
    if (found) snprintf(out->dir, sizeof out->dir, "%s", dir);
    qg_recipe_free(other);
    return found;
}

/* The run with the same seed, or else the first by name. */
static bool find_rival(const report *r, rival *out)
{
    char parent[QG__PATH_BYTES], prefix[QG_RECIPE_VALUE_BYTES];
    bool found = false;
    snprintf(parent, sizeof parent, "%s", r->paths->dir);
    char *slash = strrchr(parent, '/');
    if (slash) *slash = '\0';
    else strcpy(parent, ".");
    model_file_name(get(r, "model"), prefix, sizeof prefix);
    const size_t used = strlen(prefix);
    snprintf(prefix + used, sizeof prefix - used, "-float-");
    const size_t n = strlen(prefix);
    DIR      *dir = opendir(*parent ? parent : "/");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char  path[QG__PATH_BYTES];
        rival other;
        if (strncmp(e->d_name, prefix, n) || qg__path_join(parent, e->d_name, path)) continue;
        if (!slash) snprintf(path, sizeof path, "%s", e->d_name);
        if (!strcmp(path, r->paths->dir) || !read_rival(path, r->of->recipe, &other)) continue;
        const bool better = other.same_seed != (found && out->same_seed) ? other.same_seed
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
    fprintf(out, "test accuracy  %.2f %% ± %.2f %%", percent(at->test_accuracy), percent(at->test_accuracy_stderr));
    if (at->epochs) fprintf(out, ", best %.2f %% after epoch %" PRIu64, percent(at->best_test_accuracy), at->best_epoch);
    fputc('\n', out);
    if (is_float(r->of->recipe) || !find_rival(r, &other)) return;
    fprintf(out, "in float       %.2f %% ± %.2f %%, in %.1f s: %s\n", percent(other.accuracy),
            percent(qg_proportion_error(other.accuracy, at->test_images)), other.seconds, other.dir);
}

static void print_patience(const report *r, FILE *out)
{
    const qg_fit_result *at   = &r->result;
    const uint64_t       n    = at->epochs - at->best_epoch;
    const char          *held = at->validation_images ? "validation" : "test";
    fprintf(out, "stopped        after epoch %" PRIu64 " of %d: ", at->epochs, r->of->fit.epochs);
    fprintf(out, "the %s accuracy did not improve for %" PRIu64 " epoch%s (--patience)\n", held, n, n == 1 ? "" : "s");
}

static void print_as_ternary(qg_recipe *r, FILE *out)
{
    const char *whitened = qg_recipe_get(r, "whiten-patches");
    fprintf(out, " --weight twn");
    if (whitened) fprintf(out, " --layer %s:weight=float", whitened);
}

/* The options of a float run that corresponds to the quantized run r. */
static void print_as_float(qg_recipe *r, FILE *out)
{
    static const char *const operands[] = { "weight", "input", "gradient" };
    static const char *const delays[]   = { "quantize-after", "quantize-weights-after" };
    for (int i = 0; i < 3; i++)
        if (!is(r, operands[i], "float")) fprintf(out, " --%s float", operands[i]);
    for (const char *line = qg_recipe_get(r, "layer"); line && *line; line = qg__lines_next(line))
        fprintf(out, " --layer %.*s=float", (int)strcspn(line, "="), line);
    for (int i = 0; i < 2; i++)
        if (qg_recipe_get(r, delays[i]) && !is(r, delays[i], "0")) fprintf(out, " --%s 0", delays[i]);
    if (is(r, "optimizer", "bop")) fprintf(out, " --optimizer adam");
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
    qg_recipe  *c   = r->of->recipe;
    const char *dir = r->paths->dir, *slash = strrchr(dir, '/');
    char        model[QG_RECIPE_VALUE_BYTES], twin[QG__PATH_BYTES];
    model_file_name(get(r, "model"), model, sizeof model);
    const int n = snprintf(twin, sizeof twin, "%.*s%s-%s-%s", slash ? (int)(slash + 1 - dir) : 0, dir, model,
                           is_float(c) ? "twn" : "float", get(r, "seed"));
    if (n >= QG__PATH_BYTES || qg__path_exists(twin) || is(c, "fold-batchnorm", "true") || get(r, "init-digest")) return;
    print_config("train", r, out);
    if (is_float(c)) print_as_ternary(c, out);
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

qg_status report_bytes(const qg_net *net, FILE *out)
{
    char            ratio[QG_NUMBER_BYTES];
    size_t          packed, floats = qg_net_float_bytes(net);
    const qg_status status = qg_net_packed_bytes(net, &packed);
    fprintf(out, "bytes          %zu as float, ", floats);
    if (packed) fprintf(out, "%zu packed: %s\n", packed, qg__number_ratio(ratio, packed, floats));
    else print_safe(out, "no packed file: %s\n", qg_errmsg());
    return status;
}

void report_result(const report *r, FILE *out)
{
    const qg_fit_result *at = &r->result;
    char                 page[QG__PATH_BYTES];
    fputc('\n', out);
    if (at->out_of_patience) print_patience(r, out);
    if (at->epochs || at->complete) print_accuracy(r, out);
    report_bytes(r->of->net, out);
    fprintf(out, "time           %.1f s, %.0f images/s\n", at->seconds, at->images_per_second);
    fprintf(out, "digest         %s\n", at->digest);
    print_safe(out, "run            %s\n", r->paths->dir);
    if (r->page && !qg__path_join(r->paths->dir, r->page, page) && qg__path_exists(page))
        print_safe(out, "page           %s\n", page);
    if (at->complete) print_next(r, out);
}
