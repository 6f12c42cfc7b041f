#include "datasets/sets.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/io/hash.h"
#include "core/io/number.h"
#include "core/io/paths.h"
#include "datasets/image.h"
#include "datasets/normalise.h"

static const qg_shape MNIST_IMAGE = { .n = 1, .h = 28, .w = 28, .c = 1 };

enum { NOISE_TRAIN = 8192, NOISE_TEST = 1024, NOISE_CLASSES = 10 };

static qg_loader *noise(const char *dir, bool test, qg_loader_spec spec)
{
    return qg_synthetic(MNIST_IMAGE, test ? NOISE_TEST : NOISE_TRAIN, NOISE_CLASSES, spec);
}

/* --- a folder ----------------------------------------------------------------------------- */

/* The directory of a split is not in that of the set. */
static void explain_layout(const char *dir, const char *split)
{
    if (qg_errcode() == QG_EIO && access(split, F_OK) && !access(dir, F_OK))
        (void)qg_fail(QG_EIO, "%s; the images are read from train/CLASS and test/CLASS", qg_errmsg());
}

static qg_loader *open_folder(const qg__data *d, const char *dir, bool test, qg_loader_spec spec)
{
    char split[QG__PATH_BYTES];
    if (!dir)
        return qg__refuse(QG_EARG, "the data set folder needs --data-dir, the directory that contains train "
                          "and test; or name another set as --data.  A run that was imported without images "
                          "has none of its own");
    if (qg__path_join(dir, test ? "test" : "train", split)) return NULL;
    qg_loader *l = qg_folder(split, d->image, spec);
    if (!l) explain_layout(dir, split);
    return l;
}

qg_status qg__data_check_classes(const qg__data *d, const char *dir)
{
    char train[QG__PATH_BYTES], test[QG__PATH_BYTES];
    if (d->open != open_folder || !dir) return QG_OK;
    if (qg__path_join(dir, "train", train) || qg__path_join(dir, "test", test)) return QG_EARG;
    const qg_status status = qg__folder_same_classes(train, test);
    if (status) explain_layout(dir, test);
    return status;
}

/* --- arrays ------------------------------------------------------------------------------- */

/* By qg__data.file: two for each split. */
enum { IMAGES, LABELS };
enum { TRAIN, TEST, VALIDATION, SPLITS };
static const char *const array_names[QG__ARRAY_FILES] = { "train", "train-labels", "test", "test-labels",
                                                          "validation", "validation-labels" };

static const qg_key array_keys[] = {
    { .name = "classes", .max = QG_MAX_CLASSES, .is = QG_KEY_WHOLE, .about = "how many; 0: as many as the labels need" },
    { .name = NULL }
};

static bool has_files(const qg__data *d)
{
    for (int i = 0; i < QG__ARRAY_FILES; i++)
        if (*d->file[i]) return true;
    return false;
}

void qg__data_forget_files(qg__data *d) { memset(d->file, 0, sizeof d->file); }

/* The path of a file; NULL: none is given, or it is too long. */
static const char *array_path(const qg__data *d, const char *dir, int split, int what,
                              char path[QG__PATH_BYTES])
{
    const char *name = d->file[2 * split + what];
    if (!*name && has_files(d)) qg_fail(QG_EARG, "arrays: %s is missing", array_names[2 * split + what]);
    else if (!*name)
        qg_fail(QG_EARG, "arrays: a checkpoint does not choose files to read; name them with --data, or a "
                "run by its directory, whose config.toml names them");
    if (!*name || qg__path_join(dir && *name != '/' ? dir : ".", name, path)) return NULL;
    if (!dir || *name == '/') snprintf(path, QG__PATH_BYTES, "%s", name);
    return path;
}

/* All splits have the classes that the labels of any need. */
static qg_status count_classes(const qg__data *d, const char *dir, int *classes)
{
    char path[QG__PATH_BYTES];
    int  n;
    *classes = d->classes;
    for (int split = 0; split < SPLITS && !d->classes; split++) {
        if (!*d->file[2 * split + LABELS]) continue;
        if (!array_path(d, dir, split, LABELS, path)) return QG_EARG;
        const qg_status status = qg__npy_classes(path, &n);
        if (status) return status;
        if (n > *classes) *classes = n;
    }
    return QG_OK;
}

