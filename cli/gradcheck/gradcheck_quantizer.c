#include "cli/gradcheck/gradcheck_quantizer.h"

#include <math.h>
#include <string.h>

/* The gradient of an end of a range is a sum of +-1.  Of some keys the terms cancel, and a gradient of 0 says nothing:
 * then the row fails, and needs another key. */
enum { KEY = 43, POINTS = 4093 };

int quantizer_learned(qg_quant q)
{
    int n = 0;
    while (n < qg_learned_count(q) && !q.scheme->learned[n].tracked) n++;
    return n;
}

/* A range, a step or a scale within the values of the tensor, so that some are clipped; 1 for what is tracked, such as
 * whether a range has been seen. */
static float first_value(const char *name)
{
    static const struct {
        const char *name;
        float       value;
    } first[] = { { "min", -1 }, { "step", 0.5f }, { "wp", 0.7f }, { "wn", 1.2f } };
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (!strcmp(name, first[i].name)) return first[i].value;
    return 1;
}

static qg_var *quantized(qg_tape *t, const subject *k, qg_var *x, qg_var *const *learned)
{
    return k->plain ? plain_apply(t, k->plain, x, learned) : qg_quantize(t, k->q, x, learned);
}

/* --- number by number --------------------------------------------------------------------- */

/* Memory for what is learned, which the quantizer may update: for each of as many channels as there are numbers. */
typedef struct numbers {
    const subject *k;
    float          learned[QG_MAX_LEARNED][POINTS];
} numbers;

static qg_var *numbers_build(qg_tape *t, qg_var *x, void *context)
{
    numbers *s                       = context;
    qg_var *learned[QG_MAX_LEARNED] = { NULL };
    for (int i = 0; x && i < qg_learned_count(s->k->q); i++) {
        const qg_learned *l = &s->k->q.scheme->learned[i];
        learned[i] = qg_input(t, (qg_tensor){ qg_learned_shape(s->k->q, l, x->shape, s->k->q.role), s->learned[i] });
    }
    return quantized(t, s->k, x, learned);
}

static double numbers_surrogate(double x, void *context)
{
    const numbers *s                       = context;
    float         learned[QG_MAX_LEARNED] = { 0 };
    for (int i = 0; i < qg_learned_count(s->k->q); i++) learned[i] = s->learned[i][0];
    return surrogate_of_number(s->k->q, x, learned);
}

static qg_status check_numbers(const subject *k, gradcheck_line *line)
{
    numbers s     = { .k = k };
    line->against = "slope";
    for (int i = 0; i < QG_MAX_LEARNED; i++)
        for (int j = 0; j < POINTS; j++) s.learned[i][j] = k->learned[i];
    return qg_slopecheck((qg_slopecheck_spec){ .name      = k->name,
                                               .op        = numbers_build,
                                               .surrogate = numbers_surrogate,
                                               .context   = &s,
                                               .lo        = -8,
                                               .hi        = 8,
                                               .points    = POINTS },
                         &line->result);
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
    if (!y) return NULL;
    for (size_t i = 0; i < TENSOR_N; i++) {
        float learned[QG_MAX_LEARNED] = { 0 };
        for (int l = 1; l < p->count; l++) {
            const bool   each = p->item[l]->shape.c > 1;
            const size_t at   = k->q.role == QG_WEIGHT ? i / TENSOR_ROW : i % TENSOR_ROW;
            learned[l - 1]    = p->item[l]->value[each ? at : 0];
        }
        y->data[i] = (float)surrogate_in_tensor(k, i, x->data, learned);
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

/* x keeps away from the kinks. */
static void fill(subject *k, qg_params *p)
{
    const double margin = 0.2;
    double       kink[2];
    gradcheck_fill(k->x, TENSOR_N, 0, 2, KEY);
    for (int i = 0; i < TENSOR_N && surrogate_kinks(k->q, k->learned, kink); i++)
        for (int e = 0; e < 2; e++) {
            const double off = (double)k->x[i] - kink[e];
            if (fabs(off) < margin && kink[e] != 0) k->x[i] = (float)(kink[e] + copysign(margin, off));
        }
    memcpy(p->item[0]->value, k->x, sizeof k->x);
    for (int i = 1; i < p->count; i++)
        for (size_t j = 0; j < qg_count(p->item[i]->shape); j++) p->item[i]->value[j] = k->learned[i - 1];
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
    for (int i = 0; i < qg_learned_count(k->q); i++) k->learned[i] = first_value(k->q.scheme->learned[i].name);
    const bool apart = !k->checked && !k->plain && !k->against_loss && is_elementwise(k->q);
    return apart ? check_numbers(k, line) : check_tensor(k, line);
}
