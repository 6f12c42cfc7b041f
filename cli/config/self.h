/* cli/config/self.h — this program: how to execute it again, and its path.
 *
 * /proc/self/exe is this program, unless the dynamic loader was started with this program as an argument
 * (/lib64/ld-linux-x86-64.so.2 build/qgrad train ..); then it is the loader.
 */
#ifndef CLI_SELF_H
#define CLI_SELF_H

#include <stdbool.h>

#include "core/io/paths.h"

/* Finds out whether the loader was started as the program.  argc is that of main.  May be called before libraries begin, and
 * again.  Memory: what it allocates lives as long as the process. */
void self_begin(int argc);

/* Executes this program with the words of argv, if necessary by the loader with the options that it had.  Returns if that is
 * impossible, as without /proc. */
void self_execute(char **argv, char **environment);

/* The path of this program; false: unknown. */
bool self_path(char path[QG__PATH_BYTES]);

#endif
