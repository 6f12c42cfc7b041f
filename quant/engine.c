/* Applies forms to tensors: threads, channels, the tape, codes. */
#include "quant/engine.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/slices.h"
#include "quant/channel.h"
#include "quant/kernels.h"
#include "quant/reduce.h"

/* --- constants -------------------------------------------------------------------------------- */

static float raised(const qg_learned *l, float v) { return l->least > 0.0f && v < l->least ? l->least : v; }

static size_t index_of(qg_quant q, const qg_learned *l, size_t channel)
{
    return l->per_channel && q.per_channel ? channel : 0;
}

qg_constants qg__form_constants(qg_quant q, qg_span s, const float *const *learned)
{
    float value[QG_MAX_LEARNED] = { 0.0f };
    for (int i = 0; i < qg_learned_count(q); i++) {
        const qg_learned *l = &q.scheme->learned[i];
        value[i] = raised(l, learned[i][index_of(q, l, s.channel)]);
    }
    if (q.scheme->range) qg__range_ends(q.scheme->range(q), s, value);
    return q.scheme->constants(q, s, value);
}

/* s, or if it is {0} what the scheme has in its place. */
static qg_surrogate surrogate_of(qg_quant q, qg_surrogate s)
{
    if (!s.slope && q.scheme->own) s = q.scheme->own(q);
    return s.slope || q.scheme->own_slope ? s : qg_surrogate_identity();
}

qg_surrogate qg__straight_through(qg_quant q)
{
    return qg_surrogate_identity();
}

qg_surrogate qg__clip_at_1(qg_quant q)
{
    return qg_surrogate_clip(1.0f);
}

qg_mix qg__relative_mix(bool scaled, qg_span w)
{
    const float mean = scaled ? qg_span_mean_abs(w) : 1.0f;
    return (qg_mix){ .through = mean >= FLT_MIN ? 1.0f / mean : 1.0f };
}

double qg__relative_surrogate(bool scaled, qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    const qg_surrogate s = surrogate_of(q, q.surrogate);
    return s.value ? s.value(s.arg, to->x[i]) / (scaled ? qg__point_mean_abs(q, i, at) : 1) : (double)NAN;
}

/* How many of the learned values have a gradient; they come first. */
static int trained_count(qg_quant q)
{
    int n = 0;
    while (n < qg_learned_count(q) && !q.scheme->learned[n].tracked) n++;
    return n;
}

/* Makes all values legal, also those that no optimizer has seen, and reads them. */
static void take_learned(qg_quant q, qg_var *const *learned, const float **value)
{
    for (int i = 0; i < qg_learned_count(q); i++) {
        const qg_learned *l = &q.scheme->learned[i];
        value[i] = learned[i]->data;
        for (size_t k = 0; l->least > 0.0f && k < qg_count(learned[i]->shape); k++)
            qg__clamp_learned(learned[i], k, raised(l, value[i][k]));
    }
}

/* --- arrays: forward -------------------------------------------------------------------------- */

typedef struct work {
    const qg_binding   *b;
    qg_surrogate        s;
    const qg_form_loops *loops;
    qg_split           c;
    qg_isa              isa;
    const float        *x, *dy;
    const float *const *learned;
    float              *y, *dx, *scale;
    qg_constants       *into;           /* [spans], or NULL */
    const qg_constants *k;              /* of one span, or in a gradient [spans] */
    const qg_mix       *mix;            /* of one span */
    double            (*sum)[QG_FORM_SUMS];
} work;

static qg_span span_of(const work *w, size_t channel)
{
    qg_span s = qg__span_at(w->isa, w->c, channel, w->x);
    s.numbers = w->b->numbers;
    s.inputs  = w->b->inputs;
    return s;
}

static qg_constants constants_of(const work *w, size_t channel)
{
    const qg_constants k = qg__form_constants(w->b->q, span_of(w, channel), w->learned);
    float              negative;
    if (w->into) w->into[channel] = k;
    if (w->scale) w->b->q.scheme->form->scales(&k, &w->scale[channel], &negative);
    return k;
}

static void values_block(void *context, size_t at, size_t n)
{
    const work *w = context;
    w->loops->values(w->k, n, w->x + at, w->y + at);
}