static qg_loader *open_split(const qg__data *d, const char *dir, int split, qg_loader_spec spec)
{
    char path[2][QG__PATH_BYTES];
    int  classes;
    for (int i = 0; i < 2; i++)
        if (!array_path(d, dir, split, i, path[i])) return NULL;
    if (count_classes(d, dir, &classes)) return NULL;
    qg_loader *l = qg_npy(path[IMAGES], path[LABELS], classes, spec);
    if (l || qg_errcode() != QG_ESHAPE) return l;
    return qg__refuse(QG_ESHAPE, "%s: %s", array_names[2 * split], qg_errmsg());
}

static qg_loader *open_arrays(const qg__data *d, const char *dir, bool test, qg_loader_spec spec)
{
    const bool validates = !test && *d->file[2 * VALIDATION];
    if (validates && (spec.validation.images || spec.validation.share != 0))
        return qg__refuse(QG_EARG, "validation: arrays has such images already, so no others are held out");
    qg_loader *l = open_split(d, dir, test ? TEST : TRAIN, spec);
    if (!l || !validates) return l;
    qg_loader_spec held = qg__loader_validates(l);
    held.classes   = spec.classes;
    held.n_classes = spec.n_classes;
    qg_loader *validation = open_split(d, dir, VALIDATION, held);
    if (validation) return qg__loader_adopt(l, validation), l;
    qg_loader_free(l);
    return NULL;
}

/* Takes "key=value" if it names a file. */
static qg_status take_file(qg__data *d, const char *item, size_t n, bool *taken)
{
    *taken = true;
    for (int i = 0; i < QG__ARRAY_FILES; i++) {
        const size_t key = strlen(array_names[i]);
        if (n <= key || strncmp(item, array_names[i], key) || item[key] != '=') continue;
        if (*d->file[i]) return qg_fail(QG_EARG, "arrays: %s is given twice", array_names[i]);
        const int length = (int)(n - key - 1);
        if (length < 1 || length >= QG__ARRAY_BYTES)
            return qg_fail(QG_EARG, "arrays: the path of %s is %s", array_names[i],
                           length ? "too long" : "empty");
        snprintf(d->file[i], QG__ARRAY_BYTES, "%.*s", length, item + key + 1);
        return QG_OK;
    }
    *taken = false;
    return QG_OK;
}

/* "train=a.npy,train-labels=b.npy,..,classes=10" */
static qg_status parse_arrays(qg__data *d, const char *text, char *canonical, size_t bytes)
{
    char   rest[256] = "", number[QG_KEY_BYTES * 2];
    double value[QG_MAX_VALUES];
    bool   taken;
    for (size_t n; *text; text += n + (text[n] == ',')) {
        n = strcspn(text, ",");
        if (take_file(d, text, n, &taken)) return QG_EARG;
        if (taken) continue;
        const bool classes = !strncmp(text, "classes=", 8);
        if (classes && *rest) return qg_fail(QG_EARG, "arrays: classes is given twice");
        if (!classes)
            return qg_fail(QG_EARG,
                           "arrays: unknown option '%.*s'; available: train, train-labels, test, "
                           "test-labels, validation, validation-labels, classes",
                           (int)(n < 64 ? n : 64), text);
        snprintf(rest, sizeof rest, "%.*s", (int)n, text);
    }
    if (qg_keys_parse("arrays", *rest ? rest : NULL, array_keys, value)) return QG_EARG;
    for (int i = 0; i < QG__ARRAY_FILES; i += 2)
        if (!*d->file[i] != !*d->file[i + 1])
            return qg_fail(QG_EARG, "arrays: %s needs %s", array_names[*d->file[i] ? i : i + 1],
                           array_names[*d->file[i] ? i + 1 : i]);
    if (!has_files(d))
        return qg_fail(QG_EARG, "arrays: the files are missing, as in "
                                "arrays:train=a.npy,train-labels=b.npy,test=c.npy,test-labels=d.npy");
    d->classes = (int)value[0];
    qg_keys_print(NULL, array_keys, value, number, sizeof number);
    int at = snprintf(canonical, bytes, "arrays:");
    for (int i = 0; i < QG__ARRAY_FILES; i++)
        if (*d->file[i])
            at += snprintf(canonical + at, bytes - (size_t)at, "%s%s=%s", canonical[at - 1] == ':' ? "" : ",",
                           array_names[i], d->file[i]);
    if (*number) snprintf(canonical + at, bytes - (size_t)at, ",%s", number);
    return QG_OK;
}

