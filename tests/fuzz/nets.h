/* tests/fuzz/nets.h — packed nets, for the targets that run them. */
#ifndef FUZZ_NETS_H
#define FUZZ_NETS_H

#include "infer/file.h"

/* Products and numbers of one image; a double, which does not overflow. */
double   fuzz_work(const qg__file *f);

/* The bytes with the marks and the checksum that a damaged file lacks, from malloc.  n is at least
 * QG__HEADER_BYTES. */
uint8_t *fuzz_sealed(const uint8_t *bytes, size_t n);

#endif
