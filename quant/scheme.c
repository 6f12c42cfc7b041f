#include "quant/scheme.h"

#include <stdio.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "core/ops/norm.h"
#include "core/slices.h"
#include "core/walk.h"
#include "quant/channel.h"
#include "quant/engine.h"
#include "quant/reduce.h"
#include "quant/round.h"

int qg_learned_count(qg_quant q)
{
    int n = 0;
    if (q.scheme && q.scheme->learned)
        while (n < QG_MAX_LEARNED && q.scheme->learned[n].name) n++;
    return n;
}

qg_shape qg_learned_shape(qg_quant q, const qg_learned *l, qg_shape x, qg_role role)
{
    return (qg_shape){ 1, 1, 1, l->per_channel && q.per_channel ? role == QG_WEIGHT ? x.n : x.c : 1 };
}

bool qg__quant_is_delayed(qg_quant q, uint64_t step) { return step < q.after; }

bool qg__quant_is_activation(qg_quant q)
{
    if (!q.scheme || !q.scheme->activation || q.per_channel) return false;
    return !q.scheme->measures_weights || qg__quant_role(q) != QG_WEIGHT;
}

bool qg__quant_fuses(qg_quant q) { return !q.surrogate.whole && qg__quant_is_activation(q); }

/* A quiet entry counts what the scheme has observed. */
static bool has_observed(qg_quant q, qg_var *const *learned)
{
    for (int i = 0; i < qg_learned_count(q); i++)
        if (q.scheme->learned[i].quiet && learned[i] && learned[i]->data[0] > 0) return true;
    return false;
}

bool qg__quant_observes(const qg_binding *b, const qg_tape *t, qg_var *const *learned)
{
    const qg__hooks hooks = qg__scheme_hooks(b->q.scheme);
    if (!hooks.observes || (b->frozen && has_observed(b->q, learned))) return false;
    return hooks.observes(b->q, t, learned);
}

qg_surrogate qg_surrogate_now(const qg_tape *t, qg_quant q)
{
    return q.surrogate.whole ? qg_surrogate_identity() : qg__surrogate_at(q.surrogate, qg_tape_step(t));
}

/* A quantizer of inputs may stand for a relu (qg_scheme.rectifies), one of weights never does. */
qg_var *qg__quant_bypass(qg_tape *t, qg_quant q, qg_var *x)
{
    return q.scheme->rectifies && qg__quant_role(q) != QG_WEIGHT ? qg_relu(t, x) : x;
}

void qg__clamp_learned(qg_var *v, size_t i, float legal)
{
    if (v->needs_grad) v->data[i] = legal;
}

/* A scheme sees the numbers of the whole batch, since it may compute anything from them. */
static bool observe(qg_tape *t, qg_quant q, const qg_var *x, qg_var *const *learned)
{
    float    *value[QG_MAX_LEARNED] = { 0 };
    qg_tensor all                   = qg__whole_batch(t, x);
    if (!all.data) return false;
    for (int i = 0; i < qg_learned_count(q); i++) value[i] = learned[i]->data;
    qg__scheme_hooks(q.scheme).observe(q, all, value);
    return true;
}

qg_role qg__quant_role(qg_quant q)
{
    if (q.role) return q.role;
    return q.scheme->roles & QG_INPUT ? QG_INPUT : q.scheme->roles & QG_WEIGHT ? QG_WEIGHT : QG_GRADIENT;
}

const char *qg_role_name(qg_role role)
{
    return role == QG_WEIGHT ? "weight" : role == QG_INPUT ? "input" : "gradient";
}

const char *qg_scheme_spelling(const qg_scheme *scheme, qg_role role, char *text, size_t bytes)
{
    const char *variant = scheme ? scheme->variant : NULL;
    qg_quant    usual;
    if (variant && !qg_scheme_parse(scheme, role, NULL, &usual) && usual.scheme == scheme) variant = NULL;
    snprintf(text, bytes, "%s%s%s", scheme ? scheme->name : "float", variant ? ":" : "", variant ? variant : "");
    return text;
}

