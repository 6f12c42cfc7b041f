/* cli/manual.h — what an installation needs of the tables of commands and options: `qgrad --bash-completion`, which `make install`
 * calls, and `--version`. */
#ifndef CLI_MANUAL_H
#define CLI_MANUAL_H

#include "cli/config/options.h"

/* A completion script for bash: commands, options, and values as far as they are words or files. */
int  manual_completion(const verb *verbs, int n, FILE *out);

/* Version, commit, compiler and flags, and what is in use on this machine. */
void manual_version(FILE *out);

#endif
