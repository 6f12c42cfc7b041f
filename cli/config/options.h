/* cli/config/options.h — every option of the program, in one table.
 *
 * Most options are keys of a recipe (train/recipe.h); the others are those of a config (cli/config/config.h).  The table states
 * which verbs take an option.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "train/recipe_keys.h"

/* The exit status of a verb; after a signal it is 128 + the number of the signal.  EXIT_BUDGET: --budget ended a training,
 * which --resume continues. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_BUDGET = 3 };

/* Bits of option.verbs. */
enum {
    VERB_TRAIN     = 1,
    VERB_EVAL      = 2,
    VERB_SUMMARY   = 4,
    VERB_BENCH     = 8,     /* train and eval */
    VERB_PEAK      = 16,    /* bench peak, bench memory */
    VERB_GRADCHECK = 32,
    VERB_EXPLAIN   = 64,
    VERB_INSPECT   = 128,
    VERB_RESULTS   = 256,
    VERB_INFER     = 512,   /* bench infer */
    VERB_SCALING   = 67108864,      /* bench scaling */
    VERBS          = 1023 | 32768 | 65536 | 131072 | 262144 | 524288 | 8388608 | 16777216 | 33554432 | 67108864,
    NETS           = VERB_TRAIN | VERB_SUMMARY | VERB_BENCH | VERB_SCALING,     /* the verbs that build a net */
    VERB_QUANTIZE  = 32768,
    VERB_PREDICT   = 65536,
    VERB_RUNS      = 131072,
    VERB_REPORT    = 262144,
    VERB_PLOT      = 33554432,
    VERB_EXPORT    = 8388608,
    VERB_PACKED    = 16777216,      /* infer */
    VERB_SWEEP     = 524288,        /* and VERB_TRAIN, whose options it takes, but for those that are */
    TRAINS_ALONE   = 1048576
};

typedef struct option_row {         /* getopt.h owns the tag "option" */
    const qg__option *key;          /* of a recipe, or of a config */
    unsigned          verbs;
    const char       *help;         /* where it is not that of the key: what precedes the lines "of VERB: .." is for the others */
} option;

enum { OPTIONS = 92 };
extern const option options[OPTIONS];

const option *option_find(const char *name);            /* NULL: no such option */
bool          option_is_of_recipe(const option *o);
unsigned      option_use(const option *o);              /* bits of the key's use; 0: it belongs to no recipe */
const char   *option_help(const option *o);

typedef struct config config;                           /* cli/config/config.h */

typedef struct verb {
    const char *name, *about;
    const char *usage;                                  /* what follows "qgrad " */
    unsigned    bit;                                    /* VERB_TRAIN */
    /* program: how this one was called; operand: the argument that belongs to no option, or NULL. */
    int       (*run)(const char *program, const char *operand, config *asked);
    bool        has_operand;
    const char *operand;                                /* the option that it stands for, as in eval RUN; NULL: run gets it */
    bool        has_operands;                           /* any number of them: config.operand */
    bool        shares;                                 /* several ranks may run it together (core/dist/ranks.h) */
    const char *tool;                                   /* the program beside this one that runs it instead, "qgrad-bench" */
} verb;

/* Runs a verb, argv[0] being its name: parses its options, calls it and frees them.  Returns the exit status. */
int           verb_run(const verb *v, const char *program, int argc, char **argv);

/* Whether mpirun has started several ranks of a verb that does not share its work; tells them so. */
bool          verb_refuses_ranks(const verb *v);

/* Prints the last failure and returns its exit status: EXIT_USAGE if it is one of usage, unless memory was short. */
int           options_report(const char *program, bool usage);

/* Reads a verb's options into asked; argv[0] is the verb.  Of an option that is given twice the last value counts, with a
 * warning if they differ.  Returns -1 to continue, else the exit status: --help was
 * printed, or an error was reported. */
int           options_parse(const verb *v, int argc, char **argv, config *asked);
void          options_help(const verb *v, FILE *out);

/* What a name stands for, and its keys with their ranges and defaults: a part of the help. */
void          keyed_help(const char *name, const char *about, const qg_key *keys, FILE *out);
void          data_help(FILE *out);             /* all data sets, */
void          images_help(FILE *out);           /* and what is done to their images */

/* Removes from argv and returns the single argument of a verb that is not part of an option, before or after all
 * options; NULL if there is none. */
const char   *options_operand(const verb *v, int *argc, char **argv);

int train_main(const char *program, const char *operand, config *asked);
int quantize_main(const char *program, const char *operand, config *asked);
int eval_main(const char *program, const char *operand, config *asked);
int sweep_main(const char *program, const char *operand, config *asked);
int runs_main(const char *program, const char *operand, config *asked);
int summary_main(const char *program, const char *operand, config *asked);
int gradcheck_main(const char *program, const char *operand, config *asked);
int explain_main(const char *program, const char *operand, config *asked);
int plot_main(const char *program, const char *operand, config *asked);
int report_main(const char *program, const char *operand, config *asked);
int inspect_main(const char *program, const char *operand, config *asked);
int predict_main(const char *program, const char *operand, config *asked);
int export_main(const char *program, const char *operand, config *asked);
int infer_main(const char *program, const char *operand, config *asked);

#endif
