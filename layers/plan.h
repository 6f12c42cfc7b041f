/* layers/plan.h — what a net runs: its declared layers, folded into steps (internal).
 *
 * The layers of a net stay as they were declared.  qg_net_build puts a plan beside them: a list of
 * steps, each of which is one layer together with the layers that are folded into it.  A step thus
 * covers a chain of declared layers, reads what the first of them reads, and computes what the last of
 * them would.  qg_net_forward runs the steps in order.  qg_apply runs a single layer, as a step into
 * which nothing is folded.
 *
 * Other layers are folded into two kinds of layer:
 *
 *     batch norm    the sum, relu, max pooling (windows side by side) and activation quantizer that follow it become
 *                   one qg_norm_fused; each of them says whether it can (qg_layer_type.join)
 *     product       the batch norm that follows it is folded into the quantized weight (qg_fold_weight)
 */
#ifndef QG_PLAN_H
#define QG_PLAN_H

#include "core/arena.h"
#include "layers/layer.h"
#include "quant/engine.h"

typedef struct qg_batchnorm {
    qg_layer          layer;
    qg_batchnorm_spec spec;
    qg_param         *gamma, *beta, *mean, *var;    /* gamma, beta NULL: left out */
} qg_batchnorm;

/* 2^53, the most training steps of a key: arguments are doubles, which hold every whole number up
 * to it. */
#define QG__MAX_STEPS 9007199254740992.0

struct qg_step {
    qg_layer           *layer;          /* what runs */
    const qg_layer     *x, *z;          /* whose results it reads; NULL: the image, nothing */
    const qg_layer     *result;         /* whose result it computes: the last layer it covers */

    /* Of a batch norm: what follows in the same pass, after z is added if it is set. */
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
    qg_layer   *last;           /* what the next layer reads, unless it names another */
    qg_step    *step;           /* the plan, in the order in which it runs */
    int         steps;
    qg_status   status;         /* the first failure, and its message */
    char        why[512];
    bool        built;
    bool        skips;          /* leaves out layers with QG_PASSES (dropout) in every mode;
                                   otherwise only QG_EVAL does (train/calibrate.c) */
};

/* Plans a declared net, whose layers know their readers.  Fails with QG_EMEM, and with QG_EARG if
 * fold_batchnorm is set and nothing can be folded. */
QG_MUST_CHECK qg_status qg__net_plan(qg_net *net);

/* The step of a tape that a spec gives: 0 stands for the last one, and UINT64_MAX for the first.  The
 * function is its own inverse. */
static inline uint64_t qg__step_given(uint64_t step)
{
    if (step == UINT64_MAX) return 0;
    return step ? step : UINT64_MAX;
}

/* The step that runs l; NULL: l is folded into another. */
const qg_step *qg__net_step(const qg_net *net, const qg_layer *l);
qg_var        *qg__step_run(const qg_step *s, qg_tape *t, qg_var *x, qg_var *z);

/* What l reads, and before layers with one of these traits; NULL: the image. */
qg_layer      *qg__layer_before(const qg_layer *l, unsigned passed);

/* The batch norm per channel that is the only reader of l, so that a bias of l would have no
 * effect: the batch mean would subtract it.  NULL: l has other readers. */
qg_batchnorm  *qg__only_batchnorm(const qg_layer *l);

/* The same, also where max pooling or dropout is between the two, which only the norm reads. */
qg_batchnorm  *qg__next_batchnorm(const qg_layer *l);

/* Keeps the first failure of a declaration, with the message just set.  QG_OK does nothing.  Always NULL. */
void          *qg__net_fail(qg_net *net, qg_status s);

/* --- what a layer states (qg_layer_type.traits) ---------------------------------------------- */

qg_batchnorm  *qg__batchnorm(qg_layer *l);          /* NULL: l does not normalise */
const qg_slot *qg__quantize_slot(qg_layer *l);      /* NULL: l does more than quantize */
bool           qg__has_trait(const qg_layer *l, unsigned traits);      /* at least one of traits */

qg_layer      *qg__net_named(const qg_net *net, const char *name);     /* NULL: none, no failure */
bool           qg__is_of_layer(const char *param, const char *layer);  /* it begins with "<layer>." */
qg_layer      *qg__owner_of(const qg_net *net, const char *param);     /* "<layer>.<name>"; NULL: none */
bool           qg__layer_owns(const qg_layer *l, const qg_param *p);

/* --- quantizers and weights ------------------------------------------------------------------- */

uint64_t       qg__slot_delay(const qg_net *net, qg_role role);        /* the net's, in steps */

/* Checks that slot->q may quantize this operand, and its arguments.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status      qg__slot_check(qg_layer *l, const qg_slot *slot, qg_role role);

/* p with its shape in files: [out,kh,kw,in] for a kernel and for a matrix whose input is an image,
 * [out,in] for any other matrix, [c] for a vector. */
qg_array       qg__param_array(const qg_param *p);

/* qg_slot_apply as part of a qg_norm_fused: sets with->act, or with->relu while the quantizer is
 * delayed.  false: the quantizer must see all values in this step (qg_scheme.observes), so call
 * qg_slot_apply on the result of the norm.  Both give the same bits. */
bool           qg__slot_fuse(const qg_slot *slot, qg_tape *t, qg_norm_fusion *with);

qg_tensor      qg__product_weight(const qg_product *p, float *folded);      /* as qg_layer_weight */

/* --- the types of the library, for qg_net_parse ----------------------------------------------- */

extern const qg_layer_type qg__conv2d_type, qg__dense_type, qg__batchnorm_type;
extern const qg_layer_type qg__relu_type, qg__hardtanh_type, qg__sigmoid_type, qg__tanh_type;
extern const qg_layer_type qg__prelu_type, qg__rprelu_type, qg__affine_type, qg__dropout_type;
extern const qg_layer_type qg__maxpool_type, qg__avgpool_type, qg__global_type;
extern const qg_layer_type qg__quantize_type, qg__add_type, qg__concat_type, qg__shortcut_type;

/* --- batch norms ------------------------------------------------------------------------------ */

bool           qg__batchnorm_frozen(const qg_batchnorm *bn, uint64_t step);    /* in this step of training */

/* Running statistics and constants, frozen or not in this step of the tape; nothing folded. */
qg_norm_spec   qg__batchnorm_spec(const qg_batchnorm *bn, const qg_tape *t);

#endif
