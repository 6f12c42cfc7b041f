/* qgrad sweep: a training for every combination of lists of options, in child processes of the same program. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include "cli/config/lists.h"
#include "cli/config/models.h"
#include "cli/config/self.h"
#include "cli/print.h"
#include "cli/run/averages.h"
#include "cli/run/place.h"
#include "cli/run/run_spec.h"
#include "cli/run/stop.h"
#include "core/clock.h"
#include "core/kernels/parallel.h"

#define NAME "qgrad sweep"

typedef enum job_state {
    TO_DO,
    BUSY,
    FINISHED,
    PAUSED,                 /* by the time or a signal */
    ELSEWHERE,              /* another process trains it */
    FAILED
} job_state;

/* A combination, and its run. */
typedef struct job {
    int       combination;  /* from 0 */
    char     *dir;          /* NULL: what is wrong with it was wrong before it had a name */
    char     *source;       /* the run whose weights it starts from, because its recipe says so; NULL: none */
    job_state state;
    char     *why;          /* it cannot be trained; NULL: it can */
    pid_t     pid;          /* if it is BUSY */
    int       log;          /* if it is BUSY: what its training prints */
    bool      was_finished; /* when its training began */
} job;

typedef struct sweep {
    config     *asked;
    char        out[QG__PATH_BYTES];
    int         combinations;
    job        *job;        /* those of this call: all, or one */
    int         jobs;
    int         threads;    /* of each; 0: as --threads says */
    double      began;
    sigset_t    mask;       /* of signals, before */
} sweep;

/* --- signals ------------------------------------------------------------------------------ */

static void on_child(int number) { }

/* They come only while the sweep waits.  The trainings stop when it ends. */
static void catch_signals(sweep *s)
{
    struct sigaction child = { .sa_handler = on_child };
    sigset_t         block;
    sigemptyset(&child.sa_mask), sigemptyset(&block);
    sigaction(SIGCHLD, &child, NULL);
    sigaddset(&block, SIGCHLD);
    stop_begin();
    stop_add(&block);
    sigprocmask(SIG_BLOCK, &block, &s->mask);
    sigdelset(&s->mask, SIGCHLD);
}

/* --- what is there ------------------------------------------------------------------------ */

/* Whether dir has a finished run. */
static bool is_finished(const char *dir)
{
    qg_fit_result r;
    return !qg_run_result(dir, &r) && r.complete;
}

static bool has_run(const char *dir)
{
    run_paths p;
    return !run_paths_of(dir, &p) && qg__path_exists(p.file[RUN_CONFIG]);
}

static const char *or_unset(const char *text) { return text ? text : "unset"; }

/* A run that is there already must be the one that is asked for. */
static qg_status check_run(const char *dir, const config *one)
{
    qg_recipe           *asked  = one->recipe;
    qg_recipe           *run    = qg_recipe_of_run(dir);
    qg_status            status = run ? QG_OK : qg_errcode();
    const qg_recipe_key *o      = run ? place_difference(asked, run, NULL) : NULL;
    if (o)
        status = qg_fail(QG_EARG, "has a run with %s %s, not %s; choose another --out, or rename it", o->name,
                         or_unset(qg_recipe_get(run, o->name)), or_unset(qg_recipe_get(asked, o->name)));
    else if (run && !place_starts_alike(one, run))
        status = qg_fail(QG_EARG, "has a run that differs in --init or --teacher; choose another --out, or "
                         "rename it");
    qg_recipe_free(run);
    return status;
}

/* That a finished run has read these images, and began with these weights and this teacher: building compares
 * their digests.  The run that it started from may have to be trained again. */
static qg_status check_sources(const job *j, config *one)
{
    const char *init = config_text(one, "init");
    if (!init && j->source && is_finished(j->source)) init = j->source;
    const qg_fit_spec spec = { .dir = j->dir, .mode = QG_FIT_RESUME, .init = init };
    qg_training      *t    = qg_recipe_build(one->recipe, spec);
    if (!t) return qg_errcode();
    qg_training_free(t);
    return QG_OK;
}

/* --- jobs --------------------------------------------------------------------------------- */

