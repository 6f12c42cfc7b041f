/* cli/report/gather.h — everything that a report shows of one run, read from its directory. */
#ifndef CLI_REPORT_GATHER_H
#define CLI_REPORT_GATHER_H

#include "cli/report/weights.h"
#include "cli/run/run_spec.h"

/* The three states of the weights that a report shows. */
typedef enum moment { AT_START, AT_BEST, AT_LAST, MOMENTS } moment;
extern const char *const moment_name[MOMENTS];

enum { LAYER_BYTES = 64, QUANTIZER_BYTES = 128 };

typedef struct shown_layer {
    char            name[LAYER_BYTES];
    int             index;              /* in the net */
    char            quantizer[QUANTIZER_BYTES], input[QUANTIZER_BYTES];     /* "ttq, 2 bits"; of no quantized input empty */
    weight_picture  weight[MOMENTS];    /* count 0: not known */
} shown_layer;

/* The numbers that one layer's quantizer of inputs gave for some test images. */
typedef struct shown_input {
    char        layer[LAYER_BYTES];
    double      zeros, lowest, highest; /* shares of 0, and of the smallest and the largest value */
    float       least, greatest;        /* these values */
} shown_input;

typedef struct shown_run {
    const char   *dir;                  /* of run */
    qg_fit_result result;
    qg_run       *run;                  /* what it notes */
    qg_recipe    *recipe;               /* NULL: a program's, or there is only its checkpoint */
    qg_run       *last;                 /* the same with the net and its last weights; NULL after shown_run_release */
    char         *summary;              /* of the net; NULL: another program's */
    size_t        floats, packed;       /* bytes; packed 0: there is no packed file */
    int           epochs;               /* rows of its metrics.csv */
    shown_layer  *layer;                /* those with weights */
    shown_input  *input;                /* those with a quantizer of inputs; none without images */
    int           layers, inputs, input_images;
} shown_run;

/* Reads the run in dir.  before: its layers in an earlier page, whose start is the same; NULL: none.
 *
 * Memory   shown_run_free, also after a failure.  *r cannot be copied.
 * Fails    QG_EARG, QG_EIO, QG_EFORMAT: it is no run, or one without a finished epoch and checkpoint; QG_EMEM.
 */
QG_MUST_CHECK
qg_status shown_run_read(shown_run *r, const char *dir, const shown_layer *before);

/* Runs the net on the first 16 images, and sets r->input.  Fails as qg_loader_image and the ops. */
QG_MUST_CHECK
qg_status shown_run_inputs(shown_run *r, qg_loader *images);
void      shown_run_release(shown_run *r);      /* the net, which a page does not need */
void      shown_run_free(shown_run *r);

/* --- mistakes (cli/report/mistakes.c) --------------------------------------------------------- */

enum { WORST_IMAGES = 24 };

typedef struct mistakes {
    const char    *split;                   /* "test" or "validation"; NULL: nothing is known */
    qg_assessment all;
    char          *picture[WORST_IMAGES];   /* of all.worst: "data:image/png;base64,.."; NULL: none */
    char          *file[WORST_IMAGES];      /* their paths; NULL: the image is not a file of its own */
} mistakes;                                 /* {0} is empty */

/* After the last image: makes the pictures from the images, which are .in_order, and notes their files.  Each is stretched to its own extremes, since
 * they are normalised; large ones are made smaller.  Fails with QG_EMEM, and as qg_loader_image. */
QG_MUST_CHECK
qg_status mistakes_draw(mistakes *m, qg_loader *images);
void      mistakes_end(mistakes *m);

/* What a column says of its layer: "zeros", "flipped", "code.0", "weight.wp"; the dot before it ends the name of the layer,
 * which may have dots itself.  NULL: it is of the whole run. */
const char *metric_column_part(const char *name);

/* --- runs that differ in their seeds alone ---------------------------------------------------- */

typedef enum shown_curve { SHOWN_MEAN, SHOWN_LOW, SHOWN_HIGH, SHOWN_CURVES } shown_curve;

/* As one: curves are means over its runs. */
typedef struct shown_group {
    const shown_run *first;
    int              runs;
    char             name[QG__PATH_BYTES];      /* the directory, or what the directories begin with */
    int              epochs;                    /* of the longest */
    double          *curve[SHOWN_CURVES];       /* [columns of first][epochs] */
} shown_group;

/* A column of the first, as the mean over the runs that have it, epoch by epoch, or this mean less and plus the deviation
 * (of n - 1), which is NaN where fewer than two have a number.  NULL: it has no such column. */
const double *shown_group_curve(const shown_group *g, shown_curve which, const char *column);

/* Sets group[i], the number of the group of run i, and *groups, in the order of their first runs.
 *
 * Memory   The caller's; shown_groups_free.
 * Fails    NULL: QG_EMEM. */
shown_group *shown_groups(const shown_run *run, int runs, int *group, int *groups);
void         shown_groups_free(shown_group *g, int groups);

#endif
