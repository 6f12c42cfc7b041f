/* The keys of a recipe: what each is called, which values it takes, and what it is by default. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/io/number.h"
#include "core/kernels/parallel.h"
#include "layers/layer.h"
#include "layers/models/text.h"
#include "quant/engine.h"
#include "train/distil.h"
#include "train/recipe_keys.h"

/* --- models and schemes by name ----------------------------------------------------------- */

static qg_status parse_net(const char *text, qg__chosen_model *m, char *canonical, size_t bytes)
{
    if (qg_net_text_check(text)) return QG_EARG;
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

qg_status qg__model_parse(const char *text, qg__chosen_model *m, char *canonical, size_t bytes)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":"), text);
    *m = (qg__chosen_model){ .type = qg_model_find(name) };
    if (!m->type || is_model_in_capitals(name)) {
        char names[QG__VALUE_BYTES] = "";
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
        const int i  = qg_keys_find(keys, qg_model_keys[k], strlen(qg_model_keys[k]));
        m->option[k] = i < 0 ? 0 : value[i];
    }
    qg_keys_print(name, keys, value, canonical, bytes);
    return QG_OK;
}

void qg__model_names(char *text, size_t bytes)
{
    for (const qg_model *const *m = qg_models; *m; m++) qg__list_append(text, bytes, (*m)->name);
}

qg_status qg__scheme_parse(const char *text, qg_role role, qg_quant *out, char *canonical, size_t bytes)
{
    const qg_status s = qg_quant_parse(text, role, out);
    if (!s) qg_quant_print(*out, canonical, bytes);
    return s;
}

/* The role in "conv1:weight=SCHEME"; 0: there is none. */
static unsigned use_of_choice(const char *text)
{
    const size_t n    = strcspn(text, ":");
    const char  *rest = text[n] ? text + n + 1 : "";
    unsigned     use  = 0;
    for (int i = 0; i < QG_ROLES; i++) {
        const size_t length = strlen(qg_role_name(qg_roles[i]));
        if (!strncmp(rest, qg_role_name(qg_roles[i]), length) && rest[length] == '=') use = qg_roles[i];
    }
    return n ? use : 0;
}

qg_status qg__scheme_rewrite(const char *name, const char *text, int from, int to, char *out, size_t bytes)
{
    unsigned use = 0;
    for (int i = 0; i < QG_ROLES; i++)
        if (!strcmp(name, qg_role_name(qg_roles[i]))) use = qg_roles[i];
    const bool   choice = !use && (use = use_of_choice(text)) != 0;
    const size_t before = choice ? strcspn(text, "=") + 1 : 0;
    qg_quant     q;
    if (!use) return snprintf(out, bytes, "%s", text), QG_OK;       /* who parses it refuses it */
    if (qg__quant_parse_as(from, text + before, (qg_role)use, &q)) return QG_EARG;
    snprintf(out, bytes, "%.*s", (int)before, text);
    if (before < bytes) qg__quant_print_as(to, q, out + before, bytes - before);
    return QG_OK;
}

qg_status qg__choice_parse(const char *text, qg_choice *out, char name[QG__LAYER_NAME],
                       char *canonical, size_t bytes)
{
    const size_t   n = strcspn(text, ":"), key = strcspn(text, "=");
    const unsigned use = use_of_choice(text);
    if (n == 0 || n >= QG__LAYER_NAME || use == 0)
        return qg_fail(QG_EARG,
                       "'%s' is not LAYER:weight=SCHEME, LAYER:input=SCHEME or LAYER:gradient=SCHEME",
                       text);
    char     spelt[QG__VALUE_BYTES];
    qg_quant q;
    if (qg__scheme_parse(text + key + 1, (qg_role)use, &q, spelt, sizeof spelt)) return QG_EARG;
    snprintf(name, QG__LAYER_NAME, "%.*s", (int)n, text);
    snprintf(canonical, bytes, "%s:%s=%s", name, qg_role_name(use), spelt);
    *out = (qg_choice){ .layer        = name,
                        .has_weight   = use == QG_WEIGHT,
                        .has_input    = use == QG_INPUT,
                        .has_gradient = use == QG_GRADIENT };
    *(use == QG_WEIGHT ? &out->weight : use == QG_INPUT ? &out->input : &out->gradient) = q;
    return QG_OK;
}

/* --- values of the library's types: an option's parse --------------------------------------- */

