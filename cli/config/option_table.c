#include "cli/config/options.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config/config.h"
#include "cli/config/models.h"
#include "core/io/number.h"
#include "core/kernels/parallel.h"
#include "datasets/normalise.h"
#include "quant/scheme.h"
#include "train/distil.h"

/* --- values of the library's types: an option's parse --------------------------------------- */

static qg_status parse_model(const char *text, void *value, char *canonical, size_t bytes)
{
    chosen_model *m = value;
    return model_parse(text, m, canonical, bytes);
}

static qg_status parse_data(const char *text, void *value, char *canonical, size_t bytes)
{
    return data_parse(text, value, canonical, bytes);
}

static qg_status parse_normalise(const char *text, void *value, char *canonical, size_t bytes)
{
    return qg_normalise_parse(text, value, canonical, bytes);
}

static qg_status parse_augment(const char *text, void *value, char *canonical, size_t bytes)
{
    return augment_parse(text, value, canonical, bytes);
}

static qg_status parse_validation(const char *text, void *value, char *canonical, size_t bytes)
{
    return holdout_parse(text, value, canonical, bytes);
}

/* A recipe's name is part of paths: of its file, its runs, its results. */
static qg_status parse_recipe(const char *text, void *value, char *canonical, size_t bytes)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    (void)value;
    if (!*text || *text == '.' || text[strspn(text, letters)])
        return qg_fail(QG_EARG, "'%s' is not a recipe name; use letters, digits, dots, - and _", text);
    snprintf(canonical, bytes, "%s", text);
    return QG_OK;
}

static qg_status parse_weight(const char *text, void *value, char *canonical, size_t bytes)
{
    return scheme_parse(text, FOR_WEIGHT, value, canonical, bytes);
}

static qg_status parse_input(const char *text, void *value, char *canonical, size_t bytes)
{
    return scheme_parse(text, FOR_INPUT, value, canonical, bytes);
}

static qg_status parse_gradient(const char *text, void *value, char *canonical, size_t bytes)
{
    return scheme_parse(text, FOR_GRADIENT, value, canonical, bytes);
}

/* Adds an exception; it replaces an earlier one for the same operand of the same layer. */
static qg_status parse_layer(const char *text, void *value, char *canonical, size_t bytes)
{
    layer_exceptions *all = value;
    layer_exception   e;
    if (choice_parse(text, &e.choice, e.layer, canonical, bytes)) return QG_EARG;
    int kept = 0;
    for (int i = 0; i < all->count; i++) {
        const layer_exception *old = &all->item[i];
        if (strcmp(old->layer, e.layer) || old->choice.has_weight != e.choice.has_weight ||
            old->choice.has_input != e.choice.has_input)
            all->item[kept++] = *old;
    }
    if (kept == MAX_EXCEPTIONS) return qg_fail(QG_EARG, "more than %d exceptions for layers", MAX_EXCEPTIONS);
    all->item[kept] = e;
    all->count      = kept + 1;
    return QG_OK;
}

/* Adds a link. */
static qg_status parse_link(const char *text, void *value, char *canonical, size_t bytes)
{
    static const qg_key keys[] = {
        { .name = "latency", .min = 0, .max = 1e6, .is = QG_KEY_REQUIRED, .about = "microseconds" },
        { .name = "gbits", .min = 0, .max = 1e6, .is = QG_KEY_REQUIRED | QG_KEY_ABOVE_MIN, .about = "Gbit/s" },
        { .name = NULL }
    };
    links *all = value;
    double v[2];
    if (qg_keys_parse(NULL, text, keys, v)) return QG_EARG;
    if (all->count == MOST_LINKS) return qg_fail(QG_EARG, "more than %d links", MOST_LINKS);
    all->item[all->count++] = (link_speed){ .seconds = 1e-6 * v[0], .bytes_per_second = 1e9 / 8 * v[1] };
    qg_keys_print(NULL, keys, v, canonical, bytes);
    return QG_OK;
}

static qg_status parse_schedule(const char *text, void *value, char *canonical, size_t bytes)
{
    qg_schedule    *s      = value;
    const qg_status status = qg_schedule_parse(text, s);
    if (!status) qg_schedule_print(s, canonical, (int)bytes);
    return status;
}

