#include "quant/reference/code_conv.h"

#include "quant/code_array.h"
#include "quant/round.h"

qg__axes qg__axes_of(const qg_array *a, int n, int h, int w, int c)
{
    size_t step[4];
    size_t size = 1;
    for (int i = 3; i >= 0; i--) {
        step[i] = size;
        size *= a->dims[i];
    }
    return (qg__axes){ a->dims[n], a->dims[h], a->dims[w], a->dims[c],
                   step[n],    step[h],    step[w],    step[c] };
}

size_t qg_conv_extent(qg_padding padding, size_t in, size_t kernel, size_t stride)
{
    if (stride == 0) return 0;
    if (padding == QG_PADDING_SAME) return in / stride + (in % stride ? 1 : 0);
    return in < kernel ? 0 : (in - kernel) / stride + 1;
}

/* Rows of padding before the first. */
static size_t before(qg_padding padding, size_t in, size_t out, size_t kernel, size_t stride)
{
    if (padding == QG_PADDING_VALID || out == 0) return 0;
    const size_t reach = (out - 1) * stride + kernel;
    return reach > in ? (reach - in) / 2 : 0;
}

qg_status qg__code_conv_fit(const char *op, qg__code_conv *k, qg_padding padding)
{
    const qg__axes x = k->x_axes;
    const qg__axes w = k->w_axes;
    const qg__axes y = k->y_axes;
    if ((unsigned)padding > QG_PADDING_SAME)
        return qg_fail(QG_EARG, "%s: padding is %d, must be VALID or SAME", op, (int)padding);
    if (w.h == 0 || w.w == 0)
        return qg_fail(QG_ESHAPE, "%s: the filter is %zu x %zu, must not be empty", op, w.h, w.w);
    if (w.c * k->groups != x.c || w.n % k->groups != 0)
        return qg_fail(QG_ESHAPE,
                       "%s: the filter has %zu input and %zu output channels in %zu groups, the "
                       "input has %zu channels", op, w.c, w.n, k->groups, x.c);
    if (padding == QG_PADDING_VALID && (x.h < w.h || x.w < w.w))
        return qg_fail(QG_ESHAPE, "%s: the filter is %zu x %zu, the input only %zu x %zu", op, w.h,
                       w.w, x.h, x.w);
    const size_t oh = qg_conv_extent(padding, x.h, w.h, k->stride_h);
    const size_t ow = qg_conv_extent(padding, x.w, w.w, k->stride_w);
    if (y.n != x.n || y.h != oh || y.w != ow || y.c != w.n)
        return qg_fail(QG_ESHAPE,
                       "%s: output has n,h,w,c = %zu,%zu,%zu,%zu, must be %zu,%zu,%zu,%zu", op, y.n,
                       y.h, y.w, y.c, x.n, oh, ow, w.n);
    k->top  = before(padding, x.h, oh, w.h, k->stride_h);
    k->left = before(padding, x.w, ow, w.w, k->stride_w);
    return QG_OK;
}

static int64_t accumulate(const qg__code_conv *k, size_t n, size_t oy, size_t ox, size_t o,
                          int64_t w_zero)
{
    const qg__axes   x     = k->x_axes;
    const qg__axes   w     = k->w_axes;
    const size_t first = o / (w.n / k->groups) * w.c;      /* input channel of the group */
    int64_t      sum   = 0;
    for (size_t ky = 0; ky < w.h; ky++) {
        const size_t iy = oy * k->stride_h + ky - k->top;  /* wraps to beyond x.h above the image */
        if (iy >= x.h) continue;
        for (size_t kx = 0; kx < w.w; kx++) {
            const size_t ix = ox * k->stride_w + kx - k->left;
            if (ix >= x.w) continue;
            const size_t at_x = n * x.step_n + iy * x.step_h + ix * x.step_w + first * x.step_c;
            const size_t at_w = o * w.step_n + ky * w.step_h + kx * w.step_w;
            for (size_t c = 0; c < w.c; c++)
                sum += (qg__code(k->x, at_x + c * x.step_c) - k->x_zero) *
                       (qg__code(k->w, at_w + c * w.step_c) - w_zero);
        }
    }
    return sum;
}

qg_status qg__code_conv_check_zero(const char *op, const qg__code_conv *k, int64_t w_zero)
{
    enum { CODE = 256 };
    const qg__axes w      = k->w_axes;
    const double   x_far  = fabs((double)k->x_zero) + CODE;
    const double   w_far  = fabs((double)w_zero) + CODE;
    const double   window = (double)w.h * (double)w.w * (double)w.c;
    if (x_far * w_far * window < 0x1p62) return QG_OK;
    return qg_fail(QG_EARG,
                   "%s: zero points of %.0f and %.0f are too far for sums of %.0f products", op,
                   (double)k->x_zero, (double)w_zero, window);
}

void qg__code_conv_run(const qg__code_conv *k, size_t o, const qg__code_conv_channel *ch, qg_array *y)
{
    const qg__axes a = k->y_axes;
    for (size_t n = 0; n < a.n; n++)
        for (size_t oy = 0; oy < a.h; oy++)
            for (size_t ox = 0; ox < a.w; ox++) {
                const int32_t acc =
                    qg_saturate_i32(accumulate(k, n, oy, ox, o, ch->w_zero) + ch->bias);
                const int64_t q =
                    qg_multiply_by_quantized_multiplier(acc, ch->m, ch->rounding) + ch->zero;
                qg__set_code(y, n * a.step_n + oy * a.step_h + ox * a.step_w + o * a.step_c,
                             qg_clamp_int(q, ch->lo, ch->hi));
            }
}
