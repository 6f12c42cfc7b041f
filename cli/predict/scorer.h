/* cli/predict/scorer.h — where the scores of qgrad predict come from.
 *
 * predict.c finds and reads the images, and prints; a scorer knows what an image must look like and turns its bytes into
 * scores. */
#ifndef CLI_SCORER_H
#define CLI_SCORER_H

#include "cli/config/config.h"
#include "core/io/json_write.h"

typedef struct scorer {
    void       *from;           /* passed to each function; not NULL after it was opened */
    qg_shape    image;          /* of one image, n = 1 */
    int         classes;        /* how many scores of one image */

    /* scores [n][classes] of bytes [n][h][w][c], 0 .. 255 and n <= scorer_most. */
    qg_status (*score)(void *from, int n, const uint8_t *bytes, float *scores);
    const char *(*name)(void *from, int k);                     /* of class k, until the next call */
    void      (*describe)(const void *from, qg__json *j);       /* the first members of the JSON object */
    void      (*end)(void *from);
} scorer;                       /* {0} is empty */

/* The images of one call of score: as many as need 16 MiB as floats, 1 to 64. */
int       scorer_most(qg_shape image);

/* The weights of --run, in the arithmetic of evaluation.  s->from is to be ended, even after a failure.  Fails as
 * qg_run_open and qg_run_net; QG_ESTATE: the checkpoint does not note how its images are preprocessed. */
QG_MUST_CHECK
qg_status scorer_of_run(scorer *s, const config *asked);

/* The packed net of --packed; likewise.  Fails as packed_open (cli/run/packed.h); QG_EARG: its images are none that files
 * become (qg_image_read), for which it takes no memory. */
QG_MUST_CHECK
qg_status scorer_of_packed(scorer *s, const config *asked);

#endif