/* What qg__form_apply and qg_form_backward rely on. */
static qg_status check_form(qg_quant q)
{
    const qg_scheme *scheme  = q.scheme;
    int              trained = 0;
    for (int i = 0; i < qg_learned_count(q); i++) {
        if (scheme->learned[i].tracked) continue;
        if (trained++ < i)
            return qg_fail(QG_EARG, "%s: %s is trained, so it must come before tracked entries", scheme->name,
                           scheme->learned[i].name);
    }
    if (trained > QG_FORM_SUMS)
        return qg_fail(QG_EARG, "%s: trains %d values, a form has sums for %d", scheme->name, trained, QG_FORM_SUMS);
    if (trained && scheme->mix && q.role == QG_INPUT)
        return qg_fail(QG_EARG, "%s: a scheme with mix cannot train values of inputs", scheme->name);
    if (q.per_channel && scheme->activation && !scheme->ops[1].backward)
        return qg_fail(QG_EARG, "%s: its op is that of an activation, which has one scale, not one per channel",
                       scheme->name);
    return QG_OK;
}

static bool learns_too_much(const qg_scheme *scheme)
{
    int n = 0;
    while (scheme->learned && scheme->learned[n].name && n <= QG_MAX_LEARNED) n++;
    return n > QG_MAX_LEARNED;
}

qg_status qg__quant_check(qg_quant q)
{
    const qg_scheme *scheme = q.scheme;
    if (!scheme) return QG_OK;
    if (learns_too_much(scheme))
        return qg_fail(QG_EARG, "%s: has more than %d learned values", scheme->name, QG_MAX_LEARNED);
    qg_status s = qg__quant_check_keys(q);
    /* Before the role, since the scheme knows what to set instead. */
    if (!s && scheme->check) s = scheme->check(q);
    if (s) return s;
    if (q.role && !(scheme->roles & q.role))
        return qg_fail(QG_EARG, "%s does not quantize %ss", scheme->name, qg_role_name(q.role));
    if (q.per_channel && scheme->granularity == QG_TENSOR_SCALE)
        return qg_fail(QG_EARG, "%s: does not support scales per channel", scheme->name);
    if (!q.per_channel && scheme->granularity == QG_CHANNEL_SCALE)
        return qg_fail(QG_EARG, "%s: requires scales per channel", scheme->name);
    if (!scheme->apply && !scheme->form && !qg__quant_is_activation(q))
        return qg_fail(QG_EARG, "%s: the scheme has no form, activation or apply", scheme->name);
    if (scheme->form && !scheme->constants)
        return qg_fail(QG_EARG, "%s: a form needs constants", scheme->name);
    if (q.bits < 1 || q.bits > 32) return qg_fail(QG_EARG, "%s: bits is %d, not 1 .. 32", scheme->name, q.bits);
    if (qg__surrogate_check(q.surrogate)) return qg_fail(QG_EARG, "%s: %s", scheme->name, qg_errmsg());
    if (q.surrogate.whole && scheme->mix)
        return qg_fail(QG_EARG, "%s: its gradient is more than that of a surrogate, which must be a slope here", scheme->name);
    return scheme->form && !scheme->apply ? check_form(q) : QG_OK;
}

/* --- use ------------------------------------------------------------------------------------ */

/* x before its quantizer, which then passes dy through: what it learns has its gradients from x and dy as before. */
typedef struct whole {
    qg_surrogate s;
    qg_split     channels;
} whole;

static void whole_backward(qg_tape *t, qg_var *y)
{
    const whole *k = y->saved;
    qg_var      *x = y->in[0];
    if (x->grad) k->s.whole(k->s.arg, k->channels, x->data, y->grad, x->grad);
}

static const qg_op whole_op = { .name = "surrogate", .backward = whole_backward };

static qg_var *record_whole(qg_tape *t, qg_quant q, qg_var *x)
{
    if (qg__slices_of(x).shared)
        return qg_reject(t, QG_EARG, "%s: its surrogate needs the whole batch, which ranks share", q.scheme->name);
    qg_var *y = qg__record_view(t, &whole_op, x);
    whole  *k = y ? qg_save(t, y, sizeof *k) : NULL;
    if (!k) return NULL;
    k->s          = qg__surrogate_at(q.surrogate, qg_tape_step(t));
    q.per_channel = true;
    k->channels   = qg__spans(q, x->shape);
    return y;
}

