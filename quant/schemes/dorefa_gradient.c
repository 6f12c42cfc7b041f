/* DoReFa's gradients; formulas in quant/reference/dorefa.h. */
#include <math.h>
#include <string.h>

#include "core/walk.h"
#include "quant/engine.h"
#include "quant/kernels.h"
#include "quant/reduce.h"
#include "quant/round.h"
#include "quant/schemes/formulas.h"

/* --- arrays --------------------------------------------------------------------------------- */

/* With noise from an array, as the kernel computes it with its own (quant/kernels.h). */
static void noisy_row(const qg__dorefa_rows *f, float m, const float *noise, size_t at)
{
    const float steps = qg__steps(f->k);
    for (size_t i = at; i < at + f->row; i++) {
        const float r = qg_clamp(f->x[i] / m * 0.5f + 0.5f + noise[i], 0.0f, 1.0f);
        f->y[i] = m * (2.0f * (qg_round_even(r * steps) / steps - 0.5f));
    }
}

static void gradient_row(const qg__dorefa_rows *f, size_t at)
{
    const float m = QG_KERNELS_OF(f->isa, qg__reduce)->max_abs(f->row, f->x + at);
    if (m == 0.0f) {
        if (!f->adds) memset(f->y + at, 0, f->row * sizeof *f->y);
        return;
    }
    if (f->noise) {
        noisy_row(f, m, f->noise, at);
        return;
    }
    const qg__gradient_rounding r = { .range = m, .most = qg__steps(f->k), .draws = f->key, .adds = f->adds,
                                      .key = f->key ? *f->key : 0 };
    QG_KERNELS_OF(f->isa, qg__noise)->dorefa(&r, f->row, f->x + at, f->drawn + at, f->y + at);
}

static void gradient_rows(void *context, size_t first, size_t n)
{
    const qg__dorefa_rows *f = context;
    for (size_t r = first; r < first + n; r++) gradient_row(f, r * f->row);
}

void qg__dorefa_gradient(qg__dorefa_rows f, size_t rows)
{
    f.isa = qg__isa();
    qg__in_blocks(rows, 1, gradient_rows, &f);
}

/* --- on the tape ---------------------------------------------------------------------------- */

enum { NO_NOISE };      /* in arg */

static const qg_key keys[] = {
    QG_AS_KEY,
    { QG_BITS_KEY(6, 1, 16), .also = QG_FLOAT_BITS, .about = "bits per code; 32: float" },
    { .name  = "noise", .words = "on|off", .when = "bits=1..16",
      .about = "on: add noise, which makes the mean of the result exact" },
    { .name = NULL }
};

static bool draws(qg_quant q) { return q.arg[NO_NOISE] == 0; }

static void gradient_backward(qg_tape *t, qg_var *y)
{
    const qg_gradient_coder *g = y->saved;
    qg_var                  *x = y->in[0];
    if (!x->grad) return;
    qg__dorefa_gradient((qg__dorefa_rows){ .x = y->grad, .y = x->grad, .row = qg_row(x->shape), .k = g->q.bits,
                                           .adds  = !x->fresh,
                                           .key   = draws(g->q) ? &g->key : NULL,
                                           .drawn = qg__gradient_draw(g, 0) }, (size_t)x->shape.n);
}

/* --- as codes --------------------------------------------------------------------------------- */

enum { MOST_BITS = 7 };     /* odd integers within -127 .. 127 */

static qg_code_set codes(qg_quant q)
{
    const int most = (1 << q.bits) - 1;
    return q.bits > MOST_BITS ? (qg_code_set){ 0 } : (qg_code_set){ .lowest = -most, .step = 2, .count = most + 1 };
}

/* The code c stands for m / n (2 c - n), n = 2^k - 1. */
static float code_gradient(const qg_gradient_coder *g, int image, uint8_t *codes)
{
    const size_t row = qg_row(g->y->shape), first = (size_t)image * row;
    const float  n = qg__steps(g->q.bits), m = QG_KERNELS(qg__reduce)->max_abs(row, g->y->grad + first);
    const qg__gradient_rounding r = { .range = m, .most = n, .draws = draws(g->q), .key = g->key };
    if (m == 0.0f || !isfinite(m)) memset(codes, 0, row);
    else QG_KERNELS(qg__noise)->dorefa_bytes(&r, row, g->y->grad + first, qg__gradient_draw(g, image), codes);
    return m / n;
}

static qg_quant complete(qg_quant q) { return q.bits == QG_FLOAT_BITS ? (qg_quant){ 0 } : q; }

const qg_scheme qg__dorefa_gradient_scheme = {
    .name      = "dorefa",
    .about     = "2^bits levels up to the largest gradient of each image, with noise",
    .keys      = keys,
    .complete  = complete,
    .roles     = QG_GRADIENT,
    .float_ends = true,
    .ops       = { { .name = "dorefa_gradient", .backward = gradient_backward, .assigns = true } },
    .surrogate = qg__gradient_surrogate,
    .apply     = qg__gradient_apply,
    .codes     = codes,
    .code_gradient = code_gradient,
    .explain   = qg__dorefa_explain,
};

qg_quant qg_dorefa_gradient(qg_dorefa_gradient_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme = &qg__dorefa_gradient_scheme,
                                         .bits   = spec.bits,
                                         .arg    = { [NO_NOISE] = spec.no_noise } });
}
