/* tests/support/tree.h — where the program is called: recipes, runs and results, below it.
 *
 * The tree is root, of support/program.h, and the test's working directory.  A group prepares one, whatever
 * its tests need of finished runs among it, and each test gets it as it was then. */
#ifndef TREE_H
#define TREE_H

#include <cjson/cJSON.h>

/* examples/recipes with plain and twn, which also says what it reproduces. */
int    set_up_tree(void **state);

void   keep_tree(void);                         /* as it is now */
int    restore_tree(void **state);              /* as it was kept */

/* LeNet-5 with TWN's weights, two epochs, and then whatever `more` says. */
void   write_recipe(const char *name, const char *more);

/* The first `from` in a file becomes `to`; there must be one. */
void   edit(const char *path, const char *from, const char *to);

void   assert_holds(const char *path, const char *part);
cJSON *parse_file(const char *path);
void   copy(const char *from, const char *to);  /* a file or a directory, in place of what is there */

#endif
