#include <string.h>

#include "infer/kernels/floats.h"
#include "infer/net.h"

static int least(int a, int b) { return a < b ? a : b; }

/* --- products ----------------------------------------------------------------------------------- */

/* Results go where z will be, if z is the value and there is one sum for each. */
static bool sums_in_place(const qg__infer_step *s)
{
    return s->to.route == QG__ROUTE_FLOATS && !s->p.two_sided;
}

static size_t acc_bytes(const qg__infer_step *s, int images)
{
    const size_t results = (size_t)images * qg__results(&s->p.g) * (size_t)s->p.g.oc;
    return sums_in_place(s) || s->finishes ? 0
                                           : qg__lines_of((s->p.two_sided ? 2 : 1) * results * sizeof(float));
}

/* Pixels whose numbers stay in the first cache from one loop to the next. */
static size_t strip_of(const qg__infer_step *s, size_t pixels)
{
    enum { NUMBERS = 4096 };
    const size_t oc = (size_t)s->p.g.oc, strip = oc < NUMBERS ? NUMBERS / oc : 1;
    return s->p.two_sided || strip > pixels ? pixels : strip;       /* the two sums of a number are far
                                                                       apart */
}

/* acc becomes z, which becomes the value. */
static void finish(const qg__infer_step *s, size_t pixels, void *acc, uint8_t *y)
{
    const qg__requantize_kernels *kernels = QG_KERNELS_OF(s->isa, qg__requantize_kernels);
    const size_t oc = (size_t)s->p.g.oc, bytes = qg__pixel_bytes(s), strip = strip_of(s, pixels);
    if (s->to.route == QG__ROUTE_SUMS) {
        kernels->bits(s->to.alphabet, s->to.least, s->to.flip, pixels, s->p.g.oc, acc, (uint64_t *)(void *)y);
        return;
    }
    if (s->to.route == QG__ROUTE_FIXED) {
        kernels->fixed(&s->to.fixed, pixels, s->p.g.oc, acc, y);
        return;
    }
    float *z = acc;
    for (size_t done = 0, now; done < pixels; done += now, z += now * oc) {
        now = pixels - done < strip ? pixels - done : strip;
        qg__product_scale(s->isa, &s->p, s->k, now, z, z);
        qg__quantize(s, now, z, y + done * bytes);
    }
}

static void run_finished(const qg__infer_step *s, int n, const uint8_t *x, uint8_t *y, uint8_t *scratch)
{
    const qg__finish finish = { s->k.a, s->k.b, s->to.route == QG__ROUTE_BYTES ? &s->to.find : NULL,
                                s->r.relu };
    qg__product_run_finished(s->isa, &s->p, n, x, s->packed, &finish, y, scratch);
}

static void run_product(const qg__infer_step *s, int n, size_t x_bytes, const uint8_t *x, uint8_t *y,
                        uint8_t *scratch)
{
    const size_t results = qg__results(&s->p.g);
    for (int done = 0, now; done < n; done += now, x += (size_t)now * x_bytes, y += (size_t)now * s->bytes) {
        now               = least(s->images, n - done);
        if (s->finishes) {
            run_finished(s, now, x, y, scratch);
            continue;
        }
        const size_t used = acc_bytes(s, now);
        void        *acc  = sums_in_place(s) ? y : scratch;
        qg__product_run(s->isa, &s->p, now, x, s->packed, acc, scratch + used);
        finish(s, (size_t)now * results, acc, y);
    }
}

/* --- groups of images --------------------------------------------------------------------------- */

static size_t step_scratch(const qg__infer_step *s, int n)
{
    const int images = least(s->images, n);
    if (s->r.kind != QG__PRODUCT) return qg__lines_of(qg__op_scratch_bytes(s));
    return acc_bytes(s, images) + qg__lines_of(qg__product_scratch_bytes(s->isa, &s->p, images));
}

size_t qg_infer_context_bytes(const qg_infer *net, int n)
{
    const int images  = net ? least(n, net->images) : 0;
    size_t    scratch = 0;
    for (int i = 0; images > 0 && i < net->steps; i++) {
        const size_t own = step_scratch(&net->step[i], images);
        if (own > scratch) scratch = own;
    }
    return images > 0 ? (size_t)images * net->value_bytes + scratch : 0;
}

