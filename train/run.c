/* A run survives kill -9 at any moment and then ends with the same bytes as a run that was never killed.
 *
 * Every file is replaced as a whole: it is written under a temporary name, flushed and renamed.  What remains
 * is the order of the files.
 *
 * Only last.safetensors records the position of the run.  Everything after that position is a pure function of
 * it, so a write that is lost or repeated gives the same bytes.  Every other file may therefore be ahead of
 * last.safetensors, but never older:
 *
 *   config.toml       is written first, before any step.
 *   metrics.csv       gets the row of epoch e before the checkpoint after e is written.  A resumed run removes
 *                     rows that are ahead, repeats the epoch and writes its row again.
 *   best.safetensors  also gets the weights of epoch e before that checkpoint.  The checkpoint from before e
 *                     still has the older best accuracy, so the repeated epoch e is again the best one and
 *                     writes the same bytes.
 *   result.json       is written before every checkpoint.  Only this file holds what a kill must not undo: the
 *                     time spent, and the builds that worked on the run.
 *   last.safetensors  is written last.
 *
 * The first checkpoint is written before the first step, after config.toml and a metrics.csv without rows.  A
 * kill before it leaves at most these two files, and such a run starts again.  If more files exist, someone has
 * removed last.safetensors; to start again would overwrite trained weights, so it is an error.
 *
 * A run that is extended gets its new configuration in the same order: config.toml, best.safetensors, last.safetensors.  If it is
 * killed before the last, the checkpoint still has the old configuration, and the run is extended again.
 *
 * A full disk or a lost write permission has the same effect as a kill, with a message.
 */
#include "train/run.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/number.h"
#include "core/io/safetensors.h"
#include "core/io/utf8.h"
#include "datasets/normalise.h"
#include "layers/layer.h"
#include "train/result.h"

/* The first two are written before the first checkpoint. */
static const char *const files[QG__RUN_FILES] = { "config.toml", "metrics.csv", "result.json", "last.safetensors",
                                              "best.safetensors", QG_WHITENING_FILE };

/* --- the directory ------------------------------------------------------------------------ */

qg_status qg__run_paths_of(const char *dir, qg__run_paths *p)
{
    qg_status status = QG_OK;
    for (int i = 0; i < QG__RUN_FILES && !status; i++) status = qg__path_join(dir, files[i], p->file[i]);
    if (status) return status;
    snprintf(p->dir, sizeof p->dir, "%.*s", (int)qg__path_length(dir), dir);         /* QG_FIT_FORCE appends to it */
    return QG_OK;
}

qg_status qg__run_has(const qg__run *r, qg__run_file f, bool *has) { return qg__file_exists_in(r->lock, r->paths.file[f], has); }

static qg_status holds_run(const qg__run *r, bool *holds)
{
    qg_status status = QG_OK;
    *holds           = false;
    for (qg__run_file f = 0; f < QG__RUN_FILES && !status && !*holds; f++) status = qg__run_has(r, f, holds);
    return status;
}

qg_status qg__run_check_place(const qg__run *r)
{
    struct stat held, named;
    const bool  found = !fstat(r->lock, &held) && !fstatat(r->base, r->paths.dir, &named, 0);
    if (!found && errno != ENOENT) return qg_fail(QG_EIO, "%s: %s", r->paths.dir, strerror(errno));
    if (found && held.st_dev == named.st_dev && held.st_ino == named.st_ino) return QG_OK;
    return qg_fail(QG_ESTATE, "%s is no longer the directory that this run started in: it was moved or replaced", r->paths.dir);
}

/* The lock is on the directory itself, so it leaves no file, follows the directory when it is renamed, and ends with
 * the process. */
