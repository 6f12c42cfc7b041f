/* layers/plan.h — what a net runs: its declared layers, folded into steps (internal).
 *
 * The layers of a net stay as they were declared.  qg_net_build puts a plan beside them: a list of
 * steps, each of which is one layer together with the layers that are folded into it.  A step thus
 * covers a chain of declared layers, reads what the first of them reads, and computes what the last of
 * them would.  qg_net_forward runs the steps in order.  qg_apply runs a single layer, as a step into
 * which nothing is folded.
 *
 * Two kinds of layer take others in:
 *
 *     batch norm    the sum, relu, max pooling (windows side by side) and activation quantizer that follow it become
 *                   one qg_norm
 *     product       the batch norm that follows it is folded into the quantized weight (qg_fold_weight)
 */
#ifndef QG_PLAN_H
#define QG_PLAN_H

#include "core/arena.h"
#include "layers/layer.h"

typedef struct qg_batchnorm {
    qg_layer          layer;
    qg_batchnorm_spec spec;
    qg_param         *gamma, *beta, *mean, *var;    /* gamma, beta NULL: left out */
} qg_batchnorm;

struct qg_step {
    qg_layer           *layer;          /* what runs */
    const qg_layer     *x, *z;          /* whose results it reads; NULL: the image, nothing */
    const qg_layer     *result;         /* whose result it computes: the last layer it covers */

    /* Of a batch norm: what it does afterwards.  If z is set, it adds z first. */
    int                 pool;           /* window of the max pooling; 0: none */
    bool                relu;
    const qg_slot      *slot;           /* the quantizer; NULL: none */

    /* Of a product. */
    bool                input_done;     /* an earlier step has quantized its input */
    const qg_batchnorm *norm;           /* folded into its weight; NULL: none */
};

struct qg_net {
    qg_net_spec spec;
    qg_arena    arena;          /* layers, their names, the plan */
    qg_params   params;
    qg_layer  **layer;          /* in order of declaration */
    int         layers, capacity;
    qg_step    *step;           /* the plan, in the order in which it runs */
    int         steps;
    qg_status   status;         /* the first failure, and its message */
    char        why[512];
    bool        built;
};

/* Plans a declared net, whose layers know their readers.  Fails with QG_EMEM, and with QG_EARG if
 * fold_batchnorm is set and nothing can be folded. */
QG_MUST_CHECK qg_status qg__net_plan(qg_net *net);

/* The step that runs l; NULL: l is folded into another. */
const qg_step *qg__net_step(const qg_net *net, const qg_layer *l);
qg_var        *qg__step_run(const qg_step *s, qg_tape *t, qg_var *x, qg_var *z);

/* The batch norm per channel that alone reads l; its batch mean subtracts again what l adds per channel.
 * NULL: l has other readers. */
qg_batchnorm  *qg__only_batchnorm(const qg_layer *l);

/* Keeps the first failure of a declaration, with the message just set.  QG_OK does nothing. */
void           qg__net_fail(qg_net *net, qg_status s);

/* --- what the plan asks of single layers ---------------------------------------------------- */

qg_layer      *qg__net_named(const qg_net *net, const char *name);     /* NULL: none; unlike qg_net_find no failure */
qg_batchnorm  *qg__batchnorm(qg_layer *l);          /* NULL: l is no batch norm */
int            qg__maxpool_size(const qg_layer *l); /* of windows side by side; 0: l is no such pooling */
bool           qg__is_relu(const qg_layer *l);
bool           qg__is_add(const qg_layer *l);
bool           qg__is_maxpool(const qg_layer *l);   /* with any windows */
bool           qg__is_dropout(const qg_layer *l);
float         *qg__dropout_rate(qg_layer *l);       /* NULL: l is no dropout */
const qg_slot *qg__quantize_slot(qg_layer *l);      /* of a quantize layer; NULL: it is none */

/* --- what files of other programs ask of them (layers/export/) ------------------------------- */

typedef struct qg__pooling {
    bool max, exclude_pad;
    int  h, w, stride, pad;
} qg__pooling;

bool           qg__pooling_of(const qg_layer *l, qg__pooling *p);       /* false: l is no pooling; so below */
bool           qg__affine_of(const qg_layer *l, float *a, float *b);
int            qg__shortcut_stride(const qg_layer *l);                  /* 0: l is no shortcut */
/* x_shift, slope and y_shift; of PReLU both shifts are NULL.  The slope has one number or one per channel. */
bool           qg__prelu_of(const qg_layer *l, const qg_param *of[3]);
bool           qg__is_hardtanh(const qg_layer *l);
bool           qg__is_sigmoid(const qg_layer *l);
bool           qg__is_tanh(const qg_layer *l);
bool           qg__is_concat(const qg_layer *l);

bool           qg__batchnorm_frozen(const qg_batchnorm *bn, uint64_t step);    /* in this step of training */

/* Running statistics and constants, frozen or not in this step of the tape; nothing folded. */
qg_norm_spec   qg__batchnorm_spec(const qg_batchnorm *bn, const qg_tape *t);

#endif
