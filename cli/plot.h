/* cli/plot.h — pictures of schemes, for `qgrad plot` and docs/schemes.md. */
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include "cli/config/schemes.h"

/* What the picture of a scheme shows, "fake_quant:range=learned,bits=3", with few enough bits that steps can be seen, and its file,
 * "input-fake_quant-range-learned.svg".  false: float has no picture. */
enum { PLOT_TEXT_BYTES = 128 };
bool plot_of(const scheme_text *s, char text[PLOT_TEXT_BYTES], char file[PLOT_TEXT_BYTES]);

#endif
