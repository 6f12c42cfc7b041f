/* Chapter 5: what stands before a sign.  A small net whose second layer has weights of +1 and -1, and whose
 * third layer reads signs, learns datasets/sample.
 *
 *     build/examples/course/order [histogram] */
#include <string.h>

#include "sample.h"

enum { BINS = 15 };                                     /* on either side of 0 */

static qg_net *declare(const char *before, qg_layer **read)
{
    const qg_surrogate clip = qg_surrogate_clip(1);     /* the slope of the sign: 1 where |x| <= 1, else 0 */
    const qg_quant     sign = qg_sign((qg_sign_spec){ .surrogate = clip });
    const qg_quant     ones = qg_bnn((qg_bnn_spec){ .surrogate = clip });
    qg_net *net = qg_net_new((qg_net_spec){ .height = 28, .width = 28, .channels = 1, .seed = 1 });
    qg_net_dense(net, (qg_dense_spec){ .out = 64 });
    qg_net_batchnorm(net);
    *read = qg_net_dense(net, (qg_dense_spec){ .out = 64, .weight = ones, .input = sign });
    if (strstr(before, "norm")) *read = qg_net_batchnorm(net);
    if (strstr(before, "relu")) *read = qg_net_relu(net);
    qg_net_mark_output(*read);                          /* main looks at it */
    qg_net_dense(net, (qg_dense_spec){ .out = 10, .input = sign });
    return net;
}

int main(int argc, char **argv)
{
    static const char *const order[] = { "batch norm", "nothing", "batch norm, relu" };
    const bool table = argc < 2 || strcmp(argv[1], "histogram");
    if (table) printf("before the sign     sign is +1   slope is 1   test accuracy\n");
    for (int k = 0; k < 3; k++) {
        qg_layer    *read;
        qg_net      *net      = declare(order[k], &read);
        const double accuracy = learn(net, 3, 1);
        qg_loader   *test     = qg_data_test("sample", NULL, (qg_loader_spec){ .batch = 500 });
        qg_tape     *tape     = qg_tape_new();
        qg_batch     b;
        if (isnan(accuracy) || !qg_loader_next(test, &b)) return qg_print_error("order");
        qg_tape_begin(tape, QG_EVAL, 1, 0);             /* what the sign reads of the test images */
        const qg_var *x = qg_net_forward(net, tape, b.x) ? qg_net_output(net, tape, read->name) : NULL;
        if (!x) return qg_print_error("order");
        double    plus = 0, inside = 0, bin[2 * BINS] = { 0 };
        const int n = (int)qg_count(x->shape);
        for (int i = 0; i < n; i++) {
            plus += x->data[i] >= 0, inside += fabsf(x->data[i]) <= 1;
            bin[(int)fmaxf(0, fminf(2 * BINS - 1, BINS + x->data[i]))]++;
        }
        if (table) printf("%-18s %9.1f %% %10.1f %% %13.1f %%\n", order[k], 100 * plus / n, 100 * inside / n,
                          accuracy);
        for (int i = 0; i < 2 * BINS && !table; i++) printf("%s;%d;%.4f\n", order[k], i - BINS, bin[i] / n);
        qg_tape_free(tape), qg_net_free(net), qg_loader_free(test);
    }
    return 0;
}
