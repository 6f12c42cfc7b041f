/* tests/support/comma.h — a locale whose numbers have a decimal comma. */
#ifndef COMMA_H
#define COMMA_H

#include <stdbool.h>

/* The program's numbers have a comma from now on: in a locale of the machine, or in one that localedef makes
 * for the test.  false: there is neither, as with musl, whose numbers never have one. */
bool comma_begin(void);
void comma_end(void);           /* and a point again */

#endif
