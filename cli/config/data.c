#include "cli/config/data.h"

#include <string.h>
#include <unistd.h>

#include "cli/config/options.h"
#include "cli/config/share.h"
#include "core/io/hash.h"
#include "core/io/paths.h"
#include "datasets/image.h"
#include "datasets/normalise.h"

static const qg_shape MNIST_IMAGE = { .n = 1, .h = 28, .w = 28, .c = 1 };

enum { NOISE_TRAIN = 8192, NOISE_TEST = 1024, NOISE_CLASSES = 10 };

static qg_loader *noise_train(const char *dir, qg_loader_spec spec)
{
    (void)dir;
    return qg_synthetic(MNIST_IMAGE, NOISE_TRAIN, NOISE_CLASSES, spec);
}

static qg_loader *noise_test(const char *dir, qg_loader_spec spec)
{
    (void)dir;
    return qg_synthetic(MNIST_IMAGE, NOISE_TEST, NOISE_CLASSES, spec);
}

/* --- a folder ----------------------------------------------------------------------------- */

/* The directory of a split is not in that of the set. */
static void explain_layout(const char *dir, const char *split)
{
    if (qg_errcode() == QG_EIO && access(split, F_OK) && !access(dir, F_OK))
        (void)qg_fail(QG_EIO, "%s; the images are read from train/CLASS and test/CLASS", qg_errmsg());
}

static qg_loader *open_folder(const data_set *d, const char *dir, bool test, qg_loader_spec spec)
{
    char split[QG__PATH_BYTES];
    if (!dir) {
        qg_fail(QG_EARG, "the data set folder needs --data-dir, the directory that contains train and test");
        return NULL;
    }
    if (qg__path_join(dir, test ? "test" : "train", split)) return NULL;
    qg_loader *l = qg_folder(split, d->image, spec);
    if (!l) explain_layout(dir, split);
    return l;
}

qg_status data_check_classes(const data_set *d, const char *dir)
{
    char train[QG__PATH_BYTES], test[QG__PATH_BYTES];
    if (d->open != open_folder || !dir) return QG_OK;
    if (qg__path_join(dir, "train", train) || qg__path_join(dir, "test", test)) return QG_EARG;
    const qg_status status = qg_folder_same_classes(train, test);
    if (status) explain_layout(dir, test);
    return status;
}

/* --- arrays ------------------------------------------------------------------------------- */

/* By data_set.file, and by the index of the split. */
enum { IMAGES, LABELS };
static const char *const array_names[ARRAY_FILES] = { "train", "train-labels", "test", "test-labels" };

static const qg_key array_keys[] = {
    { .name = "classes", .max = QG_MAX_CLASSES, .is = QG_KEY_WHOLE, .about = "how many; 0: as many as the labels need" },
    { .name = NULL }
};

static bool has_files(const data_set *d)
{
    for (int i = 0; i < ARRAY_FILES; i++)
        if (*d->file[i]) return true;
    return false;
}

void data_forget_files(data_set *d) { memset(d->file, 0, sizeof d->file); }

/* The path of a file; NULL: none is given, or it is too long. */
static const char *array_path(const data_set *d, const char *dir, bool test, int what, char path[QG__PATH_BYTES])
{
    const char *name = d->file[2 * test + what];
    if (!*name && has_files(d)) qg_fail(QG_EARG, "arrays: %s is missing", array_names[2 * test + what]);
    else if (!*name) qg_fail(QG_EARG, "arrays: a checkpoint does not choose files to read; name them with --data, or a run by "
                             "its directory, whose config.toml names them");
    if (!*name || qg__path_join(dir && *name != '/' ? dir : ".", name, path)) return NULL;
    if (!dir || *name == '/') snprintf(path, QG__PATH_BYTES, "%s", name);
    return path;
}

/* Both splits have the classes that the labels of either need. */
static qg_status count_classes(const data_set *d, const char *dir, int *classes)
{
    char path[QG__PATH_BYTES];
    int  n;
    *classes = d->classes;
    for (int test = 0; test < 2 && !d->classes; test++) {
        if (!*d->file[2 * test + LABELS]) continue;
        const qg_status status = array_path(d, dir, test, LABELS, path) ? qg_npy_classes(path, &n) : QG_EARG;
        if (status) return status;
        if (n > *classes) *classes = n;
    }
    return QG_OK;
}

static qg_loader *open_arrays(const data_set *d, const char *dir, bool test, qg_loader_spec spec)
{
    char path[2][QG__PATH_BYTES];
    int  classes;
    for (int i = 0; i < 2; i++)
        if (!array_path(d, dir, test, i, path[i])) return NULL;
    return count_classes(d, dir, &classes) ? NULL : qg_npy(path[IMAGES], path[LABELS], classes, spec);
}

