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
    const qg_status status = qg_image_parse(text, s);
    if (!status) snprintf(canonical, bytes, "%dx%dx%d", s->h, s->w, s->c);
    return status;
}

/* --- the table ---------------------------------------------------------------------------- */

enum { STEPS = VERB_TRAIN | VERB_BENCH | VERB_SCALING };       /* the verbs that take steps */

/* A key of a recipe, and an option of its own; the address of its value. */
#define KEY(name)                .key = &qg__recipe_keys[QG__KEY_##name]
#define OWN(name_, kind_, ...)   .key = &(const qg__option){ .name = name_, .kind = kind_, __VA_ARGS__ }
#define AT(field)                .at = offsetof(config, field), .bytes = sizeof((config *)0)->field

const option options[] = {
    { KEY(MODEL), NETS },
    { KEY(DATA), NETS | VERB_EVAL | VERB_PACKED,
      "the data set;\n"
      "of infer: the data set; default: that of the net" },
    { KEY(NORMALISE), STEPS },
    { KEY(AUGMENT), STEPS },
    { KEY(VALIDATION), VERB_TRAIN },
    { KEY(WEIGHT), NETS | VERB_EVAL | VERB_QUANTIZE },
    { KEY(INPUT), NETS | VERB_QUANTIZE },
    { KEY(GRADIENT), NETS },
    { KEY(FIRST_LAST), NETS | VERB_QUANTIZE },
    { KEY(LAYER), NETS | VERB_QUANTIZE },
    { KEY(QUANTIZE_AFTER), NETS },
    { KEY(QUANTIZE_WEIGHTS_AFTER), NETS },
    { KEY(FOLD_BATCHNORM), NETS | VERB_QUANTIZE },
    { KEY(FREEZE_BATCHNORM_AFTER), NETS },
    { KEY(REESTIMATE_BATCHNORM), VERB_TRAIN },
    { KEY(NORM_SYNC), STEPS },
    { KEY(EPOCHS), VERB_TRAIN },
    { KEY(PATIENCE), VERB_TRAIN },
    { KEY(BATCH), STEPS | VERB_PACKED,
      "images per step;\n"
      "of infer: images that pass through the net together;\n"
      "of bench packed: images that pass through the net together" },
    { KEY(LOSS), STEPS },
    { KEY(LABEL_SMOOTHING), STEPS },
    { KEY(OPTIMIZER), STEPS },
    { KEY(LR), STEPS },
    { KEY(MOMENTUM), STEPS },
    { KEY(NESTEROV), STEPS },
    { KEY(BETA1), STEPS },
    { KEY(BETA2), STEPS },
    { KEY(GAMMA), STEPS },
    { KEY(THRESHOLD), STEPS },
    { KEY(WEIGHT_DECAY), STEPS },
    { KEY(CLIP_NORM), STEPS },
    { KEY(EMA), VERB_TRAIN },
    { KEY(NORM_DECAY), STEPS },
    { KEY(NORM_LR_SCALE), STEPS },
    { KEY(QUANTIZER_DECAY), STEPS },
    { KEY(QUANTIZER_LR_SCALE), STEPS },
    { KEY(SCHEDULE), STEPS },
    { KEY(SEED), NETS | VERB_QUANTIZE },
    { KEY(DATA_DIR), VERB_TRAIN | VERB_EVAL | VERB_QUANTIZE | VERB_INSPECT | VERB_BENCH | VERB_PACKED },
    { KEY(THREADS), STEPS | VERB_EVAL | VERB_QUANTIZE | VERB_PREDICT | VERB_PEAK | VERB_PACKED },
    { KEY(CACHE), STEPS | VERB_EVAL | VERB_QUANTIZE | VERB_PACKED },
    { OWN("out", QG__TEXT, AT(out), .value = "PATH",
      .help = "the run directory; default: runs/MODEL-WEIGHT-CHANGES-SEED or\n"
              "runs/RECIPE/CHANGES-seed-SEED, and a number where that exists;\n"
              "of quantize: the new run directory; default: that of --run and -quantized;\n"
              "of sweep: the directory of its runs; default: runs/sweep-MODEL-CHANGES-LISTS;\n"
              "of report: the page; default: report.html in the run;\n"
              "of export: the file, also -o; required;\n"
              "of plot: a directory for pictures of all schemes;\n"
              "of bench scaling: a picture of the table, as SVG"), VERB_TRAIN | VERB_QUANTIZE | VERB_REPORT | VERB_EXPORT | VERB_PLOT | VERB_SCALING },
    { OWN("resume", QG__FLAG, AT(resume),
      .help = "continue from the last checkpoint; without --out, that of the\n"
              "newest unfinished run with these options"), VERB_TRAIN | TRAINS_ALONE },
    { OWN("force", QG__FLAG, AT(force),
      .help = "rename an existing run directory;\n"
              "of results: replace logs of other images or options, of another commit or more epochs"), VERB_TRAIN | TRAINS_ALONE | VERB_RESULTS },
    { OWN("budget", QG__VALUE, AT(budget), .value = "TIME", .parse = qg__duration_parse,
      .help = "save and stop after this time, with exit status 3: 50m, 90s, 1h"), VERB_TRAIN },
    { OWN("watch", QG__FLAG, AT(watch),
      .help = "print the share of codes that flipped, and of zeros, of each layer\n"
              "after each epoch"), VERB_TRAIN },
    { OWN("config", QG__TEXT, AT(file), .value = "FILE",
      .help = "read options from a file; the command line takes precedence"), NETS },
    { KEY(RECIPE), NETS },
    { OWN("init", QG__TEXT, AT(init), .value = "RUN",
      .help = "start from the last weights of a run, or from a safetensors file"), VERB_TRAIN },
    { KEY(INIT_EXCEPT), VERB_TRAIN },
    { KEY(FREEZE), VERB_TRAIN | VERB_QUANTIZE },
    { KEY(TEACHER), VERB_TRAIN },
    { KEY(DISTIL), VERB_TRAIN },
    { KEY(DATA_DIGEST), 0 },
    { KEY(CLASS_DIGEST), 0 },
    { KEY(EPOCH_STEPS), 0 },
    { KEY(RANKS), 0 },
    { KEY(INIT_DIGEST), 0 },
    { KEY(TEACHER_DIGEST), 0 },
    { KEY(INIT_RECIPE), 0 },
    { KEY(REPRODUCES), 0 },
    { KEY(REPORTED), 0 },
    { KEY(PROVENANCE), 0 },
    { KEY(DEVIATIONS), 0 },
    { OWN("add", QG__TEXT, AT(add), .value = "DIR",
      .help = "copy the logs of a finished run to results/ first"), VERB_RESULTS },
    { OWN("check", QG__FLAG, AT(check),
      .help = "write nothing; fail if the page does not match the logs"), VERB_RESULTS },
    { OWN("run", QG__TEXT, AT(run), .value = "DIR",
      .help = "the run directory, or a checkpoint of its own; required;\n"
              "of predict: the run directory, or a checkpoint of its own; this or\n"
              "--packed is required;\n"
              "of inspect: the run directory, or a checkpoint of its own, in place of DIR;\n"
              "of infer: a run, or a checkpoint, whose scores are compared with those of\n"
              "the packed net"), VERB_EVAL | VERB_PREDICT | VERB_QUANTIZE | VERB_INSPECT | VERB_EXPORT | VERB_PACKED },
    { OWN("calibrate", QG__INTEGER, AT(calibrate), .value = "N", .min = 1, .max = 1e9,
      .help = "training images that set observed ranges and the statistics\n"
              "of batch norms; default: 512, or all"), VERB_QUANTIZE },
    { OWN("best", QG__FLAG, AT(best),
      .help = "use best.safetensors instead of last.safetensors"), VERB_EVAL | VERB_PREDICT | VERB_QUANTIZE | VERB_INSPECT | VERB_EXPORT | VERB_PACKED },
    { OWN("confusion", QG__FLAG, AT(confusion),
      .help = "print which classes are taken for which: a matrix, or of more\n"
              "than 20 classes the most frequent confusions"), VERB_EVAL },
    { OWN("per-class", QG__FLAG, AT(per_class),
      .help = "print recall and precision of each class"), VERB_EVAL },
    { OWN("worst", QG__INTEGER, AT(worst), .value = "N", .max = 1e6,
      .help = "print the N worst mistakes, those whose label is the least\n"
              "probable; in --json 10 if it is not given"), VERB_EVAL },
    { OWN("top", QG__INTEGER, AT(top), .value = "N", .min = 1, .max = 1e6, .fallback = "3",
      .help = "classes per image, the most probable ones first"), VERB_PREDICT },
    { OWN("histogram", QG__FLAG, AT(histogram),
      .help = "show the latent weights of each layer as bars"), VERB_INSPECT },
    { OWN("image", QG__VALUE, AT(image), .value = "HxWxC", .parse = parse_image,
      .help = "image size, as 32x32x3; bench generates such images"), VERB_BENCH | VERB_SCALING | VERB_SUMMARY },
    { OWN("seconds", QG__REAL, AT(seconds), .value = "X", .min = 0.01, .max = 86400, .fallback = "6",
      .help = "how long to measure;\n"
              "of bench scaling: how long to measure each line of the table, twice"), VERB_BENCH | VERB_SCALING | VERB_PEAK | VERB_INFER },
    { OWN("link", QG__LIST, AT(links), .value = "LINK", .parse = parse_link,
      .help = "project from this process alone for nodes that are joined so, as\n"
              "in latency=50,gbits=10: microseconds of an empty message, and\n"
              "Gbit/s; repeatable"), VERB_SCALING },
    { OWN("to", QG__WORD, AT(to), .value = "packed", .fallback = "packed",
      .help = "the format: packed, which qgrad infer and libqgrad_infer.a run"), VERB_EXPORT },
    { OWN("packed", QG__TEXT, AT(packed), .value = "FILE",
      .help = "the file that qgrad export wrote; required;\n"
              "of predict: the file that qgrad export wrote, in place of --run"), VERB_PACKED | VERB_PREDICT },
    { OWN("requantize", QG__WORD, AT(requantize), .value = "evaluate|tflite", .fallback = "evaluate",
      .help = "how sums of 8-bit products become codes: as in qgrad eval, or by\n"
              "TFLite's fixed-point operator"), VERB_PACKED },
    { OWN("profile", QG__FLAG, AT(profile),
      .help = "show the time spent in each op, or step"), VERB_BENCH | VERB_PACKED },
    { OWN("paper", QG__FLAG, AT(paper),
      .help = "also check formulas that papers print but that are not\n"
              "derivatives"), VERB_GRADCHECK },
    { OWN("markdown", QG__FLAG, AT(markdown),
      .help = "print all schemes as in docs/schemes.md"), VERB_EXPLAIN },
    { OWN("jobs", QG__INTEGER, AT(jobs), .value = "N", .min = 1, .max = 1024, .fallback = "1",
      .help = "trainings at the same time; each gets cores / N threads, unless\n"
              "--threads is given"), VERB_SWEEP },
    { OWN("array", QG__INTEGER, AT(array), .value = "N", .min = 1, .max = 10000,
      .help = "train the N-th combination alone, as in a job array of Slurm"), VERB_SWEEP },
    { OWN("list", QG__FLAG, AT(list),
      .help = "print the combinations with their numbers, and train nothing"), VERB_SWEEP },
    { OWN("sort", QG__TEXT, AT(sort), .value = "COLUMN",
      .help = "sort by this column of the table: accuracies from the highest,\n"
              "others upwards; default: run"), VERB_RUNS },
    { OWN("role", QG__WORD, AT(role), .value = "any|weight|input|gradient", .fallback = "any",
      .help = "the operand that is quantized; any: the first that the scheme\n"
              "is for"), VERB_PLOT },
    { OWN("csv", QG__FLAG, AT(csv),
      .help = "print a table as CSV"), VERB_RUNS | VERB_SWEEP | VERB_PLOT },
    { OWN("json", QG__FLAG, AT(json),
      .help = "print one JSON object on stdout and nothing else"), VERBS },
    { OWN("help", QG__FLAG, AT(help),
      .help = "print this text"), VERBS },
    { KEY(DEFAULTS), 0 },
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
const char *option_help(const option *o) { return o->help ? o->help : o->key->help; }
