/* qgrad predict: the most probable classes of image files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config/options.h"
#include "cli/predict/scorer.h"
#include "cli/predict/walk.h"
#include "cli/print.h"
#include "cli/run/report.h"

enum { MOST_IMAGES = 64, MOST_BYTES = 4 << 20, WHY_BYTES = QG__PATH_BYTES + 256 };

typedef struct prediction {
    const config *asked;
    scorer        scorer;
    walk          files;
    int           most;         /* images at once */
    uint8_t      *bytes;        /* [most][h][w][c] */
    float        *scores;       /* [most][classes] */
    double       *share;        /* [classes], of one image */
    char        (*why)[WHY_BYTES];  /* [most], why an image has no prediction; empty: it has one */
    size_t        failed;
    bool          deep;         /* a warning has said so */
    qg__json      json;
} prediction;

/* --- one image ---------------------------------------------------------------------------- */

/* False: a score is not finite. */
static bool find_shares(const prediction *p, const float *score)
{
    for (int k = 0; k < p->scorer.classes; k++)
        if (!isfinite(score[k])) return false;
    qg_probabilities(score, p->scorer.classes, p->share);
    return true;
}

/* The next class in order of score, of equal ones the first; each is returned once, as its score is then removed. */
static int take_best(const prediction *p, float *score)
{
    int best = 0;
    for (int k = 1; k < p->scorer.classes; k++)
        if (score[k] > score[best]) best = k;
    score[best] = -INFINITY;
    return best;
}

static void print_unread(prediction *p, const char *path, const char *why)
{
    p->failed++;
    print_safe(stderr, "qgrad predict: %s\n", why);
    if (!config_flag(p->asked, "json")) return;
    qg__json_open(&p->json, NULL, '{');
    qg__json_path(&p->json, "file", path);
    qg__json_text(&p->json, "error", why);
    qg__json_close(&p->json, '}');
}

static void print_class(prediction *p, int k, bool first)
{
    const char  *name  = scorer_name(&p->scorer, k);
    const double share = p->share[k];
    if (!config_flag(p->asked, "json")) {
        print_safe(stdout, "%s %s %.2f %%", first ? ":" : ",", name, 100 * share);
        return;
    }
    qg__json_open(&p->json, NULL, '{');
    qg__json_integer(&p->json, "class", (uint64_t)k);
    qg__json_text(&p->json, "name", name);
    qg__json_real(&p->json, "probability", share);
    qg__json_close(&p->json, '}');
}

static void print_image(prediction *p, const char *path, float *score)
{
    const int n = p->scorer.classes, top = config_integer(p->asked, "top") < n ? config_integer(p->asked, "top") : n;
    char      why[QG__PATH_BYTES + 64];
    if (!find_shares(p, score)) {
        snprintf(why, sizeof why, "'%s': its scores are not finite", path);
        print_unread(p, path, why);
        return;
    }
    if (config_flag(p->asked, "json")) {
        qg__json_open(&p->json, NULL, '{');
        qg__json_path(&p->json, "file", path);
        qg__json_open(&p->json, "classes", '[');
    } else {
        print_safe(stdout, "%s", path);
    }
    for (int i = 0; i < top; i++) print_class(p, take_best(p, score), i == 0);
    if (config_flag(p->asked, "json")) {
        qg__json_close(&p->json, ']');
        qg__json_close(&p->json, '}');
    } else {
        fputc('\n', stdout);
    }
}

/* --- all of them -------------------------------------------------------------------------- */

static qg_status allocate(prediction *p)
{
    const scorer *s = &p->scorer;
    const size_t  n = MOST_BYTES / qg_row(s->image);
    p->most         = n < 1 ? 1 : n > MOST_IMAGES ? MOST_IMAGES : (int)n;
    p->bytes        = malloc((size_t)p->most * qg_row(s->image));
    p->scores       = calloc((size_t)p->most * (size_t)s->classes, sizeof *p->scores);
    p->share        = calloc((size_t)s->classes, sizeof *p->share);
    p->why          = calloc((size_t)p->most, sizeof *p->why);
    return p->bytes && p->scores && p->share && p->why ? QG_OK : qg_fail(QG_EMEM, "out of memory for %d images", p->most);
}

static void warn_of_deep(prediction *p, const char *path)
{
    if (!p->deep)
        print_safe(stderr, "qgrad: warning: '%s' has 16 bits per value; only the high 8 of them are used\n", path);
    p->deep = true;
}

