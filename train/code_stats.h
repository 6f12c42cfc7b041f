/* train/code_stats.h — how the codes of the quantized weights change from epoch to epoch.  Internal. */
#ifndef QG_CODE_STATS_H
#define QG_CODE_STATS_H

#include "layers/layer.h"

/* The share of each code is counted where a weight has so few. */
enum { QG__SHARED_CODES = 8 };

typedef struct qg__code_stats_row {
    qg_layer         *layer;
    size_t            n;
    int32_t          *now;          /* the codes of the last count */
    int8_t           *narrow;       /* the same in the checkpoint's type; NULL where a code needs */
    float            *scale;        /* more than a byte, and the checkpoint then holds now */
    float            *folded;       /* room for the weight with a batch norm folded in; NULL: none */
    double            zeros;        /* share of zero codes */
    double            flipped;      /* share of codes that changed since the previous count */
    int               shares;       /* how many codes there are; 0: not known, or more than QG__SHARED_CODES */
    double            share[QG__SHARED_CODES];  /* of each, from the lowest code on */
} qg__code_stats_row;

typedef struct qg__code_stats {
    qg__code_stats_row *row;        /* one per layer whose weight has integer codes */
    int                 rows;
    int32_t            *codes;      /* room for those of any one layer */
} qg__code_stats;

/* Counts the initial codes of a built net, which must outlive the statistics.  Fails with QG_EMEM and
 * as the schemes' encode. */
QG_MUST_CHECK qg_status qg__code_stats_begin(qg__code_stats *c, qg_net *net);

/* Counts zeros, and flips since the previous count. */
QG_MUST_CHECK qg_status qg__code_stats_count(qg__code_stats *c);

/* Adds the codes as "codes.conv1", so that a resumed run counts the same flips. */
void qg__code_stats_state(qg__code_stats *c, qg_state *s);
void qg__code_stats_loaded(qg__code_stats *c);                  /* after qg_state_load: take over what was read */
void qg__code_stats_end(qg__code_stats *c);

#endif
