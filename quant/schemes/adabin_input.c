/* AdaBin's inputs: two learned levels. */
#include <math.h>
#include <string.h>

#include "quant/reduce.h"
#include "quant/schemes/formulas.h"

enum { A, B };              /* in learned, and in qg_activation.k */

static const qg_learned levels[] = { { .name = "a", .least = 0x1p-30f }, { .name = "b" }, { .name = NULL } };

static float legal(float a) { return a < levels[A].least ? levels[A].least : a; }

static void forward(const qg_activation *f, size_t n, const float *x, float *y)
{
    const float a = f->k[A], b = f->k[B], high = b + a, low = b - a;
    for (size_t i = 0; i < n; i++) y[i] = x[i] >= b ? high : low;
}

/* dx = dy S'(u),   da = sum of dy sign(u) - u dx,   db = sum of dy - dx */
static void backward(const qg_activation *f, size_t n, const float *x, const float *dy, float *dx, double *dk)
{
    for (size_t at = 0; at < n; at += QG_CHUNK) {
        const size_t m = qg__smaller(n - at, QG_CHUNK);
        float        u[QG_CHUNK], passed[QG_CHUNK] = { 0 };
        double       da[QG_CHUNK], db[QG_CHUNK];
        for (size_t i = 0; i < m; i++) u[i] = (x[at + i] - f->k[B]) / f->k[A];
        f->slope(f->arg, m, u, dy + at, passed);
        for (size_t i = 0; dk && i < m; i++) {
            const double g = (double)dy[at + i], p = (double)passed[i];
            da[i] = g * (double)qg_sign_of(u[i]) - (double)u[i] * p;
            db[i] = g - p;
        }
        for (size_t i = 0; dk && i < m; i++) dk[A] += da[i], dk[B] += db[i];
        memcpy(dx + at, passed, m * sizeof *dx);
    }
}

static qg_activation activation(const qg_tape *t, const qg_binding *b, qg_var *const *learned)
{
    const qg_surrogate s = qg__surrogate_or(qg_surrogate_now(t, b->q), qg_surrogate_approx_sign());
    const float        a = legal(learned[A]->data[0]);
    qg__clamp_learned(learned[A], 0, a);
    return (qg_activation){ .forward   = forward,
                            .backward  = backward,
                            .k         = { a, learned[B]->data[0] },
                            .slope     = s.slope,
                            .arg       = s.arg,
                            .n_learned = 2,
                            .learned   = { learned[A], learned[B] } };
}

static qg_constants constants(qg_quant q, qg_span x, const float *learned)
{
    return (qg_constants){
        .sign = { .scale = legal(learned[A]), .threshold = learned[B], .offset = learned[B] }
    };
}

/* The sizes of the two levels differ, or will after the next step. */
static qg_status encode(qg_quant q, qg_tensor x, const float *const *learned, qg_codes *out)
{
    out->two_sided = true;
    return qg__form_encode(q, x, learned, out);
}

static void start(qg_quant q, qg_tensor x, float *const *learned)
{
    *learned[A] = 1;
    *learned[B] = 0;
}

static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    const qg_surrogate s    = qg__surrogate_or(q.surrogate, qg_surrogate_approx_sign());
    const double       sign = at->x[i] >= at->learned[B] ? 1 : -1;
    if (!s.value) return (double)NAN;
    return to->learned[A] * sign + to->learned[B] +
           at->learned[A] * s.value(s.arg, (to->x[i] - to->learned[B]) / to->learned[A]);
}

static const qg_key keys[] = { QG_AS_KEY, { .name = NULL } };

const qg_scheme qg__adabin_input_scheme = {
    .name       = "adabin",
    .about      = "{b - a, b + a}, both learned",
    .keys       = keys,
    .bits       = 1,
    .roles      = QG_INPUT,
    .rectifies  = true,
    .float_ends = true,
    .learned    = levels,
    .scales     = 2,
    .form       = &qg_sign_form,
    .constants  = constants,
    .encode     = encode,
    .ops        = QG_ACTIVATION_OP("adabin_input"),
    .start      = start,
    .activation = activation,
    .surrogate  = surrogate,
    .explain =
        "Two learned levels for the inputs of a layer.\n"
        "                                             Tu et al. 2022, arXiv:2208.08084: AdaBin\n"
        "\n"
        "    u    = (x - b) / a\n"
        "    q(x) = b + a if x >= b, else b - a\n"
        "    s(x) = b + a S(u)                       S is the approx-sign of Bi-Real Net\n"
        "    da   = sum of dy (sign(u) - u S'(u)),   db = sum of dy (1 - S'(u))\n"
        "\n"
        "Learns a and b, one of each per layer, which start at 1 and 0.  Below 2^-30 a is set to 2^-30.\n"
        "The levels are no multiples of one number, so products sum them as floats, also in exported nets.\n"
        "Models keep first and last layers in float unless --first-last quantized.\n"
        "Other implementations: the levels of the authors' code are a (b - 1) and a (b + 1).\n",
};

qg_quant qg_adabin_activation(void)
{
    return qg_quant_defaults((qg_quant){ .scheme = &qg__adabin_input_scheme });
}
