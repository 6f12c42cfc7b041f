/* A rank's part of a step is computed a second time with exchanges that cost nothing, which tells how long computing takes, and
 * when how much would be sent to whom.  A step is predicted from that and from two numbers of the link: L, the time of an empty
 * exchange, and W, the bytes per second of a large one.
 *
 *     a rank computes until its next message; messages use its link one after the other, each for bytes / W;
 *     a message arrives L after that.  The rank waits for it, or for gradients (core/dist/pending.h) when the backward pass ends.
 *
 * If it waits for all, this is T = computing + k L + B / W.  L and W depend on the highest bit in which the numbers of the two
 * ranks differ, since ranks side by side may share a node. */
#include "tools/bench/scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/output.h"
#include "cli/run/report.h"
#include "core/clock.h"
#include "core/kernels/cpu.h"
#include "core/kernels/parallel.h"
#include "core/dist/exchange.h"

/* --- exchanges that cost nothing -------------------------------------------------------------- */

/* When a step was at its latest message. */
typedef struct recorder {
    line  *line;
    double then;
    int    tag, of_tag;         /* of the latest gradient, and how many messages it has had */
} recorder;

int scaling_bit_between(int a, int b)
{
    int bit = 0;
    while (((a ^ b) >> bit) > 1) bit++;
    return bit;
}

static qg_status record(recorder *r, message_kind kind, int other, size_t bytes)
{
    line *l = r->line;
    if (l->messages == l->room) {
        const int room  = 2 * l->room + 64;
        message  *grown = realloc(l->message, (size_t)room * sizeof *grown);
        if (!grown) return qg_fail(QG_EMEM, "out of memory for %d messages", room);
        l->message = grown;
        l->room    = room;
    }
    l->message[l->messages++] = (message){ kind, scaling_bit_between(qg_rank(), other), 1e3 * (qg__now() - r->then), (double)bytes };
    return QG_OK;
}

/* The other rank has what this one has, so numbers stay finite. */
static void copy(const void *out, void *in, size_t bytes_out, size_t bytes_in)
{
    const size_t both = bytes_out < bytes_in ? bytes_out : bytes_in;
    memcpy(in, out, both);
    memset((char *)in + both, 0, bytes_in - both);
}

static qg_status silent(void *context, int other, const void *out, void *in, size_t bytes_out, size_t bytes_in)
{
    recorder *r      = context;
    qg_status status = r->line ? record(r, WAITS, other, bytes_out > bytes_in ? bytes_out : bytes_in) : QG_OK;
    copy(out, in, bytes_out, bytes_in);
    r->then = qg__now();
    return status;
}

static qg_status silent_post(void *context, qg__transfer *m, int other, const void *out, void *in, size_t bytes_out, size_t bytes_in)
{
    recorder *r = context;
    r->of_tag   = r->tag == m->tag ? r->of_tag + 1 : 1;
    r->tag      = m->tag;
    const message_kind kind   = r->of_tag < qg_ranks() ? GRADIENT : SUM;
    qg_status          status = r->line ? record(r, kind, other, bytes_out > bytes_in ? bytes_out : bytes_in) : QG_OK;
    copy(out, in, bytes_out, bytes_in);
    r->then = qg__now();
    return status;
}

/* The messages of a step that computes that long. */
static void stretch(line *l, double compute_ms)
{
    double recorded = l->last_ms;
    for (int i = 0; i < l->messages; i++) recorded += l->message[i].after_ms;
    for (int i = 0; i < l->messages; i++) l->message[i].after_ms *= compute_ms / recorded;
    l->last_ms *= compute_ms / recorded;
    l->compute_ms = compute_ms;
}

/* One step, message by message. */
static qg_status record_step(bench *b, recorder *r, line *l)
{
    *r               = (recorder){ .line = l, .then = qg__now() };
    qg_status status = bench_step(b);
    l->last_ms       = 1e3 * (qg__now() - b->backward_done);
    r->then          = fmin(r->then, b->backward_done);
    if (!status) status = record(r, BACKWARD_DONE, qg_rank(), 0);
    if (status) return status;
    l->message[l->messages - 1].after_ms = 1e3 * (b->backward_done - r->then);
    return QG_OK;
}

