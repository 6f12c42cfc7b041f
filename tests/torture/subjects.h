/* tests/torture/subjects.h — the commands that tests/torture/torture.c disturbs, and processes that run
 * them. */
#ifndef SUBJECTS_H
#define SUBJECTS_H

#include <limits.h>
#include <sys/types.h>

#include "tests/torture/faults.h"

enum { TEXT = 1 << 16, SUBJECTS = 12, RUNS = 6 };

extern const char *qgrad, *library;     /* absolute paths of the program and of the library that is
                                           preloaded */
extern char        base[PATH_MAX];      /* the temporary directory */

double seconds(void);

/* --- processes ---------------------------------------------------------------------------- */

/* Where one command at a time runs: a directory of its own. */
typedef struct place {
    char        tree[PATH_MAX], out[PATH_MAX], err[PATH_MAX], faults[PATH_MAX];
    fault_page *page;
    int         status;                 /* of the last program; 1000 + the signal that ended it */
    char        said[TEXT];             /* the end of its stderr */
} place;

void        place_open(place *p, const char *name);         /* base/name */

/* The path of a file or tree that all trials share. */
const char *snapshot(const char *name);
void        set_tree(const place *p, const char *from);     /* p->tree becomes a copy of the snapshot */

/* Runs the program with the words of line in p->tree.  finish and run return p->status. */
pid_t       start(place *p, const char *line, fault f);
int         finish(place *p, pid_t pid);
int         run(place *p, const char *line, fault f);
const char *last_line(place *p);                            /* of p->said */

/* --- commands ----------------------------------------------------------------------------- */

typedef struct subject {
    const char *name, *line;
    const char *from;               /* the snapshot it begins with */
    const char *again;              /* what completes it; NULL: it writes nothing */
    const char *whole;              /* the snapshot it ends in */
    long        count[FAULT_CALLS]; /* calls of an undisturbed process */
    double      seconds;            /* that it takes */
} subject;

extern subject subjects[SUBJECTS];      /* the first RUNS train: without and with --resume in turn */

/* Makes every snapshot, and counts the calls of every command.  The output of subjects[i] is the snapshot
 * said-i. */
void subjects_prepare(place *p);

#endif
