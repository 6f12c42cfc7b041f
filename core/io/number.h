/* core/io/number.h — numbers as text, with a point in every locale.  Internal.
 *
 * strtod, strtof and printf take the decimal point of the program's locale, a comma in many.  What files
 * and options say does not depend on it. */
#ifndef QG_NUMBER_H
#define QG_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

enum { QG_NUMBER_BYTES = 32 };      /* room for any number below */

/* The n characters at text are one number in decimal digits, "-1.5e-3": no blank, 0x10, inf or nan.  One
 * beyond the largest double is infinite. */
bool qg_number_read(const char *text, size_t n, double *value);

/* As printf's %.*g. */
void qg_number_print(char text[QG_NUMBER_BYTES], int digits, double value);

/* With as few digits as read back as the same float, or double; without an exponent from 1e-4 to 1e6. */
void qg_number_print_float(char text[QG_NUMBER_BYTES], float value);
void qg_number_print_double(char text[QG_NUMBER_BYTES], double value);

#endif
