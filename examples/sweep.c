/* A sweep in a loop: one training for each scheme and seed, described as text.  The runs are those
 * of `qgrad train --model lenet5 --data sample --weight SCHEME --seed SEED`, so `qgrad runs
 * runs/schemes` lists them, and an interrupted run continues when the program is started again.
 *
 *     build/examples/sweep [EPOCHS [SEEDS]] */
#include <stdlib.h>

#include "qgrad.h"

int main(int argc, char **argv)
{
    static const char *const schemes[] = { "float", "twn", "lsq:bits=2" };
    const int  seeds = argc > 2 ? atoi(argv[2]) : 2;
    if (seeds < 1) return fprintf(stderr, "usage: sweep [EPOCHS [SEEDS]]\n"), 2;
    qg_recipe *r     = qg_recipe_new();
    qg_recipe_set(r, "model", "lenet5");
    qg_recipe_set(r, "data", "sample");
    qg_recipe_set(r, "epochs", argc > 1 ? argv[1] : "2");
    for (int i = 0; i < 3; i++) {
        double sum = 0;
        qg_recipe_set(r, "weight", schemes[i]);
        for (int seed = 1; seed <= seeds; seed++) {
            char          dir[64], text[16];
            qg_fit_result result;
            snprintf(dir, sizeof dir, "runs/schemes/%d-%d", i, seed);
            snprintf(text, sizeof text, "%d", seed);
            qg_recipe_set(r, "seed", text);
            if (qg_recipe_fit(r, (qg_fit_spec){ .dir = dir }, &result))
                return qg_print_error("sweep");
            sum += result.test_accuracy;
        }
        printf("%-12s %.2f %%\n", qg_recipe_get(r, "weight"), 100 * sum / seeds);
    }
    qg_recipe_free(r);
    return 0;
}
