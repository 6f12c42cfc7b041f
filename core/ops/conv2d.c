/* y = x * w + b.  core/ops/conv_shape.c checks what fits; the passes over images, groups and slices are in
 * conv_pass.c, those of one channel per group in depthwise.c; conv_summed.c has what a norm after it reads. */
#include "core/kernels/parallel.h"
#include "core/ops/conv2d.h"
#include "core/slices.h"
#include "core/walk.h"

typedef struct bias_sums {
    const qg_var *y;
    double       *part;     /* [n][oc], from the first image that is here */
} bias_sums;

static void bias_piece(void *context, int i, int worker)
{
    (void)worker;
    const bias_sums *s  = context;
    const size_t     oc = (size_t)s->y->shape.c, row = qg_row(s->y->shape);
    const float     *dy = s->y->grad + (size_t)i * row;
    double          *sum = s->part + (size_t)i * oc;
    for (size_t k = 0; k < oc; k++) sum[k] = 0;
    for (size_t p = 0; p < row; p += oc)
        for (size_t k = 0; k < oc; k++) sum[k] += (double)dy[p + k];
}

bool qg__bias_gradient(qg_tape *t, const qg_var *y)
{
    qg_var          *b  = y->in[2];
    const qg__slices at = qg__slices_of(y);
    const size_t     oc = (size_t)y->shape.c, n = (size_t)at.n;
    double          *part = qg_scratch(t, n * oc * sizeof *part);
    if (!part) return false;
    qg_parallel(y->shape.n, bias_piece, &(bias_sums){ y, part + (size_t)at.first * oc });
    if (!qg__images_gather(t, at, part, oc * sizeof *part)) return false;
    for (size_t k = 0; k < oc; k++) {
        double sum = b->fresh ? 0.0 : (double)b->grad[k];
        for (size_t i = 0; i < n; i++) sum += part[i * oc + k];
        b->grad[k] = (float)sum;
    }
    b->fresh = false;
    return true;
}

/* y[n,i,j,o] = b[o] + sum over p,q,k of w[o,p,q,k] x[n, i stride + p - pad_h, j stride + q - pad_w, k]
 *     db[o]       = sum over n,i,j of dy[n,i,j,o]
 *     dw[o,p,q,k] = sum over n,i,j of dy[n,i,j,o] x[n, i stride + p - pad_h, j stride + q - pad_w, k]
 *     dx[n,u,v,k] = sum over o and all p,q,i,j that read it of w[o,p,q,k] dy[n,i,j,o] */
static void conv2d_backward(qg_tape *t, qg_var *y)
{
    const qg_var *b = y->in[2];
    if (b && b->grad && !qg__bias_gradient(t, y)) return;
    qg__conv_gradients(t, y);
}

const qg_op qg__conv2d_op = { .name = "conv2d", .backward = conv2d_backward, .assigns = true };

static qg_var *conv2d(qg_tape *t, qg_var *x, qg_var *w, qg_var *b, qg_conv_spec spec, qg_shape shape,
                      bool summed)
{
    qg_var *y = qg_record(t, &qg__conv2d_op, shape, x, w, b);
    if (!y) return NULL;
    qg__mark_product(y);
    qg__convolution *c = qg__save_with_sums(t, y, sizeof *c, summed);
    if (!c) return NULL;
    const qg__conv g      = qg__conv_geometry(x, w, spec);
    const bool     framed = spec.pad_h || spec.pad_w || spec.extra_h || spec.extra_w;
    *c = (qg__convolution){ .summed = c->summed,
                            .spec   = spec,
                            .g      = g,
                            .image  = framed ? (size_t)(g.h * g.w * g.c) : 0,
                            .mirror = spec.stride == 1 && g.oh == x->shape.h && g.ow == x->shape.w };
    const bool winograd = c->mirror && qg__winograd_fits(&g);
    c->k = winograd ? QG_KERNELS(qg__winograd_kernels) : QG_KERNELS(qg__conv_kernels);
    return qg__conv_value(t, y) ? y : NULL;
}

qg_var *qg__convolve(qg_tape *t, qg_var *x, qg_var *w, qg_var *b, qg_conv_spec spec, bool summed)
{
    if (!x || !w) return NULL;
    const qg_shape shape = qg__conv_fit(t, x, w, b, &spec);
    if (!shape.n) return NULL;
    const bool depthwise = spec.groups > 1 && spec.groups == x->shape.c;
    qg_var    *y         = (depthwise ? qg__depthwise_conv2d : conv2d)(t, x, w, b, spec, shape, summed);
    if (y) y->flops = 2.0 * (double)qg_count(y->shape) * (double)qg_row(w->shape);
    return y;
}

qg_var *qg_conv2d(qg_tape *t, qg_var *x, qg_var *w, qg_var *b, qg_conv_spec spec)
{
    return qg__convolve(t, x, w, b, spec, false);
}
