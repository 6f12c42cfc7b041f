/* The gradient of a quantizer beside the slope of the smooth function that its scheme states. */
#include "cli/gradcheck/gradcheck_quantizer.h"

#include <math.h>
#include <string.h>

/* The gradient of an end of a range is a sum of +-1.  Of some keys the terms cancel, and a gradient of 0 says nothing:
 * then the row fails, and needs another key. */
enum { KEY = 43, POINTS = 4093, FROM = -8, TO = 8 };

int quantizer_learned(qg_quant q)
{
    int n = 0;
    while (n < qg_learned_count(q) && !q.scheme->learned[n].tracked) n++;
    return n;
}

/* --- the surrogate ------------------------------------------------------------------------ */

/* The surrogate of every number by itself; {0}: the scheme has a function of its own, or states none. */
static qg_surrogate named_of(qg_quant q)
{
    const qg_scheme *scheme = q.scheme;
    if (scheme->mix) return (qg_surrogate){ 0 };
    if (q.surrogate.slope) return q.surrogate;
    if (scheme->surrogate) return (qg_surrogate){ 0 };
    if (scheme->own) return scheme->own(q);
    const bool passes = scheme->form && !scheme->own_slope && !scheme->apply;
    return passes ? qg_surrogate_identity() : (qg_surrogate){ 0 };
}

/* Whether dx of a number depends on no other number of the tensor. */
static bool is_elementwise(qg_quant q)
{
    const bool measured = q.scheme->measures_weights && q.role == QG_WEIGHT;
    return named_of(q).value || (q.scheme->activation && !measured);
}

/* The surrogate of number i. */
static double surrogate_value(const subject *k, size_t i, const qg_point *at, const qg_point *to)
{
    const qg_surrogate named = named_of(k->q);
    return named.value && !k->checked ? named.value(named.arg, to->x[i]) : k->q.scheme->surrogate(k->q, i, at, to);
}

/* --- the quantizer ------------------------------------------------------------------------ */

/* A range, a step or a scale within the values of the tensor, so that some are clipped; 1 for what is tracked, such as
 * whether a range has been seen. */
static float first_value(const char *name)
{
    static const struct {
        const char *name;
        float       value;
    } first[] = { { "min", -1 }, { "step", 0.5f }, { "wp", 0.7f }, { "wn", 1.2f }, { "b", 0.5f } };
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (!strcmp(name, first[i].name)) return first[i].value;
    return 1;
}

static qg_var *quantized(qg_tape *t, const subject *k, qg_var *x, qg_var *const *learned)
{
    qg_binding b;
    if (!k->numbers) return qg_quantize(t, k->q, x, learned);
    if (!x || qg_bind(k->q, k->q.role, x->shape, &b)) return x ? qg_reject(t, QG_EARG, "%s", qg_errmsg()) : NULL;
    b.numbers = k->numbers;
    return qg_quantize_bound(t, &b, x, learned);
}

/* --- number by number --------------------------------------------------------------------- */

/* Memory for what is learned, which the quantizer may update: for each of as many channels as there are numbers. */
typedef struct numbers {
    const subject *k;
    float          learned[QG_MAX_LEARNED][POINTS];
    float          x[POINTS];
} numbers;

static qg_var *numbers_build(qg_tape *t, qg_var *x, void *context)
{
    numbers *s                       = context;
    qg_var  *learned[QG_MAX_LEARNED] = { NULL };
    if (x) memcpy(s->x, x->data, sizeof s->x);
    for (int i = 0; x && i < qg_learned_count(s->k->q); i++) {
        const qg_learned *l = &s->k->q.scheme->learned[i];
        learned[i] = qg_input(t, (qg_tensor){ qg_learned_shape(s->k->q, l, x->shape, s->k->q.role), s->learned[i] });
    }
    return quantized(t, s->k, x, learned);
}

