#include "train/runs.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/io/file.h"
#include "core/io/safetensors.h"
#include "core/rng.h"
#include "layers/plan.h"
#include "train/reader.h"

/* The text of a program's net; NULL: it has none. */
static const char *text_of_net(const qg_run *r) { return r->said ? qg_run_note(r, QG__RUN_NET) : NULL; }

qg_status qg__reader_of_program(const qg_run *r)
{
    if (!r) return QG_EARG;                 /* the message says why the run is NULL */
    const char *why = qg_run_note(r, QG__RUN_NO_NET);
    if (!r->said || text_of_net(r)) return QG_OK;
    return qg_fail(QG_EARG, "%s: only the program that trained it with qg_fit can declare its net: %s; "
                   "'qgrad report' and 'qgrad inspect' show it", r->paths.file[r->file], why ? why : "an earlier version, which did not note it");
}

/* --- finding it --------------------------------------------------------------------------- */

static void take_program(qg_run *r, const char *said)
{
    const char *seed = qg__identity_value(said, "seed");
    r->said          = said;
    r->recipe.seed   = seed ? strtoull(seed, NULL, 10) : 0;      /* of what draws random numbers in a test, too */
}

/* Of what a checkpoint says, only what decides about its net and its training: no directory, teacher or recipe, and no file of
 * its data.  The text of the data remains what it is, for comparison with the run. */
static qg_status read_noted(qg_recipe *stored, const char *said, const char *path)
{
    qg_recipe all    = { .epochs = 0 };
    qg_status status = qg__recipe_parse_stored(&all, said, path);
    if (!status) status = qg__recipe_over(stored, &all, QG_RECIPE_IDENTITY, 0);
    qg__data_forget_files(&stored->data);
    qg__recipe_clear(&all);
    return status;
}

/* The configuration that the checkpoint at path notes, which is then r->header. */
static qg_status take_noted(qg_run *r, const char *path)
{
    qg_recipe stored = { .epochs = 0 };
    qg_status status = qg__safetensors_open(QG_BY_PATH, path, &r->header);     /* the notes are in the header */
    if (status) return status;
    const char *said = qg_run_note(r, "recipe"), *kind = qg_run_note(r, "kind");
    if (!said) return qg__run_no_checkpoint(path);
    if (qg__identity_of_program(said)) take_program(r, said);
    else status = read_noted(&stored, said, path);
    r->file = kind && !strcmp(kind, "weights") ? QG__RUN_BEST : QG__RUN_LAST;
    if (!status && !r->said && !stored.model.type) status = qg_fail(QG_EFORMAT, "%s: does not say which model it is of", path);
    if (!status && kind && r->file == QG__RUN_LAST && strcmp(kind, "checkpoint"))
        status = qg_fail(QG_EFORMAT, "%s: its kind '%s' is neither checkpoint nor weights", path, kind);
    if (!status && !r->said) status = qg__recipe_as_stored(&stored, &r->recipe);
    qg__recipe_clear(&stored);
    return status || r->said ? status : qg__recipe_check(&r->recipe, false);
}

static bool is_file(const char *path)
{
    struct stat s;
    return !stat(path, &s) && S_ISREG(s.st_mode);
}

/* A checkpoint of its own: of any name, in any directory. */
static qg_status find_checkpoint(qg_run *r, const char *path)
{
    char        dir[QG__PATH_BYTES];
    const char *slash = strrchr(path, '/');
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) + (slash == path) : 1, slash ? path : ".");
    qg_status status = qg__run_paths_of(dir, &r->paths);
    if (!status) status = take_noted(r, path);
    if (!status) strcpy(r->paths.file[r->file], path);
    return status;
}

qg_status qg__run_absent(const char *name)
{
    if (!qg__path_exists(name)) return qg_fail(QG_EIO, "there is no run '%s': no such directory or checkpoint", name);
    /* A sweep's directory, or one of the seeds of a recipe. */
    struct dirent **below;
    char            path[QG__PATH_BYTES];
    const int       n     = qg__names(name, &below);
    const char     *found = NULL;
    for (int i = 0; i < n && !found; i++) {
        qg__run_paths p;
        if (!qg__path_join(name, below[i]->d_name, path) && !qg__run_paths_of(path, &p) && qg__path_exists(p.file[QG__RUN_CONFIG]))
            found = path;
    }
    qg__names_free(below, n);
    return qg_fail(QG_EIO, "'%s' contains no run: no config.toml and no checkpoint%s%s", name, found ? "; below it is the run " : "",
                   found ? found : "");
}

