/* What `bench scaling` prints: tables, JSON and a picture. */
#include "tools/bench/scaling.h"

#include <math.h>
#include <stdio.h>

#include "cli/run/report.h"
#include "cli/svg.h"
#include "core/kernels/cpu.h"
#include "core/kernels/parallel.h"

/* --- printing ----------------------------------------------------------------------------------- */

static void print_measured(const scaling *s, const lines *t)
{
    printf("%5s %6s %10s %10s %10s %10s %10s %10s %9s %5s\n", "ranks", "batch", "images/s", "efficiency", "ms/step", "predicted",
           "computing", "exchanging", "MiB", "waits");
    for (const line *l = t->line; l < t->line + t->n; l++)
        printf("%5d %6d %10.0f %10.3f %10.3f %10.3f %10.3f %10.3f %9.3f %5.0f\n", l->ranks, l->batch, 1e3 * l->batch / l->ms,
               scaling_efficiency(t, l, l->ms), l->ms, scaling_predict(l, s->link), l->compute_ms, l->exchange_ms, scaling_bytes_of(l) / (1 << 20),
               scaling_waits_of(l));
}

static void print_projected(const scaling *s, const lines *t)
{
    const links *all = &s->links;
    printf("%5s %6s %10s %9s %5s", "ranks", "batch", "computing", "MiB", "waits");
    for (int i = 0; i < all->count; i++) printf(" %10s %10s", "ms/step", "efficiency");
    printf("\n");
    for (const line *l = t->line; l < t->line + t->n; l++) {
        printf("%5d %6d %10.3f %9.3f %5.0f", l->ranks, l->batch, l->compute_ms, scaling_bytes_of(l) / (1 << 20), scaling_waits_of(l));
        for (int i = 0; i < all->count; i++) {
            const double ms = scaling_predict_alike(l, all->item[i]);
            printf(" %10.3f %10.3f", ms, scaling_efficiency(t, l, ms));
        }
        printf("%s\n", l->ranks > QG_MAX_RANKS ? "  *" : "");
    }
}

static void print_links(const scaling *s)
{
    const links *all = &s->links;
    for (int i = 0; i < all->count; i++)
        printf("nodes whose empty exchange takes %g us, with %g Gbit/s%s\n", 1e6 * all->item[i].seconds,
               8e-9 * all->item[i].bytes_per_second, i == 0 ? ": the first two columns at the right" : ", the next two");
    for (int i = 0; 1 << i < qg_ranks(); i++)
        printf("ranks %d apart: %.1f us for an empty exchange, %.3f GB/s for a large one\n", 1 << i, 1e6 * s->link[i].seconds,
               1e-9 * s->link[i].bytes_per_second);
}

void scaling_print_text(const scaling *s)
{
    void (*const print)(const scaling *, const lines *) = s->links.count ? print_projected : print_measured;
    printf("%s training of ", s->links.count ? "projected" : "measured");
    bench_print_net(&s->shown);
    printf(": %d thread%s per rank, kernels %s\n", qg_threads(), qg_threads() == 1 ? "" : "s", qg_cpu_path());
    printf("computing takes C / ranks + S: C %.3f ms, S %.3f ms\n", s->c, s->s);
    print_links(s);
    printf("\nstrong scaling: %d images for all ranks\n", s->config->batch);
    print(s, &s->strong);
    printf("\nweak scaling: %d images for each rank\n", s->config->batch);
    print(s, &s->weak);
    if (s->links.count) printf("\n* a batch has %d slices, so more ranks than that cannot share it; by formula\n", QG_MAX_RANKS);
}

static void json_lines(const scaling *s, const lines *t, const char *key, qg__json *j)
{
    const links *all = &s->links;
    qg__json_open(j, key, '[');
    for (const line *l = t->line; l < t->line + t->n; l++) {
        qg__json_open(j, NULL, '{');
        qg__json_integer(j, "ranks", (uint64_t)l->ranks);
        qg__json_integer(j, "batch", (uint64_t)l->batch);
        if (!all->count) {
            qg__json_real(j, "images_per_second", 1e3 * l->batch / l->ms);
            qg__json_real(j, "efficiency", scaling_efficiency(t, l, l->ms));
            qg__json_real(j, "ms_per_step", l->ms);
            qg__json_real(j, "exchange_ms_per_step", l->exchange_ms);
            qg__json_real(j, "predicted_ms_per_step", scaling_predict(l, s->link));
        } else {
            qg__json_open(j, "predicted_ms_per_step", '[');
            for (int i = 0; i < all->count; i++) qg__json_real(j, NULL, scaling_predict_alike(l, all->item[i]));
            qg__json_close(j, ']');
            qg__json_open(j, "efficiency", '[');
            for (int i = 0; i < all->count; i++) qg__json_real(j, NULL, scaling_efficiency(t, l, scaling_predict_alike(l, all->item[i])));
            qg__json_close(j, ']');
        }
        qg__json_real(j, "compute_ms_per_step", l->compute_ms);
        qg__json_real(j, "bytes_per_step", scaling_bytes_of(l));
        qg__json_real(j, "waits_per_step", scaling_waits_of(l));
        qg__json_close(j, '}');
    }
    qg__json_close(j, ']');
}

