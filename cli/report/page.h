/* cli/report/page.h — a run, or several laid over each other, as one HTML page.
 *
 * The page has no scripts, links or files of its own: charts are SVG, pictures are part of it.  It follows the reader's light or
 * dark mode, and the width of the window.
 */
#ifndef CLI_REPORT_PAGE_H
#define CLI_REPORT_PAGE_H

#include "cli/report/gather.h"
#include "cli/run/output.h"
#include "cli/svg.h"

typedef struct page {
    const shown_run   *run;
    int                runs;            /* at least 1 */
    const shown_group *group;           /* [groups], of these runs */
    int                groups;
    const int         *in;              /* [runs], the group of each */
    const bool        *whole;           /* [runs]: which are shown one by one, too; NULL: all */
    const mistakes    *mistakes;        /* [runs]; NULL: none are known */
} page;

/* Curves in a chart; points of a curve over epochs, so that deep nets and long runs stay below a megabyte; and runs that are shown
 * one by one, if there are more of them. */
enum { PAGE_CURVES = 32, PAGE_POINTS = 60, PAGE_WHOLE = 8 };

/* Writes it as a file, OUTPUT_PAGE or OUTPUT_KEPT_PAGE, in an open directory or QG_BY_PATH (core/io/file.h). */
QG_MUST_CHECK
qg_status page_write(const page *p, int dir, const char *path, output_kind kind);

/* Writes each of its charts as an SVG file, DIR/04-conv1-fraction-of-each-level.svg, and makes DIR if
 * needed.  On a slide a chart stands alone, so titles name the layer. */
QG_MUST_CHECK
qg_status page_write_charts(const page *p, const char *dir);

/* --- between the files of its sections -------------------------------------------------------- */

/* The name of group i without the directories in front that all groups have in common. */
const char *page_group_name(const page *p, int i);

/* The curves of group i: of these there are PAGE_CURVES, of which each eight have a colour and a pattern of their own. */
int         page_curves(const page *p);
svg_series  page_curve(const page *p, int i, svg_kind kind, const char *column);    /* .y NULL: it has no such column */

/* Adds a series, if it has values and the chart room for it. */
void        page_add(svg_chart *c, svg_series s);

/* Adds the mean of a column of group i to the chart, with the band of a deviation around it. */
void        page_add_mean(svg_chart *c, const page *p, int i, const char *column, const char *name);

void page_layers(FILE *out, const shown_run *r);            /* a card for each layer with weights */
void page_layers_together(FILE *out, const page *p);        /* flips and zeros of all runs, layer by layer */
void page_inputs(FILE *out, const shown_run *r);
void page_mistakes(FILE *out, const mistakes *m, const qg_run *run);

#endif