static qg_status lock(qg__run *r)
{
    char      unlocked[QG__UNLOCKED_BYTES];
    const int fd = open(r->paths.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return qg_fail(QG_EIO, "%s: %s", r->paths.dir, strerror(errno));
    const qg_status status = qg__path_lock(fd, r->paths.dir, false, unlocked);
    if (status) {
        close(fd);
        if (status != QG_ESTATE) return status;
        return qg_fail(status, "%s is locked: another training holds it", r->paths.dir);
    }
    r->lock = fd;
    if (*unlocked) qg__run_notice(r, QG_FIT_UNLOCKED, unlocked);
    return qg__run_check_place(r);      /* QG_FIT_FORCE may have moved it between open and flock */
}

static qg_status move_aside(const qg__run *r)
{
    const char *dir = r->paths.dir;
    char        old[QG__PATH_BYTES], text[2 * QG__PATH_BYTES + 64];
    for (int i = 1; i < 10000; i++) {
        const int n = i == 1 ? snprintf(old, sizeof old, "%s.old", dir)
                             : snprintf(old, sizeof old, "%s.old-%d", dir, i);
        if (n >= QG__PATH_BYTES) return qg_fail(QG_EARG, "%.64s..: the path is too long", dir);
        if (qg__path_exists(old)) continue;
        if (rename(dir, old))
            return qg_fail(QG_EIO, "cannot rename %s to %s: %s", dir, old, strerror(errno));
        snprintf(text, sizeof text, "renamed the run in %s to %s", dir, old);
        qg__run_notice(r, QG_FIT_RENAMED, text);
        return QG_OK;
    }
    return qg_fail(QG_ESTATE, "%s.old to %s.old-9999 all exist", dir, dir);
}

qg_status qg__run_claim(qg__run *r)
{
    const qg_fit_mode mode = r->spec->mode;

    bool      holds  = false;
    qg_status status = qg__path_make(r->paths.dir, &r->made);
    r->base          = AT_FDCWD;
    if (!status) status = lock(r);
    if (!status) status = holds_run(r, &holds);
    if (!status && mode == QG_FIT_NEW && holds)
        return qg_fail(QG_ESTATE, "%s already contains a run; --resume continues it, --force renames it",
                       r->paths.dir);
    if (!status && mode == QG_FIT_FORCE && holds) {
        const int old = r->lock;
        r->lock       = QG_BY_PATH;
        status        = move_aside(r);
        if (!status) status = qg__path_make(r->paths.dir, &r->made);
        if (!status) status = lock(r);
        close(old);
    }
    /* A program may change its directory while it trains. */
    if (!status && *r->paths.dir != '/') r->base = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->base < 0) r->base = AT_FDCWD;
    /* The temporary files of a process that was killed while writing.  Only the holder of the lock writes here. */
    for (int i = 0; i < QG__RUN_FILES && !status; i++) qg__file_sweep_in(r->lock, r->paths.file[i]);
    return status;
}

/* --- what the files hold ------------------------------------------------------------------ */

typedef struct field {
    const char *name;
    qg_dtype    dtype;
    size_t      offset;     /* in qg__run_record */
} field;

#define FIELD(name, dtype) { "run." #name, dtype, offsetof(qg__run_record, name) }

static const field fields[] = {
    FIELD(seed, QG_U64),           FIELD(epoch, QG_U64),         FIELD(batch, QG_U64),
    FIELD(steps, QG_U64),          FIELD(images, QG_U64),        FIELD(correct, QG_U64),
    FIELD(loss, QG_F64),           FIELD(tested, QG_U64),        FIELD(train_loss, QG_F64),
    FIELD(train_accuracy, QG_F64), FIELD(test_loss, QG_F64),     FIELD(test_accuracy, QG_F64),
    FIELD(best_epoch, QG_U64),     FIELD(best_accuracy, QG_F64),
};

enum { FIELDS = sizeof fields / sizeof *fields };

/* The names of classes, "cat/dog": what no name of a folder contains separates them. */
static qg_status print_classes(const void *images, FILE *out)
{
    const char *name = qg_loader_class_names(images);
    char        shown[1 << 10];         /* a byte of a name takes at most four */
    for (int k = 0; k < qg_loader_classes(images); k++, name += strlen(name) + 1) {
        qg__utf8_printable(name, shown, sizeof shown);
        fprintf(out, "%s%s", k ? "/" : "", shown);
    }
    return QG_OK;
}