/* What rank `rank` of l->ranks computes and would send.  Ranks measure at the same time, as they compute at the same time. */
static qg_status measure_silent(bench *b, int rank, line *l)
{
    recorder r = { .line = NULL };
    qg__ranks_act(rank, l->ranks, (qg__link){ .exchange = silent, .post = silent_post, .context = &r });
    qg_status status = bench_measure(b);
    const double compute_ms = b->median - b->median_exchange;
    if (!status) status = record_step(b, &r, l);
    if (!status) stretch(l, compute_ms);
    return status;
}

/* --- exchanges ---------------------------------------------------------------------------------- */

/* The largest of all ranks' values.  A rank that cannot be reached fails the next step. */
static double largest(double mine)
{
    for (int bit = 1; bit < qg_ranks(); bit *= 2) {
        double other = mine;
        if (!qg__ranks_exchange(qg_rank() ^ bit, &mine, &other, sizeof mine, sizeof other)) mine = fmax(mine, other);
    }
    return mine;
}

/* The median time of an exchange of so many bytes with the rank at that distance, while other pairs do the same. */
static qg_status time_exchange(int distance, size_t bytes, int times, double *seconds)
{
    double   *took   = malloc((size_t)times * sizeof *took);
    char     *data   = calloc(2, bytes);
    qg_status status = took && data ? QG_OK : qg_fail(QG_EMEM, "out of memory for a message of %zu bytes", bytes);
    for (int i = -1; i < times && !status; i++) {           /* the first is a warm-up */
        const double from = qg__now();
        status            = qg__ranks_exchange(qg_rank() ^ distance, data, data + bytes, bytes, bytes);
        if (i >= 0) took[i] = qg__now() - from;
    }
    if (!status) *seconds = largest(bench_median(took, times));
    free(took);
    free(data);
    return status;
}

static qg_status measure_link(int distance, link_speed *link)
{
    enum { EMPTY_TIMES = 200, LARGE_TIMES = 9, LARGE = 4 << 20 };
    double    large  = 0;
    qg_status status = time_exchange(distance, 1, EMPTY_TIMES, &link->seconds);
    if (!status) status = time_exchange(distance, LARGE, LARGE_TIMES, &large);
    link->bytes_per_second = LARGE / fmax(large - link->seconds, 1e-9);
    return status;
}

/* --- measuring ---------------------------------------------------------------------------------- */

static bench begin(const scaling *s, int batch)
{
    bench b        = { .asked = s->asked, .config = s->config, .recipe = *s->config };
    b.recipe.batch = batch;
    return b;
}

static void end(scaling *s, bench *b)
{
    bench_free(b);
    s->shown              = *b;
    s->shown.recipe.batch = s->config->batch;
}

/* All ranks of the line call it. */
static qg_status measure_line(scaling *s, line *l, bool first)
{
    bench     b      = begin(s, l->batch);
    qg_status status = bench_build(&b);
    if (!status && first && l->ranks > 1) status = measure_link(l->ranks / 2, &s->link[scaling_bit_between(0, l->ranks / 2)]);
    if (!status) status = bench_measure(&b);
    l->ms          = b.median;
    l->compute_ms  = b.median;
    l->exchange_ms = b.median_exchange;
    if (!status && l->ranks > 1) status = measure_silent(&b, qg_rank(), l);
    qg__ranks_act(qg_rank(), l->ranks, (qg__link){ 0 });
    if (!status && l->ranks > 1) stretch(l, largest(l->compute_ms));
    end(s, &b);
    return status;
}

/* The last of several ranks has the most columns of a dense layer's weight gradient (core/slices.h). */
static qg_status project_line(scaling *s, line *l)
{
    bench     b      = begin(s, l->batch);
    qg_status status = bench_build(&b);
    if (!status) status = measure_silent(&b, l->ranks - 1, l);
    qg__ranks_act(0, 1, (qg__link){ 0 });
    end(s, &b);
    return status;
}

/* Of weak scaling.  A projection goes on from batches that all ranks share. */
static qg_status check_batch(const qg_recipe *c, int ranks, bool project)
{
    const double most = option_find("batch")->max;
    if (project && c->batch < ranks)
        return qg_fail(QG_EARG, "batch: %d ranks cannot share %d image%s", ranks, c->batch, c->batch == 1 ? "" : "s");
    if ((double)c->batch * ranks <= most) return QG_OK;
    return qg_fail(QG_EARG, "batch: %d for each of %d ranks is more than %.0f", c->batch, ranks, most);
}

