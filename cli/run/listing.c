#include "cli/run/listing.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/print.h"
#include "cli/run/run_spec.h"
#include "cli/run/table.h"
#include "core/io/number.h"
#include "train/runs.h"

static const char *const states[LISTED_STATES] = { "running", "finished", "budget", "stopped", "killed", "damaged", "foreign" };

/* --- one run ------------------------------------------------------------------------------ */

static bool has(const run_paths *p, run_file f)
{
    bool exists;
    return qg__file_exists_in(QG_BY_PATH, p->file[f], &exists) || exists;
}

static bool has_run(const run_paths *p)
{
    for (run_file f = 0; f < RUN_FILES; f++)
        if (has(p, f)) return true;
    return false;
}

/* Whether the header of the checkpoint is whole; *alien: another program states the configuration (qg_run_config). */
static qg_status read_checkpoint(const run_paths *p, bool *alien)
{
    qg_run *run = qg_run_open(p->dir, QG_RUN_LAST);
    if (!run) return qg_errcode();
    const bool noted = qg_run_note(run, "recipe");
    *alien           = qg_run_config(run);
    qg_run_close(run);
    return noted ? QG_OK : qg_fail(QG_EFORMAT, "%s: is not a checkpoint of a run", p->file[RUN_LAST]);
}

/* A run that has not begun: its process was killed while it made the directory. */
static bool is_empty(const run_paths *p)
{
    qg_fit_result r;
    return !has(p, RUN_LAST) && !has(p, RUN_RESULT) && !has(p, RUN_BEST) &&
           (!has(p, RUN_METRICS) || (!qg_run_result(p->dir, &r) && !r.epochs));
}

static qg_status read_files(listed *r, const run_paths *p)
{
    bool            alien  = false;
    const bool      begins = is_empty(p);
    const qg_status read   = begins ? QG_OK : read_checkpoint(p, &alien);
    if (read) return read;
    r->recipe = qg_recipe_of_run(p->dir);
    if (!r->recipe && !alien) return qg_errcode();
    if (!begins && qg_run_result(p->dir, &r->result)) return qg_errcode();
    static const listed_state ended[QG_FIT_ENDS] = { [QG_FIT_TRAINING]    = LISTED_KILLED,
                                                     [QG_FIT_OVER]        = LISTED_FINISHED,
                                                     [QG_FIT_OUT_OF_TIME] = LISTED_BUDGET,
                                                     [QG_FIT_STOPPED]     = LISTED_STOPPED };
    r->state = r->result.complete ? LISTED_FINISHED : ended[r->result.ended];
    if (!r->recipe) r->why = strdup("another program trained it with qg_fit");
    return !r->recipe && !r->why ? qg_fail(QG_EMEM, "out of memory for the list of runs") : QG_OK;
}

static const qg_fit_result unknown = { .test_accuracy = NAN, .best_test_accuracy = NAN, .validation_accuracy = NAN,
                                       .best_validation_accuracy = NAN };

static qg_status read_run(listed *r, const run_paths *p)
{
    const bool      locked = qg__path_locked(p->dir);
    r->result              = unknown;
    const qg_status status = read_files(r, p);
    if (status == QG_EMEM) return status;
    if (locked) r->state = LISTED_RUNNING;      /* whatever is not there yet */
    if (!status || locked) return QG_OK;
    r->state  = LISTED_DAMAGED;
    r->result = unknown;
    r->why    = strdup(qg_errmsg());
    return r->why ? QG_OK : qg_fail(QG_EMEM, "out of memory for the list of runs");
}

/* --- the list ----------------------------------------------------------------------------- */

static listed *append(listing *l, const char *dir)
{
    listed *grown = realloc(l->item, (l->count + 1) * sizeof *grown);
    char   *name  = strdup(dir);
    if (grown) l->item = grown;
    if (!grown || !name) {
        free(name);
        (void)qg_fail(QG_EMEM, "out of memory for the list of runs");
        return NULL;
    }
    listed *r = &l->item[l->count++];
    *r        = (listed){ .dir = name, .state = LISTED_FOREIGN, .result = unknown };
    return r;
}