static qg_status parse_model(const char *text, void *value, char *canonical, size_t bytes)
{
    qg__chosen_model *m = value;
    return qg__model_parse(text, m, canonical, bytes);
}

static qg_status parse_data(const char *text, void *value, char *canonical, size_t bytes)
{
    return qg__data_parse(text, value, canonical, bytes);
}

static qg_status parse_normalise(const char *text, void *value, char *canonical, size_t bytes)
{
    return qg__normalise_parse(text, value, canonical, bytes);
}

static qg_status parse_augment(const char *text, void *value, char *canonical, size_t bytes)
{
    return qg__augment_parse(text, value, canonical, bytes);
}

static qg_status parse_validation(const char *text, void *value, char *canonical, size_t bytes)
{
    return qg__holdout_parse(text, value, canonical, bytes);
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
    return qg__scheme_parse(text, QG_WEIGHT, value, canonical, bytes);
}

static qg_status parse_input(const char *text, void *value, char *canonical, size_t bytes)
{
    return qg__scheme_parse(text, QG_INPUT, value, canonical, bytes);
}

static qg_status parse_gradient(const char *text, void *value, char *canonical, size_t bytes)
{
    return qg__scheme_parse(text, QG_GRADIENT, value, canonical, bytes);
}

/* Adds an exception; it replaces an earlier one for the same operand of the same layer. */
static qg_status parse_layer(const char *text, void *value, char *canonical, size_t bytes)
{
    qg__exceptions *all = value;
    qg__exception   e;
    if (qg__choice_parse(text, &e.choice, e.layer, canonical, bytes)) return QG_EARG;
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

qg_status qg__duration_parse(const char *text, void *value, char *canonical, size_t bytes)
{
    double      *seconds = value;
    const size_t n       = strcspn(text, "hms");
    const double unit    = text[n] == 'h' ? 3600 : text[n] == 'm' ? 60 : 1;
    if (!qg__number_read(text, n, seconds) || (text[n] && text[n + 1]) || !(*seconds >= 0) || !isfinite(*seconds * unit))
        return qg_fail(QG_EARG, "'%s' is not a duration; write 90s, 50m, 1h or a number of seconds", text);
    *seconds *= unit;
    char number[QG_NUMBER_BYTES];
    qg__number_print(number, 9, *seconds);
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
    if (!qg__number_read(text, n, &number) || (unit && text[n + 1]) || !(number >= 0) || number * times > 0x1p52)
        return qg_fail(QG_EARG, "'%s' is not a size; write 1G, 512M, 64K or a number of bytes", text);
    *to = number * times < 1 ? 1 : (size_t)(number * times);
    int k = 0;
    for (size_t rest = *to; k < 3 && rest % 1024 == 0; rest /= 1024) k++;
    snprintf(canonical, bytes, "%zu%.*s", *to == 1 ? 0 : *to >> 10 * k, k > 0, k ? units + k - 1 : "");
    return QG_OK;
}

/* --- the table ---------------------------------------------------------------------------- */

/* The address of a key's value. */
#define AT(field) offsetof(qg_recipe, field), sizeof((qg_recipe *)0)->field

const qg__option qg__recipe_keys[] = {
    [QG__KEY_MODEL] = { "model", QG__VALUE, QG__IDENTITY, AT(model), "NAME", .parse = parse_model,
      .help = "the net; required" },
    [QG__KEY_DATA] = { "data", QG__VALUE, QG__IDENTITY,
      AT(data), "NAME", .parse = parse_data, .fallback = "mnist",
      .help = "the data set" },
    [QG__KEY_NORMALISE] = { "normalise", QG__VALUE, QG__IDENTITY,
      AT(normalise), "KIND", .parse = parse_normalise, .fallback = "unit",
      .help = "how bytes become floats, as in range:low=-1,high=1" },
    [QG__KEY_AUGMENT] = { "augment", QG__VALUE, QG__IDENTITY | QG__COMMAS,
      AT(augment), "LIST", .parse = parse_augment, .fallback = "none",
      .help = "augmentation of the training images, as in pad=4,flip" },
    [QG__KEY_VALIDATION] = { "validation", QG__VALUE, QG__IDENTITY,
      AT(validation), "N", .parse = parse_validation,
      .help = "hold out training images, 5000 or 10%, by which the best epoch is\n"
              "chosen; the test images are then read once, at the end" },
    [QG__KEY_WEIGHT] = { "weight", QG__VALUE, QG__IDENTITY | QG__QUANTIZES | QG__SCHEMES,
      AT(weight), "SCHEME", .parse = parse_weight, .fallback = "float",
      .help = "quantizer of the weights" },
    [QG__KEY_INPUT] = { "input", QG__VALUE, QG__IDENTITY | QG__QUANTIZES | QG__SCHEMES,
      AT(input), "SCHEME", .parse = parse_input, .fallback = "float",
      .help = "quantizer of the inputs of all layers except the first;\n"
              "in tfc, sfc and lfc of the first as well" },
    [QG__KEY_GRADIENT] = { "gradient", QG__VALUE, QG__IDENTITY | QG__QUANTIZES | QG__SCHEMES,
      AT(gradient), "SCHEME", .parse = parse_gradient, .fallback = "float",
      .help = "quantizer of the gradients of the layers' outputs" },
    [QG__KEY_FIRST_LAST] = { "first-last", QG__WORD, QG__IDENTITY | QG__QUANTIZES,
      AT(first_last), "float|quantized",
      .help = "float: do not quantize the first and last layers; default: float with\n"
              "dorefa, xnor, bnn, binaryconnect, ste-tern and unit, else quantized" },
    [QG__KEY_LAYER] = { "layer", QG__LIST, QG__IDENTITY | QG__QUANTIZES | QG__SCHEMES,
      AT(exceptions), "LAYER:weight=SCHEME", .parse = parse_layer,
      .help = "an exception for one layer (or :input=, :gradient=); repeatable" },
    [QG__KEY_QUANTIZE_AFTER] = { "quantize-after", QG__INTEGER, QG__IDENTITY | QG__QUANTIZES,
      AT(quantize_after), "N|Nepochs", .parse = parse_delay, .fallback = "0",
      .help = "steps, or epochs, before the input quantizers start" },
    [QG__KEY_QUANTIZE_WEIGHTS_AFTER] = { "quantize-weights-after", QG__INTEGER, QG__IDENTITY | QG__QUANTIZES,
      AT(quantize_weights_after), "N|Nepochs", .parse = parse_delay,
      .help = "steps, or epochs, before the weight quantizers start" },
    [QG__KEY_FOLD_BATCHNORM] = { "fold-batchnorm", QG__FLAG, QG__IDENTITY | QG__QUANTIZES,
      AT(fold_batchnorm),
      .help = "fold batch norms into the weights before quantizing them" },
    [QG__KEY_FREEZE_BATCHNORM_AFTER] = { "freeze-batchnorm-after", QG__INTEGER, QG__IDENTITY,
      AT(freeze_batchnorm_after), "N|Nepochs", .parse = parse_delay, .fallback = "0",
      .help = "steps, or epochs, after which batch norms use fixed running\n"
              "statistics; 0: never" },
    [QG__KEY_REESTIMATE_BATCHNORM] = { "reestimate-batchnorm", QG__WORD, QG__IDENTITY | QG__QUANTIZES,
      AT(reestimate), "off|on", .fallback = "on", .absent = "off",
      .help = "estimate the running statistics of batch norms anew after each\n"
              "epoch, before the test, if weights are quantized" },
    [QG__KEY_NORM_SYNC] = { "norm-sync", QG__WORD, QG__IDENTITY, AT(norm_sync), "on|off",
      .help = "off: on several ranks, batch norms use the statistics of each\n"
              "rank's own images; default: on" },
    [QG__KEY_EPOCHS] = { "epochs", QG__INTEGER, QG__IDENTITY | QG__EXTENDS,
      AT(epochs), "N", .min = 1, .max = MAX_EPOCHS, .fallback = "10",
      .help = "passes over the training images; with --resume more of them extend\n"
              "a run" },
    [QG__KEY_PATIENCE] = { "patience", QG__INTEGER, QG__IDENTITY | QG__EXTENDS,
      AT(patience), "N", .max = 100000,
      .help = "end after N epochs without a higher accuracy of the test images,\n"
              "or of those of --validation; 0: never" },
    [QG__KEY_BATCH] = { "batch", QG__INTEGER, QG__IDENTITY,
      AT(batch), "N", .min = 1, .max = 65536, .fallback = "64",
      .help = "images per step" },
    [QG__KEY_LOSS] = { "loss", QG__WORD, QG__IDENTITY,
      AT(loss), "cross-entropy|squared-hinge", .fallback = "cross-entropy",
      .help = "the loss function" },
    [QG__KEY_LABEL_SMOOTHING] = { "label-smoothing", QG__REAL, QG__IDENTITY,
      AT(label_smoothing), "X", .max = 0.999,
      .help = "share of the label that cross entropy gives to all classes" },
    [QG__KEY_OPTIMIZER] = { "optimizer", QG__WORD, QG__IDENTITY | QG__OPTIMIZES,
      AT(optimizer), "sgd|adam|bop", .fallback = "sgd",
      .help = "the optimizer; bop goes with --weight bop" },
    [QG__KEY_LR] = { "lr", QG__REAL, QG__IDENTITY | QG__OPTIMIZES,
      AT(lr), "X", .min = 1e-9, .max = 1000,
      .help = "learning rate" },
    [QG__KEY_MOMENTUM] = { "momentum", QG__REAL, QG__IDENTITY | QG__OPTIMIZES,
      AT(momentum), "X", .max = 0.9999,
      .help = "momentum of sgd" },
    [QG__KEY_NESTEROV] = { "nesterov", QG__FLAG, QG__IDENTITY | QG__OPTIMIZES, AT(nesterov),
      .help = "use Nesterov momentum in sgd" },
    [QG__KEY_BETA1] = { "beta1", QG__REAL, QG__IDENTITY | QG__OPTIMIZES,
      AT(beta1), "X", .min = 1e-9, .max = 0.999999,
      .help = "beta1 of adam" },
    [QG__KEY_BETA2] = { "beta2", QG__REAL, QG__IDENTITY | QG__OPTIMIZES,
      AT(beta2), "X", .min = 1e-9, .max = 0.999999,
      .help = "beta2 of adam" },
    [QG__KEY_GAMMA] = { "gamma", QG__REAL, QG__IDENTITY | QG__OPTIMIZES,
      AT(gamma), "X", .min = 1e-12, .max = 1,
      .help = "bop: weight of the newest gradient in the moving average" },
    [QG__KEY_THRESHOLD] = { "threshold", QG__REAL, QG__IDENTITY | QG__OPTIMIZES,
      AT(threshold), "X", .min = 1e-30, .max = 1e6,
      .help = "bop: moving average at which a weight flips" },
    [QG__KEY_WEIGHT_DECAY] = { "weight-decay", QG__REAL, QG__IDENTITY | QG__OPTIMIZES,
      AT(weight_decay), "X", .max = 10, .fallback = "0",
      .help = "weight decay" },
    [QG__KEY_CLIP_NORM] = { "clip-norm", QG__REAL, QG__IDENTITY, AT(clip_norm), "X", .max = 1e9,
      .help = "clip the norm of all gradients together; 0: off" },
    [QG__KEY_EMA] = { "ema", QG__REAL, QG__IDENTITY, AT(ema), "X", .max = 0.999999,
      .help = "test and save moving averages of the weights, with this decay;\n"
              "0: off" },
    [QG__KEY_NORM_DECAY] = { "norm-decay", QG__REAL, QG__IDENTITY,
      AT(norms.weight_decay), "X", .max = 10, .fallback = "0",
      .help = "weight decay of batch norms" },
    [QG__KEY_NORM_LR_SCALE] = { "norm-lr-scale", QG__REAL, QG__IDENTITY,
      AT(norms.lr_scale), "X", .min = 1e-6, .max = 1e6, .fallback = "1",
      .help = "learning rate of batch norms, as a multiple of --lr" },
    [QG__KEY_QUANTIZER_DECAY] = { "quantizer-decay", QG__REAL, QG__IDENTITY | QG__QUANTIZES,
      AT(quantizers.weight_decay), "X", .max = 10, .fallback = "0",
      .help = "weight decay of learned quantizer parameters, unless the\n"
              "scheme sets its own" },
    [QG__KEY_QUANTIZER_LR_SCALE] = { "quantizer-lr-scale", QG__REAL, QG__IDENTITY | QG__QUANTIZES,
      AT(quantizers.lr_scale), "X", .min = 1e-6, .max = 1e6, .fallback = "1",
      .help = "learning rate of learned quantizer parameters, as a multiple\n"
              "of --lr" },
    [QG__KEY_SCHEDULE] = { "schedule", QG__VALUE, QG__IDENTITY | QG__EXTENDS,
      AT(schedule), "TEXT", .parse = parse_schedule, .fallback = "constant",
      .help = "learning rate over the run, as in cosine:warmup=0.05" },
    [QG__KEY_SEED] = { "seed", QG__INTEGER, QG__IDENTITY | QG__PER_RUN,
      AT(seed), "N", .max = MAX_SEED, .fallback = "1",
      .help = "seed of weights, shuffling and noise" },
    [QG__KEY_DATA_DIR] = { "data-dir", QG__TEXT, QG__SAVED, AT(data_dir), "DIR",
      .help = "the directory of the data set" },
    [QG__KEY_THREADS] = { "threads", QG__INTEGER, QG__SAVED,
      AT(threads), "N", .max = QG_MAX_THREADS, .fallback = "0",
      .help = "number of threads; 0: OMP_NUM_THREADS if set, else one per\n"
              "core; does not change the results" },
    [QG__KEY_CACHE] = { "cache", QG__VALUE, QG__SAVED, AT(cache), "SIZE", .parse = parse_bytes,
      .help = "memory for the images of a folder, as 1G or 512M; the others are\n"
              "decoded when they are needed; does not change the results;\n"
              "default: all images, or a quarter of the memory if they take\n"
              "more than half" },
    [QG__KEY_RECIPE] = { "recipe", QG__TEXT, QG__SAVED, AT(named), "NAME", .parse = parse_recipe,
      .help = "read options from examples/recipes/NAME.toml, here or where qgrad\n"
              "is installed" },
    [QG__KEY_INIT_EXCEPT] = { "init-except", QG__TEXT, QG__IDENTITY, AT(init_except), "LAYERS",
      .help = "layers that do not start from --init, as in conv1,fc2" },
    [QG__KEY_FREEZE] = { "freeze", QG__TEXT, QG__IDENTITY, AT(freeze), "LAYERS",
      .help = "layers that are neither trained nor calibrated, as in\n"
              "conv1,conv2" },
    [QG__KEY_TEACHER] = { "teacher", QG__TEXT, QG__SAVED, AT(teacher_run), "RUN",
      .help = "also learn from the scores of a run, or of a checkpoint" },
    [QG__KEY_DISTIL] = { "distil", QG__VALUE, QG__IDENTITY | QG__COMMAS,
      AT(teacher), "LIST", .parse = parse_distil,
      .help = "how to learn from the teacher, as in temperature=4,weight=0.9" },
    [QG__KEY_DATA_DIGEST] = { "data-digest", QG__TEXT, QG__IDENTITY | QG__PER_RUN,
      AT(data_digest), "DIGEST",
      .help = "of the images and labels" },
    [QG__KEY_CLASS_DIGEST] = { "class-digest", QG__TEXT, QG__IDENTITY | QG__PER_RUN,
      AT(class_digest), "DIGEST",
      .help = "of the class names" },
    [QG__KEY_EPOCH_STEPS] = { "epoch-steps", QG__INTEGER, QG__IDENTITY | QG__PER_RUN,
      AT(epoch_steps), "N", .min = 1, .max = MAX_SEED,
      .help = "of an epoch, if a delay counts epochs" },
    [QG__KEY_RANKS] = { "ranks", QG__INTEGER, QG__IDENTITY | QG__PER_RUN,
      AT(ranks), "N", .min = 1, .max = 16,
      .help = "with norm-sync off" },
    [QG__KEY_INIT_DIGEST] = { "init-digest", QG__TEXT, QG__IDENTITY | QG__PER_RUN,
      AT(init_digest), "DIGEST",
      .help = "of the weights that --init loaded" },
    [QG__KEY_TEACHER_DIGEST] = { "teacher-digest", QG__TEXT, QG__IDENTITY | QG__PER_RUN,
      AT(teacher_digest), "DIGEST",
      .help = "of the teacher's weights" },
    [QG__KEY_INIT_RECIPE] = { "init-recipe", QG__TEXT, QG__SAVED,
      AT(init_recipe), "NAME", .parse = parse_recipe,
      .help = "the recipe that trains the initial weights; --init must name\n"
              "one of its runs" },
    [QG__KEY_REPRODUCES] = { "reproduces", QG__TEXT, QG__SAVED, AT(reproduces), "TEXT",
      .help = "the paper or replication whose result it reproduces" },
    [QG__KEY_REPORTED] = { "reported", QG__TEXT, QG__SAVED, AT(reported), "TEXT",
      .help = "the number reported there" },
    [QG__KEY_PROVENANCE] = { "provenance", QG__WORD, QG__SAVED,
      AT(provenance), "paper|code|replication|memory",
      .help = "where that number was read" },
    [QG__KEY_DEVIATIONS] = { "deviations", QG__TEXT, QG__SAVED, AT(deviations), "TEXT",
      .help = "what differs from the source" },
    [QG__KEY_DEFAULTS] = { "defaults", QG__INTEGER, QG__SAVED,
      AT(defaults), "N", .min = 1, .max = QG_DEFAULTS,
      .help = "version of the schemes' defaults" },
};

_Static_assert(sizeof qg__recipe_keys / sizeof *qg__recipe_keys == QG__RECIPE_KEYS, "every key has a row");

const qg__option *qg__recipe_key(const char *name)
{
    for (int i = 0; i < QG__RECIPE_KEYS; i++)
        if (!strcmp(qg__recipe_keys[i].name, name)) return &qg__recipe_keys[i];
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
static void store_number(const qg__option *o, double number, void *value)
{
    const bool whole = o->kind == QG__INTEGER;
    if (whole && o->bytes == sizeof(int)) *(int *)value = (int)number;
    else if (whole) *(uint64_t *)value = (uint64_t)number;
    else if (o->bytes == sizeof(float)) *(float *)value = (float)number;
    else *(double *)value = number;
}

static qg_status parse_number(const qg__option *o, const char *text, void *value, char canonical[QG__VALUE_BYTES])
{
    double     number;
    const bool whole = o->kind == QG__INTEGER;
    if (!qg__number_read(text, strlen(text), &number) || (whole && text[strspn(text, "+-0123456789")]))
        return qg_fail(QG_EARG, "%s '%s' is not a %s", o->name, text, whole ? "whole number" : "number");
    if (o->kind == QG__REAL && o->min > 0 && number <= 0) return qg_fail(QG_EARG, "%s must be positive, not %s", o->name, text);
    if (!(number >= o->min && number <= o->max))
        return qg_fail(QG_EARG, "%s %s is not in %.16g..%.16g", o->name, text, o->min, o->max);
    number += 0.0;                              /* -0 is 0 */
    if (whole) snprintf(canonical, QG__VALUE_BYTES, "%.0f", number);
    else qg__number_print_double(canonical, number);
    store_number(o, number, value);
    return QG_OK;
}

static qg_status parse_word(const qg__option *o, const char *text, void *value)
{
    const int i = index_of_word(o->value, text);
    if (!*text) return qg_fail(QG_EARG, "%s: the value is empty", o->name);
    char      hint[QG__NEAREST_BYTES];
    if (i < 0)
        return qg_fail(QG_EARG, "%s '%s' is not one of %s%s", o->name, text, o->value,
                       qg__list_nearest(o->value, text, strlen(text), hint));
    memcpy(value, &i, sizeof i);
    return QG_OK;
}

static qg_status parse_flag(const qg__option *o, const char *text, bool *value)
{
    *value = !strcmp(text, "true");
    return *value || !strcmp(text, "false") ? QG_OK
                                            : qg_fail(QG_EARG, "%s '%s' must be true or false", o->name, text);
}

qg_status qg__option_parse(const qg__option *o, const char *text, void *value, char canonical[QG__VALUE_BYTES])
{
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            return qg_fail(QG_EARG, "%s: the value contains a control character", o->name);
    if (strlen(text) >= QG__VALUE_BYTES)
        return qg_fail(QG_EARG, "%s: the value is longer than %d bytes", o->name, QG__VALUE_BYTES - 1);
    if (!o->parse && (o->kind == QG__INTEGER || o->kind == QG__REAL)) return parse_number(o, text, value, canonical);
    if (o->parse) {
        const qg_status status = o->parse(text, value, canonical, QG__VALUE_BYTES);
        return status ? qg_fail(status, "%s: %s", o->name, qg_errmsg()) : QG_OK;
    }
    snprintf(canonical, QG__VALUE_BYTES, "%s", text);
    if (o->kind == QG__FLAG) return parse_flag(o, text, value);
    if (o->kind == QG__WORD) return parse_word(o, text, value);
    return *text ? QG_OK : qg_fail(QG_EARG, "%s: the value is empty", o->name);
}
