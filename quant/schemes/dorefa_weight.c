/* DoReFa's weights; formulas in quant/reference/dorefa.h. */
#include <math.h>
#include <string.h>

#include "core/kernels/functions.h"
#include "quant/kernels.h"
#include "quant/reduce.h"
#include "quant/schemes/formulas.h"
#include "quant/smooth.h"

enum { THROUGH_MAX, TIMES_MAX };       /* in arg */

static const qg_key keys[] = {
    QG_AS_KEY,
    { QG_BITS_KEY(2, 1, 16), .also = QG_FLOAT_BITS, .about = "bits per code; 32: float" },
    { .name = "max", .words = "constant|through", .when = "bits=2..16", .about = "through: differentiate max|tanh w|" },
    { .name = "scale", .words = "one|max", .when = "bits=2..16", .about = "max: times max|tanh w|, a constant" },
    QG_PER_CHANNEL_KEY("one max|tanh w| (with 1 bit, mean|w|) per output channel"),
    QG_OWN_SURROGATE_KEYS,
    { .name = NULL }
};

const char qg__dorefa_explain[] =
    "k-bit weights, activations and gradients.               Zhou et al. 2016, arXiv:1606.06160\n"
    "\n"
    "    quantize_k(r) = round((2^k - 1) r) / (2^k - 1)      ties to even, slope 1\n"
    "\n"
    "weights, 1 to 16 bits; one m or mean per tensor, or with per-channel=yes (per_channel) per output channel\n"
    "    k = 1    q(w) = sign(w) mean|w|                     sign(0) = +1\n"
    "             s(w) = w                                   the mean is a constant\n"
    "    k > 1    q(w) = 2 quantize_k(tanh(w) / (2 m) + 1/2) - 1,   m = max|tanh w|\n"
    "             s(w) = tanh(w) / m                         m is a constant unless max=through (through_max)\n"
    "             scale=max (times_max): q and s times m, which is a constant\n"
    "activations\n"
    "    q(x) = quantize_k(clip(x, 0, 1))                    ties=up (ties_up): ties upwards\n"
    "    s(x) = clip(x, 0, 1)                                dx = dy where 0 <= x <= 1, else 0\n"
    "gradients: dy of a product, with m = max|dy| of each sample\n"
    "    forward   y\n"
    "    backward  2 m (quantize_k(clip(dy / (2 m) + 1/2 + noise, 0, 1)) - 1/2)\n"
    "              noise uniform in +-1/2 / (2^k - 1), one draw per element, from key and step;\n"
    "              noise=off (no_noise) omits it, for experiments\n"
    "\n"
    "Learns nothing.  With more than 1 bit a weight of 0 becomes 1 / (2^k - 1).  Weights that are all\n"
    "zero receive no gradient.  A zero gradient stays zero.\n"
    "Models keep first and last layers in float unless --first-last quantized.\n"
    "The authors' tensorpack differentiates m, as max=through does; Larq and most ports do not.\n"
    "zzzxxxttt/pytorch_DoReFaNet has scale=max.  The clip after the noise is in the authors' code, not\n"
    "in the equation.\n";

/* --- the derivative of the maximum -------------------------------------------------------------- */

struct backward {
    const float *x, *dy;
    float        m, share;
    float       *dx;
    qg_isa       isa;
};

static void product_terms(const void *context, size_t first, size_t n, float *term)
{
    const struct backward *b = context;
    QG_KERNELS_OF(b->isa, qg__form)->tanh_of(n, b->x + first, term);
    for (size_t i = 0; i < n; i++) term[i] *= b->dy[first + i];
}

/* Whether any |tanh x| reaches m.  Few runs have one, and the others need no tanh. */
static bool reaches(const struct backward *b, size_t n, const float *x)
{
    return qg__tanhf(QG_KERNELS_OF(b->isa, qg__reduce)->max_abs(n, x)) >= b->m;
}

static void largest_terms(const void *context, size_t first, size_t n, float *term)
{
    const struct backward *b = context;
    if (!reaches(b, n, b->x + first)) {
        memset(term, 0, n * sizeof *term);
        return;
    }
    QG_KERNELS_OF(b->isa, qg__form)->tanh_of(n, b->x + first, term);
    for (size_t i = 0; i < n; i++) term[i] = fabsf(term[i]) >= b->m ? 1.0f : 0.0f;
}

