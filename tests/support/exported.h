/* tests/support/exported.h — nets of every kind, of which tests compare exported files with evaluation. */
#ifndef EXPORTED_H
#define EXPORTED_H

#include "core/tape.h"
#include "layers/models/models.h"
#include "layers/net.h"

enum { MOST_IMAGES = 9, WHAT_BYTES = 200 };

/* A built net that has seen a batch, with factors of both signs and offsets that move most thresholds. */
typedef struct rig {
    qg_net  *net;
    qg_tape *t;
    float   *x;             /* [image.n] images */
    qg_shape image;
} rig;

/* Takes a declared net, and n <= MOST_IMAGES images.  false: it cannot be built.  rig_end in any case. */
bool          rig_begin(rig *r, qg_net *net, int n);
void          rig_end(rig *r);
const qg_var *rig_scores(rig *r, int n);            /* of QG_EVAL, for the first n images */

/* Declared nets of a sort, 0 .. count - 1, and a description.
 *
 *     pairs       a product of every pair of tested_weights and tested_inputs
 *     layers      every kind of layer with some of the schemes
 *     branches    what no text has: concat, a quantizer with several readers, a second result, codes in two codings
 *     models      every model, narrow and with small images, with some of the schemes
 *
 * A few of the layers and models cannot be built, because they have no place for XNOR-Net's scales
 * (exported_may_fail). */
typedef enum exported_sort {
    EXPORTED_PAIRS, EXPORTED_LAYERS, EXPORTED_BRANCHES, EXPORTED_MODELS, EXPORTED_SORTS
} exported_sort;

/* The nets of layers, with every kind that texts have. */
enum { EXPORTED_TEXTS = 11 };
extern const char *const exported_texts[EXPORTED_TEXTS];

int           exported_count(exported_sort sort);
qg_net       *exported_declare(exported_sort sort, int i, char what[WHAT_BYTES]);
bool          exported_may_fail(exported_sort sort, int i);

bool          ends_with(const char *text, const char *end);

#endif