static void note_classes(qg_state *s, const qg_loader *images)
{
    char  *text;
    size_t n;
    if (!qg_loader_class_names(images)) return;
    if (qg__text_print(print_classes, images, &text, &n)) qg__state_fail(s, qg_errcode());
    qg_state_set_note(s, "class-names", text);
    free(text);
}

/* The net of a program, whose configuration does not declare it: its text, or why it has none, and its quantizers. */
static void note_net(qg_state *s, const qg__run *r)
{
    char *operands = qg__run_operands(r->net), *net = qg_net_print(r->net);
    if (!operands || (!net && qg_errcode() == QG_EMEM)) qg__state_fail(s, qg_errcode());
    qg_state_set_note(s, "operands", operands);
    qg_state_set_note(s, QG__RUN_NET, net);
    qg_state_set_note(s, QG__RUN_NO_NET, net ? NULL : qg_errmsg());
    free(operands), free(net);
}

/* A checkpoint stands alone: it says what the net is, what it was trained on, and what is done to an image first. */
static void note(qg_state *s, const qg__run *r)
{
    const char *kind = s == r->best ? "weights" : "checkpoint";

    const qg_shape in  = qg_net_layer(r->net, 0)->in;
    const qg_shape out = qg_net_layer(r->net, qg_net_layers(r->net) - 1)->out;
    char           image[48], classes[16], arithmetic[16];
    snprintf(image, sizeof image, "%dx%dx%d", in.h, in.w, in.c);
    snprintf(classes, sizeof classes, "%d", out.c);
    snprintf(arithmetic, sizeof arithmetic, "%" PRIu64, qg__arithmetic(r->net));
    qg_state_set_note(s, "format", QG__RUN_FORMAT);
    qg_state_set_note(s, "kind", kind);
    qg_state_set_note(s, "recipe", r->identity);
    qg_state_set_note(s, "image", image);       /* what the net was declared for */
    qg_state_set_note(s, "classes", classes);
    qg_state_set_note(s, QG__RUN_ARITHMETIC, arithmetic);
    if (!r->spec->train) return;                /* loaded, to use the weights */
    if (!r->spec->same) note_net(s, r);
    qg_preprocess_note(qg_loader_preprocess(r->spec->train), s);
    note_classes(s, r->spec->train);
}

static qg_status begin_contents(qg__run *r)
{
    const float decay = r->spec->ema_decay;
    r->tape           = qg_tape_new();
    if (!r->tape) return QG_EMEM;
    if (decay != 0 && !(r->ema = qg_ema_new(qg_net_params(r->net), (qg_ema_spec){ .decay = decay }))) return qg_errcode();
    qg_status status = qg__code_stats_begin(&r->code_stats, r->net);
    if (!status) status = qg__learned_begin(&r->learned, r->net);
    return status ? status : qg__metrics_begin(&r->metrics, r->spec->validation != NULL, &r->code_stats, &r->learned);
}

qg_status qg__run_compose(qg__run *r, qg_net *net, const qg_fit_spec *spec)
{
    r->net           = net;
    r->spec          = spec;
    qg_status status = begin_contents(r);
    if (status) return status;
    r->identity    = qg__run_identity(r);
    r->last        = qg_state_new();
    r->best        = qg_state_new();
    r->record.seed = spec->seed;
    if (!r->identity || !r->last || !r->best)
        return qg_fail(QG_EMEM, "out of memory for the checkpoint");
    qg_net_state(r->net, r->best);
    note(r->best, r);
    qg_net_state(r->net, r->last);
    qg_optim_state(spec->optim, r->last);
    qg_ema_state(r->ema, r->last);
    qg__code_stats_state(&r->code_stats, r->last);
    for (int i = 0; i < FIELDS; i++)
        qg_state_add(
            r->last, fields[i].name,
            (qg_array){ .dtype = fields[i].dtype, .data = (char *)&r->record + fields[i].offset });
    note(r->last, r);
    return QG_OK;
}

/* Whether none of the files exist that a run writes after its first checkpoint. */
static qg_status check_unbegun(const qg__run *r)
{
    bool      begun;
    qg_status status = qg__metrics_has_rows(r->lock, r->paths.file[QG__RUN_METRICS], &begun);
    if (!status && !begun) status = qg__run_has(r, QG__RUN_RESULT, &begun);
    if (!status && !begun) status = qg__run_has(r, QG__RUN_BEST, &begun);
    if (status || !begun) return status;
    return qg_fail(QG_ESTATE, "%s cannot be resumed: its last.safetensors is missing; force starts again", r->paths.dir);
}

