/* qgrad — train, measure and inspect quantized nets from the command line. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/config/options.h"
#include "cli/config/self.h"
#include "cli/completion.h"
#include "cli/print.h"
#include "cli/start.h"
#include "core/io/paths.h"
#include "qgrad.h"

static const verb verbs[] = {
    { .name = "train", .about = "Train a net and store weights and metrics in a run directory",
      .usage = "train --model NAME [--data NAME] [--weight SCHEME] [options]", .bit = VERB_TRAIN, .run = train_main,
      .shares = true },
    { .name = "eval", .about = "Measure the test accuracy of a run", .usage = "eval RUN [options]",
      .bit = VERB_EVAL, .run = eval_main, .has_operand = true, .operand = "run" },
    { .name = "predict", .about = "Tell the most probable classes of image files, and of all images in folders",
      .usage = "predict --run DIR|--packed FILE IMAGE|FOLDER.. [options]", .bit = VERB_PREDICT, .run = predict_main, .has_operands = true },
    { .name = "quantize", .about = "Quantize a trained run without training it, and measure what that costs",
      .usage = "quantize RUN [--weight SCHEME] [--input SCHEME] [options]", .bit = VERB_QUANTIZE,
      .run = quantize_main, .has_operand = true, .operand = "run" },
    { .name = "sweep", .about = "Train all combinations of lists of options, and average them over the seeds",
      .usage = "sweep --model NAMES [--lr 0.1,0.03] [--weight twn,ttq] [--seed 1..3] [--jobs N] [options]",
      .bit = VERB_TRAIN | VERB_SWEEP, .run = sweep_main },
    { .name = "runs", .about = "List runs: their state, their accuracies, and the options in which they differ",
      .usage = "runs [DIR] [options]", .bit = VERB_RUNS, .run = runs_main, .has_operand = true },
    { .name = "export", .about = "Write a run's net as a file for other programs", .usage = "export RUN -o FILE [options]",
      .bit = VERB_EXPORT, .run = export_main, .has_operand = true, .operand = "run" },
    { .name = "infer", .about = "Run an exported net on the test images", .usage = "infer FILE [--data NAME] [options]",
      .bit = VERB_PACKED, .run = infer_main, .has_operand = true, .operand = "packed" },
    { .name = "summary", .about = "Show the layers of a net and its size, as float and packed",
      .usage = "summary --model NAME [--weight SCHEME] [options]", .bit = VERB_SUMMARY, .run = summary_main },
    { .name = "bench", .about = "Measure the speed of training, of evaluation, of packed nets and of the machine",
      .usage = "bench train|eval|packed|scaling|peak|infer|memory [options]",
      .bit = VERB_BENCH | VERB_SCALING | VERB_PEAK | VERB_INFER, .tool = "qgrad-bench", .shares = true },
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
      .usage = "results [--add DIR [--force] | --check] [options]", .bit = VERB_RESULTS, .tool = "qgrad-results" },
    { .name = "gradcheck", .about = "Compare gradients with finite differences or with the surrogate",
      .usage = "gradcheck [--paper] [options]", .bit = VERB_GRADCHECK, .run = gradcheck_main },
};

enum { N_VERBS = sizeof verbs / sizeof *verbs };

/* NULL: there is none. */
static const verb *verb_named(const char *word)
{
    for (int i = 0; i < N_VERBS; i++)
        if (!strcmp(verbs[i].name, word)) return &verbs[i];
    return NULL;
}

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

/* Executes a program of tools/ that lies beside this one.  One whose ranks share work has MPI if this one has: qgrad-mpi runs
 * qgrad-bench-mpi, which finds the environment as it was. */
static int run_tool(const verb *v, int argc, char **argv, int at)
{
    char        path[QG__PATH_BYTES], self[QG__PATH_BYTES];
    self_begin(argc);
    const bool  known = self_path(self);
    const char *slash = known ? strrchr(self, '/') : NULL;
    const char *kind  = slash && v->shares && !strncmp(slash, "/qgrad-", 7) ? slash + 6 : "";
    const int   n     = slash ? snprintf(path, sizeof path, "%.*s/%s%s", (int)(slash - self), self, v->tool, kind) : -1;
    if (n < 0 || n >= QG__PATH_BYTES) snprintf(path, sizeof path, "%s", v->tool), errno = ENOENT;
    else execv(path, argv + at);
    const char *why = errno == ENOENT ? "not found; it is not installed: use build/qgrad of a source tree" : strerror(errno);
    print_safe(stderr, "qgrad %s: %s: %s\n", v->name, path, why);
    return EXIT_FAILED;
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
        version_print(stdout);
        return EXIT_DONE;
    }
    if (at == 1 && !strcmp(word, "--bash-completion")) return completion_print(verbs, N_VERBS, stdout);
    if (at == 1 && *word == '-') return misused("unknown option ", word);
    const verb *v = verb_named(word);
    if (!v) return misused("unknown command ", word);
    if (!v->tool) return verb_run(v, argv[0], argc - at, argv + at);
    return verb_refuses_ranks(v) ? EXIT_USAGE : run_tool(v, argc, argv, at);
}

int main(int argc, char **argv)
{
    const int   at = argc > 1 && !strcmp(argv[1], "--") ? 2 : 1;
    const verb *v  = argc > at ? verb_named(argv[at]) : NULL;
    return v && v->tool && v->shares ? run_tool(v, argc, argv, at) : program_run("qgrad", argc, argv, dispatch);
}