static qg_status parse_distil(const char *text, void *value, char *canonical, size_t bytes)
{
    double          v[QG__DISTIL_KEYS];
    qg_fit_teacher *t = value;
    if (qg_keys_parse(NULL, *text ? text : NULL, qg__distil_keys, v)) return QG_EARG;
    t->temperature = (float)v[QG__DISTIL_TEMPERATURE];
    t->weight      = (float)v[QG__DISTIL_WEIGHT];
    qg_keys_print(NULL, qg__distil_keys, v, canonical, bytes);
    return QG_OK;
}

static qg_status parse_image(const char *text, void *value, char *canonical, size_t bytes)
{
    qg_shape       *s      = value;
    const qg_status status = qg_image_parse(text, s);
    if (!status) snprintf(canonical, bytes, "%dx%dx%d", s->h, s->w, s->c);
    return status;
}

/* Parses "50m", "90s", "1h", "1.5h" or a number of seconds. */
/* 2^53 - 1: seeds pass through TOML and JSON, whose readers may hold numbers as doubles. */
#define MAX_SEED 9007199254740991.0

/* As many epochs as a run may have. */
#define MAX_EPOCHS 100000.0

/* "1876" steps, or "2epochs". */
static qg_status parse_delay(const char *text, void *value, char *canonical, size_t bytes)
{
    const size_t n      = strspn(text, "0123456789");
    const bool   epochs = !strcmp(text + n, "epochs") || !strcmp(text + n, "epoch");
    double       count;
    if (!n || (text[n] && !epochs) || !qg_number_read(text, n, &count))
        return qg_fail(QG_EARG, "'%s' is not a whole number of steps, as in 1876, or of epochs, as in 2epochs", text);
    if (count > (epochs ? MAX_EPOCHS : MAX_SEED))
        return qg_fail(QG_EARG, "%s is not in 0..%.16g", text, epochs ? MAX_EPOCHS : MAX_SEED);
    *(delay *)value = (delay){ .count = (uint64_t)count, .epochs = epochs && count > 0 };
    snprintf(canonical, bytes, "%.0f%s", count, epochs && count > 0 ? "epochs" : "");
    return QG_OK;
}

static qg_status parse_duration(const char *text, void *value, char *canonical, size_t bytes)
{
    double      *seconds = value;
    const size_t n       = strcspn(text, "hms");
    const double unit    = text[n] == 'h' ? 3600 : text[n] == 'm' ? 60 : 1;
    if (!qg_number_read(text, n, seconds) || (text[n] && text[n + 1]) || !(*seconds >= 0) || !isfinite(*seconds * unit))
        return qg_fail(QG_EARG, "'%s' is not a duration; write 90s, 50m, 1h or a number of seconds", text);
    *seconds *= unit;
    char number[QG_NUMBER_BYTES];
    qg_number_print(number, 9, *seconds);
    snprintf(canonical, bytes, "%s", number);
    return QG_OK;
}

/* Parses "1G", "512M", "64K" or a number of bytes.  Nothing is 1 byte, which holds no image; 0 would be the default. */
static qg_status parse_bytes(const char *text, void *value, char *canonical, size_t bytes)
{
    static const char units[] = "KMG";
    size_t           *to      = value;
    const size_t      n       = strcspn(text, units);
    const char       *unit    = text[n] ? strchr(units, text[n]) : NULL;
    const double      times   = unit ? (double)((size_t)1 << 10 * (unit - units + 1)) : 1;
    double            number;
    if (!qg_number_read(text, n, &number) || (unit && text[n + 1]) || !(number >= 0) || number * times > 0x1p52)
        return qg_fail(QG_EARG, "'%s' is not a size; write 1G, 512M, 64K or a number of bytes", text);
    *to = number * times < 1 ? 1 : (size_t)(number * times);
    int k = 0;
    for (size_t rest = *to; k < 3 && rest % 1024 == 0; rest /= 1024) k++;
    snprintf(canonical, bytes, "%zu%.*s", *to == 1 ? 0 : *to >> 10 * k, k > 0, k ? units + k - 1 : "");
    return QG_OK;
}