/* --- the sets ----------------------------------------------------------------------------- */

#define CLASSES(n)                                                                                     \
    { { .name = "classes", .max = (n) - 1, .is = QG_KEY_WHOLE | QG_KEY_ANY_ORDER, .most = (n),              \
        .about = "use only these classes, as in 0+1+7; they become classes 0, 1, .." },                     \
      { .name = NULL } }

static const qg_key ten_classes[] = CLASSES(10), hundred_classes[] = CLASSES(100);

const qg_variant qg_data_sets[] = {
    { "mnist", "60,000 + 10,000 handwritten digits, 28x28", ten_classes },
    { "fashion-mnist", "60,000 + 10,000 pictures of clothes, 28x28, in the files of mnist", ten_classes },
    { "cifar10", "50,000 + 10,000 photographs, 32x32x3, 10 classes", ten_classes },
    { "cifar100", "50,000 + 10,000 photographs, 32x32x3, 100 classes", hundred_classes },
    { "folder", "PNG, JPEG and BMP files in train/CLASS and test/CLASS of data-dir, resized", qg__image_keys },
    { "arrays", "train=FILE,train-labels=FILE,test=FILE,test-labels=FILE: arrays of NumPy in data-dir", array_keys },
    { "sample", "2,000 + 500 pictures of clothes, 28x28, in the repository", ten_classes },
    { "synthetic", "noise of the size of mnist, for measuring speed", ten_classes },
    { .name = NULL },
};

/* What there is of each besides its name and keys, in the same order. */
static const qg__data sets[] = {
    { .dir = "datasets/mnist", .how = "datasets/fetch.sh mnist", .image = { 1, 28, 28, 1 }, .classes = 10,
      .read = qg__mnist },
    { .dir = "datasets/fashion-mnist", .how = "datasets/fetch.sh fashion-mnist", .image = { 1, 28, 28, 1 },
      .classes = 10, .read = qg__mnist },
    { .dir = "datasets/cifar10", .how = "datasets/fetch.sh cifar10", .image = { 1, 32, 32, 3 }, .classes = 10,
      .read = qg__cifar10 },
    { .dir = "datasets/cifar100", .image = { 1, 32, 32, 3 }, .classes = 100, .read = qg__cifar100 },
    { .image = { 1, 32, 32, 3 }, .open = open_folder },
    { .open = open_arrays },
    { .dir = "datasets/sample", .image = { 1, 28, 28, 1 }, .classes = 10, .read = qg__sample },
    { .image = { 1, 28, 28, 1 }, .classes = 10, .read = noise },
};

_Static_assert(sizeof sets / sizeof *sets == sizeof qg_data_sets / sizeof *qg_data_sets - 1,
               "the tables have the same rows");

static void choose(qg__data *d, int n, const double *classes)
{
    for (int i = 0; i < n; i++) d->chosen[i] = (uint16_t)classes[i];
    d->n_chosen = n;
    if (n) d->classes = n;
}

qg_status qg__data_parse(const char *text, qg__data *d, char *canonical, size_t bytes)
{
    double      value[QG_MAX_VALUES];
    const char *colon = strchr(text, ':'), *options = colon ? colon + 1 : NULL;
    int         i;
    if (qg__variants_find("data set", text, qg_data_sets, &i)) return QG_EARG;
    const qg_key *keys = qg_data_sets[i].keys;
    *d                 = sets[i];
    d->name            = qg_data_sets[i].name;
    if (d->open == open_arrays) return parse_arrays(d, options ? options : "", canonical, bytes);
    if (qg_keys_parse(d->name, options, keys, value)) return QG_EARG;
    if (d->open) d->image = (qg_shape){ 1, (int)value[1], (int)value[2], (int)value[3] };
    else choose(d, (int)value[0], value + 1);
    if (d->image.c != 1 && d->image.c != 3)
        return qg_fail(QG_EARG, "%s: images have 1 or 3 channels, not %d", d->name, d->image.c);
    qg_keys_print(d->name, keys, value, canonical, bytes);
    return QG_OK;
}

