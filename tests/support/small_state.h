/* tests/support/small_state.h — a small checkpoint, for tests of its file. */
#ifndef SMALL_STATE_H
#define SMALL_STATE_H

#include <stddef.h>

#include "core/io/array.h"

qg_array array_of(qg_dtype dtype, void *data, size_t n);

/* Two arrays and three notes, with names and values that need escapes. */
void     save_small(const char *path);

/* The bytes of a file, from malloc. */
void     read_all(const char *path, unsigned char **bytes, size_t *n);

#endif
