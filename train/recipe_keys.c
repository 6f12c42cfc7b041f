/* The keys of a recipe: what each is called, which values it takes, and what it is by default. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/io/number.h"
#include "core/kernels/parallel.h"
#include "layers/layer.h"
#include "layers/models/parts.h"
#include "layers/models/text.h"
#include "quant/engine.h"
#include "train/distil.h"
#include "train/recipe_keys.h"

/* --- models and schemes by name ----------------------------------------------------------- */

static qg_status parse_net(const char *text, qg__chosen_model *m, char *canonical, size_t bytes)
{
    if (qg__net_text_check(text)) return QG_EARG;
    snprintf(m->text, sizeof m->text, "%s", text);
    snprintf(canonical, bytes, "%s", text);
    return QG_OK;
}

/* VGG7 is no text of a net, but vgg7 misspelt. */
static bool is_model_in_capitals(const char *name)
{
    for (const qg_model *const *m = qg_models; *m; m++)
        if (!strcasecmp((*m)->name, name) && strcmp((*m)->name, name)) return true;
    return false;
}

/* "vgg7", "vgg7:width=0.25" or a net as text.  An option that is 0 selects the model's default. */
static qg_status parse_model(const char *text, void *model, char *canonical, size_t bytes)
{
    qg__chosen_model *m = model;
    char              name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":"), text);
    *m = (qg__chosen_model){ .type = qg_model_find(name) };
    if (!m->type || is_model_in_capitals(name)) {
        char names[QG_RECIPE_VALUE_BYTES] = "";
        qg__model_names(names, sizeof names);
        char hint[QG__NEAREST_BYTES];
        return qg_fail(QG_EARG, "unknown model '%s'; available: %s, or a net as text: 32C5-BN-R-MP2-10%s", name, names,
                       qg__list_nearest(names, name, strlen(name), hint));
    }
    if (m->type == &qg_model_text) return parse_net(text, m, canonical, bytes);
    double        value[QG_MAX_VALUES];
    const qg_key *keys   = m->type->keys;
    const size_t  length = strlen(name);
    if (qg_keys_parse(name, text[length] ? text + length + 1 : NULL, keys, value)) return QG_EARG;
    for (int k = 0; k < QG_MODEL_KEYS; k++) {
        const int i  = qg_keys_find(keys, qg__model_keys[k], strlen(qg__model_keys[k]));
        m->option[k] = i < 0 ? 0 : value[i];
    }
    qg_keys_print(name, keys, value, canonical, bytes);
    return QG_OK;
}

void qg__model_names(char *text, size_t bytes)
{
    for (const qg_model *const *m = qg_models; *m; m++) qg__list_append(text, bytes, (*m)->name);
}

/* The role whose name is the first n bytes of text; 0: there is none. */
static unsigned role_named(const char *text, size_t n)
{
    for (int i = 0; i < QG_ROLES; i++) {
        const char *name = qg_role_name(qg_roles[i]);
        if (strlen(name) == n && !strncmp(name, text, n)) return qg_roles[i];
    }
    return 0;
}

static qg_status parse_scheme(const char *text, unsigned role, qg_quant *q, char *canonical, size_t bytes)
{
    const qg_status status = qg_quant_parse(text, (qg_role)role, q);
    if (!status) qg_quant_print(*q, canonical, bytes);
    return status;
}

/* The role in "conv1:weight=SCHEME"; 0: there is none. */
static unsigned use_of_choice(const char *text)
{
    const size_t n    = strcspn(text, ":");
    const char  *rest = text[n] ? text + n + 1 : "";
    const size_t key  = strcspn(rest, "=");
    return n && rest[key] ? role_named(rest, key) : 0;
}

qg_status qg__scheme_rewrite(const char *name, const char *text, int from, int to, char *out, size_t bytes)
{
    unsigned     use    = role_named(name, strlen(name));
    const bool   choice = !use && (use = use_of_choice(text)) != 0;
    const size_t before = choice ? strcspn(text, "=") + 1 : 0;
    qg_quant     q;
    if (!use) return snprintf(out, bytes, "%s", text), QG_OK;       /* who parses it refuses it */
    if (qg__quant_parse_as(from, text + before, (qg_role)use, &q)) return QG_EARG;
    snprintf(out, bytes, "%.*s", (int)before, text);
    if (before < bytes) qg__quant_print_as(to, q, out + before, bytes - before);
    return QG_OK;
}