void qg__form_values(const qg_form *form, const qg_constants *k, size_t n, const float *x, float *y)
{
    work w = { .loops = form->loops[qg__isa()], .x = x, .y = y, .k = k };
    qg__in_blocks(n, QG_BLOCK, values_block, &w);
}

/* --- columns ---------------------------------------------------------------------------------- */

/* Channels on the innermost axis, of which a group is turned at a time, so that each is contiguous. */
typedef struct columns {
    const qg_form_loops *loops;
    const qg_constants  *k;             /* of each column */
    size_t               rows, stride;
    const float         *x, *dy;
    float               *out;           /* y or dx */
    double             (*sum)[QG_FORM_SUMS];
} columns;

typedef float turned[QG_CHANNEL_GROUP][QG_CHUNK];

static void turn(size_t rows, size_t n, size_t stride, const float *x, turned to)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < n; i++) to[i][r] = x[r * stride + i];
}

static void turn_back(size_t rows, size_t n, size_t stride, turned from, float *x)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < n; i++) x[r * stride + i] = from[i][r];
}

static void columns_values(void *context, size_t first, size_t n)
{
    const columns *l = context;
    for (size_t at = 0; at < l->rows; at += QG_CHUNK) {
        const size_t m = qg__smaller(l->rows - at, QG_CHUNK), from = at * l->stride + first;
        turned       x;
        turn(m, n, l->stride, l->x + from, x);
        for (size_t i = 0; i < n; i++) l->loops->values(&l->k[first + i], m, x[i], x[i]);
        turn_back(m, n, l->stride, x, l->out + from);
    }
}

/* Sums have one order: those of runs are added in a block, and those of blocks in the span, as in
 * qg__sum_runs.  Called after the run that ends at `at` of a span of n numbers. */
static void add_block(size_t at, size_t n, double *block, double *sum)
{
    if (!sum || (at % QG_BLOCK && at != n)) return;
    for (int j = 0; j < QG_FORM_SUMS; j++) {
        sum[j] += block[j];
        block[j] = 0.0;
    }
}

static void columns_gradient(void *context, size_t first, size_t n)
{
    const columns *l = context;
    double         block[QG_CHANNEL_GROUP][QG_FORM_SUMS] = { { 0.0 } };
    for (size_t at = 0; at < l->rows; at += QG_CHUNK) {
        const size_t m = qg__smaller(l->rows - at, QG_CHUNK), from = at * l->stride + first;
        turned       x, dy, dx;
        turn(m, n, l->stride, l->x + from, x);
        turn(m, n, l->stride, l->dy + from, dy);
        if (l->out) turn(m, n, l->stride, l->out + from, dx);
        for (size_t i = 0; i < n; i++) {
            double *sum = l->sum ? l->sum[first + i] : NULL;
            l->loops->backward(&l->k[first + i], m, x[i], dy[i], l->out ? dx[i] : NULL, sum ? block[i] : NULL);
            add_block(at + m, l->rows, block[i], sum);
        }
        if (l->out) turn_back(m, n, l->stride, dx, l->out + from);
    }
}

void qg__form_columns(const qg_form *form, const qg_constants *k, size_t d, size_t rows, size_t stride,
                      const float *x, float *y)
{
    columns l = { .loops = form->loops[qg__isa()], .k = k, .rows = rows, .stride = stride, .x = x, .out = y };
    qg__in_blocks(d, QG_CHANNEL_GROUP, columns_values, &l);
}

void qg__form_columns_gradient(const qg_form *form, const qg_constants *k, size_t d, size_t rows, size_t stride,
                               const float *x, const float *dy, float *dx, double (*sum)[QG_FORM_SUMS])
{
    columns l = { form->loops[qg__isa()], k, rows, stride, x, dy, dx, sum };
    qg__in_blocks(d, QG_CHANNEL_GROUP, columns_gradient, &l);
}

/* --- channels --------------------------------------------------------------------------------- */

static void forward_columns(const work *w, size_t first, size_t count)
{
    qg_constants k[QG_CHANNEL_GROUP];
    columns      l = { w->loops, k, w->c.outer, w->c.depth, w->x + first, NULL, w->y + first, NULL };
    for (size_t i = 0; i < count; i++) k[i] = constants_of(w, first + i);
    columns_values(&l, 0, count);
}

