#include "tests/support/nets.h"

#include "tests/support/testing.h"

static void weighed_backward(qg_tape *t, qg_var *y)
{
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

void fill_bands(qg_shape x, int classes, uint64_t key, float *image, uint16_t *label)
{
    const size_t row = qg_row(x), line = row / (size_t)x.h;
    fill_uniform(image, qg_count(x), 0, 1, key);
    for (int i = 0; i < x.n; i++) {
        label[i] = (uint8_t)(i % classes);
        for (int r = 0; r < x.h; r++)
            for (size_t k = 0; r * classes / x.h == label[i] && k < line; k++)
                image[(size_t)i * row + (size_t)r * line + k] += 1;
    }
}

size_t packed_size(const qg_net *net)
{
    size_t bytes;
    assert_int_equal(qg_net_packed_bytes(net, &bytes), QG_OK);
    return bytes;
}

float train_step(qg_net *net, qg_tape *t, qg_optim *o, qg_tensor x, const uint16_t *label, uint64_t step)
{
    qg_tape_begin(t, QG_TRAIN, 7, step);
    qg_var *loss = qg_cross_entropy(t, qg_net_forward(net, t, x), label);
    if (qg_backward(t, loss) || qg_optim_step(o)) fail_msg("step %d: %s", (int)step, qg_errmsg());
    return loss->data[0];
}
