/* cli/report/mistakes.h — which classes a net confuses, and pictures of the images that it is most wrong about. */
#ifndef CLI_REPORT_MISTAKES_H
#define CLI_REPORT_MISTAKES_H

#include "datasets/loader.h"
#include "train/evaluate.h"

enum { WORST_IMAGES = 24 };

typedef struct mistakes {
    const char    *split;                   /* "test" or "validation"; NULL: nothing is known */
    qg_assessment all;
    char          *picture[WORST_IMAGES];   /* of all.worst: "data:image/png;base64,.."; NULL: none */
} mistakes;                                 /* {0} is empty */

/* After the last image: makes the pictures from the images, which are .in_order.  Each is stretched to its own extremes, since
 * they are normalised; large ones are made smaller.  Fails with QG_EMEM, and as qg_loader_image. */
QG_MUST_CHECK
qg_status mistakes_draw(mistakes *m, qg_loader *images);
void      mistakes_end(mistakes *m);

#endif
