/* qgrad-results, which `qgrad results` runs: the table of reproduced papers, from logs. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/json_write.h"
#include "cli/print.h"
#include "cli/run/stop.h"
#include "cli/start.h"
#include "tools/results/results.h"
#include "train/run.h"
#include "core/io/file.h"

#define PAGE    RESULTS "/README.md"
#define PICTURE RESULTS "/protocol.svg"

enum { MAX_PAGE_BYTES = 1 << 24 };

/* Locks results/, so that two processes add runs one after the other.  Returns the descriptor, or -1. */
static int lock(void)
{
    char unlocked[QG__UNLOCKED_BYTES];
    if (qg__path_make(RESULTS, NULL)) return -1;
    const int fd = open(RESULTS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) qg_fail(QG_EIO, "cannot open " RESULTS ": %s", strerror(errno));
    if (fd >= 0 && !qg__path_lock(fd, RESULTS, true, unlocked)) {
        if (*unlocked) print_safe(stderr, "qgrad: warning: %s\n", unlocked);
        qg__file_sweep_in(fd, PAGE);
        return fd;
    }
    if (fd >= 0) close(fd);
    return -1;
}

static qg_status write_file(const char *path, const void *bytes, size_t n)
{
    qg_file *f = qg__file_begin_in(QG_BY_PATH, path);
    qg__file_put(f, bytes, n);
    return qg__file_commit(f);
}

static qg_status write_text(const char *path, const char *text) { return write_file(path, text, strlen(text)); }

static qg_status copy_text(const char *from, const char *to)
{
    char     *text;
    size_t    n;
    qg_status status = qg__text_read(QG_BY_PATH, from, MAX_PAGE_BYTES, &text, &n);
    if (!status) status = write_text(to, text);
    free(text);
    return status;
}

static qg_status write_config(const qg_recipe *r, const char *path)
{
    char           *text   = qg__recipe_print(r, 0);
    const qg_status status = text ? write_text(path, text) : qg_fail(QG_EMEM, "%s: out of memory", path);
    free(text);
    return status;
}

/* Copies the logs of a run from one folder to another. */
static qg_status copy_logs(const logged_run *r, const char *from, const char *to)
{
    qg__run_paths source, p;
    qg_status status = qg__path_make(to, NULL);
    if (!status) status = qg__run_paths_of(from, &source);
    if (!status) status = qg__run_paths_of(to, &p);
    if (!status) status = write_config(&r->config, p.file[QG__RUN_CONFIG]);
    if (!status) status = qg__metrics_write(&r->metrics, QG_BY_PATH, p.file[QG__RUN_METRICS]);
    return status ? status : copy_text(source.file[QG__RUN_RESULT], p.file[QG__RUN_RESULT]);
}

/* Removes a symbolic link, but not its target. */
static void remove_logs(const char *dir)
{
    struct stat s;
    if (lstat(dir, &s) == 0 && S_ISLNK(s.st_mode)) {
        unlink(dir);
        return;
    }
    qg__run_paths p;
    if (qg__run_paths_of(dir, &p)) return;
    for (qg__run_file f = QG__RUN_CONFIG; f <= QG__RUN_RESULT; f++) {
        qg__file_sweep_in(QG_BY_PATH, p.file[f]);
        remove(p.file[f]);
    }
    rmdir(dir);
}

static qg_status cannot_rename(const char *from, const char *to)
{
    return qg_fail(QG_EIO, "cannot rename %s to %s: %s", from, to, strerror(errno));
}

/* Incomplete logs would make every later call fail, so they are first copied to a name that no command reads, and
 * then moved as a whole. */
static qg_status copy_run(const logged_run *r, const char *dir)
{
    char to[QG__PATH_BYTES], new[QG__PATH_BYTES], old[QG__PATH_BYTES];
    snprintf(to, sizeof to, RESULTS "/%s/seed-%" PRIu64, r->row, r->seed);
    snprintf(new, sizeof new, RESULTS "/%s/.seed-%" PRIu64 ".new", r->row, r->seed);
    snprintf(old, sizeof old, RESULTS "/%s/.seed-%" PRIu64 ".old", r->row, r->seed);
    /* A kill between the two renames below. */
    if (qg__path_exists(old) && !qg__path_exists(to) && rename(old, to) && errno != ENOENT)
        return cannot_rename(old, to);
    remove_logs(new), remove_logs(old);
    qg_status status = copy_logs(r, dir, new);
    if (status) {
        remove_logs(new);
        return status;
    }
    const bool had = rename(to, old) == 0;
    status         = had || errno == ENOENT ? QG_OK : cannot_rename(to, old);
    if (!status && rename(new, to)) status = cannot_rename(new, to);
    if (status) {
        if (had) rename(old, to);           /* if that fails, the next call does it */
        remove_logs(new);
        return status;
    }
    remove_logs(old);
    return qg__file_flush_name_in(QG_BY_PATH, to);
}

