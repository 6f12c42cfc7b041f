#include "cli/config/data.h"

#include <string.h>
#include <unistd.h>

#include "cli/config/options.h"
#include "core/io/hash.h"
#include "core/io/paths.h"
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

#define CLASSES(n)                                                                                     \
    { { .name = "classes", .max = (n) - 1, .is = QG_KEY_WHOLE | QG_KEY_ANY_ORDER, .most = (n),              \
        .about = "use only these classes, as in 0+1+7; they become classes 0, 1, .." },                     \
      { .name = NULL } }

static const qg_key ten_classes[] = CLASSES(10), hundred_classes[] = CLASSES(100);

static const data_set sets[] = {
    { "mnist", "60,000 + 10,000 handwritten digits, 28x28", "datasets/mnist",
      "datasets/fetch.sh mnist", { 1, 28, 28, 1 }, 10, qg_mnist_train, qg_mnist_test, .keys = ten_classes },
    { "fashion-mnist", "60,000 + 10,000 pictures of clothes, 28x28, in the files of mnist",
      "datasets/fashion-mnist", NULL, { 1, 28, 28, 1 }, 10, qg_mnist_train, qg_mnist_test, .keys = ten_classes },
    { "cifar10", "50,000 + 10,000 photographs, 32x32x3, 10 classes", "datasets/cifar10",
      "datasets/fetch.sh cifar10", { 1, 32, 32, 3 }, 10, qg_cifar10_train, qg_cifar10_test, .keys = ten_classes },
    { "cifar100", "50,000 + 10,000 photographs, 32x32x3, 100 classes", "datasets/cifar100",
      NULL, { 1, 32, 32, 3 }, 100, qg_cifar100_train, qg_cifar100_test, .keys = hundred_classes },
    { "folder", "PNG, JPEG and BMP files in train/CLASS and test/CLASS of --data-dir, resized", NULL,
      NULL, { 1, 32, 32, 3 }, 0, NULL, NULL, .keys = qg_image_keys },
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

static void choose(data_set *d, int n, const double *classes)
{
    for (int i = 0; i < n; i++) d->chosen[i] = (uint8_t)classes[i];
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
        for (int i = 0; i < SETS; i++) qg__list_append(names, sizeof names, sets[i].name);
        return qg_fail(QG_EARG, "unknown data set '%s'; available: %s", name, names);
    }
    if (qg_keys_parse(name, text[n] ? text + n + 1 : NULL, found->keys, value)) return QG_EARG;
    *d = *found;
    if (!d->train) d->image = (qg_shape){ 1, (int)value[1], (int)value[2], (int)value[3] };
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

static qg_loader *open_folder(const data_set *d, const char *dir, bool test, qg_loader_spec spec)
{
    char train_dir[QG__PATH_BYTES], test_dir[QG__PATH_BYTES];
    if (!dir) {
        qg_fail(QG_EARG, "the data set folder needs --data-dir, the directory that contains train and test");
        return NULL;
    }
    if (qg__path_join(dir, "train", train_dir) || qg__path_join(dir, "test", test_dir)) return NULL;
    if (test && qg_folder_same_classes(train_dir, test_dir)) return NULL;
    return qg_folder(test ? test_dir : train_dir, d->image, spec);
}

qg_loader *data_open(const data_set *d, const char *dir, bool test, qg_loader_spec spec)
{
    if (!dir) dir = d->dir;
    if (!d->train) return open_folder(d, dir, test, spec);
    if (d->n_chosen) {
        spec.classes   = d->chosen;
        spec.n_classes = d->n_chosen;
    }
    qg_loader *l = (test ? d->test : d->train)(dir, spec);
    if (!l && d->how && access(dir, F_OK))
        qg_fail(QG_EIO, "%s; %s fetches it", qg_errmsg(), d->how);
    return l;
}

uint64_t data_digest(const qg_loader *train, const qg_loader *test)
{
    const uint64_t digest[] = { qg_loader_digest(train), qg_loader_digest(test) };
    return qg_hash(QG_HASH_BASIS, digest, sizeof digest);
}
