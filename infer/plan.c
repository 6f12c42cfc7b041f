/* Where values lie in a context. */
#include <stdbool.h>

#include "infer/net.h"

/* Values of images that run together share a core's second cache, except that there are enough of them to
 * fill the tiles of products with one pixel. */
enum { CACHE = 1 << 20, FEWEST_IMAGES = 16, MOST_IMAGES = 64, MOST_CONTEXT = 1 << 26 };

/* Codes are shorter than the floats that they are made of. */
static bool may_replace_x(const qg__infer_step *s)
{
    return qg__is_elementwise(s->r.kind) && (s->r.kind != QG__QUANTIZE || s->to.route == QG__ROUTE_LEVELS);
}

static void find_last_readers(qg_infer *net)
{
    for (int v = 0; v <= net->steps; v++) net->value[v].last = v < net->steps ? v - 1 : net->steps;
    for (int i = 0; i < net->steps; i++) {
        const qg__packed_step *r = &net->step[i].r;
        net->value[r->x].last    = i;
        if (r->z >= 0) net->value[r->z].last = i;
    }
}

/* Places a value in the first gap between those that live, which are linked in the order of their places
 * from *first on. */
static void place(qg_infer *net, int value, int *first)
{
    qg__place *v = &net->value[value];
    int       *link = first;
    v->at           = 0;
    while (*link >= 0 && net->value[*link].at < v->at + v->bytes) {
        v->at = net->value[*link].at + net->value[*link].bytes;
        link  = &net->value[*link].next;
    }
    v->next = *link;
    *link   = value;
    if (v->at + v->bytes > net->value_bytes) net->value_bytes = v->at + v->bytes;
}

static int *link_to(qg_infer *net, int value, int *first)
{
    int *link = first;
    while (*link != value) link = &net->value[*link].next;
    return link;
}

static void end(qg_infer *net, int value, int *first)
{
    *link_to(net, value, first) = net->value[value].next;
}

/* Value `by` takes the place of another one of the same size. */
static void replace(qg_infer *net, int value, int by, int *first)
{
    net->value[by].at   = net->value[value].at;
    net->value[by].next = net->value[value].next;
    *link_to(net, value, first) = by;
}

void qg__plan(qg_infer *net)
{
    int first = -1;
    find_last_readers(net);
    net->value_bytes = 0;
    place(net, 0, &first);
    for (int i = 0; i < net->steps; i++) {
        const qg__packed_step *r = &net->step[i].r;
        const bool             x_ends = net->value[r->x].last == i;
        const bool             z_ends = r->z >= 0 && r->z != r->x && net->value[r->z].last == i;
        /* The image may be the caller's. */
        if (x_ends && r->x && r->z != r->x && may_replace_x(&net->step[i])) {
            replace(net, r->x, i + 1, &first);
        } else {
            place(net, i + 1, &first);
            if (x_ends) end(net, r->x, &first);
        }
        if (z_ends) end(net, r->z, &first);
        if (net->value[i + 1].last <= i) end(net, i + 1, &first);     /* nothing reads it */
    }
    size_t images = CACHE / net->value_bytes;
    images        = images < FEWEST_IMAGES ? FEWEST_IMAGES : images > MOST_IMAGES ? MOST_IMAGES : images;
    if (images * net->value_bytes > MOST_CONTEXT) images = MOST_CONTEXT / net->value_bytes;
    net->images = images ? (int)images : 1;
}