/* Compares a page with what the logs give; the message names the first line that differs. */
static qg_status compare(const char *path, const char *logs, size_t length)
{
    char           *page;
    size_t          n;
    const qg_status status = qg__text_read(QG_BY_PATH, path, MAX_PAGE_BYTES, &page, &n);
    if (status) return status;
    const char *a = page, *b = logs;
    int         line = 1;
    size_t      i = 0;                          /* of this line */
    while (a[i] && a[i] == b[i])
        if (a[i++] == '\n') a += i, b += i, i = 0, line++;
    const bool same = a[i] == b[i] && n == length;
    if (a[i] == b[i] && !same) qg_fail(QG_EFORMAT, "%s: %zu bytes, but the logs give %zu", path, n, length);
    else if (!same)
        qg_fail(QG_EFORMAT, "%s:%d: is '%.*s'%s, but the logs say '%.*s'%s", path, line, (int)strcspn(a, "\n"), a,
                *a ? "" : " and the end", (int)strcspn(b, "\n"), b, *b ? "" : " and the end");
    free(page);
    return same ? QG_OK : QG_EFORMAT;
}

/* Writes or compares the page that print prints of what. */
static qg_status put_page(const char *path, qg_status (*print)(const void *, FILE *), const void *what, bool check)
{
    char     *text;
    size_t    n;
    qg_status status = qg__text_print(print, what, &text, &n);
    if (!status) status = check ? compare(path, text, n) : write_text(path, text);
    free(text);
    return status;
}

/* --- nets ----------------------------------------------------------------------------------- */

/* A file that no run of its row accounts for is an error, unless a run of the row has just been added. */
static qg_status put_no_file(const char *path, bool added)
{
    bool            has;
    const qg_status status = qg__file_exists_in(QG_BY_PATH, path, &has);
    if (status || !has) return status;
    if (!added) return qg_fail(QG_EFORMAT, "%s: is of no run of the row; add its run, or remove it", path);
    qg__file_remove_in(QG_BY_PATH, path);
    return QG_OK;
}

/* The net of a row and its card.  r: the run that has the net, or NULL; added: whether a run of the row was. */
static qg_status put_net(const char *row, const logged_run *r, bool added, bool check)
{
    char net[QG__PATH_BYTES], card[QG__PATH_BYTES];
    snprintf(net, sizeof net, RESULTS "/%s/" NET, row);
    snprintf(card, sizeof card, RESULTS "/%s/README.md", row);
    if (!check) qg__file_sweep_in(QG_BY_PATH, net), qg__file_sweep_in(QG_BY_PATH, card);
    if (!r) {
        const qg_status status = put_no_file(net, added);
        return status ? status : put_no_file(card, added);
    }
    qg_status status = added ? write_file(net, r->net.file, r->net.bytes) : QG_OK;
    return status ? status : put_page(card, results_card, r, check);
}

static qg_status put_nets(const results *all, const logged_run *added, bool check)
{
    qg_status status = QG_OK;
    for (int i = 0, next; i < all->runs && !status; i = next) {
        const char       *row  = all->run[i].row;
        const logged_run *with = NULL;
        next = results_row_end(all, i);
        for (int k = i; k < next; k++)
            if (all->run[k].net.file) with = &all->run[k];
        status = put_net(row, with, added && !strcmp(added->row, row), check);
    }
    return status;
}

static qg_status print_page(const void *all, FILE *out) { return results_print(all, out); }

/* The page is printed before the run is moved into place, so a run that does not fit leaves no trace. */
static qg_status add_run(const config *asked, results *all, logged_run **added)
{
    const char *dir = config_text(asked, "add");
    char       *text;
    size_t      n;
    qg_status   status = results_add(all, dir, config_flag(asked, "force"), added);
    if (!status) status = qg__text_print(print_page, all, &text, &n);
    if (status) return status;
    free(text);
    status = results_read_net(all, (*added)->row);
    if (!status) status = results_pack(all, *added, dir);
    return status ? status : copy_run(*added, dir);
}

static qg_status add_and_write(const config *asked, results *all)
{
    const bool  check  = config_flag(asked, "check");
    logged_run *added  = NULL;
    qg_status   status = results_read(all);
    if (!status && config_text(asked, "add")) status = add_run(asked, all, &added);
    if (!status && check && *all->stray) status = qg_fail(QG_EFORMAT, "%s: belongs to no run", all->stray);
    if (!status) status = put_page(PAGE, print_page, all, check);
    if (!status)
        status = results_have_protocol(all) ? put_page(PICTURE, results_plot, all, check) : put_no_file(PICTURE, !check);
    return status ? status : put_nets(all, added, check);
}

static void print_outcome(const config *asked, const results *all)
{
    const bool check = config_flag(asked, "check");
    if (!config_flag(asked, "json")) {
        printf(PAGE ": rows %d, runs %d%s\n", results_rows(all), all->runs, check ? ", matching the logs" : "");
        return;
    }
    qg__json j = qg__json_begin(stdout);
    qg__json_text(&j, "page", PAGE);
    qg__json_integer(&j, "rows", (uint64_t)results_rows(all));
    qg__json_integer(&j, "runs", (uint64_t)all->runs);
    qg__json_end(&j);
}

