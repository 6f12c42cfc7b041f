/* cli/predict/scorer.h — where the scores of qgrad predict come from: the weights of --run, or the packed net of --packed. */
#ifndef CLI_SCORER_H
#define CLI_SCORER_H

#include "cli/config/config.h"
#include "cli/run/packed.h"
#include "core/io/json_write.h"
#include "train/runs.h"

typedef struct scorer {
    qg_run     *run;                    /* NULL: */
    packed_net  packed;
    const char *path;                   /* its file */
    qg_shape    image;                  /* of one image, n = 1 */
    int         classes;                /* scores of one image */
    char        name[QG__PATH_BYTES];   /* of a class of the packed net */
} scorer;                               /* {0} is empty */

/* Opens the one that was asked for, which is to be ended, even after a failure.  Fails as qg_run_predict and packed_open; QG_EARG:
 * its images are none that files become (qg_image_read), for which it takes no memory. */
QG_MUST_CHECK
qg_status   scorer_begin(scorer *s, const config *asked);
void        scorer_end(scorer *s);

/* scores [n][classes] of bytes [n][h][w][c], 0 .. 255. */
QG_MUST_CHECK
qg_status   scorer_score(scorer *s, int n, const uint8_t *bytes, float *scores);
const char *scorer_name(scorer *s, int k);              /* of class k, until the next call */
void        scorer_describe(scorer *s, qg__json *j);    /* the first members of the JSON object */

#endif