static qg_status fill(scaling *s, lines *t, bool weak, int most, bool project)
{
    qg_status status = QG_OK;
    for (int ranks = 1; ranks <= most && !status; ranks *= 2) {
        line *l  = &t->line[t->n++];
        *l       = (line){ .ranks = ranks, .batch = s->config->batch * (weak ? ranks : 1), .latencies = 1, .sent = 1 };
        if (weak && ranks == 1) *l = s->strong.line[0];
        else if (project) status = project_line(s, l);
        else if (qg__ranks_among(ranks)) status = measure_line(s, l, !weak);
        if (status && !project) qg_ranks_abort(EXIT_FAILED, NULL);
    }
    return status;
}

/* --- the model ---------------------------------------------------------------------------------- */

/* Least squares of computing over 1 / ranks. */
static void fit(scaling *s)
{
    double    x = 0, y = 0, xx = 0, xy = 0;
    const int n = s->strong.n;
    for (int i = 0; i < n; i++) {
        const line  *l = &s->strong.line[i];
        const double u = 1.0 / l->ranks;
        x += u, y += l->compute_ms, xx += u * u, xy += u * l->compute_ms;
    }
    s->c = (n * xy - x * y) / (n * xx - x * x);
    s->s = (y - s->c * x) / n;
}

double scaling_predict(const line *l, const link_speed link[DISTANCES])
{
    double now = 0, idle = 0, gradient = 0, last = 0;       /* idle: from then on the link is; when gradients have arrived */
    for (const message *m = l->message; m < l->message + l->messages; m++) {
        const link_speed via = link[m->bit];
        now += m->after_ms;
        if (m->kind == BACKWARD_DONE) {
            now = fmax(now, last);
            continue;
        }
        idle           = fmax(fmax(idle, now), m->kind == SUM ? gradient : 0) + 1e3 * m->bytes * l->sent / via.bytes_per_second;
        double arrives = idle + 1e3 * via.seconds * l->latencies;
        if (m->kind == WAITS) now = arrives;
        if (m->kind == GRADIENT) gradient = arrives;
        if (m->kind != WAITS) last = fmax(last, arrives);
    }
    return l->messages ? now + l->last_ms : l->compute_ms;
}

double scaling_predict_alike(const line *l, link_speed link)
{
    return scaling_predict(l, (link_speed[DISTANCES]){ link, link, link, link });
}

double scaling_efficiency(const lines *t, const line *l, double ms)
{
    const line *one = &t->line[0];
    return one->compute_ms * l->batch / one->batch / (ms * l->ranks);
}

double scaling_bytes_of(const line *l)
{
    double bytes = 0;
    for (int i = 0; i < l->messages; i++) bytes += l->message[i].bytes;
    return l->sent * bytes;
}

double scaling_waits_of(const line *l)
{
    int n = 0;
    for (int i = 0; i < l->messages; i++) n += l->message[i].kind == WAITS;
    return n * l->latencies;
}

/* More ranks than there are slices: the messages of as many ranks as possible, which take longer.  Every exchange goes over one
 * more distance for each doubling.  A rank sends 1 - 1 / ranks of what there is, if it has
 * as much as the others. */
static qg_status extrapolate_line(const line *from, int ranks, int batch, double compute_ms, double whole, line *l)
{
    *l = (line){ .ranks = ranks, .batch = batch, .messages = from->messages, .last_ms = from->last_ms,
                 .latencies = log2(ranks) / log2(from->ranks), .sent = whole * (1 - 1.0 / ranks) / scaling_bytes_of(from) };
    l->message = malloc((size_t)l->messages * sizeof *l->message);
    if (!l->message) return qg_fail(QG_EMEM, "out of memory for %d messages", l->messages);
    memcpy(l->message, from->message, (size_t)l->messages * sizeof *l->message);
    stretch(l, compute_ms);
    return QG_OK;
}

/* What there is to send has a part that grows with the batch.  So has computing, because of dense layers: it grows as up to
 * QG_MAX_RANKS / 2 ranks, since more have one slice each, which threads cannot share. */
