/* tests/torture/faults.h — what tests/torture/torture.c and the library that it preloads tell each other.
 *
 * The driver maps a file with a fault_page and passes its path in QG_FAULTS.  The library
 * (tests/torture/faults.c) maps it too, so the counts survive a process that is killed.  Calls count from
 * the beginning of main.
 */
#ifndef FAULTS_H
#define FAULTS_H

#include <stdatomic.h>

#define FAULT_VARIABLE "QG_FAULTS"

/* The first FAULT_SYSTEM are calls of the system; CALL_SYSTEM means any of those. */
typedef enum fault_call {
    CALL_OPEN, CALL_READ, CALL_WRITE, CALL_FSYNC, CALL_RENAME, CALL_UNLINK, CALL_MKDIR, CALL_CLOSE, CALL_LOCK,
    CALL_STAT, CALL_THREAD, FAULT_SYSTEM, CALL_SYSTEM = FAULT_SYSTEM, CALL_ALLOCATE, CALL_CLOCK, FAULT_CALLS
} fault_call;

typedef enum fault_action {
    FAULT_NONE,
    FAULT_ERROR,            /* the call fails with .number as errno */
    FAULT_SHORT,            /* it transfers half of the bytes; only reads and writes */
    FAULT_SIGNAL,           /* the process gets the signal .number before the call */
    FAULT_TORN,             /* a write transfers half of the bytes, and SIGKILL follows */
} fault_action;

typedef struct fault {
    fault_call   call;
    long         at;        /* the first call is 1 */
    fault_action action;
    int          number;
    int          on;        /* 1: every later call of this kind, too */
} fault;

enum { FAULT_PATH = 4096 };

typedef struct fault_page {
    fault       plan;
    int         tick;                       /* seconds by which a reading advances the clock */
    atomic_long count[FAULT_CALLS];         /* calls so far */
    atomic_long hits;                       /* calls that failed, or that a signal preceded */
    char        path[FAULT_PATH];           /* the file of the first of them; "": none */
} fault_page;

#endif
