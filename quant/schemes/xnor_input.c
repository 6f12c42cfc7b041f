/* XNOR-Net's binary inputs, and the map K that scales their product; formulas in quant/reference/binary.h. */
#include <string.h>

#include "quant/reduce.h"
#include "quant/schemes/formulas.h"

/* --- the map K -------------------------------------------------------------------------------- */

struct map {
    qg__xnor_windows         g;
    const qg_reduce_kernels *kernels;
    const float             *x;
    float                   *K;
};

/* The part of window o that lies in the image: [*from, *to) of `extent`. */
static void window_at(size_t o, size_t stride, size_t pad, size_t kernel, size_t extent,
                      size_t *from, size_t *to)
{
    const size_t begin = o * stride; /* in the padded image */
    *from = begin > pad ? qg__smaller(begin - pad, extent) : 0;
    *to = begin + kernel > pad ? qg__smaller(begin + kernel - pad, extent) : 0;
}

/* Sums of |x| over the channels and the rows of a band of windows, for each of the columns [from, to).
 * Windows that overlap share them. */
struct columns {
    size_t from, to;
    double sum[QG_CHUNK];
};

static void fill_columns(const struct map *k, const float *band, size_t rows, size_t from, struct columns *s)
{
    s->from = from;
    s->to = from + qg__smaller(k->g.w - from, QG_CHUNK);
    memset(s->sum, 0, sizeof s->sum);
    for (size_t r = 0; r < rows; r++)
        k->kernels->add_abs_rows(s->to - from, k->g.c, band + (r * k->g.w + from) * k->g.c, s->sum);
}

static double window_sum(const struct map *k, const float *band, size_t rows, size_t left, size_t right,
                         struct columns *s)
{
    double sum = 0.0;
    if (left < s->from || right > s->to) s->to = 0;
    for (size_t at = left; at < right; at++) {
        if (at >= s->to) fill_columns(k, band, rows, at, s);
        sum += s->sum[at - s->from];
    }
    return sum;
}

/* Rows [first, first + n) of all N * OH rows of K.  A window is summed column by column. */
static void map_rows(void *context, size_t first, size_t n)
{
    const struct map      *k = context;
    const qg__xnor_windows g = k->g;
    const double           count = (double)g.c * (double)g.kernel_h * (double)g.kernel_w;
    for (size_t row = first; row < first + n; row++) {
        const float   *image = k->x + row / g.oh * g.h * g.w * g.c;
        struct columns sums = { 0 };
        size_t         top, bottom, left, right;
        window_at(row % g.oh, g.stride, g.pad_top, g.kernel_h, g.h, &top, &bottom);
        for (size_t o = 0; o < g.ow; o++) {
            window_at(o, g.stride, g.pad_left, g.kernel_w, g.w, &left, &right);
            const double sum = window_sum(k, image + top * g.w * g.c, bottom - top, left, right, &sums);
            k->K[row * g.ow + o] = g.c ? (float)(sum / count) : 0.0f;
        }
    }
}

void qg__xnor_map(qg__xnor_windows g, const float *x, float *K)
{
    struct map k = { g, QG_KERNELS(qg__reduce), x, K };
    qg__in_blocks(g.n * g.oh, 1, map_rows, &k);
}

/* --- on the tape ------------------------------------------------------------------------------- */

/* z = y K, K [pixels], y and z [pixels][c]. */
struct scaling {
    const float *y, *K;
    size_t       c;
    float       *z;
    bool         adds;
};

static void scale_pixels(void *context, size_t first, size_t n)
{
    const struct scaling k = *(const struct scaling *)context;
    for (size_t p = first; p < first + n; p++) {
        const float *y = k.y + p * k.c;
        float       *z = k.z + p * k.c;
        for (size_t i = 0; i < k.c; i++) z[i] = k.adds ? z[i] + y[i] * k.K[p] : y[i] * k.K[p];
    }
}

static void scale(const qg_var *y, const float *K, const float *from, bool adds, float *to)
{
    const qg_shape s = y->shape;
    struct scaling k = { from, K, (size_t)s.c, to, adds };
    qg__in_blocks((size_t)s.n * (size_t)s.h * (size_t)s.w, QG_BLOCK / (size_t)s.c + 1, scale_pixels, &k);
}

static void scale_backward(qg_tape *t, qg_var *z)
{
    qg_var *y = z->in[0];
    if (y->grad) scale(y, z->saved, z->grad, !y->fresh, y->grad);
}

static const qg_op scale_op = { .name = "xnor_scale", .backward = scale_backward, .assigns = true };

static qg_var *scale_output(qg_tape *t, qg_quant q, qg_var *x, qg_windows windows, qg_var *y)
{
    const qg_shape         s = x->shape, o = y->shape;
    const qg__xnor_windows g = { .n        = (size_t)s.n,
                                 .h        = (size_t)s.h,
                                 .w        = (size_t)s.w,
                                 .c        = (size_t)s.c,
                                 .oh       = (size_t)o.h,
                                 .ow       = (size_t)o.w,
                                 .kernel_h = (size_t)windows.kernel_h,
                                 .kernel_w = (size_t)windows.kernel_w,
                                 .stride   = (size_t)windows.stride,
                                 .pad_top  = (size_t)windows.pad_h,
                                 .pad_left = (size_t)windows.pad_w };
    qg_var *z = qg_record(t, &scale_op, o, y, NULL, NULL);
    float  *K = z ? qg_save(t, z, g.n * g.oh * g.ow * sizeof *K) : NULL;
    if (!K) return NULL;
    qg__xnor_map(g, x->data, K);
    scale(y, K, y->data, false, z->data);
    return z;
}

enum { NO_SCALE };      /* in arg */

static const qg_key keys[] = {
    QG_AS_KEY,
    { .name = "scale", .words = "on|off", .about = "on: multiply the product by K" },
    QG_SURROGATE_KEYS(QG_SURROGATE_CLIP),
    { .name = NULL }
};

static qg_quant complete(qg_quant q);

/* The members that both have. */
#define SCHEME                                                                                                    \
    .name = "xnor", .about = "{-1, +1}; with scale=on the product is multiplied by the mean |x| of its window",   \
    .keys = keys, .bits = 1, .complete = complete, .roles = QG_INPUT, .float_ends = true, .rectifies = true,      \
    .form = &qg_sign_form, .own = qg__clip_at_1, .constants = qg__unit_signs, .explain = qg__xnor_explain

const qg_scheme qg__xnor_activation_scheme = { SCHEME, .ops = QG_FORM_OPS("sign"), .scale_output = scale_output };

/* The sign alone, which needs no product. */
static const qg_scheme unscaled_input = {
    SCHEME,
    .variant    = "scale=off",
    .ops        = QG_ACTIVATION_OP("sign"),
    .activation = qg_form_activation,
};

static qg_quant complete(qg_quant q)
{
    q.scheme = q.arg[NO_SCALE] != 0 ? &unscaled_input : &qg__xnor_activation_scheme;
    return q;
}

qg_quant qg_xnor_activation(qg_xnor_activation_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme    = &qg__xnor_activation_scheme,
                                         .surrogate = spec.surrogate,
                                         .arg       = { [NO_SCALE] = spec.no_scale } });
}
