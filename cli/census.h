/* cli/census.h — how the codes of the quantized weights change from epoch to epoch. */
#ifndef CLI_CENSUS_H
#define CLI_CENSUS_H

#include "layers/layer.h"

typedef struct census_row {
    const qg_product *product;
    size_t            n;
    int32_t          *now;          /* the codes of the last count */
    int8_t           *narrow;       /* the same in the checkpoint's type; NULL where a code needs */
    float            *scale;        /* more than a byte, and the checkpoint then holds now */
    float            *folded;       /* room for the weight with a batch norm folded in; NULL: none */
    double            zeros;        /* share of zero codes */
    double            flipped;      /* share of codes that differ from the count before */
} census_row;

typedef struct census {
    census_row *row;                /* one per layer whose weight has integer codes */
    int         rows;
    int32_t    *codes;              /* room for those of any one layer */
} census;

/* Counts the initial codes of a built net, which must outlive the census.  Fails with QG_EMEM and
 * as the schemes' encode. */
QG_MUST_CHECK qg_status census_begin(census *c, qg_net *net);

/* Zeros and flips since the last count. */
QG_MUST_CHECK qg_status census_count(census *c);

/* The codes as "codes.conv1", so that a resumed run counts the same flips. */
void census_state(census *c, qg_state *s);
void census_loaded(census *c);                  /* after qg_state_load: take over what was read */
void census_end(census *c);

#endif
