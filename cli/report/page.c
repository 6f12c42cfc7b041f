#include "cli/report/page.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/print.h"
#include "cli/run/progress.h"
#include "core/io/file.h"
#include "core/io/number.h"

static const char style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1d1d1f;--dim:#666;--line:#e3e3e3;--card:#fafafa;--hit:0,114,178}"
    "@media(prefers-color-scheme:dark)"
    "{:root{--bg:#16181b;--fg:#e6e6e6;--dim:#9aa0a6;--line:#303338;--card:#1d2024;--hit:40,130,195}}"
    "*{box-sizing:border-box}body{margin:0 auto;padding:1.2rem;max-width:86rem;background:var(--bg);color:var(--fg);"
    "font:15px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif}"
    "h1{font-size:1.4rem;margin:.2rem 0 .6rem;overflow-wrap:anywhere}h2{font-size:1.15rem;margin:2rem 0 .6rem}"
    "h3{font-size:1rem;margin:0 0 .2rem;overflow-wrap:anywhere}p{margin:.3rem 0}.dim,small{color:var(--dim)}"
    ".facts{display:flex;flex-wrap:wrap;gap:.6rem 2rem;margin:.6rem 0}.facts div{min-width:7rem}"
    ".facts b{display:block;font-size:1.25rem;font-weight:600;white-space:nowrap}"
    ".grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,22rem),1fr));gap:.8rem;"
    "align-items:start}"
    ".card{border:1px solid var(--line);border-radius:8px;padding:.7rem;background:var(--card);min-width:0}"
    ".card svg,.grid>svg{width:100%;height:auto;display:block}"
    "pre{overflow-x:auto;font:12px/1.45 ui-monospace,Consolas,monospace;margin:.4rem 0}"
    ".scroll{overflow-x:auto;margin-bottom:.8rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    "td,th{padding:.15rem .5rem;text-align:right;white-space:nowrap}"
    "th{font-weight:600}td.l,th.l{text-align:left}tbody tr{border-top:1px solid var(--line)}"
    ".map td{min-width:2.9rem;height:1.9rem;padding:0 .2rem}.map td,.map th{text-align:center}.map tr{border:0}"
    ".map th.l{text-align:left;position:sticky;left:0;background:var(--bg)}"
    "@media(max-width:30rem){table{font-size:.85rem}.map{font-size:.7rem}.map td{min-width:1.8rem;padding:0}.map th{padding:.1rem}}"
    ".worst{display:flex;flex-wrap:wrap;gap:.7rem}figure{margin:0;width:6.2rem}figure img{width:100%;image-rendering:pixelated;"
    "border:1px solid var(--line);border-radius:4px;display:block}figcaption{font-size:12px;line-height:1.3;overflow-wrap:anywhere}"
    "details{margin:.6rem 0}summary{cursor:pointer;font-weight:600}";

/* --- texts ---------------------------------------------------------------------------------- */

static void percent(FILE *out, double share)
{
    if (isnan(share)) fputs("&ndash;", out);
    else fprintf(out, "%.2f %%", 100 * share);
}

static void fact(FILE *out, const char *name)
{
    fputs("<div><small>", out);
    svg_text(out, name);
    fputs("</small><b>", out);
}

static void share(FILE *out, const char *name, double value)
{
    fact(out, name), percent(out, value), fputs("</b></div>", out);
}

