/* results/ROW/net.qg, the packed net of one run of a row, and results/ROW/README.md, its model card. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/print.h"
#include "cli/run/packed.h"
#include "cli/run/run_spec.h"
#include "tools/results/results.h"

enum { MOST_BYTES = 550000 };

static void drop(row_net *n)
{
    free(n->file);
    *n = (row_net){ .bytes = 0 };
}

void results_net_end(logged_run *r) { drop(&r->net); }

/* What the file says of itself. */
static qg_status look(row_net *n, const char *path, char digest[17])
{
    packed_net  p;
    qg_status   status = packed_load(&p, path, n->file, n->bytes, QG_INFER_EVALUATE);
    const char *noted  = status ? NULL : qg_infer_note(p.net, "digest");
    snprintf(digest, 17, "%s", noted ? noted : "none");
    n->image = p.image, n->scores = p.scores;
    packed_close(&p);
    return status;
}

qg_status results_read_net(results *all, const char *row)
{
    char        path[QG__PATH_BYTES], digest[17];
    bool        has, runs = false;
    row_net     n = { .bytes = 0 };
    logged_run *of = NULL;
    snprintf(path, sizeof path, RESULTS "/%s/" NET, row);
    qg_status status = qg__file_exists_in(QG_BY_PATH, path, &has);
    if (status || !has) return status;
    status = qg__file_read_in(QG_BY_PATH, path, MOST_BYTES, &n.file, &n.bytes);
    if (!status) status = look(&n, path, digest);
    for (int i = 0; i < all->runs && !status; i++) {
        if (strcmp(all->run[i].row, row)) continue;
        runs = true;
        if (!strcmp(all->run[i].result.digest, digest)) of = &all->run[i];
    }
    if (!status && !runs) strcpy(all->stray, path);
    if (of) drop(&of->net), of->net = n;
    else drop(&n);
    return status;
}

/* Whether r is the first run of its row under the arithmetic of this program. */
static bool is_first(const results *all, const logged_run *r)
{
    const logged_run *first = NULL;
    for (int i = 0; i < all->runs && !first; i++) {
        const logged_run *run = &all->run[i];
        if (strcmp(run->row, r->row)) continue;
        if (run->result.arithmetic == qg__recipe_arithmetic(&run->config)) first = run;
    }
    return first == r;
}

/* A net without a packed form is left out, with a warning. */
static qg_status export_net(const logged_run *r, qg_run *run, row_net *n)
{
    char       digest[17];
    qg_run_export e;
    run_digest(run, digest);
    if (strcmp(digest, r->result.digest))
        return qg_fail(QG_EFORMAT, "%s: has digest %s, but result.json has %s", qg_run_file(run), digest,
                       r->result.digest);
    qg_status status = qg_run_export_of(run, &e);
    if (!status) status = qg_export_bytes(qg_run_net(run), e.spec, &n->file, &n->bytes);
    if (!status) status = look(n, qg_run_file(run), digest);
    if (status != QG_EARG) return status;
    print_safe(stderr, "qgrad: warning: %s gets no " NET ": %s\n", r->row, qg_errmsg());
    return QG_OK;
}

qg_status results_pack(results *all, logged_run *r, const char *dir)
{
    run_paths p;
    row_net   n      = { .bytes = 0 };
    qg_status status = run_paths_of(dir, &p);
    /* The log of a run with averages does not have their digest. */
    if (status || !is_first(all, r) || r->config.ema > 0 || !qg__path_exists(p.file[RUN_LAST])) return status;
    qg_run *run = qg_run_open(dir, QG_RUN_LAST);
    status      = run && qg_run_net(run) ? export_net(r, run, &n) : qg_errcode();
    qg_run_close(run);
    for (int i = 0; i < all->runs && !status; i++)
        if (!strcmp(all->run[i].row, r->row)) drop(&all->run[i].net);
    if (!status && n.bytes <= MOST_BYTES) r->net = n;
    else drop(&n);
    return status;
}

/* --- the model card ------------------------------------------------------------------------- */

/* What a stranger needs to know of a data set: images to try, how images must look, and its terms. */
static const struct set {
    const char *data, *fetch, *sample, *looks, *terms;
} sets[] = {
    { "mnist", "sh datasets/fetch.sh mnist && ", "examples/digits",
      ", a digit in white on black, centred and 20 pixels high",
      "MNIST is by Y. LeCun, C. Cortes and C. J. C. Burges, from images of NIST.\n"
      "Its own page states no licence.  The documentation of Keras says that LeCun and Cortes hold the\n"
      "copyright, and that the licence is Creative Commons Attribution-ShareAlike 3.0." },
    { "cifar10", "sh datasets/fetch.sh cifar10 && ", "IMAGE", ", a photograph",
      "CIFAR-10 is by A. Krizhevsky (Learning Multiple Layers of Features from Tiny Images, 2009).\n"
      "Its page states no licence." },
};

