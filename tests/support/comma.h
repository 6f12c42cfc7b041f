/* tests/support/comma.h — a locale whose numbers have a decimal comma. */
#ifndef COMMA_H
#define COMMA_H

#include <stdbool.h>

/* Selects a locale with a decimal comma, one of the machine or one that localedef makes for the test.  Returns false if
 * neither is available, as with musl, which always uses a point. */
bool comma_begin(void);
void comma_end(void);           /* and a point again */

#endif
