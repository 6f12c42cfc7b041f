#include "cli/config/options.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config/data.h"
#include "cli/config/images.h"
#include "cli/config/models.h"
#include "cli/config/schemes.h"
#include "cli/config/spelling.h"
#include "core/io/number.h"
#include "core/kernels/parallel.h"
#include "optim/schedule.h"

static qg_status check_model(const char *text, char *canonical, size_t bytes)
{
    const qg_model *model;
    double          chosen[QG_MODEL_KEYS];
    return model_parse(text, &model, chosen, canonical, bytes);
}

static qg_status check_data(const char *text, char *canonical, size_t bytes)
{
    data_set d;
    return data_parse(text, &d, canonical, bytes);
}

static qg_status check_normalise(const char *text, char *canonical, size_t bytes)
{
    qg_normalise n;
    return normalise_parse(text, &n, canonical, bytes);
}

static qg_status check_augment(const char *text, char *canonical, size_t bytes)
{
    qg_augment a;
    return augment_parse(text, &a, canonical, bytes);
}

/* A recipe's name is part of paths: of its file, its runs, its results. */
static qg_status check_recipe(const char *text, char *canonical, size_t bytes)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (!*text || *text == '.' || text[strspn(text, letters)])
        return qg_fail(QG_EARG, "'%s' is no name of a recipe; write letters, digits, - and _", text);
    snprintf(canonical, bytes, "%s", text);
    return QG_OK;
}

static qg_status check_weight(const char *text, char *canonical, size_t bytes)
{
    qg_quant q;
    return scheme_parse(text, FOR_WEIGHT, &q, canonical, bytes);
}

static qg_status check_input(const char *text, char *canonical, size_t bytes)
{
    qg_quant q;
    return scheme_parse(text, FOR_INPUT, &q, canonical, bytes);
}

static qg_status check_gradient(const char *text, char *canonical, size_t bytes)
{
    qg_quant q;
    return scheme_parse(text, FOR_GRADIENT, &q, canonical, bytes);
}

static qg_status check_layer(const char *text, char *canonical, size_t bytes)
{
    qg_choice choice;
    char      name[LAYER_NAME_BYTES];
    return choice_parse(text, &choice, name, canonical, bytes);
}

static qg_status check_schedule(const char *text, char *canonical, size_t bytes)
{
    qg_schedule s;
    qg_status   status = qg_schedule_parse(text, &s);
    if (!status) qg_schedule_print(&s, canonical, (int)bytes);
    return status;
}

static qg_status check_image(const char *text, char *canonical, size_t bytes)
{
    qg_shape        s;
    const qg_status status = image_parse(text, &s);
    if (!status) snprintf(canonical, bytes, "%dx%dx%d", s.h, s.w, s.c);
    return status;
}

/* "50m", "90s", "1h", "1.5h" or seconds, to seconds. */
static qg_status check_duration(const char *text, char *canonical, size_t bytes)
{
    double       value;
    const size_t n    = strcspn(text, "hms");
    const double unit = text[n] == 'h' ? 3600 : text[n] == 'm' ? 60 : 1;
    if (!qg_number_read(text, n, &value) || (text[n] && text[n + 1]) || !(value >= 0) || !isfinite(value))
        return qg_fail(QG_EARG, "'%s' is no duration; write 90s, 50m, 1h or seconds", text);
    char number[QG_NUMBER_BYTES];
    qg_number_print(number, 9, value * unit);
    snprintf(canonical, bytes, "%s", number);
    return QG_OK;
}

enum { STEPS = VERB_TRAIN | VERB_BENCH };       /* the verbs that take steps */

/* 2^53 - 1: seeds pass through TOML and JSON, whose readers may hold numbers as doubles. */
#define MAX_SEED 9007199254740991.0

