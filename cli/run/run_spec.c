#include "cli/run/run_spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/run/stored_net.h"
#include "core/io/file.h"
#include "core/io/safetensors.h"

qg_status run_directory(const char *key, const char *text, char dir[QG__PATH_BYTES])
{
    size_t n = strlen(text);
    while (n > 1 && text[n - 1] == '/') n--;
    if (n >= QG__PATH_BYTES) return qg_fail(QG_EARG, "%s: the path is too long", key);
    snprintf(dir, QG__PATH_BYTES, "%.*s", (int)n, text);
    return QG_OK;
}

/* --- a run that exists -------------------------------------------------------------------- */

/* A program that calls qg_fit itself has a configuration of its own, to which train/identity.c adds lines. */
static qg_status check_author(used_run *u, const char *said, const char *path)
{
    if (!said || !strstr(said, "net-digest = ")) return QG_OK;
    if (!u->only_weights)
        return qg_fail(QG_EARG, "%s: its net was declared by a program of its own, which trained it with qg_fit; 'qgrad report' "
                       "and 'qgrad inspect' show it", path);
    if (!u->said) u->said = strdup(said);
    return u->said ? QG_OK : qg_fail(QG_EMEM, "out of memory for the configuration");
}

/* Of what a checkpoint says, only what decides about its net and its training: no directory, teacher or recipe, and no file of
 * its data.  The text of the data remains what it is, for comparison with the run. */
static qg_status read_noted(qg_recipe *stored, const char *said, const char *path)
{
    qg_recipe all    = { 0 };
    qg_status status = qg__recipe_parse(&all, said, path);
    if (!status) status = qg__recipe_over(stored, &all, QG__IDENTITY, 0);
    qg__data_forget_files(&stored->data);
    qg__recipe_clear(&all);
    return status;
}

/* The configuration that the checkpoint at path notes.  *f: which file of a run it is. */
static qg_status noted_config(used_run *u, const char *path, qg_recipe *stored, qg__run_file *f)
{
    qg_archive *a;
    if (qg_safetensors_open(QG_BY_PATH, path, &a)) return qg_errcode();    /* the notes are in the header */
    const char *said = qg_archive_noted(a, "recipe"), *kind = qg_archive_noted(a, "kind");
    qg_status   status = said ? check_author(u, said, path)
                              : qg_fail(QG_EFORMAT, "%s: is not a checkpoint of qgrad train", path);
    if (!status && !u->said) status = read_noted(stored, said, path);
    *f = kind && !strcmp(kind, "weights") ? QG__RUN_BEST : QG__RUN_LAST;
    if (!status && !u->said && !qg__recipe_value(stored, "model"))
        status = qg_fail(QG_EFORMAT, "%s: does not say which model it is of", path);
    if (!status && kind && *f == QG__RUN_LAST && strcmp(kind, "checkpoint"))
        status = qg_fail(QG_EFORMAT, "%s: its kind '%s' is neither checkpoint nor weights", path, kind);
    qg_archive_free(a);
    return status;
}

static qg_status config_of_checkpoint(used_run *u, const char *path, qg_recipe *c, qg__run_file *f)
{
    qg_recipe stored = { 0 };
    qg_status status = noted_config(u, path, &stored, f);
    if (u->said) return status;
    if (!status) status = qg__recipe_as_stored(&stored, c);
    qg__recipe_clear(&stored);
    return status ? status : qg__recipe_check(c);
}

static bool is_file(const char *path)
{
    struct stat s;
    return !stat(path, &s) && S_ISREG(s.st_mode);
}

/* The configuration in config.toml, unless a checkpoint beside it says that it is another program's. */
static qg_status stored_config(used_run *u, qg_recipe *c)
{
    const qg__run_paths *p = &u->run.paths;
    qg_archive          *a;
    qg_status            status = QG_OK;
    if (is_file(p->file[u->file]) && !qg_safetensors_open(QG_BY_PATH, p->file[u->file], &a)) {
        status = check_author(u, qg_archive_noted(a, "recipe"), p->file[u->file]);
        qg_archive_free(a);
    }
    return status || u->said ? status : qg__recipe_of_run(p->file[QG__RUN_CONFIG], c);
}

static qg_status nothing_there(const char *name)
{
    if (!qg__path_exists(name)) return qg_fail(QG_EIO, "there is no run '%s': no such directory or checkpoint", name);
    return qg_fail(QG_EIO, "'%s' contains no run: no config.toml and no checkpoint", name);
}

qg_status used_run_find(used_run *u, const char *name, bool best, qg_recipe *c)
{
    qg__run_paths *p = &u->run.paths;
    qg__run_file  *f = &u->file;
    char        dir[QG__PATH_BYTES];
    const char *slash = strrchr(name, '/');
    if (is_file(name) && strlen(name) < sizeof dir) {
        snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - name) + (slash == name) : 1, slash ? name : ".");
        qg_status status = qg__run_paths_of(dir, p);
        if (!status) status = config_of_checkpoint(u, name, c, f);
        if (!status) strcpy(p->file[*f], name);
        return status;
    }
    *f = best ? QG__RUN_BEST : QG__RUN_LAST;
    bool      has;
    qg_status status = qg__run_paths_of(name, p);
    if (!status) status = qg_file_exists_in(QG_BY_PATH, p->file[QG__RUN_CONFIG], &has);
    if (status) return status;
    if (!has && !is_file(p->file[*f])) return nothing_there(name);
    if (has) return stored_config(u, c);
    qg__run_file ignored;
    return config_of_checkpoint(u, p->file[*f], c, &ignored);
}

