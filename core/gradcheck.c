#include "core/gradcheck.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/rng.h"
#include "core/walk.h"

/* A step of 1/64 in float32.  The four evaluations of L round each y to 6e-8 of its size, about
 * 1e-5 of the difference once divided by h; what the two step sizes leave of the curvature is of
 * order h^4 = 6e-8.  Sums of a few hundred terms lose another digit, so an honest gradient stays
 * near 1e-4, and a lost term, factor or element of a small tensor costs more than 1e-2. */
static const float       STEP = 1.0f / 64, TOLERANCE = 1e-3f;
static const char *const REASON = "float32 rounding of the forward pass over a step of 1/64";

/* Differences of s in double are good to 1e-9; the op's own slope is float32. */
static const double      SLOPE_STEP = 0x1p-20;
static const float       SLOPE_TOLERANCE = 1e-5f;
static const char *const SLOPE_REASON = "float32 rounding of a slope of a few operations";

enum { DIRECTIONS = 6, POINTS = 1021 };
enum { STREAM_WEIGHTS = 1, STREAM_DIRECTIONS, STREAM_POINTS };

/* --- the weighted sum --------------------------------------------------------------------- */

typedef struct weighting {
    uint64_t key;
    bool     even;          /* r = +-1; else 1/2..3/2 */
} weighting;

static float weight(const weighting *s, size_t i)
{
    if (!s->even) return 0.5f + qg_uniform(s->key, i);
    return qg_bits(s->key, i) & 1 ? 1.0f : -1.0f;
}

static void weigh_backward(qg_tape *t, qg_var *y)
{
    qg_var *x = y->in[0];
    for (size_t i = 0, m = qg_count(x->shape); i < m; i++)
        x->grad[i] += y->grad[0] * weight(y->saved, i);
}

static const qg_op weigh = { .name = "gradcheck", .backward = weigh_backward };

/* L in double; *loss is the same on the tape, in float. */
static double weighted_sum(qg_tape *t, qg_var *x, weighting s, qg_var **loss)
{
    *loss = x ? qg_record(t, &weigh, (qg_shape){ 1, 1, 1, 1 }, x, NULL, NULL) : NULL;
    if (!*loss) return 0;
    weighting *saved = qg_save(t, *loss, sizeof *saved);
    if (!saved) return 0;
    *saved     = s;
    double sum = 0;
    for (size_t i = 0, m = qg_count(x->shape); i < m; i++)
        sum += (double)weight(saved, i) * (double)x->data[i];
    (*loss)->data[0] = (float)sum;
    return sum;
}

/* --- central differences ------------------------------------------------------------------ */

typedef struct check {
    qg_gradcheck_spec spec;
    qg_tape          *tape;
    qg_arena          arena;
    float            *value, *tracked;      /* as they were */
    float            *grad;                 /* dL/dp of all parameters */
    double            length;               /* of it */
} check;

static bool is_checked(const qg_param *p) { return p->grad && !p->frozen; }

typedef qg_var *(*builder)(qg_tape *t, const qg_params *p, void *context);

static qg_status evaluate(check *c, builder build, qg_var **loss, double *sum)
{
    const weighting s = { qg_rng_fork(c->spec.key, STREAM_WEIGHTS), true };
    memcpy(c->spec.params->tracked, c->tracked, c->spec.params->tracked_length * sizeof *c->tracked);
    qg_tape_begin(c->tape, QG_TRAIN, c->spec.key, 0);
    *sum = weighted_sum(c->tape, build(c->tape, c->spec.params, c->spec.context), s, loss);
    /* qg_backward reports the first failure of a step, and then does nothing else. */
    if (qg_tape_status(c->tape)) return qg_backward(c->tape, NULL);
    return *loss ? QG_OK : qg_fail(QG_EARG, "gradcheck %s: build returned NULL", c->spec.name);
}

/* dL/dp . d by differences at distance h, in the direction that key draws.  The values are floats, so they move by
 * h d only to within rounding; *moved is the gradient along the actual step. */
static qg_status difference(check *c, const qg_param *p, uint64_t key, float h, double *slope,
                            double *moved)
{
    const size_t m    = qg_count(p->shape);
    const float *from = c->value + p->offset;
    double       sum[2];
    *moved = 0;
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < m; i++)
            p->value[i] = from[i] + ((qg_bits(key, i) & 1) == (uint64_t)side ? h : -h);
        for (size_t i = 0; i < m; i++)
            *moved += (side ? -1.0 : 1.0) * (double)c->grad[p->offset + i] * (double)p->value[i];
        qg_var         *loss;
        const builder   f = c->spec.surrogate ? c->spec.surrogate : c->spec.build;
        const qg_status s = evaluate(c, f, &loss, &sum[side]);
        memcpy(p->value, from, m * sizeof *from);
        if (s) return s;
    }
    *slope = (sum[0] - sum[1]) / (2.0 * (double)h);
    *moved /= 2.0 * (double)h;
    return QG_OK;
}

