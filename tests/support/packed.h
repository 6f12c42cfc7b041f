/* tests/support/packed.h — packed files (infer/format.h) by hand, for tests that link the engine alone. */
#ifndef PACKED_H
#define PACKED_H

#include "infer/format.h"

typedef struct packed_step {
    qg__packed_step r;
    const float    *floats;     /* its list, as infer/format.h orders it */
    const float    *w;          /* of products: [oc][kh][kw][c / groups], integers or floats; with w_zeros each row after its
                                   zero point */
    const char     *name;       /* NULL: "" */
} packed_step;

typedef struct packed_net {
    int                h, w, c;
    int                normal;              /* numbers of mean and of deviation */
    const float       *normalisation;       /* mean, then deviation */
    int                steps;
    const packed_step *step;
    int                notes;
    const char *const *note;                /* keys and values in turn */
} packed_net;

/* The file, of exactly *n bytes from malloc. */
uint8_t *packed_file(const packed_net *net, size_t *n);

/* Sets the checksum of a file that was changed. */
void     packed_seal(uint8_t *file, size_t n);

/* Where the record of a step begins. */
static inline size_t packed_record(int step) { return QG__HEADER_BYTES + (size_t)step * QG__STEP_BYTES; }

/* Numbers in the list of a step; those before the thresholds; bytes of a row of weights. */
size_t   packed_floats(const qg__packed_step *r);
size_t   packed_own_floats(const qg__packed_step *r);
size_t   packed_row_bytes(const qg__packed_step *r);

void     packed_put(uint8_t *at, uint32_t v);
void     packed_put_float(uint8_t *at, float v);

#endif
