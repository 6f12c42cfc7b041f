#include "cli/report/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/report/page.h"

enum { TEXT_BYTES = 192, LINE_LETTERS = 100 };

/* At the end, the test images are read for the last weights and then for the best: only the first time counts. */
void follow_scores(follower *f, qg_loader *images, const qg_batch *b, const qg_var *scores)
{
    mistakes *m = &f->found;
    if (f->uncounted == images) return;
    if (f->images != images) mistakes_end(m);
    f->images = images;
    m->split  = images == f->test ? "test" : "validation";
    if (m->all.images == (uint64_t)qg_loader_shape(images).n || scores->shape.c != qg_loader_classes(images)) return;
    const qg_status status = qg_assessment_add(&m->all, images, b, scores, WORST_IMAGES);
    if (!status) return;
    mistakes_end(m);                    /* the page has none, rather than those of the batches that follow */
    f->uncounted = images;
}

/* --- the terminal ------------------------------------------------------------------------------ */

static double last_of(qg_run *run, const char *column)
{
    int           epochs;
    const double *x = qg_run_column(run, column, &epochs);
    return x[epochs - 1];
}

/* Of each layer, the column of zeros stands before that of flips. */
static void print_codes(qg_run *run)
{
    int         used = 0;
    const char *name, *next;
    for (int i = 0; (name = qg_run_column_name(run, i)) && (next = qg_run_column_name(run, i + 1)); i++) {
        const char *part = metric_column_part(name);
        char        text[TEXT_BYTES];
        if (!part || strcmp(part, "zeros")) continue;
        const int n = snprintf(text, sizeof text, "  %.*s %.2f %% flipped %.0f %% zeros", (int)(part - 1 - name), name,
                               100 * last_of(run, next), 100 * last_of(run, name));
        if (used && used + n > LINE_LETTERS) fputc('\n', stderr), used = 0;
        fputs(text, stderr);
        used += n;
    }
    if (used) fputc('\n', stderr);
}

static qg_status write_page(follower *f, shown_run *r, int dir)
{
    char      path[QG__PATH_BYTES];
    qg_status s = f->images && f->found.split ? mistakes_draw(&f->found, f->images) : QG_OK;
    if (!s && f->images) s = shown_run_inputs(r, f->images);
    if (!s) s = qg__path_join(r->dir, KEPT_PAGE, path);
    int          group, groups;
    shown_group *alone = s ? NULL : shown_groups(r, 1, &group, &groups);
    if (!s && !alone) s = qg_errcode();
    if (!s) s = page_write(&(page){ .run = r, .runs = 1, .group = alone, .groups = 1, .in = &group, .mistakes = f->found.split ? &f->found : NULL },
                           dir, path, OUTPUT_KEPT_PAGE);
    shown_groups_free(alone, 1);
    return s;
}

qg_status follow_run(follower *f, const char *dir)
{
    shown_run r;
    const int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);       /* what is there when all has been read may be another */
    qg_status s  = shown_run_read(&r, dir, f->layer);
    if (!s && at < 0) s = qg_fail(QG_EIO, "cannot open %s: %s", dir, strerror(errno));
    if (!s && !f->layer) f->layer = malloc((size_t)r.layers * sizeof *f->layer);
    if (!s && f->layer) memcpy(f->layer, r.layer, (size_t)r.layers * sizeof *f->layer);     /* else measured again */
    if (!s && f->codes) print_codes(r.run);
    if (!s) s = write_page(f, &r, at);
    if (at >= 0) close(at);
    shown_run_free(&r);
    mistakes_end(&f->found);
    f->uncounted = NULL;
    return s;
}

void follow_end(follower *f)
{
    mistakes_end(&f->found);
    free(f->layer);
}
