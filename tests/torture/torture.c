/* torture [-n TRIALS] [-s SEED] [-j JOBS] [-t TRIAL] QGRAD FAULTS.SO [ROUND..]
 *
 * Disturbs trainings, resumes and other commands that read or write runs, lets them go on, and compares
 * every file with that of an undisturbed run.  The rounds:
 *
 *   io      each call of the system fails with EIO, ENOSPC or EINTR or is short, once and from then on
 *   memory  each allocation fails, once and from then on
 *   kill    SIGKILL, before a call, within a write, or at a random time; up to three times in a row
 *   signal  SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGXCPU, several of them, SIGSTOP and SIGCONT
 *   flip    one bit of a file of an unfinished run is flipped, then the run resumes
 *
 * A trial ends in one of three ways.  The command stops: it is killed, or fails with a message that names
 * the culprit and leaves no temporary file, and the same command with --resume then ends in the same bytes.
 * It is unharmed: it ends in the same bytes at once.  Or it is a finding, which is printed: it crashes,
 * hangs, loses steps, leaves files that do not resume, or succeeds with other bytes.  Only times may differ
 * (tests/torture/trees.c).
 *
 * -n is the number of trials of each round; 0, the default: all of io and memory, 1,000 each of kill and
 * flip, and 300 of signal.  The choice depends on -s alone.  -t repeats one trial and keeps its directory.
 * The status is 0 if there is no finding.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/rng.h"
#include "tests/torture/subjects.h"
#include "tests/torture/trees.h"

static uint64_t seed = 1;
static long     asked;                      /* -n */
static long     only = -1;                  /* -t */

/* --- counts ------------------------------------------------------------------------------- */

/* Of a round, shared by the jobs. */
static struct counts {
    atomic_long next, verdict[3], events;
} *shared;

/* A fault, a kill, a signal or a flipped bit that took place. */
static void event(void) { atomic_fetch_add(&shared->events, 1); }

/* --- trials ------------------------------------------------------------------------------- */

typedef struct trial {
    int   subject;
    fault fault;
} trial;

typedef enum verdict { STOPPED, UNHARMED, FINDING } verdict;

static const char *const call_name[FAULT_CALLS] = {
    "open", "read", "write", "fsync", "rename", "unlink", "mkdir", "close", "flock", "stat", "pthread_create",
    "system call", "allocation", "reading of the clock",
};

static void describe(const trial *t, char text[256])
{
    const fault *f = &t->fault;
    char         how[64];
    switch (f->action) {
    case FAULT_ERROR: snprintf(how, sizeof how, "fails: %s", strerror(f->number)); break;
    case FAULT_SHORT: snprintf(how, sizeof how, "is short"); break;
    case FAULT_SIGNAL: snprintf(how, sizeof how, "comes with: %s", strsignal(f->number)); break;
    case FAULT_TORN: snprintf(how, sizeof how, "is torn by SIGKILL"); break;
    default: snprintf(how, sizeof how, "is as usual");
    }
    snprintf(text, 256, "%s, %s %ld%s %s", subjects[t->subject].name, call_name[f->call], f->at,
             f->on ? " and later" : "", how);
}

