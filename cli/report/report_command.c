/* qgrad report: runs as a page, and the pages that qgrad train keeps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/print.h"
#include "cli/report/follow.h"
#include "cli/report/page.h"
#include "core/io/file.h"
#include "core/io/json_write.h"

/* The test images of a run with validation are read when it is complete; quantize reads them, too. */
static bool is_held(const shown_run *r)
{
    return r->result.validation_images && !r->result.complete && !r->result.test_images;
}

/* The test images of a run, if they may be looked at. */
static qg_loader *images_of(const shown_run *r, const char *dir)
{
    if (is_held(r)) return NULL;
    if (!qg_run_config(r->run)) return qg_run_test(r->last, (qg_run_test_spec){ .dir = dir });
    (void)qg_fail(QG_ESTATE, "only the program that trained the run knows its images and its net");
    return NULL;
}

static qg_status look_at_images(shown_run *r, qg_loader *images, mistakes *m)
{
    *m          = (mistakes){ .split = "test" };
    qg_status s = qg_run_evaluate(r->last, images, (qg_run_evaluate_spec){ .worst = WORST_IMAGES }, &m->all);
    if (!s) s = mistakes_draw(m, images);
    return s ? s : shown_run_inputs(r, images);
}

/* The images of a run that is shown one by one. */
static qg_status look(shown_run *r, const char *dir, mistakes *m)
{
    qg_loader *images = images_of(r, dir);
    if (!images) {
        print_safe(stderr, "qgrad: warning: %s: no confusions and inputs: %s\n", r->dir,
                   is_held(r) ? "the test images are read when the run is complete" : qg_errmsg());
        return QG_OK;
    }
    const qg_status s = look_at_images(r, images, m);
    qg_loader_free(images);
    return s;
}

static qg_status name_page(const config *asked, const shown_run *run, char path[QG__PATH_BYTES])
{
    const char *to = config_text(asked, "out") ? config_text(asked, "out") : KEPT_PAGE;
    if (!config_text(asked, "out") && asked->operands == 1) return qg__path_join(run->dir, KEPT_PAGE, path);
    if (strlen(to) >= QG__PATH_BYTES) return qg_fail(QG_EARG, "out: the path is too long");
    strcpy(path, to);
    return QG_OK;
}

/* What the runs of a report need; all [runs]. */
typedef struct reported {
    shown_run   *run;
    mistakes    *found;
    int         *in;
    bool        *whole;
    shown_group *group;
    int          runs, groups;
} reported;

static qg_status begin(reported *r, int runs)
{
    *r = (reported){ .run   = calloc((size_t)runs, sizeof *r->run),
                     .found = calloc((size_t)runs, sizeof *r->found),
                     .in    = calloc((size_t)runs, sizeof *r->in),
                     .whole = calloc((size_t)runs, sizeof *r->whole) };
    if (!r->run || !r->found || !r->in || !r->whole) return qg_fail(QG_EMEM, "out of memory for %d runs", runs);
    r->runs = runs;
    return QG_OK;
}

static void end(reported *r)
{
    for (int i = 0; i < r->runs; i++) mistakes_end(&r->found[i]), shown_run_free(&r->run[i]);
    shown_groups_free(r->group, r->groups);
    free(r->run), free(r->found), free(r->in), free(r->whole);
}

/* Reads one run after the other, so that the memory of one net suffices.  Of many runs only the first of a group is shown one
 * by one, and only so many. */
static qg_status gather(reported *r, const config *asked)
{
    qg_status s = QG_OK;
    int       shown = 0;
    for (int i = 0; i < r->runs && !s; i++) {
        s = shown_run_read(&r->run[i], asked->operand[i], NULL);
        shown_groups_free(r->group, r->groups);
        r->group = NULL;
        if (!s && !(r->group = shown_groups(r->run, i + 1, r->in, &r->groups))) s = qg_errcode();
        r->whole[i] = r->runs <= PAGE_WHOLE || (!s && r->group[r->in[i]].first == &r->run[i] && shown < PAGE_WHOLE);
        shown += r->whole[i];
        if (!s && r->whole[i]) s = look(&r->run[i], config_text(asked, "data-dir"), &r->found[i]);
        shown_run_release(&r->run[i]);
    }
    return s;
}

static void print_json(const reported *r, const char *path, const char *charts)
{
    qg__json j = qg__json_begin(stdout);
    qg__json_path(&j, "page", path);
    if (charts) qg__json_path(&j, "charts", charts);
    qg__json_open(&j, "runs", '[');
    for (int i = 0; i < r->runs; i++) qg__json_path(&j, NULL, r->run[i].dir);
    qg__json_close(&j, ']');
    qg__json_end(&j);
}

static int report(const config *asked, reported *r)
{
    char        path[QG__PATH_BYTES];
    const bool  json = config_flag(asked, "json");
    const char *out  = config_text(asked, "out");
    qg_status   s    = begin(r, asked->operands);
    if (!s && json && output_is_stdout(out))
        s = qg_fail(QG_EARG, "--json and --out %s exclude each other: both are printed", out);
    if (!s && out) s = output_check(out, OUTPUT_PAGE);
    if (!s) s = gather(r, asked);
    if (!s) s = name_page(asked, r->run, path);
    const page p = { .run      = r->run,
                     .runs     = r->runs,
                     .group    = r->group,
                     .groups   = r->groups,
                     .in       = r->in,
                     .whole    = r->runs > PAGE_WHOLE ? r->whole : NULL,
                     .mistakes = r->found };
    if (!s) s = page_write(&p, QG_BY_PATH, path, out ? OUTPUT_PAGE : OUTPUT_KEPT_PAGE);
    if (!s && config_text(asked, "charts")) s = page_write_charts(&p, config_text(asked, "charts"));
    if (s) return print_failure(asked);
    if (json) print_json(r, path, config_text(asked, "charts"));
    else if (!output_is_stdout(out)) print_safe(stdout, "%s\n", path);
    return EXIT_DONE;
}

static int report_main(config *asked)
{
    reported r = { .runs = 0 };
    if (asked->operands < 1) return refuse(asked, "the run directory is missing; usage: qgrad report RUN..");
    const int status = report(asked, &r);
    end(&r);
    return status;
}

static const verb_option own_options[] = {
    { "out", "the page; default: report.html in the run" }, { "charts" }, { "data-dir" }, { NULL }
};

const verb report_verb = {
    .name = "report", .about = "Show runs as a page: curves, weights, levels, confusions, mistakes",
    .usage = "report RUN.. [options]", .run = report_main, .has_operands = true,
    .options = (const verb_option *const[]){ common_options, own_options, NULL },
};
