#include "cli/config/options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/config/config.h"

/* --- options that belong to no recipe ------------------------------------------------------ */

static const option of_a_run[] = {
    { "out", QG_RECIPE_TEXT, QG_RECIPE_COMMAS, .value = "PATH",
      .help = "the run directory; default: runs/MODEL-WEIGHT-CHANGES-SEED or\n"
              "runs/RECIPE/CHANGES-seed-SEED, and a number where that exists" },
    { "resume", QG_RECIPE_FLAG,
      .help = "continue from the last checkpoint; without --out, that of the\n"
              "newest unfinished run with these options" },
    { "force", QG_RECIPE_FLAG,
      .help = "rename an existing run directory" },
    { "budget", QG_RECIPE_VALUE, .value = "TIME",
      .help = "save and stop after this time, with exit status 3: 50m, 90s, 1h" },
    { "watch", QG_RECIPE_FLAG,
      .help = "print the fractions of flipped codes and of zeros of each layer\n"
              "after each epoch" },
    { "config", QG_RECIPE_TEXT, QG_RECIPE_COMMAS, .value = "FILE",
      .help = "read options from a file; the command line takes precedence" },
    { .name = NULL }
};

static const option of_weights[] = {
    { "init", QG_RECIPE_TEXT, QG_RECIPE_COMMAS, .value = "RUN",
      .help = "start from the last weights of a run, or from a safetensors file" },
    { .name = NULL }
};

static const option others[] = {
    { "add", QG_RECIPE_TEXT, .value = "DIR",
      .help = "copy the logs of a finished run to results/ first, and its net\nif it is the first of its row" },
    { "repeat", QG_RECIPE_TEXT, .value = "ROW",
      .help = "train a row again, up to the first epoch that is not as logged" },
    { "check", QG_RECIPE_FLAG,
      .help = "write nothing; fail if pages and nets do not match the logs" },
    { "run", QG_RECIPE_TEXT, .value = "DIR",
      .help = "the run directory, or a checkpoint of its own;\nrequired; --run itself may be left out" },
    { "calibrate", QG_RECIPE_INTEGER, .value = "N", .min = 1, .max = 1e9,
      .help = "training images that set observed ranges and the statistics\n"
              "of batch norms; default: 512, or all" },
    { "best", QG_RECIPE_FLAG,
      .help = "use best.safetensors instead of last.safetensors" },
    { "tta", QG_RECIPE_FLAG,
      .help = "test-time augmentation: also measure the accuracy of the weighted mean\n"
              "of the scores of an image, its mirror image and shifts by a pixel" },
    { "confusion", QG_RECIPE_FLAG,
      .help = "print which classes are taken for which: a matrix, or of more\n"
              "than 20 classes the most frequent confusions" },
    { "per-class", QG_RECIPE_FLAG,
      .help = "print recall and precision of each class" },
    { "worst", QG_RECIPE_INTEGER, .value = "N", .max = 1e6,
      .help = "print the N worst mistakes, those whose label is the least\n"
              "probable; in --json 10 if it is not given" },
    { "top", QG_RECIPE_INTEGER, .value = "N", .min = 1, .max = 1e6, .fallback = "3",
      .help = "classes per image, the most probable ones first" },
    { "histogram", QG_RECIPE_FLAG,
      .help = "show the latent weights of each layer as bars" },
    { "image", QG_RECIPE_VALUE, .value = "HxWxC",
      .help = "image size, as 32x32x3" },
    { "weights", QG_RECIPE_TEXT, QG_RECIPE_COMMAS, .value = "FILE",
      .help = "the safetensors file; required" },
    { "classes", QG_RECIPE_TEXT, QG_RECIPE_COMMAS, .value = "N|NAMES",
      .help = "how many classes, or their names, as cat,dog; default: those of\n"
              "--data, or as many as a net as text has results" },
    { "layout", QG_RECIPE_WORD, .value = "oihw|hwio", .fallback = "oihw",
      .help = "the axes of convolutions in the file: oihw of PyTorch, or hwio of\n"
              "Keras and Flax" },
    { "map", QG_RECIPE_TEXT, QG_RECIPE_COMMAS, .value = "FILE",
      .help = "a text with lines LAYER MODULE, such as conv1 features.0; default:\n"
              "by name if all names agree, else by order and shape" },
    { "seconds", QG_RECIPE_REAL, .value = "X", .min = 0.01, .max = 86400, .fallback = "6",
      .help = "how long to measure" },
    { "link", QG_RECIPE_LIST, .value = "LINK",
      .help = "project from this one process for nodes that are connected so, as\n"
              "in latency=50,gbits=10: microseconds of an empty message, and\n"
              "Gbit/s; repeatable" },
    { "to", QG_RECIPE_WORD, .value = "packed|onnx|c",
      .help = "the format: packed, which qgrad infer and libqgrad_infer.a run,\n"
              "onnx, for ONNX Runtime and others, or c, one file of C99; default:\n"
              "by the suffix .qg, .onnx or .c; without one, packed" },
    { "input-layout", QG_RECIPE_WORD, .value = "nhwc|nchw", .fallback = "nhwc",
      .help = "of onnx, what an image is: nhwc, bytes [N,h,w,c], or nchw,\n"
              "floats [N,c,h,w] of byte / 255" },
    { "packed", QG_RECIPE_TEXT, .value = "FILE",
      .help = "the file that qgrad export wrote; required; --packed itself may be left out" },
    { "requantize", QG_RECIPE_WORD, .value = "evaluate|tflite", .fallback = "evaluate",
      .help = "how sums of 8-bit products become codes: as in qgrad eval, or by\n"
              "TFLite's fixed-point operator" },
    { "profile", QG_RECIPE_FLAG,
      .help = "show the time spent in each op, or step" },
    { "paper", QG_RECIPE_FLAG,
      .help = "also check formulas that papers print but that are not\n"
              "derivatives" },
    { "markdown", QG_RECIPE_FLAG,
      .help = "print all schemes as in docs/schemes.md" },
    { "jobs", QG_RECIPE_INTEGER, .value = "N", .min = 1, .max = 1024, .fallback = "1",
      .help = "trainings at the same time; each gets cores / N threads, unless\n"
              "--threads is given" },
    { "array", QG_RECIPE_INTEGER, .value = "N", .min = 1, .max = 10000,
      .help = "train only the N-th combination, as in a job array of Slurm" },
    { "list", QG_RECIPE_FLAG,
      .help = "print the combinations with their numbers, and train nothing" },
    { "sort", QG_RECIPE_TEXT, .value = "COLUMN",
      .help = "sort by this column of the table: accuracies from the highest,\n"
              "others upwards; default: run" },
    { "role", QG_RECIPE_WORD, .value = "any|weight|input|gradient", .fallback = "any",
      .help = "the operand that is quantized; any: the first that the scheme\n"
              "is for" },
    { "figure", QG_RECIPE_WORD, .value = "both|values|slope", .fallback = "both",
      .help = "what the picture shows: q and its surrogate, their slopes, or both\n"
              "side by side" },
    { "charts", QG_RECIPE_TEXT, .value = "DIR",
      .help = "also write each chart of the page as an SVG file, for slides" },
    { "csv", QG_RECIPE_FLAG,
      .help = "print a table as CSV" },
    { "json", QG_RECIPE_FLAG,
      .help = "print one JSON object on stdout and nothing else" },
    { "help", QG_RECIPE_FLAG,
      .help = "print this text" },
    { .name = NULL }
};