/* "weight=twn lr=0.1 seed=1": what combination k has of each list. */
static void spell(const sweep *s, int k, char *text, size_t bytes)
{
    char value[QG_RECIPE_VALUE_BYTES];
    *text = '\0';
    for (int i = 0; i < OPTIONS; i++) {
        const size_t used = strlen(text);
        if (lists_count(s->asked, option_at(i)) < 2) continue;
        lists_value(s->asked, k, option_at(i), value);
        snprintf(text + used, bytes - used, "%s%s=%s", used ? " " : "", option_at(i)->name, value);
    }
}

static void fail(const sweep *s, job *j, const char *why)
{
    char what[1024];
    spell(s, j->combination, what, sizeof what);
    j->state = FAILED;
    if (j->dir) print_safe(stderr, NAME ": %s: %s\n", j->dir, why);
    else print_safe(stderr, NAME ": combination %d (%s): %s\n", j->combination + 1, what, why);
}

static char *copy(const char *text)
{
    char *to = strdup(text);
    if (!to) (void)qg_fail(QG_EMEM, "out of memory for the combinations");
    return to;
}

/* Checks a combination, and looks at what is in its directory. */
static qg_status examine(const sweep *s, job *j, config *one)
{
    char      dir[QG__PATH_BYTES];
    qg_status status = lists_pick(s->asked, j->combination, one);
    if (!status) status = config_read(one);
    if (!status) status = qg_recipe_check(one->recipe);
    if (!status) status = place_of_combination(s->out, s->asked, j->combination, one, dir);
    if (status) return status;
    const char *first = config_text(one, "init") ? NULL : qg_recipe_get(one->recipe, "init-recipe");
    j->dir            = copy(dir);
    if (first && snprintf(dir, sizeof dir, "%s/%s/seed-%s", s->out, first, qg_recipe_get(one->recipe, "seed")))
        j->source = copy(dir);
    if (!j->dir || (first && !j->source)) return QG_EMEM;
    if (!has_run(j->dir)) return QG_OK;
    status   = check_run(j->dir, one);
    j->state = is_finished(j->dir) ? FINISHED : qg__path_locked(j->dir) ? ELSEWHERE : TO_DO;
    if (status || j->state != FINISHED || config_flag(s->asked, "list")) return status;
    return check_sources(j, one);
}

/* Names that a path cannot tell apart would meet in one directory. */
static void check_names(const sweep *s)
{
    for (int i = 0; i < s->jobs; i++)
        for (int k = 0; k < i && s->job[i].dir && s->job[i].state != FAILED; k++)
            if (s->job[k].dir && !strcmp(s->job[i].dir, s->job[k].dir)) fail(s, &s->job[i], "is also the directory of another combination");
}

static qg_status prepare(sweep *s)
{
    const int first = config_integer(s->asked, "array") ? config_integer(s->asked, "array") - 1 : 0;
    qg_status status = lists_combinations(s->asked, &s->combinations);
    if (!status && first >= s->combinations)
        status = qg_fail(QG_EARG, "array: %d is not in 1..%d, the numbers of the combinations", config_integer(s->asked, "array"), s->combinations);
    if (!status) status = place_of_sweep(s->asked, s->out);
    if (status) return status;
    s->jobs = config_integer(s->asked, "array") ? 1 : s->combinations;
    s->job  = calloc((size_t)s->jobs, sizeof *s->job);
    if (!s->job) return qg_fail(QG_EMEM, "out of memory for %d combinations", s->jobs);
    int       failed = 0;
    qg_status first_status = QG_OK;
    for (int i = 0; i < s->jobs; i++) {
        job   *j       = &s->job[i];
        config one     = { 0 };
        j->combination = first + i;
        status         = examine(s, j, &one);
        config_free(&one);
        if (status == QG_EMEM || (status && !(j->why = copy(qg_errmsg())))) return QG_EMEM;
        if (i == 0) first_status = status;
        failed += status != QG_OK;
    }
    if (failed == s->jobs && !s->job[0].dir) return qg_fail(first_status, "%s", s->job[0].why);      /* none has begun */
    for (int i = 0; i < s->jobs; i++)
        if (s->job[i].why) fail(s, &s->job[i], s->job[i].why);
    check_names(s);
    return QG_OK;
}

/* --- trainings ---------------------------------------------------------------------------- */