qg_status listing_add(listing *l, const char *dir)
{
    run_paths       p;
    const qg_status status = run_paths_of(dir, &p);
    listed         *r      = status ? NULL : append(l, dir);
    if (!r) return status ? status : QG_EMEM;
    return has_run(&p) ? read_run(r, &p) : QG_OK;
}

static bool is_directory(const char *path, bool *link)
{
    struct stat named;
    *link = !lstat(path, &named) && S_ISLNK(named.st_mode);
    return qg__path_is_directory(path);
}

static void cut(listing *l, size_t count)
{
    while (l->count > count) {
        listed *r = &l->item[--l->count];
        free(r->dir), free(r->why);
        qg_recipe_free(r->recipe);
    }
}

static bool has_runs(const listing *l, size_t from)
{
    for (size_t i = from; i < l->count; i++)
        if (l->item[i].state != LISTED_FOREIGN) return true;
    return false;
}

enum { DEEPEST = 8 };

static qg_status walk(listing *l, const char *dir, int depth);

/* Where the Python package keeps the images of runs beside them. */
static bool is_store(const char *dir)
{
    const char *slash = strrchr(dir, '/');
    return !strcmp(slash ? slash + 1 : dir, "arrays");
}

/* A directory below the first one.  A link may lead back up, so only a run is followed there. */
static qg_status visit(listing *l, const char *dir, int depth)
{
    bool          link;
    run_paths p;
    const size_t  from = l->count;
    if (!is_directory(dir, &link)) return QG_OK;
    if (run_paths_of(dir, &p)) return QG_EARG;
    if (has_run(&p)) return listing_add(l, dir);
    if (!link && depth < DEEPEST) {
        const qg_status status = walk(l, dir, depth + 1);
        if (status && status != QG_EIO) return status;
    }
    if (has_runs(l, from)) return QG_OK;
    cut(l, from);
    if (is_store(dir)) return QG_OK;
    return append(l, dir) ? QG_OK : QG_EMEM;
}

static qg_status walk(listing *l, const char *dir, int depth)
{
    struct dirent **entry;
    const int       n      = qg__names(dir, &entry);
    qg_status       status = n < 0 ? qg_fail(QG_EIO, "%s: %s", dir, strerror(errno)) : QG_OK;
    for (int i = 0; i < n; i++) {
        char path[QG__PATH_BYTES];
        if (!status) status = qg__path_join(dir, entry[i]->d_name, path);
        if (!status) status = visit(l, path, depth);
    }
    qg__names_free(entry, n);
    return status;
}

qg_status listing_walk(listing *l, const char *dir)
{
    run_paths       p;
    const qg_status status = run_paths_of(dir, &p);
    if (status) return status;
    return has_run(&p) ? listing_add(l, dir) : walk(l, dir, 0);
}

void listing_free(listing *l)
{
    cut(l, 0);
    free(l->item);
    *l = (listing){ 0 };
}

/* --- columns ------------------------------------------------------------------------------ */

enum { RUN, STATE, EPOCHS, OF, VALID, TEST, BEST, BEST_VALID, AT, TIME, WHY, DIGEST, PLAIN };

/* Those without a name are no columns of the table for people: epochs shows both, why follows the table, and a digest is long. */
static const struct { const char *name, *member; } plain[PLAIN] = {
    [RUN] = { "run", "run" },       [STATE] = { "state", "state" }, [EPOCHS] = { "epochs", "epochs" },
    [OF] = { NULL, "of" },          [VALID] = { "valid", "validation_accuracy" },
    [TEST] = { "test", "test_accuracy" },                           [BEST] = { "best", "best_test_accuracy" },
    [BEST_VALID] = { NULL, "best_validation_accuracy" },            [AT] = { "at", "best_epoch" },
    [TIME] = { "minutes", "seconds" },                              [WHY] = { NULL, "why" },
    [DIGEST] = { NULL, "digest" },
};

static bool is_accuracy(int c) { return c == VALID || c == TEST || c == BEST || c == BEST_VALID; }

