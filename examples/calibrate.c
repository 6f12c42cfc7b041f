/* Quantizes the net of a float run to 8 bits without training it: the ranges of its activations come
 * from 512 training images.  The result is a run, which predict, export and compare read.
 *
 *     build/qgrad train --model lenet5 --data sample --epochs 2 --out runs/float
 *     build/examples/calibrate [runs/float [runs/int8]] */
#include "qgrad.h"

int main(int argc, char **argv)
{
    const char      *from = argc > 1 ? argv[1] : "runs/float", *to = argc > 2 ? argv[2] : "runs/int8";
    qg_run          *run  = qg_run_open(from, QG_RUN_LAST), *quantized;
    qg_recipe       *changes = qg_recipe_new();
    qg_run_quantized q;
    size_t           packed;
    qg_recipe_set(changes, "weight", "fake_quant:range=current,per-channel=yes");
    qg_recipe_set(changes, "input", "fake_quant:range=observed");
    if (!run || qg_run_quantize(run, (qg_run_quantize_spec){ .dir = to, .changes = changes }, &q) ||
        !(quantized = qg_run_open(to, QG_RUN_LAST)) || !qg_run_net(quantized) ||
        qg_net_packed_bytes(qg_run_net(quantized), &packed))
        return qg_print_error("calibrate");
    printf("float  %7zu bytes, test accuracy %.2f %%\n", qg_net_float_bytes(qg_run_net(quantized)),
           100 * q.accuracy_before);
    printf("8 bits %7zu bytes, test accuracy %.2f %%\n", packed, 100 * q.accuracy);
    qg_run_close(quantized), qg_run_close(run), qg_recipe_free(changes);
    return 0;
}
