/* cli/run/stop.h — signals that ask a command to save its work and end.
 *
 * They are SIGINT and SIGTERM; SIGHUP, when a terminal closes; SIGXCPU, at a limit of CPU time (ulimit -t); SIGUSR1 and
 * SIGUSR2, which batch systems send before they end a job.  By default each of them ends a process.
 */
#ifndef CLI_STOP_H
#define CLI_STOP_H

#include <signal.h>
#include <stdbool.h>

/* The last one that came since stop_begin; 0: none. */
extern volatile sig_atomic_t stop_signal;

/* From now on they only set stop_signal.  One that is ignored, as SIGHUP is after nohup, stays ignored.  A second SIGINT or
 * SIGTERM of the same kind ends the process at once; the others may come again and again: closing terminals send SIGHUP
 * twice, and the system repeats SIGXCPU every second. */
void stop_begin(void);

void stop_add(sigset_t *set);           /* adds those that stop_begin catches */

/* One that asks a child, another qgrad, to stop, however often it comes; SIGTERM if all of these are ignored. */
int  stop_request(void);

/* Whether a child that exits with this code was stopped: by 128 + one of the signals. */
bool stop_was(int code);

#endif
