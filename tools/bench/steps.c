/* Steps of a net, and the time that they take. */
#include "tools/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/dist/exchange.h"
#include "core/rng.h"
#include "train/measure.h"

/* Steps before the measured ones, for memory to be there: fewer where they take long. */
enum { WARM_UP = 5, LEAST_WARM_UP = 2, MAX_STEPS = 1 << 20 };
#define WARM_UP_SECONDS 3.0

/* A step is followed by multiply-adds in registers for a twentieth of its time, but at least a burst. */
#define BURST_SHARE 0.05

/* Of --image: as many bytes as PyTorch holds for one batch of floats. */
enum { NOISE_BATCHES = 4, NOISE_CLASSES = 10 };

/* --image: noise of that shape.  Else mnist where it is, else noise in its shape, which costs the
 * same. */
qg_status bench_choose_data(config *asked)
{
    const char *data = config_text(asked, "data");
    if (config_text(asked, "image")) {
        if (data && strcmp(data, "synthetic"))
            return qg_fail(QG_EARG, "--image is the size of synthetic images, but --data is %s", data);
        return config_set(asked, "data", "synthetic");
    }
    if (data || config_text(asked, "config") || config_text(asked, "recipe")) return QG_OK;
    char        images[QG__PATH_BYTES];
    const char *dir  = config_text(asked, "data-dir");
    const bool  here = !qg__path_join(dir ? dir : "datasets/mnist", "train-images-idx3-ubyte", images) && !access(images, F_OK);
    if (!here) fprintf(stderr, "qgrad: mnist was not found; using noise instead\n");
    return config_set(asked, "data", here ? "mnist" : "synthetic");
}

static qg_loader *open_data(const bench *b)
{
    const qg_recipe *r = &b->recipe;
    if (!config_text(b->asked, "image")) return qg__recipe_data(r, false, NULL);
    return qg_synthetic(config_image(b->asked), NOISE_BATCHES * r->batch, NOISE_CLASSES, qg__recipe_loading(r, false));
}

qg_status bench_build(bench *b)
{
    qg_set_threads(b->recipe.threads);
    b->spec = qg__recipe_fit(&b->recipe);
    b->data = open_data(b);
    b->net  = b->data ? qg__recipe_net(&b->recipe, qg_loader_shape(b->data), qg_loader_classes(b->data)) : NULL;
    if (b->net && !b->forward) b->optim = qg__recipe_optim(&b->recipe, qg_net_params(b->net));
    b->tape = b->optim || (b->net && b->forward) ? qg_tape_new() : NULL;
    if (!b->tape) return QG_EMEM;
    b->image = qg_loader_shape(b->data);
    if (qg_loader_shape(b->data).n < b->recipe.batch)
        return qg_fail(QG_EARG, "a batch of %d exceeds the %d images of %s", b->recipe.batch,
                       qg_loader_shape(b->data).n, b->recipe.data.name);
    b->ms       = malloc(MAX_STEPS * sizeof *b->ms);
    b->peak     = malloc(MAX_STEPS * sizeof *b->peak);
    b->exchange = malloc(MAX_STEPS * sizeof *b->exchange);
    return b->ms && b->peak && b->exchange ? QG_OK : qg_fail(QG_EMEM, "out of memory for %d step times", (int)MAX_STEPS);
}

qg_status bench_next(bench *b, qg_batch *batch)
{
    qg_status status = QG_OK;
    while (!status && (!qg_loader_next(b->data, batch) || batch->n < b->recipe.batch)) status = qg_loader_status(b->data);
    return status;
}

/* Gather, forward; and to train also loss, backward, update.  The tape begins first, which ends the
 * time of the step before. */
qg_status bench_step(bench *b)
{
    qg_batch batch;
    qg_tape_begin(b->tape, b->forward ? QG_EVAL : QG_TRAIN, qg_rng_fork(b->recipe.seed, QG_STREAM_TAPE),
                  b->taken++);
    const double from = qg__now();
    qg_status status = bench_next(b, &batch);
    if (status) return status;
    b->batch += qg__now() - from;
    qg_var *scores = qg_net_forward(b->net, b->tape, batch.x);
    if (b->forward) return scores ? QG_OK : qg_tape_status(b->tape);
    qg_var   *loss   = qg__loss(&b->spec, b->tape, scores, &batch);
    status           = qg_backward(b->tape, loss);
    if (status) return status;
    b->backward_done = qg__now();
    status           = qg_optim_step(b->optim);
    b->update += qg__now() - b->backward_done;
    return status;
}

