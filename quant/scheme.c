#include "quant/scheme.h"

#include <string.h>

int qg_learned_count(qg_quant q)
{
    int n = 0;
    if (q.scheme && q.scheme->learned)
        while (n < QG_LEARNED && q.scheme->learned[n].name) n++;
    return n;
}

qg_shape qg_learned_shape(qg_quant q, const qg_learned *l, qg_shape x, qg_role role)
{
    return (qg_shape){ 1, 1, 1, l->per_channel && q.per_channel ? role == QG_WEIGHT ? x.n : x.c : 1 };
}

bool qg_quant_waits(qg_quant q, const qg_tape *t) { return qg_tape_step(t) < q.after; }

qg_var *qg_quantize(qg_tape *t, qg_quant q, qg_var *x, qg_var *const *learned)
{
    if (!x || !q.scheme) return x;
    if (qg_quant_waits(q, t)) return q.scheme->rectifies ? qg_relu(t, x) : x;
    for (int i = 0; i < qg_learned_count(q); i++)
        if (!learned || !learned[i])
            return qg_reject(t, QG_EARG, "%s: learns %s, which is missing", q.scheme->name,
                             q.scheme->learned[i].name);
    return q.scheme->apply(t, q, x, learned);
}

void qg_surrogate_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    const qg_surrogate *s = y->saved;
    qg_var             *x = y->in[0];
    if (x->grad) qg_surrogate_slope(*s, qg_count(x->shape), x->data, y->grad, x->grad);
}

qg_var *qg_record_surrogate(qg_tape *t, const qg_op *straight, const qg_op *sloped, qg_var *x,
                            qg_surrogate s)
{
    s = qg__surrogate_or(s, qg_ste_identity());
    const bool identity = s.slope == qg_ste_identity().slope;
    qg_var    *y        = qg_record(t, identity ? straight : sloped, x->shape, x, NULL, NULL);
    if (!y) return NULL;
    qg_surrogate *kept = qg_save(t, y, sizeof *kept);
    if (!kept) return NULL;
    *kept = s;
    return y;
}

/* The surrogate adds; an activation assigns, perhaps over dy itself, so runs go through a buffer. */
void qg_surrogate_activation_backward(const qg_activation *f, size_t n, const float *x,
                                      const float *dy, float *dx, double *dk)
{
    (void)dk;
    enum { RUN = 512 };
    float run[RUN];
    for (size_t i = 0; i < n; i += RUN) {
        const size_t m = n - i < RUN ? n - i : RUN;
        memset(run, 0, m * sizeof *run);
        f->slope(f->arg, m, x + i, dy + i, run);
        memcpy(dx + i, run, m * sizeof *run);
    }
}