static qg_status write_config(const qg__run *r)
{
    const char *text = r->spec->file ? r->spec->file : r->identity;
    qg_file    *f    = qg__file_begin_in(r->lock, r->paths.file[QG__RUN_CONFIG]);
    qg__file_put(f, text, strlen(text));
    return qg__file_commit(f);
}

/* Writes the matrix once: it is a function of the training images, like the checkpoint that names it. */
static qg_status write_whitening(const qg__run *r)
{
    qg_state *s      = qg_state_new();
    qg_status status = QG_OK;
    if (qg_preprocess_state(qg_loader_preprocess(r->spec->train), s) || !s)
        status = qg__state_save_in(s, r->lock, r->paths.file[QG__RUN_WHITENING]);
    qg_state_free(s);
    return status;
}

qg_status qg__run_create(qg__run *r)
{
    bool      had;
    qg_status status = check_unbegun(r);
    if (!status) status = qg__run_check_place(r);
    if (!status) status = qg__run_has(r, QG__RUN_CONFIG, &had);
    if (status) return status;
    status = write_config(r);
    if (!status) status = write_whitening(r);
    if (!status) status = qg__run_cut_metrics(r);
    if (!status) status = qg__run_save(r);
    if (!status) return QG_OK;
    char why[512];
    snprintf(why, sizeof why, "%s", qg_errmsg());
    /* Else the same command would find a run here.  The checkpoint is there if its directory could not be flushed, and
     * goes first, since no run continues from a checkpoint alone. */
    static const qg__run_file made[] = { QG__RUN_LAST, QG__RUN_METRICS, QG__RUN_WHITENING, QG__RUN_CONFIG };
    for (int i = 0; i < 4 && !had; i++) qg__file_remove_in(r->lock, r->paths.file[made[i]]);
    if (r->made && !qg__run_check_place(r)) qg__path_unmake(r->base, r->paths.dir, r->made);
    return qg_fail(status, "%s", why);
}

/* --- loading ------------------------------------------------------------------------------ */

qg_status qg__run_no_checkpoint(const char *path)
{
    return qg_fail(QG_EFORMAT, "%s: is not a checkpoint of qgrad train; qgrad import reads nets of other "
                   "programs", path);
}

qg_status qg__run_check_format(const char *path, const char *format, const char *recipe, const char *checksum)
{
    if (!recipe || !format) return qg__run_no_checkpoint(path);
    if (strcmp(format, QG__RUN_FORMAT))
        return qg_fail(QG_EFORMAT, "%s: is not a checkpoint of this version of qgrad train: its format is '%s', not "
                       "'%s'", path, format, QG__RUN_FORMAT);
    return checksum ? QG_OK : qg_fail(QG_EFORMAT, "%s: is damaged: its checksum is missing", path);
}

static qg_status check_record(const qg__run *r, const char *path)
{
    const qg__run_record *at   = &r->record;
    const int         epochs = r->was.epochs > r->spec->epochs ? r->was.epochs : r->spec->epochs;
    const double      seed = (double)r->spec->seed, steps = (double)qg_optim_steps(r->spec->optim);
    const struct {
        const char *name;
        double      value, least, most;
    } of[] = { { "seed", (double)at->seed, seed, seed },
               { "epoch", (double)at->epoch, 0, epochs },
               { "best_epoch", (double)at->best_epoch, 0, (double)at->epoch },
               { "steps", (double)at->steps, steps, steps },
               { "correct", (double)at->correct, 0, (double)at->images },
               { "loss", at->loss, -DBL_MAX, DBL_MAX },
               { "test_accuracy", at->test_accuracy, 0, 1 },
               { "best_accuracy", at->best_accuracy, 0, 1 } };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (!(of[i].value >= of[i].least && of[i].value <= of[i].most))
            return qg_fail(QG_EFORMAT, "%s: run.%s is %.17g, which the run cannot reach", path, of[i].name, of[i].value);
    return QG_OK;
}

