/* cli/config/options.h — what an option is, and which of them a verb takes.
 *
 * Most options are keys of a recipe (train/recipe.h); the others are those of a config (cli/config/config.h).  One table tells the
 * kind and the values of each, so that an option reads alike everywhere.  A verb's file has the verb, with the tables of what it
 * takes: its own, which may say what an option means to it, and groups that verbs share.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "train/recipe.h"

/* The exit status of a verb; after a signal it is 128 + the number of the signal.  EXIT_BUDGET: --budget ended a training,
 * which --resume continues. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_BUDGET = 3 };

/* A key of a recipe, or one of the options in cli/config/option_table.c, which are described in the same way. */
typedef qg_recipe_key option;

enum { OPTIONS = 103 };
const option *option_at(int i);                         /* in the order of help */
int           option_index(const option *o);            /* its place there */
const option *option_find(const char *name);            /* NULL: no such option */
bool          option_is_of_recipe(const option *o);

typedef struct config config;                           /* cli/config/config.h */

/* An option of a verb; a table of them ends with a name of NULL. */
typedef struct verb_option {
    const char *name;
    const char *help;               /* what it means to this verb; NULL: what it means everywhere */
    bool        first;              /* also in the short help: what one needs in the first hour */
    bool        not_of_run;         /* of a verb that reads a run: not taken from it */
} verb_option;

extern const verb_option net_options[];                 /* the net, */
extern const verb_option step_options[];                /* a step of training, */
extern const verb_option training_options[];            /* and epochs of them */
extern const verb_option common_options[];              /* of every verb */

typedef struct verb {
    const char *name, *about;
    const char *usage;                                  /* what follows "qgrad " */
    const verb_option *const *options;                  /* tables, then NULL; of an option in two of them the last row counts */
    int       (*run)(config *asked);
    bool        has_operand;                            /* an argument that belongs to no option: config.word */
    const char *operand;                                /* the option that it stands for, as in eval RUN; NULL: none */
    bool        has_operands;                           /* any number of them: config.operand */
    bool        takes_lists;                            /* of values (cli/config/lists.h) */
    bool        reads_run;                              /* options that are not given are as in the run */
    bool        lists_schemes;                          /* in its help, though no option takes one */
    const char *fails;                                  /* what else its exit status of 1 tells */
    bool        shares;                                 /* several ranks may run it together (core/dist/ranks.h) */
    const char *tool;                                   /* the program beside this one that runs it instead, "qgrad-bench" */
} verb;

/* NULL: the verb does not take it. */
const verb_option *verb_option_find(const verb *v, const char *name);

/* Runs a verb, argv[0] being its name: parses its options, calls it and frees them.  Returns the exit status. */
int           verb_run(const verb *v, const char *program, int argc, char **argv);

/* Whether mpirun has started several ranks of a verb that does not share its work; tells them so. */
bool          verb_refuses_ranks(const verb *v);

/* Prints the last failure, "qgrad train: --lr ..", and returns its exit status: EXIT_USAGE after QG_EARG,
 * whoever has found the argument to be wrong, else EXIT_FAILED.  One of several ranks ends all of them. */
int           print_failure(const config *asked);

/* The same of an argument that is wrong for this reason. */
int           refuse(const config *asked, const char *why);

/* Reads a verb's options into asked; argv[0] is the verb.  Of an option that is given twice the last value counts, with a
 * warning if they differ.  Returns -1 to continue, else the exit status: --help was
 * printed, or an error was reported. */
int           options_parse(const verb *v, int argc, char **argv, config *asked);

/* What a name stands for, and its keys with their ranges and defaults: a part of the help. */
void          keyed_help(const char *name, const char *about, const qg_key *keys, FILE *out);

/* Appends the names of a table, such as qg_data_sets: "mnist, cifar10, .." (qg__list_append). */
void          variant_names(const qg_variant *v, char *text, size_t bytes);

extern const verb train_verb, eval_verb, predict_verb, quantize_verb, import_verb, sweep_verb, runs_verb, export_verb, infer_verb, summary_verb,
    inspect_verb, report_verb, explain_verb, plot_verb, gradcheck_verb;

#endif