/* The value of an option, "" if it is unset; a list on one line. */
static void value_of(const listed *of, const qg_recipe_key *o, char text[QG_RECIPE_VALUE_BYTES])
{
    const char *value = of->recipe ? qg_recipe_get(of->recipe, o->name) : NULL;
    snprintf(text, QG_RECIPE_VALUE_BYTES, "%s", value ? value : "");
    for (char *c = text; *c; c++)
        if (*c == '\n') *c = ' ';
}

static bool is_off(const qg_recipe_key *o, const char *value)
{
    const char *off = o->kind == QG_RECIPE_FLAG ? "false" : o->absent;
    return !*value || (off && !strcmp(value, off));
}

/* Whether the runs that are configured differ in an option that decides their bytes. */
static bool differs(const listing *l, const qg_recipe_key *o)
{
    char          first[QG_RECIPE_VALUE_BYTES], value[QG_RECIPE_VALUE_BYTES];
    const listed *one = NULL;
    for (size_t i = 0; i < l->count; i++) {
        if (!l->item[i].recipe) continue;
        value_of(&l->item[i], o, one ? value : first);
        if (one && strcmp(first, value) && !(is_off(o, first) && is_off(o, value))) return true;
        one = &l->item[i];
    }
    return false;
}

/* The digests of other images tell nothing more. */
static bool is_shown(const listing *l, const qg_recipe_key *o)
{
    const bool of_data = !strcmp(o->name, "data-digest") || !strcmp(o->name, "class-digest");
    return o->is & QG_RECIPE_IDENTITY && strcmp(o->name, "epochs") && differs(l, o) &&
           !(of_data && differs(l, option_find("data")));
}

/* What a table of runs shows: a column of every run, or an option. */
typedef struct listing_column {
    const char       *name;     /* "test", "lr" */
    const char       *member;   /* of the JSON object and of the CSV header: "test_accuracy" */
    const qg_recipe_key *option;   /* NULL: a column of every run */
    int               index;    /* of such a column; -1: an option */
} listing_column;

/* NaN: not known, or no number. */
static double number_of(const listed *r, const listing_column *c)
{
    const qg_fit_result *at    = &r->result;
    const bool           known = r->state != LISTED_FOREIGN && r->state != LISTED_DAMAGED;
    switch (c->index) {
    case EPOCHS: return known ? (double)at->epochs : NAN;
    case OF: return r->recipe ? atof(qg_recipe_get(r->recipe, "epochs")) : (double)NAN;
    case VALID: return at->validation_accuracy;
    case TEST: return at->test_accuracy;
    case BEST: return at->best_test_accuracy;
    case BEST_VALID: return at->best_validation_accuracy;
    case AT: return known && at->best_epoch ? (double)at->best_epoch : NAN;
    case TIME: return known ? at->seconds : NAN;
    default: return NAN;
    }
}

/* NULL: it is a number, or there is none.  An option has one, in text, "" if it is unset. */
static const char *word_of(const listed *r, const listing_column *c, char text[QG_RECIPE_VALUE_BYTES])
{
    if (c->option) value_of(r, c->option, text);
    if (c->option) return text;
    if (c->index == DIGEST) return *r->result.digest ? r->result.digest : NULL;
    return c->index == RUN ? r->dir : c->index == STATE ? states[r->state] : c->index == WHY ? r->why : NULL;
}

enum { LISTING_COLUMNS = PLAIN + OPTIONS };

/* The columns of every run, and then the options in which they differ; epochs is a column anyway.  Returns how many. */
static int columns_of(const listing *l, listing_column c[LISTING_COLUMNS])
{
    int n = 0;
    for (int i = 0; i < PLAIN; i++) c[n++] = (listing_column){ plain[i].name, plain[i].member, NULL, i };
    for (const qg_recipe_key *o = qg_recipe_keys; o->name; o++)
        if (is_shown(l, o)) c[n++] = (listing_column){ o->name, o->name, o, -1 };
    return n;
}

/* --- sorting ------------------------------------------------------------------------------ */

