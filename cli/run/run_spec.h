/* cli/run/run_spec.h — what a configuration means for qg_fit. */
#ifndef CLI_RUN_SPEC_H
#define CLI_RUN_SPEC_H

#include "cli/config/config.h"
#include "train/run.h"

/* The directory that an option names, without slashes at the end.  Fails with QG_EARG: too long. */
QG_MUST_CHECK
qg_status run_directory(const char *key, const char *text, char dir[QG__PATH_BYTES]);

/* The weights of a run, to use them and not to continue it.  It cannot be copied. */
typedef struct used_run {
    bool         only_weights;  /* the caller looks at weights alone, so a run that a program of its own trained with qg_fit
                                   will do: its net is then a stored_net */
    char        *said;          /* what such a run notes as its configuration; NULL: qgrad train trained it */
    qg_fit_spec  spec;
    qg__run      run;
    qg__run_file file;          /* with the weights */
    qg_net      *net;
    qg_optim    *optim;         /* whose moments are in the checkpoint */
} used_run;

#define NO_RUN { .run = { .lock = QG_BY_PATH } }

/* Finds the run that --run names: a directory, or a checkpoint that stands alone.  u->file is QG__RUN_LAST or, if best,
 * QG__RUN_BEST, or the checkpoint itself; c is config.toml or, without one, what the checkpoint notes, and stays {0} with
 * u->said.
 * Fails with QG_EARG, QG_EIO, QG_EFORMAT, as config_of_run. */
QG_MUST_CHECK
qg_status used_run_find(used_run *u, const char *name, bool best, qg_recipe *c);

/* Whether the classes of images are called as those of the run c, or either has no names.  Classes are numbered in the order of
 * their names, so other names mean other numbers. */
bool      run_has_classes(const qg_recipe *c, const qg_loader *images);

/* Fails with QG_EARG unless images, which are called data, have this size and so many classes, as those of a run. */
QG_MUST_CHECK
qg_status run_check_size(const char *data, const qg_loader *images, qg_shape was, int classes);

/* Makes its net for such images, from r, and loads the weights.  c must outlive *u.  Fails with QG_EMEM, and as
 * qg__run_load_weights or stored_net. */
QG_MUST_CHECK
qg_status used_run_load(used_run *u, qg_recipe *c, const qg_recipe *r, qg_shape image, int classes);
void      used_run_end(used_run *u);

/* A second net with the weights that u has just loaded, for such images, and with the quantizers of r; what u's quantizers
 * learned goes to the same quantizers.  init says what came of it.  Fails with NULL: QG_EARG, r, or the file has other
 * weights than the net, because the run tests averages; and as qg__init_weights. */
qg_net   *used_run_net(const used_run *u, const qg_recipe *r, qg_shape image, int classes, qg__init_report *init);

/* Finds and loads the run that --teacher names, whose scores a student learns from on these images.  c is its configuration.
 * Fails with QG_EARG: its images have another size, other classes, or are preprocessed differently; and as the two above. */
QG_MUST_CHECK
qg_status used_run_teach(used_run *u, qg_recipe *c, const char *name, const qg_recipe *student, const qg_loader *images);

#endif