qg_quant qg__quant_in(qg_quant q, qg_role role)
{
    const bool open = q.scheme && q.role == 0 && role == QG_WEIGHT;
    q.role          = role;
    return open && q.scheme->complete ? q.scheme->complete(q) : q;
}

qg_status qg_bind(qg_quant q, qg_role role, qg_shape x, qg_binding *b)
{
    q  = qg__quant_in(q, role);
    *b = (qg_binding){ .q       = q,
                       .numbers = role == QG_WEIGHT ? qg_count(x) : qg_row(x),
                       .inputs  = (size_t)x.c };
    return qg__quant_check(q);
}

/* Whether each learned value has the shape that x needs: qg_apply may get an x that its layer was not declared for. */
static bool fits(qg_tape *t, qg_quant q, const qg_var *x, qg_var *const *learned)
{
    for (int i = 0; i < qg_learned_count(q); i++) {
        const qg_learned *entry = &q.scheme->learned[i];
        if (!learned || !learned[i]) {
            qg_reject(t, QG_EARG, "%s: learns %s, which is missing", q.scheme->name, entry->name);
            return false;
        }
        const qg_shape is = learned[i]->shape, want = qg_learned_shape(q, entry, x->shape, q.role);
        if (qg_shape_equal(is, want)) continue;
        qg_reject(t, QG_ESHAPE, "%s: %s is " QG_SHAPE_FMT ", for x " QG_SHAPE_FMT " it must be " QG_SHAPE_FMT,
                  q.scheme->name, entry->name, QG_SHAPE_ARGS(is), QG_SHAPE_ARGS(x->shape), QG_SHAPE_ARGS(want));
        return false;
    }
    return true;
}

bool qg__quant_is_unset(qg_quant q, qg_shape x, float *const *learned)
{
    const int count = qg_learned_count(q);
    for (int i = 0; i < count; i++) {
        const size_t n = qg_count(qg_learned_shape(q, &q.scheme->learned[i], x, q.role));
        for (size_t k = 0; k < n; k++)
            if (learned[i][k] != 0) return false;
    }
    return count && qg__scheme_hooks(q.scheme).start;
}

/* A hook may change its tensor.  false: the tape has failed. */
static bool start(qg_tape *t, qg_quant q, const qg_var *x, qg_var *const *learned)
{
    float       *value[QG_MAX_LEARNED] = { 0 }, *weight = NULL;
    const size_t bytes = qg_count(x->shape) * sizeof *x->data;
    for (int i = 0; i < qg_learned_count(q); i++) value[i] = learned[i]->data;
    if (!qg__quant_is_unset(q, x->shape, value)) return true;
    if (q.role == QG_WEIGHT && !(weight = qg_scratch(t, bytes))) return false;
    if (weight) memcpy(weight, x->data, bytes);
    qg__scheme_hooks(q.scheme).start(q, (qg_tensor){ x->shape, weight }, value);
    return true;
}

static qg_var *quantize(qg_tape *t, const qg_binding *b, qg_var *x, qg_var *const *learned)
{
    const qg_scheme *scheme = b->q.scheme;
    if (qg_tape_mode(t) == QG_TRAIN && qg__quant_observes(b, t, learned) && !observe(t, b->q, x, learned)) return NULL;
    if (qg__quant_is_delayed(b->q, qg_tape_step(t))) return qg__quant_bypass(t, b->q, x);
    if (b->q.surrogate.whole && !(x = record_whole(t, b->q, x))) return NULL;
    return scheme->apply ? scheme->apply(t, b, x, learned) : qg__form_apply(t, b, x, learned);
}

qg_var *qg_quantize(qg_tape *t, qg_quant q, qg_var *x, qg_var *const *learned)
{
    if (!t || !x) return NULL;
    if (!q.scheme) return x;
    qg_binding      b;
    const qg_status s = qg_bind(q, qg__quant_role(q), x->shape, &b);
    if (s) return qg_reject(t, s, "%s", qg_errmsg());
    if (!fits(t, b.q, x, learned)) return NULL;
    if (qg_tape_mode(t) == QG_TRAIN && !start(t, b.q, x, learned)) return NULL;
    return quantize(t, &b, x, learned);
}