static void max_slope_block(void *context, size_t at, size_t n)
{
    const struct backward *b = context;
    float                  t[QG_CHUNK];
    for (size_t i = at; i < at + n; i += QG_CHUNK) {
        const size_t m = qg__smaller(at + n - i, QG_CHUNK);
        if (!reaches(b, m, b->x + i)) continue;
        QG_KERNELS_OF(b->isa, qg__form)->tanh_of(m, b->x + i, t);
        for (size_t j = 0; j < m; j++) {
            const float s = (1.0f - t[j] * t[j]) * (t[j] < 0.0f ? -b->share : b->share);
            b->dx[i + j] -= fabsf(t[j]) >= b->m ? s : 0.0f;
        }
    }
}

static void max_slope(size_t n, const float *x, const float *dy, float m, float *dx)
{
    if (m == 0.0f || n == 0) return;
    struct backward b = { .x = x, .dy = dy, .m = m, .dx = dx, .isa = qg__isa() };
    const double    sum = qg__sum_terms(n, product_terms, &b);
    b.share = (float)(sum / ((double)m * (double)m) / qg__sum_terms(n, largest_terms, &b));
    qg__in_blocks(n, QG_BLOCK, max_slope_block, &b);
}

/* --- the schemes ------------------------------------------------------------------------------- */

/* tanh is monotone, so its largest value is that of the largest weight. */
static qg_constants constants(qg_quant q, qg_span w, const float *learned)
{
    const float steps = qg__steps(q.bits), m = qg__tanhf(qg_span_max_abs(w)), scale = q.arg[TIMES_MAX] != 0 ? m : 1.0f;
    return (qg_constants){ .uniform = { .hi = m, .steps = steps, .step = scale / steps, .variant = (float)q.arg[TIMES_MAX] } };
}

static void adds(qg_quant q, qg_span w, const qg_constants *k, const float *dy, float *dx)
{
    if (q.arg[THROUGH_MAX] != 0) max_slope(w.n, w.x + w.channel * w.n, dy, k->uniform.hi, dx);
}

static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    if (q.arg[TIMES_MAX] != 0) return qg__tanh(to->x[i]);
    return qg__tanh(to->x[i]) / qg__tanh(qg__point_max_abs(q, i, q.arg[THROUGH_MAX] != 0 ? to : at));
}

static qg_status check(qg_quant q)
{
    if (q.arg[THROUGH_MAX] == 0) return QG_OK;
    if (q.arg[TIMES_MAX] != 0)
        return qg_fail(QG_EARG, "dorefa: max=through is not possible with scale=max, whose maximum is a constant");
    if (!q.surrogate.slope) return QG_OK;
    return qg_fail(QG_EARG, "dorefa: max=through has no effect with a surrogate, which replaces the slope");
}

static qg_quant complete(qg_quant q);

/* The members that both have. */
#define SCHEME                                                                                                \
    .name = "dorefa", .about = "odd multiples of 1 / (2^bits - 1); 1 bit: {-a, +a}", .keys = keys,            \
    .complete = complete, .roles = QG_WEIGHT, .float_ends = true, .granularity = QG_EITHER_SCALE,             \
    .ops = QG_FORM_OPS("dorefa_weight"), .explain = qg__dorefa_explain

const qg_scheme qg__dorefa_weight_scheme = {
    SCHEME,
    .form      = &qg_tanh_form,
    .own_slope = true,
    .constants = constants,
    .adds      = adds,
    .check     = check,
    .surrogate = surrogate,
};

static const qg_scheme binary = { SCHEME, .form = &qg_sign_form, .constants = qg__mean_signs };

static qg_quant complete(qg_quant q)
{
    if (q.bits == QG_FLOAT_BITS) return (qg_quant){ 0 };
    q.scheme = q.bits == 1 ? &binary : &qg__dorefa_weight_scheme;
    return q;
}

qg_quant qg_dorefa_weight(qg_dorefa_weight_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme      = &qg__dorefa_weight_scheme,
                                         .bits        = spec.bits,
                                         .per_channel = spec.per_channel,
                                         .surrogate   = spec.surrogate,
                                         .arg         = { [THROUGH_MAX] = spec.through_max, [TIMES_MAX] = spec.times_max } });
}
