/* cli/print.h — printing text that quotes names from files, directories or arguments. */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include <stdio.h>

#include "core/status.h"

/* fprintf for text that must not control the terminal: characters are escaped as in messages (core/status.h), except
 * newlines at the end of fmt.  Text beyond 8 KiB is cut. */
QG_PRINTF(2, 3)
void print_safe(FILE *out, const char *fmt, ...);

/* A path as a word for a shell, in quotes if it needs them; as $'..', which bash, ksh and zsh read, if a terminal would act on
 * its characters. */
void print_path(const char *path, FILE *out);

#endif
