/* The quantizers that exist as functions on arrays, as ops, and those that are ops of their own. */
#include <math.h>

#include "cli/gradcheck/gradcheck_quantizer.h"
#include "quant/reference/dorefa.h"
#include "quant/reference/fake_quant.h"
#include "quant/reference/uniform.h"
#include "quant/reference/ternary.h"
#include "quant/reference/binary.h"

static qg_array scalar(float *v) { return (qg_array){ .dtype = QG_F32, .data = v }; }

/* --- fake_quant --------------------------------------------------------------------------- */

static const qg_fake_quant_attrs range = { 8, true };

static qg_status fake_quant(const qg_array *x, const float *learned, qg_array *y)
{
    float          lo = learned[0], hi = learned[1];
    const qg_array min = scalar(&lo), max = scalar(&hi);
    return qg_fake_quant_with_min_max_vars(range, x, &min, &max, y);
}

static qg_status fake_quant_backward(const qg_array *x, const float *learned, const qg_array *dy, qg_array *dx,
                                     float *dlearned)
{
    float          lo = learned[0], hi = learned[1];
    const qg_array min = scalar(&lo), max = scalar(&hi);
    qg_array       dmin = scalar(&dlearned[0]), dmax = scalar(&dlearned[1]);
    return qg_fake_quant_with_min_max_vars_gradient(range, dy, x, &min, &max, dx, &dmin, &dmax);
}

static qg_var *fake_quant_op(qg_tape *t, qg_var *x, qg_var *const *learned)
{
    return qg_fake_quant_vars(t, x, learned[0], learned[1], range);
}

/* --- LSQ, PACT ---------------------------------------------------------------------------- */

static qg_lsq_attrs lsq_attrs(const float *learned)
{
    const float one_number = 1 / sqrtf(3);      /* the scheme's factor for one number */
    return (qg_lsq_attrs){ learned[0], 4, 3, one_number, { 0 } };
}

static qg_status lsq(const qg_array *x, const float *learned, qg_array *y)
{
    return qg_lsq_quantizer(x, lsq_attrs(learned), y);
}

static qg_status lsq_backward(const qg_array *x, const float *learned, const qg_array *dy, qg_array *dx,
                              float *dlearned)
{
    return qg_lsq_quantizer_gradient(x, dy, lsq_attrs(learned), dx, dlearned);
}

static qg_status pact(const qg_array *x, const float *learned, qg_array *y)
{
    return qg_pact_quantizer(x, 3, learned[0], y);
}

static qg_status pact_backward(const qg_array *x, const float *learned, const qg_array *dy, qg_array *dx,
                               float *dlearned)
{
    return qg_pact_quantizer_gradient(x, dy, 3, learned[0], (qg_surrogate){ 0 }, dx, dlearned);
}

/* --- TTQ, DoReFa, XNOR-Net ---------------------------------------------------------------- */

static qg_ttq_attrs ttq_attrs(const float *learned)
{
    return (qg_ttq_attrs){ 0.25f, learned[0], learned[1], QG_TTQ_EXACT, { 0 } };
}

static qg_status ttq(const qg_array *x, const float *learned, qg_array *y)
{
    return qg_ttq_weight_quantizer(x, ttq_attrs(learned), y);
}

static qg_status ttq_backward(const qg_array *x, const float *learned, const qg_array *dy, qg_array *dx,
                              float *dlearned)
{
    return qg_ttq_weight_quantizer_gradient(x, dy, ttq_attrs(learned), dx, &dlearned[0], &dlearned[1]);
}

static qg_status dorefa(const qg_array *x, const float *learned, qg_array *y)
{
    (void)learned;
    return qg_dorefa_weight_quantizer(x, 3, y);
}

static qg_status dorefa_backward(const qg_array *x, const float *learned, const qg_array *dy, qg_array *dx,
                                 float *dlearned)
{
    (void)learned, (void)dlearned;
    return qg_dorefa_weight_quantizer_gradient(x, dy, (qg_dorefa_weight_attrs){ .k = 3 }, dx);
}