/* In another directory the command would write an empty table, perhaps over someone else's page. */
static qg_status check_place(bool writes)
{
    char     *page;
    size_t    n;
    bool      has;
    qg_status status = qg__file_exists_in(QG_BY_PATH, RECIPES, &has);
    if (!status && !has) status = qg_fail(QG_ESTATE, RECIPES " does not exist here; run this where the recipes are");
    if (!status) status = qg__file_exists_in(QG_BY_PATH, PAGE, &has);
    if (status || !writes || !has) return status;
    status = qg__text_read(QG_BY_PATH, PAGE, MAX_PAGE_BYTES, &page, &n);
    if (status) return status;
    const bool ours = results_begins(page);
    free(page);
    return ours ? QG_OK : qg_fail(QG_ESTATE, PAGE " was not written by qgrad results; rename it first");
}

static void print_repetition(const config *asked, const repetition *r)
{
    const bool noted = r->of->metrics.digests;
    if (config_flag(asked, "json")) {
        qg__json j = qg__json_begin(stdout);
        qg__json_text(&j, "row", r->of->row);
        qg__json_integer(&j, "seed", r->of->seed);
        qg__json_text(&j, "compared", noted ? "digests" : "losses and accuracies");
        qg__json_integer(&j, "equal", (uint64_t)r->equal);
        qg__json_integer(&j, "differs", (uint64_t)r->differs);
        if (r->differs) qg__json_text(&j, "what", r->what);
        qg__json_path(&j, "run", r->dir);
        qg__json_end(&j);
        return;
    }
    print_safe(stdout, "%s, seed %" PRIu64 ": ", r->of->row, r->of->seed);
    if (r->differs) print_safe(stdout, "epoch %d differs: %s", r->differs, r->what);
    else if (r->equal == 1) printf("epoch 1 equal");
    else printf("epochs 1 to %d equal", r->equal);
    if (!noted) printf(" (by losses and accuracies; the log is of a version that noted no digests)");
    putchar('\n');
}

static int repeat_row(const config *asked)
{
    results    all = { 0 };
    repetition r   = { .of = NULL };
    qg_status  status = check_place(false);
    if (!status) status = results_read(&all);
    if (!status) status = results_repeat(&all, asked, &r);
    if (!status && !stop_signal) print_repetition(asked, &r);
    if (!status && stop_signal)
        print_safe(stderr, "qgrad results: stopped; the same command continues in %s\n", r.dir);
    results_end(&all);
    if (status) return print_failure(asked);
    return stop_signal ? 128 + stop_signal : r.differs ? EXIT_FAILED : EXIT_DONE;
}

/* What excludes what, in a command line.  NULL: nothing. */
static const char *misused(const config *asked)
{
    static const char *const of_repeat[] = { "seed", "epochs", "init", "out", "data-dir", "threads" };
    const bool               repeats = config_text(asked, "repeat"), adds = config_text(asked, "add");
    const bool               checks = config_flag(asked, "check");
    if (checks && adds) return "--check and --add exclude each other";
    if (repeats && (checks || adds)) return "--repeat excludes --check and --add";
    if (config_flag(asked, "force") && !adds) return "--force replaces logs; pass a run with --add";
    for (size_t i = 0; i < sizeof of_repeat / sizeof *of_repeat && !repeats; i++)
        if (config_text(asked, of_repeat[i]))
            return "--seed, --epochs, --init, --out, --data-dir and --threads are of --repeat ROW";
    return NULL;
}

static int results_main(config *asked)
{
    results     all   = { 0 };
    const bool  check = config_flag(asked, "check");
    const char *wrong = misused(asked);
    if (wrong) return refuse(asked, wrong);
    if (config_text(asked, "repeat")) return repeat_row(asked);
    if (check_place(!check)) return print_failure(asked);
    const int fd     = check ? -1 : lock();
    qg_status status = check || fd >= 0 ? add_and_write(asked, &all) : QG_EIO;
    if (!status) print_outcome(asked, &all);
    results_end(&all);
    if (fd >= 0) close(fd);
    return status ? print_failure(asked) : EXIT_DONE;
}

static const verb_option own_options[] = {
    { "force", "replace logs of other images or options, of another commit or more epochs" },
    { "add" }, { "check" }, { "repeat" },
    { "seed", "the run of the row to repeat; default: its first" },
    { "epochs", "stop after so many epochs; default: all" },
    { "init", "the run whose weights the row starts with, instead of training it first" },
    { "out", "train in DIR/ROW/seed-N, and continue there; default: runs/repeat" },
    { "data-dir" }, { "threads" }, { NULL }
};

static const verb results_verb = {
    .name = "results", .about = "Write the table of reproduced papers from the logs in results/",
    .usage = "results [--add DIR [--force] | --check | --repeat ROW] [options]", .run = results_main,
    .fails = " or an epoch that is not as logged",
    .options = (const verb_option *const[]){ common_options, own_options, NULL },
};

static int run(int argc, char **argv) { return verb_run(&results_verb, argv[0], argc, argv); }

int main(int argc, char **argv) { return program_run("qgrad-results", argc, argv, run); }