/* The arrays do not fit this run's net: because config.toml is that of another run, or else for the reason that is told
 * already. */
static qg_status explain_misfit(const qg__run *r, const char *path)
{
    qg_archive *a;
    qg_status   status = qg__safetensors_open(r->lock, path, &a);
    if (status) return status;
    const char *said = qg_archive_noted(a, "recipe");
    qg_fit_span ignored;
    if (said) status = qg__run_same(r, said, path, &ignored);
    qg_archive_free(a);
    return status ? status : QG_ESHAPE;
}

/* Whether the images of this process are whitened by another matrix than the one that s names. */
static qg_status look_at_matrix(qg__run *r, const qg_state *s)
{
    static const char key[] = "normalise.whitening";
    const char       *was   = qg_state_find_note(s, key), *is;
    if (!was || !r->spec->train) return QG_OK;
    qg_state *own = qg_state_new();
    if (!own) return QG_EMEM;
    qg_preprocess_note(qg_loader_preprocess(r->spec->train), own);
    is              = qg_state_find_note(own, key);
    r->other_matrix = is && strcmp(is, was);
    qg_state_free(own);
    return QG_OK;
}

/* Loads everything in s and checks that it belongs to this run and is undamaged. */
static qg_status load(qg__run *r, qg_state *s, const char *path)
{
    qg_fit_span ignored;
    qg_status   status = qg__state_load_from(s, r->lock, path, false);
    if (status == QG_ESHAPE) status = explain_misfit(r, path);
    const char *noted = qg_state_find_note(s, "recipe");
    if (!status)
        status = qg__run_check_format(path, qg_state_find_note(s, "format"), noted, qg_state_find_note(s, QG_SAFETENSORS_CHECKSUM));
    if (status) return status;
    if (s == r->last) r->arithmetic = qg__run_noted_arithmetic(qg_state_find_note(s, QG__RUN_ARITHMETIC));
    status = qg__run_same(r, noted, path, s == r->last ? &r->was : &ignored);
    /* A recipe of an older version may lack a key of this one: not what the user should hear about. */
    if ((status == QG_EARG || status == QG_EFORMAT) && qg__run_check_arithmetic(r)) status = QG_ESTATE;
    if (!status && s == r->last) status = look_at_matrix(r, s);
    if (!status) note(s, r);
    return status;
}

uint64_t qg__arithmetic(const qg_net *net)
{
    for (int i = 0; i < qg_net_layers(net); i++) {
        const qg_slot *gradient = qg_layer_slot(qg_net_layer(net, i), QG_GRADIENT);
        if (gradient && gradient->q.scheme) return QG_ARITHMETIC_GRADIENTS;
    }
    return QG_ARITHMETIC;
}

uint64_t qg__run_noted_arithmetic(const char *noted) { return noted ? strtoull(noted, NULL, 10) : 1; }

uint64_t qg__run_arithmetic(const qg__run *r)
{
    return r->arithmetic ? r->arithmetic : qg__arithmetic(r->net);
}

qg_status qg__run_check_arithmetic(const qg__run *r)
{
    const uint64_t now = qg__arithmetic(r->net);
    if (qg__run_arithmetic(r) == now) return QG_OK;
    return qg_fail(QG_ESTATE, "%s: was trained under version %" PRIu64 " of the arithmetic, but this program "
                   "trains it under version %" PRIu64 ", so it cannot be continued.  You can evaluate, "
                   "export or predict with it, start a new run from its weights (init), or train it again",
                   r->paths.dir, r->arithmetic, now);
}