/* --- values of the library's types: an option's parse --------------------------------------- */

static qg_status parse_data(const char *text, void *value, char *canonical, size_t bytes)
{
    return qg__data_parse(text, value, canonical, bytes);
}

static qg_status parse_normalise(const char *text, void *value, char *canonical, size_t bytes)
{
    return qg__normalise_parse(text, value, canonical, bytes);
}

/* A recipe's name is part of paths: of its file, its runs, its results. */
static qg_status parse_recipe(const char *text, void *value, char *canonical, size_t bytes)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (!*text || *text == '.' || text[strspn(text, letters)])
        return qg_fail(QG_EARG, "'%s' is not the name of a recipe, which has letters, digits, dots, - and _; "
                       "--config takes a file", text);
    snprintf(canonical, bytes, "%s", text);
    return QG_OK;
}

static qg_status parse_reported(const char *text, void *value, char *canonical, size_t bytes)
{
    double percent;
    if (!qg__number_read(text, strlen(text), &percent) || percent < 0 || percent > 100)
        return qg_fail(QG_EARG, "'%s' is not a test accuracy in %%, from 0 to 100", text);
    snprintf(canonical, bytes, "%s", text);
    return QG_OK;
}

/* Adds "conv1:weight=SCHEME"; it replaces an earlier exception for the same operand of the same layer. */
static qg_status parse_layer(const char *text, void *value, char *canonical, size_t bytes)
{
    const size_t   n = strcspn(text, ":"), key = strcspn(text, "=");
    const unsigned use = use_of_choice(text);
    if (n == 0 || n >= QG__LAYER_NAME || use == 0)
        return qg_fail(QG_EARG,
                       "'%s' is not LAYER:weight=SCHEME, LAYER:input=SCHEME or LAYER:gradient=SCHEME",
                       text);
    const char *more = strchr(text + key, ',');
    if (more && use_of_choice(more + 1))
        return qg_fail(QG_EARG, "'%s' are several layers; pass each by itself, first '%.*s'", text, (int)(more - text), text);
    char     spelt[QG_RECIPE_VALUE_BYTES];
    qg_quant q;
    if (parse_scheme(text + key + 1, use, &q, spelt, sizeof spelt)) return QG_EARG;
    qg__exceptions *all = value;
    qg__exception   e   = { .choice = { .has_weight   = use == QG_WEIGHT,
                                        .has_input    = use == QG_INPUT,
                                        .has_gradient = use == QG_GRADIENT } };
    *(use == QG_WEIGHT ? &e.choice.weight : use == QG_INPUT ? &e.choice.input : &e.choice.gradient) = q;
    snprintf(e.layer, sizeof e.layer, "%.*s", (int)n, text);
    snprintf(canonical, bytes, "%s:%s=%s", e.layer, qg_role_name(use), spelt);
    int kept = 0;
    for (int i = 0; i < all->count; i++) {
        const qg__exception *old = &all->item[i];
        if (strcmp(old->layer, e.layer) || old->choice.has_weight != e.choice.has_weight ||
            old->choice.has_input != e.choice.has_input)
            all->item[kept++] = *old;
    }
    if (kept == QG__EXCEPTIONS) return qg_fail(QG_EARG, "more than %d exceptions for layers", QG__EXCEPTIONS);
    all->item[kept] = e;
    all->count      = kept + 1;
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
    if (!n || (text[n] && !epochs) || !qg__number_read(text, n, &count))
        return qg_fail(QG_EARG, "'%s' is not a whole number of steps, as in 1876, or of epochs, as in 2epochs", text);
    if (count > (epochs ? MAX_EPOCHS : MAX_SEED))
        return qg_fail(QG_EARG, "%s is not in 0..%.16g", text, epochs ? MAX_EPOCHS : MAX_SEED);
    *(qg__delay *)value = (qg__delay){ .count = (uint64_t)count, .epochs = epochs && count > 0 };
    snprintf(canonical, bytes, "%.0f%s", count, epochs && count > 0 ? "epochs" : "");
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
    if (!qg__number_read(text, n, &number) || (unit && text[n + 1]) || !(number >= 0) || number * times > 0x1p52)
        return qg_fail(QG_EARG, "'%s' is not a size; write 1G, 512M, 64K or a number of bytes", text);
    *to = number * times < 1 ? 1 : (size_t)(number * times);
    int k = 0;
    for (size_t rest = *to; k < 3 && rest % 1024 == 0; rest /= 1024) k++;
    snprintf(canonical, bytes, "%zu%.*s", *to == 1 ? 0 : *to >> 10 * k, k > 0, k ? units + k - 1 : "");
    return QG_OK;
}

