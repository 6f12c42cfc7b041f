/* cli/report/page.h — a run, or several laid over each other, as one HTML page.
 *
 * The page has no scripts, links or files of its own: charts are SVG, pictures are part of it.  It follows the reader's light or
 * dark mode, and the width of the window.
 */
#ifndef CLI_REPORT_PAGE_H
#define CLI_REPORT_PAGE_H

#include "cli/report/gather.h"
#include "cli/report/mistakes.h"
#include "cli/run/output.h"

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

/* Writes it as a file, OUTPUT_PAGE or OUTPUT_KEPT_PAGE. */
QG_MUST_CHECK
qg_status page_write(const page *p, const char *path, output_kind kind);

#endif