/* A word of a command line, which ends with a zero. */
QG_PRINTF(2, 3)
static void add_word(FILE *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vfprintf(out, fmt, args);
    va_end(args);
    fputc('\0', out);
}

static void add_option(FILE *out, const option *o, const char *text)
{
    if (o->kind == QG_RECIPE_FLAG && !strcmp(text, "true")) add_word(out, "--%s", o->name);
    if (o->kind == QG_RECIPE_FLAG) return;
    for (const char *line = text; *line; line = qg__lines_next(line)) {
        add_word(out, "--%s=%.*s", o->name, (int)strcspn(line, "\n"), line);
        if (o->kind != QG_RECIPE_LIST) return;
    }
    if (!*text) add_word(out, "--%s=", o->name);
}

/* The options of combination k, as train takes them. */
static qg_status add_options(const sweep *s, int k, FILE *out)
{
    config          one    = { 0 };
    const qg_status status = lists_pick(s->asked, k, &one);
    for (int i = 0; i < OPTIONS && !status; i++) {
        const char *name = option_at(i)->name;
        const bool  own  = !strcmp(name, "out") || !strcmp(name, "budget") || !strcmp(name, "json");
        if (one.text[i] && !own) add_option(out, option_at(i), one.text[i]);
    }
    config_free(&one);
    return status;
}

/* Seconds; infinite without --budget. */
static double time_left(const sweep *s)
{
    return config_text(s->asked, "budget") ? config_number(s->asked, "budget") - (qg__now() - s->began) : INFINITY;
}

typedef struct command {
    const sweep *sweep;
    const job   *job;
    double       left;          /* seconds */
    bool         resumes;
} command;

static qg_status print_command(const void *what, FILE *out)
{
    const command *c = what;
    const job     *j = c->job;
    add_word(out, "%s", c->sweep->asked->program), add_word(out, "train");
    const qg_status status = add_options(c->sweep, j->combination, out);
    add_word(out, "--out=%s", j->dir), add_word(out, "--json");
    if (c->resumes) add_word(out, "--resume");
    if (c->sweep->threads) add_word(out, "--threads=%d", c->sweep->threads);
    if (j->source) add_word(out, "--init=%s", j->source);
    if (isfinite(c->left)) add_word(out, "--budget=%.0f", fmax(1, ceil(c->left)));
    return status;
}

/* The words of the command line that trains a job; the first one begins the text that has all of them.  NULL: failed. */
static char **words_of(const sweep *s, const job *j)
{
    const command c = { s, j, time_left(s), has_run(j->dir) };
    char         *text, **word = NULL;
    size_t        n, count = 0;
    if (qg__text_print(print_command, &c, &text, &n)) return NULL;
    for (size_t i = 0; i < n; i++) count += !text[i];
    word = malloc((count + 1) * sizeof *word);
    if (!word) free(text), (void)qg_fail(QG_EMEM, "out of memory for a command line");
    if (!word) return NULL;
    word[count] = NULL;
    for (size_t i = 0; i < count; i++, text += strlen(text) + 1) word[i] = text;
    return word;
}

static void log_path(const job *j, char path[QG__PATH_BYTES + 8]) { snprintf(path, QG__PATH_BYTES + 8, "%s.log", j->dir); }

/* In the child.  What it prints goes to the log, because the table is all that the sweep prints. */
static void become(const sweep *s, const job *j, char **word)
{
    extern char **environ;
    const int     nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
#if defined(__linux__)
    prctl(PR_SET_PDEATHSIG, stop_request());
#endif
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    dup2(j->log, STDOUT_FILENO), dup2(j->log, STDERR_FILENO);
    signal(SIGXFSZ, SIG_DFL);
    sigprocmask(SIG_SETMASK, &s->mask, NULL);
    self_execute(word, environ);
    execvp(s->asked->program, word);
    fprintf(stderr, "cannot execute %s: %s\n", s->asked->program, strerror(errno));
    _exit(EXIT_FAILED);
}

/* A new file: what is there may be a link that someone else has made.  Another sweep may put its own log there between the
 * removal and the opening, and would have to do so again and again to win. */
