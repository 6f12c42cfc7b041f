/* cli/config/data.h — the data sets by name. */
#ifndef CLI_DATA_H
#define CLI_DATA_H

#include <stdio.h>

#include "core/io/keys.h"
#include "core/io/paths.h"
#include "datasets/loader.h"

enum { ARRAY_FILES = 4, ARRAY_BYTES = 256 };

typedef struct data_set {
    const char *name;
    const char *about;
    const char *dir;        /* its default directory; NULL: it needs no files */
    const char *how;        /* how to get it, for a message; NULL: it is in the repository */
    qg_shape    image;      /* of one image, as published: what summary assumes; {0}: that of the files */
    int         classes;                    /* 0: known once the images are read */
    qg_loader *(*train)(const char *dir, qg_loader_spec spec);
    qg_loader *(*test)(const char *dir, qg_loader_spec spec);
    const qg_key *keys;
    /* NULL: train or test does. */
    qg_loader *(*open)(const struct data_set *d, const char *dir, bool test, qg_loader_spec spec);
    char        file[ARRAY_FILES][ARRAY_BYTES];     /* of arrays: below dir; empty: not given */
    uint16_t    chosen[100];                /* classes of the set, in this order */
    int         n_chosen;                   /* 0: all */
} data_set;

const data_set *data_find(const char *name);            /* NULL: no such data set */

/* The data set that --data names: by name, with chosen classes as mnist:classes=0+1+7, as folder:HxWxC, or as
 * arrays:train=FILE,...  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status       data_parse(const char *text, data_set *d, char *canonical, size_t bytes);

void            data_help(FILE *out);
void            data_names(char *text, size_t bytes);   /* "mnist, cifar10, .." */

bool            data_is_folder(const data_set *d);

/* Whether it names files itself, as arrays do, and the same set without them, whose split cannot be opened: a checkpoint or a
 * packed net may come from anywhere, and must not decide which files are read. */
bool            data_names_files(const data_set *d);
void            data_forget_files(data_set *d);

/* The size of its images, without reading them; {0}: its files are not there. */
qg_shape        data_image(const data_set *d, const char *dir);

/* dir, or if it is NULL the set's default directory, here or where the program has been installed (cli/config/share.h); in
 * path, which the caller provides.  NULL: the set needs no files. */
const char     *data_directory(const data_set *d, const char *dir, char path[QG__PATH_BYTES]);

/* A split of the set, from dir or from its default directory.  NULL on failure. */
qg_loader      *data_open(const data_set *d, const char *dir, bool test, qg_loader_spec spec);

/* The classes of both splits of a folder have the same names.  Fails as qg_folder_same_classes. */
QG_MUST_CHECK
qg_status       data_check_classes(const data_set *d, const char *dir);

/* path[i] = the file of image index[i] of a split, from malloc; NULL: the set has no file for each image.  Fails as data_open;
 * path then has NULL alone. */
QG_MUST_CHECK
qg_status       data_files(const data_set *d, const char *dir, bool test, int n, const uint64_t *index, char **path);

uint64_t        data_digest(const qg_loader *train, const qg_loader *test);     /* of both splits' images and labels */

#endif
