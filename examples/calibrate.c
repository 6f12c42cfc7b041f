/* Quantizes the net of a float run to 8 bits without training it, and exports it.  The ranges of its
 * activations come from 512 training images.
 *
 *     build/qgrad train --model lenet5 --data sample --epochs 2 --out runs/float
 *     build/examples/calibrate [runs/float [int8.qg]] */
#include "qgrad.h"

int main(int argc, char **argv)
{
    const char *dir = argc > 1 ? argv[1] : "runs/float";
    const char *to  = argc > 2 ? argv[2] : "int8.qg";
    char        config[4096];
    snprintf(config, sizeof config, "%s/config.toml", dir);
    qg_recipe *r = qg_recipe_new();
    qg_recipe_set(r, "weight", "fake_quant:range=current,per-channel=yes");
    qg_recipe_set(r, "input", "fake_quant:range=observed");
    qg_recipe_read(r, config);                  /* everything else is as in the float run */

    qg_loader    *train = qg_recipe_train(r), *test = qg_recipe_test(r, train);
    qg_net       *net   = qg_recipe_net(r, qg_loader_shape(train), qg_loader_classes(train));
    qg_run       *run   = qg_run_open(dir, QG_RUN_LAST);
    qg_packed_spec spec = { 0 };
    qg_assessment before, after;
    if (!test || !net || !run ||
        qg_calibrate(net, (qg_calibrate_spec){ .init = dir, .images = train }) ||
        qg_run_evaluate(run, test, 0, &before) ||
        qg_evaluate(net, test, (qg_evaluate_spec){ 0 }, &after) ||
        qg_preprocess_numbers(qg_loader_preprocess(train), &spec.numbers, &spec.mean,
                              &spec.deviation) ||
        qg_export_packed(net, to, spec))
        return qg_print_error("calibrate");
    printf("float  %7zu bytes, test accuracy %.2f %%\n", qg_net_float_bytes(net),
           100 * before.accuracy);
    printf("8 bits %7zu bytes, test accuracy %.2f %%\n", qg_net_packed_bytes(net),
           100 * after.accuracy);
    qg_assessment_free(&after), qg_assessment_free(&before), qg_run_close(run), qg_net_free(net);
    qg_loader_free(test), qg_loader_free(train), qg_recipe_free(r);
    return 0;
}