static verdict finding(place *p, char why[TEXT], const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static verdict finding(place *p, char why[TEXT], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(why, TEXT / 2, format, args);
    va_end(args);
    snprintf(why + n, (size_t)(TEXT - n), "; status %d, '%.300s'", p->status, last_line(p));
    return FINDING;
}

/* Whether the message names the file of the fault, or the file whose directory it is.  If every later call
 * fails as well, the message may name another file. */
static bool names_file(const place *p)
{
    char name[NAME_MAX + 1];
    if (p->page->plan.on || strstr(p->said, "cannot flush the directory of '")) return true;
    snprintf(name, sizeof name, "%s", name_of(p->page->path));
    char *end = strstr(name, ".tmp");
    if (end) *end = '\0';
    char *process = end ? strrchr(name, '.') : NULL;            /* NAME.PID-N.tmp */
    if (process && process[1 + strspn(process + 1, "0123456789-")] == '\0') *process = '\0';
    return !*name || strstr(p->said, name + (*name == '.'));
}

/* Lets the command go on to its end and compares.  From files that nothing has changed, it is known to. */
static verdict complete(place *p, const subject *s, verdict unless, char why[TEXT])
{
    char what[WHAT];
    if (!s->again || tree_same(p->tree, snapshot(s->from), true, what)) return unless;
    if (run(p, s->again, (fault){ .action = FAULT_NONE })) return finding(p, why, "cannot go on");
    if (!tree_same(p->tree, snapshot(s->whole), false, what))
        return finding(p, why, "going on, ends in other bytes: %s", what);
    return unless;
}

/* What a program left when it ended on its own. */
static verdict judge(place *p, const trial *t, uint64_t steps, char why[TEXT])
{
    const subject *s      = &subjects[t->subject];
    const bool     memory = t->fault.call == CALL_ALLOCATE;
    char           what[WHAT], said[32];
    if (p->status == 1000 + SIGALRM) return finding(p, why, "hangs");
    if (p->status >= 1000) return finding(p, why, "crashes: %s", strsignal(p->status - 1000));
    if (p->status == 0) {
        snprintf(said, sizeof said, "said-%d", t->subject);
        if (!tree_same(p->tree, snapshot(s->whole), false, what))
            return finding(p, why, "succeeds with other bytes: %s", what);
        if (!s->again && !file_same(p->out, snapshot(said)))
            return finding(p, why, "succeeds with other output");
        return UNHARMED;
    }
    if (p->status != 1) return finding(p, why, "unexpected status");
    if (t->fault.action == FAULT_SHORT) return finding(p, why, "gives up");
    if (!*p->said) return finding(p, why, "fails without a message");
    if (memory && !strstr(p->said, "memory"))
        return finding(p, why, "the message does not say that memory is short");
    /* stdio does not keep the reason until a command looks at the end. */
    const bool lost_output = !strcmp(p->page->path, p->out);
    if (lost_output && strstr(p->said, "cannot write the result")) return STOPPED;
    if (!memory && !strstr(p->said, strerror(t->fault.number)))
        return finding(p, why, "the message hides the reason");
    if (!memory && !names_file(p)) return finding(p, why, "the message does not name %s", p->page->path);
    const uint64_t kept = tree_steps(p->tree);
    if (kept < steps) return finding(p, why, "loses steps: %" PRIu64 " of %" PRIu64, kept, steps);
    return STOPPED;
}

static verdict fail_a_call(place *p, const trial *t, uint64_t key, char why[TEXT])
{
    const subject *s = &subjects[t->subject];
    char           what[WHAT], from[PATH_MAX];
    set_tree(p, s->from);
    const uint64_t steps = tree_steps(p->tree);
    run(p, s->line, t->fault);
    if (p->page->hits) event();
    const verdict v = judge(p, t, steps, why);
    if (v != STOPPED) return v;
    path_put(from, "%s", snapshot(s->from));
    const bool can_remove = t->fault.call != CALL_UNLINK && (t->fault.call != CALL_SYSTEM || !t->fault.on);
    if (can_remove && tree_has_more(p->tree, from, snapshot(s->whole), what))
        return finding(p, why, "%s is left behind", what);
    if (!s->again && !tree_same(p->tree, from, false, what))
        return finding(p, why, "changes files: %s", what);
    return complete(p, s, STOPPED, why);
}

/* --- kills and signals -------------------------------------------------------------------- */

/* Draw i of the trial with this key, below n. */
static long draw(uint64_t key, uint64_t i, long n)
{
    return n > 0 ? (long)(qg_bits(key, i) % (uint64_t)n) : 0;
}

static void wait_seconds(double s)
{
    struct timespec t = { .tv_sec = (time_t)s, .tv_nsec = (long)(1e9 * (s - (double)(time_t)s)) };
    while (nanosleep(&t, &t) && errno == EINTR) continue;
}

/* A place in the program: before one of its calls. */
static fault somewhere(const subject *s, int signal, uint64_t key)
{
    static const fault_call calls[] = { CALL_SYSTEM, CALL_SYSTEM, CALL_CLOCK, CALL_ALLOCATE };
    const fault_call        c       = calls[draw(key, 0, 4)];
    return (fault){ c, 1 + draw(key, 1, s->count[c]), FAULT_SIGNAL, signal, 0 };
}

static verdict kill_at_random(place *p, const trial *t, uint64_t key, char why[TEXT])
{
    const subject *s     = &subjects[draw(key, 0, RUNS + 1)];      /* a training, a resume or results --add */
    const long     kills = 1 + draw(key, 1, 3);
    const char    *line  = s->line;
    verdict        v     = UNHARMED;
    set_tree(p, s->from);
    for (long i = 0; i < kills; i++, line = s->again) {
        const uint64_t before = tree_steps(p->tree), k = qg_rng_fork(key, (uint64_t)i + 2);
        const long     how = draw(k, 9, 3);
        fault          f   = { .action = FAULT_NONE };
        if (how == 0) f = somewhere(s, SIGKILL, k);
        if (how == 1) f = (fault){ CALL_WRITE, 1 + draw(k, 0, s->count[CALL_WRITE]), FAULT_TORN, 0, 0 };
        const pid_t pid = start(p, line, f);
        if (how == 2) {
            wait_seconds(s->seconds * (double)draw(k, 0, 1000) / 1000);
            kill(pid, SIGKILL);
        }
        finish(p, pid);
        if (p->status != 0 && p->status != 1000 + SIGKILL)
            return finding(p, why, "kill %ld: ended otherwise", i + 1);
        if (p->status) v = STOPPED, event();
        if (tree_steps(p->tree) < before) return finding(p, why, "kill %ld: loses steps", i + 1);
    }
    return complete(p, s, v, why);
}

/* The signals of a trial: at once, one after the other. */
static const struct {
    const char *name;
    int         first, second;      /* 0: none */
} volleys[] = {
    { "SIGTERM", SIGTERM, 0 },
    { "SIGINT", SIGINT, 0 },
    { "SIGHUP", SIGHUP, 0 },
    { "SIGUSR1", SIGUSR1, 0 },
    { "SIGXCPU", SIGXCPU, 0 },
    { "SIGHUP twice", SIGHUP, SIGHUP },
    { "SIGTERM twice", SIGTERM, SIGTERM },
    { "SIGTERM, SIGINT", SIGTERM, SIGINT },
    { "SIGSTOP, SIGCONT", SIGSTOP, SIGCONT },
};

enum { VOLLEYS = sizeof volleys / sizeof *volleys };

static verdict signal_at_random(place *p, const trial *t, uint64_t key, char why[TEXT])
{
    const subject *s      = &subjects[draw(key, 0, RUNS)];
    const int      volley = (int)draw(key, 1, VOLLEYS), first = volleys[volley].first,
                   second = volleys[volley].second;
    const bool     inside = !second && draw(key, 2, 2);
    char           what[WHAT], from[PATH_MAX];
    set_tree(p, s->from);
    const uint64_t before = tree_steps(p->tree);
    const fault f = inside ? somewhere(s, first, qg_rng_fork(key, 1)) : (fault){ .action = FAULT_NONE };
    const pid_t    pid    = start(p, s->line, f);
    if (!inside) {
        wait_seconds(s->seconds * (double)draw(key, 3, 1000) / 1000);
        kill(pid, first);
        if (second) wait_seconds((double)draw(key, 4, 1000) * 1e-5);
        if (second) kill(pid, second);
    }
    finish(p, pid);
    event();
    const bool dies = p->status == 1000 + first || p->status == 1000 + second;
    const bool ends = p->status == 128 + first || p->status == 128 + second;
    if (p->status && !ends && !(dies && first != SIGSTOP))
        return finding(p, why, "%s: ends otherwise", volleys[volley].name);
    if (ends && !strstr(p->said, "continue with"))
        return finding(p, why, "%s: says nothing", volleys[volley].name);
    path_put(from, "%s", snapshot(s->from));
    if (!dies && tree_has_more(p->tree, from, snapshot(s->whole), what))
        return finding(p, why, "%s: %s is left behind", volleys[volley].name, what);
    /* One signal ends the process at once only before it has claimed the directory. */
    if (dies && !second && !tree_same(p->tree, from, false, what))
        return finding(p, why, "%s: the process died, %s", volleys[volley].name, what);
    if (tree_steps(p->tree) < before) return finding(p, why, "%s: loses steps", volleys[volley].name);
    return complete(p, s, p->status ? STOPPED : UNHARMED, why);
}

/* --- flipped bits ------------------------------------------------------------------------- */

/* A byte of a checkpoint: of the header, of the first arrays, which are the run's, or any. */
static size_t byte_of(const char *bytes, size_t n, uint64_t key)
{
    uint64_t header;
    memcpy(&header, bytes, 8);
    const long part = draw(key, 0, 3);
    if (part == 0) return (size_t)draw(key, 1, (long)(8 + header));
    if (part == 1) return 8 + (size_t)header + (size_t)draw(key, 1, 256);
    return (size_t)draw(key, 1, (long)n);
}

/* threads = 2: result.json says how many there were. */
static bool may_change(const char *bytes, size_t at)
{
    size_t from = at;
    while (from && bytes[from - 1] != '\n') from--;
    return !strncmp(bytes + from, "threads = ", 10) && at >= from + 10;
}

static verdict flip_a_bit(place *p, const trial *t, uint64_t key, char why[TEXT])
{
    enum { WHITENED = 5, EVAL = 8, INSPECT = 9 };
    static const int         who[]  = {
        1, 3, 3, WHITENED, WHITENED, EVAL, INSPECT
    }; /* subjects: resumes, eval, inspect */
    static const char *const file[] = { "last.safetensors", "config.toml",          "last.safetensors",
                                        "last.safetensors", "best.safetensors",     "metrics.csv",
                                        "result.json",      "whitening.safetensors" };
    const subject *s       = &subjects[who[draw(key, 0, 7)]];
    const long     files   = !s->again ? 3 : s == &subjects[WHITENED] ? 8 : 7;  /* eval and inspect read the
                                                                                   first two */
    const char    *name    = file[draw(key, 1, files)];
    char           path[PATH_MAX], flipped[PATH_MAX], run_dir[PATH_MAX], what[WHAT], other[WHAT], said[32];
    set_tree(p, s->from);
    path_put(run_dir, "%s/run", p->tree);
    path_put(path, "%s/%s", run_dir, name);
    path_put(flipped, "%s/../flipped", p->tree);
    size_t n;
    char  *bytes = file_read(path, &n);
    if (!bytes || n == 0) die("cannot read %s", path);
    const uint64_t k  = qg_rng_fork(key, 2);
    size_t         at = strstr(name, ".safetensors") ? byte_of(bytes, n, k) : (size_t)draw(k, 1, (long)n);
    while (!strcmp(name, "config.toml") && may_change(bytes, at)) at = (at + 1) % n;
    const char was = bytes[at];
    bytes[at]      = (char)(was ^ 1 << draw(k, 2, 8));
    file_write(path, bytes, n);
    bytes[at] = was;
    tree_remove(flipped);
    tree_copy(run_dir, flipped);
    event();
    run(p, s->line, (fault){ .action = FAULT_NONE });
    /* A text that users may edit: what decides bytes is compared with the checkpoint, the rest stays as it
     * is. */
    if (p->status == 0 && s->again && !strcmp(name, "config.toml")) file_write(path, bytes, n);
    free(bytes);
    snprintf(what, sizeof what, "%s: byte %zu of %s", s->name, at, name);
    if (p->status == 0 && s->again) {
        if (tree_same(p->tree, snapshot(s->whole), false, other)) return UNHARMED;
        return finding(p, why, "%s: succeeds, but %s", what, other);
    }
    if (!tree_same(run_dir, flipped, true, other))
        return finding(p, why, "%s: fails, but changes files", what);
    if (p->status == 0) {
        snprintf(said, sizeof said, "said-%d", (int)(s - subjects));
        return file_same(p->out, snapshot(said)) ? UNHARMED
                                                 : finding(p, why, "%s: succeeds with other output", what);
    }
    /* A wrong key or value in that text is a usage error, as it is on the command line. */
    const bool usage = p->status == 2 && !strcmp(name, "config.toml");
    if (p->status != 1 && !usage) return finding(p, why, "%s: unexpected status", what);
    const bool named = strstr(p->said, name) ||
                       (!strcmp(name, "config.toml") && strstr(p->said, " in the run, but "));
    if (!named) return finding(p, why, "%s: the message does not name the file", what);
    return STOPPED;
}

/* --- rounds ------------------------------------------------------------------------------- */

typedef struct plan {
    trial *trial;
    long   n, room;
} plan;

static void add(plan *to, trial t)
{
    if (to->n == to->room) {
        to->room  = 2 * to->room + 1024;
        to->trial = realloc(to->trial, (size_t)to->room * sizeof *to->trial);
        if (!to->trial) die("out of memory");
    }
    to->trial[to->n++] = t;
}

static void add_calls(plan *to, int who, fault f)
{
    for (f.at = 1; f.at <= subjects[who].count[f.call]; f.at++) add(to, (trial){ who, f });
}

static void plan_io(plan *to)
{
    static const int errors[] = { EIO, ENOSPC, EINTR };
    for (int s = 0; s < SUBJECTS; s++) {
        for (fault_call c = 0; c < FAULT_SYSTEM; c++) {
            for (int e = 0; e < 3; e++) add_calls(to, s, (fault){ c, 0, FAULT_ERROR, errors[e], 0 });
            for (int on = 0; on < 2 && (c == CALL_READ || c == CALL_WRITE); on++)
                add_calls(to, s, (fault){ c, 0, FAULT_SHORT, 0, on });
        }
        add_calls(to, s, (fault){ CALL_WRITE, 0, FAULT_ERROR, ENOSPC, 1 });
        add_calls(to, s, (fault){ CALL_SYSTEM, 0, FAULT_ERROR, EIO, 1 });
    }
}

static void plan_memory(plan *to)
{
    for (int s = 0; s < SUBJECTS; s++)
        for (int on = 0; on < 2; on++) add_calls(to, s, (fault){ CALL_ALLOCATE, 0, FAULT_ERROR, ENOMEM, on });
}

static const struct round_kind {
    const char *name;
    void (*plan)(plan *);           /* NULL: each trial draws its own from the key */
    long trials;                    /* then, in a full round */
    verdict (*run)(place *, const trial *, uint64_t key, char why[TEXT]);
} kinds[] = {
    { "io", plan_io, 0, fail_a_call },          { "memory", plan_memory, 0, fail_a_call },
    { "kill", NULL, 1000, kill_at_random },     { "signal", NULL, 300, signal_at_random },
    { "flip", NULL, 1000, flip_a_bit },
};

enum { KINDS = sizeof kinds / sizeof *kinds };

/* A choice of n trials that depends on the seed alone. */
static void choose(plan *of, long n, uint64_t key)
{
    for (long i = 0; i < n; i++) {
        const long  k    = i + draw(key, (uint64_t)i, of->n - i);
        const trial t    = of->trial[k];
        of->trial[k] = of->trial[i];
        of->trial[i] = t;
    }
    of->n = n;
}

static void work(const struct round_kind *kind, const plan *of, uint64_t key, int job)
{
    static place p;
    static char  why[TEXT];
    char         name[32], text[256] = "";
    snprintf(name, sizeof name, "%s-%d", kind->name, job);
    place_open(&p, name);
    for (long i; (i = only >= 0 ? only : atomic_fetch_add(&shared->next, 1)) < of->n;) {
        const trial  *t = of->trial ? &of->trial[i] : NULL;
        const verdict v = kind->run(&p, t, qg_rng_fork(key, (uint64_t)i), why);
        atomic_fetch_add(&shared->verdict[v], 1);
        if (t) describe(t, text);
        if (v == FINDING || only >= 0)
            printf("%s %ld: %s%s%s\n", kind->name, i, text, *text && v == FINDING ? ": " : "",
                   v == FINDING ? why : "");
        fflush(stdout);
        if (only >= 0) break;
    }
    if (only < 0) tree_remove(snapshot(name));
}

static void run_round(const struct round_kind *kind, int jobs)
{
    const uint64_t key   = qg_rng_fork(seed, (uint64_t)(kind - kinds) + 1);
    plan           of    = { NULL, 0, 0 };
    const double   began = seconds();
    if (kind->plan) kind->plan(&of);
    else of.n = asked ? asked : kind->trials;
    if (kind->plan && asked && asked < of.n) choose(&of, asked, key);
    memset(shared, 0, sizeof *shared);
    for (int j = 0; j < jobs; j++) {
        fflush(stdout);
        const pid_t pid = fork();
        if (pid < 0) die("cannot fork: %s", strerror(errno));
        if (pid) continue;
        work(kind, &of, key, j);
        fflush(stdout);
        _exit(0);
    }
    for (int status; wait(&status) > 0;)
        if (status) die("a job of %s ended early", kind->name);
    free(of.trial);
    const long stopped = shared->verdict[STOPPED], unharmed = shared->verdict[UNHARMED];
    const long findings = shared->verdict[FINDING], events = shared->events;
    printf("%-8s %8ld %8ld %8ld %8ld %8ld   %.0f s\n", kind->name, stopped + unharmed + findings, events,
           stopped, unharmed, findings, seconds() - began);
}

static pid_t owner;

/* A job leaves the directory to its parent. */
static void clean_up(void)
{
    if (getpid() != owner) return;
    if (only >= 0) printf("kept %s\n", base);
    else tree_remove(base);
}

static const char *absolute(const char *path)
{
    char *found = realpath(path, NULL);
    if (!found) die("%s: %s", path, strerror(errno));
    return found;
}

int main(int argc, char **argv)
{
    const char *tmp  = getenv("TMPDIR");
    int         jobs = (int)sysconf(_SC_NPROCESSORS_ONLN);
    for (int o; (o = getopt(argc, argv, "n:s:j:t:")) != -1;)
        switch (o) {
        case 'n': asked = atol(optarg); break;
        case 's': seed = strtoull(optarg, NULL, 10); break;
        case 'j': jobs = atoi(optarg); break;
        case 't': only = atol(optarg); break;
        default: return 2;
        }
    if (argc - optind < 2) die("see the beginning of tests/torture/torture.c");
    qgrad   = absolute(argv[optind++]);
    library = absolute(argv[optind++]);
    unsetenv("OPENBLAS_CORETYPE"), unsetenv("OPENBLAS_L2_SIZE"), unsetenv("OMP_NUM_THREADS");
    /* Else the program restarts itself. */
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    path_put(base, "%s/qg_torture_XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (shared == MAP_FAILED || !mkdtemp(base)) die("cannot make %s: %s", base, strerror(errno));
    owner = getpid();
    atexit(clean_up);
    static place first;
    place_open(&first, "first");
    subjects_prepare(&first);
    long passed = 0, failed = 0;
    printf("%-8s %8s %8s %8s %8s %8s\n", "round", "trials", "faults", "stopped", "unharmed", "findings");
    for (int k = 0; k < KINDS; k++) {
        bool chosen = optind == argc;
        for (int i = optind; i < argc; i++) chosen |= !strcmp(argv[i], kinds[k].name);
        if (!chosen) continue;
        run_round(&kinds[k], only >= 0 ? 1 : jobs < 1 ? 1 : jobs);
        passed += shared->verdict[STOPPED] + shared->verdict[UNHARMED];
        failed += shared->verdict[FINDING];
    }
    printf("%ld passed, %ld failed\n", passed, failed);
    return failed || !passed;
}