static void forward_channels(void *context, size_t first, size_t count)
{
    const work  *w = context;
    const size_t size = qg__channel_size(w->c), most = qg__part_size(w->c);
    if (w->c.inner == 1) {
        forward_columns(w, first, count);
        return;
    }
    for (size_t i = first; i < first + count; i++) {
        const qg_constants k = constants_of(w, i);
        for (size_t at = 0; at < size; at += most) {
            const size_t n = qg__smaller(size - at, most);
            float        part[QG_CHUNK];
            const float *x = qg__part(w->c, i, at, n, w->x, part);
            float       *y = w->c.outer == 1 ? w->y + i * size + at : part;
            w->loops->values(&k, n, x, y);
            qg__close_part(w->c, i, at, n, y, w->y);
        }
    }
}

void qg__form_forward(const qg_binding *b, qg_split c, const float *x, const float *const *learned, float *y, qg_constants *k,
                      float *scale)
{
    const qg_isa isa = qg__isa();
    const qg_form *form = b->q.scheme->form;
    work         w   = { .b = b, .loops = form->loops[isa], .c = c, .isa = isa, .x = x, .learned = learned, .y = y };
    w.into  = k;
    w.scale = scale;
    if (c.depth != 1) {
        qg__in_blocks(c.depth, QG_CHANNEL_GROUP, forward_channels, &w);
        return;
    }
    const qg_constants one = constants_of(&w, 0);
    qg__form_values(form, &one, qg__channel_size(c), x, y);
}

/* --- arrays: backward ------------------------------------------------------------------------- */

static void backward_run(const void *context, size_t first, size_t n, double *sum)
{
    const work *w = context;
    w->loops->backward(w->k, n, w->x + first, w->dy + first, w->dx ? w->dx + first : NULL, w->sum ? sum : NULL);
}

static void backward_channel(const work *w, size_t channel, const qg_constants *k, float *to, double *sum)
{
    const size_t size = qg__channel_size(w->c);
    double       block[QG_FORM_SUMS] = { 0.0 };
    for (size_t at = 0; at < size; at += QG_CHUNK) {
        const size_t n = qg__smaller(size - at, QG_CHUNK);
        float        px[QG_CHUNK], pdy[QG_CHUNK], pdx[QG_CHUNK];
        const float *x = qg__part(w->c, channel, at, n, w->x, px);
        const float *dy = qg__part(w->c, channel, at, n, w->dy, pdy);
        float       *dx = to ? qg__open_part(w->c, channel, at, n, to, pdx) : NULL;
        w->loops->backward(k, n, x, dy, dx, sum ? block : NULL);
        add_block(at + n, size, block, sum);
        if (dx) qg__close_part(w->c, channel, at, n, dx, to);
    }
}

static void backward_channels(void *context, size_t first, size_t count)
{
    const work *w = context;
    columns     l = { w->loops, w->k, w->c.outer, w->c.depth, w->x, w->dy, w->dx, w->sum };
    if (w->sum) memset(w->sum + first, 0, count * sizeof *w->sum);
    if (w->c.inner == 1) columns_gradient(&l, first, count);
    else
        for (size_t i = first; i < first + count; i++)
            backward_channel(w, i, &w->k[i], w->dx, w->sum ? w->sum[i] : NULL);
}

static void mix_channel(const work *w, size_t channel, qg_mix m)
{
    const size_t size = qg__channel_size(w->c);
    for (size_t at = 0; at < size; at += QG_CHUNK) {
        const size_t n = qg__smaller(size - at, QG_CHUNK);
        float        px[QG_CHUNK], pdy[QG_CHUNK], pdx[QG_CHUNK], scaled[QG_CHUNK];
        const float *x = qg__part(w->c, channel, at, n, w->x, px);
        const float *dy = qg__part(w->c, channel, at, n, w->dy, pdy);
        float       *dx = qg__open_part(w->c, channel, at, n, w->dx, pdx);
        QG_KERNELS_OF(w->isa, qg__form)->mix(n, x, dy, m, dx, scaled);
        w->s.slope(w->s.arg, n, x, scaled, dx);
        qg__close_part(w->c, channel, at, n, dx, w->dx);
    }
}

