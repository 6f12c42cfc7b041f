#include "cli/data.h"

#include <string.h>
#include <unistd.h>

#include "cli/options.h"

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

static const data_set sets[] = {
    { "mnist", "60,000 + 10,000 handwritten digits, 28x28", "datasets/mnist",
      "datasets/fetch.sh mnist", { 1, 28, 28, 1 }, 10, qg_mnist_train, qg_mnist_test },
    { "sample", "2,000 + 500 pictures of clothes, 28x28, in the repository", "datasets/sample",
      NULL, { 1, 28, 28, 1 }, 10, qg_sample_train, qg_sample_test },
    { "synthetic", "noise in the shape of mnist, for measuring speed", NULL,
      NULL, { 1, 28, 28, 1 }, 10, noise_train, noise_test },
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
    for (int i = 0; i < SETS; i++) list_append(text, bytes, sets[i].name);
}

void data_help(FILE *out)
{
    fprintf(out, "\nData sets:\n");
    for (int i = 0; i < SETS; i++) fprintf(out, "  %-16s %s\n", sets[i].name, sets[i].about);
}

qg_loader *data_open(const data_set *d, const char *dir, bool test, qg_loader_spec spec)
{
    if (!dir) dir = d->dir;
    qg_loader *l = (test ? d->test : d->train)(dir, spec);
    if (!l && d->how && access(dir, F_OK))
        qg_fail(QG_EIO, "%s; %s fetches it", qg_errmsg(), d->how);
    return l;
}