const option options[] = {
    { "model", OPTION_TEXT, NETS | IDENTITY, 0, 0, "NAME", check_model, NULL, "the net, required" },
    { "data", OPTION_TEXT, NETS | VERB_EVAL | IDENTITY, 0, 0, "NAME", check_data, "mnist", "the data set" },
    { "normalise", OPTION_TEXT, STEPS | IDENTITY, 0, 0, "KIND", check_normalise, "unit",
      "how bytes become floats: unit, range:low=-1,high=1,\n"
      "channel, pixel (mean 0, deviation 1), whiten (GCN and ZCA)" },
    { "augment", OPTION_TEXT, STEPS | IDENTITY, 0, 0, "LIST", check_augment, "none",
      "of the training images, some of pad=4 (then a random crop,\n"
      "which shifts), border=reflect or repeat, flip, cutout=8" },
    { "weight", OPTION_TEXT, NETS | VERB_EVAL | IDENTITY, 0, 0, "SCHEME", check_weight, "float",
      "quantizer of the weights" },
    { "input", OPTION_TEXT, NETS | IDENTITY, 0, 0, "SCHEME", check_input, "float",
      "quantizer of what the layers read, but the first; in tfc,\n"
      "sfc and lfc of that too" },
    { "gradient", OPTION_TEXT, NETS | IDENTITY, 0, 0, "SCHEME", check_gradient, "float",
      "quantizer of the gradients of what the layers give" },
    { "first-last", OPTION_TEXT, NETS | IDENTITY, 0, 0, "float|quantized", NULL, "quantized",
      "float: the first and last product stay float" },
    { "layer", OPTION_LIST, NETS | IDENTITY, 0, 0, "LAYER:weight=SCHEME", check_layer, NULL,
      "an exception for one layer (or :input=, :gradient=); repeatable" },
    { "quantize-after", OPTION_INTEGER, NETS | IDENTITY, 0, MAX_SEED, "N", NULL, "0",
      "steps before the input quantizers begin" },
    { "fold-batchnorm", OPTION_FLAG, NETS | IDENTITY, 0, 0, NULL, NULL, NULL,
      "fold batch norms into the weights before they are quantized" },
    { "freeze-batchnorm-after", OPTION_INTEGER, NETS | IDENTITY, 0, MAX_SEED, "N", NULL, "0",
      "steps before running statistics stay and are used; 0: never" },
    { "epochs", OPTION_INTEGER, VERB_TRAIN | IDENTITY, 1, 100000, "N", NULL, "10",
      "how often the training images are seen" },
    { "batch", OPTION_INTEGER, STEPS | IDENTITY, 1, 65536, "N", NULL, "64", "images per step" },
    { "loss", OPTION_TEXT, STEPS | IDENTITY, 0, 0, "cross-entropy|squared-hinge", NULL, "cross-entropy",
      "what is minimised" },
    { "optimizer", OPTION_TEXT, STEPS | IDENTITY, 0, 0, "sgd|adam|bop", NULL, "sgd",
      "how the weights follow the gradient; bop: for --weight bop" },
    { "lr", OPTION_REAL, STEPS | IDENTITY, 1e-9, 1000, "X", NULL, NULL, "learning rate" },
    { "momentum", OPTION_REAL, STEPS | IDENTITY, 0, 0.9999, "X", NULL, NULL, "of sgd" },
    { "nesterov", OPTION_FLAG, STEPS | IDENTITY, 0, 0, NULL, NULL, NULL,
      "the look-ahead form of sgd" },
    { "beta1", OPTION_REAL, STEPS | IDENTITY, 1e-9, 0.999999, "X", NULL, NULL, "of adam" },
    { "beta2", OPTION_REAL, STEPS | IDENTITY, 1e-9, 0.999999, "X", NULL, NULL, "of adam" },
    { "gamma", OPTION_REAL, STEPS | IDENTITY, 1e-12, 1, "X", NULL, NULL,
      "of bop: share of the newest gradient in its mean" },
    { "threshold", OPTION_REAL, STEPS | IDENTITY, 1e-30, 1e6, "X", NULL, NULL,
      "of bop: how large that mean is where a weight flips" },
    { "weight-decay", OPTION_REAL, STEPS | IDENTITY, 0, 10, "X", NULL, "0", "of the weights" },
    { "norm-decay", OPTION_REAL, STEPS | IDENTITY, 0, 10, "X", NULL, "0", "of batch norm" },
    { "norm-lr-scale", OPTION_REAL, STEPS | IDENTITY, 1e-6, 1e6, "X", NULL, "1",
      "learning rate of batch norm, times --lr" },
    { "quantizer-decay", OPTION_REAL, STEPS | IDENTITY, 0, 10, "X", NULL, "0",
      "of what quantizers learn, unless the scheme has its own" },
    { "quantizer-lr-scale", OPTION_REAL, STEPS | IDENTITY, 1e-6, 1e6, "X", NULL, "1",
      "learning rate of what quantizers learn, times --lr" },
    { "schedule", OPTION_TEXT, STEPS | IDENTITY, 0, 0, "TEXT", check_schedule, "constant",
      "learning rate over the run: constant, cosine, cosine:factor=0.01,\n"
      "step:at=0.5+0.8, step:every=0.25,factor=0.5, exponential:factor=0.01;\n"
      "each with a warmup, too, as constant:warmup=0.05; but for factor these\n"
      "are shares of the run" },
    { "seed", OPTION_INTEGER, NETS | IDENTITY, 0, MAX_SEED, "N", NULL, "1",
      "of weights, shuffling and noise" },
    { "data-dir", OPTION_TEXT, VERB_TRAIN | VERB_EVAL | VERB_INSPECT | VERB_BENCH | SAVED, 0, 0, "DIR", NULL, NULL,
      "where the data set is" },
    { "threads", OPTION_INTEGER, STEPS | VERB_EVAL | VERB_PEAK | SAVED, 0, QG_MOST_THREADS, "N", NULL, "0",
      "0: one per core; no effect on the results" },
    { "out", OPTION_TEXT, VERB_TRAIN, 0, 0, "DIR", NULL, NULL,
      "the run directory; else runs/RECIPE/seed-SEED or\nruns/MODEL-WEIGHT-SEED" },
    { "resume", OPTION_FLAG, VERB_TRAIN, 0, 0, NULL, NULL, NULL, "go on from the last checkpoint" },
    { "force", OPTION_FLAG, VERB_TRAIN, 0, 0, NULL, NULL, NULL, "move a run that is there aside" },
    { "budget", OPTION_TEXT, VERB_TRAIN, 0, 0, "TIME", check_duration, NULL,
      "stop in good order after 50m, 90s, 1h" },
    { "config", OPTION_TEXT, NETS, 0, 0, "FILE", NULL, NULL, "take options from a file first" },
    { "recipe", OPTION_TEXT, NETS | SAVED, 0, 0, "NAME", check_recipe, NULL,
      "the same with examples/recipes/NAME.toml" },
    { "init", OPTION_TEXT, VERB_TRAIN, 0, 0, "RUN", NULL, NULL,
      "begin with the last weights of a run, or with a safetensors file" },

    /* Said in files alone: which images and weights a run began with, and what a recipe reproduces. */
    { "data-digest", OPTION_TEXT, IDENTITY, 0, 0, "DIGEST", NULL, NULL, "of the images and labels" },
    { "class-digest", OPTION_TEXT, IDENTITY, 0, 0, "DIGEST", NULL, NULL, "of the names of the classes" },
    { "init-digest", OPTION_TEXT, IDENTITY, 0, 0, "DIGEST", NULL, NULL, "of what --init loaded" },
    { "init-recipe", OPTION_TEXT, SAVED, 0, 0, "NAME", check_recipe, NULL, "whose runs --init is to name" },
    { "reproduces", OPTION_TEXT, SAVED, 0, 0, "TEXT", NULL, NULL, "a paper, or whose result it is" },
    { "reported", OPTION_TEXT, SAVED, 0, 0, "TEXT", NULL, NULL, "the number there" },
    { "provenance", OPTION_TEXT, SAVED, 0, 0, "code|replication|memory", NULL, NULL,
      "where that number was read" },
    { "deviations", OPTION_TEXT, SAVED, 0, 0, "TEXT", NULL, NULL, "what is not as it was there" },
    { "add", OPTION_TEXT, VERB_RESULTS, 0, 0, "DIR", NULL, NULL,
      "copy a finished run's logs to results/ first" },
    { "check", OPTION_FLAG, VERB_RESULTS, 0, 0, NULL, NULL, NULL,
      "write nothing; fail if the table is not what the logs say" },
    { "run", OPTION_TEXT, VERB_EVAL | VERB_INSPECT, 0, 0, "DIR", NULL, NULL, "the run directory, required" },
    { "best", OPTION_FLAG, VERB_EVAL | VERB_INSPECT, 0, 0, NULL, NULL, NULL,
      "use best.safetensors, not last.safetensors" },
    { "image", OPTION_TEXT, VERB_BENCH | VERB_SUMMARY, 0, 0, "HxWxC", check_image, NULL,
      "images of this shape, as 32x32x3; bench makes them up" },
    { "seconds", OPTION_REAL, VERB_BENCH | VERB_PEAK, 0.01, 86400, "X", NULL, "6", "how long to measure" },
    { "profile", OPTION_FLAG, VERB_BENCH, 0, 0, NULL, NULL, NULL, "where the time goes, op by op" },
    { "paper", OPTION_FLAG, VERB_GRADCHECK, 0, 0, NULL, NULL, NULL,
      "also the formulas that papers print and that are no derivatives" },
    { "markdown", OPTION_FLAG, VERB_EXPLAIN, 0, 0, NULL, NULL, NULL,
      "every scheme, as docs/schemes.md has it" },
    { "json", OPTION_FLAG, VERBS, 0, 0, NULL, NULL, NULL,
      "one JSON object on stdout, nothing else" },
    { "help", OPTION_FLAG, VERBS, 0, 0, NULL, NULL, NULL, "this text" },
};

