/* cli/config/options.h — every option of the program, in one table.
 *
 * Most options are also keys of a configuration (cli/config/config.h).  The table states where a configuration
 * stores the value, which values are legal, which verbs take the option, and whether it decides the bytes of a run.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "core/io/keys.h"

/* The exit status of a verb; after a signal it is 128 + the number of the signal.  EXIT_BUDGET: --budget ended a training,
 * which --resume continues. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_BUDGET = 3 };

typedef enum option_kind {
    OPTION_FLAG,            /* --json;            json = true;          a bool */
    OPTION_INTEGER,         /* --epochs 10;       epochs = 10;          an int or a uint64_t; with .parse a string is legal, too */
    OPTION_REAL,            /* --lr 0.01;         lr = 0.01;            a float or a double */
    OPTION_WORD,            /* --optimizer adam;  optimizer = "adam";   an enum, in the order of the words */
    OPTION_TEXT,            /* --out DIR;         out = "DIR";          a const char * */
    OPTION_VALUE,           /* --model lenet5;    model = "lenet5";     a type of the library's */
    OPTION_LIST             /* --layer A --layer B;  layer = ["A", "B"] */
} option_kind;

/* Bits of option.use. */
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
    SAVED          = 1024,  /* stored in config.toml, and legal in a --config file */
    DECIDES        = 2048,  /* decides a run's bytes: in its checkpoints, fixed on --resume */
    IDENTITY       = DECIDES | SAVED,
    PER_RUN        = 4096,  /* differs between runs of one recipe */
    QUANTIZES      = 8192,  /* says what is quantized, how and when */
    OPTIMIZES      = 16384, /* the optimizer, and its own options */
    VERB_QUANTIZE  = 32768,
    VERB_PREDICT   = 65536,
    VERB_RUNS      = 131072,
    VERB_REPORT    = 262144,
    VERB_PLOT      = 33554432,
    VERB_EXPORT    = 8388608,
    VERB_PACKED    = 16777216,      /* infer */
    VERB_SWEEP     = 524288,        /* and VERB_TRAIN, whose options it takes, but for those that are */
    TRAINS_ALONE   = 1048576,
    SCHEMES        = 134217728,     /* its value names a scheme */
    COMMAS         = 4194304,       /* commas belong to the value, whatever follows them */
    EXTENDS        = 2097152        /* may change on --resume if a run that began with it would have taken the same steps */
};

enum { VALUE_BYTES = 512 };

typedef struct option_row {         /* getopt.h owns the tag "option" */
    const char *name;       /* "weight-decay" */
    option_kind kind;
    unsigned    use;
    size_t      at, bytes;  /* of its value in a config */
    const char *value;      /* "N" in the help; of OPTION_WORD all words, joined by |: "sgd|adam" */
    double      min, max;   /* of OPTION_INTEGER and OPTION_REAL */
    /* Read the value, and write its canonical text.  NULL: determined by the kind. */
    qg_status (*parse)(const char *text, void *value, char *canonical, size_t bytes);
    const char *fallback;   /* used unless the user or the model's recipe sets the option; NULL: unset */
    const char *absent;     /* what a run meant whose configuration lacks the option, since its version did not have it;
                               NULL: fallback */
    const char *help;
} option;

enum { OPTIONS = 92 };
extern const option options[OPTIONS];

const option *option_find(const char *name);            /* NULL: no such option */

/* Parses the value in text and writes its canonical text.  An item of a list is added.  The caller, who has the text,
 * sets the pointer of an OPTION_TEXT.  Fails with QG_EARG; the message names the option, the value and the legal
 * values. */
QG_MUST_CHECK
qg_status     option_parse(const option *o, const char *text, void *value, char canonical[VALUE_BYTES]);

typedef struct config config;                           /* cli/config/config.h */

typedef struct verb {
    const char *name, *about;
    const char *usage;                                  /* what follows "qgrad " */
    unsigned    bit;                                    /* VERB_TRAIN */
    /* program: how this one was called; operand: the argument that belongs to no option, or NULL. */
    int       (*run)(const char *program, const char *operand, config *asked);
    bool        has_operand;
    bool        has_operands;                           /* any number of them: config.operand */
    bool        shares;                                 /* several ranks may run it together (core/ranks.h) */
    const char *tool;                                   /* the program beside this one that runs it instead, "qgrad-bench" */
} verb;

/* Runs a verb, argv[0] being its name: parses its options, calls it and frees them.  Returns the exit status. */
int           verb_run(const verb *v, const char *program, int argc, char **argv);

/* Prints the last failure and returns its exit status: EXIT_USAGE if it is one of usage, unless memory was short. */
int           options_report(const char *program, bool usage);

/* Reads a verb's options into asked; argv[0] is the verb.  Of an option that is given twice the last value counts, with a
 * warning if they differ.  Returns -1 to continue, else the exit status: --help was
 * printed, or an error was reported. */
int           options_parse(const verb *v, int argc, char **argv, config *asked);
void          options_help(const verb *v, FILE *out);

/* What a name stands for, and its keys with their ranges and defaults: a part of the help. */
void          keyed_help(const char *name, const char *about, const qg_key *keys, FILE *out);

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