bool qg__data_is_folder(const qg__data *d) { return d->open == open_folder; }

qg_shape qg__data_image(const qg__data *d, const char *dir)
{
    char     path[QG__PATH_BYTES];
    qg_shape s = d->image;
    if (d->open != open_arrays || s.h) return s;
    for (int split = 0; split < SPLITS; split++) {
        if (!*d->file[2 * split + IMAGES]) continue;
        if (!array_path(d, dir, split, IMAGES, path) || qg__npy_shape(path, &s)) break;
        s.n = 1;
        return s;
    }
    return (qg_shape){ 0 };
}

/* The files of a set are not there.  An installed program has the script that fetches them elsewhere. */
static qg_status absent(const qg__data *d, bool by_default)
{
    const char *pass = "pass the directory of the data set as --data-dir";
    char        script[QG__PATH_BYTES], found[QG__PATH_BYTES];
    if (!d->how) return qg_fail(QG_EIO, "%s; %s", qg_errmsg(), pass);
    const int n = (int)strcspn(d->how, " ");
    snprintf(script, sizeof script, "%.*s", n, d->how);
    qg__share_find(script, found);
    const char *shell = strcmp(script, found) ? "sh " : "";
    if (by_default) return qg_fail(QG_EIO, "%s; %s%s%s fetches it", qg_errmsg(), shell, found, d->how + n);
    return qg_fail(QG_EIO, "%s; %s, or fetch it with %s%s%s", qg_errmsg(), pass, shell, found, d->how + n);
}

static bool has_nothing(const char *dir)
{
    struct dirent **name;
    const int       n = qg__names(dir, &name);
    if (n >= 0) qg__names_free(name, n);
    return n == 0 || access(dir, F_OK);
}

qg_loader *qg__data_open(const qg__data *d, const char *dir, bool test, qg_loader_spec spec)
{
    char       path[QG__PATH_BYTES];
    const bool by_default = !dir;
    if (!dir && d->dir) {
        qg__share_find(d->dir, path);
        dir = path;
    }
    if (d->n_chosen && spec.n_classes) {
        (void)qg_fail(QG_EARG, "%s: the text names classes, and so do .classes", d->name);
        return NULL;
    }
    if (d->n_chosen) {
        spec.classes   = d->chosen;
        spec.n_classes = d->n_chosen;
    }
    qg_loader *l = d->open ? d->open(d, dir, test, spec) : d->read(dir, test, spec);
    if (!l && qg_errcode() == QG_EIO && (!dir || has_nothing(dir))) (void)absent(d, by_default);
    return l;
}

uint64_t qg__data_digest(const qg_loader *train, const qg_loader *test)
{
    const uint64_t digest[] = { qg__loader_digest(train), qg__loader_digest(test) };
    return qg_hash(QG_HASH_BASIS, digest, sizeof digest);
}

static qg_loader *open_text(const char *text, const char *dir, bool test, qg_loader_spec spec)
{
    qg__data d;
    char     canonical[QG__DATA_TEXT];
    if (!text) return qg__refuse(QG_EARG, "the name of the data set is NULL");
    return qg__data_parse(text, &d, canonical, sizeof canonical) ? NULL : qg__data_open(&d, dir, test, spec);
}

qg_loader *qg_data_train(const char *text, const char *dir, qg_loader_spec spec)
{
    return open_text(text, dir, false, spec);
}
qg_loader *qg_data_test(const char *text, const char *dir, qg_loader_spec spec)
{
    return open_text(text, dir, true, spec);
}

/* In the order of CIFAR-10's batches.meta.txt, and of Fashion-MNIST's labels (1708.07747v2, table 2). */
enum { KNOWN_CLASSES = 10 };
static const char *const photographs[KNOWN_CLASSES] = { "airplane", "automobile", "bird", "cat", "deer",
                                                        "dog", "frog", "horse", "ship", "truck" };
