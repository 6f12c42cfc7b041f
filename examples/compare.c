/* Compares two runs: what was asked of them, epoch by epoch how they tested, and what they confuse.
 *
 *     build/examples/compare RUN RUN */
#include <string.h>

#include "qgrad.h"

static const char *const keys[] = { "model", "weight",   "input",  "optimizer",
                                    "lr",    "schedule", "epochs", "seed" };

/* Of the images by which the best epoch was chosen. */
static const double *accuracies(qg_run *run, const char **column, int *epochs)
{
    *column = "validation_accuracy";
    const double *held = qg_run_column(run, *column, epochs);
    return held ? held : qg_run_column(run, *column = "test_accuracy", epochs);
}

int main(int argc, char **argv)
{
    const double *accuracy[2];
    const char   *column[2];
    int           epochs[2];
    qg_run       *run[2] = { NULL };
    if (argc != 3) return fprintf(stderr, "usage: compare RUN RUN\n"), 2;
    for (int i = 0; i < 2; i++) {
        qg_assessment a;
        run[i] = qg_run_open(argv[i + 1], QG_RUN_BEST);
        if (!run[i] || !(accuracy[i] = accuracies(run[i], &column[i], &epochs[i])))
            return qg_print_error("compare");
        qg_loader *test = qg_run_test(run[i], (qg_run_test_spec){ 0 });
        if (!test || qg_run_evaluate(run[i], test, (qg_run_evaluate_spec){ 0 }, &a))
            return qg_print_error("compare");
        printf("%s: %.2f %%", argv[i + 1], 100 * a.accuracy);
        if (a.n_confused)
            printf(", most often takes %s for %s", qg_run_class(run[i], a.confused[0].label),
                   qg_run_class(run[i], a.confused[0].predicted));
        putchar('\n');
        qg_assessment_free(&a), qg_loader_free(test);
    }
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const char *a = qg_run_get(run[0], keys[k]), *b = qg_run_get(run[1], keys[k]);
        if (a && b && strcmp(a, b)) printf("%-10s %s, %s\n", keys[k], a, b);
    }
    printf("metric     %s, %s\n", column[0], column[1]);
    for (int e = 0; e < epochs[0] && e < epochs[1]; e++)
        printf("epoch %-4d %.2f %%, %.2f %%\n", e + 1, 100 * accuracy[0][e], 100 * accuracy[1][e]);
    for (int i = 0; i < 2; i++) qg_run_close(run[i]);
    return 0;
}