/* --- the table ---------------------------------------------------------------------------- */

/* Bits of qg_recipe_key.is: most keys decide the bytes of a run. */
enum {
    IDENTITY     = QG_RECIPE_IDENTITY,
    PER_RUN      = QG_RECIPE_IDENTITY | QG_RECIPE_PER_RUN,
    QUANTIZES    = QG_RECIPE_IDENTITY | QG_RECIPE_QUANTIZES,
    NAMES_SCHEME = QG_RECIPE_IDENTITY | QG_RECIPE_QUANTIZES | QG_RECIPE_SCHEMES,
    OPTIMIZES    = QG_RECIPE_IDENTITY | QG_RECIPE_OPTIMIZES,
    EXTENDS      = QG_RECIPE_IDENTITY | QG_RECIPE_EXTENDS,
    COMMAS       = QG_RECIPE_COMMAS
};

/* Where the value of a key is, and what reads it; NULL: as the kind says. */
#define AT(member, parse)                                                                                    \
    .field = &(const qg__recipe_field){ offsetof(qg_recipe, member), sizeof((qg_recipe *)0)->member, parse }

const qg_recipe_key qg_recipe_keys[] = {
    { "model", QG_RECIPE_VALUE, IDENTITY, "NAME", AT(model, parse_model),
      .help = "the net; required" },
    { "data", QG_RECIPE_VALUE, IDENTITY, "NAME", .fallback = "mnist", AT(data, parse_data),
      .help = "the data set" },
    { "normalise", QG_RECIPE_VALUE, IDENTITY, "KIND", .fallback = "unit", AT(normalise, parse_normalise),
      .help = "how bytes become floats, as in range:low=-1,high=1" },
    { "augment", QG_RECIPE_VALUE, IDENTITY | COMMAS, "LIST", .fallback = "none", AT(augment, qg__augment_parse),
      .help = "augmentation of the training images, as in pad=4,flip" },
    { "validation", QG_RECIPE_VALUE, IDENTITY, "N", AT(validation, qg__holdout_parse),
      .help = "hold out training images, 5000 or 10%, by which the best epoch is\n"
              "chosen; the test images are then read once, at the end" },
    { "weight", QG_RECIPE_VALUE, NAMES_SCHEME, "SCHEME", .fallback = "float", AT(weight, NULL),
      .help = "quantizer of the weights" },
    { "input", QG_RECIPE_VALUE, NAMES_SCHEME, "SCHEME", .fallback = "float", AT(input, NULL),
      .help = "quantizer of the inputs of all layers except the first;\n"
              "in tfc, sfc and lfc of the first as well" },
    { "gradient", QG_RECIPE_VALUE, NAMES_SCHEME, "SCHEME", .fallback = "float", AT(gradient, NULL),
      .help = "quantizer of the gradients of the layers' outputs" },
    { "first-last", QG_RECIPE_WORD, QUANTIZES, "float|quantized", AT(first_last, NULL),
      .help = "float: do not quantize the first and last layers; default: float with\n"
              "dorefa, xnor, bnn, binaryconnect, ste-tern, unit, irnet, adabin and recu, else quantized" },
    { "layer", QG_RECIPE_LIST, NAMES_SCHEME, "LAYER:weight=SCHEME", AT(exceptions, parse_layer),
      .help = "an exception for one layer (or :input=, :gradient=); repeatable" },
    { "quantize-after", QG_RECIPE_INTEGER, QUANTIZES, "N|Nepochs", .fallback = "0", AT(quantize_after, parse_delay),
      .help = "steps, or epochs, before the input quantizers start" },
    { "quantize-weights-after", QG_RECIPE_INTEGER, QUANTIZES, "N|Nepochs", .absent = "0", AT(quantize_weights_after, parse_delay),
      .help = "steps, or epochs, before the weight quantizers start" },
    { "fold-batchnorm", QG_RECIPE_FLAG, QUANTIZES, AT(fold_batchnorm, NULL),
      .help = "fold batch norms into the weights before quantizing them" },
    { "freeze-batchnorm-after", QG_RECIPE_INTEGER, IDENTITY, "N|Nepochs", .fallback = "0", AT(freeze_batchnorm_after, parse_delay),
      .help = "steps, or epochs, after which batch norms use fixed running\n"
              "statistics; 0: never" },
    { "reestimate-batchnorm", QG_RECIPE_WORD, QUANTIZES, "off|on", .fallback = "on", .absent = "off", AT(reestimate, NULL),
      .help = "estimate the running statistics of batch norms again after each\n"
              "epoch, before the test, if weights are quantized" },
    { "norm-sync", QG_RECIPE_WORD, IDENTITY, "on|off", .absent = "on", AT(norm_sync, NULL),
      .help = "off: on several ranks, batch norms use the statistics of each\n"
              "rank's own images; default: on" },
    { "epochs", QG_RECIPE_INTEGER, EXTENDS, "N", .max = MAX_EPOCHS, .fallback = "10", AT(epochs, NULL),
      .help = "passes over the training images; with --resume more of them extend\n"
              "a run; 0: measure and store the initial net" },
    { "patience", QG_RECIPE_INTEGER, EXTENDS, "N", .max = 100000, .absent = "0", AT(patience, NULL),
      .help = "end after N epochs without a higher accuracy of the test images,\n"
              "or of those of --validation; 0: never" },
    { "batch", QG_RECIPE_INTEGER, IDENTITY, "N", .min = 1, .max = 65536, .fallback = "64", AT(batch, NULL),
      .help = "images per step" },
    { "loss", QG_RECIPE_WORD, IDENTITY, "cross-entropy|squared-hinge", .fallback = "cross-entropy", AT(loss, NULL),
      .help = "the loss function" },
    { "label-smoothing", QG_RECIPE_REAL, IDENTITY, "X", .max = 0.999, .absent = "0", AT(label_smoothing, NULL),
      .help = "fraction of the label that cross entropy gives to all classes" },
    { "optimizer", QG_RECIPE_WORD, OPTIMIZES, "sgd|adam|bop", .fallback = "sgd", AT(optimizer, NULL),
      .help = "the optimizer; bop goes with --weight bop" },
    { "lr", QG_RECIPE_REAL, OPTIMIZES, "X", .min = 1e-9, .max = 1000, AT(lr, NULL),
      .help = "learning rate" },
    { "momentum", QG_RECIPE_REAL, OPTIMIZES, "X", .max = 0.9999, AT(momentum, NULL),
      .help = "momentum of sgd" },
    { "nesterov", QG_RECIPE_FLAG, OPTIMIZES, AT(nesterov, NULL),
      .help = "use Nesterov momentum in sgd" },
    { "beta1", QG_RECIPE_REAL, OPTIMIZES, "X", .min = 1e-9, .max = 0.999999, AT(beta1, NULL),
      .help = "beta1 of adam" },
    { "beta2", QG_RECIPE_REAL, OPTIMIZES, "X", .min = 1e-9, .max = 0.999999, AT(beta2, NULL),
      .help = "beta2 of adam" },
    { "gamma", QG_RECIPE_REAL, OPTIMIZES, "X", .min = 1e-12, .max = 1, AT(gamma, NULL),
      .help = "bop: weight of the newest gradient in the moving average" },
    { "threshold", QG_RECIPE_REAL, OPTIMIZES, "X", .min = 1e-30, .max = 1e6, AT(threshold, NULL),
      .help = "bop: moving average at which a weight flips" },
    { "weight-decay", QG_RECIPE_REAL, OPTIMIZES, "X", .max = 10, .fallback = "0", AT(weight_decay, NULL),
      .help = "weight decay" },
    { "clip-norm", QG_RECIPE_REAL, IDENTITY, "X", .max = 1e9, .absent = "0", AT(clip_norm, NULL),
      .help = "clip the norm of all gradients together; 0: off" },
    { "ema", QG_RECIPE_REAL, IDENTITY, "X", .max = 0.999999, .absent = "0", AT(ema, NULL),
      .help = "test and save moving averages of the weights, with this decay;\n"
              "0: off" },
    { "norm-decay", QG_RECIPE_REAL, IDENTITY, "X", .max = 10, .fallback = "0", AT(norms.weight_decay, NULL),
      .help = "weight decay of batch norms" },
    { "norm-lr-scale", QG_RECIPE_REAL, IDENTITY, "X", .min = 1e-6, .max = 1e6, .fallback = "1", AT(norms.lr_scale, NULL),
      .help = "learning rate of batch norms, as a multiple of --lr" },
    { "quantizer-decay", QG_RECIPE_REAL, QUANTIZES, "X", .max = 10, .fallback = "0", AT(quantizers.weight_decay, NULL),
      .help = "weight decay of learned quantizer parameters, unless the\n"
              "scheme sets its own" },
    { "quantizer-lr-scale", QG_RECIPE_REAL, QUANTIZES, "X", .min = 1e-6, .max = 1e6, .fallback = "1", AT(quantizers.lr_scale, NULL),
      .help = "learning rate of learned quantizer parameters, as a multiple\n"
              "of --lr" },
    { "schedule", QG_RECIPE_VALUE, EXTENDS, "TEXT", .fallback = "constant", AT(schedule, parse_schedule),
      .help = "learning rate over the run, as in cosine:warmup=0.05" },
    { "seed", QG_RECIPE_INTEGER, PER_RUN, "N", .max = MAX_SEED, .fallback = "1", AT(seed, NULL),
      .help = "seed of weights, shuffling and noise" },
    { "data-dir", QG_RECIPE_TEXT, COMMAS, "DIR", AT(data_dir, NULL),
      .help = "the directory of the data set" },
    { "threads", QG_RECIPE_INTEGER, 0, "N", .max = QG_MAX_THREADS, .fallback = "0", AT(threads, NULL),
      .help = "number of threads; 0: OMP_NUM_THREADS if set, else one per\n"
              "core; does not change the results" },
    { "cache", QG_RECIPE_VALUE, 0, "SIZE", AT(cache, parse_bytes),
      .help = "memory for the images of a folder, as 1G or 512M; the others are\n"
              "decoded when they are needed; does not change the results;\n"
              "default: all images, or a quarter of the memory if they take\n"
              "more than half" },
    { "recipe", QG_RECIPE_TEXT, 0, "NAME", AT(named, parse_recipe),
      .help = "read options from examples/recipes/NAME.toml, here or where qgrad\n"
              "is installed" },
    { "initial-weights", QG_RECIPE_WORD, IDENTITY, "glorot|he", .absent = "glorot", AT(initial_weights, NULL),
      .help = "how weights are drawn: uniform, variance 2 / (fan in + fan out), or\n"
              "normal, variance 2 / fan in; default: glorot" },
    { "init-except", QG_RECIPE_TEXT, IDENTITY | COMMAS, "LAYERS", AT(init_except, NULL),
      .help = "layers that do not start from --init, as in conv1,fc2" },
    { "freeze", QG_RECIPE_TEXT, IDENTITY | COMMAS, "LAYERS", AT(freeze, NULL),
      .help = "layers that are neither trained nor calibrated, as in\n"
              "conv1,conv2" },
    { "whiten-patches", QG_RECIPE_TEXT, IDENTITY, "LAYER", AT(whiten_patches, NULL),
      .help = "the first convolution, whose filters become those that whiten\n"
              "patches of the training images, and are not trained" },
    { "teacher", QG_RECIPE_TEXT, COMMAS, "RUN", AT(teacher_run, NULL),
      .help = "also learn from the scores of a run, or of a checkpoint" },
    { "distil", QG_RECIPE_VALUE, IDENTITY | COMMAS, "LIST", AT(teacher, parse_distil),
      .help = "how to learn from the teacher, as in temperature=4,weight=0.9" },
    { "data-digest", QG_RECIPE_TEXT, PER_RUN, "DIGEST", AT(data_digest, NULL),
      .help = "of the images and labels" },
    { "class-digest", QG_RECIPE_TEXT, PER_RUN, "DIGEST", AT(class_digest, NULL),
      .help = "of the class names" },
    { "epoch-steps", QG_RECIPE_INTEGER, PER_RUN, "N", .min = 1, .max = MAX_SEED, AT(epoch_steps, NULL),
      .help = "of an epoch, if a delay counts epochs" },
    { "ranks", QG_RECIPE_INTEGER, PER_RUN, "N", .min = 1, .max = 16, AT(ranks, NULL),
      .help = "with norm-sync off" },
    { "init-digest", QG_RECIPE_TEXT, PER_RUN, "DIGEST", AT(init_digest, NULL),
      .help = "of the weights that --init loaded" },
    { "teacher-digest", QG_RECIPE_TEXT, PER_RUN, "DIGEST", AT(teacher_digest, NULL),
      .help = "of the teacher's weights" },
    { "init-recipe", QG_RECIPE_TEXT, 0, "NAME", AT(init_recipe, parse_recipe),
      .help = "the recipe that trains the initial weights; --init must name\n"
              "one of its runs" },
    { "reproduces", QG_RECIPE_TEXT, 0, "TEXT", AT(reproduces, NULL),
      .help = "the paper or replication whose result it reproduces" },
    { "reported", QG_RECIPE_TEXT, 0, "TEXT", AT(reported, parse_reported),
      .help = "the test accuracy in % reported there" },
    { "provenance", QG_RECIPE_WORD, 0, "paper|code|replication|memory", AT(provenance, NULL),
      .help = "where that number was read" },
    { "deviations", QG_RECIPE_TEXT, 0, "TEXT", AT(deviations, NULL),
      .help = "what differs from the source" },
    { "defaults", QG_RECIPE_INTEGER, 0, "N", .min = 1, .max = QG_DEFAULTS, AT(defaults, NULL),
      .help = "version of the schemes' defaults" },
    { .name = NULL }
};

