/* tests/support/tree.h — a working directory for the program, with recipes, runs and results.
 *
 * The tree is root, of support/program.h, and the test's working directory.  A group prepares one, including the
 * finished runs that its tests need, and each test starts with a fresh copy. */
#ifndef TREE_H
#define TREE_H

#include <cjson/cJSON.h>

/* examples/recipes with plain and twn, which also says what it reproduces. */
int    set_up_tree(void **state);

void   keep_tree(void);                         /* as it is now */
int    restore_tree(void **state);              /* as it was kept */

/* LeNet-5 with TWN's weights for two epochs, with the options in `more`. */
void   write_recipe(const char *name, const char *more);

/* Replaces the first `from` in a file by `to`; the file must contain it. */
void   edit(const char *path, const char *from, const char *to);

/* The same in a result.json, and removes its checksum. */
void   edit_result(const char *path, const char *from, const char *to);

void   assert_holds(const char *path, const char *part);
cJSON *parse_file(const char *path);
void   copy(const char *from, const char *to);  /* a file or a directory; replaces an existing one */

#endif