/* Checks the rows up to the checkpoint. */
static qg_status check_metrics(qg__run *r, const char *path)
{
    static const char *const images[] = { "test", "validation" };
    const char              *noted    = qg_state_find_note(r->last, "metrics");
    const bool               held     = r->spec->validation;
    char                     found[17];
    if (r->metrics.validates != held && r->metrics.epochs == 0) {       /* made by an earlier quantize */
        qg__metrics_end(&r->metrics);
        return qg__metrics_begin(&r->metrics, held, &r->code_stats, &r->learned);
    }
    if (r->metrics.validates != held)
        return qg_fail(QG_EFORMAT, "%s: its columns are those of %s images, but %s images choose the best epoch of "
                       "this run", path, images[r->metrics.validates], images[held]);
    qg__metrics_digest(&r->metrics, found);
    if (noted && !strcmp(noted, found)) return QG_OK;
    return qg_fail(QG_EFORMAT, "%s: is damaged: its first %d rows are not those that the run wrote", path, r->metrics.epochs);
}

/* The checkpoint, whatever files are beside it. */
static qg_status load_last(qg__run *r)
{
    const char     *path   = r->paths.file[QG__RUN_LAST];
    const qg_status status = load(r, r->last, path);
    return status ? status : check_record(r, path);
}

qg_status qg__run_load(qg__run *r)
{
    qg_status status = load_last(r);
    if (status) return status;
    qg__code_stats_loaded(&r->code_stats);
    qg__metrics_end(&r->metrics);
    const char *path = r->paths.file[QG__RUN_METRICS];
    status           = qg__metrics_read(&r->metrics, r->lock, path, (int)r->record.epoch, 0);
    return status ? status : check_metrics(r, path);
}

/* Whether the archive has the numbers of p. */
static bool same_matrix(const qg_preprocess *p, const qg_archive *a)
{
    const size_t          row  = qg_row(p->shape) * sizeof(float);
    const qg_named_array *mean = qg_archive_find(a, "mean"), *matrix = qg_archive_find(a, "whitening");
    return !memcmp(mean->array.data, p->mean, row) && !memcmp(matrix->array.data, p->whitening, row * qg_row(p->shape));
}

qg_status qg__run_check_whitening(const qg__run *r)
{
    const char          *path = r->paths.file[QG__RUN_WHITENING];
    const qg_preprocess *p    = qg_loader_preprocess(r->spec->train);
    qg_archive          *a;
    bool                 has;
    qg_state            *s      = qg_state_new();
    const bool           whites = qg_preprocess_state(p, s);
    qg_status            status = whites ? qg__run_has(r, QG__RUN_WHITENING, &has) : QG_OK;
    if (!status && whites && has) {
        status          = qg__state_open(s, r->lock, path, false, &a);
        const bool same = !status && same_matrix(p, a);
        if (!status) qg_archive_free(a);
        if (!status && !same)
            status = qg_fail(QG_EFORMAT, "%s: is not the matrix that whitens the images of this process; another processor may "
                             "compute another one, so load them with the preprocessing of the checkpoint", path);
    }
    if (!status && whites && !has && r->other_matrix)
        status = qg_fail(QG_EFORMAT, "%s: is lost, and this processor computes another matrix; copy the file "
                         "back", path);
    qg_state_free(s);
    return status;
}

qg_status qg__run_keep_config(qg__run *r)
{
    bool      has, whitens;
    qg_status status = qg__run_has(r, QG__RUN_CONFIG, &has);
    if (!status) status = qg__run_has(r, QG__RUN_WHITENING, &whitens);
    if (!status && (!has || r->spec->renew_file)) status = write_config(r);
    return status || whitens || r->other_matrix ? status : write_whitening(r);
}

qg_status qg__run_extend(qg__run *r)
{
    qg_status status = qg__run_check_place(r);
    if (!status) status = write_config(r);
    if (status || r->record.best_epoch == 0) return status;
    status = load(r, r->best, r->paths.file[QG__RUN_BEST]);
    /* A file that is ahead of the checkpoint is written again by the epoch that is repeated. */
    const char *epoch = qg_state_find_note(r->best, "epoch");
    if (!status && epoch && strtoull(epoch, NULL, 10) == r->record.best_epoch)
        status = qg__state_save_in(r->best, r->lock, r->paths.file[QG__RUN_BEST]);
    return status ? status : qg__run_load(r);
}