/* Time is counted from one op to the next, the first of them being the beginning of a step; the last
 * is complete once another step begins. */
static void start_profile(bench *b, qg_profile *p)
{
    qg_tape_profile(b->tape, p);
    qg_tape_begin(b->tape, QG_EVAL, 0, 0);
}

static void stop_profile(bench *b)
{
    qg_tape_begin(b->tape, QG_EVAL, 0, 0);
    qg_tape_profile(b->tape, NULL);
}

/* What the products of a step compute, from the ops themselves. */
static qg_status count_flops(bench *b)
{
    qg_profile p = { 0 };
    b->flops     = 0;
    start_profile(b, &p);
    const qg_status status = bench_step(b);
    stop_profile(b);
    for (int i = 0; i < p.rows; i++)
        b->flops += (p.row[i].forward_flops + p.row[i].backward_flops) / b->recipe.batch;
    return status;
}

static qg_status warm_up(bench *b)
{
    qg_status    status = QG_OK;
    const double began  = qg__now();
    for (int i = 1; i < WARM_UP && !status; i++)
        if (i < LEAST_WARM_UP || qg_ranks_any(qg__now() - began < WARM_UP_SECONDS)) status = bench_step(b);
    if (!status) status = count_flops(b);
    b->batch  = 0;
    b->update = 0;
    return status;
}

/* What lies between ops is gathering, updating and the rest. */
static void split_rest(bench *b)
{
    qg_profile *p = &b->profile;
    for (int i = 0; i < p->rows; i++)
        if (!strcmp(p->row[i].op, "-")) p->row[i].forward -= b->batch + b->update;
    if (p->rows + 2 > QG_PROFILE_ROWS) return;
    p->row[p->rows++] = (qg_profile_row){ .op = "(batch)", .calls = b->steps, .forward = b->batch };
    if (!b->forward)
        p->row[p->rows++] = (qg_profile_row){ .op = "(update)", .calls = b->steps, .backward = b->update };
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *value, int n)
{
    qsort(value, (size_t)n, sizeof *value, by_size);
    return 0.5 * (value[n / 2] + value[(n - 1) / 2]);
}

static void add_traffic(bench *b, qg__traffic before, qg__traffic after)
{
    b->traffic.bytes += after.bytes - before.bytes;
    b->traffic.seconds += after.seconds - before.seconds;
    b->traffic.messages += after.messages - before.messages;
    b->traffic.hidden += after.hidden - before.hidden;
    b->exchange[b->steps] = 1e3 * (after.seconds - before.seconds);
}

qg_status bench_measure(bench *b)
{
    const bool profile = config_flag(b->asked, "profile");
    qg_status  status  = warm_up(b);
    if (status) return status;
    b->steps   = 0;
    b->seconds = 0;
    b->traffic = (qg__traffic){ 0 };
    if (profile) start_profile(b, &b->profile);
    const double limit = config_number(b->asked, "seconds");
    while (b->steps < MAX_STEPS && qg_ranks_any(b->seconds < limit || b->steps < 3)) {
        const qg__traffic before = qg__ranks_traffic();
        const double      from   = qg__now();
        status                   = bench_step(b);
        if (status) return status;
        const double took = qg__now() - from;
        add_traffic(b, before, qg__ranks_traffic());
        b->ms[b->steps]     = 1e3 * took;
        b->peak[b->steps++] = profile ? 0 : bench_burst(BURST_SHARE * took);
        b->seconds += took;
    }
    stop_profile(b);
    if (b->profile.rows) split_rest(b);
    b->median          = bench_median(b->ms, b->steps);
    b->median_peak     = bench_median(b->peak, b->steps);
    b->median_exchange = bench_median(b->exchange, b->steps);
    return QG_OK;
}

double bench_images_per_second(const bench *b) { return 1e3 * b->recipe.batch / b->median; }

void bench_free(bench *b)
{
    free(b->ms);
    free(b->peak);
    free(b->exchange);
    qg_tape_free(b->tape);
    qg_optim_free(b->optim);
    qg_net_free(b->net);
    qg_loader_free(b->data);
}