/* config.toml says more than the checkpoint beside it, unless that is another program's. */
static qg_status find_directory(qg_run *r, const char *name, qg_run_weights which)
{
    bool      has;
    qg_status status = qg__run_paths_of(name, &r->paths);
    r->file          = which == QG_RUN_BEST ? QG__RUN_BEST : QG__RUN_LAST;
    if (!status) status = qg__file_exists_in(QG_BY_PATH, r->paths.file[QG__RUN_CONFIG], &has);
    if (status) return status;
    const qg__run_file file = r->file;
    const char        *path = r->paths.file[file];
    if (!has && !is_file(path)) return qg__run_absent(name);
    if (!has) status = take_noted(r, path);
    else if (is_file(path) && !qg__safetensors_open(QG_BY_PATH, path, &r->header) && qg__identity_of_program(qg_run_note(r, "recipe")))
        take_program(r, qg_run_note(r, "recipe"));
    else {
        status = qg__recipe_of_run(r->paths.file[QG__RUN_CONFIG], &r->recipe);
        if (!status) status = qg__recipe_check(&r->recipe, false);
    }
    r->file = file;
    return status;
}

/* What the classes of images of this set are called. */
static qg_status name_classes(qg_run *r, const char *data, int classes)
{
    qg__class_names_end(&r->names);
    return qg__class_names_begin(&r->names, qg_run_note(r, "class-names"), data, classes);
}

/* The image size and the number of classes, which are noted as "28x28x1" and "10". */
static qg_status take_sizes(qg_run *r)
{
    const char *path = r->paths.file[r->file], *size = qg_run_note(r, "image"), *count = qg_run_note(r, "classes");
    char       *end;
    if (!size || !count) return qg_fail(QG_EFORMAT, "%s: does not note the size of its images and the number of classes", path);
    if (qg__image_parse(size, &r->image)) return qg_fail(QG_EFORMAT, "%s: %s", path, qg_errmsg());
    const long n = strtol(count, &end, 10);
    if (*end || n < 1 || n > QG_MAX_CLASSES)
        return qg_fail(QG_EFORMAT, "%s: '%s' is not a number of classes, 1..%d", path, count, QG_MAX_CLASSES);
    r->classes = (int)n;
    return name_classes(r, r->recipe.data.name, r->classes);
}

/* Opens what path names, in an empty run, which is to be closed also after a failure. */
static qg_status find(qg_run *r, const char *path, qg_run_weights which)
{
    char         name[QG__PATH_BYTES];
    const size_t n = path ? qg__path_length(path) : 0;
    if (!path || n >= sizeof name) return qg_fail(QG_EARG, path ? "the path of the run is too long" : "the path of the run is NULL");
    snprintf(name, sizeof name, "%.*s", (int)n, path);
    r->starts = which == QG_RUN_START;
    qg_status status = is_file(path) ? find_checkpoint(r, path) : find_directory(r, name, which);
    if (!status && !r->header) status = qg__safetensors_open(QG_BY_PATH, r->paths.file[r->file], &r->header);
    return status ? status : take_sizes(r);
}

qg_run *qg_run_open(const char *path, qg_run_weights which)
{
    qg_run *r = calloc(1, sizeof *r);
    if (!r) qg_fail(QG_EMEM, "out of memory for a run");
    if (!r || !find(r, path, which)) return r;
    qg_run_close(r);
    return NULL;
}

void qg__reader_clear(qg_run *r)
{
    qg_tape_free(r->tape);
    qg_net_free(r->net);
    qg_preprocess_free(r->as);
    qg_archive_free(r->header);
    qg__columns_free(&r->columns);
    qg__class_names_end(&r->names);
    qg__recipe_clear(&r->recipe);
    free(r->own_names);
    free(r->x);
    *r = (qg_run){ .steps = 0 };
}

void qg_run_close(qg_run *r)
{
    if (r) qg__reader_clear(r);
    free(r);
}

/* --- what it says ------------------------------------------------------------------------- */

