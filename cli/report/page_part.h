/* cli/report/page_part.h — the sections of a page that have files of their own. */
#ifndef CLI_REPORT_PAGE_PART_H
#define CLI_REPORT_PAGE_PART_H

#include "cli/report/page.h"

/* The directory of run i without the directories in front that all runs have in common. */
const char *page_run_name(const page *p, int i);

void page_layers(FILE *out, const shown_run *r);            /* a card for each layer with weights */
void page_layers_together(FILE *out, const page *p);        /* flips and zeros of all runs, layer by layer */
void page_inputs(FILE *out, const shown_run *r);
void page_mistakes(FILE *out, const mistakes *m, const class_names *names);

#endif
