/* DoReFa's gradients; formulas in quant/reference/dorefa.h. */
#include <string.h>

#include "core/slices.h"
#include "core/walk.h"
#include "quant/kernels.h"
#include "quant/reduce.h"
#include "quant/round.h"
#include "quant/schemes/formulas.h"

/* n <= QG_CHUNK elements of a sample; noise NULL: none.  The factor 2 is not multiplied with m, because 2 m may be
 * infinite; it is exact in any place. */
static void gradient_chunk(size_t n, const float *dr, float m, int k, const float *noise, bool adds,
                           float *y)
{
    const float steps = qg__steps(k);
    float       r[QG_CHUNK];
    for (size_t i = 0; i < n; i++) r[i] = dr[i] / m * 0.5f + 0.5f;
    for (size_t i = 0; noise && i < n; i++) r[i] += noise[i];
    for (size_t i = 0; i < n; i++)
        r[i] = m * (2.0f * (qg_round_even(qg_clamp(r[i], 0.0f, 1.0f) * steps) / steps - 0.5f));
    for (size_t i = 0; adds && i < n; i++) r[i] += y[i];
    memcpy(y, r, n * sizeof *y);
}

/* The noise of elements first .. first + n - 1. */
static void draw_noise(const qg__dorefa_rows *f, size_t first, size_t n, float *noise)
{
    const float steps = qg__steps(f->k);
    QG_KERNELS_OF(f->isa, qg__noise)->uniform(n, *f->key, f->drawn + first, noise);
    for (size_t i = 0; i < n; i++) noise[i] = (noise[i] - 0.5f) / steps;
}

static void gradient_row(const qg__dorefa_rows *f, size_t at)
{
    const float m = QG_KERNELS_OF(f->isa, qg__reduce)->max_abs(f->row, f->x + at);
    float       drawn[QG_CHUNK];
    if (m == 0.0f) {
        if (!f->adds) memset(f->y + at, 0, f->row * sizeof *f->y);
        return;
    }
    for (size_t i = at; i < at + f->row; i += QG_CHUNK) {
        const size_t n = qg__smaller(at + f->row - i, QG_CHUNK);
        const float *noise = f->noise ? f->noise + i : NULL;
        if (f->key) {
            draw_noise(f, i, n, drawn);
            noise = drawn;
        }
        gradient_chunk(n, f->x + i, m, f->k, noise, f->adds, f->y + i);
    }
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

static void noise_block(void *context, size_t at, size_t n)
{
    const qg__dorefa_rows *f = context;
    draw_noise(f, at, n, f->y + at);
}

void qg__dorefa_noise(uint64_t key, int k, size_t n, float *noise)
{
    qg__dorefa_rows f = { .y = noise, .k = k, .key = &key, .isa = qg__isa() };
    qg__in_blocks(n, QG_BLOCK, noise_block, &f);
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

typedef struct gradient {
    int      k;
    bool     noisy;
    uint64_t key;
} gradient;

static void gradient_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    const gradient *g = y->saved;
    qg_var         *x = y->in[0];
    if (!x->grad) return;
    const size_t row = qg_row(x->shape);
    qg__dorefa_gradient((qg__dorefa_rows){ .x = y->grad, .y = x->grad, .row = row, .k = g->k, .adds = !x->fresh,
                                           .key   = g->noisy ? &g->key : NULL,
                                           .drawn = (size_t)qg__slices_of(x).first * row }, (size_t)x->shape.n);
}

static const qg_op gradient_op = { .name     = "dorefa_gradient",
                                   .backward = gradient_backward,
                                   .assigns  = true };

static qg_var *apply_gradient(qg_tape *t, const qg_binding *b, qg_var *x, qg_var *const *learned)
{
    (void)learned;
    if (!x->needs_grad) return x;
    qg_var   *y = qg__record_view(t, &gradient_op, x);
    gradient *g = y ? qg_save(t, y, sizeof *g) : NULL;
    if (!g) return NULL;
    *g = (gradient){ b->q.bits, b->q.arg[NO_NOISE] == 0, qg_tape_key(t) };
    return y;
}

/* The values pass, and so does a gradient of +-1, which is a code. */
static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    (void)q, (void)at;
    return to->x[i];
}

static qg_quant complete(qg_quant q) { return q.bits == QG_FLOAT_BITS ? (qg_quant){ 0 } : q; }

const qg_scheme qg__dorefa_gradient_scheme = {
    .name      = "dorefa",
    .about     = "2^bits levels up to the largest gradient of each image, with noise",
    .keys      = keys,
    .complete  = complete,
    .roles     = QG_GRADIENT,
    .float_ends = true,
    .surrogate = surrogate,
    .apply     = apply_gradient,
    .explain   = qg__dorefa_explain,
};

qg_quant qg_dorefa_gradient(qg_dorefa_gradient_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme = &qg__dorefa_gradient_scheme,
                                         .bits   = spec.bits,
                                         .arg    = { [NO_NOISE] = spec.no_noise } });
}
