/* cli/start.h — how a program begins and ends: qgrad, and the programs in tools/ that it runs. */
#ifndef CLI_START_H
#define CLI_START_H

/* Runs work, and flushes stdout.  name is what ps shows.
 * Returns the exit status: that of work, EXIT_USAGE if QGRAD_CPU names no instruction set, or EXIT_FAILED if work has
 * succeeded and stdout cannot be written. */
int program_run(const char *name, int argc, char **argv, int (*work)(int argc, char **argv));

#endif
