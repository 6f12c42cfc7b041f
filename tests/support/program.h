/* tests/support/program.h — runs the program build/qgrad, or $QGRAD, as a child process, and compares its files.
 *
 * set_up makes a directory with a data set in MNIST's format, 240 + 60 noisy 16x16 images, so that an
 * epoch of LeNet-5 takes milliseconds; tear_down removes it. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <sys/types.h>

#include "core/status.h"
#include "tests/support/room.h"

/* The layers of lenet5, which takes three times as long. */
#define SMALL_NET(classes) "10C5p0-BN-R-MP2-12C5p0-BN-R-MP2-40FC-BN-R-" #classes

/* The start of most command lines.  Later options override earlier ones. */
#define SET     "--model " SMALL_NET(10) " --data mnist --data-dir @/set --seed 3 --threads 1 "
#define TRAIN   "train " SET "--weight twn --batch 24 "
#define ENDLESS TRAIN "--epochs 100000 --json "

enum { TEXT_BYTES = 1 << 17, MAX_ARGS = 48, SIDE = 16, N_TRAIN = 240, N_TEST = 60 };

typedef struct outcome {
    int  status;                                /* of exit; 1000 + signal */
    char out[TEXT_BYTES], err[TEXT_BYTES];
} outcome;

extern char        root[DIRECTORY_BYTES];       /* the directory of this test */
extern const char *program;
extern outcome     last;                        /* of the last call of qgrad() */

/* Runs in the next child instead of the program, with what the test has replaced, such as the clock; NULL: the
 * program. */
extern int (*inside)(int argc, char **argv);

int         set_up(void **state);
int         tear_down(void **state);
int         end_background(void **state);       /* the teardown of a test that starts a child: ends the child */

/* root/name, in one of four buffers that take turns. */
const char *at(const char *name);

/* Words of a command line, separated by single spaces; @ stands for the test's directory, '' for an empty word. */
int         qgrad(const char *line);            /* fills last; the status */
int         finish(pid_t pid);                  /* the same of a child; it prints into at("out") and at("err") */

/* In the background, one at a time, until finish. */
pid_t       start(const char *line);

/* A run of ENDLESS; returns when its first epoch is over.  It cannot end by itself: the pipe for its epoch reports is
 * full long before the last epoch, and the run then waits until finish reads the pipe. */
pid_t       start_endless(const char *line);

void        assert_status(const char *line, int status);

/* Runs a shell command, with @ as above; asserts that its status is 0. */
QG_PRINTF(1, 2)
void        run_shell(const char *fmt, ...);

/* Asserts that it fails with this status, prints one line on stderr that contains part, and nothing on stdout.  Warnings of
 * options that are given twice may precede it. */
void        assert_refuses(const char *line, int status, const char *part);

/* Runs a line formatted as by printf; asserts that it succeeds. */
QG_PRINTF(1, 2)
void        assert_runs(const char *fmt, ...);
QG_PRINTF(1, 2)
void        assert_stops(const char *fmt, ...);     /* that its --budget ends it */

/* Asserts that the output of the last call contains part. */
void        assert_stdout(const char *part);
void        assert_stderr(const char *part);

/* A member of the JSON object that the last call printed; the text until the next call. */
double      last_number(const char *key);
const char *last_text(const char *key);
bool        last_truth(const char *key);

/* Its output as one JSON object, and the members of an object. */
cJSON      *parse(void);
double      number(const cJSON *j, const char *key);
const char *text(const cJSON *j, const char *key);
bool        truth(const cJSON *j, const char *key);

size_t      slurp(const char *path, char *text, size_t bytes);
void        write_bytes(const char *path, const void *bytes, size_t n);
void        assert_same_file(const char *a, const char *b);

/* Asserts that two runs below root have the same files, except for the columns of metrics.csv that are times. */
void        assert_same_run(const char *a, const char *b);

#endif