static void facts(FILE *out, const shown_run *r)
{
    const qg_fit_result *at = &r->result;
    char                 time[32], ratio[QG_NUMBER_BYTES];
    fputs("<div class=\"facts\">", out);
    if (at->validation_images) {
        share(out, "validation accuracy, best", at->best_validation_accuracy);
        share(out, "test accuracy at the end", at->test_accuracy);
    } else {
        share(out, "test accuracy, last", at->test_accuracy);
        share(out, "test accuracy, best", at->best_test_accuracy);
    }
    fact(out, "best epoch"), fprintf(out, "%" PRIu64 " of %" PRIu64 "</b></div>", at->best_epoch, at->epochs);
    if (r->packed) fact(out, "weights, packed"), fprintf(out, "%.1f kB</b></div>", (double)r->packed / 1000);
    if (r->packed) fact(out, "beside float"), fprintf(out, "%s</b></div>", qg__number_ratio(ratio, r->packed, r->floats));
    print_duration(at->seconds, time);
    fact(out, "time"), fprintf(out, "%s</b></div>", time);
    fact(out, "images per second"), fprintf(out, "%.0f</b></div>", at->images_per_second);
    fputs("</div>", out);
    if (!at->complete && qg_run_config(r->run))
        fprintf(out, "<p class=\"dim\">Not finished: %" PRIu64 " epoch%s so far.</p>", at->epochs, at->epochs == 1 ? "" : "s");
    else if (!at->complete)
        fprintf(out, "<p class=\"dim\">Not finished: %" PRIu64 " of %s epochs.</p>", at->epochs, qg_run_get(r->run, "epochs"));
}

/* --- curves of whole runs ---------------------------------------------------------------------- */

/* Names in legends have little room. */
const char *page_group_name(const page *p, int i)
{
    size_t common = 0;
    for (size_t at = 0; p->group->name[at]; at++) {
        for (int k = 1; k < p->groups; k++)
            if (p->group[k].name[at] != p->group->name[at]) return p->group[i].name + common;
        if (p->group->name[at] == '/' && p->runs > 1) common = at + 1;
    }
    return p->group[i].name + common;
}

int page_curves(const page *p) { return p->groups < PAGE_CURVES ? p->groups : PAGE_CURVES; }

svg_series page_curve(const page *p, int i, svg_kind kind, const char *column)
{
    static const svg_kind pattern[] = { SVG_LINE, SVG_DASHES, SVG_DOTS, SVG_DASH_DOTS };
    const shown_group *g = &p->group[i];
    return (svg_series){ .kind   = kind == SVG_LINE ? pattern[i / SVG_COLOURS % 4] : kind,
                         .n      = g->epochs,
                         .x      = shown_group_curve(g, SHOWN_MEAN, "epoch"),
                         .y      = shown_group_curve(g, SHOWN_MEAN, column),
                         .colour = p->runs == 1 ? 0 : i % SVG_COLOURS + 1 };
}

void page_add(svg_chart *c, svg_series s)
{
    if (s.y && s.n && c->n_series < SVG_SERIES) c->series[c->n_series++] = s;
}

void page_add_mean(svg_chart *c, const page *p, int i, const char *column, const char *name)
{
    svg_series s = page_curve(p, i, SVG_LINE, column), band = page_curve(p, i, SVG_BAND, column);
    band.y       = shown_group_curve(&p->group[i], SHOWN_LOW, column);
    band.to      = shown_group_curve(&p->group[i], SHOWN_HIGH, column);
    if (p->group[i].runs > 1) page_add(c, band);
    s.name = name;
    page_add(c, s);
}

/* A column, and its name in the page of a single run; NULL: none. */
typedef struct named_column {
    const char *column, *name;
} named_column;

/* Adds one of the columns of every run: the first that it has.  Training curves are dashed, which only eight curves can be. */
static void add_columns(svg_chart *c, const page *p, svg_kind kind, const named_column of[2])
{
    for (int i = 0; i < page_curves(p) && (kind == SVG_LINE || p->groups <= SVG_COLOURS); i++) {
        const named_column *a    = shown_group_curve(&p->group[i], SHOWN_MEAN, of->column) ? of : of + 1;
        const char         *name = p->runs == 1 ? a->name : kind == SVG_LINE ? page_group_name(p, i) : NULL;
        if (!a->column) continue;
        if (kind == SVG_LINE) page_add_mean(c, p, i, a->column, name);
        else {
            svg_series s = page_curve(p, i, kind, a->column);
            s.name       = name;
            page_add(c, s);
        }
    }
}

static void mark_best(svg_chart *c, const page *p, bool low)
{
    if (p->runs == 1 && p->run->result.best_epoch)
        c->mark[c->n_marks++] = (svg_mark){ .at = (double)p->run->result.best_epoch, .name = "best", .low = low };
}