static double length(const float *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)v[i] * (double)v[i];
    return sqrt(sum);
}

static qg_status check_parameter(check *c, const qg_param *p, uint64_t key, qg_gradcheck_result *r)
{
    const double own   = length(c->grad + p->offset, qg_count(p->shape));
    if (!(own >= r->least)) r->least = own;
    const double whole = c->length / 1024;
    for (int d = 0; d < c->spec.directions; d++) {
        const uint64_t direction = qg_rng_fork(key, (uint64_t)d);
        double         near, far, along, unused;
        qg_status      s = difference(c, p, direction, c->spec.h, &near, &along);
        if (!s) s = difference(c, p, direction, 2 * c->spec.h, &far, &unused);
        if (s) return s;
        const double slope = (4 * near - far) / 3, off = fabs(slope - along);
        const double size  = fmax(fmax(own, fabs(slope)), whole);
        const double error = off == 0 ? 0 : off / size;
        if (!r->worst[0] || !(error <= r->error)) {
            r->error = error;
            snprintf(r->worst, sizeof r->worst, "%s", p->name);
        }
        if (isnan(error)) return QG_OK;
    }
    return QG_OK;
}

/* Fills what the next step of the tape will use with NaN. */
static qg_status spoil(check *c)
{
    enum { PIECE = 4096 };
    float one = 1;
    qg_tape_begin(c->tape, QG_TRAIN, 0, 0);
    qg_var *x = qg_input(c->tape, (qg_tensor){ { 1, 1, 1, 1 }, &one });
    qg_var *y = x ? qg_record(c->tape, &weigh, x->shape, x, NULL, NULL) : NULL;
    for (size_t at = 0, end = qg__tape_peak(c->tape); y && at < end; at += PIECE) {
        void *piece = qg_save(c->tape, y, PIECE);
        if (!piece) break;
        memset(piece, 0xFF, PIECE);
    }
    return qg_tape_status(c->tape);
}

/* Twice: the first pass shows how much memory to fill with NaN before the second, so that an op that adds to a
 * gradient it declared to assign, or leaves out a part of it, does not find zeros there. */
static qg_status differentiate(check *c)
{
    qg_params *p = c->spec.params;
    for (int pass = 0; pass < 2; pass++) {
        qg_var   *loss;
        double    sum;
        qg_status s = pass ? spoil(c) : QG_OK;
        memset(p->grad, 0, p->length * sizeof *p->grad);
        if (!s) s = evaluate(c, c->spec.build, &loss, &sum);
        if (!s) s = qg_backward(c->tape, loss);
        if (s) return s;
    }
    memcpy(c->grad, p->grad, p->length * sizeof *p->grad);
    c->length = length(c->grad, p->length);
    return QG_OK;
}

static qg_status check_all(check *c, qg_gradcheck_result *r)
{
    qg_params *p = c->spec.params;
    qg_status  s = differentiate(c);
    if (s) return s;
    for (int i = 0; i < p->count && !isnan(r->error); i++) {
        if (!is_checked(p->item[i])) continue;
        const uint64_t key = qg_rng_fork(qg_rng_fork(c->spec.key, STREAM_DIRECTIONS), (uint64_t)i);
        s                  = check_parameter(c, p->item[i], key, r);
        if (s) return s;
    }
    return QG_OK;
}

static qg_status check_spec(const qg_gradcheck_spec *spec)
{
    if (!spec->name || !spec->params || !spec->build)
        return qg_fail(QG_EARG, "gradcheck %s: name, params and build are required",
                       spec->name ? spec->name : "?");
    if (!(spec->h >= 0) || !(spec->tolerance >= 0) || spec->directions < 0)
        return qg_fail(QG_EARG, "gradcheck %s: h %g, tolerance %g, directions %d: one is negative",
                       spec->name, (double)spec->h, (double)spec->tolerance, spec->directions);
    if (!spec->params->value)
        return qg_fail(QG_ESTATE, "gradcheck %s: the parameters are not allocated", spec->name);
    for (int i = 0; i < spec->params->count; i++)
        if (is_checked(spec->params->item[i])) return QG_OK;
    return qg_fail(QG_ESTATE, "gradcheck %s: no parameter is trained", spec->name);
}