qg_status used_run_load(used_run *u, qg_recipe *c, const qg_recipe *r, qg_shape image, int classes)
{
    if (u->said) {
        u->net      = stored_net(u->run.paths.file[u->file]);
        u->run.tape = u->net ? qg_tape_new() : NULL;
        return u->run.tape ? QG_OK : qg_errcode();
    }
    u->net   = qg__recipe_net(r, image, classes);
    u->optim = u->net ? qg__recipe_optim(r, qg_net_params(u->net)) : NULL;
    if (!u->optim) return QG_EMEM;
    qg_status status  = qg__recipe_spec(c, &u->spec);
    u->spec.optim     = u->optim;
    if (!status) status = qg__run_compose(&u->run, u->net, &u->spec);
    return status ? status : qg__run_load_weights(&u->run, u->file);
}

qg_net *used_run_net(const used_run *u, const qg_recipe *r, qg_shape image, int classes, qg__init_report *init)
{
    const char *path = u->run.paths.file[u->file];
    /* The file has the weights, and their averages under other names. */
    if (u->run.ema && u->file == QG__RUN_LAST) {
        qg_fail(QG_EARG, "weight: the run tests averages of its weights, which only best.safetensors has; pass --best");
        return NULL;
    }
    qg_net *net = qg__recipe_net(r, image, classes);
    if (!net || !qg__init_weights(net, path, u->net, NULL, init)) return net;
    qg_net_free(net);
    return NULL;
}

bool run_has_classes(const qg_recipe *c, const qg_loader *images)
{
    const uint64_t names = qg_loader_class_digest(images);
    char           found[32];
    snprintf(found, sizeof found, "%016" PRIx64, names);
    return !names || !c->class_digest || !strcmp(c->class_digest, found);
}

static bool same_size(qg_shape a, qg_shape b) { return a.h == b.h && a.w == b.w && a.c == b.c; }

qg_status run_check_size(const char *data, const qg_loader *images, qg_shape was, int classes)
{
    const qg_shape is = qg_loader_shape(images);
    const int      of = qg_loader_classes(images);
    if (same_size(is, was) && of == classes) return QG_OK;
    return qg_fail(QG_EARG, "%s: its images are %dx%dx%d in %d class%s, but the run's are %dx%dx%d in %d", data, is.h, is.w, is.c, of,
                   of == 1 ? "" : "es", was.h, was.w, was.c, classes);
}

/* --- a teacher ---------------------------------------------------------------------------- */

static qg_status check_size(const char *path, qg_shape is, int classes, const qg_loader *images)
{
    const qg_shape of = qg_loader_shape(images);
    const int      n  = qg_loader_classes(images);
    if (same_size(is, of) && classes == n) return QG_OK;
    return qg_fail(QG_EARG, "%s: the teacher was trained on images of %dx%dx%d in %d class%s, but these are %dx%dx%d in %d",
                   path, is.h, is.w, is.c, classes, classes == 1 ? "" : "es", of.h, of.w, of.c, n);
}

static qg_status check_names(const char *path, const qg_recipe *c, const qg_loader *images)
{
    if (run_has_classes(c, images)) return QG_OK;
    return qg_fail(QG_EARG, "%s: the teacher's classes have other names than those of the images", path);
}

/* The teacher reads the batch of its student. */
static qg_status check_preprocessing(const char *path, const qg_recipe *c, const qg_recipe *student, const qg_loader *images)
{
    const char    *is = qg__recipe_value(c, "normalise"), *of = qg__recipe_value(student, "normalise");
    qg_preprocess *p  = qg_preprocess_open(path);
    if (!p) return qg_errcode();
    const bool same = qg_preprocess_equal(p, qg_loader_preprocess(images));
    qg_preprocess_free(p);
    if (same) return QG_OK;
    return qg_fail(QG_EARG, "%s: the teacher's images were normalised as %s, but these are as %s%s", path, is, of,
                   strcmp(is, of) ? "" : ", with other statistics");
}

qg_status used_run_teach(used_run *u, qg_recipe *c, const char *name, const qg_recipe *student, const qg_loader *images)
{
    qg_shape    image   = qg_loader_shape(images);
    int         classes = qg_loader_classes(images), noted;
    qg_status   status  = used_run_find(u, name, false, c);
    const char *path    = u->run.paths.file[u->file];
    if (!status) status = qg__run_noted_size(&u->run, u->file, &image, &noted);
    if (!status) status = check_size(path, image, noted ? noted : classes, images);
    if (!status) status = check_names(path, c, images);
    if (!status) status = check_preprocessing(path, c, student, images);
    return status ? status : used_run_load(u, c, c, image, classes);
}

void used_run_end(used_run *u)
{
    qg__run_end(&u->run);
    free(u->said);
    qg_optim_free(u->optim);
    qg_net_free(u->net);
    *u = (used_run)NO_RUN;
}
