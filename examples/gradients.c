/* The gradients of one op, number by number: dL/dy and dL/dx of a relu; and dL/dw of the product
 * before it, compared with a difference quotient.
 *
 *     build/examples/gradients */
#include <math.h>

#include "qgrad.h"

enum { INPUTS = 5, OUTPUTS = 6 };

static float input[INPUTS] = { 0.5f, -1, 2, 0.25f, -0.75f };

/* L = mean(y^2) with y = relu(x), x = w input.  *relu is y, whose operand in[0] is x. */
static qg_var *loss_of(qg_tape *t, const qg_param *w, qg_var **relu)
{
    qg_tape_begin(t, QG_TRAIN, 0, 0);
    qg_var *in = qg_input(t, (qg_tensor){ .shape = { 1, 1, 1, INPUTS }, .data = input });
    *relu      = qg_relu(t, qg_dense(t, in, qg_parameter(t, w), NULL));
    return qg_mean(t, qg_mul(t, *relu, *relu), QG_AXES);
}

int main(void)
{
    qg_params p = { 0 };
    qg_tape  *t = qg_tape_new();
    qg_param *w = qg_params_declare(&p, (qg_param){ .name  = "w",
                                                    .shape = { OUTPUTS, 1, 1, INPUTS } });
    if (!t || !w || qg_params_allocate(&p)) return qg_print_error("gradients");
    for (size_t i = 0; i < qg_count(w->shape); i++) w->value[i] = qg_normal(1, i);

    qg_var *y;
    qg_tape_retain(t, true);            /* else qg_backward would reuse the memory of x and y */
    if (qg_backward(t, loss_of(t, w, &y))) return qg_print_error("gradients");
    const qg_var *x = y->in[0];
    printf("%10s %10s %10s %10s\n", "x", "y", "dL/dy", "dL/dx");
    for (int i = 0; i < OUTPUTS; i++)
        printf("%10.5f %10.5f %10.5f %10.5f\n", (double)x->data[i], (double)y->data[i],
               (double)y->grad[i], (double)x->grad[i]);

    const float h = 1.0f / 256;
    double      error = 0;
    for (size_t i = 0; i < qg_count(w->shape); i++) {
        const float at = w->value[i];
        float       loss[2];
        for (int k = 0; k < 2; k++) {
            w->value[i] = k ? at - h : at + h;
            loss[k]     = loss_of(t, w, &y)->data[0];
        }
        w->value[i] = at;
        error       = fmax(error, fabs((double)(loss[0] - loss[1]) / (2 * h) - w->grad[i]));
    }
    printf("dL/dw differs from the difference quotient by %.1e at most\n", error);
    qg_tape_free(t), qg_params_release(&p);
    return error > 1e-3;                /* a float loss near 2 is rounded by 1e-7, divided by 2 h */
}