/* It is ahead of the checkpoint if the run was killed between the two writes; the epoch is then repeated. */
qg_status qg__run_check_best(const qg__run *r)
{
    const char *path   = r->paths.file[QG__RUN_BEST];
    qg_archive *a;
    if (r->record.best_epoch == 0) return QG_OK;
    qg_status status = qg__state_open(r->best, r->lock, path, false, &a);
    if (status) return status;
    const char *epoch = qg_archive_noted(a, "epoch");
    if (!epoch || strtoull(epoch, NULL, 10) < r->record.best_epoch)
        status = qg_fail(QG_EFORMAT, "%s: is from epoch %s, but the best was epoch %" PRIu64, path, epoch ? epoch : "unknown",
                         r->record.best_epoch);
    qg_fit_span ignored;
    const char *noted = qg_archive_noted(a, "recipe");
    if (!status) status = qg__run_check_format(path, qg_archive_noted(a, "format"), noted, qg_archive_noted(a, QG_SAFETENSORS_CHECKSUM));
    if (!status) status = qg__run_same(r, noted, path, &ignored);
    qg_archive_free(a);
    return status;
}

qg_status qg__run_noted_steps(const char *path, const qg_state *s, uint64_t *steps)
{
    const char *text = qg_state_find_note(s, "steps");
    char       *end  = NULL;
    if (text) *steps = strtoull(text, &end, 10);
    return end && end != text && !*end ? QG_OK : qg_fail(QG_EFORMAT, "%s: does not note the number of steps", path);
}

void qg__run_swap(qg__run *r)
{
    QG_ASSERT(!r->ema || !qg_ema_swap(r->ema));
}

qg_status qg__run_load_weights(qg__run *r, qg__run_file f)
{
    const bool      last   = f == QG__RUN_LAST;
    const char     *path   = r->paths.file[f];
    const qg_status status = last ? load_last(r) : load(r, r->best, path);
    if (!status && last) qg__run_swap(r);
    if (status || last) return status;
    return qg__run_noted_steps(path, r->best, &r->record.steps);
}

/* --- saving ------------------------------------------------------------------------------- */

qg_status qg__run_save(qg__run *r)
{
    char            digest[17];
    const qg_status status = qg__run_check_place(r);
    qg__metrics_digest(&r->metrics, digest);
    qg_state_set_note(r->last, "metrics", digest);
    return status ? status : qg__state_save_in(r->last, r->lock, r->paths.file[QG__RUN_LAST]);
}

qg_status qg__run_cut_metrics(qg__run *r) { return qg__metrics_write(&r->metrics, r->lock, r->paths.file[QG__RUN_METRICS]); }

qg_status qg__run_save_best(qg__run *r)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, r->record.best_epoch);
    qg_state_set_note(r->best, "epoch", text);
    snprintf(text, sizeof text, "%" PRIu64, r->record.steps);
    qg_state_set_note(r->best, "steps", text);
    qg__number_print(text, 9, r->record.best_accuracy);
    qg_state_set_note(r->best, r->spec->validation ? "validation_accuracy" : "test_accuracy", text);
    qg__run_swap(r);
    const qg_status status = qg__state_save_in(r->best, r->lock, r->paths.file[QG__RUN_BEST]);
    qg__run_swap(r);
    return status;
}

qg_status qg__run_add_epoch(qg__run *r, qg_epoch row, bool better)
{
    qg_status status = qg__run_check_place(r);
    if (!status) status = qg__metrics_add(&r->metrics, row, &r->code_stats, &r->learned);
    if (!status) status = qg__run_cut_metrics(r);
    return status || !better ? status : qg__run_save_best(r);
}

void qg__run_notice(const qg__run *r, qg_fit_notice what, const char *text)
{
    const qg_fit_events *e = &r->spec->events;
    if (e->notice) e->notice(e->user, what, text);
}

void qg__run_end(qg__run *r)
{
    qg_state_free(r->last);
    qg_state_free(r->best);
    qg__metrics_end(&r->metrics);
    qg__code_stats_end(&r->code_stats);
    qg__learned_end(&r->learned);
    qg_ema_free(r->ema);
    qg_tape_free(r->tape);
    free(r->identity);
    if (r->lock >= 0 && r->base >= 0) close(r->base);
    if (r->lock >= 0) close(r->lock);
    *r = (qg__run){ .lock = QG_BY_PATH };
}
