/* cli/report/mistakes.h — which classes a net confuses, and pictures of the images that it is most wrong about. */
#ifndef CLI_REPORT_MISTAKES_H
#define CLI_REPORT_MISTAKES_H

#include "datasets/loader.h"
#include "train/assess.h"

enum { WORST_IMAGES = 24 };

typedef struct mistakes {
    const char    *split;                   /* "test" or "validation"; NULL: nothing is known */
    qg_assessment all;
    char          *picture[WORST_IMAGES];   /* of all.worst: "data:image/png;base64,.."; NULL: none */
} mistakes;                                 /* {0} is empty */

/* Fails with QG_EMEM. */
QG_MUST_CHECK
qg_status mistakes_begin(mistakes *m, const char *split, const qg_loader *images);

/* Counts scores [n][classes] and labels [n] of the next n images of the split.  Fails as qg__assess_add. */
QG_MUST_CHECK
qg_status mistakes_add(mistakes *m, int n, const float *scores, const uint16_t *labels);

/* After the last image and qg__assess_sort: makes the pictures from the images, which are .in_order and at the start before
 * and afterwards.  Each is stretched to its own extremes, since they are normalised; large ones are made smaller.  Fails with
 * QG_EMEM, and as qg_loader_seek. */
QG_MUST_CHECK
qg_status mistakes_draw(mistakes *m, qg_loader *images);
void      mistakes_end(mistakes *m);

#endif