/* Of the numbers, one in each part of the interval, the one from which x was moved. */
static double nearest(const numbers *s, double x)
{
    const int part = (int)((x - FROM) / (TO - FROM) * POINTS);
    double    best = INFINITY;
    for (int i = part - 1; i <= part + 1; i++)
        if (i >= 0 && i < POINTS && fabs(x - (double)s->x[i]) < fabs(x - best)) best = (double)s->x[i];
    return best;
}

static double numbers_surrogate(double x, void *context)
{
    const numbers *s    = context;
    const double   from = nearest(s, x);
    qg_point       at   = { .shape = { 1, 1, 1, 1 }, .x = &from, .numbers = s->k->numbers }, to = at;
    to.x = &x;
    for (int i = 0; i < qg_learned_count(s->k->q); i++) at.learned[i] = to.learned[i] = (double)s->learned[i][0];
    return surrogate_value(s->k, 0, &at, &to);
}

static qg_status check_numbers(const subject *k, gradcheck_line *line)
{
    numbers s     = { .k = k };
    line->against = "slope";
    for (int i = 0; i < QG_MAX_LEARNED; i++)
        for (int j = 0; j < POINTS; j++) s.learned[i][j] = (float)k->learned[i];
    return qg_slopecheck((qg_slopecheck_spec){ .name      = k->name,
                                               .op        = numbers_build,
                                               .surrogate = numbers_surrogate,
                                               .context   = &s,
                                               .lo        = FROM,
                                               .hi        = TO,
                                               .points    = POINTS },
                         &line->result);
}

static qg_point point(const subject *k)
{
    qg_point p = { .shape = { TENSOR_ROWS, 1, 1, TENSOR_ROW }, .x = k->x, .numbers = k->numbers };
    memcpy(p.learned, k->learned, sizeof p.learned);
    return p;
}

/* --- as a whole tensor -------------------------------------------------------------------- */

static qg_var *tensor_build(qg_tape *t, const qg_params *p, void *context)
{
    qg_var *learned[QG_MAX_LEARNED] = { NULL };
    qg_var *x                       = qg_parameter(t, p->item[0]);
    for (int i = 1; i < p->count; i++) learned[i - 1] = qg_parameter(t, p->item[i]);
    return x ? quantized(t, context, x, learned) : NULL;
}

/* Only differences are taken of it, so it has no backward. */
static const qg_op surrogate_op = { .name = "surrogate" };

static qg_var *tensor_surrogate(qg_tape *t, const qg_params *p, void *context)
{
    const subject *k = context;
    qg_var        *x = qg_parameter(t, p->item[0]);
    qg_var        *y = x ? qg_record(t, &surrogate_op, x->shape, x, NULL, NULL) : NULL;
    double         moved[TENSOR_N];
    qg_point       at = point(k), to = at;
    if (!y) return NULL;
    to.x = moved;
    for (size_t i = 0; i < TENSOR_N; i++) moved[i] = (double)x->data[i];
    for (size_t i = 0; i < TENSOR_N; i++) {
        for (int l = 1; l < p->count; l++) {
            const bool   each    = p->item[l]->shape.c > 1;
            const size_t channel = k->q.role == QG_WEIGHT ? i / TENSOR_ROW : i % TENSOR_ROW;
            to.learned[l - 1]    = (double)p->item[l]->value[each ? channel : 0];
        }
        y->data[i] = (float)surrogate_value(k, i, &at, &to);
    }
    return y;
}

static qg_status declare(const subject *k, qg_params *p)
{
    const qg_shape shape = { TENSOR_ROWS, 1, 1, TENSOR_ROW };
    const qg_param x     = { .name = "x", .shape = shape, .frozen = k->checked != 0 };
    if (!qg_params_declare(p, x)) return QG_EMEM;
    for (int i = 0; i < qg_learned_count(k->q); i++) {
        const qg_learned *l    = &k->q.scheme->learned[i];
        const qg_param    item = { .name   = l->name,
                                   .shape  = qg_learned_shape(k->q, l, shape, k->q.role),
                                   .group  = l->tracked ? QG_TRACKED : QG_SCALES,
                                   .frozen = k->checked != i + 1 };
        if (!qg_params_declare(p, item)) return QG_EMEM;
    }
    return qg_params_allocate(p);
}

