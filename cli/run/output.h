/* cli/run/output.h — files that a command writes for its user, as --out names them. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/status.h"

typedef enum output_kind {
    OUTPUT_PACKED,      /* a packed net */
    OUTPUT_ONNX,
    OUTPUT_C,           /* a net in C */
    OUTPUT_PICTURE,     /* an SVG of plot or bench scaling */
    OUTPUT_PAGE,        /* a page of report */
    OUTPUT_KEPT_PAGE    /* the page in the directory of a run, which no user has named */
} output_kind;

/* ".svg" of "dir/a.svg"; NULL: the name has no dot before a letter, or begins with it. */
const char *output_suffix(const char *path);

/* Whether output_write may write path: it does not exist, is empty or begins as a file of this kind does, which means what
 * path leads to if it is a symbolic link.  A name of a run's files is never written.  A pipe or a character device is,
 * but as a kept page, since others may have put it there.
 * Fails with QG_ESTATE: something else is there; QG_EARG: the name is a run's, or that of a picture or page ends
 * as one of another format; QG_EIO. */
QG_MUST_CHECK
qg_status output_check(const char *path, output_kind kind);

/* Writes n bytes to path, if output_check allows it.  A file is replaced as a whole, and so is a symbolic link, whose target
 * stays as it is.  A pipe or a device is written to, and so is what stdout or stderr leads to (/dev/stdout).
 * Fails as output_check and qg__file_commit. */
QG_MUST_CHECK
qg_status output_write(const char *path, output_kind kind, const void *bytes, size_t n);

/* The same in an open directory, wherever that is now (core/io/file.h). */
QG_MUST_CHECK
qg_status output_write_in(int dir, const char *path, output_kind kind, const void *bytes, size_t n);

/* Writes what print writes to out (qg__text_print).  Fails as output_write and as print does, and with QG_EMEM. */
QG_MUST_CHECK
qg_status output_print(const char *path, output_kind kind, qg_status (*print)(const void *what, FILE *out), const void *what);

/* Whether path leads to stdout (/dev/stdout): then a command prints nothing else there. */
bool output_is_stdout(const char *path);

#endif
