/* qgrad — train, measure and inspect quantized nets from the command line. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include "cli/config/options.h"
#include "cli/config/self.h"
#include "cli/manual.h"
#include "cli/print.h"
#include "core/io/paths.h"
#include "qgrad.h"

static const verb verbs[] = {
    { .name = "train", .about = "Train a net and store weights and metrics in a run directory",
      .usage = "train --model NAME [--data NAME] [--weight SCHEME] [options]", .bit = VERB_TRAIN, .run = train_main,
      .shares = true },
    { .name = "eval", .about = "Measure the test accuracy of a run", .usage = "eval --run DIR [options]",
      .bit = VERB_EVAL, .run = eval_main },
    { .name = "predict", .about = "Tell the most probable classes of image files, and of all images in folders",
      .usage = "predict --run DIR|--packed FILE IMAGE|FOLDER.. [options]", .bit = VERB_PREDICT, .run = predict_main, .has_operands = true },
    { .name = "quantize", .about = "Quantize a trained run without training it, and measure what that costs",
      .usage = "quantize --run DIR [--weight SCHEME] [--input SCHEME] [options]", .bit = VERB_QUANTIZE,
      .run = quantize_main },
    { .name = "sweep", .about = "Train all combinations of lists of options, and average them over the seeds",
      .usage = "sweep --model NAMES [--lr 0.1,0.03] [--weight twn,ttq] [--seed 1..3] [--jobs N] [options]",
      .bit = VERB_TRAIN | VERB_SWEEP, .run = sweep_main },
    { .name = "runs", .about = "List runs: their state, their accuracies, and the options in which they differ",
      .usage = "runs [DIR] [options]", .bit = VERB_RUNS, .run = runs_main, .has_operand = true },
    { .name = "export", .about = "Write a run's net as a file for other programs", .usage = "export --run DIR -o FILE [options]",
      .bit = VERB_EXPORT, .run = export_main },
    { .name = "infer", .about = "Run an exported net on the test images", .usage = "infer --packed FILE [--data NAME] [options]",
      .bit = VERB_PACKED, .run = infer_main },
    { .name = "summary", .about = "Show the layers of a net and its size, as float and packed",
      .usage = "summary --model NAME [--weight SCHEME] [options]", .bit = VERB_SUMMARY, .run = summary_main },
    { .name = "bench", .about = "Measure the speed of training, of evaluation, of packed nets and of the machine",
      .usage = "bench BENCHMARK [options]", .bit = VERB_BENCH, .benches = benches },
    { .name = "inspect", .about = "Show the values of a run's quantized weights, layer by layer",
      .usage = "inspect DIR [options]", .bit = VERB_INSPECT, .run = inspect_main, .has_operand = true },
    { .name = "report", .about = "Show runs as a page: curves, weights, levels, confusions, mistakes",
      .usage = "report RUN.. [options]", .bit = VERB_REPORT, .run = report_main, .has_operands = true },
    { .name = "explain", .about = "Explain what a quantization scheme computes, with its source",
      .usage = "explain [SCHEME] [options]", .bit = VERB_EXPLAIN, .run = explain_main, .has_operand = true },
    { .name = "plot", .about = "Draw a quantization scheme: its values, its surrogate and the slope",
      .usage = "plot SCHEME[:options] [--role ROLE] [--csv | --json], or plot --out DIR", .bit = VERB_PLOT, .run = plot_main,
      .has_operand = true },
    { .name = "results", .about = "Write the table of reproduced papers from the logs in results/",
      .usage = "results [--add DIR [--force] | --check] [options]", .bit = VERB_RESULTS, .run = results_main },
    { .name = "gradcheck", .about = "Compare gradients with finite differences or with the surrogate",
      .usage = "gradcheck [--paper] [options]", .bit = VERB_GRADCHECK, .run = gradcheck_main },
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
    for (int i = 0; i < N_VERBS; i++) qg__list_append(names, sizeof names, verbs[i].name);
    print_safe(stderr, "qgrad: %s%s; available: %s; see qgrad --help\n", what, culprit, names);
    return EXIT_USAGE;
}

/* Other kernels than those that the user wanted would give other digits. */
static int check_cpu(void)
{
    const char *text = qg_cpu_unknown();
    if (text) print_safe(stderr, "qgrad: QGRAD_CPU is '%s', not one of avx512, avx2, baseline\n", text);
    return text ? EXIT_USAGE : EXIT_DONE;
}