/* Whether the surrogate of number i has a kink within the margin of x[i]: there its two differences have little in
 * common. */
static bool bends(const subject *k, size_t i)
{
    const double   margin = 0.2;
    double         moved[TENSOR_N], s[3];
    const qg_point at = point(k);
    qg_point       to = at;
    memcpy(moved, k->x, sizeof moved);
    to.x = moved;
    for (int side = 0; side < 3; side++) {
        moved[i] = k->x[i] + (side - 1) * margin;
        s[side]  = surrogate_value(k, i, &at, &to);
    }
    return fabs(s[2] - 2 * s[1] + s[0]) > 0.25 * fabs(s[2] - s[0]);
}

/* x keeps away from the kinks, by the shortest way in steps of 1/8. */
static void fill(subject *k, qg_params *p)
{
    float *x = p->item[0]->value;
    gradcheck_fill(x, TENSOR_N, 0, 2, KEY);
    for (size_t i = 0; i < TENSOR_N; i++) k->x[i] = (double)x[i];
    for (size_t i = 0; i < TENSOR_N; i++)
        for (int step = 1; step < 8 && bends(k, i); step++) k->x[i] += (step % 2 ? 0.125 : -0.125) * step;
    for (size_t i = 0; i < TENSOR_N; i++) x[i] = (float)k->x[i];
    for (size_t i = 0; i < TENSOR_N; i++) k->x[i] = (double)x[i];
    for (int i = 1; i < p->count; i++)
        for (size_t j = 0; j < qg_count(p->item[i]->shape); j++) p->item[i]->value[j] = (float)k->learned[i - 1];
}

static qg_status check_tensor(subject *k, gradcheck_line *line)
{
    /* The gradient of LSQ's step is scaled by 1e-3 at 16 bits: it moves further, to be seen in floats. */
    qg_params  p     = { 0 };
    qg_status  s     = declare(k, &p);
    const bool fine  = k->checked && k->q.bits == 16, coded = fine && k->against_loss;
    line->against = k->against_loss ? "loss" : "surrogate";
    if (!s) {
        fill(k, &p);
        s = qg_gradcheck((qg_gradcheck_spec){ .name      = k->name,
                                              .params    = &p,
                                              .build     = tensor_build,
                                              .surrogate = k->against_loss ? NULL : tensor_surrogate,
                                              .context   = k,
                                              .key       = KEY,
                                              .h         = fine && k->q.scheme->form == &qg_lsq_form ? 1 : 0,
                                              .tolerance = coded ? 0.02f : 0,
                                              .reason    = coded ? "a code of 16 bits is 3e-5, and values jump by that "
                                                                   "much while an end moves 1/64"
                                                                 : NULL },
                         &line->result);
    }
    qg_params_release(&p);
    return s;
}

qg_status quantizer_check(subject *k, gradcheck_line *line)
{
    *line = (gradcheck_line){ .name = k->name, .why = k->why };
    line->unstated = !k->q.scheme->surrogate && (k->checked || !named_of(k->q).value);
    if (line->unstated) return QG_OK;
    for (int i = 0; i < qg_learned_count(k->q); i++) k->learned[i] = first_value(k->q.scheme->learned[i].name);
    const bool apart = !k->checked && !k->against_loss && is_elementwise(k->q);
    const qg_status s     = apart ? check_numbers(k, line) : check_tensor(k, line);
    char           *worst = line->result.worst;
    if (k->q.role == QG_WEIGHT && !strcmp(worst, "x")) strcpy(worst, "w");      /* as rows call it */
    return s;
}
