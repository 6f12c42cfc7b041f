/* datasets/sets.h — the data sets by name, and what is done to their images, as texts.  Internal. */
#ifndef QG_SETS_H
#define QG_SETS_H

#include "core/io/paths.h"
#include "datasets/loader.h"

enum { QG__ARRAY_FILES = 6, QG__ARRAY_BYTES = 256, QG__DATA_TEXT = 2048 };

/* What a text names: "mnist", with chosen classes "mnist:classes=0+1+7", "folder:HxWxC",
 * "arrays:train=FILE,..". */
typedef struct qg__data {
    const char *name;
    const char *dir;        /* its default directory; NULL: it needs no files, or has no such directory */
    const char *how;        /* the command that gets its files; NULL: none */
    qg_shape    image;      /* of one image, as published; {0}: that of the files */
    int         classes;    /* 0: known once the images are read */
    qg_loader *(*read)(const char *dir, bool test, qg_loader_spec spec);
    qg_loader *(*open)(const struct qg__data *d, const char *dir, bool test,
                       qg_loader_spec spec); /* NULL: read does */
    char        file[QG__ARRAY_FILES][QG__ARRAY_BYTES];     /* of arrays: below dir; empty: not given */
    uint16_t    chosen[100];                                /* classes of the set, in this order */
    int         n_chosen;                                   /* 0: all */
} qg__data;

/* canonical receives the only spelling of the text.  Fails with QG_EARG; the message lists the sets. */
QG_MUST_CHECK
qg_status       qg__data_parse(const char *text, qg__data *d, char *canonical, size_t bytes);

bool            qg__data_is_folder(const qg__data *d);

/* The same set without the files that it may name, as arrays do; its split cannot be opened.  A checkpoint or
 * a packed net may come from anywhere, and must not decide which files are read. */
void            qg__data_forget_files(qg__data *d);

/* The size of its images, without reading them; {0}: its files are not there. */
qg_shape        qg__data_image(const qg__data *d, const char *dir);

/* A split of the set, from dir or from its default directory.  NULL on failure. */
qg_loader      *qg__data_open(const qg__data *d, const char *dir, bool test, qg_loader_spec spec);

/* The classes of both splits of a folder have the same names.  Fails with QG_EFORMAT, naming the first
 * difference; QG_EIO. */
QG_MUST_CHECK
qg_status       qg__data_check_classes(const qg__data *d, const char *dir);

uint64_t        qg__data_digest(const qg_loader *train,
                                const qg_loader *test); /* of both splits' images and labels */

/* Parses "none" or "pad=4,flip" to a qg_augment.  canonical receives the canonical text.  Fails with QG_EARG;
 * the message lists the legal values. */
QG_MUST_CHECK
qg_status       qg__augment_parse(const char *text, void *augment, char *canonical, size_t bytes);

/* Parses "5000" or "10%", images that are held out for validation, to a qg_holdout; "0": none.  Fails with
 * QG_EARG. */
QG_MUST_CHECK
qg_status       qg__holdout_parse(const char *text, void *holdout, char *canonical, size_t bytes);

/* --- the readers -------------------------------------------------------------------------- */

/* Files of MNIST, CIFAR-10, CIFAR-100 and the sample in dir.  NULL on failure. */
qg_loader      *qg__mnist(const char *dir, bool test, qg_loader_spec spec);
qg_loader      *qg__cifar10(const char *dir, bool test, qg_loader_spec spec);
qg_loader      *qg__cifar100(const char *dir, bool test, qg_loader_spec spec);
qg_loader      *qg__sample(const char *dir, bool test, qg_loader_spec spec);

/* QG_OK if both folders have classes of the same names, and so of the same numbers.  Fails with QG_EFORMAT,
 * naming the first difference; QG_EIO; QG_EARG: NULL. */
QG_MUST_CHECK
qg_status       qg__folder_same_classes(const char *a, const char *b);

/* What the header of a file of NumPy says of the images, and how many classes the greatest label needs.
 * Both fail as qg_npy. */
QG_MUST_CHECK
qg_status       qg__npy_shape(const char *images, qg_shape *shape);
QG_MUST_CHECK
qg_status       qg__npy_classes(const char *labels, int *classes);

/* What to try, after a message, if images look as if they had PyTorch's order of axes; else "". */
const char     *qg__npy_order(qg_shape images);

#endif