void scaling_print_json(const scaling *s)
{
    const links *all = &s->links;
    qg__json     j   = qg__json_begin(stdout);
    qg__json_text(&j, "bench", "scaling");
    bench_json_net(&s->shown, &j);
    qg__json_flag(&j, "projected", all->count > 0);
    qg__json_real(&j, "compute_ms", s->c);
    qg__json_real(&j, "alike_ms", s->s);
    qg__json_open(&j, "links", '[');
    for (int i = 0; all->count ? i < all->count : 1 << i < qg_ranks(); i++) {
        const link_speed *link = all->count ? &all->item[i] : &s->link[i];
        qg__json_open(&j, NULL, '{');
        if (!all->count) qg__json_integer(&j, "distance", 1u << i);
        qg__json_real(&j, "latency_us", 1e6 * link->seconds);
        qg__json_real(&j, "gbits", 8e-9 * link->bytes_per_second);
        qg__json_close(&j, '}');
    }
    qg__json_close(&j, ']');
    json_lines(s, &s->strong, "strong", &j);
    json_lines(s, &s->weak, "weak", &j);
    report_machine(&j);
    qg__json_end(&j);
}

/* --- the picture -------------------------------------------------------------------------------- */

enum { WIDTH = 460, HEIGHT = 280, CURVES = 2 * MOST_LINKS, NAME_BYTES = 64 };

typedef struct curves {
    char   name[CURVES][NAME_BYTES], tick[LINES][8];
    double x[LINES], y[CURVES][LINES];
    int    n;
} curves;

static void add_curve(svg_chart *c, curves *k, svg_series series)
{
    series.name             = *k->name[k->n] ? k->name[k->n] : NULL;
    series.y                = k->y[k->n++];
    c->series[c->n_series++] = series;
}

/* Efficiency over the ranks, at even distances.  Measured beside predicted; or for each link, dashed where it is by formula.  The
 * numbers stay in k. */
static svg_chart chart_of(const scaling *s, const lines *t, const char *title, curves *k)
{
    const links *all = &s->links;
    svg_chart    c   = { .title = title, .width = WIDTH, .height = HEIGHT, .x = { .label = "ranks", .min = -0.2, .max = t->n - 0.8, .bare = true },
                         .y = { .label = "efficiency", .max = 1.1, .min = 0, .from_zero = true, .percent = true } };
    *k = (curves){ .n = 0 };
    for (int i = 0; i < t->n; i++) {
        k->x[i] = i;
        snprintf(k->tick[i], sizeof k->tick[i], "%d", t->line[i].ranks);
        c.mark[c.n_marks++] = (svg_mark){ .at = i, .name = k->tick[i] };
    }
    for (int i = 0; i < all->count; i++) {
        const int real = scaling_bit_between(0, QG_MAX_RANKS) + 1;
        for (int r = 0; r < t->n; r++) {
            k->y[k->n][r]     = scaling_efficiency(t, &t->line[r], scaling_predict_alike(&t->line[r], all->item[i]));
            k->y[k->n + 1][r] = k->y[k->n][r];
        }
        snprintf(k->name[k->n], NAME_BYTES, "%g Gbit/s, %g us", 8e-9 * all->item[i].bytes_per_second, 1e6 * all->item[i].seconds);
        add_curve(&c, k, (svg_series){ .kind = SVG_LINE, .n = real, .x = k->x, .colour = i + 1 });
        for (int r = 0; r < real - 1; r++) k->y[k->n][r] = NAN;
        add_curve(&c, k, (svg_series){ .kind = SVG_DASHES, .n = t->n, .x = k->x, .colour = i + 1 });
    }
    for (int m = 0; m < 2 && !all->count; m++) {
        for (int r = 0; r < t->n; r++) k->y[k->n][r] = scaling_efficiency(t, &t->line[r], m ? scaling_predict(&t->line[r], s->link) : t->line[r].ms);
        snprintf(k->name[k->n], NAME_BYTES, m ? "predicted" : "measured");
        add_curve(&c, k, (svg_series){ .kind = m ? SVG_DASHES : SVG_LINE, .n = t->n, .x = k->x });
    }
    return c;
}

qg_status scaling_print_svg(const void *what, FILE *out)
{
    const scaling  *s = what;
    const char     *model = qg__recipe_value(s->config, "model");
    char            all[NAME_BYTES], each[NAME_BYTES];
    curves          of[2];
    snprintf(all, sizeof all, "%.30s, %d images for all ranks", model, s->config->batch);
    snprintf(each, sizeof each, "%.30s, %d images for each rank", model, s->config->batch);
    const svg_chart strong = chart_of(s, &s->strong, all, &of[0]), weak = chart_of(s, &s->weak, each, &of[1]);
    svg_picture(out, &strong, &weak);
    return QG_OK;
}
