#define _GNU_SOURCE
#include "tests/torture/subjects.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/rng.h"
#include "tests/torture/trees.h"

enum { WORDS = 48, HANG_SECONDS = 300 };

const char *qgrad, *library;
char        base[PATH_MAX];

/* --- programs ----------------------------------------------------------------------------- */

static void make_directory(const char *path)
{
    if (mkdir(path, 0777)) die("cannot make %s: %s", path, strerror(errno));
}

const char *snapshot(const char *name)
{
    static char path[2][PATH_MAX];
    static int  turn;
    turn = 1 - turn;
    path_put(path[turn], "%s/%s", base, name);
    return path[turn];
}

void place_open(place *p, const char *name)
{
    char dir[PATH_MAX];
    path_put(dir, "%s/%s", base, name);
    make_directory(dir);
    path_put(p->tree, "%s/tree", dir);
    path_put(p->out, "%s/stdout", dir);
    path_put(p->err, "%s/stderr", dir);
    path_put(p->faults, "%s/faults", dir);
    const int fd = open(p->faults, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || ftruncate(fd, sizeof *p->page)) die("cannot make %s: %s", p->faults, strerror(errno));
    p->page = mmap(NULL, sizeof *p->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p->page == MAP_FAILED) die("cannot map %s: %s", p->faults, strerror(errno));
    close(fd);
}

void set_tree(const place *p, const char *from)
{
    tree_remove(p->tree);
    tree_copy(snapshot(from), p->tree);
}

pid_t start(place *p, const char *line, fault f)
{
    char text[512], *argv[WORDS + 1];
    int  n    = 0;
    argv[n++] = (char *)(uintptr_t)qgrad;
    snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok(text, " "); word && n < WORDS; word = strtok(NULL, " ")) argv[n++] = word;
    argv[n] = NULL;
    memset(p->page, 0, sizeof *p->page);
    p->page->plan = f;
    p->page->tick = 1;
    const pid_t pid = fork();
    if (pid < 0) die("cannot fork: %s", strerror(errno));
    if (pid) return pid;
    if (chdir(p->tree) || !freopen(p->out, "w", stdout) || !freopen(p->err, "w", stderr)) _exit(126);
    setenv("LD_PRELOAD", library, 1);
    setenv(FAULT_VARIABLE, p->faults, 1);
    alarm(HANG_SECONDS);                        /* survives exec, and ends a program that hangs */
    execv(qgrad, argv);
    _exit(127);
}

int finish(place *p, pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) die("cannot wait: %s", strerror(errno));
    size_t n;
    char  *said = file_read(p->err, &n);
    snprintf(p->said, sizeof p->said, "%s", said ? said + (n >= TEXT ? n - TEXT + 1 : 0) : "");
    free(said);
    p->status = WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
    return p->status;
}

int run(place *p, const char *line, fault f) { return finish(p, start(p, line, f)); }

const char *last_line(place *p)
{
    size_t n = strlen(p->said);
    while (n && p->said[n - 1] == '\n') p->said[--n] = '\0';
    const char *end = strrchr(p->said, '\n');
    return end ? end + 1 : p->said;
}

/* --- what is tortured --------------------------------------------------------------------- */

#define PLAIN                                                                                                \
    "train --model mlp:depth=1,width=16 --data sample --epochs 2 --batch 400 --weight twn --optimizer sgd"   \
    " --lr 0.01 --threads 1 --out run"
#define LEARNS "train --recipe torture --threads 2 --json --out run"
#define WHITE                                                                                                \
    "train --model mlp:depth=1,width=4 --data folder:5x5x1 --data-dir pictures --normalise whiten --epochs " \
    "2"                                                                                                      \
    " --batch 4 --weight twn --optimizer sgd --lr 0.01 --threads 1 --out run"

/* A row of the table of results, with all that a checkpoint may have to hold: learned quantizers, of which
 * those of the weights start within the second epoch, Adam's moments, averages of the weights. */
static const char recipe
    [] = "model = \"mlp:depth=1,width=16\"\ndata = \"sample\"\naugment = \"pad=2,flip\"\nweight = \"ttq\"\n"
         "input = \"lsq:bits=4\"\nquantize-weights-after = 6\noptimizer = \"adam\"\nlr = 0.01\nclip-norm = "
         "1\nema = 0.9\n"
         "patience = 2\nbatch = 400\nepochs = 2\nseed = 3\n"
         "reproduces = \"A paper\"\nreported = \"12.3\"\nprovenance = \"code\"\n";