static int dispatch(int argc, char **argv)
{
    int at = 1;
    if (argc > at && !strcmp(argv[at], "--")) at++;
    if (argc <= at) return misused("the command is missing", "");
    const char *word = argv[at];
    if (at == 1 && (!strcmp(word, "--help") || !strcmp(word, "-h"))) {
        help(stdout);
        return EXIT_DONE;
    }
    if (at == 1 && !strcmp(word, "--version")) {
        manual_version(stdout);
        return EXIT_DONE;
    }
    if (at == 1 && !strcmp(word, "--manual")) return manual_page(verbs, N_VERBS, stdout);
    if (at == 1 && !strcmp(word, "--bash-completion")) return manual_completion(verbs, N_VERBS, stdout);
    if (at == 1 && *word == '-') return misused("unknown option ", word);
    for (int i = 0; i < N_VERBS; i++)
        if (!strcmp(verbs[i].name, word))
            return verb_run(&verbs[i], argv[0], argc - at, argv + at);
    return misused("unknown command ", word);
}

#if defined(__ELF__) && defined(__GLIBC__)
/* OpenBLAS starts threads before main begins.  Where a limit on memory or processes does not allow that, it ends the
 * process with SIGINT or retries forever (core/kernels/parallel.h).  So the program restarts itself before the libraries
 * begin, with the variable that makes OpenBLAS start none.  getenv does not work yet, so the environment is an argument.
 * Without /proc the program does not restart. */
__attribute__((no_sanitize("address", "thread", "undefined")))  /* their libraries have not begun either */
static void start_no_blas_threads(int argc, char **argv, char **environment)
{
    static char ONE[] = "OPENBLAS_NUM_THREADS=1";
    int         n     = 0;
    while (environment[n] && strncmp(environment[n], ONE, sizeof ONE - 2)) n++;
    if (environment[n] && !strcmp(environment[n], ONE)) return;
    self_begin(argc);
    if (environment[n]) {
        environment[n] = ONE;
        self_execute(argv, environment);
        return;
    }
    char **more = malloc(((size_t)n + 2) * sizeof *more);
    if (!more) return;
    memcpy(more, environment, (size_t)n * sizeof *more);
    more[n]     = ONE;
    more[n + 1] = NULL;
    self_execute(argv, more);
    free(more);
}

__attribute__((section(".preinit_array"), used))
static void (*const before_libraries)(int, char **, char **) = start_no_blas_threads;
#endif

/* OpenBLAS chooses its kernels before main begins, so a better choice requires restarting the program once.  OURS
 * tells the variable set by this program from one set by the user, which is kept.  Without /proc the program does not
 * restart. */
static void choose_blas_core(char **argv)
{
    extern char **environ;
    static const char CORE[] = "OPENBLAS_CORETYPE", OURS[] = "QGRAD_CHOSE_BLAS_CORE";
    const bool  again = getenv(OURS);
    const char *core  = getenv(CORE) ? NULL : qg_blas_better_core();
    if (core && !again && !setenv(CORE, core, 1) && !setenv(OURS, "yes", 1)) self_execute(argv, environ);
    if (core || again) {
        unsetenv(CORE);         /* it has been read, and programs that this one starts choose for themselves */
        unsetenv(OURS);
    }
}

/* After a restart from /proc/self/exe, ps, top and pkill would know the program as "exe". */
static void restore_name(void)
{
#if defined(__linux__)
    prctl(PR_SET_NAME, "qgrad");
#endif
}

int main(int argc, char **argv)
{
    self_begin(argc);
    choose_blas_core(argv);
    restore_name();
    signal(SIGXFSZ, SIG_IGN);   /* a file that may not grow is a failed write, with a message */
    const int status = check_cpu() ? EXIT_USAGE : dispatch(argc, argv);
    errno            = 0;       /* of an earlier write, only the fact that it failed is known */
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "qgrad: cannot write the result%s%s\n", errno ? ": " : "", errno ? strerror(errno) : "");
        return status ? status : EXIT_FAILED;
    }
    return status;
}