qg_var *qg_quantize_bound(qg_tape *t, const qg_binding *b, qg_var *x, qg_var *const *learned)
{
    if (t && !b) return qg__reject_null(t, "binding");
    if (!t || !x || !b->q.scheme) return t ? x : NULL;
    return fits(t, b->q, x, learned) ? quantize(t, b, x, learned) : NULL;
}

bool qg_has_codes(qg_quant q) { return q.scheme && (q.scheme->form || q.scheme->encode); }

qg_code_set qg__code_set_of(qg_quant q)
{
    const qg_scheme *scheme = q.scheme;
    if (!qg_has_codes(q) || q.bits == QG_FLOAT_BITS) return (qg_code_set){ 0 };
    if (scheme->codes) return scheme->codes(q);
    return scheme->form && scheme->form->set ? qg__form_set(q) : (qg_code_set){ 0 };
}

bool qg__takes_signs(qg_quant q)
{
    return q.scheme && q.scheme->rectifies && q.bits == 1 && qg__code_set_of(q).lowest < 0;
}

qg_status qg_encode(qg_quant q, qg_tensor x, const float *const *learned, qg_codes *out)
{
    q.role = qg__quant_role(q);
    if (q.per_channel && q.role != QG_WEIGHT)
        return qg_fail(QG_EARG, "%s: codes of an input have one scale, not one per channel", q.scheme->name);
    out->set = qg__code_set_of(q);
    return q.scheme->encode ? q.scheme->encode(q, x, learned, out) : qg__form_encode(q, x, learned, out);
}

void qg_surrogate_backward(qg_tape *t, qg_var *y)
{
    const qg_surrogate *s = y->saved;
    qg_var             *x = y->in[0];
    if (x->grad) qg__surrogate_slope(*s, qg_count(x->shape), x->data, y->grad, x->grad);
}

qg_var *qg_record_surrogate(qg_tape *t, const qg_op *op, qg_var *x, qg_surrogate s)
{
    qg_var *y = qg_record(t, op, x->shape, x, NULL, NULL);
    if (!y) return NULL;
    s = qg__surrogate_or(s, qg_surrogate_identity());
    if (s.slope == qg_surrogate_identity().slope) qg_share_gradient(y);
    qg_surrogate *kept = qg_save(t, y, sizeof *kept);
    if (!kept) return NULL;
    *kept = s;
    return y;
}

/* Elements of a buffer for gradients that fits the first-level cache together with x and dy. */
enum { RUN = 2048 };

/* --- an activation as an op ---------------------------------------------------------------- */

typedef struct elementwise {
    const qg_activation *f;
    qg_var              *y;
    qg__slices           at;        /* of images, whose gradients are summed slice by slice */
    double              *dk;        /* [blocks or QG_SLICES][3] */
} elementwise;

static void forward_block(void *context, size_t at, size_t n)
{
    const elementwise *e = context;
    e->f->forward(e->f, n, e->y->in[0]->data + at, e->y->data + at);
}

/* n <= QG_BLOCK */
static void backward_part(const elementwise *e, size_t at, size_t n, double *dk)
{
    qg_var *x = e->y->in[0];
    float   run[RUN];
    for (size_t i = at; i < at + n; i += RUN) {
        const size_t m = qg__smaller(at + n - i, RUN);
        float       *dx = x->grad && x->fresh ? x->grad + i : run;
        e->f->backward(e->f, m, x->data + i, e->y->grad + i, dx, dk);
        for (size_t k = 0; x->grad && dx == run && k < m; k++) x->grad[i + k] += run[k];
    }
}

static void backward_block(void *context, size_t at, size_t n)
{
    const elementwise *e = context;
    backward_part(e, at, n, e->f->n_learned ? e->dk + 3 * (at / QG_BLOCK) : NULL);
}

static void backward_slice(void *context, int piece, int worker)
{
    const elementwise *e   = context;
    const int          s   = e->at.from + piece;
    const size_t       row = qg_row(e->y->shape), end = (size_t)qg__slice_first(e->at, s + 1) * row;
    for (size_t at = (size_t)qg__slice_first(e->at, s) * row; at < end; at += QG_BLOCK) {
        double part[3] = { 0 };
        backward_part(e, at, qg__smaller(end - at, QG_BLOCK), part);
        for (int j = 0; j < 3; j++) e->dk[3 * s + j] += part[j];
    }
}

