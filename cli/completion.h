/* cli/completion.h — what `make install` and `qgrad --version` print of the program. */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include "cli/config/options.h"

/* A completion script for bash: commands, options, and values as far as they are words or files. */
void completion_print(const verb *const *verbs, int n, FILE *out);

/* Version, commit, compiler and flags, and what is in use on this machine. */
void version_print(FILE *out);

#endif