static const char *const clothes[KNOWN_CLASSES]     = { "T-shirt", "trouser", "pullover", "dress", "coat",
                                                        "sandal", "shirt", "sneaker", "bag", "ankle boot" };

static const struct known {
    const char        *data;
    const char *const *name;
} known[] = { { "cifar10", photographs }, { "fashion-mnist", clothes }, { "sample", clothes } };

const char *qg_data_class(const char *name, int k)
{
    for (size_t i = 0; name && k >= 0 && k < KNOWN_CLASSES && i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].data, name)) return known[i].name[k];
    return NULL;
}

qg_shape qg_data_image(const char *text, const char *dir, int *classes)
{
    qg__data d;
    char     canonical[QG__DATA_TEXT];
    if (classes) *classes = 0;
    if (!text) return qg__fail_null(QG_EARG, "the name of the data set"), (qg_shape){ 0 };
    if (qg__data_parse(text, &d, canonical, sizeof canonical)) return (qg_shape){ 0 };
    if (classes) *classes = d.classes;
    return qg__data_image(&d, dir);
}

/* --- what is done to the images ----------------------------------------------------------- */

/* By qg_augment; 0 is off. */
enum { ROTATE, SCALE, PAD, BORDER, FLIP, CUTOUT };
const qg_key qg_augment_keys[] = {
    { .name = "rotate", .max = 180, .is = QG_KEY_ABOVE_MIN, .about = "turn by up to so many degrees" },
    { .name = "scale", .max = 0.5, .is = QG_KEY_ABOVE_MIN, .about = "0.1: to 0.9..1.1 times the size" },
    { .name = "pad", .min = 1, .max = 4096, .is = QG_KEY_WHOLE,
      .about = "pixels added on each side before a random crop" },
    { .name = "border", .words = "zero|reflect|repeat",
      .about = "what rotate, scale and pad show of the outside" },
    { .name = "flip", .max = 1, .is = QG_KEY_FLAG, .about = "mirror half of the images" },
    { .name = "cutout", .min = 1, .max = 4096, .is = QG_KEY_WHOLE, .about = "side of a square that is set to 0" },
    { .name = NULL }
};

qg_status qg__augment_parse(const char *text, void *augment, char *canonical, size_t bytes)
{
    double value[QG_MAX_KEYS];
    if (qg_keys_parse("augmentation", strcmp(text, "none") ? text : NULL, qg_augment_keys, value))
        return QG_EARG;
    if (value[BORDER] != 0 && value[ROTATE] == 0 && value[SCALE] == 0 && value[PAD] == 0)
        return qg_fail(QG_EARG, "augmentation: border has no effect without rotate, scale or pad");
    *(qg_augment *)augment = (qg_augment){ .rotate = (float)value[ROTATE],
                                           .scale  = (float)value[SCALE],
                                           .pad    = (int)value[PAD],
                                           .border = (qg_border)value[BORDER],
                                           .flip   = value[FLIP] != 0,
                                           .cutout = (int)value[CUTOUT] };
    qg_keys_print(NULL, qg_augment_keys, value, canonical, bytes);
    if (!*canonical) snprintf(canonical, bytes, "none");
    return QG_OK;
}

qg_status qg__holdout_parse(const char *text, void *holdout, char *canonical, size_t bytes)
{
    const size_t n       = strcspn(text, "%");
    const bool   percent = text[n] == '%';
    double       value;
    char         number[QG_NUMBER_BYTES];
    const bool   is = qg__number_read(text, n, &value) && !(percent && text[n + 1]) && value >= 0;
    if (!is || (percent ? value >= 100 : value > INT_MAX || value != (int)value))
        return qg_fail(QG_EARG,
                       "'%s' is neither a number of images nor a percentage below 100%%; write 5000 or 10%%",
                       text);
    *(qg_holdout *)holdout =
        percent ? (qg_holdout){ .share = value / 100 } : (qg_holdout){ .images = (int)value };
    qg__number_print(number, 9, value);
    if (percent) snprintf(canonical, bytes, "%s%%", number);
    else snprintf(canonical, bytes, "%d", (int)value);
    return QG_OK;
}