const char *qg_run_directory(const qg_run *r) { return r ? r->paths.dir : NULL; }
const char *qg_run_file(const qg_run *r) { return r ? r->paths.file[r->file] : NULL; }
const char *qg_run_note(const qg_run *r, const char *key) { return r && r->header && key ? qg_archive_noted(r->header, key) : NULL; }
uint64_t    qg_run_arithmetic(const qg_run *r) { return r ? qg__run_noted_arithmetic(qg_run_note(r, QG__RUN_ARITHMETIC)) : 0; }
const char *qg_run_config(const qg_run *r) { return r ? r->said : NULL; }
qg_shape    qg_run_image(const qg_run *r) { return r ? r->image : (qg_shape){ 0 }; }
int         qg_run_classes(const qg_run *r) { return r ? r->classes : 0; }
const char *qg_run_class(const qg_run *r, int k) { return r && k >= 0 && k < r->names.n ? r->names.name[k] : NULL; }

const char *qg_run_get(const qg_run *r, const char *key)
{
    const qg_recipe_key *o = r && key ? qg__recipe_key(key) : NULL;
    return o ? r->recipe.text[o - qg_recipe_keys] : NULL;
}

/* --- weights ------------------------------------------------------------------------------ */

/* Whether a checkpoint that notes this configuration is one of this run. */
static qg_status check_recipe(const qg_run *r, const char *noted, const char *path)
{
    qg_fit_span ignored = { .epochs = r->recipe.epochs };
    return r->said || !noted ? QG_OK : qg__recipe_same(&r->recipe, noted, path, &ignored);
}

/* The arrays of the net, and of a checkpoint the number of steps. */
static qg_status load_arrays(qg_run *r, qg_net *net, const char *path)
{
    qg_state  *s    = qg_state_new();
    const bool last = r->file == QG__RUN_LAST;
    qg_net_state(net, s);
    if (last) qg_state_add(s, "run.steps", (qg_array){ .dtype = QG_U64, .data = &r->steps });
    qg_status status = qg__state_load_from(s, QG_BY_PATH, path, last);
    if (status == QG_ESHAPE) {              /* because config.toml is that of another run, or else for the reason that is told already */
        char why[512];
        snprintf(why, sizeof why, "%s", qg_errmsg());
        status = check_recipe(r, qg_run_note(r, "recipe"), path);
        if (!status) status = qg_fail(QG_ESHAPE, "%s", why);
    } else if (!status) {
        const char *noted = qg_state_find_note(s, "recipe");
        status = qg__run_check_format(path, qg_state_find_note(s, "format"), noted, qg_state_find_note(s, QG_SAFETENSORS_CHECKSUM));
        if (!status) status = check_recipe(r, noted, path);
    }
    if (!status && !last) status = qg__run_noted_steps(path, s, &r->steps);
    qg_state_free(s);
    return status;
}

/* A run with averages tests these. */
static qg_status load_averages(qg_run *r, qg_net *net, const char *path)
{
    const qg_params *p = qg_net_params(net);
    char             name[256];
    bool             any = false;
    qg_state        *s   = r->file == QG__RUN_LAST ? qg_state_new() : NULL;
    for (int i = 0; s && i < p->count; i++) {
        snprintf(name, sizeof name, "ema.%s", p->item[i]->name);
        if (!qg_archive_find(r->header, name)) continue;
        any = true;
        qg__state_add_named(s, p->item[i]->shape, p->item[i]->value, "%s", name);
    }
    const qg_status status = any ? qg__state_load_from(s, QG_BY_PATH, path, true) : QG_OK;
    qg_state_free(s);
    r->averaged = any;
    return status;
}

static qg_net *net_of_text(const qg_run *r, const char *path)
{
    qg_net *net = qg_net_parse(text_of_net(r));
    if (net && qg_net_build(net)) return net;
    qg_net_free(net);
    return qg__refuse(qg_errcode() == QG_EMEM ? QG_EMEM : QG_EFORMAT, "%s: %s", path, qg_errmsg());
}

