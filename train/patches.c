#include "train/patches.h"

#include <math.h>

#include "core/arena.h"
#include "core/jacobi.h"
#include "layers/layer.h"
#include "train/statistics.h"

enum { MOST_IMAGES = 5000, MOST_VALUES = 256 };

static const double EPS = 5e-4;
static const double LEAST_VARIANCE = 1e-12;     /* of patches that differ by more than rounding errors */

qg_status qg__patches_check(const qg_net *net, const char *layer)
{
    qg_layer *l = qg_net_find(net, layer);
    if (!l) return QG_EARG;
    const qg_product *p = qg_layer_product(l);
    if (!p || l->after) return qg_fail(QG_EARG, "%s is not a product that reads the images", layer);
    const qg_scheme *scheme = p->weight_slot.q.scheme;
    if (!scheme) return QG_OK;
    return qg_fail(QG_EARG, "the weight of %s is quantized with %s, but must be float, as with --layer "
                   "%s:weight=float", layer, scheme->name, layer);
}

/* Of patches of k values. */
typedef struct moments {
    int     k;
    double *patch, *sum;            /* [k] */
    double *products;               /* [k][k], the lower half */
} moments;

static void add_patch(moments *m)
{
    for (int i = 0; i < m->k; i++) {
        double *row = m->products + i * m->k;
        m->sum[i] += m->patch[i];
        for (int j = 0; j <= i; j++) row[j] += m->patch[i] * m->patch[j];
    }
}

/* x: an image [h][w][c] of this shape; w: the shape of a filter. */
static void add_image(moments *m, qg_shape image, qg_shape w, const float *x)
{
    const int width = w.w * w.c, step = image.w * image.c;
    for (int top = 0; top + w.h <= image.h; top++)
        for (int left = 0; left + w.w <= image.w; left++) {
            const float *from = x + top * step + left * w.c;
            for (int i = 0; i < m->k; i++) m->patch[i] = (double)from[i / width * step + i % width];
            add_patch(m);
        }
}

/* products becomes the covariance of n patches; returns the mean of the variances. */
static double covariance(moments *m, double n)
{
    double trace = 0;
    for (int i = 0; i < m->k; i++)
        for (int j = 0; j <= i; j++) {
            double *c = m->products + i * m->k + j;
            *c = *c / n - (m->sum[i] / n) * (m->sum[j] / n);
            m->products[j * m->k + i] = *c;
            if (i == j) trace += *c;
        }
    return trace / m->k;
}

static void set_filters(qg_param *weight, int k, double eps, const double *value, const double *vector)
{
    for (int o = 0; o < weight->shape.n; o++) {
        const double l     = value[o / 2] > 0 ? value[o / 2] : 0;        /* rounding may have made it less */
        const double scale = (o % 2 ? -1 : 1) / sqrt(l + eps);
        for (int i = 0; i < k; i++) weight->value[o * k + i] = (float)(scale * vector[o / 2 * k + i]);
    }
}

static qg_status check_sizes(const qg_product *p, qg_shape image)
{
    const qg_shape w    = p->weight->shape;
    const size_t   k    = qg_row(w);
    const char    *name = p->layer.name;
    if (p->conv.groups != 1)
        return qg_fail(QG_EARG, "%s has %d groups, but must have one", name, p->conv.groups);
    if (w.h > image.h || w.w > image.w)
        return qg_fail(QG_EARG, "the kernel of %s, %dx%d, is larger than the images, %dx%d", name, w.h, w.w,
                       image.h, image.w);
    if (k > MOST_VALUES)
        return qg_fail(QG_EARG, "a patch that %s reads has %zu values, more than %d", name, k, MOST_VALUES);
    if ((size_t)w.n <= 2 * k) return QG_OK;
    return qg_fail(QG_EARG, "%s has %d outputs, more than %zu: two for each of the %dx%dx%d values of a "
                   "patch", name, w.n, 2 * k, w.h, w.w, w.c);
}

static qg_status whiten(const qg_product *p, qg_loader *images, qg_arena *memory)
{
    const qg_shape w = p->weight->shape, image = qg_loader_shape(images);
    const int      k = (int)qg_row(w), n = image.n < MOST_IMAGES ? image.n : MOST_IMAGES;
    const size_t   square = (size_t)k * (size_t)k;
    float         *x   = qg__zeros(memory, qg_row(image), sizeof *x);
    double        *all = qg__zeros(memory, 2 * square + 3 * (size_t)k, sizeof *all);
    if (!x || !all) return QG_EMEM;
    moments   m      = { k, all, all + k, all + 2 * k };
    double   *value  = m.products + square, *vector = value + k;
    qg_status status = QG_OK;
    for (int i = 0; i < n && !status; i++) {
        status = qg_loader_image(images, (uint64_t)i * (uint64_t)image.n / (uint64_t)n, x);
        if (!status) add_image(&m, image, w, x);
    }
    if (status) return status;
    const double mean = covariance(&m, (double)n * (image.h - w.h + 1) * (image.w - w.w + 1));
    if (!(mean > LEAST_VARIANCE))
        return qg_fail(QG_EARG, "the patches that %s reads are all the same", p->layer.name);
    qg__jacobi(k, m.products, value, vector);
    set_filters(p->weight, k, EPS * mean, value, vector);
    p->weight->frozen = true;
    return QG_OK;
}

qg_status qg__patches_whiten(qg_net *net, const char *layer, qg_loader *images)
{
    qg_arena  memory = { 0 };
    qg_status status = qg__patches_check(net, layer);
    if (status) return status;
    const qg_product *p = qg_layer_product(qg_net_find(net, layer));
    status = check_sizes(p, qg_loader_shape(images));
    if (!status) status = whiten(p, images, &memory);
    qg__arena_release(&memory);
    return status;
}