_Static_assert(sizeof qg_recipe_keys / sizeof *qg_recipe_keys == QG__RECIPE_KEYS + 1, "a recipe has a text of each key");

/* Options of the command line that belong to a run, and not to what is trained. */
static const char *const of_a_run[] = { "out",    "resume", "force", "budget", "watch",
                                        "config", "init",   "json",  "help" };

/* What a run notes about itself. */
static bool is_noted(const qg_recipe_key *o)
{
    return !strcmp(o->name, "recipe") || (o->is & QG_RECIPE_PER_RUN && strcmp(o->name, "seed"));
}

const qg_recipe_key *qg__recipe_key(const char *name)
{
    for (int i = 0; i < QG__RECIPE_KEYS; i++)
        if (!strcmp(qg_recipe_keys[i].name, name)) return &qg_recipe_keys[i];
    for (size_t i = 0; i < sizeof of_a_run / sizeof *of_a_run; i++)
        if (!strcmp(of_a_run[i], name))
            return qg__refuse(QG_EARG, "'%s' is an option of the command line, not a key%s", name,
                              strcmp(name, "init") ? "" : "; a recipe has init-recipe");
    char names[1024] = "", hint[QG__NEAREST_BYTES];
    for (int i = 0; i < QG__RECIPE_KEYS; i++)
        if (!is_noted(&qg_recipe_keys[i])) qg__list_append(names, sizeof names, qg_recipe_keys[i].name);
    return qg__refuse(QG_EARG, "unknown key '%s'; available: %s%s", name, names,
                      qg__list_nearest(names, name, strlen(name), hint));
}

