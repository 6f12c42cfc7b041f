/* qgrad — train, measure and inspect quantized nets from the command line. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/config/options.h"
#include "qgrad.h"

static const verb verbs[] = {
    { "train", "Train a net and store weights and metrics in a run directory",
      "train --model NAME [--data NAME] [--weight SCHEME] [options]", VERB_TRAIN, train_main },
    { "eval", "Measure the test accuracy of a run", "eval --run DIR [options]", VERB_EVAL, eval_main },
    { "summary", "Show the layers of a net and its size, as float and packed",
      "summary --model NAME [--weight SCHEME] [options]", VERB_SUMMARY, summary_main },
    { "bench", "Measure the speed of training, of evaluation and of the machine",
      "bench train|eval|peak [options]", VERB_BENCH, bench_main },
    { "inspect", "Show the values of a run's quantized weights, layer by layer", "inspect DIR [options]",
      VERB_INSPECT, inspect_main },
    { "explain", "Explain what a quantization scheme computes, with its source",
      "explain [SCHEME] [options]", VERB_EXPLAIN, explain_main },
    { "results", "Write the table of reproduced papers from the logs in results/",
      "results [--add DIR | --check] [options]", VERB_RESULTS, results_main },
    { "gradcheck", "Compare gradients with finite differences or with the surrogate",
      "gradcheck [--paper] [options]", VERB_GRADCHECK, gradcheck_main },
};

enum { N_VERBS = sizeof verbs / sizeof *verbs };

static void help(FILE *out)
{
    fprintf(out, "usage: qgrad COMMAND [options]\n\n");
    for (int i = 0; i < N_VERBS; i++) fprintf(out, "  %-9s  %s.\n", verbs[i].name, verbs[i].about);
    fprintf(out, "\nSee qgrad COMMAND --help for the options of a command.  qgrad --version prints the version.\n");
}

static int misused(const char *what, const char *culprit)
{
    char names[256] = "";
    for (int i = 0; i < N_VERBS; i++) list_append(names, sizeof names, verbs[i].name);
    fprintf(stderr, "qgrad: %s%s; available: %s; see qgrad --help\n", what, culprit, names);
    return EXIT_USAGE;
}

static int dispatch(int argc, char **argv)
{
    int at = 1;
    if (argc > at && !strcmp(argv[at], "--")) at++;
    if (argc <= at) return misused("name a command", "");
    const char *word = argv[at];
    if (at == 1 && (!strcmp(word, "--help") || !strcmp(word, "-h"))) {
        help(stdout);
        return EXIT_DONE;
    }
    if (at == 1 && !strcmp(word, "--version")) {
        printf("qgrad " QGRAD_VERSION "\n");
        return EXIT_DONE;
    }
    if (at == 1 && *word == '-') return misused("unknown option ", word);
    for (int i = 0; i < N_VERBS; i++)
        if (!strcmp(verbs[i].name, word))
            return verbs[i].run(&verbs[i], argv[0], argc - at, argv + at);
    return misused("unknown command ", word);
}

/* OpenBLAS chooses its kernels before main begins, so a better choice requires restarting the program once.  OURS
 * tells the variable set by this program from one set by the user, which is kept.  Without /proc the program does not restart. */
static void choose_blas_core(char **argv)
{
    static const char CORE[] = "OPENBLAS_CORETYPE", OURS[] = "QGRAD_CHOSE_BLAS_CORE";
    const bool  again = getenv(OURS);
    const char *core  = getenv(CORE) ? NULL : qg_blas_better_core();
    if (core && !again && !setenv(CORE, core, 1) && !setenv(OURS, "yes", 1)) execv("/proc/self/exe", argv);
    if (core || again) {
        unsetenv(CORE);         /* it has been read, and programs that this one starts choose for themselves */
        unsetenv(OURS);
    }
}

int main(int argc, char **argv)
{
    choose_blas_core(argv);
    signal(SIGXFSZ, SIG_IGN);   /* a file that may not grow is a failed write, with a message */
    const int status = dispatch(argc, argv);
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "qgrad: cannot write the result: %s\n", strerror(errno));
        return status ? status : EXIT_FAILED;
    }
    return status;
}