/* z, and g = through s'(z) dy, of n <= QG_CHUNK numbers. */
static void standardised_run(const work *w, const qg_mix *m, size_t n, const float *x, const float *dy, float *z, float *g)
{
    float scaled[QG_CHUNK];
    for (size_t i = 0; i < n; i++) {
        z[i]      = (x[i] - m->mean) * m->inverse;
        scaled[i] = m->through * dy[i];
        g[i]      = 0.0f;
    }
    for (size_t i = 0; m->within > 0.0f && i < n; i++) scaled[i] = fabsf(z[i]) > m->within ? 0.0f : scaled[i];
    w->s.slope(w->s.arg, n, z, scaled, g);
}

/* Of a row of a weight.  dz_j / dx_i = inverse (1[i = j] - 1 / n - z_j z_i / freedom). */
static void standardised_row(const work *w, size_t row, qg_mix m)
{
    const size_t size = qg__channel_size(w->c);
    const float *x = w->x + row * size, *dy = w->dy + row * size;
    float       *dx = w->dx + row * size, z[QG_CHUNK], g[QG_CHUNK];
    double       sum = 0.0, along = 0.0;
    for (size_t at = 0; at < size; at += QG_CHUNK) {
        const size_t n = qg__smaller(size - at, QG_CHUNK);
        standardised_run(w, &m, n, x + at, dy + at, z, g);
        for (size_t i = 0; i < n; i++) {
            sum += (double)g[i];
            along += (double)g[i] * (double)z[i];
        }
    }
    const float mean = (float)(sum / (double)size), pull = m.freedom > 0.0 ? (float)(along / m.freedom) : 0.0f;
    for (size_t at = 0; at < size; at += QG_CHUNK) {
        const size_t n = qg__smaller(size - at, QG_CHUNK);
        standardised_run(w, &m, n, x + at, dy + at, z, g);
        for (size_t i = 0; i < n; i++) dx[at + i] += m.inverse * (g[i] - mean - z[i] * pull) + m.coupled * z[i] + m.added;
    }
}

static qg_mix mix_of(const work *w, size_t channel)
{
    const qg_constants k = w->k ? w->k[channel] : constants_of(w, channel);
    double             sum[QG_FORM_SUMS] = { 0.0 };
    qg_quant           q = w->b->q;
    q.surrogate = w->s;
    if (q.scheme->mixes_sums) backward_channel(w, channel, &k, NULL, sum);
    return q.scheme->mix(q, span_of(w, channel), &k, sum);
}

static void mix_channels(void *context, size_t first, size_t count)
{
    const work *w = context;
    for (size_t i = first; i < first + count; i++) {
        const qg_mix m = mix_of(w, i);
        if (m.standardised) standardised_row(w, i, m);
        else mix_channel(w, i, m);
    }
}

/* A tensor with one scale. */
static void mix_block(void *context, size_t at, size_t n)
{
    const work *w = context;
    work        part = *w;
    part.c  = (qg_split){ 1, 1, n };
    part.x  = w->x + at;
    part.dy = w->dy + at;
    part.dx = w->dx + at;
    mix_channel(&part, 0, *w->mix);
}

void qg__form_gradient(const qg_binding *b, qg_surrogate s, qg_split c, const qg_constants *k, const float *x, const float *dy, float *dx,
                       double (*sum)[QG_FORM_SUMS])
{
    const size_t n   = qg__channel_size(c) * c.depth;
    const qg_isa isa = qg__isa();
    const qg_scheme *scheme = b->q.scheme;
    work w = { .b = b, .loops = scheme->form->loops[isa], .c = c, .isa = isa, .x = x, .dy = dy, .k = k, .sum = sum };
    s    = surrogate_of(b->q, s);
    w.s  = s;
    w.dx = dx;
    if (dx && scheme->mix) {
        const qg_mix m = c.depth == 1 ? mix_of(&w, 0) : (qg_mix){ 0 };
        w.mix          = &m;
        if (c.depth != 1) qg__in_blocks(c.depth, QG_CHANNEL_GROUP, mix_channels, &w);
        else if (m.standardised) standardised_row(&w, 0, m);
        else qg__in_blocks(n, QG_BLOCK, mix_block, &w);
        w.dx = NULL;
    } else if (s.slope) {
        if (dx && s.whole) s.whole(s.arg, c, x, dy, dx);
        else if (dx) qg__surrogate_slope(s, n, x, dy, dx);
        w.dx = NULL;
    }
    if (!w.dx && !sum) return;
    if (c.depth == 1) qg__sum_runs(n, backward_run, &w, sum ? sum[0] : (double[QG_FORM_SUMS]){ 0 });
    else qg__in_blocks(c.depth, QG_CHANNEL_GROUP, backward_channels, &w);
    for (size_t i = 0; w.dx && scheme->adds && i < c.depth; i++)
        scheme->adds(b->q, span_of(&w, i), &k[i], dy + i * c.inner, dx + i * c.inner);
}

