/* cli/report/gather.h — everything that a report shows of one run, read from its directory. */
#ifndef CLI_REPORT_GATHER_H
#define CLI_REPORT_GATHER_H

#include "cli/report/columns.h"
#include "cli/report/weights.h"
#include "cli/run/classes.h"
#include "cli/run/run_spec.h"

/* The three states of the weights that a report shows. */
typedef enum moment { AT_START, AT_BEST, AT_LAST, MOMENTS } moment;
extern const char *const moment_name[MOMENTS];

typedef struct shown_layer {
    qg_layer       *layer;              /* of shown_run.used.net */
    weight_picture  weight[MOMENTS];    /* count 0: not known */
} shown_layer;

/* The numbers that one layer's quantizer of inputs gave for some test images. */
typedef struct shown_input {
    const char *layer;
    double      zeros, lowest, highest; /* shares of 0, and of the smallest and the largest value */
    float       least, greatest;        /* these values */
} shown_input;

typedef struct shown_run {
    char          dir[QG__PATH_BYTES];
    config        config;
    qg_fit_result result;
    used_run      used;                 /* with the net and its last weights */
    metric_columns metrics;
    shown_layer  *layer;                /* those with weights */
    shown_input  *input;                /* those with a quantizer of inputs; none without images */
    int           layers, inputs, input_images;
    qg_shape      image;
    int           classes;
    class_names   names;
} shown_run;

/* Reads the run in dir.  before: its layers in an earlier page, whose start is the same; NULL: none.
 *
 * Memory   shown_run_free, also after a failure.  *r cannot be copied.
 * Fails    QG_EARG, QG_EIO, QG_EFORMAT: it is no run, or one without a finished epoch and checkpoint; QG_EMEM.
 */
QG_MUST_CHECK
qg_status shown_run_read(shown_run *r, const char *dir, const shown_layer *before);

/* Runs the net on the first 16 images, which are at the start before and afterwards, and sets r->input.  Fails as the ops
 * do. */
QG_MUST_CHECK
qg_status shown_run_inputs(shown_run *r, qg_loader *images);
void      shown_run_free(shown_run *r);

#endif