bool qg__recipe_key_counts(const qg_recipe_key *o) { return o->kind == QG_RECIPE_INTEGER && strchr(o->value, '|'); }

/* --- one value ------------------------------------------------------------------------------ */

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

static qg_status parse_number(const qg_recipe_key *o, const char *text, double *number, char canonical[QG_RECIPE_VALUE_BYTES])
{
    const bool whole = o->kind == QG_RECIPE_INTEGER;
    if (!qg__number_read(text, strlen(text), number) || (whole && text[strspn(text, "+-0123456789")]))
        return qg_fail(QG_EARG, "%s '%s' is not a %s", o->name, text, whole ? "whole number" : "number");
    if (o->kind == QG_RECIPE_REAL && o->min > 0 && *number <= 0)
        return qg_fail(QG_EARG, "%s must be positive, not %s", o->name, text);
    if (!(*number >= o->min && *number <= o->max))
        return qg_fail(QG_EARG, "%s %s is not in %.16g..%.16g", o->name, text, o->min, o->max);
    *number += 0.0;                             /* -0 is 0 */
    if (whole) snprintf(canonical, QG_RECIPE_VALUE_BYTES, "%.0f", *number);
    else qg__number_print_double(canonical, *number);
    return QG_OK;
}

static qg_status parse_word(const qg_recipe_key *o, const char *text, double *index)
{
    char      hint[QG__NEAREST_BYTES];
    const int i = index_of_word(o->value, text);
    *index      = i;
    if (i >= 0) return QG_OK;
    return qg_fail(QG_EARG, "%s '%s' is not one of %s%s", o->name, text, o->value,
                   qg__list_nearest(o->value, text, strlen(text), hint));
}