static void overview(FILE *out, const page *p)
{
    const svg_axis epochs = { .label = "epoch", .whole = true };
    svg_chart      loss   = { .title = "Loss", .x = epochs, .y = { .log = true } };
    svg_chart      right  = { .title = "Accuracy", .x = epochs, .y = { .percent = true } };
    svg_chart      rate   = { .title = "Learning rate", .x = epochs, .y = { .from_zero = true } };
    if (p->runs > 1 && p->groups <= SVG_COLOURS) loss.title = "Loss: training dashed", right.title = "Accuracy: training dashed";
    add_columns(&loss, p, SVG_LINE, (named_column[2]){ { "test_loss", "test" }, { "validation_loss", "validation" } });
    add_columns(&loss, p, SVG_DASHES, (named_column[2]){ { "train_loss", "training" } });
    add_columns(&right, p, SVG_LINE,
                (named_column[2]){ { "test_accuracy", "test" }, { "validation_accuracy", "validation" } });
    add_columns(&right, p, SVG_DASHES, (named_column[2]){ { "train_accuracy", "training" } });
    add_columns(&rate, p, SVG_LINE, (named_column[2]){ { "lr", NULL } });
    if (!rate.n_series) return;                 /* runs without epochs */
    mark_best(&loss, p, false), mark_best(&right, p, true);
    fputs("<div class=\"grid\">", out);
    const svg_chart *const all[] = { &right, &loss, &rate };
    for (int i = 0; i < 3; i++) fputs("<div class=\"card\">", out), svg_write(out, all[i]), fputs("</div>", out);
    fputs("</div>", out);
    fputs("<p class=\"dim\">What to look at: training far above test means overfitting. A test curve that still jumps in the last epochs "
          "asks for a learning rate that falls further.</p>", out);
}

/* --- several runs ------------------------------------------------------------------------------- */

/* The mean of group g and, over several runs, its deviation; member: a double of qg_fit_result. */
static void mean_cell(FILE *out, const page *p, int g, size_t member)
{
    double sum = 0, squares = 0;
    int    n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < p->runs; i++) {
            double x;
            memcpy(&x, (const char *)&p->run[i].result + member, sizeof x);
            if (p->in[i] != g || isnan(x)) continue;
            if (pass == 0) sum += x, n++;
            else squares += (x - sum / n) * (x - sum / n);
        }
    fputs("<td>", out);
    if (n < 2) percent(out, n ? sum : (double)NAN);
    else fprintf(out, "%.2f &plusmn; %.2f %%", 100 * sum / n, 100 * sqrt(squares / (n - 1)));
    fputs("</td>", out);
}

/* The least and the largest; member: a uint64_t. */
static void range_cell(FILE *out, const page *p, int g, size_t member)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (int i = 0; i < p->runs; i++) {
        uint64_t x;
        memcpy(&x, (const char *)&p->run[i].result + member, sizeof x);
        if (p->in[i] != g) continue;
        least = x < least ? x : least;
        most  = x > most ? x : most;
    }
    fprintf(out, "<td>%" PRIu64, least);
    if (most > least) fprintf(out, "..%" PRIu64, most);
    fputs("</td>", out);
}

static void time_cell(FILE *out, const page *p, int g)
{
    double sum = 0;
    char   time[32];
    for (int i = 0; i < p->runs; i++) sum += p->in[i] == g ? p->run[i].result.seconds : 0;
    print_duration(sum / p->group[g].runs, time);
    fprintf(out, "<td>%s</td>", time);
}