/* Takes "key=value" if it names a file. */
static qg_status take_file(data_set *d, const char *item, size_t n, bool *taken)
{
    *taken = true;
    for (int i = 0; i < ARRAY_FILES; i++) {
        const size_t key = strlen(array_names[i]);
        if (n <= key || strncmp(item, array_names[i], key) || item[key] != '=') continue;
        if (*d->file[i]) return qg_fail(QG_EARG, "arrays: %s is given twice", array_names[i]);
        const int length = (int)(n - key - 1);
        if (length < 1 || length >= ARRAY_BYTES)
            return qg_fail(QG_EARG, "arrays: the path of %s is %s", array_names[i], length ? "too long" : "empty");
        snprintf(d->file[i], ARRAY_BYTES, "%.*s", length, item + key + 1);
        return QG_OK;
    }
    *taken = false;
    return QG_OK;
}

/* "train=a.npy,train-labels=b.npy,..,classes=10" */
static qg_status parse_arrays(data_set *d, const char *text, char *canonical, size_t bytes)
{
    char   rest[256] = "", number[QG_KEY_BYTES * 2];
    double value[QG_MAX_VALUES];
    bool   taken;
    for (size_t n; *text; text += n + (text[n] == ',')) {
        n = strcspn(text, ",");
        if (take_file(d, text, n, &taken)) return QG_EARG;
        if (taken) continue;
        if (strncmp(text, "classes=", 8) || *rest)
            return qg_fail(QG_EARG, "arrays: unknown option '%.*s'; available: train, train-labels, test, test-labels, classes",
                           (int)(n < 64 ? n : 64), text);
        snprintf(rest, sizeof rest, "%.*s", (int)n, text);
    }
    if (qg_keys_parse("arrays", *rest ? rest : NULL, array_keys, value)) return QG_EARG;
    for (int i = 0; i < ARRAY_FILES; i += 2)
        if (!*d->file[i] != !*d->file[i + 1])
            return qg_fail(QG_EARG, "arrays: %s needs %s", array_names[*d->file[i] ? i : i + 1], array_names[*d->file[i] ? i + 1 : i]);
    if (!has_files(d))
        return qg_fail(QG_EARG, "arrays: the files are missing, as in arrays:train=a.npy,train-labels=b.npy,test=c.npy,test-labels=d.npy");
    d->classes = (int)value[0];
    qg_keys_print(NULL, array_keys, value, number, sizeof number);
    int at = snprintf(canonical, bytes, "arrays:");
    for (int i = 0; i < ARRAY_FILES; i++)
        if (*d->file[i])
            at += snprintf(canonical + at, bytes - (size_t)at, "%s%s=%s", canonical[at - 1] == ':' ? "" : ",", array_names[i], d->file[i]);
    if (*number) snprintf(canonical + at, bytes - (size_t)at, ",%s", number);
    return QG_OK;
}

/* --- the sets ----------------------------------------------------------------------------- */

#define CLASSES(n)                                                                                     \
    { { .name = "classes", .max = (n) - 1, .is = QG_KEY_WHOLE | QG_KEY_ANY_ORDER, .most = (n),              \
        .about = "use only these classes, as in 0+1+7; they become classes 0, 1, .." },                     \
      { .name = NULL } }

static const qg_key ten_classes[] = CLASSES(10), hundred_classes[] = CLASSES(100);

static const data_set sets[] = {
    { "mnist", "60,000 + 10,000 handwritten digits, 28x28", "datasets/mnist",
      "datasets/fetch.sh mnist", { 1, 28, 28, 1 }, 10, qg_mnist_train, qg_mnist_test, .keys = ten_classes },
    { "fashion-mnist", "60,000 + 10,000 pictures of clothes, 28x28, in the files of mnist",
      "datasets/fashion-mnist", "datasets/fetch.sh fashion-mnist", { 1, 28, 28, 1 }, 10, qg_mnist_train, qg_mnist_test, .keys = ten_classes },
    { "cifar10", "50,000 + 10,000 photographs, 32x32x3, 10 classes", "datasets/cifar10",
      "datasets/fetch.sh cifar10", { 1, 32, 32, 3 }, 10, qg_cifar10_train, qg_cifar10_test, .keys = ten_classes },
    { "cifar100", "50,000 + 10,000 photographs, 32x32x3, 100 classes", "datasets/cifar100",
      NULL, { 1, 32, 32, 3 }, 100, qg_cifar100_train, qg_cifar100_test, .keys = hundred_classes },
    { "folder", "PNG, JPEG and BMP files in train/CLASS and test/CLASS of --data-dir, resized", NULL,
      NULL, { 1, 32, 32, 3 }, 0, .keys = qg_image_keys, .open = open_folder },
    { "arrays", "train=FILE,train-labels=FILE,test=FILE,test-labels=FILE: arrays of NumPy in --data-dir", NULL,
      NULL, { 0 }, 0, .keys = array_keys, .open = open_arrays },
    { "sample", "2,000 + 500 pictures of clothes, 28x28, in the repository", "datasets/sample",
      NULL, { 1, 28, 28, 1 }, 10, qg_sample_train, qg_sample_test, .keys = ten_classes },
    { "synthetic", "noise of the size of mnist, for measuring speed", NULL,
      NULL, { 1, 28, 28, 1 }, 10, noise_train, noise_test, .keys = ten_classes },
};

