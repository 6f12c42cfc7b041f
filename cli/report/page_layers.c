#include <math.h>
#include <string.h>

#include "cli/report/page.h"

enum { NAME_BYTES = 192, TITLE_BYTES = NAME_BYTES + 64 };

static const char *titled(char text[TITLE_BYTES], const char *layer, const char *title)
{
    snprintf(text, TITLE_BYTES, "%s: %s", layer, title);
    return text;
}

static const double *layer_column(const shown_run *r, const char *layer, const char *what)
{
    char name[NAME_BYTES];
    int  epochs;
    snprintf(name, sizeof name, "%s.%s", layer, what);
    return qg_run_column(r->run, name, &epochs);
}

/* The same the other way round: what a column says of this layer; NULL: it says nothing of it. */
static const char *part_of(const char *column, const char *layer)
{
    const char  *part = metric_column_part(column);
    const size_t n    = strlen(layer);
    return part && part == column + n + 1 && !strncmp(column, layer, n) ? part : NULL;
}

static svg_series over_epochs(const shown_run *r, const char *name, svg_kind kind, const double *y)
{
    int           epochs;
    const double *x = qg_run_column(r->run, "epoch", &epochs);
    return (svg_series){ .name = name, .kind = kind, .n = epochs, .x = x, .y = y };
}

/* --- one layer ---------------------------------------------------------------------------- */

/* The weights that evaluation multiplies, where few numbers separate them. */
static void mark_levels(svg_chart *c, const weight_picture *w)
{
    for (int k = 0; k < w->thresholds && c->n_marks < SVG_MARKS; k++)
        c->mark[c->n_marks++] = (svg_mark){ .at = w->threshold[k] };
    for (int k = 0; k < w->levels && c->n_marks < SVG_MARKS; k++)
        c->mark[c->n_marks++] = (svg_mark){ .at = (double)w->level[k], .level = true };
}

static void histogram(FILE *out, const shown_layer *l)
{
    char      title[TITLE_BYTES];
    svg_chart c = { .title = titled(title, l->name, l->weight[AT_LAST].quantized ? "latent weights" : "weights"),
                    .x     = { .label = "value" },
                    .y     = { .from_zero = true, .bare = true } };
    static const svg_kind kind[MOMENTS] = { SVG_STEPS, SVG_STEPS, SVG_BARS };
    for (int m = MOMENTS - 1; m >= 0; m--) {
        const weight_picture *w = &l->weight[m];
        if (w->count)
            page_add(&c, (svg_series){ moment_name[m], kind[m], w->bins, w->edge, w->density, .colour = MOMENTS - m });
    }
    mark_levels(&c, &l->weight[AT_LAST]);
    svg_write(out, &c);
}

/* Shares of codes, as metrics.csv has them: conv1.code.0, .. from the lowest on.  They are called by their levels, if all are
 * in use. */
static void shares(FILE *out, const shown_run *r, const shown_layer *l)
{
    static const char     code[] = "code.";
    const weight_picture *w     = &l->weight[AT_LAST];
    const char           *layer = l->name, *column;
    int                   epochs;
    char                  names[SVG_SERIES][32], title[TITLE_BYTES];
    svg_chart c = { .title = titled(title, layer, "fraction of each level"),
                    .most  = PAGE_POINTS,
                    .x     = { .label = "epoch", .whole = true },
                    .y     = { .min = 0, .max = 1, .percent = true } };
    for (int i = 0; (column = qg_run_column_name(r->run, i)) && c.n_series < SVG_SERIES; i++) {
        const char *part = part_of(column, layer);
        if (!part || strncmp(part, code, strlen(code))) continue;
        snprintf(names[c.n_series], sizeof names[0], "%s", part + strlen(code));
        page_add(&c, over_epochs(r, names[c.n_series], SVG_LINE, qg_run_column(r->run, column, &epochs)));
    }
    for (int k = 0; k < c.n_series && c.n_series == w->levels; k++)
        snprintf(names[k], sizeof names[0], "%.3g", (double)w->level[k]);
    if (!c.n_series) page_add(&c, over_epochs(r, "zeros", SVG_LINE, layer_column(r, layer, "zeros")));
    if (c.n_series) svg_write(out, &c);
}

static void flips(FILE *out, const shown_run *r, const char *layer)
{
    char      title[TITLE_BYTES];
    svg_chart c = { .title = titled(title, layer, "codes that flipped in the epoch"),
                    .most  = PAGE_POINTS,
                    .x     = { .label = "epoch", .whole = true },
                    .y     = { .percent = true, .log = true } };
    page_add(&c, over_epochs(r, NULL, SVG_LINE, layer_column(r, layer, "flipped")));
    if (c.n_series) svg_write(out, &c);
}

/* weight.wp, input.step, ..: not counts of codes. */
static bool is_learned(const char *part)
{
    static const char *const others[] = { "zeros", "flipped", "code." };
    for (int i = 0; i < 3; i++)
        if (!strncmp(part, others[i], strlen(others[i]))) return false;
    return true;
}

/* What the quantizers of the layer learned or observed, but for spans, which have another scale: conv1.weight.wp, ..  A value
 * per channel has its mean drawn, and its least and greatest dashed. */