/* --- the table ---------------------------------------------------------------------------- */

enum { STEPS = VERB_TRAIN | VERB_BENCH | VERB_SCALING };       /* the verbs that take steps */

/* The address of an option's value. */
#define AT(field) offsetof(config, field), sizeof((config *)0)->field

const option options[] = {
    { "model", OPTION_VALUE, NETS | IDENTITY, AT(recipe.model), "NAME", .parse = parse_model,
      .help = "the net; required" },
    { "data", OPTION_VALUE, NETS | VERB_EVAL | VERB_PACKED | IDENTITY, AT(recipe.data), "NAME", .parse = parse_data,
      .fallback = "mnist", .help = "the data set;\nof infer: the data set; default: that of the net" },
    { "normalise", OPTION_VALUE, STEPS | IDENTITY, AT(recipe.normalise), "KIND", .parse = parse_normalise,
      .fallback = "unit",
      .help = "how bytes become floats, as in range:low=-1,high=1" },
    { "augment", OPTION_VALUE, STEPS | IDENTITY | COMMAS, AT(recipe.augment), "LIST", .parse = parse_augment,
      .fallback = "none",
      .help = "augmentation of the training images, as in pad=4,flip" },
    { "validation", OPTION_VALUE, VERB_TRAIN | IDENTITY, AT(recipe.validation), "N", .parse = parse_validation,
      .help = "hold out training images, 5000 or 10%, by which the best epoch is\nchosen; the test images are then read once, at the end" },
    { "weight", OPTION_VALUE, NETS | VERB_EVAL | VERB_QUANTIZE | IDENTITY | QUANTIZES | SCHEMES, AT(recipe.weight), "SCHEME",
      .parse = parse_weight, .fallback = "float", .help = "quantizer of the weights" },
    { "input", OPTION_VALUE, NETS | VERB_QUANTIZE | IDENTITY | QUANTIZES | SCHEMES, AT(recipe.input), "SCHEME",
      .parse = parse_input, .fallback = "float",
      .help = "quantizer of the inputs of all layers except the first;\n"
              "in tfc, sfc and lfc of the first as well" },
    { "gradient", OPTION_VALUE, NETS | IDENTITY | QUANTIZES | SCHEMES, AT(recipe.gradient), "SCHEME", .parse = parse_gradient,
      .fallback = "float", .help = "quantizer of the gradients of the layers' outputs" },
    { "first-last", OPTION_WORD, NETS | VERB_QUANTIZE | IDENTITY | QUANTIZES, AT(recipe.first_last), "float|quantized",
      .help = "float: do not quantize the first and last layers; default: float with\n"
              "dorefa, xnor and bnn, else quantized" },
    { "layer", OPTION_LIST, NETS | VERB_QUANTIZE | IDENTITY | QUANTIZES | SCHEMES, AT(recipe.exceptions), "LAYER:weight=SCHEME",
      .parse = parse_layer, .help = "an exception for one layer (or :input=, :gradient=); repeatable" },
    { "quantize-after", OPTION_INTEGER, NETS | IDENTITY | QUANTIZES, AT(recipe.quantize_after), "N|Nepochs",
      .parse = parse_delay, .fallback = "0", .help = "steps, or epochs, before the input quantizers start" },
    { "quantize-weights-after", OPTION_INTEGER, NETS | IDENTITY | QUANTIZES, AT(recipe.quantize_weights_after), "N|Nepochs",
      .parse = parse_delay, .help = "steps, or epochs, before the weight quantizers start" },
    { "fold-batchnorm", OPTION_FLAG, NETS | VERB_QUANTIZE | IDENTITY | QUANTIZES, AT(recipe.fold_batchnorm),
      .help = "fold batch norms into the weights before quantizing them" },
    { "freeze-batchnorm-after", OPTION_INTEGER, NETS | IDENTITY, AT(recipe.freeze_batchnorm_after), "N|Nepochs",
      .parse = parse_delay, .fallback = "0",
      .help = "steps, or epochs, after which batch norms use fixed running\nstatistics; 0: never" },
    { "reestimate-batchnorm", OPTION_WORD, VERB_TRAIN | IDENTITY | QUANTIZES, AT(recipe.reestimate), "off|on",
      .fallback = "on", .absent = "off",
      .help = "estimate the running statistics of batch norms anew after each\nepoch, before the test, if weights are quantized" },
    { "norm-sync", OPTION_WORD, STEPS | IDENTITY, AT(recipe.norm_sync), "on|off",
      .help = "off: on several ranks, batch norms use the statistics of each\nrank's own images; default: on" },
    { "epochs", OPTION_INTEGER, VERB_TRAIN | IDENTITY | EXTENDS, AT(recipe.epochs), "N", .min = 1, .max = MAX_EPOCHS,
      .fallback = "10", .help = "passes over the training images; with --resume more of them extend\na run" },
    { "patience", OPTION_INTEGER, VERB_TRAIN | IDENTITY | EXTENDS, AT(recipe.patience), "N", .max = 100000,
      .help = "end after N epochs without a higher accuracy of the test images,\nor of those of --validation; 0: never" },
    { "batch", OPTION_INTEGER, STEPS | VERB_PACKED | IDENTITY, AT(recipe.batch), "N", .min = 1, .max = 65536,
      .fallback = "64", .help = "images per step;\nof infer: images that pass through the net together;\nof bench packed: images that pass through the net together" },
    { "loss", OPTION_WORD, STEPS | IDENTITY, AT(recipe.loss), "cross-entropy|squared-hinge",
      .fallback = "cross-entropy", .help = "the loss function" },
    { "label-smoothing", OPTION_REAL, STEPS | IDENTITY, AT(recipe.label_smoothing), "X", .max = 0.999,
      .help = "share of the label that cross entropy gives to all classes" },
    { "optimizer", OPTION_WORD, STEPS | IDENTITY | OPTIMIZES, AT(recipe.optimizer), "sgd|adam|bop",
      .fallback = "sgd", .help = "the optimizer; bop goes with --weight bop" },
    { "lr", OPTION_REAL, STEPS | IDENTITY | OPTIMIZES, AT(recipe.lr), "X", .min = 1e-9, .max = 1000,
      .help = "learning rate" },
    { "momentum", OPTION_REAL, STEPS | IDENTITY | OPTIMIZES, AT(recipe.momentum), "X", .max = 0.9999,
      .help = "momentum of sgd" },
    { "nesterov", OPTION_FLAG, STEPS | IDENTITY | OPTIMIZES, AT(recipe.nesterov),
      .help = "use Nesterov momentum in sgd" },
    { "beta1", OPTION_REAL, STEPS | IDENTITY | OPTIMIZES, AT(recipe.beta1), "X", .min = 1e-9, .max = 0.999999,
      .help = "beta1 of adam" },
    { "beta2", OPTION_REAL, STEPS | IDENTITY | OPTIMIZES, AT(recipe.beta2), "X", .min = 1e-9, .max = 0.999999,
      .help = "beta2 of adam" },
    { "gamma", OPTION_REAL, STEPS | IDENTITY | OPTIMIZES, AT(recipe.gamma), "X", .min = 1e-12, .max = 1,
      .help = "bop: weight of the newest gradient in the moving average" },
    { "threshold", OPTION_REAL, STEPS | IDENTITY | OPTIMIZES, AT(recipe.threshold), "X", .min = 1e-30, .max = 1e6,
      .help = "bop: moving average at which a weight flips" },
    { "weight-decay", OPTION_REAL, STEPS | IDENTITY | OPTIMIZES, AT(recipe.weight_decay), "X", .max = 10,
      .fallback = "0", .help = "weight decay" },
    { "clip-norm", OPTION_REAL, STEPS | IDENTITY, AT(recipe.clip_norm), "X", .max = 1e9,
      .help = "clip the norm of all gradients together; 0: off" },
    { "ema", OPTION_REAL, VERB_TRAIN | IDENTITY, AT(recipe.ema), "X", .max = 0.999999,
      .help = "test and save moving averages of the weights, with this decay;\n0: off" },
    { "norm-decay", OPTION_REAL, STEPS | IDENTITY, AT(recipe.norms.weight_decay), "X", .max = 10,
      .fallback = "0", .help = "weight decay of batch norms" },
    { "norm-lr-scale", OPTION_REAL, STEPS | IDENTITY, AT(recipe.norms.lr_scale), "X", .min = 1e-6, .max = 1e6,
      .fallback = "1", .help = "learning rate of batch norms, as a multiple of --lr" },
    { "quantizer-decay", OPTION_REAL, STEPS | IDENTITY | QUANTIZES, AT(recipe.quantizers.weight_decay), "X", .max = 10,
      .fallback = "0", .help = "weight decay of learned quantizer parameters, unless the\nscheme sets its own" },
    { "quantizer-lr-scale", OPTION_REAL, STEPS | IDENTITY | QUANTIZES, AT(recipe.quantizers.lr_scale), "X", .min = 1e-6,
      .max = 1e6, .fallback = "1",
      .help = "learning rate of learned quantizer parameters, as a multiple\nof --lr" },
    { "schedule", OPTION_VALUE, STEPS | IDENTITY | EXTENDS, AT(recipe.schedule), "TEXT", .parse = parse_schedule,
      .fallback = "constant",
      .help = "learning rate over the run, as in cosine:warmup=0.05" },
    { "seed", OPTION_INTEGER, NETS | VERB_QUANTIZE | IDENTITY | PER_RUN, AT(recipe.seed), "N", .max = MAX_SEED, .fallback = "1",
      .help = "seed of weights, shuffling and noise" },
    { "data-dir", OPTION_TEXT, VERB_TRAIN | VERB_EVAL | VERB_QUANTIZE | VERB_INSPECT | VERB_BENCH | VERB_PACKED | SAVED,
      AT(recipe.data_dir), "DIR", .help = "the directory of the data set" },
    { "threads", OPTION_INTEGER, STEPS | VERB_EVAL | VERB_QUANTIZE | VERB_PREDICT | VERB_PEAK | VERB_PACKED | SAVED, AT(recipe.threads), "N",
      .max = QG_MOST_THREADS, .fallback = "0",
      .help = "number of threads; 0: OMP_NUM_THREADS if set, else one per\ncore; does not change the results" },
    { "cache", OPTION_VALUE, STEPS | VERB_EVAL | VERB_QUANTIZE | VERB_PACKED | SAVED, AT(recipe.cache), "SIZE", .parse = parse_bytes,
      .help = "memory for the images of a folder, as 1G or 512M; the others are\ndecoded when they are needed; does not change the results;\n"
              "default: all images, or a quarter of the memory if they take\nmore than half" },
    { "out", OPTION_TEXT, VERB_TRAIN | VERB_QUANTIZE | VERB_REPORT | VERB_EXPORT | VERB_PLOT | VERB_SCALING, AT(out), "PATH",
      .help = "the run directory; default: runs/MODEL-WEIGHT-CHANGES-SEED or\nruns/RECIPE/CHANGES-seed-SEED, and a number where that exists;\n"
              "of quantize: the new run directory; default: that of --run and -quantized;\n"
              "of sweep: the directory of its runs; default: runs/sweep-MODEL-CHANGES-LISTS;\n"
              "of report: the page; default: report.html in the run;\nof export: the file, also -o; required;\n"
              "of plot: a directory for pictures of all schemes;\nof bench scaling: a picture of the table, as SVG" },
    { "resume", OPTION_FLAG, VERB_TRAIN | TRAINS_ALONE, AT(resume),
      .help = "continue from the last checkpoint; without --out, that of the\nnewest unfinished run with these options" },
    { "force", OPTION_FLAG, VERB_TRAIN | TRAINS_ALONE | VERB_RESULTS, AT(force),
      .help = "rename an existing run directory;\nof results: replace logs of other images, other options or more epochs" },
    { "budget", OPTION_VALUE, VERB_TRAIN, AT(budget), "TIME", .parse = parse_duration,
      .help = "save and stop after this time, with exit status 3: 50m, 90s, 1h" },
    { "watch", OPTION_FLAG, VERB_TRAIN, AT(watch), .help = "print the share of codes that flipped, and of zeros, of each layer\nafter each epoch" },
    { "config", OPTION_TEXT, NETS, AT(file), "FILE",
      .help = "read options from a file; the command line takes precedence" },
    { "recipe", OPTION_TEXT, NETS | SAVED, AT(named), "NAME", .parse = parse_recipe,
      .help = "read options from examples/recipes/NAME.toml, here or where qgrad\nis installed" },
    { "init", OPTION_TEXT, VERB_TRAIN, AT(init), "RUN",
      .help = "start from the last weights of a run, or from a safetensors file" },
    { "init-except", OPTION_TEXT, VERB_TRAIN | IDENTITY, AT(init_except), "LAYERS",
      .help = "layers that do not start from --init, as in conv1,fc2" },
    { "freeze", OPTION_TEXT, VERB_TRAIN | VERB_QUANTIZE | IDENTITY, AT(recipe.freeze), "LAYERS",
      .help = "layers that are neither trained nor calibrated, as in\nconv1,conv2" },
    { "teacher", OPTION_TEXT, VERB_TRAIN | SAVED, AT(teacher), "RUN",
      .help = "also learn from the scores of a run, or of a checkpoint" },
    { "distil", OPTION_VALUE, VERB_TRAIN | IDENTITY | COMMAS, AT(recipe.teacher), "LIST", .parse = parse_distil,
      .help = "how to learn from the teacher, as in temperature=4,weight=0.9" },

    /* In files only: the images and weights that a run started from, and the result that a recipe reproduces. */
    { "data-digest", OPTION_TEXT, IDENTITY | PER_RUN, AT(data_digest), "DIGEST", .help = "of the images and labels" },
    { "class-digest", OPTION_TEXT, IDENTITY | PER_RUN, AT(class_digest), "DIGEST", .help = "of the class names" },
    { "epoch-steps", OPTION_INTEGER, IDENTITY | PER_RUN, AT(recipe.epoch_steps), "N", .min = 1, .max = MAX_SEED,
      .help = "of an epoch, if a delay counts epochs" },
    { "ranks", OPTION_INTEGER, IDENTITY | PER_RUN, AT(ranks), "N", .min = 1, .max = 16, .help = "with norm-sync off" },
    { "init-digest", OPTION_TEXT, IDENTITY | PER_RUN, AT(init_digest), "DIGEST",
      .help = "of the weights that --init loaded" },
    { "teacher-digest", OPTION_TEXT, IDENTITY | PER_RUN, AT(teacher_digest), "DIGEST", .help = "of the teacher's weights" },
    { "init-recipe", OPTION_TEXT, SAVED, AT(init_recipe), "NAME", .parse = parse_recipe,
      .help = "the recipe that trains the initial weights; --init must name\none of its runs" },
    { "reproduces", OPTION_TEXT, SAVED, AT(reproduces), "TEXT",
      .help = "the paper or replication whose result it reproduces" },
    { "reported", OPTION_TEXT, SAVED, AT(reported), "TEXT", .help = "the number reported there" },
    { "provenance", OPTION_WORD, SAVED, AT(provenance), "paper|code|replication|memory",
      .help = "where that number was read" },
    { "deviations", OPTION_TEXT, SAVED, AT(deviations), "TEXT", .help = "what differs from the source" },
    { "add", OPTION_TEXT, VERB_RESULTS, AT(add), "DIR", .help = "copy the logs of a finished run to results/ first" },
    { "check", OPTION_FLAG, VERB_RESULTS, AT(check),
      .help = "write nothing; fail if the page does not match the logs" },
    { "run", OPTION_TEXT, VERB_EVAL | VERB_PREDICT | VERB_QUANTIZE | VERB_INSPECT | VERB_EXPORT | VERB_PACKED, AT(run), "DIR",
      .help = "the run directory, or a checkpoint of its own; required;\n"
              "of predict: the run directory, or a checkpoint of its own; this or\n--packed is required;\n"
              "of inspect: the run directory, or a checkpoint of its own, in place of DIR;\n"
              "of infer: a run, or a checkpoint, whose scores are compared with those of\nthe packed net" },
    { "calibrate", OPTION_INTEGER, VERB_QUANTIZE, AT(calibrate), "N", .min = 1, .max = 1e9,
      .help = "training images that set observed ranges and the statistics\nof batch norms; default: 512, or all" },
    { "best", OPTION_FLAG, VERB_EVAL | VERB_PREDICT | VERB_QUANTIZE | VERB_INSPECT | VERB_EXPORT | VERB_PACKED, AT(best),
      .help = "use best.safetensors instead of last.safetensors" },
    { "confusion", OPTION_FLAG, VERB_EVAL, AT(confusion),
      .help = "print which classes are taken for which: a matrix, or of more\nthan 20 classes the most frequent confusions" },
    { "per-class", OPTION_FLAG, VERB_EVAL, AT(per_class), .help = "print recall and precision of each class" },
    { "worst", OPTION_INTEGER, VERB_EVAL, AT(worst), "N", .max = 1e6,
      .help = "print the N worst mistakes, those whose label is the least\nprobable; in --json 10 if it is not given" },
    { "top", OPTION_INTEGER, VERB_PREDICT, AT(top), "N", .min = 1, .max = 1e6, .fallback = "3",
      .help = "classes per image, the most probable ones first" },
    { "histogram", OPTION_FLAG, VERB_INSPECT, AT(histogram), .help = "show the latent weights of each layer as bars" },
    { "image", OPTION_VALUE, VERB_BENCH | VERB_SCALING | VERB_SUMMARY, AT(image), "HxWxC", .parse = parse_image,
      .help = "image size, as 32x32x3; bench generates such images" },
    { "seconds", OPTION_REAL, VERB_BENCH | VERB_SCALING | VERB_PEAK | VERB_INFER, AT(seconds), "X", .min = 0.01, .max = 86400,
      .fallback = "6", .help = "how long to measure;\nof bench scaling: how long to measure each line of the table, twice" },
    { "link", OPTION_LIST, VERB_SCALING, AT(links), "LINK", .parse = parse_link,
      .help = "project from this process alone for nodes that are joined so, as\nin latency=50,gbits=10: microseconds of an empty message, and\nGbit/s; repeatable" },
    { "to", OPTION_WORD, VERB_EXPORT, AT(to), "packed", .fallback = "packed",
      .help = "the format: packed, which qgrad infer and libqgrad_infer.a run" },
    { "packed", OPTION_TEXT, VERB_PACKED | VERB_PREDICT, AT(packed), "FILE",
      .help = "the file that qgrad export wrote; required;\nof predict: the file that qgrad export wrote, in place of --run" },
    { "requantize", OPTION_WORD, VERB_PACKED, AT(requantize), "evaluate|tflite", .fallback = "evaluate",
      .help = "how sums of 8-bit products become codes: as in qgrad eval, or by\nTFLite's fixed-point operator" },
    { "profile", OPTION_FLAG, VERB_BENCH | VERB_PACKED, AT(profile), .help = "show the time spent in each op, or step" },
    { "paper", OPTION_FLAG, VERB_GRADCHECK, AT(paper),
      .help = "also check formulas that papers print but that are not\nderivatives" },
    { "markdown", OPTION_FLAG, VERB_EXPLAIN, AT(markdown), .help = "print all schemes as in docs/schemes.md" },
    { "jobs", OPTION_INTEGER, VERB_SWEEP, AT(jobs), "N", .min = 1, .max = 1024, .fallback = "1",
      .help = "trainings at the same time; each gets cores / N threads, unless\n--threads is given" },
    { "array", OPTION_INTEGER, VERB_SWEEP, AT(array), "N", .min = 1, .max = 10000,
      .help = "train the N-th combination alone, as in a job array of Slurm" },
    { "list", OPTION_FLAG, VERB_SWEEP, AT(list), .help = "print the combinations with their numbers, and train nothing" },
    { "sort", OPTION_TEXT, VERB_RUNS, AT(sort), "COLUMN",
      .help = "sort by this column of the table: accuracies from the highest,\nothers upwards; default: run" },
    { "role", OPTION_WORD, VERB_PLOT, AT(role), "any|weight|input|gradient", .fallback = "any",
      .help = "the operand that is quantized; any: the first that the scheme\nis for" },
    { "csv", OPTION_FLAG, VERB_RUNS | VERB_SWEEP | VERB_PLOT, AT(csv), .help = "print a table as CSV" },
    { "json", OPTION_FLAG, VERBS, AT(json), .help = "print one JSON object on stdout and nothing else" },
    { "help", OPTION_FLAG, VERBS, AT(help), .help = "print this text" },
    { "defaults", OPTION_INTEGER, SAVED, AT(defaults), "N", .min = 1, .max = QG_DEFAULTS,
      .help = "version of the schemes' defaults" },
};

