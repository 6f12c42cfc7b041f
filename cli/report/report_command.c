/* qgrad report: runs as a page, and the pages that qgrad train keeps. */
#include <stdio.h>
#include <string.h>

#include "cli/print.h"
#include "cli/report/follow.h"
#include "cli/report/page.h"
#include "train/measure.h"

/* Images may have been replaced since the run. */
static qg_status check_images(const shown_run *r, const qg_loader *images)
{
    const char     *data   = r->config.recipe.data.name;
    const qg_status status = run_check_size(data, images, r->image, r->classes);
    if (status || run_has_classes(&r->config, images)) return status;
    return qg_fail(QG_EARG, "%s: its class names differ from those the run was trained on", data);
}

/* The test images of a run with validation are read when it is complete. */
static bool is_held(const shown_run *r) { return r->result.validation_images && !r->result.complete; }

/* The test images of a run, if they may be looked at. */
static qg_loader *images_of(const shown_run *r)
{
    recipe asks = r->config.recipe;
    if (is_held(r)) return NULL;
    if (r->used.said) {
        (void)qg_fail(QG_ESTATE, "only the program that trained the run knows its images and its net");
        return NULL;
    }
    qg_preprocess   *noted  = qg_preprocess_open(r->used.run.paths.file[r->used.file]);
    qg_loader *images = noted || !qg_normalise_fits(asks.normalise) ? recipe_data(&asks, true, noted) : NULL;
    qg_preprocess_free(noted);
    if (!images || !check_images(r, images)) return images;
    qg_loader_free(images);
    return NULL;
}

static qg_status look_at_images(shown_run *r, qg_loader *images, mistakes *m)
{
    qg__measured found;
    bool         stopped;
    qg_status    s = mistakes_begin(m, "test", images);
    r->used.spec.fit.test = images;
    const qg__run *run = &r->used.run;
    if (!s)
        s = qg__measure(&r->used.spec.fit, images, r->used.net, run->tape, run->record.steps, &m->all, &found, &stopped);
    if (!s) s = mistakes_draw(m, images);
    return s ? s : shown_run_inputs(r, images);
}

static int report(config *asked, shown_run *run, mistakes *m, qg_loader **images)
{
    char        path[QG__PATH_BYTES];
    const int   n = asked->operands;
    qg_status   s = QG_OK;
    if (n < 1 || n > PAGE_RUNS) {
        if (n) fprintf(stderr, "qgrad report: more than %d runs\n", PAGE_RUNS);
        else fprintf(stderr, "qgrad report: the run directory is missing; usage: qgrad report RUN..\n");
        return EXIT_USAGE;
    }
    for (int i = 0; i < n && !s; i++) {
        s = shown_run_read(&run[i], asked->operand[i], NULL);
        if (s) break;
        images[i] = images_of(&run[i]);
        if (images[i]) s = look_at_images(&run[i], images[i], &m[i]);
        else print_safe(stderr, "qgrad report: warning: %s: no confusions and inputs: %s\n", run[i].dir,
                        is_held(&run[i]) ? "the test images are read when the run is complete" : qg_errmsg());
    }
    if (!s && asked->out) s = strlen(asked->out) < sizeof path ? QG_OK : qg_fail(QG_EARG, "out: the path is too long");
    if (!s && asked->out) strcpy(path, asked->out);
    else if (!s && n > 1) strcpy(path, KEPT_PAGE);
    else if (!s) s = qg__path_join(run->dir, KEPT_PAGE, path);
    if (!s) s = page_write(&(page){ run, n, m }, path);
    if (s) return options_report("qgrad report", s == QG_EARG);
    print_safe(stdout, "%s\n", path);
    return EXIT_DONE;
}

int report_main(const char *program, const char *operand, config *asked)
{
    shown_run  run[PAGE_RUNS];
    mistakes   m[PAGE_RUNS]      = { { 0 } };
    qg_loader *images[PAGE_RUNS] = { NULL };
    (void)program, (void)operand;
    for (int i = 0; i < PAGE_RUNS; i++) run[i] = (shown_run){ .used = NO_RUN };
    const int status = report(asked, run, m, images);
    for (int i = 0; i < PAGE_RUNS; i++) {
        mistakes_end(&m[i]);
        qg_loader_free(images[i]);
        shown_run_free(&run[i]);
    }
    return status;
}
