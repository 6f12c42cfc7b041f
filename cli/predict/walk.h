/* cli/predict/walk.h — the image files that a command line names. */
#ifndef CLI_WALK_H
#define CLI_WALK_H

#include "core/io/paths.h"

typedef struct walk_item {
    char *path;
    char *why;                          /* why it cannot be read, for a folder; NULL: it may be read */
} walk_item;

typedef struct walk {
    walk_item *item;
    size_t     count;
    size_t     others;                  /* skipped in folders: files with other endings than those of images */
    char       skipped[QG__PATH_BYTES]; /* the first of them */
} walk;                                 /* {0} is empty */

/* Adds a file, whatever its name is, or all images in a folder and the folders in it: names in byte order, without those that
 * begin with a dot.  Links are followed, except to a folder that contains them.  A folder that cannot be listed, and one
 * without any image, is an item with a reason.  Fails with QG_EMEM. */
QG_MUST_CHECK
qg_status walk_add(walk *w, const char *path);
void      walk_end(walk *w);

#endif