qg_status qg__reader_load(qg_run *r, qg_shape image, int classes)
{
    const char *path   = r->paths.file[r->file];
    qg_status   status = QG_OK;
    qg_net     *net;
    if (r->net) return QG_OK;
    if (r->starts && (r->said || r->recipe.init_digest || r->recipe.whiten_patches))
        return qg_fail(QG_ESTATE, "%s: the weights with which it started do not follow from its seed", qg_run_directory(r));
    if (text_of_net(r)) net = net_of_text(r, path);
    else if (r->said) net = qg__stored_net(path);
    else net = qg__recipe_net(&r->recipe, image, classes);
    const bool loads = !r->starts && (!r->said || text_of_net(r));
    r->tape = net ? qg_tape_new() : NULL;
    if (!r->tape) status = qg_errcode();
    if (!status && loads) status = load_arrays(r, net, path);
    if (!status && loads) status = load_averages(r, net, path);
    if (!status) return r->net = net, r->built = classes, QG_OK;
    qg_net_free(net);
    qg_tape_free(r->tape);
    r->tape = NULL;
    return status;
}

qg_net *qg_run_net(qg_run *r) { return !r || qg__reader_load(r, r->image, r->classes) ? NULL : r->net; }

uint64_t qg_run_steps(qg_run *r) { return qg_run_net(r) ? r->steps : 0; }

/* --- using it ----------------------------------------------------------------------------- */

const qg_preprocess *qg_run_preprocess(qg_run *r)
{
    if (r && !r->as) r->as = qg__preprocess_read(r->header, r->paths.file[r->file]);
    return r ? r->as : NULL;
}

/* The images that are preprocessed at a time: as many as need 16 MiB as floats, 1 to 64. */
static int images_at_once(qg_shape image)
{
    enum { BYTES = 16 << 20, MOST = 64 };
    const size_t most = BYTES / (qg_row(image) * sizeof(float));
    return most < 1 ? 1 : most > MOST ? MOST : (int)most;
}

static qg_status score(qg_run *r, int n, const uint8_t *bytes, float *scores)
{
    const uint64_t key    = qg_rng_fork(r->recipe.seed, QG_STREAM_TAPE);
    const size_t   row    = qg_row(r->image);
    qg_status      status = QG_OK;
    for (size_t i = 0; i < (size_t)n && !status; i++) status = qg_preprocess_bytes(r->as, bytes + i * row, r->x + i * row);
    if (status) return status;
    qg_tape_begin(r->tape, QG_EVAL, key, r->steps);
    const qg_shape shape = { n, r->image.h, r->image.w, r->image.c };
    const qg_var  *y     = qg_net_forward(r->net, r->tape, (qg_tensor){ shape, r->x });
    if (!y) return qg_tape_status(r->tape);
    if (qg_row(y->shape) != (size_t)r->classes)
        return qg_fail(QG_EFORMAT, "%s: the net has %zu scores, but %d class%s", r->paths.file[r->file],
                       qg_row(y->shape), r->classes, r->classes == 1 ? "" : "es");
    memcpy(scores, y->data, qg_count(y->shape) * sizeof *scores);
    return QG_OK;
}

qg_status qg_run_predict(qg_run *r, int n, const uint8_t *bytes, float *scores)
{
    qg_status status = qg__reader_of_program(r);
    if (status) return status;
    if (!qg_run_preprocess(r) || !qg_run_net(r)) return qg_errcode();
    const int    most = images_at_once(r->image);
    const size_t row  = qg_row(r->image);
    if (n < 1) return QG_OK;
    if (!r->x) r->x = malloc((size_t)most * row * sizeof *r->x);
    if (!r->x) return qg_fail(QG_EMEM, "out of memory for %d images", most);
    for (int i = 0; i < n && !status; i += most)
        status = score(r, n - i < most ? n - i : most, bytes + (size_t)i * row, scores + (size_t)i * (size_t)r->classes);
    return status;
}

qg_status qg_run_evaluate(qg_run *r, qg_loader *images, qg_run_evaluate_spec spec, qg_assessment *a)
{
    if (!a) return qg_fail(QG_EARG, "evaluate: the assessment is missing");
    *a = (qg_assessment){ .classes = 0 };
    if (!images) return qg__fail_null(QG_EARG, "evaluate: images");
    qg_status status = qg__reader_of_program(r);
    if (!status) status = qg__reader_load(r, qg_loader_shape(images), qg_loader_classes(images));
    if (status) return status;
    const qg_evaluate_spec as = { .worst = spec.worst,
                                  .tta   = spec.tta,
                                  .seed  = r->recipe.seed,
                                  .steps = qg__step_given(r->steps),
                                  .loss  = qg__recipe_fit(&r->recipe).loss };
    return qg_evaluate(spec.net ? spec.net : r->net, images, as, a);
}

