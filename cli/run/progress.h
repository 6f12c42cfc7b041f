/* cli/run/progress.h — the progress display on stderr.
 *
 * On a terminal one line is redrawn at most ten times a second.  If stderr is not a terminal, or TERM is dumb, only
 * whole lines are printed.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>

#include "core/status.h"

typedef struct progress {
    bool   live;            /* a terminal that can redraw */
    bool   colour;          /* and NO_COLOR is not set */
    double drawn;           /* when the line was last drawn */
    int    width;           /* of the line on the screen */
} progress;

progress progress_begin(void);
bool     progress_due(const progress *p);       /* is it time to redraw? */
QG_PRINTF(2, 3)
void     progress_draw(progress *p, const char *fmt, ...);
QG_PRINTF(2, 3)
void     progress_line(progress *p, const char *fmt, ...);      /* a line that stays; may contain escapes for colour */
void     progress_clear(progress *p);

void     print_duration(double seconds, char text[32]);         /* "0:07", "1:02:03" */

#endif