_Static_assert(sizeof options / sizeof *options == OPTIONS, "the table has OPTIONS rows");

const option *option_find(const char *name)
{
    for (int i = 0; i < OPTIONS; i++)
        if (!strcmp(options[i].name, name)) return &options[i];
    return NULL;
}

void list_append(char *text, size_t bytes, const char *word)
{
    static const char more[] = ", ..";
    const size_t      used = strlen(text), wanted = strlen(word) + (used ? 2 : 0);
    if (used >= sizeof more && !strcmp(text + used + 1 - sizeof more, more)) return;
    if (used + wanted + sizeof more <= bytes) sprintf(text + used, "%s%s", used ? ", " : "", word);
    else if (used + sizeof more <= bytes) strcpy(text + used, more);
}

/* text is one of the words in "sgd|adam". */
static bool is_word(const char *words, const char *text)
{
    const size_t n = strlen(text);
    for (const char *at = words; n && !strchr(text, '|') && at; at = strchr(at, '|')) {
        if (*at == '|') at++;
        if (!strncmp(at, text, n) && (at[n] == '|' || !at[n])) return true;
    }
    return false;
}

static qg_status check_number(const option *o, const char *text, char canonical[VALUE_BYTES])
{
    double     value;
    const bool whole = o->kind == OPTION_INTEGER;
    if (!qg_number_read(text, strlen(text), &value) || (whole && text[strspn(text, "+-0123456789")]))
        return qg_fail(QG_EARG, "%s '%s' is no %s", o->name, text, whole ? "whole number" : "number");
    if (!(value >= o->min && value <= o->max))
        return qg_fail(QG_EARG, "%s %s is not in %.16g..%.16g", o->name, text, o->min, o->max);
    value += 0.0;                               /* -0 is 0 */
    if (whole) snprintf(canonical, VALUE_BYTES, "%.0f", value);
    else qg_number_print_double(canonical, value);
    return QG_OK;
}

qg_status option_check(const option *o, const char *text, char canonical[VALUE_BYTES])
{
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            return qg_fail(QG_EARG, "%s: the value holds a control character", o->name);
    if (strlen(text) >= VALUE_BYTES)
        return qg_fail(QG_EARG, "%s: the value is longer than %d bytes", o->name, VALUE_BYTES - 1);
    if (o->kind == OPTION_INTEGER || o->kind == OPTION_REAL) return check_number(o, text, canonical);
    if (o->kind == OPTION_FLAG) {
        if (!is_word("true|false", text))
            return qg_fail(QG_EARG, "%s '%s' is neither true nor false", o->name, text);
    } else if (o->check) {
        const qg_status status = o->check(text, canonical, VALUE_BYTES);
        return status ? qg_fail(status, "%s: %s", o->name, qg_errmsg()) : QG_OK;
    } else if (!*text) {
        return qg_fail(QG_EARG, "%s: the value is empty", o->name);
    } else if (strchr(o->value, '|') && !is_word(o->value, text)) {
        return qg_fail(QG_EARG, "%s '%s' is none of %s", o->name, text, o->value);
    }
    snprintf(canonical, VALUE_BYTES, "%s", text);
    return QG_OK;
}
