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

/* The programs beside this one parse their options themselves; bash completes these. */
static const verb_option bench_options[] = {
    { "data-dir" }, { "out" }, { "image" }, { "seconds" }, { "link" }, { "profile" }, { NULL }
};

static const verb_option results_options[] = { { "force" }, { "add" }, { "check" }, { "repeat" }, { "seed" }, { "epochs" }, { "init" },
                                               { "out" }, { "data-dir" }, { "threads" }, { NULL } };

static const verb bench_verb = {
    .name = "bench", .about = "Measure the speed of training, of evaluation, of packed nets and of the machine",
    .usage = "bench train|eval|packed|scaling|peak|infer|memory [options]",
    .tool = "qgrad-bench", .shares = true,
    .options = (const verb_option *const[]){ net_options, step_options, common_options, bench_options, NULL },
};

static const verb results_verb = {
    .name = "results", .about = "Write the table of reproduced papers from the logs in results/",
    .usage = "results [--add DIR [--force] | --check | --repeat ROW] [options]", .tool = "qgrad-results",
    .options = (const verb_option *const[]){ common_options, results_options, NULL },
};

static const verb *const verbs[] = { &train_verb, &eval_verb, &predict_verb, &quantize_verb, &import_verb, &sweep_verb, &runs_verb,
                                     &export_verb, &infer_verb, &summary_verb, &bench_verb, &inspect_verb, &report_verb, &explain_verb, &plot_verb,
                                     &results_verb, &gradcheck_verb };

enum { N_VERBS = sizeof verbs / sizeof *verbs };

/* NULL: there is none. */
static const verb *verb_named(const char *word)
{
    for (int i = 0; i < N_VERBS; i++)
        if (!strcmp(verbs[i]->name, word)) return verbs[i];
    return NULL;
}

static void help(FILE *out)
{
    fprintf(out, "usage: qgrad COMMAND [options]\n\n");
    for (int i = 0; i < N_VERBS; i++) fprintf(out, "  %-9s  %s.\n", verbs[i]->name, verbs[i]->about);
    fprintf(out, "\nSee qgrad COMMAND --help for the options of a command.  qgrad --version prints the version.\n");
}

static int misused(const char *what, const char *culprit)
{
    char names[256] = "";
    for (int i = 0; i < N_VERBS; i++) qg__list_append(names, sizeof names, verbs[i]->name);
    char hint[QG__NEAREST_BYTES];
    print_safe(stderr, "qgrad: %s%s; available: %s; see qgrad --help%s\n", what, culprit, names,
               qg__list_nearest(names, culprit, strlen(culprit), hint));
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
    if (at == 1 && !strcmp(word, "--bash-completion")) return completion_print(verbs, N_VERBS, stdout), EXIT_DONE;
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