static void comparison(FILE *out, const page *p)
{
    fputs("<div class=\"scroll\"><table><thead><tr><th class=\"l\">run</th><th>validation, best</th><th>test, last</th>"
          "<th>test, best</th><th>best epoch</th><th>epochs</th><th>packed bytes</th><th>time</th></tr></thead><tbody>", out);
    for (int g = 0; g < p->groups; g++) {
        fputs("<tr><td class=\"l\">", out), svg_text(out, p->group[g].name), fputs("</td>", out);
        mean_cell(out, p, g, offsetof(qg_fit_result, best_validation_accuracy));
        mean_cell(out, p, g, offsetof(qg_fit_result, test_accuracy));
        mean_cell(out, p, g, offsetof(qg_fit_result, best_test_accuracy));
        range_cell(out, p, g, offsetof(qg_fit_result, best_epoch));
        range_cell(out, p, g, offsetof(qg_fit_result, epochs));
        if (p->group[g].first->packed) fprintf(out, "<td>%zu</td>", p->group[g].first->packed);
        else fputs("<td>&ndash;</td>", out);
        time_cell(out, p, g);
        fputs("</tr>", out);
    }
    fputs("</tbody></table></div>", out);
    if (p->groups < p->runs)
        fputs("<p class=\"dim\">Runs that differ only in their seeds are one row and one curve: the mean, and one standard deviation "
              "(of n - 1) on either side as a band. Time is the mean of a run.</p>", out);
    if (p->groups > PAGE_CURVES)
        fprintf(out, "<p class=\"dim\">The charts have the first %d of %d.</p>", PAGE_CURVES, p->groups);
}

/* --- what the run was ------------------------------------------------------------------------------ */

/* Cuts the text into its lines, since svg_text shows the ends of lines as escapes. */
static void pre(FILE *out, const char *title, char *text)
{
    fputs("<details><summary>", out), svg_text(out, title), fputs("</summary><pre>", out);
    for (char *at = text; *at;) {
        char *end  = at + strcspn(at, "\n");
        bool  more = *end != '\0';
        *end       = '\0';
        svg_text(out, at);
        fputc('\n', out);
        at = end + more;
    }
    fputs("</pre></details>", out);
}

/* The places of other runs are no part of a run, only the digests of their weights. */
static qg_status print_command(const void *run, FILE *out)
{
    static const char *const keys[] = { "init", "teacher" };
    const shown_run         *r      = run;
    char                     path[QG__PATH_BYTES], key[32];
    if (qg__path_join(r->dir, run_file_names[RUN_CONFIG], path)) return QG_EARG;
    fputs("qgrad train --config ", out);
    print_path(path, out);
    fputs(" --out NEW-DIRECTORY", out);
    for (int i = 0; i < 2; i++) {
        snprintf(key, sizeof key, "%s-digest", keys[i]);
        const char *digest = qg_run_get(r->run, key);
        if (digest && r->result.epochs) fprintf(out, " --%s RUN-WITH-DIGEST-%s", keys[i], digest);
    }
    return QG_OK;
}

enum { MOST_CONFIG = 1 << 20 };      /* bytes of a config.toml */

static void origins(FILE *out, const shown_run *r)
{
    char  *text = r->summary ? strdup(r->summary) : NULL, path[QG__PATH_BYTES];
    size_t n;
    if (text) pre(out, "Layers and sizes", text);
    free(text);
    if (qg__path_join(r->dir, run_file_names[RUN_CONFIG], path)) *path = '\0';
    text = NULL;
    if (qg_run_config(r->run)) text = strdup(qg_run_config(r->run));
    else if (!*path || qg__text_read(QG_BY_PATH, path, MOST_CONFIG, &text, &n)) text = strdup(qg_run_note(r->run, "recipe"));
    if (text) pre(out, "Configuration", text);
    free(text);
    fputs("<p class=\"dim\">", out);
    svg_text(out, "commit "), svg_text(out, r->result.commit);
    svg_text(out, ", kernels "), svg_text(out, r->result.cpu_path);
    fprintf(out, ", arithmetic %" PRIu64 ", %" PRIu64 " thread%s, digest ", r->result.arithmetic, r->result.threads,
            r->result.threads == 1 ? "" : "s");
    svg_text(out, r->result.digest);
    fputs("</p>", out);
    if (qg_run_config(r->run)) fputs("<p>A program trained this run; start it again to continue.</p>", out);
    else if (*path && !qg__text_print(print_command, r, &text, &n)) {
        fputs("<p>To train it again:</p><pre>", out), svg_text(out, text), fputs("</pre>", out);
        free(text);
    }
}