/* What a run is sorted by: a number, or else a text. */
typedef struct rank {
    size_t      at;             /* in the list */
    double      number;
    char        text[QG_RECIPE_VALUE_BYTES];
    const char *dir;
} rank;

static int compare_names(const char *a, const char *b) { return qg__names_compare(a, strlen(a), b, strlen(b)); }

static int compare_ranks(const void *one, const void *other)
{
    const rank *a = one, *b = other;
    const bool  x = !isnan(a->number), y = !isnan(b->number);
    int         c = x && y ? (a->number > b->number) - (a->number < b->number) : y - x;
    if (!c && !x) c = !*a->text != !*b->text ? !*a->text - !*b->text : compare_names(a->text, b->text);
    if (!c) c = compare_names(a->dir, b->dir);
    return c ? c : (a->at > b->at) - (a->at < b->at);
}

static rank rank_of(const listing *l, size_t at, const listing_column *by)
{
    char          text[QG_RECIPE_VALUE_BYTES];
    const listed *r = &l->item[at];
    rank          k = { .at = at, .number = NAN, .dir = r->dir };
    if (!by || by->index == RUN) return k;
    const char *word = word_of(r, by, text);
    if (word) snprintf(k.text, sizeof k.text, "%s", word);
    if (!by->option) k.number = number_of(r, by) * (is_accuracy(by->index) ? -1 : 1);
    else if (!qg__number_read(text, strlen(text), &k.number)) k.number = NAN;
    return k;
}

static qg_status find_column(const listing *l, const char *key, listing_column *by)
{
    listing_column c[LISTING_COLUMNS];
    char           names[1024] = "";
    const int      n           = columns_of(l, c);
    for (int i = 0; i < n; i++) {
        *by = c[i];
        if (c[i].name && !strcmp(c[i].name, key)) return QG_OK;
        if (c[i].name) qg__list_append(names, sizeof names, c[i].name);
    }
    const qg_recipe_key *o = option_find(key);
    *by = (listing_column){ key, key, o, -1 };
    if (o && o->is & QG_RECIPE_IDENTITY) return QG_OK;     /* the same in all */
    return qg_fail(QG_EARG, "sort: there is no column '%s'; available: %s", key, names);
}

qg_status listing_sort(listing *l, const char *key)
{
    listing_column by;
    if (key && find_column(l, key, &by)) return QG_EARG;
    rank   *ranks  = malloc((l->count + 1) * sizeof *ranks);
    listed *sorted = malloc((l->count + 1) * sizeof *sorted);
    for (size_t i = 0; ranks && i < l->count; i++) ranks[i] = rank_of(l, i, key ? &by : NULL);
    if (ranks) qsort(ranks, l->count, sizeof *ranks, compare_ranks);
    for (size_t i = 0; ranks && sorted && i < l->count; i++) sorted[i] = l->item[ranks[i].at];
    const bool done = ranks && sorted;
    if (done && l->count) memcpy(l->item, sorted, l->count * sizeof *sorted);
    free(ranks);
    free(sorted);
    return done ? QG_OK : qg_fail(QG_EMEM, "out of memory for the list of runs");
}

/* --- printing ----------------------------------------------------------------------------- */

enum { CELL_BYTES = QG__PATH_BYTES, WIDEST_OPTION = 40 };

/* As people read it; "-" if it is not known. */
static void cell(const listed *r, const listing_column *c, char text[CELL_BYTES])
{
    char         room[QG_RECIPE_VALUE_BYTES];
    const char  *word  = word_of(r, c, room);
    const double value = number_of(r, c), of = number_of(r, &(listing_column){ .index = OF });
    const bool   fits  = !c->option || strlen(room) <= WIDEST_OPTION;
    strcpy(text, "-");
    if (word && *word) snprintf(text, CELL_BYTES, "%.*s%s", fits ? CELL_BYTES : WIDEST_OPTION - 2, word, fits ? "" : "..");
    if (word || isnan(value)) return;
    if (c->index == EPOCHS && isnan(of)) snprintf(text, CELL_BYTES, "%.0f/?", value);
    else if (c->index == EPOCHS) snprintf(text, CELL_BYTES, "%.0f/%.0f", value, of);
    else if (is_accuracy(c->index)) snprintf(text, CELL_BYTES, "%.2f", 100 * value);
    else snprintf(text, CELL_BYTES, c->index == TIME ? "%.1f" : "%.0f", c->index == TIME ? value / 60 : value);
}

