/* tests/torture/trees.h — directories that tests/torture/torture.c copies and compares. */
#ifndef TREES_H
#define TREES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WHAT = 256 };

/* Ends the torture with a message: it cannot go on. */
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* A path, which must fit. */
void path_put(char to[PATH_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));

const char *name_of(const char *path);

/* The bytes, from malloc, with a zero after the last; NULL: the file cannot be read. */
char *file_read(const char *path, size_t *n);
void  file_write(const char *path, const char *bytes, size_t n);

/* Whether two files have the same bytes, except for the times in a metrics.csv and in JSON. */
bool  file_same(const char *a, const char *b);

/* to must not exist. */
void  tree_copy(const char *from, const char *to);
void  tree_remove(const char *path);

/* Whether two trees have the same entries and the same files, as file_same says or to the byte.  Else *what
 * tells the first difference. */
bool  tree_same(const char *a, const char *b, bool exactly, char what[WHAT]);

/* Whether the tree has an entry that neither of the others has; *what is its name. */
bool  tree_has_more(const char *tree, const char *one, const char *other, char what[WHAT]);

/* run.steps of the checkpoint in tree/run; 0: there is none. */
uint64_t tree_steps(const char *tree);

#endif