qg_status qg_gradcheck(qg_gradcheck_spec spec, qg_gradcheck_result *result)
{
    if (!result) return qg_fail(QG_EARG, "gradcheck: result is NULL");
    qg_status s = check_spec(&spec);
    if (s) return s;
    if (spec.h == 0) spec.h = STEP;
    if (spec.tolerance == 0) spec.tolerance = TOLERANCE;
    if (spec.directions == 0) spec.directions = DIRECTIONS;
    qg_gradcheck_result r = { .name = spec.name, .tolerance = (double)spec.tolerance,
                              .reason = spec.reason ? spec.reason : REASON, .least = INFINITY };
    qg_params    *p       = spec.params;
    const size_t  floats  = p->length + p->tracked_length;
    check         c       = { .spec = spec, .tape = qg_tape_new() };
    c.value = c.tape ? qg__arena_take(&c.arena, (floats + p->length) * sizeof(float)) : NULL;
    if (!c.value) {
        s = QG_EMEM;
        goto done;
    }
    c.tracked = c.value + p->length;
    c.grad    = c.value + floats;
    memcpy(c.value, p->value, p->length * sizeof(float));
    memcpy(c.tracked, p->tracked, p->tracked_length * sizeof(float));
    s = check_all(&c, &r);
    memcpy(p->value, c.value, p->length * sizeof(float));
    memcpy(p->tracked, c.tracked, p->tracked_length * sizeof(float));
    memset(p->grad, 0, p->length * sizeof(float));
    r.pass = r.error <= r.tolerance;
    if (!s) *result = r;
done:
    qg__arena_release(&c.arena);
    qg_tape_free(c.tape);
    return s;
}

/* --- surrogates --------------------------------------------------------------------------- */

static qg_status slopes(const qg_slopecheck_spec *spec, const qg_param *x, qg_tape *t,
                        qg_gradcheck_result *r)
{
    const size_t    m    = qg_count(x->shape);
    const uint64_t  key  = qg_rng_fork(spec->key, STREAM_POINTS);
    const double    part = ((double)spec->hi - (double)spec->lo) / (double)m;
    const weighting s    = { qg_rng_fork(spec->key, STREAM_WEIGHTS), false };
    for (size_t i = 0; i < m; i++)
        x->value[i] = (float)((double)spec->lo + part * ((double)i + (double)qg_uniform(key, i)));
    qg_tape_begin(t, QG_TRAIN, spec->key, 0);
    qg_var *y = spec->op(t, qg_parameter(t, x), spec->context), *loss;
    if (y && !qg_shape_equal(y->shape, x->shape))
        return qg_fail(QG_ESHAPE, "slopecheck %s: x " QG_SHAPE_FMT " became " QG_SHAPE_FMT,
                       spec->name, QG_SHAPE_ARGS(x->shape), QG_SHAPE_ARGS(y->shape));
    if (!y && !qg_tape_status(t))
        return qg_fail(QG_EARG, "slopecheck %s: op returned NULL", spec->name);
    weighted_sum(t, y, s, &loss);
    const qg_status failed = qg_backward(t, loss);
    if (failed) return failed;
    double largest = 1, off = 0;
    for (size_t i = 0; i < m; i++) {
        const double at    = (double)x->value[i];
        const double rise  = spec->surrogate(at + SLOPE_STEP, spec->context) -
                             spec->surrogate(at - SLOPE_STEP, spec->context);
        const double slope = (double)weight(&s, i) * rise / (2 * SLOPE_STEP);
        const double gap   = fabs((double)x->grad[i] - slope);
        largest            = fmax(largest, fabs(slope));
        if (!(gap <= off)) off = gap;
        if (isnan(gap)) break;
    }
    r->error = off / largest;
    r->least = length(x->grad, m);
    snprintf(r->worst, sizeof r->worst, "%s", x->name);
    return QG_OK;
}

qg_status qg_slopecheck(qg_slopecheck_spec spec, qg_gradcheck_result *result)
{
    if (!result) return qg_fail(QG_EARG, "slopecheck: result is NULL");
    if (!spec.name || !spec.op || !spec.surrogate)
        return qg_fail(QG_EARG, "slopecheck %s: name, op and surrogate are required",
                       spec.name ? spec.name : "?");
    if (!(spec.lo < spec.hi) || !isfinite(spec.lo) || !isfinite(spec.hi))
        return qg_fail(QG_EARG, "slopecheck %s: lo %g is not below hi %g, or not finite", spec.name,
                       (double)spec.lo, (double)spec.hi);
    if (spec.points < 0 || !(spec.tolerance >= 0))
        return qg_fail(QG_EARG, "slopecheck %s: points %d, tolerance %g: one is negative",
                       spec.name, spec.points, (double)spec.tolerance);
    if (spec.points == 0) spec.points = POINTS;
    if (spec.tolerance == 0) spec.tolerance = SLOPE_TOLERANCE;
    qg_gradcheck_result r = { .name = spec.name, .tolerance = (double)spec.tolerance,
                              .reason = spec.reason ? spec.reason : SLOPE_REASON };
    qg_params p    = { 0 };
    qg_tape  *tape = qg_tape_new();
    qg_param *x    = qg_params_declare(&p, (qg_param){ .name  = "x",
                                                       .shape = { 1, 1, 1, spec.points } });
    qg_status s    = tape && x ? qg_params_allocate(&p) : QG_EMEM;
    if (!s) s = slopes(&spec, x, tape, &r);
    r.pass = r.error <= r.tolerance;
    if (!s) *result = r;
    qg_params_release(&p);
    qg_tape_free(tape);
    return s;
}