static qg_status parse_flag(const qg_recipe_key *o, const char *text, double *flag)
{
    *flag = !strcmp(text, "true");
    return *flag != 0 || !strcmp(text, "false") ? QG_OK : qg_fail(QG_EARG, "%s '%s' must be true or false", o->name, text);
}

/* As the kind says; *value: the number, the index of the word, or whether a flag is set. */
static qg_status parse_kind(const qg_recipe_key *o, const char *text, double *value, char canonical[QG_RECIPE_VALUE_BYTES])
{
    *value = 0;
    if (o->kind == QG_RECIPE_INTEGER || o->kind == QG_RECIPE_REAL) return parse_number(o, text, value, canonical);
    snprintf(canonical, QG_RECIPE_VALUE_BYTES, "%s", text);
    if (o->kind == QG_RECIPE_FLAG) return parse_flag(o, text, value);
    if (!*text) return qg_fail(QG_EARG, "%s: the value is empty", o->name);
    return o->kind == QG_RECIPE_WORD ? parse_word(o, text, value) : QG_OK;
}

/* As a bool, an int or a uint64_t, a float or a double: as large as the field. */
static void store(qg_recipe_kind kind, double value, void *to, size_t bytes)
{
    if (kind == QG_RECIPE_FLAG) *(bool *)to = value != 0;
    else if (kind == QG_RECIPE_WORD) memcpy(to, &(const int){ (int)value }, sizeof(int));
    else if (kind == QG_RECIPE_INTEGER && bytes == sizeof(int)) *(int *)to = (int)value;
    else if (kind == QG_RECIPE_INTEGER) *(uint64_t *)to = (uint64_t)value;
    else if (kind == QG_RECIPE_REAL && bytes == sizeof(float)) *(float *)to = (float)value;
    else if (kind == QG_RECIPE_REAL) *(double *)to = value;
}