/* --- codes ------------------------------------------------------------------------------------ */

typedef struct coding {
    const qg_form_loops *loops;
    const qg_constants  *k;
    const float         *x;
    int32_t             *code;
} coding;

/* n <= QG_CHUNK */
static void codes_of_run(const coding *c, size_t at, size_t n)
{
    float y[QG_CHUNK];
    if (c->loops->codes) {
        c->loops->codes(c->k, n, c->x + at, c->code + at);
        return;
    }
    c->loops->values(c->k, n, c->x + at, y);
    qg__codes_from(n, y, c->k->uniform.step, c->code + at);
}

static void codes_of_block(void *context, size_t first, size_t n)
{
    for (size_t at = 0; at < n; at += QG_CHUNK) codes_of_run(context, first + at, qg__smaller(n - at, QG_CHUNK));
}

static qg_status check_constants(qg_quant q, size_t channel, const qg_constants *k)
{
    qg_status s = q.scheme->check_constants ? q.scheme->check_constants(q, k) : QG_OK;
    /* Ends that were given are checked before any step, so these are of numbers that grew. */
    if (s && !isfinite(k->uniform.to - k->uniform.from))
        s = qg_fail(QG_ENAN, "%s: the range %g .. %g of what it quantizes overflows", q.scheme->name,
                    (double)k->uniform.from, (double)k->uniform.to);
    return s && q.per_channel ? qg_fail(s, "%s (channel %zu)", qg_errmsg(), channel) : s;
}

qg_code_set qg__form_set(qg_quant q)
{
    const float  zero = 0.0f;
    const float *learned[QG_MAX_LEARNED];
    for (int i = 0; i < QG_MAX_LEARNED; i++) learned[i] = &zero;
    const qg_constants k = qg__form_constants(q, (qg_span){ .split = { 1, 1, 0 } }, learned);
    return q.scheme->form->set(&k);
}

qg_status qg__form_encode(qg_quant q, qg_tensor x, const float *const *learned, qg_codes *out)
{
    const qg_form  *form = q.scheme->form;
    const qg_split c    = qg__spans(q, x.shape);
    const qg_isa    isa  = qg__isa();
    if (q.bits == QG_FLOAT_BITS)
        return qg_fail(QG_EARG, "%s: 32 bits are not rounded to codes", q.scheme->name);
    const qg__hooks hooks = qg__scheme_hooks(q.scheme);
    const char     *lacks = q.role == QG_WEIGHT ? "its learned values are not set" : "no batch has been seen";
    if (hooks.ready && !hooks.ready(q, learned))
        return qg_fail(QG_ESTATE, "%s: %s, so there are no codes; train it first", q.scheme->name, lacks);
    for (size_t i = 0; i < c.depth; i++) {
        const qg_constants k = qg__form_constants(q, qg__span_at(isa, c, i, x.data), learned);
        const qg_status    s = check_constants(q, i, &k);
        float              negative;
        if (s) return s;
        coding w = { form->loops[isa], &k, x.data + i * c.inner, out->code + i * c.inner };
        qg__in_blocks(c.inner, QG_BLOCK, codes_of_block, &w);
        form->scales(&k, &out->scale[i], &negative);
        if (out->negative) out->negative[i] = negative;
        if (negative != out->scale[i]) out->two_sided = true;
    }
    out->n_scale = (int)c.depth;
    out->bits    = q.bits;
    return QG_OK;
}

/* --- the elementwise function ----------------------------------------------------------------- */

_Static_assert(sizeof(qg_constants) <= sizeof(((qg_activation *)0)->k), "constants fit an activation");

static qg_constants unpack(const qg_activation *f)
{
    qg_constants k;
    memcpy(&k, f->k, sizeof k);
    return k;
}

