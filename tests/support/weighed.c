#include "tests/support/weighed.h"

#include <stdlib.h>

static void weighed_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    qg_var             *x = y->in[0];
    const float *const *r = y->saved;
    for (size_t i = 0, m = qg_count(x->shape); i < m; i++) x->grad[i] += y->grad[0] * (*r)[i];
}

static const qg_op weighed_op = { "weighed", weighed_backward, .assigns = false };

qg_var *weighed(qg_tape *t, qg_var *x, const float *r)
{
    qg_var *y = x ? qg_record(t, &weighed_op, (qg_shape){ 1, 1, 1, 1 }, x, NULL, NULL) : NULL;
    const float **kept = y ? qg_save(t, y, sizeof *kept) : NULL;
    if (!kept) return NULL;
    *kept      = r;
    double sum = 0;
    for (size_t i = 0, m = qg_count(x->shape); i < m; i++) sum += (double)r[i] * (double)x->data[i];
    y->data[0] = (float)sum;
    return y;
}

void use_path(int i)
{
    static const char *const paths[PATHS] = { "baseline", "avx2", "avx512" };
    setenv("QGRAD_CPU", paths[i], 1);
}

void restore_path(void) { unsetenv("QGRAD_CPU"); }