/* --- other quantizers ---------------------------------------------------------------------- */

qg_net *qg__reader_net(const qg_run *r, const qg_recipe *as, qg_shape image, int classes, qg__init_report *init)
{
    if (r->starts)
        return qg__refuse(QG_ESTATE, "%s: was opened with its first weights, which no file has; open the last or "
                          "the best ones", qg_run_directory(r));
    /* The file has the weights, and their averages under other names. */
    if (r->averaged)
        return qg__refuse(QG_EARG, "the run tests averages of its weights, which only best.safetensors has; pass "
                          "--best");
    qg_net *net = qg__recipe_net(as, image, classes);
    if (!net || !qg__init_weights(net, r->paths.file[r->file], r->net, NULL, init)) return net;
    qg_net_free(net);
    return NULL;
}

qg_status qg__reader_init(qg_net *net, const char *source, const char *except, qg__init_report *init)
{
    qg_run         *from   = qg_run_open(source, QG_RUN_LAST);
    const qg_status status = qg__init_weights(net, source, from ? qg_run_net(from) : NULL, except, init);
    qg_run_close(from);
    return status;
}

qg_net *qg_run_net_with(qg_run *r, const qg_recipe *changes, char *fresh, size_t bytes)
{
    qg__init_report init = { .taken = 0 };
    qg_recipe       as   = { .epochs = 0 }, asked = { .epochs = 0 };
    qg_net         *net  = qg_run_net(r);
    qg_status       status = net ? qg__recipe_changes(changes, &asked) : qg_errcode();
    if (bytes) *fresh = '\0';
    if (!status && r->said)
        status = qg_fail(QG_EARG, "weight: a program trained %s with qg_fit, so only its own quantizers are known", qg_run_directory(r));
    if (!status) status = qg__recipe_over(&as, &r->recipe, 0, 0);
    if (!status) status = qg__recipe_over(&as, &asked, QG_RECIPE_QUANTIZES, 0);
    /* It is of the weights' own quantizer. */
    if (!status && qg__recipe_value(&asked, "weight")) qg__recipe_unset(&as, "quantize-weights-after");
    if (!status) status = qg__recipe_check(&as, false);
    if (!status) {
        const qg_shape image = { 1, net->spec.height, net->spec.width, net->spec.channels };
        net = qg__reader_net(r, &as, image, r->built, &init);
    }
    qg__recipe_clear(&as);
    qg__recipe_clear(&asked);
    snprintf(fresh, bytes, "%s", init.kept);
    return status ? NULL : net;
}

/* --- images -------------------------------------------------------------------------------- */

/* Whether the classes of images are called as those of a run, or either has no names.  Classes are numbered in the order of
 * their names, so other names mean other numbers.  Fails with QG_EARG and why, which is about path. */
static qg_status check_names(const qg_recipe *c, const qg_loader *images, const char *path, const char *why)
{
    const uint64_t names = qg__loader_class_digest(images);
    char           found[32];
    snprintf(found, sizeof found, "%016" PRIx64, names);
    if (!names || !c->class_digest || !strcmp(c->class_digest, found)) return QG_OK;
    return qg_fail(QG_EARG, "%s: %s", path, why);
}

static const char *place_of(const qg_recipe *c) { return c->data_dir ? c->data_dir : c->data.name; }

/* The test images of a recipe, preprocessed with the statistics of the checkpoint. */
static qg_loader *open_test(qg_run *r, qg_recipe *of)
{
    const bool           fits = r->said || qg__normalise_fits(of->normalise);
    const qg_preprocess *as   = fits ? qg_run_preprocess(r) : NULL;
    if (fits && !as) return NULL;
    if (as) of->normalise = qg_preprocess_normalise(as);
    return qg__recipe_data(of, true, as);
}