static qg_status extrapolate(scaling *s)
{
    const line  *strong = &s->strong.line[s->strong.n - 1], *weak = &s->weak.line[s->weak.n - 1];
    const double most = weak->ranks, sent = 1 - 1 / most;
    const double images  = (scaling_bytes_of(weak) - scaling_bytes_of(strong)) / sent / (most - 1);        /* of one rank's batch */
    const double weights = scaling_bytes_of(strong) / sent - images;
    const double slope   = fmax((weak[-1].compute_ms - s->weak.line[0].compute_ms) / (most / 2 - 1), 0);
    const int    batch   = s->config->batch;
    qg_status    status  = QG_OK;
    for (int ranks = 2 * (int)most; s->strong.n < LINES && !status; ranks *= 2) {
        const double share     = most / ranks;          /* no faster than that, whatever disturbed the measurement */
        const double computing = fmax(strong->compute_ms * share, strong->compute_ms - s->c * (1 / most - 1.0 / ranks));
        status = extrapolate_line(strong, ranks, batch, computing, weights + images, &s->strong.line[s->strong.n++]);
        if (!status) status = extrapolate_line(weak, ranks, batch * ranks, weak->compute_ms + slope * (ranks - most),
                                               weights + images * ranks, &s->weak.line[s->weak.n++]);
    }
    return status;
}

/* --- the command -------------------------------------------------------------------------------- */

static qg_status read_links(scaling *s)
{
    const char *at = config_text(s->asked, "link");
    for (; at && *at; at = qg__lines_next(at)) {
        char   item[QG_RECIPE_VALUE_BYTES];
        double v[2];
        snprintf(item, sizeof item, "%.*s", (int)strcspn(at, "\n"), at);
        if (s->links.count == MOST_LINKS) return qg_fail(QG_EARG, "link: more than %d links", MOST_LINKS);
        if (qg_keys_parse(NULL, item, config_link_keys, v)) return qg_errcode();
        s->links.item[s->links.count++] = (link_speed){ .seconds = 1e-6 * v[0], .bytes_per_second = 1e9 / 8 * v[1] };
    }
    return QG_OK;
}

static int run(scaling *s)
{
    qg_status  status  = qg_ranks_begin(NULL, NULL);
    if (!status) status = read_links(s);
    const bool project = s->links.count > 0;
    if (!status && qg_ranks() == 1 && !project)
        return refuse(s->asked, "there is one rank; start several, as in mpirun -n 4 build/qgrad-mpi bench scaling .., or project with --link");
    if (!status && qg_ranks() > 1 && project) status = qg_fail(QG_EARG, "--link projects from one process, without mpirun");
    const int most = project ? QG_MAX_RANKS : qg_ranks();
    if (!status) status = bench_choose_data(s->asked);
    if (!status) status = config_read(s->asked);
    if (!status && !(s->config = qg__recipe_full(s->asked->recipe))) status = qg_errcode();
    if (!status) status = qg__recipe_check(s->config, true);
    if (!status) status = check_batch(s->config, most, project);
    if (!status && config_text(s->asked, "out") && qg_rank() == 0)
        status = output_check(config_text(s->asked, "out"), OUTPUT_PICTURE);
    if (status) return print_failure(s->asked);
    status = fill(s, &s->strong, false, most, project);
    if (!status) status = fill(s, &s->weak, true, most, project);
    if (!project) qg__ranks_among(most);
    if (!status) fit(s);
    if (!status && project) status = extrapolate(s);
    const char *out = config_text(s->asked, "out");
    if (!status && out && qg_rank() == 0) status = output_print(out, OUTPUT_PICTURE, scaling_print_svg, s);
    if (status) return print_failure(s->asked);
    if (qg_rank() == 0 && !output_is_stdout(out)) (config_flag(s->asked, "json") ? scaling_print_json : scaling_print_text)(s);
    qg_ranks_end();
    return EXIT_DONE;
}

int bench_scaling(config *asked)
{
    scaling   s      = { .asked = asked };
    const int status = run(&s);
    for (int i = 0; i < LINES; i++) free(s.strong.line[i].message), free(i ? s.weak.line[i].message : NULL);
    return status;
}
