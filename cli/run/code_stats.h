/* cli/run/code_stats.h — how the codes of the quantized weights change from epoch to epoch. */
#ifndef CLI_CODE_STATS_H
#define CLI_CODE_STATS_H

#include "layers/layer.h"

typedef struct code_stats_row {
    const qg_product *product;
    size_t            n;
    int32_t          *now;          /* the codes of the last count */
    int8_t           *narrow;       /* the same in the checkpoint's type; NULL where a code needs */
    float            *scale;        /* more than a byte, and the checkpoint then holds now */
    float            *folded;       /* room for the weight with a batch norm folded in; NULL: none */
    double            zeros;        /* share of zero codes */
    double            flipped;      /* share of codes that changed since the previous count */
} code_stats_row;

typedef struct code_stats {
    code_stats_row *row;                /* one per layer whose weight has integer codes */
    int         rows;
    int32_t    *codes;              /* room for those of any one layer */
} code_stats;

/* Counts the initial codes of a built net, which must outlive the statistics.  Fails with QG_EMEM and
 * as the schemes' encode. */
QG_MUST_CHECK qg_status code_stats_begin(code_stats *c, qg_net *net);

/* Counts zeros, and flips since the previous count. */
QG_MUST_CHECK qg_status code_stats_count(code_stats *c);

/* Adds the codes as "codes.conv1", so that a resumed run counts the same flips. */
void code_stats_state(code_stats *c, qg_state *s);
void code_stats_loaded(code_stats *c);                  /* after qg_state_load: take over what was read */
void code_stats_end(code_stats *c);

#endif