typedef struct run {
    const qg_infer *net;
    const float    *images;         /* or */
    const uint8_t  *raw;
    float          *scores;
    uint8_t        *context;
    void          (*after)(void *user, int step);
    void           *user;
} run;

static size_t image_numbers(const qg_infer *net) { return (size_t)net->h * (size_t)net->w * (size_t)net->c; }

/* (byte / 255 - mean) / deviation, each operation rounded (datasets/normalise.h). */
static void normalise(const qg_infer *net, const uint8_t *raw, float *x)
{
    const size_t n = image_numbers(net), m = net->normal;
    for (size_t i = 0; i < n; i += m)
        for (size_t k = 0; k < m; k++)
            x[i + k] = ((float)raw[i + k] / 255.0f - net->mean[k]) / net->deviation[k];
}

/* n images, of which the first is number `first`. */
static qg_infer_status run_group(const run *r, int first, int n)
{
    const qg_infer *net     = r->net;
    const size_t    numbers = image_numbers(net), images = (size_t)n, scores = (size_t)qg_infer_scores(net);
    uint8_t        *scratch = r->context + images * net->value_bytes;
    float          *own     = (float *)(void *)(r->context + images * net->value[0].at);
    const float    *image   = r->images ? r->images + (size_t)first * numbers : own;
    for (size_t i = 0; !r->images && i < images; i++)
        normalise(net, r->raw + ((size_t)first + i) * numbers, own + i * numbers);
    if (!QG_KERNELS_OF(net->step[0].isa, qg__float_kernels)->are_finite(images * numbers, image))
        return QG_INFER_ENAN;
    for (int i = 0; i < net->steps; i++) {
        const qg__infer_step *s = &net->step[i];
        const void           *x = s->r.x ? r->context + images * net->value[s->r.x].at : (const void *)image;
        const void *z = s->r.z > 0 ? r->context + images * net->value[s->r.z].at : (const void *)image;
        uint8_t              *y = r->context + images * net->value[i + 1].at;
        const size_t          x_bytes = s->r.x ? net->step[s->r.x - 1].bytes : numbers * sizeof(float);
        if (s->r.kind == QG__PRODUCT) run_product(s, n, x_bytes, x, y, scratch);
        else qg__op_run(s, n, x, s->r.z >= 0 ? z : NULL, y, scratch);
        if (r->after) r->after(r->user, i);
    }
    const void *result = r->context + images * net->value[net->steps].at;
    memcpy(r->scores + (size_t)first * scores, result, images * scores * sizeof *r->scores);
    return QG_INFER_OK;
}

static qg_infer_status run_all(run r, int n, size_t bytes)
{
    if (!r.net || n < 0 || (n > 0 && ((!r.images && !r.raw) || !r.scores))) return QG_INFER_EARG;
    if (!qg__ieee_mode()) return QG_INFER_EMODE;
    if (n == 0) return QG_INFER_OK;
    if (!r.context || (uintptr_t)r.context % 64 || bytes < qg_infer_context_bytes(r.net, n))
        return QG_INFER_EMEMORY;
    qg_infer_status s = QG_INFER_OK;
    for (int first = 0, now; first < n && !s; first += now) {
        now = least(r.net->images, n - first);
        s   = run_group(&r, first, now);
    }
    return s;
}

qg_infer_status qg_infer_run(const qg_infer *net, int n, const float *images, float *scores, void *context,
                             size_t bytes)
{
    return run_all((run){ .net = net, .images = images, .scores = scores, .context = context }, n, bytes);
}

qg_infer_status qg_infer_run_bytes(const qg_infer *net, int n, const uint8_t *images, float *scores,
                                   void *context, size_t bytes)
{
    if (!net || !net->normal) return QG_INFER_EARG;
    return run_all((run){ .net = net, .raw = images, .scores = scores, .context = context }, n, bytes);
}

qg_infer_status qg_infer_run_observed(const qg_infer *net, int n, const float *images, float *scores,
                                      void *context, size_t bytes, void (*after)(void *user, int step),
                                      void *user)
{
    const run r = {
        .net = net, .images = images, .scores = scores, .context = context, .after = after, .user = user
    };
    return run_all(r, n, bytes);
}
