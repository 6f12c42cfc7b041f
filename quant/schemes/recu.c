/* Signs of standardised weights that are clipped at a quantile: ReCU.  The clip changes no sign, only the gradient. */
#include <math.h>

#include "core/kernels/functions.h"
#include "quant/schemes/formulas.h"

enum { TAU, FINAL_TAU, RELATIVE };  /* in arg */

#define E   2.718281828459045
#define B   2.8284271247461903              /* the deviation of standardised weights in the source */
#define EPS 1e-5                            /* added to the variance */

/* tau grows as e^progress does.  The surrogate is the identity, and its argument, 1 to e, is the clock. */
static qg_quant complete(qg_quant q)
{
    if (q.surrogate.slope) return q;
    q.surrogate     = qg_surrogate_identity();
    q.surrogate.arg = 1.0f;
    q.surrogate.to  = (float)E;
    return q;
}

/* Q / mean|z| at the step of q.surrogate. */
static double quantile(qg_quant q)
{
    const double grown = fmin(fmax(((double)q.surrogate.arg - 1) / (E - 1), 0), 1);
    return -qg__log(2 - 2 * (q.arg[TAU] + (q.arg[FINAL_TAU] - q.arg[TAU]) * grown));
}

static double deviation(double squares, double n) { return sqrt((n > 1 ? squares / (n - 1) : 0) + EPS); }

/* a / r.  Before a batch norm the gradient of a is nearly 0, but Adam's steps do not depend on its size.  They are
 * small compared with r, which is near 1, and large compared with a. */
static double unit(qg_quant q, double n) { return q.arg[RELATIVE] != 0 && n > 0 ? 1 / sqrt(n) : 1; }

static qg_constants constants(qg_quant q, qg_span w, const float *learned)
{
    double       distance, squares;
    const double mean = qg_span_mean(w, &distance, &squares);
    const float  gain = (float)unit(q, (double)w.n);
    return (qg_constants){ .sign = { .scale     = gain * learned[0],
                                     .threshold = (float)mean,
                                     .inverse   = (float)(1 / deviation(squares, (double)w.n)) },
                           .gain = { gain } };
}

static qg_mix mix(qg_quant q, qg_span w, const qg_constants *k, const double *sum)
{
    double distance, squares;
    (void)qg_span_mean(w, &distance, &squares), (void)sum;
    const double mean = distance / (double)w.n * (double)k->sign.inverse;
    return (qg_mix){ .standardised = true,
                     .through      = k->sign.scale * (float)B,
                     .mean         = k->sign.threshold,
                     .inverse      = k->sign.inverse,
                     .freedom      = (double)w.n - 1,
                     .within       = (float)(mean * quantile(q)) };
}

/* The least-squares fit of signs to weights with mean 0. */
static void start(qg_quant q, qg_tensor x, float *const *learned)
{
    const qg_split spans = qg__spans(q, x.shape);
    const float    gain  = (float)unit(q, (double)spans.inner);
    for (size_t s = 0; s < spans.depth; s++)
        learned[0][s] = qg_span_mean_abs(qg__span_at(qg__isa(), spans, s, x.data)) / gain;
}

/* Of r, the sign; of w, the clipped z. */
static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    double was[QG__MOMENTS], is[QG__MOMENTS];
    qg__point_moments(i, at, was);
    qg__point_moments(i, to, is);
    const double n = (double)qg_row(at->shape), z = (to->x[i] - is[QG__MEAN]) / deviation(is[QG__SQUARES], n);
    const double most = was[QG__DISTANCE] / n / deviation(was[QG__SQUARES], n) * quantile(q);
    if (!q.surrogate.value) return (double)NAN;
    const double sign = copysign(1, at->x[i] - was[QG__MEAN]);
    return unit(q, n) * (to->learned[0] * sign + at->learned[0] * B * fmin(fmax(z, -most), most));
}

static const qg_key keys[] = {
    QG_AS_KEY,
    { .name = "tau", .fallback = (double)0.85f, .min = 0.51, .max = 0.9999,
      .about = "fraction of weights below Q at the start of the training" },
    { .name = "final-tau", .fallback = (double)0.99f, .min = 0.51, .max = 0.9999, .about = "the same at its end" },
    { .name = "scale", .fallback = 1, .words = "plain|relative",
      .about = "what is learned: a, or r = a sqrt(number of weights of the channel)" },
    { .name = NULL }
};

static const qg_learned learned_scale[] = { { .name = "r", .per_channel = true, .least = 0x1p-30f },
                                            { .name = NULL } };

const qg_scheme qg__recu_scheme = {
    .name        = "recu",
    .about       = "{-a, +a}, the signs of standardised weights, a learned per output channel",
    .keys        = keys,
    .paper       = "scale=plain",
    .bits        = 1,
    .complete    = complete,
    .roles       = QG_WEIGHT,
    .float_ends  = true,
    .granularity = QG_CHANNEL_SCALE,
    .learned     = learned_scale,
    .form        = &qg_sign_form,
    .ops         = QG_FORM_OPS("recu"),
    .start       = start,
    .constants   = constants,
    .mix         = mix,
    .surrogate   = surrogate,
    .explain =
        "Signs of standardised weights, of which large ones receive no gradient.\n"
        "                                              Xu et al. 2021, arXiv:2103.12369: ReCU\n"
        "\n"
        "    m, d = mean and deviation of the weights of one output channel, d^2 = variance (n - 1) + 1e-5\n"
        "    z    = (w - m) / d\n"
        "    Q    = -mean|z| ln(2 - 2 tau)           the quantile tau of a Laplace distribution\n"
        "    q(w) = +a if w >= m, else -a\n"
        "    s(w) = a sqrt(8) clip(z, -Q, Q)         the gradient passes through m and d, not through Q\n"
        "    a    = r / sqrt(n),   dr = sum of dq sign(w - m) / sqrt(n)\n"
        "\n"
        "Learns r, so that a starts at mean|w|; below 2^-30 r is set to 2^-30.  The paper learns a, as\n"
        "scale=plain (plain_scale) and as=paper (as_paper) do, but a is small, and Adam's steps carry it\n"
        "to 0.  tau grows over the training, as e^progress does, from tau to final-tau (final_tau).\n"
        "Models keep first and last layers in float unless --first-last quantized.\n"
        "Other implementations: the authors' code takes mean|z| over all filters of a layer, draws the\n"
        "initial a from [0, 1), lets it become negative, and moves tau once per epoch; its sign of 0 is 0.\n"
        "In training only, it divides each input of a layer by the standard deviation of the image, which\n"
        "changes the gradient of its approx-sign but no sign.  That is not reproduced here.\n",
};

qg_quant qg_recu(qg_recu_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme = &qg__recu_scheme,
                                         .as_paper = spec.as_paper,
                                         .arg    = { [TAU]       = (double)spec.tau,
                                                     [FINAL_TAU] = (double)spec.final_tau,
                                                     [RELATIVE]  = !spec.plain_scale } });
}