static qg_status dorefa_backward_max(const qg_array *x, const float *learned, const qg_array *dy, qg_array *dx,
                                     float *dlearned)
{
    (void)learned, (void)dlearned;
    return qg_dorefa_weight_quantizer_gradient(x, dy, (qg_dorefa_weight_attrs){ .k = 3, .through_max = true }, dx);
}

static qg_status xnor(const qg_array *x, const float *learned, qg_array *y)
{
    (void)learned;
    return qg_xnor_weight_quantizer(x, 0, y, NULL);
}

static qg_status xnor_backward(const qg_array *x, const float *learned, const qg_array *dy, qg_array *dx,
                               float *dlearned)
{
    (void)learned, (void)dlearned;
    return qg_xnor_weight_quantizer_gradient(x, dy, (qg_xnor_attrs){ .input_axis = 3 }, dx);
}

static const plain rows[] = {
    { "fake_quant_with_min_max_vars", "fake_quant:range=learned,narrow-range=yes", QG_INPUT, fake_quant,
      fake_quant_backward, NULL },
    { "fake_quant_vars", "fake_quant:range=learned,narrow-range=yes", QG_INPUT, NULL, NULL, fake_quant_op },
    { "fake_quant_vars, per channel", "fake_quant:range=learned,narrow-range=yes,per-channel=yes", QG_INPUT, NULL, NULL,
      fake_quant_op },
    { "lsq_quantizer", "lsq:bits=3", QG_WEIGHT, lsq, lsq_backward, NULL },
    { "pact_quantizer", "pact:bits=3", QG_INPUT, pact, pact_backward, NULL },
    { "ttq_weight_quantizer", "ttq:as=paper,threshold=0.25", QG_WEIGHT, ttq, ttq_backward, NULL },
    { "dorefa_weight_quantizer", "dorefa:bits=3", QG_WEIGHT, dorefa, dorefa_backward, NULL },
    { "dorefa_weight_quantizer, maximum derived", "dorefa:bits=3,max=through", QG_WEIGHT, dorefa, dorefa_backward_max, NULL },
    { "xnor_weight_quantizer", "xnor:as=paper", QG_WEIGHT, xnor, xnor_backward, NULL },
    { .name = NULL },
};

const plain *const gradcheck_plain = rows;

/* --- as an op ----------------------------------------------------------------------------- */

static qg_array view(float *data) { return (qg_array){ QG_F32, 4, { TENSOR_ROWS, 1, 1, TENSOR_ROW }, data }; }

static void take_learned(qg_var *const *learned, float value[2])
{
    for (int i = 0; i < 2; i++) value[i] = learned[i] ? learned[i]->data[0] : 0;
}

static void plain_backward(qg_tape *t, qg_var *y)
{
    const plain *const *f  = y->saved;
    qg_var             *x  = y->in[0];
    float              *dx = qg_scratch(t, TENSOR_N * sizeof *dx), learned[2], dlearned[2] = { 0 };
    if (!dx) return;
    take_learned(&y->in[1], learned);
    qg_array       in = view(x->data), dy = view(y->grad), out = view(dx);
    const qg_status s = (*f)->backward(&in, learned, &dy, &out, dlearned);
    QG_ASSERT(s == QG_OK);                      /* as the forward, which had the same operands */
    for (size_t i = 0; i < TENSOR_N && x->grad; i++) x->grad[i] += dx[i];
    for (int i = 0; i < 2; i++)
        if (y->in[1 + i] && y->in[1 + i]->grad) y->in[1 + i]->grad[0] += dlearned[i];
}

static const qg_op plain_op = { .name = "plain", .backward = plain_backward };

qg_var *plain_apply(qg_tape *t, const plain *f, qg_var *x, qg_var *const *learned)
{
    if (f->op) return f->op(t, x, learned);
    qg_var       *y    = qg_record(t, &plain_op, x->shape, x, learned[0], learned[1]);
    const plain **kept = y ? qg_save(t, y, sizeof *kept) : NULL;
    float         value[2];
    if (!kept) return NULL;
    *kept = f;
    take_learned(learned, value);
    qg_array        in = view(x->data), out = view(y->data);
    const qg_status s = f->forward(&in, value, &out);
    return s ? qg_reject(t, s, "%s", qg_errmsg()) : y;
}
