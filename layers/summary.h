/* layers/summary.h — the size of a net in words.  Internal. */
#ifndef QG_SUMMARY_H
#define QG_SUMMARY_H

#include <stddef.h>

enum { QG__RATIO_BYTES = 32 };

/* "15.4 times smaller", "1.3 times larger" or "about as large": packed bytes beside those as float. */
const char *qg__size_ratio(size_t floats, size_t packed, char text[QG__RATIO_BYTES]);

#endif
