/* cli/report/page_part.h — the sections of a page that have files of their own. */
#ifndef CLI_REPORT_PAGE_PART_H
#define CLI_REPORT_PAGE_PART_H

#include "cli/report/page.h"
#include "cli/svg.h"

/* The name of group i without the directories in front that all groups have in common. */
const char *page_group_name(const page *p, int i);

/* The curves of group i: of these there are PAGE_CURVES, of which each eight have a colour and a pattern of their own. */
int         page_curves(const page *p);
svg_series  page_curve(const page *p, int i, svg_kind kind, const char *column);    /* .y NULL: it has no such column */

/* Adds the mean of a column of group i to the chart, with the band of a deviation around it. */
void        page_add_mean(svg_chart *c, const page *p, int i, const char *column, const char *name);

void page_layers(FILE *out, const shown_run *r);            /* a card for each layer with weights */
void page_layers_together(FILE *out, const page *p);        /* flips and zeros of all runs, layer by layer */
void page_inputs(FILE *out, const shown_run *r);
void page_mistakes(FILE *out, const mistakes *m, const qg_run *run);

#endif