qg_status qg__recipe_key_parse(const qg_recipe_key *o, const char *text, qg_recipe *r, char canonical[QG_RECIPE_VALUE_BYTES])
{
    const qg__recipe_field *f = o->field;
    double                  value;
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            return qg_fail(QG_EARG, "%s: the value contains a control character", o->name);
    if (strlen(text) >= QG_RECIPE_VALUE_BYTES)
        return qg_fail(QG_EARG, "%s: the value is longer than %d bytes", o->name, QG_RECIPE_VALUE_BYTES - 1);
    void          *to   = f ? (char *)r + f->at : NULL;
    const unsigned role = f ? role_named(o->name, strlen(o->name)) : 0;
    if (role || (f && f->parse)) {
        const qg_status status = role ? parse_scheme(text, role, to, canonical, QG_RECIPE_VALUE_BYTES)
                                      : f->parse(text, to, canonical, QG_RECIPE_VALUE_BYTES);
        return status ? qg_fail(status, "%s: %s", o->name, qg_errmsg()) : QG_OK;
    }
    const qg_status status = parse_kind(o, text, &value, canonical);
    if (!status && f) store(o->kind, value, to, f->bytes);
    return status;
}

qg_status qg_recipe_key_check(const qg_recipe_key *key, const char *text, char canonical[QG_RECIPE_VALUE_BYTES])
{
    qg_recipe scratch = { 0 };
    return qg__recipe_key_parse(key, text, &scratch, canonical);
}