_Static_assert(sizeof options / sizeof *options == OPTIONS, "the table has OPTIONS rows");

const option *option_find(const char *name)
{
    for (int i = 0; i < OPTIONS; i++)
        if (!strcmp(options[i].name, name)) return &options[i];
    return NULL;
}

/* --- one option ----------------------------------------------------------------------------- */

/* The index of text in words, "sgd|adam"; -1 if it is not one of them. */
static int index_of_word(const char *words, const char *text)
{
    const size_t length = strlen(text);
    for (int i = 0; *words; i++) {
        const size_t n = strcspn(words, "|");
        if (n == length && !memcmp(words, text, n)) return i;
        words += n + (words[n] == '|');
    }
    return -1;
}

/* An int or a uint64_t, a float or a double: as large as the option's field. */
static void store_number(const option *o, double number, void *value)
{
    const bool whole = o->kind == OPTION_INTEGER;
    if (whole && o->bytes == sizeof(int)) *(int *)value = (int)number;
    else if (whole) *(uint64_t *)value = (uint64_t)number;
    else if (o->bytes == sizeof(float)) *(float *)value = (float)number;
    else *(double *)value = number;
}

static qg_status parse_number(const option *o, const char *text, void *value, char canonical[VALUE_BYTES])
{
    double     number;
    const bool whole = o->kind == OPTION_INTEGER;
    if (!qg_number_read(text, strlen(text), &number) || (whole && text[strspn(text, "+-0123456789")]))
        return qg_fail(QG_EARG, "%s '%s' is not a %s", o->name, text, whole ? "whole number" : "number");
    if (!(number >= o->min && number <= o->max))
        return qg_fail(QG_EARG, "%s %s is not in %.16g..%.16g", o->name, text, o->min, o->max);
    number += 0.0;                              /* -0 is 0 */
    if (whole) snprintf(canonical, VALUE_BYTES, "%.0f", number);
    else qg_number_print_double(canonical, number);
    store_number(o, number, value);
    return QG_OK;
}

