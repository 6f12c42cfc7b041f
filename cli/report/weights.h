/* cli/report/weights.h — the latent weights of a layer as a histogram, with the levels that they are quantized to. */
#ifndef CLI_REPORT_WEIGHTS_H
#define CLI_REPORT_WEIGHTS_H

#include "layers/layer.h"

enum { WEIGHT_BINS = 64, WEIGHT_LEVELS = 16 };

typedef struct weight_picture {
    size_t count;                       /* weights; 0: the layer has none */
    bool   quantized;
    int    bins;                        /* fewer for few weights, so that noise does not look like structure */
    double edge[WEIGHT_BINS + 1];       /* from the smallest to the largest weight */
    double density[WEIGHT_BINS];        /* share of the weights per unit of their value */
    size_t in_bin[WEIGHT_BINS];

    /* The quantized values, ascending, if they are at most WEIGHT_LEVELS. */
    int    levels;                      /* 0: more, or not quantized */
    float  level[WEIGHT_LEVELS];
    double share[WEIGHT_LEVELS];
    int    thresholds;                  /* levels - 1, or 0 if no number separates two levels: scales per channel, or draws */
    double threshold[WEIGHT_LEVELS];    /* between level k and k + 1: midway between the weights on either side */
} weight_picture;

/* Measures the weight of l as evaluation quantizes it, on t, which begins a step of its own.  A layer without weights, or with
 * one that is not finite, gives count 0.  Fails with QG_EMEM and as the quantizer. */
QG_MUST_CHECK
qg_status weights_measure(qg_layer *l, qg_tape *t, weight_picture *out);

#endif