/* Sums over the images of a batch have the order of its slices (core/slices.h). */
void qg_activation_op_backward(qg_tape *t, qg_var *y)
{
    const qg_activation *f = y->saved;
    const bool           sliced = y->batch && f->n_learned;
    const size_t         all = qg_count(y->shape), n = sliced ? QG_SLICES : (size_t)qg_blocks(all);
    elementwise          e = { .f = f, .y = y, .at = qg__slices_of(y), .dk = qg_scratch(t, 3 * n * sizeof(double)) };
    if (!e.dk) return;
    memset(e.dk, 0, 3 * n * sizeof *e.dk);
    if (sliced) qg_parallel(e.at.to - e.at.from, backward_slice, &e);
    else qg__in_blocks(all, QG_BLOCK, backward_block, &e);
    if (sliced && !qg__slices_gather(t, e.at, e.dk, 3 * sizeof *e.dk)) return;
    for (int j = 0; j < f->n_learned; j++) {
        double sum = 0;
        for (size_t b = 0; b < n; b++) sum += e.dk[3 * b + (size_t)j];
        qg__norm_learn(f->learned[j], &(float){ qg__activation_gradient(f, j, sum) });
    }
}

qg_var *qg__record_activation(qg_tape *t, const qg_op *op, qg_var *x, qg_activation f)
{
    qg_var *y = qg_record(t, op, x->shape, x, f.learned[0], f.learned[1]);
    if (!y || !qg_add_operand(y, 3, f.learned[2])) return NULL;
    qg_activation *kept = qg_save(t, y, sizeof *kept);
    if (!kept) return NULL;
    *kept         = f;
    elementwise e = { .f = kept, .y = y };
    qg__in_blocks(qg_count(y->shape), QG_BLOCK, forward_block, &e);
    return y;
}

/* Mean and maximum of |x| over the span of number i. */
static double mean_abs(qg_quant q, size_t i, const qg_point *p, double *most)
{
    const qg_split c       = qg__spans(q, p->shape);
    const size_t   channel = i / c.inner % c.depth;
    double         sum = 0, n = 0;
    *most = 0;
    for (size_t k = 0; k < qg_count(p->shape); k++) {
        if (k / c.inner % c.depth != channel) continue;
        sum += fabs(p->x[k]);
        *most = fmax(*most, fabs(p->x[k]));
        n += 1;
    }
    return sum / n;
}

double qg__point_mean_abs(qg_quant q, size_t i, const qg_point *p) { return mean_abs(q, i, p, &(double){ 0 }); }

double qg__point_max_abs(qg_quant q, size_t i, const qg_point *p)
{
    double most;
    (void)mean_abs(q, i, p, &most);
    return most;
}

void qg__point_moments(size_t i, const qg_point *p, double moments[QG__MOMENTS])
{
    const size_t  n   = qg_row(p->shape);
    const double *row = p->x + i / n * n;
    double        sum = 0, distance = 0, squares = 0;
    for (size_t k = 0; k < n; k++) sum += row[k];
    const double mean = sum / (double)n;
    for (size_t k = 0; k < n; k++) {
        distance += fabs(row[k] - mean);
        squares += (row[k] - mean) * (row[k] - mean);
    }
    moments[QG__MEAN]     = mean;
    moments[QG__DISTANCE] = distance;
    moments[QG__SQUARES]  = squares;
}

void qg__stretch_to_unit(qg_tensor w)
{
    const size_t n    = qg_count(w.shape);
    const float  most = qg__max_abs(n, w.data);
    if (most == 0.0f) return;
    for (size_t i = 0; i < n; i++) w.data[i] /= most;
}

void qg__codes_from(size_t n, const float *y, float scale, int32_t *code)
{
    /* A value is code times scale up to roundings far below half a step.  Without branches, the loop vectorises. */
    const float step = scale == 0.0f ? INFINITY : scale;
    for (size_t i = 0; i < n; i++) {
        const float v = qg_clamp(qg_round_away(y[i] / step), -0x1p31f, 0x1.fffffep30f);     /* floats that are an int32_t */
        code[i]       = (int32_t)(isnan(v) ? 0.0f : v);
    }
}