static void learned(FILE *out, const shown_run *r, const char *layer, bool spans)
{
    const char *column;
    char        title[TITLE_BYTES];
    int         epochs;
    svg_chart c = { .title = titled(title, layer, spans ? "extent of the tensor by that of its range" : "learned and observed values"),
                    .most  = PAGE_POINTS,
                    .x     = { .label = "epoch", .whole = true },
                    .y     = { .log = spans } };
    for (int i = 0; (column = qg_run_column_name(r->run, i)) && c.n_series < SVG_SERIES; i++) {
        const char *part = part_of(column, layer);
        if (!part || !is_learned(part) || !!strstr(part, ".span") != spans) continue;
        const char *end    = strrchr(part, '.');
        const bool  dashed = !strcmp(end, ".least") || !strcmp(end, ".greatest");
        page_add(&c, over_epochs(r, dashed ? NULL : part, dashed ? SVG_DASHES : SVG_LINE, qg_run_column(r->run, column, &epochs)));
    }
    if (c.n_series) svg_write(out, &c);
}

static void head(FILE *out, const shown_layer *l)
{
    const weight_picture *w = &l->weight[AT_LAST];
    fputs("<h3>", out), svg_text(out, l->name), fputs("</h3><p class=\"dim\">", out);
    fprintf(out, "%zu weights, ", w->count);
    svg_text(out, l->quantizer);
    if (*l->input) fputs("; input ", out), svg_text(out, l->input);
    fputs("</p>", out);
    if (!w->levels) return;
    fputs("<p>", out);
    for (int k = 0; k < w->levels; k++)
        fprintf(out, "%s%.4g:&nbsp;%.1f&nbsp;%%", k ? ", " : "", (double)w->level[k], 100 * w->share[k]);
    fputs("</p>", out);
}

void page_layers(FILE *out, const shown_run *r)
{
    fputs("<h2>Layers</h2>", out);
    fputs("<p class=\"dim\">The histograms have the latent weights, which training changes; short bars mark the levels that they "
          "become, if these are within the chart, dashed lines the thresholds between them. What to look at: many weights near a threshold, "
          "and a fraction of flipped codes that does not fall towards the end, mean that the net is not at rest: let the learning rate fall "
          "further. A level that hardly any weight has is one that the net does not use.</p><div class=\"grid\">", out);
    for (int i = 0; i < r->layers; i++) {
        const shown_layer *l = &r->layer[i];
        fputs("<div class=\"card\">", out);
        head(out, l);
        histogram(out, l);
        shares(out, r, l);
        flips(out, r, l->name);
        learned(out, r, l->name, false);
        learned(out, r, l->name, true);
        fputs("</div>\n", out);
    }
    fputs("</div>", out);
}

/* --- the inputs of layers -------------------------------------------------------------------- */

void page_inputs(FILE *out, const shown_run *r)
{
    if (!r->inputs) return;
    fprintf(out, "<h2>Quantized inputs</h2><p class=\"dim\">Shares of the values that the layers read for %d images, with the last "
            "weights.  Many at the largest value: the range clips.</p>"
            "<div class=\"scroll\"><table><thead><tr><th class=\"l\">layer</th>"
            "<th>zeros</th><th>at the smallest</th><th>at the largest</th><th>smallest</th><th>largest</th></tr></thead><tbody>",
            r->input_images);
    for (int i = 0; i < r->inputs; i++) {
        const shown_input *x = &r->input[i];
        fputs("<tr><td class=\"l\">", out), svg_text(out, x->layer);
        fprintf(out, "</td><td>%.1f %%</td><td>%.1f %%</td><td>%.1f %%</td><td>%.4g</td><td>%.4g</td></tr>", 100 * x->zeros,
                100 * x->lowest, 100 * x->highest, (double)x->least, (double)x->greatest);
    }
    fputs("</tbody></table></div>", out);
}

/* --- several runs ------------------------------------------------------------------------------ */

static bool has_layer(const shown_run *r, const char *name)
{
    for (int i = 0; i < r->layers; i++)
        if (!strcmp(r->layer[i].name, name)) return true;
    return false;
}

static void together(FILE *out, const page *p, const char *layer, const char *what, const char *title, bool log)
{
    char      text[TITLE_BYTES], column[NAME_BYTES];
    svg_chart c = { .title = titled(text, layer, title),
                    .most  = PAGE_POINTS,
                    .x     = { .label = "epoch", .whole = true },
                    .y     = { .percent = true, .log = log } };
    snprintf(column, sizeof column, "%s.%s", layer, what);
    for (int i = 0; i < page_curves(p); i++) page_add_mean(&c, p, i, column, page_group_name(p, i));
    if (!c.n_series) return;
    fputs("<div class=\"card\">", out), svg_write(out, &c), fputs("</div>", out);
}

void page_layers_together(FILE *out, const page *p)
{
    fputs("<h2>Layers together</h2><div class=\"grid\">", out);
    for (int i = 0; i < page_curves(p); i++)
        for (int k = 0; k < p->group[i].first->layers; k++) {
            const char *name = p->group[i].first->layer[k].name;
            bool        done = false;
            for (int before = 0; before < i; before++) done |= has_layer(p->group[before].first, name);
            if (done) continue;
            together(out, p, name, "flipped", "codes that flipped", true);
            together(out, p, name, "zeros", "zeros", false);
        }
    fputs("</div>", out);
}