/* Makes the net for these images.  Nets without a layer of fixed size take those of any. */
static qg_status load_for(qg_run *r, const qg_recipe *of, const qg_loader *images)
{
    const qg_shape is = qg_loader_shape(images), was = r->image;
    const int      n = qg_loader_classes(images);
    const qg_net_spec *net = r->net ? &r->net->spec : NULL;
    const bool         is_for = net && qg__same_size(is, (qg_shape){ 1, net->height, net->width, net->channels }) && n == r->built;
    const bool         fits = qg__same_size(is, was) && n == r->classes, other = r->said ? !fits : net && !is_for;
    if (other && fits)
        return qg_fail(QG_ESHAPE, "%s: its net was made for other images; open the run again", place_of(of));
    const qg_status    status = other ? QG_ESHAPE : qg__reader_load(r, is, n);
    if (status != QG_ESHAPE || fits) return status;
    return qg_fail(QG_EARG, "%s: its images are %dx%dx%d in %d class%s, but the run's are %dx%dx%d in %d", place_of(of), is.h, is.w, is.c,
                   n, n == 1 ? "" : "es", was.h, was.w, was.c, r->classes);
}

qg_loader *qg_run_test(qg_run *r, qg_run_test_spec spec)
{
    enum { BATCH = 64 };            /* of a program's run, whose own is not known; it decides no score */
    char       canonical[QG__DATA_TEXT];
    qg_status  status = qg__reader_of_program(r);
    if (!r) return NULL;
    qg_recipe  of = r->recipe;      /* borrowed texts */
    if (!status && r->said && !spec.data)
        status = qg_fail(QG_EARG, "%s: a program trained it with qg_fit, which does not say on which images; pass --data", qg_run_directory(r));
    if (!status && spec.data) status = qg__data_parse(spec.data, &of.data, canonical, sizeof canonical);
    if (status) return NULL;
    const bool other = spec.data && (r->said || strcmp(canonical, qg__recipe_value(&r->recipe, "data")));
    if (spec.dir || other) of.data_dir = spec.dir;
    if (spec.cache_bytes || other) of.cache = spec.cache_bytes;
    if (r->said) of.batch = BATCH;
    if (qg__recipe_check_cache(&of)) return NULL;
    qg_loader *test = open_test(r, &of);
    if (test && !check_names(&r->recipe, test, place_of(&of), "its class names differ from those the run was trained on") &&
        !load_for(r, &of, test) && !name_classes(r, of.data.name, qg_loader_classes(test)))
        return test;
    qg_loader_free(test);
    return NULL;
}

/* --- a teacher ---------------------------------------------------------------------------- */

static qg_status check_size(const char *path, qg_shape is, int classes, const qg_loader *images)
{
    const qg_shape of = qg_loader_shape(images);
    const int      n  = qg_loader_classes(images);
    if (qg__same_size(is, of) && classes == n) return QG_OK;
    return qg_fail(QG_EARG, "%s: the teacher was trained on images of %dx%dx%d in %d class%s, but these are %dx%dx%d in %d",
                   path, is.h, is.w, is.c, classes, classes == 1 ? "" : "es", of.h, of.w, of.c, n);
}

/* The teacher reads the batch of its student. */
static qg_status check_preprocessing(qg_run *r, const qg_recipe *student, const qg_loader *images)
{
    const char *is = qg__recipe_value(&r->recipe, "normalise"), *of = qg__recipe_value(student, "normalise");
    const qg_preprocess *p = qg_run_preprocess(r);
    if (!p) return qg_errcode();
    if (!is) is = "its program did";
    if (qg__preprocess_equal(p, qg_loader_preprocess(images))) return QG_OK;
    return qg_fail(QG_EARG, "%s: the teacher's images were normalised as %s, but these are as %s%s", qg_run_file(r), is, of,
                   strcmp(is, of) ? "" : ", with other statistics");
}

qg_status qg__reader_teach(qg_run *r, const char *path, const qg_recipe *student, const qg_loader *images)
{
    qg_status      status = find(r, path, QG_RUN_LAST);
    const char    *file   = r->paths.file[r->file];
    if (!status) status = qg__reader_of_program(r);
    if (!status) status = check_size(file, r->image, r->classes, images);
    if (!status)
        status = check_names(&r->recipe, images, file, "the teacher's classes have other names than those of the images");
    if (!status) status = check_preprocessing(r, student, images);
    return status ? status : qg__reader_load(r, r->image, r->classes);
}