/* Reads up to `most` images from item[0 .. n), those without a reason into bytes one after the other.  Returns how many. */
static int read_images(prediction *p, const walk_item *item, int n)
{
    int read = 0;
    for (int i = 0; i < n; i++) {
        uint8_t *to = p->bytes + (size_t)read * qg_row(p->scorer.image);
        snprintf(p->why[i], WHY_BYTES, "%s", item[i].why ? item[i].why : "");
        if (item[i].why) continue;
        bool deep;
        if (!qg_image_read(item[i].path, p->scorer.image, to, &deep)) read++;
        else snprintf(p->why[i], WHY_BYTES, "%s", qg_errmsg());
        if (deep) warn_of_deep(p, item[i].path);
    }
    return read;
}

/* What cannot be read or scored is told, and the rest goes on. */
static void predict_some(prediction *p, const walk_item *item, int n)
{
    const size_t classes = (size_t)p->scorer.classes;
    const int    read    = read_images(p, item, n);
    const bool   scored  = read == 0 || !scorer_score(&p->scorer, read, p->bytes, p->scores);
    float       *score   = p->scores;
    for (int i = 0; i < n; i++) {
        if (*p->why[i] || !scored) {
            print_unread(p, item[i].path, *p->why[i] ? p->why[i] : qg_errmsg());
        } else {
            print_image(p, item[i].path, score);
            score += classes;
        }
    }
}

static void predict_all(prediction *p)
{
    const walk *w = &p->files;
    if (w->others)
        print_safe(stderr, "qgrad: warning: skipped %zu file%s that %s not PNG, JPEG or BMP, such as '%s'\n", w->others,
                   w->others > 1 ? "s" : "", w->others > 1 ? "are" : "is", w->skipped);
    if (config_flag(p->asked, "json")) {
        p->json = qg__json_begin(stdout);
        scorer_describe(&p->scorer, &p->json);
        qg__json_open(&p->json, "images", '[');
    }
    for (size_t i = 0; i < w->count; i += (size_t)p->most)
        predict_some(p, &w->item[i], w->count - i < (size_t)p->most ? (int)(w->count - i) : p->most);
    if (!config_flag(p->asked, "json")) return;
    qg__json_close(&p->json, ']');
    qg__json_integer(&p->json, "failed", p->failed);
    report_machine(&p->json);
    qg__json_end(&p->json);
}

static qg_status find_files(prediction *p)
{
    qg_status status = QG_OK;
    for (int i = 0; i < p->asked->operands && !status; i++) status = walk_add(&p->files, p->asked->operand[i]);
    return status;
}

/* The first operand, if a run is there. */
static const char *run_among_images(const prediction *p)
{
    qg_run *r = p->asked->operands ? qg_run_open(p->asked->operand[0], QG_RUN_LAST) : NULL;
    qg_run_close(r);
    return r ? p->asked->operand[0] : NULL;
}

static qg_status check_options(const prediction *p)
{
    const bool  run = config_text(p->asked, "run"), packed = config_text(p->asked, "packed");
    const char *meant = run || packed ? NULL : run_among_images(p);
    if (meant) return qg_fail(QG_EARG, "--run is missing; did you mean --run %s?", meant);
    if (!run && !packed) return qg_fail(QG_EARG, "--run is missing: the directory of a run, or a checkpoint; or --packed FILE");
    if (run && packed) return qg_fail(QG_EARG, "--run and --packed were given; pass only one");
    if (packed && config_flag(p->asked, "best"))
        return qg_fail(QG_EARG, "--best chooses the weights of --run, and a packed net has one set");
    return p->asked->operands ? QG_OK : qg_fail(QG_EARG, "the images are missing: files or folders");
}

static int predict(prediction *p)
{
    if (check_options(p)) return print_failure(p->asked);
    qg_status status = find_files(p);
    if (!status) status = scorer_begin(&p->scorer, p->asked);
    if (!status) status = allocate(p);
    if (status) return print_failure(p->asked);
    predict_all(p);
    return p->failed ? EXIT_FAILED : EXIT_DONE;
}

static int predict_main(config *asked)
{
    prediction p      = { .asked = asked };
    const int  status = predict(&p);
    scorer_end(&p.scorer);
    walk_end(&p.files);
    free(p.bytes), free(p.scores), free(p.share), free(p.why);
    return status;
}

static const verb_option own_options[] = {
    { "run", "the run directory, or a checkpoint of its own; this or\n--packed is required" },
    { "packed", "the file that qgrad export wrote, in place of --run" }, { "best" }, { "top" }, { "threads" }, { NULL }
};

const verb predict_verb = {
    .name = "predict", .about = "Tell the most probable classes of image files, and of all images in folders",
    .usage = "predict --run DIR|--packed FILE IMAGE|FOLDER.. [options]", .run = predict_main, .has_operands = true, .reads_run = true,
    .fails = " or a file that could not be read",
    .options = (const verb_option *const[]){ common_options, own_options, NULL },
};
