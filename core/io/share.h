/* core/io/share.h — files that come with qgrad: the recipes and the sample.  Internal.
 *
 * They have the same relative paths in the source tree and in an installation, below share/qgrad.  A path is looked for
 * from the working directory first, then in the directory of qg__share_directory.
 */
#ifndef QG_SHARE_H
#define QG_SHARE_H

#include <stdbool.h>

#include "core/io/paths.h"

/* $QGRAD_SHARE if it is set and not empty, else PREFIX/share/qgrad of `make`.  The directory need not exist.  false: the path
 * is too long. */
bool qg__share_directory(char path[QG__PATH_BYTES]);

/* given, or the same path in qg__share_directory if given is relative, does not exist and is there.  found may be given
 * itself. */
void qg__share_find(const char *given, char found[QG__PATH_BYTES]);

#endif
