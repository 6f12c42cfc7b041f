#include <inttypes.h>
#include <math.h>

#include "cli/report/page_part.h"
#include "cli/svg.h"

enum { MAP_CLASSES = 25, PAIRS = 20 };      /* more classes are listed as pairs */

/* Rows are labels, columns what the net said.  The darker a cell, the larger its share of the row. */
static void map(FILE *out, const qg_assessment *a, const qg_run *run)
{
    fputs("<div class=\"scroll\"><table class=\"map\"><thead><tr><th class=\"l\">label \\ said</th>", out);
    for (int k = 0; k < a->classes; k++) fputs("<th>", out), svg_text(out, qg_run_class(run, k)), fputs("</th>", out);
    fputs("<th>right</th></tr></thead><tbody>", out);
    for (int label = 0; label < a->classes; label++) {
        fputs("<tr><th class=\"l\">", out), svg_text(out, qg_run_class(run, label)), fputs("</th>", out);
        for (int said = 0; said < a->classes; said++) {
            const uint64_t n     = qg_assessment_confusion(a, label, said);
            const double   share = n ? (double)n / (double)a->labelled[label] : 0;
            if (n) fprintf(out, "<td style=\"background:rgba(var(--hit),%.2f)\">%" PRIu64 "</td>", 0.08 + 0.62 * share, n);
            else fputs("<td></td>", out);
        }
        const double recall = qg_assessment_recall(a, label);
        if (isnan(recall)) fputs("<td></td></tr>", out);
        else fprintf(out, "<td>%.1f&nbsp;%%</td></tr>", 100 * recall);
    }
    fputs("</tbody></table></div>", out);
}

static void pairs(FILE *out, const qg_assessment *a, const qg_run *run)
{
    fputs("<div class=\"scroll\"><table><thead><tr><th class=\"l\">label</th><th class=\"l\">said</th><th>images</th></tr></thead>"
          "<tbody>", out);
    for (size_t i = 0; i < a->n_confused && i < PAIRS; i++) {
        const qg_confused *c = &a->confused[i];
        fputs("<tr><td class=\"l\">", out), svg_text(out, qg_run_class(run, c->label));
        fputs("</td><td class=\"l\">", out), svg_text(out, qg_run_class(run, c->predicted));
        fprintf(out, "</td><td>%" PRIu64 "</td></tr>", c->count);
    }
    fputs("</tbody></table></div>", out);
}

static void worst(FILE *out, const mistakes *m, const qg_run *run)
{
    if (!m->all.n_worst) return;
    fputs("<h2>Worst mistakes</h2><p class=\"dim\">The images with the largest loss.  Each picture is stretched to its own "
          "darkest and brightest value.</p><div class=\"worst\">", out);
    for (int i = 0; i < m->all.n_worst; i++) {
        const qg_mistake *w = &m->all.worst[i];
        fputs("<figure>", out);
        if (m->picture[i]) fprintf(out, "<img alt=\"image %" PRIu64 "\" src=\"%s\">", w->image, m->picture[i]);
        fputs("<figcaption>", out), svg_text(out, qg_run_class(run, w->label));
        fputs(", said ", out), svg_text(out, qg_run_class(run, w->predicted));
        fprintf(out, "<br><small>image %" PRIu64 "<br>loss %.2f</small></figcaption></figure>", w->image, w->loss);
    }
    fputs("</div>", out);
}

void page_mistakes(FILE *out, const mistakes *m, const qg_run *run)
{
    const qg_assessment *a = &m->all;
    fprintf(out, "<h2>Confusion</h2><p class=\"dim\">%" PRIu64 " of %" PRIu64 " %s images right.  Expected calibration error %.3f.  "
            "Rows are labels, columns what the net said.</p>", a->correct, a->images, m->split, qg_assessment_calibration_error(a));
    if (a->classes <= MAP_CLASSES) map(out, a, run);
    else pairs(out, a, run);
    worst(out, m, run);
}
