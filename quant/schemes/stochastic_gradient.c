/* Gradients on codes of at most 8 bits with one step for the batch, rounded at random. */
#include <math.h>
#include <string.h>

#include "core/slices.h"
#include "core/walk.h"
#include "quant/channel.h"
#include "quant/engine.h"
#include "quant/kernels.h"
#include "quant/reduce.h"
#include "quant/schemes/formulas.h"

enum { NO_NOISE, PERCENTILE };      /* in arg */

static const qg_key keys[] = {
    QG_AS_KEY,
    { QG_BITS_KEY(8, 2, 8), .about = "bits per code" },
    { .name = "noise", .words = "on|off",
      .about = "on: round at random, which makes the mean of the result exact" },
    { .name = "percentile", .fallback = 100, .min = 50.01, .max = 100,
      .about = "of |dy|, which becomes the largest code; larger values are clipped.  100: the largest" },
    { .name = NULL }
};

/* The largest code. */
static int most_of(qg_quant q) { return (1 << (q.bits - 1)) - 1; }

/* The percentile is 0 where most numbers are 0.  Then, or if one is not finite, the largest takes its place. */
static float range_of(qg_quant q, size_t n, const float *g)
{
    const float largest = qg__max_abs(n, g);
    if (q.arg[PERCENTILE] >= 100 || !isfinite(largest)) return largest;
    const float range = qg__percentile_abs(n, g, q.arg[PERCENTILE]);
    return range > 0.0f ? range : largest;
}

static qg__gradient_rounding rounding_of(qg_quant q, float range, uint64_t key)
{
    const float most = (float)most_of(q);
    return (qg__gradient_rounding){ .range = range,
                                    .most  = most,
                                    .step  = range / most,
                                    .draws = q.arg[NO_NOISE] == 0,
                                    .key   = key };
}

/* --- on the tape ---------------------------------------------------------------------------- */

typedef struct numbers {
    qg__gradient_rounding    f;
    const float             *x;
    float                   *y;
    size_t                   drawn;     /* numbers of the batch before x */
    const qg__noise_kernels *kernels;
} numbers;

static void round_block(void *context, size_t at, size_t n)
{
    const numbers *k = context;
    k->kernels->stochastic(&k->f, n, k->x + at, k->drawn + at, k->y + at);
}

static bool measure_gradient(qg_tape *t, qg_gradient_coder *g)
{
    const qg_var *y = g->y;
    if (g->q.arg[PERCENTILE] < 100) {
        qg_var dy = *y;
        dy.data   = y->grad;
        const qg_tensor all = qg__whole_batch(t, &dy);
        if (all.data) g->range = range_of(g->q, qg_count(all.shape), all.data);
        return all.data != NULL;
    }
    const float here = range_of(g->q, qg_count(y->shape), y->grad);
    float       slice[QG_SLICES];
    for (int s = 0; s < QG_SLICES; s++) slice[s] = here;       /* those of other processes arrive */
    if (!qg__slices_gather(t, qg__slices_of(y), slice, sizeof *slice)) return false;
    g->range = qg__max_abs(QG_SLICES, slice);
    return true;
}

static void gradient_backward(qg_tape *t, qg_var *y)
{
    qg_gradient_coder *g = y->saved;
    qg_var            *x = y->in[0];
    const size_t       n = qg_count(y->shape);
    if (!x->grad || !measure_gradient(t, g)) return;
    if (g->range == 0.0f) {
        if (x->fresh) memset(x->grad, 0, n * sizeof *x->grad);
        return;
    }
    numbers k = { .f       = rounding_of(g->q, g->range, g->key),
                  .x       = y->grad,
                  .y       = x->grad,
                  .drawn   = qg__gradient_draw(g, 0),
                  .kernels = QG_KERNELS(qg__noise) };
    k.f.adds = !x->fresh;
    qg__in_blocks(n, QG_BLOCK, round_block, &k);
}

/* --- as codes --------------------------------------------------------------------------------- */

static qg_code_set codes(qg_quant q)
{
    return (qg_code_set){ .lowest = -most_of(q), .step = 1, .count = 2 * most_of(q) + 1 };
}

static float code_gradient(const qg_gradient_coder *g, int image, uint8_t *codes)
{
    const size_t row = qg_row(g->y->shape), first = (size_t)image * row;
    const qg__gradient_rounding r = rounding_of(g->q, g->range, g->key);
    if (g->range == 0.0f || !isfinite(g->range)) memset(codes, 0, row);
    else QG_KERNELS(qg__noise)->stochastic_bytes(&r, row, g->y->grad + first, qg__gradient_draw(g, image), codes);
    return r.step;
}

const qg_scheme qg__stochastic_gradient_scheme = {
    .name      = "stochastic",
    .about     = "2^bits - 1 multiples of one step per batch, rounded at random",
    .keys      = keys,
    .roles     = QG_GRADIENT,
    .ops       = { { .name = "stochastic_gradient", .backward = gradient_backward, .assigns = true } },
    .surrogate = qg__gradient_surrogate,
    .apply     = qg__gradient_apply,
    .codes     = codes,
    .measure_gradient = measure_gradient,
    .code_gradient    = code_gradient,
    .explain =
        "Gradients as codes of at most 8 bits and one scale, with stochastic rounding.\n"
        "                                               Gupta et al. 2015, arXiv:1502.02551, sec. 3\n"
        "\n"
        "gradients: dy of a product, with r = max|dy| of the batch and n = 2^(bits-1) - 1\n"
        "    forward   y\n"
        "    backward  q(dy) = s code,   s = r / n,   v = clip(dy / s, -n, n)\n"
        "              code = floor(v), plus 1 with probability v - floor(v): one draw per element, from\n"
        "              key and step\n"
        "              noise=off (no_noise): round(v), ties to even, for experiments\n"
        "\n"
        "Learns nothing.  The mean of the result is dy, except beyond r.  A zero gradient stays zero.  A\n"
        "gradient that is not finite leaves no result finite.\n"
        "percentile=99.99 takes that percentile of |dy| for r, which costs three more passes over dy; if\n"
        "it is 0, r is the largest.\n"
        "dorefa has a scale per image, so images with small gradients keep their bits, and no level at 0.\n"
        "With one scale, the sum of activation codes times gradient codes over a batch is an integer.\n"
        "Other papers: NITI (arXiv:2009.13108) also rounds to 8 bits at random; its s is a power of two.\n"
        "Banner et al. (arXiv:1805.11046) compute weight gradients from a copy of dy with more bits.\n",
};

qg_quant qg_stochastic_gradient(qg_stochastic_gradient_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme = &qg__stochastic_gradient_scheme,
                                         .bits   = spec.bits,
                                         .arg    = { [NO_NOISE]   = spec.no_noise,
                                                     [PERCENTILE] = (double)spec.percentile } });
}
