#include "quant/quantizer.h"

#include <stdlib.h>
#include <string.h>

#include "quant/engine.h"

struct qg_quantizer {
    qg_binding   b;
    qg_params    params;
    qg_param    *x, *learned[QG_MAX_LEARNED];
    qg_tape     *tape;
    qg_var      *result;        /* of the last forward in QG_TRAIN; NULL: none, or its backward has run */
    const float *dy;            /* of the backward that runs */
    uint64_t     seed, step;
    bool         started;
};

/* A scalar with a given dL/dy. */
static void given_backward(qg_tape *t, qg_var *loss)
{
    const qg_quantizer *const *z = loss->saved;
    for (size_t i = 0, n = qg_count(loss->in[0]->shape); i < n; i++) loss->in[0]->grad[i] += (*z)->dy[i];
}

static const qg_op given = { .name = "given", .backward = given_backward };

static qg_var *record_given(qg_quantizer *z)
{
    qg_var              *loss = qg_record(z->tape, &given, (qg_shape){ 1, 1, 1, 1 }, z->result, NULL, NULL);
    const qg_quantizer **kept = loss ? qg_save(z->tape, loss, sizeof *kept) : NULL;
    if (!kept) return NULL;
    *kept         = z;
    loss->data[0] = 0.0f;
    return loss;
}

static qg_status declare(qg_quantizer *z, qg_shape shape)
{
    z->x = qg_params_declare(&z->params, (qg_param){ .name = "x", .shape = shape });
    if (!z->x) return qg_errcode();
    for (int i = 0; i < qg_learned_count(z->b.q); i++) {
        const qg_learned *l = &z->b.q.scheme->learned[i];
        z->learned[i]       = qg_params_declare(&z->params, (qg_param){ .name  = l->name,
                                                                        .shape = qg_learned_shape(z->b.q, l, shape, z->b.q.role),
                                                                        .group = l->tracked ? QG_TRACKED : QG_SCALES });
        if (!z->learned[i]) return qg_errcode();
    }
    z->tape = qg_tape_new();
    return z->tape ? qg_params_allocate(&z->params) : QG_EMEM;
}

qg_quantizer *qg_quantizer_new(qg_quant q, qg_role role, qg_shape shape)
{
    if (!qg_shape_valid(shape))
        return qg__refuse(QG_ESHAPE, "qg_quantizer: [%d,%d,%d,%d] is not a shape", shape.n, shape.h, shape.w, shape.c);
    qg_binding b;
    if (qg_bind(q, role, shape, &b)) return NULL;
    qg_quantizer *z = calloc(1, sizeof *z);
    if (z) z->b = b, z->seed = 1;
    if (z && !declare(z, shape)) return z;
    if (!z) (void)qg_fail(QG_EMEM, "qg_quantizer: out of memory");
    qg_quantizer_free(z);
    return NULL;
}

qg_quantizer *qg_quantizer_parse(const char *scheme, qg_role role, qg_shape shape)
{
    qg_quant q;
    return qg_quant_parse(scheme, role, &q) ? NULL : qg_quantizer_new(q, role, shape);
}

void qg_quantizer_free(qg_quantizer *z)
{
    if (!z) return;
    qg_tape_free(z->tape);
    qg_params_release(&z->params);
    free(z);
}

void qg_quantizer_seed(qg_quantizer *z, uint64_t seed, uint64_t step)
{
    if (z) z->seed = seed, z->step = step;
}

void qg_quantizer_freeze(qg_quantizer *z)
{
    if (z) z->b.frozen = true;
}

/* Values that the caller has set stay.  start may change its tensor, which forward overwrites. */
static void start(qg_quantizer *z)
{
    float *value[QG_MAX_LEARNED] = { 0 };
    if (z->started || !z->b.q.scheme) return;
    for (int i = 0; i < qg_learned_count(z->b.q); i++) value[i] = z->learned[i]->value;
    if (!qg__quant_is_unset(z->b.q, z->x->shape, value)) return;
    const qg_tensor x = { z->x->shape, z->b.q.role == QG_WEIGHT ? z->x->value : NULL };
    qg__scheme_hooks(z->b.q.scheme).start(z->b.q, x, value);
}

qg_status qg_quantizer_forward(qg_quantizer *z, qg_mode mode, const float *x, float *y)
{
    if (z) z->result = NULL;
    if (!z || !x || !y) return qg__fail_null(QG_EARG, "qg_quantizer_forward: an argument");
    const size_t bytes                  = qg_count(z->x->shape) * sizeof *x;
    qg_var      *learned[QG_MAX_LEARNED] = { 0 };
    memcpy(z->x->value, x, bytes);
    start(z);
    z->started = true;
    memcpy(z->x->value, x, bytes);
    qg_tape_begin(z->tape, mode, z->seed, z->step);
    for (int i = 0; i < qg_learned_count(z->b.q); i++) learned[i] = qg_parameter(z->tape, z->learned[i]);
    qg_var *result = qg_quantize_bound(z->tape, &z->b, qg_parameter(z->tape, z->x), learned);
    z->result      = mode == QG_TRAIN ? result : NULL;
    if (!result) return qg_tape_status(z->tape);
    z->step += mode == QG_TRAIN;
    memcpy(y, result->data, bytes);
    return QG_OK;
}

qg_status qg_quantizer_backward(qg_quantizer *z, const float *dy, float *dx)
{
    if (!z || !dy || !dx) return qg__fail_null(QG_EARG, "qg_quantizer_backward: an argument");
    if (!z->result)
        return qg_fail(QG_ESTATE, "qg_quantizer_backward: the last forward was not in QG_TRAIN or failed, or its "
                                  "backward has run");
    z->dy = dy;
    qg_params_clear_gradients(&z->params);
    const qg_status s = qg_backward(z->tape, record_given(z));
    z->result         = NULL;
    if (!s) memcpy(dx, z->x->grad, qg_count(z->x->shape) * sizeof *dx);
    return s;
}

qg_quantizer_entry qg_quantizer_learned(qg_quantizer *z, int i)
{
    if (!z || i < 0 || i >= qg_learned_count(z->b.q)) return (qg_quantizer_entry){ 0 };
    const qg_param *p = z->learned[i];
    return (qg_quantizer_entry){ z->b.q.scheme->learned[i].name, (int)qg_count(p->shape), p->value, p->grad };
}
