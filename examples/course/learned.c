/* Chapter 4: quantizers that learn their scale.  The values stay as they are; gradient descent moves the
 * scales, so that q(w) comes close to w.
 *
 *     build/examples/course/learned [EVERY] */
#include <math.h>
#include <stdlib.h>

#include "qgrad.h"

enum { N = 2000, UPDATES = 60 };
static float w[N], q[N], dq[N], dw[N];

/* loss = mean of (q - w)^2 / 2, so dL/dq = (q - w) / n.  It returns the loss. */
static double loss_gradient(void)
{
    double sum = 0;
    for (int i = 0; i < N; i++) {
        dq[i] = (q[i] - w[i]) / N;
        sum += (double)(q[i] - w[i]) * (q[i] - w[i]) / 2;
    }
    return sum / N;
}

static int every = 20;          /* updates from one line to the next */
static qg_status train(const char *scheme, qg_role role, float lr)
{
    for (int i = 0; i < N; i++) w[i] = qg_normal(3, (uint64_t)i);
    for (int i = 0; i < N && role == QG_INPUT; i++) w[i] = fmaxf(w[i], 0);      /* as a relu gives them */
    qg_quantizer *z = qg_quantizer_parse(scheme, role, (qg_shape){ 1, 1, 1, N });
    if (!z) return qg_errcode();
    for (int update = 0; update <= UPDATES; update++) {
        if (qg_quantizer_forward(z, QG_TRAIN, w, q)) return qg_errcode();
        const double loss = loss_gradient();
        if (qg_quantizer_backward(z, dq, dw)) return qg_errcode();
        const bool shown = update % every == 0;
        if (shown) printf("%-30s %6d %8.4f", scheme, update, loss);
        for (int i = 0; qg_quantizer_learned(z, i).n; i++) {
            const qg_quantizer_entry e = qg_quantizer_learned(z, i);
            if (!e.gradient) continue;                          /* a mark that lsq keeps, not learned */
            if (shown) printf("  %s %.4f", e.name, (double)e.value[0]);
            e.value[0] -= lr * e.gradient[0];
        }
        if (shown) printf("\n");
    }
    qg_quantizer_free(z);
    return QG_OK;
}

int main(int argc, char **argv)
{
    if (argc > 1 && (every = atoi(argv[1])) < 1) return fprintf(stderr, "usage: learned [EVERY]\n"), 2;
    printf("scheme                         update     loss  learned\n");
    if (train("ttq:as=paper", QG_WEIGHT, 0.2f) ||
        train("ttq:as=paper,rule=as-printed", QG_WEIGHT, 0.2f) ||
        train("lsq:bits=3", QG_WEIGHT, 100) ||         /* its gradient is divided by sqrt(n 3) */
        train("lsq:bits=2", QG_INPUT, 60) ||
        train("pact:bits=2,alpha=1", QG_INPUT, 2) ||
        train("pact:bits=2,alpha=6", QG_INPUT, 2)) return qg_print_error("learned");
    return 0;
}
