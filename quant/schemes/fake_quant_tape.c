#include "quant/schemes/fake_quant_tape.h"

#include <string.h>

#include "core/kernels/parallel.h"
#include "quant/channel.h"
#include "quant/reduce.h"
#include "quant/uniform.h"

/* --- forward ------------------------------------------------------------------------------- */

typedef struct work {
    qg_split                  c;
    const qg_fake_quant_range *r;
    qg__fake_quant_rule        rule;
    const float               *x, *dy;
    float                     *out;         /* y or dx */
    double                    *dmin, *dmax; /* [depth], or [QG_SLICES][depth] for columns */
} work;

static void forward_run(const qg_fake_quant_range *r, qg__fake_quant_rule rule, size_t n, const float *x,
                        float *y)
{
    if (rule == QG_FAKE_QUANT_DIVIDE) qg_fake_quant_divide(r, n, x, y);
    else qg_fake_quant_multiply(r, n, x, y);
}

static void forward_block(void *context, size_t first, size_t n)
{
    const work *k = context;
    forward_run(k->r, k->rule, n, k->x + first, k->out + first);
}

static void forward_rows(void *context, size_t first, size_t n)
{
    const work  *k   = context;
    const size_t row = k->c.inner;
    for (size_t i = first; i < first + n; i++)
        qg_fake_quant_multiply(&k->r[i], row, k->x + i * row, k->out + i * row);
}

/* Rows [first, first + rows) of channels inmost, as an offset and a count. */
static size_t slice_of(const work *k, int slice, size_t *rows)
{
    const size_t each = (k->c.outer + QG_SLICES - 1) / QG_SLICES;
    const size_t first = qg__smaller((size_t)slice * each, k->c.outer);
    *rows = qg__smaller(each, k->c.outer - first);
    return first * k->c.depth;
}

static void forward_slice(void *context, int slice, int worker)
{
    (void)worker;
    const work  *k = context;
    size_t       rows;
    const size_t at = slice_of(k, slice, &rows);
    qg_fake_quant_channels(k->r, rows, k->c.depth, k->x + at, k->out + at);
}

void qg__fake_quant_forward(qg_split c, const qg_fake_quant_range *r, qg__fake_quant_rule rule,
                            const float *x, float *y)
{
    work k = { .c = c, .r = r, .rule = rule, .x = x, .out = y };
    if (c.depth == 1) qg__in_blocks(qg__channel_size(c), QG_BLOCK, forward_block, &k);
    else if (c.inner == 1) qg_parallel(QG_SLICES, forward_slice, &k);
    else qg__in_blocks(c.depth, 1, forward_rows, &k);
}

/* --- one range: an elementwise function ------------------------------------------------------ */

enum { SCALE, INV, NMIN, NMAX, Q0, RULE, GRAD_SCALE };      /* of qg_activation.k */

static qg_fake_quant_range range_of(const qg_activation *f)
{
    return (qg_fake_quant_range){ .scale = f->k[SCALE],
                                  .inv   = f->k[INV],
                                  .nmin  = f->k[NMIN],
                                  .nmax  = f->k[NMAX],
                                  .q0    = f->k[Q0] };
}

static void forward(const qg_activation *f, size_t n, const float *x, float *y)
{
    const qg_fake_quant_range r = range_of(f);
    forward_run(&r, f->k[RULE] == 0.0f ? QG_FAKE_QUANT_DIVIDE : QG_FAKE_QUANT_MULTIPLY, n, x, y);
}

/* dx may be dy: both gradients of a run are taken before it is written. */
static void backward(const qg_activation *f, size_t n, const float *x, const float *dy, float *dx,
                     double *dk)
{
    const qg_fake_quant_range r = range_of(f);
    const qg_uniform_kernels *kernels = QG_KERNELS_OF(f->isa, qg__uniform);
    const bool                empty = r.scale == 0.0f; /* then dx = dy, and nothing lies outside */
    for (size_t i = 0; i < n; i += QG_CHUNK) {
        const size_t m = qg__smaller(n - i, QG_CHUNK);
        float        run[QG_CHUNK], *out = dx == dy ? run : dx + i;
        double       below = 0.0, above = 0.0;
        memset(out, 0, m * sizeof *out);
        if (empty) memcpy(out, dy + i, m * sizeof *out);
        else if (kernels->fake_quant_mask(&r, m, x + i, dy + i, out) && dk) {
            kernels->fake_quant_outside(&r, m, x + i, dy + i, &below, &above);
            dk[0] += (double)f->k[GRAD_SCALE] * below;
            dk[1] += (double)f->k[GRAD_SCALE] * above;
        }
        if (f->slope) {
            memset(out, 0, m * sizeof *out);
            f->slope(f->arg, m, x + i, dy + i, out);
        }
        if (out == run) memcpy(dx + i, run, m * sizeof *run);
    }
}