static qg_status open_log(job *j)
{
    enum { TRIALS = 1000 };
    char  path[QG__PATH_BYTES + 8], parent[QG__PATH_BYTES];
    char *slash = strrchr(j->dir, '/');
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - j->dir), j->dir);
    if (qg__path_make(parent, NULL)) return QG_EIO;
    log_path(j, path);
    for (int i = 0; i < TRIALS; i++) {
        unlink(path);
        j->log = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (j->log >= 0 || errno != EEXIST) break;
    }
    return j->log >= 0 ? QG_OK : qg_fail(QG_EIO, "%s: %s", path, strerror(errno));
}

static qg_status begin(const sweep *s, job *j)
{
    char    **word   = words_of(s, j);
    qg_status status = word ? QG_OK : qg_errcode();
    j->was_finished  = is_finished(j->dir);
    if (!status) status = open_log(j);
    if (!status) {
        fflush(NULL);
        j->pid = fork();
        if (j->pid == 0) become(s, j, word);
        if (j->pid > 0) j->state = BUSY;
        else status = qg_fail(QG_EIO, "cannot start a process: %s", strerror(errno)), close(j->log);
    }
    if (word) free(word[0]);
    free(word);
    return status;
}

/* Unless another sweep, which found the run as free as this one did, has put its own log in this place. */
static void remove_log(const job *j)
{
    char        path[QG__PATH_BYTES + 8];
    struct stat own, there;
    log_path(j, path);
    if (!fstat(j->log, &own) && !lstat(path, &there) && own.st_ino == there.st_ino && own.st_dev == there.st_dev) unlink(path);
    close(j->log);
}

/* The last line of the log, without the name of the program.  Closes the log. */
static void last_words(job *j, int status, char *text, size_t bytes)
{
    static const char own[] = "qgrad train: ";
    char              line[2048] = "";
    FILE *f = fdopen(j->log, "r");
    if (f) rewind(f);
    else close(j->log);
    for (char next[sizeof line]; f && fgets(next, sizeof next, f);) strcpy(line, next);
    if (f) fclose(f);
    line[strcspn(line, "\n")] = '\0';
    if (WIFSIGNALED(status)) snprintf(text, bytes, "its training was ended by signal %d", WTERMSIG(status));
    else if (*line) snprintf(text, bytes, "%s", strncmp(line, own, sizeof own - 1) ? line : line + sizeof own - 1);
    else snprintf(text, bytes, "its training ended with status %d", WEXITSTATUS(status));
}

static int count(const sweep *s, job_state state)
{
    int n = 0;
    for (int i = 0; i < s->jobs; i++) n += s->job[i].state == state;
    return n;
}

static void tell(const sweep *s, const job *j)
{
    qg_fit_result r;
    if (qg_run_result(j->dir, &r)) return;
    print_safe(stderr, NAME ": %d/%d  %s  test accuracy %.2f %%, %.1f s\n", count(s, FINISHED), s->jobs, j->dir,
               100 * r.test_accuracy, r.seconds);
}

static void end(const sweep *s, job *j, int status)
{
    char       why[2200];
    const int  code    = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    const bool stopped = stop_signal && (stop_was(code) || WIFSIGNALED(status));
    j->pid             = 0;
    if (code == EXIT_DONE || code == EXIT_BUDGET || stopped) {
        j->state = code == EXIT_DONE ? FINISHED : PAUSED;
        remove_log(j);
        if (code == EXIT_DONE) tell(s, j);
        return;
    }
    /* Another process was quicker.  If it has finished, training once more checks that the run is the same. */
    const bool locked = qg__path_locked(j->dir);
    if (locked || (is_finished(j->dir) && !j->was_finished)) {
        j->state = locked ? ELSEWHERE : TO_DO;
        remove_log(j);
        return;
    }
    last_words(j, status, why, sizeof why);
    fail(s, j, why);
}

static bool reap(const sweep *s)
{
    int  status;
    bool any = false;
    for (int i = 0; i < s->jobs; i++) {
        job *j = &s->job[i];
        if (j->state != BUSY || waitpid(j->pid, &status, WNOHANG) != j->pid) continue;
        end(s, j, status);
        any = true;
    }
    return any;
}

/* The next one that can begin; NULL: none now. */
static job *next(const sweep *s)
{
    for (int i = 0; i < s->jobs; i++)
        if (s->job[i].state == TO_DO && (!s->job[i].source || is_finished(s->job[i].source))) return &s->job[i];
    return NULL;
}

