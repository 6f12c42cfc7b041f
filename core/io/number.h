/* core/io/number.h — numbers as text, with a decimal point in every locale.  Internal.
 *
 * strtod, strtof and printf use the decimal separator of the program's locale, often a comma.  Files and options
 * must not depend on it. */
#ifndef QG_NUMBER_H
#define QG_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

enum { QG_NUMBER_BYTES = 32 };      /* room for any number below */

/* Read a decimal number, "-1.5e-3", from all n characters at text: no blank, 0x10, inf or nan.  A number beyond
 * the largest double reads as infinity.  false: they are no such number. */
bool qg__number_read(const char *text, size_t n, double *value);

/* x, or of a NaN the one without a sign, which differs between processors: for printf's %g in messages. */
double qg__number_shown(double x);

/* Whether all n numbers are finite. */
bool qg__all_finite(const float *x, size_t n);

/* As printf's %.*g. */
void qg__number_print(char text[QG_NUMBER_BYTES], int digits, double value);

/* With the fewest digits that read back as the same float, or double; without an exponent from 1e-4 to 1e6. */
void qg__number_print_float(char text[QG_NUMBER_BYTES], float value);
void qg__number_print_double(char text[QG_NUMBER_BYTES], double value);

/* "15.4 times smaller", "1.3 times larger" or "about as large": n compared with of.  Returns text. */
const char *qg__number_ratio(char text[QG_NUMBER_BYTES], size_t n, size_t of);

#endif
