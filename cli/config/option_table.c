#include "cli/config/options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/config/config.h"

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

static qg_status parse_image(const char *text, void *value, char *canonical, size_t bytes)
{
    qg_shape       *s      = value;
    const qg_status status = qg__image_parse(text, s);
    if (!status) snprintf(canonical, bytes, "%dx%dx%d", s->h, s->w, s->c);
    return status;
}

/* --- the table ---------------------------------------------------------------------------- */

/* A key of a recipe, an option of its own, and the address of its value. */
#define KEY(name)                .key = &qg__recipe_keys[QG__KEY_##name]
#define OWN(name_, kind_, ...)   .key = &(const qg__option){ .name = name_, .kind = kind_, __VA_ARGS__ }
#define AT(field)                .at = offsetof(config, field), .bytes = sizeof((config *)0)->field

const option options[] = {
    { KEY(MODEL) },
    { KEY(DATA) },
    { KEY(NORMALISE) },
    { KEY(AUGMENT) },
    { KEY(VALIDATION) },
    { KEY(WEIGHT) },
    { KEY(INPUT) },
    { KEY(GRADIENT) },
    { KEY(FIRST_LAST) },
    { KEY(LAYER) },
    { KEY(QUANTIZE_AFTER) },
    { KEY(QUANTIZE_WEIGHTS_AFTER) },
    { KEY(FOLD_BATCHNORM) },
    { KEY(FREEZE_BATCHNORM_AFTER) },
    { KEY(REESTIMATE_BATCHNORM) },
    { KEY(NORM_SYNC) },
    { KEY(EPOCHS) },
    { KEY(PATIENCE) },
    { KEY(BATCH) },
    { KEY(LOSS) },
    { KEY(LABEL_SMOOTHING) },
    { KEY(OPTIMIZER) },
    { KEY(LR) },
    { KEY(MOMENTUM) },
    { KEY(NESTEROV) },
    { KEY(BETA1) },
    { KEY(BETA2) },
    { KEY(GAMMA) },
    { KEY(THRESHOLD) },
    { KEY(WEIGHT_DECAY) },
    { KEY(CLIP_NORM) },
    { KEY(EMA) },
    { KEY(NORM_DECAY) },
    { KEY(NORM_LR_SCALE) },
    { KEY(QUANTIZER_DECAY) },
    { KEY(QUANTIZER_LR_SCALE) },
    { KEY(SCHEDULE) },
    { KEY(SEED) },
    { KEY(DATA_DIR) },
    { KEY(THREADS) },
    { KEY(CACHE) },
    { OWN("out", QG__TEXT, AT(out), .value = "PATH",
      .help = "the run directory; default: runs/MODEL-WEIGHT-CHANGES-SEED or\n"
              "runs/RECIPE/CHANGES-seed-SEED, and a number where that exists") },
    { OWN("resume", QG__FLAG, AT(resume),
      .help = "continue from the last checkpoint; without --out, that of the\n"
              "newest unfinished run with these options") },
    { OWN("force", QG__FLAG, AT(force),
      .help = "rename an existing run directory") },
    { OWN("budget", QG__VALUE, AT(budget), .value = "TIME", .parse = qg__duration_parse,
      .help = "save and stop after this time, with exit status 3: 50m, 90s, 1h") },
    { OWN("watch", QG__FLAG, AT(watch),
      .help = "print the share of codes that flipped, and of zeros, of each layer\n"
              "after each epoch") },
    { OWN("config", QG__TEXT, AT(file), .value = "FILE",
      .help = "read options from a file; the command line takes precedence") },
    { KEY(RECIPE) },
    { OWN("init", QG__TEXT, AT(init), .value = "RUN",
      .help = "start from the last weights of a run, or from a safetensors file") },
    { KEY(INIT_EXCEPT) },
    { KEY(FREEZE) },
    { KEY(TEACHER) },
    { KEY(DISTIL) },
    { KEY(DATA_DIGEST) },
    { KEY(CLASS_DIGEST) },
    { KEY(EPOCH_STEPS) },
    { KEY(RANKS) },
    { KEY(INIT_DIGEST) },
    { KEY(TEACHER_DIGEST) },
    { KEY(INIT_RECIPE) },
    { KEY(REPRODUCES) },
    { KEY(REPORTED) },
    { KEY(PROVENANCE) },
    { KEY(DEVIATIONS) },
    { OWN("add", QG__TEXT, AT(add), .value = "DIR",
      .help = "copy the logs of a finished run to results/ first") },
    { OWN("check", QG__FLAG, AT(check),
      .help = "write nothing; fail if the page does not match the logs") },
    { OWN("run", QG__TEXT, AT(run), .value = "DIR",
      .help = "the run directory, or a checkpoint of its own; required") },
    { OWN("calibrate", QG__INTEGER, AT(calibrate), .value = "N", .min = 1, .max = 1e9,
      .help = "training images that set observed ranges and the statistics\n"
              "of batch norms; default: 512, or all") },
    { OWN("best", QG__FLAG, AT(best),
      .help = "use best.safetensors instead of last.safetensors") },
    { OWN("confusion", QG__FLAG, AT(confusion),
      .help = "print which classes are taken for which: a matrix, or of more\n"
              "than 20 classes the most frequent confusions") },
    { OWN("per-class", QG__FLAG, AT(per_class),
      .help = "print recall and precision of each class") },
    { OWN("worst", QG__INTEGER, AT(worst), .value = "N", .max = 1e6,
      .help = "print the N worst mistakes, those whose label is the least\n"
              "probable; in --json 10 if it is not given") },
    { OWN("top", QG__INTEGER, AT(top), .value = "N", .min = 1, .max = 1e6, .fallback = "3",
      .help = "classes per image, the most probable ones first") },
    { OWN("histogram", QG__FLAG, AT(histogram),
      .help = "show the latent weights of each layer as bars") },
    { OWN("image", QG__VALUE, AT(image), .value = "HxWxC", .parse = parse_image,
      .help = "image size, as 32x32x3; bench generates such images") },
    { OWN("seconds", QG__REAL, AT(seconds), .value = "X", .min = 0.01, .max = 86400, .fallback = "6",
      .help = "how long to measure") },
    { OWN("link", QG__LIST, AT(links), .value = "LINK", .parse = parse_link,
      .help = "project from this process alone for nodes that are joined so, as\n"
              "in latency=50,gbits=10: microseconds of an empty message, and\n"
              "Gbit/s; repeatable") },
    { OWN("to", QG__WORD, AT(to), .value = "packed", .fallback = "packed",
      .help = "the format: packed, which qgrad infer and libqgrad_infer.a run") },
    { OWN("packed", QG__TEXT, AT(packed), .value = "FILE",
      .help = "the file that qgrad export wrote; required") },
    { OWN("requantize", QG__WORD, AT(requantize), .value = "evaluate|tflite", .fallback = "evaluate",
      .help = "how sums of 8-bit products become codes: as in qgrad eval, or by\n"
              "TFLite's fixed-point operator") },
    { OWN("profile", QG__FLAG, AT(profile),
      .help = "show the time spent in each op, or step") },
    { OWN("paper", QG__FLAG, AT(paper),
      .help = "also check formulas that papers print but that are not\n"
              "derivatives") },
    { OWN("markdown", QG__FLAG, AT(markdown),
      .help = "print all schemes as in docs/schemes.md") },
    { OWN("jobs", QG__INTEGER, AT(jobs), .value = "N", .min = 1, .max = 1024, .fallback = "1",
      .help = "trainings at the same time; each gets cores / N threads, unless\n"
              "--threads is given") },
    { OWN("array", QG__INTEGER, AT(array), .value = "N", .min = 1, .max = 10000,
      .help = "train the N-th combination alone, as in a job array of Slurm") },
    { OWN("list", QG__FLAG, AT(list),
      .help = "print the combinations with their numbers, and train nothing") },
    { OWN("sort", QG__TEXT, AT(sort), .value = "COLUMN",
      .help = "sort by this column of the table: accuracies from the highest,\n"
              "others upwards; default: run") },
    { OWN("role", QG__WORD, AT(role), .value = "any|weight|input|gradient", .fallback = "any",
      .help = "the operand that is quantized; any: the first that the scheme\n"
              "is for") },
    { OWN("csv", QG__FLAG, AT(csv),
      .help = "print a table as CSV") },
    { OWN("json", QG__FLAG, AT(json),
      .help = "print one JSON object on stdout and nothing else") },
    { OWN("help", QG__FLAG, AT(help),
      .help = "print this text") },
    { KEY(DEFAULTS) },
};

_Static_assert(sizeof options / sizeof *options == OPTIONS, "the table has OPTIONS rows");

const option *option_find(const char *name)
{
    for (int i = 0; i < OPTIONS; i++)
        if (!strcmp(options[i].key->name, name)) return &options[i];
    return NULL;
}

unsigned    option_use(const option *o) { return o->key->use; }
bool        option_is_of_recipe(const option *o) { return o->key->use & QG__SAVED; }

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
    { "data-dir", .first = true }, { "budget", .first = true }, { "watch" }, { "init", .first = true }, { "init-except" },
    { "freeze" }, { "teacher" }, { "distil" }, { NULL }
};

const verb_option common_options[] = { { "json", .first = true }, { "help", .first = true }, { NULL } };