qg_activation qg__fake_quant_activation(const qg_fake_quant_range *r, qg__fake_quant_rule rule,
                                        qg_surrogate s, qg_var *min, qg_var *max, float grad_scale)
{
    return (qg_activation){ .forward   = forward,
                            .backward  = backward,
                            .k         = { r->scale, r->inv, r->nmin, r->nmax, r->q0,
                                           rule == QG_FAKE_QUANT_DIVIDE ? 0.0f : 1.0f, grad_scale },
                            .slope     = s.slope,
                            .arg       = s.arg,
                            .n_learned = min ? 2 : 0,
                            .learned   = { min, max },
                            .isa       = qg__isa() };
}

/* --- a range per channel --------------------------------------------------------------------- */

typedef struct saved {
    qg_split            c;
    qg_surrogate         s;
    float                grad_scale;
    qg_fake_quant_range *r;
} saved;

static void backward_rows(void *context, size_t first, size_t n)
{
    const work  *k   = context;
    const size_t row = k->c.inner;
    for (size_t i = first; i < first + n; i++)
        qg_fake_quant_backward(&k->r[i], row, k->x + i * row, k->dy + i * row, k->out + i * row,
                               &k->dmin[i], &k->dmax[i]);
}

static void backward_slice(void *context, int slice, int worker)
{
    (void)worker;
    const work  *k = context;
    size_t       rows;
    const size_t at = slice_of(k, slice, &rows), d = k->c.depth;
    qg_fake_quant_channels_backward(k->r, rows, d, k->x + at, k->dy + at, k->out + at,
                                    k->dmin + (size_t)slice * d, k->dmax + (size_t)slice * d);
}

static void add_parts(const double *part, int parts, size_t d, float grad_scale, qg_var *v)
{
    for (size_t i = 0; v && v->grad && i < d; i++) {
        double sum = 0.0;
        for (int p = 0; p < parts; p++) sum += part[(size_t)p * d + i];
        v->grad[i] += (float)((double)grad_scale * sum);
    }
}

static void channels_backward(qg_tape *t, qg_var *y)
{
    const saved *s     = y->saved;
    qg_var      *x     = y->in[0];
    const size_t n     = qg_count(x->shape), d = s->c.depth;
    const bool   rows  = s->c.inner != 1;
    const int    parts = rows ? 1 : QG_SLICES;
    const bool   aside = !x->grad || s->s.slope;        /* dx is not wanted, or another one is */
    double      *sums  = qg_scratch(t, 2 * (size_t)parts * d * sizeof *sums);
    float       *dx    = aside ? qg_scratch(t, n * sizeof *dx) : x->grad;
    if (!sums || !dx) return;
    memset(sums, 0, 2 * (size_t)parts * d * sizeof *sums);
    if (aside) memset(dx, 0, n * sizeof *dx);
    work k = { .c = s->c, .r = s->r, .x = x->data, .dy = y->grad, .out = dx };
    k.dmin = sums;
    k.dmax = sums + (size_t)parts * d;
    if (rows) qg__in_blocks(d, 1, backward_rows, &k);
    else qg_parallel(QG_SLICES, backward_slice, &k);
    if (x->grad && s->s.slope) qg_surrogate_slope(s->s, n, x->data, y->grad, x->grad);
    add_parts(k.dmin, parts, d, s->grad_scale, y->in[1]);
    add_parts(k.dmax, parts, d, s->grad_scale, y->in[2]);
}

static const qg_op channels_op = { .name = "fake_quant", .backward = channels_backward };

qg_fake_quant_range *qg__record_fake_quant_channels(qg_tape *t, qg_split c, qg_surrogate s, qg_var *x,
                                                    qg_var *min, qg_var *max, float grad_scale, qg_var **y)
{
    *y = qg_record(t, &channels_op, x->shape, x, min, max);
    if (!*y) return NULL;
    saved *kept = qg_save(t, *y, sizeof *kept + c.depth * sizeof *kept->r);
    if (!kept) return NULL;
    *kept = (saved){ .c = c, .s = s, .grad_scale = grad_scale, .r = (qg_fake_quant_range *)(void *)(kept + 1) };
    return kept->r;
}