/* Other processes may have begun runs since, or left them. */
static void look_again(const sweep *s)
{
    for (int i = 0; i < s->jobs; i++) {
        job *j = &s->job[i];
        if (j->state == TO_DO || j->state == ELSEWHERE) j->state = qg__path_locked(j->dir) ? ELSEWHERE : TO_DO;
    }
}

static void begin_some(const sweep *s)
{
    look_again(s);
    for (job *j; count(s, BUSY) < config_integer(s->asked, "jobs") && time_left(s) > 0 && (j = next(s));)
        if (begin(s, j)) fail(s, j, qg_errmsg());
}

/* What waited for weights that nobody has trained. */
static void give_up(const sweep *s)
{
    char why[QG__PATH_BYTES + 64];
    for (int i = 0; i < s->jobs; i++) {
        job *j = &s->job[i];
        if (j->state != TO_DO) continue;
        j->state = PAUSED;
        if (stop_signal || time_left(s) <= 0) continue;
        snprintf(why, sizeof why, "starts from the weights of %s, which is not finished", j->source);
        fail(s, j, why);
    }
}

/* For a signal; if other processes train runs of this sweep, for at most a second. */
static void wait_for_something(const sweep *s)
{
    const struct timespec second = { .tv_sec = 1 };
    if (count(s, ELSEWHERE)) (void)pselect(0, NULL, NULL, NULL, &second, &s->mask);
    else sigsuspend(&s->mask);
}

/* Whether to wait for runs of other processes.  A task of an array leaves its node to other tasks instead. */
static bool waits(const sweep *s) { return count(s, ELSEWHERE) && !config_integer(s->asked, "array") && !stop_signal && time_left(s) > 0; }

static void train_all(sweep *s)
{
    bool told = false, waited = false;
    catch_signals(s);
    for (;;) {
        const bool reaped = reap(s);
        if (!stop_signal) begin_some(s);
        const bool idle = !count(s, BUSY);
        if (idle && !waits(s)) break;
        if (idle && !waited) fprintf(stderr, NAME ": waiting for other processes, which train %d of %d runs\n", count(s, ELSEWHERE), s->jobs);
        waited |= idle;
        for (int i = 0; stop_signal && !told && i < s->jobs; i++)
            if (s->job[i].state == BUSY) kill(s->job[i].pid, stop_request());
        told = stop_signal != 0;
        if (!reaped) wait_for_something(s);
    }
    give_up(s);
    sigprocmask(SIG_SETMASK, &s->mask, NULL);
}

/* --- the result --------------------------------------------------------------------------- */

static void print_json(const sweep *s, const averages *of, const listing *runs)
{
    qg__json j = qg__json_begin(stdout);
    qg__json_path(&j, "out", s->out);
    qg__json_integer(&j, "combinations", (uint64_t)s->combinations);
    qg__json_integer(&j, "finished", (uint64_t)count(s, FINISHED));
    qg__json_integer(&j, "failed", (uint64_t)count(s, FAILED));
    averages_put(&j, of);
    listing_put(&j, runs);
    qg__json_end(&j);
}

/* Finished runs stay as they are, but a mean over two versions is not taken without a word. */
static void warn_of_versions(const listing *runs)
{
    int           others = 0;
    const listed *first  = NULL;
    for (size_t i = 0; i < runs->count; i++) {
        const listed *r = &runs->item[i];
        if (r->state != LISTED_FINISHED || r->result.arithmetic == qg_recipe_arithmetic(r->recipe)) continue;
        if (!others++) first = r;
    }
    if (!others) return;
    print_safe(stderr,
               "qgrad: warning: %d of the finished runs, the first in %s, were trained under another version "
               "of the arithmetic than this program trains them under; to train them again, rename their "
               "directories\n",
               others, first->dir);
}