static const qg_form_loops *loops_of(const qg_activation *f) { return ((const qg_form *)f->of)->loops[f->isa]; }

static void activation_forward(const qg_activation *f, size_t n, const float *x, float *y)
{
    const qg_constants k = unpack(f);
    loops_of(f)->values(&k, n, x, y);
}

/* dx may be dy: both gradients of a run are taken before it is written. */
static void activation_backward(const qg_activation *f, size_t n, const float *x, const float *dy, float *dx,
                                double *dk)
{
    const qg_constants k = unpack(f);
    for (size_t i = 0; i < n; i += QG_CHUNK) {
        const size_t m = qg__smaller(n - i, QG_CHUNK);
        float        run[QG_CHUNK], *out = dx == dy ? run : dx + i;
        memset(out, 0, m * sizeof *out);
        loops_of(f)->backward(&k, m, x + i, dy + i, f->slope ? NULL : out, dk);
        if (f->slope) f->slope(f->arg, m, x + i, dy + i, out);
        if (out == run) memcpy(dx + i, run, m * sizeof *run);
    }
}

/* {0}: the constants cannot quantize. */
qg_activation qg_form_activation(const qg_tape *t, const qg_binding *b, qg_var *const *learned)
{
    const qg_quant     q = b->q;
    const qg_surrogate s = surrogate_of(q, qg_surrogate_now(t, q));
    const float       *value[QG_MAX_LEARNED] = { NULL };
    take_learned(q, learned, value);
    if (q.scheme->range) qg__range_confine(q, learned);
    const qg_span      all = { .split = { 1, 1, 0 }, .numbers = b->numbers, .inputs = b->inputs };
    const qg_constants k   = qg__form_constants(q, all, value);
    if (check_constants(q, 0, &k)) return (qg_activation){ 0 };
    qg_activation      f = { .forward   = activation_forward,
                             .backward  = activation_backward,
                             .of        = q.scheme->form,
                             .slope     = s.slope,
                             .arg       = s.arg,
                             .n_learned = trained_count(q),
                             .isa       = qg__isa() };
    for (int i = 0; i < f.n_learned; i++) {
        f.learned[i] = learned[i];
        f.gain[i]    = k.gain[i];
    }
    memcpy(f.k, &k, sizeof k);
    return f;
}

/* --- the op ----------------------------------------------------------------------------------- */

typedef struct formed {
    qg_binding   b;
    qg_surrogate s;
    qg_split     spans;
    qg_constants k[];           /* [spans.depth] */
} formed;

/* The constants may be statistics of the whole batch, which then is quantized whole. */
static bool forward_whole(qg_tape *t, const formed *f, const qg_var *x, const float *const *value, qg_var *y, qg_constants *k)
{
    const qg_tensor  all = qg__whole_batch(t, x);
    const qg__slices at  = qg__slices_of(x);
    const size_t     row = qg_row(x->shape);
    float           *out = all.data ? qg_scratch(t, qg_count(all.shape) * sizeof *out) : NULL;
    if (!out) return false;
    qg__form_forward(&f->b, qg__spans(f->b.q, all.shape), all.data, value, out, k, NULL);
    memcpy(y->data, out + (size_t)at.first * row, qg_count(y->shape) * sizeof *out);
    return true;
}