/* Where they stand among the keys of a recipe, in help and lists. */
static const struct {
    const char   *before;
    const option *options;
} own[] = { { "recipe", of_a_run }, { "init-except", of_weights }, { "defaults", others } };

/* --- all of them --------------------------------------------------------------------------- */

/* In order; made the first time. */
static const option *table[OPTIONS];

static void make_table(void)
{
    int n = 0;
    for (const option *key = qg_recipe_keys; key->name; key++) {
        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
            for (const option *o = own[i].options; !strcmp(own[i].before, key->name) && o->name; o++) table[n++] = o;
        table[n++] = key;
    }
    QG_ASSERT(n == OPTIONS);
}

const option *option_at(int i)
{
    if (!table[0]) make_table();
    return table[i];
}

int option_index(const option *o)
{
    int i = 0;
    while (option_at(i) != o) i++;
    return i;
}

const option *option_find(const char *name)
{
    for (int i = 0; i < OPTIONS; i++)
        if (!strcmp(option_at(i)->name, name)) return option_at(i);
    return NULL;
}

bool option_is_of_recipe(const option *o)
{
    const option *key = qg_recipe_keys;
    while (key->name && key != o) key++;
    return key->name;
}

/* --- groups ------------------------------------------------------------------------------- */

const verb_option net_options[] = {
    { "model", .first = true }, { "data", .first = true }, { "weight", .first = true }, { "input", .first = true }, { "gradient" },
    { "first-last", .first = true }, { "layer" }, { "quantize-after" }, { "quantize-weights-after" }, { "fold-batchnorm" },
    { "freeze-batchnorm-after" }, { "seed", .first = true }, { "config" }, { "recipe", .first = true }, { NULL }
};

const verb_option step_options[] = {
    { "normalise" }, { "augment", .first = true }, { "norm-sync" }, { "batch", .first = true }, { "loss" }, { "label-smoothing" },
    { "optimizer", .first = true }, { "lr", .first = true }, { "momentum" }, { "nesterov" }, { "beta1" }, { "beta2" }, { "gamma" },
    { "threshold" }, { "weight-decay", .first = true }, { "clip-norm" }, { "norm-decay" }, { "norm-lr-scale" },
    { "quantizer-decay" }, { "quantizer-lr-scale" }, { "schedule", .first = true }, { "threads", .first = true }, { "cache" },
    { NULL }
};

const verb_option training_options[] = {
    { "validation", .first = true }, { "reestimate-batchnorm" }, { "epochs", .first = true }, { "patience" }, { "ema" },
    { "data-dir", .first = true }, { "budget", .first = true }, { "initial-weights" }, { "init", .first = true },
    { "init-except" }, { "freeze" }, { "whiten-patches" }, { "teacher" }, { "distil" }, { NULL }
};

const verb_option common_options[] = { { "json", .first = true }, { "help", .first = true }, { NULL } };
