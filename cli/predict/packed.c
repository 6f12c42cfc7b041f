/* The scores of a packed net. */
#include <stdlib.h>

#include "cli/predict/scorer.h"
#include "cli/run/packed.h"
#include "core/kernels/parallel.h"

typedef struct packed_scorer {
    const char *path;
    packed_net  packed;
} packed_scorer;

static qg_status score(void *from, int n, const uint8_t *bytes, float *scores)
{
    const packed_scorer *p = from;
    return packed_score(&p->packed, p->path, n, bytes, scores);
}

static void describe(const void *from, qg__json *j)
{
    const packed_scorer *p = from;
    qg__json_path(j, "packed", p->path);
    qg__json_text(j, "model", qg_infer_note(p->packed.net, "model"));
    qg__json_text(j, "digest", qg_infer_note(p->packed.net, "digest"));
}

static void end(void *from)
{
    packed_scorer *p = from;
    if (p) packed_close(&p->packed);
    free(p);
}

qg_status scorer_of_packed(scorer *s, const config *asked)
{
    packed_scorer *p = calloc(1, sizeof *p);
    if (!p) return qg_fail(QG_EMEM, "out of memory for a packed net");
    *s      = (scorer){ .from = p, .score = score, .describe = describe, .end = end };
    p->path = asked->packed;
    qg_set_threads(asked->recipe.threads);
    qg_status       status = packed_open(&p->packed, p->path, QG_INFER_EVALUATE);
    const qg_infer *net    = p->packed.net;
    s->image               = p->packed.image;
    if (!status) status = qg_image_read(p->path, s->image, NULL, NULL);
    if (!status) status = packed_prepare(&p->packed, 1);
    return status ? status
                  : qg__class_names_begin(&s->classes, qg_infer_note(net, "class-names"), qg_infer_note(net, "data"), p->packed.scores);
}