static qg_status report(const sweep *s)
{
    listing   runs   = { 0 };
    averages  of     = { 0 };
    int      *number = calloc((unsigned)s->jobs, sizeof *number);
    qg_status status = number ? QG_OK : qg_fail(QG_EMEM, "out of memory for the table");
    for (int i = 0; i < s->jobs && !status; i++) {
        number[i] = s->job[i].combination;
        status    = listing_add(&runs, s->job[i].dir ? s->job[i].dir : s->out);
        /* Another sweep may be looking whether its run is the same, and has the lock meanwhile. */
        if (!status && s->job[i].state == FINISHED && runs.item[i].result.complete) runs.item[i].state = LISTED_FINISHED;
        /* What is there may be a run with other options, which is not a result of this sweep. */
        if (!status && s->job[i].state == FAILED && runs.item[i].state == LISTED_FINISHED) runs.item[i].state = LISTED_KILLED;
    }
    if (!status) warn_of_versions(&runs);
    if (!status) status = averages_of(s->asked, number, &runs, &of);
    if (!status && config_flag(s->asked, "json")) print_json(s, &of, &runs);
    else if (!status && config_flag(s->asked, "csv")) averages_print_csv(&of, stdout);
    else if (!status) status = averages_print(&of, stdout);
    free(number);
    averages_free(&of);
    listing_free(&runs);
    return status;
}

/* --- the verb ----------------------------------------------------------------------------- */

static void list(const sweep *s)
{
    static const char *const word[] = { [TO_DO] = "to do", [FINISHED] = "finished", [ELSEWHERE] = "running", [FAILED] = "failed" };
    char                     what[1024];
    for (int i = 0; i < s->jobs; i++) {
        const job *j = &s->job[i];
        spell(s, j->combination, what, sizeof what);
        print_safe(stdout, "%4d  %-8s  %s  %s\n", j->combination + 1, word[j->state], j->dir ? j->dir : "-", what);
    }
}

static int status_of(const sweep *s)
{
    const int failed = count(s, FAILED), elsewhere = count(s, ELSEWHERE), left = s->jobs - failed - count(s, FINISHED);
    if (elsewhere) fprintf(stderr, NAME ": other processes are training %d of %d runs\n", elsewhere, s->jobs);
    if (failed) fprintf(stderr, NAME ": %d of %d runs failed\n", failed, s->jobs);
    if (left > elsewhere)
        print_safe(stderr, NAME ": %d of %d runs are not finished; the same command continues them\n", left - elsewhere, s->jobs);
    if (stop_signal) return 128 + stop_signal;
    return failed || (elsewhere && config_integer(s->asked, "array")) ? EXIT_FAILED : left ? EXIT_BUDGET : EXIT_DONE;
}

static int run(sweep *s)
{
    const config *a      = s->asked;
    const bool    list_only = config_flag(a, "list"), csv = config_flag(a, "csv"), json = config_flag(a, "json");
    qg_status     status    = QG_OK;
    if (csv && json) status = qg_fail(QG_EARG, "--csv and --json exclude each other");
    if (list_only && (csv || json)) status = qg_fail(QG_EARG, "--list prints text alone, without --csv and --json");
    if (!status) status = prepare(s);
    if (status) return print_failure(s->asked);
    if (list_only) {
        list(s);
        return count(s, FAILED) ? EXIT_FAILED : EXIT_DONE;
    }
    qg_set_threads(0);
    const int jobs = config_integer(a, "jobs");
    if (!lists_count(a, option_find("threads"))) s->threads = qg_threads() > jobs ? qg_threads() / jobs : 1;
    train_all(s);
    if (report(s)) return print_failure(s->asked);
    return status_of(s);
}

static int sweep_main(config *asked)
{
    sweep     s      = { .asked = asked, .began = qg__now() };
    const int status = run(&s);
    for (int i = 0; s.job && i < s.jobs; i++) free(s.job[i].dir), free(s.job[i].source), free(s.job[i].why);
    free(s.job);
    return status;
}

static const verb_option own_options[] = {
    { "out", "the directory of its runs; default: runs/sweep-MODEL-CHANGES-LISTS", .first = true }, { "jobs", .first = true },
    { "array" }, { "list", .first = true }, { "csv", .first = true }, { NULL }
};

const verb sweep_verb = {
    .name = "sweep", .about = "Train all combinations of lists of options, and average them over the seeds",
    .usage = "sweep --model NAMES [--lr 0.1,0.03] [--weight twn,ttq] [--seed 1..3] [--jobs N] [options]",
    .run = sweep_main, .takes_lists = true,
    .options = (const verb_option *const[]){ net_options, step_options, training_options, common_options, own_options, NULL },
};
