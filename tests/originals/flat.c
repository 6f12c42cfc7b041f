/* One call for a scheme on the tape, and one for Bop, as Python's ctypes can make them: see
 * tests/originals/check.py. */
#include "optim/optim.h"
#include "quant/scheme.h"

#include <string.h>

/* Python spells the struct out again. */
size_t qgo_surrogate_bytes(void);
size_t qgo_surrogate_bytes(void) { return sizeof(qg_surrogate); }

/* What compares gradients wants dL/dy to be what it says, whatever y is: a loss that is no number would
 * end the backward. */
static void given_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    const float *const *dy = y->saved;
    for (size_t i = 0, n = qg_count(y->in[0]->shape); i < n; i++) y->in[0]->grad[i] += (*dy)[i];
}

static const qg_op given_op = { .name = "given", .backward = given_backward };

static qg_var *given(qg_tape *t, qg_var *x, const float *dy)
{
    qg_var       *y    = x ? qg_record(t, &given_op, (qg_shape){ 1, 1, 1, 1 }, x, NULL, NULL) : NULL;
    const float **kept = y ? qg_save(t, y, sizeof *kept) : NULL;
    if (!kept) return NULL;
    *kept      = dy;
    y->data[0] = 0.0f;
    return y;
}

static qg_status declare(qg_params *p, qg_quant q, qg_shape shape, qg_param *item[1 + QG_MAX_LEARNED])
{
    item[0] = qg_params_declare(p, (qg_param){ .name = "x", .shape = shape });
    if (!item[0]) return QG_EMEM;
    for (int i = 0; i < qg_learned_count(q); i++) {
        const qg_learned *l = &q.scheme->learned[i];
        item[1 + i] = qg_params_declare(p, (qg_param){ .name  = l->name,
                                                       .shape = qg_learned_shape(q, l, shape, q.role),
                                                       .group = l->tracked ? QG_TRACKED : QG_SCALES });
        if (!item[1 + i]) return QG_EMEM;
    }
    return qg_params_allocate(p);
}

static qg_status step(qg_tape *t, qg_quant q, size_t numbers, qg_param *const *item, const float *dy, float *y)
{
    qg_var *learned[QG_MAX_LEARNED] = { 0 };
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    for (int i = 0; i < qg_learned_count(q); i++) learned[i] = qg_parameter(t, item[1 + i]);
    qg_binding b;
    if (qg_bind(q, q.role, item[0]->shape, &b)) return qg_errcode();
    if (numbers) b.numbers = numbers;
    qg_var *out = qg_quantize_bound(t, &b, qg_parameter(t, item[0]), learned);
    if (out) memcpy(y, out->data, qg_count(out->shape) * sizeof *y);
    return qg_backward(t, given(t, out, dy));
}

/* q(x) of a scheme as --weight and --input spell it, and for dL/dy = dy the gradients of x and of what
 * is learned, in one step of training.  x, dy, y, dx [n][h][w][c]; learned and dlearned: the values
 * of each entry of qg_scheme.learned, one entry after the other; learned is updated if it is tracked. */
int qgo_scheme(const char *text, int role, const int shape[4], const float *x, const float *dy,
               float *learned, float *y, float *dx, float *dlearned);

int qgo_scheme(const char *text, int role, const int shape[4], const float *x, const float *dy,
               float *learned, float *y, float *dx, float *dlearned)
{
    qg_quant  q;
    qg_status s = qg_quant_parse(text, (qg_role)role, &q);
    if (s) return (int)s;
    q.role = role == QG_WEIGHT ? QG_WEIGHT : QG_INPUT;
    /* fake_quant divides the gradients of a range by the root of the numbers that share it, TensorFlow does
     * not: let it be one number. */
    const int channels = role == QG_WEIGHT ? shape[0] : shape[3];
    const bool   one = q.scheme && !strcmp(q.scheme->name, "fake_quant");
    const size_t numbers = !one ? 0 : q.per_channel ? (size_t)channels : 1;
    qg_params p                    = { 0 };
    qg_param *item[1 + QG_MAX_LEARNED] = { 0 };
    qg_tape  *t = qg_tape_new();
    s = t ? declare(&p, q, (qg_shape){ shape[0], shape[1], shape[2], shape[3] }, item) : QG_EMEM;
    if (!s) {
        memcpy(item[0]->value, x, qg_count(item[0]->shape) * sizeof *x);
        size_t at = 0;
        for (int i = 1; i <= qg_learned_count(q); at += qg_count(item[i++]->shape))
            memcpy(item[i]->value, learned + at, qg_count(item[i]->shape) * sizeof *learned);
        s = step(t, q, numbers, item, dy, y);
    }
    if (!s) {
        memcpy(dx, item[0]->grad, qg_count(item[0]->shape) * sizeof *dx);
        size_t at = 0;
        for (int i = 1; i <= qg_learned_count(q); at += qg_count(item[i++]->shape)) {
            const size_t bytes = qg_count(item[i]->shape) * sizeof *learned;
            memcpy(learned + at, item[i]->value, bytes);
            if (item[i]->grad) memcpy(dlearned + at, item[i]->grad, bytes);
        }
    }
    qg_tape_free(t);
    qg_params_release(&p);
    return (int)s;
}

/* Binary weights w [n] after so many steps of qg_bop, with the gradients g [steps][n]. */
int qgo_bop(float gamma, float threshold, int n, int steps, const float *g, float *w);

int qgo_bop(float gamma, float threshold, int n, int steps, const float *g, float *w)
{
    qg_params   p    = { 0 };
    qg_param *item = qg_params_declare(&p, (qg_param){ .name = "w", .shape = { n, 1, 1, 1 }, .flips = true });
    qg_status   s    = item ? qg_params_allocate(&p) : QG_EMEM;
    qg_bop_spec spec = { .gamma = gamma, .threshold = threshold, .rest = { .lr = 1 } };
    qg_optim   *bop  = s ? NULL : qg_bop(&p, spec);
    if (!s && !bop) s = QG_EARG;
    if (!s) memcpy(item->value, w, (size_t)n * sizeof *w);
    for (int i = 0; !s && i < steps; i++) {
        memcpy(item->grad, g + (size_t)i * (size_t)n, (size_t)n * sizeof *g);
        s = qg_optim_step(bop);
    }
    if (!s) memcpy(w, item->value, (size_t)n * sizeof *w);
    qg_optim_free(bop);
    qg_params_release(&p);
    return (int)s;
}