static qg_status parse_word(const option *o, const char *text, void *value)
{
    const int i = index_of_word(o->value, text);
    if (!*text) return qg_fail(QG_EARG, "%s: the value is empty", o->name);
    if (i < 0) return qg_fail(QG_EARG, "%s '%s' is not one of %s", o->name, text, o->value);
    memcpy(value, &i, sizeof i);
    return QG_OK;
}

static qg_status parse_flag(const option *o, const char *text, bool *value)
{
    *value = !strcmp(text, "true");
    return *value || !strcmp(text, "false") ? QG_OK
                                            : qg_fail(QG_EARG, "%s '%s' must be true or false", o->name, text);
}

qg_status option_parse(const option *o, const char *text, void *value, char canonical[VALUE_BYTES])
{
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            return qg_fail(QG_EARG, "%s: the value contains a control character", o->name);
    if (strlen(text) >= VALUE_BYTES)
        return qg_fail(QG_EARG, "%s: the value is longer than %d bytes", o->name, VALUE_BYTES - 1);
    if (!o->parse && (o->kind == OPTION_INTEGER || o->kind == OPTION_REAL)) return parse_number(o, text, value, canonical);
    if (o->parse) {
        const qg_status status = o->parse(text, value, canonical, VALUE_BYTES);
        return status ? qg_fail(status, "%s: %s", o->name, qg_errmsg()) : QG_OK;
    }
    snprintf(canonical, VALUE_BYTES, "%s", text);
    if (o->kind == OPTION_FLAG) return parse_flag(o, text, value);
    if (o->kind == OPTION_WORD) return parse_word(o, text, value);
    return *text ? QG_OK : qg_fail(QG_EARG, "%s: the value is empty", o->name);
}
