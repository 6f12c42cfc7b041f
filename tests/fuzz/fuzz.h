/* tests/fuzz/fuzz.h — what the fuzz targets share.
 *
 * A target is a file fuzz_NAME.c that defines LLVMFuzzerTestOneInput.  `make fuzz` links each with
 * libFuzzer.  test_fuzz.c has all of them in one program, which `make test` runs on the inputs in
 * corpus/NAME.
 *
 * A target must do the same each time it gets the same bytes.  It returns 0; what a reader promises and
 * does not keep is a MUST that fails.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/io/array.h"
#include "core/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);      /* one thread, and a room (tests/support/room.h) */

#define MUST(condition) ((condition) ? (void)0 : fuzz_failed(__FILE__, __LINE__, #condition))
QG_NORETURN void fuzz_failed(const char *file, int line, const char *condition);

/* Whether a call succeeded.  A call that failed must have left its status and a message. */
bool fuzz_ok(qg_status s);
bool fuzz_got(const void *result);      /* the same of a call that returns NULL on failure */

/* The bytes and a zero behind them, from malloc and without a byte to spare, so that a sanitizer sees each
 * read beyond. */
char *fuzz_text(const uint8_t *bytes, size_t n);

/* Reads all n bytes, so that a sanitizer sees those that are not there. */
void fuzz_touch(const void *bytes, size_t n);

/* Sends stdout and stderr to /dev/null until the call with false. */
void fuzz_mute(bool on);

/* --- choices made by the bytes of an input ----------------------------------------------------- */

/* After the last byte comes the first one again, so that a short input fills a large tensor. */
typedef struct draws {
    const uint8_t *bytes;
    size_t         n, at;
} draws;

uint8_t  draw_byte(draws *d);           /* 0 without bytes */
uint32_t draw_bits(draws *d);
int      draw(draws *d, int lo, int hi);        /* lo..hi, at most 256 values */
bool     draw_bool(draws *d);
bool     draw_rarely(draws *d);         /* once in 16 */
int      draw_int(draws *d);            /* mostly 0..8, rarely one that breaks an arithmetic */
float    draw_float(draws *d);          /* mostly -5..3, often one that breaks a division or a comparison */

/* --- arrays of the plain operators -------------------------------------------------------------- */

/* Extents, rarely 0 or more than a vector holds, and at most some hundred elements in all. */
void     fuzz_extents(draws *d, int rank, size_t *dims);

/* All arrays live until fuzz_arrays_end.  Rarely an array has another dtype, rank or extent than was asked
 * for. */
qg_array fuzz_input(draws *d, qg_dtype dtype, int rank, const size_t *dims);
qg_array fuzz_output(draws *d, qg_dtype dtype, int rank, const size_t *dims);
void     fuzz_arrays_end(void);

/* fuzz_ok of an operator.  One that failed must not have written any output. */
bool     fuzz_done(qg_status s);

#endif