/* Snapshots of which a name begins with "half-" hold a run that stopped within its second epoch. */
subject subjects[SUBJECTS] = {
    { "train sgd", PLAIN, "empty", PLAIN " --resume", "whole-sgd", { 0 }, 0 },
    { "resume sgd", PLAIN " --resume", "half-sgd", PLAIN " --resume", "whole-sgd", { 0 }, 0 },
    { "train adam", LEARNS, "empty", LEARNS " --resume", "whole-adam", { 0 }, 0 },
    { "resume adam", LEARNS " --resume", "half-adam", LEARNS " --resume", "whole-adam", { 0 }, 0 },
    { "train whitened", WHITE, "empty", WHITE " --resume", "whole-white", { 0 }, 0 },
    { "resume whitened", WHITE " --resume", "half-white", WHITE " --resume", "whole-white", { 0 }, 0 },
    { "results --add", "results --add run --json", "whole-adam", "results --add run --json", "results", { 0 }, 0 },
    { "results", "results --json", "results", "results --json", "results", { 0 }, 0 },
    { "eval", "eval --run run --json", "whole-adam", NULL, "whole-adam", { 0 }, 0 },
    { "inspect", "inspect run --json", "whole-adam", NULL, "whole-adam", { 0 }, 0 },
    { "summary", "summary --model resnet20 --weight ttq --json", "empty", NULL, "empty", { 0 }, 0 },
    { "explain", "explain --markdown", "empty", NULL, "empty", { 0 }, 0 },
};

static void keep(const place *p, const char *name) { tree_copy(p->tree, snapshot(name)); }

static void expect(place *p, const char *line, fault f, int status)
{
    if (run(p, line, f) != status) die("undisturbed, '%s' ends with %d: %s", line, p->status, p->said);
}

double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A BMP file of 5 x 5 pixels, whose rows of 15 bytes are padded to 16. */
static void write_picture(const char *path, uint64_t key)
{
    enum { HEAD = 54, BYTES = HEAD + 5 * 16 };
    uint8_t file[BYTES] = {
        'B', 'M', BYTES, [10] = HEAD, [14] = 40, [18] = 5, [22] = 5, [26] = 1, [28] = 24
    };
    for (size_t i = HEAD; i < BYTES; i++) file[i] = (uint8_t)qg_bits(key, i);
    file_write(path, (const char *)file, BYTES);
}

/* Ten images of each of two classes, and four to test with. */
static void make_pictures(void)
{
    static const char *const splits[] = { "train", "test" }, *const classes[] = { "a", "b" };
    char path[PATH_MAX];
    make_directory(snapshot("pictures"));
    for (int s = 0; s < 2; s++) {
        path_put(path, "%s/pictures/%s", base, splits[s]);
        make_directory(path);
        for (int c = 0; c < 2; c++) {
            path_put(path, "%s/pictures/%s/%s", base, splits[s], classes[c]);
            make_directory(path);
            for (int i = 0; i < (s ? 4 : 10); i++) {
                path_put(path, "%s/pictures/%s/%s/%d.bmp", base, splits[s], classes[c], i);
                write_picture(path, (uint64_t)(100 * s + 50 * c + i));
            }
        }
    }
}

/* The tree of a user who has no run yet. */
static void make_empty(place *p)
{
    char here[PATH_MAX], data[PATH_MAX], path[PATH_MAX];
    if (!getcwd(here, sizeof here)) die("no working directory: %s", strerror(errno));
    make_directory(p->tree);
    path_put(data, "%s/datasets", here);
    path_put(path, "%s/datasets", p->tree);
    if (symlink(data, path)) die("cannot make %s: %s", path, strerror(errno));
    make_pictures();
    path_put(path, "%s/pictures", p->tree);
    if (symlink(snapshot("pictures"), path)) die("cannot make %s: %s", path, strerror(errno));
    path_put(path, "%s/examples", p->tree);
    make_directory(path);
    path_put(path, "%s/examples/recipes", p->tree);
    make_directory(path);
    path_put(path, "%s/examples/recipes/torture.toml", p->tree);
    file_write(path, recipe, sizeof recipe - 1);
}

void subjects_prepare(place *p)
{
    char what[WHAT], said[32];
    make_empty(p);
    keep(p, "empty");
    for (int i = 0; i < RUNS; i += 2) {
        set_tree(p, "empty");
        expect(p, subjects[i].line, (fault){ .action = FAULT_NONE }, 0);
        keep(p, subjects[i].whole);
        const long  readings = p->page->count[CALL_CLOCK];
        const fault stop     = { CALL_CLOCK, readings * 3 / 4, FAULT_SIGNAL, SIGTERM, 0 };
        const uint64_t whole = tree_steps(p->tree);
        set_tree(p, "empty");
        expect(p, subjects[i].line, stop, 128 + SIGTERM);
        keep(p, subjects[i + 1].from);
        const uint64_t steps = tree_steps(p->tree);
        if (steps <= whole / 2 || steps >= whole)
            die("the run stopped after %" PRIu64 " of %" PRIu64 " steps", steps, whole);
    }
    set_tree(p, "whole-adam");
    expect(p, "results --add run --json", (fault){ .action = FAULT_NONE }, 0);
    keep(p, "results");
    for (int i = 0; i < SUBJECTS; i++) {
        subject *s = &subjects[i];
        set_tree(p, s->from);
        const double from = seconds();
        expect(p, s->line, (fault){ .action = FAULT_NONE }, 0);
        s->seconds = seconds() - from;
        if (!tree_same(p->tree, snapshot(s->whole), false, what))
            die("undisturbed, '%s' ends in other bytes: %s", s->line, what);
        for (int c = 0; c < FAULT_CALLS; c++) s->count[c] = p->page->count[c];
        snprintf(said, sizeof said, "said-%d", i);
        tree_copy(p->out, snapshot(said));
    }
}
