/* The scores of a packed net. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/predict/scorer.h"
#include "cli/run/packed.h"
#include "core/io/paths.h"
#include "core/kernels/parallel.h"
#include "datasets/loader.h"

typedef struct packed_scorer {
    const char *path;
    packed_net  packed;
    char        name[QG__PATH_BYTES];       /* of a class */
} packed_scorer;

static qg_status score(void *from, int n, const uint8_t *bytes, float *scores)
{
    const packed_scorer *p = from;
    return packed_score(&p->packed, p->path, n, bytes, scores);
}

/* "cat" of the note "bird/cat/dog" or, without such a note, its number; numbers of a known set become its words. */
static const char *name(void *from, int k)
{
    packed_scorer *p    = from;
    const char    *at   = qg_infer_note(p->packed.net, "class-names"), *data = qg_infer_note(p->packed.net, "data");
    const char    *word = NULL;
    int            n    = at && *at;
    for (const char *c = at; c && *c; c++) n += *c == '/';
    for (int i = 0; n == p->packed.scores && i < k; i++) at = strchr(at, '/') + 1;
    if (n == p->packed.scores) snprintf(p->name, sizeof p->name, "%.*s", (int)strcspn(at, "/"), at);
    else snprintf(p->name, sizeof p->name, "%d", k);
    if (data && *p->name >= '0' && *p->name <= '9' && !p->name[1]) word = qg_data_class(data, *p->name - '0');
    return word ? word : p->name;
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
    *s      = (scorer){ .from = p, .score = score, .name = name, .describe = describe, .end = end };
    p->path = asked->packed;
    qg_set_threads(asked->recipe.threads);
    qg_status status = packed_open(&p->packed, p->path, QG_INFER_EVALUATE);
    s->image         = p->packed.image;
    s->classes       = p->packed.scores;
    if (!status) status = qg_image_read(p->path, s->image, NULL, NULL);
    return status ? status : packed_prepare(&p->packed, 1);
}