/* Whether any run has something to say there. */
static bool is_used(const listing *l, const listing_column *c)
{
    if (c->index <= EPOCHS) return true;
    for (size_t i = 0; i < l->count; i++)
        if (!isnan(number_of(&l->item[i], c))) return true;
    return false;
}

qg_status listing_print(const listing *l, FILE *out)
{
    listing_column c[LISTING_COLUMNS];
    char           text[CELL_BYTES], head[64];
    int            n   = 0;
    const int      all = columns_of(l, c);
    for (int i = 0; i < all; i++)
        if (c[i].name && is_used(l, &c[i])) c[n++] = c[i];
    table t = table_begin(n);
    for (int i = 0; i < n; i++) {
        snprintf(head, sizeof head, "%s%s", c[i].name, is_accuracy(c[i].index) ? " %" : "");
        table_title(&t, head, c[i].index > STATE);
    }
    for (size_t k = 0; k < l->count; k++)
        for (int i = 0; i < n; i++) {
            cell(&l->item[k], &c[i], text);
            table_add(&t, text);
        }
    const qg_status status = table_print(&t, out);
    if (status) return status;
    bool any = false;
    for (size_t k = 0; k < l->count; k++) {
        if (!l->item[k].why) continue;
        if (!any) fputc('\n', out);
        print_safe(out, "%s: %s\n", l->item[k].dir, l->item[k].why);
        any = true;
    }
    return QG_OK;
}

static void print_csv_cell(const listed *r, const listing_column *c, FILE *out)
{
    char         text[QG_RECIPE_VALUE_BYTES];
    const char  *word  = word_of(r, c, text);
    const double value = number_of(r, c);
    if (word) table_put_csv(word, out);
    if (isnan(value)) return;
    qg__number_print(text, 9, value);
    fputs(text, out);
}

void listing_print_csv(const listing *l, FILE *out)
{
    listing_column c[LISTING_COLUMNS];
    const int      n = columns_of(l, c);
    for (int i = 0; i < n; i++) fprintf(out, "%s%s", c[i].member, i == n - 1 ? "\n" : ",");
    for (size_t k = 0; k < l->count; k++)
        for (int i = 0; i < n; i++) {
            print_csv_cell(&l->item[k], &c[i], out);
            fputc(i == n - 1 ? '\n' : ',', out);
        }
}

static void put_run(qg__json *j, const listed *r, const listing_column *c, int n)
{
    char text[QG_RECIPE_VALUE_BYTES];
    qg__json_open(j, NULL, '{');
    for (int i = 0; i < n && !c[i].option; i++) {
        const char *word  = word_of(r, &c[i], text);
        const bool  texts = c[i].index <= STATE || c[i].index >= WHY;
        if (c[i].index == RUN) qg__json_path(j, c[i].member, word);
        else if (texts && (word || c[i].index != WHY)) qg__json_text(j, c[i].member, word);
        if (!texts) qg__json_real(j, c[i].member, number_of(r, &c[i]));
    }
    qg__json_open(j, "options", '{');
    for (int i = 0; i < n; i++) {
        if (!c[i].option || !r->recipe) continue;
        value_of(r, c[i].option, text);
        qg__json_text(j, c[i].member, *text ? text : NULL);
    }
    qg__json_close(j, '}');
    qg__json_close(j, '}');
}

void listing_put(qg__json *j, const listing *l)
{
    listing_column c[LISTING_COLUMNS];
    const int      n = columns_of(l, c);
    qg__json_open(j, "runs", '[');
    for (size_t k = 0; k < l->count; k++) put_run(j, &l->item[k], c, n);
    qg__json_close(j, ']');
}