qg_var *qg__form_apply(qg_tape *t, const qg_binding *b, qg_var *x, qg_var *const *learned)
{
    const qg_quant     q = b->q;
    const qg_scheme   *scheme = q.scheme;
    const qg_surrogate s = surrogate_of(q, qg_surrogate_now(t, q));
    const float       *value[QG_MAX_LEARNED] = { NULL };
    take_learned(q, learned, value);
    const qg__hooks hooks = qg__scheme_hooks(scheme);
    if (hooks.ready && !hooks.ready(q, value)) return qg__quant_bypass(t, q, x);
    if (qg__quant_is_activation(q)) {
        const qg_activation f = scheme->activation(t, b, learned);
        return f.forward ? qg__record_activation(t, &scheme->ops[0], x, f) : qg_reject(t, qg_errcode(), "%s", qg_errmsg());
    }
    if (scheme->range) qg__range_confine(q, learned);

    const int  trained  = trained_count(q);
    const bool straight = trained == 0 && !scheme->mix && s.slope == qg_surrogate_identity().slope;
    qg_var    *y = qg_record(t, &scheme->ops[scheme->activation ? 1 : 0], x->shape, x, trained > 0 ? learned[0] : NULL,
                             trained > 1 ? learned[1] : NULL);
    const qg_split spans = qg__spans(q, x->shape);
    formed         *f = y ? qg_save(t, y, sizeof *f + spans.depth * sizeof *f->k) : NULL;
    if (!f) return NULL;
    if (straight && !scheme->activation) qg_share_gradient(y);
    f->b     = *b;
    f->s     = s;
    f->spans = spans;
    const bool shared = qg__slices_of(x).shared;
    if (shared && scheme->mix)
        return qg_reject(t, QG_EARG, "%s: its gradient of an input needs the whole batch, which ranks share", scheme->name);
    const bool whole = shared && !scheme->activation && scheme->constants != qg__unit_signs;
    if (!whole) qg__form_forward(b, spans, x->data, value, y->data, f->k, NULL);
    else if (!forward_whole(t, f, x, value, y, f->k)) return NULL;
    for (size_t i = 0; i < spans.depth; i++) {
        const qg_status status = check_constants(q, i, &f->k[i]);
        if (status) return qg_reject(t, status, "%s", qg_errmsg());
    }
    return y;
}

/* The gradient of images, slice by slice (core/slices.h). */
typedef struct slices {
    const qg_var *y;
    qg__slices    at;
    double      (*sum)[QG_FORM_SUMS];       /* [QG_SLICES][spans] */
} slices;

static void slice_gradient(void *context, int piece, int worker)
{
    const slices *p    = context;
    const formed *f    = p->y->saved;
    const qg_var *x    = p->y->in[0];
    const int     s    = p->at.from + piece, from = qg__slice_first(p->at, s), n = qg__slice_first(p->at, s + 1) - from;
    const size_t  at   = (size_t)from * qg_row(x->shape);
    double      (*sum)[QG_FORM_SUMS] = p->sum + (size_t)s * f->spans.depth;
    memset(sum, 0, f->spans.depth * sizeof *sum);
    if (n == 0) return;
    const qg_split spans = qg__spans(f->b.q, (qg_shape){ n, x->shape.h, x->shape.w, x->shape.c });
    qg__form_gradient(&f->b, f->s, spans, f->k, x->data + at, p->y->grad + at, x->grad ? x->grad + at : NULL, sum);
}

static bool sum_slices(qg_tape *t, slices *p)
{
    const size_t depth = ((const formed *)p->y->saved)->spans.depth;
    qg_parallel(p->at.to - p->at.from, slice_gradient, p);
    if (!qg__slices_gather(t, p->at, p->sum, depth * sizeof *p->sum)) return false;
    for (size_t i = 0; i < depth; i++)
        for (size_t s = 1; s < QG_SLICES; s++)
            for (int k = 0; k < QG_FORM_SUMS; k++) p->sum[i][k] += p->sum[s * depth + i][k];
    return true;
}

void qg_form_backward(qg_tape *t, qg_var *y)
{
    const formed *f = y->saved;
    const qg_var *x = y->in[0];
    const int     trained = trained_count(f->b.q);
    const bool    sliced  = trained && x->batch && qg__quant_role(f->b.q) == QG_INPUT;
    double      (*sum)[QG_FORM_SUMS] = trained ? qg_scratch(t, (sliced ? (size_t)QG_SLICES : 1) * f->spans.depth * sizeof *sum) : NULL;
    if (trained && !sum) return;
    if (!sliced) qg__form_gradient(&f->b, f->s, f->spans, f->k, x->data, y->grad, x->grad, sum);
    else if (!sum_slices(t, &(slices){ y, qg__slices_of(x), sum })) return;
    for (size_t s = 0; sum && s < f->spans.depth; s++)
        for (int i = 0; i < trained; i++) {
            qg_var *learned = y->in[1 + i];
            if (!learned->grad) continue;
            const double gain = f->k[s].gain[i] == 0 ? 1 : (double)f->k[s].gain[i];
            learned->grad[index_of(f->b.q, &f->b.q.scheme->learned[i], s)] += (float)(gain * sum[s][i]);
        }
}