enum { SETS = sizeof sets / sizeof *sets };

const data_set *data_find(const char *name)
{
    for (int i = 0; i < SETS; i++)
        if (!strcmp(sets[i].name, name)) return &sets[i];
    return NULL;
}

void data_names(char *text, size_t bytes)
{
    *text = '\0';
    for (int i = 0; i < SETS; i++) qg__list_append(text, bytes, sets[i].name);
}

static void choose(data_set *d, int n, const double *classes)
{
    for (int i = 0; i < n; i++) d->chosen[i] = (uint16_t)classes[i];
    d->n_chosen = n;
    if (n) d->classes = n;
}

qg_status data_parse(const char *text, data_set *d, char *canonical, size_t bytes)
{
    double       value[QG_MAX_VALUES];
    char         name[64];
    const size_t n = strcspn(text, ":");
    snprintf(name, sizeof name, "%.*s", (int)n, text);
    const data_set *found = data_find(name);
    if (!found) {
        char names[256] = "";
        data_names(names, sizeof names);
        return qg_fail(QG_EARG, "unknown data set '%s'; available: %s", name, names);
    }
    *d = *found;
    if (d->open == open_arrays) return parse_arrays(d, text[n] ? text + n + 1 : "", canonical, bytes);
    if (qg_keys_parse(name, text[n] ? text + n + 1 : NULL, found->keys, value)) return QG_EARG;
    if (d->open) d->image = (qg_shape){ 1, (int)value[1], (int)value[2], (int)value[3] };
    else choose(d, (int)value[0], value + 1);
    if (d->image.c != 1 && d->image.c != 3)
        return qg_fail(QG_EARG, "%s: images have 1 or 3 channels, not %d", name, d->image.c);
    qg_keys_print(name, found->keys, value, canonical, bytes);
    return QG_OK;
}

void data_help(FILE *out)
{
    fprintf(out, "\nData sets:\n");
    for (int i = 0; i < SETS; i++) keyed_help(sets[i].name, sets[i].about, sets[i].keys, out);
}

bool data_is_folder(const data_set *d) { return d->open == open_folder; }

bool data_names_files(const data_set *d) { return d->open == open_arrays; }

qg_shape data_image(const data_set *d, const char *dir)
{
    char     path[QG__PATH_BYTES];
    qg_shape s = d->image;
    if (d->open != open_arrays || s.h) return s;
    for (int test = 0; test < 2; test++)
        if (*d->file[2 * test + IMAGES] && array_path(d, dir, test, IMAGES, path) && !qg_npy_shape(path, &s)) {
            s.n = 1;
            return s;
        }
    return (qg_shape){ 0 };
}

const char *data_directory(const data_set *d, const char *dir, char path[QG__PATH_BYTES])
{
    if (dir || !d->dir) return dir;
    share_find(d->dir, path);
    return path;
}

/* The files of a set are not there.  An installed program has the script that fetches them elsewhere. */
static qg_status absent(const data_set *d, bool by_default)
{
    const char *pass = "pass the directory of the data set with --data-dir";
    char        script[QG__PATH_BYTES], found[QG__PATH_BYTES];
    if (!d->how) return qg_fail(QG_EIO, "%s; %s", qg_errmsg(), pass);
    const int n = (int)strcspn(d->how, " ");
    snprintf(script, sizeof script, "%.*s", n, d->how);
    share_find(script, found);
    const char *shell = strcmp(script, found) ? "sh " : "";
    if (by_default) return qg_fail(QG_EIO, "%s; %s%s%s fetches it", qg_errmsg(), shell, found, d->how + n);
    return qg_fail(QG_EIO, "%s; %s, or fetch it with %s%s%s", qg_errmsg(), pass, shell, found, d->how + n);
}

qg_loader *data_open(const data_set *d, const char *dir, bool test, qg_loader_spec spec)
{
    char       path[QG__PATH_BYTES];
    const bool by_default = !dir;
    dir                   = data_directory(d, dir, path);
    if (d->n_chosen) {
        spec.classes   = d->chosen;
        spec.n_classes = d->n_chosen;
    }
    qg_loader *l = d->open ? d->open(d, dir, test, spec) : (test ? d->test : d->train)(dir, spec);
    if (!l && qg_errcode() == QG_EIO && (!dir || access(dir, F_OK))) (void)absent(d, by_default);
    return l;
}

qg_status data_files(const data_set *d, const char *dir, bool test, int n, const uint64_t *index, char **path)
{
    char split[QG__PATH_BYTES];
    for (int i = 0; i < n; i++) path[i] = NULL;
    if (d->open != open_folder || !dir) return QG_OK;
    const qg_status status = qg__path_join(dir, test ? "test" : "train", split);
    return status ? status : qg__folder_paths(split, n, index, path);
}

uint64_t data_digest(const qg_loader *train, const qg_loader *test)
{
    const uint64_t digest[] = { qg_loader_digest(train), qg_loader_digest(test) };
    return qg_hash(QG_HASH_BASIS, digest, sizeof digest);
}