static const struct set *set_of(const char *data)
{
    static const struct set other = { "", "", "IMAGE", "", "They have their own terms." };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (!strcmp(sets[i].data, data)) return &sets[i];
    return &other;
}

/* dir: where the recipe has its images; NULL: in the usual place. */
static void print_commands(const logged_run *r, const struct set *s, const char *dir, FILE *out)
{
    const char *row = r->row;
    fputs("    make deps all\n", out);
    fprintf(out, "    build/qgrad predict --packed " RESULTS "/%s/" NET " %s", row, s->sample);
    fprintf(out, "     # classifies images\n    %sbuild/qgrad infer " RESULTS "/%s/" NET, s->fetch, row);
    if (dir) fprintf(out, " --data-dir %s", dir);
    fprintf(out, "     # measures its accuracy\n    build/qgrad results --repeat %s --seed %" PRIu64, row, r->seed);
    fputs("     # trains it again, and compares all bits\n\n", out);
}

static void print_net(const logged_run *r, FILE *out)
{
    static const char *const keys[] = { "weight", "input", "first-last", "layer" };
    fprintf(out, "- Net: `%s`", qg__recipe_value(&r->config, "model"));
    for (int i = 0; i < 4; i++) {
        const char *value = qg__recipe_value(&r->config, keys[i]);
        for (const char *line = value; line && *line; line = qg__lines_next(line))
            fprintf(out, ", %s `%.*s`", keys[i], (int)strcspn(line, "\n"), line);
    }
    fprintf(out, "; [recipe](../../examples/recipes/%s.toml)", r->row);
    fprintf(out, ", %" PRIu64 " epochs.\n", r->result.epochs);
}

static void print_facts(const logged_run *r, const struct set *s, FILE *out)
{
    const row_net       *n = &r->net;
    const qg_fit_result *a = &r->result;
    const char          *images = r->config.data_digest, *data = qg__recipe_value(&r->config, "data");
    print_net(r, out);
    fprintf(out, "- Input: an image of %d x %d x %d bytes", n->image.h, n->image.w, n->image.c);
    fprintf(out, "%s.\n- Output: scores of %d classes.\n", s->looks, n->scores);
    fprintf(out, "- Test accuracy after the last epoch: %.2f ± %.2f %% (binomial standard error) of the",
            100 * a->test_accuracy, 100 * a->test_accuracy_stderr);
    fprintf(out, " %" PRIu64 "\n  test images of %s.\n", a->test_images, data);
    fprintf(out, "- Weights: digest %s, arithmetic %" PRIu64, a->digest, a->arithmetic);
    fprintf(out, ", commit %s.", a->commit);
    if (images) fprintf(out, "  Images: digest %s.", images);
    fputs("\n\n", out);
}

static void print_source(const qg_recipe *c, FILE *out)
{
    const char *from = qg__recipe_value(c, "provenance");
    fprintf(out, "## Source\n\n%s.", c->reproduces ? c->reproduces : "This net reproduces no paper");
    if (c->reported) fprintf(out, "  Reported test accuracy: %s %%", c->reported);
    if (c->reported && from) fprintf(out, " (%s)", from);
    if (c->reported) fputc('.', out);
    fputs("  [Reproduced papers](../README.md) has all seeds.\n\n", out);
    if (c->deviations) fprintf(out, "Deviations: %s.\n\n", c->deviations);
}

qg_status results_card(const void *run, FILE *out)
{
    const logged_run *r      = run;
    const struct set *s      = set_of(qg__recipe_value(&r->config, "data"));
    qg_recipe         recipe = { .base = NULL };
    const qg_status   status = results_recipe(r->row, &recipe);
    if (status) return status;
    fprintf(out, "# %s\n\n[" NET "](" NET ") is a trained net", r->row);
    fprintf(out, " as a [packed file](../../docs/packed-files.md) of %zu bytes.\n", r->net.bytes);
    fprintf(out, "`qgrad results --add` wrote it and this page from the run with seed %" PRIu64 ".\n\n", r->seed);
    print_commands(r, s, qg__recipe_value(&recipe, "data-dir"), out);
    print_facts(r, s, out);
    print_source(&recipe, out);
    fputs("## Licence\n\n" NET " is under the [licence](../../LICENSE) of this repository, which does not cover the training\n"
          "images.  The file contains none of them.  ", out);
    fprintf(out, "%s\n", s->terms);
    qg__recipe_clear(&recipe);
    return QG_OK;
}