static void one_run(FILE *out, const page *p, int i)
{
    const shown_run *r = &p->run[i];
    if (p->mistakes && p->mistakes[i].split) page_mistakes(out, &p->mistakes[i], r->run);
    page_layers(out, r);
    page_inputs(out, r);
    fputs("<h2>Origin</h2>", out);
    origins(out, r);
}

static qg_status print(const void *what, FILE *out)
{
    const page *p = what;
    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>", out);
    svg_text(out, p->run->dir);
    fprintf(out, "%s</title><style>%s", p->runs > 1 ? " and others" : "", style);
    svg_style(out);
    fputs("</style></head><body>\n<h1>", out);
    if (p->runs == 1) svg_text(out, p->run->dir), fputs("</h1>", out), facts(out, p->run);
    else fprintf(out, "%d runs</h1>", p->runs), comparison(out, p);
    overview(out, p);
    if (p->runs > 1) page_layers_together(out, p);
    if (p->runs > 1) fputs("<h2>One by one</h2>", out);
    for (int i = 0; i < p->runs; i++) {
        if (p->whole && !p->whole[i]) continue;
        if (p->runs > 1) fputs("<details><summary>", out), svg_text(out, p->run[i].dir), fputs("</summary>", out);
        if (p->runs > 1) facts(out, &p->run[i]);
        one_run(out, p, i);
        if (p->runs > 1) fputs("</details>", out);
    }
    if (p->whole) fputs("<p class=\"dim\">Each of the others has a page of its own: qgrad report RUN.</p>", out);
    fputs("</body></html>\n", out);
    return QG_OK;
}

qg_status page_write(const page *p, int dir, const char *path, output_kind kind)
{
    char     *text;
    size_t    n;
    qg_status s = qg__text_print(print, p, &text, &n);
    if (s) return s;
    s = output_write_in(dir, path, kind, text, n);
    free(text);
    return s;
}

/* --- charts as files ---------------------------------------------------------------------------- */

static const char begins[] = "<svg class=\"qg\"", ends[] = "</svg>";

enum { CHART_NAME_BYTES = 96 };

/* "03-conv1-codes-that-flipped.svg": the letters and digits of the title. */
static void name_chart(int number, const char *title, char name[CHART_NAME_BYTES])
{
    int n = snprintf(name, CHART_NAME_BYTES, "%02d-", number);
    for (; *title != '<' && n + 6 < CHART_NAME_BYTES; title++) {
        const char c = *title >= 'A' && *title <= 'Z' ? (char)(*title - 'A' + 'a') : *title;
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) name[n++] = c;
        else if (name[n - 1] != '-') name[n++] = '-';
    }
    while (name[n - 1] == '-') n--;
    strcpy(name + n, ".svg");
}

/* A chart as it stands in the page, with the colours that the page has at its top. */
static qg_status print_chart(const void *chart, FILE *out)
{
    const char *rest = (const char *)chart + strlen(begins), *end = strchr(rest, '>');
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\"%.*s class=\"qg\"><style>", (int)(end - rest), rest);
    svg_style(out);
    fprintf(out, "</style>%s\n", end + 1);
    return QG_OK;
}

qg_status page_write_charts(const page *p, const char *dir)
{
    char     *text, *chart, name[CHART_NAME_BYTES], path[QG__PATH_BYTES];
    size_t    n;
    qg_status s = qg__path_make(dir, NULL);
    if (!s) s = qg__text_print(print, p, &text, &n);
    if (s) return s;
    char *at = text;
    for (int i = 1; !s && (chart = strstr(at, begins)); i++) {
        char      *end = strstr(chart, ends) + strlen(ends);
        const char next = *end;
        *end = '\0';                    /* the chart alone */
        name_chart(i, strstr(chart, "<title>") + strlen("<title>"), name);
        s = qg__path_join(dir, name, path);
        if (!s) s = output_print(path, OUTPUT_PICTURE, print_chart, chart);
        *end = next;
        at   = end;
    }
    free(text);
    return s;
}
