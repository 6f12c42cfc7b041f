#include "core/io/number.h"

#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

enum { FLOAT_DIGITS = 9, DOUBLE_DIGITS = 17 };      /* always read back as the same number */

/* The locale of this thread alone becomes "C", for which libraries have a constant; NULL: it stays. */
static locale_t enter_c(void)
{
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return c ? uselocale(c) : (locale_t)0;
}

static void leave_c(locale_t before)
{
    if (!before) return;
    const locale_t c = uselocale(before);
    freelocale(c);
}

bool qg__number_read(const char *text, size_t n, double *value)
{
    char  digits[256], *end;
    if (n == 0 || n >= sizeof digits) return false;
    memcpy(digits, text, n);
    digits[n] = '\0';
    if (strspn(digits, "+-.eE0123456789") < n) return false;
    const locale_t before = enter_c();
    *value                = strtod(digits, &end);
    leave_c(before);
    return end == digits + n;
}

double qg__number_shown(double x) { return isnan(x) ? (double)NAN : x; }

/* Adding one to an exponent of all ones, and to no other, carries into the sign bit.  Integers,
 * because a sum of floats may not be reordered and so would not be vectorised. */
bool qg__all_finite(const float *x, size_t n)
{
    uint32_t carry = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        carry |= (bits & 0x7F800000u) + 0x00800000u;
    }
    return carry < 0x80000000u;
}

void qg__number_print(char text[QG_NUMBER_BYTES], int digits, double value)
{
    const locale_t before = enter_c();
    snprintf(text, QG_NUMBER_BYTES, "%.*g", digits, value);
    leave_c(before);
}

static void print_shortest(char text[QG_NUMBER_BYTES], double value, bool as_float)
{
    const bool plain = fabs(value) >= 1e-4 && fabs(value) < 1e6;
    for (int digits = 1; digits <= (as_float ? FLOAT_DIGITS : DOUBLE_DIGITS); digits++) {
        double again = 0;
        qg__number_print(text, digits, value);
        if (plain && strchr(text, 'e')) continue;
        if (!qg__number_read(text, strlen(text), &again)) return;       /* inf or nan */
        if (as_float ? (float)again == (float)value : again == value) return;
    }
}

void qg__number_print_float(char text[QG_NUMBER_BYTES], float value) { print_shortest(text, (double)value, true); }
void qg__number_print_double(char text[QG_NUMBER_BYTES], double value) { print_shortest(text, value, false); }

const char *qg__number_ratio(char text[QG_NUMBER_BYTES], size_t n, size_t of)
{
    const double smaller = (double)of / (double)n, larger = (double)n / (double)of;
    if (smaller >= 1.05) snprintf(text, QG_NUMBER_BYTES, "%.1f times smaller", smaller);
    else if (larger >= 1.05) snprintf(text, QG_NUMBER_BYTES, "%.1f times larger", larger);
    else snprintf(text, QG_NUMBER_BYTES, "about as large");
    return text;
}
