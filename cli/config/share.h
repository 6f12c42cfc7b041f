/* cli/config/share.h — files that come with the program: the recipes and the sample.
 *
 * They have the same relative paths in the source tree and in an installation, below share/qgrad.  A path is looked for
 * from the working directory first, then in the directory of share_directory.
 */
#ifndef CLI_SHARE_H
#define CLI_SHARE_H

#include <stdbool.h>

#include "core/io/paths.h"

/* $QGRAD_SHARE if it is set and not empty; else ../share/qgrad of the directory of this program; where the system cannot tell
 * that, PREFIX/share/qgrad of `make`.  The directory need not exist.  false: the path is too long. */
bool share_directory(char path[QG__PATH_BYTES]);

/* given, or the same path in share_directory if given is relative, does not exist and is there.  found may be given itself. */
void share_find(const char *given, char found[QG__PATH_BYTES]);

#endif
